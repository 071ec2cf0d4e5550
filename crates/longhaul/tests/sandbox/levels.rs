//! What is asked for and what is there: refused, said, or off, and never silently weaker.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::rig::{LONGHAUL, can_hold};

const SCRIPT: &str = "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: 'echo ran > ran; \
     LONGHAUL_STATE_DIR=$PWD/.longhaul PROGRAM pause $LONGHAUL_RUN' } } ] }, { calls: [ { tool: read, args: { path: ran } } ] }, { text: ok } ] } ]";

fn desk() -> tempfile::TempDir {
    let outer = tempfile::tempdir().unwrap();
    fs::create_dir_all(outer.path().join("home")).unwrap();
    fs::create_dir_all(outer.path().join("work/.git")).unwrap();
    fs::write(outer.path().join("work/s.yaml"), SCRIPT.replace("PROGRAM", LONGHAUL)).unwrap();
    outer
}

fn longhaul(mut command: Command, desk: &Path, more: &[&str]) -> Output {
    command.args(more).current_dir(desk.join("work")).env("HOME", desk.join("home"));
    command.env_remove("LONGHAUL_SANDBOX").env_remove("XDG_CONFIG_HOME").stdin(Stdio::null());
    command.output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const RUN: [&str; 5] = ["run", "x", "--in-place", "--model", "scripted/s.yaml"];

/// The program where no bubblewrap is: in a world in which its file is covered.
pub fn without_bubblewrap() -> Option<Command> {
    let root = rustix::process::geteuid().is_root();
    if !root || !Path::new("/usr/bin/bwrap").exists() || !super::rig::has("unshare") {
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "mount --bind /dev/null /usr/bin/bwrap && exec \"$0\" \"$@\"", LONGHAUL]);
    Some(command)
}

/// A60, A66: an agent that calls longhaul on its own run is obeyed without a sandbox, and reaches nothing with it.
#[test]
fn an_agent_does_not_command_its_own_run() {
    let unheld = desk();
    let output = longhaul(Command::new(LONGHAUL), unheld.path(), &[&RUN[..], &["--sandbox", "off"]].concat());
    assert_eq!(output.status.code(), Some(3), "the control: it paused itself: {}", told(&output));
    assert!(told(&output).contains("sandbox off: the agent's commands run with your rights"));
    if !can_hold("an_agent_does_not_command_its_own_run") {
        return;
    }
    let held = desk();
    let output = longhaul(Command::new(LONGHAUL), held.path(), &RUN);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert!(told(&output).contains("sandbox required (namespaces, limits, "), "{}", told(&output));
    assert!(held.path().join("work/ran").exists());
}

/// A39: without bubblewrap, what requires it is refused with a hint and nothing is made; best effort says what is missing;
/// the demo goes on and says so; the attack suite shows what that is worth.
#[test]
fn a_missing_sandbox_is_never_silent() {
    let Some(command) = without_bubblewrap() else {
        return eprintln!("SKIP a_missing_sandbox_is_never_silent: needs root and bubblewrap");
    };
    let refused = desk();
    let output = longhaul(command, refused.path(), &RUN);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    let said = told(&output);
    assert!(
        said.contains("the sandbox that is required cannot be had: bubblewrap (bwrap) is not installed"),
        "{said}"
    );
    assert!(said.contains("--sandbox best_effort") && said.contains("apt install bubblewrap"), "{said}");
    assert!(!refused.path().join("work/.longhaul").exists() && !refused.path().join("work/ran").exists());

    let weaker = desk();
    let more = [&RUN[..], &["--sandbox", "best_effort"]].concat();
    let output = longhaul(without_bubblewrap().unwrap(), weaker.path(), &more);
    let said = told(&output);
    assert!(said.contains("sandbox best_effort (limits, Landlock, seccomp; no network)"), "{said}");
    assert!(said.contains("warning: sandbox: bubblewrap (bwrap) is not installed"), "{said}");
    assert!(said.contains("warning: sandbox: without namespaces"), "{said}");
    assert!(weaker.path().join("work/ran").exists(), "{said}");

    let doctor = longhaul(without_bubblewrap().unwrap(), weaker.path(), &["doctor"]);
    assert_eq!(doctor.status.code(), Some(1));
    let demo = longhaul(without_bubblewrap().unwrap(), weaker.path(), &["demo", "--dir", "demo"]);
    assert_eq!(demo.status.code(), Some(0), "{}", told(&demo));
    assert!(told(&demo).contains("the demo goes on with `--sandbox best_effort`"));
}

/// A71: settings that come with a project may tighten what holds its agent, not loosen it.
#[test]
fn a_project_cannot_loosen_the_sandbox() {
    let desk = desk();
    let settings = desk.path().join("work/longhaul.yaml");
    for (text, key) in [
        ("sandbox: off", "sandbox"),
        ("sandbox: best_effort", "sandbox"),
        ("network: full", "network"),
        ("network: [a.example]", "network"),
    ] {
        fs::write(&settings, format!("permissions: {{ {text} }}\n")).unwrap();
        let output = longhaul(Command::new(LONGHAUL), desk.path(), &RUN);
        assert_eq!(output.status.code(), Some(2), "{text}: {}", told(&output));
        let said = told(&output);
        assert!(
            said.contains(&format!("permissions.{key} in ")) && said.contains("may not loosen"),
            "{said}"
        );
    }
    for word in ["none", "strict"] {
        fs::write(&settings, format!("permissions: {{ sandbox: {word} }}\n")).unwrap();
        let said = told(&longhaul(Command::new(LONGHAUL), desk.path(), &RUN));
        let wrong = format!("`{word}` is not a sandbox mode; there are: required, best_effort, off");
        assert!(said.contains(&wrong), "{said}");
    }
    fs::write(&settings, "permissions: { network: ['*'] }\n").unwrap();
    let said = told(&longhaul(Command::new(LONGHAUL), desk.path(), &RUN));
    assert!(said.contains("`*` is not a host"), "{said}");
    let user = desk.path().join("home/.config/longhaul");
    fs::create_dir_all(&user).unwrap();
    fs::write(user.join("longhaul.yaml"), "permissions: { sandbox: off, network: full }\n").unwrap();
    fs::write(&settings, "permissions: { sandbox: off }\n").unwrap();
    let shown = longhaul(Command::new(LONGHAUL), desk.path(), &["config", "show"]);
    assert_eq!(shown.status.code(), Some(0), "the user has loosened it already: {}", told(&shown));
}

/// A106: nobody works in the home directory itself; that is said before a run is made.
#[test]
fn a_home_directory_is_no_workspace() {
    if !can_hold("a_home_directory_is_no_workspace") {
        return;
    }
    let desk = desk();
    let mut command = Command::new(LONGHAUL);
    command.args(RUN).current_dir(desk.path().join("work")).env("HOME", desk.path().join("work"));
    command.env_remove("LONGHAUL_SANDBOX").env_remove("XDG_CONFIG_HOME").stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("holds the home directory"), "{}", told(&output));
    assert!(!desk.path().join("work/.longhaul").exists());
}
