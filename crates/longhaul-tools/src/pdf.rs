//! The text of a PDF.
//!
//! Owns asking `pdftotext`, held like any command, with the file as its input: what takes hostile files apart is no part of the
//! process that has the keys. Refuses where that program is not installed, and says so.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::tool::{Failure, Outcome};

use crate::child::{Child, End};
use crate::limits;
use crate::sandbox::{More, Network};
use crate::shell::Shell;
use crate::tool::Context;

/// What a PDF begins with.
const MARK: &[u8; 5] = b"%PDF-";

const COMMAND: &str = "exec pdftotext -layout -enc UTF-8 - -";

/// How a shell says that there is no such program.
const NOT_FOUND: i32 = 127;

pub(crate) fn is_one(file: &File) -> bool {
    let mut start = [0; MARK.len()];
    file.read_exact_at(&mut start, 0).is_ok() && start == *MARK
}

/// Its text, the pages numbered, and a note about it.
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) note: String,
}

pub(crate) async fn text(
    shell: &Shell,
    context: &Context,
    path: &str,
    content: Vec<u8>,
) -> Result<Text, Outcome> {
    let printed = printed(shell, context, path, content).await?;
    let is_cut = printed.len() >= limits::PDF_TEXT_BYTES_MAX;
    let printed = String::from_utf8_lossy(&printed);
    // Each page ends with a form feed.
    let pages: Vec<&str> = printed.strip_suffix('\u{c}').unwrap_or(&printed).split('\u{c}').collect();
    let count = if pages.len() == 1 { "1 page".to_owned() } else { format!("{} pages", pages.len()) };
    if pages.iter().all(|page| page.trim().is_empty()) {
        let message = format!("`{path}` is a PDF of {count} without text; look at it as an image");
        return Err(Outcome::failed(Failure::Tool, message));
    }
    let numbered = pages.iter().enumerate();
    let text = numbered.map(|(index, page)| format!("[page {}]\n{}\n", index + 1, page.trim_end())).collect();
    let cut = if is_cut { ", and the beginning of it only" } else { "" };
    Ok(Text { text, note: format!("[a PDF of {count}, shown as text{cut}]\n") })
}

async fn printed(shell: &Shell, context: &Context, path: &str, content: Vec<u8>) -> Result<Vec<u8>, Outcome> {
    let failed = |failure, why: String| Outcome::failed(failure, format!("`{path}` is a PDF, and {why}"));
    let not_run = |why: String| failed(Failure::NotPermitted, format!("pdftotext is not run: {why}"));
    let more = More { network: Some(Network::None), ..More::default() };
    let wrapped = shell.wrapped(context, COMMAND, &[], more).map_err(not_run)?;
    let reach = wrapped.reach();
    let child = Child::start_apart(wrapped.command, &context.key, reach, Some(content));
    let child = child.map_err(|error| not_run(error.to_string()))?;
    let heard: Arc<Mutex<Vec<u8>>> = Arc::default();
    let hearing = Arc::clone(&heard);
    let child = child.kept_by(Box::new(move |bytes| {
        let mut heard = hearing.lock().unwrap_or_else(PoisonError::into_inner);
        let room = limits::PDF_TEXT_BYTES_MAX - heard.len();
        heard.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }));
    let finished = child.finish(context.timeout, &context.cancel).await;
    drop(wrapped.kept);
    let said = finished.errors.clipped(limits::SEARCH_COMPLAINT_BYTES_MAX, "\n[…]\n");
    match finished.end {
        End::Exited(status) if status.success() => {
            Ok(std::mem::take(&mut *heard.lock().unwrap_or_else(PoisonError::into_inner)))
        }
        End::Exited(status) if status.code() == Some(NOT_FOUND) => Err(failed(
            Failure::Tool,
            "pdftotext, which would show its text, is not installed (apt install poppler-utils)".to_owned(),
        )),
        End::Exited(status) => {
            Err(failed(Failure::Tool, format!("pdftotext failed ({status}): {}", said.trim())))
        }
        End::TimedOut => Err(failed(Failure::Timeout, "pdftotext did not end in time".to_owned())),
        End::Cancelled => Err(Outcome::failed(Failure::Cancelled, "stopped because the run was paused")),
        End::Lost(error) => Err(failed(Failure::Tool, format!("the end of pdftotext is not known: {error}"))),
    }
}
