//! One call of a tool, from the asking to the end.

use serde::{Deserialize, Serialize};

use super::first_iteration;
use crate::event::Rest;
use crate::ids::{Attempt, CallId};
use crate::json::Json;
use crate::spec::RunSpec;
use crate::text::Text;
use crate::time::Timestamp;
use crate::tool::{EffectClass, Outcome, Trace};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    pub id: CallId,
    pub step: u32,
    #[serde(default = "first_iteration")]
    pub iteration: u32,
    pub turn: u32,
    pub tool: Text,
    pub args: Json,
    pub asked_at: Timestamp,
    /// Why its arguments cannot be read, if they cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
    /// A person has given leave for exactly this call.
    #[serde(default)]
    pub granted: bool,
    /// The attempt that comes next while none is under way.
    #[serde(default = "Attempt::first")]
    pub next: Attempt,
    /// How often it failed and was to be tried again. Attempts also count what crashes cut short.
    #[serde(default)]
    pub failures: u32,
    pub state: CallState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum CallState {
    /// Asked for by the model; nothing has begun.
    Proposed,
    /// A person is asked, at that gate.
    Asking {
        gate: u32,
    },
    /// Its intent is on disk. It may be under way, or its process may have died.
    Started {
        attempt: Attempt,
        class: EffectClass,
        #[serde(default)]
        traces: Vec<Trace>,
    },
    Resting {
        attempt: Attempt,
        rest: Rest,
        message: String,
    },
    Ended {
        attempt: Attempt,
        outcome: Outcome,
        duration_us: u64,
    },
}

impl Call {
    /// The same in a run that somebody took in: nobody has given leave for it there, and only what is known there to do no harm
    /// a second time is done a second time.
    #[must_use]
    pub(crate) fn taken_in(mut self, spec: &RunSpec) -> Call {
        if self.has_ended() {
            return self;
        }
        self.granted = false;
        if let CallState::Started { class, .. } = &mut self.state {
            let grant = spec.tools.iter().find(|grant| self.tool == grant.name.as_str());
            *class = grant.map_or(EffectClass::Once, |grant| grant.class);
        }
        self
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.state, CallState::Ended { .. })
    }

    /// The attempt last begun; the first if none was.
    pub fn attempt(&self) -> Attempt {
        match &self.state {
            CallState::Proposed | CallState::Asking { .. } => Attempt::FIRST,
            CallState::Started { attempt, .. }
            | CallState::Resting { attempt, .. }
            | CallState::Ended { attempt, .. } => *attempt,
        }
    }

    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.state {
            CallState::Ended { outcome, .. } => Some(outcome),
            CallState::Proposed
            | CallState::Asking { .. }
            | CallState::Started { .. }
            | CallState::Resting { .. } => None,
        }
    }

    /// How long the call took, in milliseconds; always more than nothing.
    pub fn duration_ms(&self) -> Option<f64> {
        match &self.state {
            CallState::Ended { duration_us, .. } => Some((*duration_us).max(1) as f64 / 1000.0),
            CallState::Proposed
            | CallState::Asking { .. }
            | CallState::Started { .. }
            | CallState::Resting { .. } => None,
        }
    }

    /// Is something under way that changes nothing?
    pub fn is_repeatable(&self) -> bool {
        matches!(self.state, CallState::Started { class: EffectClass::Repeatable, .. })
    }

    pub fn traces(&self) -> &[Trace] {
        match &self.state {
            CallState::Started { traces, .. } => traces,
            CallState::Proposed
            | CallState::Asking { .. }
            | CallState::Resting { .. }
            | CallState::Ended { .. } => &[],
        }
    }
}
