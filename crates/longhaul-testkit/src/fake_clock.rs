//! A clock that belongs to the test: it moves by itself a little with every look, and jumps over every wait.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use longhaul_core::time::Timestamp;
use longhaul_engine::clock::Clock;

/// Time in which every look takes a millisecond and every wait is over at once.
pub struct FakeClock {
    now_ms: AtomicI64,
    slept_ms: AtomicU64,
}

impl FakeClock {
    pub fn at(start: Timestamp) -> FakeClock {
        FakeClock { now_ms: AtomicI64::new(start.as_millis()), slept_ms: AtomicU64::new(0) }
    }

    /// Moves the clock, backwards too.
    pub fn jump(&self, by_ms: i64) {
        self.now_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// How long was waited in all, by this clock.
    pub fn slept_ms(&self) -> u64 {
        self.slept_ms.load(Ordering::Relaxed)
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now_ms.fetch_add(1, Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.slept_ms.fetch_add(ms, Ordering::Relaxed);
        self.jump(i64::try_from(ms).unwrap_or(i64::MAX));
        Box::pin(tokio::task::yield_now())
    }
}
