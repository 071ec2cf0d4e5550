//! The ways in which people are told: the desktop, a command, a webhook.
//!
//! A command is the user's own and runs with their rights, without a shell. A webhook follows no redirect: whoever answers with
//! one has not taken the notice, and elsewhere it was not meant to go.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use super::{Format, Notice, Occasion, Options, Webhook};
use crate::limits::NOTICE_TRY_TIME;

pub(super) enum Way {
    Desktop,
    Command { words: Vec<String>, base_dir: Option<PathBuf>, withheld: Vec<String> },
    Webhook { webhook: Webhook, token: Option<SecretString> },
}

pub(super) struct Failure {
    pub why: String,
    /// Could it work another time?
    pub again: bool,
}

fn temporary(why: impl Into<String>) -> Failure {
    Failure { why: why.into(), again: true }
}

fn lasting(why: impl Into<String>) -> Failure {
    Failure { why: why.into(), again: false }
}

pub(super) fn all(options: &Options) -> Vec<Arc<Way>> {
    let config = &options.config;
    let withheld: Vec<String> = options.withheld.iter().cloned().collect();
    let desktop = (config.desktop == Some(true)).then_some(Way::Desktop);
    let command = (!config.command.is_empty()).then(|| Way::Command {
        words: config.command.clone(),
        base_dir: config.base_dir.clone(),
        withheld,
    });
    let webhook = config.webhook.clone().map(|webhook| {
        let token = webhook.token_env.as_ref().and_then(|name| std::env::var(name).ok());
        let token = token.filter(|token| !token.is_empty()).map(SecretString::from);
        options.secrets.learn(token.clone());
        Way::Webhook { webhook, token }
    });
    desktop.into_iter().chain(command).chain(webhook).map(Arc::new).collect()
}

impl Way {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Way::Desktop => "desktop",
            Way::Command { .. } => "command",
            Way::Webhook { .. } => "webhook",
        }
    }

    pub(super) async fn send(&self, notice: &Notice) -> Result<(), Failure> {
        let sent = async {
            match self {
                Way::Desktop => run(&mut desktop(notice), &[]).await,
                Way::Command { words, base_dir, withheld } => {
                    let mut command = given(words, base_dir.as_deref(), notice)?;
                    for name in withheld {
                        command.env_remove(name);
                    }
                    run(&mut command, &serde_json::to_vec(notice).unwrap_or_default()).await
                }
                Way::Webhook { webhook, token } => post(webhook, token.as_ref(), notice).await,
            }
        };
        let late = || temporary(format!("no answer within {} seconds", NOTICE_TRY_TIME.as_secs()));
        timeout(NOTICE_TRY_TIME, sent).await.unwrap_or_else(|_| Err(late()))
    }
}

fn desktop(notice: &Notice) -> Command {
    if cfg!(target_os = "macos") {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let (title, text) = (quoted(&notice.title), quoted(&notice.text));
        let mut command = Command::new("osascript");
        command.args(["-e", &format!("display notification \"{text}\" with title \"{title}\"")]);
        return command;
    }
    let urgency = if notice.occasion == Occasion::Waiting { "critical" } else { "normal" };
    let mut command = Command::new("notify-send");
    command.args(["--app-name=longhaul", "-u", urgency, "--", &notice.title, &notice.text]);
    command
}

/// Not marked as a run's own: what somebody does there, an approval for one, is a person's.
fn given(words: &[String], base_dir: Option<&Path>, notice: &Notice) -> Result<Command, Failure> {
    let (program, arguments) = words.split_first().ok_or_else(|| lasting("there is no command"))?;
    // Named by a path it is beside its settings, wherever somebody works.
    let beside = base_dir.filter(|_| program.contains('/')).map(|base_dir| base_dir.join(program));
    let mut command = Command::new(beside.as_deref().unwrap_or(Path::new(program)));
    if let Some(base_dir) = base_dir {
        command.current_dir(base_dir);
    }
    command
        .args(arguments)
        .env("LONGHAUL_NOTICE_RUN", &notice.run_id)
        .env("LONGHAUL_NOTICE", notice.occasion.as_str());
    command.env("LONGHAUL_NOTICE_TITLE", &notice.title).env("LONGHAUL_NOTICE_TEXT", &notice.text);
    if let Some(gate) = &notice.gate_id {
        command.env("LONGHAUL_NOTICE_GATE", gate);
    }
    Ok(command)
}

async fn run(command: &mut Command, input: &[u8]) -> Result<(), Failure> {
    // Whoever is late is killed with what it started this process for.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| lasting(format!("cannot run {program}: {error}")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that does not read what it is told is told anyway, by its environment.
        stdin.write_all(input).await.ok();
    }
    let status = child.wait().await.map_err(|error| temporary(format!("{program}: {error}")))?;
    if status.success() { Ok(()) } else { Err(temporary(format!("{program} ended with {status}"))) }
}

async fn post(webhook: &Webhook, token: Option<&SecretString>, notice: &Notice) -> Result<(), Failure> {
    let client =
        longhaul_tools::http::client(|builder| builder.connect_timeout(NOTICE_TRY_TIME)).map_err(lasting)?;
    let request = client.post(&webhook.url);
    let request = match webhook.format {
        Format::Json => request.header("content-type", "application/json").body(json!(notice).to_string()),
        Format::Slack => {
            let text = format!("*{}*\n{}", slack(&notice.title), slack(&notice.text));
            request.header("content-type", "application/json").body(json!({ "text": text }).to_string())
        }
        Format::Ntfy => {
            let (priority, tag) = match notice.occasion {
                Occasion::Waiting => ("high", "raised_hand"),
                Occasion::Paused => ("default", "pause_button"),
                Occasion::Completed => ("default", "white_check_mark"),
                Occasion::Failed => ("high", "x"),
            };
            let headers = [
                ("title", ascii(&notice.title)),
                ("priority", priority.to_owned()),
                ("tags", tag.to_owned()),
            ];
            let request =
                headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
            request.header("content-type", "text/plain; charset=utf-8").body(notice.text.clone())
        }
    };
    let request = match token {
        Some(token) => request.bearer_auth(token.expose_secret()),
        None => request,
    };
    // An address may hold a token: it is not repeated.
    let answer = request
        .send()
        .await
        .map_err(|error| temporary(format!("cannot be reached: {}", error.without_url())))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let why = format!("answered {status}");
    if status.is_redirection() {
        return Err(lasting(format!("{why}; redirects are not followed")));
    }
    let may_pass = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
    Err(if may_pass { temporary(why) } else { lasting(why) })
}

/// What Slack takes for commands of its own.
fn slack(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Headers are ASCII.
fn ascii(text: &str) -> String {
    text.chars().map(|letter| if letter.is_ascii_graphic() || letter == ' ' { letter } else { '?' }).collect()
}
