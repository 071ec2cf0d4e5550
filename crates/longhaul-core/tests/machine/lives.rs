//! Random lives: whatever a run, its world and the people around it may do, in any order. The properties that hold of any run
//! are shown over these; a test beside those holds them to meeting every status, every wait and every reason to stop.

use longhaul_core::command::Wish;
use longhaul_core::conduct::Conduct;
use longhaul_core::conversation::ModelFailureKind;
use longhaul_core::decide::Refusal;
use longhaul_core::event::{Ask, AskKind, Cause};
use longhaul_core::input::Input;
use longhaul_core::plan::{Plan, Step};
use longhaul_core::spec::{Autonomy, Limits, Mate, OnAsk, Planner, RunSpec};
use longhaul_core::status::Status;
use longhaul_core::tool::{ASK_HUMAN, EffectClass, Failure, Found, ToolGrant};
use proptest::prelude::*;

use super::sim::{Sim, World, spec};

/// What may happen to a run next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Start,
    Pause,
    Stop,
    /// The next effect is performed.
    Work,
    /// The process dies and another one takes up the run.
    Crash,
    /// Whatever waits for a person first is answered: with yes, or with an answer.
    Consent,
    Refuse,
    Plan,
    Replan,
    Checkpoint,
    /// The journal's disk is nearly full.
    DiskLow,
}

/// A run before its first event but one, the world it will live in, and what will happen.
#[derive(Clone, Debug)]
pub struct Life {
    pub spec: RunSpec,
    pub world: World,
    pub acts: Vec<Act>,
}

impl Life {
    /// The run after all of it.
    pub fn lived(&self) -> Sim {
        let (mut sim, mut world) = self.begin();
        for act in &self.acts {
            drop(sim.undergo(&mut world, *act));
        }
        sim
    }

    pub fn begin(&self) -> (Sim, World) {
        (Sim::create(self.spec.clone()), self.world.clone())
    }
}

impl Sim {
    pub fn undergo(&mut self, world: &mut World, act: Act) -> Result<(), Refusal> {
        match act {
            Act::Start => self.start(),
            Act::Pause => self.pause(),
            Act::Stop => self.stop(),
            Act::Work => {
                self.step(world);
                Ok(())
            }
            Act::Crash => {
                *self = Sim { commands: self.commands, ..self.reopened_at(self.journal.len()) };
                match self.run.status {
                    Status::Running => self.give(restarted(self.journal.len())),
                    Status::Created | Status::Paused | Status::Completed | Status::Failed => Ok(()),
                }
            }
            Act::Consent => self.consent(),
            Act::Refuse => self.wish(Wish::Reject { gate: self.asked().0, reason: "no".to_owned() }),
            Act::Plan => self.wish(Wish::Plan),
            Act::Replan => {
                let rest = Step::new(&format!("r{}", self.journal.len()), "the rest", "MARS");
                self.wish(Wish::Replan { plan: Plan { steps: vec![rest] } })
            }
            Act::Checkpoint => self.wish(Wish::Checkpoint { name: "here".to_owned() }),
            Act::DiskLow if self.run.status == Status::Running => self.give(Input::DiskLow),
            Act::DiskLow => Ok(()),
        }
    }

    fn consent(&mut self) -> Result<(), Refusal> {
        match self.asked() {
            (gate, true) => self.wish(Wish::Answer { gate, text: "main".to_owned() }),
            (gate, false) => self.wish(Wish::Approve { gate, digest: None }),
        }
    }

    /// The first thing a person is asked, and whether it wants an answer rather than leave. Gate 0 is none.
    fn asked(&self) -> (u32, bool) {
        let open = self.run.gates.iter().find(|gate| gate.answer.is_none());
        let is_question = |ask: &Ask| ask.kind == AskKind::Question;
        open.map_or((0, false), |gate| (gate.number, gate.ask.as_ref().is_some_and(is_question)))
    }
}

fn restarted(generation: usize) -> Input {
    Input::Restarted { generation: generation as u64, limits: None, model: None, looping: None }
}

pub fn lives() -> impl Strategy<Value = Life> {
    (specs(), worlds(), acts()).prop_map(|(spec, world, acts)| Life { spec, world, acts })
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        24 => Just(Act::Work),
        5 => Just(Act::Start),
        5 => Just(Act::Consent),
        2 => Just(Act::Crash),
        1 => Just(Act::Pause),
        1 => Just(Act::Stop),
        1 => Just(Act::Refuse),
        1 => Just(Act::Plan),
        1 => Just(Act::Replan),
        1 => Just(Act::Checkpoint),
        1 => Just(Act::DiskLow),
    ];
    prop::collection::vec(act, 0..80)
}

/// Of up to four steps, by any of three agents, in any order that is none of a circle.
fn plans() -> impl Strategy<Value = Plan> {
    let step = (prop::sample::select(vec!["MARS", "MARS", "PLUTO", "VENUS"]), any::<bool>(), any::<u8>());
    prop::collection::vec(step, 1..5).prop_map(|drawn| {
        let steps = drawn.iter().enumerate().map(|(index, (agent, critical, edges))| Step {
            dependencies: (0..index).filter(|to| edges >> to & 1 == 1).map(|to| format!("s{to}")).collect(),
            critical: *critical,
            ..Step::new(&format!("s{index}"), "do it", agent)
        });
        Plan { steps: steps.collect() }.checked().unwrap()
    })
}

fn specs() -> impl Strategy<Value = RunSpec> {
    let people = (1u8..=5, prop::sample::select(vec![OnAsk::Wait, OnAsk::Deny, OnAsk::Pause]), any::<bool>());
    let switches = (prop::bool::weighted(0.2), prop::bool::weighted(0.3), prop::option::of(1u32..4));
    (plans(), people, limits(), switches).prop_map(|(plan, people, limits, (planned, verified, parallel))| {
        let (autonomy, on_ask, ask) = people;
        let grant = |name: &str, class, ask| ToolGrant { name: name.to_owned(), class, ask };
        let tools = vec![
            grant("read", EffectClass::Repeatable, None),
            grant("write", EffectClass::Checkable, None),
            grant("bash", EffectClass::Once, Some(ask)),
            grant("spawn", EffectClass::Checkable, None),
            grant(ASK_HUMAN, EffectClass::Repeatable, None),
        ];
        let mate = |name: &str| Mate { name: name.to_owned(), role: "helps".to_owned() };
        let conduct = Conduct { verify: vec!["make test".to_owned()], ..Conduct::default() };
        RunSpec {
            plan,
            autonomy: Autonomy::new(autonomy).unwrap(),
            on_ask: Some(on_ask),
            limits,
            parallel,
            tools,
            crew: Some(vec![mate("PLUTO"), mate("VENUS")]),
            planner: planned.then(|| Box::new(Planner { model: None, prompt: "You plan.".to_owned() })),
            conduct: verified.then(|| Box::new(conduct)),
            ..spec()
        }
    })
}

fn limits() -> impl Strategy<Value = Limits> {
    let plenty = Limits::default();
    prop_oneof![
        4 => Just(plenty),
        1 => (0u32..4).prop_map(move |max_tool_calls| Limits { max_tool_calls, ..plenty }),
        1 => (1u32..4).prop_map(move |max_steps| Limits { max_steps, ..plenty }),
        1 => (1u64..80).prop_map(move |tokens| Limits { max_tokens: Some(tokens), ..plenty }),
    ]
}

fn worlds() -> impl Strategy<Value = World> {
    let tool = prop::sample::select(vec!["read", "write", "bash", "spawn", ASK_HUMAN, "forbidden"]);
    let turns = prop::collection::vec(prop::collection::vec(tool, 0..4), 0..5);
    let tools = (0u32..3, prop::sample::select(vec![Failure::Network, Failure::RateLimit, Failure::Timeout]));
    let found = prop::sample::select(vec![Found::NotDone, Found::Done, Found::Unknown]);
    let passes = prop::collection::vec(any::<bool>(), 1..4);
    (turns, tools, models(), mates(), found, passes, 0usize..3).prop_map(
        |(turns, (times, failure), (model_failures, failing_as), mates, found, passes, plans)| World {
            turns,
            failures: vec![("read", times, failure), ("write", times / 2, failure)],
            model_failures,
            failing_as,
            found,
            passes,
            plans: PLANS.iter().take(plans).map(|plan| (*plan).to_owned()).collect(),
            errands: vec![("PLUTO", "look"), ("NOBODY", "look"), ("VENUS", "think")],
            ..mates
        },
    )
}

const PLANS: [&str; 2] = [
    "no plan",
    r#"{"steps":[{"id":"p1","description":"look"},{"id":"p2","description":"mend","assignedAgent":"PLUTO","critical":true}]}"#,
];

/// How often the model fails before each answer, and how.
fn models() -> impl Strategy<Value = (u32, ModelFailureKind)> {
    let kind = prop::sample::select(vec![
        ModelFailureKind::Unavailable,
        ModelFailureKind::Unreachable,
        ModelFailureKind::RateLimited,
        ModelFailureKind::Broken,
        ModelFailureKind::Credentials,
        ModelFailureKind::Refused,
    ]);
    prop_oneof![2 => Just((0, ModelFailureKind::Unavailable)), 1 => (1u32..5, kind)]
}

/// How the others behave.
fn mates() -> impl Strategy<Value = World> {
    let causes = vec![Cause::Parked, Cause::Limit, Cause::Provider, Cause::Stuck];
    let some = || prop::bool::weighted(0.25);
    let pausing = prop::option::weighted(0.25, prop::sample::select(causes));
    (0u32..3, some(), some(), some(), pausing).prop_map(|(times, asks, stopped, idle, pausing)| World {
        failing: vec![("PLUTO", times)],
        asking: if asks { vec!["PLUTO"] } else { Vec::new() },
        stopped: if stopped { vec!["VENUS"] } else { Vec::new() },
        idle: if idle { vec![("VENUS", 60_000)] } else { Vec::new() },
        pausing: pausing.map(|cause| ("PLUTO", cause)).into_iter().collect(),
        held: if asks { vec!["VENUS"] } else { Vec::new() },
        ..World::with_turns(&[])
    })
}
