//! Which letters the bytes of a page are, going by what its server says of them.
//!
//! Owns UTF-8 and the one table of letters that old pages of the West are written in. Refuses to guess: of any other the reader is told.

use longhaul_core::prompt::head;

use crate::limits;

/// What a server says that its bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Charset {
    Utf8,
    /// Also called Latin-1 and ASCII, of which it is the larger: browsers read all three so.
    Windows1252,
    /// Read as UTF-8, for want of its letters.
    Unknown(String),
}

impl Charset {
    /// From a header like `text/html; charset="utf-8"`. One that says nothing means UTF-8.
    pub(crate) fn of(content_type: &str) -> Charset {
        let said = content_type.split(';').skip(1).find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']))
        });
        let name = said.unwrap_or_default().trim().to_ascii_lowercase();
        match name.as_str() {
            "" | "utf-8" | "utf8" => Charset::Utf8,
            "windows-1252" | "cp1252" | "x-cp1252" | "iso-8859-1" | "iso8859-1" | "iso_8859-1" | "latin1"
            | "latin-1" | "l1" | "us-ascii" | "ascii" => Charset::Windows1252,
            other => Charset::Unknown(head(other, limits::CHARSET_BYTES_MAX).to_owned()),
        }
    }

    /// The text. Bytes that are no letters become `\u{fffd}`.
    pub(crate) fn text(&self, bytes: &[u8]) -> String {
        match self {
            Charset::Utf8 | Charset::Unknown(_) => String::from_utf8_lossy(bytes).into_owned(),
            // Servers that send UTF-8 often say so of it. Other letters are hardly ever UTF-8 by chance.
            Charset::Windows1252 => as_utf8(bytes).map_or_else(
                || bytes.iter().map(|byte| windows_1252(*byte)).collect(),
                |text| text.trim_start_matches('\u{feff}').to_owned(),
            ),
        }
    }
}

/// The text, if these bytes are UTF-8, but for a letter that is cut off at the end of others that are.
fn as_utf8(bytes: &[u8]) -> Option<&str> {
    match str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => {
            let whole = str::from_utf8(&bytes[..error.valid_up_to()]).ok()?;
            (!whole.is_ascii()).then_some(whole)
        }
        Err(_) => None,
    }
}

/// Latin-1, but for the row of control characters that nobody used.
fn windows_1252(byte: u8) -> char {
    const ROW: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž',
        '\u{8f}', //
        '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => ROW[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A42: the letters are those that the server says, however it writes their name.
    #[test]
    fn a_charset_is_known_by_its_names() {
        for said in [
            "text/html",
            "text/html; charset=",
            "text/html;charset=\"UTF-8\"",
            "text/plain; a=b; Charset = utf8",
        ] {
            assert_eq!(Charset::of(said), Charset::Utf8, "{said}");
        }
        for name in ["ISO-8859-1", "'iso-8859-1'", "windows-1252", "us-ascii", "latin1"] {
            assert_eq!(Charset::of(&format!("text/html; charset={name}")), Charset::Windows1252, "{name}");
        }
        assert_eq!(Charset::of("text/html; charset=KOI8-R"), Charset::Unknown("koi8-r".to_owned()));
        let Charset::Unknown(name) = Charset::of(&format!("a/b; charset={}", "x".repeat(1000))) else {
            panic!()
        };
        assert_eq!(name.len(), limits::CHARSET_BYTES_MAX);
    }

    /// A42: every byte of the old Western table is its letter; of others, what is no UTF-8 shows that it is none.
    #[test]
    fn bytes_become_letters() {
        let text = Charset::Windows1252.text(b"caf\xe9 \x80 \x93x\x94 \x9f \xa0\xff a");
        assert_eq!(text, "café € “x” Ÿ \u{a0}ÿ a");
        let every: Vec<u8> = (0..=255).collect();
        let letters: std::collections::BTreeSet<char> = Charset::Windows1252.text(&every).chars().collect();
        assert_eq!(letters.len(), 256, "no two bytes are one letter");
        assert_eq!(Charset::Utf8.text(b"caf\xc3\xa9 \xe9"), "café \u{fffd}");
        assert_eq!(Charset::Windows1252.text(b"\xef\xbb\xbfcaf\xc3\xa9"), "café", "it only says so");
        assert_eq!(Charset::Windows1252.text(b"\xc3\xa9t\xc3"), "ét", "and is cut off");
        assert_eq!(Charset::Windows1252.text(b"caf\xc3"), "cafÃ");
        assert_eq!(Charset::Unknown("koi8-r".to_owned()).text(b"\xc1"), "\u{fffd}");
    }
}
