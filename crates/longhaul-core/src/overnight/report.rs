//! A night as somebody reads it in the morning: what improved and how to have it, what did not work and why, what it cost.

use super::ranking::Verdict;
use super::{Experiment, Measured, Night, Outcome, Phase};
use crate::evidence::tail;
use crate::limits::{REPORTED_OUTPUT_BYTES_MAX, STEP_SAID_BYTES_MAX};
use crate::prompt::head;

impl Night {
    /// The report in Markdown. Of a night that is not over it is as much as is known.
    pub fn markdown(&self) -> String {
        let ranked = self.ranked();
        let mut text = format!("# {}\n\n{}\n", self.order.objective, self.summary(&ranked));
        if let Some(why) = self.end.as_ref().and_then(|end| end.gave_up.as_ref()) {
            text.push_str(&format!("\nThe night was given up: {why}\n"));
        }
        if self.end.is_none() && self.phase() != Phase::Report {
            let (id, phase) = (&self.id, self.phase().as_str());
            text.push_str(&format!(
                "\nThe night is not over, it is in phase {phase}; `longhaul overnight resume {id}` goes on.\n"
            ));
        }
        let sections: [(&str, Pick); 4] = [
            ("What improved", |verdict| verdict.is_improvement()),
            ("What passes, for you to judge", |verdict| *verdict == Verdict::Holds),
            ("What did not work", |verdict| rest(verdict) && *verdict != Verdict::Open),
            ("What is open", |verdict| *verdict == Verdict::Open),
        ];
        for (heading, belongs) in sections {
            let mut of_it = ranked.iter().filter(|(_, verdict)| belongs(verdict)).peekable();
            if of_it.peek().is_some() {
                text.push_str(&format!("\n## {heading}\n"));
            }
            of_it.for_each(|(index, verdict)| text.push_str(&self.entry(*index, verdict)));
        }
        text.push_str(&self.measuring());
        text
    }

    fn summary(&self, ranked: &[(usize, Verdict)]) -> String {
        let improved = ranked.iter().filter(|(_, verdict)| verdict.is_improvement()).count();
        let spent = self.spent();
        let (cost, worked) = (spent.shown(), duration(spent.worked_ms));
        let of = match self.experiments.len() {
            0 => "There are no experiments".to_owned(),
            1 => format!("{improved} of 1 experiment improved something"),
            all => format!("{improved} of {all} experiments improved something"),
        };
        format!("**{of}.** Agents worked for {worked} and cost {cost}. Night {}.", self.id)
    }

    fn entry(&self, index: usize, verdict: &Verdict) -> String {
        let experiment = &self.experiments[index];
        let title = &experiment.idea.title;
        let mut text = format!("\n### {}. {title}\n\n{}\n\n", index + 1, self.said_of(experiment, verdict));
        let id = self.run_of(index).map(|id| id.to_string()).unwrap_or_default();
        match verdict {
            Verdict::Skipped { .. } => return text.trim_end().to_owned() + "\n",
            Verdict::Better { .. } | Verdict::Mended | Verdict::Holds => {
                text.push_str(&evidence(experiment));
                text.push_str(&format!(
                    "- How to have it: `longhaul diff {id}` shows it, `longhaul apply {id}` brings the files into your checkout, \
                     `longhaul merge {id}` merges its branch\n"
                ));
            }
            Verdict::Unfinished { .. } => text.push_str(&format!(
                "- What there is of it: `longhaul diff {id}`; `longhaul result {id}` says where it stands\n"
            )),
            Verdict::NoBetter { .. } | Verdict::Unchanged | Verdict::Broken { .. } | Verdict::Open => {
                text.push_str(&evidence(experiment));
                text.push_str(&format!("- More of it: `longhaul result {id}`, `longhaul diff {id}`\n"));
            }
        }
        if let Some(outcome) = &experiment.outcome {
            let spent = outcome.spent();
            text.push_str(&format!("- Cost: {}, {}\n", spent.shown(), duration(spent.worked_ms)));
        }
        text.push_str(&story(experiment));
        text
    }

    fn said_of(&self, experiment: &Experiment, verdict: &Verdict) -> String {
        let number = |measured: &Option<Measured>| measured.as_ref()?.metric.clone();
        let numbers = match (number(&self.base), number(&experiment.measured)) {
            (Some(before), Some(after)) => format!("the metric went from {before} to {after}"),
            _ => "there is no number".to_owned(),
        };
        match verdict {
            Verdict::Better { .. } => format!("**Better**: {numbers}, and all checks pass."),
            Verdict::Mended => "**Mended**: checks that fail without it pass with it.".to_owned(),
            Verdict::Holds if self.order.verify.is_empty() => {
                "It was done, and nothing was given to check it with.".to_owned()
            }
            Verdict::Holds => "All checks pass, as they did before.".to_owned(),
            Verdict::NoBetter { .. } => format!("All checks pass, but {numbers}, which is no better."),
            Verdict::Unchanged => "It changed no file.".to_owned(),
            Verdict::Broken { why } => format!("It does not hold: {why}."),
            // All of it is in the run.
            Verdict::Unfinished { why } => {
                format!("It was not finished: {}", why.lines().next().unwrap_or_default())
            }
            Verdict::Skipped { why } => format!("It was not begun: {why}."),
            Verdict::Open => "It is not known yet what becomes of it.".to_owned(),
        }
    }

    /// What everything was compared with.
    fn measuring(&self) -> String {
        let order = &self.order;
        let mut text =
            format!("\n## How it was measured\n\n- Every experiment began with commit {}.\n", order.commit);
        match (&self.base, order.verify.is_empty()) {
            (_, true) => text.push_str("- No command was given that must succeed (`--verify`).\n"),
            (None, false) => text.push_str("- The base was not measured.\n"),
            (Some(base), false) => {
                text.push_str("- longhaul ran these commands itself, on that commit and on each experiment's files. On the commit:\n");
                base.checks.iter().for_each(|check| {
                    text.push_str(&format!("  - `{}`: {}\n", check.command, check.ended));
                });
            }
        }
        if let Some(metric) = &order.metric {
            let better = if order.minimize { "less" } else { "more" };
            let number = self.base.as_ref().map(|base| {
                let trouble = base.metric_trouble.as_deref().unwrap_or("nothing");
                base.metric.as_deref().unwrap_or(trouble)
            });
            let number = number.unwrap_or("not measured");
            text.push_str(&format!("- `{metric}`, of which {better} is better; on the commit: {number}\n"));
        }
        text
    }
}

type Pick = fn(&Verdict) -> bool;

fn rest(verdict: &Verdict) -> bool {
    !verdict.is_improvement() && *verdict != Verdict::Holds
}

/// What the harness saw, and what was changed.
fn evidence(experiment: &Experiment) -> String {
    let mut text = String::new();
    for check in experiment.measured.iter().flat_map(|measured| &measured.checks) {
        text.push_str(&format!("- `{}`: {}\n", check.command, check.ended));
        if !check.passed {
            let output = indented(tail(check.output.as_str(), REPORTED_OUTPUT_BYTES_MAX), "      ");
            text.push_str(&format!("\n{output}\n"));
        }
    }
    if let Some(Outcome::Finished { changes: Some(changes), .. }) = &experiment.outcome {
        text.push_str(&format!("- Changes:\n\n{}\n", indented(changes, "      ")));
    }
    text
}

/// What was tried, and what the agent said of it.
fn story(experiment: &Experiment) -> String {
    let mut text = format!("\n{}\n", head(experiment.idea.description.trim(), STEP_SAID_BYTES_MAX));
    if let Some(Outcome::Finished { said, .. }) = &experiment.outcome
        && !said.trim().is_empty()
    {
        text.push_str(&format!("\nThe agent said:\n\n{}", indented(said.trim(), "> ")));
    }
    text
}

fn indented(text: &str, by: &str) -> String {
    text.lines().map(|line| format!("{by}{line}").trim_end().to_owned() + "\n").collect()
}

/// Minutes are enough for what took hours.
fn duration(ms: u64) -> String {
    match ms {
        0..60_000 => format!("{} s", ms / 1000),
        60_000..3_600_000 => format!("{} min", ms / 60_000),
        _ => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}
