//! `edit`: replaces an exact piece of a file.
//!
//! Owns finding that piece and saying why it was not found. Refuses to guess: a piece that is absent, or that occurs
//! more often than was said, changes nothing.

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Found, Outcome, Trace};
use longhaul_workspace::digest_of;
use longhaul_workspace::limits::FILE_BYTES_MAX;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{invalid, parse, schema};
use crate::change::{self, Change};
use crate::limits;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec, blocking, refused};

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Path of the file, relative to the workspace.
    path: String,
    /// The exact text to replace, with its white space and line breaks.
    old: String,
    /// The text to put in its place.
    new: String,
    /// Replace every occurrence instead of exactly one. Default: false.
    #[serde(default)]
    replace_all: bool,
}

pub struct Edit(ToolSpec);

impl Edit {
    pub fn new() -> Edit {
        Edit(ToolSpec {
            name: "edit".to_owned(),
            description:
                "Replaces an exact piece of text in a file. The text in old must occur exactly once, \
                          unless replace_all is true. Read the file first; give old without line numbers."
                    .to_owned(),
            class: EffectClass::Checkable,
            schema: schema::<Args>(),
        })
    }

    fn arguments(&self, args: &Json) -> Result<Args, Outcome> {
        let args: Args = parse(args, &self.0.schema)?;
        if args.old.is_empty() {
            return Err(invalid("`old` is empty; give the text to replace, or use write to create a file"));
        }
        if args.old == args.new {
            return Err(invalid("`old` and `new` are the same; nothing would change"));
        }
        Ok(args)
    }

    async fn trace(&self, context: &Context, args: &Json) -> Result<Trace, Outcome> {
        let (context, args) = (context.clone(), self.arguments(args)?);
        blocking(move || {
            let bytes = context.workspace.read(&args.path).map_err(|error| refused(&error))?;
            Ok(edited(&args, bytes)?.trace())
        })
        .await?
    }

    async fn make(&self, context: &Context, args: &Json, trace: Option<&Trace>) -> Result<Outcome, Outcome> {
        let (context, args, trace) = (context.clone(), self.arguments(args)?, trace.cloned());
        blocking(move || {
            let bytes = context.workspace.read(&args.path).map_err(|error| refused(&error))?;
            if let Some(trace) = &trace {
                let digest = digest_of(&bytes);
                // The text is no longer there once it was replaced, so this is asked before looking for it.
                if digest == trace.after {
                    let report = format!("edited {}", args.path);
                    return Ok(change::settled(&context, &args.path, report));
                }
                if digest != trace.before {
                    return Err(change::changed_meanwhile(&args.path));
                }
            }
            Ok(edited(&args, bytes)?.make(&context, trace.as_ref()))
        })
        .await?
    }
}

impl Default for Edit {
    fn default() -> Edit {
        Edit::new()
    }
}

impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn prepare<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
    ) -> BoxFuture<'a, Result<Vec<Trace>, Outcome>> {
        Box::pin(async move { Ok(vec![self.trace(context, args).await?]) })
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(
            async move { self.make(context, args, traces.first()).await.unwrap_or_else(|outcome| outcome) },
        )
    }

    fn check<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        traces: &'a [Trace],
    ) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            match self.arguments(args) {
                Ok(args) => change::check(context, args.path, traces).await,
                Err(_) => Found::Unknown,
            }
        })
    }
}

/// The file after the edit.
fn edited(args: &Args, bytes: Vec<u8>) -> Result<Change, Outcome> {
    let before = digest_of(&bytes);
    let failed = |message: String| Outcome::failed(Failure::Tool, message);
    let text = String::from_utf8(bytes)
        .map_err(|_| failed(format!("`{}` is not UTF-8 text; change it with bash", args.path)))?;
    let places = places(&text, args);
    let count = places.len();
    match (count, args.replace_all) {
        (0, true | false) => return Err(failed(not_found(&text, args))),
        (1, true | false) | (_, true) => {}
        (_, false) => return Err(failed(not_unique(&text, &places))),
    }
    let grown = (count as u64).saturating_mul(args.new.len() as u64).saturating_add(text.len() as u64);
    if grown > FILE_BYTES_MAX {
        return Err(failed(format!("`{}` could grow to {grown} bytes; at most {FILE_BYTES_MAX}", args.path)));
    }
    let lines = named_lines(&text, &places);
    let report = match count {
        1 => format!("edited {}: replaced 1 piece, at line {lines}", args.path),
        count => format!("edited {}: replaced {count} pieces, at lines {lines}", args.path),
    };
    let bytes = text.replace(&args.old, &args.new).into_bytes();
    Ok(Change { path: args.path.clone(), before, bytes, report })
}

/// Where `old` starts. Asked for one, a second place that overlaps the first counts too: which was meant is a guess.
fn places(text: &str, args: &Args) -> Vec<usize> {
    let mut places: Vec<usize> = text.match_indices(&args.old).map(|(at, _)| at).collect();
    if let ([first], false) = (places.as_slice(), args.replace_all) {
        let next = first + args.old.chars().next().map_or(1, char::len_utf8);
        places.extend(text[next..].find(&args.old).map(|at| next + at));
    }
    places
}

fn not_unique(text: &str, places: &[usize]) -> String {
    format!(
        "`old` occurs {} times, at lines {}; add lines around it until it occurs once, or set replace_all",
        places.len(),
        named_lines(text, places)
    )
}

fn named_lines(text: &str, places: &[usize]) -> String {
    let mut lines = Vec::new();
    let (mut line, mut from) = (1, 0);
    for &place in places.iter().take(limits::PLACES_NAMED_MAX) {
        line += text[from..place].matches('\n').count();
        from = place;
        lines.push(line.to_string());
    }
    if places.len() > limits::PLACES_NAMED_MAX {
        lines.push("…".to_owned());
    }
    lines.join(", ")
}

fn not_found(text: &str, args: &Args) -> String {
    let mut message = format!("`old` does not occur in `{}`", args.path);
    if text.contains("\r\n") && !args.old.contains("\r\n") && args.old.contains('\n') {
        message.push_str("; its lines end with \\r\\n, those in `old` with \\n");
    }
    let wanted = args.old.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let closest = closest_lines(text, wanted);
    if closest.is_empty() {
        message.push_str("; nothing in it is similar. Read the file again");
        return message;
    }
    message.push_str("; the closest to its first line:");
    for (number, line) in closest {
        let shown: String = line.chars().take(200).collect();
        message.push_str(&format!("\n{number:>6}\t{shown}"));
    }
    message
}

/// Up to three lines that share the longest start and end with `wanted`, at least half of it.
fn closest_lines<'a>(text: &'a str, wanted: &str) -> Vec<(usize, &'a str)> {
    let mut scored: Vec<(usize, usize, &str)> = text
        .lines()
        .take(limits::CLOSEST_LINES_SEARCHED_MAX)
        .enumerate()
        .map(|(index, line)| (likeness(line.trim(), wanted), index + 1, line))
        .filter(|(score, _, _)| *score > 0 && score * 2 >= wanted.chars().count())
        .collect();
    scored.sort_by_key(|(score, number, _)| (std::cmp::Reverse(*score), *number));
    scored.truncate(3);
    scored.into_iter().map(|(_, number, line)| (number, line)).collect()
}

/// Characters that two lines have in common at their start and, beyond that, at their end.
fn likeness(line: &str, wanted: &str) -> usize {
    let pairs = line.chars().zip(wanted.chars());
    let start = pairs.take_while(|(left, right)| left == right).count();
    let rest = line.chars().count().min(wanted.chars().count()) - start;
    let pairs = line.chars().rev().zip(wanted.chars().rev()).take(rest);
    start + pairs.take_while(|(left, right)| left == right).count()
}
