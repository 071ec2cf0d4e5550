//! A run's step plan: what has to be done, in which order, and how far each step is.

use std::collections::HashSet;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::limits;

/// The steps of a run, in the order they were written. Steps refer to each other by id, the run to them by index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(transparent)]
#[serde(transparent)]
pub struct Plan {
    #[n(0)]
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    #[n(0)]
    pub id: String,
    #[n(1)]
    pub description: String,
    #[n(2)]
    #[serde(rename = "assignedAgent")]
    pub agent: String,
    #[n(3)]
    pub dependencies: Vec<String>,
    /// A critical step is gated at autonomy 3.
    #[n(4)]
    pub critical: bool,
    #[n(5)]
    pub status: StepStatus,
    #[n(6)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    #[n(7)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Commands that must succeed before this step counts as done, beside those of the run.
    #[n(8)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum StepStatus {
    #[default]
    #[n(0)]
    Pending,
    #[n(1)]
    Ready,
    #[n(2)]
    Running,
    #[n(3)]
    Completed,
    #[n(4)]
    Failed,
    #[n(5)]
    Blocked,
}

impl StepStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            StepStatus::Pending => "pending",
            StepStatus::Ready => "ready",
            StepStatus::Running => "running",
            StepStatus::Completed => "completed",
            StepStatus::Failed => "failed",
            StepStatus::Blocked => "blocked",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct BadPlan {
    /// The field at fault, as `steps[2].dependencies[0]`.
    pub path: String,
    pub why: String,
}

impl Plan {
    /// A plain run: the whole task as one step of the run's own agent.
    pub fn single(task: &str, agent: &str) -> Plan {
        let step = Step::new("step-1", task, agent);
        Plan { steps: vec![Step { status: StepStatus::Ready, ..step }] }
    }

    /// Checks what a person or a model wrote, then readies the steps that wait for nobody.
    pub fn checked(self) -> Result<Plan, BadPlan> {
        self.check()?;
        Ok(self.readied())
    }

    /// The same plan with every pending step that waits for nobody ready.
    #[must_use]
    pub fn readied(mut self) -> Plan {
        for index in 0..self.steps.len() {
            self.ready_if_free(index);
        }
        self
    }

    pub fn check(&self) -> Result<(), BadPlan> {
        self.check_after(0)
    }

    /// The same for a plan whose first steps were there before: fields are named as they stand in what was given.
    fn check_after(&self, kept: usize) -> Result<(), BadPlan> {
        if self.steps.is_empty() {
            return Err(BadPlan::at("steps", "a plan needs at least one step"));
        }
        if self.steps.len() > limits::STEPS_MAX {
            let why = format!("{} steps are more than {}", self.steps.len(), limits::STEPS_MAX);
            return Err(BadPlan::at("steps", why));
        }
        let bytes: usize = self.steps.iter().map(|step| step.id.len() + step.description.len()).sum();
        if bytes > limits::PLAN_BYTES_MAX {
            let why = format!("their texts have {bytes} bytes, more than {}", limits::PLAN_BYTES_MAX);
            return Err(BadPlan::at("steps", why));
        }
        let mut seen = HashSet::new();
        for (index, step) in self.steps.iter().enumerate() {
            let place = index.saturating_sub(kept);
            step.check(place)?;
            if !seen.insert(step.id.as_str()) {
                return Err(BadPlan::at(
                    format!("steps[{place}].id"),
                    format!("`{}` is used twice", step.id),
                ));
            }
        }
        self.check_dependencies(&seen, kept)?;
        self.check_cycles(kept)
    }

    /// The steps that may begin, in order.
    pub fn ready(&self) -> impl Iterator<Item = usize> {
        let ready = |(index, step): (usize, &Step)| (step.status == StepStatus::Ready).then_some(index);
        self.steps.iter().enumerate().filter_map(ready)
    }

    /// This plan with what `new` has in mind for the rest: what is completed stays as it is, what is not gives way.
    pub fn replanned(&self, new: Plan) -> Result<Plan, BadPlan> {
        let done = |step: &&Step| step.status == StepStatus::Completed;
        let mut steps: Vec<Step> = self.steps.iter().filter(done).cloned().collect();
        let kept = steps.len();
        for (index, step) in new.steps.into_iter().enumerate() {
            if steps[..kept].iter().any(|done| done.id == step.id) {
                let why = format!("`{}` is the id of a step that is completed and stays", step.id);
                return Err(BadPlan::at(format!("steps[{index}].id"), why));
            }
            steps.push(Step { status: StepStatus::Pending, output: None, error: None, ..step });
        }
        if steps.len() == kept {
            return Err(BadPlan::at("steps", "a new plan needs at least one step"));
        }
        let plan = Plan { steps };
        plan.check_after(kept)?;
        Ok(plan.readied())
    }

    /// The commands that must succeed before its steps are done.
    pub fn commands(&self) -> impl Iterator<Item = &String> {
        self.steps.iter().filter_map(|step| step.verify.as_ref()).flatten()
    }

    pub fn completed_count(&self) -> usize {
        self.steps.iter().filter(|step| step.status == StepStatus::Completed).count()
    }

    pub fn is_completed(&self) -> bool {
        self.completed_count() == self.steps.len()
    }

    pub fn start(&mut self, index: usize) {
        self.steps[index].status = StepStatus::Running;
    }

    /// What failed, was left off or was blocked may begin again.
    pub fn reopen(&mut self) {
        for step in self.steps.iter_mut().filter(|step| step.status != StepStatus::Completed) {
            step.status = StepStatus::Pending;
            step.error = None;
        }
        for other in 0..self.steps.len() {
            self.ready_if_free(other);
        }
    }

    /// Completes a step and readies exactly the steps whose dependencies are now all completed.
    pub fn complete(&mut self, index: usize, output: String) {
        let step = &mut self.steps[index];
        step.status = StepStatus::Completed;
        step.output = Some(output);
        for freed in self.freed_by(index, |other| self.steps[other].status) {
            self.steps[freed].status = StepStatus::Ready;
        }
    }

    /// The steps that waited for this one and for nothing else that is open, with `status` saying how far each is.
    pub fn freed_by(&self, index: usize, status: impl Fn(usize) -> StepStatus) -> Vec<usize> {
        let id = &self.steps[index].id;
        let completed = |id: &String| {
            let place = self.steps.iter().position(|step| step.id == *id);
            place.is_some_and(|place| status(place) == StepStatus::Completed)
        };
        let is_freed = |(other, step): (usize, &Step)| {
            let waits = step.dependencies.is_empty() || step.dependencies.contains(id);
            let free =
                waits && status(other) == StepStatus::Pending && step.dependencies.iter().all(completed);
            free.then_some(other)
        };
        self.steps.iter().enumerate().filter_map(is_freed).collect()
    }

    /// Fails a step and blocks everything that waits for it, directly or through others.
    pub fn fail(&mut self, index: usize, error: String) {
        let step = &mut self.steps[index];
        step.status = StepStatus::Failed;
        step.error = Some(error);
        for lost in self.lost_with(index, |other| self.steps[other].status) {
            self.steps[lost].status = StepStatus::Blocked;
        }
    }

    /// The steps that have not begun and wait for this one, directly or through others.
    pub fn lost_with(&self, index: usize, status: impl Fn(usize) -> StepStatus) -> Vec<usize> {
        let mut lost_ids = HashSet::from([self.steps[index].id.as_str()]);
        let mut lost = Vec::new();
        loop {
            let before = lost.len();
            for (other, step) in self.steps.iter().enumerate() {
                let waits = step.dependencies.iter().any(|id| lost_ids.contains(id.as_str()));
                let open = matches!(status(other), StepStatus::Pending | StepStatus::Ready);
                if waits && open && lost_ids.insert(&step.id) {
                    lost.push(other);
                }
            }
            if lost.len() == before {
                return lost;
            }
        }
    }

    fn ready_if_free(&mut self, index: usize) {
        let step = &self.steps[index];
        let free = step.status == StepStatus::Pending
            && step.dependencies.iter().all(|dependency| self.has_completed(dependency));
        if free {
            self.steps[index].status = StepStatus::Ready;
        }
    }

    fn has_completed(&self, id: &str) -> bool {
        self.steps.iter().any(|step| step.id == id && step.status == StepStatus::Completed)
    }

    fn check_dependencies(&self, ids: &HashSet<&str>, kept: usize) -> Result<(), BadPlan> {
        for (index, step) in self.steps.iter().enumerate() {
            for (place, dependency) in step.dependencies.iter().enumerate() {
                if !ids.contains(dependency.as_str()) {
                    let index = index.saturating_sub(kept);
                    let path = format!("steps[{index}].dependencies[{place}]");
                    return Err(BadPlan::at(path, format!("no step has the id `{dependency}`")));
                }
            }
        }
        Ok(())
    }

    /// Takes away steps without open dependencies until none is left; what remains waits for itself.
    fn check_cycles(&self, kept: usize) -> Result<(), BadPlan> {
        let mut done: HashSet<&str> = HashSet::new();
        loop {
            let before = done.len();
            for step in &self.steps {
                if step.dependencies.iter().all(|id| done.contains(id.as_str())) {
                    done.insert(&step.id);
                }
            }
            if done.len() == self.steps.len() {
                return Ok(());
            }
            if done.len() == before {
                let stuck = self.steps.iter().position(|step| !done.contains(step.id.as_str())).unwrap_or(0);
                let why = format!("`{}` waits for itself in a circle", self.steps[stuck].id);
                let place = stuck.saturating_sub(kept);
                return Err(BadPlan::at(format!("steps[{place}].dependencies"), why));
            }
        }
    }
}

/// A plan as people and models write it: what is always the same may be left out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    pub steps: Vec<DraftStep>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DraftStep {
    pub id: String,
    pub description: String,
    #[serde(default, alias = "assignedAgent")]
    pub agent: Option<String>,
    #[serde(default)]
    pub dependencies: Vec<String>,
    #[serde(default, alias = "isCritical")]
    pub critical: bool,
    #[serde(default)]
    pub verify: Vec<String>,
}

impl Draft {
    /// The plan; a step without an agent is for `agent`. Not checked yet.
    pub fn plan(self, agent: &str) -> Plan {
        let step = |draft: DraftStep| Step {
            dependencies: draft.dependencies,
            critical: draft.critical,
            verify: Some(draft.verify).filter(|commands| !commands.is_empty()),
            ..Step::new(&draft.id, &draft.description, draft.agent.as_deref().unwrap_or(agent))
        };
        Plan { steps: self.steps.into_iter().map(step).collect() }
    }
}

/// The plan in a planner's answer, which may stand among other words; an error says what is wrong with it.
pub fn from_answer(answer: &str, agent: &str) -> Result<Plan, String> {
    let span = answer.find('{').zip(answer.rfind('}'));
    let json = span.and_then(|(start, end)| answer.get(start..=end));
    let json = json.ok_or("the answer holds no JSON object")?;
    let draft: Draft = serde_json::from_str(json).map_err(|error| error.to_string())?;
    Ok(draft.plan(agent))
}

impl Step {
    pub fn new(id: &str, description: &str, agent: &str) -> Step {
        Step {
            id: id.to_owned(),
            description: description.to_owned(),
            agent: agent.to_owned(),
            dependencies: Vec::new(),
            critical: false,
            status: StepStatus::Pending,
            output: None,
            error: None,
            verify: None,
        }
    }

    fn check(&self, index: usize) -> Result<(), BadPlan> {
        for (field, text) in
            [("id", &self.id), ("description", &self.description), ("assignedAgent", &self.agent)]
        {
            let path = format!("steps[{index}].{field}");
            if text.trim().is_empty() {
                return Err(BadPlan::at(path, "may not be empty"));
            }
            if text.len() > limits::TEXT_BYTES_MAX {
                return Err(BadPlan::at(path, format!("is longer than {} bytes", limits::TEXT_BYTES_MAX)));
            }
        }
        // It is shown in tables and names files.
        if self.id.chars().any(char::is_control) {
            let path = format!("steps[{index}].id");
            return Err(BadPlan::at(path, "may not hold line breaks or control characters"));
        }
        let empty = |command: &String| command.trim().is_empty();
        if let Some(place) = self.verify.iter().flatten().position(empty) {
            return Err(BadPlan::at(format!("steps[{index}].verify[{place}]"), "may not be empty"));
        }
        Ok(())
    }
}

impl BadPlan {
    fn at(path: impl Into<String>, why: impl Into<String>) -> BadPlan {
        BadPlan { path: path.into(), why: why.into() }
    }
}
