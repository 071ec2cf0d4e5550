//! Runs that work side by side in one session, and how their branches come together.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::checkout::{self, git};
use super::desk::{Desk, files_below};

/// Each agent writes a file of its own; `left` and `right` want different things of one.
const SCRIPT: &str = r#"
name: side-by-side
conversations:
  - match: { agent: frontend }
    turns:
      - calls: [ { tool: write, args: { path: pages.txt, content: "pages\n" } } ]
      - text: "Pages."
  - match: { agent: backend }
    turns:
      - calls: [ { tool: bash, args: { command: "while [ ! -e go ]; do sleep 0.02; done; rm go; echo tables > tables.txt" } } ]
      - text: "Tables."
  - match: { agent: left }
    turns:
      - calls: [ { tool: write, args: { path: a.txt, content: "left\n" } } ]
      - text: "Left."
  - match: { agent: right }
    turns:
      - calls: [ { tool: write, args: { path: a.txt, content: "right\n" } } ]
      - text: "Right."
  - match: { agent: peacemaker }
    turns:
      - calls: [ { tool: write, args: { path: a.txt, content: "left and right\n" } } ]
      - text: "Both."
  - match: { agent: brancher }
    turns:
      - calls: [ { tool: bash, args: { command: "git branch topic" } } ]
      - text: "A branch."
  - match: { agent: lazy }
    turns: [ { text: "Done." } ]
  - turns:
      - calls: [ { tool: bash, args: { command: "mktemp ./by-XXXXXXXX" } } ]
      - text: "Mine."
"#;

fn repository() -> Desk {
    checkout::repository(SCRIPT, &[("a.txt", "first\n")])
}

/// Every file of the user's checkout with its bytes, what git says of it, and where its branch is.
fn checkout(desk: &Desk) -> (Vec<(PathBuf, Vec<u8>)>, String, String) {
    let ours = |path: &Path| path.components().any(|part| part.as_os_str() == ".longhaul");
    let of_git = |path: &Path| path.components().any(|part| part.as_os_str() == ".git");
    let mut files = files_below(&desk.path(""));
    files.retain(|(path, _)| !ours(path) && !of_git(path));
    let index = std::fs::read(desk.path(".git/index")).unwrap();
    files.push((desk.path(".git/index"), index));
    (files, git(desk, &["status", "--porcelain"]), git(desk, &["rev-parse", "HEAD", "HEAD^{tree}"]))
}

fn args<'a>(agent: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let fixed =
        ["run", "x", "--model", "scripted/s.yaml", "--session=port", "--collaboration=parallel", "--agent"];
    [&fixed[..], &[agent], more].concat()
}

fn run(desk: &Desk, agent: &str) -> Value {
    desk.json(&args(agent, &[]))
}

fn started(desk: &Desk, agent: &str) -> Child {
    desk.command(&args(agent, &["--json"])).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Waits for the first run of the session to have its worktree, and answers where that is.
fn until_at_work(desk: &Desk) -> PathBuf {
    let start = Instant::now();
    loop {
        let made =
            std::fs::read_dir(desk.path(".longhaul/sessions/port/run")).into_iter().flatten().flatten();
        if let Some(place) = made.map(|entry| entry.path()).find(|path| path.join("a.txt").exists()) {
            return place;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "no run has begun");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// D14.5, D16.2, D16.3, D16.6, D20.2: two agents at once, each on a branch of its own from the same base; the merge step puts both
/// onto the branch they began at, and nothing is in the user's checkout before.
#[test]
fn two_agents_work_at_once_and_are_merged() {
    let desk = repository();
    let (before, base) = (checkout(&desk), git(&desk, &["rev-parse", "HEAD"]));
    let backend = started(&desk, "backend");
    let place = until_at_work(&desk);
    // It waits until the other has come and gone.
    let frontend = run(&desk, "frontend");
    assert_eq!(frontend["branch"], "agent/port/frontend");
    let refused = desk.say(&["session", "delete", "port", "--force"]);
    assert_eq!(refused.code, 7, "{}", refused.err);
    assert!(refused.err.starts_with("error: Session locked by run run_"), "{}", refused.err);
    let early = desk.say(&["merge", "--session", "port", "--into", "nowhere"]);
    assert!(early.code == 1 && early.err.contains("there is no branch `nowhere`"), "{}", early.err);
    std::fs::write(place.join("go"), "").unwrap();
    let backend = ended(backend);
    assert_eq!(backend["branch"], "agent/port/backend");
    for branch in ["agent/port/frontend", "agent/port/backend"] {
        assert_eq!(git(&desk, &["merge-base", "main", branch]), base);
    }
    assert_ne!(frontend["workspace"], backend["workspace"]);
    assert_eq!(checkout(&desk), before);

    let merged = desk.json(&["merge", "--session", "port"]);
    assert_eq!(merged["into"], "main");
    assert_eq!(merged["merged"].as_array().unwrap().len(), 2);
    assert_eq!(git(&desk, &["rev-parse", "main"]), merged["commit"]);
    // One commit, with the branch and both agents' as parents, in the order in which the runs were created.
    let tips = ["agent/port/backend", "agent/port/frontend"].map(|branch| git(&desk, &["rev-parse", branch]));
    assert_eq!(git(&desk, &["log", "-1", "--format=%P"]), format!("{base} {} {}", tips[0], tips[1]));
    let text = |name: &str| std::fs::read_to_string(desk.path(name)).unwrap();
    assert_eq!((text("pages.txt").as_str(), text("tables.txt").as_str()), ("pages\n", "tables\n"));
    let trailers = git(&desk, &["log", "-1", "--format=%(trailers:key=Longhaul-Run,valueonly)"]);
    let named: BTreeSet<&str> = trailers.split_whitespace().collect();
    assert_eq!(named, [&frontend, &backend].map(|run| run["id"].as_str().unwrap()).into_iter().collect());
    assert_eq!(git(&desk, &["status", "--porcelain"]), "");
    // Said once more, there is nothing to do.
    let again = desk.json(&["merge", "--session", "port"]);
    assert_eq!((&again["commit"], &again["files"]), (&json!(null), &json!([])));
    // A third begins at what was merged, under a name of its own.
    let third = run(&desk, "frontend");
    assert_eq!(third["branch"], "agent/port/frontend-2");
    assert!(Path::new(third["workspace"].as_str().unwrap()).join("tables.txt").exists());
    // A sequential run of the session has the session's own workspace, and begins there too.
    let alone = desk.json(&["run", "x", "--model", "scripted/s.yaml", "--session=port", "--agent=lazy"]);
    assert_eq!(alone["branch"], "agent/session-port");
    assert!(Path::new(alone["workspace"].as_str().unwrap()).join("pages.txt").exists());
    assert_eq!(desk.json(&["session", "info", "port"])["runs"].as_array().unwrap().len(), 4);
    assert_eq!(desk.say(&["session", "delete", "port"]).code, 0);
    assert_eq!(git(&desk, &["worktree", "list"]).lines().count(), 1);
    assert!(git(&desk, &["branch", "--list"]).contains("agent/port/frontend-2"), "the work stays");
}

/// D16.3: what conflicts is named with its files, and nothing is half merged: the branch, the files and the agents' branches are as
/// they were. An agent can be given the conflict; a mark that it leaves is no resolution.
#[test]
fn a_conflict_names_the_files_and_an_agent_may_resolve_it() {
    let desk = repository();
    let (left, right, third) = (run(&desk, "left"), run(&desk, "right"), run(&desk, "frontend"));
    let (before, branches) = (checkout(&desk), git(&desk, &["for-each-ref"]));
    let refused = desk.say(&["merge", "--session", "port"]);
    let run = right["id"].as_str().unwrap();
    assert_eq!((refused.code, refused.out.as_str()), (1, ""));
    assert_eq!(
        refused.err,
        format!(
            "error: {run} (branch `agent/port/right`) conflicts with what was merged before it (agent/port/left), in a.txt\n\
             hint: nothing was changed; `longhaul merge --session port --agent NAME` gives it to an agent, or merge the branches \
             yourself with `git merge`\n"
        )
    );
    assert_eq!((checkout(&desk), git(&desk, &["for-each-ref"])), (before.clone(), branches));
    let given = |agent: &str| {
        desk.say(&["merge", "--session=port", "--agent", agent, "--model=scripted/s.yaml", "--json"])
    };
    let lazy = given("lazy");
    assert!(lazy.code == 1 && lazy.err.contains("has left conflict marks in a.txt"), "{}", lazy.err);
    assert_eq!(checkout(&desk), before);
    let made = given("peacemaker");
    assert_eq!(made.code, 0, "{}", made.err);
    let made: Value = serde_json::from_str(&made.out).unwrap();
    assert_eq!(made["merged"], json!([left["id"], right["id"], third["id"]]));
    assert_eq!(std::fs::read_to_string(desk.path("a.txt")).unwrap(), "left and right\n");
    assert!(desk.path("pages.txt").exists(), "those after the conflict are merged as well");
    assert_eq!(git(&desk, &["log", "-1", "--format=%P"]).split(' ').count(), 4);
    assert_eq!(git(&desk, &["status", "--porcelain"]), "");
}

/// `remover` and `keeper` want different things of a file, and of bytes that are no text.
const UNMARKED: &str = r#"
name: unmarked
conversations:
  - match: { agent: remover }
    turns:
      - calls: [ { tool: bash, args: { command: "rm gone; printf '\\0l' > bin" } } ]
      - text: "Removed."
  - match: { agent: keeper }
    turns:
      - calls: [ { tool: bash, args: { command: "echo more >> gone; printf '\\0r' > bin" } } ]
      - text: "Kept."
  - match: { agent: lazy }
    turns: [ { text: "All is well." } ]
  - match: { agent: sweeping }
    turns:
      - calls: [ { tool: git_add, args: { paths: ["."] } } ]
      - text: "All is well."
  - match: { agent: half }
    turns:
      - calls: [ { tool: git_add, args: { paths: ["gone"] } } ]
      - text: "Half of it."
  - match: { agent: content }
    turns:
      - calls: [ { tool: git_add, args: { paths: ["./gone", "bin"] } } ]
      - text: "Right as it is."
"#;

/// D16.3: of a conflict without marks an agent is told what each side has, and says that what stands there is right by staging it by
/// its name. Doing nothing, or staging everything, says nothing of it.
#[test]
fn an_agent_can_say_that_one_side_is_right() {
    let desk = checkout::repository(UNMARKED, &[("gone", "first\n"), ("bin", "\0")]);
    let [_, keeper] = ["remover", "keeper"].map(|agent| run(&desk, agent));
    let before = checkout(&desk);
    let given =
        |agent: &str| desk.say(&["merge", "--session=port", "--model=scripted/s.yaml", "--agent", agent]);
    for (agent, left) in [("lazy", "bin, gone"), ("sweeping", "bin, gone"), ("half", "bin")] {
        let said = given(agent);
        let words = format!("has resolved nothing in {left}\n");
        assert!(said.code == 1 && said.err.contains(&words), "{agent}: {}", said.err);
        assert_eq!(checkout(&desk), before, "{agent}");
    }
    let run = desk.json(&["list"])[0]["id"].as_str().unwrap().to_owned();
    let told = desk.get(&["prompt", &run]);
    let theirs = git(&desk, &["rev-parse", keeper["branch"].as_str().unwrap()]);
    for words in [
        "gone: agent/port/keeper has it, agent/port/remover does not; here stands what agent/port/keeper has.",
        "bin: both sides have it, and not the same; here stands what agent/port/remover has.",
        &format!("the other is agent/port/keeper (commit {theirs})"),
        "staged it by its own name with `git_add`",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let said = given("content");
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(std::fs::read(desk.path("gone")).unwrap(), b"first\nmore\n");
    assert_eq!(std::fs::read(desk.path("bin")).unwrap(), b"\0l");
    assert_eq!(git(&desk, &["status", "--porcelain"]), "");
}

/// D16.3: a session in which some came one after another has a branch that merging the others does not touch, and that is said.
#[test]
fn runs_that_came_one_after_another_are_named_when_others_are_merged() {
    let desk = repository();
    run(&desk, "frontend");
    let sequential = ["run", "x", "--model", "scripted/s.yaml", "--session=port", "--agent=left"];
    let alone = desk.json(&sequential);
    let (id, branch) = (alone["id"].as_str().unwrap(), alone["branch"].as_str().unwrap());
    let merged = desk.say(&["merge", "--session", "port"]);
    assert_eq!(merged.code, 0, "{}", merged.err);
    let words = format!("are on {branch}, and `longhaul merge {id}` merges them");
    assert!(merged.err.contains(&words), "{}", merged.err);
    assert_eq!(std::fs::read_to_string(desk.path("a.txt")).unwrap(), "first\n");
    assert_eq!(desk.say(&["merge", id]).code, 0);
    assert_eq!(std::fs::read_to_string(desk.path("a.txt")).unwrap(), "left\n");
}

/// D16.3: nobody is paid for resolving a conflict before it is known that the merge can be made, nor twice for the same one.
#[test]
fn a_conflict_is_paid_for_once() {
    let desk = repository();
    for agent in ["left", "right", "frontend"] {
        run(&desk, agent);
    }
    let given = |more: &[&str]| {
        let fixed = ["merge", "--session=port", "--model=scripted/s.yaml", "--agent=peacemaker"];
        desk.say(&[&fixed, more].concat())
    };
    let runs = || desk.json(&["list"]).as_array().unwrap().len();
    for (path, mine) in [("a.txt", "mine\n"), ("pages.txt", "my pages\n")] {
        desk.write(path, mine);
        let refused = given(&[]);
        assert!(refused.code != 0 && refused.err.contains(path), "{} {}", refused.code, refused.err);
        assert_eq!(runs(), 3, "nobody was asked");
        assert_eq!(std::fs::read_to_string(desk.path(path)).unwrap(), mine);
        git(&desk, &["stash", "-q", "-u"]);
    }
    // It holds where the conflict is resolved, and not where everything is merged.
    let refused = given(&["--verify", "test ! -e pages.txt"]);
    assert!(refused.code == 1 && refused.err.contains("fails on the merged files"), "{}", refused.err);
    assert_eq!(runs(), 4);
    let made = given(&["--verify", "test -e pages.txt"]);
    assert_eq!((made.code, runs()), (0, 4), "{}", made.err);
    assert_eq!(std::fs::read_to_string(desk.path("a.txt")).unwrap(), "left and right\n");
}

/// D16.3, D16.4: commands look at the merged files before the branch moves, and leave it where it was if one fails. A working branch that
/// nobody has checked out moves without any file being touched; one that is not there is made.
#[test]
fn what_was_merged_is_verified_first() {
    let desk = repository();
    desk.write("longhaul.yaml", "git: { working_branch: next }");
    git(&desk, &["add", "."]);
    git(&desk, &["commit", "-q", "-m", "settings"]);
    let first = desk.say(&args("frontend", &[]));
    assert!(
        first.err.contains("there was no branch `next` (git.working_branch); it was made at"),
        "{}",
        first.err
    );
    run(&desk, "left");
    let (before, next) = (checkout(&desk), git(&desk, &["rev-parse", "next"]));
    let merge = |command: &str| {
        desk.say(&["merge", "--session", "port", "--verify", "test -e pages.txt", "--verify", command])
    };
    let refused = merge("echo only $(cat a.txt); exit 3");
    assert_eq!(refused.code, 1);
    for words in ["only left", "fails on the merged files (exit code 3)", "next is where it was"] {
        assert!(refused.err.contains(words), "{}", refused.err);
    }
    assert_eq!(git(&desk, &["rev-parse", "next"]), next);
    assert_eq!(merge("grep -q left a.txt").code, 0);
    assert_eq!(git(&desk, &["show", "next:pages.txt", "next:a.txt"]), "pages\nleft");
    assert_eq!(checkout(&desk), before);
    assert_eq!(git(&desk, &["worktree", "list"]).lines().count(), 3, "the worktree of the checks is gone");
}

/// A git that dies together with whoever started it when it has taken the lock of the branch `next`, and written to it what `left`
/// beside it says. That is said once.
const DYING_GIT: &str = r#"#!/bin/sh
case " $* " in
*" update-ref "*" refs/heads/next "*)
    if [ -e @HERE@/left ]; then
        for word; do to=$from from=$word; done
        TO=$to; eval "printf '%s' \"$(cat @HERE@/left)\"" > "$2/.git/refs/heads/next.lock"
        rm @HERE@/left
        kill -9 $PPID $$
    fi
    ;;
esac
exec @REAL@ "$@"
"#;

/// F48, D16.3: killed with its git while it moves a branch that nobody has checked out, a merge leaves a lock that the next one clears.
/// A lock of somebody else's stays, and is named.
#[test]
fn a_killed_merge_into_a_branch_that_is_not_checked_out_is_said_again() {
    let desk = repository();
    git(&desk, &["branch", "next"]);
    run(&desk, "frontend");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let real = std::env::split_paths(&path).map(|place| place.join("git")).find(|git| git.is_file()).unwrap();
    let here = desk.elsewhere("bin");
    std::fs::create_dir(&here).unwrap();
    let text = DYING_GIT.replace("@REAL@", &real.display().to_string());
    std::fs::write(here.join("git"), text.replace("@HERE@", &here.display().to_string())).unwrap();
    std::fs::set_permissions(here.join("git"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path =
        std::env::join_paths(std::iter::once(here.clone()).chain(std::env::split_paths(&path))).unwrap();
    let merge = ["merge", "--session", "port", "--into", "next"];
    let (before, start) = (checkout(&desk), git(&desk, &["rev-parse", "next"]));
    let lock = desk.path(".git/refs/heads/next.lock");
    let killed = |left: &str| {
        std::fs::write(here.join("left"), left).unwrap();
        let status = desk.command(&merge).env("PATH", &path).output().unwrap().status;
        assert!(status.code().is_none() && lock.exists(), "{left}: it was not killed");
        assert_eq!(git(&desk, &["rev-parse", "next"]), start);
    };
    let refused = |why: &str| {
        let said = desk.say(&merge);
        assert!(said.code != 0 && said.err.contains("next.lock"), "{why}: {} {}", said.code, said.err);
        assert!(lock.exists(), "{why}");
        std::fs::remove_file(&lock).unwrap();
    };
    std::fs::write(&lock, "").unwrap();
    refused("it was there before");
    killed("somebody else's");
    refused("it says something else");
    // An empty one that came after ours was gone is nobody's that we noted.
    std::fs::write(&lock, "").unwrap();
    refused("what was noted is forgotten");
    for left in ["", "$TO"] {
        killed(left);
        let said = desk.say(&[&merge[..], &["--verify=false"]].concat());
        assert!(said.code == 1 && said.err.contains("`false` fails"), "{}", said.err);
        assert!(!lock.exists(), "{left:?}: it is cleared, whatever comes of the merge");
    }
    killed("");
    let merged = desk.say(&merge);
    assert_eq!((merged.code, lock.exists()), (0, false), "{}", merged.err);
    assert_eq!(git(&desk, &["show", "next:pages.txt"]), "pages");
    assert_eq!(checkout(&desk), before);
}

/// Where there are no branches, or the user's own changes would be carried along, parallel work is refused and nothing is made.
#[test]
fn parallel_work_needs_branches() {
    let desk = Desk::with_script(SCRIPT);
    let refused = desk.say(&args("left", &[]));
    assert!(
        refused.code == 2 && refused.err.contains("there are no branches outside of a repository"),
        "{}",
        refused.err
    );
    let desk = repository();
    for (more, words) in [
        ("--with-changes", "--with-changes is for a run that works by itself"),
        ("--repo=.", "brought from elsewhere come one after another"),
        ("--in-place", "cannot be used with"),
        ("--collaboration=both", "it is sequential or parallel, not \"both\""),
    ] {
        let mut args = args("left", &[]);
        args.retain(|word| !more.starts_with("--collaboration") || !word.starts_with("--collaboration"));
        args.push(more);
        let refused = desk.say(&args);
        assert!(refused.code == 2 && refused.err.contains(words), "{more}: {}", refused.err);
    }
    git(&desk, &["checkout", "-q", "--detach"]);
    let refused = desk.say(&args("left", &[]));
    assert!(refused.code == 2 && refused.err.contains("no branch is checked out"), "{}", refused.err);
    assert_eq!(git(&desk, &["branch", "--list", "agent/*"]), "");
    assert_eq!(desk.say(&["merge", "--session", "none"]).code, 2);
    assert_eq!(desk.say(&["merge"]).code, 2);
    let refused = desk.say(&["merge", "run_1", "--verify", "true"]);
    assert!(refused.code == 2 && refused.err.contains("are for the runs of a session"), "{}", refused.err);
}

/// D12.1, D5.4, D11.9: two and ten runs at once in one repository: each has its own branch and directory, all of them end, and the user's
/// checkout is the same to the byte until they are merged.
#[test]
fn ten_runs_at_once_leave_the_checkout_alone() {
    for (count, way) in [(2, "sequential"), (2, "parallel"), (10, "sequential"), (10, "parallel")] {
        let desk = repository();
        desk.write("untracked", "mine\n");
        let before = checkout(&desk);
        let collaboration = format!("--collaboration={way}");
        let plain = ["run", "x", "--model", "scripted/s.yaml", "--agent=ten", "--json", &collaboration];
        let more: &[&str] = if way == "parallel" { &["--session=port"] } else { &[] };
        let args = [&plain[..], more].concat();
        let start = || desk.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let children: Vec<Child> = (0..count).map(|_| start()).collect();
        let runs: Vec<Value> = children.into_iter().map(ended).collect();
        assert_eq!(checkout(&desk), before, "{count} {way}");
        for field in ["branch", "workspace", "id"] {
            let different: BTreeSet<&str> = runs.iter().map(|run| run[field].as_str().unwrap()).collect();
            assert_eq!(different.len(), count, "{field} of {count} {way}");
        }
        assert_eq!(git(&desk, &["worktree", "list"]).lines().count(), count + 1);
        if way == "parallel" {
            let merged = desk.json(&["merge", "--session=port"]);
            assert_eq!(merged["merged"].as_array().unwrap().len(), count);
            assert_eq!(merged["files"].as_array().unwrap().len(), count);
            assert_eq!(git(&desk, &["status", "--porcelain"]), "?? untracked");
        }
    }
}

/// D5.5: with `shared` the steps of a plan work on one branch, with `per_agent` each agent on one of its own, merged when its step is
/// done, so that a later step sees it.
#[test]
fn agents_of_a_plan_share_a_branch_or_have_one_each() {
    let steps = json!({ "steps": [
        { "id": "one", "description": "do one", "agent": "frontend" },
        { "id": "two", "description": "do two", "agent": "left" },
        { "id": "three", "description": "do three", "agent": "looks", "dependencies": ["one", "two"] },
        { "id": "four", "description": "do four", "agent": "brancher", "dependencies": ["three"] },
    ]});
    for (strategy, branches) in [("shared", 1), ("per_agent", 5)] {
        let desk = repository();
        std::fs::create_dir_all(desk.path("agents")).unwrap();
        for name in ["frontend", "left", "looks", "brancher"] {
            desk.write(
                &format!("agents/{name}.md"),
                &format!("---\ndescription: {name}\n---\nYou are {name}.\n"),
            );
        }
        desk.write("plan.json", &steps.to_string());
        desk.write("longhaul.yaml", &format!("git: {{ workflow_branch_strategy: {strategy} }}"));
        let before = checkout(&desk);
        let shown = desk.json(&["run", "x", "--model=scripted/s.yaml", "--agent=lazy", "--plan=plan.json"]);
        assert_eq!(checkout(&desk), before);
        let own = shown["branch"].as_str().unwrap();
        let listed = git(&desk, &["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/agent"]);
        assert_eq!(listed.lines().count(), branches, "{listed}");
        let made = git(&desk, &["ls-tree", "-r", "--name-only", own]);
        assert!(made.contains("pages.txt"), "{strategy}: {made}");
        assert_eq!(git(&desk, &["show", &format!("{own}:a.txt")]), "left", "{strategy}");
        let looked: Vec<&str> = made.lines().filter(|name| name.starts_with("by-")).collect();
        assert_eq!(looked.len(), 1, "{made}");
        let id = shown["id"].as_str().unwrap();
        assert_eq!(shown["commit"], git(&desk, &["rev-parse", own]));
        // What came to the branch with the work of others is told as well.
        let brought = |event: &&Value| event["type"] == "branches_brought";
        let events = desk.events(id);
        let last = events.iter().rfind(brought).expect("branches were brought");
        let came = json!({ "branch": format!("refs/heads/{own}"), "commit": shown["commit"] });
        assert!(last["branches"].as_array().unwrap().contains(&came), "{strategy}: {last} {came}");
        let children = shown["subAgentIds"].as_array().unwrap().iter().map(|id| id.as_str().unwrap());
        let all = children.chain([id]).flat_map(|id| desk.events(id));
        let told = all
            .filter(|event| brought(&event))
            .flat_map(|event| event["branches"].as_array().unwrap().clone());
        let topic = git(&desk, &["rev-parse", "topic"]);
        let topic = json!({ "branch": "refs/heads/topic", "commit": topic });
        assert!(told.collect::<Vec<_>>().contains(&topic), "{strategy}: {topic}");
        if strategy == "per_agent" {
            let end = &id[id.len() - 8..];
            for agent in ["frontend", "left", "looks"] {
                assert!(listed.contains(&format!("agent/{end}/{agent}")), "{listed}");
            }
            // The third began at what the first two had made.
            let looks = format!("agent/{end}/looks");
            assert_eq!(git(&desk, &["show", &format!("{looks}:a.txt")]), "left");
        }
        assert_eq!(desk.json(&["merge", id])["commit"], git(&desk, &["rev-parse", "HEAD"]));
    }
}

/// D5.5: agents whose work does not fit together are told so, and the second is sent once more, from where the branch is by then.
#[test]
fn an_agent_whose_work_conflicts_is_sent_again() {
    let desk = repository();
    std::fs::create_dir_all(desk.path("agents")).unwrap();
    for name in ["left", "right"] {
        desk.write(
            &format!("agents/{name}.md"),
            &format!("---\ndescription: {name}\n---\nYou are {name}.\n"),
        );
    }
    let steps = json!({ "steps": [
        { "id": "one", "description": "do one", "agent": "left" },
        { "id": "two", "description": "do two", "agent": "right" },
    ]});
    desk.write("plan.json", &steps.to_string());
    let shown = desk.json(&[
        "run",
        "x",
        "--model=scripted/s.yaml",
        "--agent=lazy",
        "--plan=plan.json",
        "--collaboration=parallel",
    ]);
    let children = shown["subAgents"].as_array().unwrap();
    let tried: Vec<&str> = children.iter().filter_map(|child| child["error"].as_str()).collect();
    assert_eq!((children.len(), tried.len()), (3, 1), "{children:?}");
    assert!(
        tried[0].contains("could not be merged: the work conflicts with what is here, in a.txt"),
        "{}",
        tried[0]
    );
    assert_eq!(shown["status"], "completed");
    let again = desk.get(&["prompt", children[2]["id"].as_str().unwrap()]);
    assert!(again.contains("what it left is not in your files") && !again.contains("still there"), "{again}");
    let failed = children.iter().find(|child| child["error"].is_string()).unwrap()["id"].as_str().unwrap();
    let branch = desk.json(&["show", failed])["branch"].as_str().unwrap().to_owned();
    assert!(again.contains(&format!("on branch {branch} ")), "{branch}: {again}");
}

/// D5.5: a sub-agent is not given the branch of a run of the same session that has not begun yet.
#[test]
fn a_sub_agent_leaves_a_run_that_waits_its_branch() {
    let desk = repository();
    std::fs::create_dir_all(desk.path("agents")).unwrap();
    desk.write("agents/left.md", "---\ndescription: left\n---\nYou are left.\n");
    let steps = json!({ "steps": [{ "id": "one", "description": "do one", "agent": "left" }] });
    desk.write("plan.json", &steps.to_string());
    let fixed = ["--model=scripted/s.yaml", "--session=s", "--collaboration=parallel"];
    let waits = desk.json(&[&["create", "--task=x", "--agent=left"], &fixed[..]].concat());
    assert_eq!(waits["branch"], "agent/s/left");
    let shown = desk.json(&[&["run", "x", "--agent=lazy", "--plan=plan.json"], &fixed[..]].concat());
    let child = desk.json(&["show", shown["subAgents"][0]["id"].as_str().unwrap()]);
    assert_eq!((&shown["status"], &child["branch"]), (&json!("completed"), &json!("agent/s/left-2")));
    assert_eq!(desk.json(&["resume", waits["id"].as_str().unwrap()])["status"], "completed");
}

/// D14.5: what holds for the runs of a session holds for those of a workflow; and of a run that is not done nothing is merged.
#[test]
fn runs_of_a_workflow_are_merged_too() {
    let desk = repository();
    let run = |agent: &str, word: &'static str| {
        let fixed =
            ["--model=scripted/s.yaml", "--workflow-run=w", "--collaboration=parallel", "--agent", agent];
        desk.json(&[&[word][..], if word == "run" { &["x"] } else { &["--task", "x"] }, &fixed].concat())
    };
    let (left, front, unborn) = (run("left", "run"), run("frontend", "run"), run("right", "create"));
    assert_eq!((&left["branch"], &front["branch"]), (&json!("agent/w/left"), &json!("agent/w/frontend")));
    let lock = std::fs::File::create(desk.path(".longhaul/workspace/workflow/w/merge.lock")).unwrap();
    lock.lock().unwrap();
    let second = desk.say(&["merge", "--workflow-run", "w"]);
    assert!(second.code == 7 && second.err.contains("merged by another process"), "{}", second.err);
    drop(lock);
    let merged = desk.say(&["merge", "--workflow-run", "w", "--json"]);
    assert_eq!(merged.code, 0, "{}", merged.err);
    let id = unborn["id"].as_str().unwrap();
    assert!(
        merged.err.contains(&format!("{id} (branch agent/w/right) is created: left out")),
        "{}",
        merged.err
    );
    let merged: Value = serde_json::from_str(&merged.out).unwrap();
    assert_eq!(merged["merged"], json!([left["id"], front["id"]]));
    assert_eq!(git(&desk, &["show", "main:a.txt", "main:pages.txt"]), "left\npages");
}
