//! What the model is shown, built from the run alone: the same run always gives the same bytes.

use std::sync::Arc;

use crate::conversation::{Message, ModelRequest, Scene};
use crate::ids::Attempt;
use crate::limits::DEPENDENCY_BYTES_MAX;
use crate::plan::Plan;
use crate::run::Run;

/// What a model is told whose reply ran into the limit of output tokens.
pub const GO_ON: &str =
    "Your reply was cut off at the limit of output tokens. Go on from where it ends, in smaller pieces.";

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
        system: run.spec.prompt.as_str().into(),
        messages: Arc::clone(&run.messages),
        tools: run.spec.tools.iter().map(|grant| grant.name.clone()).collect(),
        answer_schema: run.spec.answer_schema.clone(),
        scene: Scene {
            run: run.spec.id.clone(),
            agent: run.spec.agent.as_str().into(),
            step: run.step().map_or("", |step| step.id.as_str()).into(),
            iteration: 1,
            depth: run.spec.depth,
            turn,
            attempt,
        },
    }
}

/// The first message of a step: what to do, and what the steps it builds on had to say.
pub fn step_text(plan: &Plan, index: usize) -> String {
    let Some(step) = plan.steps.get(index) else { return String::new() };
    let mut text = step.description.clone();
    for dependency in plan.steps.iter().filter(|other| step.dependencies.contains(&other.id)) {
        if let Some(output) = &dependency.output {
            text.push_str(&format!(
                "\n\n## Result of {}\n\n{}",
                dependency.id,
                head(output, DEPENDENCY_BYTES_MAX)
            ));
        }
    }
    text
}

/// The longest prefix of at most `bytes_max` bytes that ends between characters.
pub fn head(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
