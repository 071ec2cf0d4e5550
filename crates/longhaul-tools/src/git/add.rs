//! `git_add`: stages files.
//!
//! Owns refusing what cannot be staged rightly: a file that is stored through a filter (git-lfs and the like) would be stored
//! without it, because no program that a repository names is run. After a crash it is not known whether files were staged,
//! and nothing is lost by staging them again, so the agent is asked to look.

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Outcome, Trace};
use schemars::JsonSchema;
use serde::Deserialize;

use super::path;
use super::repository::{Filters, Repository, user_settings};
use crate::arguments::{invalid, parse, schema};
use crate::limits;
use crate::sandbox::Sandbox;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Files and directories, relative to the workspace. What was deleted is staged as deleted; `.` stages everything.
    paths: Vec<String>,
}

pub struct GitAdd {
    spec: ToolSpec,
    sandbox: Sandbox,
}

impl GitAdd {
    pub fn new(sandbox: Sandbox) -> GitAdd {
        let spec = ToolSpec {
            name: "git_add".to_owned(),
            description: "Stages files for the next commit. Ignored files are refused.".to_owned(),
            class: EffectClass::Once,
            schema: schema::<Args>(),
        };
        GitAdd { spec, sandbox }
    }

    async fn stage(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let args: Args = parse(args, &self.spec.schema)?;
        if !(1..=limits::GIT_PATHS_MAX).contains(&args.paths.len()) {
            return Err(invalid(format!("`paths` must have from 1 to {} entries", limits::GIT_PATHS_MAX)));
        }
        let paths = args.paths.iter().map(|path| path::checked(path)).collect::<Result<Vec<_>, _>>()?;
        let mut repository = Repository::open(context, &self.sandbox).await?;
        repository.replace_filters(Filters::Failing, &user_settings(context).await?);
        repository
            .tell(&[], &[&["add", "--all", "--"], paths.as_slice()].concat())
            .await
            .map_err(explained)?;
        let staged =
            repository.ask(&["diff", "--no-ext-diff", "--no-textconv", "--cached", "--shortstat"]).await?;
        let staged =
            if staged.trim().is_empty() { "nothing differs from the last commit" } else { staged.trim() };
        Ok(Outcome::done(format!("staged; in all {staged}")))
    }
}

impl Tool for GitAdd {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, context: &'a Context, args: &'a Json, _: &'a [Trace]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.stage(context, args).await.unwrap_or_else(|outcome| outcome) })
    }
}

fn explained(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Failed { failure, message, output } if message.contains("clean filter") => {
            let message = format!(
                "{message}\nno filter is run here; stage files that are stored through one with bash"
            );
            Outcome::Failed { failure, message, output }
        }
        outcome @ (Outcome::Done { .. } | Outcome::Failed { .. } | Outcome::Unknown { .. }) => outcome,
    }
}
