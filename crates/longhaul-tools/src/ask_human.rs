//! Asking a person.
//!
//! Owns only what the model is told about it. The asking itself is the run's: it waits durably, and the answer becomes the
//! call's result without this tool ever running.

use longhaul_core::json::Json;
use longhaul_core::tool::{ASK_HUMAN, EffectClass, Failure, Outcome, Trace};
use serde_json::json;

use crate::tool::{BoxFuture, Context, Tool, ToolSpec};

pub struct AskHuman {
    spec: ToolSpec,
}

impl AskHuman {
    pub fn new() -> AskHuman {
        let description = "Asks a person a question, or for something only a person can provide (a decision, a credential, \
                           access). The answer may take hours: ask only what you cannot find out or decide yourself, and \
                           everything at once. What you can decide, decide, and put on record as an assumption.";
        AskHuman {
            spec: ToolSpec {
                name: ASK_HUMAN.to_owned(),
                description: description.to_owned(),
                class: EffectClass::Repeatable,
                schema: json!({
                    "type": "object",
                    "properties": { "question": { "type": "string", "description": "What you want to know or need, with what a person must know to answer" },
                        "kind": { "type": "string", "enum": ["question", "need", "assumption"], "description": "question: a judgement only a person can make. need: something only a person can provide; the work stops until it is there. assumption: you decided yourself and it should be on record; nobody is waited for." },
                    },
                    "required": ["question"],
                    "additionalProperties": false,
                }),
            },
        }
    }
}

impl Default for AskHuman {
    fn default() -> AskHuman {
        AskHuman::new()
    }
}

impl Tool for AskHuman {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, _: &'a Context, _: &'a Json, _: &'a [Trace]) -> BoxFuture<'a, Outcome> {
        let message = "a question is answered by a person, not by this tool";
        Box::pin(std::future::ready(Outcome::failed(Failure::Tool, message)))
    }
}
