//! Where the plan of a new run comes from: a file, or the agent that makes plans.

use std::path::Path;

use longhaul_core::plan::{Draft, Plan};
use longhaul_core::run::Run;
use longhaul_core::spec::{BadSpec, Planner};
use longhaul_engine::Error as EngineError;
use longhaul_workspace::place;

use super::options::Options;
use super::spec::settled_model;
use crate::agents;
use crate::app::{App, repository};
use crate::failure::Failure;
use crate::misread;
use crate::settings::Settings;

/// The plan is to be made.
pub const AUTO: &str = "auto";

/// The agent that makes plans.
const PLANNER: &str = "planner";

/// A plan file, checked.
pub(super) fn read_plan(path: &Path, agent: &str) -> Result<Plan, Failure> {
    draft_plan(path, agent)?.checked().map_err(|error| in_file(path, &error.into()))
}

/// Holds a plan file for the rest of a run against what that has done, on which its steps may depend.
pub fn check_rest(path: &Path, run: &Run, plan: &Plan) -> Result<(), Failure> {
    let rest = run.plan.replanned(plan.clone()).map(|_| ()).map_err(BadSpec::from);
    rest.and_then(|()| run.spec.check_agents(plan)).map_err(|error| in_file(path, &error))
}

/// A plan file as it stands.
pub fn draft_plan(path: &Path, agent: &str) -> Result<Plan, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read the plan {shown}: {error}")))?;
    let draft: Draft = misread::yaml(&shown.to_string(), &text).map_err(|failure| {
        // Steps without their name are what people forget.
        let is_list = text.trim_start().starts_with(['-', '[']);
        if is_list { failure.hint("a plan is `steps:`, and then a list of them") } else { failure }
    })?;
    Ok(draft.plan(agent))
}

/// What is wrong with the plan of a new run is named where it was written, if that was a file.
pub(super) fn in_plan_file(app: &App, options: &Options, error: EngineError) -> Failure {
    let is_file = !matches!(options.plan.as_str(), "none" | AUTO);
    if let EngineError::Spec(bad @ BadSpec::UnknownAgent { .. }) = &error
        && is_file
    {
        return in_file(&app.cwd.join(&options.plan), bad);
    }
    error.into()
}

/// An agent that nobody has is named by the word that stands in the file.
fn in_file(path: &Path, error: &BadSpec) -> Failure {
    let shown = path.display();
    let BadSpec::UnknownAgent { index, agent, guess } = error else {
        return Failure::usage(format!("{shown}: {error}"));
    };
    let is_long = std::fs::read_to_string(path).is_ok_and(|text| text.contains("assignedAgent"));
    let field = if is_long { "assignedAgent" } else { "agent" };
    Failure::usage(format!("{shown}: steps[{index}].{field}: there is no agent `{agent}`{guess}"))
        .hint("`longhaul agents list` shows those there are")
}

/// Whoever makes the plan: the agent `planner`, with the run's own model if its file names none.
pub(super) fn planner(app: &App, settings: &Settings) -> Result<Planner, Failure> {
    let agent = agents::find(&settings.agent_dirs, PLANNER)?;
    let model = agent.models.first().map(|name| settled_model(name, &app.project));
    // It has no tools: what it should know of the repository it is told.
    let files = repository(&app.cwd).and_then(|repository| place::files(&repository));
    let files = files.map_or_else(String::new, |files| format!("\n\n# Files of the repository\n\n{files}"));
    Ok(Planner { model, prompt: format!("{}{files}", agent.prompt) })
}
