//! What an image is, from its first bytes, and whether a model can be shown it.
//!
//! Owns the headers of the common formats, and what is kept of an image that is shown. Refuses to decode anything.

use std::fmt;

use longhaul_core::tool;

use crate::limits;
use crate::tool::Blobs;

/// An image as one would name it: `a PNG image of 640 × 480 pixels`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Image {
    format: &'static str,
    size: Option<(u32, u32)>,
}

impl fmt::Display for Image {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let article = if self.format.starts_with(['A', 'I']) { "an" } else { "a" };
        write!(out, "{article} {} image", self.format)?;
        self.size.map_or(Ok(()), |(width, height)| write!(out, " of {width} × {height} pixels"))
    }
}

/// What begins with these bytes, if it is an image.
pub(crate) fn recognise(start: &[u8]) -> Option<Image> {
    let image = |format, size| Some(Image { format, size });
    if start.starts_with(b"\x89PNG\r\n\x1a\n") {
        return image("PNG", pair(start, 16, big32, 4));
    }
    if start.starts_with(b"GIF87a") || start.starts_with(b"GIF89a") {
        return image("GIF", pair(start, 6, little16, 2));
    }
    if start.starts_with(b"\xff\xd8\xff") {
        return image("JPEG", jpeg_size(start));
    }
    if start.starts_with(b"RIFF") && start.get(8..12) == Some(b"WEBP") {
        return image("WebP", webp_size(start));
    }
    if start.starts_with(b"BM") && start.get(6..10) == Some(&[0; 4]) {
        return image("BMP", pair(start, 18, little32, 4));
    }
    if start.get(4..12) == Some(b"ftypavif") {
        return image("AVIF", None);
    }
    None
}

/// Keeps an image as a blob that a model can be shown, or says why it cannot. `bytes` is how long it is, of which `content`
/// may be the start only.
pub(crate) fn kept(content: &[u8], bytes: u64, blobs: &dyn Blobs) -> Result<tool::Image, String> {
    let Some(image) = recognise(content) else {
        return Err("it is none of the images that can be shown: PNG, JPEG, GIF, WebP".to_owned());
    };
    let media_type = image
        .media_type()
        .ok_or_else(|| format!("it is {image}, which models do not take; turn it into a PNG"))?;
    if bytes > limits::IMAGE_BYTES_MAX {
        return Err(format!(
            "it is {image} of {bytes} bytes, and {} are the most that can be shown; {SMALLER}",
            limits::IMAGE_BYTES_MAX
        ));
    }
    let size = image.size.filter(|(width, height)| *width > 0 && *height > 0);
    let Some((width, height)) = size.filter(|_| is_whole(content)) else {
        return Err(format!(
            "it is {image} that is damaged or cut off; make it anew, or look with bash: file"
        ));
    };
    if width.max(height) > limits::IMAGE_SIDE_MAX {
        let most = limits::IMAGE_SIDE_MAX;
        return Err(format!("it is {image}, and {most} to a side are the most that can be shown; {SMALLER}"));
    }
    let blob = blobs.keep(content).map_err(|error| format!("it could not be kept: {error}"))?;
    Ok(tool::Image { blob, media_type: media_type.to_owned(), width, height, bytes })
}

const SMALLER: &str = "make it smaller first, with bash for example: convert IN -resize 1600x1600 OUT.png";

impl Image {
    /// `None` of what models are not shown.
    fn media_type(&self) -> Option<&'static str> {
        match self.format {
            "PNG" => Some("image/png"),
            "JPEG" => Some("image/jpeg"),
            "GIF" => Some("image/gif"),
            "WebP" => Some("image/webp"),
            _ => None,
        }
    }
}

/// Is its end there? Services refuse a whole request for an image that stops in the middle.
fn is_whole(bytes: &[u8]) -> bool {
    match recognise(bytes).map(|image| image.format) {
        Some("PNG") => png_ends(bytes),
        Some("JPEG") => jpeg_ends(bytes),
        Some("GIF") => bytes.iter().rev().find(|byte| **byte != 0) == Some(&b';'),
        Some("WebP") => little32(bytes, 4).is_some_and(|rest| bytes.len() as u64 >= u64::from(rest) + 8),
        _ => false,
    }
}

/// From chunk to chunk until the last. Each is at least twelve bytes long, so this ends.
fn png_ends(bytes: &[u8]) -> bool {
    let mut at = 8;
    while let (Some(length), Some(kind)) = (big32(bytes, at), taken::<4>(bytes, at + 4)) {
        at += 12 + length as usize;
        if &kind == b"IEND" {
            return at <= bytes.len();
        }
    }
    false
}

/// Cameras put more behind the end of an image, so it is looked for in the last half; in what comes before it only the small
/// image in the header could have one.
fn jpeg_ends(bytes: &[u8]) -> bool {
    bytes[bytes.len() / 2..].windows(2).any(|place| place == [0xff, 0xd9])
}

type Number = fn(&[u8], usize) -> Option<u32>;

fn pair(bytes: &[u8], at: usize, number: Number, width: usize) -> Option<(u32, u32)> {
    Some((number(bytes, at)?, number(bytes, at + width)?))
}

fn taken<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn big32(bytes: &[u8], at: usize) -> Option<u32> {
    taken(bytes, at).map(u32::from_be_bytes)
}

fn little32(bytes: &[u8], at: usize) -> Option<u32> {
    taken(bytes, at).map(u32::from_le_bytes)
}

fn big16(bytes: &[u8], at: usize) -> Option<u32> {
    taken(bytes, at).map(u16::from_be_bytes).map(u32::from)
}

fn little16(bytes: &[u8], at: usize) -> Option<u32> {
    taken(bytes, at).map(u16::from_le_bytes).map(u32::from)
}

/// From segment to segment until the one that begins the frame. Each is at least two bytes long, so this ends.
fn jpeg_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        let [0xff, marker] = taken(bytes, at)? else { return None };
        // 0xC4, 0xC8 and 0xCC are tables, not frames.
        if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
            return pair(bytes, at + 5, big16, 2).map(|(height, width)| (width, height));
        }
        at += 2 + usize::try_from(big16(bytes, at + 2)?.max(2)).ok()?;
    }
}

fn webp_size(bytes: &[u8]) -> Option<(u32, u32)> {
    match &taken::<4>(bytes, 12)? {
        b"VP8 " => pair(bytes, 26, little16, 2).map(|(width, height)| (width & 0x3fff, height & 0x3fff)),
        b"VP8L" => little32(bytes, 21).map(|bits| ((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1)),
        b"VP8X" => {
            let side = |at| Some((little32(bytes, at)? & 0x00ff_ffff) + 1);
            Some((side(24)?, side(27)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nowhere;

    impl Blobs for Nowhere {
        fn keep(&self, _bytes: &[u8]) -> Result<String, String> {
            Ok("hash".to_owned())
        }

        fn fetch(&self, _hash: &str) -> Result<Vec<u8>, String> {
            Err("not asked for".to_owned())
        }
    }

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend([width.to_be_bytes(), height.to_be_bytes()].concat());
        bytes.extend(b"\x08\x02\0\0\0crc!\0\0\0\0IENDcrc!");
        bytes
    }

    /// D6.1: what models take is kept and named; what they would refuse is refused here, with the reason.
    #[test]
    fn only_what_can_be_shown_is_kept() {
        let whole = png(640, 480);
        let kept_as = |bytes: &[u8], length| kept(bytes, length, &Nowhere).map(|image| image.to_string());
        let check = |bytes: &[u8], expected: &str| {
            let said = kept_as(bytes, bytes.len() as u64).unwrap_or_else(|why| why);
            assert!(said.starts_with(expected), "{said}");
        };
        check(&whole, "image/png, 640×480, 45 bytes");
        for end in 8..whole.len() {
            check(&whole[..end], "it is a PNG image");
            assert!(kept_as(&whole[..end], end as u64).is_err(), "cut off at {end}");
        }
        check(&png(0, 480), "it is a PNG image of 0 × 480 pixels that is damaged");
        check(&png(8_001, 1), "it is a PNG image of 8001 × 1 pixels, and 8000 to a side are");
        check(b"GIF89a\x0a\0\x14\0\0\0\0;", "image/gif, 10×20, 14 bytes");
        check(b"GIF89a\x0a\0\x14\0", "it is a GIF image of 10 × 20 pixels that is damaged");
        check(b"\0\0\0\x1cftypavif", "it is an AVIF image, which models do not take");
        check(b"<svg></svg>", "it is none of the images");
        let long = kept_as(&whole[..24], 50_000_000).unwrap_err();
        assert!(long.contains("of 50000000 bytes, and 3750000 are the most"), "{long}");
    }

    /// D6.1: an image is told by its header, whole or cut off.
    #[test]
    fn headers_are_recognised() {
        let cases: [(&[u8], &str); 6] = [
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0", "a PNG image of 640 × 480 pixels"),
            (b"\x89PNG\r\n\x1a\n", "a PNG image"),
            (b"GIF89a\x0a\0\x14\0", "a GIF image of 10 × 20 pixels"),
            (
                b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08\x01\xe0\x02\x80",
                "a JPEG image of 640 × 480 pixels",
            ),
            (b"\xff\xd8\xff\xe0\0\0", "a JPEG image"),
            (
                b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x7f\x02\0\xdf\x01\0\0",
                "a WebP image of 640 × 480 pixels",
            ),
        ];
        for (bytes, expected) in cases {
            assert_eq!(recognise(bytes).unwrap().to_string(), expected);
        }
        assert_eq!(recognise(b"plain text"), None);
        assert_eq!(recognise(b""), None);
    }
}
