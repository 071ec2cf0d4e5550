//! Two thousand turns in a small window, through the whole engine: what a turn adds to the journal and to memory is the same at
//! the end as at the beginning, and no request is ever larger than the window.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use longhaul_core::event::Event;
use longhaul_core::run::Run;
use longhaul_core::spec::{Limits, RunSpec};
use longhaul_core::status::Status;
use longhaul_core::time::Timestamp;
use longhaul_engine::watch::Watcher;
use longhaul_engine::{Ending, Harness, Opening};
use longhaul_model::{Models, Quiet};
use longhaul_store::Home;
use longhaul_testkit::fake_clock::FakeClock;
use longhaul_testkit::scripts;
use longhaul_tools::Toolbox;

const TURNS: usize = 2000;
const QUARTER: usize = TURNS / 4;
const WINDOW: u64 = 32_000;

/// Every turn reads another part of a file; whoever sums up is somebody else.
fn script() -> String {
    let mut script = format!(
        "context_window: {WINDOW}\nconversations:\n  - match: {{ agent: summarizer }}\n    turns: [ {{ text: \"We chose red.\" }} ]\n  - turns:\n"
    );
    for turn in 1..TURNS {
        let line = turn * 3;
        writeln!(
            script,
            "      - {{ text: \"Next.\", calls: [ {{ tool: read, args: {{ path: big.txt, offset: {line}, limit: 40 }} }} ] }}"
        )
        .unwrap();
    }
    script.push_str("      - text: \"Done.\"\n");
    script
}

/// What there is after each quarter.
#[derive(Default)]
struct Marks {
    resident_kib: Vec<u64>,
    payload_bytes: Vec<u64>,
    bytes: u64,
    compactions: usize,
    summaries: usize,
    most_tokens: u64,
}

struct Gauge(Arc<Mutex<Marks>>);

impl Watcher for Gauge {
    fn event(&mut self, run: &Run, _seq: u64, _at: Timestamp, event: &Event) {
        let mut marks = self.0.lock().unwrap();
        marks.bytes += longhaul_core::codec::encode(event).len() as u64;
        if let Event::Compacted { .. } = event {
            marks.compactions += 1;
        }
        if let Event::AsideEnded { .. } = event {
            marks.summaries += 1;
        }
        if let Event::TurnStarted { .. } = event {
            marks.most_tokens = marks.most_tokens.max(run.fill.tokens_with(0));
            if (run.turns as usize).is_multiple_of(QUARTER) {
                marks.resident_kib.push(resident_kib());
                let bytes = marks.bytes;
                marks.payload_bytes.push(bytes);
            }
        }
    }

    fn batch_ended(&mut self, _run: &Run) {}

    fn rested(&mut self, _run: &Run) {}
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Pain 13, D4.1: the journal's bytes for each turn are flat, compactions are bounded, nothing overflows, and what memory grows
/// by is what was said.
#[tokio::test]
async fn two_thousand_turns_cost_what_the_first_did() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path().join("work");
    std::fs::create_dir(&workspace).unwrap();
    let lines: String =
        (0..TURNS * 4).map(|n| format!("line {n}: a table of values that is looked at\n")).collect();
    std::fs::write(workspace.join("big.txt"), lines).unwrap();
    std::fs::write(dir.path().join("flat.yaml"), script()).unwrap();
    let models = Models { base_dir: dir.path().to_owned(), ..Models::default() };
    let home = Arc::new(Home::open(&dir.path().join("state")).unwrap());
    let clock = Arc::new(FakeClock::at(Timestamp::from_millis(1_771_581_600_000)));
    let toolbox = Toolbox::builtin(longhaul_tools::Sandbox::off());
    let harness = Harness::durable(Arc::clone(&home), toolbox, models, clock);
    let id = harness.new_run_id().unwrap();
    let spec = scripts::spec(id.clone(), &workspace, &harness.toolbox, &["Read it all."]);
    let limits = Limits { max_tool_calls: u32::MAX, max_steps: u32::MAX, ..Limits::default() };
    harness.create(RunSpec { model: "scripted/flat.yaml".to_owned(), limits, ..spec }).unwrap();
    let marks = Arc::new(Mutex::new(Marks::default()));
    let gauge: Box<dyn Watcher> = Box::new(Gauge(Arc::clone(&marks)));
    let driven = harness.drive(&id, Opening::default(), vec![gauge], Arc::new(Quiet)).unwrap();
    let (run, ending) = driven.rest().await.unwrap();
    assert_eq!((ending, run.status), (Ending::Completed, Status::Completed), "{:?}", run.reason);
    assert_eq!((run.turns as usize, run.iteration), (TURNS, 1));

    let marks = marks.lock().unwrap();
    assert!(marks.most_tokens <= WINDOW, "{} tokens were to be sent", marks.most_tokens);
    assert!(
        marks.compactions < TURNS / 5 && marks.summaries < TURNS / 10,
        "{} {}",
        marks.compactions,
        marks.summaries
    );
    // Of each quarter after the first.
    let grown = |marks: &[u64]| -> Vec<u64> {
        marks.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect()
    };
    let bytes = grown(&marks.payload_bytes);
    let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
    assert!(*most <= least + least / 10, "bytes of the journal for each quarter: {bytes:?}");
    let footprint = home.store_of(&id).unwrap().footprint(&id).unwrap();
    assert!(footprint.journal_bytes <= footprint.payload_bytes * 3 / 2, "{footprint:?}");
    // Results stay where they can be looked up: twice what was written down is room for that, and not for a copy of the
    // conversation with every turn.
    let memory_kib = grown(&marks.resident_kib);
    let said_kib = most / 1024;
    for quarter in &memory_kib {
        assert!(
            *quarter <= 2 * said_kib + 8192,
            "KiB for each quarter: {memory_kib:?}, of which said {said_kib}"
        );
    }
}
