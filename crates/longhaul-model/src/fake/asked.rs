//! A request in no protocol's terms: as much of it as the script's choice depends on. Each protocol's file fills it in.

use longhaul_core::ids::Attempt;
use serde_json::Value;

use crate::scripted::play::{Cue, Stage};
use crate::wire::Api;

use super::{anthropic, chat, responses};

#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) model: String,
    pub(super) system: String,
    pub(super) entries: Vec<Entry>,
    pub(super) tools: Vec<String>,
    pub(super) form: Form,
    /// Whether a stream is to end with a count; only Chat leaves it open.
    pub(super) usage: Usage,
}

/// One thing that was said, in the conversation's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    User(String),
    Assistant,
    Result(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    #[default]
    Plain,
    Stream,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Usage {
    #[default]
    Counted,
    Unasked,
    /// Whatever was asked, nothing is said of it.
    Untold,
}

impl Asked {
    pub(super) fn read(api: Api, body: &Value) -> Asked {
        let read = match api {
            Api::Anthropic => anthropic::asked(body),
            Api::Responses => responses::asked(body),
            Api::Chat => chat::asked(body),
        };
        let stream = body["stream"].as_bool().unwrap_or(false);
        Asked {
            model: body["model"].as_str().unwrap_or("").to_owned(),
            form: if stream { Form::Stream } else { Form::Plain },
            ..read
        }
    }

    /// Adds instructions, wherever in the conversation they stood.
    pub(super) fn instruct(&mut self, text: &str) {
        self.system.push_str(text);
        self.system.push('\n');
    }

    pub(super) fn say(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// The model's turn that is asked for. What it said in one go may be several entries, so what counts is how often
    /// it began to speak.
    pub(super) fn turn(&self) -> u32 {
        let spoke = |at: usize| self.entries[at] == Entry::Assistant;
        let began = (0..self.entries.len()).filter(|&at| spoke(at) && (at == 0 || !spoke(at - 1))).count();
        u32::try_from(began).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// What the user said before the model first spoke: agents send a prompt in several messages.
    pub(super) fn prompt(&self) -> String {
        let before = self.entries.iter().take_while(|entry| **entry != Entry::Assistant);
        let texts: Vec<&str> = before
            .filter_map(|entry| match entry {
                Entry::User(text) => Some(text.as_str()),
                Entry::Assistant | Entry::Result(_) => None,
            })
            .collect();
        texts.join("\n")
    }

    pub(super) fn cue<'a>(&'a self, prompt: &'a str, attempt: Attempt) -> Cue<'a> {
        let after = self.entries.iter().rev().take_while(|entry| **entry != Entry::Assistant);
        let last_results = after.filter_map(|entry| match entry {
            Entry::Result(text) => Some(text.as_str()),
            Entry::User(_) | Entry::Assistant => None,
        });
        Cue {
            stage: Stage::Unknown,
            system: &self.system,
            first_user_text: prompt,
            last_results: last_results.collect(),
            turn: self.turn(),
            attempt,
        }
    }
}

/// A text in any of the forms clients send it: itself, or parts of which some have a text.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(text).collect(),
        Value::Object(part) => part.get("text").and_then(Value::as_str).unwrap_or("").to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// The items of a list; a value that is none has none.
pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The text at a key; empty if there is none.
pub(super) fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same conversation as each protocol carries it gives the same cue.
    #[test]
    fn every_protocol_is_heard_alike() {
        let anthropic = serde_json::json!({"model": "m", "stream": true,
            "system": [{"type": "text", "text": "Be brief."}],
            "tools": [{"name": "read"}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Fix"}, {"type": "text", "text": " it"}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "read", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a",
                    "content": [{"type": "text", "text": "old"}]}]},
                {"role": "assistant", "content": "hm"},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "content": "new"},
                    {"type": "text", "text": "go on"}]}]});
        let responses = serde_json::json!({"model": "m", "stream": true, "instructions": "Be brief.",
            "tools": [{"type": "function", "name": "read"}],
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "Fix it"}]},
                {"type": "reasoning", "summary": []},
                {"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": "old"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hm"}]},
                {"type": "function_call", "call_id": "b", "name": "read", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "new"}]},
                {"type": "message", "role": "user", "content": "go on"}]});
        let chat = serde_json::json!({"model": "m", "stream": true,
            "tools": [{"type": "function", "function": {"name": "read"}}],
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Fix it"},
                {"role": "assistant", "content": null, "tool_calls": []},
                {"role": "tool", "tool_call_id": "a", "content": "old"},
                {"role": "assistant", "content": "hm"},
                {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "new"}]},
                {"role": "user", "content": "go on"}]});
        for (api, body) in Api::ALL.into_iter().zip([anthropic, responses, chat]) {
            let asked = Asked::read(api, &body);
            let prompt = asked.prompt();
            let cue = asked.cue(&prompt, Attempt::FIRST);
            assert_eq!(
                (cue.system.trim(), cue.first_user_text, cue.turn),
                ("Be brief.", "Fix it", 3),
                "{api:?}"
            );
            assert_eq!(cue.last_results, ["new"], "{api:?}");
            assert_eq!((asked.model.as_str(), asked.form), ("m", Form::Stream), "{api:?}");
            assert_eq!(asked.tools, ["read"], "{api:?}");
        }
    }

    #[test]
    fn a_body_that_says_little_is_a_first_turn() {
        for api in Api::ALL {
            for body in
                [serde_json::json!({}), serde_json::json!({"messages": 7, "input": "hi", "tools": {}})]
            {
                assert_eq!(Asked::read(api, &body).turn(), 1, "{api:?}");
            }
        }
    }
}
