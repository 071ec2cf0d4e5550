//! Events that are alike are read by their shape. Whatever comes between them, and however it is cut into chunks, the
//! reply and what is heard of it are those of a reader that takes every event by itself.

use longhaul_model::wire::{Allowance, Api, Reading};
use proptest::prelude::*;

use crate::speak::{Heard, read, read_singly};

/// A piece of text as some server may write it, or something else that may come between two of them.
#[derive(Clone, Debug)]
enum Said {
    Text {
        text: String,
        block: u8,
        padding: usize,
        word: String,
        by_number: bool,
        shape: Shape,
    },
    Nothing,
    Thinking(String),
    Usage(u8),
    Comment,
    Ping,
    Unknown,
    /// The text is also in another field.
    Twice(String),
    /// A piece of a call, with text in the same event.
    Call {
        args: String,
        text: String,
    },
    /// Text of another reply than the one that was asked for, with text of that one or alone.
    Second {
        text: String,
        alone: bool,
    },
    /// Text, and why it is the last.
    Last(String),
    Broken,
}

/// How the fields of an event are written. Most events of a stream are written alike.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Shape {
    #[default]
    Usual,
    Turned(usize),
    /// A field that nobody knows, and one that means nothing.
    More,
    Null,
    Spaced,
    OtherId,
}

impl Shape {
    const ALL: [Shape; 7] = [
        Shape::Usual,
        Shape::Turned(1),
        Shape::Turned(3),
        Shape::More,
        Shape::Null,
        Shape::Spaced,
        Shape::OtherId,
    ];

    fn id(self) -> &'static str {
        if self == Shape::OtherId { "other" } else { "m1" }
    }

    fn object(self, mut fields: Vec<String>, padding: usize) -> String {
        let (mut between, turns) = (",", fields.len());
        match self {
            Shape::Usual | Shape::OtherId => {}
            Shape::Turned(times) => fields.rotate_left(times % turns),
            Shape::More => fields.insert(1, r#""more":{"text":"x","sequence_number":[1]}"#.to_owned()),
            Shape::Null => {
                fields.extend([r#""item":null,"response":null,"message":null,"error":null"#.to_owned()])
            }
            Shape::Spaced => between = ", ",
        }
        format!("{{{}{:padding$}}}", fields.join(between), "")
    }
}

fn said() -> impl Strategy<Value = Said> {
    let text =
        prop_oneof!["[a-z ]{1,6}", "[a-z\"\\\\\n\t\u{1}é🙂/]{0,4}", "[a-zé🙂]{0,12}[\n\"]?[a-z]{0,12}"];
    let word = prop_oneof!["[a-zA-Z0-9]{0,5}", "[a-zA-Z0-9]{0,20}", "[ -~é]{0,9}"];
    let shape = prop_oneof![9 => Just(Shape::Usual), 1 => prop::sample::select(&Shape::ALL[..])];
    let piece = (text.clone(), 0..10_u8, 0..12_usize, word, 0..20_u8, shape).prop_map(
        |(text, block, padding, word, by_number, shape)| Said::Text {
            text,
            block: u8::from(block == 0),
            padding: if padding < 9 { 0 } else { padding - 8 },
            word,
            by_number: by_number == 0,
            shape,
        },
    );
    prop_oneof![
        40 => piece,
        1 => Just(Said::Nothing),
        1 => text.clone().prop_map(Said::Thinking),
        1 => (0..3_u8).prop_map(Said::Usage),
        1 => Just(Said::Comment),
        1 => Just(Said::Ping),
        1 => Just(Said::Unknown),
        1 => text.clone().prop_map(Said::Twice),
        1 => (text.clone(), text.clone()).prop_map(|(args, text)| Said::Call { args, text }),
        1 => (text.clone(), any::<bool>()).prop_map(|(text, alone)| Said::Second { text, alone }),
        1 => text.prop_map(Said::Last),
    ]
}

/// A string of JSON; by number, as servers do that send nothing but ASCII.
fn quoted(text: &str, by_number: bool) -> String {
    if !by_number {
        return serde_json::Value::from(text).to_string();
    }
    let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    format!("\"{units}\"")
}

fn line(api: Api, number: usize, said: &Said) -> String {
    let (named, data) = match (api, said) {
        (_, Said::Comment) => return ": still here\n\n".to_owned(),
        (_, Said::Broken) => ("", "{\"type\":".to_owned()),
        (Api::Anthropic, said) => ("content_block_delta", anthropic(said)),
        (Api::Responses, said) => ("", responses(number, said)),
        (Api::Chat, said) => ("", chat(said)),
    };
    match named {
        "" => format!("data: {data}\n\n"),
        named => format!("event: {named}\ndata: {data}\n\n"),
    }
}

fn anthropic(said: &Said) -> String {
    let shaped = |shape: Shape, block: u8, delta: String, padding: usize| {
        let fields = [
            r#""type":"content_block_delta""#.to_owned(),
            format!(r#""index":{block}"#),
            format!(r#""delta":{{{delta}}}"#),
        ];
        shape.object(fields.into(), padding)
    };
    let delta = |block: u8, delta: String| shaped(Shape::Usual, block, delta, 0);
    match said {
        Said::Text { text, block, padding, by_number, shape, .. } => {
            let text = quoted(text, *by_number);
            shaped(*shape, *block, format!(r#""type":"text_delta","text":{text}"#), *padding)
        }
        Said::Thinking(text) => {
            delta(1, format!(r#""type":"thinking_delta","thinking":{}"#, quoted(text, false)))
        }
        Said::Twice(text) => {
            let text = quoted(text, false);
            delta(0, format!(r#""type":"text_delta","note":{text},"text":{text}"#))
        }
        Said::Call { args, text } => {
            let (args, text) = (quoted(args, false), quoted(text, false));
            delta(2, format!(r#""type":"input_json_delta","text":{text},"partial_json":{args}"#))
        }
        Said::Second { text, alone } => {
            delta(u8::from(*alone), format!(r#""type":"text_delta","text":{}"#, quoted(text, false)))
        }
        Said::Last(text) => {
            let text = quoted(text, false);
            delta(0, format!(r#""type":"text_delta","text":{text},"stop_reason":"max_tokens""#))
        }
        Said::Usage(count) => {
            format!(r#"{{"type":"message_delta","delta":{{}},"usage":{{"output_tokens":{count}}}}}"#)
        }
        Said::Ping => r#"{"type":"ping"}"#.to_owned(),
        Said::Unknown => r#"{"type":"surprise","obfuscation":"a\"b"}"#.to_owned(),
        Said::Nothing | Said::Comment | Said::Broken => {
            delta(0, r#""type":"text_delta","text":"""#.to_owned())
        }
    }
}

fn responses(number: usize, said: &Said) -> String {
    let shaped = |shape: Shape, kind: &str, block: u8, text: &str, word: &str| {
        let fields = [
            format!(r#""type":"response.{kind}.delta""#),
            format!(r#""sequence_number":{number}"#),
            format!(r#""item_id":"{}_{block}""#, shape.id()),
            format!(r#""output_index":{block}"#),
            format!(r#""delta":{text}"#),
            r#""logprobs":[]"#.to_owned(),
            format!(r#""obfuscation":{word}"#),
        ];
        shape.object(fields.into(), 0)
    };
    let delta = |kind: &str, text: &str, word: &str| shaped(Shape::Usual, kind, 0, text, word);
    match said {
        Said::Text { text, block, word, by_number, shape, .. } => {
            shaped(*shape, "output_text", *block, &quoted(text, *by_number), &quoted(word, false))
        }
        Said::Thinking(text) => delta("reasoning_text", &quoted(text, false), r#""x""#),
        Said::Twice(text) => delta("output_text", &quoted(text, false), r#""x","sequence_number":"y""#),
        Said::Call { args, text } => {
            let word = format!(r#""x","text":{}"#, quoted(text, false));
            shaped(Shape::Usual, "function_call_arguments", 2, &quoted(args, false), &word)
        }
        Said::Second { text, alone } => {
            let word = format!(r#""x","content_index":{}"#, u8::from(*alone));
            delta("output_text", &quoted(text, false), &word)
        }
        Said::Last(text) => delta("output_text", &quoted(text, false), r#""x","status":"incomplete""#),
        Said::Usage(count) => format!(r#"{{"type":"response.in_progress","response":{{"n":{count}}}}}"#),
        Said::Ping => r#"{"type":"keepalive"}"#.to_owned(),
        Said::Unknown => r#"{"type":"surprise","obfuscation":7}"#.to_owned(),
        Said::Nothing | Said::Comment | Said::Broken => delta("output_text", r#""""#, r#""""#),
    }
}

fn chat(said: &Said) -> String {
    let choice = |index: u8, delta: String, finish: &str| {
        format!(r#"{{"index":{index},"delta":{{{delta}}},"finish_reason":{finish}}}"#)
    };
    let of_choices = |shape: Shape, choices: String, usage: &str, word: &str| {
        let fields = [
            format!(r#""id":"{}""#, shape.id()),
            r#""model":"m""#.to_owned(),
            format!(r#""choices":[{choices}]"#),
            format!(r#""usage":{usage}"#),
            format!(r#""obfuscation":{word}"#),
        ];
        shape.object(fields.into(), 0)
    };
    let shaped = |shape: Shape, delta: String, usage: &str, word: &str| {
        of_choices(shape, choice(0, delta, "null"), usage, word)
    };
    let chunk = |delta: String, usage: &str| shaped(Shape::Usual, delta, usage, r#""""#);
    let content = |text: &str| format!(r#""content":{}"#, quoted(text, false));
    match said {
        Said::Text { text, word, by_number, shape, .. } => {
            let text = quoted(text, *by_number);
            shaped(*shape, format!(r#""content":{text}"#), "null", &quoted(word, false))
        }
        Said::Thinking(text) => chunk(format!(r#""reasoning":{}"#, quoted(text, false)), "null"),
        Said::Twice(text) => {
            let text = quoted(text, false);
            chunk(format!(r#""content":{text},"reasoning_details":[{{"t":{text}}}]"#), "null")
        }
        Said::Call { args, text } => {
            let function = format!(r#"{{"name":"f","arguments":{}}}"#, quoted(args, false));
            let call = format!(r#""tool_calls":[{{"index":0,"id":"c1","function":{function}}}]"#);
            chunk(format!("{},{call}", content(text)), "null")
        }
        Said::Second { text, alone } => {
            let (first, second) = (choice(0, content("first"), "null"), choice(1, content(text), "null"));
            let choices = if *alone { second } else { format!("{first},{second}") };
            of_choices(Shape::Usual, choices, "null", r#""""#)
        }
        Said::Last(text) => {
            of_choices(Shape::Usual, choice(0, content(text), r#""length""#), "null", r#""""#)
        }
        Said::Usage(count) => {
            chunk(r#""content":"counted""#.to_owned(), &format!(r#"{{"completion_tokens":{count}}}"#))
        }
        Said::Ping => chunk(String::new(), "null"),
        Said::Unknown => r#"{"id":"c1","surprise":1,"obfuscation":"é"}"#.to_owned(),
        Said::Nothing | Said::Comment | Said::Broken => chunk(r#""content":"""#.to_owned(), "null"),
    }
}

fn begin(api: Api) -> String {
    let block = |index: u8, kind: &str, field: &str| {
        format!(
            r#"data: {{"type":"content_block_start","index":{index},"content_block":{{"type":"{kind}","{field}":""}}}}"#
        )
    };
    match api {
        Api::Anthropic => format!(
            "data: {{\"type\":\"message_start\",\"message\":{{\"id\":\"m1\"}}}}\n\n{}\n\n{}\n\n{}\n\n",
            block(0, "text", "text"),
            block(1, "thinking", "thinking"),
            block(2, "tool_use", "id"),
        ),
        Api::Responses | Api::Chat => String::new(),
    }
}

fn end(api: Api) -> &'static str {
    match api {
        Api::Anthropic => {
            "data: {\"type\":\"content_block_stop\",\"index\":2}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n"
        }
        Api::Responses => {
            "data: {\"type\":\"response.output_item.done\",\"output_index\":2,\"item\":{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"f\"}}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":\"completed\",\"output\":[]}}\n\n"
        }
        Api::Chat => {
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
        }
    }
}

fn stream(api: Api, all: &[Said]) -> String {
    let lines: String = all.iter().enumerate().map(|(number, said)| line(api, number, said)).collect();
    format!("{}{lines}{}", begin(api), end(api))
}

/// The bytes in chunks of these sizes, again and again.
fn cut<'a>(mut bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    for size in sizes.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (chunk, rest) = bytes.split_at((*size).min(bytes.len()));
        chunks.push(chunk);
        bytes = rest;
    }
    chunks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn alike_or_not_the_reply_is_the_same(
        api in prop::sample::select(&Api::ALL[..]),
        all in prop::collection::vec((said(), prop_oneof![4 => Just(1), 1 => 2..4_usize]), 1..40),
        line_end in prop::sample::select(&["\n", "\r\n", "\r"][..]),
        sizes in prop::collection::vec(1..700_usize, 1..5),
        broken in 0..10_u8,
        shape_of_all in prop::sample::select(&Shape::ALL[..]),
    ) {
        // What a mould was wrongly made of shows only when the like comes next.
        let mut all: Vec<Said> =
            all.into_iter().flat_map(|(said, times)| std::iter::repeat_n(said, times)).collect();
        for said in &mut all {
            if let Said::Text { shape: shape @ Shape::Usual, .. } = said {
                *shape = shape_of_all;
            }
        }
        if broken == 0 {
            all.push(Said::Broken);
        }
        let bytes = stream(api, &all).replace('\n', line_end).into_bytes();
        let singly = read_singly(api, &bytes).map_err(|error| error.to_string());
        let alike = read(api, cut(&bytes, &sizes)).map_err(|error| error.to_string());
        prop_assert_eq!(&alike, &singly);
        prop_assert_eq!(alike.is_err(), broken == 0);
    }
}

fn piece(text: &str) -> Said {
    Said::Text {
        text: text.to_owned(),
        block: 0,
        padding: 0,
        word: "aB".to_owned(),
        by_number: false,
        shape: Shape::Usual,
    }
}

/// Bytes that are no text are refused, also where two pieces together would be one.
#[test]
fn halves_of_characters_are_no_pieces() {
    let replaced = |bytes: Vec<u8>, byte: u8, with: u8| -> Vec<u8> {
        bytes.into_iter().map(|old| if old == byte { with } else { old }).collect()
    };
    for api in Api::ALL {
        let pieces = ["so", " far", " good", "whole: é", "half: #", "^ the other"];
        let bytes = stream(api, &pieces.map(piece)).into_bytes();
        assert!(read_singly(api, &bytes).is_ok());
        let bytes = replaced(replaced(bytes, b'#', 0xC3), b'^', 0xA9);
        let singly = read_singly(api, &bytes).unwrap_err();
        assert!(singly.message.contains("not text"), "{singly}");
        for size in 1..bytes.len() {
            let alike = read(api, cut(&bytes, &[size])).unwrap_err();
            assert_eq!(alike.to_string(), singly.to_string(), "chunks of {size}");
        }
    }
}

/// The allowance of events counts those that are read by their shape.
#[test]
fn events_that_are_alike_are_counted() {
    for api in Api::ALL {
        let bytes = stream(api, &vec![piece("on and on"); 100]).into_bytes();
        let mut heard = Vec::new();
        let allowance = Allowance { events: 50, ..Allowance::default() };
        let mut reading = Reading::new(api, allowance);
        let error = reading.take(&bytes, &mut |delta| heard.push(Heard::of(delta))).unwrap_err();
        assert!(error.message.contains("limit of events"), "{error}");
        assert!(heard.len() <= 50, "{}", heard.len());
    }
}
