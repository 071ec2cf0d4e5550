//! What is asked beside the conversation: summaries, and whether the work is what was asked for.

use std::sync::Arc;

use serde::Deserialize;

use super::{head, planning, scene};
use crate::context::changed_list;
use crate::conversation::{Message, ModelRequest, Pictures};
use crate::event::Aside;
use crate::evidence::tail;
use crate::ids::Attempt;
use crate::limits::{
    JUDGED_DIFF_BYTES_MAX, NOTE_BYTES_MAX, STEP_SAID_BYTES_MAX, SUMMARY_BYTES_MAX, TRANSCRIPT_BYTES_MAX,
    TRANSCRIPT_MESSAGE_BYTES_MAX,
};
use crate::run::{Call, Run};

const SUMMARIZE: &str = "You sum up the work of a coding agent so that it can go on without the conversation. Write for the \
agent, in short lines under these headings: Decisions (and why), Findings, Done (with files and commands), Outcomes of tools that \
matter, Errors and how they were mended, Still to do. Keep names of files, commands, identifiers and numbers exactly. Leave out \
nothing that a later step needs. No preamble.";

const JUDGE_TEXT: &str = "You judge whether a piece of work is what was asked for. You did not do it and you have no stake in it. \
Go by the evidence, not by what the agent says of itself. Answer with one JSON object and nothing else: \
{\"accepted\": true or false, \"reasons\": [\"…\"]}. If anything that was asked for is missing or not shown, do not accept, and \
say in `reasons` exactly what is missing.";

/// The request for a question beside the conversation: one message, no tools, no memory.
pub fn aside(run: &Run, aside: Aside, attempt: Attempt) -> ModelRequest {
    let (system, text) = match aside {
        Aside::Compaction { before } => {
            let old = &run.messages[..(before as usize).min(run.messages.len())];
            (SUMMARIZE.to_owned(), transcript(run, old))
        }
        Aside::Iteration { .. } => (SUMMARIZE.to_owned(), transcript(run, &run.messages)),
        Aside::Judgement => (JUDGE_TEXT.to_owned(), case(run)),
        Aside::Planning { .. } => planning::asked(run),
    };
    ModelRequest {
        model: aside_model(run, aside).into(),
        system: system.into(),
        messages: Arc::new(vec![Message::User { text }]),
        tools: Arc::new([]),
        answer_schema: None,
        scene: scene(run, aside_agent(aside), 1, attempt),
        pictures: Pictures::default(),
    }
}

/// The name under which whoever answers is known to scripts.
pub fn aside_agent(aside: Aside) -> &'static str {
    match aside {
        Aside::Compaction { .. } | Aside::Iteration { .. } => "summarizer",
        Aside::Judgement => "judge",
        Aside::Planning { .. } => "planner",
    }
}

/// Who is asked: the model named for it, else the run's own.
pub(crate) fn aside_model(run: &Run, aside: Aside) -> &str {
    let conduct = run.spec.conduct();
    let named = match aside {
        Aside::Compaction { .. } => {
            conduct.compaction.as_ref().and_then(|settings| settings.summarizer.as_deref())
        }
        Aside::Iteration { .. } => conduct.looping.as_ref().and_then(|looping| looping.summarizer.as_deref()),
        Aside::Judgement => conduct.judge.as_ref().map(|judge| judge.model.as_str()),
        Aside::Planning { .. } => run.spec.planner.as_ref().and_then(|planner| planner.model.as_deref()),
    };
    named.unwrap_or(&run.spec.model)
}

/// The conversation as text, each message cut to a page and all of it to what a window holds, its end first of all.
fn transcript(run: &Run, messages: &[Message]) -> String {
    let mut text = String::from("The conversation so far:\n");
    for message in messages {
        let (who, said) = match message {
            Message::User { text } => ("task".to_owned(), text.clone()),
            Message::Assistant { text, calls, .. } => {
                let calls: Vec<String> =
                    calls.iter().map(|call| format!("[calls {} {}]", call.tool, call.args)).collect();
                ("agent".to_owned(), format!("{text}\n{}", calls.join("\n")))
            }
            Message::Tool { call, failed, text, .. } => {
                let tool = run.call(*call).map_or("tool", |call: &Call| call.tool.as_str());
                let failed = if *failed { " (failed)" } else { "" };
                (format!("{tool}{failed}"), text.to_string())
            }
        };
        // The task, and what was summed up before, are worth more than a page.
        let most =
            if who == "task" { SUMMARY_BYTES_MAX + NOTE_BYTES_MAX } else { TRANSCRIPT_MESSAGE_BYTES_MAX };
        text.push_str(&format!("\n## {who}\n{}\n", head(said.trim(), most)));
    }
    tail(&text, TRANSCRIPT_BYTES_MAX).to_owned()
}

/// What a judge is shown: the task, what must hold, what the harness saw, and what the agent says.
fn case(run: &Run) -> String {
    let mut text = format!("## What was asked\n\n{}\n", run.spec.task);
    let acceptance = run.spec.conduct().judge.as_ref().map_or(&[][..], |judge| &judge.acceptance);
    if !acceptance.is_empty() {
        let list: Vec<String> = acceptance.iter().map(|item| format!("- {item}")).collect();
        text.push_str(&format!("\n## What must be true\n\n{}\n", list.join("\n")));
    }
    if let Some(seen) = &run.examined {
        for check in &seen.found.checks {
            let output = tail(&check.output, TRANSCRIPT_MESSAGE_BYTES_MAX);
            text.push_str(&format!("\n## `{}`: {}\n\n{output}\n", check.command, check.ended));
        }
        if let Some(changes) = &seen.found.changes {
            text.push_str(&format!("\n## What was changed\n\n{changes}\n"));
        }
        if let Some(diff) = &seen.found.diff {
            text.push_str(&format!("\n## The changes themselves\n\n{}\n", head(diff, JUDGED_DIFF_BYTES_MAX)));
        }
    }
    text.push_str(&format!("\n## Files the agent changed\n\n{}\n", changed_list(run)));
    if run.plan.is_completed() {
        text.push_str("\n## What was said at the end of each step\n");
        for step in &run.plan.steps {
            let said = step.output.as_deref().unwrap_or("");
            text.push_str(&format!("\n### {}\n\n{}\n", step.id, head(said.trim(), STEP_SAID_BYTES_MAX)));
        }
    } else if let Some(Message::Assistant { text: said, .. }) = run.messages.last() {
        text.push_str(&format!("\n## What the agent says\n\n{}\n", head(said, TRANSCRIPT_MESSAGE_BYTES_MAX)));
    }
    text
}

/// What a judge thinks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Opinion {
    pub accepted: bool,
    #[serde(default)]
    pub reasons: Vec<String>,
}

/// The opinion in a judge's answer: the object that it ends with, fenced or not, on lines of its own. A yes among other words is an
/// example, or what somebody else said; a no is taken for one wherever it stands.
pub fn opinion(answer: &str) -> Option<Opinion> {
    let answer = answer.trim().trim_end_matches("```").trim_end();
    let starts = answer.match_indices('{').map(|(at, _)| at);
    let mut starts = starts.filter(|at| *at == 0 || answer[..*at].ends_with('\n'));
    starts.find_map(|at| serde_json::from_str(&answer[at..]).ok()).or_else(|| among_words(answer))
}

fn among_words(answer: &str) -> Option<Opinion> {
    let (start, end) = (answer.find('{')?, answer.rfind('}')?);
    let said: Opinion = serde_json::from_str(answer.get(start..=end)?).ok()?;
    Some(said).filter(|opinion| !opinion.accepted)
}

#[cfg(test)]
mod tests {
    use super::opinion;

    /// Pain 7: a judge that does not say yes has not said yes.
    #[test]
    fn an_opinion_is_the_answer_and_no_part_of_it() {
        let yes = r#"{"accepted": true, "reasons": []}"#;
        for answer in [
            yes.to_owned(),
            format!("```json\n{yes}\n```"),
            format!("I looked at all of it.\n\n{yes}\n"),
            "{\n  \"accepted\": true\n}".to_owned(),
        ] {
            assert!(opinion(&answer).is_some_and(|opinion| opinion.accepted), "{answer}");
        }
        for answer in [
            format!("I would answer {yes} if the tests existed."),
            format!("The agent said {yes} but I disagree."),
            format!("The agent said\n{yes}\nbut I disagree."),
            format!("It would be wrong to say {yes}"),
            format!("{yes}\n{{\"accepted\": false}}"),
            r#"{"accepted": "true"}"#.to_owned(),
            "accepted: true".to_owned(),
            String::new(),
        ] {
            assert!(opinion(&answer).is_none_or(|opinion| !opinion.accepted), "{answer}");
        }
    }
}
