//! From a request to what is done about it: which protocol, which turn, which fault. It owns the server's routes and the
//! meaning of every fault as bytes; it touches no socket.

use std::time::Duration;

use serde_json::{Value, json};

use super::Options;
use super::asked::{Asked, Form};
use super::line::Request;
use super::plan::{Act, EVENTS, End, Framing, Head, Headers, JSON, Plan};
use super::record::{Received, Record, digest};
use super::refusal::{About, No};
use super::spoken::Spoken;
use super::{anthropic, chat, responses};
use crate::limits;
use crate::model::Model as _;
use crate::scripted::Scripted;
use crate::scripted::fault::{Breakage, Fault, Refusal};
use crate::scripted::play;
use crate::scripted::script::{Body, Fail};
use crate::wire::Api;

/// Where requests are answered.
#[derive(Debug)]
pub(super) struct Desk {
    script: Scripted,
    options: Options,
    pub(super) record: Record,
}

/// What a path asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Turn(Api),
    CountTokens,
    Models,
    Unknown,
}

impl Desk {
    pub(super) fn new(script: Scripted, options: Options) -> Desk {
        Desk { script, options, record: Record::new() }
    }

    /// Decides, and remembers what came and what was decided.
    pub(super) fn answer(&self, request: Request) -> Plan {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let route = self.route(&request);
        let exchange = Exchange {
            api: match route {
                Route::Turn(api) => api,
                Route::CountTokens => Api::Anthropic,
                Route::Models | Route::Unknown => self.options.api.unwrap_or(Api::Chat),
            },
            digest: digest(&request),
            tokens: request.body.len() as u64 / 4,
            context_window: self.script.context_window(),
        };
        let (answer, plan) = self.decide(route, &exchange, &request, &body);
        self.record.remember(Received::new(request, body, answer));
        plan
    }

    fn decide(&self, route: Route, exchange: &Exchange, request: &Request, body: &Value) -> (String, Plan) {
        if !self.may_enter(request) {
            let about = exchange.about("");
            let no = No::of_fault(exchange.api, Refusal::Credentials, &about);
            return ("wrong key".to_owned(), exchange.refuse(&no));
        }
        match route {
            Route::Models => ("models".to_owned(), Plan::json(200, Vec::new(), &self.models())),
            Route::CountTokens => {
                let count = json!({"input_tokens": exchange.tokens});
                (format!("{} tokens", exchange.tokens), Plan::json(200, exchange.headers(), &count))
            }
            Route::Unknown => {
                let no = No::invalid(404, format!("{} {} is not served here", request.method, request.path));
                ("not served".to_owned(), exchange.refuse(&no))
            }
            Route::Turn(_) if !body.is_object() => {
                let no = No::invalid(400, "the body is not a JSON object");
                ("not JSON".to_owned(), exchange.refuse(&no))
            }
            Route::Turn(_) => self.turn(exchange, body),
        }
    }

    fn route(&self, request: &Request) -> Route {
        let path = request.path.trim_end_matches('/');
        let turn = |api: Api| match self.options.api {
            Some(only) if only != api => Route::Unknown,
            Some(_) | None => Route::Turn(api),
        };
        match request.method.as_str() {
            "GET" if path.ends_with("/models") => Route::Models,
            "POST" if path.ends_with("/messages/count_tokens") => match turn(Api::Anthropic) {
                Route::Turn(_) => Route::CountTokens,
                Route::CountTokens | Route::Models | Route::Unknown => Route::Unknown,
            },
            "POST" if path.ends_with("/messages") => turn(Api::Anthropic),
            "POST" if path.ends_with("/responses") => turn(Api::Responses),
            "POST" if path.ends_with("/chat/completions") => turn(Api::Chat),
            _ => Route::Unknown,
        }
    }

    fn may_enter(&self, request: &Request) -> bool {
        let Some(key) = self.options.key.as_deref() else { return true };
        let bearer = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        request.header("x-api-key") == Some(key) || bearer == Some(key)
    }

    /// One list that clients of every protocol can read.
    fn models(&self) -> Value {
        let name = self.script.name();
        let window = self.script.context_window();
        let model = json!({"id": name, "object": "model", "type": "model", "display_name": name,
            "created": responses::CREATED, "created_at": "2023-11-14T22:13:20Z", "owned_by": "script",
            "context_window": window, "max_input_tokens": window});
        json!({"object": "list", "data": [model], "has_more": false, "first_id": name, "last_id": name})
    }

    fn turn(&self, exchange: &Exchange, body: &Value) -> (String, Plan) {
        let asked = Asked::read(exchange.api, body);
        let attempt = self.record.attempt(exchange.digest);
        let prompt = asked.prompt();
        let when = format!("turn {}, attempt {}", asked.turn(), attempt.0);
        let Some(choice) = play::choose(self.script.script(), &asked.cue(&prompt, attempt)) else {
            let no = No::invalid(400, format!("no conversation of script `{}` fits", self.script.name()));
            return (format!("{when}: no conversation fits"), exchange.refuse(&no));
        };
        let playing = Playing { exchange, asked: &asked, body: choice.body };
        match choice.fail {
            None => (format!("{when}: reply"), playing.reply(&playing.spoken())),
            Some(fail) => (format!("{when}: {}", said(fail)), playing.failing(fail)),
        }
    }
}

fn said(fail: &Fail) -> String {
    match fail {
        Fail::Status { status, .. } => format!("status {status}"),
        Fail::Disconnect { after_bytes } => format!("disconnect after {after_bytes} bytes"),
        Fail::Stall { stall_ms } => format!("stall for {stall_ms} ms"),
        Fail::Fatal { .. } => "fatal".to_owned(),
        Fail::Fault(fault) => fault.as_str().to_owned(),
    }
}

/// What is known of a request before its body is understood.
#[derive(Debug)]
struct Exchange {
    api: Api,
    digest: u64,
    /// An estimate, as good as any without the model's own words.
    tokens: u64,
    context_window: u64,
}

impl Exchange {
    fn request_id(&self) -> String {
        format!("req_{:016x}", self.digest)
    }

    fn headers(&self) -> Headers {
        let name = match self.api {
            Api::Anthropic => "request-id",
            Api::Responses | Api::Chat => "x-request-id",
        };
        vec![(name, self.request_id())]
    }

    fn about<'a>(&self, model: &'a str) -> About<'a> {
        // A request that overflows is at least one token too long, whatever its size.
        let tokens = self.tokens.max(self.context_window.saturating_add(1));
        About { model, tokens, context_window: self.context_window }
    }

    fn refuse(&self, no: &No) -> Plan {
        no.plan(self.api, self.headers(), &self.request_id())
    }
}

/// A turn that was found, about to be played.
#[derive(Clone, Copy)]
struct Playing<'a> {
    exchange: &'a Exchange,
    asked: &'a Asked,
    body: &'a Body,
}

impl Playing<'_> {
    fn spoken(&self) -> Spoken {
        Spoken::new(self.asked, self.body, self.exchange.digest)
    }

    fn reply(&self, spoken: &Spoken) -> Plan {
        let Exchange { api, .. } = *self.exchange;
        match self.asked.form {
            Form::Stream => Plan::stream(self.exchange.headers(), spoken.stream(api).acts(), End::Whole),
            Form::Plain => {
                Plan::json(200, self.exchange.headers(), &spoken.plain(api)).after(spoken.delay_ms)
            }
        }
    }

    fn failing(&self, fail: &Fail) -> Plan {
        let Exchange { api, digest, .. } = *self.exchange;
        match fail {
            Fail::Status { status, wait } => self.exchange.refuse(&No::of_status(api, *status, wait.clone())),
            Fail::Fatal { message } => self.exchange.refuse(&No::invalid(400, message.as_str())),
            Fail::Disconnect { after_bytes } => self.disconnect(*after_bytes),
            Fail::Stall { stall_ms } => self.stall(*stall_ms),
            Fail::Fault(Fault::Refusal(refusal)) => self.refused(*refusal),
            Fail::Fault(Fault::Breakage(breakage)) => self.broken(*breakage),
            Fail::Fault(Fault::Odd(odd)) => self.reply(&Spoken::odd(self.asked, self.body, digest, *odd)),
        }
    }

    /// The reply breaks off after so many bytes of its body, and in any case before it is whole.
    fn disconnect(&self, after_bytes: usize) -> Plan {
        let spoken = self.spoken();
        match self.asked.form {
            Form::Stream => {
                let cut = spoken.stream(self.exchange.api).cut(after_bytes);
                Plan::stream(self.exchange.headers(), vec![Act::Send(cut)], End::Close)
            }
            Form::Plain => {
                let mut body = spoken.plain(self.exchange.api).to_string().into_bytes();
                let length = body.len();
                body.truncate(after_bytes.min(length - 1));
                let mut headers = self.exchange.headers();
                headers.push(("content-type", JSON.to_owned()));
                let head = Head::Status { status: 200, headers, framing: Framing::Length(length) };
                Plan { head, acts: vec![Act::Send(body)], end: End::Close }
            }
        }
    }

    /// The reply begins, nothing follows for that time, and the line breaks.
    fn stall(&self, stall_ms: u64) -> Plan {
        let end = End::Hold(Duration::from_millis(stall_ms));
        match self.asked.form {
            Form::Stream => {
                let first = self.spoken().stream(self.exchange.api).first();
                Plan::stream(self.exchange.headers(), vec![Act::Send(first)], end)
            }
            Form::Plain => Plan::raw(Vec::new(), end),
        }
    }

    fn refused(&self, refusal: Refusal) -> Plan {
        let Exchange { api, digest, .. } = *self.exchange;
        if refusal == Refusal::Content && api == Api::Anthropic {
            return self.reply(&Spoken::refused(self.asked, self.body, digest));
        }
        let no = No::of_fault(api, refusal, &self.exchange.about(&self.asked.model));
        if refusal == Refusal::Overflow && api == Api::Responses && self.asked.form == Form::Stream {
            let stream = responses::failed(&self.spoken(), &no.error(api));
            return Plan::stream(self.exchange.headers(), stream.acts(), End::Whole);
        }
        self.exchange.refuse(&no)
    }

    /// Faults that need a stream make one, also of a request that wanted none.
    fn broken(&self, breakage: Breakage) -> Plan {
        let headers = self.exchange.headers();
        match breakage {
            Breakage::PingsOnly => Plan::stream(headers, self.pings(), End::Close),
            Breakage::Silence => Plan::raw(Vec::new(), End::Hold(limits::FAKE_FAULT_WAIT)),
            Breakage::Drip => {
                let drip = Act::Drip { bytes: self.bytes(), pause_ms: limits::FAKE_DRIP_MS };
                Plan::chunks(self.kind(), headers, vec![drip], End::Whole)
            }
            Breakage::HugeEvent => Plan::stream(headers, huge_event(), End::Whole),
            Breakage::EndlessEvents => Plan::stream(headers, self.endless(), End::Close),
            Breakage::Html => Plan::whole(200, "text/html", headers, PAGE.into()),
            Breakage::Empty => Plan::whole(200, self.kind(), headers, Vec::new()),
            Breakage::GzipBomb => {
                let packed = [headers, vec![("content-encoding", "gzip".to_owned())]].concat();
                let bomb = Act::Bomb { bytes: limits::FAKE_BOMB_BYTES };
                Plan::chunks(self.kind(), packed, vec![bomb], End::Whole)
            }
            Breakage::WrongType => Plan::whole(200, "application/octet-stream", headers, self.bytes()),
            Breakage::TruncatedJson => Plan::whole(200, self.kind(), headers, self.half()),
            Breakage::InvalidUtf8 => Plan::whole(200, self.kind(), headers, self.no_text()),
            Breakage::GarbageTls => Plan::raw(vec![Act::Send(TLS_ALERT.to_vec())], End::Close),
        }
    }

    fn kind(&self) -> &'static str {
        match self.asked.form {
            Form::Plain => JSON,
            Form::Stream => EVENTS,
        }
    }

    /// The reply that would have been.
    fn bytes(&self) -> Vec<u8> {
        self.written(&self.spoken())
    }

    /// A reply at once, in the form that was asked for.
    fn written(&self, spoken: &Spoken) -> Vec<u8> {
        match self.asked.form {
            Form::Plain => spoken.plain(self.exchange.api).to_string().into_bytes(),
            Form::Stream => spoken.stream(self.exchange.api).bytes(),
        }
    }

    fn pings(&self) -> Vec<Act> {
        let named = |data: Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or(""));
        let ping = match self.exchange.api {
            Api::Anthropic => named(anthropic::ping()),
            Api::Responses => named(responses::ping()),
            Api::Chat => chat::PING.to_owned(),
        };
        let times = limits::FAKE_FAULT_WAIT.as_millis() as usize / limits::FAKE_PING_MS as usize;
        let pings = Act::Repeat { bytes: ping.into(), times, pause_ms: limits::FAKE_PING_MS };
        vec![Act::Send(self.spoken().stream(self.exchange.api).first()), pings]
    }

    fn endless(&self) -> Vec<Act> {
        let spoken = self.spoken();
        let (start, piece) = match self.exchange.api {
            Api::Anthropic => anthropic::endless(&spoken),
            Api::Responses => responses::endless(&spoken),
            Api::Chat => chat::endless(&spoken),
        };
        // A thousand at once: one write for each would measure the system, not the client.
        let bytes = format!("data: {piece}\n\n").repeat(1000).into_bytes();
        let times = limits::FAKE_ENDLESS_EVENTS / 1000;
        vec![Act::Send(start), Act::Repeat { bytes, times, pause_ms: 0 }]
    }

    /// The first half of a body, or an event whose data is one.
    fn half(&self) -> Vec<u8> {
        let mut body = self.spoken().plain(self.exchange.api).to_string();
        let middle = (0..=body.len() / 2).rev().find(|&at| body.is_char_boundary(at));
        body.truncate(middle.unwrap_or(0));
        match self.asked.form {
            Form::Plain => body.into_bytes(),
            Form::Stream => format!("data: {body}\n\n").into_bytes(),
        }
    }

    /// The reply with a text that no decoder takes: wherever its only letter stands, there are other bytes.
    fn no_text(&self) -> Vec<u8> {
        const LETTER: &str = "\u{e000}";
        let spoken = Spoken { text: LETTER.to_owned(), delay_ms: 0, ..self.spoken() };
        let mut bytes = self.written(&spoken);
        while let Some(at) = memchr::memmem::find(&bytes, LETTER.as_bytes()) {
            bytes[at..at + LETTER.len()].copy_from_slice(b"\xC3\x28\xFF");
        }
        bytes
    }
}

fn huge_event() -> Vec<Act> {
    let filler = vec![b'x'; limits::FAKE_BLOCK_BYTES];
    let times = limits::FAKE_HUGE_BYTES / filler.len();
    vec![
        Act::Send(b"data: {\"type\":\"filler\",\"filler\":\"".to_vec()),
        Act::Repeat { bytes: filler, times, pause_ms: 0 },
        Act::Send(b"\"}\n\n".to_vec()),
    ]
}

const PAGE: &str =
    "<!DOCTYPE html>\n<html><head><title>Welcome</title></head><body>Please log in.</body></html>\n";

/// A record of TLS 1.2 with a fatal alert: handshake failure.
const TLS_ALERT: [u8; 7] = [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x28];
