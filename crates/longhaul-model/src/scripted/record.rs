//! A conversation written down as a script, so that a run can be played again without its model. It owns the writing half
//! of the format that `format` reads.

use longhaul_core::conversation::{ProposedCall, Stop, Usage};
use serde::Serialize;
use serde_json::Value;

use super::script::Cost;

/// One reply, as it was heard.
#[derive(Clone, Copy, Debug)]
pub struct Replied<'a> {
    pub text: &'a str,
    pub calls: &'a [ProposedCall],
    pub usage: &'a Usage,
    pub stop: Stop,
    /// The tools there were.
    pub tools: &'a [&'a str],
}

/// What a model said in one run, by step.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    conversations: Vec<Conversation>,
}

#[derive(Serialize)]
struct Script<'a> {
    name: &'a str,
    conversations: &'a [Conversation],
}

#[derive(Clone, Debug, Serialize)]
struct Conversation {
    #[serde(rename = "match")]
    fits: Match,
    turns: Vec<Turn>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Match {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    step: String,
    iteration: u32,
}

/// Which conversation a reply is part of.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    pub step: &'a str,
    pub iteration: u32,
    /// Who was asked beside the conversation, if it was not the run's own agent.
    pub aside: Option<&'a str>,
}

#[derive(Clone, Debug, Serialize)]
struct Turn {
    #[serde(skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Call>,
    usage: Tokens,
    #[serde(skip_serializing_if = "is_whole")]
    stop: Stop,
}

#[derive(Clone, Debug, Serialize)]
struct Call {
    tool: String,
    args: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    malformed: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    unknown: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Tokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    /// What it cost then: prices change, and several models may have spoken.
    cost: Cost,
    #[serde(skip_serializing_if = "is_zero")]
    estimated: u64,
}

impl Recording {
    /// Adds one reply. Replies of a conversation come in the order of its turns.
    pub fn add(&mut self, part: Part<'_>, reply: &Replied<'_>) {
        let turn = Turn::of(reply);
        let fits = Match {
            agent: part.aside.map(str::to_owned),
            step: part.step.to_owned(),
            iteration: part.iteration,
        };
        match self.conversations.iter_mut().find(|conversation| conversation.fits == fits) {
            Some(conversation) => conversation.turns.push(turn),
            // The first that fits is played: who is asked beside the conversation comes before whoever is asked in it.
            None if part.aside.is_some() => {
                self.conversations.insert(0, Conversation { fits, turns: vec![turn] });
            }
            None => self.conversations.push(Conversation { fits, turns: vec![turn] }),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.conversations.is_empty()
    }

    pub fn script(&self, name: &str) -> Result<String, serde_saphyr::ser::Error> {
        serde_saphyr::to_string(&Script { name, conversations: &self.conversations })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with references")]
fn is_whole(stop: &Stop) -> bool {
    *stop == Stop::End
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with references")]
fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with references")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl Turn {
    fn of(reply: &Replied<'_>) -> Turn {
        let Replied { text, calls, usage, stop, tools } = reply;
        let call = |call: &ProposedCall| Call {
            tool: call.tool.to_string(),
            args: call.args.value(),
            malformed: call.malformed.clone(),
            unknown: !tools.contains(&call.tool.as_str()),
        };
        Turn {
            text: (*text).to_owned(),
            calls: calls.iter().map(call).collect(),
            stop: *stop,
            usage: Tokens {
                input: usage.input_tokens,
                output: usage.output_tokens,
                cache_read: usage.cache_read_tokens,
                cache_write: usage.cache_write_tokens,
                cost: match usage.unpriced_tokens {
                    0 => Cost::Dollars(usage.cost.as_dollars()),
                    // A price that nobody knew then is no nothing now.
                    _ => Cost::UNKNOWN,
                },
                estimated: usage.estimated_tokens,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::Scripted;
    use longhaul_core::json::Json;

    /// What was recorded is what is played, whatever the text: YAML's own signs, line breaks, quotes, other alphabets.
    #[test]
    fn a_recording_can_be_read_back() {
        let texts = [
            "",
            "yes",
            "null",
            "- a\n- b",
            "a: b # c",
            "\"quoted\"\n\ttab\r\nend ",
            "ünï ☃ \u{1f600}",
            "  two  ",
            "```yaml\nkey: [1, 2]\n```\n\n",
            "%TAG",
            "&a *a",
            "0x10",
            "1e3",
            "\u{7f}\u{1}",
            "...",
            "---\n...\n",
            "a\n\n\n  b\n",
            "line\\nnot a break",
            "\u{feff}x",
            "\u{85}\u{2028}",
        ];
        let mut recording = Recording::default();
        for text in texts {
            let args =
                Json::of(&serde_json::json!({ "path": text, "n": 1, "deep": { text: [text, null, true] } }));
            let calls = [ProposedCall::new("read", args)];
            let usage = Usage::default();
            let reply = Replied { text, calls: &calls, usage: &usage, stop: Stop::End, tools: &["read"] };
            recording.add(Part { step: "step-1", iteration: 1, aside: None }, &reply);
        }
        let script = recording.script("night").unwrap();
        let read = Scripted::parse("night", &script, &["read"]).unwrap();
        let turns = read.turns();
        assert_eq!(turns.len(), texts.len());
        for (text, (said, calls)) in texts.iter().zip(turns) {
            assert_eq!((*text, calls[0].args.value()["path"].as_str().unwrap()), (said, *text), "{script}");
        }
    }
}
