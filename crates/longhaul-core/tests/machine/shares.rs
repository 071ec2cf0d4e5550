//! One budget over a whole tree: a run that works itself and has others at work, and sends some more, with few calls and turns for
//! all of them. Children here really use what they are given, and say so only when they rest.

use std::collections::BTreeMap;

use longhaul_core::child::{ChildEnding, ChildLedger, ChildReport};
use longhaul_core::command::Wish;
use longhaul_core::effect::Effect;
use longhaul_core::event::Cause;
use longhaul_core::input::Input;
use longhaul_core::plan::Step;
use longhaul_core::policy::{Limit, Policies, Policy};
use longhaul_core::spec::{Limits, RunSpec};
use longhaul_core::status::{Status, Wait};
use longhaul_core::tool::{EffectClass, ToolGrant};
use proptest::prelude::*;

use crate::errands::{crew_spec, step};
use crate::sim::{Sim, World};

/// A step of sixty calls.
const SIXTY: [&[&str]; 60] = [&["bash"]; 60];

/// Calls and turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    calls: u32,
    turns: u32,
}

/// A child as it really is, whatever its parent knows of it.
#[derive(Clone, Debug)]
struct Kid {
    limit: Counts,
    used: Counts,
    /// How many calls it has still to make.
    needs: u32,
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Work,
    /// It waits for a person, or has paused at its limit or otherwise, or its process has died.
    Rest,
    Limit,
    Wait,
}

struct Tree {
    sim: Sim,
    world: World,
    kids: BTreeMap<u32, Kid>,
    max: Counts,
    needs: u32,
}

impl Tree {
    fn new(steps: Vec<Step>, turns: &[&[&'static str]], limits: Limits, needs: u32) -> Tree {
        let max = Counts { calls: limits.max_tool_calls, turns: limits.max_steps };
        let mut spec = RunSpec { limits, ..crew_spec(steps) };
        spec.tools.push(ToolGrant { name: "spawn".to_owned(), class: EffectClass::Checkable, ask: None });
        let errands = vec![("ERIS", "look"), ("ERIS", "look again")];
        let world = World { errands, ..World::with_turns(turns) };
        let mut tree = Tree { sim: Sim::create(spec), world, kids: BTreeMap::new(), max, needs };
        tree.sim.start().unwrap();
        tree.settle();
        tree
    }

    /// Hands the effects that are about children to those.
    fn settle(&mut self) {
        let effects = std::mem::take(&mut self.sim.effects);
        for effect in effects {
            match effect {
                Effect::Attend { child } => self.attend(child),
                Effect::AwaitAnswer { .. } => {}
                effect => self.sim.effects.push_back(effect),
            }
        }
        if self.sim.run.status != Status::Running {
            self.sim.effects.clear();
            let at_work: Vec<u32> = self.of(At::Work);
            for number in at_work {
                let reason = "the run it works for is not at work".to_owned();
                self.rest(number, At::Rest, ChildEnding::Paused { cause: Cause::Asked, reason });
            }
        }
    }

    fn of(&self, at: At) -> Vec<u32> {
        self.kids.iter().filter(|(_, kid)| kid.at == at).map(|(number, _)| *number).collect()
    }

    /// A child is taken up with what its parent has set aside for it.
    fn attend(&mut self, number: u32) {
        let limits = self.sim.run.child(number).unwrap().errand.limits;
        let wanted = Counts { calls: limits.max_tool_calls, turns: limits.max_steps };
        let new = Kid { limit: wanted, used: Counts::default(), needs: self.needs, at: At::Rest };
        let kid = self.kids.entry(number).or_insert(new);
        let at_end = kid.at == At::Limit;
        let regranted = |now: u32, wanted: u32, used: u32| match at_end && used >= now {
            true => now.max(wanted),
            false => now.min(wanted),
        };
        kid.limit.calls = regranted(kid.limit.calls, wanted.calls, kid.used.calls);
        kid.limit.turns = regranted(kid.limit.turns, wanted.turns, kid.used.turns);
        kid.at = At::Work;
    }

    fn rest(&mut self, number: u32, at: At, ending: ChildEnding) {
        let kid = self.kids.get_mut(&number).unwrap();
        kid.at = at;
        let Counts { calls, turns } = kid.used;
        let ledger = ChildLedger { calls, turns, ..ChildLedger::default() };
        self.sim.give(Input::ChildRested { number, report: ChildReport { ending, ledger } }).unwrap();
        self.settle();
    }

    /// One turn of a child, and a call if it needs one.
    fn work(&mut self, number: u32) {
        let kid = self.kids.get_mut(&number).unwrap();
        let out = || ChildEnding::Paused { cause: Cause::Limit, reason: "all used".to_owned() };
        if kid.used.turns >= kid.limit.turns || (kid.needs > 0 && kid.used.calls >= kid.limit.calls) {
            return self.rest(number, At::Limit, out());
        }
        kid.used.turns += 1;
        if kid.needs == 0 {
            return self.rest(number, At::Rest, ChildEnding::Completed { output: "done".to_owned() });
        }
        kid.needs -= 1;
        kid.used.calls += 1;
    }

    fn own(&mut self) {
        self.sim.step(&mut self.world);
        self.settle();
    }

    /// The process dies, and with it those of the children.
    fn die(&mut self) {
        self.sim = self.sim.reopened_at(self.sim.journal.len());
        self.kids.values_mut().filter(|kid| kid.at == At::Work).for_each(|kid| kid.at = At::Rest);
        self.sim.give(Input::Restarted { generation: 2, limits: None, model: None, looping: None }).unwrap();
        self.settle();
    }

    /// What is used, and what those at work may still use by their own limits.
    fn drawn(&self) -> (Counts, Counts) {
        let own = Counts { calls: self.sim.run.calls_started, turns: self.sim.run.turns };
        let (mut used, mut most) = (own, own);
        for kid in self.kids.values() {
            used.calls += kid.used.calls;
            used.turns += kid.used.turns;
            let at_work = kid.at == At::Work;
            most.calls += if at_work { kid.limit.calls.max(kid.used.calls) } else { kid.used.calls };
            most.turns += if at_work { kid.limit.turns.max(kid.used.turns) } else { kid.used.turns };
        }
        (used, most)
    }

    /// Nobody has more than there is, and something moves unless it cannot.
    fn check(&self) {
        let (_, most) = self.drawn();
        assert!(most.calls <= self.max.calls && most.turns <= self.max.turns, "{most:?} of {:?}", self.max);
        if self.sim.run.status != Status::Running {
            return;
        }
        let moves = !self.sim.effects.is_empty() || !self.of(At::Work).is_empty();
        let asks = self.sim.run.wait() == Wait::Human;
        assert!(moves || asks, "{:?} {:?}", self.sim.run.phase, self.kids);
        assert!(!asks || self.sim.effects.is_empty(), "left while {:?} is under way", self.sim.effects);
    }

    /// Everybody does what is left, and whatever is paused for another reason than a limit is resumed.
    fn finish(&mut self) {
        for _ in 0..10_000 {
            self.check();
            match (self.sim.run.status, self.sim.run.cause) {
                (Status::Completed | Status::Failed, _) | (Status::Paused, Some(Cause::Limit)) => return,
                (Status::Created | Status::Paused, _) => {
                    self.sim.start().unwrap();
                    self.settle();
                }
                (Status::Running, _) if !self.sim.effects.is_empty() => self.own(),
                (Status::Running, _) => self.finish_one(),
            }
        }
        panic!("it never ended: {:?} {:?}", self.sim.run.phase, self.kids);
    }

    fn finish_one(&mut self) {
        if let Some(number) = self.of(At::Work).first() {
            return self.work(*number);
        }
        let Some(number) = self.of(At::Wait).first().copied() else { panic!("nobody waits") };
        self.sim.give(Input::ChildAnswered { number }).unwrap();
        self.settle();
    }

    /// The run rests at a limit only if nothing of it is left in the whole tree.
    fn check_end(&self) {
        let (used, _) = self.drawn();
        let is_used_up = used.calls == self.max.calls || used.turns == self.max.turns;
        let run = &self.sim.run;
        assert!(run.status != Status::Paused || is_used_up, "{used:?} of {:?}: {:?}", self.max, run.reason);
    }
}

fn at_most(calls: u32, turns: u32) -> Limits {
    Limits { max_tool_calls: calls, max_steps: turns, ..Limits::default() }
}

fn own_beside_three() -> Vec<Step> {
    vec![step("own", "MARS", &[]), step("a", "PLUTO", &[]), step("b", "PLUTO", &[]), step("c", "PLUTO", &[])]
}

/// AI8, A6.2: a run whose own step needs more than its share waits for its sub-agents and goes on with what they give back; that
/// it died in between changes nothing.
#[test]
fn a_run_waits_for_what_its_children_give_back() {
    for deaths in 0..4 {
        for turns in [100, 70] {
            let mut tree = Tree::new(own_beside_three(), &SIXTY, at_most(100, turns), 1);
            while !tree.sim.effects.is_empty() {
                tree.own();
            }
            let run = &tree.sim.run;
            assert_eq!((run.status, run.wait()), (Status::Running, Wait::Child), "{:?}", run.reason);
            let granted = |tree: &Tree| -> Vec<Limits> {
                tree.sim.run.children.iter().map(|child| child.errand.limits).collect()
            };
            let before = granted(&tree);
            for _ in 0..deaths {
                tree.die();
                tree.check();
            }
            assert_eq!(granted(&tree), before, "nobody needs more");
            tree.finish();
            let (used, _) = tree.drawn();
            let run = &tree.sim.run;
            assert_eq!(run.status, Status::Completed, "{:?}", run.reason);
            assert_eq!(used, Counts { calls: 63, turns: 67 });
        }
    }
}

/// AI8: nobody waits for ever: with every call used by those at work, the run pauses at its limit.
#[test]
fn a_run_whose_tree_has_nothing_left_pauses() {
    let mut tree = Tree::new(own_beside_three(), &SIXTY, at_most(40, 300), 30);
    tree.finish();
    tree.check_end();
    assert_eq!((tree.sim.run.status, tree.sim.run.cause), (Status::Paused, Some(Cause::Limit)));
}

/// A limit that only warns keeps nobody waiting.
#[test]
fn a_warning_does_not_wait() {
    let warned = Policies::default().with(Limit::ToolCalls, Policy::Warn).unwrap();
    let policies = Some(warned.with(Limit::Steps, Policy::Warn).unwrap());
    let limits = Limits { policies, ..at_most(40, 40) };
    let mut tree = Tree::new(own_beside_three(), &SIXTY, limits, 1);
    while !tree.sim.effects.is_empty() {
        tree.own();
    }
    assert_eq!(tree.sim.run.plan.steps[0].output.as_deref(), Some("turn 61"));
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Act {
    Own,
    Work,
    Complete,
    Fail,
    Wait,
    Answer,
    Park,
    Die,
    Pause,
    Start,
}

fn acts() -> impl Strategy<Value = Vec<(Act, prop::sample::Index)>> {
    let act = prop_oneof![
        20 => Just(Act::Own), 20 => Just(Act::Work), 2 => Just(Act::Complete), 1 => Just(Act::Fail), 1 => Just(Act::Wait),
        1 => Just(Act::Answer), 1 => Just(Act::Park), 2 => Just(Act::Die), 1 => Just(Act::Pause), 3 => Just(Act::Start),
    ];
    prop::collection::vec((act, any::<prop::sample::Index>()), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// AI8, AD5: whatever happens to a run that works beside its sub-agents, all of them together never have more calls or turns
    /// than there are, none waits for somebody who cannot move, and the run rests at a limit only when nothing of it is left.
    #[test]
    fn a_tree_never_has_more_than_there_is(
        calls in 0u32..60,
        turns in 1u32..80,
        needs in 0u32..12,
        kids in 0usize..6,
        asked in prop::collection::vec(prop::sample::select(vec![
            &["bash"][..], &["write"], &["read", "write"], &["spawn"], &["spawn", "spawn", "bash"], &["bash", "spawn"],
        ]), 0..12),
        acts in acts(),
    ) {
        let mut steps = vec![step("own", "MARS", &[]), step("then", "MARS", &["own"])];
        steps.extend((0..kids).map(|kid| step(&format!("k{kid}"), "PLUTO", &[])));
        let mut tree = Tree::new(steps, &asked, at_most(calls, turns), needs);
        for (act, index) in acts {
            tree.check();
            if tree.sim.run.status.is_terminal() {
                break;
            }
            let (at_work, waiting) = (tree.of(At::Work), tree.of(At::Wait));
            let one = |of: &[u32]| (!of.is_empty()).then(|| of[index.index(of.len())]);
            let running = tree.sim.run.status == Status::Running;
            match (act, one(&at_work)) {
                (Act::Own, _) => tree.own(),
                (Act::Work, Some(kid)) => tree.work(kid),
                (Act::Complete, Some(kid)) => {
                    tree.rest(kid, At::Rest, ChildEnding::Completed { output: "early".to_owned() });
                }
                (Act::Fail, Some(kid)) => {
                    tree.rest(kid, At::Rest, ChildEnding::Failed { error: "broke".to_owned() });
                }
                (Act::Wait, Some(kid)) => tree.rest(kid, At::Wait, ChildEnding::Waiting),
                (Act::Park, Some(kid)) => {
                    let (cause, reason) = (Cause::Parked, "no key".to_owned());
                    tree.rest(kid, At::Rest, ChildEnding::Paused { cause, reason });
                }
                (Act::Answer, _) => if let Some(number) = one(&waiting).filter(|_| running) {
                    tree.sim.give(Input::ChildAnswered { number }).unwrap();
                    tree.settle();
                },
                (Act::Die, _) => tree.die(),
                (Act::Pause, _) if running => {
                    tree.sim.wish(Wish::Pause { reason: "for a while".to_owned() }).unwrap();
                    tree.settle();
                }
                (Act::Start, _) if !running => {
                    tree.sim.start().unwrap();
                    tree.settle();
                }
                (Act::Work | Act::Complete | Act::Fail | Act::Wait | Act::Park | Act::Pause | Act::Start, _) => {}
            }
        }
        tree.finish();
        tree.check_end();
    }
}
