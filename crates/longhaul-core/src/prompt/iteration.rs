//! What a loop says to its agent: the mission and its promise, and to each fresh conversation where things stand.

use super::{section, step_text};
use crate::conduct::Looping;
use crate::event::FreshStart;
use crate::handoff::Handoff;
use crate::run::Run;

/// What the first pass of a loop over features does.
const INITIALIZER: &str = "This is the first of many passes, each with fresh context. Implement nothing yet. Read the \
specification below and the workspace, then write:

1. `feature_list.json`: a JSON array of objects {\"category\", \"description\", \"steps\": [how to see that it works], \"passes\": \
false}, one for each thing the specification asks for, small enough for one pass each, most important first. Every `passes` \
is false.
2. `init.sh`: sets the project up and starts what is needed to try it.
3. `progress.md`: what is there, and what the next pass should know.

Then commit all of it with git.";

/// Said once: a conversation that was begun anew may find its own, half written.
const EARLIER_LIST: &str =
    "A `feature_list.json` that is there already was made for something else: write it anew.";

/// What every later pass of such a loop does.
const ONE_FEATURE: &str = "Read `progress.md` and `feature_list.json`, and run `init.sh` if you need it. Take exactly one feature \
whose `passes` is false, the most important one; make it work, and try it as a user would. Only then set its `passes` to true. \
Nothing else in `feature_list.json` may change: what does is put back. Note in `progress.md` what the next pass should know, \
commit, and stop. Do not ask the user; nobody is there to answer.";

/// The first message of a step's first conversation.
pub fn opening_text(run: &Run, step: usize) -> String {
    let mut text = step_text(run, step, |_| None);
    if run.spec.conduct().looping.as_ref().is_some_and(Looping::is_by_features) {
        return format!("{INITIALIZER}\n\n{EARLIER_LIST}\n\n## The specification\n\n{text}");
    }
    if let Some(looping) = &run.spec.conduct().looping {
        text.push_str(&format!("\n\n{}", owed(looping)));
    }
    text
}

/// The first message of a conversation that was begun anew.
pub fn iteration_text(run: &Run, why: FreshStart, note: Option<&str>) -> String {
    let looping = run.spec.conduct().looping.as_ref();
    let place = looping.map_or_else(
        || format!("This is conversation {}", run.iteration),
        |looping| format!("This is iteration {} of at most {}", run.iteration, looping.max_iterations),
    );
    let mut text = format!(
        "You are continuing a long-running task. {place}; {}. Nothing of the earlier conversation is shown to you, but what \
         was done is in the workspace.\n\nReview the files of your workspace first, and go on from what is there. Do not \
         start over.\n\n## The objective\n\n{}",
        reason(why),
        step_text(run, run.current_step as usize, |_| None),
    );
    match looping {
        // Whoever was to write the list did not get to it.
        Some(looping) if looping.is_by_features() && run.feature_list.is_none() => {
            text.push_str(&format!("\n\n{INITIALIZER}"));
        }
        Some(looping) if looping.is_by_features() => text.push_str(&format!("\n\n{ONE_FEATURE}")),
        Some(looping) => text.push_str(&format!("\n\n{}", owed(looping))),
        None => {}
    }
    if run.pace.idle_iterations > 0 {
        text.push_str(&format!(
            "\n\nThe last {} changed nothing in the workspace. If something stands in the way, find out what and say so.",
            plural(run.pace.idle_iterations, "iteration")
        ));
    }
    if let Some(note) = note.filter(|note| !note.trim().is_empty()) {
        text.push_str(&format!("\n\n## From longhaul\n\n{}", note.trim()));
    }
    text
}

/// What the instructions of a conversation say of the one before.
pub(super) fn system(run: &Run, text: &mut String) {
    if let Some(handoff) = run.resumed.handoff.as_deref().and_then(|text| Handoff::parse(text).ok()) {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(handoff.render().trim());
    }
    if let Some(summary) = &run.resumed.summary {
        section(text, "Summary of the iteration before this one", summary);
    }
}

fn owed(looping: &Looping) -> String {
    format!(
        "When everything is done and you have checked it, end your reply with this line, alone and exactly as it stands \
         here:\n\n{}\n\nDo not say it before that. Until you say it you will be started again with fresh context, so keep \
         what the next conversation must know in files (the `handoff` tool writes state/handoff.json). Do not ask the user; \
         nobody is there to answer.",
        looping.promise
    )
}

fn reason(why: FreshStart) -> &'static str {
    match why {
        FreshStart::NoPromise => "the one before ended without the promise that is still owed",
        FreshStart::Refuted => "the one before said that it was done, and was not",
        FreshStart::Context => "the one before filled the context window",
        FreshStart::Limit => "the one before reached the limit for one conversation",
        FreshStart::DoomLoop => "the one before went round in circles and was ended",
    }
}

fn plural(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
