//! Killed at a system call, and lied to by one: what the kernel can do to a process that only it can time.
//!
//! `strace` counts calls for each thread on its own, so "the third write" is that of whichever thread gets there first.
//! Every durable moment in its order is the crash matrix's matter; here the real program meets the real kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::rig::{Rig, has, skip, told};

/// Every call of the kinds that change a disk, and those that open what is changed.
const SYSCALLS: [&str; 11] = [
    "write",
    "pwrite64",
    "fdatasync",
    "fsync",
    "rename",
    "renameat",
    "ftruncate",
    "unlink",
    "mkdir",
    "mkdirat",
    "openat",
];

/// Each of the first calls is killed at; beyond them every tenth, until a run ends untouched.
const EACH_UP_TO: usize = 40;
const THEN_EVERY: usize = 10;

/// Which call of a thread comes first changes a little from run to run, so one untouched run proves no end yet.
const UNTOUCHED_RUNS: usize = 2;

const CALLS: &str = "{ tool: write, args: { path: out/1.txt, content: 'one two' } }, \
                     { tool: edit, args: { path: out/1.txt, old: two, new: three } }";

/// F01, AX2: killed at the first, second, third … call of each kind until a run ends untouched, every run is taken up
/// again and completes, with its files right and its journal sound.
#[test]
fn killed_at_each_system_call() {
    if !is_there() {
        return;
    }
    let tally = Tally::default();
    // The whole run from nothing, and the calls on its journal alone, which worker threads make.
    let jobs: Vec<(&str, bool)> = SYSCALLS
        .iter()
        .map(|syscall| (*syscall, false))
        .chain(JOURNAL_SYSCALLS.map(|syscall| (syscall, true)))
        .collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some((syscall, on_journal)) = jobs.get(next.fetch_add(1, Ordering::SeqCst)) {
                    sweep(syscall, *on_journal, &tally);
                }
            });
        }
    });
    let kills = tally.kills.lock().unwrap();
    let sites = tally.sites.lock().unwrap();
    println!("{} kills {kills:?}", kills.values().sum::<usize>());
    println!("at {} different places: {sites:?}", sites.len());
    for (syscall, on_journal) in jobs {
        let name = name(syscall, on_journal);
        assert!(kills.get(&name).is_some_and(|count| *count > 0), "no kill at {name}");
    }
}

const JOURNAL_SYSCALLS: [&str; 3] = ["pwrite64", "fdatasync", "ftruncate"];

#[derive(Default)]
struct Tally {
    kills: Mutex<BTreeMap<String, usize>>,
    sites: Mutex<BTreeSet<String>>,
}

fn name(syscall: &str, on_journal: bool) -> String {
    if on_journal { format!("{syscall} on the journal") } else { syscall.to_owned() }
}

fn sweep(syscall: &str, on_journal: bool, tally: &Tally) {
    let mut untouched = 0;
    let each = 1..=EACH_UP_TO;
    let then = (EACH_UP_TO + THEN_EVERY..).step_by(THEN_EVERY);
    for nth in each.chain(then) {
        let rig = Rig::with_calls(CALLS);
        if kill_at(&rig, syscall, nth, on_journal, tally) {
            untouched = 0;
        } else {
            untouched += 1;
        }
        finish(&rig, &format!("{} {nth}", name(syscall, on_journal)));
        if untouched == UNTOUCHED_RUNS {
            return;
        }
    }
}

/// Runs until the `nth` such call of a thread; false if there was none.
fn kill_at(rig: &Rig, syscall: &str, nth: usize, on_journal: bool, tally: &Tally) -> bool {
    let inject = format!("inject={syscall}:signal=SIGKILL:when={nth}");
    let output = if on_journal {
        let id = rig.create();
        let journal = rig.run_dir(&id).join("journal");
        let journal = journal.to_str().unwrap().to_owned();
        rig.command_under(&strace(rig, syscall, &inject, &["-P", &journal]), &["resume", &id]).output()
    } else {
        rig.command_under(&strace(rig, syscall, &inject, &[]), &rig.run_args()).output()
    };
    let output = output.unwrap();
    if output.status.success() {
        return false;
    }
    // strace ends as what it traced: by the same signal.
    assert_eq!(output.status.signal(), Some(9), "{}", told(&output));
    *tally.kills.lock().unwrap().entry(name(syscall, on_journal)).or_default() += 1;
    tally.sites.lock().unwrap().extend(last_site(rig));
    true
}

fn strace(rig: &Rig, syscall: &str, inject: &str, more: &[&str]) -> Vec<String> {
    let (trace, filter) = (trace_path(rig), format!("trace={syscall}"));
    let command = ["strace", "-f", "-qq", "-y", "-o", &trace, "-e", &filter, "-e", inject];
    command.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

fn trace_path(rig: &Rig) -> String {
    rig.path().join("trace").display().to_string()
}

/// The call that was under way at the kill, with the names of runs and processes taken out.
fn last_site(rig: &Rig) -> Option<String> {
    let trace = fs::read_to_string(trace_path(rig)).unwrap();
    let line = trace.lines().rev().find(|line| line.contains('(') && line.contains('/'))?;
    let call = line.split_once(' ')?.1.trim_start().split('(').next()?.to_owned();
    let file = line.split(['<', '>', '"']).find(|part| part.starts_with('/'))?;
    let file = Path::new(file).file_name()?.to_str()?;
    let kind = ["journal", "lock", "events.jsonl", "catalog", "probe", "gitignore", ".tmp", ".so", "1.txt"]
        .into_iter()
        .find(|kind| file.contains(kind))
        .unwrap_or("other");
    Some(format!("{call} {kind}"))
}

/// Takes the run up again, or starts it if it never came into being, and checks its end.
fn finish(rig: &Rig, what: &str) {
    let runs = rig.runs();
    assert!(runs.len() <= 1, "after {what} there are {runs:?}");
    let id = match runs.first() {
        None => {
            rig.says(&rig.run_args());
            rig.runs().pop().unwrap()
        }
        Some(id) => {
            rig.says(&["store", "verify", id]);
            if rig.status(id) != "completed" {
                rig.says(&["resume", id]);
            }
            id.clone()
        }
    };
    check(rig, &id, what);
}

fn check(rig: &Rig, id: &str, what: &str) {
    assert_eq!(rig.status(id), "completed", "after {what}");
    rig.says(&["store", "verify", id]);
    let ended: Vec<_> = rig.calls(id).into_values().collect();
    let done = |tool: &str| (tool.to_owned(), "done".to_owned());
    assert_eq!(ended, [done("write"), done("edit")], "after {what}");
    assert_eq!(fs::read_to_string(rig.work().join("out/1.txt")).unwrap(), "one three", "after {what}");
    assert_eq!(
        fs::read_dir(rig.work().join("out")).unwrap().count(),
        1,
        "after {what}: a temporary file is left"
    );
    assert_eq!(rig.json(&["list", "--json"])[0]["status"], "completed", "after {what}");
    let names = fs::read_dir(rig.state_dir.join("runs")).unwrap().map(|entry| entry.unwrap().file_name());
    let strange = names.filter(|name| ![".probe", ".staging", id].contains(&name.to_str().unwrap())).count();
    assert_eq!(
        strange, 0,
        "after {what}: what a killed process leaves has one name, which the next one uses"
    );
}

/// F12: a sync of the journal that fails once ends that writer with an error: it syncs the journal no second time and
/// acknowledges nothing. The next one reads what is there and completes the run.
#[test]
fn a_failed_sync_is_never_repeated() {
    if !is_there() {
        return;
    }
    let (mut on_journal, mut elsewhere) = (0, 0);
    let mut untouched = 0;
    for nth in 1.. {
        let rig = Rig::with_calls(CALLS);
        let id = rig.create();
        let inject = format!("inject=fdatasync:error=EIO:when={nth}");
        let output =
            rig.command_under(&strace(&rig, "fdatasync", &inject, &[]), &["resume", &id]).output().unwrap();
        let trace = fs::read_to_string(trace_path(&rig)).unwrap();
        let syncs: Vec<&str> = trace.lines().filter(|line| line.contains("fdatasync(")).collect();
        let is_journal = |line: &str| line.contains("/journal>");
        match syncs.iter().position(|line| line.contains("EIO") && is_journal(line)) {
            Some(failed) => {
                on_journal += 1;
                assert_eq!(output.status.code(), Some(1), "{}", told(&output));
                assert!(told(&output).contains("Input/output error"), "{}", told(&output));
                let later: Vec<_> = syncs[failed + 1..].iter().filter(|line| is_journal(line)).collect();
                assert!(later.is_empty(), "synced again: {later:?}");
            }
            None if trace.contains("EIO") => elsewhere += 1,
            None => untouched += 1,
        }
        finish(&rig, &format!("EIO at fdatasync {nth}"));
        if untouched == UNTOUCHED_RUNS {
            break;
        }
    }
    println!("failed syncs: {on_journal} of the journal, {elsewhere} elsewhere");
    assert!(on_journal > 0);
}

fn is_there() -> bool {
    if !has("strace") {
        skip("strace is not installed");
        return false;
    }
    let works = std::process::Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    if !works.is_ok_and(|status| status.success()) {
        skip("strace may not trace here");
        return false;
    }
    true
}
