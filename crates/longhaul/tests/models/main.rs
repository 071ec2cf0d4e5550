//! The built program and a model behind a network: the fake provider plays every part, good and bad, and the program is
//! met as a user meets it. What one protocol's bytes look like is tested in `longhaul-model`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod choice;
mod contract;
mod fallback;
mod images;
mod loops;
mod mistakes;
mod odd;
mod outages;
mod rate_limit;
mod recording;
mod retried;
mod rig;
mod secrets;
mod uncounted;
mod unpriced;
