//! `glob`: finds files by the pattern of their path.
//!
//! Owns which of the matching files are shown, and the count of the rest. Refuses to look into files.

use std::collections::BinaryHeap;
use std::path::PathBuf;

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Outcome, Trace};
use longhaul_workspace::Error;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{invalid, parse, schema};
use crate::limits;
use crate::output;
use crate::patience::Patience;
use crate::pattern::Pattern;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec, blocking, refused};
use crate::walk::{Missed, Scope, Seen, Visitor, shown, walk};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Pattern of the path, relative to the workspace: `src/**/*.rs`. Without a slash, of the name, at any depth.
    pattern: String,
    /// Which files come first: `newest` or `path`. Default: newest.
    #[serde(default)]
    order: Order,
    /// Also files and directories that begin with a dot. Default: only if the pattern names one.
    #[serde(default)]
    hidden: bool,
    /// Also what .gitignore names. Default: false.
    #[serde(default)]
    ignored: bool,
    /// How many files to show, at most 10000. Default: 100.
    limit: Option<usize>,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    #[default]
    Newest,
    Path,
}

pub struct Glob(ToolSpec);

impl Glob {
    pub fn new() -> Glob {
        Glob(ToolSpec {
            name: "glob".to_owned(),
            description: "Finds files by a pattern of their path, one path for each line. What .gitignore names is left \
                          out. To search inside files, use grep."
                .to_owned(),
            class: EffectClass::Repeatable,
            schema: schema::<Args>(),
        })
    }

    async fn find(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let args: Args = parse(args, &self.0.schema)?;
        let room = shown_max(args.limit)?;
        let caller = context.clone();
        let (text, note) = blocking(move || find(&caller, &args, room)).await??;
        Ok(Outcome::Done { output: output::bounded_text(context, &text, &note).await })
    }
}

/// How many results are shown, from the argument `limit`.
pub(crate) fn shown_max(limit: Option<usize>) -> Result<usize, Outcome> {
    match limit {
        None => Ok(limits::RESULTS_DEFAULT),
        Some(limit) if (1..=limits::RESULTS_MAX).contains(&limit) => Ok(limit),
        Some(_) => Err(invalid(format!("`limit` must be from 1 to {}", limits::RESULTS_MAX))),
    }
}

impl Default for Glob {
    fn default() -> Glob {
        Glob::new()
    }
}

impl Tool for Glob {
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

/// The paths, and what is to be said about them.
fn find(context: &Context, args: &Args, room: usize) -> Result<(String, String), Outcome> {
    let pattern = Pattern::parse("pattern", &args.pattern, context.workspace.root())?;
    let start = if pattern.start.is_empty() { "." } else { &pattern.start };
    let start = match context.workspace.open_directory(start) {
        Ok(start) => start,
        Err(Error::Missing { .. } | Error::ParentNotDirectory { .. }) => {
            return Ok(nothing(args, &Missed::default()));
        }
        Err(error) => return Err(refused(&error)),
    };
    let scope = Scope { hidden: args.hidden || pattern.names_hidden, ignored: args.ignored };
    let make = || Names { pattern: &pattern, order: args.order, best: BinaryHeap::new(), room, total: 0 };
    let (found, missed) = walk(&context.workspace, start, scope, Patience::new(context), make)?;
    let total: u64 = found.iter().map(|names| names.total).sum();
    let mut best: Vec<(i128, PathBuf)> = found.into_iter().flat_map(|names| names.best).collect();
    best.sort_unstable();
    best.truncate(room);
    if best.is_empty() {
        return Ok(nothing(args, &missed));
    }
    let rest = total - best.len() as u64;
    let text = best.iter().map(|(_, path)| format!("{}\n", shown(path))).collect();
    let more =
        if rest > 0 { format!("[{rest} more; narrow the pattern or raise limit]\n") } else { String::new() };
    Ok((text, more + &missed.note()))
}

fn nothing(args: &Args, missed: &Missed) -> (String, String) {
    let hint = if args.ignored { "" } else { " (what .gitignore names was left out)" };
    (format!("no file matches `{}`{hint}\n", args.pattern), missed.note())
}

/// What one thread found: how many, and the first of them.
struct Names<'a> {
    pattern: &'a Pattern,
    order: Order,
    /// The last of those kept is on top, to be dropped for a better one.
    best: BinaryHeap<(i128, PathBuf)>,
    room: usize,
    total: u64,
}

impl Visitor for Names<'_> {
    fn visit(&mut self, seen: &Seen<'_>) -> Result<(), Outcome> {
        if !self.pattern.matches(seen.path) {
            return Ok(());
        }
        self.total += 1;
        let rank = match self.order {
            // A file that is gone by now counts as old.
            Order::Newest => seen.directory.facts(seen.name).map_or(0, |facts| -facts.modified),
            Order::Path => 0,
        };
        if self.best.len() < self.room {
            self.best.push((rank, seen.path.to_owned()));
        } else if let Some(mut last) = self.best.peek_mut()
            && (rank, seen.path) < (last.0, last.1.as_path())
        {
            *last = (rank, seen.path.to_owned());
        }
        Ok(())
    }
}
