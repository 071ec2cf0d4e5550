//! Honest work inside: git, toolchains, files, the words in which a command's end is reported.

use std::fs;

use longhaul_core::tool::Outcome;
use longhaul_workspace::homing::publish;
use longhaul_workspace::place::{Place, ensure};
use longhaul_workspace::source::{Address, Store};

use super::rig::{Held, can_hold, git, has, output};

/// A repository with one commit on `main`.
fn repository() -> (tempfile::TempDir, std::path::PathBuf) {
    let outer = tempfile::tempdir().unwrap();
    let repo = outer.path().join("repo");
    fs::create_dir(&repo).unwrap();
    git(&repo, &["init", "-q", "--initial-branch=main"]);
    git(&repo, &["commit", "-q", "--allow-empty", "-m", "first"]);
    (outer, repo)
}

/// Git works in a worktree below the state directory, whose repository lies elsewhere.
#[tokio::test]
async fn git_works_in_a_worktree() {
    if !can_hold("git_works_in_a_worktree") {
        return;
    }
    let (outer, repo) = repository();
    git(&repo, &["config", "user.name", "them"]);
    git(&repo, &["config", "user.email", "them@localhost"]);
    let tree = outer.path().join("state/workspace/run/run_x");
    git(&repo, &["worktree", "add", "-q", "-b", "work", tree.to_str().unwrap()]);
    let held = Held::over(outer, "state/workspace/run/run_x", "state");
    let said = held
        .get("echo x > f && git add f && git commit -qm second && git status --short && git log --format=%s")
        .await;
    assert_eq!(said, "second\nfirst\n", "nothing is complained about");
    let more = "git branch side && git checkout -q side && git commit -q --allow-empty -m z && git rebase -q work && git stash list";
    assert_eq!(held.get(more).await, "(no output)");
    assert_eq!(git(&repo, &["log", "--format=%s", "work"]), "second\nfirst\n");
    // What stops half-way keeps that in the worktree's own directory; packed branches are one list for all, whoever packs them.
    let stopped = "echo a > f && git commit -qam a && git checkout -q work && echo b > f && git commit -qam b; git cherry-pick side; \
                   echo c > f && git add f && git -c core.editor=true cherry-pick --continue && echo d > f && git stash -q && git stash pop -q";
    held.get(stopped).await;
    git(&repo, &["branch", "theirs"]);
    git(&repo, &["pack-refs", "--all"]);
    assert_eq!(
        held.get("git branch --format='%(refname:short)' && git pack-refs --all").await,
        "main\nside\ntheirs\nwork\n"
    );
    assert_eq!(
        git(&repo, &["branch", "--format=%(refname:short) %(subject)"]),
        "main first\nside a\ntheirs first\nwork a\n"
    );
    assert!(held.get("ls ../../..").await.trim() == "workspace", "the state directory is empty but for this");
}

/// Git does what it does anywhere in a run's worktree, which has a `.git` of its own, and says nothing that it would not say there; of
/// the user's it sees the objects, and changes nothing (the attack suite tries to).
#[tokio::test]
async fn git_works_in_a_runs_own_worktree() {
    if !can_hold("git_works_in_a_runs_own_worktree") {
        return;
    }
    let (outer, repo) = repository();
    git(&repo, &["config", "user.name", "them"]);
    git(&repo, &["config", "user.email", "them@localhost"]);
    git(&repo, &["branch", "theirs"]);
    let tree = outer.path().join("state/workspace/run/run_x");
    let (path, branch) = (tree.clone(), "work".to_owned());
    ensure(&Place::Worktree { repo: repo.clone(), path, branch, start: None }).unwrap();
    let before = git(&repo, &["for-each-ref"]);
    let held = Held::over(outer, "state/workspace/run/run_x", "state");
    let quiet = [
        "echo x > f && git add f && git commit -qm second && git status --short",
        "git branch side && git branch -q -d side 2>/dev/null; git tag v1 && git tag -d v1 >/dev/null && git pack-refs --all",
        "git checkout -q -b other && git commit -q --allow-empty -m z && git rebase -q work && git stash list",
        "git bisect start -q HEAD HEAD~2 >/dev/null && git bisect reset 2>/dev/null; git checkout -q work",
        "echo d > f && git stash -q && git stash pop -q && git commit -qam third",
        "git fsck --no-progress --no-dangling",
    ];
    for command in quiet {
        assert_eq!(held.get(command).await, "(no output)", "{command}");
    }
    assert_eq!(held.get("git log --format=%s").await, "third\nsecond\nfirst\n");
    assert_eq!(git(&repo, &["for-each-ref"]), before);
    let scratch = tree.with_file_name("scratch");
    publish(&tree, &scratch).came.unwrap();
    assert_eq!(git(&repo, &["log", "--format=%s", "work"]), "third\nsecond\nfirst\n");
    assert_eq!(
        held.get("ls {REPO}/.git".replace("{REPO}", repo.to_str().unwrap()).as_str()).await,
        "objects\n"
    );
}

/// A06: what a workspace was made from is linked to the store that others are made from, and is not for an agent to write. Objects
/// that another repository lends are read.
#[tokio::test]
async fn what_others_are_made_from_is_read_only() {
    if !can_hold("what_others_are_made_from_is_read_only") {
        return;
    }
    let (outer, repo) = repository();
    let base = outer.path().canonicalize().unwrap();
    let address = Address::parse(repo.to_str().unwrap(), &base).unwrap();
    let store = Store::at(&base.join("state/cache"), address, None);
    let start = store.fetch(None).unwrap();
    let (path, branch) = (base.join("state/workspace/run/run_x"), "work".to_owned());
    let url = repo.display().to_string();
    let store = store.directory().to_owned();
    ensure(&Place::Clone { store, url, path, branch, start }).unwrap();
    git(&base, &["clone", "-q", "--shared", repo.to_str().unwrap(), "borrower"]);
    git(&base.join("borrower"), &["config", "user.name", "them"]);
    git(&base.join("borrower"), &["config", "user.email", "them@localhost"]);
    let held = Held::over(outer, "state/workspace/run/run_x", "state");
    assert_eq!(held.get("git log --format=%s && git fsck --no-progress").await, "first\n");
    let linked = "f=$(find .git/longhaul-fetched -type f -links +1 | head -1); test -n \"$f\" && echo linked; \
                  chmod u+w $f 2>/dev/null && echo x >> $f && echo BROKE; rm -f $f 2>/dev/null && echo BROKE; true";
    assert_eq!(held.get(linked).await, "linked\n");
    let held = Held::over(held.outer, "borrower", "state");
    assert_eq!(held.get("git log --format=%s && git commit -q --allow-empty -m more").await, "first\n");
}

/// A48: what the user begins in his own checkout while a command runs in a worktree is left alone.
#[tokio::test]
async fn a_merge_of_the_users_own_is_left_alone() {
    if !can_hold("a_merge_of_the_users_own_is_left_alone") {
        return;
    }
    let (outer, repo) = repository();
    git(&repo, &["checkout", "-q", "-b", "side"]);
    fs::write(repo.join("f"), "x").unwrap();
    git(&repo, &["add", "f"]);
    git(&repo, &["commit", "-q", "-m", "second"]);
    git(&repo, &["checkout", "-q", "main"]);
    let tree = outer.path().join("state/workspace/run/run_x");
    git(&repo, &["worktree", "add", "-q", "-b", "work", tree.to_str().unwrap()]);
    let held = Held::over(outer, "state/workspace/run/run_x", "state");
    let command = held.run("touch begun; until [ -e merged ]; do sleep 0.05; done");
    let user = async {
        while !tree.join("begun").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        git(&repo, &["merge", "-q", "--no-ff", "--no-commit", "side"]);
        fs::write(tree.join("merged"), "").unwrap();
    };
    let (outcome, ()) = tokio::join!(command, user);
    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome:?}");
    assert!(repo.join(".git/MERGE_HEAD").exists());
}

/// And in the checkout itself, with the state directory inside; below its root the rest is there to be read.
#[tokio::test]
async fn git_works_in_place() {
    if !can_hold("git_works_in_place") {
        return;
    }
    let outer = tempfile::tempdir().unwrap();
    let repo = outer.path().join("repo");
    fs::create_dir_all(repo.join("sub")).unwrap();
    fs::write(repo.join("top"), "top").unwrap();
    git(&repo, &["init", "-q"]);
    git(&repo, &["config", "user.name", "them"]);
    git(&repo, &["config", "user.email", "them@localhost"]);
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-q", "-m", "first"]);
    let held = Held::over(outer, "repo", "repo/.longhaul");
    fs::create_dir_all(repo.join(".longhaul/runs")).unwrap();
    let said = held
        .get("echo x > f && git add f && git commit -qm second && git log --format=%s; ls -A .longhaul")
        .await;
    assert_eq!(said, "second\nfirst\n");
    let sub = Held::over(held.outer, "repo/sub", "repo/.longhaul");
    let said = sub
        .get("echo y > g && git add -A && git commit -qm third && git show --stat --format=%s | head -3")
        .await;
    assert_eq!(said, "third\n\n sub/g | 1 +\n");
    assert!(matches!(sub.run("echo z > ../top").await, Outcome::Failed { .. }));
}

/// A12: a state directory deep in the workspace cannot be moved from under its cover by moving what it lies in.
#[tokio::test]
async fn a_deep_state_directory_stays_covered() {
    if !can_hold("a_deep_state_directory_stays_covered") {
        return;
    }
    let outer = tempfile::tempdir().unwrap();
    let state = outer.path().join("work/sub/dir/state");
    fs::create_dir_all(state.join("runs")).unwrap();
    fs::write(state.join("runs/secret"), "secret").unwrap();
    let held = Held::over(outer, "work", "work/sub/dir/state");
    let said =
        held.get("mv sub/dir sub/moved; mv sub moved; cat */*/*/runs/secret */*/runs/secret; true").await;
    assert!(!said.lines().any(|line| line == "secret"), "{said}");
    assert!(state.join("runs/secret").exists(), "{said}");
    assert!(!held.root().join("moved/dir/state/runs").exists(), "{said}");
    held.get("echo x > sub/dir/file && mv sub/dir/file sub/dir/other").await;
}

/// A11: settings that are a link keep nobody from working, and are after a command what they were before it.
#[tokio::test]
async fn settings_that_are_a_link_stay_what_they_are() {
    if !can_hold("settings_that_are_a_link_stay_what_they_are") {
        return;
    }
    let held = Held::at("work", "state");
    let (settings, link) = (held.root().join("conf/l.yaml"), held.root().join("longhaul.yaml"));
    fs::create_dir(held.root().join("conf")).unwrap();
    fs::write(&settings, "mine\n").unwrap();
    std::os::unix::fs::symlink("conf/l.yaml", &link).unwrap();
    assert_eq!(held.get("echo x > file; cat longhaul.yaml").await, "mine\n");
    for forgery in [
        "echo forged > longhaul.yaml",
        "rm longhaul.yaml; echo forged > longhaul.yaml",
        "rm -f conf/l.yaml; mv conf c; mkdir -p conf; echo forged > conf/l.yaml",
        "echo forged > other; ln -sf other longhaul.yaml",
    ] {
        held.get(&format!("({forgery}) 2>&1; true")).await;
        assert_eq!(fs::read_to_string(&link).unwrap(), "mine\n", "{forgery}");
        assert_eq!(fs::read_link(&link).unwrap().as_os_str(), "conf/l.yaml", "{forgery}");
    }
}

/// What toolchains need is there: a crate is built and tested without a network.
#[tokio::test]
async fn cargo_works() {
    if !can_hold("cargo_works") {
        return;
    }
    if !has("cargo") {
        return eprintln!("SKIP cargo_works: needs cargo");
    }
    let held = Held::new();
    fs::create_dir(held.root().join("src")).unwrap();
    fs::write(
        held.root().join("Cargo.toml"),
        "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    )
    .unwrap();
    fs::write(held.root().join("src/lib.rs"), "#[test]\nfn adds() { assert_eq!(1 + 1, 2) }\n").unwrap();
    let said = held.get("cargo test 2>&1").await;
    assert!(said.contains("test adds ... ok"), "{said}");
}

/// Private places are writable and empty each time; processes, sockets and pipes among themselves work; there is a
/// loopback.
#[tokio::test]
async fn a_command_has_a_world_of_its_own() {
    if !can_hold("a_command_has_a_world_of_its_own") {
        return;
    }
    let held = Held::new();
    assert_eq!(held.get("echo a > /tmp/a; echo b > ~/b; ls /tmp/a ~/b | wc -l").await, "2\n");
    // The workspace itself lies below /tmp here, so only what was left there counts.
    assert_eq!(held.get("ls /tmp/a ~/b 2>/dev/null | wc -l; echo kept > kept").await, "0\n");
    assert_eq!(fs::read_to_string(held.root().join("kept")).unwrap(), "kept\n");
    assert_eq!(held.get("echo $TMPDIR; id -u; cat <(echo piped); echo x > /dev/stdout; exec 2>/dev/null; hostname || uname -n").await,
        format!("/tmp\n{}\npiped\nx\nlonghaul\n", rustix::process::getuid().as_raw()));
    if has("python3") {
        let served = "python3 -c \"
import socket, threading
s = socket.create_server(('127.0.0.1', 0))
threading.Thread(target=lambda: s.accept()[0].sendall(b'hello')).start()
print(socket.create_connection(s.getsockname()).recv(5).decode())\"";
        assert_eq!(held.get(served).await, "hello\n");
    }
}

/// A3.4: the end of a command is said, and one that is asked to end has the time to clear up.
#[tokio::test]
async fn the_end_of_a_held_command_is_said() {
    if !can_hold("the_end_of_a_held_command_is_said") {
        return;
    }
    let held = Held::new();
    let message = |outcome: &Outcome| outcome.error().unwrap_or_default().to_owned();
    assert_eq!(message(&held.run("exit 3").await), "exit code 3");
    assert_eq!(message(&held.run("kill -9 $$").await), "exit code 137, as after signal 9");
    assert_eq!(message(&held.run("no-such-program").await), "exit code 127");
    let slow = "trap 'echo cleared up; exit 0' TERM; echo so far; while :; do sleep 0.05; done";
    let outcome = held.run_for(slow, Some(1500)).await;
    assert_eq!(message(&outcome), "timed out after 1500 ms");
    // In between, the shell may say how its `sleep` ended.
    let text = &output(&outcome).text;
    assert!(text.starts_with("so far\n") && text.ends_with("cleared up\n"), "{text}");
}

/// A12: a command in the background that exchanges a directory for a link, again and again, never gets what the link leads to
/// into the world of another command: that one is not run.
#[tokio::test]
async fn a_swapped_directory_is_not_mounted() {
    if !can_hold("a_swapped_directory_is_not_mounted") || !has("python3") {
        return eprintln!("SKIP a_swapped_directory_is_not_mounted: needs a sandbox and python3");
    }
    let held = Held::new();
    let secret = held.outer.path().join("secret");
    fs::create_dir_all(&secret).unwrap();
    fs::write(secret.join("key"), "CANARY").unwrap();
    git(held.root(), &["init", "-q"]);
    fs::create_dir(held.root().join(".git/modules")).unwrap();
    // The exchange is done outside, as a command that began while there was no such directory could do it.
    let (at, aside) = (held.root().join(".git/modules"), held.root().join(".git/aside"));
    std::os::unix::fs::symlink(&secret, &aside).unwrap();
    let stop = held.outer.path().join("stop");
    let swapping = {
        let (at, aside, stop) = (at.clone(), aside, stop.clone());
        std::thread::spawn(move || {
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            while !stop.exists() {
                rustix::fs::renameat_with(rustix::fs::CWD, &at, rustix::fs::CWD, &aside, flags).unwrap();
            }
        })
    };
    let mut refused = 0;
    for _ in 0..150 {
        let outcome = held.run("cat .git/modules/key; true").await;
        let text = format!("{outcome:?}");
        assert!(!text.contains("CANARY"), "{text}");
        refused += usize::from(!outcome.is_done());
    }
    fs::write(&stop, "").unwrap();
    swapping.join().unwrap();
    assert!(refused > 0, "void: the exchange was never in the way");
}
