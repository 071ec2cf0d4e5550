//! Waiting before the next try, across restarts and whatever the clock does.

use minicbor::{Decode, Encode};

use crate::time::Timestamp;

/// A wait before the next try. Both ends are kept: the moment for restarts, the length because clocks jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rest {
    #[n(0)]
    pub until: Timestamp,
    #[n(1)]
    pub delay_ms: u64,
}

impl Rest {
    pub fn from(at: Timestamp, delay_ms: u64) -> Rest {
        Rest { until: at.plus_millis(delay_ms), delay_ms }
    }

    /// What is left of the wait at `now`: never negative, and never longer than was decided, wherever the clock went.
    pub fn left_ms(&self, now: Timestamp) -> u64 {
        self.until.millis_since(now).min(self.delay_ms)
    }
}
