//! A world in a few lines: performs the machine's effects from a table and keeps its journal in a list.

use std::collections::VecDeque;

use longhaul_core::child::{ChildEnding, ChildLedger, ChildReport, Errand, Origin};
use longhaul_core::command::{Command, Wish};
use longhaul_core::conversation::{ModelFailure, ModelFailureKind, ModelReply, ProposedCall, Usage};
use longhaul_core::decide::{Refusal, decide};
use longhaul_core::effect::Effect;
use longhaul_core::event::{Aside, Cause, Event, Purpose};
use longhaul_core::evidence::{Check, Examination};
use longhaul_core::ids::{Attempt, CallId, CommandId, RunId};
use longhaul_core::input::{Input, Tended};
use longhaul_core::json::Json;
use longhaul_core::money::Usd;
use longhaul_core::plan::{Plan, Step, StepStatus};
use longhaul_core::run::Run;
use longhaul_core::spec::{Autonomy, Limits, RunSpec};
use longhaul_core::status::Status;
use longhaul_core::time::Timestamp;
use longhaul_core::tool::{ASK_HUMAN, EffectClass, Failure, Found, Outcome, RetryPolicy, ToolGrant, Trace};

/// What the model and the tools of a simulated world do.
#[derive(Clone, Debug)]
pub struct World {
    /// The calls each turn asks for, by turn number; turns past the end give the final answer.
    pub turns: Vec<Vec<&'static str>>,
    /// How many times each tool fails transiently before it works.
    pub failures: Vec<(&'static str, u32, Failure)>,
    /// How many times the model fails before each answer.
    pub model_failures: u32,
    pub failing_as: ModelFailureKind,
    pub found: Found,
    /// The final texts, in order; after the last, the number of the turn.
    pub says: Vec<&'static str>,
    /// What the harness sees each time it looks at a claim: whether the verify commands pass.
    pub passes: Vec<bool>,
    /// Does the workspace change between looks?
    pub changes: bool,
    pub handoff: Option<&'static str>,
    /// What is answered beside the conversation; nothing if nobody answers.
    pub asides: Option<String>,
    pub window: Option<u64>,
    /// How many errands in a row agents fail at, by name, before they succeed.
    pub failing: Vec<(&'static str, u32)>,
    /// What calls of `spawn` ask for, by their place in a turn.
    pub errands: Vec<(&'static str, &'static str)>,
    /// What the planner says, in order.
    pub plans: Vec<String>,
    /// Agents that ask a person first.
    pub asking: Vec<&'static str>,
    /// Agents that a person stops.
    pub stopped: Vec<&'static str>,
    /// Agents of which nothing is heard for so long, the first time.
    pub idle: Vec<(&'static str, u64)>,
    /// Agents that stop by themselves the first time.
    pub pausing: Vec<(&'static str, Cause)>,
    /// Agents before whose sending a hook wants a person asked.
    pub held: Vec<&'static str>,
    /// Names of tools, once for each time one really ran.
    pub ran: Vec<(CallId, String)>,
    /// Children, once for each that was started, and how often each was seen to.
    pub started: Vec<(RunId, u32)>,
    /// Children that were told to end.
    pub ended: Vec<RunId>,
}

impl World {
    pub fn with_turns(turns: &[&[&'static str]]) -> World {
        World {
            turns: turns.iter().map(|calls| calls.to_vec()).collect(),
            failures: Vec::new(),
            model_failures: 0,
            failing_as: ModelFailureKind::Unavailable,
            found: Found::NotDone,
            says: Vec::new(),
            passes: Vec::new(),
            changes: true,
            handoff: None,
            asides: None,
            window: None,
            failing: Vec::new(),
            errands: Vec::new(),
            plans: Vec::new(),
            asking: Vec::new(),
            stopped: Vec::new(),
            idle: Vec::new(),
            pausing: Vec::new(),
            held: Vec::new(),
            ran: Vec::new(),
            started: Vec::new(),
            ended: Vec::new(),
        }
    }
}

impl World {
    /// A child runs, or is found where it was left.
    pub fn attend(&mut self, errand: &Errand) -> ChildReport {
        let place = self.started.iter().position(|(id, _)| *id == errand.id).unwrap_or_else(|| {
            self.started.push((errand.id.clone(), 0));
            self.started.len() - 1
        });
        let seen = self.started[place].1;
        self.started[place].1 += 1;
        let agent = errand.agent.as_str();
        let fails = self.failing.iter().any(|(name, times)| *name == agent && errand.attempt.0 <= *times);
        let pauses = self.pausing.iter().find(|(name, _)| *name == agent && seen == 0);
        let ending = match pauses {
            Some((_, cause)) => ChildEnding::Paused { cause: *cause, reason: "stuck".to_owned() },
            None if self.stopped.contains(&agent) => ChildEnding::Stopped { reason: "enough".to_owned() },
            None if errand.attempt == Attempt::FIRST && self.silence(agent).is_some() => {
                ChildEnding::Idle { ms: self.silence(agent).unwrap() }
            }
            None if self.asking.contains(&agent) && seen == 0 => ChildEnding::Waiting,
            None if fails => ChildEnding::Failed { error: format!("{agent} broke") },
            None => ChildEnding::Completed { output: format!("{} by {agent}", errand.task) },
        };
        ChildReport { ending, ledger: ChildLedger { usage: USED, calls: 2, turns: 3 } }
    }

    /// Does a hook hold the errand back? Who is there already is not asked about, nor what a person has given leave for.
    fn holds(&self, run: &Run, errand: &Errand) -> bool {
        let Origin::Call { call } = errand.origin else { return false };
        let granted = run.call(call).is_some_and(|call| call.granted && call.next != Attempt::FIRST);
        let is_there = self.started.iter().any(|(id, _)| *id == errand.id);
        self.held.contains(&errand.agent.as_str())
            && !granted
            && !is_there
            && errand.attempt == Attempt::FIRST
    }

    fn silence(&self, agent: &str) -> Option<u64> {
        self.idle.iter().find(|(name, _)| *name == agent).map(|(_, ms)| *ms)
    }

    fn examination(&self, looked: usize, purpose: Purpose) -> Examination {
        let mut found = Examination {
            tree: Some(if self.changes { format!("tree {looked}") } else { "tree".to_owned() }),
            handoff: self.handoff.map(str::to_owned),
            ..Examination::default()
        };
        if purpose.is_claim()
            && let Some(passed) = self.passes.get(looked).or(self.passes.last())
        {
            let (command, ended) = ("make test".to_owned(), "exit code 1".to_owned());
            let output = "assertion failed: left == right".into();
            found.checks =
                vec![Check { command, passed: *passed, ended, output, blob: None, duration_us: 7 }];
        }
        found
    }
}

const USED: Usage = Usage {
    input_tokens: 10,
    output_tokens: 1,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    cost: Usd::ZERO,
    unpriced_tokens: 0,
    estimated_tokens: 0,
};

#[derive(Clone, Debug)]
pub struct Sim {
    pub run: Run,
    pub journal: Vec<(u64, Timestamp, Event)>,
    pub effects: VecDeque<Effect>,
    pub now: Timestamp,
    pub slept_ms: Vec<u64>,
    pub commands: u128,
}

pub fn spec() -> RunSpec {
    let grant = |name: &str, class| ToolGrant { name: name.to_owned(), class, ask: None };
    RunSpec {
        id: RunId::from_bits(7),
        agent: "MARS".to_owned(),
        task: "do it".to_owned(),
        task_id: "t1".to_owned(),
        model: "scripted/x.yaml".to_owned(),
        prompt: "You are MARS.".to_owned(),
        plan: Plan::single("do it", "MARS"),
        autonomy: Autonomy::default(),
        limits: Limits::default(),
        retry: RetryPolicy::default(),
        tools: vec![
            grant("read", EffectClass::Repeatable),
            grant("write", EffectClass::Checkable),
            grant("bash", EffectClass::Once),
        ],
        workspace: "/w".to_owned(),
        parent: None,
        depth: 0,
        session: None,
        checkpoint_interval_ms: 300_000,
        branch: None,
        repository: None,
        engine_enabled: None,
        models: None,
        mode: None,
        answer_schema: None,
        on_ask: None,
        permissions: None,
        conduct: None,
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

/// A plan of `count` steps, each waiting for the one before.
pub fn chain(count: usize) -> Plan {
    let steps = (0..count).map(|index| {
        let mut step = Step::new(&format!("step-{}", index + 1), &format!("part {}", index + 1), "MARS");
        if index > 0 {
            step.dependencies = vec![format!("step-{index}")];
        } else {
            step.status = StepStatus::Ready;
        }
        step
    });
    Plan { steps: steps.collect() }
}

impl Sim {
    pub fn create(spec: RunSpec) -> Sim {
        let now = Timestamp::from_millis(1_771_581_600_000);
        let event = Event::RunCreated(Box::new(spec));
        let run = Run::first(1, now, &event).unwrap();
        Sim {
            run,
            journal: vec![(1, now, event)],
            effects: VecDeque::new(),
            now,
            slept_ms: Vec::new(),
            commands: 0,
        }
    }

    /// The run as a new process finds it after `events` of this journal.
    pub fn reopened_at(&self, events: usize) -> Sim {
        let (seq, at, first) = &self.journal[0];
        let mut run = Run::first(*seq, *at, first).unwrap();
        for (seq, at, event) in &self.journal[1..events] {
            run.apply(*seq, *at, event).unwrap();
        }
        Sim {
            run,
            journal: self.journal[..events].to_vec(),
            effects: VecDeque::new(),
            now: self.now,
            slept_ms: Vec::new(),
            commands: 1000 + events as u128,
        }
    }

    pub fn give(&mut self, input: Input) -> Result<(), Refusal> {
        self.now = self.now.plus_millis(1);
        let decision = decide(&self.run, self.now, input)?;
        for event in decision.events {
            let seq = self.run.seq + 1;
            self.run.apply(seq, self.now, &event).unwrap();
            self.journal.push((seq, self.now, event));
        }
        for effect in decision.effects {
            if effect == Effect::CancelWork {
                self.effects.clear();
            } else {
                self.effects.push_back(effect);
            }
        }
        Ok(())
    }

    pub fn wish(&mut self, wish: Wish) -> Result<(), Refusal> {
        self.commands += 1;
        self.give(Input::Command(Command { id: CommandId::from_bits(self.commands), wish }))
    }

    pub fn start(&mut self) -> Result<(), Refusal> {
        self.wish(Wish::Start { limits: None, model: None, looping: None })
    }

    pub fn pause(&mut self) -> Result<(), Refusal> {
        self.wish(Wish::Pause { reason: "asked".to_owned() })
    }

    pub fn stop(&mut self) -> Result<(), Refusal> {
        self.wish(Wish::Stop { reason: "stopped".to_owned() })
    }

    /// Performs the next effect; false when there is none.
    pub fn step(&mut self, world: &mut World) -> bool {
        let Some(effect) = self.effects.pop_front() else { return false };
        let input = self.answer(world, effect);
        self.give(input).unwrap();
        true
    }

    pub fn settle(&mut self, world: &mut World) {
        for _ in 0..10_000 {
            if !self.step(world) {
                return;
            }
        }
        panic!("the run never came to rest");
    }

    pub fn events(&self) -> Vec<&Event> {
        self.journal.iter().map(|(_, _, event)| event).collect()
    }

    pub fn answer(&mut self, world: &mut World, effect: Effect) -> Input {
        match effect {
            Effect::CallModel { turn, attempt } if attempt.retries() < world.model_failures => {
                Input::ModelFailed {
                    turn,
                    attempt,
                    failure: ModelFailure::new(world.failing_as, "overloaded"),
                }
            }
            Effect::CallModel { turn, attempt } => {
                let names = world.turns.get(turn as usize - 1).cloned().unwrap_or_default();
                // No two calls are the same: nobody here goes round in circles unless told to.
                let args = |index: usize| match world.errands.get(index) {
                    Some((agent, task)) if names[index] == "spawn" => {
                        Json::of(&serde_json::json!({ "agent": agent, "task": task }))
                    }
                    Some(_) | None if names[index] == ASK_HUMAN => {
                        Json::of(&serde_json::json!({ "question": format!("which of {turn} and {index}?") }))
                    }
                    Some(_) | None => Json::of(&serde_json::json!({ "turn": turn, "index": index })),
                };
                let calls =
                    names.iter().enumerate().map(|(index, tool)| ProposedCall::new(*tool, args(index)));
                let usage = USED;
                let said = world.says.get(self.said()).map(|text| (*text).to_owned());
                let reply = ModelReply {
                    text: said.filter(|_| names.is_empty()).unwrap_or_else(|| format!("turn {turn}")),
                    window: world.window,
                    calls: calls.collect(),
                    usage,
                    ..ModelReply::default()
                };
                Input::ModelReplied { turn, attempt, reply, duration_us: 5 }
            }
            Effect::PrepareTool { call, attempt } => {
                let trace =
                    Trace { target: "f".to_owned(), before: "absent".to_owned(), after: "abc".to_owned() };
                Input::ToolPrepared { call, attempt, traces: Ok(vec![trace]), hold: None }
            }
            Effect::RunTool { call, attempt } => {
                let outcome = self.run_tool(world, call, attempt);
                Input::ToolEnded {
                    call,
                    attempt,
                    outcome,
                    duration_us: 0,
                    hold: None,
                    tended: Tended::default(),
                }
            }
            Effect::CheckTool { call, attempt } => Input::ToolChecked { call, attempt, found: world.found },
            Effect::Sleep { wake, rest } => {
                self.slept_ms.push(rest.delay_ms);
                self.now = self.now.plus_millis(rest.delay_ms);
                Input::Woke(wake)
            }
            Effect::Examine { round, attempt, purpose } => {
                let found = Box::new(world.examination(self.looked(), purpose));
                Input::Examined { round, attempt, found }
            }
            Effect::AskAside { aside, attempt } => {
                let asides = match aside {
                    Aside::Planning { round } => world.plans.get(round as usize - 1).cloned(),
                    Aside::Compaction { .. } | Aside::Iteration { .. } | Aside::Judgement => {
                        world.asides.clone()
                    }
                };
                let text =
                    asides.ok_or_else(|| ModelFailure::new(ModelFailureKind::Unavailable, "nobody is there"));
                let answer = text.map(|text| ModelReply { text, usage: USED, ..ModelReply::default() });
                Input::AsideEnded { aside, attempt, answer }
            }
            Effect::Attend { child } => {
                let errand = self.run.child(child).unwrap().errand.clone();
                if world.holds(&self.run, &errand) {
                    let ending = ChildEnding::Held { why: "a hook wants to know".to_owned() };
                    let report = ChildReport { ending, ledger: ChildLedger::default() };
                    return Input::ChildRested { number: child, report };
                }
                Input::ChildRested { number: child, report: world.attend(&errand) }
            }
            Effect::AwaitAnswer { child } => Input::ChildAnswered { number: child },
            Effect::EndChild { child, .. } => {
                world.ended.push(self.run.child(child).unwrap().errand.id.clone());
                Input::CheckpointDue
            }
            Effect::CancelWork => unreachable!("cancelled at once"),
        }
    }

    /// How many final texts were said.
    pub fn said(&self) -> usize {
        let is_final = |event: &Event| matches!(event, Event::ModelReplied { calls, .. } if calls.is_empty());
        self.journal.iter().filter(|(_, _, event)| is_final(event)).count()
    }

    /// How often the harness looked, the first time at what the work began with.
    fn looked(&self) -> usize {
        let is_look = |event: &Event| matches!(event, Event::Examined { .. });
        self.journal.iter().filter(|(_, _, event)| is_look(event)).count()
    }

    fn run_tool(&mut self, world: &mut World, call: CallId, attempt: Attempt) -> Outcome {
        let tool = self.run.call(call).unwrap().tool.clone();
        world.ran.push((call, tool.to_string()));
        match world.failures.iter().find(|(name, times, _)| tool == **name && attempt.0 <= *times) {
            Some((_, _, failure)) => Outcome::failed(*failure, "no luck"),
            None => Outcome::done(format!("{tool} {call}")),
        }
    }
}

/// The parts of a run that a crash must not change: times, attempts, generations and checkpoint numbers left out.
pub fn essence(run: &Run) -> String {
    let calls: Vec<_> = run.calls.iter().map(|call| (call.id, &call.tool, call.outcome())).collect();
    format!(
        "{:?} {:?} steps {:?} calls {calls:?} messages {:?} usage {:?} turns {}",
        run.status,
        run.error,
        run.plan.steps.iter().map(|step| (&step.id, step.status, &step.output)).collect::<Vec<_>>(),
        run.messages,
        run.usage,
        run.turns,
    )
}

pub fn ended(sim: &Sim) -> bool {
    matches!(sim.run.status, Status::Completed | Status::Failed)
}
