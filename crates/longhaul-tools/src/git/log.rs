//! `git_log`: commits, the newest first, one JSON object for each line.

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Outcome, Trace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::repository::Repository;
use super::{line, path};
use crate::arguments::{invalid, parse, schema};
use crate::limits;
use crate::output;
use crate::sandbox::Sandbox;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec};

/// The fields of a commit, each ended by NUL; their values never contain it.
const FORMAT: &str = "--format=tformat:%H%x00%P%x00%an%x00%ae%x00%aI%x00%B";
const FIELDS: usize = 6;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// How many commits to show, at most 50. Default: 10.
    limit: Option<usize>,
    /// Where to begin: a commit, branch or tag. Default: what is checked out.
    #[serde(rename = "ref")]
    reference: Option<String>,
    /// Only commits that changed this path, relative to the workspace.
    path: Option<String>,
}

pub struct GitLog {
    spec: ToolSpec,
    sandbox: Sandbox,
}

impl GitLog {
    pub fn new(sandbox: Sandbox) -> GitLog {
        let spec = ToolSpec {
            name: "git_log".to_owned(),
            description: "Shows commits, the newest first, as one JSON object for each line.".to_owned(),
            class: EffectClass::Repeatable,
            schema: schema::<Args>(),
        };
        GitLog { spec, sandbox }
    }

    async fn show(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let args: Args = parse(args, &self.spec.schema)?;
        let limit = args.limit.unwrap_or(limits::GIT_COMMITS_DEFAULT);
        if !(1..=limits::GIT_COMMITS_MAX).contains(&limit) {
            return Err(invalid(format!("`limit` must be from 1 to {}", limits::GIT_COMMITS_MAX)));
        }
        let path = args.path.as_deref().map(path::checked).transpose()?;
        let repository = Repository::open(context, &self.sandbox).await?;
        let start = repository.commit(args.reference.as_deref().unwrap_or("HEAD")).await?;
        let lines = commits(&repository, &start, limit, path).await?.concat();
        let lines = if lines.is_empty() { "(no commits)\n" } else { &lines };
        Ok(Outcome::Done { output: output::bounded_text(context, lines, "").await })
    }
}

impl Tool for GitLog {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, context: &'a Context, args: &'a Json, _: &'a [Trace]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.show(context, args).await.unwrap_or_else(|outcome| outcome) })
    }
}

/// At most `limit` commits from `start` back, each a line.
pub(super) async fn commits(
    repository: &Repository<'_>,
    start: &str,
    limit: usize,
    path: Option<&str>,
) -> Result<Vec<String>, Outcome> {
    let count = format!("--max-count={limit}");
    let asked =
        ["log", "--no-show-signature", "--no-notes", "--no-color", "--no-patch", "-z", FORMAT, &count];
    let printed = repository.ask(&[&asked[..], &[start, "--"], path.as_slice()].concat()).await?;
    let fields: Vec<&str> = printed.split_terminator('\0').collect();
    Ok(fields.chunks_exact(FIELDS).map(|fields| line(&Commit::parsed(fields))).collect())
}

#[derive(Serialize)]
struct Commit<'a> {
    id: &'a str,
    parents: Vec<&'a str>,
    author: &'a str,
    email: &'a str,
    date: &'a str,
    subject: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    body: &'a str,
}

impl<'a> Commit<'a> {
    fn parsed(fields: &[&'a str]) -> Commit<'a> {
        let message = fields[5].trim_end();
        let (subject, body) = message.split_once('\n').unwrap_or((message, ""));
        Commit {
            id: fields[0],
            parents: fields[1].split_whitespace().collect(),
            author: fields[2],
            email: fields[3],
            date: fields[4],
            subject,
            body: body.trim(),
        }
    }
}
