//! Nothing of a held command is left, and nothing it does fills memory or waits for somebody.

use std::fs;
use std::time::{Duration, Instant};

use longhaul_core::limits::OUTPUT_INLINE_BYTES_MAX;
use longhaul_core::tool::{Failure, Outcome};

use super::rig::{Held, can_hold, output, processes_with};

/// How often something tries to stay.
const TRIES: usize = 1000;

/// Ways to stay. The last ones leave their session, lose their parents and wipe their environment.
fn daemons(time: &str) -> [String; 6] {
    [
        format!("sleep {time} &"),
        format!("nohup sleep {time} > /dev/null 2>&1 &"),
        format!("setsid --fork sleep {time} > /dev/null 2>&1 < /dev/null"),
        format!("setsid bash -c 'trap \"\" TERM HUP INT; sleep {time} & sleep {time}' > /dev/null 2>&1 &"),
        format!("(env -i setsid bash -c '(env -i sleep {time} &)' > /dev/null 2>&1 < /dev/null &)"),
        format!(
            "(env -i setsid --fork bash -c 'exec -a innocent sleep {time}' > /dev/null 2>&1 < /dev/null &)"
        ),
    ]
}

/// F40, A40: whatever a command leaves running is gone when it has ended, run out of time, or was abandoned.
#[tokio::test]
async fn no_daemon_survives() {
    if !can_hold("no_daemon_survives") {
        return;
    }
    let held = Held::new();
    let time = format!("87654.{}", std::process::id());
    for (number, script) in daemons(&time).iter().cycle().take(TRIES).enumerate() {
        match number % 3 {
            0 => assert!(held.run(&format!("{script}\ntrue")).await.is_done(), "{script}"),
            1 => {
                let outcome = held.run_for(&format!("{script}\nsleep {time}"), Some(100)).await;
                assert!(
                    matches!(outcome, Outcome::Failed { failure: Failure::Timeout, .. }),
                    "{script}: {outcome:?}"
                );
            }
            _ => {
                let command = format!("{script}\ntouch started; sleep {time}");
                let started = held.root().join("started");
                tokio::select! {
                    outcome = held.run(&command) => panic!("{outcome:?}"),
                    () = async { while !started.exists() { tokio::task::yield_now().await } } => {}
                }
                fs::remove_file(&started).unwrap();
            }
        }
        let end = Instant::now() + Duration::from_secs(2);
        while processes_with(&time) > 0 {
            assert!(Instant::now() < end, "try {number} left a process: {script}");
        }
    }
}

/// F40: a harness that is killed takes its commands with it.
#[test]
fn a_killed_harness_takes_its_commands_with_it() {
    if !can_hold("a_killed_harness_takes_its_commands_with_it") {
        return;
    }
    let outer = tempfile::tempdir().unwrap();
    let time = format!("76543.{}", std::process::id());
    let script = format!(
        "conversations: [ {{ turns: [ {{ calls: [ {{ tool: bash, args: {{ command: '(env -i setsid sleep {time} &) ; sleep {time}' }} }} ] }}, {{ text: ok }} ] }} ]"
    );
    fs::write(outer.path().join("s.yaml"), script).unwrap();
    let mut child = std::process::Command::new(super::rig::LONGHAUL)
        .args(["run", "x", "--model", "scripted/s.yaml"])
        .current_dir(outer.path())
        .env("HOME", outer.path())
        .env_remove("LONGHAUL_SANDBOX")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while processes_with(&time) < 2 {
        assert!(Instant::now() < patience, "the command did not begin");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let end = Instant::now() + Duration::from_secs(2);
    while processes_with(&time) > 0 {
        assert!(Instant::now() < end, "a process outlived the harness");
    }
}

/// F46: a thousand zombies are nobody's problem, and end with their command.
#[tokio::test]
async fn zombies_are_bounded() {
    if !can_hold("zombies_are_bounded") || !super::rig::has("python3") {
        return;
    }
    let held = Held::new();
    let script = "python3 -c \"
import os, time
for _ in range(1000):
    if os.fork() == 0:
        os._exit(0)
time.sleep(0.2)
print('made')\"";
    assert_eq!(held.get(script).await, "made\n");
    let orphans = "for i in $(seq 200); do (sleep 0.01 &) ; done; echo made";
    assert_eq!(held.get(orphans).await, "made\n");
}

/// F42: a flood is bounded in memory and in what is kept. F42 speaks of 10 GB, which `LONGHAUL_TEST_FLOOD_MB=10000` makes.
#[tokio::test]
async fn floods_are_bounded() {
    if !can_hold("floods_are_bounded") {
        return;
    }
    let held = Held::new();
    let megabytes: u64 =
        std::env::var("LONGHAUL_TEST_FLOOD_MB").ok().and_then(|text| text.parse().ok()).unwrap_or(500);
    let bytes = megabytes * 1_000_000;
    held.run("true").await;
    let before = peak_bytes();
    let outcome = held.run(&format!("head -c {bytes} /dev/zero")).await;
    assert_eq!((outcome.is_done(), output(&outcome).bytes), (true, bytes));
    assert!(output(&outcome).text.len() <= OUTPUT_INLINE_BYTES_MAX);
    let grown = peak_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown}");
}

/// F44: nothing waits for a person. The time limit is far away; reaching it would be the failure.
#[tokio::test]
async fn nothing_waits_for_input() {
    if !can_hold("nothing_waits_for_input") {
        return;
    }
    let held = Held::new();
    for command in [
        "cat",
        "read x",
        "read x < /dev/tty",
        "git init -q . ; git commit --allow-empty",
        "git credential fill <<< $'protocol=https\\nhost=example.invalid\\n'",
        "python3 -c 'input()'",
        "sudo -S true",
        "su root -c true",
        "ssh -p 1 127.0.0.1 true",
    ] {
        let outcome = held.run(command).await;
        if let Outcome::Failed { failure, .. } = &outcome {
            assert_eq!(*failure, Failure::Tool, "{command}: {outcome:?}");
        }
    }
}

/// The most memory this process ever had.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
