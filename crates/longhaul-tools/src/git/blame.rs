//! `git_blame`: which commit each line of a file is from.

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Outcome, Trace};
use schemars::JsonSchema;
use serde::Deserialize;

use super::path;
use super::repository::Repository;
use crate::arguments::{invalid, parse, schema};
use crate::limits;
use crate::output;
use crate::sandbox::Sandbox;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Path of the file, relative to the workspace.
    path: String,
    /// The first line to show, counted from 1. Default: 1.
    offset: Option<u64>,
    /// How many lines to show. Default: 2000.
    limit: Option<u64>,
    /// A commit, branch or tag. Default: the file as it is now.
    #[serde(rename = "ref")]
    reference: Option<String>,
}

pub struct GitBlame {
    spec: ToolSpec,
    sandbox: Sandbox,
}

impl GitBlame {
    pub fn new(sandbox: Sandbox) -> GitBlame {
        let spec = ToolSpec {
            name: "git_blame".to_owned(),
            description: "Shows for each line of a file the commit, author and day it is from.".to_owned(),
            class: EffectClass::Repeatable,
            schema: schema::<Args>(),
        };
        GitBlame { spec, sandbox }
    }

    async fn show(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let args: Args = parse(args, &self.spec.schema)?;
        let path = path::readable(context, &args.path)?;
        let (offset, limit) = (args.offset.unwrap_or(1), args.limit.unwrap_or(limits::READ_LINES_DEFAULT));
        if offset == 0 || limit == 0 {
            return Err(invalid("`offset` and `limit` must be at least 1"));
        }
        let repository = Repository::open(context, &self.sandbox).await?;
        let commit = match &args.reference {
            Some(reference) => Some(repository.commit(reference).await?),
            None => None,
        };
        let lines = format!("-L{offset},+{limit}");
        let asked = ["blame", "--no-textconv", "--date=short", "--abbrev=10", &lines];
        let operands = [commit.as_deref().as_slice(), &["--", path]].concat();
        let capture = repository.show(&[&asked[..], &operands].concat()).await?;
        Ok(Outcome::Done { output: output::bounded(context, capture, "").await })
    }
}

impl Tool for GitBlame {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, context: &'a Context, args: &'a Json, _: &'a [Trace]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.show(context, args).await.unwrap_or_else(|outcome| outcome) })
    }
}
