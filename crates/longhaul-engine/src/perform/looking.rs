//! The harness's own commands: those that prepare a workspace, and those that look at the work.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use longhaul_core::evidence::{Check, Examination};
use longhaul_core::input::Input;
use longhaul_tools::{Context, Examine, Tool, examine, set_up};

use super::{Look, micros, panic_text};
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
    Some(Input::Examined { round, attempt, found: Box::new(secrets.strike_examination(found)) })
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
