//! What our client adds to the time until the first word of a reply: a whole exchange through `Provider`, beside one over
//! a bare socket that has the same bytes ready and looks for that word in what comes back. Both ask the same scripted
//! server over kept connections, in turn.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use longhaul_core::conversation::{CallRequest, Message, ModelRequest, Pictures, Scene};
use longhaul_core::ids::{Attempt, CallId, RunId};
use longhaul_core::json::Json;
use longhaul_model::fake::{FakeProvider, Options};
use longhaul_model::wire::{Api, ToolOffer};
use longhaul_model::{Deltas, Model, Models, Provider, ProviderConfig, Scripted};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::ground::text;
use super::report::{Row, Target};
use super::sizes::ModelSizes;
use super::stats::{median, micros, percentile};
use crate::commands::drive;
use crate::failure::Failure;

/// Parts of the measurement that each give a difference; their median is reported.
const BLOCKS: usize = 10;
/// Exchanges before the first that counts.
const WARM_UP: usize = 20;
/// Turns of the conversation that is sent: each a kilobyte of words, a call and a kilobyte of its result.
const TURNS: u32 = 20;
/// Read at once by the bare client; replies are smaller.
const READ_BYTES: usize = 16 * 1024;

const MODEL: &str = "bench/model";
const TOOL: &str = "read";
const SCRIPT: &str = "conversations: [ { turns: [ { text: 'The first word comes first.' } ] } ]";
/// What the first event with a piece of text has in it, and what ends a reply.
const FIRST: &[u8] = b"text_delta";
const LAST: &[u8] = b"\r\n0\r\n\r\n";

pub fn measure(sizes: &ModelSizes) -> Result<Vec<Row>, Failure> {
    // A thread of its own, as a server would have at least.
    let other_side = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let script = Scripted::parse_for_any_tools("bench.yaml", SCRIPT).map_err(anyhow::Error::from)?;
    let server = other_side.block_on(FakeProvider::start(script, Options::open()))?;
    let lanes = drive::runtime()?.block_on(Lanes::measure(&server, sizes.exchanges))?;
    Ok(lanes.rows())
}

/// Times in microseconds, block by block.
#[derive(Default)]
struct Lanes {
    client: Vec<Vec<f64>>,
    bare: Vec<Vec<f64>>,
    request_bytes: usize,
}

impl Lanes {
    async fn measure(server: &FakeProvider, exchanges: usize) -> Result<Lanes, Failure> {
        let request = request();
        let provider = provider(server)?;
        let mut bare = Bare::connect(server, &provider, &request).await?;
        let mut lanes = Lanes { request_bytes: bare.request.len(), ..Lanes::default() };
        for _ in 0..WARM_UP {
            ask(&provider, &request).await?;
            bare.ask().await?;
        }
        for _ in 0..BLOCKS {
            let (mut client_times, mut bare_times) = (Vec::new(), Vec::new());
            for _ in 0..exchanges {
                client_times.push(ask(&provider, &request).await?);
                bare_times.push(bare.ask().await?);
            }
            lanes.client.push(client_times);
            lanes.bare.push(bare_times);
        }
        Ok(lanes)
    }

    fn rows(&self) -> Vec<Row> {
        let about = format!("until the first word, asked with {} KiB", self.request_bytes >> 10);
        let bare = "the same bytes over a bare socket";
        vec![
            self.row("first_token_p50", &about, &self.client, 0.5),
            self.row("first_token_p99", &about, &self.client, 0.99),
            self.row("first_token_probe_p50", bare, &self.bare, 0.5),
            self.row("first_token_probe_p99", bare, &self.bare, 0.99),
            self.added("first_token_added_p50", 0.5),
            self.added("first_token_added_p99", 0.99).target(Target::AtMost(1000.0)),
        ]
    }

    fn row(&self, name: &'static str, about: &str, lane: &[Vec<f64>], share: f64) -> Row {
        let ratios: Vec<f64> = self.pairs(lane, share).iter().map(|(lane, bare)| lane / bare).collect();
        Row::new(name, about, percentile(&lane.concat(), share), "µs").ratio(median(&ratios))
    }

    fn added(&self, name: &'static str, share: f64) -> Row {
        let added: Vec<f64> =
            self.pairs(&self.client, share).iter().map(|(client, bare)| client - bare).collect();
        let about = "what the client adds: encoding, HTTP, reading; median of the blocks";
        Row::new(name, about, median(&added), "µs")
    }

    /// A percentile of each block, of a lane and of the probe.
    fn pairs(&self, lane: &[Vec<f64>], share: f64) -> Vec<(f64, f64)> {
        let of = |times: &Vec<f64>| percentile(times, share);
        lane.iter().map(of).zip(self.bare.iter().map(of)).collect()
    }
}

/// Hears when the first piece comes.
#[derive(Default)]
struct First(OnceLock<Instant>);

impl Deltas for First {
    fn text(&self, _piece: &str) {
        self.0.get_or_init(Instant::now);
    }
}

/// Asks as a run does, and waits for the whole reply; how long the first word took.
async fn ask(provider: &Provider, request: &ModelRequest) -> Result<f64, Failure> {
    let first = First::default();
    let started = Instant::now();
    let reply = provider.call(request.clone(), &first).await;
    reply.map_err(|failure| anyhow::anyhow!("the scripted provider did not answer: {}", failure.message))?;
    let heard = first.0.get().ok_or_else(|| anyhow::anyhow!("the scripted provider said nothing"))?;
    Ok(micros(heard.duration_since(started)))
}

/// A socket, and what is written to it again and again.
struct Bare {
    socket: TcpStream,
    request: Vec<u8>,
}

impl Bare {
    async fn connect(
        server: &FakeProvider,
        provider: &Provider,
        request: &ModelRequest,
    ) -> Result<Bare, Failure> {
        let socket = TcpStream::connect(("127.0.0.1", server.port())).await?;
        socket.set_nodelay(true)?;
        let body = Api::Anthropic.encode(&provider.encode(request)).to_string();
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\n\
             accept: text/event-stream\r\nanthropic-version: 2023-06-01\r\naccept-encoding: gzip\r\n\
             content-length: {}\r\n\r\n",
            server.port(),
            body.len()
        );
        Ok(Bare { socket, request: (head + &body).into_bytes() })
    }

    /// The same exchange; how long the first word took.
    async fn ask(&mut self) -> Result<f64, Failure> {
        let started = Instant::now();
        self.socket.write_all(&self.request).await?;
        let mut answer = Vec::with_capacity(READ_BYTES);
        self.read_until(&mut answer, FIRST).await?;
        let heard = micros(started.elapsed());
        self.read_until(&mut answer, LAST).await?;
        Ok(heard)
    }

    async fn read_until(&mut self, answer: &mut Vec<u8>, sign: &[u8]) -> Result<(), Failure> {
        while memchr::memmem::find(answer, sign).is_none() {
            if self.socket.read_buf(answer).await? == 0 {
                return Err(anyhow::anyhow!("the scripted provider closed the connection").into());
            }
        }
        Ok(())
    }
}

fn provider(server: &FakeProvider) -> Result<Provider, Failure> {
    let config = ProviderConfig {
        api: Some(longhaul_model::provider::Speaks::Anthropic),
        base_url: Some(server.url()),
        ..ProviderConfig::default()
    };
    let offer = ToolOffer {
        name: TOOL.to_owned(),
        description: "Reads a file.".to_owned(),
        schema: json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
    };
    let models = Models {
        providers: [("bench".to_owned(), config)].into(),
        offers: Arc::from([offer]),
        ..Models::default()
    };
    Ok(models.provider(MODEL).map_err(anyhow::Error::from)?)
}

/// A conversation some way into a run.
fn request() -> ModelRequest {
    let mut messages = vec![Message::User { text: "Read everything.".to_owned() }];
    for turn in 1..=TURNS {
        let id = CallId(turn);
        let args = Json::of(&json!({ "path": format!("src/part_{turn}.rs") }));
        let call = CallRequest { id, tool: TOOL.into(), args, provider_id: Some(format!("toolu_{turn}")) };
        messages.push(Message::Assistant { text: text(), calls: vec![call], raw: None });
        messages.push(Message::Tool { call: id, failed: false, text: text().into(), images: Vec::new() });
    }
    ModelRequest {
        model: MODEL.into(),
        system: text().into(),
        messages: Arc::new(messages),
        tools: Arc::from([TOOL.to_owned()]),
        answer_schema: None,
        scene: Scene {
            run: RunId::from_bits(0),
            agent: "bench".into(),
            step: "bench".into(),
            iteration: 1,
            depth: 0,
            turn: 1,
            attempt: Attempt::FIRST,
        },
        pictures: Pictures::default(),
    }
}
