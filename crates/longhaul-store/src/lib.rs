//! Durable memory: what longhaul remembers and proves that it remembers.
//!
//! Each run has one append-only journal with one writer. `Store` is the contract; the `Engine` keeps it in one file
//! for each run, `Sqlite` is the fallback when that cannot be used, and `Memory` forgets on exit. `Home` is the state
//! directory that chooses between them, and `Catalog` is an index over all runs that can be deleted at any time.
//! This crate knows nothing of what events mean: core encodes and decodes them.

pub mod catalog;
pub mod engine;
mod error;
pub mod home;
mod journal;
pub mod limits;
mod memory;
mod process;
mod query;
mod sqlite;

pub use catalog::Catalog;
pub use engine::Engine;
pub use error::Error;
pub use home::Home;
pub use journal::{
    Ack, Backend, Entry, Footprint, Holder, Journal, Posted, Reader, Record, Space, Store, Visit, Writer,
};
pub use memory::Memory;
pub use process::host;
pub use query::Answer;
pub use sqlite::Sqlite;
