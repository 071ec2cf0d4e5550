//! How many tokens a request or a reply has, estimated without asking anybody.
//!
//! It owns one estimator for all models, and errs high: tokenizers differ by half among themselves, and a conversation
//! that is cut a little early costs less than one that is refused. It refuses to be exact. Who needs the provider's
//! own number asks `wire::Client::count_tokens`; who has the usage of an earlier reply knows how far off this is. Small
//! models that were taught English alone need more for other scripts than is reckoned here.

use serde_json::Value;

use crate::wire::{Call, Reply, ReplyCall, Request, ToolOffer, ToolResult, Turn};

/// The tokens of a request's prompt, rather too many than too few.
pub fn estimate(request: &Request) -> u64 {
    let tools: u64 = request.tools.iter().map(tool).sum();
    let turns: u64 = request.turns.iter().map(turn).sum();
    let schema = request.answer_schema.as_ref().map_or(0, json);
    let extra: u64 = request.extra.values().map(json).sum();
    let preamble = if request.tools.is_empty() { MESSAGE } else { MESSAGE + TOOLS_PREAMBLE };
    let hundredths = preamble + text(&request.system) + tools + turns + schema + extra;
    hundredths.div_ceil(100)
}

/// The tokens of a reply: its text, its calls and as much of its thoughts as came along. Rather too many than too few.
pub fn estimate_reply(reply: &Reply) -> u64 {
    let text = text(&reply.text) + reply.calls.iter().map(reply_call).sum::<u64>();
    (MESSAGE + json(&reply.raw.content).max(text)).div_ceil(100)
}

/// Hundredths of a token, here and below. Role, name and marks around one message, call or result.
const MESSAGE: u64 = 800;

/// What the services say to the model about tools before the first one is described.
const TOOLS_PREAMBLE: u64 = 500 * 100;

/// The most that one image takes of the models that see most finely.
const IMAGE: u64 = 5_000 * 100;

/// Quotes, colons and commas around a value of JSON.
const JSON_MARKS: u64 = 120;

/// Fields whose text the model never reads as such: signatures and encrypted thoughts. They are about a third longer than
/// the thoughts, which count as prose.
const OPAQUE: [&str; 3] = ["signature", "encrypted_content", "data"];
const OPAQUE_BYTE: u64 = 25;

fn tool(offer: &ToolOffer) -> u64 {
    MESSAGE + text(&offer.name) + text(&offer.description) + json(&offer.schema)
}

fn turn(turn: &Turn) -> u64 {
    match turn {
        Turn::User { text: said } => MESSAGE + text(said),
        Turn::ToolResults(results) => results.iter().map(result).sum(),
        // Whether it goes back as it came or is rebuilt depends on the protocol, so the longer form counts.
        Turn::Assistant { text: said, calls, raw } => {
            let rebuilt = text(said) + calls.iter().map(call).sum::<u64>();
            MESSAGE + raw.as_ref().map_or(0, |raw| json(&raw.content)).max(rebuilt)
        }
    }
}

fn call(call: &Call) -> u64 {
    MESSAGE + text(&call.provider_id) + text(&call.name) + text(call.args.as_str())
}

/// Arguments that cannot be read were written all the same.
fn reply_call(call: &ReplyCall) -> u64 {
    let args = call.args.as_ref().map_or_else(|malformed| malformed.text.as_str(), |args| args.as_str());
    MESSAGE + text(&call.provider_id) + text(&call.name) + text(args)
}

fn result(result: &ToolResult) -> u64 {
    MESSAGE + text(&result.provider_id) + text(&result.text) + IMAGE * result.images.len() as u64
}

fn json(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) => JSON_MARKS,
        Value::Number(number) => JSON_MARKS + text(&number.to_string()),
        Value::String(string) => JSON_MARKS + text(string),
        Value::Array(items) => JSON_MARKS + items.iter().map(json).sum::<u64>(),
        Value::Object(fields) => {
            JSON_MARKS + fields.iter().map(|(key, value)| field(key, value)).sum::<u64>()
        }
    }
}

fn field(key: &str, value: &Value) -> u64 {
    let value = match value {
        Value::String(string) if OPAQUE.contains(&key) => OPAQUE_BYTE * string.len() as u64,
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => json(value),
    };
    text(key) + JSON_MARKS + value
}

/// A text, run by run of the same kind of character, because that is where tokenizers cut.
fn text(text: &str) -> u64 {
    let mut chars = text.chars().peekable();
    let mut hundredths = 0;
    while let Some(first) = chars.next() {
        let mut class = Class::of(first);
        let mut length = 1;
        while chars.next_if(|c| Class::of(*c) == class).is_some() {
            length += 1;
        }
        // A capital and the small letters after it are one word.
        if class == Class::Upper && length == 1 {
            while chars.next_if(|c| Class::of(*c) == Class::Lower).is_some() {
                length += 1;
                class = Class::Lower;
            }
        }
        let next = chars.peek().map(|c| Class::of(*c));
        hundredths += class.hundredths(length, next);
    }
    hundredths
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    Space,
    Newline,
    /// ASCII marks.
    Mark,
    /// Chinese, Japanese, Korean.
    Cjk,
    /// Every other alphabet.
    Letter,
    /// Pictures and rare signs.
    Rare,
}

impl Class {
    fn of(c: char) -> Class {
        match c {
            'a'..='z' => Class::Lower,
            'A'..='Z' => Class::Upper,
            '0'..='9' => Class::Digit,
            ' ' | '\t' => Class::Space,
            '\n' | '\r' => Class::Newline,
            '\0'..='\x7f' => Class::Mark,
            '\u{80}'..'\u{2000}' => Class::Letter,
            '\u{2e80}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' => Class::Cjk,
            '\u{20000}'..='\u{3ffff}' => Class::Cjk,
            _ => Class::Rare,
        }
    }

    /// Measured with the tokenizers of two open models on prose, code, logs and hashes, then rounded up: English prose
    /// comes to a token for 3.3 bytes. Most tokenizers need one for 4, the newest of Claude about a third more.
    fn hundredths(self, length: u64, next: Option<Class>) -> u64 {
        match self {
            Class::Lower => 100 * length.div_ceil(4),
            // Names of constants and hashes: few of them are whole words.
            Class::Upper => 100 * length.div_ceil(2),
            // Many tokenizers know no number longer than a digit.
            Class::Digit => 100 * length,
            // One space belongs to the word after it, but not to a number.
            Class::Space if length == 1 => {
                if next == Some(Class::Digit) {
                    100
                } else {
                    0
                }
            }
            Class::Space => 100 + 100 * length / 16,
            Class::Newline => 100 * length.div_ceil(2),
            Class::Mark => 60 * length,
            Class::Cjk => 120 * length,
            Class::Letter => 60 * length,
            Class::Rare => 300 * length,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::wire::{Api, Image, Raw};

    fn tokens(said: &str) -> u64 {
        text(said).div_ceil(100)
    }

    fn request(turns: Vec<Turn>, tools: Vec<ToolOffer>) -> Request {
        Request {
            model: "m".to_owned(),
            system: String::new(),
            turns,
            tools,
            max_output_tokens: None,
            answer_schema: None,
            stream: true,
            manners: Default::default(),
            extra: Map::new(),
        }
    }

    /// The left numbers are what Qwen2.5's tokenizer counted; ours lie above, but not by far.
    #[test]
    fn texts_are_estimated_a_little_high() {
        let prose =
            "A journal is only ever appended to. The one cut is that of a torn tail, by the writer, at open.";
        let code = "    let Some(chunk) = chunk else { break };\n    if reading.take(&chunk, deltas)? {\n";
        let log = "2026-11-16 12:04:37.259 INFO worker-7 finished job 55433 in 91 ms";
        let cases = [
            (25, prose),
            (21, code),
            (40, log),
            (12, "今天我们来谈谈如何测试一个分布式系统的可靠性，并且确保"),
        ];
        for (counted, said) in cases {
            let estimated = tokens(said);
            assert!((counted..=3 * counted).contains(&estimated), "{counted} {estimated} {said}");
        }
    }

    #[test]
    fn kinds_of_characters() {
        let cases = [
            ("", 0),
            ("a", 1),
            ("hello", 2),
            (" hello", 2),
            ("World", 2),
            ("SQL", 2),
            ("readFile", 2),
            ("12345", 5),
            ("a 1", 3),
            ("\n\n", 1),
            ("                ", 2),
            ("();", 2),
            ("漢字", 3),
            ("дом", 2),
            ("🚀", 3),
        ];
        for (said, expected) in cases {
            assert_eq!(tokens(said), expected, "{said:?}");
        }
    }

    #[test]
    fn everything_that_is_sent_counts() {
        let empty = estimate(&request(Vec::new(), Vec::new()));
        assert_eq!(empty, 8);
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        let read = ToolOffer { name: "read".to_owned(), description: "Reads a file.".to_owned(), schema };
        assert!(estimate(&request(Vec::new(), vec![read])) > empty + 500);
        let image = Image { media_type: "image/png".to_owned(), base64: "AAAA".repeat(100_000) };
        let seen =
            |images| ToolResult { provider_id: "a".to_owned(), text: String::new(), failed: false, images };
        let with = |images| estimate(&request(vec![Turn::ToolResults(vec![seen(images)])], Vec::new()));
        assert_eq!(with(vec![image.clone(), image]), with(Vec::new()) + 10_000);
    }

    /// A reply counts in its longer form; what is encrypted in it is not taken for prose.
    #[test]
    fn replies_count_as_they_go_back() {
        let said = |raw| {
            estimate(&request(
                vec![Turn::Assistant { text: "word ".repeat(100), calls: Vec::new(), raw }],
                Vec::new(),
            ))
        };
        let raw = |content| Some(Raw { api: Api::Anthropic, content });
        let plain = said(None);
        assert_eq!(said(raw(json!([]))), plain);
        assert!(said(raw(json!([{"type": "text", "text": "word ".repeat(200)}]))) > 2 * plain - 20);
        let signed =
            said(raw(json!([{"type": "thinking", "thinking": "", "signature": "aB3+".repeat(1000)}])));
        assert!((1000..1100).contains(&signed), "{signed}");
    }
}
