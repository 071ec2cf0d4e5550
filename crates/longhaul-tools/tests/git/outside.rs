//! Operands and repositories that lead out of the workspace.

use std::fs;

use longhaul_core::tool::{Failure, Outcome};
use serde_json::{Value, json};

use crate::fixture::failure;
use crate::repo::{Repo, plain};

fn kind(outcome: &Outcome) -> Failure {
    failure(outcome).0
}

/// A50: what looks like an option is no name of anything, wherever it is given.
#[tokio::test]
async fn options_are_not_operands() {
    let Some(repo) = Repo::new() else { return };
    let option = format!("--output={}", repo.mark().display());
    plain(&repo.root(), &["log", &option]);
    assert!(repo.mark().exists(), "void: plain git writes no file");
    fs::remove_file(repo.mark()).unwrap();
    let refused: [(&str, Value); 6] = [
        ("git_log", json!({ "ref": option })),
        ("git_show", json!({ "ref": option })),
        ("git_diff", json!({ "base": option })),
        ("git_blame", json!({ "path": "a.txt", "ref": option })),
        ("git_branch", json!({ "name": option })),
        ("git_branch", json!({ "name": "b", "start": option })),
    ];
    for (tool, args) in refused {
        let outcome = repo.run(tool, args).await;
        assert_eq!(kind(&outcome), Failure::InvalidArguments, "{tool}: {outcome:?}");
    }
    for (tool, key) in
        [("git_log", "path"), ("git_show", "path"), ("git_diff", "path"), ("git_blame", "path")]
    {
        repo.run(tool, json!({ key: option })).await;
    }
    repo.run("git_add", json!({ "paths": [option] })).await;
    assert!(!repo.mark().exists());
    assert_eq!(repo.git(&["branch", "--list", "b"]), "");
}

/// A46: names that git gives another meaning, or none.
#[tokio::test]
async fn strange_branches_are_refused() {
    let Some(repo) = Repo::new() else { return };
    for name in
        ["..", "a..b", "/abs", "a:b", "@{-1}", "a b", "x.lock", ".hidden", "a/", "HEAD", "", "a\0b", "a\nb"]
    {
        let outcome = repo.run("git_branch", json!({ "name": name })).await;
        assert_eq!(kind(&outcome), Failure::InvalidArguments, "{name:?}: {outcome:?}");
    }
}

/// A50: no path leads out, neither by its parts nor by git's own signs, and no link is followed.
#[tokio::test]
async fn paths_stay_below_the_workspace() {
    let Some(repo) = Repo::new() else { return };
    fs::write(repo.fixture.outer.path().join("secret"), "CANARY").unwrap();
    let outside = repo.fixture.outer.path().to_str().unwrap().to_owned();
    for path in ["../secret", "sub/../../secret", &format!("{outside}/secret"), "/etc/passwd"] {
        for (tool, args) in [
            ("git_add", json!({ "paths": [path] })),
            ("git_diff", json!({ "path": path })),
            ("git_show", json!({ "path": path })),
            ("git_log", json!({ "path": path })),
            ("git_blame", json!({ "path": path })),
            ("git_status", json!({ "path": path })),
        ] {
            assert_eq!(kind(&repo.run(tool, args).await), Failure::NotPermitted, "{tool} {path}");
        }
    }
    std::os::unix::fs::symlink(&outside, repo.fixture.path("link")).unwrap();
    let outcome = repo.run("git_add", json!({ "paths": ["link/secret"] })).await;
    assert!(failure(&outcome).1.contains("beyond a symbolic link"), "{outcome:?}");
    // Taken word for word, there is no file of this name.
    let outcome = repo.run("git_add", json!({ "paths": [":(top,glob)**"] })).await;
    assert!(failure(&outcome).1.contains("did not match"), "{outcome:?}");
}

/// A106, A48: a `.git` that leads to a repository of the user's elsewhere shows nothing of it.
#[tokio::test]
async fn a_foreign_repository_is_not_shown() {
    let (Some(other), Some(repo)) = (Repo::new(), Repo::new()) else { return };
    other.write("a.txt", "CANARY");
    other.git(&["commit", "--quiet", "-am", "secret"]);
    let (git, foreign) = (repo.fixture.path(".git"), other.fixture.path(".git"));
    let forgeries: [fn(&std::path::Path, &std::path::Path); 3] = [
        |git, foreign| {
            fs::remove_dir_all(git).unwrap();
            fs::write(git, format!("gitdir: {}\n", foreign.display())).unwrap();
        },
        |git, foreign| {
            fs::remove_file(git).unwrap();
            std::os::unix::fs::symlink(foreign, git).unwrap();
        },
        |git, foreign| {
            fs::remove_file(git).unwrap();
            fs::create_dir(git).unwrap();
            fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            fs::write(git.join("commondir"), foreign.to_str().unwrap()).unwrap();
        },
    ];
    for (index, forge) in forgeries.into_iter().enumerate() {
        forge(&git, &foreign);
        let shown = plain(&repo.root(), &["show", "HEAD:a.txt"]);
        assert_eq!(String::from_utf8_lossy(&shown.stdout), "CANARY", "void: forgery {index} does not work");
        for (tool, args) in
            [("git_show", json!({ "path": "a.txt" })), ("git_log", json!({})), ("git_status", json!({}))]
        {
            assert_eq!(kind(&repo.run(tool, args).await), Failure::NotPermitted, "{tool}, forgery {index}");
        }
    }
}

/// A50: a work tree that a repository claims elsewhere is not read.
#[tokio::test]
async fn a_claimed_work_tree_is_not_read() {
    let Some(repo) = Repo::new() else { return };
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "CANARY").unwrap();
    repo.config("core.worktree", outside.path().to_str().unwrap());
    let shown = plain(&repo.root(), &["status", "--porcelain"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("secret"), "void: plain git does not go there");
    for (tool, args) in
        [("git_status", json!({})), ("git_add", json!({ "paths": ["."] })), ("git_diff", json!({}))]
    {
        let outcome = repo.run(tool, args).await;
        assert!(!outcome.is_done() && !outcome.for_model().contains("secret"), "{tool}: {outcome:?}");
    }
}

/// A48: a worktree's own `.git` file leads to the repository that made it, and that is fine.
#[tokio::test]
async fn a_worktree_is_the_workspaces_own() {
    let Some(mut repo) = Repo::new() else { return };
    let place = repo.fixture.outer.path().join("tree");
    repo.git(&["worktree", "add", "--quiet", "-b", "run", place.to_str().unwrap()]);
    repo.fixture.context.workspace =
        std::sync::Arc::new(longhaul_workspace::Workspace::open(&place).unwrap());
    assert_eq!(repo.status().await["branch"], json!("run"));
    repo.write("a.txt", "changed in the worktree\n");
    for (tool, args) in [
        ("git_add", json!({ "paths": ["a.txt"] })),
        ("git_commit", json!({ "message": "from a worktree" })),
        ("git_branch", json!({ "name": "next", "switch": true })),
    ] {
        let outcome = repo.run(tool, args).await;
        assert!(outcome.is_done(), "{tool}: {outcome:?}");
    }
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "run"]), "from a worktree");
}
