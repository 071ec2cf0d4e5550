//! A conversation written down as a script, so that a run can be played again without its model. It owns the writing half
//! of the format that `format` reads.

use longhaul_core::conversation::{ProposedCall, Usage};
use serde::Serialize;
use serde_json::Value;

use crate::known::Prices;

/// What a model said in one run, by step.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    conversations: Vec<Conversation>,
}

#[derive(Serialize)]
struct Script<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    prices: Option<Charges>,
    conversations: &'a [Conversation],
}

#[derive(Serialize)]
struct Charges {
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Conversation {
    #[serde(rename = "match")]
    fits: Match,
    turns: Vec<Turn>,
}

#[derive(Clone, Debug, Serialize)]
struct Match {
    step: String,
}

#[derive(Clone, Debug, Serialize)]
struct Turn {
    #[serde(skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Call>,
    usage: Tokens,
}

#[derive(Clone, Debug, Serialize)]
struct Call {
    tool: String,
    args: Value,
}

#[derive(Clone, Debug, Serialize)]
struct Tokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl Recording {
    /// Adds one reply. Replies of a step come in the order of its turns.
    pub fn add(&mut self, step: &str, text: &str, calls: &[ProposedCall], usage: &Usage) {
        let turn = Turn::of(text, calls, usage);
        match self.conversations.iter_mut().find(|conversation| conversation.fits.step == step) {
            Some(conversation) => conversation.turns.push(turn),
            None => {
                let fits = Match { step: step.to_owned() };
                self.conversations.push(Conversation { fits, turns: vec![turn] });
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.conversations.is_empty()
    }

    /// The script. Prices are those of the model that was recorded, so that a rehearsal costs what the night did.
    pub fn script(&self, name: &str, prices: Option<&Prices>) -> Result<String, serde_saphyr::ser::Error> {
        let prices = prices.map(|prices| Charges {
            input: prices.input.as_dollars(),
            output: prices.output.as_dollars(),
            cache_read: prices.cache_read.as_dollars(),
            cache_write: prices.cache_write.as_dollars(),
        });
        serde_saphyr::to_string(&Script { name, prices, conversations: &self.conversations })
    }
}

impl Turn {
    fn of(text: &str, calls: &[ProposedCall], usage: &Usage) -> Turn {
        let call = |call: &ProposedCall| Call { tool: call.tool.clone(), args: call.args.value() };
        Turn {
            text: text.to_owned(),
            calls: calls.iter().map(call).collect(),
            usage: Tokens {
                input: usage.input_tokens,
                output: usage.output_tokens,
                cache_read: usage.cache_read_tokens,
                cache_write: usage.cache_write_tokens,
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
            recording.add("step-1", text, &[ProposedCall::new("read", args)], &Usage::default());
        }
        let script = recording.script("night", None).unwrap();
        let read = Scripted::parse("night", &script, &["read"]).unwrap();
        let turns = read.turns();
        assert_eq!(turns.len(), texts.len());
        for (text, (said, calls)) in texts.iter().zip(turns) {
            assert_eq!((*text, calls[0].args.value()["path"].as_str().unwrap()), (said, *text), "{script}");
        }
    }
}
