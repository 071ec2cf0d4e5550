//! `--repo`: runs on repositories of elsewhere, as a user meets them.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::desk::Desk;

const ADDS: &str = r#"
name: adds
conversations:
  - turns:
      - calls: [ { tool: bash, args: { command: "cat upstream.txt; echo line >> notes" } } ]
      - text: "Done."
"#;

fn git(directory: &Path, args: &[&str]) -> String {
    let who = ["-c", "user.name=x", "-c", "user.email=x@x"];
    let done = Command::new("git").args(who).args(args).current_dir(directory).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
}

/// A desk that is no repository, with `origin.git` and a checkout that pushes to it.
fn desk() -> Desk {
    let desk = Desk::with_script(ADDS);
    git(&desk.path(""), &["init", "-q", "--bare", "--initial-branch=main", "origin.git"]);
    git(&desk.path(""), &["clone", "-q", "origin.git", "upstream"]);
    push(&desk, "upstream.txt", "one\n");
    desk
}

fn push(desk: &Desk, name: &str, text: &str) {
    let upstream = desk.path("upstream");
    std::fs::write(upstream.join(name), text).unwrap();
    git(&upstream, &["add", "."]);
    git(&upstream, &["commit", "-q", "-m", text.trim()]);
    git(&upstream, &["push", "-q", "origin", "HEAD:main"]);
}

fn run(desk: &Desk, more: &[&str]) -> serde_json::Value {
    let args = [&["run", "Add", "--model", "scripted/s.yaml", "--repo", "origin.git"], more].concat();
    desk.json(&args)
}

/// D13.1, D13.8, D14.3: a run of its own on that repository, on a branch of its own; the repository stays as it is.
#[test]
fn a_run_works_on_a_repository_of_elsewhere() {
    let desk = desk();
    let before = git(&desk.path("origin.git"), &["for-each-ref"]);
    let shown = run(&desk, &[]);
    assert_eq!(shown["source"]["url"], desk.path("origin.git").canonicalize().unwrap().display().to_string());
    let id = shown["id"].as_str().unwrap();
    assert_eq!(desk.get(&["diff", id, "--name-only"]), "notes\n");
    let workspace = shown["workspace"].as_str().unwrap();
    assert_eq!(git(Path::new(workspace), &["log", "-1", "--format=%H"]), shown["commit"]);
    let branch = shown["branch"].as_str().unwrap();
    assert_eq!(git(Path::new(workspace), &["symbolic-ref", "--short", "HEAD"]), branch);
    let refused = desk.say(&["merge", id]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("of which there is no checkout here"), "{}", refused.err);
    git(&desk.path("upstream"), &["pull", "-q", "--no-rebase", workspace, branch]);
    assert!(desk.path("upstream/notes").exists());
    assert_eq!(git(&desk.path("origin.git"), &["for-each-ref"]), before);
    let first = git(&desk.path("upstream"), &["rev-list", "--max-parents=0", "HEAD"]);
    push(&desk, "upstream.txt", "two\n");
    let shown = run(&desk, &["--ref", &first, "--depth", "5"]);
    assert_eq!(
        std::fs::read_to_string(Path::new(shown["workspace"].as_str().unwrap()).join("upstream.txt"))
            .unwrap(),
        "one\n"
    );
}

/// D14.4, D15.2, D15.3, D20.5: cloned once, later brought up to date, with local work kept; without `--repo` nobody is asked.
#[test]
fn a_session_of_a_repository_is_brought_up_to_date() {
    let desk = desk();
    let first = run(&desk, &["--session=s"]);
    let workspace = Path::new(first["workspace"].as_str().unwrap()).to_owned();
    std::fs::write(workspace.join("local"), "mine\n").unwrap();
    push(&desk, "upstream.txt", "two\n");
    let second = run(&desk, &["--session=s"]);
    assert_eq!(second["workspace"], first["workspace"]);
    let read = |name: &str| std::fs::read_to_string(workspace.join(name)).unwrap();
    assert_eq!(
        (read("upstream.txt"), read("notes"), read("local")),
        ("two\n".into(), "line\nline\n".into(), "mine\n".into())
    );
    // The same line on both sides: what is here stays, and that is said.
    std::fs::write(workspace.join("upstream.txt"), "local\n").unwrap();
    push(&desk, "upstream.txt", "three\n");
    let args = ["run", "Add", "--model", "scripted/s.yaml", "--repo", "origin.git", "--session=s"];
    let said = desk.say(&args);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("warning: the session stays as it was"), "{}", said.err);
    assert_eq!(read("upstream.txt"), "local\n");
    std::fs::rename(desk.path("origin.git"), desk.path("away.git")).unwrap();
    std::fs::create_dir(desk.path("origin.git")).unwrap();
    let other = desk.say(&args);
    assert_eq!(other.code, 2, "{}", other.err);
    std::fs::remove_dir(desk.path("origin.git")).unwrap();
    std::fs::rename(desk.path("away.git"), desk.path("origin.git")).unwrap();
    let info = desk.json(&["session", "info", "s"]);
    assert_eq!(info["runs"].as_array().unwrap().len(), 3);
    let plain = desk.json(&["run", "Add", "--model", "scripted/s.yaml", "--session=s"]);
    assert_eq!((&plain["branch"], &plain["sessionId"]), (&first["branch"], &json!("s")));
    assert_eq!(read("notes"), "line\n".repeat(4));
    std::fs::rename(desk.path("origin.git"), desk.path("gone.git")).unwrap();
    desk.json(&["run", "Add", "--model", "scripted/s.yaml", "--session=s"]);
    assert_eq!(read("notes"), "line\n".repeat(5), "the repository of elsewhere is not missed");
}

/// A branch that is in a run's own clone only is not cleaned away with it.
#[test]
fn work_that_is_nowhere_else_stays() {
    let desk = desk();
    let (one, two) = (run(&desk, &[]), run(&desk, &["--session=s"]));
    let cleanup = |word: &str| desk.json(&[word, "cleanup", "--older-than=1ms"])["removed"].clone();
    assert_eq!((cleanup("workspace"), cleanup("session")), (json!([]), json!([])));
    assert_eq!(desk.say(&["session", "delete", "s"]).code, 1);
    // Pushed, it is somewhere else.
    for shown in [&one, &two] {
        git(Path::new(shown["workspace"].as_str().unwrap()), &["push", "-q", "origin", "HEAD"]);
    }
    assert_eq!((cleanup("workspace"), cleanup("session")), (json!([one["id"]]), json!(["s"])));
}

/// What was fetched stays as long as a run that came from it is there, and goes when nobody asked for it for so long; a workspace that
/// was made from it misses nothing. An address that leads nowhere leaves nothing behind.
#[test]
fn fetched_repositories_go_by_the_rule() {
    let desk = desk();
    let fetched = || std::fs::read_dir(desk.path(".longhaul/cache/repos")).unwrap().count();
    let (one, session) = (run(&desk, &[]), run(&desk, &["--session=s"]));
    let there = fetched();
    let wrong =
        desk.say(&["run", "x", "--model", "scripted/s.yaml", "--repo", "https://127.0.0.1:1/team/app.git"]);
    assert!(wrong.code == 1 && wrong.err.contains("cannot reach"), "{}", wrong.err);
    assert_eq!(fetched(), there);
    let cleanup = |more: &[&str]| {
        let args = [&["workspace", "cleanup", "--older-than=1ms"], more].concat();
        desk.json(&args)["removed"].as_array().unwrap().clone()
    };
    assert_eq!(cleanup(&[]), Vec::<serde_json::Value>::new(), "two runs came from it");
    desk.get(&["rm", one["id"].as_str().unwrap()]);
    desk.get(&["rm", session["id"].as_str().unwrap()]);
    let is_store = |name: &serde_json::Value| name.as_str().unwrap().starts_with("cache/repos/");
    assert!(cleanup(&["--dry-run"]).iter().any(is_store) && fetched() == there);
    assert_eq!(desk.json(&["workspace", "cleanup"])["removed"], json!([]), "a day is not over");
    // One that cannot be removed is named, and keeps nobody from the rest.
    let mut entries =
        std::fs::read_dir(desk.path(".longhaul/cache/repos")).unwrap().map(|entry| entry.unwrap().path());
    let in_the_way = entries.find(|path| path.is_dir()).unwrap().with_extension("removing");
    std::fs::write(&in_the_way, "").unwrap();
    let said = desk.say(&["workspace", "cleanup", "--older-than=1ms"]);
    assert!(said.code == 0 && said.err.contains(".git stays: "), "{} {}", said.code, said.err);
    std::fs::remove_file(&in_the_way).unwrap();
    assert!(cleanup(&[]).iter().any(is_store));
    assert_eq!(fetched(), 0);
    let workspace = Path::new(session["workspace"].as_str().unwrap());
    git(workspace, &["fsck", "--full"]);
    push(&desk, "upstream.txt", "two\n");
    run(&desk, &["--session=s"]);
    assert_eq!(std::fs::read_to_string(workspace.join("upstream.txt")).unwrap(), "two\n");
}

/// A45, A46: refused before anything is made.
#[test]
fn hostile_addresses_and_names_are_refused() {
    let desk = desk();
    for url in [
        "ext::sh -c touch% mark",
        "--upload-pack=touch mark",
        "file:///etc",
        "http://x/y",
        "ssh://-oProxyCommand=touch mark/x",
    ] {
        let said = desk.say(&["run", "x", "--model", "scripted/s.yaml", &format!("--repo={url}")]);
        assert_eq!(said.code, 2, "{url}: {}", said.err);
    }
    for name in ["--orphan", "..", "a:b", "@{-1}", "-b--upload-pack=x"] {
        let said = desk.say(&[
            "run",
            "x",
            "--model",
            "scripted/s.yaml",
            "--repo=origin.git",
            &format!("--ref={name}"),
        ]);
        assert_eq!(said.code, 2, "{name}: {}", said.err);
    }
    let secret = desk.say(&["run", "x", "--repo=https://user:hunter2@example.com/x"]);
    assert!(secret.code == 2 && !secret.err.contains("hunter2"), "{}", secret.err);
    assert!(!desk.path(".longhaul/cache").exists() && !desk.path("mark").exists());
}

/// A47: a hostile repository: hooks, filters, submodules, links. Nothing of it runs and nothing leads out.
#[test]
fn nothing_in_a_fetched_repository_is_run() {
    let desk = desk();
    let (mark, upstream, hooks) = (desk.path("mark"), desk.path("upstream"), desk.path("origin.git/hooks"));
    std::fs::write(upstream.join(".gitattributes"), "upstream.txt filter=evil\n").unwrap();
    let modules = "[submodule \"../../hooks\"]\n\tpath = sub\n\turl = file:///etc\n\tupdate = !touch x\n";
    std::fs::write(upstream.join(".gitmodules"), modules).unwrap();
    symlink("/etc", upstream.join("link")).unwrap();
    push(&desk, "upstream.txt", "two\n");
    for name in ["post-update", "post-checkout", "upload-pack", "reference-transaction"] {
        std::fs::write(hooks.join(name), format!("#!/bin/sh\ntouch '{}'\n", mark.display())).unwrap();
        std::fs::set_permissions(hooks.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    // The user has a filter of that name, which plain git runs.
    let filter = format!(
        "[filter \"evil\"]\n\tsmudge = touch '{0}'; cat\n\tclean = touch '{0}'; cat\n",
        mark.display()
    );
    desk.write(".gitconfig", &filter);
    let mut plain = Command::new("git");
    plain.args(["clone", "-q", "origin.git", "plain"]).current_dir(desk.path("")).env("HOME", desk.path(""));
    assert!(plain.status().unwrap().success());
    assert!(mark.exists(), "void: plain git does not run it");
    std::fs::remove_file(&mark).unwrap();

    let shown = run(&desk, &[]);
    let made = Path::new(shown["workspace"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(made.join("upstream.txt")).unwrap(), "two\n");
    assert!(made.join("link").is_symlink() && !made.join("sub").exists());
    assert!(!made.join(".git/hooks").exists() && !made.join(".git/modules").exists());
    desk.get(&["diff", shown["id"].as_str().unwrap()]);
    assert!(!mark.exists());
}
