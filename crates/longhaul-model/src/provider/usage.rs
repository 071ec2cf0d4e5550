//! What a reply used and what that cost. It owns how a count is made up for that the provider kept to itself; it refuses to
//! take one that was not said for nothing, because no limit would ever be reached.

use longhaul_core::conversation::Usage;

use crate::known::Prices;
use crate::tokens;
use crate::wire::{Reply, Request, Stop};

/// The reply's tokens as the provider counted them, and estimated from what was sent and what came where it did not.
pub(super) fn of(sent: &Request, reply: &Reply, prices: Option<&Prices>) -> Usage {
    let said = reply.usage;
    let cached = said.cache_read.saturating_add(said.cache_write);
    let prompt = || tokens::estimate(sent).saturating_sub(cached);
    let (input_tokens, guessed_input) = known_or(said.input, prompt);
    let (output_tokens, guessed_output) = known_or(said.output, || written(sent, reply));
    let mut usage = Usage {
        input_tokens,
        output_tokens,
        cache_read_tokens: said.cache_read,
        cache_write_tokens: said.cache_write,
        estimated_tokens: guessed_input.saturating_add(guessed_output),
        ..Usage::default()
    };
    match prices {
        Some(prices) => usage.cost = prices.cost(&usage),
        None => usage.unpriced_tokens = usage.tokens(),
    }
    usage
}

/// A count, and how much of it is an estimate.
fn known_or(said: Option<u64>, estimate: impl FnOnce() -> u64) -> (u64, u64) {
    said.map_or_else(
        || {
            let tokens = estimate();
            (tokens, tokens)
        },
        |tokens| (tokens, 0),
    )
}

/// A reply that ran into the limit has all that was allowed, also where part of it was cut or never shown.
fn written(sent: &Request, reply: &Reply) -> u64 {
    let allowed = sent.max_output_tokens.filter(|_| reply.stop == Stop::Length).map_or(0, u64::from);
    tokens::estimate_reply(reply).max(allowed)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::wire::{Api, Assembler, Turn};

    const TEXT: &str = "The bug was a minus sign in `add`; it is a plus now, and test.sh passes.";

    fn sent() -> Request {
        Request {
            model: "m".to_owned(),
            system: "You are careful.".to_owned(),
            turns: vec![Turn::User { text: "Make test.sh pass. ".repeat(20) }],
            tools: Vec::new(),
            max_output_tokens: Some(4000),
            answer_schema: None,
            stream: true,
            manners: Default::default(),
            extra: Map::new(),
        }
    }

    /// The same reply over a protocol, at once and streamed, with what is said of its usage; `None` leaves the field out.
    fn replies(api: Api, counts: Option<&[(&str, u64)]>) -> [Reply; 2] {
        let usage = counts.map(|counts| named(api, counts));
        let (whole, events) = match api {
            Api::Anthropic => anthropic(),
            Api::Responses => responses(),
            Api::Chat => chat(),
        };
        let mut assembler = Assembler::new(api);
        let last = events.len() - 1;
        for (at, mut event) in events.into_iter().enumerate() {
            let place = match api {
                Api::Responses => event.get_mut("response"),
                Api::Anthropic if at < last => None,
                Api::Anthropic | Api::Chat => Some(&mut event),
            };
            if let (Some(place), Some(usage)) = (place, &usage) {
                place["usage"] = usage.clone();
            }
            assembler.take("", event.to_string().as_bytes(), &mut |_| {}).unwrap();
        }
        if api == Api::Anthropic {
            assembler.take("", br#"{"type":"message_stop"}"#, &mut |_| {}).unwrap();
        }
        let mut body = whole;
        if let Some(usage) = usage {
            body["usage"] = usage;
        }
        [api.plain(body.to_string().as_bytes()).unwrap(), assembler.finish().unwrap()]
    }

    /// Counts under the protocol's names; none at all are `null`.
    fn named(api: Api, counts: &[(&str, u64)]) -> Value {
        if counts.is_empty() {
            return Value::Null;
        }
        let name = |kind: &str| match (api, kind) {
            (Api::Chat, "input") => "prompt_tokens".to_owned(),
            (Api::Chat, _) => "completion_tokens".to_owned(),
            (Api::Anthropic | Api::Responses, kind) => format!("{kind}_tokens"),
        };
        Value::Object(counts.iter().map(|(kind, tokens)| (name(kind), json!(tokens))).collect())
    }

    fn anthropic() -> (Value, Vec<Value>) {
        let block = json!({"type": "text", "text": TEXT});
        let events = vec![
            // Compatible servers fill in what the service says here, whether or not they count.
            json!({"type": "message_start", "message": {"usage": {"output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": block}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        ];
        (json!({"type": "message", "content": [block], "stop_reason": "end_turn"}), events)
    }

    fn responses() -> (Value, Vec<Value>) {
        let item = json!({"type": "message", "content": [{"type": "output_text", "text": TEXT}]});
        let whole = json!({"status": "completed", "output": [item]});
        (whole.clone(), vec![json!({"type": "response.completed", "response": whole})])
    }

    fn chat() -> (Value, Vec<Value>) {
        let choice = |key: &str| json!({"index": 0, key: {"content": TEXT}, "finish_reason": "stop"});
        (json!({"choices": [choice("message")]}), vec![json!({"choices": [choice("delta")]})])
    }

    /// What a provider does not say is estimated, and never taken for nothing; what it says is believed, also a zero.
    #[test]
    fn what_is_not_said_is_estimated() {
        let (prompt, said) = (tokens::estimate(&sent()), 20);
        assert!(prompt > 80, "{prompt}");
        for api in Api::ALL {
            for counts in [None, Some(&[][..])] {
                for reply in replies(api, counts) {
                    let usage = of(&sent(), &reply, None);
                    let case = format!("{api:?} {counts:?} {usage:?}");
                    assert!(
                        usage.input_tokens == prompt && (said..4 * said).contains(&usage.output_tokens),
                        "{case}"
                    );
                    assert_eq!(usage.estimated_tokens, usage.tokens(), "{case}");
                    assert_eq!(usage.unpriced_tokens, usage.tokens(), "{case}");
                }
            }
            for reply in replies(api, Some(&[("output", 7)])) {
                let usage = of(&sent(), &reply, None);
                assert_eq!((usage.input_tokens, usage.output_tokens), (prompt, 7), "{api:?}");
                assert_eq!(usage.estimated_tokens, prompt, "{api:?}");
            }
            for reply in replies(api, Some(&[("input", 0), ("output", 0)])) {
                assert_eq!(of(&sent(), &reply, None), Usage::default(), "{api:?}");
            }
        }
    }

    /// A reply that ran into the limit wrote all it was allowed to, whatever came of it.
    #[test]
    fn a_cut_reply_is_as_long_as_it_could_be() {
        let [reply, _] = replies(Api::Chat, None);
        let usage = of(&sent(), &Reply { stop: Stop::Length, ..reply }, None);
        assert_eq!(usage.output_tokens, 4000);
    }

    /// Thoughts and arguments are paid for as well, also arguments that cannot be read.
    #[test]
    fn all_of_a_reply_counts() {
        let written = |message: Value| {
            let body = json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string();
            of(&sent(), &Api::Chat.plain(body.as_bytes()).unwrap(), None).output_tokens
        };
        let call = |args: &str| json!([{"id": "a", "function": {"name": "read", "arguments": args}}]);
        let long = "word ".repeat(500);
        let short = written(json!({"content": "Done."}));
        assert!(written(json!({"content": "Done.", "reasoning_content": long})) > short + 500);
        for args in [json!({"path": long}).to_string(), format!("{{\"path\": \"{long}")] {
            assert!(written(json!({"content": null, "tool_calls": call(&args)})) > short + 500, "{args}");
        }
    }
}
