//! `fake-model`: a provider on this machine that plays a script, for rehearsing agents and outages without a key.

use std::io;
use std::path::PathBuf;

use longhaul_model::Scripted;
use longhaul_model::fake::{FakeProvider, Options, Received};
use longhaul_model::wire::Api;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::error::RecvError;

use super::drive;
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

/// Serve a script as a provider: three protocols, every fault, no key
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  longhaul fake-model rehearsal.yaml
  longhaul fake-model outage.yaml --api anthropic --port 8099

The script is that of `--model scripted/FILE`. Calls may name any tool, because whoever asks brings its own. An attempt \
that is to fail has an entry in the turn's `fail` list, for example `{ status: 529, times: 96 }` or `{ fault: silence }`. \
The n-th request with the same body is the n-th attempt.")]
pub struct Args {
    /// The script, YAML or JSON
    #[arg(value_name = "SCRIPT")]
    pub script: PathBuf,
    /// The protocol to speak
    #[arg(long, value_enum, default_value_t = Spoken::All)]
    pub api: Spoken,
    /// The port to listen on, on this machine only; 0 takes a free one
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub port: u16,
    /// Accept only this key [default: any, or none]
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Spoken {
    Anthropic,
    Responses,
    Chat,
    All,
}

impl Spoken {
    fn api(self) -> Option<Api> {
        match self {
            Spoken::Anthropic => Some(Api::Anthropic),
            Spoken::Responses => Some(Api::Responses),
            Spoken::Chat => Some(Api::Chat),
            Spoken::All => None,
        }
    }
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let script = Scripted::load_for_any_tools(&app.cwd.join(&args.script)).map_err(|error| {
        let hint = error.hint().map(str::to_owned);
        Failure { exit: Exit::Usage, error: error.into(), hint }
    })?;
    let name = script.name().to_owned();
    drive::runtime()?.block_on(async {
        let options = Options { api: args.api.api(), port: args.port, key: args.key.clone() };
        let server =
            FakeProvider::start(script, options).await.map_err(|error| unusable(args.port, error))?;
        serve(&server, || announce(app, &args, &server, &name)).await
    })
}

fn unusable(port: u16, error: io::Error) -> Failure {
    let taken = error.kind() == io::ErrorKind::AddrInUse;
    let error = anyhow::Error::from(error).context(format!("cannot listen on port {port}"));
    let failure = Failure { exit: Exit::Usage, error, hint: None };
    if taken {
        failure.hint("something else listens there; `--port 0` takes a port that is free")
    } else {
        failure
    }
}

fn announce(app: &App, args: &Args, server: &FakeProvider, name: &str) {
    let url = server.url();
    let speaks = |api: &Api| args.api.api().is_none_or(|only| only == *api);
    if app.json() {
        let apis: Vec<&str> = Api::ALL.into_iter().filter(speaks).map(Api::as_str).collect();
        render::json_line(&json!({ "url": url, "port": server.port(), "apis": apis, "script": name }));
    } else {
        render::data(&url);
    }
    render::talk(&format!("{} is served at {url} until Ctrl-C", table::clean(name)));
    let key = if args.key.is_some() { "the key you gave" } else { "any key" };
    if speaks(&Api::Anthropic) {
        render::hint(&format!("Anthropic's clients take ANTHROPIC_BASE_URL={url} with {key}"));
    }
    if speaks(&Api::Responses) || speaks(&Api::Chat) {
        render::hint(&format!("OpenAI's clients take OPENAI_BASE_URL={url}/v1 with {key}"));
    }
}

/// One line for each request, until somebody has heard enough. What ends the server is listened for before its address
/// is told.
async fn serve(server: &FakeProvider, announce: impl FnOnce()) -> Result<Exit, Failure> {
    let mut watch = server.watch();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    announce();
    loop {
        tokio::select! {
            // What was answered is shown before anything ends.
            biased;
            request = watch.recv() => match request {
                Ok(request) => render::talk(&line(&request)),
                Err(RecvError::Lagged(missed)) => render::warn(&format!("{missed} requests are not shown")),
                Err(RecvError::Closed) => return Ok(Exit::Ok),
            },
            _ = interrupt.recv() => return Ok(Exit::Ok),
            _ = terminate.recv() => return Ok(Exit::Ok),
        }
    }
}

/// What came is somebody else's text, and this is a terminal.
fn line(request: &Received) -> String {
    table::clean(&format!("{} {} · {}", request.method, request.path, request.answer))
}
