//! Durations as people type them: `90s`, `30m`, `2h`, `1d`, `500ms`.

use std::time::Duration;

use crate::limits::DURATION_MS_MAX;

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Whole numbers with a unit, one after the other: `1h30m`. More than nothing, and at most a year.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration; give one like `90s`, `30m` or `1h30m`");
    let mut rest = text.trim();
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = &rest[digits..digits + letters];
        let (_, ms) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        total = number.checked_mul(*ms).and_then(|ms| total.checked_add(ms)).ok_or_else(wrong)?;
        rest = &rest[digits + letters..];
    }
    if (1..=DURATION_MS_MAX).contains(&total) { Ok(Duration::from_millis(total)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::{Duration, parse};

    #[test]
    fn durations_are_numbers_with_units() {
        let ms = |text: &str| parse(text).map(|time| time.as_millis());
        assert_eq!(ms("500ms"), Ok(500));
        assert_eq!(ms("90s"), Ok(90_000));
        assert_eq!(ms("1h30m"), Ok(5_400_000));
        assert_eq!(parse("2d"), Ok(Duration::from_secs(172_800)));
        for bad in ["", "0s", "5", "-5s", "5x", "1.5h", "99999999999999999999s", "400d", "s"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
