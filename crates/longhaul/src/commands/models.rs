//! `models`: what can be asked, what it charges, and whether it really answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul_core::conversation::{
    CallRequest, Message, ModelFailure, ModelReply, ModelRequest, Pictures, Scene, Usage,
};
use longhaul_core::ids::{Attempt, CallId, RunId};
use longhaul_model::provider::Facts;
use longhaul_model::wire::ToolOffer;
use longhaul_model::{Model, Models, Quiet, ResolveError, known};
use serde_json::{Value, json};

use super::create::settled_model;
use super::{cost, drive};
use crate::app::App;
use crate::choice;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::SERVICE_PROBE_MS;
use crate::render::{self, table};

/// Show which models can be used, or try one
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// List the models that can be reached from here, with window and price (US dollars for a million tokens)
    List,
    /// Have one tiny exchange with a model, a tool call included
    Check {
        /// Model, as provider/model [default: the one a run would use]
        #[arg(value_name = "P/M")]
        model: Option<String>,
    },
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let settings = app.settings()?;
    let models = app.models(&settings);
    match args.what {
        What::List => list(app, &models),
        What::Check { model } => {
            let model = match (model, &settings.model) {
                (Some(typed), _) => settled_model(&typed, &app.cwd),
                (None, Some(written)) => settled_model(written, &app.project),
                (None, None) => choice::of_model(&settings, &models).map_err(as_argument)?,
            };
            check(app, &models, &model)
        }
    }
}

/// A hint at how a model is named here, where it is no option.
fn as_argument(failure: Failure) -> Failure {
    let hint = failure.hint.map(|hint| hint.replace("`--model ", "`longhaul models check "));
    Failure { hint, ..failure }
}

/// One line of the list.
struct Line {
    model: String,
    facts: Facts,
    /// Why it cannot be used, if it cannot.
    trouble: Option<String>,
}

fn list(app: &App, models: &Models) -> Result<Exit, Failure> {
    let runtime = drive::runtime()?;
    let mut lines = Vec::new();
    for name in models.names().iter().filter(|name| *name != "scripted") {
        lines.extend(runtime.block_on(of_provider(models, name)));
    }
    // Known are the keys of those that were asked, also of commands.
    app.secrets.learn(models.secrets());
    let struck = |text: String| app.secrets.strike(&text).into_owned();
    let struck = |line: Line| Line { model: struck(line.model), trouble: line.trouble.map(struck), ..line };
    let lines: Vec<Line> = lines.into_iter().map(struck).collect();
    if app.json() {
        render::json(&lines.iter().map(as_json).collect::<Vec<_>>());
        return Ok(Exit::Ok);
    }
    let header = ["MODEL", "WINDOW", "INPUT", "CACHE READ", "OUTPUT", "STATE"];
    render::data(&table::rows(&header, lines.iter().map(as_line)));
    render::talk("and scripted/FILE, which plays a file");
    Ok(Exit::Ok)
}

/// A provider's models by its own word; if it does not say, the ones that are known to be there.
async fn of_provider(models: &Models, name: &str) -> Vec<Line> {
    let facts = |model: &str| match models.config(name) {
        Ok(config) => Facts::of(longhaul_model::provider::official(name), model, &config).unwrap_or_default(),
        Err(_) => Facts::default(),
    };
    let full = |model: &str| format!("{name}/{model}");
    let unusable =
        |error: String| vec![Line { model: full("…"), facts: Facts::default(), trouble: Some(error) }];
    let provider = match models.provider(&full("any")) {
        Ok(provider) => provider,
        Err(error) => return unusable(error.to_string()),
    };
    let wait_ms = if choice::is_local(name) { crate::limits::LOCAL_PROBE_MS } else { SERVICE_PROBE_MS };
    match provider.list(Duration::from_millis(wait_ms)).await {
        Ok(listed) => listed
            .into_iter()
            .map(|model| {
                let known = facts(&model.id);
                let window = known.window.or(model.window);
                Line { model: full(&model.id), facts: Facts { window, ..known }, trouble: None }
            })
            .collect(),
        Err(_) if choice::is_local(name) => unusable("nothing answers there".to_owned()),
        Err(error) => {
            let known = known::models(name).into_iter().map(|model| Line {
                facts: facts(&model),
                model: full(&model),
                trouble: Some(error.to_string()),
            });
            let known: Vec<Line> = known.collect();
            if known.is_empty() { unusable(error.to_string()) } else { known }
        }
    }
}

fn as_line(line: &Line) -> Vec<String> {
    let Facts { window, prices, .. } = &line.facts;
    let dollars = |amount: longhaul_core::money::Usd| format!("${:.2}", amount.as_dollars());
    let (input, cache_read, output) = match prices {
        Some(prices) => (dollars(prices.input), dollars(prices.cache_read), dollars(prices.output)),
        None if line.trouble.is_some() => Default::default(),
        None => ("unknown".to_owned(), String::new(), "unknown".to_owned()),
    };
    let unknown = if line.trouble.is_some() { "" } else { "unknown" };
    vec![
        table::clean(&line.model),
        window.map_or(unknown.to_owned(), |window| window.to_string()),
        input,
        cache_read,
        output,
        line.trouble.as_deref().map_or("ready".to_owned(), |trouble| table::fit(trouble, 60)),
    ]
}

fn as_json(line: &Line) -> Value {
    let Facts { window, prices, max_output_tokens, images, .. } = &line.facts;
    json!({
        "model": line.model, "contextWindow": window, "maxOutputTokens": max_output_tokens, "images": images,
        "prices": prices.map(|prices| json!({
            "input": prices.input, "output": prices.output,
            "cacheRead": prices.cache_read, "cacheWrite": prices.cache_write,
        })),
        "reachable": line.trouble.is_none(), "error": line.trouble,
    })
}

/// What the model is to call, and what it cannot know without calling it.
const TOOL: &str = "get_word";
const WORD: &str = "quernstone";

/// What an exchange showed.
struct Checked {
    called: bool,
    /// Did the tool's word come back?
    heard: bool,
    said: String,
    usage: Usage,
}

fn check(app: &App, models: &Models, name: &str) -> Result<Exit, Failure> {
    let models = Models { offers: Arc::from([offer()]), ..models.clone() };
    let wrong = |source: ResolveError| longhaul_engine::Error::Model { name: name.to_owned(), source };
    let model = models.resolve(name).map_err(wrong)?;
    let started = Instant::now();
    let checked = drive::runtime()?.block_on(exchange(model.as_ref(), name));
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    app.secrets.learn(models.secrets());
    match checked {
        Ok(mut checked) => {
            checked.said = app.secrets.strike(&checked.said).into_owned();
            report(app, name, &checked, took_ms);
            Ok(if checked.called && checked.heard { Exit::Ok } else { Exit::Failed })
        }
        Err(failure) => Err(refused(name, &failure)),
    }
}

fn report(app: &App, name: &str, checked: &Checked, took_ms: u64) {
    if app.json() {
        let Checked { called, heard, said, usage } = checked;
        render::json(
            &json!({ "model": name, "toolCall": called, "toolResult": heard, "text": said, "usage": usage, "tookMs": took_ms }),
        );
        return;
    }
    let Usage { input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, .. } = checked.usage;
    let called = match (checked.called, checked.heard) {
        (true, true) => "calls tools",
        (true, false) => "calls tools, but does NOT use what they return",
        (false, _) => "made NO tool call",
    };
    render::data(&format!(
        "{name} answers and {called}: {} in {}, {} tokens in, {output_tokens} out, {}",
        table::fit(&checked.said, 60),
        table::duration(took_ms),
        input_tokens + cache_read_tokens + cache_write_tokens,
        cost::cost(&checked.usage),
    ));
    cost::tell_estimated(&checked.usage);
    if !checked.called {
        render::hint(
            "an agent needs tool calls; a local server may have to be started with another chat template",
        );
    }
}

/// One question that asks for a call, and one that gives its result.
async fn exchange(model: &dyn Model, name: &str) -> Result<Checked, ModelFailure> {
    let mut messages = vec![Message::User {
        text: format!("Call the tool `{TOOL}` for English, then tell me the word it returned."),
    }];
    let first = model.call(request(name, &messages, 1), &Quiet).await?;
    let mut usage = first.usage;
    let called = first.calls.iter().any(|call| call.tool == TOOL && call.malformed.is_none());
    if first.calls.is_empty() {
        return Ok(Checked { called, heard: false, said: first.text, usage });
    }
    messages.extend(answered(first));
    let second = model.call(request(name, &messages, 2), &Quiet).await?;
    usage.add(&second.usage);
    let heard = second.text.to_lowercase().contains(WORD);
    Ok(Checked { called, heard, said: second.text, usage })
}

/// The model's turn and the results of its calls.
fn answered(reply: ModelReply) -> Vec<Message> {
    let numbered = reply.calls.into_iter().zip(1..).map(|(call, number)| CallRequest {
        id: CallId(number),
        tool: call.tool,
        args: call.args,
        provider_id: call.provider_id,
    });
    let calls: Vec<CallRequest> = numbered.collect();
    let results: Vec<Message> = calls
        .iter()
        .map(|call| Message::Tool { call: call.id, failed: false, text: WORD.into(), images: Vec::new() })
        .collect();
    let mut messages = vec![Message::Assistant { text: reply.text, calls, raw: reply.raw.map(Box::new) }];
    messages.extend(results);
    messages
}

fn request(name: &str, messages: &[Message], turn: u32) -> ModelRequest {
    ModelRequest {
        model: name.into(),
        system: "You are an agent that works with tools. What a tool can tell you, you ask the tool.".into(),
        messages: Arc::new(messages.to_vec()),
        tools: Arc::from([TOOL.to_owned()]),
        answer_schema: None,
        scene: Scene {
            run: RunId::from_bits(0),
            agent: "check".into(),
            step: "check".into(),
            iteration: 1,
            depth: 0,
            turn,
            attempt: Attempt::FIRST,
        },
        pictures: Pictures::default(),
    }
}

fn offer() -> ToolOffer {
    ToolOffer {
        name: TOOL.to_owned(),
        description: "Returns the word of the day".to_owned(),
        schema: json!({
            "type": "object", "properties": { "language": { "type": "string" } }, "required": ["language"],
            "additionalProperties": false,
        }),
    }
}

/// A model that did not answer: a wait is worth a try later, anything else is a matter of settings.
fn refused(name: &str, failure: &ModelFailure) -> Failure {
    use longhaul_core::conversation::ModelFailureKind as Kind;
    let exit = match failure.kind {
        Kind::Unavailable | Kind::RateLimited => Exit::RateLimited,
        Kind::Unreachable
        | Kind::Broken
        | Kind::Credentials
        | Kind::Quota
        | Kind::ModelUnknown
        | Kind::Overflow
        | Kind::Refused
        | Kind::Rejected
        | Kind::Fatal => Exit::Usage,
    };
    Failure { exit, error: anyhow::anyhow!("{name}: {}", failure.message), hint: None }
}
