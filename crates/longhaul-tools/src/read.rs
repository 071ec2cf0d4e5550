//! `read`: shows numbered lines of a text file.
//!
//! Owns what is done with each kind of file: text is shown as it is, a notebook as its cells, a PDF as its text, a directory as
//! its list, a long result of an earlier call (`blob:…`) like a file; an image is kept to be shown. `lines` pages.
//! Refuses other binary files, with a hint what to do instead.

use std::fs::File;
use std::io::{Read as _, Seek as _};

use longhaul_core::ids::CallId;
use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Outcome, Output, Trace};
use longhaul_workspace::limits::FILE_BYTES_MAX;
use longhaul_workspace::{Error, digest_of};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{invalid, parse, schema};
use crate::image;
use crate::limits;
use crate::lines::{Lines, Page, Source, unreadable};
use crate::list;
use crate::notebook;
use crate::output::BLOB_PREFIX;
use crate::patience::Patience;
use crate::pdf::{self, Text};
use crate::really;
use crate::sandbox::Sandbox;
use crate::shell::{Shell, agents_environment};
use crate::tag;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec, blocking, refused};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Path of the file, relative to the workspace; or `blob:` and what a result that was cut names.
    path: String,
    /// The first line to show, counted from 1. Default: 1.
    offset: Option<u64>,
    /// How many lines to show. Default: 2000.
    limit: Option<u64>,
}

pub struct Read {
    spec: ToolSpec,
    shell: Shell,
}

/// What was found, if it is not shown yet.
enum Look {
    Shown(Outcome),
    Pdf(Vec<u8>),
}

impl Read {
    pub fn new(sandbox: Sandbox) -> Read {
        let spec = ToolSpec {
            name: "read".to_owned(),
            description: "Shows a text file with line numbers, the text of a PDF, or an image. Long files are shown \
                          in parts: the result says with which offset to go on. The tag at its end can be given to \
                          edit."
                .to_owned(),
            class: EffectClass::Repeatable,
            schema: schema::<Args>(),
        };
        Read { spec, shell: Shell::new(agents_environment(), sandbox) }
    }

    async fn show(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let args: Args = parse(args, &self.spec.schema)?;
        if args.offset == Some(0) {
            return Err(invalid("`offset` counts lines from 1"));
        }
        if args.limit == Some(0) {
            return Err(invalid("`limit` must be at least 1"));
        }
        let (page, path, own) = (args.page(), args.path.clone(), context.clone());
        let content = match blocking(move || look(&own, &args)).await?? {
            Look::Shown(outcome) => return Ok(outcome),
            Look::Pdf(content) => content,
        };
        let Text { text, note } = pdf::text(&self.shell, context, &path, content).await?;
        let own = context.clone();
        let lines =
            move || Lines::new(Patience::new(&own), &path, Source::held(text.into_bytes())).show(page, &note);
        blocking(lines).await?
    }
}

impl Args {
    fn page(&self) -> Page {
        Page { first: self.offset.unwrap_or(1), limit: self.limit.unwrap_or(limits::READ_LINES_DEFAULT) }
    }
}

impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        _traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.show(context, args).await.unwrap_or_else(|outcome| outcome) })
    }
}

fn look(context: &Context, args: &Args) -> Result<Look, Outcome> {
    let (page, patience) = (args.page(), Patience::new(context));
    let shown = |outcome: Result<Outcome, Outcome>| outcome.map(Look::Shown);
    if let Some(hash) = args.path.strip_prefix(BLOB_PREFIX) {
        let content = blob(context, hash)?;
        if image::recognise(&content).is_some() {
            return shown(picture(context, &args.path, &content, content.len() as u64));
        }
        return shown(Lines::new(patience, &args.path, Source::held(content)).show(page, ""));
    }
    // Asked before and after it is opened: a link may be exchanged in between.
    let real = really::permitted(context, "read", &args.path)?;
    let file = match context.workspace.open_file(&args.path) {
        Ok(file) => file,
        Err(Error::Directory { .. }) => return shown(directory(context, &args.path)),
        Err(error) => return Err(refused(&error)),
    };
    if really::permitted(context, "read", &args.path)? != real {
        let message = format!("`{}` leads elsewhere than a moment ago; read it again", args.path);
        return Err(Outcome::failed(Failure::Tool, message));
    }
    let bytes = file.metadata().map_err(|error| unreadable(&args.path, &error))?.len();
    if pdf::is_one(&file) {
        return whole(&args.path, file, limits::PDF_BYTES_MAX).map(Look::Pdf);
    }
    if bytes > limits::HELD_BYTES_MAX {
        let note = large_tag(context, &args.path, &file, bytes)?;
        let mut lines = Lines::new(patience, &args.path, Source::file(file, bytes));
        if let Some(outcome) = not_text(context, &args.path, lines.start()?, bytes) {
            return shown(outcome);
        }
        return shown(lines.show(page, &note));
    }
    patience.check()?;
    let content = whole(&args.path, file, limits::HELD_BYTES_MAX)?;
    if let Some(outcome) = not_text(context, &args.path, &content, content.len() as u64) {
        return shown(outcome);
    }
    if let Some(text) = args.path.ends_with(".ipynb").then(|| notebook::text(&content)).flatten() {
        let note = "[a notebook, its cells shown as text; the file itself is JSON]\n";
        return shown(Lines::new(patience, &args.path, Source::held(text.into_bytes())).show(page, note));
    }
    let note = format!("[tag {}]\n", tag::of(&digest_of(&content)));
    shown(Lines::new(patience, &args.path, Source::held(content)).show(page, &note))
}

/// The tag of a file that is shown in pieces, if it may be edited. It is of a moment before: what changes in between is refused.
fn large_tag(context: &Context, path: &str, mut file: &File, bytes: u64) -> Result<String, Outcome> {
    if bytes > FILE_BYTES_MAX {
        return Ok(String::new());
    }
    let digest = context.workspace.digest_of_file(path, file).map_err(|error| refused(&error))?;
    file.rewind().map_err(|error| unreadable(path, &error))?;
    Ok(format!("[tag {}]\n", tag::of(&digest)))
}

/// All of a small file, so that what is shown and its tag are of the same moment.
fn whole(path: &str, file: File, most: u64) -> Result<Vec<u8>, Outcome> {
    let expected = file.metadata().map_or(0, |known| known.len());
    let mut content = Vec::with_capacity(expected.min(most) as usize + 1);
    let read = file.take(most + 1).read_to_end(&mut content);
    read.map_err(|error| unreadable(path, &error))?;
    if content.len() as u64 <= most {
        return Ok(content);
    }
    let message = if expected > most {
        format!("`{path}` has {expected} bytes, more than are read of such a file; look at it with bash")
    } else {
        format!("`{path}` is growing; read it again")
    };
    Err(Outcome::failed(Failure::Tool, message))
}

fn blob(context: &Context, hash: &str) -> Result<Vec<u8>, Outcome> {
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hash && call_of(hash).is_none() {
        return Err(invalid(format!(
            "`{BLOB_PREFIX}` must be followed by the 64 letters of a hash, or by a call (`{BLOB_PREFIX}call_7`)"
        )));
    }
    let content = context.blobs.fetch(hash);
    content.map_err(|error| Outcome::failed(Failure::Tool, format!("cannot read the blob: {error}")))
}

/// The call whose result is meant, if it is not a hash.
pub fn call_of(name: &str) -> Option<CallId> {
    name.strip_prefix("call_")?.parse().ok().map(CallId)
}

fn directory(context: &Context, path: &str) -> Result<Outcome, Outcome> {
    let (text, note) = list::one_level(context, path)?;
    Ok(Outcome::done(format!("`{path}` is a directory:\n{text}{note}")))
}

/// An image, for models that can see; the text says what it is to all.
fn picture(context: &Context, path: &str, content: &[u8], bytes: u64) -> Result<Outcome, Outcome> {
    let image = image::kept(content, bytes, context.blobs.as_ref());
    let image =
        image.map_err(|why| Outcome::failed(Failure::Tool, format!("`{path}` cannot be shown: {why}")))?;
    let text = format!("`{path}` is an image: {image}");
    Ok(Outcome::Done { output: Output::text(text).showing(vec![image]) })
}

/// What is done with a file that cannot be shown as lines; `None` if it can.
fn not_text(context: &Context, path: &str, start: &[u8], bytes: u64) -> Option<Result<Outcome, Outcome>> {
    if image::recognise(start).is_some() {
        return Some(picture(context, path, start, bytes));
    }
    let refused = |message: String| Some(Err(Outcome::failed(Failure::Tool, message)));
    if start.iter().take(limits::BINARY_PROBE_BYTES).any(|byte| *byte == 0) {
        return refused(format!(
            "`{path}` is binary ({bytes} bytes); look at it with bash: file, xxd, strings"
        ));
    }
    None
}
