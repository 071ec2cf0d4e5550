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

/// F68: Ctrl-C reaches everything that shares the terminal's group. Whatever holds the agent's command does not, so it is the
/// run that is paused, and the agent is told that its command may have partly run.
#[test]
fn a_ctrl_c_pauses_and_the_command_may_have_partly_run() {
    const COMMAND: &str = "{ tool: bash, args: { command: 'echo here >> witness; sleep 300' } }";
    let held = Rig::with_calls(COMMAND).held_in_the_project();
    for rig in [Rig::with_calls(COMMAND)].into_iter().chain(held) {
        let id = rig.create();
        let mut live = Live::start_in_group(rig.command(&["resume", &id]));
        until("the command runs", || rig.witness() == ["here"]);
        live.signal_group(Signal::INT);
        let output = live.wait();
        assert_eq!(output.status.code(), Some(130), "{}", told(&output));
        let shown = rig.json(&["show", &id, "--json"]);
        let reason = "interrupted from the terminal";
        assert_eq!((&shown["status"], &shown["reason"]), (&"paused".into(), &reason.into()));
        let result = &rig.json(&["tools", &id, "--json"])["calls"][0]["result"];
        let message = "stopped because the run was paused; it may have partly run";
        assert_eq!((&result["failure"], &result["message"]), (&"cancelled".into(), &message.into()));
        assert_eq!(processes_of(&id), [0; 0]);
        rig.says(&["resume", &id]);
        assert_eq!((rig.status(&id).as_str(), rig.witness()), ("completed", vec!["here".to_owned()]));
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
