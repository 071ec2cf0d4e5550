//! Moments, as milliseconds since 1970 in UTC. Core never asks for the time: it arrives with the input.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Timestamp(#[n(0)] i64);

const DAY_MS: i64 = 86_400_000;
/// The first and last moment RFC 3339 can write with four digits of year.
const FIRST_MS: i64 = -62_167_219_200_000;
const LAST_MS: i64 = 253_402_300_799_999;

impl Timestamp {
    pub fn from_millis(millis: i64) -> Timestamp {
        Timestamp(millis.clamp(FIRST_MS, LAST_MS))
    }

    pub fn as_millis(self) -> i64 {
        self.0
    }

    #[must_use]
    pub fn plus_millis(self, millis: u64) -> Timestamp {
        Timestamp::from_millis(self.0.saturating_add(i64::try_from(millis).unwrap_or(i64::MAX)))
    }

    /// How long from `earlier` to here; zero if the clock went backwards in between.
    pub fn millis_since(self, earlier: Timestamp) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }

    /// Reads RFC 3339 in UTC (`2026-02-20T10:00:00Z`, with up to nine digits of fraction).
    pub fn parse(text: &str) -> Option<Timestamp> {
        let bytes = text.as_bytes();
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = bytes.get(from..to)?;
            digits.iter().try_fold(0i64, |value, byte| {
                byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
            })
        };
        let punctuated = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')]
            .iter()
            .all(|(index, byte)| bytes.get(*index) == Some(byte));
        if !punctuated || bytes.last() != Some(&b'Z') {
            return None;
        }
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let fraction_ms = match bytes.get(19)? {
            b'Z' if bytes.len() == 20 => 0,
            b'.' => {
                let digits =
                    bytes.get(20..bytes.len() - 1).filter(|digits| (1..=9).contains(&digits.len()))?;
                let shown = number(20, 20 + digits.len().min(3))?;
                number(20, 20 + digits.len())?;
                shown * [100, 10, 1][digits.len().min(3) - 1]
            }
            _ => return None,
        };
        let valid = (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        let seconds = ((days_from_civil(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
        valid.then(|| Timestamp(seconds * 1000 + fraction_ms))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.0.div_euclid(DAY_MS));
        let in_day = self.0.rem_euclid(DAY_MS);
        let (hour, minute, second) = (in_day / 3_600_000, in_day / 60_000 % 60, in_day / 1000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        match in_day % 1000 {
            0 => f.write_str("Z"),
            millis => write!(f, ".{millis:03}Z"),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        Timestamp::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format!("`{text}` is not a UTC time such as 2026-02-20T10:00:00Z"))
        })
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01, counting years from March so that the leap day comes last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_written_and_read() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_771_581_600_000, "2026-02-20T10:00:00Z"),
            (951_782_400_001, "2000-02-29T00:00:00.001Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (LAST_MS, "9999-12-31T23:59:59.999Z"),
            (FIRST_MS, "0000-01-01T00:00:00Z"),
        ] {
            assert_eq!(Timestamp(millis).to_string(), text);
            assert_eq!(Timestamp::parse(text), Some(Timestamp(millis)));
        }
    }

    #[test]
    fn what_is_not_a_moment_is_refused() {
        for text in [
            "",
            "Z",
            "2026",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01 00:00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+01:00",
            "२०२६-01-01T00:00:00Z",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text:?} was accepted");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_moment_reads_back(millis in FIRST_MS..=LAST_MS) {
            let moment = Timestamp(millis);
            proptest::prop_assert_eq!(Timestamp::parse(&moment.to_string()), Some(moment));
        }
    }
}
