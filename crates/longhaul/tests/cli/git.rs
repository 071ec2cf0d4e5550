//! Git tools and `fetch` in a run: whose name, whose environment, whose settings.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::{Value, json};

use super::checkout;
use super::desk::Desk;

const COMMITS: &str = "conversations: [ { turns: [ { calls: [
    { tool: write, args: { path: a.txt, content: \"changed\\n\" } }, { tool: git_diff }, { tool: git_add, args: { paths: [a.txt] } },
    { tool: git_commit, args: { message: second } }, { tool: git_status } ] }, { text: ok } ] } ]";

fn plain(desk: &Desk, args: &[&str]) -> String {
    let done = Command::new("git").args(args).current_dir(desk.path("")).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

fn repository() -> Desk {
    let desk = Desk::with_script(COMMITS);
    desk.write("a.txt", "first\n");
    std::fs::create_dir_all(desk.path(".config/longhaul")).unwrap();
    desk.write(".config/longhaul/longhaul.yaml", "permissions: { bash: { 'git commit *': allow } }");
    plain(&desk, &["init", "-q"]);
    plain(&desk, &["add", "a.txt"]);
    plain(&desk, &["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "first"]);
    desk
}

fn results(desk: &Desk, id: &Value) -> Vec<Value> {
    let tools = desk.json(&["tools", id.as_str().unwrap()]);
    tools["calls"].as_array().unwrap().iter().map(|call| call["result"].clone()).collect()
}

/// A48: what a script leaves in the `.git` that it works with, as a rebase whose list has a command, is not in the user's. Its
/// commits are, and so are branches of its own making, but for those whose names mean something there.
#[test]
fn the_users_repository_gets_commits_and_nothing_else() {
    let script = "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: sh x.sh } } ] }, { text: ok } ] } ]";
    let lines = [
        "g=$(git rev-parse --git-common-dir)",
        "mkdir $g/rebase-merge && echo 'exec evil' > $g/rebase-merge/git-rebase-todo",
        "git rev-parse HEAD > $g/MERGE_HEAD && rm -r $g/MERGE_HEAD $g/rebase-merge",
        "git tag tagged && git stash list && git config user.name x && git pack-refs --all",
        "echo made > made && git add made && git -c user.email=x commit -qm made",
        "git branch topic && git branch -f main && git branch taken && git branch origin/main",
        "git update-ref refs/heads/HEAD HEAD",
    ];
    let desk = checkout::repository(script, &[("x.sh", &format!("set -e\n{}\n", lines.join("\n")))]);
    plain(&desk, &["tag", "taken"]);
    plain(&desk, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
    let before = plain(&desk, &["rev-parse", "main", "taken", "origin/main"]);
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml"]);
    assert_eq!(shown["status"], "completed", "{shown:#}");
    assert_eq!(plain(&desk, &["rev-parse", "main", "taken", "origin/main"]), before);
    assert!(!desk.path(".git/rebase-merge").exists() && !desk.path(".git/MERGE_HEAD").exists());
    let branch = shown["branch"].as_str().unwrap();
    let listed = plain(&desk, &["for-each-ref", "--format=%(refname)"]);
    let own = format!("refs/heads/{branch}");
    let expected =
        [&own, "refs/heads/main", "refs/heads/topic", "refs/remotes/origin/main", "refs/tags/taken"];
    assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
    assert_eq!(plain(&desk, &["log", "-1", "--format=%s", "topic"]).trim(), "made");
    assert_eq!(plain(&desk, &["show", &format!("{branch}:made")]).trim(), "made");
    plain(&desk, &["fsck", "--strict"]);
}

/// A97: keys in the settings of the repository that a run works in are struck out of what its commands print.
#[test]
fn keys_in_addresses_are_struck_out() {
    let script = "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: git remote -v } }, { tool: read, args: { path: .git/config } } ] }, { text: ok } ] } ]";
    let desk = checkout::repository(script, &[]);
    plain(&desk, &["remote", "add", "origin", "https://user:passCANARY99@example.com/x.git"]);
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml", "--in-place"]);
    let found = results(&desk, &shown["id"]);
    assert!(found[0].to_string().contains("https://user:[secret]@example.com"), "{}", found[0]);
    let kept = std::process::Command::new("grep")
        .args(["-r", "passCANARY99", ".longhaul"])
        .current_dir(desk.path(""))
        .output();
    assert_eq!(String::from_utf8_lossy(&kept.unwrap().stdout), "");
}

/// A48: what the environment tells git to run is not run, and a commit is by the user's own name.
#[test]
fn a_commit_is_the_users_and_the_environment_runs_nothing() {
    let desk = repository();
    let (evil, mark) = (desk.path("evil"), desk.path("mark"));
    desk.write("evil", &format!("#!/bin/sh\ntouch '{}'\n", mark.display()));
    std::fs::set_permissions(&evil, std::fs::Permissions::from_mode(0o755)).unwrap();
    desk.write(".gitconfig", "[user]\nname = The User\nemail = user@example.com\n");
    let hostile = |command: &mut Command| {
        let pairs = [("COUNT", "1"), ("KEY_0", "core.fsmonitor"), ("VALUE_0", evil.to_str().unwrap())];
        command.envs(pairs.map(|(name, value)| (format!("GIT_CONFIG_{name}"), value)));
        command.env("GIT_EXTERNAL_DIFF", &evil);
        command.output().unwrap()
    };
    desk.write("a.txt", "changed by hand\n");
    hostile(Command::new("git").args(["diff"]).current_dir(desk.path("")));
    assert!(mark.exists(), "void: plain git does not run it");
    std::fs::remove_file(&mark).unwrap();
    let output = hostile(&mut desk.command(&["run", "x", "--model", "scripted/s.yaml", "--json"]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!mark.exists());
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = results(&desk, &shown["id"]);
    assert!(results.iter().all(|result| result["state"] == "done"), "{results:?}");
    let status: Value = serde_json::from_str(results[4]["output"]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&status["clean"], &status["staged"]), (&json!(true), &json!([])));
    let branch = shown["branch"].as_str().unwrap();
    assert_eq!(
        plain(&desk, &["log", "-1", "--format=%an <%ae> %s", branch]),
        "The User <user@example.com> second"
    );
    assert_eq!(plain(&desk, &["log", "-1", "--format=%s"]), "first");
}

/// A44: `fetch` goes by the user's `permissions.network`, which a repository's file cannot loosen.
#[test]
fn fetch_goes_by_the_users_network() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            let head = BufReader::new(stream.try_clone().unwrap()).lines();
            head.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
            (&stream).write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello from there").ok();
        }
    });
    let desk = Desk::with_script(&format!(
        "conversations: [ {{ turns: [ {{ calls: [ {{ tool: fetch, args: {{ url: 'http://{address}/' }} }} ] }}, {{ text: ok }} ] }} ]"
    ));
    let fetched = || {
        let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml"]);
        results(&desk, &shown["id"]).remove(0).to_string()
    };
    let refused = fetched();
    assert!(refused.contains("permissions.network") && refused.contains("no host is allowed"), "{refused}");
    std::fs::create_dir_all(desk.path(".config/longhaul")).unwrap();
    desk.write(".config/longhaul/longhaul.yaml", "permissions: { network: full }\n");
    let result = fetched();
    assert!(result.contains("hello from there"), "{result}");
}

/// A48: a repository that an agent left inside the user's is not looked into when the next run asks for changes.
#[test]
fn a_repository_inside_runs_nothing() {
    let desk = repository();
    let mark = desk.path("mark");
    plain(&desk, &["init", "-q", "sub"]);
    let inside = |args: &[&str]| plain(&desk, &[&["-C", "sub"], args].concat());
    desk.write("sub/f", "one");
    inside(&["add", "f"]);
    inside(&["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "first"]);
    plain(&desk, &["add", "sub"]);
    inside(&["config", "filter.evil.clean", &format!("touch '{}'; cat", mark.display())]);
    desk.write("sub/.gitattributes", "f filter=evil\n");
    desk.write("sub/f", "two");
    plain(&desk, &["status", "--porcelain"]);
    assert!(mark.exists(), "void: plain git does not run it");
    std::fs::remove_file(&mark).unwrap();
    desk.write("sub/f", "three");
    desk.get(&["run", "x", "--model", "scripted/s.yaml"]);
    assert!(!mark.exists());
}

const LEAVES_LOCKS: &str = r#"
conversations:
  - turns:
      - calls: [ { tool: bash, args: { command: "sh ./lock.sh 1" } } ]
      - calls: [ { tool: bash, args: { command: "git add a.txt" } } ]
      - calls: [ { tool: write, args: { path: b.txt, content: "b\n" } } ]
      - calls: [ { tool: bash, args: { command: "sh ./lock.sh 0" } } ]
      - text: "ok"
"#;

/// F48: the lock of an agent's dead git keeps neither its next one from working nor its work from being committed, where the run
/// has a worktree of its own. In the user's checkout it stays.
#[test]
fn the_lock_of_an_agents_dead_git_is_cleared_in_its_own_worktree_only() {
    let lock = "touch \"$(git rev-parse --git-dir)/index.lock\"; exit $1\n";
    let desk = checkout::repository(LEAVES_LOCKS, &[("a.txt", "a\n"), ("lock.sh", lock)]);
    let states = |id: &Value| -> Vec<Value> {
        results(&desk, id).iter().map(|result| result["state"].clone()).collect()
    };
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml"]);
    assert_eq!(states(&shown["id"]), ["failed", "done", "done", "done"]);
    assert!(shown["commit"].is_string(), "{shown}");
    // One that is left while nobody works does not keep the work from being merged.
    let (id, worktree) = (shown["id"].as_str().unwrap(), shown["workspace"].as_str().unwrap());
    let own = checkout::git_in(worktree.as_ref(), &["rev-parse", "--absolute-git-dir"]);
    std::fs::write(format!("{own}/index.lock"), "").unwrap();
    std::fs::write(format!("{worktree}/c.txt"), "c\n").unwrap();
    desk.get(&["merge", id]);
    assert!(desk.path("c.txt").exists());

    let shown = desk.json(&["run", "x", "--in-place", "--model", "scripted/s.yaml"]);
    assert_eq!(states(&shown["id"]), ["failed", "failed", "done", "done"]);
    assert!(desk.path(".git/index.lock").exists());
}
