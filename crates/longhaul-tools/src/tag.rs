//! A short name for a file's content.
//!
//! Owns the tag that `read` and `edit` show and that `edit` takes as `expect`: the first letters of the content's digest.
//! So nothing has to be remembered between calls to know whether a file is still what was read. Refuses to protect
//! against somebody who makes two contents with one tag: it is against accidents.

use crate::limits;

/// The tag of the content with this digest.
pub(crate) fn of(digest: &str) -> String {
    digest.chars().take(limits::TAG_LETTERS).collect()
}

/// Whether the content with this digest is the one that was tagged so.
pub(crate) fn fits(tag: &str, digest: &str) -> bool {
    tag.trim().to_ascii_lowercase() == of(digest)
}
