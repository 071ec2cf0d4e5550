//! Working a list off: one task after another, each in its way, and what became of it written back.
//!
//! Nothing is remembered here that is not in the file or in a run's journal, so that a runner can be killed at any moment.

use std::collections::HashSet;

use longhaul_core::event::Cause;
use longhaul_core::ids::RunId;
use longhaul_core::run::Run;
use longhaul_core::status::Status;
use longhaul_core::tasks::{Measure, Task, TaskList, TaskStatus};
use longhaul_engine::{Ending, Error as EngineError, Harness, Opening};
use longhaul_store::Error as StoreError;
use longhaul_store::catalog::Filter;
use longhaul_tools::Sandbox;
use serde_json::{Value, json};

use super::RunArgs;
use super::list_file::{ListFile, status};
use crate::app::App;
use crate::commands::create::{self, OnAskArg, Options};
use crate::commands::drive::{self, Rested};
use crate::commands::holding::{check_place, hold, tell};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};
use crate::servers;
use crate::settings::Settings;

pub struct Runner<'a> {
    app: &'a App,
    settings: Settings,
    args: RunArgs,
    measure: Measure,
    file: ListFile,
    sandbox: Sandbox,
    /// Made when the first long task is met: a list without one leaves no state behind.
    durable: Option<Harness>,
    /// What stands and waits; not looked at again in this go.
    set_aside: HashSet<String>,
}

/// What became of a task.
enum Outcome {
    Done {
        output: String,
    },
    Failed {
        error: String,
    },
    /// Its durable run stands, and goes on another time.
    Stands {
        exit: Exit,
    },
    /// It was cut off and left nothing; it is ready again.
    CutOff {
        exit: Exit,
        why: String,
    },
}

impl<'a> Runner<'a> {
    pub fn new(
        app: &'a App,
        settings: Settings,
        args: RunArgs,
        measure: Measure,
        file: ListFile,
    ) -> Result<Runner<'a>, Failure> {
        let sandbox = hold(app, &settings, &args.holding)?;
        check_place(&sandbox, &app.cwd)?;
        tell(&sandbox)?;
        let (durable, set_aside) = Default::default();
        Ok(Runner { app, settings, args, measure, file, sandbox, durable, set_aside })
    }

    /// Works until nothing is left that could be done now.
    pub fn work(mut self) -> Result<(Exit, TaskList), Failure> {
        let mut list = self.file.settle()?;
        let mut standing: Vec<Exit> = Vec::new();
        // Every round ends a task, uses up an attempt or sets one aside; whoever edits the file meanwhile cannot keep us for ever.
        let mut rounds = list.tasks.len() * self.args.max_attempts as usize * 3;
        while let Some(task) = list.next(&self.set_aside).cloned() {
            if rounds == 0 {
                return Err(Failure::from(anyhow::anyhow!("the list changes faster than it is worked off")));
            }
            rounds -= 1;
            let outcome = self.take_up(&list, &task)?;
            let stopped = self.settle(&task, &outcome)?;
            list = self.file.read()?;
            if let Some(exit) = stopped {
                return Ok((exit, list));
            }
            if let Outcome::Stands { exit } = outcome {
                self.set_aside.insert(task.id);
                standing.push(exit);
            }
        }
        let failed = list.tasks.iter().any(|task| task.status == TaskStatus::Failed);
        let exit = standing.into_iter().max_by_key(|exit| exit.number());
        Ok((exit.unwrap_or(if failed { Exit::Failed } else { Exit::Ok }), list))
    }

    /// Writes down what became of a task. Answers with an exit if there is no sense in going on with others.
    fn settle(&self, task: &Task, outcome: &Outcome) -> Result<Option<Exit>, Failure> {
        let id = &task.id;
        match outcome {
            Outcome::Done { output } => {
                let path = self.file.keep_output(id, output)?;
                let done = [status(TaskStatus::Done), ("output", json!(path)), ("error", Value::Null)];
                self.file.change(id, &done)?;
                render::talk(&format!("{id} is done; its output is in {path}"));
            }
            Outcome::Failed { error } => {
                let attempts = self.file.read()?.get(id).map_or(0, |task| task.attempts);
                let again = attempts < self.args.max_attempts;
                let now = if again { TaskStatus::Ready } else { TaskStatus::Failed };
                self.file.change(id, &[status(now), ("error", json!(error))])?;
                let what = if again { "failed and is tried again" } else { "failed" };
                render::warn(&format!("{id} {what}: {}", table::fit_talk(error, 200)));
            }
            Outcome::Stands { exit } => {
                return Ok(
                    matches!(exit, Exit::Interrupted | Exit::RateLimited | Exit::Frozen).then_some(*exit)
                );
            }
            Outcome::CutOff { exit, why } => {
                self.file.change(id, &[status(TaskStatus::Ready), ("error", json!(why))])?;
                render::warn(&format!(
                    "{id} was cut off and will be begun anew: {}",
                    table::fit_talk(why, 200)
                ));
                return Ok(Some(*exit));
            }
        }
        Ok(None)
    }

    fn take_up(&mut self, list: &TaskList, task: &Task) -> Result<Outcome, Failure> {
        let left = task.dependencies.iter().filter_map(|id| {
            let path = list.get(id)?.output.as_ref()?;
            Some((id.clone(), self.file.output(path)?))
        });
        let prompt = task.prompt(&left.collect::<Vec<_>>());
        if task.status == TaskStatus::Running
            && let Some(run) = self.run_of(task)?
        {
            return self.go_on(task, run);
        }
        if task.way(self.measure).is_wrapped() {
            self.wrap(task, &prompt)
        } else {
            self.do_directly(task, &prompt)
        }
    }

    /// A durable run for the task. One that was made for it and never begun, because its maker died, is taken.
    fn wrap(&mut self, task: &Task, prompt: &str) -> Result<Outcome, Failure> {
        let options = self.options(task, self.args.options.on_ask);
        servers::meet(self.app, &self.settings, &self.sandbox, &options)?;
        let run = match self.made_for(task, prompt)? {
            Some(run) => run,
            None => create::create(self.app, &self.durable()?, &self.settings, prompt, &options)?,
        };
        let id = &run.spec.id;
        let begun =
            [status(TaskStatus::Running), ("attempts", json!(task.attempts + 1)), ("runId", json!(id))];
        self.file.change(&task.id, &begun)?;
        render::talk(&format!("{} begins as {id}: {}", task.id, task.way(self.measure).why()));
        self.drive(&run, Opening::default())
    }

    /// Goes on with the run a task was given to.
    fn go_on(&mut self, task: &Task, run: Run) -> Result<Outcome, Failure> {
        if run.status.is_terminal() {
            return Ok(ended(&run));
        }
        render::talk(&format!("{} goes on as {}", task.id, run.spec.id));
        let limits = self.args.options.limits.over(run.spec.limits)?;
        self.drive(&run, Opening { limits, ..Opening::default() })
    }

    fn drive(&mut self, run: &Run, opening: Opening) -> Result<Outcome, Failure> {
        let harness = self.durable()?;
        let rested = match drive::until_rested(self.app, &harness, &run.spec.id, opening) {
            Ok(rested) => rested,
            Err(failure) if failure.exit == Exit::Held => {
                render::warn(&format!("{} is driven by another process", run.spec.id));
                return Ok(Outcome::Stands { exit: Exit::Held });
            }
            Err(failure) => return Err(failure),
        };
        let Rested::InOrder { run, ending, interrupted } = rested else {
            return Ok(Outcome::Stands { exit: Exit::Interrupted });
        };
        if run.status.is_terminal() {
            return Ok(ended(&run));
        }
        let by_us = interrupted && ending == Ending::Paused(Cause::Asked);
        let exit = if by_us { Exit::Interrupted } else { Exit::of_run(&run) };
        let reason = run.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        render::warn(&format!("{} is {}{reason}", run.spec.id, run.called()));
        if ending == Ending::WaitingForHuman {
            render::hint("`longhaul approvals` shows what it asks; answer, then run the list again");
        }
        Ok(Outcome::Stands { exit })
    }

    /// The work itself and nothing around it: no run is left behind.
    fn do_directly(&self, task: &Task, prompt: &str) -> Result<Outcome, Failure> {
        let options = self.options(task, Some(OnAskArg::Deny));
        servers::meet(self.app, &self.settings, &self.sandbox, &options)?;
        let harness = self.app.forgetful(&self.settings, self.sandbox.clone())?;
        let run = create::create(self.app, &harness, &self.settings, prompt, &options)?;
        let begun =
            [status(TaskStatus::Running), ("attempts", json!(task.attempts + 1)), ("runId", Value::Null)];
        self.file.change(&task.id, &begun)?;
        render::talk(&format!("{} begins, directly: {}", task.id, task.way(self.measure).why()));
        let rested = drive::until_rested(self.app, &harness, &run.spec.id, Opening::default())?;
        let Rested::InOrder { run, interrupted, .. } = rested else {
            return Ok(Outcome::CutOff {
                exit: Exit::Interrupted,
                why: "interrupted from the terminal".to_owned(),
            });
        };
        if run.status.is_terminal() {
            return Ok(ended(&run));
        }
        let why = run.reason.clone().unwrap_or_else(|| "it stopped before its end".to_owned());
        match Exit::of_run(&run) {
            _ if interrupted => Ok(Outcome::CutOff { exit: Exit::Interrupted, why }),
            exit @ (Exit::RateLimited | Exit::Frozen) => Ok(Outcome::CutOff { exit, why }),
            Exit::Ok
            | Exit::Failed
            | Exit::Usage
            | Exit::Waiting
            | Exit::Limit
            | Exit::Held
            | Exit::Interrupted => Ok(Outcome::Failed { error: why }),
        }
    }

    fn options(&self, task: &Task, on_ask: Option<OnAskArg>) -> Options {
        let base = self.args.options.clone();
        let agent = task.agent.clone().unwrap_or(base.agent);
        Options { agent, on_ask, in_place: true, task_id: Some(task.id.clone()), ..base }
    }

    fn durable(&mut self) -> Result<Harness, Failure> {
        if let Some(harness) = &self.durable {
            return Ok(harness.clone());
        }
        let harness = self.app.holding(&self.settings, self.sandbox.clone())?;
        Ok(self.durable.insert(harness).clone())
    }

    /// The run a task was given to, if there still is one.
    fn run_of(&mut self, task: &Task) -> Result<Option<Run>, Failure> {
        let Some(id) = task.run_id.as_deref().and_then(|id| RunId::parse(id).ok()) else { return Ok(None) };
        if self.app.home()?.is_none() {
            return Ok(None);
        }
        match self.durable()?.look(&id) {
            Ok(run) if run.spec.task_id == task.id => Ok(Some(run)),
            Ok(_) | Err(EngineError::Store(StoreError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A run that was created for exactly this and that nobody has begun with.
    fn made_for(&mut self, task: &Task, prompt: &str) -> Result<Option<Run>, Failure> {
        if self.app.home()?.is_none() {
            return Ok(None);
        }
        let harness = self.durable()?;
        let (rows, _) = harness.list(&Filter { status: Some(Status::Created), ..Filter::default() })?;
        for row in rows.into_iter().filter(|row| row.task_id.as_ref() == Some(&task.id)) {
            let run = harness.look(&row.id)?;
            if run.spec.task == prompt && run.spec.workspace == self.app.cwd.display().to_string() {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }
}

fn ended(run: &Run) -> Outcome {
    if run.status == Status::Completed {
        return Outcome::Done { output: run.output().unwrap_or_default().to_owned() };
    }
    let error = run.error.clone().or_else(|| run.reason.clone());
    Outcome::Failed { error: error.unwrap_or_else(|| "it failed without a word".to_owned()) }
}
