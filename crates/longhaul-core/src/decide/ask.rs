//! Calls that need a person: leave for an action, or the answer to a question. Nothing here ever turns into a yes by itself.

use serde_json::Value;

use super::{Decision, call};
use crate::event::{Ask, AskKind, Cause, Event};
use crate::ids::{Attempt, CallId};
use crate::json::Json;
use crate::plan::Step;
use crate::run::Run;
use crate::spec::OnAsk;
use crate::status::Status;
use crate::tool::{Failure, Outcome, Trace};

/// An argument that is to say something.
pub(super) fn words<'a>(args: &'a Value, name: &str) -> Result<&'a str, (Failure, String)> {
    let why = match args.get(name).map(|said| said.as_str().map(str::trim)) {
        Some(Some("")) => "is empty",
        Some(Some(said)) => return Ok(said),
        Some(None) => "is no text",
        None => "is missing",
    };
    Err((Failure::InvalidArguments, format!("`{name}` {why}")))
}

/// The digest of an action, for people to see that what runs is what they were shown.
pub(super) fn digest(tool: &str, args: &Json) -> String {
    digest_of(&[tool, args.as_str()])
}

/// The same for an action on files: also what they are before it and after it. Whoever changes one meanwhile has made it another.
pub(super) fn digest_of_change(tool: &str, args: &Json, traces: &[Trace]) -> String {
    let files = traces.iter().flat_map(|trace| [&trace.target, &trace.before, &trace.after]);
    digest_of(&[tool, args.as_str()].into_iter().chain(files.map(String::as_str)).collect::<Vec<_>>())
}

/// The same for a command: also what is in the files that it names, be there none.
pub(super) fn digest_of_run(tool: &str, args: &Json, named: &[Trace]) -> String {
    let named = named.iter().flat_map(|trace| [trace.target.as_str(), &trace.before]);
    digest_of(&[tool, args.as_str(), "named"].into_iter().chain(named).collect::<Vec<_>>())
}

/// The same for an action on files that does not fit them: leave for it is not leave for what they become.
pub(super) fn digest_of_unprepared(tool: &str, args: &Json) -> String {
    digest_of(&[tool, args.as_str(), "unprepared"])
}

/// The same for a step: whose it is, what they are told, and what must hold afterwards.
pub(super) fn digest_of_step(step: &Step, told: &str) -> String {
    let verify = step.verify.iter().flatten().map(String::as_str);
    digest_of(&[&step.id, &step.agent, told].into_iter().chain(verify).collect::<Vec<_>>())
}

fn digest_of(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            hasher.update(&[0]);
        }
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

/// A call stops at a person. Says whether the run now waits; if not, the call was refused and the next one may come.
pub(super) fn open(run: &Run, ask: Ask, decision: &mut Decision) -> bool {
    if run.spec.on_ask() == OnAsk::Deny {
        let message = match ask.kind {
            AskKind::Permission => format!("this needs a person's leave, and none is there: {}", ask.text),
            AskKind::Question => "nobody is there to answer; decide by yourself and go on".to_owned(),
            AskKind::Need => "nobody is there to provide it; do what can be done without, and say at the end what is missing".to_owned(),
        };
        call::refuse(ask.call, Failure::NotPermitted, message, decision);
        return false;
    }
    let reason = format!("waits for a person: {}", ask.text);
    let gate = run.gates.len() as u32 + decision.gates_opened(run) + 1;
    // Saved before the wait is announced: whoever answers may find only the journal.
    decision.checkpoint(run);
    let (step, ask) = (run.current_step, Some(ask));
    decision.and(Event::WaitingForHuman { gate, step, ask, digest: None });
    if run.spec.on_ask() == OnAsk::Pause {
        decision.pause(run, Cause::Asked, reason);
    }
    true
}

/// A person gave leave: the call is made, and the ones after it.
pub(super) fn granted(run: &Run, ask: &Ask, decision: &mut Decision) {
    if let Some(known) = run.call(ask.call).filter(|_| run.status == Status::Running) {
        call::begin_granted(run, known, decision);
    }
}

pub(super) fn refused(run: &Run, ask: &Ask, reason: &str, decision: &mut Decision) {
    call::refuse(ask.call, Failure::NotPermitted, format!("a person refused: {reason}"), decision);
    go_on(run, ask.call, decision);
}

pub(super) fn answered(run: &Run, ask: &Ask, text: &str, decision: &mut Decision) {
    if let Some(known) = run.call(ask.call) {
        call::close(known, Attempt::FIRST, Outcome::done(text.to_owned()), 1, decision);
    }
    go_on(run, ask.call, decision);
}

/// On with the calls after it. Errands of the same turn may be out, or asked about as well.
fn go_on(run: &Run, done: CallId, decision: &mut Decision) {
    if let Some(ahead) = decision.ahead(run).filter(|ahead| ahead.status == Status::Running)
        && let Some(known) = ahead.call(done)
    {
        call::go_on_beside(&ahead, known, decision);
    }
}
