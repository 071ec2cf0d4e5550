//! Whether an agent goes round in circles: the same call again, two calls in turn, the same error again, or any round of calls
//! that brings nothing new. Judged from what was tried and what came of it, so that honest waiting is not mistaken for it.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::Json;
use crate::limits::{CHANGING_REPEATS_FACTOR, NOTHING_NEW_FACTOR, REPETITION_MEMORY_FACTOR};
use crate::run::{Call, Run};
use crate::tool::{BASH_OUTPUT, Failure, Outcome, STILL_RUNNING};

/// How it repeats itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Repetition {
    /// The same call, again and again.
    #[n(0)]
    SameCall,
    /// Two calls, turn and turn about.
    #[n(1)]
    TwoCalls,
    /// Different calls that all fail with the same words.
    #[n(2)]
    SameError,
    /// Calls in whatever order that were all made before and came to the same.
    #[n(3)]
    NothingNew,
    /// Calls that differ, and of which nothing came but errors.
    #[n(4)]
    AllFail,
}

/// What is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// The call is not made, and the agent is told why.
    #[n(0)]
    Nudge,
    /// The conversation is begun anew.
    #[n(1)]
    FreshStart,
    /// The run is paused for a person.
    #[n(2)]
    Pause,
}

/// What was found, and how often it was tried, this time included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub repetition: Repetition,
    pub count: u32,
}

impl Found {
    /// How many calls the circle has, without the one that would go on with it.
    fn calls(&self) -> u32 {
        match self.repetition {
            Repetition::SameCall => self.count - 1,
            Repetition::TwoCalls => self.count * 2 - 1,
            Repetition::SameError | Repetition::NothingNew | Repetition::AllFail => self.count,
        }
    }

    /// What the agent is told. One that waits for a process is told how that is done, if it can.
    pub fn explained(&self, has_background: bool) -> String {
        let what = match self.repetition {
            Repetition::SameCall => format!("this same call was tried {} times in a row", self.count),
            Repetition::TwoCalls => format!("these two calls were tried in turn {} times", self.count),
            Repetition::SameError => format!("the last {} calls all failed with the same error", self.count),
            Repetition::AllFail => {
                let count = self.count;
                return format!(
                    "the last {count} calls all failed, so this one was not made. Do something else: if a rule or a missing file \
                     stands in the way, another spelling does not help. If you cannot go on, say what you need"
                );
            }
            Repetition::NothingNew => {
                format!("the last {} calls were all made before and came to the same", self.count)
            }
        };
        let waiting = if has_background {
            ", or, if you wait for something, run it with `background` and look with bash_output"
        } else {
            ""
        };
        format!(
            "{what} to no new effect, so it was not made again. If what you wanted is there, go on with what is next, or say that \
             you are done, without a call. Otherwise do something else: look at what is there, try another way{waiting}. If you \
             cannot go on, say what stands in the way"
        )
    }
}

/// A call as it is compared: by tool and arguments, whatever the order of their keys.
#[derive(PartialEq, Eq)]
struct Tried {
    tool: String,
    args: Value,
}

impl Tried {
    fn of(tool: &str, args: &Json) -> Tried {
        Tried { tool: tool.to_owned(), args: args.value() }
    }

    fn is(&self, call: &Call) -> bool {
        // Cheap first: most calls differ in their tool.
        call.tool == *self.tool && self.args == call.args.value()
    }
}

/// Would this call go round in a circle? `before` is what was tried in this conversation, oldest first.
pub fn found(before: &[&Call], tool: &str, args: &Json, max: u32) -> Option<Found> {
    let tried = Tried::of(tool, args);
    same_call(before, &tried, max)
        .or_else(|| two_calls(before, &tried, max))
        .or_else(|| same_error(before, tool, max))
        .or_else(|| nothing_new(before, tool, args, max))
}

fn same_call(before: &[&Call], tried: &Tried, max: u32) -> Option<Found> {
    let most = (max * CHANGING_REPEATS_FACTOR) as usize;
    let same: Vec<&&Call> = before.iter().rev().take(most).take_while(|call| tried.is(call)).collect();
    let count = same.len() as u32 + 1;
    if count < max || is_excused(same.iter().find(|call| call.outcome().is_some()).map(|call| **call)) {
        return None;
    }
    // What was not made again has no result to compare, nor has what ends with this very decision.
    let made = same.iter().filter_map(|call| call.outcome()).filter(|outcome| !was_stopped(outcome));
    let results: Vec<_> = made.take(max as usize - 1).map(Outcome::for_model).collect();
    let unchanged = results.windows(2).all(|pair| pair[0] == pair[1]);
    (unchanged || count >= max * CHANGING_REPEATS_FACTOR)
        .then_some(Found { repetition: Repetition::SameCall, count })
}

fn was_stopped(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed { failure: Failure::DoomLoop, .. })
}

/// A command that still runs is being waited for; a hook that broke is not the agent's doing, and is counted elsewhere.
fn is_excused(last: Option<&Call>) -> bool {
    let Some(call) = last else { return false };
    match call.outcome() {
        Some(Outcome::Failed { failure: Failure::Hook, .. }) => true,
        Some(Outcome::Done { output }) => {
            call.tool == BASH_OUTPUT && output.text.trim_end().ends_with(STILL_RUNNING)
        }
        Some(Outcome::Failed { .. } | Outcome::Unknown { .. }) | None => false,
    }
}

fn two_calls(before: &[&Call], tried: &Tried, max: u32) -> Option<Found> {
    let length = max as usize * 2 - 1;
    let recent = before.get(before.len().checked_sub(length)?..)?;
    let [.., other] = recent else { return None };
    let other_tried = Tried::of(&other.tool, &other.args);
    let waits = recent.iter().rev().take(2).any(|call| is_excused(Some(call)));
    if tried == &other_tried || waits {
        return None;
    }
    let fits = |(index, call): (usize, &&Call)| {
        let expected = if index % 2 == 0 { &other_tried } else { tried };
        expected.is(call)
    };
    let alternates = recent.iter().rev().enumerate().all(fits);
    let results = |offset: usize| {
        let results: Vec<_> =
            recent.iter().rev().skip(offset).step_by(2).map(|call| call.outcome()).collect();
        results.windows(2).all(|pair| pair[0] == pair[1])
    };
    (alternates && results(0) && results(1)).then_some(Found { repetition: Repetition::TwoCalls, count: max })
}

/// Whoever takes to another tool does something about it.
fn same_error(before: &[&Call], tool: &str, max: u32) -> Option<Found> {
    let most = max as usize * 2;
    let recent = before.get(before.len().checked_sub(most)?..)?;
    if recent.iter().any(|call| call.tool != tool) {
        return None;
    }
    if is_excused(recent.last().copied()) {
        return None;
    }
    // All that was said, not only that it failed: many commands end with exit code 1.
    let said = |call: &&&Call| call.outcome().filter(|outcome| !outcome.is_done()).map(Outcome::for_model);
    let first = recent.first().and_then(|call| said(&call))?;
    recent
        .iter()
        .all(|call| said(&call).as_ref() == Some(&first))
        .then_some(Found { repetition: Repetition::SameError, count: most as u32 })
}

/// Neither the files nor what is known of them has changed for many calls, however the agent mixes them. Who was told so may look at
/// what is there; it is a circle again once that, too, brought nothing new.
fn nothing_new(before: &[&Call], tool: &str, args: &Json, max: u32) -> Option<Found> {
    let most = max * NOTHING_NEW_FACTOR;
    let told = before.iter().rposition(|call| call.outcome().is_some_and(was_stopped));
    let (least, since) = match told {
        Some(told) => (max, before.len() - told - 1),
        None => (most, before.len()),
    };
    let count = most.min(since as u32);
    // This one has no result yet, so it can only be known by what it asks for.
    if count < least || !before.iter().any(|call| asks_for(call, tool, args)) {
        return None;
    }
    let is_known = |index: usize| {
        let (earlier, call) = (&before[..index], before[index]);
        !is_excused(Some(call)) && earlier.iter().any(|earlier| came_to_the_same(earlier, call))
    };
    let known = (before.len() - count as usize..before.len()).rev().all(is_known);
    known.then_some(Found { repetition: Repetition::NothingNew, count })
}

/// What failed is known by what it said, whatever was asked for.
fn came_to_the_same(earlier: &Call, call: &Call) -> bool {
    match call.outcome() {
        Some(Outcome::Failed { .. }) => earlier.tool == call.tool && earlier.outcome() == call.outcome(),
        Some(Outcome::Done { .. } | Outcome::Unknown { .. }) => {
            earlier.outcome() == call.outcome() && asks_for(earlier, call.tool.as_str(), &call.args)
        }
        // It ends with this very decision.
        None => asks_for(earlier, call.tool.as_str(), &call.args),
    }
}

/// Reading JSON for every pair would take its time; in another order it is as long as before.
fn asks_for(call: &Call, tool: &str, args: &Json) -> bool {
    let (one, other) = (call.args.as_str(), args.as_str());
    call.tool == *tool && (one == other || (one.len() == other.len() && call.args.value() == args.value()))
}

/// What is done about a repetition that was just found after so many calls: more each time it comes back soon. How long a circle is
/// tells nothing of how soon it was begun again.
pub fn remedy(run: &Run, found: Found, calls: u32) -> Remedy {
    let memory = run.spec.conduct().repeats_max().unwrap_or_default() * REPETITION_MEMORY_FACTOR;
    let begun = calls.saturating_sub(found.calls());
    let is_recent = |at: &&u32| begun < **at + memory;
    let recent = run.repetitions.iter().rev().take_while(is_recent).count();
    // What comes back before anything new was brought comes back soon, however many calls that took.
    match recent.max(run.novelty.told as usize) {
        0 => Remedy::Nudge,
        1 => Remedy::FreshStart,
        _ => Remedy::Pause,
    }
}
