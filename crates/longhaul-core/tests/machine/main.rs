//! The machine by itself: no disk, no model, no clock; a sequence of inputs goes in and a run comes out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]
#![expect(clippy::wildcard_enum_match_arm, reason = "a test picks out what it looks for")]

mod asks;
mod calls;
mod circles;
mod crew;
mod documents;
mod errands;
mod gates;
mod golden;
mod held;
mod hooks;
mod keeping;
mod lifecycle;
mod limits;
mod lives;
mod loops;
mod patience;
mod properties;
mod recovery;
mod replans;
mod room;
mod shares;
mod sim;
mod spending;
mod telling;
