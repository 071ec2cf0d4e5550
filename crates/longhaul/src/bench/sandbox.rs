//! What holding a command costs: `true` as a tool call, held and not, one after the other in the same minute.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::time::Timestamp;
use longhaul_tools::sandbox::{Host, Mode, Network, Options, Sandbox};
use longhaul_tools::{Bash, Blobs, Cancel, Context, Tool};
use longhaul_workspace::Workspace;
use serde_json::json;

use super::ground::Ground;
use super::report::{Row, Target};
use super::stats::{median, millis, percentile};
use crate::failure::Failure;

/// Nothing is printed, so nothing is kept.
struct Nowhere;

impl Blobs for Nowhere {
    fn keep(&self, _bytes: &[u8]) -> Result<String, String> {
        Err("not kept".to_owned())
    }

    fn fetch(&self, hash: &str) -> Result<Vec<u8>, String> {
        Err(format!("no blob {hash}"))
    }
}

/// `calls` commands of each kind; the sandbox must be there, or there is nothing to measure.
pub fn measure(ground: &Ground, helper: PathBuf, calls: usize) -> Result<Vec<Row>, Failure> {
    let place = ground.place("sandbox")?;
    let workspace = Workspace::open(&place).map_err(anyhow::Error::from)?;
    let (_switch, cancel) = Cancel::new();
    let context = Context {
        workspace: Arc::new(workspace),
        run: RunId::from_bits(0),
        key: "bench-sandbox".to_owned(),
        asked_at: Timestamp::default(),
        timeout: std::time::Duration::from_secs(60),
        printed: Arc::new(longhaul_tools::Unheard),
        cwd: None,
        seen: None,
        cancel,
        blobs: Arc::new(Nowhere),
        rules: Arc::default(),
    };
    let host = Host { environment: std::env::vars_os().collect(), ..Host::default() };
    let held = Sandbox::new(Options { mode: Mode::Required, network: Network::None, helper, host });
    let started = Instant::now();
    held.prove().map_err(crate::commands::holding::refused)?;
    let probe = millis(started.elapsed());
    let (held, bare) = (bash(held), bash(Sandbox::off()));
    let runtime = crate::commands::drive::runtime()?;
    let (mut held_times, mut bare_times, mut least_times) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..calls {
        bare_times.push(runtime.block_on(time(&bare, &context))?);
        held_times.push(runtime.block_on(time(&held, &context))?);
        least_times.extend(least());
    }
    let (held, bare) = (median(&held_times), median(&bare_times));
    let added =
        Row::new("sandbox_p50", "what holding it adds", held - bare, "ms").target(Target::AtMost(15.0));
    let (added, least) = if least_times.is_empty() {
        (added, None)
    } else {
        let least = median(&least_times);
        let about =
            "what bubblewrap takes for the same namespaces, with nothing hidden and nothing else done";
        (added.ratio((held - bare) / least), Some(Row::new("bubblewrap_p50", about, least, "ms").ratio(1.0)))
    };
    Ok([
        Row::new("bare_p50", "`true` as a tool call, without a sandbox", bare, "ms"),
        Row::new("held_p50", "the same, held", held, "ms"),
        Row::new("held_p99", "the same, held, at p99", percentile(&held_times, 0.99), "ms"),
        added,
        Row::new("probe", "the self-probe, once for each process that drives runs", probe, "ms"),
    ]
    .into_iter()
    .chain(least)
    .collect())
}

/// The least a sandbox of this kind can cost here; nothing, if there is no bubblewrap.
fn least() -> Option<f64> {
    let started = Instant::now();
    let namespaces = ["--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"];
    let mut command = Command::new("bwrap");
    command.args(namespaces).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().ok().filter(std::process::ExitStatus::success)?;
    Some(millis(started.elapsed()))
}

fn bash(sandbox: Sandbox) -> Bash {
    Bash::new(std::env::vars_os(), sandbox)
}

async fn time(bash: &Bash, context: &Context) -> Result<f64, Failure> {
    let args = Json::of(&json!({ "command": "true" }));
    let started = Instant::now();
    let outcome = bash.run(context, &args, &[]).await;
    let took = millis(started.elapsed());
    if !outcome.is_done() {
        return Err(anyhow::anyhow!("`true` failed: {}", outcome.error().unwrap_or_default()).into());
    }
    Ok(took)
}
