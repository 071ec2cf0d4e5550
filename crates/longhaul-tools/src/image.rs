//! What an image is, from its first bytes.
//!
//! Owns the headers of the common formats. Refuses to decode anything.

use std::fmt;

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
