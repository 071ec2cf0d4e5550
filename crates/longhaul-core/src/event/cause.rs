//! Why a status changed, told apart as far as scripts may want to tell it.

use minicbor::{Decode, Encode};

/// Why a status changed; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, serde::Serialize, serde::Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    #[n(0)]
    Asked,
    #[n(1)]
    Finished,
    #[n(2)]
    Limit,
    #[n(3)]
    DiskFull,
    #[n(4)]
    Rejected,
    #[n(5)]
    Provider,
    #[n(6)]
    Error,
    /// Only a person can help: a key, an account, a model's name, a conversation that no longer fits.
    #[n(7)]
    Parked,
    /// The agent came to a stop by itself, for want of progress or of an answer that could be used: nobody but it is at fault.
    #[n(8)]
    Stuck,
}
