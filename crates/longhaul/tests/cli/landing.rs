//! `diff`, `apply`, `merge` and `--with-changes`, as a user meets them.

use std::path::Path;

use longhaul_workspace::homing::publish;
use serde_json::json;

use super::checkout::{self, git, git_in};
use super::desk::{Desk, SCRIPT};

/// A repository with one commit of `a.txt` and the script.
fn repository() -> Desk {
    checkout::repository(SCRIPT, &[("a.txt", "first\n")])
}

/// The user's files, what git says of them, and where the branch is.
fn checkout(desk: &Desk) -> [String; 3] {
    let top = desk.path("");
    let written =
        git_in(&top, &["ls-files", "--others", "--stage", "--exclude=.longhaul", "--exclude=.config"]);
    [written, git_in(&top, &["status", "--porcelain"]), git_in(&top, &["rev-parse", "HEAD"])]
}

fn run(desk: &Desk, more: &[&str]) -> String {
    let args = [&["run", "Write a", "--model", "scripted/s.yaml"], more].concat();
    desk.json(&args)["id"].as_str().unwrap().to_owned()
}

#[test]
fn work_is_shown_and_brought_in() {
    let desk = repository();
    let before = checkout(&desk);
    let id = run(&desk, &[]);
    assert_eq!(checkout(&desk), before, "a run touches nothing here");
    assert_eq!(desk.get(&["diff", &id, "--name-only"]), "a.txt\n");
    assert!(desk.get(&["diff", &id]).contains("-first\n+hello\n"));
    assert!(desk.get(&["diff", &id, "--stat"]).contains("1 file changed, 1 insertion(+), 1 deletion(-)"));
    let shown = desk.json(&["diff", &id, "--stat"]);
    assert_eq!(shown["files"], json!([{ "path": "a.txt", "added": 1, "removed": 1 }]));
    assert_eq!(checkout(&desk), before, "and looking at it neither");

    // Uncommitted changes to the same file.
    desk.write("a.txt", "mine\n");
    let before = checkout(&desk);
    for word in ["apply", "merge"] {
        let refused = desk.say(&[word, &id]);
        assert_eq!(refused.code, 1);
        assert_eq!(
            refused.err,
            "error: it would touch changes of yours that are not committed, in a.txt\n\
             hint: nothing was changed; commit or stash them first; `git ls-files -v` marks with `h` or `S` those that git was told to \
             pass over\n"
        );
    }
    assert_eq!(checkout(&desk), before);
    desk.write("a.txt", "first\n");
    assert_eq!(desk.get(&["apply", &id]), "M a.txt\n");
    assert_eq!(std::fs::read_to_string(desk.path("a.txt")).unwrap(), "hello\n");
    // What is here already is no obstacle to merging it.
    let merged = desk.json(&["merge", &id]);
    assert_eq!(git(&desk, &["rev-parse", "HEAD"]), merged["commit"]);
    assert!(git(&desk, &["log", "-1", "--format=%B"]).ends_with(&format!("Longhaul-Run: {id}")));
    assert_eq!(desk.json(&["merge", &id])["commit"], json!(null));
}

/// F48: a result says that the work is not committed, why, and how to go on; no longer once it is.
#[test]
fn a_result_says_that_work_is_not_committed() {
    let script = r#"conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: "sh ./begin.sh" } } ] }, { text: ok } ] } ]"#;
    let begin = "git rev-parse HEAD > \"$(git rev-parse --git-dir)/MERGE_HEAD\"; echo new > new.txt\n";
    let desk = checkout::repository(script, &[("begin.sh", begin)]);
    let id = run(&desk, &[]);
    let result = desk.json(&["result", &id]);
    let place = result["workspace"].as_str().unwrap();
    let why = format!("a merge is under way in `{place}`");
    assert_eq!((&result["commit"], &result["uncommitted"]), (&json!(null), &json!(why)));
    let said = format!(
        "- the work is not committed: {why}; it stands in {place}, and `longhaul merge {id}` commits it and brings it in\n"
    );
    let printed = desk.get(&["result", &id]);
    assert!(printed.contains(&said), "{printed}");
    let own = git_in(Path::new(place), &["rev-parse", "--absolute-git-dir"]);
    std::fs::remove_file(format!("{own}/MERGE_HEAD")).unwrap();
    desk.get(&["merge", &id]);
    assert!(desk.path("new.txt").exists());
    assert_eq!(desk.json(&["result", &id])["uncommitted"], json!(null));
    assert!(!desk.get(&["result", &id]).contains("not committed"));
}

/// F37, D11.16: what comes to the user's repository, what cannot, and what was mended in the worktree, are events of the run; a
/// result says what is lacking for as long as that is so. What was left undone when nobody drove the run is done and told when it
/// is taken up.
#[test]
fn what_comes_to_the_users_repository_is_told() {
    let script = r#"
conversations:
  - turns:
      - calls: [ { tool: bash, args: { command: "sh ./begin.sh" } } ]
      - calls: [ { tool: ask_human, args: { question: "And now?" } } ]
      - calls: [ { tool: bash, args: { command: "sh ./end.sh" } } ]
      - text: Done.
"#;
    let who = "git -c user.name=x -c user.email=x";
    let begin = format!("echo 1 > one; git add one; {who} commit -qm one; git branch topic; rm .git/HEAD\n");
    // With a merge under way, the agent's last file cannot be committed either.
    let end = format!(
        "echo 2 > two; git add two; {who} commit -qm two; git rev-parse HEAD > .git/MERGE_HEAD; echo 3 > three\n"
    );
    let desk = checkout::repository(script, &[("begin.sh", &begin), ("end.sh", &end)]);
    let said = desk.say(&["run", "Write", "--model", "scripted/s.yaml", "--json"]);
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(
        said.err.contains("the agent had broken the `.git` of its worktree; made anew: HEAD"),
        "{}",
        said.err
    );
    assert!(said.err.contains("in your repository now: topic\n"), "{}", said.err);
    let shown: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let [id, branch, place] = ["id", "branch", "workspace"].map(|name| shown[name].as_str().unwrap());
    let told = |desk: &Desk| {
        let ours = ["workspace_mended", "branches_brought", "branch_not_brought"];
        let events = desk.events(id).into_iter();
        let events = events.filter(|event| ours.iter().any(|kind| event["type"] == *kind));
        events.collect::<Vec<_>>()
    };
    let first = git(&desk, &["rev-parse", branch]);
    let events = told(&desk);
    assert_eq!((&events[0]["type"], &events[0]["parts"]), (&json!("workspace_mended"), &json!(["HEAD"])));
    let came =
        [branch, "topic"].map(|name| json!({ "branch": format!("refs/heads/{name}"), "commit": first }));
    assert_eq!((events.len(), &events[1]["branches"]), (2, &json!(came)));

    // Whoever was killed right after bringing something could not tell.
    git_in(Path::new(place), &["branch", "later"]);
    drop(publish(Path::new(place), &desk.path(".longhaul/scratch")));
    assert_eq!(git(&desk, &["rev-parse", "later"]), first);

    // Somebody else puts a commit onto it, and breaks what the run needs.
    let tree = git(&desk, &["rev-parse", &format!("{branch}^{{tree}}")]);
    let theirs = git(&desk, &["commit-tree", "-p", branch, "-m", "theirs", &tree]);
    git(&desk, &["update-ref", &format!("refs/heads/{branch}"), &theirs]);
    std::fs::remove_file(Path::new(place).join(".git/HEAD")).unwrap();
    let approvals = desk.json(&["approvals"]);
    desk.get(&["answer", approvals[0]["id"].as_str().unwrap(), "go on"]);
    let said = desk.say(&["resume", id]);
    assert_eq!(said.code, 0, "{}", said.err);
    let why =
        format!("`{branch}` was moved or checked out in `{}` by somebody else", desk.path(".git").display());
    assert!(said.err.contains(&format!("not in your repository: {why}")), "{}", said.err);
    let events = told(&desk);
    let kinds: Vec<&str> = events[2..].iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["workspace_mended", "branches_brought", "branch_not_brought"], "told once");
    assert_eq!(events[3]["branches"], json!([{ "branch": "refs/heads/later", "commit": first }]));
    assert!(events[4]["reason"].as_str().unwrap().starts_with(&why), "{}", events[4]);
    assert_eq!(git(&desk, &["rev-parse", branch]), theirs);
    let result = desk.json(&["result", id]);
    assert_eq!(result["notBrought"], events[4]["reason"]);
    assert!(
        result["uncommitted"].as_str().unwrap().starts_with("a merge is under way"),
        "{}",
        result["uncommitted"]
    );
    assert!(desk.get(&["result", id]).contains("not all that was committed is in your repository"));
    assert_eq!(desk.json(&["events", "validate", id])["problems"], json!([]));

    // Whoever takes it in by hand has it.
    git(&desk, &["fetch", "-q", place, "HEAD"]);
    git(&desk, &["update-ref", &format!("refs/heads/{branch}"), "FETCH_HEAD"]);
    assert_eq!(desk.json(&["result", id])["notBrought"], json!(null));
    assert!(!desk.get(&["result", id]).contains("not all that was committed"));
}

/// D11.16: work whose history the agent began anew is not merged by itself, and whoever wants it is told how to have it.
#[test]
fn work_without_a_common_history_is_not_merged() {
    let desk = repository();
    let id = run(&desk, &[]);
    let shown = desk.json(&["show", &id]);
    let [branch, place] = ["branch", "workspace"].map(|name| shown[name].as_str().unwrap());
    let tree = git_in(Path::new(place), &["rev-parse", "HEAD^{tree}"]);
    let anew = git_in(Path::new(place), &["commit-tree", "-m", "anew", &tree]);
    git_in(Path::new(place), &["update-ref", "HEAD", &anew]);
    let before = checkout(&desk);
    let refused = desk.say(&["merge", &id]);
    assert_eq!(
        (refused.code, refused.err),
        (
            1,
            format!(
                "error: the work and what is checked out have no commit in common\n\
                 hint: nothing was changed; `longhaul apply` brings in the files alone, \
                 `git merge --allow-unrelated-histories {branch}` both histories\n"
            )
        )
    );
    assert_eq!(checkout(&desk), before);
    assert_eq!(desk.get(&["apply", &id]), "M a.txt\n");
}

/// D5.1, D5.2, D5.4: each step's work is one commit on a branch named after the task, with the run's name in it; a step
/// that changes nothing has none, and two runs have two branches.
#[test]
fn work_is_committed_after_each_step() {
    let desk = repository();
    desk.write("s.yaml", STEPS);
    desk.write("plan.yaml", "steps: [ { id: one, description: Write it }, { id: two, description: Look }, { id: three, description: Write more } ]");
    git(&desk, &["add", "."]);
    git(&desk, &["commit", "-q", "-m", "second"]);
    let before = checkout(&desk);
    let args = ["run", "Fix bug\nin two lines", "--model", "scripted/s.yaml", "--plan", "plan.yaml"];
    let (shown, other) = (desk.json(&args), desk.json(&args));
    assert_eq!(checkout(&desk), before);
    let branch = shown["branch"].as_str().unwrap();
    assert!(branch.starts_with("agent/fix-bug-in-two-lines-coder-"), "{branch}");
    assert_ne!(shown["branch"], other["branch"]);
    let id = shown["id"].as_str().unwrap();
    let log = git(&desk, &["log", "--format=%H%n%B", &format!("HEAD..{branch}")]);
    let commits = shown["commits"].as_array().unwrap();
    let [first, last] = [0, 1].map(|index| commits[index].as_str().unwrap());
    assert_eq!(
        log.split_whitespace().collect::<Vec<_>>().join(" "),
        format!(
            "{last} Fix bug Step 3 of 3: Write more Agent: coder Longhaul-Run: {id} \
             {first} Fix bug Step 1 of 3: Write it Agent: coder Longhaul-Run: {id}"
        )
    );
    assert_eq!(shown["commit"], last);
    assert_eq!(desk.json(&["result", id])["commit"], last);
    let events = desk.events(id);
    let kinds = events.iter().filter_map(|event| event["type"].as_str());
    let kept: Vec<&str> = kinds.filter(|kind| kind.starts_with("work_")).collect();
    assert_eq!(kept, ["work_committed", "work_unchanged", "work_committed"]);
}

const STEPS: &str = r#"
name: steps
conversations:
  - match: { step: one }
    turns:
      - calls: [ { tool: write, args: { path: a.txt, content: "one\n" } } ]
      - text: "Written."
  - match: { step: two }
    turns:
      - text: "Looked."
  - match: { step: three }
    turns:
      - calls: [ { tool: write, args: { path: a.txt, content: "two\n" } } ]
      - text: "Written more."
"#;

/// A branch goes where the repository goes: a key that stands in the task is struck out of its name, and of every other ref.
#[test]
fn no_key_is_in_the_name_of_a_branch() {
    let desk = repository();
    let key = "sk-ant-canary-0123456789";
    let args = ["run", &format!("Use {key} now"), "--model", "scripted/s.yaml", "--json"];
    let output = desk.command(&args).env("ANTHROPIC_API_KEY", key).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let branch = shown["branch"].as_str().unwrap();
    assert!(branch.starts_with("agent/use-secret-now-coder-"), "{branch}");
    let refs = git(&desk, &["for-each-ref", "--format=%(refname)"]);
    assert!(refs.contains(branch) && !refs.contains("canary"), "{refs}");
    assert!(!git(&desk, &["log", "--all", "--format=%B"]).contains("canary"));
}

/// `git.auto_commit` and `git.auto_branch`, and a prefix that another branch is in the way of.
#[test]
fn committing_and_naming_can_be_switched_off() {
    let desk = repository();
    git(&desk, &["branch", "agent"]);
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml"]);
    assert_eq!(shown["branch"], format!("longhaul/{}", shown["id"].as_str().unwrap()));
    assert!(shown["commit"].is_string());
    desk.write("longhaul.yaml", "git: { auto_commit: false, branch_prefix: bots/ }");
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml"]);
    assert!(shown["branch"].as_str().unwrap().starts_with("bots/x-coder-"));
    assert_eq!((&shown["commit"], &shown["commits"]), (&json!(null), &json!([])));
    let id = shown["id"].as_str().unwrap();
    assert_eq!(desk.get(&["diff", id, "--name-only"]), "a.txt\n", "it is there all the same");
    desk.write("longhaul.yaml", "git: { auto_branch: false, working_branch: agent }");
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml"]);
    assert!(shown["branch"].as_str().unwrap().starts_with("longhaul/"));
    for name in ["--upload-pack=x", "a..b", ".git"] {
        desk.write("longhaul.yaml", &format!("git: {{ working_branch: \"{name}\" }}"));
        let refused = desk.say(&["run", "x", "--model", "scripted/s.yaml"]);
        assert_eq!(refused.code, 2, "{name}");
        assert!(refused.err.contains("git.working_branch"), "{}", refused.err);
    }
    // D16.4: one that is not there is made, and said so, because it may be a slip.
    desk.write("longhaul.yaml", "git: { working_branch: next }");
    let made = desk.say(&["run", "x", "--model", "scripted/s.yaml"]);
    let head = git(&desk, &["rev-parse", "HEAD"]);
    assert!(
        made.err.contains("there was no branch `next` (git.working_branch); it was made at"),
        "{}",
        made.err
    );
    assert_eq!(git(&desk, &["rev-parse", "next"]), head);
}

/// A git of its own for a desk: before it does `word` it kills whoever asked for it, and then does it all the same.
fn deadly_git(desk: &Desk, word: &str) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap();
    let real = std::env::split_paths(&path).map(|place| place.join("git")).find(|git| git.is_file()).unwrap();
    let (real, done) = (real.display(), desk.path(".longhaul/done"));
    let deadly = format!("kill -9 $PPID; '{real}' \"$@\"; touch '{}'; exit;;", done.display());
    let script = format!("#!/bin/sh\ncase \" $* \" in *\" {word} \"*) {deadly} esac\nexec '{real}' \"$@\"\n");
    let place = desk.elsewhere("deadly");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("git"), script).unwrap();
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.join("git"), all).unwrap();
    std::env::join_paths(std::iter::once(place).chain(std::env::split_paths(&path))).unwrap()
}

/// Says it with such a git, and waits for what outlived it.
fn killed(desk: &Desk, args: &[&str], word: &str) {
    use std::os::unix::process::ExitStatusExt;
    let output = desk.command(args).env("PATH", deadly_git(desk, word)).output().unwrap();
    assert_eq!(output.status.signal(), Some(9), "{}", String::from_utf8_lossy(&output.stderr));
    while std::fs::remove_file(desk.path(".longhaul/done")).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// A git that goes on after the harness was killed writes nothing into the user's checkout.
#[test]
fn what_outlives_a_killed_landing_writes_nothing_here() {
    let desk = repository();
    let id = run(&desk, &[]);
    let before = checkout(&desk);
    for word in ["apply", "merge"] {
        killed(&desk, &[word, &id], "checkout-index");
        assert_eq!(checkout(&desk), before, "{word}");
        assert_eq!(std::fs::read_to_string(desk.path("a.txt")).unwrap(), "first\n");
    }
    assert_eq!(desk.get(&["apply", &id]), "M a.txt\n");
    assert_eq!(std::fs::read_to_string(desk.path("a.txt")).unwrap(), "hello\n");
}

/// What the user made of the files after a landing was killed is left alone, and so is what the user committed.
#[test]
fn a_killed_landing_takes_nothing_from_the_user() {
    let desk = repository();
    let id = run(&desk, &[]);
    let text = || std::fs::read_to_string(desk.path("a.txt")).unwrap();
    // All files are written, and the branch is where it was.
    killed(&desk, &["merge", &id], "update-ref");
    assert_eq!(text(), "hello\n", "void: it was killed before");
    desk.write("a.txt", "mine\n");
    let refused = desk.say(&["merge", &id]);
    assert_eq!(refused.code, 1);
    assert_eq!(
        refused.err,
        format!(
            "error: bringing in {id} was cut short, and these files are neither as they were nor as it writes them: a.txt\n\
             hint: they are yours and were left alone; nothing was changed; commit, stash or remove them, then say it again\n"
        )
    );
    assert_eq!((text().as_str(), desk.say(&["merge", &id]).code), ("mine\n", 1));

    desk.write("a.txt", "first\n");
    killed(&desk, &["apply", &id], "checkout-index");
    desk.write("a.txt", "committed\n");
    std::fs::remove_file(desk.path(".git/index.lock")).unwrap();
    git(&desk, &["commit", "-q", "-am", "mine"]);
    let before = checkout(&desk);
    let refused = desk.say(&["merge", &id]);
    assert_eq!((refused.code, text().as_str()), (1, "committed\n"));
    assert!(refused.err.contains("another commit or branch is checked out since: nothing was taken back"));
    assert!(refused.err.contains("error: the work conflicts with what is here, in a.txt"), "{}", refused.err);
    assert_eq!(checkout(&desk), before);
}

#[test]
fn a_conflict_names_the_files_and_leaves_no_trace() {
    let desk = repository();
    let id = run(&desk, &[]);
    desk.write("a.txt", "other\n");
    git(&desk, &["commit", "-q", "-am", "meanwhile"]);
    let before = checkout(&desk);
    for word in ["apply", "merge"] {
        let refused = desk.say(&[word, &id]);
        assert_eq!((refused.code, refused.out.as_str()), (1, ""));
        assert!(
            refused.err.starts_with("error: the work conflicts with what is here, in a.txt\n"),
            "{}",
            refused.err
        );
    }
    assert_eq!(checkout(&desk), before);
}

#[test]
fn changes_are_carried_in_only_if_asked_for() {
    let desk = repository();
    desk.write("untracked", "mine\n");
    let before = checkout(&desk);
    let without = run(&desk, &[]);
    let with = run(&desk, &["--with-changes"]);
    assert_eq!(checkout(&desk), before);
    let workspace = |id: &str| desk.path(&format!(".longhaul/workspace/run/{id}/untracked"));
    assert!(!workspace(&without).exists() && workspace(&with).exists());
    assert_eq!(desk.get(&["diff", &with, "--name-only"]), "a.txt\n", "the user's own is not the run's");
    assert_eq!(desk.say(&["run", "x", "--with-changes", "--in-place"]).code, 2);
    // What goes onto the branch beside the run's own is said, and only then.
    let said = "began with changes of yours that were not committed: merging puts them onto your branch";
    assert!(desk.say(&["merge", &with]).err.contains(said));
    let again = desk.say(&["merge", &with]);
    assert!(again.code == 0 && !again.err.contains(said), "{}", again.err);
    assert_eq!(git(&desk, &["status", "--porcelain"]), "");
}

#[test]
fn there_is_nothing_to_bring_in_from_elsewhere() {
    let desk = Desk::new();
    let id = desk.completed();
    for word in ["apply", "merge"] {
        let refused = desk.say(&[word, &id]);
        assert_eq!(refused.code, 2);
        assert!(refused.err.contains("which is no worktree of a repository"), "{}", refused.err);
        assert!(refused.err.contains(&format!("`longhaul diff {id}` shows it")), "{}", refused.err);
    }
    assert_eq!(desk.get(&["diff", &id, "--name-only"]), "a.txt\n", "what is said works");
    let desk = repository();
    let id = desk.create();
    assert!(desk.say(&["diff", &id]).err.starts_with(&format!("error: {id} has not begun\n")));
}

/// 7.1: the change of a run that worked in place is shown since it began, not what was changed before, as a patch that git takes.
#[test]
fn a_run_in_place_shows_what_changed_since_it_began() {
    let desk = repository();
    desk.write("mine", "before\n");
    desk.write("s.yaml", &format!("{}\n# changed", super::desk::SCRIPT));
    let id = run(&desk, &["--in-place"]);
    assert_eq!(desk.get(&["diff", &id, "--name-only"]), "a.txt\n");
    let patch = desk.say(&["diff", &id]);
    assert!(patch.out.contains("-first\n+hello\n") && patch.err.contains("by whomever"), "{}", patch.out);
    let shown = desk.json(&["diff", &id, "--stat"]);
    assert_eq!(shown["since"], "start");
    assert_eq!(shown["files"], json!([{ "path": "a.txt", "added": 1, "removed": 1 }]));
    let elsewhere = desk.elsewhere("clone");
    git(&desk, &["clone", "-q", ".", &elsewhere.display().to_string()]);
    std::fs::write(elsewhere.join("p"), patch.out).unwrap();
    git_in(&elsewhere, &["apply", "p"]);
    assert_eq!(std::fs::read_to_string(elsewhere.join("a.txt")).unwrap(), "hello\n");
    let idle = "conversations: [ { turns: [ { text: Done. } ] } ]";
    desk.write("s.yaml", idle);
    let idle = run(&desk, &["--in-place"]);
    assert!(desk.say(&["diff", &idle]).err.ends_with(&format!("{idle} has changed nothing\n")));
}

/// What git ignores and a worktree needs comes along if the user said so, and is no part of the work.
#[test]
fn ignored_files_are_copied_if_asked_for() {
    let desk = repository();
    desk.write(".gitignore", "deps/\n.env*\n.config\n");
    git(&desk, &["add", ".gitignore"]);
    git(&desk, &["commit", "-q", "-m", "ignore"]);
    std::fs::create_dir_all(desk.path("deps/inner")).unwrap();
    desk.write("deps/inner/file", "x\n");
    desk.write(".env.example", "x\n");
    desk.write(".env", "secret\n");
    desk.write("untracked", "x\n");
    std::fs::create_dir_all(desk.path(".config/longhaul")).unwrap();
    let settings = "workspace: { copy: [deps/, .env.example, untracked, missing] }";
    desk.write(".config/longhaul/longhaul.yaml", settings);
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml"]);
    let place = Path::new(shown["workspace"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(place.join("deps/inner/file")).unwrap(), "x\n");
    assert!(place.join(".env.example").exists());
    assert!(!place.join(".env").exists() && !place.join("untracked").exists());
    assert_eq!(desk.get(&["diff", shown["id"].as_str().unwrap(), "--name-only"]), "a.txt\n");
    for path in ["../x", "/etc/passwd", ".git/config", "a/../../b"] {
        desk.write(".config/longhaul/longhaul.yaml", &format!("workspace: {{ copy: [{path}] }}"));
        let refused = desk.say(&["run", "x", "--model", "scripted/s.yaml"]);
        assert!(refused.code == 2 && refused.err.contains("workspace.copy"), "{path}: {}", refused.err);
    }
    // What a repository's own file names waits for trust.
    std::fs::remove_file(desk.path(".config/longhaul/longhaul.yaml")).unwrap();
    desk.write("longhaul.yaml", "workspace: { copy: [.env] }");
    let output = desk
        .command(&["run", "x", "--model", "scripted/s.yaml", "--json"])
        .env_remove("LONGHAUL_TRUST")
        .output();
    let output = output.unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("sets workspace.copy, which is ignored until you trust it"), "{told}");
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!Path::new(shown["workspace"].as_str().unwrap()).join(".env").exists());
}

/// D5.1, D14.1: an agent's name may stand first, with the task behind `--task`; two agents are one too many.
#[test]
fn an_agent_may_stand_first() {
    let desk = checkout::repository(SCRIPT, &[]);
    let model = ["--model", "scripted/s.yaml"];
    let run = desk.json(&[&["run", "MARS", "--task", "Fix bug"][..], &model].concat());
    assert_eq!((&run["agentName"], &run["task"]), (&json!("MARS"), &json!("Fix bug")));
    assert!(run["branch"].as_str().unwrap().starts_with("agent/fix-bug-mars-"), "{run}");
    let place = format!("/workspace/run/{}", run["id"].as_str().unwrap());
    assert!(run["workspace"].as_str().unwrap().ends_with(&place), "{run}");
    let run = desk.json(&[&["run", "--task", "Fix bug"][..], &model].concat());
    assert_eq!(run["agentName"], "coder");
    let two = desk.say(&[&["run", "MARS", "--task", "x", "--agent", "VENUS"][..], &model].concat());
    assert!(two.code == 2 && two.err.contains("two agents"), "{}", two.err);
    let none = desk.say(&["run"]);
    assert!(none.code == 2 && none.err.contains("TASK"), "{}", none.err);
}
