//! The terminal, as a user meets it: wiring, wording, fields and exit codes. Behaviour is tested further down.

mod desk;
mod documents;
mod lifecycle;
mod looking;
mod store;
mod tools;
mod words;
