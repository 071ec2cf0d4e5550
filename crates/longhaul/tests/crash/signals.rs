//! Politely asked to end.

use rustix::process::Signal;

use crate::rig::{Live, Rig, processes_of, told, until};

/// F68: each polite way to end the process pauses the run, with exit code 130; it goes on when it is resumed.
#[test]
fn a_signal_pauses() {
    for (signal, reason) in [
        (Signal::TERM, "asked to terminate"),
        (Signal::INT, "interrupted from the terminal"),
        (Signal::HUP, "the terminal was closed"),
    ] {
        let (rig, id, mut live) = run("echo here >> witness; sleep 300");
        live.signal(signal);
        let output = live.wait();
        assert_eq!(output.status.code(), Some(130), "{signal:?}: {}", told(&output));
        let shown = rig.json(&["show", &id, "--json"]);
        assert_eq!((&shown["status"], &shown["reason"]), (&"paused".into(), &reason.into()));
        assert_eq!(processes_of(&id), [0; 0], "{signal:?}");
        rig.says(&["resume", &id]);
        assert_eq!(rig.status(&id), "completed");
        assert_eq!(rig.witness(), ["here"], "{signal:?}: the command was not repeated");
    }
}

/// F68: asked twice, the process ends at once, though a command will not; the next one clears up and goes on.
#[test]
fn a_second_signal_ends_at_once() {
    let (rig, id, mut live) = run("trap '' TERM; echo here >> witness; sleep 300 & wait; sleep 300");
    live.signal(Signal::INT);
    until("the run is paused", || rig.status(&id) == "paused");
    if !live.has_ended() {
        live.signal(Signal::INT);
    }
    assert_eq!(live.exit_code(), Some(130));
    assert_eq!(rig.status(&id), "paused");
    rig.says(&["store", "verify", &id]);
    rig.says(&["resume", &id]);
    assert_eq!(rig.status(&id), "completed");
    assert_eq!(rig.witness(), ["here"]);
    assert_eq!(processes_of(&id), [0; 0]);
}

fn run(command: &str) -> (Rig, String, Live) {
    let command = command.replace('\'', "''");
    let rig = Rig::with_calls(&format!("{{ tool: bash, args: {{ command: '{command}' }} }}"));
    let id = rig.create();
    let live = rig.start(&["resume", &id]);
    until("the command runs", || rig.witness() == ["here"]);
    (rig, id, live)
}
