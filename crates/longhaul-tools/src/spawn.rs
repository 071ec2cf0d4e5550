//! Giving an errand to another agent.
//!
//! Owns only what the model is told about it. The errand itself is the run's: a run of its own, durable like any other, whose
//! answer becomes the call's result without this tool ever running.

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Outcome, SPAWN, Trace};
use serde_json::json;

use crate::tool::{BoxFuture, Context, Tool, ToolSpec};

pub struct Spawn {
    spec: ToolSpec,
}

impl Spawn {
    pub fn new() -> Spawn {
        let description = "Gives an errand to another agent, which works in the same directory with a fresh conversation and \
                           answers once. It knows nothing of this conversation: say everything it needs. Several calls in one \
                           turn run at the same time; give each its own files. It may do no more than you may.";
        let schema = json!({
            "type": "object",
            "properties": {
                "agent": { "type": "string", "description": "The agent's name" },
                "task": { "type": "string", "description": "What it is to do, and what it should answer" },
            },
            "required": ["agent", "task"],
            "additionalProperties": false,
        });
        // Found again by its name, whatever happens: started once.
        let class = EffectClass::Checkable;
        Spawn {
            spec: ToolSpec { name: SPAWN.to_owned(), description: description.to_owned(), class, schema },
        }
    }
}

impl Default for Spawn {
    fn default() -> Spawn {
        Spawn::new()
    }
}

impl Tool for Spawn {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, _: &'a Context, _: &'a Json, _: &'a [Trace]) -> BoxFuture<'a, Outcome> {
        let message = "an errand is a run of its own, not the work of this tool";
        Box::pin(std::future::ready(Outcome::failed(Failure::Tool, message)))
    }
}
