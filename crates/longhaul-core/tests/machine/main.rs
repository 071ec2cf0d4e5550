//! The machine by itself: no disk, no model, no clock; a sequence of inputs goes in and a run comes out.

mod calls;
mod documents;
mod gates;
mod golden;
mod lifecycle;
mod properties;
mod recovery;
mod sim;
