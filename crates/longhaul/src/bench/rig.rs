//! Runs to be measured: driven by the real harness with the scripted model, a gate for a tool, and a stopwatch for a
//! watcher. One durable step is one append: the outcome of an effect together with the intent of the next.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use longhaul_core::command::Wish;
use longhaul_core::conduct::Conduct;
use longhaul_core::event::Event;
use longhaul_core::ids::RunId;
use longhaul_core::plan::Plan;
use longhaul_core::run::Run;
use longhaul_core::spec::{Autonomy, Limits, RunSpec};
use longhaul_core::time::Timestamp;
use longhaul_core::tool::{EffectClass, RetryPolicy, ToolGrant};
use longhaul_engine::clock::SystemClock;
use longhaul_engine::watch::Watcher;
use longhaul_engine::{Driven, Harness, Opening};
use longhaul_model::{Models, Quiet};
use longhaul_store::{Footprint, Home};
use longhaul_tools::Toolbox;

use super::disk::CountingDisk;
use super::gate::{Gate, Noop, TOOL};
use super::ground::{Ground, NOOP_SCRIPT, text};
use crate::failure::Failure;

/// A turn is two durable steps: the model's and the tool's.
pub const STEPS_PER_TURN: usize = 2;

pub struct Rig {
    pub harness: Harness,
    pub disk: CountingDisk,
    pub gate: Arc<Gate>,
    workspace: PathBuf,
}

/// A run that is being driven, resting at the gate.
pub struct Working {
    pub id: RunId,
    driven: Driven,
    laps: Laps,
}

/// When each append of a run was on disk and applied.
type Laps = Arc<Mutex<Vec<Instant>>>;

struct Stopwatch(Laps);

impl Watcher for Stopwatch {
    fn event(&mut self, _run: &Run, _seq: u64, _at: Timestamp, _event: &Event) {}

    fn batch_ended(&mut self, _run: &Run) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
    }
}

impl Rig {
    /// A harness over a new state directory.
    pub fn new(ground: &Ground, name: &str) -> Result<Rig, Failure> {
        let (disk, gate) = (CountingDisk::default(), Arc::new(Gate::default()));
        let home = Home::open_on(Arc::new(disk.clone()), &ground.place(name)?)?;
        let toolbox = Toolbox::default().with(Arc::new(Noop::new(text(), Arc::clone(&gate))));
        let models = Models { base_dir: ground.dir().to_owned(), ..Models::default() };
        let harness = Harness::durable(Arc::new(home), toolbox, models, Arc::new(SystemClock));
        Ok(Rig { harness, disk, gate, workspace: ground.dir().to_owned() })
    }

    pub fn create(&self, autonomy: Autonomy) -> Result<RunId, Failure> {
        let spec = RunSpec {
            workspace: self.workspace.display().to_string(),
            autonomy,
            ..spec(self.harness.new_run_id()?)
        };
        Ok(self.harness.create(spec)?.spec.id)
    }

    /// Takes a run up. It works until it comes to the gate; must be called on a runtime.
    pub fn start(&self, id: RunId) -> Result<Working, Failure> {
        let laps = Laps::default();
        let watchers: Vec<Box<dyn Watcher>> = vec![Box::new(Stopwatch(Arc::clone(&laps)))];
        let driven = self.harness.drive(&id, Opening::default(), watchers, Arc::new(Quiet))?;
        Ok(Working { id, driven, laps })
    }

    /// A run that rests at the gate, ready to be measured.
    pub async fn ready(&self) -> Result<Working, Failure> {
        let working = self.start(self.create(Autonomy::default())?)?;
        self.gate.rested(1).await;
        Ok(working)
    }

    /// Lets a lone run take that many turns, and says when each append ended.
    pub async fn turns(&self, working: &Working, turns: usize) -> Vec<Instant> {
        working.forget_laps();
        self.gate.open(turns);
        self.gate.rested(1).await;
        working.laps()
    }

    pub fn footprint(&self, id: &RunId) -> Result<Footprint, Failure> {
        Ok(self.harness.store_of(id)?.footprint(id)?)
    }
}

impl Working {
    pub fn laps(&self) -> Vec<Instant> {
        self.laps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn forget_laps(&self) {
        self.laps.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Waits until the run rests of its own accord.
    pub async fn wait(self) -> Result<(), Failure> {
        self.driven.rest().await?;
        Ok(())
    }

    /// Ends the run in good order.
    pub async fn end(self) -> Result<(), Failure> {
        self.driven.handle.ask(Wish::Pause { reason: "the benchmark is over".to_owned() })?;
        self.driven.rest().await?;
        Ok(())
    }
}

/// A run of one step whose agent calls the gate again and again.
pub fn spec(id: RunId) -> RunSpec {
    let (agent, task) = ("bench", "call the tool again and again");
    let limits = Limits { max_tool_calls: u32::MAX, max_steps: u32::MAX, ..Limits::default() };
    RunSpec {
        task_id: id.to_string(),
        id,
        agent: agent.to_owned(),
        task: task.to_owned(),
        model: format!("scripted/{NOOP_SCRIPT}"),
        prompt: "You are measured.".to_owned(),
        plan: Plan::single(task, agent),
        autonomy: Autonomy::default(),
        limits,
        retry: RetryPolicy::default(),
        tools: vec![ToolGrant { name: TOOL.to_owned(), class: EffectClass::Repeatable, ask: None }],
        workspace: String::new(),
        parent: None,
        depth: 0,
        session: None,
        checkpoint_interval_ms: 0,
        branch: None,
        repository: None,
        engine_enabled: None,
        models: None,
        mode: None,
        answer_schema: None,
        on_ask: None,
        permissions: None,
        // Every step is the same on purpose.
        conduct: Some(Box::new(Conduct { plain: Some(true), ..Conduct::default() })),
        parallel: None,
        crew: None,
        planner: None,
        base: None,
        carried: None,
        auto_commit: None,
        source: None,
        baseline_of: None,
        agent_caps: None,
        collaboration: None,
        workflow_run: None,
        isolation: None,
        begun_with: None,
    }
}
