//! The directory an agent works in, and how it is reached safely.
//!
//! Owns the disk side of a workspace: opening files so that no path leads out (`files`), replacing them so that a
//! crash leaves the old or the new bytes and nothing between (`files`), listing directories without
//! ever following a link (`directory`), making the directory itself (`place`), how git is started (`git`), what stands in a checkout
//! (`checkout`), how the files of a workspace are kept and brought back (`checkpoints`), with what is staged there (`staged`), and forgotten (`prune`), and how a run's work is kept (`commit`),
//! brought to the user (`landing`) and joined with that of others (`joining`). What killed gits of agents leave is cleared (`abandoned`).
//! Refuses to decide anything: which path may be written, and when, is asked elsewhere.

pub mod abandoned;
mod activity;
mod alone;
mod apart;
mod beneath;
pub mod carry;
pub mod checkout;
pub mod checkpoints;
pub mod commit;
mod directory;
mod files;
pub mod git;
pub mod gitdirs;
pub mod homing;
pub mod index_lock;
pub mod joining;
pub mod keys;
pub mod landing;
mod large_files;
pub mod lending;
pub mod limits;
mod mending;
mod moving;
mod naming;
pub mod place;
pub mod process;
pub mod prune;
pub mod session;
pub mod source;
mod stage;
pub mod staged;
mod stale;
mod worktree;

pub use directory::{Directory, Entry, EntryKind, Facts};
pub use files::{
    ABSENT, Error, Guard, Kind, Metadata, STATE_DIRECTORY, STATE_MARK, Workspace, digest_of,
    is_state_directory,
};
