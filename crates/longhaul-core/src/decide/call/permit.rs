//! Whether a call may be made: what limits, grants and rules say to it, and whether a person is asked first.

use serde_json::Value;

use super::{Asked, OVERSIZED, cwd};
use crate::decide::{Decision, ask, child, limit};
use crate::event::{Ask, AskKind};
use crate::ids::{Attempt, CallId};
use crate::json::Json;
use crate::limits::{ARGUMENT_BYTES_MAX, CALLS_PER_TURN_MAX, OUTPUT_INLINE_BYTES_MAX};
use crate::permission::{Action, Here, Verdict, judge, judge_path};
use crate::prompt::head;
use crate::run::{Call, CallState, Run};
use crate::spec::Limits;
use crate::tool::{ASK_HUMAN, EffectClass, Failure, PUSH, SPAWN, Trace};

/// What a call that is not refused needs.
pub(super) enum Leave {
    Given(EffectClass),
    /// What it is about is looked at first: leave is, or was, for that.
    Looked,
    /// It is written down, and that is all.
    Noted,
    /// Somebody else is to do it: which agent, and what.
    Errand((String, String)),
    Ask(Ask),
    /// What is left is set aside for others, who may have some to give back.
    Later(limit::Reached),
}

/// May this call run? Asked once, before its intent; a refusal is an answer for the model.
pub(super) fn permit(
    run: &Run,
    call: &Asked<'_>,
    limits: Limits,
    decision: &Decision,
) -> Result<Leave, (Failure, String)> {
    if call.place >= CALLS_PER_TURN_MAX {
        let message = format!("a turn may ask for at most {CALLS_PER_TURN_MAX} calls");
        return Err((Failure::BudgetExceeded, message));
    }
    let Some(class) = class_of(run, call.tool) else {
        let permitted: Vec<&str> = run.spec.tools.iter().map(|grant| grant.name.as_str()).collect();
        let message = format!(
            "tool `{}` is not permitted for agent {}; permitted: {}",
            call.tool,
            run.spec.agent,
            if permitted.is_empty() { "none".to_owned() } else { permitted.join(", ") },
        );
        return Err((Failure::NotPermitted, message));
    };
    let is_counted = call.attempt != Attempt::FIRST;
    match limit::calls_out(run, limits, decision).filter(|_| !is_counted) {
        Some(out) if out.may_get_more => return Ok(Leave::Later(out.reached)),
        Some(out) => {
            let message =
                format!("tool call budget exceeded: {} of {} used", out.used, limits.max_tool_calls);
            return Err((Failure::BudgetExceeded, message));
        }
        None => {}
    }
    if let Some(reason) = call.malformed {
        let message =
            format!("the arguments cannot be read: {reason}; give a JSON object that fits the tool");
        return Err((Failure::InvalidArguments, message));
    }
    if call.args.as_str().contains(OVERSIZED) && call.args.value().get(OVERSIZED).is_some() {
        let message = format!("the arguments are too large: one call may have {ARGUMENT_BYTES_MAX} bytes");
        return Err((Failure::InvalidArguments, message));
    }
    if call.tool == ASK_HUMAN {
        return question(call);
    }
    let here = Here { workspace: &run.spec.workspace, cwd: cwd(run, decision) };
    let verdict = judge(run.spec.rules(), here, call.tool, &call.args.value());
    if verdict.action == Action::Deny {
        return Err((Failure::NotPermitted, denied(&verdict)));
    }
    let given = match call.tool {
        SPAWN => Leave::Errand(child::asked(run, call.args)?),
        _ => Leave::Given(class),
    };
    if call.granted {
        let is_bound = bound_digest(run, call.id, call.tool, call.args).is_some();
        return Ok(if is_bound && call.tool == NAMES_FILES { Leave::Looked } else { given });
    }
    if verdict.action == Action::Ask && verdict.rule.is_none() && !run.spec.autonomy.asks_in_doubt() {
        return Err((Failure::NotPermitted, unclear(&verdict)));
    }
    let asks = verdict.action == Action::Ask || needs_leave(run, call.tool);
    // A person is asked when it is known what files are now, and what a commit will be.
    if asks && call.tool == NAMES_FILES {
        return Ok(Leave::Looked);
    }
    if !asks || is_bound(call.tool) {
        return Ok(given);
    }
    let verdict = Some(&verdict).filter(|verdict| verdict.action == Action::Ask);
    let digest = ask::digest(call.tool, call.args);
    let mut ask = leave(call.id, call.tool, verdict, digest);
    if call.tool == PUSH {
        let args = call.args.value();
        let remote = args.get("remote").and_then(Value::as_str).unwrap_or("origin");
        let more =
            format!("; it sends the branch that is checked out in {} to `{remote}`", run.spec.workspace);
        ask.text = head(&(ask.text + &more), OUTPUT_INLINE_BYTES_MAX).to_owned();
    }
    Ok(Leave::Ask(ask))
}

/// Tools that look at nothing but the files they are to change while they are prepared.
const CHANGES_FILES: [&str; 3] = ["write", "edit", "apply_patch"];

/// The tool whose call is a commit that is made beforehand: there is something to look at before leave is given.
const COMMITS: &str = "git_commit";

/// The tool whose commands are as much the files that their text names as the text itself.
const NAMES_FILES: &str = "bash";

/// Is leave for what was prepared, not only for the arguments?
fn is_bound(tool: &str) -> bool {
    tool == COMMITS || tool == NAMES_FILES || CHANGES_FILES.contains(&tool)
}

/// May these files be changed? Asked when it is known which they are, and what they hold: a patch has them in its text. What was
/// settled at the first attempt is not asked again. Leave is for the files as they were when it was asked for.
pub(super) fn permit_targets(run: &Run, call: &Call, traces: &[Trace]) -> Result<Option<Ask>, String> {
    let (rules, workspace) = (run.spec.rules(), &run.spec.workspace);
    let own = own_verdict(run, call);
    // What a command names is not what it changes; rules about that have been asked.
    let changed = traces.iter().filter(|_| call.tool != NAMES_FILES);
    let verdicts = changed.map(|trace| judge_path(rules, workspace, &call.tool, &trace.target));
    let strictest =
        verdicts.chain(own).reduce(|first, next| if next.action > first.action { next } else { first });
    if let Some(denial) = strictest.as_ref().filter(|verdict| verdict.action == Action::Deny) {
        return Err(denied(denial));
    }
    let verdict = strictest.filter(|verdict| verdict.action == Action::Ask);
    let asks = verdict.is_some() || (is_bound(&call.tool) && needs_leave(run, &call.tool));
    if !asks || !matches!(call.state, CallState::Proposed) {
        return Ok(None);
    }
    let digest = if call.tool == NAMES_FILES { ask::digest_of_run } else { ask::digest_of_change };
    let digest = digest(&call.tool, &call.args, traces);
    if call.granted && is_leave_for(run, call, &digest) {
        return Ok(None);
    }
    let mut ask = leave(call.id, &call.tool, verdict.as_ref(), digest);
    if let Some(commit) = traces.first().filter(|_| call.tool == COMMITS) {
        ask.text = format!(
            "{}; `git -C \"{workspace}\" --no-replace-objects show {}` shows what would be committed",
            ask.text, commit.after
        );
    }
    if call.granted {
        ask.text = format!("{} {CHANGED_SINCE}", ask.text);
    }
    ask.text = head(&ask.text, OUTPUT_INLINE_BYTES_MAX).to_owned();
    Ok(Some(ask))
}

const CHANGED_SINCE: &str = "(leave was given before a file of it changed)";

/// A person is asked about a change that could not be prepared, as about any call: why it could not may say what is in a file.
pub(super) fn permit_unprepared(run: &Run, call: &Call) -> Option<Ask> {
    if call.granted || !CHANGES_FILES.contains(&&*call.tool) || !matches!(call.state, CallState::Proposed) {
        return None;
    }
    let verdict = own_verdict(run, call).filter(|verdict| verdict.action == Action::Ask);
    if verdict.is_none() && !needs_leave(run, &call.tool) {
        return None;
    }
    let digest = ask::digest_of_unprepared(&call.tool, &call.args);
    Some(leave(call.id, &call.tool, verdict.as_ref(), digest))
}

/// What the rules say to a call by its arguments where leave is asked for only now; of other calls they were asked before.
fn own_verdict(run: &Run, call: &Call) -> Option<Verdict> {
    let here = Here { workspace: &run.spec.workspace, cwd: run.cwd.as_deref().unwrap_or_default() };
    is_bound(&call.tool).then(|| judge(run.spec.rules(), here, &call.tool, &call.args.value()))
}

/// Was leave given for exactly this? Where it was only asked for without a look at the files, as by a hook, any will do.
fn is_leave_for(run: &Run, call: &Call, digest: &str) -> bool {
    bound_digest(run, call.id, &call.tool, &call.args).is_none_or(|asked| asked == digest)
}

/// What leave was last asked for, if that was looked at.
fn bound_digest<'a>(run: &'a Run, call: CallId, tool: &str, args: &Json) -> Option<&'a String> {
    let unbound = ask::digest(tool, args);
    let asks = run.gates.iter().rev().filter_map(|gate| gate.ask.as_ref()).filter(|ask| ask.call == call);
    asks.map(|ask| &ask.digest).find(|digest| **digest != unbound)
}

/// What an agent has to say to a person: a question and a need wait, an assumption is only written down.
fn question(call: &Asked<'_>) -> Result<Leave, (Failure, String)> {
    let args = call.args.value();
    let kind = match args.get("kind").map(|kind| kind.as_str().unwrap_or_default()) {
        None | Some("question") => AskKind::Question,
        Some("need") => AskKind::Need,
        Some("assumption") => return Ok(Leave::Noted),
        Some(other) => {
            let message = format!("`kind` is question, need or assumption, not `{other}`");
            return Err((Failure::InvalidArguments, message));
        }
    };
    let text = head(ask::words(&args, "question")?, OUTPUT_INLINE_BYTES_MAX).to_owned();
    let digest = ask::digest(call.tool, call.args);
    Ok(Leave::Ask(Ask { call: call.id, kind, text, digest }))
}

/// A request for a person's leave, for exactly this action.
fn leave(call: CallId, tool: &str, verdict: Option<&Verdict>, digest: String) -> Ask {
    let why = verdict.map_or_else(String::new, |verdict| format!(" {verdict}"));
    let text = head(&format!("may {tool} be called?{why}"), OUTPUT_INLINE_BYTES_MAX).to_owned();
    Ask { call, kind: AskKind::Permission, text, digest }
}

fn denied(verdict: &Verdict) -> String {
    format!("not permitted: {verdict}; do it in another way or without it")
}

fn unclear(verdict: &Verdict) -> String {
    format!(
        "not run, because it cannot be told what it would do: {verdict}. Put it more plainly: one command after the other, with \
         paths and programs written out; put code into a file of the workspace and run that"
    )
}

fn needs_leave(run: &Run, tool: &str) -> bool {
    run.spec.tools.iter().any(|grant| grant.name == tool && grant.ask == Some(true))
}

pub(super) fn class_of(run: &Run, tool: &str) -> Option<EffectClass> {
    run.spec.tools.iter().find(|grant| grant.name == tool).map(|grant| grant.class)
}
