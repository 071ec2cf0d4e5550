//! What came of a run, for the person who reads it in the morning: what was asked, what was done, what shows it, what it
//! cost, and what is left.

use serde::Serialize;

use crate::context;
use crate::conversation::Usage;
use crate::event::{AskKind, Cause};
use crate::evidence::{Check, FEATURES_PATH, Features, ProtectedChange, tail};
use crate::ids::RunId;
use crate::limits::{COMMIT_TITLE_LETTERS_MAX, REPORTED_OUTPUT_BYTES_MAX, STEP_SAID_BYTES_MAX};
use crate::money::Usd;
use crate::plan::{Step, StepStatus};
use crate::prompt::{head, own_step};
use crate::run::{Gate, Judgement, PassedLimit, Run};
use crate::status::{Status, Wait};
use crate::view::{ChildView, gate_id};

/// `result --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub id: RunId,
    pub task: String,
    pub agent_name: String,
    pub model: String,
    pub status: Status,
    pub wait: Wait,
    pub success: bool,
    pub finish_reason: Option<String>,
    pub reason: Option<String>,
    pub error: Option<String>,
    /// What to type so that it goes on. Whoever knows the commands says it.
    pub how_to_go_on: Option<String>,
    /// Limits that were reached and only warned of.
    pub limits_passed: Vec<PassedLimit>,
    /// What the agent said last, whether or not that ended its work.
    pub output: String,
    /// What differs from the commit the work began with.
    pub changes: Option<String>,
    pub changed_files: Vec<String>,
    /// The last commit that was made of the work.
    pub commit: Option<String>,
    /// Why what came after that is not committed, if it is not.
    pub uncommitted: Option<String>,
    /// Why the user's repository does not have the commits, if it does not.
    pub not_brought: Option<String>,
    pub evidence: Option<Evidence>,
    /// What the judge thought of the work when it was last claimed to be done.
    pub judgement: Option<Judgement>,
    pub protected: Vec<ProtectedChange>,
    pub features: Option<Features>,
    pub steps_completed: usize,
    pub total_steps: usize,
    pub steps: Vec<StepReport>,
    pub sub_agents: Vec<ChildView>,
    pub iterations: u32,
    pub turns: u32,
    pub tool_call_count: u32,
    pub compactions: u32,
    pub usage: Usage,
    pub total_cost: Option<Usd>,
    /// Milliseconds from the beginning to the end.
    pub duration: u64,
    /// Milliseconds of that in which the run worked.
    pub worked: u64,
    pub approvals: Vec<Approval>,
    pub remaining: Vec<String>,
    pub workspace: String,
    pub branch: Option<String>,
}

/// One step of the plan, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepReport {
    pub id: String,
    pub agent_name: String,
    pub status: StepStatus,
    pub description: String,
    /// What was said at its end, or what went wrong.
    pub said: Option<String>,
    /// What people call the state it is in.
    #[serde(skip)]
    pub called: &'static str,
    /// Was it done only when commands had shown it?
    #[serde(skip)]
    pub shown: bool,
}

impl StepReport {
    fn of(run: &Run, index: usize, step: &Step) -> StepReport {
        let said = step.error.as_deref().or(step.output.as_deref());
        StepReport {
            id: step.id.clone(),
            agent_name: step.agent.clone(),
            status: step.status,
            description: step.description.clone(),
            said: said.map(|said| head(said.trim(), STEP_SAID_BYTES_MAX).to_owned()),
            called: run.step_called(index),
            shown: step.verify.as_ref().is_some_and(|verify| !verify.is_empty())
                || !run.spec.conduct().verify.is_empty(),
        }
    }

    fn line(&self) -> String {
        let StepReport { id, agent_name, called, description, .. } = self;
        let said = self.said.as_deref().map_or_else(String::new, |said| format!(" — {}", first_line(said)));
        format!("- {id} ({agent_name}): {called}: {}{said}", first_line(description))
    }
}

/// What the harness saw when the agent last said that it was done.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    pub at: crate::time::Timestamp,
    /// Hash of the files on which the commands ran.
    pub tree: Option<String>,
    /// The same after them, if they changed any.
    pub tree_after: Option<String>,
    pub holds: bool,
    /// The commit that holds those files, if one does.
    pub commit: Option<String>,
    /// Are the files still those? Only then is it evidence of what there is now.
    pub files: Sameness,
    pub checks: Vec<Check>,
}

/// Are the files still those that were looked at?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sameness {
    Same,
    Other,
    /// Nobody could look, or there is nothing to compare with.
    Unknown,
}

/// What there is of a run's files now, as far as somebody could look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Now {
    /// They are where they were made, and this is their hash.
    Tree(String),
    /// They are only on the run's branch, which is at this commit.
    Tip(String),
    Unseen,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    pub id: String,
    pub about: String,
    pub answer: Option<String>,
}

impl Report {
    /// As far as the run itself can tell: of its files it knows only what they were.
    pub fn of(run: &Run) -> Report {
        let ended = run.completed_at.unwrap_or(run.updated_at);
        let used = run.ledger();
        let seen = run.examined.as_ref();
        let evidence = seen.filter(|seen| !seen.found.checks.is_empty()).map(|seen| Evidence {
            at: seen.at,
            tree: seen.found.tree.clone(),
            tree_after: seen.found.tree_after.clone(),
            holds: seen.found.holds(),
            commit: seen.head.clone(),
            files: Sameness::Unknown,
            checks: seen.found.checks.clone(),
        });
        let steps = run.plan.steps.iter().enumerate();
        Report {
            id: run.spec.id.clone(),
            task: run.spec.task.clone(),
            agent_name: run.spec.agent.clone(),
            model: run.spec.model.clone(),
            status: run.status,
            wait: run.wait(),
            success: run.status == Status::Completed,
            finish_reason: finish_reason(run),
            reason: run.reason.clone(),
            error: run.error.clone(),
            how_to_go_on: None,
            limits_passed: run.passed.clone(),
            output: said(run).unwrap_or("").to_owned(),
            changes: seen.and_then(|seen| seen.found.changes.clone()),
            changed_files: run.changed_files.clone(),
            commit: run.commits.last().cloned(),
            uncommitted: run.uncommitted.clone(),
            not_brought: run.not_brought.clone(),
            evidence,
            judgement: run.judgement.clone(),
            protected: protected(run),
            features: features(run),
            steps_completed: run.plan.completed_count(),
            total_steps: run.plan.steps.len(),
            steps: steps.map(|(index, step)| StepReport::of(run, index, step)).collect(),
            sub_agents: ChildView::of_all(run),
            iterations: run.iteration,
            turns: used.turns,
            tool_call_count: used.calls,
            compactions: run.fill.compactions,
            usage: used.usage,
            total_cost: (used.usage.unpriced_tokens == 0).then_some(used.usage.cost),
            duration: ended.millis_since(run.created_at),
            worked: run.worked_ms(ended),
            approvals: run.gates.iter().map(|gate| approval(run, gate)).collect(),
            remaining: remaining(run),
            workspace: run.spec.workspace.clone(),
            branch: run.spec.branch.clone(),
        }
    }
}

/// What was found of protected files at last, and what was taken back of them before: an agent that was told and went on without has
/// tried it all the same.
fn protected(run: &Run) -> Vec<ProtectedChange> {
    let found = run.examined.as_ref().map_or(&[][..], |seen| &seen.found.protected);
    let is_new = |change: &&ProtectedChange| found.iter().all(|found| found.path != change.path);
    run.undone.iter().filter(is_new).chain(found).cloned().collect()
}

/// The list of features as it was seen last, with everything that was ever put back in it.
fn features(run: &Run) -> Option<Features> {
    let mut features = run.examined.as_ref()?.found.features.clone()?;
    let earlier = run.restored.iter().filter(|what| !features.restored.contains(what));
    features.restored = earlier.cloned().chain(features.restored.iter().cloned()).collect();
    Some(features)
}

impl Evidence {
    /// Says whether it is evidence of what there is now. Judged by the files alone: that something was asked for since, a look
    /// or what was refused, changes none of them.
    pub fn held_against(&mut self, now: &Now) {
        let (now, looked_at, left_behind) = match now {
            Now::Tree(tree) => (tree, &self.tree, &self.tree_after),
            Now::Tip(commit) => (commit, &self.commit, &None),
            Now::Unseen => {
                self.files = Sameness::Unknown;
                return;
            }
        };
        let is_now = |known: &Option<String>| known.as_ref() == Some(now);
        self.files = match (is_now(looked_at) || is_now(left_behind), looked_at) {
            (true, _) => Sameness::Same,
            (false, Some(_)) => Sameness::Other,
            (false, None) => Sameness::Unknown,
        };
    }
}

/// What the agent said last: its answer, if it came to one.
fn said(run: &Run) -> Option<&str> {
    match run.status {
        Status::Completed => run.output(),
        Status::Created | Status::Running | Status::Paused | Status::Failed => {
            run.last_words().or_else(|| run.output())
        }
    }
}

/// Did the agent come to a stop by itself, for want of progress or of an answer that could be used? Nobody but its agent is
/// at fault then: not a key, not a limit, not a hook.
pub fn is_stuck(run: &Run) -> bool {
    run.status == Status::Paused && run.cause == Some(Cause::Stuck)
}

/// Why a run is not at work any more, in one word; nothing if it is, or has not begun.
pub fn finish_reason(run: &Run) -> Option<String> {
    let first_word = || {
        let word = run.reason.as_deref()?.split([':', ' ']).next()?;
        let is_name = word.contains('_') || word == "timeout";
        is_name.then(|| word.to_owned())
    };
    match (run.status, run.cause) {
        (Status::Created | Status::Running, _) => None,
        (Status::Completed, _) => Some("agent_done".to_owned()),
        (Status::Paused | Status::Failed, Some(Cause::Limit | Cause::Parked | Cause::Stuck)) => {
            first_word().or_else(|| Some("parked".to_owned()))
        }
        (Status::Failed, Some(Cause::Asked)) => Some("stopped".to_owned()),
        (Status::Paused, Some(Cause::Asked) | None) => Some("paused".to_owned()),
        (Status::Paused | Status::Failed, Some(Cause::Rejected)) => Some("rejected".to_owned()),
        (Status::Paused | Status::Failed, Some(Cause::DiskFull)) => Some("disk_full".to_owned()),
        (Status::Paused | Status::Failed, Some(Cause::Provider)) => Some("provider".to_owned()),
        (Status::Paused | Status::Failed, Some(Cause::Error | Cause::Finished)) | (Status::Failed, None) => {
            Some("error".to_owned())
        }
    }
}

fn approval(run: &Run, gate: &Gate) -> Approval {
    let step = run.step_at(gate.step).map_or("", |step| step.id.as_str());
    let about = match &gate.ask {
        None => format!("before {step}"),
        Some(ask) => {
            let tool = run.call(ask.call).map_or("", |call| call.tool.as_str());
            let kind = match ask.kind {
                AskKind::Permission => "leave for",
                AskKind::Question => "question by",
                AskKind::Need => "need of",
            };
            format!("{kind} {tool}: {}", ask.text)
        }
    };
    let answer = gate.answer.as_ref().map(|answer| match (answer.approved, &answer.text, &answer.reason) {
        (true, Some(text), _) => format!("answered: {text}"),
        (true, None, _) => "approved".to_owned(),
        (false, _, Some(reason)) => format!("rejected: {reason}"),
        (false, _, None) => "rejected".to_owned(),
    });
    Approval { id: gate_id(&run.spec.id, gate.number), about, answer }
}

/// What is left to do, as far as the harness knows.
fn remaining(run: &Run) -> Vec<String> {
    let mut left = Vec::new();
    if run.status != Status::Completed {
        let undone = run.plan.steps.iter().filter(|step| step.status != StepStatus::Completed);
        left.extend(undone.map(|step| format!("step {}: {}", step.id, first_line(&step.description))));
    }
    if run.status == Status::Completed && run.owes_commit() {
        left.push(format!("the work is not committed yet; `longhaul resume {}` does that", run.spec.id));
    }
    if let Some(why) = &run.uncommitted {
        let (id, place) = (&run.spec.id, &run.spec.workspace);
        left.push(format!(
            "the work is not committed: {why}; it stands in {place}, and `longhaul merge {id}` commits it and brings it in"
        ));
    }
    if let Some(why) = &run.not_brought {
        let place = &run.spec.workspace;
        left.push(format!(
            "not all that was committed is in your repository: {why}; `git fetch \"{place}\" BRANCH:NEW-NAME` brings a branch under a name of your choice (HEAD: what is checked out there)"
        ));
    }
    if let Some(seen) = &run.examined {
        left.extend(seen.found.failed().map(|check| format!("`{}` fails ({})", check.command, check.ended)));
        if let Some(features) = seen.found.features.as_ref().filter(|features| !features.all_pass()) {
            let missing = features.total - features.passing;
            left.push(format!("{missing} of {} features do not pass", features.total));
        }
    }
    let waiting = run.gates.iter().filter(|gate| gate.answer.is_none() && !run.status.is_terminal());
    left.extend(waiting.map(|gate| {
        let approval = approval(run, gate);
        format!("approval {} waits: {}", approval.id, first_line(&approval.about))
    }));
    let todo = context::todo(&run.calls).unwrap_or("");
    let open = todo.lines().filter(|line| line.starts_with("[ ]") || line.starts_with("[>]"));
    left.extend(open.map(|line| format!("the agent's own list: {}", line[3..].trim())));
    left
}

fn first_line(text: &str) -> &str {
    text.split(ENDS_LINE).next().unwrap_or("")
}

/// What ends a line in Markdown.
const ENDS_LINE: [char; 2] = ['\n', '\r'];

/// Somebody's words on one line: what they say must not be taken for what the report says.
fn flat(text: &str) -> String {
    text.replace("\r\n", " ").replace(ENDS_LINE, " ")
}

/// Somebody's words, each line of them marked as a quotation, so that none can be taken for the report's own.
fn quoted(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let lines = text.trim().lines().map(|line| format!("> {line}").trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

/// The same after a heading of one word: one line stands beside it, several stand below it.
fn told(text: &str) -> String {
    let text = text.trim();
    if text.contains(ENDS_LINE) { format!("\n\n{}", quoted(text)) } else { text.to_owned() }
}

/// What was printed, between fences that are longer than any in it.
fn fenced(text: &str) -> String {
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.saturating_add(1).max(3));
    format!("{fence}\n{text}\n{fence}\n")
}

impl Report {
    /// The report as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n", self.headline());
        text.push_str(&format!("**Asked:** {}\n\n", told(&self.task)));
        if let Some(reason) = self.error.as_ref().or(self.reason.as_ref()) {
            text.push_str(&format!("**Why it {}:** {}\n\n", self.ended_how(), told(reason)));
        }
        if let Some(way) = &self.how_to_go_on {
            text.push_str(&format!("**How to go on:** {}\n\n", told(way)));
        }
        for PassedLimit { limit, spent, max } in &self.limits_passed {
            text.push_str(&format!(
                "**Limit passed:** {limit} reached: {spent} of {max}; it was only to warn\n\n"
            ));
        }
        self.section(&mut text, "What the agent says", &quoted(&self.output));
        self.done(&mut text);
        self.planned(&mut text);
        self.shown(&mut text);
        let left: Vec<String> = self.remaining.iter().map(|item| format!("- {}", flat(item))).collect();
        self.section(&mut text, "What remains", &left.join("\n"));
        let asked: Vec<String> = self
            .approvals
            .iter()
            .map(|one| {
                format!(
                    "- {}: {} ({})",
                    one.id,
                    first_line(&one.about),
                    flat(one.answer.as_deref().unwrap_or("waiting"))
                )
            })
            .collect();
        self.section(&mut text, "What people were asked", &asked.join("\n"));
        self.spent(&mut text);
        text
    }

    /// What was shown of some steps says nothing of the others.
    fn headline(&self) -> String {
        let (shown, all) = (self.steps.iter().filter(|step| step.shown).count(), self.steps.len());
        if shown < all && self.is_shown() {
            return format!("{}: completed; {shown} of {all} steps were shown to be done", self.id);
        }
        format!("{}: {}", self.id, self.ended_as())
    }

    /// Is it completed with evidence that nothing speaks against?
    fn is_shown(&self) -> bool {
        let holds = |evidence: &Evidence| evidence.holds && evidence.files != Sameness::Other;
        let is_protected = self.protected.iter().all(|change| change.undone);
        self.status == Status::Completed && is_protected && self.evidence.as_ref().is_some_and(holds)
    }

    fn ended_as(&self) -> &'static str {
        match (self.status, self.evidence.as_ref()) {
            (Status::Completed, _) if self.protected.iter().any(|change| !change.undone) => {
                "completed, BUT protected files were changed"
            }
            (Status::Completed, Some(evidence)) if evidence.holds => match evidence.files {
                Sameness::Same => "completed, and shown to be done",
                Sameness::Unknown => "completed, and shown to be done on files that may be others by now",
                Sameness::Other => "completed, by the agent's word",
            },
            (Status::Completed, _) if self.judgement.as_ref().is_some_and(|judged| judged.accepted) => {
                "completed, and accepted by a judge"
            }
            (Status::Completed, _) => "completed, by the agent's word",
            (Status::Failed | Status::Paused | Status::Running | Status::Created, _) => {
                self.status.called(self.wait)
            }
        }
    }

    fn ended_how(&self) -> &'static str {
        match self.status {
            Status::Failed => "failed",
            Status::Paused => "paused",
            Status::Created => "has not begun",
            Status::Running | Status::Completed => "is where it is",
        }
    }

    fn section(&self, text: &mut String, heading: &str, body: &str) {
        if !body.is_empty() {
            text.push_str(&format!("## {heading}\n\n{body}\n\n"));
        }
    }

    fn done(&self, text: &mut String) {
        let mut body = String::new();
        match &self.changes {
            Some(changes) => body.push_str(&fenced(changes.trim_end())),
            None if !self.changed_files.is_empty() => {
                body.push_str(&format!("Files changed by tools: {}\n", flat(&self.changed_files.join(", "))));
            }
            None => {}
        }
        match &self.branch {
            Some(branch) => body.push_str(&format!("In {}, on branch {branch}.\n", self.workspace)),
            None => body.push_str(&format!("In {}.\n", self.workspace)),
        }
        self.section(text, "What was done", body.trim_end());
    }

    /// The plan, if there was more to it than the task itself.
    fn planned(&self, text: &mut String) {
        if self.total_steps < 2 && self.sub_agents.is_empty() {
            return;
        }
        let mut lines: Vec<String> = self.steps.iter().map(StepReport::line).collect();
        lines.extend(self.sub_agents.iter().map(|child| {
            let again = if child.attempt > 1 { ", second try" } else { "" };
            format!("- sub-agent {} ({}{again}): {}", child.agent_name, child.id, child.called)
        }));
        self.section(text, "Steps", &lines.join("\n"));
    }

    fn shown(&self, text: &mut String) {
        let mut body = String::new();
        if let Some(evidence) = &self.evidence {
            for check in &evidence.checks {
                let mark = if check.passed { "passed" } else { "FAILED" };
                body.push_str(&format!("- {mark}: `{}` ({})\n", flat(&check.command), check.ended));
                if !check.passed {
                    let output = tail(&check.output, REPORTED_OUTPUT_BYTES_MAX).trim_end();
                    body.push_str(&format!("\n{}\n", fenced(output)));
                }
            }
            let tree = evidence.tree.as_deref().map_or("unknown", |tree| &tree[..tree.len().min(12)]);
            body.push_str(&format!("\nRun by longhaul itself at {} on tree {tree}.\n", evidence.at));
            body.push_str(match evidence.files {
                Sameness::Same => "",
                Sameness::Other => {
                    "The files were worked on since then: this is no evidence of what there is now.\n"
                }
                Sameness::Unknown => "Whether the files are still the same cannot be told.\n",
            });
        }
        if let Some(judged) = &self.judgement {
            let how = if judged.accepted { "accepted" } else { "NOT accepted" };
            body.push_str(&format!("\nThe work was {how} by the judge {}", judged.model));
            body.push_str(if judged.acceptance.is_empty() { ".\n" } else { ", who was to see that:\n" });
            judged.acceptance.iter().for_each(|text| body.push_str(&format!("- {}\n", flat(text))));
            if !judged.reasons.is_empty() {
                body.push_str("\nIts reasons:\n");
                judged.reasons.iter().for_each(|reason| body.push_str(&format!("- {}\n", flat(reason))));
            }
        }
        if let Some(features) = &self.features {
            body.push_str(&format!("{} of {} features pass.\n", features.passing, features.total));
            if !features.restored.is_empty() {
                let restored = flat(&features.restored.join(", "));
                body.push_str(&format!("Put back in {FEATURES_PATH}: {restored}.\n"));
            }
        }
        for change in &self.protected {
            let undone = match &change.kept {
                Some(blob) if change.undone => format!("; undone, what was there is kept as blob {blob}"),
                _ if change.undone => "; put back".to_owned(),
                _ => String::new(),
            };
            body.push_str(&format!("- protected file {} was {}{undone}\n", flat(&change.path), change.what));
        }
        if body.is_empty() && self.status == Status::Completed {
            body.push_str("Nothing: no verify commands were given (`--verify CMD`).");
        }
        self.section(text, "What shows it", body.trim_end());
    }

    fn spent(&self, text: &mut String) {
        let cost = self.total_cost.map_or_else(|| "an unknown amount".to_owned(), |cost| cost.to_string());
        let mut body = format!(
            "{cost}, {} tokens ({} read from cache), {} turns, {} tool calls, {} at work of {} in all.",
            self.usage.tokens(),
            self.usage.cache_read_tokens,
            self.turns,
            self.tool_call_count,
            time(self.worked),
            time(self.duration),
        );
        if self.iterations > 1 {
            body.push_str(&format!(" {} iterations.", self.iterations));
        }
        if self.compactions > 0 {
            body.push_str(&format!(" The conversation was shortened {} times.", self.compactions));
        }
        if self.total_steps > 1 {
            body.push_str(&format!(" {} of {} steps.", self.steps_completed, self.total_steps));
        }
        self.section(text, "What it took", &body);
    }
}

fn time(ms: u64) -> String {
    match ms / 1000 {
        0 => format!("{ms} ms"),
        seconds @ 1..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// What a commit of the run's work says of it, but for the run's name: what was asked, and which step this was.
pub fn commit_message(run: &Run) -> String {
    let task = own_step(&run.spec.task).trim();
    let title: String =
        task.lines().next().unwrap_or_default().chars().take(COMMIT_TITLE_LETTERS_MAX).collect();
    let steps = &run.plan.steps;
    let done = steps.iter().enumerate().rfind(|(_, step)| step.status == StepStatus::Completed);
    match done {
        Some((index, step)) if steps.len() > 1 => {
            let description = step.description.trim();
            format!(
                "{title}\n\nStep {} of {}: {description}\nAgent: {}",
                index + 1,
                steps.len(),
                run.spec.agent
            )
        }
        Some(_) | None => format!("{title}\n\nAgent: {}", run.spec.agent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebodys_words_are_marked_as_theirs() {
        assert_eq!(quoted("\none\r\n\rtwo\n"), "> one\n>\n> two");
        assert_eq!((told("one "), told("one\ntwo")), ("one".to_owned(), "\n\n> one\n> two".to_owned()));
        assert_eq!(flat("a\r\nb\rc\nd"), "a b c d");
        assert_eq!(fenced("x"), "```\nx\n```\n");
        assert_eq!(fenced("```\n## y\n````"), "`````\n```\n## y\n````\n`````\n");
    }
}
