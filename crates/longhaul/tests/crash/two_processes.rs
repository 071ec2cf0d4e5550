//! Several processes and one run: who may write, who may ask, who may look.

use std::fs;

use rustix::process::Signal;

use crate::rig::{Live, Rig, processes_of, told, until};

/// A command that says that it runs and then takes longer than any test.
const SLOW: &str =
    "{ tool: bash, args: { command: 'echo $LONGHAUL_CALL >> witness; sleep 300; echo late >> witness' } }";

/// AX2, A1.8: a second process that would drive a live run is refused with exit code 7 and told who has it.
#[test]
fn a_live_run_has_one_driver() {
    let (rig, id, first) = slow_run();
    let second = rig.does(&["resume", &id]);
    assert_eq!(second.status.code(), Some(7), "{}", told(&second));
    assert!(told(&second).contains(&first.pid().to_string()), "{}", told(&second));
    assert_eq!(rig.status(&id), "running");
}

/// F59, I5: a writer that was stopped while another took its run over and finished it adds nothing when it goes on: it
/// ends with exit code 7, and the journal has not changed by a byte.
#[test]
fn a_stalled_writer_is_fenced_off() {
    let (rig, id, mut stalled) = slow_run();
    stalled.signal(Signal::STOP);
    fs::remove_file(rig.run_dir(&id).join("lock")).unwrap();
    rig.says(&["resume", &id]);
    assert_eq!(rig.status(&id), "completed");
    let journal = fs::read(rig.run_dir(&id).join("journal")).unwrap();
    stalled.signal(Signal::CONT);
    let output = stalled.wait();
    assert_eq!(output.status.code(), Some(7), "{}", told(&output));
    assert!(fs::read(rig.run_dir(&id).join("journal")).unwrap() == journal, "the journal has changed");
    rig.says(&["store", "verify", &id]);
    assert_eq!(rig.witness().len(), 1, "the command was begun once and never came to its end");
}

/// A1.7: `pause` from another process takes effect on a live run long before its call would have ended, and leaves
/// nothing of that call running; the run can be taken up again.
#[test]
fn pause_reaches_a_live_run() {
    let (rig, id, mut live) = slow_run();
    rig.says(&["pause", &id]);
    assert_eq!(rig.status(&id), "paused");
    assert_eq!(live.exit_code(), Some(3));
    assert_eq!(processes_of(&id), [0; 0]);
    rig.says(&["resume", &id]);
    assert_eq!(rig.status(&id), "completed");
    assert_eq!(rig.witness().len(), 1);
}

/// A1.7: `stop` from another process ends a live run as failed, for good, and leaves nothing of it running.
#[test]
fn stop_reaches_a_live_run() {
    let (rig, id, mut live) = slow_run();
    rig.says(&["stop", &id]);
    assert_eq!(rig.status(&id), "failed");
    assert_eq!(live.exit_code(), Some(1));
    assert_eq!(processes_of(&id), [0; 0]);
    assert_eq!(rig.does(&["resume", &id]).status.code(), Some(1), "what has ended stays so");
}

/// A1.7: what is asked of a run whose process was killed is on record at once, and what that process left running ends.
#[test]
fn a_dead_run_can_be_paused_and_stopped() {
    let (rig, id, mut live) = slow_run();
    live.kill();
    assert_eq!(rig.status(&id), "running", "nobody has written that it died");
    rig.says(&["pause", &id]);
    assert_eq!(rig.status(&id), "paused");
    assert_eq!(processes_of(&id), [0; 0], "a paused run works on nothing");
    rig.says(&["stop", &id]);
    assert_eq!(rig.status(&id), "failed");
    let (rig, id, mut live) = slow_run();
    live.kill();
    rig.says(&["stop", &id]);
    assert_eq!(rig.status(&id), "failed");
    assert_eq!(processes_of(&id), [0; 0], "a stopped run leaves nothing running");
    rig.says(&["store", "verify", &id]);
}

/// F54: those who follow a run see every event of it; one that never reads holds nothing up.
#[test]
fn onlookers_block_nobody() {
    let rig = Rig::with_steps(10);
    let id = rig.create();
    let deaf = rig.start(&["events", &id, "--follow", "--json"]);
    deaf.signal(Signal::STOP);
    let follower = rig.command(&["events", &id, "--follow", "--json"]).spawn().unwrap();
    rig.says(&["resume", &id]);
    rig.check_end(&id, 10);
    let followed = follower.wait_with_output().unwrap();
    let seqs: Vec<u64> = String::from_utf8(followed.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=rig.events(&id).len() as u64).collect::<Vec<_>>());
}

/// A run in the middle of its one slow command.
fn slow_run() -> (Rig, String, Live) {
    let rig = Rig::with_calls(SLOW);
    let id = rig.create();
    let live = rig.start(&["resume", &id]);
    until("the command runs", || rig.witness().len() == 1);
    (rig, id, live)
}
