//! Where the plan of a new run comes from: a file, or the agent that makes plans.

use std::path::Path;

use longhaul_core::plan::{Draft, Plan};
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
    let shown = path.display();
    draft_plan(path, agent)?.checked().map_err(|error| Failure::usage(format!("{shown}: {error}")))
}

/// A plan file as it stands: the steps of a new plan may depend on those of the old one.
pub fn draft_plan(path: &Path, agent: &str) -> Result<Plan, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read the plan {shown}: {error}")))?;
    let draft: Draft = misread::yaml(&shown.to_string(), &text)?;
    Ok(draft.plan(agent))
}

/// An agent that nobody has is named where it was written: in the file, by the word that stands there.
pub(super) fn in_plan_file(app: &App, options: &Options, error: EngineError) -> Failure {
    let EngineError::Spec(BadSpec::UnknownAgent { index, agent, guess }) = &error else {
        return error.into();
    };
    if matches!(options.plan.as_str(), "none" | AUTO) {
        return error.into();
    }
    let path = app.cwd.join(&options.plan);
    let is_long = std::fs::read_to_string(&path).is_ok_and(|text| text.contains("assignedAgent"));
    let field = if is_long { "assignedAgent" } else { "agent" };
    let shown = path.display();
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
