//! The images of a conversation, fetched when a model is asked. Owns how many are shown; refuses to fail: what cannot be
//! fetched is named instead, and the model may read it again.

use std::collections::BTreeMap;
use std::sync::Arc;

use longhaul_core::conversation::{ModelRequest, Pictures};
use longhaul_core::tool::Image;
use longhaul_tools::Blobs;

use crate::limits::{IMAGES_SHOWN_BYTES_MAX, IMAGES_SHOWN_MAX, IMAGES_SHOWN_STEP};

/// The request with the bytes of its images.
pub(crate) async fn with_pictures(request: ModelRequest, blobs: Arc<dyn Blobs>) -> ModelRequest {
    let images: Vec<Image> = request.images().cloned().collect();
    if images.is_empty() {
        return request;
    }
    let fetched = tokio::task::spawn_blocking(move || fetch(shown(&images), blobs.as_ref())).await;
    ModelRequest { pictures: fetched.unwrap_or_default(), ..request }
}

fn fetch(images: &[Image], blobs: &dyn Blobs) -> Pictures {
    let mut pictures: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for image in images {
        if !pictures.contains_key(&image.blob)
            && let Ok(bytes) = blobs.fetch(&image.blob)
        {
            pictures.insert(image.blob.clone(), bytes);
        }
    }
    pictures.into_iter().collect()
}

/// The newest of them. They go several at a time, oldest first, so that a provider's cache of what was said holds for a while.
fn shown(images: &[Image]) -> &[Image] {
    let bytes = |images: &[Image]| images.iter().map(|image| image.bytes).sum::<u64>();
    let mut shown = images;
    while shown.len() > IMAGES_SHOWN_MAX
        || (shown.len() > IMAGES_SHOWN_STEP && bytes(shown) > IMAGES_SHOWN_BYTES_MAX)
    {
        shown = &shown[IMAGES_SHOWN_STEP.min(shown.len())..];
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(count: usize, bytes: u64) -> Vec<Image> {
        let image = |number: usize| Image {
            blob: number.to_string(),
            media_type: "image/png".to_owned(),
            width: 1,
            height: 1,
            bytes,
        };
        (0..count).map(image).collect()
    }

    /// What is shown stays the same over several images, is never more than the services take, and has the newest in it.
    #[test]
    fn the_newest_are_shown() {
        let first = |count, bytes| shown(&images(count, bytes))[0].blob.parse::<usize>().unwrap();
        assert_eq!([1, 20, 21, 25, 26].map(|count| first(count, 1)), [0, 0, 5, 5, 10]);
        assert_eq!([1, 5, 6, 10, 11].map(|count| first(count, 3_750_000)), [0, 0, 5, 5, 10]);
        assert!(shown(&[]).is_empty());
    }
}
