//! Sizes as people type them: `500MB`, `2GB`, `64KiB`.

const UNITS: [(&str, u64); 8] = [
    ("B", 1),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// A whole number with a unit.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size; give one like `500MB` or `2GB`");
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit = text[digits..].trim_start();
    let (_, bytes) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or_else(wrong)?;
    number.checked_mul(*bytes).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes_are_numbers_with_units() {
        assert_eq!(parse("500MB"), Ok(500_000_000));
        assert_eq!(parse(" 2 gb"), Ok(2_000_000_000));
        assert_eq!(parse("64KiB"), Ok(65_536));
        assert_eq!(parse("0B"), Ok(0));
        for bad in ["", "5", "MB", "-1GB", "1.5GB", "5XB", "99999999999TB", "5 M B"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
