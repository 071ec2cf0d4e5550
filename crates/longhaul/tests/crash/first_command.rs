//! The first command of all, killed while it makes the state directory in the project: whoever looks next sees no runs or that
//! one, and nobody who looks takes the directory away from its user.

use std::os::unix::process::ExitStatusExt;

use crate::rig::{Rig, has, skip, told};

/// What makes files and directories, and gives them their names.
const SYSCALLS: [&str; 8] = ["mkdir", "openat", "write", "fsync", "fdatasync", "link", "rename", "unlink"];

/// Each of the first calls is killed at; beyond them every so many. Before the directory is made come those that load the program.
const EACH_UP_TO: usize = 12;
const THEN_EVERY: usize = 7;

const LOOKS: [&[&str]; 9] = [
    &["list"],
    &["store", "status"],
    &["doctor"],
    &["cost"],
    &["approvals"],
    &["needs"],
    &["store", "list"],
    &["store", "rebuild"],
    &["db", "query", "select 1"],
];

const CALLS: &str = "{ tool: write, args: { path: out/1.txt, content: one } }";

/// F01, A71: killed at any call of its kind, the first command leaves what is its user's or nobody's; each way to look at it
/// leaves it so, and the next run is made and completes.
#[test]
fn the_first_command_is_killed_anywhere() {
    if !has("strace") {
        return skip("strace is not installed");
    }
    let kills = std::thread::scope(|scope| {
        let sweeps = SYSCALLS.map(|syscall| scope.spawn(move || sweep(syscall)));
        sweeps.into_iter().map(|sweep| sweep.join().unwrap()).sum::<usize>()
    });
    println!("{kills} kills");
    assert!(kills > SYSCALLS.len());
}

/// A71: a state directory with nothing in it is nobody's, whoever looks at it.
#[test]
fn looking_at_an_empty_directory_leaves_it_empty() {
    for look in LOOKS {
        let rig = Rig::with_calls(CALLS).in_project();
        std::fs::create_dir(&rig.state_dir).unwrap();
        rig.does(look);
        assert_eq!(std::fs::read_dir(&rig.state_dir).unwrap().count(), 0, "{look:?}");
        rig.says(&rig.run_args());
    }
}

fn sweep(syscall: &str) -> usize {
    let mut kills = 0;
    let then = (EACH_UP_TO + THEN_EVERY..).step_by(THEN_EVERY);
    for nth in (1..=EACH_UP_TO).chain(then) {
        let rig = Rig::with_calls(CALLS).in_project();
        let inject = format!("inject={syscall}:signal=SIGKILL:when={nth}");
        let strace =
            ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={syscall}"), "-e", &inject];
        let strace: Vec<String> = strace.iter().map(|word| (*word).to_owned()).collect();
        let create = ["create", "--task", "x", "--in-place", "--model", "scripted/script.yaml"];
        let output = rig.command_under(&strace, &create).output().unwrap();
        let is_killed = output.status.signal() == Some(9);
        assert!(is_killed || output.status.success(), "{syscall} {nth}: {}", told(&output));
        let look = rig.does(LOOKS[nth % LOOKS.len()]);
        assert!(!told(&look).contains("was not made by you"), "{syscall} {nth}: {}", told(&look));
        let run = rig.does(&rig.run_args());
        assert!(run.status.success(), "{syscall} {nth}: {}", told(&run));
        if !is_killed {
            break;
        }
        kills += 1;
    }
    kills
}
