//! `git_branch`: makes a branch, and goes over to it if no file has to change for that.
//!
//! A branch is made only where there is none, so making it can be repeated and cannot move another's. Refuses to check out
//! files: that is for `bash`.

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Found, Outcome, Trace};
use longhaul_workspace::ABSENT;
use schemars::JsonSchema;
use serde::Deserialize;

use super::repository::Repository;
use crate::arguments::{invalid, parse, schema};
use crate::sandbox::Sandbox;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec};

const HEAD: &str = "HEAD";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The name of the new branch.
    name: String,
    /// Where it begins: a commit, branch or tag. Default: what is checked out.
    start: Option<String>,
    /// Go over to it, which needs it to begin at what is checked out. Default: false.
    #[serde(default)]
    switch: bool,
}

pub struct GitBranch {
    spec: ToolSpec,
    sandbox: Sandbox,
}

impl GitBranch {
    pub fn new(sandbox: Sandbox) -> GitBranch {
        let spec = ToolSpec {
            name: "git_branch".to_owned(),
            description:
                "Makes a new branch. With switch, commits go there from now on; the files stay as they are."
                    .to_owned(),
            class: EffectClass::Checkable,
            schema: schema::<Args>(),
        };
        GitBranch { spec, sandbox }
    }

    async fn plan(&self, context: &Context, args: &Json) -> Result<Vec<Trace>, Outcome> {
        let args: Args = parse(args, &self.spec.schema)?;
        let repository = Repository::open(context, &self.sandbox).await?;
        let branch = full_name(&repository, &args.name).await?;
        if repository.reference(&branch).await?.is_some() {
            return Err(Outcome::failed(Failure::Tool, format!("there is a branch `{}` already", args.name)));
        }
        let here = repository.commit(HEAD).await?;
        let start = match &args.start {
            Some(start) => repository.commit(start).await?,
            None => here.clone(),
        };
        let mut traces =
            vec![Trace { target: branch.clone(), before: ABSENT.to_owned(), after: start.clone() }];
        if args.switch {
            if start != here {
                return Err(invalid(
                    "`switch` needs a branch that begins at what is checked out; check files out with bash",
                ));
            }
            let before = repository.branch().await?.unwrap_or(here);
            traces.push(Trace { target: HEAD.to_owned(), before, after: branch });
        }
        Ok(traces)
    }

    async fn make(&self, context: &Context, args: &Json, traces: &[Trace]) -> Result<Outcome, Outcome> {
        let traces = if traces.is_empty() { self.plan(context, args).await? } else { traces.to_vec() };
        let repository = Repository::open(context, &self.sandbox).await?;
        for trace in &traces {
            let now = state(&repository, &trace.target).await?;
            if now == trace.after {
                continue;
            }
            if now != trace.before {
                let message = format!("`{}` was changed by somebody else in the meantime", trace.target);
                return Err(Outcome::failed(Failure::Tool, message));
            }
            if trace.target == HEAD {
                repository
                    .tell(&[], &["symbolic-ref", "-m", "git_branch: switch", HEAD, &trace.after])
                    .await?;
            } else {
                let made = [
                    "update-ref",
                    "--no-deref",
                    "--create-reflog",
                    "-m",
                    "branch: created",
                    "--end-of-options",
                ];
                let operands = [trace.target.as_str(), &trace.after, &repository.nothing()];
                repository.tell(&[], &[&made[..], &operands].concat()).await?;
            }
        }
        let said = match traces.as_slice() {
            [branch] => format!("made {} at {}", branch.target, branch.after),
            _ => format!("made {} and went over to it", traces[0].target),
        };
        Ok(Outcome::done(said))
    }

    /// What is only half done can be gone on with: each part knows by itself whether it is.
    async fn look(&self, context: &Context, traces: &[Trace]) -> Result<Found, Outcome> {
        let repository = Repository::open(context, &self.sandbox).await?;
        let mut done = true;
        for trace in traces {
            let now = state(&repository, &trace.target).await?;
            if now != trace.after && now != trace.before {
                return Ok(Found::Unknown);
            }
            done &= now == trace.after;
        }
        Ok(if done { Found::Done } else { Found::NotDone })
    }
}

impl Tool for GitBranch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
    ) -> BoxFuture<'a, Result<Vec<Trace>, Outcome>> {
        Box::pin(self.plan(context, args))
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.make(context, args, traces).await.unwrap_or_else(|outcome| outcome) })
    }

    fn check<'a>(&'a self, context: &'a Context, _: &'a Json, traces: &'a [Trace]) -> BoxFuture<'a, Found> {
        Box::pin(async move { self.look(context, traces).await.unwrap_or(Found::Unknown) })
    }
}

async fn full_name(repository: &Repository<'_>, name: &str) -> Result<String, Outcome> {
    let full = format!("refs/heads/{name}");
    let strange = name.starts_with('-') || name == HEAD || name.contains('\0');
    if strange || repository.ask(&["check-ref-format", &full]).await.is_err() {
        return Err(invalid(format!("{name:?} cannot be the name of a branch")));
    }
    Ok(full)
}

/// What a reference is at; for what is checked out, the branch it is, or the commit where it is none.
async fn state(repository: &Repository<'_>, target: &str) -> Result<String, Outcome> {
    if target == HEAD
        && let Some(branch) = repository.branch().await?
    {
        return Ok(branch);
    }
    Ok(repository.reference(target).await?.unwrap_or_else(|| ABSENT.to_owned()))
}
