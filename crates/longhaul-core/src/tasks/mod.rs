//! Task lists: what stands in a file of tasks, which of them comes next, and which is worth a durable run.
//!
//! Owns the order of work and what a failure means for those who depend on it. Refuses to do any of it: a list is a value, and
//! whoever works on a task says how it ended. How a list is written is in [`paper`].

pub mod paper;

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::evidence::tail;
use crate::limits::{TASK_OUTPUT_BYTES_MAX, TASK_OUTPUTS_BYTES_MAX};
use crate::prompt::head;

/// Tasks in the order they were written. Their ids differ, what they depend on is there, and nothing depends on itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskList {
    pub tasks: Vec<Task>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Task {
    pub id: String,
    pub title: String,
    pub description: String,
    /// Who is to do it; whoever is meant when nobody is named, if left out.
    pub agent: Option<String>,
    pub status: TaskStatus,
    pub dependencies: Vec<String>,
    /// Earlier phases go first among those that are ready.
    pub phase: i64,
    /// How often somebody has begun with it.
    pub attempts: u32,
    /// Where its output is.
    pub output: Option<String>,
    pub error: Option<String>,
    /// What else it is to be told.
    pub context: Option<String>,
    pub todos: Vec<String>,
    /// Is it marked as taking long?
    pub long_running: bool,
    /// How long it is thought to take.
    pub estimated_minutes: Option<f64>,
    /// The durable run it was given to last.
    pub run_id: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    /// Something it depends on is not done.
    #[default]
    Pending,
    Ready,
    /// Somebody works on it, or worked on it when their process died, or waits for a person.
    Running,
    Done,
    Failed,
    /// Something it depends on has failed.
    Blocked,
}

impl TaskStatus {
    pub const ALL: [TaskStatus; 6] = [
        TaskStatus::Pending,
        TaskStatus::Ready,
        TaskStatus::Running,
        TaskStatus::Done,
        TaskStatus::Failed,
        TaskStatus::Blocked,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            TaskStatus::Pending => "pending",
            TaskStatus::Ready => "ready",
            TaskStatus::Running => "running",
            TaskStatus::Done => "done",
            TaskStatus::Failed => "failed",
            TaskStatus::Blocked => "blocked",
        }
    }
}

/// How a task is worked on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// In a durable run, which outlives its process.
    Wrapped(Why),
    /// At once, leaving no run behind; interrupted, it is begun anew.
    Direct(Why),
}

/// What decided it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    Marked,
    Estimated {
        minutes: f64,
        threshold: f64,
    },
    /// Not marked, and no estimate.
    Unmarked,
    /// Not marked, and the estimate is within the threshold.
    Short {
        minutes: f64,
        threshold: f64,
    },
    /// There is a budget, and what leaves no trace cannot be counted.
    Counted,
    /// Durable runs are switched off.
    Disabled,
}

/// What tells long tasks from short ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// Estimates above this many minutes are long.
    pub threshold_minutes: f64,
    /// Are there durable runs at all?
    pub durable: bool,
    /// Is there a budget that all that is spent counts towards?
    pub counted: bool,
}

impl Way {
    pub fn is_wrapped(self) -> bool {
        matches!(self, Way::Wrapped(_))
    }

    pub fn why(self) -> String {
        let (Way::Wrapped(why) | Way::Direct(why)) = self;
        match why {
            Why::Marked => "it is marked longRunning".to_owned(),
            Why::Estimated { minutes, threshold } => {
                format!("its estimate of {minutes} minutes is above the threshold of {threshold}")
            }
            Why::Unmarked => "it is not marked longRunning and has no estimate".to_owned(),
            Why::Short { minutes, threshold } => format!(
                "it is not marked longRunning, and its estimate of {minutes} minutes is not above the threshold of {threshold}"
            ),
            Why::Counted => "harness.budget is set, and only a durable run can be counted".to_owned(),
            Why::Disabled => "harness.enabled is false".to_owned(),
        }
    }
}

impl Task {
    /// In a durable run exactly if it is marked as long or estimated above the threshold, or if what it spends must be counted.
    pub fn way(&self, measure: Measure) -> Way {
        let threshold = measure.threshold_minutes;
        if !measure.durable {
            return Way::Direct(Why::Disabled);
        }
        match (self.long_running, self.estimated_minutes) {
            (true, _) => Way::Wrapped(Why::Marked),
            (false, Some(minutes)) if minutes > threshold => {
                Way::Wrapped(Why::Estimated { minutes, threshold })
            }
            (false, _) if measure.counted => Way::Wrapped(Why::Counted),
            (false, Some(minutes)) => Way::Direct(Why::Short { minutes, threshold }),
            (false, None) => Way::Direct(Why::Unmarked),
        }
    }

    /// What whoever works on it is told. `outputs` are what the tasks it depends on left, by id.
    pub fn prompt(&self, outputs: &[(String, String)]) -> String {
        let parts = [&self.title, &self.description].into_iter().filter(|part| !part.trim().is_empty());
        let mut text = parts.map(|part| part.trim().to_owned()).collect::<Vec<_>>().join("\n\n");
        if text.is_empty() {
            text.clone_from(&self.id);
        }
        if let Some(context) = self.context.as_deref().filter(|context| !context.trim().is_empty()) {
            text.push_str(&format!("\n\n## Context\n\n{}", context.trim()));
        }
        if !self.todos.is_empty() {
            let todos: Vec<String> = self.todos.iter().map(|todo| format!("- {todo}")).collect();
            text.push_str(&format!("\n\n## To do\n\n{}", todos.join("\n")));
        }
        let mut left = TASK_OUTPUTS_BYTES_MAX;
        for (index, (id, output)) in outputs.iter().enumerate() {
            let heading = if index == 0 { "\n\n## What earlier tasks left" } else { "" };
            let output = shortened(output.trim(), left.min(TASK_OUTPUT_BYTES_MAX));
            left = left.saturating_sub(output.len());
            text.push_str(&format!("{heading}\n\n### {id}\n\n{output}"));
        }
        if let Some(error) = self.error.as_deref().filter(|_| self.attempts > 0) {
            let error = shortened(error, TASK_OUTPUT_BYTES_MAX);
            text.push_str(&format!("\n\n## The last attempt failed\n\n{error}"));
        }
        text
    }
}

/// The beginning and the end of a text that is too long.
fn shortened(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let (head, tail) = (head(text, bytes_max / 2), tail(text, bytes_max / 2));
    let missing = text.len() - head.len() - tail.len();
    format!("{head}\n[… {missing} bytes are left out here …]\n{tail}")
}

impl TaskList {
    pub fn get(&self, id: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.id == id)
    }

    /// Every task's status as it follows from those it depends on. What was done, has failed or is being worked on stays;
    /// whether the others are pending, ready or blocked is not for the file to say.
    pub fn settled(&self) -> Vec<TaskStatus> {
        let at: HashMap<&str, usize> =
            self.tasks.iter().enumerate().map(|(index, task)| (task.id.as_str(), index)).collect();
        let mut settled: Vec<Option<TaskStatus>> = self.tasks.iter().map(|task| own(task.status)).collect();
        // Each round settles at least one task that is not yet, because nothing depends on itself.
        for _ in 0..self.tasks.len() {
            let open: Vec<usize> = (0..settled.len()).filter(|index| settled[*index].is_none()).collect();
            if open.is_empty() {
                break;
            }
            for index in open {
                let of = |id: &String| at.get(id.as_str()).and_then(|index| settled[*index]);
                let dependencies: Option<Vec<TaskStatus>> =
                    self.tasks[index].dependencies.iter().map(of).collect();
                settled[index] = dependencies.map(|statuses| derived(&statuses));
            }
        }
        settled.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// What to work on next: first what was being worked on, then what is ready; the earliest phase, then the fewest attempts,
    /// then the order of the file. Those in `set_aside` are left where they are.
    pub fn next(&self, set_aside: &HashSet<String>) -> Option<&Task> {
        let settled = self.settled();
        let eligible = self.tasks.iter().zip(settled).enumerate().filter_map(|(index, (task, status))| {
            let begun = match status {
                TaskStatus::Running => 0,
                TaskStatus::Ready => 1,
                TaskStatus::Pending | TaskStatus::Done | TaskStatus::Failed | TaskStatus::Blocked => {
                    return None;
                }
            };
            (!set_aside.contains(&task.id)).then_some(((begun, task.phase, task.attempts, index), task))
        });
        eligible.min_by_key(|(rank, _)| *rank).map(|(_, task)| task)
    }
}

/// The status that is a task's own.
fn own(status: TaskStatus) -> Option<TaskStatus> {
    match status {
        TaskStatus::Running | TaskStatus::Done | TaskStatus::Failed => Some(status),
        TaskStatus::Pending | TaskStatus::Ready | TaskStatus::Blocked => None,
    }
}

fn derived(dependencies: &[TaskStatus]) -> TaskStatus {
    let failed = |status: &TaskStatus| matches!(status, TaskStatus::Failed | TaskStatus::Blocked);
    if dependencies.iter().any(failed) {
        return TaskStatus::Blocked;
    }
    let done = dependencies.iter().all(|status| *status == TaskStatus::Done);
    if done { TaskStatus::Ready } else { TaskStatus::Pending }
}

#[cfg(test)]
mod tests;
