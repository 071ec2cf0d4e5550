//! A result of any length, as a conversation takes it.
//!
//! Owns the split: start and end in the conversation, the whole as a blob that `read` pages through. Refuses to keep
//! more than [`Capture`] does.

use std::sync::Arc;

use longhaul_core::limits::OUTPUT_INLINE_BYTES_MAX;
use longhaul_core::tool::Output;

use crate::capture::Capture;
use crate::limits;
use crate::tool::{Blobs, Context, blocking};

/// What a path given to `read` begins with when a blob is meant.
pub(crate) const BLOB_PREFIX: &str = "blob:";

/// The text a conversation keeps, at most [`OUTPUT_INLINE_BYTES_MAX`]; the rest goes into a blob. `note` ends it.
pub(crate) async fn bounded(context: &Context, capture: Capture, note: &str) -> Output {
    bounded_in(&context.blobs, capture, note).await
}

/// The same for a call without a run.
pub(crate) async fn bounded_in(blobs: &Arc<dyn Blobs>, capture: Capture, note: &str) -> Output {
    let room = OUTPUT_INLINE_BYTES_MAX - limits::NOTE_BYTES_MAX;
    let bytes = capture.total();
    if let Some(text) = capture.whole(room) {
        return Output { text: (text + note).into(), bytes, ..Output::default() };
    }
    let (blobs, kept) = (Arc::clone(blobs), capture.kept());
    let blob = match blocking(move || blobs.keep(&kept)).await {
        Ok(Ok(hash)) => Ok(hash),
        Ok(Err(message)) => Err(message),
        Err(outcome) => Err(outcome.error().unwrap_or_default().to_owned()),
    };
    let cut = format!(
        "\n[output cut: {bytes} bytes in all, start and end are shown; {}]\n",
        whereabouts(&capture, &blob)
    );
    Output { text: (capture.clipped(room, &cut) + note).into(), blob: blob.ok(), bytes, ..Output::default() }
}

/// The same for a text that is there already.
pub(crate) async fn bounded_text(context: &Context, text: &str, note: &str) -> Output {
    let mut capture = Capture::default();
    capture.push(text.as_bytes());
    bounded(context, capture, note).await
}

fn whereabouts(capture: &Capture, blob: &Result<String, String>) -> String {
    match blob {
        Ok(hash) if capture.lost() == 0 => format!("read {BLOB_PREFIX}{hash} shows all of it"),
        Ok(hash) => {
            format!("read {BLOB_PREFIX}{hash} shows all but {} bytes in its middle", capture.lost())
        }
        Err(message) => {
            let short: String = message.chars().take(80).collect();
            format!("the rest could not be kept: {short}")
        }
    }
}
