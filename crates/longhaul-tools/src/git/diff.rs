//! `git_diff`: what changed, with counts.

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Outcome, Trace};
use schemars::JsonSchema;
use serde::Deserialize;

use super::repository::Repository;
use super::{line, path, stat};
use crate::arguments::{parse, schema};
use crate::capture::Capture;
use crate::output;
use crate::sandbox::Sandbox;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Only what is at or below this path, relative to the workspace.
    path: Option<String>,
    /// What is staged instead of what is not. Default: false.
    #[serde(default)]
    staged: bool,
    /// A commit, branch or tag to compare with instead of what is staged.
    base: Option<String>,
    /// Only the counts, without the changes themselves. Default: false.
    #[serde(default)]
    stat: bool,
}

pub struct GitDiff {
    spec: ToolSpec,
    sandbox: Sandbox,
}

impl GitDiff {
    pub fn new(sandbox: Sandbox) -> GitDiff {
        let spec = ToolSpec {
            name: "git_diff".to_owned(),
            description: "Shows changes: first the counts for each file as JSON, then the diff. Without arguments, what is not \
                          staged; untracked files are not part of it."
                .to_owned(),
            class: EffectClass::Repeatable,
            schema: schema::<Args>(),
        };
        GitDiff { spec, sandbox }
    }

    async fn show(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let args: Args = parse(args, &self.spec.schema)?;
        let path = path::or_all(args.path.as_deref())?;
        let repository = Repository::open(context, &self.sandbox).await?;
        let base = match &args.base {
            Some(base) => Some(repository.commit(base).await?),
            None => None,
        };
        let mut compared = Vec::new();
        compared.extend(args.staged.then_some("--cached"));
        compared.extend(base.as_deref());
        let (stat, patch) = match args.stat {
            true => (stat::of(&repository, &["diff"], &compared, path).await?, Capture::default()),
            false => stat::with_patch(&repository, &["diff"], &compared, path).await?,
        };
        Ok(Outcome::Done { output: output::bounded(context, patch.after(line(&stat).as_bytes()), "").await })
    }
}

impl Tool for GitDiff {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, context: &'a Context, args: &'a Json, _: &'a [Trace]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.show(context, args).await.unwrap_or_else(|outcome| outcome) })
    }
}
