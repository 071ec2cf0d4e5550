//! Money, in whole billionths of a dollar so that sums over a million calls stay exact.

use std::fmt;
use std::iter::Sum;
use std::ops::AddAssign;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An amount of US dollars. Shown and exchanged in dollars, counted in billionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Usd(#[n(0)] u64);

impl Usd {
    pub const ZERO: Usd = Usd(0);

    pub fn from_nanos(nanos: u64) -> Usd {
        Usd(nanos)
    }

    pub fn as_nanos(self) -> u64 {
        self.0
    }

    /// Reads an amount a person typed; refuses what is not a finite amount of at least zero.
    pub fn from_dollars(dollars: f64) -> Option<Usd> {
        let nanos = (dollars * 1e9).round();
        (0.0..=9.0e18).contains(&nanos).then_some(Usd(nanos as u64))
    }

    pub fn as_dollars(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// What is left of it once `spent` is taken away; never less than nothing.
    #[must_use]
    pub fn less(self, spent: Usd) -> Usd {
        Usd(self.0.saturating_sub(spent.0))
    }

    /// One of `parts` equal parts.
    #[must_use]
    pub fn share(self, parts: u64) -> Usd {
        Usd(self.0 / parts.max(1))
    }

    /// The price of `tokens` at this amount for each million of them.
    #[must_use]
    pub fn per_million(self, tokens: u64) -> Usd {
        let nanos = u128::from(self.0) * u128::from(tokens) / 1_000_000;
        Usd(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Usd) {
        self.0 = self.0.saturating_add(other.0);
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Usd>>(amounts: I) -> Usd {
        amounts.fold(Usd::ZERO, |mut total, amount| {
            total += amount;
            total
        })
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Usd, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        Usd::from_dollars(dollars)
            .ok_or_else(|| serde::de::Error::custom(format!("{dollars} is not an amount of dollars")))
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.4}", self.as_dollars())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_exact_and_never_overflow() {
        let price = Usd::from_dollars(3.0).unwrap();
        assert_eq!(price.per_million(1200), Usd(3_600_000));
        assert_eq!(Usd(u64::MAX).per_million(u64::MAX), Usd(u64::MAX));
        for bad in [-0.01, f64::NAN, f64::INFINITY, 1e30] {
            assert_eq!(Usd::from_dollars(bad), None);
        }
    }
}
