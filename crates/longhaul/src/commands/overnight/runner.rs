//! Working through a night, piece by piece. What is to be done next is core's to say; here it is done, and what came of it is written
//! down before anything else is begun.
//!
//! The runs of a night have names made from its own, so that one that was under way when its process died is found and goes on.

use std::path::Path;

use longhaul_core::event::{Cause, Purpose};
use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::limits::PREPARE_ATTEMPTS_MAX;
use longhaul_core::money::Usd;
use longhaul_core::overnight::means::{Means, Spent};
use longhaul_core::overnight::{End, Measured, Next, Night, Outcome, Standing, ideas, standing};
use longhaul_core::prompt::head;
use longhaul_core::run::Run;
use longhaul_engine::{Ending, Error as EngineError, Harness};
use longhaul_store::Error as StoreError;
use longhaul_tools::{Examine, Sandbox};
use longhaul_workspace::place;

use super::night_file::NightFile;
use crate::app::App;
use crate::commands::conduct::{CheckArgs, ConductArgs, ProtectArg};
use crate::commands::create::{self, LimitArgs, ModeArg, Options};
use crate::commands::drive::{self, Rested};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::NIGHT_SAID_BYTES_MAX;
use crate::render::{self, table};
use crate::servers;
use crate::settings::Settings;

/// Who is asked for ideas.
const PLANNER: &str = "planner";

/// What whoever thinks of experiments may look with.
const LOOKING: [&str; 9] =
    ["read", "list", "glob", "grep", "git_status", "git_diff", "git_log", "git_show", "git_blame"];

pub struct Runner<'a> {
    pub app: &'a App,
    pub settings: Settings,
    pub sandbox: Sandbox,
    pub harness: Harness,
    pub file: NightFile,
    pub night: Night,
}

/// What driving a run of the night led to.
enum Driven {
    /// It is over for this night.
    Over(Box<Run>, Standing),
    /// It waits for a person or was paused; others can go on.
    Stands(Exit),
    /// There is no sense in going on with others now.
    Stop(Exit),
}

impl Runner<'_> {
    /// Works until the report is written or nothing can be done now.
    pub fn work(&mut self) -> Result<Exit, Failure> {
        let mut set_aside: Vec<usize> = Vec::new();
        let mut exits: Vec<Exit> = Vec::new();
        loop {
            let stopped = match self.night.next(&set_aside) {
                Next::Prepare { attempt } => self.prepare(attempt)?,
                Next::GiveUp => self.give_up_ideas()?,
                Next::MeasureBase => self.measure_base()?,
                Next::Experiment(index) => match self.experiment(index, &set_aside)? {
                    Some(Driven::Stands(exit)) => {
                        set_aside.push(index);
                        exits.push(exit);
                        None
                    }
                    Some(Driven::Stop(exit)) => Some(exit),
                    Some(Driven::Over(..)) | None => None,
                },
                Next::Measure(index) => self.measure(index)?,
                Next::Report => self.report()?,
                Next::Wait => exits.iter().copied().max_by_key(|exit| exit.number()),
                Next::Nothing => Some(self.exit()),
            };
            if let Some(exit) = stopped {
                return Ok(exit);
            }
        }
    }

    /// Asks for ideas. An answer that is no list of them is kept for the next time.
    fn prepare(&mut self, attempt: u32) -> Result<Option<Exit>, Failure> {
        let id = self.night.preparing_run(attempt).map_err(EngineError::from)?;
        let earlier = self.preparing_spent(attempt - 1)?;
        if self.found(&id)?.is_none() {
            let means = match self.night.share(earlier, 0) {
                Ok(means) => means,
                Err(why) => return self.give_up(why.to_owned()).map(|()| Some(Exit::Limit)),
            };
            render::talk(&format!("prepare: {id} looks for experiments, {}", shown(means)));
            self.make_preparing(&id, means)?;
        } else {
            render::talk(&format!("prepare: {id} goes on"));
        }
        let (run, standing) = match self.drive(&id)? {
            Driven::Over(run, standing) => (run, standing),
            Driven::Stands(exit) | Driven::Stop(exit) => return Ok(Some(exit)),
        };
        if let Standing::Over { why } = standing {
            let exit = if run.cause == Some(Cause::Limit) { Exit::Limit } else { Exit::Failed };
            return self
                .give_up(format!("there are no ideas, because {id} did not end: {why}"))
                .map(|()| Some(exit));
        }
        match ideas::read(run.output().unwrap_or_default(), &self.night.order) {
            Ok(ideas) => {
                self.night.preparing = Some([earlier, spent(&run)].into_iter().sum());
                self.night.experiments = ideas.into_iter().map(experiment).collect();
                for (index, experiment) in self.night.experiments.iter().enumerate() {
                    render::talk(&format!(
                        "  {}. {}",
                        index + 1,
                        table::fit_talk(&experiment.idea.title, 100)
                    ));
                }
            }
            Err(misfit) => {
                render::warn(&format!("{id} gave no list of experiments: {}", table::fit_talk(&misfit, 200)));
                self.night.misfits.push(misfit);
            }
        }
        self.file.write(&self.night)?;
        Ok(None)
    }

    fn make_preparing(&self, id: &RunId, means: Means) -> Result<(), Failure> {
        let options = Options {
            agent: PLANNER.to_owned(),
            mode: ModeArg::Complete,
            tools: Some(LOOKING.map(str::to_owned).to_vec()),
            conduct: ConductArgs::default(),
            ..self.options(means)
        };
        let task = ideas::asked(&self.night);
        let mut spec = create::spec(self.app, &self.harness, &self.settings, &task, &options, id.clone())?;
        ideas::PROMPT.clone_into(&mut spec.prompt);
        spec.answer_schema = Some(Json::of(&ideas::schema(self.night.order.experiments)));
        create::made(self.app, &self.harness, spec, Failure::from).map(drop)
    }

    fn give_up_ideas(&mut self) -> Result<Option<Exit>, Failure> {
        let why = self.night.misfits.last().cloned().unwrap_or_default();
        self.give_up(format!("the planner gave no list of experiments: {why}"))?;
        Ok(Some(Exit::Failed))
    }

    fn give_up(&mut self, why: String) -> Result<(), Failure> {
        render::warn(&format!("{} is given up: {}", self.night.id, table::fit_talk(&why, 300)));
        if self.night.preparing.is_none() {
            self.night.preparing = Some(self.preparing_spent(PREPARE_ATTEMPTS_MAX)?);
        }
        self.end(Some(why))
    }

    /// What the first so many times of asking for ideas have used.
    fn preparing_spent(&self, attempts: u32) -> Result<Spent, Failure> {
        let mut all = Vec::new();
        for attempt in 1..=attempts {
            let id = self.night.preparing_run(attempt).map_err(EngineError::from)?;
            all.extend(self.found(&id)?.map(|run| spent(&run)));
        }
        Ok(all.into_iter().sum())
    }

    fn end(&mut self, gave_up: Option<String>) -> Result<(), Failure> {
        self.night.end = Some(End { at: self.harness.clock.now(), gave_up });
        // The report first: a night that says it is over has one.
        self.file.write_report(&self.night.markdown())?;
        self.file.write(&self.night)
    }

    /// The repository as it is: where ideas were looked for, nothing was changed.
    fn measure_base(&mut self) -> Result<Option<Exit>, Failure> {
        let attempt = self.night.misfits.len() as u32 + 1;
        let id = self.night.preparing_run(attempt).map_err(EngineError::from)?;
        render::talk("prepare: the base is measured");
        let Some(measured) = self.measured(&self.harness.look(&id)?)? else {
            return Ok(Some(Exit::Interrupted));
        };
        if let Some(check) = measured.failed_check() {
            render::warn(&format!("`{}` fails without any experiment: {}", check.command, check.ended));
        }
        let trouble = measured.metric_trouble.clone();
        self.night.base = Some(measured);
        self.file.write(&self.night)?;
        let Some(trouble) = trouble else { return Ok(None) };
        self.give_up(format!("nothing could be compared: {trouble}, without any experiment"))?;
        Ok(Some(Exit::Failed))
    }

    /// Works on one experiment. Nothing if it was skipped.
    fn experiment(&mut self, index: usize, set_aside: &[usize]) -> Result<Option<Driven>, Failure> {
        let id = self.night.run_of(index).map_err(EngineError::from)?;
        let (number, of) = (index + 1, self.night.experiments.len());
        if self.found(&id)?.is_none() {
            match self.share(set_aside)? {
                Ok(means) => {
                    self.make_experiment(index, &id, means)?;
                    render::talk(&format!("experiment {number} of {of} begins as {id}, {}", shown(means)));
                }
                Err(why) => {
                    render::warn(&format!("experiment {number} of {of} is skipped: {why}"));
                    self.settle(index, Outcome::Skipped { why: why.to_owned() })?;
                    return Ok(None);
                }
            }
        } else {
            render::talk(&format!("experiment {number} of {of} goes on as {id}"));
        }
        let driven = self.drive(&id)?;
        if let Driven::Over(run, standing) = &driven {
            let spent = spent(run);
            let outcome = match standing {
                Standing::Over { why } => Outcome::Unfinished { why: why.clone(), spent },
                Standing::Completed | Standing::Open => {
                    let said = head(run.output().unwrap_or_default(), NIGHT_SAID_BYTES_MAX).to_owned();
                    Outcome::Finished { said, spent, changes: self.changes(run) }
                }
            };
            let how = match &outcome {
                Outcome::Finished { .. } => "is done".to_owned(),
                Outcome::Unfinished { why, .. } | Outcome::Skipped { why } => table::fit_talk(why, 200),
            };
            render::talk(&format!("experiment {number} of {of}: {how}; it cost {}", spent.shown()));
            self.settle(index, outcome)?;
        }
        Ok(Some(driven))
    }

    fn settle(&mut self, index: usize, outcome: Outcome) -> Result<(), Failure> {
        self.night.experiments[index].outcome = Some(outcome);
        self.file.write(&self.night)
    }

    /// An even share of what is left, when runs that have begun keep what they were given.
    fn share(&self, set_aside: &[usize]) -> Result<Result<Means, &'static str>, Failure> {
        let mut held = Vec::new();
        for index in set_aside {
            let id = self.night.run_of(*index).map_err(EngineError::from)?;
            let limits = self.harness.look(&id)?.spec.limits;
            let worked_ms = limits.timeout_ms.unwrap_or_default();
            let cost = limits.max_cost.unwrap_or_default();
            held.push(Spent { cost, worked_ms, ..Spent::default() });
        }
        let ended = self.night.experiments.iter().filter(|experiment| experiment.outcome.is_some()).count();
        Ok(self.night.share(held.into_iter().sum(), ended + set_aside.len()))
    }

    fn make_experiment(&self, index: usize, id: &RunId, means: Means) -> Result<(), Failure> {
        let options = self.options(means);
        servers::meet(self.app, &self.settings, &self.sandbox, &options)?;
        let task = ideas::task(&self.night, &self.night.experiments[index].idea);
        let spec = create::spec(self.app, &self.harness, &self.settings, &task, &options, id.clone())?;
        create::made(self.app, &self.harness, spec, Failure::from).map(drop)
    }

    /// What every run of the night is created with, but for who is asked what.
    fn options(&self, means: Means) -> Options {
        let order = &self.night.order;
        let protect_policy = (!order.protect.is_empty()).then_some(ProtectArg::Refuse);
        // What the settings allow a run is not made more by the night having more.
        let limits = self.settings.limits;
        let least = |ours: Option<Usd>, theirs: Option<Usd>| ours.into_iter().chain(theirs).min();
        let max_cost = least(means.max_cost, limits.max_cost).map(Usd::as_dollars);
        let timeout_ms = limits.timeout_ms.map_or(means.timeout_ms, |max| max.min(means.timeout_ms));
        Options {
            model: order.models.clone(),
            autonomy: order.autonomy,
            conduct: ConductArgs {
                checks: CheckArgs { verify: order.verify.clone(), judge: None, accept: Vec::new() },
                protect: order.protect.clone(),
                protect_policy,
            },
            limits: LimitArgs {
                max_cost,
                timeout: Some(std::time::Duration::from_millis(timeout_ms)),
                ..LimitArgs::default()
            },
            commit: Some(order.commit.clone()),
            ..Options::of(order.agent.clone())
        }
    }

    /// Drives a run until it is over for this night, or cannot go on now.
    fn drive(&self, id: &RunId) -> Result<Driven, Failure> {
        let run = self.harness.look(id)?;
        let stands = standing(&run);
        if stands != Standing::Open {
            return Ok(Driven::Over(Box::new(run), stands));
        }
        let rested = match drive::until_rested_at_night(self.app, &self.harness, id) {
            Ok(rested) => rested,
            Err(failure) if failure.exit == Exit::Held => {
                render::warn(&format!("{id} is driven by another process"));
                return Ok(Driven::Stands(Exit::Held));
            }
            Err(failure) => return Err(failure),
        };
        let Rested::InOrder { run, ending, interrupted } = rested else {
            return Ok(Driven::Stop(Exit::Interrupted));
        };
        let stands = standing(&run);
        if stands != Standing::Open {
            return Ok(Driven::Over(run, stands));
        }
        if interrupted {
            return Ok(Driven::Stop(Exit::Interrupted));
        }
        let reason = run.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        render::warn(&format!("{id} is {}{}", run.called(), table::fit_talk(&reason, 200)));
        if ending == Ending::WaitingForHuman {
            render::hint(&format!(
                "`longhaul approvals` shows what it asks; answer, then `longhaul overnight resume {}`",
                self.night.id
            ));
        }
        // What no run can get past now, or what somebody paused, is not worth beginning another for.
        let exit = Exit::of_run(&run);
        Ok(if ending == Ending::WaitingForHuman { Driven::Stands(exit) } else { Driven::Stop(exit) })
    }

    fn measure(&mut self, index: usize) -> Result<Option<Exit>, Failure> {
        let id = self.night.run_of(index).map_err(EngineError::from)?;
        render::talk(&format!("evaluate: experiment {} of {}", index + 1, self.night.experiments.len()));
        let run = self.found(&id)?.filter(|run| Path::new(&run.spec.workspace).is_dir());
        let Some(run) = run else {
            // Somebody has put it away meanwhile: no reason to keep the others from being reported.
            let spent = self.night.experiments[index].outcome.as_ref().map(Outcome::spent);
            let why = "its files are gone".to_owned();
            self.settle(index, Outcome::Unfinished { why, spent: spent.unwrap_or_default() })?;
            return Ok(None);
        };
        let Some(measured) = self.measured(&run)? else { return Ok(Some(Exit::Interrupted)) };
        self.night.experiments[index].measured = Some(measured);
        self.file.write(&self.night)?;
        Ok(None)
    }

    /// Runs the commands on a run's files, held like those of an agent. `None` if that was interrupted.
    fn measured(&self, run: &Run) -> Result<Option<Measured>, Failure> {
        let order = &self.night.order;
        let verify: Vec<String> = order.verify.iter().chain(&order.metric).cloned().collect();
        if verify.is_empty() {
            return Ok(Some(Measured::default()));
        }
        let examine = Examine {
            purpose: Purpose::Claim,
            verify,
            protect: None,
            features: false,
            baseline: None,
            feature_list: None,
            base: Some(order.commit.clone()),
            judged: false,
        };
        let found = drive::examined(&self.harness, run, examine)?;
        Ok(found.map(|found| Measured::of(found.checks, order.metric.as_deref())))
    }

    /// What differs from the commit the night began with.
    fn changes(&self, run: &Run) -> Option<String> {
        let order = &self.night.order;
        place::changes(
            Path::new(&run.spec.workspace),
            Some(Path::new(&order.repository)),
            Some(&order.commit),
        )
    }

    fn report(&mut self) -> Result<Option<Exit>, Failure> {
        self.end(None)?;
        Ok(Some(self.exit()))
    }

    /// What a night that is over exits with.
    fn exit(&self) -> Exit {
        let gave_up = self.night.end.as_ref().is_some_and(|end| end.gave_up.is_some());
        let outcomes = || self.night.experiments.iter().map(|experiment| &experiment.outcome);
        let skipped = outcomes().any(|outcome| matches!(outcome, Some(Outcome::Skipped { .. })));
        let finished = outcomes().any(|outcome| matches!(outcome, Some(Outcome::Finished { .. })));
        // One that never ends uses up its share beside others; where none came to its end, there was too little for any.
        let cut_short = !finished && (0..self.night.experiments.len()).any(|index| self.is_at_limit(index));
        match (gave_up, skipped || cut_short) {
            (true, _) => Exit::Failed,
            (false, true) => Exit::Limit,
            (false, false) => Exit::Ok,
        }
    }

    /// Did the run of an experiment come to the end of its share?
    fn is_at_limit(&self, index: usize) -> bool {
        let run = self.night.run_of(index).ok().and_then(|id| self.harness.look(&id).ok());
        run.is_some_and(|run| run.cause == Some(Cause::Limit))
    }

    /// A run of that name, if it was made.
    fn found(&self, id: &RunId) -> Result<Option<Run>, Failure> {
        match self.harness.look(id) {
            Ok(run) => Ok(Some(run)),
            Err(EngineError::Store(StoreError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn experiment(idea: ideas::Idea) -> longhaul_core::overnight::Experiment {
    longhaul_core::overnight::Experiment { idea, outcome: None, measured: None }
}

/// What a run and those it sent have used.
fn spent(run: &Run) -> Spent {
    let usage = run.ledger().usage;
    let worked_ms = run.worked_ms(run.updated_at);
    Spent { cost: usage.cost, worked_ms, unpriced_tokens: usage.unpriced_tokens }
}

fn shown(means: Means) -> String {
    let time = table::duration(means.timeout_ms);
    match means.max_cost {
        Some(max_cost) => format!("for at most {max_cost} and {time}"),
        None => format!("for at most {time}"),
    }
}
