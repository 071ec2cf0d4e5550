//! What a planner is asked, and what an agent is told that tries again what another failed at.

use crate::limits::{DEPENDENCY_BYTES_MAX, NOTE_BYTES_MAX};
use crate::plan::{Step, StepStatus};
use crate::prompt::{head, section};
use crate::run::Run;
use crate::tool::SPAWN;

/// The form of a plan, said last so that it holds whatever the planner's own instructions are.
const FORM: &str = "\n## Your answer\n\nOne JSON object and nothing else:\n\n\
{\"steps\": [{\"id\": \"step-1\", \"description\": \"…\", \"assignedAgent\": \"…\", \"dependencies\": [], \"critical\": false, \
\"verify\": []}]}\n\n\
`dependencies` are ids of steps that must be done before; steps that do not depend on each other may be done at the same time in \
the same directory, so steps that change the same files must depend on each other. `critical` is true for what is hard to undo. \
`verify` has shell commands that succeed only if the step is done; leave it empty where there is none. Whoever does a step knows \
only its description and the results of the steps it depends on.\n";

/// Who can be given errands, for an agent that may give them.
pub(super) fn crew(run: &Run, text: &mut String) {
    let may_send = run.spec.tools.iter().any(|grant| grant.name == SPAWN);
    if !may_send || run.spec.crew().is_empty() || run.spec.depth >= run.spec.limits.max_sub_agent_depth {
        return;
    }
    let mates: Vec<String> =
        run.spec.crew().iter().map(|mate| format!("- {}: {}", mate.name, mate.role)).collect();
    section(text, "Agents you can give errands to with `spawn`", &mates.join("\n"));
}

/// Instructions and question for whoever makes the plan.
pub(super) fn asked(run: &Run) -> (String, String) {
    let system = run.spec.planner.as_ref().map_or_else(String::new, |planner| planner.prompt.clone());
    let mut text = format!("## The task\n\n{}\n\n## Agents that can be given steps\n\n", run.spec.task);
    let known = run.spec.crew().iter().any(|mate| mate.name == run.spec.agent);
    if !known {
        text.push_str(&format!("- {}: does the work of this run\n", run.spec.agent));
    }
    for mate in run.spec.crew() {
        text.push_str(&format!("- {}: {}\n", mate.name, mate.role));
    }
    if let Some(around) = &run.spec.conduct().surroundings {
        text.push_str(&format!("\n## Where the work is done\n\n{}\n", around.environment.trim()));
        if let Some(rules) = &around.rules {
            text.push_str(&format!("\n## Rules of the repository\n\n{}\n", head(rules, NOTE_BYTES_MAX)));
        }
    }
    so_far(run, &mut text);
    if let Some(why) = &run.bad_plan {
        text.push_str(&format!(
            "\n## Your last answer could not be used\n\n{why}\n\nAnswer again with the whole plan, mended.\n"
        ));
    }
    text.push_str(FORM);
    (system, text)
}

/// What the old plan came to, if there was one: what is done stays, and the rest is planned anew.
fn so_far(run: &Run, text: &mut String) {
    if !run.planned {
        return;
    }
    text.push_str("\n## What is done already, and stays; plan only what is left, under other ids\n\n");
    let done = |step: &&Step| step.status == StepStatus::Completed;
    for step in run.plan.steps.iter().filter(done) {
        let output = step.output.as_deref().unwrap_or("");
        text.push_str(&format!(
            "- {}: {}\n  {}\n",
            step.id,
            step.description,
            head(output, DEPENDENCY_BYTES_MAX)
        ));
    }
    text.push_str("\n## What was planned and did not come about\n\n");
    for step in run.plan.steps.iter().filter(|step| !done(step)) {
        let error = step.error.as_deref().map_or_else(String::new, |error| format!(" (failed: {error})"));
        text.push_str(&format!("- {}: {}{error}\n", step.id, step.description));
    }
    if let Some(reason) = &run.reason {
        text.push_str(&format!("\n## Why there is to be another plan\n\n{reason}\n"));
    }
}

/// The task that a step is part of, for whoever does the step and was not there when it was planned.
pub(super) fn whole(run: &Run) -> Option<String> {
    // Runs that were created before there were crews go on as they began.
    let is_told = run.spec.crew.is_some() && run.plan.steps.len() > 1;
    let task = head(&run.spec.task, DEPENDENCY_BYTES_MAX);
    is_told.then(|| format!("{WHOLE}{task}"))
}

pub(super) const WHOLE: &str = "## The task that this is a step of\n\n";

/// The same task, with why the first try failed. Who works apart from the run that sent it begins without what the first try left.
pub fn second_try(run: &Run, task: &str, error: &str) -> String {
    let left = match run.spec.family() {
        Some(family) => format!(
            "You begin at what is committed: what it left is not in your files, but on its own branch below `{family}`."
        ),
        None => "What it left in the files is still there. Look at that first.".to_owned(),
    };
    format!("{task}{EARLIER_TRY}{}\n\n{left}", head(error, NOTE_BYTES_MAX))
}

pub(super) const EARLIER_TRY: &str = "\n\n## An earlier try at this failed\n\n";
