//! Calls that only repeat what led nowhere before: they are not made, and something is done about it.

use super::{Asked, is_errand_out, refuse};
use crate::decide::Decision;
use crate::event::Event;
use crate::ids::Attempt;
use crate::limits::CHANGING_REPEATS_FACTOR;
use crate::repetition::{self, Remedy};
use crate::run::{Call, Phase, Run};
use crate::status::Status;
use crate::tool::{BASH_OUTPUT, Failure, Outcome};

const ONCE_MORE: &str = "not made: it was asked for again in the same turn";

/// Does this call only repeat what led nowhere before? A call that a hook or a person has looked at is not asked again, and what was
/// tried before a person last started the run counts no longer: something may have changed.
pub(super) fn repeats(run: &Run, call: &Asked<'_>) -> Option<repetition::Found> {
    let max = run.spec.conduct().repeats_max().filter(|_| call.attempt == Attempt::FIRST && !call.granted)?;
    // A run that does not run yet is being started with this very decision.
    if run.status != Status::Running {
        return None;
    }
    let here = |other: &&Call| (other.step, other.iteration) == (run.current_step, run.iteration);
    let most = (max * CHANGING_REPEATS_FACTOR) as usize;
    let end = (call.id.0 as usize - 1).min(run.calls.len());
    let before = run.calls[..end].iter().skip(run.calls_before_start as usize);
    // It is no circle of the agent's that longhaul was stopped, however often. What may be used up still bounds it.
    let is_whole = |call: &&Call| !call.outcome().is_some_and(Outcome::was_cut_short);
    let mut before: Vec<&Call> = before.rev().take_while(here).filter(is_whole).take(most).collect();
    before.reverse();
    let found = repetition::found(&before, call.tool, call.args, max);
    found.or_else(|| run.novelty.found(call.tool, call.args, max))
}

/// Refuses a call that goes round in circles, and says what is done about it.
pub(super) fn broken_off(
    run: &Run,
    turn: u32,
    call: &Asked<'_>,
    found: repetition::Found,
    decision: &mut Decision,
) -> Remedy {
    // The agent has not heard of it yet: once for each turn is enough.
    if told_of_circles(run, decision) {
        refuse(call.id, Failure::DoomLoop, ONCE_MORE.to_owned(), decision);
        return Remedy::Nudge;
    }
    let remedy = match repetition::remedy(run, found, call.id.0 - 1) {
        // Who is on an errand would come back to a conversation that knows nothing of it.
        Remedy::FreshStart if is_errand_out(run, turn, decision) => Remedy::Nudge,
        remedy @ (Remedy::Nudge | Remedy::FreshStart | Remedy::Pause) => remedy,
    };
    circling(run, call, found, remedy, decision);
    remedy
}

fn told_of_circles(run: &Run, decision: &Decision) -> bool {
    let is_loop = |outcome: &Outcome| matches!(outcome, Outcome::Failed { failure: Failure::DoomLoop, .. });
    let before = run.calls.last().is_some_and(|last| {
        matches!(run.phase, Phase::Calling { .. })
            && run.calls_of_turn(last).iter().any(|call| call.outcome().is_some_and(is_loop))
    });
    before || decision.events.iter().any(|event| matches!(event, Event::DoomLoop { .. }))
}

/// The agent goes round in circles: what is done about it is on record, and the call is not made.
fn circling(run: &Run, call: &Asked<'_>, found: repetition::Found, remedy: Remedy, decision: &mut Decision) {
    let (repetition, count) = (found.repetition, found.count);
    decision.and(Event::DoomLoop { repetition, remedy, tool: call.tool.to_owned(), count });
    let has_background = run.spec.tools.iter().any(|grant| grant.name == BASH_OUTPUT);
    refuse(call.id, Failure::DoomLoop, found.explained(has_background), decision);
}
