//! Effects performed: the model is asked, tools run, destinations are looked at. Each answers with an input.

mod calling;
mod keeping;
mod looking;
mod said;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use longhaul_core::child::ChildReport;
use longhaul_core::conversation::ModelRequest;
use longhaul_core::event::{Aside, Kept, Moment, Purpose, Stored};
use longhaul_core::ids::{Attempt, CallId, RunId};
use longhaul_core::input::{Input, Tended};
use longhaul_core::json::Json;
use longhaul_core::permission::Permissions;
use longhaul_core::time::Timestamp;
use longhaul_core::tool::{Outcome, Trace};
use longhaul_model::Deltas;
use longhaul_tools::{Blobs, Cancel, Context, Examine, Tool, Toolbox};
use longhaul_workspace::{Workspace, abandoned, homing};
use tokio::task::{JoinError, spawn_blocking};

pub use self::keeping::RunBlobs;
pub(crate) use self::keeping::{stored, tended};

use self::calling::{check, gone, hooked, prepared, stopped_by_hooks};
use self::keeping::{kept, rested};
use self::looking::{look_at_work, prepared_place};
use self::said::{Shown, by_own_names, struck_out};
use crate::asking::{Shelf, ask_aside, call_model};
use crate::children::{self, Charge};
use crate::harness::Harness;
use crate::limits::LOOK_TIME_MAX;
use crate::pictures::with_pictures;
use crate::secrets::Secrets;

/// One effect with everything needed to perform it, cut loose from the run.
#[derive(Clone, Debug)]
pub enum Work {
    CallModel {
        turn: u32,
        attempt: Attempt,
        request: ModelRequest,
        has_images: bool,
    },
    PrepareTool(ToolWork),
    RunTool(ToolWork),
    CheckTool(ToolWork),
    Examine(Look),
    AskAside {
        aside: Aside,
        attempt: Attempt,
        request: ModelRequest,
    },
    Attend(Charge),
    AwaitAnswer(Charge),
    EndChild {
        charge: Charge,
        reason: String,
    },
    /// No effect of the machine's either: what stands in the workspace is kept for the way back.
    StoreFiles {
        moment: Moment,
    },
    /// A fresh workspace is prepared. No effect of the machine's either: it comes before the machine is asked.
    SetUp {
        run: RunId,
        commands: Vec<String>,
    },
    /// No effect of the machine's: it is done again until it is on record, and does nothing the second time.
    Keep(Keep),
    /// The end of what works in the background. No effect of the machine's: it is done whenever the run rests.
    Rest(Resting),
}

/// A run is put down.
#[derive(Clone, Debug)]
pub struct Resting {
    pub run: RunId,
    /// How to look for what its worktree has that the user's repository has not.
    pub looks: Looks,
    /// To be told of if it has moved there: others have put their work onto it.
    pub own: Option<OwnBranch>,
}

/// How a worktree is looked at.
#[derive(Clone, Copy, Debug)]
pub enum Looks {
    /// If anything has moved.
    Quick,
    Whole,
}

/// The branch that a run works on, and the commit that it began at.
#[derive(Clone, Debug)]
pub struct OwnBranch {
    pub branch: String,
    pub base: Option<String>,
}

/// The files of a worktree, to be kept as a commit.
#[derive(Clone, Debug)]
pub struct Keep {
    pub run: RunId,
    /// After how many completed steps.
    pub steps: u32,
    pub message: String,
}

/// One look at the work.
#[derive(Clone, Debug)]
pub struct Look {
    pub run: RunId,
    pub round: u32,
    pub attempt: Attempt,
    pub examine: Examine,
    /// The run whose protected files count.
    pub baseline_of: Option<RunId>,
    /// Has it no branch of its own? Then the files it began with are what was stored of them, not a commit.
    pub is_in_place: bool,
}

#[derive(Clone, Debug)]
pub struct ToolWork {
    pub run: RunId,
    pub call: CallId,
    pub attempt: Attempt,
    pub tool: String,
    pub args: Json,
    pub traces: Vec<Trace>,
    pub asked_at: Timestamp,
    /// A person has given leave for exactly this call, knowing what a hook has against it.
    pub granted: bool,
    /// Where in the workspace commands begin, if not at its root.
    pub cwd: Option<String>,
    /// The tag of the file that the call is about, as its conversation has last seen it.
    pub seen: Option<String>,
    pub timeout: Duration,
}

/// Performs effects. Implemented by [`Hands`] and by the testkit's crash injector around it; called by the driver only.
pub trait Performer: Send + Sync {
    /// Does the work; `None` if it was cancelled without a result worth keeping.
    fn perform(&self, work: Work, cancel: Cancel) -> BoxFuture<'static, Option<Input>>;
}

/// What comes of an effect, when it has been done.
type Doing = BoxFuture<'static, Option<Input>>;

/// The real performer: models, a toolbox and a workspace.
pub struct Hands {
    pub models: Arc<Shelf>,
    pub secrets: Secrets,
    pub deltas: Arc<dyn Deltas>,
    pub toolbox: Arc<Toolbox>,
    pub workspace: Arc<Workspace>,
    pub blobs: Arc<dyn Blobs>,
    pub rules: Arc<[Permissions]>,
    /// Through which children are started and driven.
    pub harness: Option<Harness>,
    /// Where files of ours go that no agent may reach.
    pub scratch: PathBuf,
}

impl Performer for Hands {
    fn perform(&self, work: Work, cancel: Cancel) -> BoxFuture<'static, Option<Input>> {
        match work {
            Work::CallModel { turn, attempt, request, has_images } => {
                self.call_model(turn, attempt, request, has_images, cancel)
            }
            Work::AskAside { aside, attempt, request } => self.ask_aside(aside, attempt, request, cancel),
            Work::PrepareTool(work) => self.prepare_tool(work, cancel),
            Work::RunTool(work) => self.run_tool(work, cancel),
            Work::CheckTool(work) => self.check_tool(work, cancel),
            Work::Examine(look) => self.examine(look, cancel),
            Work::Attend(charge) => self.attend(charge, cancel),
            Work::AwaitAnswer(charge) => {
                Box::pin(children::await_answer(self.harness.clone(), charge, cancel))
            }
            Work::EndChild { charge, reason } => {
                let secrets = self.secrets.clone();
                let ended = children::end(self.harness.clone(), charge, reason);
                Box::pin(ended.map(move |input| input.map(|input| struck_out(input, &secrets))))
            }
            Work::SetUp { run, commands } => self.set_up(&run, commands, cancel),
            Work::StoreFiles { moment } => self.store_files(moment),
            Work::Keep(keep) => self.keep(keep),
            Work::Rest(resting) => self.rest(resting),
        }
    }
}

impl Hands {
    fn call_model(
        &self,
        turn: u32,
        attempt: Attempt,
        request: ModelRequest,
        has_images: bool,
        cancel: Cancel,
    ) -> Doing {
        if let Some(why) = gone(&self.workspace) {
            return Box::pin(std::future::ready(Some(Input::WorkspaceGone { why })));
        }
        let (models, deltas) = (Arc::clone(&self.models), Arc::clone(&self.deltas));
        let (toolbox, secrets) = (Arc::clone(&self.toolbox), self.secrets.clone());
        let blobs = Arc::clone(&self.blobs);
        let asking = async move {
            let request = if has_images { with_pictures(request, blobs).await } else { request };
            call_model(models, deltas, turn, attempt, request, cancel).await
        };
        let taken = move |input| by_own_names(struck_out(input, &secrets), &toolbox);
        Box::pin(asking.map(|input| input.map(taken)))
    }

    fn ask_aside(&self, aside: Aside, attempt: Attempt, request: ModelRequest, cancel: Cancel) -> Doing {
        let (models, secrets) = (Arc::clone(&self.models), self.secrets.clone());
        let asking = ask_aside(models, aside, attempt, request, cancel);
        Box::pin(asking.map(move |input| input.map(|input| struck_out(input, &secrets))))
    }

    fn prepare_tool(&self, work: ToolWork, cancel: Cancel) -> Doing {
        let (tool, context) = (self.tool(&work), self.context(&work, cancel));
        let (toolbox, secrets) = (Arc::clone(&self.toolbox), self.secrets.clone());
        Box::pin(
            async move { Some(struck_out(prepared(&toolbox.hooks, tool, context, work).await, &secrets)) },
        )
    }

    fn run_tool(&self, work: ToolWork, cancel: Cancel) -> Doing {
        let (tool, context) = (self.tool(&work), self.context(&work, cancel));
        let (toolbox, secrets) = (Arc::clone(&self.toolbox), self.secrets.clone());
        let (own_tree, scratch) = (self.own_tree(), self.scratch.clone());
        Box::pin(async move {
            let mut input = hooked(&toolbox.hooks, tool, context, work).await;
            if let (Some(tree), Input::ToolEnded { outcome, tended: done, .. }) = (own_tree, &mut input) {
                let was_stopped = !matches!(outcome, Outcome::Done { .. });
                let tend = move || {
                    if was_stopped {
                        // A git that was stopped with its command would keep every later one from working.
                        abandoned::clear(&tree);
                    }
                    tended(homing::publish_if_moved(&tree, &scratch))
                };
                *done = spawn_blocking(tend).await.unwrap_or_default();
            }
            Some(struck_out(input, &secrets))
        })
    }

    fn check_tool(&self, work: ToolWork, cancel: Cancel) -> Doing {
        let (tool, context) = (self.tool(&work), self.context(&work, cancel));
        Box::pin(check(tool, context, work).map(Some))
    }

    fn examine(&self, look: Look, cancel: Cancel) -> Doing {
        let (bash, secrets) = (self.bash(), self.secrets.clone());
        let context = self.own_commands(&look.run, &format!("look_{}", look.round), cancel);
        let earlier = self.earlier_baseline(&look);
        let since = self.harness.clone().filter(|_| look.is_in_place && look.examine.purpose.is_claim());
        Box::pin(look_at_work(bash, context, look, secrets, earlier, since))
    }

    fn attend(&self, charge: Charge, cancel: Cancel) -> Doing {
        let (harness, secrets) = (self.harness.clone(), self.secrets.clone());
        let asked = charge.call.clone().map(|work| (self.context(&work, cancel.clone()), work));
        let toolbox = Arc::clone(&self.toolbox);
        Box::pin(async move {
            let input = match stopped_by_hooks(&toolbox.hooks, &harness, &charge, asked).await {
                Some(ending) => {
                    let report = ChildReport { ending, ledger: charge.ledger };
                    Input::ChildRested { number: charge.number, report }
                }
                None => children::attend(harness, charge, cancel).await,
            };
            Some(struck_out(input, &secrets))
        })
    }

    fn set_up(&self, run: &RunId, commands: Vec<String>, cancel: Cancel) -> Doing {
        let (bash, secrets) = (self.bash(), self.secrets.clone());
        let context = self.own_commands(run, "set_up", cancel);
        Box::pin(async move { Some(prepared_place(bash, &context, &commands, &secrets).await) })
    }

    /// A run that leaves no trace has nowhere to store files.
    fn store_files(&self, moment: Moment) -> Doing {
        let Some((harness, home)) = self.harness.as_ref().and_then(|own| own.home().map(|home| (own, home)))
        else {
            return Box::pin(std::future::ready(None));
        };
        let (tree, state) = (self.workspace.root().to_owned(), home.dir().to_owned());
        let quota = harness.checkpoints_quota();
        Box::pin(async move {
            let stored = spawn_blocking(move || stored(&tree, &state, &quota)).await;
            let lost = |error: JoinError| Stored::Failed { why: error.to_string() };
            Some(Input::FilesStored { stored: stored.unwrap_or_else(lost), moment })
        })
    }

    /// Ends what works in the background, and then brings what that has committed.
    fn rest(&self, resting: Resting) -> Doing {
        let (toolbox, own_tree, scratch) = (Arc::clone(&self.toolbox), self.own_tree(), self.scratch.clone());
        let secrets = self.secrets.clone();
        Box::pin(async move {
            toolbox.rest(&resting.run).await;
            let tree = own_tree?;
            let tended = spawn_blocking(move || rested(&tree, &scratch, &resting)).await.ok()?;
            Some(struck_out(Input::Tended(tended), &secrets))
        })
    }

    fn keep(&self, keep: Keep) -> Doing {
        let (tree, scratch) = (self.workspace.root().to_owned(), self.scratch.clone());
        let secrets = self.secrets.clone();
        Box::pin(async move {
            let steps = keep.steps;
            let kept = spawn_blocking(move || kept(&tree, &scratch, &keep)).await;
            let lost = |error: JoinError| (Kept::Uncommitted { why: error.to_string() }, Tended::default());
            let (kept, tended) = kept.unwrap_or_else(lost);
            Some(struck_out(Input::WorkKept { steps, kept, tended }, &secrets))
        })
    }
}

impl Hands {
    /// Where the run works, if that is a place of ours and not the user's.
    fn own_tree(&self) -> Option<PathBuf> {
        let state = self.harness.as_ref()?.home()?.dir().canonicalize().ok()?;
        let tree = self.workspace.root();
        tree.starts_with(state).then(|| tree.to_owned())
    }

    fn bash(&self) -> Option<Arc<dyn Tool>> {
        self.toolbox.get("bash").cloned()
    }

    fn tool(&self, work: &ToolWork) -> Option<Arc<dyn Tool>> {
        self.toolbox.get(&work.tool).cloned()
    }

    fn context(&self, work: &ToolWork, cancel: Cancel) -> Context {
        Context {
            workspace: Arc::clone(&self.workspace),
            run: work.run.clone(),
            key: effect_key(&work.run, work.call),
            asked_at: work.asked_at,
            timeout: work.timeout,
            cwd: work.cwd.clone(),
            seen: work.seen.clone(),
            cancel,
            blobs: Arc::clone(&self.blobs),
            rules: Arc::clone(&self.rules),
            printed: Arc::new(Shown { deltas: Arc::clone(&self.deltas), secrets: self.secrets.clone() }),
        }
    }

    /// For commands of the harness's own, which are no call's.
    fn own_commands(&self, run: &RunId, key: &str, cancel: Cancel) -> Context {
        Context {
            workspace: Arc::clone(&self.workspace),
            run: run.clone(),
            key: format!("{run}.{key}"),
            asked_at: Timestamp::default(),
            timeout: LOOK_TIME_MAX,
            cwd: None,
            seen: None,
            cancel,
            blobs: Arc::clone(&self.blobs),
            rules: Arc::clone(&self.rules),
            printed: Arc::new(Shown { deltas: Arc::clone(&self.deltas), secrets: self.secrets.clone() }),
        }
    }

    /// The blob that says how protected files were before an earlier try at the same. Without one they are as they are.
    fn earlier_baseline(&self, look: &Look) -> Option<String> {
        let earlier = look.baseline_of.as_ref().filter(|_| look.examine.purpose == Purpose::Baseline)?;
        self.harness.as_ref()?.look(earlier).ok()?.baseline?.protected
    }
}

/// The key that marks everything a call does outside: the same for every attempt, so that recovery finds the traces.
pub fn effect_key(run: &RunId, call: CallId) -> String {
    format!("{run}.{call}")
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

pub(crate) fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
}
