//! `git_push`, to remotes that are bare repositories on this machine.

use longhaul_core::json::Json;
use longhaul_core::tool::{Failure, Found};
use serde_json::json;

use super::repo::{Repo, plain};
use crate::fixture::{done, failure};

/// A repository with `origin.git` beside its workspace.
fn with_origin() -> Option<Repo> {
    let repo = Repo::new()?;
    let origin = repo.fixture.outer.path().join("origin.git");
    let made = plain(&repo.root(), &["init", "--quiet", "--bare", origin.to_str().unwrap()]);
    assert!(made.status.success());
    repo.git(&["remote", "add", "origin", origin.to_str().unwrap()]);
    Some(repo)
}

fn there(repo: &Repo, branch: &str) -> String {
    let origin = repo.fixture.outer.path().join("origin.git");
    let asked = plain(&origin, &["rev-parse", "--verify", "--quiet", &format!("refs/heads/{branch}")]);
    String::from_utf8(asked.stdout).unwrap().trim_end().to_owned()
}

/// D5.1, F24: a branch is pushed once, under its own name, and what became of it is known after a crash at any point.
#[tokio::test]
async fn a_branch_is_pushed() {
    let Some(repo) = with_origin() else { return };
    repo.git(&["switch", "--quiet", "-c", "agent/work"]);
    repo.git(&["tag", "-a", "-m", "x", "v1"]);
    let (tool, args) = (repo.fixture.tool("git_push"), Json::of(&json!({})));
    let traces = tool.prepare(&repo.fixture.context, &args).await.unwrap();
    let check = || tool.check(&repo.fixture.context, &args, &traces);
    assert_eq!(check().await, Found::NotDone);
    let head = repo.git(&["rev-parse", "HEAD"]);
    // What is committed after it was asked for is not sent with it.
    repo.git(&["commit", "--quiet", "--allow-empty", "-m", "later"]);
    let outcome = tool.run(&repo.fixture.context, &args, &traces).await;
    assert!(done(&outcome).starts_with(&format!("pushed {head} to ")), "{outcome:?}");
    assert_eq!(there(&repo, "agent/work"), head);
    assert_eq!(check().await, Found::Done);
    done(&tool.run(&repo.fixture.context, &args, &traces).await);
    let refs = plain(&repo.fixture.outer.path().join("origin.git"), &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(String::from_utf8(refs.stdout).unwrap(), "refs/heads/agent/work\n", "nothing else was sent");
    done(&repo.run("git_push", json!({ "remote": "origin" })).await);
    assert_eq!(check().await, Found::Unknown, "somebody has pushed since");
}

/// What others have pushed stays.
#[tokio::test]
async fn nothing_is_forced() {
    let Some(repo) = with_origin() else { return };
    done(&repo.run("git_push", json!({})).await);
    let first = there(&repo, "main");
    repo.git(&["commit", "--quiet", "--amend", "-m", "another first"]);
    // As if the user's own git were told to.
    repo.config("remote.origin.push", "+refs/heads/*:refs/heads/*");
    let outcome = repo.run("git_push", json!({})).await;
    assert!(failure(&outcome).1.contains("non-fast-forward"), "{outcome:?}");
    assert_eq!(there(&repo, "main"), first);
}

/// A clone that has only the newest commits can be pushed from.
#[tokio::test]
async fn a_shallow_repository_is_pushed() {
    let Some(repo) = with_origin() else { return };
    repo.git(&["commit", "--quiet", "--allow-empty", "-m", "second"]);
    done(&repo.run("git_push", json!({})).await);
    let origin = format!("file://{}", repo.fixture.outer.path().join("origin.git").display());
    repo.git(&["fetch", "--quiet", "--depth=1", "--update-shallow", &origin, "main"]);
    repo.git(&["commit", "--quiet", "--allow-empty", "-m", "third"]);
    done(&repo.run("git_push", json!({})).await);
    assert_eq!(there(&repo, "main"), repo.git(&["rev-parse", "HEAD"]));
}

#[tokio::test]
async fn what_cannot_be_pushed_is_told() {
    let Some(repo) = Repo::empty(&[]) else { return };
    let message = async |args| failure(&repo.run("git_push", args).await).1.to_owned();
    assert_eq!(message(json!({})).await, "there is no remote `origin` here");
    repo.config("remote.other.url", "/nowhere/at/all");
    assert_eq!(message(json!({})).await, "there is no remote `origin` here; there are: other");
    assert!(message(json!({ "remote": "other" })).await.contains("nothing at that path"));
    repo.config("remote.origin.url", "https://me:secret@example.com/x.git");
    let refused = message(json!({})).await;
    assert!(refused.contains("may be a token") && !refused.contains("secret"), "{refused}");
    for remote in ["", "-x", "a\nb"] {
        let outcome = repo.run("git_push", json!({ "remote": remote })).await;
        assert_eq!(failure(&outcome).0, Failure::InvalidArguments, "{remote:?}");
    }
    let within = repo.fixture.path("inner.git");
    repo.git(&["init", "--quiet", "--bare", within.to_str().unwrap()]);
    repo.config("remote.origin.url", within.to_str().unwrap());
    assert_eq!(message(json!({})).await, "the remote is within the workspace");
    let outer = repo.fixture.outer.path().join("outer.git");
    repo.git(&["init", "--quiet", "--bare", outer.to_str().unwrap()]);
    repo.config("remote.origin.url", outer.to_str().unwrap());
    assert_eq!(message(json!({})).await, "there is nothing to push: the branch has no commit yet");
    repo.git(&["commit", "--quiet", "--allow-empty", "-m", "x"]);
    repo.git(&["checkout", "--quiet", "--detach"]);
    assert!(message(json!({})).await.starts_with("no branch is checked out"));
}

/// A47, A51: what the repository names is not run, where plain git runs it.
#[tokio::test]
async fn a_repository_says_nothing_but_the_address() {
    type Set = fn(&Repo);
    let vectors: [(&str, Set); 3] = [
        ("pre-push hook", |repo| {
            repo.program(".git/hooks/pre-push");
        }),
        ("receive-pack", |repo| repo.config("remote.origin.receivepack", &repo.program(".git/evil"))),
        ("ext transport", |repo| {
            repo.config("protocol.ext.allow", "always");
            repo.config("remote.origin.url", &format!("ext::{}", repo.program(".git/evil")));
        }),
    ];
    for (name, set) in vectors {
        let Some(repo) = with_origin() else { return };
        set(&repo);
        plain(&repo.root(), &["push", "origin", "main"]);
        assert!(repo.mark().exists(), "{name}: plain git runs nothing, so this shows nothing");
        std::fs::remove_file(repo.mark()).unwrap();
        repo.git(&["commit", "--quiet", "--allow-empty", "-m", "next"]);
        repo.run("git_push", json!({})).await;
        assert!(!repo.mark().exists(), "{name}");
    }
}
