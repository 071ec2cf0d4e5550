//! Older schemas of the journal, brought up one version at a time. An upgrade is never changed once shipped: it writes what
//! its own version was, not what is written today.

use minicbor::{Decode, Encode};

use crate::ids::{Attempt, CallId};
use crate::tool::{EffectClass, Trace};

/// The kind of `CallStarted`.
const CALL_STARTED: u16 = 11;

/// Version 2: a call has any number of traces, where it had one at most.
pub(crate) fn to_2(kind: u16, payload: &[u8]) -> Result<Option<Vec<u8>>, String> {
    if kind != CALL_STARTED {
        return Ok(None);
    }
    let V1::CallStarted { call, attempt, class, trace } =
        minicbor::decode(payload).map_err(|error| error.to_string())?;
    let event = V2::CallStarted { call, attempt, class, traces: trace.into_iter().collect() };
    minicbor::to_vec(&event).map(Some).map_err(|error| error.to_string())
}

#[derive(Decode)]
enum V1 {
    #[n(11)]
    CallStarted {
        #[n(0)]
        call: CallId,
        #[n(1)]
        attempt: Attempt,
        #[n(2)]
        class: EffectClass,
        #[n(3)]
        trace: Option<Trace>,
    },
}

#[derive(Encode)]
enum V2 {
    #[n(11)]
    CallStarted {
        #[n(0)]
        call: CallId,
        #[n(1)]
        attempt: Attempt,
        #[n(2)]
        class: EffectClass,
        #[n(3)]
        traces: Vec<Trace>,
    },
}
