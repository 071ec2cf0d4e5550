//! A disk that fills up under a run.

use std::fs;

use crate::rig::{Mount, Rig, processes_of, told, until};
use crate::start_up::fill;

const TURNS: usize = 40;

/// F10: a run whose disk fills up pauses with that reason while it can still say so; with space again it goes on to its
/// end, and nothing it did is lost or repeated.
#[test]
fn a_full_disk_pauses_the_run() {
    // Each turn adds to the journal, until what was set aside for it is used up.
    check(TURNS, 4 << 10, |rig, id| {
        let shown = rig.json(&["show", id, "--json"]);
        assert_eq!(shown["status"], "paused", "{shown:#}");
        assert!(shown["reason"].as_str().unwrap().contains("the disk is full"), "{shown:#}");
    });
}

/// F10: a single event too large for what is left ends the process with a clear error, as a crash would: nothing of the
/// event is there, and the run goes on with space again.
#[test]
fn an_event_too_large_for_the_disk_loses_nothing() {
    check(2, 1 << 20, |rig, id| assert_eq!(rig.status(id), "running"));
}

/// Fills the disk under a run of that many turns, each of which writes a file of that size.
fn check(turns: usize, file_bytes: usize, while_full: impl Fn(&Rig, &str)) {
    let mut rig = Rig::new();
    let content = "x".repeat(file_bytes);
    let wait = "echo $LONGHAUL_CALL >> witness; while [ ! -e go ]; do sleep 0.01; done";
    let mut script = format!(
        "conversations:\n  - turns:\n      - calls: [ {{ tool: bash, args: {{ command: '{wait}' }} }} ]\n"
    );
    for turn in 0..turns {
        script.push_str(&format!(
            "      - calls: [ {{ tool: write, args: {{ path: out/{turn}.txt, content: {content} }} }} ]\n"
        ));
    }
    script.push_str("      - text: All is done.\n");
    rig.script(&script);
    let Some(mount) = Mount::tmpfs(rig.path().join("small"), 8 << 20) else { return };
    rig.state_dir = mount.at.join("state");
    let id = rig.create();
    let mut live = rig.start(&["resume", &id]);
    until("the command runs", || rig.witness().len() == 1);
    let filler = mount.at.join("filler");
    fill(&filler);
    fs::write(rig.work().join("go"), "").unwrap();
    let output = live.wait();
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    rig.says(&["store", "verify", &id]);
    while_full(&rig, &id);
    let again = rig.does(&["resume", &id]);
    assert_eq!(again.status.code(), Some(3), "still full: {}", told(&again));
    rig.says(&["store", "verify", &id]);
    while_full(&rig, &id);
    fs::remove_file(&filler).unwrap();
    rig.says(&["resume", &id]);
    assert_eq!(rig.status(&id), "completed");
    assert_eq!(rig.witness().len(), 1, "the command ran once");
    for turn in 0..turns {
        assert!(fs::read_to_string(rig.work().join(format!("out/{turn}.txt"))).unwrap() == content);
    }
    rig.says(&["store", "verify", &id]);
}

/// F10: with the disk full a run that works can still be told to pause and to stop, by another process.
#[test]
fn a_run_on_a_full_disk_can_be_paused_and_stopped() {
    for (verb, status) in [("pause", "paused"), ("stop", "failed")] {
        let mut rig = Rig::with_calls("{ tool: bash, args: { command: 'echo x >> witness; sleep 60' } }");
        let Some(mount) = Mount::tmpfs(rig.path().join("small"), 8 << 20) else { return };
        rig.state_dir = mount.at.join("state");
        let id = rig.create();
        let mut live = rig.start(&["resume", &id]);
        until("the command runs", || rig.witness().len() == 1);
        let filler = mount.at.join("filler");
        fill(&filler);
        assert!(fs::write(mount.at.join("more"), "x").is_err(), "the disk is full");
        let said = rig.does(&[verb, &id]);
        assert_eq!(said.status.code(), Some(0), "{verb}: {}", told(&said));
        assert_eq!(rig.status(&id), status);
        live.wait();
        rig.says(&["store", "verify", &id]);
        fs::remove_file(&filler).unwrap();
        assert_eq!(processes_of(&id), [0; 0], "what it had begun is over");
    }
}

/// F10: what a run asks can still be answered then, and the answer is there when it goes on.
#[test]
fn a_question_on_a_full_disk_can_be_answered() {
    let mut rig = Rig::with_calls("{ tool: ask_human, args: { question: 'Which one?' } }");
    let Some(mount) = Mount::tmpfs(rig.path().join("small"), 8 << 20) else { return };
    rig.state_dir = mount.at.join("state");
    let id = rig.create();
    let waits = rig.does(&["resume", &id]);
    assert_eq!(waits.status.code(), Some(3), "{}", told(&waits));
    let filler = mount.at.join("filler");
    fill(&filler);
    assert!(fs::write(mount.at.join("more"), "x").is_err(), "the disk is full");
    rig.says(&["answer", &format!("{id}.g1"), "the red one"]);
    fs::remove_file(&filler).unwrap();
    rig.says(&["resume", &id]);
    assert_eq!(rig.status(&id), "completed");
    assert!(rig.json(&["tools", &id, "--json"]).to_string().contains("the red one"));
}

/// F10: where nothing is left of what was set aside, a command says so and is no wait: the run goes on as if nothing had been asked.
#[test]
fn a_command_that_cannot_be_left_is_refused() {
    let mut rig = Rig::with_calls("{ tool: bash, args: { command: 'echo x >> witness; sleep 60' } }");
    let Some(mount) = Mount::tmpfs(rig.path().join("small"), 8 << 20) else { return };
    rig.state_dir = mount.at.join("state");
    let id = rig.create();
    let mut live = rig.start(&["resume", &id]);
    until("the command runs", || rig.witness().len() == 1);
    for entry in fs::read_dir(rig.run_dir(&id).join("inbox")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    fill(&mount.at.join("filler"));
    let said = rig.does(&["stop", &id]);
    assert_eq!(said.status.code(), Some(1), "{}", told(&said));
    assert!(
        told(&said).contains("the disk is full, and nothing is left of what was set aside"),
        "{}",
        told(&said)
    );
    assert!(told(&said).contains("give the same command again"), "{}", told(&said));
    assert_eq!(rig.status(&id), "running");
    fs::remove_file(mount.at.join("filler")).unwrap();
    rig.says(&["stop", &id]);
    live.wait();
}
