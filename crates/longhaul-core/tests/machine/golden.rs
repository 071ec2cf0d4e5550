//! One sample of every event ever written, byte for byte. Changing a line of the golden file is a migration.

use expect_test::expect_file;
use longhaul_core::child::{ChildLedger, Errand, Origin, child_id};
use longhaul_core::codec::{self, Error, KINDS, VERSION};
use longhaul_core::collaboration::{Collaboration, Isolation, Strategy, Way};
use longhaul_core::command::Wish;
use longhaul_core::conduct::{
    Checks, Compaction, Conduct, Judge, Looping, Protect, ProtectPolicy, Surroundings,
};
use longhaul_core::context::Shortening;
use longhaul_core::conversation::{ModelFailureKind, ProposedCall, Raw, Stop, Usage};
use longhaul_core::event::{
    Aside, Ask, AskKind, Brought, Cause, Event, FreshStart, Kept, Moment, Purpose, Rest, StopAction, Stored,
};
use longhaul_core::evidence::{Check, Examination, Features, ProtectedChange};
use longhaul_core::ids::{Attempt, CallId, CommandId};
use longhaul_core::json::Json;
use longhaul_core::money::Usd;
use longhaul_core::permission::Permissions;
use longhaul_core::plan::{Plan, Step};
use longhaul_core::policy::{Policies, Policy};
use longhaul_core::repetition::{Remedy, Repetition};
use longhaul_core::spec::{Caps, GitSource, Limits, Mate, Planner, RunSpec};
use longhaul_core::status::Status;
use longhaul_core::time::Timestamp;
use longhaul_core::tool::{EffectClass, Failure, Image, Outcome, Output, Trace};

use super::sim::spec;

pub fn samples() -> Vec<Event> {
    let call = CallId(3);
    let attempt = Attempt(2);
    let rest = Rest { until: Timestamp::from_millis(1_771_581_600_000), delay_ms: 4000 };
    let usage = Usage {
        input_tokens: 1200,
        output_tokens: 60,
        cache_read_tokens: 7,
        cache_write_tokens: 8,
        cost: Usd::from_nanos(4_500_000),
        unpriced_tokens: 9,
        estimated_tokens: 0,
    };
    let output =
        Output { text: "head…".into(), blob: Some("ab12".to_owned()), bytes: 70_000, ..Output::default() };
    let trace =
        Trace { target: "src/lib.rs".to_owned(), before: "absent".to_owned(), after: "cd34".to_owned() };
    let text = || "text".to_owned();
    let ledger = ChildLedger { usage, calls: 4, turns: 5 };
    vec![
        Event::RunCreated(Box::new(spec())),
        Event::RunCreated(Box::new(RunSpec { permissions: Some(vec![rules()]), ..spec() })),
        Event::RunCreated(Box::new(RunSpec { conduct: Some(Box::new(conduct())), ..spec() })),
        Event::RunCreated(Box::new(RunSpec {
            parallel: Some(3),
            crew: Some(vec![Mate { name: text(), role: text() }]),
            planner: Some(Box::new(Planner { model: Some(text()), prompt: text() })),
            plan: verified(),
            ..spec()
        })),
        Event::RunCreated(Box::new(RunSpec {
            base: Some(text()),
            carried: Some(true),
            auto_commit: Some(true),
            ..spec()
        })),
        Event::RunCreated(Box::new(RunSpec {
            base: Some(text()),
            source: Some(Box::new(GitSource {
                url: text(),
                reference: Some(text()),
                depth: Some(1),
                store: text(),
            })),
            ..spec()
        })),
        Event::RunCreated(Box::new(RunSpec {
            collaboration: Some(Box::new(Collaboration {
                way: Way::Parallel,
                working_branch: Some(text()),
                strategy: Strategy::PerAgent,
                family: text(),
            })),
            workflow_run: Some(text()),
            isolation: Some(Isolation::PerRun),
            ..spec()
        })),
        Event::RunCreated(Box::new(RunSpec { base: Some(text()), baseline_of: Some(spec().id), ..spec() })),
        Event::RunCreated(Box::new(RunSpec {
            agent_caps: Some(Caps { max_tokens: Some(1), max_cost: Some(Usd::from_nanos(2)) }),
            ..spec()
        })),
        Event::RunCreated(Box::new(RunSpec { begun_with: Some(text()), ..spec() })),
        Event::StatusChanged {
            from: Status::Running,
            to: Status::Paused,
            cause: Cause::Limit,
            reason: Some(text()),
        },
        Event::StatusChanged {
            from: Status::Running,
            to: Status::Paused,
            cause: Cause::Stuck,
            reason: Some(text()),
        },
        Event::CommandApplied {
            command: CommandId::from_bits(1),
            wish: Wish::Start { limits: Some(Limits::default()), model: None, looping: None },
        },
        Event::CommandApplied { command: CommandId::from_bits(2), wish: Wish::Pause { reason: text() } },
        Event::CommandApplied { command: CommandId::from_bits(3), wish: Wish::Stop { reason: text() } },
        Event::CommandApplied {
            command: CommandId::from_bits(4),
            wish: Wish::Approve { gate: 1, digest: None },
        },
        Event::CommandApplied {
            command: CommandId::from_bits(4),
            wish: Wish::Approve { gate: 1, digest: Some(text()) },
        },
        Event::CommandApplied {
            command: CommandId::from_bits(4),
            wish: Wish::Answer { gate: 1, text: text() },
        },
        Event::CommandApplied {
            command: CommandId::from_bits(5),
            wish: Wish::Reject { gate: 1, reason: text() },
        },
        Event::CommandApplied { command: CommandId::from_bits(7), wish: Wish::Plan },
        Event::CommandApplied { command: CommandId::from_bits(8), wish: Wish::Replan { plan: verified() } },
        Event::CommandApplied { command: CommandId::from_bits(9), wish: Wish::Checkpoint { name: text() } },
        Event::GateChecked { step: 1, required: true },
        Event::WaitingForHuman { gate: 1, step: 1, ask: None, digest: None },
        Event::WaitingForHuman {
            gate: 1,
            step: 1,
            ask: Some(Ask { call, kind: AskKind::Question, text: text(), digest: text() }),
            digest: None,
        },
        Event::WaitingForHuman { gate: 1, step: 1, ask: None, digest: Some(text()) },
        Event::GateAnswered { gate: 1, approved: false, reason: Some(text()), waited_ms: 9, answer: None },
        Event::GateAnswered { gate: 1, approved: true, reason: None, waited_ms: 9, answer: Some(text()) },
        Event::StepStarted { step: 1 },
        Event::TurnStarted { turn: 4, attempt },
        Event::ModelReplied {
            turn: 4,
            attempt,
            text: text(),
            calls: vec![ProposedCall::new("read", Json::empty_object())],
            usage,
            duration_us: 1500,
            raw: None,
            stop: None,
            window: None,
        },
        Event::ModelReplied {
            turn: 4,
            attempt,
            text: text(),
            calls: vec![ProposedCall {
                provider_id: Some("toolu_1".to_owned()),
                malformed: Some(text()),
                ..ProposedCall::new("read", Json::empty_object())
            }],
            usage,
            duration_us: 1500,
            raw: Some(Raw { model: text(), api: text(), content: Json::empty_object() }),
            stop: Some(Stop::Length),
            window: None,
        },
        Event::ModelReplied {
            turn: 4,
            attempt,
            text: text(),
            calls: Vec::new(),
            usage,
            duration_us: 1500,
            raw: None,
            stop: None,
            window: Some(200_000),
        },
        Event::ModelReplied {
            turn: 4,
            attempt,
            text: text(),
            calls: Vec::new(),
            usage: Usage { estimated_tokens: 5, ..usage },
            duration_us: 1500,
            raw: None,
            stop: None,
            window: None,
        },
        Event::TurnFailed {
            turn: 4,
            attempt,
            message: text(),
            retry: Some(rest),
            kind: Some(ModelFailureKind::RateLimited),
            until: Some(Timestamp::from_millis(1_771_581_600_000)),
            usage: Some(usage),
            garbled: None,
        },
        Event::TurnFailed {
            turn: 4,
            attempt,
            message: text(),
            retry: Some(rest),
            kind: Some(ModelFailureKind::Broken),
            until: None,
            usage: None,
            garbled: Some(true),
        },
        Event::CallRefused { call, failure: Failure::NotPermitted, message: text() },
        Event::CallStarted { call, attempt, class: EffectClass::Checkable, traces: vec![trace] },
        Event::CallFinished {
            call,
            attempt,
            outcome: Outcome::Done { output: output.clone() },
            duration_us: 10,
        },
        Event::CallFinished {
            call,
            attempt,
            outcome: Outcome::Failed { failure: Failure::Timeout, message: text(), output },
            duration_us: 10,
        },
        Event::CallFinished { call, attempt, outcome: Outcome::Unknown { message: text() }, duration_us: 10 },
        Event::CallFinished {
            call,
            attempt,
            outcome: Outcome::Done { output: Output::text("seen").showing(vec![image()]) },
            duration_us: 10,
        },
        Event::CallRetryScheduled { call, attempt, message: text(), rest },
        Event::ToolFailed { call, message: text() },
        Event::StepCompleted { step: 1, output: text() },
        Event::StepFailed { step: 1, error: text() },
        Event::PlanCompleted,
        Event::Checkpointed { number: 12 },
        Event::Recovered { generation: 3 },
        Event::LimitReached { limit: text(), spent: "2".to_owned(), max: "2".to_owned() },
        Event::LimitsChanged {
            limits: Limits { max_tokens: Some(1), max_cost: Some(Usd::from_nanos(5)), ..Limits::default() },
        },
        Event::LimitsChanged {
            limits: Limits {
                policies: Some(Policies { max_cost: Some(Policy::Stop), ..Policies::default() }),
                max_iteration_steps: Some(2),
                max_iteration_tokens: Some(3),
                max_iteration_cost: Some(Usd::from_nanos(4)),
                ..Limits::default()
            },
        },
        Event::LimitsChanged { limits: Limits { max_child_idle_ms: Some(5), ..Limits::default() } },
        Event::PersistenceFellBack { reason: text() },
        Event::Imported { document: Json::empty_object(), spec: Box::new(spec()) },
        Event::ModelChanged { model: text(), why: Some(text()) },
        Event::CommandDropped { command: CommandId::from_bits(6), why: text() },
        Event::SchemaUpgraded { from: 1, to: 2 },
        Event::Contained { by: text() },
        Event::AgentStopped { turn: 4, action: StopAction::Restart, why: Some(text()) },
        Event::ExamineStarted {
            turn: 4,
            round: 2,
            attempt,
            purpose: Purpose::FreshStart { why: FreshStart::Context },
        },
        Event::ExamineStarted { turn: 4, round: 2, attempt, purpose: Purpose::Claim },
        Event::ExamineStarted { turn: 0, round: 2, attempt, purpose: Purpose::Whole },
        Event::Examined { round: 2, attempt, found: Box::new(examination()) },
        Event::Examined {
            round: 3,
            attempt,
            found: Box::new(Examination { diff: Some(text()), ..Examination::default() }),
        },
        Event::IterationStarted { number: 2, why: FreshStart::NoPromise, note: Some(text()) },
        Event::IterationStarted { number: 3, why: FreshStart::Limit, note: None },
        Event::AsideStarted { aside: Aside::Compaction { before: 9 }, turn: 4, attempt },
        Event::AsideStarted { aside: Aside::Iteration { why: FreshStart::Refuted }, turn: 4, attempt },
        Event::AsideStarted { aside: Aside::Planning { round: 2 }, turn: 1, attempt },
        Event::AsideEnded {
            aside: Aside::Judgement,
            attempt,
            model: text(),
            text: Some(text()),
            error: Some(text()),
            usage: Some(usage),
            retry: None,
            kind: None,
        },
        Event::AsideEnded {
            aside: Aside::Planning { round: 1 },
            attempt,
            model: text(),
            text: None,
            error: Some(text()),
            usage: None,
            retry: Some(rest),
            kind: Some(ModelFailureKind::RateLimited),
        },
        Event::Compacted {
            shortening: Shortening::Outputs { before: 3 },
            tokens_before: 9,
            tokens_after: 5,
            futile: false,
        },
        Event::Compacted {
            shortening: Shortening::Summary { before: 3, text: text() },
            tokens_before: 9,
            tokens_after: 5,
            futile: true,
        },
        Event::Compacted {
            shortening: Shortening::Fit { from: 3, bytes: 400 },
            tokens_before: 9,
            tokens_after: 5,
            futile: false,
        },
        Event::DoomLoop { repetition: Repetition::SameCall, remedy: Remedy::Nudge, tool: text(), count: 3 },
        Event::DoomLoop {
            repetition: Repetition::NothingNew,
            remedy: Remedy::Nudge,
            tool: text(),
            count: 15,
        },
        Event::DoomLoop { repetition: Repetition::AllFail, remedy: Remedy::Pause, tool: text(), count: 30 },
        Event::LoopChanged { looping: looping() },
        Event::Told { text: text() },
        Event::ChildSpawned(Box::new(errand(Origin::Step { step: 1 }))),
        Event::ChildSpawned(Box::new(errand(Origin::Call { call }))),
        Event::ChildRested { number: 1, paused: Some(Cause::Limit), reason: Some(text()), ledger },
        Event::ChildRested { number: 1, paused: None, reason: None, ledger },
        Event::ChildResumed { number: 1, limits: Some(Limits::default()), model: None },
        Event::ChildResumed { number: 1, limits: None, model: Some(text()) },
        Event::ChildEnded { number: 1, error: Some(text()), ledger },
        Event::PlanMade { plan: verified() },
        Event::PlanRefused { why: text() },
        Event::LimitPassed { limit: text(), spent: text(), max: text() },
        Event::ChecksChanged {
            checks: Checks {
                verify: Some(vec![text()]),
                judge: Some(Judge { model: text(), acceptance: vec![text()] }),
            },
        },
        Event::WorkKept { steps: 2, kept: Kept::Committed { commit: text(), branch: Some(text()) } },
        Event::WorkKept { steps: 2, kept: Kept::Unchanged { head: None } },
        Event::WorkKept { steps: 2, kept: Kept::Unchanged { head: Some(text()) } },
        Event::WorkKept { steps: 3, kept: Kept::Uncommitted { why: text() } },
        Event::FilesStored { stored: Stored::Tree { tree: text(), left_out: 1 }, moment: Moment::Now },
        Event::FilesStored { stored: Stored::Failed { why: text() }, moment: Moment::BeforeFirst },
        Event::CheckpointNamed { number: 2, name: text() },
        Event::Reopened,
        Event::SetUpStarted { commands: vec![text()] },
        Event::SetUpEnded { error: Some(text()), duration_us: 9 },
        Event::SetUpEnded { error: None, duration_us: 9 },
        Event::SpentBefore { usage },
        Event::CheckpointGuarded { number: 3, name: text(), call: CallId(2), command: text() },
        Event::ChildHeld { number: 1 },
        Event::TornTailCut { bytes: 7 },
        Event::DerivedFailed { file: text(), why: text() },
        Event::BranchesBrought { branches: vec![Brought { branch: text(), commit: text() }] },
        Event::BranchNotBrought { why: text() },
        Event::WorkspaceMended { parts: vec![text()] },
        Event::BranchesComplete,
    ]
}

fn image() -> Image {
    Image {
        blob: "ab12".to_owned(),
        media_type: "image/png".to_owned(),
        width: 640,
        height: 480,
        bytes: 12_000,
    }
}

fn verified() -> Plan {
    let step = Step { verify: Some(vec!["make test".to_owned()]), ..Step::new("a", "do it", "MARS") };
    Plan { steps: vec![step] }
}

fn errand(origin: Origin) -> Errand {
    let id = child_id(&spec().id, 2).unwrap();
    let (agent, task) = ("PLUTO".to_owned(), "look".to_owned());
    Errand { number: 2, id, agent, task, origin, attempt: Attempt(2), limits: Limits::default() }
}

fn looping() -> Looping {
    Looping { summarizer: Some("p/m".to_owned()), features: Some(true), ..Looping::default() }
}

fn conduct() -> Conduct {
    Conduct {
        looping: Some(looping()),
        verify: vec!["true".to_owned()],
        protect: Some(Protect { globs: vec!["tests/**".to_owned()], policy: ProtectPolicy::Refuse }),
        compaction: Some(Compaction { summarizer: Some("p/m".to_owned()), ..Compaction::default() }),
        repeats_max: Some(5),
        judge: Some(Judge { model: "p/m".to_owned(), acceptance: vec!["it works".to_owned()] }),
        plain: Some(false),
        surroundings: Some(Surroundings {
            environment: "linux".to_owned(),
            rules: Some("be kind".to_owned()),
            rule_files: vec!["AGENTS.md".to_owned()],
        }),
    }
}

fn examination() -> Examination {
    let text = || "text".to_owned();
    let check = Check {
        command: text(),
        passed: true,
        ended: text(),
        output: "text".into(),
        blob: Some("ab12".to_owned()),
        duration_us: 9,
    };
    Examination {
        tree: Some(text()),
        checks: vec![check],
        handoff: Some(text()),
        warnings: vec![text()],
        protected: vec![ProtectedChange { path: text(), what: text(), undone: true, kept: None }],
        features: Some(Features { passing: 1, total: 2, restored: vec![text()], list: Some(text()) }),
        changes: Some(text()),
        baseline: Some(text()),
        commit: Some(text()),
        tree_after: None,
        diff: None,
    }
}

fn rules() -> Permissions {
    serde_json::from_str(r#"{"bash":{"*":"allow","git push *":"ask","rm *":"deny"},"write":"ask"}"#).unwrap()
}

/// A2.3, F18: every event ever written is still written the same and still read the same.
#[test]
fn every_event_keeps_its_bytes() {
    let mut kinds: Vec<u16> = samples().iter().map(Event::kind).collect();
    kinds.dedup();
    assert_eq!(kinds, KINDS.into_iter().flatten().collect::<Vec<_>>(), "one sample for each kind at least");
    let mut lines = String::new();
    for event in samples() {
        let bytes = codec::encode(&event);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        lines.push_str(&format!("{} {VERSION} {hex}\n", event.kind()));
        assert_eq!(codec::decode(1, event.kind(), VERSION, &bytes), Ok(event));
    }
    expect_file!["../golden/events-v2.txt"].assert_eq(&lines);
}

/// A2.5, F18: every event that schema version 1 ever wrote is read, and what it meant then it means now.
#[test]
fn events_of_version_1_are_read() {
    let mut read = Vec::new();
    for line in include_str!("../golden/events-v1.txt").lines() {
        let mut fields = line.split(' ');
        let mut number = || fields.next().unwrap().parse::<u16>().unwrap();
        let (kind, version) = (number(), number());
        let hex = fields.next().unwrap();
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        assert_eq!(version, 1);
        read.push(codec::decode(1, kind, version, &bytes).unwrap());
    }
    let then: Vec<Event> = samples().into_iter().filter_map(as_version_1_knew_it).collect();
    assert_eq!(read, then);
}

/// The sample without what version 1 had no words for.
#[expect(clippy::wildcard_enum_match_arm, reason = "what is not named was the same then")]
fn as_version_1_knew_it(mut event: Event) -> Option<Event> {
    match &mut event {
        Event::RunCreated(spec)
            if spec.permissions.is_some()
                || spec.conduct.is_some()
                || spec.crew.is_some()
                || spec.base.is_some()
                || spec.agent_caps.is_some()
                || spec.begun_with.is_some()
                || spec.collaboration.is_some() =>
        {
            return None;
        }
        Event::CommandApplied {
            wish: Wish::Plan | Wish::Replan { .. } | Wish::Checkpoint { .. }, ..
        } => return None,
        event if event.kind() > 27 => return None,
        Event::LimitsChanged { limits }
            if limits.policies.is_some() || limits.max_child_idle_ms.is_some() =>
        {
            return None;
        }
        Event::CallFinished { outcome, .. } if !outcome.images().is_empty() => return None,
        Event::SchemaUpgraded { .. }
        | Event::Contained { .. }
        | Event::ModelReplied { raw: Some(_), .. }
        | Event::ModelReplied { window: Some(_), .. }
        | Event::ModelReplied { usage: Usage { estimated_tokens: 1.., .. }, .. }
        | Event::TurnFailed { garbled: Some(_), .. }
        | Event::WaitingForHuman { ask: Some(_), .. }
        | Event::WaitingForHuman { digest: Some(_), .. }
        | Event::StatusChanged { cause: Cause::Stuck, .. }
        | Event::GateAnswered { answer: Some(_), .. }
        | Event::CommandApplied {
            wish: Wish::Answer { .. } | Wish::Approve { digest: Some(_), .. }, ..
        } => {
            return None;
        }
        Event::ModelReplied { usage, .. } => usage.unpriced_tokens = 0,
        Event::TurnFailed { kind, until, usage, .. } => (*kind, *until, *usage) = (None, None, None),
        Event::ModelChanged { why, .. } => *why = None,
        _ => {}
    }
    Some(event)
}

/// F19: a newer version or an unknown kind is refused by number, and told apart from damage.
#[test]
fn newer_events_are_refused_by_number() {
    let newer = codec::decode(5, 0, VERSION + 1, &[]).unwrap_err();
    assert!(
        newer.is_newer() && newer.to_string().contains("event 5") && newer.to_string().contains("version 3")
    );
    for known in KINDS {
        let kind = known.end() + 1;
        let unknown = codec::decode(6, kind, VERSION, &[]).unwrap_err();
        assert!(unknown.is_newer() && unknown.to_string().contains(&format!("kind {kind}")));
    }
    let broken = codec::decode(7, 1, VERSION, &[0xff, 0x00]).unwrap_err();
    assert!(matches!(broken, Error::Malformed { seq: 7, .. }));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2000))]
    /// Damaged payloads are errors, never panics.
    #[test]
    fn no_bytes_panic(kind in 0u16..60, bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
        let _ = codec::decode(1, kind, VERSION, &bytes);
    }
}
