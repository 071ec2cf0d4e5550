//! `grep`: finds lines by a regular expression.
//!
//! Owns its arguments and the wording of what was found; `search` looks. The pattern is never part of a command line, so
//! nothing in it can be an option. Refuses patterns that would take too much memory; none takes more than linear time.

use std::sync::Arc;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use ignore::types::{Types, TypesBuilder};
use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Outcome, Trace};
use longhaul_workspace::Kind;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{invalid, parse, schema};
use crate::glob::shown_max;
use crate::limits;
use crate::output;
use crate::patience::Patience;
use crate::pattern::Pattern;
use crate::really;
use crate::search::{Query, Search, Total, Wanted};
use crate::tool::{BoxFuture, Context, Tool, ToolSpec, blocking, refused};
use crate::walk::{Scope, shown, walk};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Regular expression, in Rust's syntax. Matched line by line.
    pattern: String,
    /// File or directory to search, relative to the workspace. Default: all of it.
    path: Option<String>,
    /// Only files whose path matches, like `*.rs` or `src/**/*.py`; with `!` before it, only others.
    glob: Option<String>,
    /// Only files of this kind, as ripgrep names them: rust, py, js, ts, go, c, cpp, java, md, json, yaml…
    #[serde(rename = "type")]
    kind: Option<String>,
    /// What to show: `content` (lines), `files` (paths) or `count` (lines for each file). Default: content.
    #[serde(default)]
    mode: Mode,
    /// Lines to show around each one found, at most 50. Default: 0.
    #[serde(default)]
    context: usize,
    /// Ignore upper and lower case. Default: false.
    #[serde(default)]
    ignore_case: bool,
    /// Take the pattern as plain text. Default: false.
    #[serde(default)]
    literal: bool,
    /// Let the pattern match across lines, `.` included. Default: false.
    #[serde(default)]
    multiline: bool,
    /// Also files and directories that begin with a dot. Default: false.
    #[serde(default)]
    hidden: bool,
    /// Also what .gitignore names. Default: false.
    #[serde(default)]
    ignored: bool,
    /// How many lines (with mode files or count: files) to show, at most 10000. Default: 100.
    limit: Option<usize>,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Content,
    Files,
    Count,
}

pub struct Grep(ToolSpec);

impl Grep {
    pub fn new() -> Grep {
        Grep(ToolSpec {
            name: "grep".to_owned(),
            description:
                "Searches files for a regular expression, as ripgrep does: binary files and what .gitignore \
                          names are left out. Lines come with their numbers, below the path of their file."
                    .to_owned(),
            class: EffectClass::Repeatable,
            schema: schema::<Args>(),
        })
    }

    async fn find(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let args: Args = parse(args, &self.0.schema)?;
        let query = query(&args, context)?;
        let caller = context.clone();
        let (text, note) = blocking(move || find(&caller, &args, &query)).await??;
        Ok(Outcome::Done { output: output::bounded_text(context, &text, &note).await })
    }
}

impl Default for Grep {
    fn default() -> Grep {
        Grep::new()
    }
}

impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        _traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.find(context, args).await.unwrap_or_else(|outcome| outcome) })
    }
}

fn query(args: &Args, context: &Context) -> Result<Query, Outcome> {
    if args.context > limits::FOUND_CONTEXT_MAX {
        return Err(invalid(format!("`context` must be at most {}", limits::FOUND_CONTEXT_MAX)));
    }
    let root = context.workspace.root();
    let pattern = |text: &str| Pattern::parse("glob", text, root);
    let (include, exclude) = match args.glob.as_deref() {
        None => (None, None),
        Some(glob) => match glob.strip_prefix('!') {
            Some(unwanted) => (None, Some(pattern(unwanted)?)),
            None => (Some(pattern(glob)?), None),
        },
    };
    let wanted = match args.mode {
        Mode::Content => Wanted::Lines,
        Mode::Files => Wanted::Whether,
        Mode::Count => Wanted::HowMany,
    };
    Ok(Query {
        matcher: matcher(args)?,
        wanted,
        context: if wanted == Wanted::Lines { args.context } else { 0 },
        across_lines: args.multiline,
        include,
        exclude,
        types: args.kind.as_deref().map(types).transpose()?,
        rules: Arc::clone(&context.rules),
        room: shown_max(args.limit)?,
    })
}

fn matcher(args: &Args) -> Result<RegexMatcher, Outcome> {
    if args.pattern.is_empty() {
        return Err(invalid("`pattern` is empty; to list files, use glob"));
    }
    if args.pattern.len() > limits::PATTERN_BYTES_MAX {
        let max = limits::PATTERN_BYTES_MAX;
        return Err(invalid(format!("`pattern` has {} bytes; at most {max}", args.pattern.len())));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(args.ignore_case)
        .fixed_strings(args.literal)
        .multi_line(true)
        .size_limit(limits::REGEX_BYTES_MAX)
        .dot_matches_new_line(args.multiline);
    if !args.multiline {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&args.pattern).map_err(|error| {
        let text: String = error.to_string().chars().take(500).collect();
        let hint = if args.pattern.contains("\\n") || args.pattern.contains('\n') {
            "; to match across lines, set multiline"
        } else {
            "; to look for plain text, set literal"
        };
        invalid(format!("`pattern` cannot be used: {}{hint}", text.trim_end()))
    })
}

fn types(name: &str) -> Result<Types, Outcome> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults().select(name);
    builder.build().map_err(|_| {
        invalid(format!("`type` {name} is not known; use glob instead, like `*.{}`", name.trim_matches('.')))
    })
}

/// What was found, and what is to be said about it.
fn find(context: &Context, args: &Args, query: &Query) -> Result<(String, String), Outcome> {
    let asked = args.path.as_deref().unwrap_or(".");
    // What is searched is named as it really is, so that rules about its files hold for them.
    let real = really::permitted(context, "read", asked)?;
    let path = if real.as_os_str().is_empty() { "." } else { real.to_str().unwrap_or(asked) };
    let patience = Patience::new(context);
    let workspace = &context.workspace;
    let kind = workspace.metadata(path).map_err(|error| refused(&error))?.map(|metadata| metadata.kind);
    let search = if kind == Some(Kind::Directory) {
        let start = workspace.open_directory(path).map_err(|error| refused(&error))?;
        let scope = Scope { hidden: args.hidden || names_hidden(query), ignored: args.ignored };
        let (parts, missed) = walk(workspace, start, scope, patience, || Search::new(query, patience))?;
        let mut whole = Search::new(query, patience);
        whole.missed.merge(missed);
        parts.into_iter().for_each(|part| whole.merge(part));
        whole
    } else {
        let file = workspace.open_file(path).map_err(|error| refused(&error))?;
        let mut search = Search::new(query, patience);
        search.file(path.as_ref(), file)?;
        search
    };
    Ok(told(args, query, &search))
}

fn names_hidden(query: &Query) -> bool {
    query.include.as_ref().is_some_and(|include| include.names_hidden)
}

fn told(args: &Args, query: &Query, search: &Search<'_>) -> (String, String) {
    if search.total.files == 0 {
        return (nothing(args, search.total), search.missed.note());
    }
    let mut text = String::new();
    // The last file may have more lines than there is room for.
    let mut kept = 0;
    for (index, (path, hits)) in search.files.iter().enumerate() {
        let path = shown(path);
        match query.wanted {
            Wanted::Lines => {
                let (lines, count) = hits.first(query.room - kept);
                kept += count;
                let between = if index > 0 { "\n" } else { "" };
                text.push_str(&format!("{between}{path}\n{lines}"));
            }
            Wanted::Whether => text.push_str(&format!("{path}\n")),
            Wanted::HowMany => text.push_str(&format!("{path}:{}\n", hits.count)),
        }
    }
    let told = if query.wanted == Wanted::Lines { kept as u64 } else { search.files.len() as u64 };
    (text, rest(query.wanted, search.total, told) + &search.missed.note())
}

fn nothing(args: &Args, total: Total) -> String {
    let binary =
        if total.binary > 0 { format!(", {} binary ones left out", total.binary) } else { String::new() };
    format!("nothing matches `{}` ({} files searched{binary})\n", shortened(&args.pattern), total.searched)
}

fn shortened(pattern: &str) -> String {
    let short: String = pattern.chars().take(100).collect();
    if short.len() < pattern.len() { short + "…" } else { short }
}

fn rest(wanted: Wanted, total: Total, shown: u64) -> String {
    match wanted {
        Wanted::Lines if total.lines > shown => {
            let (rest, lines, files) = (total.lines - shown, total.lines, total.files);
            format!("[{rest} more; {lines} matching lines in {files} files in all]\n")
        }
        Wanted::Whether if total.files > shown => format!("[{} more files]\n", total.files - shown),
        Wanted::HowMany if total.files > shown => {
            format!("[{} more files; {} matching lines in all]\n", total.files - shown, total.lines)
        }
        Wanted::HowMany => format!("[{} matching lines in all]\n", total.lines),
        Wanted::Lines | Wanted::Whether => String::new(),
    }
}
