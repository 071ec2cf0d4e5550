//! What the tools that only look show.

use longhaul_core::tool::{EffectClass, Failure};
use serde_json::json;

use crate::fixture::{Fixture, done, failure};
use crate::repo::Repo;

/// D6.7: status names the branch and every kind of change.
#[tokio::test]
async fn status_is_data() {
    let Some(repo) = Repo::new() else { return };
    let clean = repo.status().await;
    assert_eq!((&clean["branch"], &clean["clean"]), (&json!("main"), &json!(true)));
    assert_eq!(clean["head"], json!(repo.git(&["rev-parse", "HEAD"])));
    repo.write("a.txt", "one\n");
    repo.write("näw file", "x");
    repo.write("sub/b.txt", "staged");
    repo.git(&["add", "sub"]);
    let status = repo.status().await;
    assert_eq!(status["unstaged"], json!([{ "path": "a.txt", "change": "modified" }]));
    assert_eq!(status["staged"], json!([{ "path": "sub/b.txt", "change": "added" }]));
    assert_eq!(status["untracked"], json!(["näw file"]));
    assert_eq!(status["clean"], json!(false));
    let part = repo.json("git_status", json!({ "path": "sub" })).await;
    assert_eq!((&part["unstaged"], &part["untracked"]), (&json!([]), &json!([])));
}

/// D6.7: a diff has counts and changes, of what is staged or not, for a path, and against a commit.
#[tokio::test]
async fn diff_counts_and_shows() {
    let Some(repo) = Repo::new() else { return };
    repo.write("a.txt", "one\n2\n3\n");
    repo.write("b.txt", "b\n");
    repo.git(&["add", "b.txt"]);
    let outcome = repo.run("git_diff", json!({})).await;
    let (stat, patch) = done(&outcome).split_once('\n').unwrap();
    assert_eq!(stat, r#"{"added":2,"removed":1,"files":[{"path":"a.txt","added":2,"removed":1}]}"#);
    assert!(patch.contains("-two\n+2\n+3\n"), "{patch}");
    let staged = repo.json("git_diff", json!({ "staged": true })).await;
    assert_eq!(staged["files"], json!([{ "path": "b.txt", "added": 1, "removed": 0 }]));
    let based = repo.json("git_diff", json!({ "base": "HEAD", "stat": true })).await;
    assert_eq!((&based["added"], based["files"].as_array().unwrap().len()), (&json!(3), 2));
    let part = repo.json("git_diff", json!({ "base": "main", "path": "b.txt" })).await;
    assert_eq!(part["files"].as_array().unwrap().len(), 1);
}

/// D6.7: ten commits unless told otherwise, fifty at most; a message of terminal codes is only text.
#[tokio::test]
async fn log_is_bounded_and_inert() {
    let Some(repo) = Repo::new() else { return };
    for number in 0..11 {
        repo.git(&["commit", "--quiet", "--allow-empty", "-m", &format!("number {number}")]);
    }
    repo.git(&["commit", "--quiet", "--allow-empty", "-m", "\u{1b}[31mred\n\nbody <b>"]);
    let outcome = repo.run("git_log", json!({})).await;
    let text = done(&outcome);
    assert_eq!(text.lines().count(), 10);
    assert!(!text.contains('\u{1b}'), "{text}");
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((&first["subject"], &first["body"]), (&json!("\u{1b}[31mred"), &json!("body <b>")));
    assert_eq!((&first["author"], &first["email"]), (&json!("Test"), &json!("test@example.com")));
    let all = repo.run("git_log", json!({ "limit": 50 })).await;
    assert_eq!(done(&all).lines().count(), 13);
    let of_path = repo.run("git_log", json!({ "path": "a.txt", "ref": "main" })).await;
    assert_eq!(done(&of_path).lines().count(), 1);
    let too_many = repo.run("git_log", json!({ "limit": 51 })).await;
    assert_eq!(failure(&too_many), (Failure::InvalidArguments, "`limit` must be from 1 to 50", ""));
}

/// D6.7: a commit with its changes, a file as it was, and where each line is from.
#[tokio::test]
async fn show_and_blame() {
    let Some(repo) = Repo::new() else { return };
    repo.write("a.txt", "one\n2\n");
    repo.git(&["commit", "--quiet", "-am", "second"]);
    let outcome = repo.run("git_show", json!({})).await;
    let lines: Vec<&str> = done(&outcome).lines().collect();
    assert!(lines[0].contains(r#""subject":"second""#), "{}", lines[0]);
    assert_eq!(lines[1], r#"{"added":1,"removed":1,"files":[{"path":"a.txt","added":1,"removed":1}]}"#);
    assert!(lines.contains(&"-two") && lines.contains(&"+2"));
    let before = repo.run("git_show", json!({ "ref": "HEAD~1", "path": "a.txt" })).await;
    assert_eq!(done(&before), "one\ntwo\n");
    let root = repo.run("git_show", json!({ "ref": "HEAD~1" })).await;
    assert!(done(&root).contains("+two"));
    let blame = repo.run("git_blame", json!({ "path": "a.txt" })).await;
    let blamed: Vec<&str> = done(&blame).lines().collect();
    assert!(
        blamed[0].contains("Test") && blamed[0].ends_with("one") && blamed[1].ends_with("2"),
        "{blamed:?}"
    );
    assert!(!blamed[1].starts_with('^') && blamed[0].starts_with('^'));
    let part =
        repo.run("git_blame", json!({ "path": "a.txt", "offset": 2, "limit": 1, "ref": "HEAD~1" })).await;
    assert!(done(&part).ends_with("two\n") && done(&part).lines().count() == 1);
}

/// D6.7: what is not there is said in words.
#[tokio::test]
async fn failures_are_readable() {
    let Some(repo) = Repo::new() else { return };
    let nothing = repo.run("git_show", json!({ "ref": "nowhere" })).await;
    assert_eq!(failure(&nothing), (Failure::Tool, "there is no commit `nowhere` here", ""));
    repo.write("c.bin", "a\0b");
    repo.git(&["add", "."]);
    repo.git(&["commit", "--quiet", "-m", "binary"]);
    let binary = repo.run("git_show", json!({ "path": "c.bin" })).await;
    assert_eq!(failure(&binary).1, "`c.bin` is not text; it has 3 bytes");
    let bare = Fixture::new();
    let outcome = bare.run("git_status", &json!({})).await;
    assert!(failure(&outcome).1.contains("not a git repository"), "{outcome:?}");
}

/// D6.7: in a part of a repository, paths are those of the workspace, and nothing beside it is shown.
#[tokio::test]
async fn a_workspace_below_the_top_sees_only_itself() {
    let Some(mut repo) = Repo::new() else { return };
    repo.write("sub/b.txt", "b\n");
    repo.write("secret.txt", "s\n");
    repo.git(&["add", "."]);
    repo.git(&["commit", "--quiet", "-m", "second"]);
    repo.write("sub/b.txt", "changed\n");
    repo.write("secret.txt", "changed\n");
    let below = longhaul_workspace::Workspace::open(&repo.fixture.path("sub")).unwrap();
    repo.fixture.context.workspace = std::sync::Arc::new(below);
    assert_eq!(repo.status().await["unstaged"], json!([{ "path": "b.txt", "change": "modified" }]));
    let diff = repo.run("git_diff", json!({})).await;
    assert!(done(&diff).contains("b.txt") && !done(&diff).contains("secret"), "{diff:?}");
    let file = repo.run("git_show", json!({ "path": "b.txt" })).await;
    assert_eq!(done(&file), "b\n");
    let commit = repo.run("git_show", json!({})).await;
    assert!(!done(&commit).contains("secret"), "{commit:?}");
}

/// A18: what the rules keep from `read` is not shown by way of git either.
#[tokio::test]
async fn hidden_files_stay_hidden() {
    let Some(mut repo) = Repo::new() else { return };
    repo.fixture.context.rules = std::sync::Arc::from([longhaul_core::permission::Permissions::default()]);
    repo.write("x.env", "CANARY\n");
    repo.write("a.txt", "seen\n");
    repo.git(&["add", "."]);
    let calls = || {
        [
            ("git_diff", json!({ "staged": true })),
            ("git_diff", json!({ "base": "HEAD~1", "path": "x.env" })),
            ("git_show", json!({})),
            ("git_show", json!({ "path": "x.env" })),
            ("git_blame", json!({ "path": "x.env" })),
        ]
    };
    let staged = repo.run("git_diff", json!({ "staged": true })).await;
    assert!(done(&staged).contains(r#""hidden":1"#) && done(&staged).contains("+seen"), "{staged:?}");
    repo.git(&["commit", "--quiet", "-m", "second"]);
    for (tool, args) in calls() {
        let outcome = repo.run(tool, args).await;
        assert!(!outcome.for_model().contains("CANARY"), "{tool}: {outcome:?}");
    }
    for (tool, args) in &calls()[3..] {
        assert_eq!(failure(&repo.run(tool, args.clone()).await).0, Failure::NotPermitted, "{tool}");
    }
}

/// D6.7, F24: what recovery may do with each.
#[test]
fn classes() {
    let fixture = Fixture::new();
    let class = |name: &str| fixture.tool(name).spec().class;
    for name in ["git_status", "git_diff", "git_log", "git_show", "git_blame"] {
        assert_eq!(class(name), EffectClass::Repeatable, "{name}");
    }
    assert_eq!(class("git_commit"), EffectClass::Checkable);
    assert_eq!(class("git_branch"), EffectClass::Checkable);
    assert_eq!(class("git_add"), EffectClass::Once);
}
