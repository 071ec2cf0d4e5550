//! `merge --session`: the branches of runs that worked side by side, brought together.

use std::path::{Path, PathBuf};

use longhaul_core::event::Purpose;
use longhaul_core::evidence::Check;
use longhaul_core::ids::RunId;
use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_core::status::Status;
use longhaul_engine::clock::{Clock, SystemClock};
use longhaul_engine::{Harness, Opening};
use longhaul_tools::Examine;
use longhaul_workspace::joining::{Conflict, Error, Joined, Resolved, Target};
use longhaul_workspace::landing::{Landed, Work};
use longhaul_workspace::limits::SESSION_EXPIRY;
use longhaul_workspace::session::Notes;
use longhaul_workspace::{carry, place};
use serde_json::json;

use super::conduct::{CheckArgs, ConductArgs};
use super::conflict;
use super::create::{self, Options};
use super::drive::{self, Rested};
use super::holding::{HoldingArgs, hold};
use super::landing;
use super::session::{self, Session};
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::MERGE_OUTPUT_BYTES_MAX;
use crate::render;
use crate::servers;
use crate::settings::Settings;

/// How the branches of a session are joined.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct JoiningArgs {
    /// With `--session`: the branch to merge into [default: the one that the runs began at]
    #[arg(long, value_name = "BRANCH")]
    pub into: Option<String>,
    /// With `--session`: a command that must succeed on the merged files, in the sandbox. May be given several times
    #[arg(long, value_name = "CMD")]
    pub verify: Vec<String>,
    /// With `--session`: an agent that resolves conflicts, as a run in a worktree that has them marked
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The model of that agent, as provider/model
    #[arg(long, value_name = "P/M", requires = "agent")]
    pub model: Vec<String>,
    #[command(flatten)]
    pub holding: HoldingArgs,
}

impl JoiningArgs {
    /// Was any of it typed?
    pub fn is_used(&self) -> bool {
        self.into.is_some() || !self.verify.is_empty() || self.agent.is_some()
    }
}

pub fn merge(app: &App, session: &Session, args: &JoiningArgs) -> Result<Exit, Failure> {
    let (settings, harness, name) = (app.settings()?, app.reading()?, session.name());
    let notes = session.notes().map_err(session::failure)?;
    let merging = session.merging().map_err(session::failure)?;
    let runs = done(&harness, &notes)?;
    let works = runs.iter().map(|run| landing::work(app, run)).collect::<Result<Vec<Work>, Failure>>()?;
    let (Some(first), Some(target)) = (runs.first(), target(app, args, &runs)?) else {
        render::talk(&format!("session {name} has no parallel run that is done: there is nothing to merge"));
        return Ok(Exit::Ok);
    };
    let table = Table { app, args, settings: &settings, session, target, works, first };
    // The session's own workspace moves with its branch: nobody may be at work in it.
    let held = table.is_of_session(&notes).then(|| session.take("merge", SESSION_EXPIRY)).transpose();
    let held = held.map_err(session::failure)?;
    let merged = table.merge();
    drop((held, merging));
    if merged.is_ok() {
        table.tell_of_others(&notes);
    }
    merged
}

/// What came of giving a conflict to an agent.
enum Resolution {
    Made(Resolved),
    NotDone(Exit),
}

/// Everything that is needed to join them.
struct Table<'a> {
    app: &'a App,
    args: &'a JoiningArgs,
    settings: &'a Settings,
    session: &'a Session,
    target: Target,
    works: Vec<Work>,
    /// Any of the runs, whose rules the checks are held to.
    first: &'a Run,
}

impl Table<'_> {
    fn merge(&self) -> Result<Exit, Failure> {
        let settled = self.target.settle().map_err(|error| self.failure(error, "nothing was changed"))?;
        let untouched = landing::tell_settled(settled);
        let (mut resolved, mut given) = (self.resolved_before()?, 0);
        let joined = loop {
            match self.target.join(&self.works, &self.title(), &resolved) {
                // Each branch conflicts once at most.
                Err(Error::Conflict(conflict)) if self.args.agent.is_some() && given < self.works.len() => {
                    let ready = self.target.refuse_unready(&self.works, &conflict);
                    ready.map_err(|error| self.failure(error, "nothing was changed"))?;
                    match self.resolved(&conflict)? {
                        Resolution::Made(one) => resolved.push(one),
                        Resolution::NotDone(exit) => return Ok(exit),
                    }
                    // It is paid for: whatever comes next, the same is not asked again.
                    self.keep(resolved.clone())?;
                    given += 1;
                }
                joined => break joined.map_err(|error| self.failure(error, untouched))?,
            }
        };
        if !self.args.verify.is_empty() && joined.to != joined.from && !self.holds(&joined)? {
            return Ok(Exit::Interrupted);
        }
        let landed =
            self.target.land(&joined, &self.title()).map_err(|error| self.failure(error, untouched))?;
        self.keep(Vec::new())?;
        self.report(&joined, &landed);
        Ok(Exit::Ok)
    }

    /// What this agent made of conflicts when this was said before and came to nothing. Another one may do better.
    fn resolved_before(&self) -> Result<Vec<Resolved>, Failure> {
        let mut kept = self.session.notes().map_err(session::failure)?.resolved;
        kept.retain(|one| {
            self.args.agent.as_ref() == Some(&one.agent) && self.target.has(&one.tree).unwrap_or(false)
        });
        Ok(kept)
    }

    fn keep(&self, resolved: Vec<Resolved>) -> Result<(), Failure> {
        if self.session.notes().map_err(session::failure)?.resolved != resolved {
            let kept = self.session.note(SystemClock.now(), |notes| notes.resolved = resolved);
            kept.map_err(session::failure)?;
        }
        Ok(())
    }

    /// Runs of the session that came one after another have a branch of their own, which this does not bring anywhere.
    fn tell_of_others(&self, notes: &Notes) {
        let last = notes.runs.iter().rev().find(|visit| visit.branch.is_none());
        let (Some(last), Some(branch)) = (last, &notes.branch) else { return };
        let (name, run) = (self.session.name(), &last.run);
        if self.is_of_session(notes) {
            render::hint(&format!(
                "{branch} is the branch of session {name} itself; `longhaul merge {run}` brings all of it to the branch you are on"
            ));
            return;
        }
        render::warn(&format!(
            "only the runs that worked side by side are merged: those of session {name} that came one after another are on \
             {branch}, and `longhaul merge {run}` merges them"
        ));
    }

    fn title(&self) -> String {
        format!("session {}", self.session.name())
    }

    fn is_of_session(&self, notes: &Notes) -> bool {
        notes.branch.as_ref() == Some(&self.target.branch)
    }

    /// Does every command succeed on the merged files? They stand in a worktree of their own for as long as that takes. `false`
    /// if it was interrupted.
    fn holds(&self, joined: &Joined) -> Result<bool, Failure> {
        let sandbox = hold(self.app, self.settings, &self.args.holding)?;
        let harness = self.app.holding(self.settings, sandbox)?;
        let place = self.app.state_dir.join("workspace").join("merge").join(self.session.kept_as());
        let repository = &self.target.repository;
        place::detached(repository, &place, &joined.to).map_err(anyhow::Error::from)?;
        let checked = self.checked(&harness, &place, joined);
        place::remove(&place::passing(repository, &place)).map_err(anyhow::Error::from)?;
        let Some(checks) = checked? else { return Ok(false) };
        match checks.iter().find(|check| !check.passed) {
            None => Ok(true),
            Some(failed) => Err(self.refused(failed)),
        }
    }

    fn checked(
        &self,
        harness: &Harness,
        place: &Path,
        joined: &Joined,
    ) -> Result<Option<Vec<Check>>, Failure> {
        carry::ignored(&self.target.repository, place, &self.settings.copy).map_err(anyhow::Error::from)?;
        let examine = Examine {
            purpose: Purpose::Claim,
            verify: self.settings.setup.iter().chain(&self.args.verify).cloned().collect(),
            protect: None,
            features: false,
            baseline: None,
            feature_list: None,
            base: Some(joined.from.clone()),
            judged: false,
        };
        let workspace = place.display().to_string();
        let spec =
            RunSpec { workspace, repository: None, branch: None, source: None, ..self.first.spec.clone() };
        let there = Run { spec, ..self.first.clone() };
        Ok(drive::examined(harness, &there, examine)?.map(|found| found.checks))
    }

    fn refused(&self, failed: &Check) -> Failure {
        let (command, ended) = (&failed.command, &failed.ended);
        let output = longhaul_core::evidence::tail(&failed.output, MERGE_OUTPUT_BYTES_MAX);
        render::talk(output.trim_end());
        Failure::from(anyhow::anyhow!("`{command}` fails on the merged files ({ended})"))
            .hint(format!("{} is where it was; what the command printed stands above", self.target.branch))
    }

    /// What an agent makes of a conflict.
    fn resolved(&self, conflict: &Conflict) -> Result<Resolution, Failure> {
        let agent = self.args.agent.clone().unwrap_or_default();
        let names: Vec<String> = conflict.paths.iter().map(|path| path.display().to_string()).collect();
        let options = Options {
            model: self.args.model.clone(),
            commit: Some(conflict.commit.clone()),
            conduct: ConductArgs {
                checks: CheckArgs { verify: self.args.verify.clone(), ..CheckArgs::default() },
                ..ConductArgs::default()
            },
            ..Options::of(agent)
        };
        let task = conflict::task(conflict);
        let sandbox = hold(self.app, self.settings, &self.args.holding)?;
        servers::meet(self.app, self.settings, &sandbox, &options)?;
        let harness = self.app.holding(self.settings, sandbox)?;
        let run = create::create(self.app, &harness, self.settings, &task, &options)?;
        let id = run.spec.id.clone();
        render::talk(&format!("{id} resolves the conflict in {}", names.join(", ")));
        let rested = drive::until_rested(self.app, &harness, &id, Opening::default())?;
        let Rested::InOrder { run, .. } = rested else { return Ok(Resolution::NotDone(Exit::Interrupted)) };
        if run.status != Status::Completed {
            render::hint(&format!(
                "nothing was merged; {id} is {}: `longhaul show {id}`, then say it once more",
                run.called()
            ));
            return Ok(Resolution::NotDone(Exit::of_run(&run)));
        }
        let tree = landing::work(self.app, &run)?
            .made_of(&conflict.commit)
            .map_err(|error| self.failure(Error::Landing(error), "nothing was changed"))?;
        let left = self.target.unresolved(conflict, &tree, &conflict::said_right(&run));
        // What is left is no resolution, whatever the agent says.
        if let Some(said) = left.map_err(|error| self.failure(error, "nothing was changed"))?.said() {
            return Err(Failure::from(anyhow::anyhow!("{id} {said}")).hint("nothing was merged"));
        }
        let agent = self.args.agent.clone().unwrap_or_default();
        Ok(Resolution::Made(Resolved { agent, sides: conflict.sides.clone(), tree }))
    }

    fn report(&self, joined: &Joined, landed: &Landed) {
        let (name, branch) = (self.session.name(), &self.target.branch);
        if self.app.json() {
            render::json(&json!({
                "session": name,
                "into": branch,
                "commit": landed.commit,
                "merged": joined.runs,
                "known": joined.known,
                "files": landing::files_json(landed),
            }));
            return;
        }
        landing::list(landed);
        let runs = match joined.runs.len() {
            1 => "1 run".to_owned(),
            count => format!("{count} runs"),
        };
        render::talk(&match &landed.commit {
            None => format!("everything of session {name} is on {branch} already"),
            Some(commit) => {
                format!("merged {runs} into {branch} as {commit}, {}", landing::files(landed.changes.len()))
            }
        });
    }

    /// The error with what can be done about it.
    fn failure(&self, error: Error, untouched: &str) -> Failure {
        let branch = &self.target.branch;
        let name = self.session.name();
        let hint = match error {
            Error::Landing(error) => match self.works.first() {
                Some(work) => return landing::hinted(error, work, untouched),
                None => return Failure::from(anyhow::Error::from(error)),
            },
            Error::Conflict(_) => format!(
                "nothing was changed; `longhaul merge --session {name} --agent NAME` gives it to an agent, or merge the branches \
                 yourself with `git merge`"
            ),
            Error::NoBranch { .. } => "`--into BRANCH` names another".to_owned(),
            Error::Moved { .. } => format!("{branch} was not touched; say it once more"),
        };
        Failure::from(anyhow::Error::from(error)).hint(hint)
    }
}

/// The parallel runs of a session that are done, in their order. Those that are not are named.
fn done(harness: &Harness, notes: &Notes) -> Result<Vec<Run>, Failure> {
    let mut runs = Vec::new();
    for (visit, branch) in notes.parallel() {
        let left_out = |why: &str| render::warn(&format!("{} (branch {branch}) {why}: left out", visit.run));
        let look = RunId::parse(&visit.run).ok().and_then(|id| harness.look(&id).ok());
        match look {
            Some(run) if run.status == Status::Completed => runs.push(run),
            Some(run) => left_out(&format!("is {}", run.called())),
            None => left_out("is no longer on record"),
        }
    }
    Ok(runs)
}

/// The branch that all of them began at; `None` if there are no runs.
fn target(app: &App, args: &JoiningArgs, runs: &[Run]) -> Result<Option<Target>, Failure> {
    let mut branches: Vec<String> = runs.iter().filter_map(working_branch).collect();
    branches.dedup();
    let Some(repository) = runs.first().and_then(|run| run.spec.repository.as_ref()) else { return Ok(None) };
    let branch = match (&args.into, &branches[..]) {
        (Some(into), _) => into.clone(),
        (None, [one]) => one.clone(),
        (None, []) => return Ok(None),
        (None, several) => {
            return Err(Failure::usage(format!(
                "the runs began at several branches: {}",
                several.join(", ")
            ))
            .hint("`--into BRANCH` says which to merge into"));
        }
    };
    Ok(Some(Target { repository: PathBuf::from(repository), branch, scratch: landing::scratch(app) }))
}

fn working_branch(run: &Run) -> Option<String> {
    run.spec.collaboration.as_ref()?.working_branch.clone()
}
