//! Limits and what reaching them leads to: a warning, a pause, the end, or a fresh conversation.

use longhaul_core::budget::{Exhausted, Scope};
use longhaul_core::command::Wish;
use longhaul_core::conduct::{Checks, Conduct, Judge, Looping};
use longhaul_core::decide::Refusal;
use longhaul_core::effect::{Effect, Wake};
use longhaul_core::event::{Cause, Event, FreshStart};
use longhaul_core::input::Input;
use longhaul_core::plan::{Step, StepStatus};
use longhaul_core::policy::{Limit, Policies, Policy};
use longhaul_core::spec::{Limits, RunSpec};
use longhaul_core::status::Status;

use super::errands::crew_spec;
use super::sim::{Sim, World, spec};

fn policies(limit: Limit, policy: Policy) -> Option<Policies> {
    Some(Policies::default().with(limit, policy).unwrap())
}

fn limited(limits: Limits) -> Sim {
    Sim::create(RunSpec { limits, ..spec() })
}

fn passed(sim: &Sim) -> Vec<&str> {
    let mut passed = Vec::new();
    for (_, _, event) in &sim.journal {
        if let Event::LimitPassed { limit, .. } = event {
            passed.push(limit.as_str());
        }
    }
    passed
}

/// Each of these limits is reached in the middle of the work.
fn tight(limit: Limit, policies: Option<Policies>) -> Limits {
    let base = Limits { policies, ..Limits::default() };
    match limit {
        Limit::Steps => Limits { max_steps: 2, ..base },
        Limit::Tokens => Limits { max_tokens: Some(25), ..base },
        Limit::ToolCalls => Limits { max_tool_calls: 1, ..base },
        Limit::IterationSteps => Limits { max_iteration_steps: Some(2), ..base },
        Limit::IterationTokens => Limits { max_iteration_tokens: Some(20), ..base },
        Limit::Cost | Limit::Timeout | Limit::Iterations | Limit::IterationCost => base,
    }
}

const TIGHT: [Limit; 5] =
    [Limit::Steps, Limit::Tokens, Limit::ToolCalls, Limit::IterationSteps, Limit::IterationTokens];

fn world() -> World {
    World::with_turns(&[&["read"], &["write"], &["read"], &["bash"]])
}

/// The whole work, one step at a time under each policy.
#[test]
fn a_limit_that_warns_is_told_once_and_the_work_goes_on() {
    for limit in TIGHT {
        let mut sim = limited(tight(limit, policies(limit, Policy::Warn)));
        sim.start().unwrap();
        let mut world = world();
        sim.settle(&mut world);
        assert_eq!((sim.run.status, sim.run.turns), (Status::Completed, 5), "{limit}: {:?}", sim.run.reason);
        assert_eq!((passed(&sim), world.ran.len()), (vec![limit.as_str()], 4), "{limit}");
    }
}

#[test]
fn a_limit_that_stops_ends_the_run_with_its_name() {
    for limit in TIGHT {
        let mut sim = limited(tight(limit, policies(limit, Policy::Stop)));
        sim.start().unwrap();
        sim.settle(&mut world());
        assert_eq!((sim.run.status, sim.run.cause), (Status::Failed, Some(Cause::Limit)), "{limit}");
        let reason = sim.run.reason.clone().unwrap();
        assert!(reason.starts_with(&format!("{limit} reached: ")), "{reason}");
        assert!(sim.effects.is_empty(), "{limit}: {:?}", sim.effects);
    }
}

/// Without a word a limit of the run pauses it, and one of a conversation begins a fresh one.
#[test]
fn a_limit_pauses_or_begins_anew_by_itself() {
    for limit in TIGHT {
        let mut sim = limited(tight(limit, None));
        sim.start().unwrap();
        sim.settle(&mut world());
        let restarts = sim
            .journal
            .iter()
            .filter(|(_, _, event)| matches!(event, Event::IterationStarted { why: FreshStart::Limit, .. }));
        let restarts = restarts.count();
        if limit.is_of_one_iteration() {
            // The same script is played again: nothing comes of it, and a person is asked.
            assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Stuck)), "{limit}");
            assert_eq!(restarts, 10, "{limit}");
            assert!(sim.run.reason.as_ref().unwrap().starts_with("no_progress: "), "{:?}", sim.run.reason);
        } else {
            assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Limit)), "{limit}");
            assert_eq!(restarts, 0, "{limit}");
        }
    }
}

/// A loop's iteration that is too long is followed by the next; its last one ends the loop.
#[test]
fn a_loop_begins_anew_at_the_limit_of_an_iteration() {
    let looping = Looping { max_iterations: 3, ..Looping::default() };
    let conduct = Conduct { looping: Some(looping), ..Conduct::default() };
    let limits = Limits { max_iteration_steps: Some(2), ..Limits::default() };
    let mut sim = Sim::create(RunSpec { limits, conduct: Some(Box::new(conduct)), ..spec() });
    sim.start().unwrap();
    sim.settle(&mut world());
    assert_eq!((sim.run.status, sim.run.iteration, sim.run.turns), (Status::Failed, 3, 6));
    assert_eq!(sim.run.reason.as_deref(), Some("max_iterations"));
    let first = format!("{:?}", sim.run.messages[0]);
    assert!(first.contains("reached the limit for one conversation"), "{first}");
}

/// B7.5 with a policy: a loop out of iterations waits for more of them instead of failing.
#[test]
fn a_loop_may_pause_at_its_last_iteration() {
    let looping = Looping { max_iterations: 2, ..Looping::default() };
    let conduct = Conduct { looping: Some(looping.clone()), ..Conduct::default() };
    let limits = Limits { policies: policies(Limit::Iterations, Policy::Pause), ..Limits::default() };
    let mut sim = Sim::create(RunSpec { limits, conduct: Some(Box::new(conduct)), ..spec() });
    let mut world = World { says: vec!["a", "b", "c", "TASK_COMPLETE"], ..World::with_turns(&[]) };
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Limit)));
    let reason = sim.run.reason.clone().unwrap();
    assert_eq!(reason, "max_iterations reached: 2 of 2 used without the promise `TASK_COMPLETE`");
    let looping = Some(Looping { max_iterations: 9, ..looping });
    sim.wish(Wish::Start { limits: None, model: None, looping }).unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, sim.run.iteration), (Status::Completed, 4));
}

/// D1.3: the time of a run, under each policy that it can have.
#[test]
fn time_that_is_up_warns_pauses_or_stops() {
    for (policy, status) in
        [(Policy::Warn, Status::Running), (Policy::Pause, Status::Paused), (Policy::Stop, Status::Failed)]
    {
        let policies = policies(Limit::Timeout, policy);
        let mut sim = limited(Limits { timeout_ms: Some(10_000), policies, ..Limits::default() });
        sim.start().unwrap();
        sim.effects.retain(|effect| !matches!(effect, Effect::Sleep { .. }));
        // The first turn's call is under way when the time is up.
        sim.step(&mut World::with_turns(&[&["bash"]]));
        assert_eq!(sim.run.calls_started, 1);
        sim.now = sim.now.plus_millis(11_000);
        sim.give(Input::Woke(Wake::Deadline)).unwrap();
        sim.give(Input::Woke(Wake::Deadline)).unwrap();
        assert_eq!(sim.run.status, status, "{policy}");
        let told = usize::from(policy == Policy::Warn);
        assert_eq!(passed(&sim).len(), told, "{policy}");
        assert_eq!(sim.run.open_call().is_none(), policy == Policy::Stop, "{policy}");
        // What was under way is called off, unless it was only a warning.
        assert_eq!(sim.effects.is_empty(), policy != Policy::Warn, "{policy}");
    }
}

/// A warning of a limit that is raised afterwards is given anew; one of a conversation with every conversation.
#[test]
fn a_warning_is_told_anew_when_the_limit_is_another() {
    let limits = tight(Limit::Steps, policies(Limit::Steps, Policy::Warn));
    let mut sim = limited(limits);
    sim.start().unwrap();
    let mut world = world();
    while passed(&sim).is_empty() {
        sim.step(&mut world);
    }
    sim.wish(Wish::Pause { reason: "p".to_owned() }).unwrap();
    sim.settle(&mut world);
    let limits = Some(Limits { max_steps: 4, ..limits });
    sim.wish(Wish::Start { limits, model: None, looping: None }).unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, passed(&sim)), (Status::Completed, vec!["max_steps"; 2]));
}

/// A reply whose calls are all refused is counted before the next question, not after it.
#[test]
fn what_the_last_reply_used_counts_at_once() {
    let mut sim = limited(Limits { max_tokens: Some(22), ..Limits::default() });
    sim.start().unwrap();
    sim.settle(&mut World::with_turns(&[&["unheard_of"], &["unheard_of"], &["unheard_of"]]));
    assert_eq!((sim.run.status, sim.run.turns), (Status::Paused, 2));
    assert_eq!(sim.run.reason.as_deref(), Some("max_tokens reached: 22 of 22 used"));
}

/// A budget of all runs pauses this one before anything is asked, names itself, and the same question is asked on resume.
#[test]
fn a_budget_of_all_runs_pauses_before_the_question() {
    let mut sim = limited(Limits::default());
    sim.start().unwrap();
    let (spent, max) = ("$5.00".to_owned(), "$5.00".to_owned());
    let exhausted = Exhausted { scope: Scope::Day, limit: "max_cost", spent, max };
    sim.give(Input::OutOfBudget(exhausted.clone())).unwrap();
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Limit)));
    assert_eq!(
        sim.run.reason.as_deref(),
        Some(
            "day_budget: day.max_cost reached: $5.00 of $5.00 used today (UTC) by all runs here; raise \
             harness.budget.day.max_cost, or resume tomorrow"
        )
    );
    let events = sim.journal.len();
    sim.give(Input::OutOfBudget(exhausted)).unwrap();
    assert_eq!(sim.journal.len(), events, "a run that rests is not paused again");
    sim.effects.clear();
    sim.start().unwrap();
    sim.settle(&mut world());
    assert_eq!((sim.run.status, sim.run.turns), (Status::Completed, 5));
}

/// F47: a workspace that is gone pauses the run before the question, and the same is asked on resume.
#[test]
fn a_workspace_that_is_gone_pauses_before_the_question() {
    let mut sim = limited(Limits::default());
    sim.start().unwrap();
    let gone = || Input::WorkspaceGone { why: "workspace_gone: it was moved".to_owned() };
    sim.give(gone()).unwrap();
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Parked)));
    assert_eq!(sim.run.reason.as_deref(), Some("workspace_gone: it was moved"));
    let events = sim.journal.len();
    sim.give(gone()).unwrap();
    assert_eq!(sim.journal.len(), events, "a run that rests is not paused again");
    sim.effects.clear();
    sim.start().unwrap();
    sim.settle(&mut world());
    assert_eq!((sim.run.status, sim.run.turns), (Status::Completed, 5));
}

/// What must hold can be changed while nobody drives the run, and holds from then on; the same again is not remembered.
#[test]
fn checks_can_be_changed() {
    let mut sim = limited(Limits::default());
    sim.start().unwrap();
    sim.wish(Wish::Pause { reason: "p".to_owned() }).unwrap();
    let judge = Judge { model: "p/judge".to_owned(), acceptance: Vec::new() };
    let checks = Checks { verify: Some(vec!["make test".to_owned()]), judge: Some(judge) };
    sim.give(Input::ChecksChanged { checks: checks.clone() }).unwrap();
    let events = sim.journal.len();
    sim.give(Input::ChecksChanged { checks }).unwrap();
    assert_eq!(sim.journal.len(), events);
    sim.effects.clear();
    sim.start().unwrap();
    let mut world = World {
        passes: vec![false, true],
        asides: Some(r#"{"accepted": true, "reasons": []}"#.to_owned()),
        ..World::with_turns(&[])
    };
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed);
    let asked = sim.journal.iter().filter(|(_, _, event)| matches!(event, Event::AsideEnded { .. }));
    assert_eq!((sim.run.examinations, asked.count()), (2, 1));
    // What has ended stays as it was.
    let events = sim.journal.len();
    sim.give(Input::ChecksChanged { checks: Checks { verify: Some(vec![]), judge: None } }).unwrap();
    assert_eq!(sim.journal.len(), events);
}

fn start_with(sim: &mut Sim, limits: Limits) -> Result<(), Refusal> {
    sim.wish(Wish::Start { limits: Some(limits), model: None, looping: None })
}

/// A run that was to stop is opened again only by more of what it ran out of: anything else would only fail anew.
#[test]
fn only_more_of_what_was_used_up_opens_a_stopped_run() {
    for limit in [Limit::Steps, Limit::Tokens] {
        let tight = tight(limit, policies(limit, Policy::Stop));
        let mut sim = limited(tight);
        sim.start().unwrap();
        sim.settle(&mut world());
        assert_eq!(sim.run.stopped_at(), Some(limit));
        let other = Limits { max_tool_calls: 500, ..tight };
        let lower = Limits { max_steps: 1, max_tokens: tight.max_tokens.map(|max| max - 1), ..tight };
        for useless in [tight, other, lower] {
            let before = sim.journal.len();
            assert!(start_with(&mut sim, useless).is_err(), "{limit}: {useless:?}");
            assert_eq!(sim.journal.len(), before, "{limit}");
        }
        let warned = Limits { policies: policies(limit, Policy::Warn), ..tight };
        let more = Limits { max_steps: 90, max_tokens: tight.max_tokens.map(|_| 9000), ..tight };
        for enough in [warned, more] {
            let mut sim = Sim { commands: sim.commands, ..sim.reopened_at(sim.journal.len()) };
            start_with(&mut sim, enough).unwrap();
            sim.settle(&mut world());
            assert_eq!(sim.run.status, Status::Completed, "{limit}: {:?}", sim.run.reason);
        }
    }
}

/// A limit that is met where one step ends and the next begins fails that next one, with which the run goes on then.
#[test]
fn a_run_stopped_between_two_steps_goes_on_with_the_second() {
    let second = Step { dependencies: vec!["a".to_owned()], ..Step::new("b", "then that", "MARS") };
    let steps = vec![Step::new("a", "first this", "MARS"), second];
    let limits = Limits { max_steps: 1, policies: policies(Limit::Steps, Policy::Stop), ..Limits::default() };
    let mut sim = Sim::create(RunSpec { limits, ..crew_spec(steps) });
    sim.start().unwrap();
    sim.settle(&mut World::with_turns(&[]));
    let statuses =
        |sim: &Sim| -> Vec<StepStatus> { sim.run.plan.steps.iter().map(|step| step.status).collect() };
    assert_eq!(statuses(&sim), [StepStatus::Completed, StepStatus::Failed]);
    start_with(&mut sim, Limits { max_steps: 9, ..limits }).unwrap();
    sim.settle(&mut World::with_turns(&[]));
    assert_eq!(sim.run.status, Status::Completed, "{:?}", sim.run.reason);
    assert_eq!(statuses(&sim), [StepStatus::Completed, StepStatus::Completed]);
}

/// The same where no step was in the run's own hand: what others were to do is given to them again.
#[test]
fn a_run_stopped_before_an_errand_sends_it_then() {
    let second = Step { dependencies: vec!["a".to_owned()], ..Step::new("b", "then that", "PLUTO") };
    let steps = vec![Step::new("a", "first this", "MARS"), second];
    // The one reply takes ten tokens, and the next would take as many.
    let limits =
        Limits { max_tokens: Some(15), policies: policies(Limit::Tokens, Policy::Stop), ..Limits::default() };
    let mut sim = Sim::create(RunSpec { limits, ..crew_spec(steps) });
    sim.start().unwrap();
    sim.settle(&mut World::with_turns(&[]));
    assert_eq!((sim.run.status, sim.run.stopped_at()), (Status::Failed, Some(Limit::Tokens)));
    assert!(sim.run.children.is_empty());
    start_with(&mut sim, Limits { max_tokens: Some(900), ..limits }).unwrap();
    sim.settle(&mut World::with_turns(&[]));
    assert_eq!(sim.run.status, Status::Completed, "{:?}", sim.run.reason);
    assert_eq!(sim.run.children.len(), 1);
}

/// B8.1, B8.3: what sums an iteration up is asked only if there is enough left for it.
#[test]
fn a_summariser_is_asked_within_the_budget() {
    for max in 10..200 {
        let looping =
            Looping { max_iterations: 9, summarizer: Some("x/cheap".to_owned()), ..Looping::default() };
        let conduct = Conduct { looping: Some(looping), ..Conduct::default() };
        let limits = Limits { max_tokens: Some(max), ..Limits::default() };
        let mut sim = Sim::create(RunSpec { limits, conduct: Some(Box::new(conduct)), ..spec() });
        sim.start().unwrap();
        sim.settle(&mut World { asides: Some("so far".to_owned()), ..World::with_turns(&[]) });
        let used = sim.run.usage.tokens();
        // The first reply of all is asked for whatever it may take.
        assert!(used <= max || sim.run.turns == 1, "{used} of {max}");
    }
}
