//! What runs leave in the user's repository besides their branches, as a user meets it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

use serde_json::{Value, json};

use super::checkout::{self, git, git_in};
use super::desk::{Desk, SCRIPT, files_below};

fn repository() -> Desk {
    checkout::repository(SCRIPT, &[])
}

fn run(desk: &Desk, more: &[&str]) -> (String, PathBuf) {
    let shown = desk.json(&[&["run", "Write a", "--model", "scripted/s.yaml"], more].concat());
    let text = |name: &str| shown[name].as_str().unwrap().to_owned();
    (text("id"), text("workspace").into())
}

fn cleaned(desk: &Desk) -> Value {
    desk.json(&["workspace", "cleanup", "--older-than", "1ms"])
}

/// The runs that changes are kept for.
fn carried(desk: &Desk) -> Vec<String> {
    let names = git(desk, &["for-each-ref", "--format=%(refname:lstrip=3)", "refs/longhaul"]);
    names.lines().map(str::to_owned).collect()
}

/// D14.8: what `--with-changes` carried in is kept under a name until a branch of a run that has ended keeps it, or the run is gone.
#[test]
fn what_was_carried_in_is_let_go() {
    let desk = repository();
    desk.write("mine", "not committed\n");
    let create = ["create", "--task", "x", "--model", "scripted/s.yaml", "--with-changes"];
    let waiting = desk.get(&create).trim().to_owned();
    let (ended, place) = run(&desk, &["--with-changes"]);
    let mut both = vec![waiting.clone(), ended.clone()];
    both.sort();
    assert_eq!(carried(&desk), both);
    assert_eq!(desk.json(&["workspace", "cleanup"])["removed"], json!([]));
    assert_eq!(carried(&desk), both, "a day is not over");
    assert_eq!(cleaned(&desk)["removed"], json!([ended]));
    assert_eq!(carried(&desk), std::slice::from_ref(&waiting));
    assert!(!place.exists());
    assert_eq!(desk.get(&["diff", &ended, "--name-only"]), "a.txt\n", "its branch still knows");
    // One that has not begun has nothing else that it could begin with.
    git(&desk, &["gc", "-q", "--prune=now"]);
    desk.get(&["start", &waiting]);
    assert!(desk.path(&format!(".longhaul/workspace/run/{waiting}/mine")).exists());
    desk.get(&["rm", &waiting]);
    assert_eq!(carried(&desk), Vec::<String>::new());
    assert!(desk.path(&format!(".longhaul/workspace/run/{waiting}/mine")).exists(), "workspaces stay");
    assert_eq!(git(&desk, &["status", "--porcelain", "mine"]), "?? mine");
}

/// D14.8: a worktree whose directory somebody deleted is no longer listed, by `rm` and by `cleanup`; no other is forgotten.
#[test]
fn a_worktree_that_was_deleted_is_no_longer_listed() {
    let desk = repository();
    let top = desk.path("");
    let runs: Vec<(String, PathBuf)> = (0..5).map(|_| run(&desk, &[])).collect();
    for foreign in [desk.elsewhere("foreign"), desk.path(".longhaul/also-foreign")] {
        git_in(&top, &["worktree", "add", "-q", "--detach", &foreign.display().to_string()]);
        std::fs::remove_dir_all(&foreign).unwrap();
    }
    let [removed, deleted, locked, there, left] = &runs[..] else { panic!("five") };
    git_in(&top, &["worktree", "lock", &locked.1.display().to_string()]);
    for (_, place) in [removed, deleted, locked, left] {
        std::fs::remove_dir_all(place).unwrap();
    }
    let listed = |id: &str| git_in(&top, &["worktree", "list", "--porcelain"]).contains(id);
    desk.get(&["rm", &removed.0, &there.0]);
    let all = runs.iter().map(|(id, _)| listed(id)).collect::<Vec<bool>>();
    assert_eq!(all, [false, true, true, true, true]);

    let dry = desk.json(&["workspace", "cleanup", "--older-than", "1d", "--dry-run"]);
    assert_eq!((&dry["unlisted"], listed(&deleted.0)), (&json!(0), true));
    let cleaned = desk.json(&["workspace", "cleanup", "--older-than", "1d"]);
    assert_eq!((&cleaned["unlisted"], &cleaned["removed"]), (&json!(2), &json!([])));
    let all = runs.iter().map(|(id, _)| listed(id)).collect::<Vec<bool>>();
    assert_eq!(all, [false, false, true, true, false]);
    assert!(listed("/foreign") && listed("also-foreign"), "what is not ours is the user's to forget");
    assert!(there.1.join("a.txt").exists());
    git_in(&top, &["fsck", "--no-dangling"]);
    // Their branches stay, and one can be gone back to.
    assert_eq!(desk.get(&["diff", &deleted.0, "--name-only"]), "a.txt\n");
    assert_eq!(desk.say(&["rewind", &left.0, "--to", "1"]).code, 0);
    assert!(left.1.join("a.txt").exists() && listed(&left.0));
}

/// D11.16, D14.8: a fork that is killed while it is made leaves nothing that a cleanup does not take away, however new it is: no
/// directory, no branch, no worktree, no lock. What a fork has made whole stays.
#[test]
fn what_a_killed_fork_leaves_is_cleaned_up() {
    let desk = repository();
    let (id, place) = run(&desk, &[]);
    let begun = Instant::now();
    let whole = desk.json(&["fork", &id, "--at", "1"])["id"].as_str().unwrap().to_owned();
    let time = begun.elapsed();
    for part in 0..24 {
        let mut fork = desk.command(&["fork", &id, "--at", "1"]);
        let mut fork = fork.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(time * part / 24);
        fork.kill().unwrap();
        fork.wait().unwrap();
    }
    desk.json(&["workspace", "cleanup"]);
    let listed = desk.json(&["list"]);
    let mut runs: Vec<&str> =
        listed.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
    runs.sort_unstable();
    assert!(runs.contains(&id.as_str()) && runs.contains(&whole.as_str()), "{runs:?}");
    let found = std::fs::read_dir(place.parent().unwrap()).unwrap();
    let mut found: Vec<String> =
        found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.sort_unstable();
    // Each with the note whose worktree it is.
    let kept: Vec<String> =
        runs.iter().flat_map(|run| [(*run).to_owned(), format!("{run}.worktree-of")]).collect();
    assert_eq!(found, kept);
    assert_eq!(git(&desk, &["branch", "--list", "agent/*"]).lines().count(), runs.len());
    assert_eq!(git(&desk, &["worktree", "list"]).lines().count(), runs.len() + 1);
    let locks = files_below(&desk.path(".git")).into_iter().map(|(path, _)| path);
    let locks: Vec<PathBuf> =
        locks.filter(|path| path.extension().is_some_and(|end| end == "lock")).collect();
    assert_eq!(locks, Vec::<PathBuf>::new());
}
