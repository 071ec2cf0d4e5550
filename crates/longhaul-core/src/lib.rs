//! Every decision longhaul makes, as pure functions over runs.
//!
//! A run is the fold of its events ([`run::Run`]). What arrives is an [`input::Input`]; [`decide::decide`] answers with
//! events to remember and effects to perform. There is no IO here, no clock, no randomness and nothing to await:
//! time and ids come in with the input, so that the same inputs always give the same run.

pub mod budget;
pub mod child;
pub mod codec;
pub mod collaboration;
pub mod command;
pub mod conduct;
pub mod context;
pub mod conversation;
pub mod decide;
pub mod document;
pub mod effect;
pub mod event;
pub mod evidence;
pub mod fields;
pub mod handoff;
pub mod ids;
pub mod input;
pub mod json;
pub mod limits;
pub mod money;
pub mod novelty;
pub mod overnight;
pub mod permission;
pub mod plan;
pub mod policy;
pub mod promise;
pub mod prompt;
pub mod repetition;
pub mod report;
pub mod run;
pub mod secret;
pub mod spec;
pub mod status;
pub mod suggest;
pub mod tasks;
pub mod text;
pub mod time;
pub mod tool;
pub mod trace;
mod upgrade;
pub mod view;
