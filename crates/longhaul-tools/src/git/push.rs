//! `git_push`: sends the current branch to a remote, under its own name.
//!
//! It is the one tool for git that leaves this machine, so a rule about `git push` holds for it, and without one a person is
//! asked. The user's own git does it, with the user's keys, and so it must not listen to a repository that an agent can
//! write: it is started in an empty one, which borrows the objects of this one and nothing else. Of all settings only
//! the address counts, as the user's repository has it, and that has to be one. Refuses to force: what others have pushed is never lost.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Found, Outcome, PUSH, Trace};
use longhaul_workspace::ABSENT;
use longhaul_workspace::git::{self, Listens, Setting};
use longhaul_workspace::source::{Address, check_reference};
use longhaul_workspace::{gitdirs, homing};
use schemars::JsonSchema;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use super::repository::{Repository, run_free};
use crate::arguments::{invalid, parse, schema};
use crate::sandbox::Sandbox;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec};

const BRANCHES: &str = "refs/heads/";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The name of the remote. Default: origin.
    remote: Option<String>,
}

pub struct GitPush {
    spec: ToolSpec,
    sandbox: Sandbox,
}

/// What is sent where.
struct Parcel {
    remote: String,
    address: Address,
    /// The branch, here and there.
    branch: String,
    commit: String,
    borrowing: Borrowing,
}

impl GitPush {
    pub fn new(sandbox: Sandbox) -> GitPush {
        let spec = ToolSpec {
            name: PUSH.to_owned(),
            description:
                "Pushes the current branch to a remote, under its own name. Commit first. Pushing with bash \
                does not reach the remote. Never forces, sends no tags and runs no hooks."
                    .to_owned(),
            class: EffectClass::Checkable,
            schema: schema::<Args>(),
        };
        GitPush { spec, sandbox }
    }

    async fn parcel(&self, context: &Context, args: &Json) -> Result<Parcel, Outcome> {
        let Args { remote } = parse(args, &self.spec.schema)?;
        let repository = Repository::open(context, &self.sandbox).await?;
        let remote = remote.unwrap_or_else(|| "origin".to_owned());
        let address = address(&repository, &remote).await?;
        let Some(branch) = repository.branch().await? else {
            return Err(fail("no branch is checked out, so there is none to push; make one with git_branch"));
        };
        let short = branch.strip_prefix(BRANCHES).unwrap_or(&branch);
        check_reference(short).map_err(|error| fail(&error.to_string()))?;
        let Some(commit) = repository.reference(&branch).await? else {
            return Err(fail("there is nothing to push: the branch has no commit yet"));
        };
        let borrowing = Borrowing::of(&repository).await?;
        Ok(Parcel { remote, address, branch, commit, borrowing })
    }

    async fn plan(&self, context: &Context, args: &Json) -> Result<Vec<Trace>, Outcome> {
        let parcel = self.parcel(context, args).await?;
        let before = parcel.tip(context).await?.unwrap_or_else(|| ABSENT.to_owned());
        Ok(vec![Trace { target: parcel.target(), before, after: parcel.commit }])
    }

    async fn send(&self, context: &Context, args: &Json, traces: &[Trace]) -> Result<Outcome, Outcome> {
        let mut parcel = self.parcel(context, args).await?;
        // What was to be sent when it was asked for, whatever has been committed since.
        if let Some(trace) = traces.first() {
            parcel.commit.clone_from(&trace.after);
        }
        parcel.push(context).await?;
        let Parcel { commit, address, .. } = &parcel;
        Ok(Outcome::done(format!("pushed {commit} to {} as {}", address.as_str(), parcel.short())))
    }

    async fn look(&self, context: &Context, args: &Json, traces: &[Trace]) -> Result<Found, Outcome> {
        let Some(trace) = traces.first() else { return Ok(Found::Unknown) };
        let parcel = self.parcel(context, args).await?;
        if parcel.target() != trace.target {
            return Ok(Found::Unknown);
        }
        let now = parcel.tip(context).await?.unwrap_or_else(|| ABSENT.to_owned());
        Ok(match now {
            now if now == trace.after => Found::Done,
            now if now == trace.before => Found::NotDone,
            _ => Found::Unknown,
        })
    }
}

impl Parcel {
    /// By the name that git has for it here.
    fn target(&self) -> String {
        format!("refs/remotes/{}/{}", self.remote, self.short())
    }

    fn short(&self) -> &str {
        self.branch.strip_prefix(BRANCHES).unwrap_or(&self.branch)
    }

    /// Where the branch is over there.
    async fn tip(&self, context: &Context) -> Result<Option<String>, Outcome> {
        let asked = ["ls-remote", "--quiet", "--", self.address.as_str(), &self.branch];
        let listed = run_free(context, self.borrowing.command(&self.address), &asked).await?;
        let same = |line: &str| {
            line.split_once('\t').filter(|(_, name)| *name == self.branch).map(|(id, _)| id.to_owned())
        };
        Ok(listed.lines().find_map(same))
    }

    async fn push(&self, context: &Context) -> Result<(), Outcome> {
        let asked =
            ["push", "--quiet", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no"];
        let what = format!("{}:{}", self.commit, self.branch);
        let asked = [&asked[..], &["--", self.address.as_str(), &what]].concat();
        run_free(context, self.borrowing.command(&self.address), &asked).await.map(drop)
    }
}

/// An empty repository that sees the objects of another.
struct Borrowing {
    directory: TempDir,
}

impl Borrowing {
    /// From the user's repository, if this is a worktree of it: what is checked out is brought there first, and nothing that an agent
    /// can write has any part in the rest.
    async fn of(repository: &Repository<'_>) -> Result<Borrowing, Outcome> {
        let failed = |error: std::io::Error| fail(&format!("no place to push from: {error}"));
        let directory = TempDir::with_prefix("longhaul-push-").map_err(failed)?;
        let common = match gitdirs::lender(repository.top()) {
            Some(lender) => {
                let (top, scratch) = (repository.top().to_owned(), directory.path().join("scratch"));
                let brought = spawn_blocking(move || homing::brought(&top, &scratch)).await;
                let brought = brought.map_err(|error| fail(&error.to_string()))?;
                brought
                    .map_err(|_| fail("what is committed here cannot be read whole, so it is not pushed"))?;
                lender.common
            }
            None => repository.common().to_owned(),
        };
        let Some(objects) =
            common.join("objects").to_str().map(str::to_owned).filter(|path| !path.contains(['\n', '"']))
        else {
            return Err(fail("the path of this repository cannot be written down for git"));
        };
        let format = if repository.is_sha256() { "[extensions]\n\tobjectFormat = sha256\n" } else { "" };
        let version = usize::from(repository.is_sha256());
        let config = format!("[core]\n\trepositoryformatversion = {version}\n\tbare = true\n{format}");
        let shallow = gitdirs::history_ends(&common);
        let make = || {
            fs::create_dir_all(directory.path().join("objects/info"))?;
            fs::create_dir_all(directory.path().join("refs"))?;
            fs::write(directory.path().join("objects/info/alternates"), objects + "\n")?;
            fs::write(directory.path().join("config"), config)?;
            shallow.map_or(Ok(()), |ends| fs::write(directory.path().join("shallow"), ends))?;
            fs::write(directory.path().join("HEAD"), "ref: refs/heads/none\n")
        };
        make().map_err(failed)?;
        Ok(Borrowing { directory })
    }

    fn command(&self, address: &Address) -> Command {
        let mut command = git::command(self.directory.path(), Listens::ToUser, &[]);
        command.env("GIT_DIR", self.directory.path()).env("GIT_ALLOW_PROTOCOL", address.protocols());
        command
    }
}

/// The address of a remote, as the settings of the user's repository have it. A path is relative to where that is.
async fn address(repository: &Repository<'_>, remote: &str) -> Result<Address, Outcome> {
    if remote.is_empty() || remote.starts_with('-') || remote.chars().any(char::is_control) {
        return Err(invalid(format!("{remote:?} is not the name of a remote")));
    }
    let (settings, base) = repository.home().await?;
    let last = |variable: &str| {
        let key = OsString::from(format!("remote.{remote}.{variable}"));
        settings.iter().rev().find(|(name, _)| *name == key).map(|(_, value)| value)
    };
    let Some(url) = last("pushurl").or_else(|| last("url")) else {
        return Err(fail(&format!("there is no remote `{remote}` here{}", known(&settings))));
    };
    let address = Address::parse(url, &base).map_err(|error| fail(&error.to_string()))?;
    // The hooks of a repository on this machine are run over there, and here they would be the agent's.
    let root = repository.context().workspace.root().canonicalize().unwrap_or_default();
    if Path::new(address.as_str()).starts_with(root) {
        return Err(Outcome::failed(Failure::NotPermitted, "the remote is within the workspace"));
    }
    Ok(address)
}

fn known(settings: &[Setting]) -> String {
    let name =
        |(key, _): &Setting| Some(key.to_str()?.strip_prefix("remote.")?.strip_suffix(".url")?.to_owned());
    let names: Vec<String> = settings.iter().filter_map(name).collect();
    if names.is_empty() { String::new() } else { format!("; there are: {}", names.join(", ")) }
}

fn fail(message: &str) -> Outcome {
    Outcome::failed(Failure::Tool, message)
}

impl Tool for GitPush {
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
        Box::pin(async move { self.send(context, args, traces).await.unwrap_or_else(|outcome| outcome) })
    }

    fn check<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        traces: &'a [Trace],
    ) -> BoxFuture<'a, Found> {
        Box::pin(async move { self.look(context, args, traces).await.unwrap_or(Found::Unknown) })
    }
}
