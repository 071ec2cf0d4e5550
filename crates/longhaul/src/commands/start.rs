//! `start` and `resume`: the same thing, from wherever the run stands.

use std::path::Path;

use longhaul_core::command::Wish;
use longhaul_core::conduct::Looping;
use longhaul_core::decide::Refusal;
use longhaul_core::ids::RunId;
use longhaul_core::run::Run;
use longhaul_core::spec::Limits;
use longhaul_core::status::Status;
use longhaul_engine::checkpoints::{Point, TakenBack};
use longhaul_engine::{Error, Harness, Opening};

use super::ask::refuse_early;
use super::conduct::CheckArgs;
use super::create::{LimitArgs, settled_model};
use super::drive::{self, Again};
use super::holding::{self, HoldingArgs, hold};
use super::looping::IterationArgs;
use super::record::{RecordArgs, remembered};
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Drive a run until it ends, pauses or waits: start a created one, go on with a paused one, recover one whose process died
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
    /// Leave the run to a background process and return at once
    #[arg(long)]
    pub detach: bool,
    /// First take the run back to a checkpoint, by number or name, also one that has ended since or whose journal is damaged later
    ///
    /// Everything on record since is cut from the journal, which is kept beside it as it was. What the calls made since
    /// did to files and elsewhere is not undone, and what they cost is counted all the same. The decision that made the
    /// checkpoint is kept whole: a run that was paused with it is paused, one that ended with it cannot go on from there.
    /// `longhaul checkpoints ID` lists them; `longhaul rewind ID --to N` takes the files back as well.
    #[arg(long, value_name = "N|NAME")]
    pub checkpoint: Option<Point>,
    /// Go on with another model
    #[arg(long, value_name = "P/M")]
    pub model: Option<String>,
    #[command(flatten)]
    pub iterations: IterationArgs,
    #[command(flatten)]
    pub checks: CheckArgs,
    #[command(flatten)]
    pub holding: HoldingArgs,
    #[command(flatten)]
    pub record: RecordArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// The same, called what it is to whoever has seen the run begin.
pub fn resume(app: &App, args: Args) -> Result<Exit, Failure> {
    run(app, args).map_err(|failure| match failure.error.downcast_ref::<Error>() {
        Some(Error::Refused(Refusal::Transition { verb: "start", status, why })) => {
            let refusal = Refusal::Transition { verb: "resume", status: *status, why };
            Failure { hint: failure.hint, ..Failure::from(Error::from(refusal)) }
        }
        Some(_) | None => failure,
    })
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let id = app.run(&args.id)?;
    // Said before anything is cut.
    let settings = app.settings()?;
    let sandbox = hold(app, &settings, &args.holding)?;
    let harness = app.driving(&settings, sandbox.clone())?;
    holding::tell(&sandbox)?;
    let record = remembered(&harness, &id, args.record.settled(app)?);
    if let Some(point) = &args.checkpoint {
        tell(&id, &harness.take_back(&id, point)?);
    }
    go_on(app, &args, &harness, &id, record.as_deref())
        .map_err(|failure| with_way_back(&harness, &id, failure))
}

fn go_on(
    app: &App,
    args: &Args,
    harness: &Harness,
    id: &RunId,
    record: Option<&Path>,
) -> Result<Exit, Failure> {
    let model = args.model.as_deref().map(|name| settled_model(name, &app.cwd));
    // The run is only read twice when its limits are to be compared with those asked for, or nobody will be there to hear.
    let limits = match &args.limits {
        none if *none == LimitArgs::default() => None,
        asked => asked.over(harness.look(id)?.spec.limits)?,
    };
    let looping = args.iterations.change(harness, id)?;
    let limits = match &looping {
        Some(looping) => with_more_iterations(limits, &harness.look(id)?, &args.limits, looping),
        None => limits,
    };
    let checks = args.checks.change(app, harness, id)?;
    let opening = Opening { limits, model, looping, checks };
    if args.detach {
        let run = harness.look(id)?;
        if run.status != Status::Running {
            let Opening { limits, model, looping, checks: _ } = opening.clone();
            refuse_early(harness, id, &Wish::Start { limits, model, looping })?;
        }
        harness.models_for(&run, &opening)?;
        let (limits, holding, iterations) =
            (args.limits.clone(), args.holding.clone(), args.iterations.clone());
        let record = record.map(Path::to_owned);
        let checks = args.checks.clone();
        let again = Again { limits, iterations, checks, holding, model: opening.model, record };
        return drive::detach(app, harness, id, &again);
    }
    drive::drive(app, harness, id, opening, record)
}

/// What a loop was given for each of its iterations, because nobody said otherwise, it is given for the new ones too.
fn with_more_iterations(
    asked: Option<Limits>,
    run: &Run,
    typed: &LimitArgs,
    looping: &Looping,
) -> Option<Limits> {
    let (default, had) = (Limits::default(), run.spec.limits);
    let before = run.spec.conduct().looping.as_ref().map_or(1, |looping| looping.max_iterations);
    let more = looping.max_iterations.max(before);
    let mut limits = asked.unwrap_or(had);
    if typed.max_tool_calls.is_none() && had.max_tool_calls == default.max_tool_calls.saturating_mul(before) {
        limits.max_tool_calls = default.max_tool_calls.saturating_mul(more);
    }
    if typed.max_steps.is_none() && had.max_steps == default.max_steps.saturating_mul(before) {
        limits.max_steps = default.max_steps.saturating_mul(more);
    }
    (limits != had).then_some(limits)
}

/// Says loudly what going back cost.
fn tell(id: &RunId, taken: &TakenBack) {
    let (number, seq) = (taken.checkpoint.label(), taken.checkpoint.seq);
    let Some(kept_as) = &taken.kept_as else {
        return render::talk(&format!("{id} stands at checkpoint {number} already"));
    };
    let more = if taken.more { " and all that could not be read" } else { "" };
    let lost = taken.events_lost;
    render::warn(&format!(
        "{id} goes back to checkpoint {number} (event {seq}): {lost} events{more} fall away"
    ));
    if !taken.calls.is_empty() {
        let (count, calls) = (taken.calls.len(), taken.calls.join(", "));
        render::warn(&format!(
            "what {count} calls since did to files and elsewhere is NOT undone, and the agent does not know of it: {calls}"
        ));
    }
    render::talk(&format!("the journal as it was: {}", kept_as.display()));
}

/// A run that cannot be read may have a checkpoint that can.
fn with_way_back(harness: &Harness, id: &RunId, failure: Failure) -> Failure {
    let repair = match failure.error.downcast_ref::<Error>() {
        Some(Error::Store(longhaul_store::Error::Damaged { .. })) => {
            format!("; `longhaul store repair {id}` keeps all that is sound")
        }
        Some(Error::Journal { .. }) => String::new(),
        Some(_) | None => return failure,
    };
    let newest =
        harness.checkpoints(id).ok().and_then(|found| found.newest().and_then(|newest| newest.number));
    match newest {
        Some(number) => failure.hint(format!(
            "`longhaul resume {id} --checkpoint {number}` goes back to the newest sound checkpoint{repair}"
        )),
        None => failure,
    }
}
