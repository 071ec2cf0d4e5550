//! Killed while a workspace is made, merged or taken away: at each git command that is started, and at each system call of the
//! program's own that changes a directory. The same said once more must find its way from there.
//!
//! Git itself is not killed here: it has a process group of its own and ends what it has begun, as after `kill -9` of the program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::rig::{Rig, has, skip, told};

/// What a directory changes by. `openat` and `write` are met in between.
const SYSCALLS: [&str; 5] = ["mkdir", "rename", "unlink", "unlinkat", "rmdir"];

/// Beyond the first few, places that are killed at lie further and further apart.
const PLACES: [usize; 7] = [1, 2, 3, 5, 8, 14, 25];

/// A write can be repeated, so that whatever a kill cuts short is done in the end.
const SCRIPT: &str = "conversations:
  - match: { agent: one }
    turns:
      - calls: [ { tool: write, args: { path: by-one, content: one } } ]
      - text: Done.
  - match: { agent: two }
    turns:
      - calls: [ { tool: write, args: { path: by-two, content: two } } ]
      - text: Done.
  - turns:
      - calls: [ { tool: write, args: { path: by-anybody, content: any } } ]
      - text: Done.
";

/// One thing that is done with workspaces, and how it is seen that it is done.
struct Deed {
    name: &'static str,
    /// Brings everything up to it, and answers what is typed.
    prepare: fn(&Rig) -> Vec<String>,
    check: fn(&Rig),
}

const DEEDS: [Deed; 6] = [
    Deed { name: "worktree and branch", prepare: created, check: is_completed },
    Deed { name: "agents with a branch each", prepare: created_with_agents, check: has_both },
    Deed { name: "merge into a checkout", prepare: two_runs, check: is_merged },
    Deed { name: "merge beside a checkout", prepare: two_runs_elsewhere, check: is_merged_elsewhere },
    Deed { name: "workspace cleanup", prepare: one_run, check: is_cleaned_up },
    Deed { name: "session delete", prepare: session_to_delete, check: is_cleaned_up },
];

/// Killed before each git command in turn, which is then carried out all the same.
#[test]
fn killed_at_each_git_command() {
    each(|deed| {
        let mut kills = 0;
        for nth in PLACES {
            let rig = repository();
            let args = (deed.prepare)(&rig);
            let output = with_deadly_git(&rig, &args, nth);
            let is_killed = output.status.signal() == Some(9);
            assert!(is_killed || output.status.success(), "{} {nth}: {}", deed.name, told(&output));
            again(&rig, deed, &args, &format!("{} at git command {nth}", deed.name));
            kills += usize::from(is_killed);
            if asked(&rig) < nth {
                break;
            }
        }
        kills
    });
}

/// Killed at the program's own changes of directories.
#[test]
fn killed_at_each_change_of_a_directory() {
    if !has("strace") {
        return skip("strace is not installed");
    }
    each(|deed| SYSCALLS.iter().map(|syscall| killed_at(deed, syscall)).sum());
}

/// How often it was killed at one of these calls.
fn killed_at(deed: &Deed, syscall: &str) -> usize {
    let mut kills = 0;
    for nth in PLACES {
        let rig = repository();
        let args = (deed.prepare)(&rig);
        let output = with_strace(&rig, &args, syscall, nth);
        let is_killed = output.status.signal() == Some(9);
        assert!(is_killed || output.status.success(), "{} {syscall} {nth}: {}", deed.name, told(&output));
        again(&rig, deed, &args, &format!("{} at {syscall} {nth}", deed.name));
        if !is_killed {
            break;
        }
        kills += 1;
    }
    kills
}

/// All deeds side by side: most of the time is waited for disks.
fn each(kill: impl Fn(&Deed) -> usize + Sync) {
    std::thread::scope(|scope| {
        for deed in &DEEDS {
            scope.spawn(|| {
                let kills = kill(deed);
                println!("{}: killed {kills} times", deed.name);
                assert!(kills > 0, "{} was never killed", deed.name);
            });
        }
    });
}

/// A lock that is not ours stays, and what would need it is refused; so do a worktree and a branch of the user's.
#[test]
fn what_is_not_ours_stays() {
    let rig = repository();
    let args = two_runs(&rig);
    git(&rig, &["worktree", "add", "-q", "-b", "theirs", "../theirs"]);
    let lock = rig.work().join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    let before = git(&rig, &["rev-parse", "main"]);
    let refused = rig.does(&words(&args));
    assert_eq!(refused.status.code(), Some(1), "{}", told(&refused));
    assert!(told(&refused).contains("index.lock` is there: another git is at work"), "{}", told(&refused));
    assert!(lock.exists());
    assert_eq!(git(&rig, &["rev-parse", "main"]), before);
    fs::remove_file(&lock).unwrap();
    rig.says(&words(&args));
    is_merged(&rig);
    rig.says(&["session", "delete", "port"]);
    rig.says(&["workspace", "cleanup", "--older-than=1ms"]);
    assert_eq!(git(&rig, &["worktree", "list"]).lines().count(), 2);
    assert!(rig.path().join("theirs/.git").is_file());
}

/// Says it once more, to its end, and looks at what there is.
fn again(rig: &Rig, deed: &Deed, args: &[String], what: &str) {
    let output = rig.does(&words(args));
    // What was done already need not be possible again.
    let done = told(&output);
    let is_over =
        ["there is no session", "cannot resume", "completed"].iter().any(|said| done.contains(said));
    assert!(output.status.success() || is_over, "{what}: {done}");
    (deed.check)(rig);
    is_sound(rig, what);
}

/// Every worktree that git knows of has a directory, every directory of ours is one that git knows of, and no lock is left.
fn is_sound(rig: &Rig, what: &str) {
    let listed = git(rig, &["worktree", "list", "--porcelain"]);
    let known: Vec<PathBuf> =
        listed.lines().filter_map(|line| line.strip_prefix("worktree ")).map(PathBuf::from).collect();
    for place in &known {
        assert!(place.join(".git").exists(), "{what}: {} is registered and not there", place.display());
    }
    assert!(!listed.contains("prunable"), "{what}: {listed}");
    for within in ["workspace/run", "workspace/merge", "sessions/port/run"] {
        let found = fs::read_dir(rig.state_dir.join(within)).into_iter().flatten().flatten();
        for place in found.map(|entry| entry.path()).filter(|path| path.is_dir()) {
            let whole = place.canonicalize().unwrap();
            assert!(known.contains(&whole), "{what}: {} is not registered: {listed}", place.display());
        }
    }
    let locks = below(&rig.work().join(".git"), &|name| name.ends_with(".lock"));
    assert_eq!(locks, Vec::<PathBuf>::new(), "{what}");
    assert_eq!(git(rig, &["status", "--porcelain"]), "", "{what}");
    git(rig, &["fsck", "--no-dangling", "--no-progress"]);
}

fn repository() -> Rig {
    let rig = Rig::new();
    rig.script(SCRIPT);
    fs::create_dir(rig.work().join("agents")).unwrap();
    for name in ["one", "two"] {
        let text = format!("---\ndescription: {name}\n---\nYou are {name}.\n");
        fs::write(rig.work().join(format!("agents/{name}.md")), text).unwrap();
    }
    let steps = "steps: [ { id: a, description: one, agent: one }, { id: b, description: two, agent: two } ]";
    fs::write(rig.work().join("steps.yaml"), steps).unwrap();
    for args in [
        &["init", "-q", "--initial-branch=main"][..],
        &["config", "user.name", "x"],
        &["config", "user.email", "x@x"],
        &["add", "."],
        &["commit", "-q", "-m", "first"],
    ] {
        git(&rig, args);
    }
    rig
}

fn git(rig: &Rig, args: &[&str]) -> String {
    let done = Command::new("git").args(args).current_dir(rig.work()).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", told(&done));
    String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
}

fn typed(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn words(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

fn created(rig: &Rig) -> Vec<String> {
    let id = rig.says(&["create", "--task", "x", "--model", "scripted/script.yaml"]);
    typed(&["resume", id.trim()])
}

fn created_with_agents(rig: &Rig) -> Vec<String> {
    let apart = ["--plan=steps.yaml", "--collaboration=parallel"];
    let id = rig.says(&[&["create", "--task", "x", "--model", "scripted/script.yaml"][..], &apart].concat());
    typed(&["resume", id.trim()])
}

fn has_both(rig: &Rig) {
    let id = rig.runs().into_iter().find(|id| !id.contains('.')).unwrap();
    assert_eq!(rig.status(&id), "completed");
    let shown = rig.json(&["show", &id, "--json"]);
    assert_eq!(shown["subAgentCount"], 2, "none was sent twice");
    let branch = shown["branch"].as_str().unwrap();
    let made = git(rig, &["ls-tree", "-r", "--name-only", branch]);
    assert_eq!(made.lines().filter(|name| name.starts_with("by-")).count(), 2, "{made}");
    assert_eq!(git(rig, &["rev-list", "--count", "--merges", branch]), "2", "each was merged once");
}

fn is_completed(rig: &Rig) {
    let id = rig.runs().pop().unwrap();
    assert_eq!(rig.status(&id), "completed");
    let shown = rig.json(&["show", &id, "--json"]);
    assert_eq!(shown["commits"].as_array().unwrap().len(), 1, "{shown}");
    let place = shown["workspace"].as_str().unwrap();
    assert_eq!(git(rig, &["-C", place, "status", "--porcelain"]), "", "all of it is committed");
    rig.says(&["merge", &id]);
    let made = git(rig, &["ls-tree", "-r", "--name-only", "main"]);
    assert!(made.contains("by-"), "{made}");
    assert_eq!(git(rig, &["rev-list", "--count", "main"]), "2", "committed once");
}

fn one_run(rig: &Rig) -> Vec<String> {
    rig.says(&["run", "x", "--model", "scripted/script.yaml"]);
    typed(&["workspace", "cleanup", "--older-than=1ms"])
}

fn parallel(rig: &Rig) {
    for agent in ["one", "two"] {
        let session = ["--session=port", "--collaboration=parallel", "--agent", agent];
        rig.says(&[&["run", "x", "--model", "scripted/script.yaml"][..], &session].concat());
    }
}

fn two_runs(rig: &Rig) -> Vec<String> {
    parallel(rig);
    typed(&["merge", "--session", "port", "--verify", "test -e script.yaml"])
}

fn two_runs_elsewhere(rig: &Rig) -> Vec<String> {
    parallel(rig);
    git(rig, &["branch", "next"]);
    typed(&["merge", "--session", "port", "--into", "next"])
}

fn session_to_delete(rig: &Rig) -> Vec<String> {
    parallel(rig);
    rig.says(&["run", "x", "--model", "scripted/script.yaml", "--session=port"]);
    typed(&["session", "delete", "port"])
}

fn holds_both(rig: &Rig, branch: &str) {
    let made = git(rig, &["ls-tree", "-r", "--name-only", branch]);
    assert_eq!(made.lines().filter(|name| name.starts_with("by-")).count(), 2, "{made}");
    assert_eq!(git(rig, &["rev-list", "--count", "--merges", branch]), "1", "merged once");
}

fn is_merged(rig: &Rig) {
    holds_both(rig, "main");
}

fn is_merged_elsewhere(rig: &Rig) {
    holds_both(rig, "next");
    assert_eq!(git(rig, &["rev-list", "--count", "main"]), "1");
}

fn is_cleaned_up(rig: &Rig) {
    assert_eq!(git(rig, &["worktree", "list"]).lines().count(), 1);
    let left = below(&rig.state_dir, &|name| name.starts_with("by-"));
    assert_eq!(left, Vec::<PathBuf>::new());
    assert!(!git(rig, &["branch", "--list", "agent/*"]).is_empty(), "the work stays");
}

/// A git that kills whoever starts it for the `nth` time, and does it all the same.
fn with_deadly_git(rig: &Rig, args: &[String], nth: usize) -> Output {
    let path = std::env::var_os("PATH").unwrap();
    let real = std::env::split_paths(&path).map(|place| place.join("git")).find(|git| git.is_file()).unwrap();
    let place = rig.path().join("deadly");
    fs::create_dir_all(&place).unwrap();
    let [count, done] = ["count", "done"].map(|name| rig.path().join(name).display().to_string());
    let script = format!(
        "#!/bin/sh\necho x >> '{count}'\nif [ $(wc -l < '{count}') -eq {nth} ]; then kill -9 $PPID; '{0}' \"$@\"; touch '{done}'; \
         exit; fi\nexec '{0}' \"$@\"\n",
        real.display()
    );
    fs::write(place.join("git"), script).unwrap();
    fs::set_permissions(place.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let deadly = std::env::join_paths(std::iter::once(place).chain(std::env::split_paths(&path))).unwrap();
    let output = rig.command(&words(args)).env("PATH", deadly).output().unwrap();
    let start = Instant::now();
    while output.status.signal() == Some(9) && fs::remove_file(&done).is_err() {
        assert!(start.elapsed() < Duration::from_secs(60), "git did not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    output
}

/// How often git was started under [`with_deadly_git`]. A command of the harness's that starts it is killed alone.
fn asked(rig: &Rig) -> usize {
    fs::read_to_string(rig.path().join("count")).unwrap_or_default().lines().count()
}

/// The program without those it starts.
fn with_strace(rig: &Rig, args: &[String], syscall: &str, nth: usize) -> Output {
    let (trace, inject) = (
        rig.path().join("trace").display().to_string(),
        format!("inject={syscall}:signal=SIGKILL:when={nth}"),
    );
    let strace = ["strace", "-qq", "-o", &trace, "-e", &format!("trace={syscall}"), "-e", &inject];
    rig.command_under(&typed(&strace), &words(args)).output().unwrap()
}

fn below(place: &Path, is_meant: &dyn Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && !path.is_symlink() {
            found.extend(below(&path, is_meant));
        } else if is_meant(&name.to_string_lossy()) {
            found.push(path);
        }
    }
    found
}
