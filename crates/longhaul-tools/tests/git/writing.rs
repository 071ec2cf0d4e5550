//! Staging, committing, branching: once, and known afterwards.

use longhaul_core::json::Json;
use longhaul_core::tool::{Failure, Found};
use serde_json::json;

use crate::fixture::{done, failure};
use crate::repo::Repo;

/// D6.7: what is staged is committed, by the name the repository knows, and without its hooks.
#[tokio::test]
async fn add_and_commit() {
    let Some(repo) = Repo::new() else { return };
    repo.config("user.name", "A Person");
    repo.config("user.email", "person@example.com");
    repo.write("a.txt", "one\n");
    repo.write("new/b [x].txt", "b\n");
    let nothing = repo.run("git_commit", json!({ "message": "m" })).await;
    assert_eq!(failure(&nothing), (Failure::Tool, "nothing is staged; stage files with git_add first", ""));
    let added = repo.run("git_add", json!({ "paths": ["a.txt", "new/b [x].txt"] })).await;
    assert_eq!(done(&added), "staged; in all 2 files changed, 1 insertion(+), 1 deletion(-)");
    let committed = repo.run("git_commit", json!({ "message": "what\n\nand why\n" })).await;
    let id = repo.git(&["rev-parse", "HEAD"]);
    let expected = format!("committed {id} on main: 2 files changed, 1 insertion(+), 1 deletion(-)");
    assert_eq!(done(&committed), expected);
    let shown = repo.git(&["log", "-1", "--format=%an <%ae>|%cn|%B"]);
    assert_eq!(shown, "A Person <person@example.com>|A Person|what\n\nand why");
    assert_eq!(repo.status().await["clean"], json!(true));
    assert_eq!(repo.git(&["fsck", "--no-dangling", "--no-progress"]), "");
    assert!(repo.git(&["reflog", "-1"]).contains("commit: what"));
}

/// D6.7: the first commit of a repository, one without a branch, and a branch that was left out of the way.
#[tokio::test]
async fn commits_where_there_is_no_parent_or_no_branch() {
    let Some(repo) = Repo::new() else { return };
    repo.git(&["switch", "--quiet", "--orphan", "fresh"]);
    repo.write("f.txt", "f\n");
    done(&repo.run("git_add", json!({ "paths": ["."] })).await);
    done(&repo.run("git_commit", json!({ "message": "root" })).await);
    assert_eq!(repo.git(&["rev-list", "--count", "fresh"]), "1");
    repo.git(&["checkout", "--quiet", "--detach"]);
    repo.write("f.txt", "g\n");
    done(&repo.run("git_add", json!({ "paths": ["f.txt"] })).await);
    done(&repo.run("git_commit", json!({ "message": "loose" })).await);
    assert_eq!(repo.git(&["rev-list", "--count", "HEAD"]), "2");
    assert_eq!(repo.git(&["rev-list", "--count", "fresh"]), "1");
}

/// D6.7, F24: a commit that was cut short is found or not found, and is never made twice.
#[tokio::test]
async fn a_commit_is_checked_after_a_crash() {
    let Some(repo) = Repo::new() else { return };
    let args = json!({ "message": "second" });
    repo.write("a.txt", "changed\n");
    repo.git(&["add", "."]);
    let fixture = &repo.fixture;
    let trace = fixture.prepare("git_commit", &args).await.unwrap();
    assert_eq!(
        (trace.target.as_str(), trace.before.clone()),
        ("refs/heads/main", repo.git(&["rev-parse", "HEAD"]))
    );
    assert_eq!(fixture.check("git_commit", &args, &trace).await, Found::NotDone);
    let first = fixture.run_traced("git_commit", &args, &trace).await;
    assert_eq!(repo.git(&["rev-parse", "HEAD"]), trace.after);
    assert_eq!(fixture.check("git_commit", &args, &trace).await, Found::Done);
    // A process that knew nothing of the first try.
    let again = fixture.run_traced("git_commit", &args, &trace).await;
    assert_eq!(done(&again), done(&first));
    assert_eq!(repo.git(&["rev-list", "--count", "HEAD"]), "2");
    // Somebody has gone on from it; somebody has gone elsewhere.
    repo.git(&["commit", "--quiet", "--allow-empty", "-m", "third"]);
    assert_eq!(fixture.check("git_commit", &args, &trace).await, Found::Done);
    repo.git(&["reset", "--quiet", "--soft", "HEAD~2"]);
    repo.git(&["commit", "--quiet", "-m", "other"]);
    assert_eq!(fixture.check("git_commit", &args, &trace).await, Found::Unknown);
    let moved = fixture.run_traced("git_commit", &args, &trace).await;
    assert!(failure(&moved).1.contains("refs/heads/main"), "{moved:?}");
    assert_eq!(repo.git(&["log", "-1", "--format=%s"]), "other");
}

/// D6.7: a merge that is under way is not broken off, and a lock is waited for by trying again.
#[tokio::test]
async fn what_must_not_be_committed() {
    let Some(repo) = Repo::new() else { return };
    repo.write("a.txt", "changed\n");
    repo.git(&["add", "."]);
    repo.write(".git/MERGE_HEAD", &repo.git(&["rev-parse", "HEAD"]));
    let outcome = repo.run("git_commit", json!({ "message": "m" })).await;
    assert_eq!(failure(&outcome).1, "a merge is under way; finish or abort it with bash");
    std::fs::remove_file(repo.fixture.path(".git/MERGE_HEAD")).unwrap();
    repo.write(".git/index.lock", "");
    let locked = repo.run("git_add", json!({ "paths": ["."] })).await;
    assert_eq!(failure(&locked).0, Failure::Busy, "{locked:?}");
    let blank = repo.run("git_commit", json!({ "message": " \n" })).await;
    assert_eq!(failure(&blank).0, Failure::InvalidArguments);
}

/// D6.7: a file that is stored through a filter is not stored without it.
#[tokio::test]
async fn a_filtered_file_is_not_staged() {
    let Some(repo) = Repo::new() else { return };
    repo.config("filter.lfs.clean", "git-lfs clean -- %f");
    repo.write(".gitattributes", "*.bin filter=lfs\n");
    repo.write("big.bin", "x");
    let outcome = repo.run("git_add", json!({ "paths": ["big.bin"] })).await;
    let (kind, message, _) = failure(&outcome);
    assert_eq!(kind, Failure::Tool);
    assert!(message.contains("clean filter 'lfs' failed") && message.contains("with bash"), "{message}");
    assert_eq!(repo.git(&["ls-files", "big.bin"]), "");
    done(&repo.run("git_add", json!({ "paths": ["a.txt", ".gitattributes"] })).await);
}

/// D6.7, F24: a branch is made once, moves no other, and is known after a crash at any point.
#[tokio::test]
async fn a_branch_is_made_once() {
    let Some(repo) = Repo::new() else { return };
    let args = json!({ "name": "feature/x", "switch": true });
    let tool = repo.fixture.tool("git_branch");
    let json_args = Json::of(&args);
    let traces = tool.prepare(&repo.fixture.context, &json_args).await.unwrap();
    let check = || tool.check(&repo.fixture.context, &json_args, &traces);
    assert_eq!(check().await, Found::NotDone);
    // The branch is there, but not gone over to.
    repo.git(&["branch", "feature/x"]);
    assert_eq!(check().await, Found::NotDone);
    let outcome = tool.run(&repo.fixture.context, &json_args, &traces).await;
    assert_eq!(done(&outcome), "made refs/heads/feature/x and went over to it");
    assert_eq!(check().await, Found::Done);
    assert_eq!(repo.git(&["branch", "--show-current"]), "feature/x");
    let again = repo.run("git_branch", args).await;
    assert_eq!(failure(&again).1, "there is a branch `feature/x` already");
    repo.git(&["commit", "--quiet", "--allow-empty", "-m", "second"]);
    let elsewhere = repo.run("git_branch", json!({ "name": "y", "start": "main", "switch": true })).await;
    assert_eq!(failure(&elsewhere).0, Failure::InvalidArguments);
    done(&repo.run("git_branch", json!({ "name": "y", "start": "main" })).await);
    assert_eq!(repo.git(&["rev-parse", "y"]), repo.git(&["rev-parse", "main"]));
    repo.git(&["branch", "--force", "feature/x-gone", "HEAD"]);
    repo.git(&["switch", "--quiet", "main"]);
    repo.git(&["branch", "--quiet", "-D", "feature/x"]);
    assert_eq!(check().await, Found::NotDone);
    repo.git(&["branch", "feature/x", "feature/x-gone"]);
    assert_eq!(check().await, Found::Unknown);
}

/// D6.7: a repository with longer names for its objects is used like any other, from its first commit on; what its attributes
/// name is not run there either.
#[tokio::test]
async fn a_repository_of_sha256_is_used_like_any_other() {
    let Some(repo) = Repo::empty(&["--object-format=sha256"]) else { return };
    repo.config("user.name", "A Person");
    repo.config("user.email", "person@example.com");
    let program = repo.program("convert.sh");
    repo.config("diff.evil.textconv", &program);
    repo.write(".gitattributes", "*.txt diff=evil\n");
    repo.write("a.txt", "one\n");
    done(&repo.run("git_add", json!({ "paths": ["a.txt", ".gitattributes"] })).await);
    let committed = repo.run("git_commit", json!({ "message": "first" })).await;
    let id = repo.git(&["rev-parse", "HEAD"]);
    assert_eq!(id.len(), 64);
    assert!(done(&committed).starts_with(&format!("committed {id} on main: 2 files changed")));
    assert_eq!(repo.git(&["hash-object", "-t", "tree", "/dev/null"]), EMPTY_TREE);
    repo.write("a.txt", "two\n");
    assert!(done(&repo.run("git_diff", json!({})).await).contains("+two"));
    assert!(!repo.mark().exists());
}

/// What git itself says of a tree without files.
const EMPTY_TREE: &str = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321";
