//! The terminal, as a user meets it: wiring, wording, fields and exit codes. Behaviour is tested further down.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]
#![expect(clippy::print_stdout, reason = "what is skipped must be seen")]

mod agents;
mod checkout;
mod checkpoints;
mod crew;
mod crew_night;
mod crew_ways;
mod demo;
mod desk;
mod documents;
mod evidence;
mod fake_model;
mod git;
mod handoff;
mod hooks;
mod landing;
mod leavings;
mod lifecycle;
mod limits;
mod looking;
mod loops;
mod mcp;
mod notify;
mod older_journals;
mod outage;
mod overnight;
mod parallel;
mod permissions;
mod programs;
mod pushing;
mod repositories;
mod research;
mod retention;
mod rewind;
mod sessions;
mod sources;
mod states;
mod store;
mod tasks;
mod terminal;
mod tools;
mod trust;
mod unsaved;
mod users_own;
mod words;
mod workspaces;
