//! `git_show`: a commit and its changes, or a file as it was in one.

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Outcome, Trace};
use schemars::JsonSchema;
use serde::Deserialize;

use super::repository::Repository;
use super::{line, log, path, stat};
use crate::arguments::{parse, schema};
use crate::limits;
use crate::output;
use crate::sandbox::Sandbox;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// A commit, branch or tag. Default: what is checked out.
    #[serde(rename = "ref")]
    reference: Option<String>,
    /// A file, relative to the workspace: its content as it was then, instead of the changes.
    path: Option<String>,
}

pub struct GitShow {
    spec: ToolSpec,
    sandbox: Sandbox,
}

impl GitShow {
    pub fn new(sandbox: Sandbox) -> GitShow {
        let spec = ToolSpec {
            name: "git_show".to_owned(),
            description: "Shows a commit: who, when and why as JSON, the counts for each file as JSON, then the diff. With path, \
                          the file as it was in that commit."
                .to_owned(),
            class: EffectClass::Repeatable,
            schema: schema::<Args>(),
        };
        GitShow { spec, sandbox }
    }

    async fn show(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let args: Args = parse(args, &self.spec.schema)?;
        let path = args.path.as_deref().map(|path| path::readable(context, path)).transpose()?;
        let repository = Repository::open(context, &self.sandbox).await?;
        let commit = repository.commit(args.reference.as_deref().unwrap_or("HEAD")).await?;
        let capture = match path {
            Some(path) => {
                let file = repository.show(&["cat-file", "blob", &format!("{commit}:./{path}")]).await?;
                if file.starts_binary(limits::BINARY_PROBE_BYTES) {
                    let message = format!("`{path}` is not text; it has {} bytes", file.total());
                    return Err(Outcome::failed(Failure::Tool, message));
                }
                file
            }
            None => {
                let head = log::commits(&repository, &commit, 1, None).await?.concat();
                let tree = ["diff-tree", "--no-commit-id", "--root", "-r", "--first-parent", "-m"];
                let (stat, patch) = stat::with_patch(&repository, &tree, &[commit.as_str()], ".").await?;
                patch.after((head + &line(&stat)).as_bytes())
            }
        };
        Ok(Outcome::Done { output: output::bounded(context, capture, "").await })
    }
}

impl Tool for GitShow {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, context: &'a Context, args: &'a Json, _: &'a [Trace]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.show(context, args).await.unwrap_or_else(|outcome| outcome) })
    }
}
