//! What the model is shown, built from the run alone: the same run always gives the same bytes.
//!
//! `iteration` has what a loop says to its agent, `aside` what is asked beside the conversation.

mod aside;
mod iteration;
mod planning;

use std::sync::Arc;

use crate::conversation::{Message, ModelRequest, Pictures, Scene};
use crate::ids::Attempt;
use crate::limits::DEPENDENCY_BYTES_MAX;
use crate::plan::{Plan, Step};
use crate::run::Run;

pub(crate) use aside::aside_model;
pub use aside::{Opinion, aside, aside_agent, opinion};
pub use iteration::{iteration_text, opening_text};
pub use planning::second_try;

/// What a model is told whose reply ran into the limit of output tokens.
pub const GO_ON: &str =
    "Your reply was cut off at the limit of output tokens. Go on from where it ends, in smaller pieces.";

/// What every agent that has tools is told of them, whatever its own text says.
const TOOLS: &str = "Call tools to look and to act; paths are relative to where you work. A call that fails or is refused tells you \
why: change what was wrong instead of repeating it. A result that says \"interrupted, outcome unknown\" means that the call may or may \
not have had its effect: look at the state before you repeat it. An answer without a call ends your work.";

/// An answer whole: what was cut off before it, and it. Each part was said after being told to go on.
pub fn joined(messages: &[Message], last: &str) -> String {
    let mut parts = vec![last];
    let mut rest = messages;
    while let [before @ .., Message::Assistant { text, calls, .. }, Message::User { text: told }] = rest
        && calls.is_empty()
        && told == GO_ON
    {
        parts.push(text);
        rest = before;
    }
    parts.into_iter().rev().collect()
}

/// The request for a turn of the step in hand. Shares the history; costs the same after ten thousand turns.
pub fn request(run: &Run, turn: u32, attempt: Attempt) -> ModelRequest {
    ModelRequest {
        model: run.spec.model.as_str().into(),
        system: system(run).into(),
        messages: Arc::clone(&run.messages),
        tools: run.spec.tools.iter().map(|grant| grant.name.clone()).collect(),
        answer_schema: run.spec.answer_schema.clone(),
        scene: scene(run, &run.spec.agent, turn, attempt),
        pictures: Pictures::default(),
    }
}

fn scene(run: &Run, agent: &str, turn: u32, attempt: Attempt) -> Scene {
    Scene {
        run: run.spec.id.clone(),
        agent: agent.into(),
        step: run.step().map_or("", |step| step.id.as_str()).into(),
        iteration: run.iteration,
        depth: run.spec.depth,
        turn,
        attempt,
    }
}

/// The instructions: the agent's own text, where it works, how tools are used, the repository's rules, and what an earlier conversation left. It
/// changes only when a conversation is begun anew, so that a provider's cache holds; and it is never shortened, so that
/// no rule is lost to compaction.
pub fn system(run: &Run) -> String {
    let conduct = run.spec.conduct();
    let mut text = run.spec.prompt.clone();
    if let Some(around) = &conduct.surroundings {
        section(&mut text, "Where you work", &around.environment);
    }
    if !run.spec.tools.is_empty() {
        section(&mut text, "How tools are used", TOOLS);
    }
    if let Some(around) = &conduct.surroundings
        && let Some(rules) = &around.rules
    {
        let heading = format!("Rules of this repository ({})", around.rule_files.join(", "));
        section(&mut text, &heading, rules);
    }
    let verify = run.verify();
    if !verify.is_empty() {
        let commands: Vec<String> = verify.iter().map(|command| format!("- `{command}`")).collect();
        let told = format!(
            "When you say that you are done, longhaul runs these commands itself. The work counts as done only if all of them succeed:\n{}",
            commands.join("\n")
        );
        section(&mut text, "How the work is checked", &told);
    }
    if let Some(protect) = conduct.protect.as_ref().filter(|protect| !protect.globs.is_empty()) {
        section(&mut text, "Files you must not change", &protect.globs.join(", "));
    }
    planning::crew(run, &mut text);
    iteration::system(run, &mut text);
    text
}

fn section(text: &mut String, heading: &str, body: &str) {
    if body.trim().is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str("# ");
    text.push_str(heading);
    text.push_str("\n\n");
    text.push_str(body.trim());
}

/// What a step begins with. What to do comes last, because that is what a model goes by; before it the task that it is part of, and
/// what the steps it builds on had to say. `just_said` tells of steps what the plan does not know yet.
pub fn step_text<'a>(run: &'a Run, index: usize, just_said: impl Fn(usize) -> Option<&'a str>) -> String {
    let Some(step) = run.plan.steps.get(index) else { return String::new() };
    let before: Vec<String> =
        planning::whole(run).into_iter().chain(results(&run.plan, step, just_said)).collect();
    if before.is_empty() {
        return step.description.clone();
    }
    format!("{}{YOUR_STEP}{}", before.join("\n\n"), step.description)
}

/// What is to be done, of a task that `step_text` made: what people know it by. Any other task is that already.
pub fn own_step(task: &str) -> &str {
    let is_made = [planning::WHOLE, RESULT_OF].iter().any(|heading| task.starts_with(heading));
    // The last one: the task that it is part of may be a step itself.
    let Some((_, step)) = task.rsplit_once(YOUR_STEP).filter(|_| is_made) else { return task };
    step.split_once(planning::EARLIER_TRY).map_or(step, |(step, _)| step)
}

const YOUR_STEP: &str = "\n\n## Your step\n\n";
const RESULT_OF: &str = "## Result of ";

/// What the steps that a step builds on had to say, each under its name.
fn results<'a>(
    plan: &'a Plan,
    step: &'a Step,
    just_said: impl Fn(usize) -> Option<&'a str>,
) -> impl Iterator<Item = String> {
    let before = plan.steps.iter().enumerate().filter(|(_, other)| step.dependencies.contains(&other.id));
    before.filter_map(move |(place, other)| {
        let said = just_said(place).or(other.output.as_deref())?;
        Some(format!("{RESULT_OF}{}\n\n{}", other.id, head(said, DEPENDENCY_BYTES_MAX)))
    })
}

/// The longest prefix of at most `bytes_max` bytes that ends between characters.
pub fn head(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
