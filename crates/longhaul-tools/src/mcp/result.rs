//! What a server answered, as the outcome of a call.
//!
//! Owns turning content of any kind into a text a model can read, of bounded length, with the whole of it in a blob, and
//! images into what a model can be shown. Refuses to show anything else: it is described instead.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longhaul_core::tool::{Failure, Image, Outcome};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use super::names::line;
use crate::capture::Capture;
use crate::output::bounded_in;
use crate::tool::{Blobs, blocking};
use crate::{image, limits};

/// The outcome, with `secrets` struck out of it.
pub(super) async fn outcome(result: CallToolResult, secrets: &[String], blobs: Arc<dyn Blobs>) -> Outcome {
    let is_error = result.is_error.unwrap_or(false);
    let keeping = Arc::clone(&blobs);
    let seen = match blocking(move || seen(&result, keeping.as_ref())).await {
        Ok(seen) => seen,
        Err(outcome) => return outcome,
    };
    let Seen { text, images } = seen;
    let text = secrets.iter().fold(text, |text, secret| text.replace(secret, "[secret]"));
    let first = text.lines().find(|line| !line.trim().is_empty()).map(line);
    let empty = text.trim().is_empty();
    let mut capture = Capture::default();
    capture.push(if empty { b"(no output)" } else { text.as_bytes() });
    let output = bounded_in(&blobs, capture, "").await.showing(images);
    if !is_error {
        return Outcome::Done { output };
    }
    let message = first.unwrap_or_else(|| "the tool reports an error without a word".to_owned());
    Outcome::Failed { failure: Failure::Tool, message, output }
}

/// What there is to read and to see.
struct Seen {
    text: String,
    images: Vec<Image>,
}

fn seen(result: &CallToolResult, blobs: &dyn Blobs) -> Seen {
    let mut images = Vec::new();
    let mut parts: Vec<String> = Vec::with_capacity(result.content.len());
    for content in &result.content {
        parts.push(part(content, &mut images, blobs));
    }
    // Servers are asked to say the same in text; what is already there is not said twice.
    if let Some(structured) = &result.structured_content {
        let same =
            |part: &String| serde_json::from_str::<Value>(part).is_ok_and(|value| value == *structured);
        if !parts.iter().any(same) {
            parts.push(structured.to_string());
        }
    }
    Seen { text: parts.join("\n"), images }
}

fn part(content: &ContentBlock, images: &mut Vec<Image>, blobs: &dyn Blobs) -> String {
    match content {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => pictured(&image.mime_type, &image.data, images, blobs),
        ContentBlock::Audio(audio) => described("sound", &audio.mime_type, &audio.data),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[{}]\n{text}", line(uri)),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let mime_type = mime_type.as_deref().unwrap_or("of unknown type");
                let said = if mime_type.starts_with("image/") {
                    pictured(mime_type, blob, images, blobs)
                } else {
                    described("data", mime_type, blob)
                };
                format!("[{}] {said}", line(uri))
            }
            other => unknown(other),
        },
        ContentBlock::ResourceLink(link) => {
            let about = link.description.as_deref().map_or(String::new(), |about| format!(": {about}"));
            format!("[resource {} at {}{}]", line(&link.name), line(&link.uri), line(&about))
        }
        other => unknown(other),
    }
}

/// Content of a later revision of the protocol than ours.
fn unknown(content: &impl std::fmt::Debug) -> String {
    format!("[content this longhaul does not know: {}]", line(&format!("{content:?}")))
}

/// An image that is shown, or why it is not. What it is its bytes say: a server's word may be wrong.
fn pictured(mime_type: &str, base64: &str, images: &mut Vec<Image>, blobs: &dyn Blobs) -> String {
    let shown = |images: &mut Vec<Image>| {
        if images.len() >= limits::RESULT_IMAGES_MAX {
            return Err(format!("no more than {} are shown of one result", limits::RESULT_IMAGES_MAX));
        }
        // What is far too long need not be decoded to be refused.
        let start = base64.get(..base64.len().min(limits::IMAGE_BYTES_MAX as usize * 2)).unwrap_or(base64);
        let content = STANDARD.decode(start.trim()).map_err(|error| format!("it is no base64: {error}"))?;
        let bytes = if start.len() < base64.len() { base64.len() / 4 * 3 } else { content.len() };
        images.push(image::kept(&content, bytes as u64, blobs)?);
        Ok(images.last().map_or_else(String::new, ToString::to_string))
    };
    match shown(images) {
        Ok(image) => format!("[{image}]"),
        Err(why) => format!("[image, {}; it is not shown: {why}]", line(mime_type)),
    }
}

/// Four letters of base64 are three bytes.
fn described(kind: &str, mime_type: &str, base64: &str) -> String {
    format!("[{kind}, {}, {} bytes; it cannot be shown here]", line(mime_type), base64.len() / 4 * 3)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use longhaul_core::limits::OUTPUT_INLINE_BYTES_MAX;
    use serde_json::json;

    use super::*;

    #[derive(Default)]
    struct Kept(Mutex<Vec<Vec<u8>>>);

    impl Blobs for Kept {
        fn keep(&self, bytes: &[u8]) -> Result<String, String> {
            self.0.lock().unwrap().push(bytes.to_vec());
            Ok("hash".to_owned())
        }

        fn fetch(&self, _hash: &str) -> Result<Vec<u8>, String> {
            Err("not asked for".to_owned())
        }
    }

    async fn check(result: Value, expected: &str) {
        let result: CallToolResult = serde_json::from_value(result).unwrap();
        let outcome = outcome(result, &["sk-own-header".to_owned()], Arc::new(Kept::default())).await;
        assert_eq!(outcome.for_model().as_str(), expected);
    }

    #[tokio::test]
    async fn every_kind_of_content_becomes_text() {
        let text = |text: &str| json!({ "type": "text", "text": text });
        check(json!({ "content": [text("a"), text("b")] }), "a\nb").await;
        check(json!({ "content": [] }), "(no output)").await;
        check(
            json!({ "content": [text("no such file")], "isError": true }),
            "error (tool): no such file\nno such file",
        )
        .await;
        check(json!({ "content": [], "structuredContent": { "b": 1 } }), r#"{"b":1}"#).await;
        check(
            json!({ "content": [text(r#"{ "b": 1 }"#)], "structuredContent": { "b": 1 } }),
            r#"{ "b": 1 }"#,
        )
        .await;
        check(json!({ "content": [text("my header is sk-own-header")] }), "my header is [secret]").await;
        check(
            json!({ "content": [{ "type": "image", "mimeType": "image/png", "data": "AAAAAAAA" }] }),
            "[image, image/png; it is not shown: it is none of the images that can be shown: PNG, JPEG, GIF, WebP]",
        )
        .await;
        check(
            json!({ "content": [{ "type": "resource", "resource": { "uri": "x://1", "text": "body" } }] }),
            "[x://1]\nbody",
        )
        .await;
        check(
            json!({ "content": [{ "type": "resource_link", "uri": "x://1", "name": "one" }] }),
            "[resource one at x://1]",
        )
        .await;
    }

    /// D6.1: an image is kept and named, whatever the server calls it; of many only the first are.
    #[tokio::test]
    async fn images_are_shown() {
        let gif = STANDARD.encode(b"GIF89a\x0a\0\x14\0\0\0\0;");
        let image = json!({ "type": "image", "mimeType": "image/png", "data": gif });
        let embedded = json!({ "type": "resource", "resource":
            { "uri": "x://1", "mimeType": "image/gif", "blob": gif } });
        let bad = json!({ "type": "image", "mimeType": "image/png", "data": "not base64!" });
        let result = json!({ "content": [image, embedded, bad, image, image, image, image] });
        let kept = Arc::new(Kept::default());
        let outcome = outcome(serde_json::from_value(result).unwrap(), &[], kept.clone()).await;
        let text = outcome.for_model();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "[image/gif, 10×20, 14 bytes]");
        assert_eq!(lines[1], "[x://1] [image/gif, 10×20, 14 bytes]");
        assert!(lines[2].starts_with("[image, image/png; it is not shown: it is no base64: "), "{text}");
        assert_eq!(lines[6], "[image, image/png; it is not shown: no more than 5 are shown of one result]");
        assert_eq!((outcome.images().len(), kept.0.lock().unwrap().len()), (5, 5));
        assert_eq!(outcome.images()[0].media_type, "image/gif");
    }

    #[tokio::test]
    async fn a_long_answer_is_cut_and_kept_whole() {
        let long = format!("start {} end", "x".repeat(3 * OUTPUT_INLINE_BYTES_MAX));
        let result = json!({ "content": [{ "type": "text", "text": long }] });
        let kept = Arc::new(Kept::default());
        let outcome = outcome(serde_json::from_value(result).unwrap(), &[], kept.clone()).await;
        let Outcome::Done { output } = outcome else { panic!("{outcome:?}") };
        assert!(output.text.len() <= OUTPUT_INLINE_BYTES_MAX);
        assert!(output.text.as_str().starts_with("start x") && output.text.as_str().ends_with("x end"));
        assert_eq!((output.blob.as_deref(), output.bytes), (Some("hash"), long.len() as u64));
        assert_eq!(*kept.0.lock().unwrap(), [long.into_bytes()]);
    }
}
