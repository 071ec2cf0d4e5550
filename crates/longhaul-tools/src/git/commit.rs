//! `git_commit`: commits what is staged, once.
//!
//! The commit is made while the call is prepared and lies there unnamed, where git forgets it in time; so its id is known
//! before the intent is written, and to a person who is asked for leave. Made anew of the same it is the same. Doing it is
//! pointing the branch at it, from the very commit that was there before: that can be repeated and cannot happen twice. Refuses
//! to commit in the middle of a merge, which would lose one side of it.

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Found, Outcome, Trace};
use longhaul_workspace::ABSENT;
use longhaul_workspace::commit::under_way;
use schemars::JsonSchema;
use serde::Deserialize;

use super::identity::Identity;
use super::repository::{Repository, user_settings};
use crate::arguments::{invalid, parse, schema};
use crate::limits;
use crate::sandbox::Sandbox;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The message: a short first line, and after an empty line whatever else is to be said.
    message: String,
}

pub struct GitCommit {
    spec: ToolSpec,
    sandbox: Sandbox,
}

impl GitCommit {
    pub fn new(sandbox: Sandbox) -> GitCommit {
        let spec = ToolSpec {
            name: "git_commit".to_owned(),
            description:
                "Commits what is staged, on the current branch. Stage with git_add first. No hooks are run."
                    .to_owned(),
            class: EffectClass::Checkable,
            schema: schema::<Args>(),
        };
        GitCommit { spec, sandbox }
    }

    fn message(&self, args: &Json) -> Result<String, Outcome> {
        let Args { message } = parse(args, &self.spec.schema)?;
        let message = message.trim();
        if message.is_empty() || message.contains('\0') || message.len() > limits::GIT_MESSAGE_BYTES_MAX {
            let max = limits::GIT_MESSAGE_BYTES_MAX;
            return Err(invalid(format!("`message` must have from 1 to {max} bytes and no NUL")));
        }
        Ok(message.to_owned())
    }

    /// Makes the commit, with nothing that names it yet.
    async fn make(&self, context: &Context, args: &Json) -> Result<Trace, Outcome> {
        let message = self.message(args)?;
        let repository = Repository::open(context, &self.sandbox).await?;
        refuse_under_way(&repository)?;
        let target = repository.branch().await?;
        let parent = repository.reference("HEAD^{commit}").await?;
        let tree = repository.tell(&[], &["write-tree"]).await?.trim_end().to_owned();
        let before = match &parent {
            Some(parent) => repository.reference(&format!("{parent}^{{tree}}")).await?,
            None => Some(repository.empty_tree().to_owned()),
        };
        if before.as_ref() == Some(&tree) {
            return Err(Outcome::failed(Failure::Tool, "nothing is staged; stage files with git_add first"));
        }
        let who = Identity::find(repository.settings(), &user_settings(context).await?);
        let parents: Vec<&str> = parent.iter().flat_map(|parent| ["-p", parent.as_str()]).collect();
        let arguments =
            [&["commit-tree"], parents.as_slice(), &["-m", &message, "--end-of-options", &tree]].concat();
        let date = format!("@{}", context.asked_at.as_millis().max(0) / 1000);
        let dates = [("GIT_AUTHOR_DATE", date.as_str()), ("GIT_COMMITTER_DATE", &date)];
        let commit = repository.tell(&[&who.environment()[..], &dates].concat(), &arguments).await?;
        Ok(Trace {
            target: target.unwrap_or_else(|| "HEAD".to_owned()),
            before: parent.unwrap_or_else(|| ABSENT.to_owned()),
            after: commit.trim_end().to_owned(),
        })
    }

    /// Points the branch at the commit.
    async fn publish(
        &self,
        context: &Context,
        args: &Json,
        trace: Option<&Trace>,
    ) -> Result<Outcome, Outcome> {
        let trace = match trace {
            Some(trace) => trace.clone(),
            None => self.make(context, args).await?,
        };
        let repository = Repository::open(context, &self.sandbox).await?;
        if repository.reference(&trace.target).await?.as_ref() != Some(&trace.after) {
            let message = self.message(args)?;
            let note = format!("commit: {}", message.lines().next().unwrap_or_default());
            let nothing = repository.nothing();
            let before = if trace.before == ABSENT { &nothing } else { &trace.before };
            let moved = ["update-ref", "--no-deref", "--create-reflog", "-m", &note];
            let operands = ["--end-of-options", &trace.target, &trace.after, before];
            repository.tell(&[], &[&moved[..], &operands].concat()).await?;
        }
        let stat =
            ["diff-tree", "--no-ext-diff", "--no-textconv", "--no-commit-id", "--root", "--shortstat", "-r"];
        let stat = repository.ask(&[&stat[..], &[&trace.after, "--"]].concat()).await.unwrap_or_default();
        let branch = trace.target.trim_start_matches("refs/heads/");
        Ok(Outcome::done(format!("committed {} on {branch}: {}", trace.after, stat.trim())))
    }

    async fn look(&self, context: &Context, trace: &Trace) -> Result<Found, Outcome> {
        let repository = Repository::open(context, &self.sandbox).await?;
        let now = repository.reference(&trace.target).await?.unwrap_or_else(|| ABSENT.to_owned());
        if now == trace.before {
            return Ok(Found::NotDone);
        }
        // Somebody may have gone on from it.
        let asked = ["merge-base", "--is-ancestor", "--end-of-options", &trace.after, &now];
        let done = now == trace.after || (now != ABSENT && repository.ask(&asked).await.is_ok());
        Ok(if done { Found::Done } else { Found::Unknown })
    }
}

impl Tool for GitCommit {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
    ) -> BoxFuture<'a, Result<Vec<Trace>, Outcome>> {
        Box::pin(async move { Ok(vec![self.make(context, args).await?]) })
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            self.publish(context, args, traces.first()).await.unwrap_or_else(|outcome| outcome)
        })
    }

    fn check<'a>(&'a self, context: &'a Context, _: &'a Json, traces: &'a [Trace]) -> BoxFuture<'a, Found> {
        Box::pin(async move {
            match traces {
                [trace] => self.look(context, trace).await.unwrap_or(Found::Unknown),
                _ => Found::Unknown,
            }
        })
    }
}

fn refuse_under_way(repository: &Repository<'_>) -> Result<(), Outcome> {
    under_way(repository.directory()).first().map_or(Ok(()), |what| {
        Err(Outcome::failed(Failure::Tool, format!("{what} is under way; finish or abort it with bash")))
    })
}
