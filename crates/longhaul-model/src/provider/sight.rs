//! Which images a model is shown. Owns what is known of that: by configuration, and by what the model refused. Refuses to keep
//! it: a process that starts anew is refused once more, which costs nothing.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use longhaul_core::conversation::ModelRequest;

use crate::limits::IMAGES_REMEMBERED_MAX;
use crate::wire::{Kind, WireError};

pub(crate) struct Sight {
    /// Does the model take images at all, as far as its configuration says?
    able: bool,
    heard: Mutex<Heard>,
}

/// By the hashes of their blobs.
#[derive(Default)]
struct Heard {
    taken: BTreeSet<String>,
    refused: BTreeSet<String>,
}

impl Sight {
    pub(crate) fn new(able: bool) -> Sight {
        Sight { able, heard: Mutex::default() }
    }

    /// Why the image is not shown; nothing if it may be.
    pub(crate) fn against(&self, blob: &str) -> Option<&'static str> {
        if !self.able {
            return Some("this model is not shown images");
        }
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.refused.contains(blob).then_some("this model does not take it")
    }

    /// What was shown in a request has been answered.
    pub(crate) fn took(&self, request: &ModelRequest) {
        let shown = self.shown(request);
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.taken.len() + heard.refused.len() > IMAGES_REMEMBERED_MAX {
            *heard = Heard::default();
        }
        heard.taken.extend(shown);
    }

    /// Does the model refuse a request for its images? Then those that it had not taken before are not shown again; all of
    /// them, if it had taken each.
    pub(crate) fn refused(&self, request: &ModelRequest, error: &WireError) -> bool {
        let shown = self.shown(request);
        if shown.is_empty() || !is_about_images(error) {
            return false;
        }
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<String> = shown.iter().filter(|blob| !heard.taken.contains(*blob)).cloned().collect();
        heard.refused.extend(if new.is_empty() { shown } else { new });
        true
    }

    fn shown(&self, request: &ModelRequest) -> Vec<String> {
        let blobs = request.images().map(|image| &image.blob);
        blobs
            .filter(|blob| request.pictures.get(blob).is_some() && self.against(blob).is_none())
            .cloned()
            .collect()
    }
}

/// Servers have many words and several statuses for it: 400, 404, 415, 422, 500.
fn is_about_images(error: &WireError) -> bool {
    let may_be = match error.kind {
        Kind::Fatal | Kind::ModelUnknown | Kind::Refused | Kind::Retryable { .. } => error.status.is_some(),
        Kind::Unreachable
        | Kind::RateLimited { .. }
        | Kind::Credentials
        | Kind::Quota
        | Kind::Overflow
        | Kind::Truncated
        | Kind::TooLarge
        | Kind::Malformed
        | Kind::Foreign => false,
    };
    let said = error.message.to_ascii_lowercase();
    may_be && ["image", "vision", "multimodal", "mmproj"].iter().any(|word| said.contains(word))
}
