//! The harness's own commands: those that prepare a workspace, and those that look at the work.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use longhaul_core::evidence::{Check, Examination};
use longhaul_core::ids::RunId;
use longhaul_core::input::Input;
use longhaul_core::limits::{JUDGED_DIFF_BYTES_MAX, NOTE_BYTES_MAX};
use longhaul_core::prompt::head;
use longhaul_tools::limits::JUDGED_FILE_BYTES_MAX;
use longhaul_tools::{Context, Examine, Tool, examine, set_up};
use tokio::task::spawn_blocking;

use super::{Look, micros, panic_text};
use crate::harness::Harness;
use crate::secrets::Secrets;

/// Runs the commands that prepare a workspace.
pub(super) async fn prepared_place(
    bash: Option<Arc<dyn Tool>>,
    context: &Context,
    commands: &[String],
    secrets: &Secrets,
) -> Input {
    let started = Instant::now();
    let ended = match bash {
        Some(bash) => set_up(commands, bash, context).await,
        None => Err("there is no bash to run commands with".to_owned()),
    };
    let error = ended.err().map(|error| secrets.strike(&error).into_owned());
    let duration_us = micros(started);
    Input::SetUpEnded { error, duration_us }
}

/// Looks at the work. A panic in looking is a warning, not the run's end.
pub(super) async fn look_at_work(
    bash: Option<Arc<dyn Tool>>,
    context: Context,
    look: Look,
    secrets: Secrets,
    earlier: Option<String>,
    since: Option<Harness>,
) -> Option<Input> {
    let (round, attempt) = (look.round, look.attempt);
    let found = match bash {
        Some(bash) => AssertUnwindSafe(examine(&look.examine, bash, &context)).catch_unwind().await,
        None => Ok(Some(unseen("there is no bash to run commands with", &look.examine))),
    };
    let mut found = match found {
        Ok(found) => found?,
        Err(panic) => unseen(panic_text(panic.as_ref()), &look.examine),
    };
    found.baseline = earlier.or(found.baseline);
    if let Some(harness) = since {
        let (run, judged) = (look.run.clone(), look.examine.judged);
        let own = spawn_blocking(move || own_changes(&harness, &run, judged)).await;
        if let Ok(Some((changes, diff))) = own {
            (found.changes, found.diff) = (changes, diff);
        }
    }
    Some(Input::Examined { round, attempt, found: Box::new(secrets.strike_examination(found)) })
}

/// What a run without a branch has changed, and that line by line for a judge: compared with what was stored before its first
/// change, so that what the user had not committed is not taken for its work. Nothing if nobody knows what that was.
fn own_changes(harness: &Harness, run: &RunId, judged: bool) -> Option<(Option<String>, Option<String>)> {
    let since_start = |form: &[&str]| {
        let printed = harness.diff_since_start(run, form).ok()??;
        Some(String::from_utf8_lossy(&printed).into_owned())
    };
    let some = |text: String| Some(text).filter(|text| !text.trim().is_empty());
    let changes = since_start(&["--stat=100", "--stat-count=60", "--find-renames"])?;
    let patch = if judged { since_start(&["--patch", "--find-renames"]) } else { None };
    Some((
        some(head(&changes, NOTE_BYTES_MAX).to_owned()),
        patch.map(|patch| shared_out(&patch)).and_then(some),
    ))
}

/// Something of each file rather than all of the first, as far as a judge reads.
fn shared_out(patch: &str) -> String {
    const FILE: &str = "diff --git ";
    let starts: Vec<usize> = patch
        .match_indices(FILE)
        .map(|(at, _)| at)
        .filter(|at| *at == 0 || patch[..*at].ends_with('\n'))
        .collect();
    let ends = starts.iter().skip(1).copied().chain([patch.len()]);
    let room = JUDGED_FILE_BYTES_MAX.min(JUDGED_DIFF_BYTES_MAX / starts.len().max(1));
    let parts = starts.iter().zip(ends).map(|(start, end)| head(&patch[*start..end], room).trim_end());
    let text = parts.collect::<Vec<_>>().join("\n");
    let cut = if patch.len() > JUDGED_DIFF_BYTES_MAX { "\n[cut here: there is more]" } else { "" };
    format!("{text}{cut}")
}

/// What could not be looked at does not hold.
fn unseen(why: &str, asked: &Examine) -> Examination {
    let check = |command: &String| Check {
        command: command.clone(),
        passed: false,
        ended: format!("not run: {why}"),
        output: "".into(),
        blob: None,
        duration_us: 1,
    };
    let checks = if asked.purpose.is_claim() { asked.verify.iter().map(check).collect() } else { Vec::new() };
    Examination {
        checks,
        warnings: vec![format!("the work could not be looked at: {why}")],
        ..Examination::default()
    }
}
