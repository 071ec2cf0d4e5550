//! `edit`: replaces exact pieces of a file.
//!
//! Owns finding them; `nearby` says why one was not found. Several pieces are replaced one after the other, all or none.
//! Refuses to guess: a piece that is absent, or that occurs more often than was said, changes nothing, and neither does an
//! edit of a file that is no longer as its `expect` says, or as the agent last saw it.

use std::borrow::Cow;
use std::sync::Arc;

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Found, Outcome, Trace};
use longhaul_workspace::digest_of;
use longhaul_workspace::limits::FILE_BYTES_MAX;
use memchr::{memchr_iter, memmem};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{invalid, parse, schema};
use crate::change::{self, Change, Prepared};
use crate::limits;
use crate::nearby;
use crate::really;
use crate::tag;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec, blocking, refused};

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Path of the file, relative to the workspace.
    path: String,
    /// The exact text to replace, with its white space and line breaks.
    old: Option<String>,
    /// The text to put in its place.
    new: Option<String>,
    /// Replace every occurrence instead of exactly one. Default: false.
    #[serde(default)]
    replace_all: bool,
    /// Several replacements, made in this order, all or none; instead of old and new.
    edits: Option<Vec<Piece>>,
    /// The tag that read showed: the edit is refused if the file has changed since. Default: the last that was shown.
    expect: Option<String>,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Piece {
    /// The exact text to replace.
    old: String,
    /// The text to put in its place.
    new: String,
    /// Replace every occurrence. Default: false.
    #[serde(default)]
    replace_all: bool,
}

/// Arguments that make sense together.
#[derive(Clone)]
struct Order {
    path: String,
    pieces: Vec<Piece>,
    expect: Option<String>,
}

pub struct Edit {
    spec: ToolSpec,
    prepared: Arc<Prepared>,
}

impl Edit {
    pub fn new() -> Edit {
        let spec = ToolSpec {
            name: "edit".to_owned(),
            description: "Replaces exact pieces of text in a file. The text in old must occur exactly once, \
                          unless replace_all is true. Read the file first; give old without line numbers. \
                          Several pieces at once go into edits."
                .to_owned(),
            class: EffectClass::Checkable,
            schema: schema::<Args>(),
        };
        Edit { spec, prepared: Arc::default() }
    }

    fn arguments(&self, args: &Json) -> Result<Order, Outcome> {
        let Args { path, old, new, replace_all, edits, expect } = parse(args, &self.spec.schema)?;
        let pieces = match (old, new, edits) {
            (Some(old), Some(new), None) => vec![Piece { old, new, replace_all }],
            (None, None, Some(edits)) if !replace_all => edits,
            (Some(_), None, None) => {
                return Err(invalid("`new` is missing; give the text to put in place of `old`"));
            }
            (None, Some(_), None) => return Err(invalid("`old` is missing; give the text to replace")),
            (None, None, None) => return Err(invalid("`old` and `new` are missing, or else `edits`")),
            (_, _, Some(_)) => {
                return Err(invalid("give either `old`, `new` and `replace_all`, or `edits`, not both"));
            }
        };
        if pieces.is_empty() || pieces.len() > limits::EDITS_MAX {
            return Err(invalid(format!("`edits` must have from 1 to {} entries", limits::EDITS_MAX)));
        }
        for (index, piece) in pieces.iter().enumerate() {
            piece.refuse_pointless().map_err(|reason| invalid(which(&pieces, index) + reason))?;
        }
        Ok(Order { path, pieces, expect })
    }

    async fn trace(&self, context: &Context, args: &Json) -> Result<Trace, Outcome> {
        let (context, args, prepared) = (context.clone(), self.arguments(args)?, Arc::clone(&self.prepared));
        blocking(move || {
            really::permitted(&context, "edit", &args.path)?;
            let bytes = context.workspace.read(&args.path).map_err(|error| refused(&error))?;
            let change = edited(&context, &args, digest_of(&bytes), bytes)?;
            let trace = change.trace();
            prepared.keep(&context.key, change);
            Ok(trace)
        })
        .await?
    }

    async fn make(&self, context: &Context, args: &Json, trace: Option<&Trace>) -> Result<Outcome, Outcome> {
        let (context, args, trace) = (context.clone(), self.arguments(args)?, trace.cloned());
        let prepared = trace.as_ref().and_then(|trace| self.prepared.take(&context.key, trace));
        blocking(move || {
            really::permitted(&context, "edit", &args.path)?;
            if let Some(change) = prepared {
                return Ok(change.make_prepared(&context));
            }
            let bytes = context.workspace.read(&args.path).map_err(|error| refused(&error))?;
            let digest = digest_of(&bytes);
            if let Some(trace) = &trace {
                // The text is no longer there once it was replaced, so this is asked before looking for it.
                if digest == trace.after {
                    let report = format!("edited {}", args.path);
                    return Ok(change::settled(&context, &args.path, report));
                }
                if digest != trace.before {
                    return Err(change::changed_meanwhile(&args.path));
                }
            }
            Ok(edited(&context, &args, digest, bytes)?.make(&context, trace.as_ref()))
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
        &self.spec
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

/// The file after the edit; `before` is the digest of `bytes`.
fn edited(context: &Context, order: &Order, before: String, bytes: Vec<u8>) -> Result<Change, Outcome> {
    let failed = |message: String| Outcome::failed(Failure::Tool, message);
    let path = &order.path;
    let expect = order.expect.as_deref().or(context.seen.as_deref());
    if let Some(expect) = expect.filter(|expect| !tag::fits(expect, &before)) {
        let now = tag::of(&before);
        let message =
            format!("`{path}` has changed since it was read: its tag is {now}, not {expect}; read it again");
        return Err(failed(message));
    }
    let mut text = String::from_utf8(bytes)
        .map_err(|_| failed(format!("`{path}` is not UTF-8 text; change it with bash")))?;
    let mut replaced = Replaced::default();
    for (index, piece) in order.pieces.iter().enumerate() {
        text = piece
            .with_breaks_of(&text)
            .replace(path, text, &mut replaced)
            .map_err(|message| failed(which(&order.pieces, index) + &message))?;
    }
    let bytes = text.into_bytes();
    let after = digest_of(&bytes);
    if after == before {
        return Err(failed("the edits undo each other; nothing would change".to_owned()));
    }
    let report = replaced.report(path, &tag::of(&after));
    Ok(Change { path: path.clone(), before, after, bytes, report })
}

/// Which edit is meant, when there are several.
fn which(pieces: &[Piece], index: usize) -> String {
    if pieces.len() == 1 { String::new() } else { format!("edit {} of {}: ", index + 1, pieces.len()) }
}

/// What was done, over all edits. Each line is numbered as the file was before the edit at that place.
#[derive(Default)]
struct Replaced {
    pieces: usize,
    lines: Vec<String>,
}

impl Replaced {
    fn report(&self, path: &str, tag: &str) -> String {
        let lines = self.lines.join(", ");
        match self.pieces {
            1 => format!("edited {path}: replaced 1 piece, at line {lines} (tag {tag})"),
            count => format!("edited {path}: replaced {count} pieces, at lines {lines} (tag {tag})"),
        }
    }
}

impl Piece {
    fn refuse_pointless(&self) -> Result<(), &'static str> {
        if self.old.is_empty() {
            return Err("`old` is empty; give the text to replace, or use write to create a file");
        }
        if self.old == self.new {
            return Err("`old` and `new` are the same; nothing would change");
        }
        Ok(())
    }

    /// The piece with the line breaks of the text, where all of those end with `\r\n`: `read` does not show them.
    fn with_breaks_of(&self, text: &str) -> Cow<'_, Piece> {
        let is_bare = |piece: &str| !piece.contains("\r\n");
        let differs = self.old.contains('\n') || self.new.contains('\n');
        if !differs || !is_bare(&self.old) || !is_bare(&self.new) || !has_only_long_breaks(text) {
            return Cow::Borrowed(self);
        }
        let long = |piece: &str| piece.replace('\n', "\r\n");
        Cow::Owned(Piece { old: long(&self.old), new: long(&self.new), replace_all: self.replace_all })
    }

    /// The text with this piece replaced, or why it cannot be.
    fn replace(&self, path: &str, text: String, replaced: &mut Replaced) -> Result<String, String> {
        let places = self.places(&text);
        let count = places.len();
        match (count, self.replace_all) {
            (0, true | false) => return Err(nearby::not_found(path, &text, &self.old)),
            (1, true | false) | (_, true) => {}
            (_, false) => return Err(not_unique(&text, &places)),
        }
        let grown = (count as u64).saturating_mul(self.new.len() as u64).saturating_add(text.len() as u64);
        if grown > FILE_BYTES_MAX {
            return Err(format!("`{path}` could grow to {grown} bytes; at most {FILE_BYTES_MAX}"));
        }
        replaced.pieces += count;
        replaced.lines.push(named_lines(&text, &places));
        Ok(self.put(text, &places))
    }

    /// The text with `new` at these places. They were searched for once; a large file is slow to search.
    fn put(&self, mut text: String, places: &[usize]) -> String {
        if let [place] = *places {
            // In place: a large file is not copied for one piece.
            text.replace_range(place..place + self.old.len(), &self.new);
            return text;
        }
        let mut result = String::with_capacity(text.len() + places.len() * self.new.len());
        let mut from = 0;
        for &place in places {
            result.push_str(&text[from..place]);
            result.push_str(&self.new);
            from = place + self.old.len();
        }
        result.push_str(&text[from..]);
        result
    }

    /// Where `old` starts. Asked for one, a second place that overlaps the first counts too: which was meant is a guess.
    fn places(&self, text: &str) -> Vec<usize> {
        let mut places: Vec<usize> = memmem::find_iter(text.as_bytes(), &self.old).collect();
        if let ([first], false) = (places.as_slice(), self.replace_all) {
            let next = first + self.old.chars().next().map_or(1, char::len_utf8);
            places.extend(memmem::find(&text.as_bytes()[next..], self.old.as_bytes()).map(|at| next + at));
        }
        places
    }
}

fn has_only_long_breaks(text: &str) -> bool {
    let bytes = text.as_bytes();
    text.contains('\n') && memchr_iter(b'\n', bytes).all(|at| at > 0 && bytes[at - 1] == b'\r')
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
        line += memchr_iter(b'\n', &text.as_bytes()[from..place]).count();
        from = place;
        lines.push(line.to_string());
    }
    if places.len() > limits::PLACES_NAMED_MAX {
        lines.push("…".to_owned());
    }
    lines.join(", ")
}
