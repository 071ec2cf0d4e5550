//! Time, and the other thing that cannot be computed: fresh ids. Both are passed in, so that tests own them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use longhaul_core::time::Timestamp;

/// Tells the time and waits. Implemented by [`SystemClock`] and the testkit's fake clock; called by the driver.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;

    /// Waits on a monotonic clock, so that a jump of the wall clock neither stretches nor skips the wait.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A clock set before 1970 reads as 1970: order comes from sequence numbers, not from time.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// 128 bits for an id: 48 of time, so that ids sort by age, and 80 of chance.
pub fn fresh_bits(now: Timestamp) -> Result<u128, getrandom::Error> {
    let mut chance = [0u8; 16];
    getrandom::fill(&mut chance)?;
    let time = u128::from(now.as_millis().unsigned_abs()) & 0xffff_ffff_ffff;
    Ok((time << 80) | (u128::from_le_bytes(chance) >> 48))
}
