//! What is committed in a worktree comes home, and nothing else does.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use longhaul_workspace::checkout::{Checkout, Filters};
use longhaul_workspace::commit::commit;
use longhaul_workspace::homing::{Came, Tended, brought, brought_so_far, is_home, publish, publish_if_moved};
use longhaul_workspace::lending::refresh;
use longhaul_workspace::place::{ensure, is_unsaved, remove};

use super::rig::{BRANCH, Fixture, git};

type Bring = fn(&Path, &Path) -> Tended;

/// Commits come home with the branch, once; so does a branch that was rewritten, and what is packed on either side.
#[test]
fn what_is_committed_comes_home() {
    let fixture = Fixture::new();
    let (repo, tree, scratch) = (fixture.repo(), fixture.tree(), fixture.at("scratch"));
    let one = fixture.commit("one");
    assert_ne!(fixture.home(BRANCH), Some(one.clone()), "void: it is there by itself");
    for _ in 0..2 {
        publish_if_moved(&tree, &scratch).came.unwrap();
        assert_eq!(fixture.home(BRANCH), Some(one.clone()));
    }
    git(&tree, &["commit", "--quiet", "--amend", "-m", "other"]);
    let other = git(&tree, &["rev-parse", "HEAD"]);
    fixture.publish();
    assert_eq!(fixture.home(BRANCH), Some(other));
    for top in [&repo, &tree] {
        git(top, &["gc", "--quiet", "--prune=now"]);
        let next = fixture.commit(top.file_name().unwrap().to_str().unwrap());
        publish_if_moved(&tree, &scratch).came.unwrap();
        assert_eq!(fixture.home(BRANCH), Some(next));
    }
    // So many that they come as one pack.
    (0..200).for_each(|number| fs::write(tree.join(format!("many-{number}")), number.to_string()).unwrap());
    let many = fixture.commit("many");
    fixture.publish();
    assert_eq!(fixture.home(BRANCH), Some(many));
    git(&repo, &["fsck", "--full", "--strict"]);
    assert!(fs::read_dir(scratch).unwrap().flatten().all(|left| !left.path().ends_with(".pack")));
    assert!(!is_unsaved(&tree));
    remove(&fixture.place()).unwrap();
    git(&repo, &["fsck", "--full", "--strict"]);
    assert_eq!(git(&repo, &["worktree", "list"]).lines().count(), 1);
}

/// Git at home keeps the branch for the worktree, as for any other.
#[test]
fn the_branch_is_in_use_at_home() {
    let fixture = Fixture::new();
    for words in [&["checkout", BRANCH][..], &["branch", "-D", BRANCH], &["branch", "-f", BRANCH, "main"]] {
        let output = Command::new("git").args(words).current_dir(fixture.repo()).output().unwrap();
        assert!(!output.status.success(), "{words:?}");
    }
    git(&fixture.repo(), &["worktree", "prune", "--expire=now"]);
    assert!(git(&fixture.repo(), &["worktree", "list"]).contains(BRANCH));
}

/// A48: what does not come whole, or is not what it is called, does not come at all.
#[test]
fn what_lacks_something_does_not_come() {
    let fixture = Fixture::new();
    let tree = fixture.tree();
    let before = fixture.home(BRANCH);
    let object = |id: &str| tree.join(".git/objects").join(&id[..2]).join(&id[2..]);
    fixture.commit("lost");
    let [lost, other] = ["lost", "other"].map(|name| {
        fs::write(tree.join("probe"), name).unwrap();
        git(&tree, &["hash-object", "-w", "probe"])
    });
    let whole = fs::read(object(&lost)).unwrap();
    fs::remove_file(object(&lost)).unwrap();
    assert!(publish(&tree, &fixture.at("scratch")).came.is_err());
    assert_eq!(fixture.home(BRANCH), before);
    // Another object under its name.
    fs::copy(object(&other), object(&lost)).unwrap();
    assert!(publish(&tree, &fixture.at("scratch")).came.is_err());
    assert_eq!((fixture.home(BRANCH), fixture.home(&format!("{lost}^{{blob}}"))), (before, None));
    fs::remove_file(object(&lost)).unwrap();
    fs::write(object(&lost), whole).unwrap();
    fixture.publish();
    assert_eq!(fixture.home(&format!("{BRANCH}:lost")), Some(lost));
}

/// Branches of an agent's own making come too, if nobody could take them for something else, and are not moved once the user has.
#[test]
fn new_branches_come_home_under_names_that_are_free() {
    let fixture = Fixture::new();
    let (repo, tree) = (fixture.repo(), fixture.tree());
    git(&repo, &["tag", "v1"]);
    git(&repo, &["branch", "mine"]);
    git(&repo, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
    git(&repo, &["update-ref", "refs/remotes/origin/feature", "HEAD"]);
    let names = ["main", "mine", "v1", "origin/main", "feature", "topic", "taken/below"];
    git(&repo, &["branch", "taken"]);
    let before = git(&repo, &["for-each-ref"]);
    let commit = fixture.commit("new");
    for name in names {
        git(&tree, &["update-ref", &format!("refs/heads/{name}"), &commit]);
    }
    git(&tree, &["update-ref", "refs/heads/FETCH_HEAD", &commit]);
    git(&repo, &["remote", "add", "origin", "https://example.com/a"]);
    git(&repo, &["symbolic-ref", "HEAD", "refs/heads/unborn"]);
    for name in ["origin/next", "unborn", "tags/v2"] {
        git(&tree, &["update-ref", &format!("refs/heads/{name}"), &commit]);
    }
    git(&tree, &["tag", "tagged"]);
    fixture.publish();
    git(&repo, &["symbolic-ref", "HEAD", "refs/heads/main"]);
    let after = git(&repo, &["for-each-ref", "--format=%(refname)"]);
    let kept =
        before.lines().all(|line| line.contains(BRANCH) || git(&repo, &["for-each-ref"]).contains(line));
    assert!(kept, "{after}");
    assert_eq!(after.lines().count(), before.lines().count() + 1, "{after}");
    assert_eq!(fixture.home("topic"), Some(commit));
    // It follows what is done in the worktree, as long as nobody else moves it.
    git(&tree, &["checkout", "--quiet", "topic"]);
    let next = fixture.commit("next");
    publish_if_moved(&tree, &fixture.at("scratch")).came.unwrap();
    assert_eq!(fixture.home("topic"), Some(next));
    git(&repo, &["branch", "-f", "topic", "main"]);
    fixture.commit("more");
    fixture.publish();
    assert_eq!(fixture.home("topic"), fixture.home("main"));
    assert!(is_unsaved(&tree), "its last commit is on no branch at home");
    // One that the user has made by the same name at the same commit is his.
    git(&repo, &["branch", "hotfix", "main"]);
    git(&tree, &["branch", "hotfix", "main"]);
    fixture.publish();
    git(&tree, &["branch", "-f", "hotfix", "topic"]);
    fixture.publish();
    assert_eq!(fixture.home("hotfix"), fixture.home("main"));
    // One that he has checked out to look at it stays as he looks at it.
    git(&tree, &["checkout", "--quiet", "-b", "shown"]);
    fixture.publish();
    git(&repo, &["checkout", "--quiet", "shown"]);
    let shown = fixture.home("shown");
    assert!(shown.is_some());
    fixture.commit("unseen");
    fixture.publish();
    assert_eq!((fixture.home("shown"), git(&repo, &["status", "--porcelain"])), (shown, String::new()));
    git(&repo, &["checkout", "--quiet", "main"]);
    git(&repo, &["branch", "-D", "topic"]);
    fixture.publish();
    assert_eq!(fixture.home("topic"), None, "who removes a branch does not want it back");
}

/// A48: nor is there a name by which somebody could be shown another commit, or git would ask him what he means.
#[test]
fn names_that_would_be_taken_for_something_else_stay() {
    let fixture = Fixture::of(&[], |repo| {
        for name in ["src", "lib"] {
            fs::create_dir(repo.join(name)).unwrap();
            fs::write(repo.join(name).join("README"), "x").unwrap();
        }
        git(repo, &["add", "."]);
        git(repo, &["commit", "--quiet", "-m", "files"]);
        git(repo, &["pack-refs", "--all"]);
        fs::create_dir(repo.join("untracked")).unwrap();
        git(repo, &["update-ref", "refs/remotes/origin/fix/login", "HEAD"]);
        git(repo, &["update-ref", "refs/remotes/team/x/wip/parser", "HEAD"]);
        git(repo, &["update-ref", "refs/remotes/gone/branch", "HEAD"]);
        git(repo, &["config", "remote.team/x.url", "https://example.com/a"]);
    });
    let (repo, tree) = (fixture.repo(), fixture.tree());
    let first = fixture.commit("shown");
    let known = &git(&repo, &["rev-parse", "main"])[..5];
    let before = git(&repo, &["for-each-ref", "--format=%(refname)"]);
    let id = &first[..7];
    let described = format!("v1-3-g{id}");
    let names = [
        id,
        known,
        &described,
        "src",
        "lib/README",
        "untracked",
        "stash",
        "Main",
        "head",
        "orig_head",
        "Agent/Run_1",
        "longhaul/x",
        "fix/login",
        "gone/branch",
        "wip/parser",
        "-x",
    ];
    for name in names {
        git(&tree, &["update-ref", &format!("refs/heads/{name}"), "HEAD~"]);
    }
    fixture.publish();
    assert_eq!(git(&repo, &["for-each-ref", "--format=%(refname)"]), before);
    for name in
        ["face/it", "cafe", "2024", "list_head", "replace/old", "login", "parser", "src-2", "v2-g", "mains"]
    {
        git(&tree, &["branch", name]);
        fixture.publish();
        assert_eq!(fixture.home(&format!("refs/heads/{name}")), Some(first.clone()), "{name}");
    }
}

/// Somebody has to look at branches that come home: of those that no longer end, so many come. What may not come is not in the way.
#[test]
fn so_many_branches_come_home_and_no_more() {
    let fixture = Fixture::new();
    let (repo, tree) = (fixture.repo(), fixture.tree());
    let commit = fixture.commit("one");
    let make = |names: &mut dyn Iterator<Item = String>| {
        let orders: Vec<String> = names.map(|name| format!("create refs/heads/{name} {commit}")).collect();
        fs::write(fixture.at("orders"), orders.join("\n") + "\n").unwrap();
        let mut given = Command::new("git");
        given.args(["update-ref", "--stdin"]).stdin(fs::File::open(fixture.at("orders")).unwrap());
        assert!(given.current_dir(&tree).status().unwrap().success());
    };
    make(&mut (0..150).map(|number| format!("a{number:07x}")));
    make(&mut ["z-one".to_owned()].into_iter());
    fixture.publish();
    assert_eq!(fixture.home("z-one"), Some(commit.clone()));
    make(&mut (0..300).map(|number| format!("b-{number}")));
    (0..2).for_each(|_| fixture.publish());
    let count = git(&repo, &["for-each-ref", "--format=x", "refs/heads/"]).lines().count();
    assert_eq!(count, 1 + 100, "main, the run's own and 99 of the agent's");
}

/// What the user calls the run's branch is his affair; what is committed comes to it.
#[test]
fn a_branch_that_was_renamed_is_followed() {
    let fixture = Fixture::new();
    let (repo, tree) = (fixture.repo(), fixture.tree());
    fixture.commit("one");
    fixture.publish();
    git(&repo, &["branch", "-m", BRANCH, "better"]);
    for name in ["two", "three"] {
        fixture.commit(&format!("draft of {name}"));
        git(&tree, &["commit", "--quiet", "--amend", "-m", name]);
        let next = git(&tree, &["rev-parse", "HEAD"]);
        refresh(&tree).unwrap();
        publish_if_moved(&tree, &fixture.at("scratch")).came.unwrap();
        assert_eq!((fixture.home("better"), fixture.home(BRANCH)), (Some(next), None));
    }
    git(&repo, &["branch", "-m", "better", "best"]);
    git(&tree, &["commit", "--quiet", "--amend", "-m", "four"]);
    fixture.publish();
    assert_eq!(fixture.home("best"), Some(git(&tree, &["rev-parse", "HEAD"])));
    assert!(!is_unsaved(&tree));
}

/// What has been brought is not asked about again once the user's git has packed it.
#[test]
fn what_is_packed_at_home_is_there() {
    for commits in [&[][..], &["one"]] {
        let fixture = Fixture::new();
        let (repo, tree) = (fixture.repo(), fixture.tree());
        commits.iter().for_each(|name| drop(fixture.commit(name)));
        fixture.publish();
        git(&repo, &["pack-refs", "--all"]);
        // It would come if anybody looked.
        git(&tree, &["branch", "unseen"]);
        publish_if_moved(&tree, &fixture.at("scratch")).came.unwrap();
        assert_eq!(fixture.home("unseen"), None);
        fixture.publish();
        assert!(fixture.home("unseen").is_some());
    }
}

/// Large files come home with the commits that have only their digests, as what they are called.
#[test]
fn large_files_come_home() {
    let fixture =
        Fixture::of(&[], |repo| drop(git(repo, &["config", "filter.lfs.clean", "git-lfs clean -- %f"])));
    let (repo, tree) = (fixture.repo(), fixture.tree());
    // By its digest, and by none of its own.
    let large = "9bfce334a37bd1bc1d36b0370195b31fe9a9389dd43d0873891a3544ef1140a1";
    let other = "0000000000000000000000000000000000000000000000000000000000000000";
    let put = |digest: &str| {
        let directory = tree.join(".git/lfs/objects").join(&digest[..2]).join(&digest[2..4]);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(digest), "large\n").unwrap();
    };
    let at_home = |digest: &str| {
        fs::read_to_string(repo.join(".git/lfs/objects").join(&digest[..2]).join(&digest[2..4]).join(digest))
            .ok()
    };
    put(large);
    fixture.commit("pointer");
    fixture.publish();
    assert_eq!(at_home(large).as_deref(), Some("large\n"));
    assert!(!is_unsaved(&tree));
    put(other);
    let odd = "1".repeat(64);
    let above = tree.join(".git/lfs/objects/11/11");
    fs::create_dir_all(&above).unwrap();
    std::os::unix::fs::symlink("/dev/zero", above.join(&odd)).unwrap();
    fixture.publish();
    assert_eq!((at_home(other), at_home(&odd)), (None, None), "neither is what it is called");
    assert!(is_unsaved(&tree));
    assert_eq!(fs::read_dir(repo.join(".git/lfs/tmp")).unwrap().count(), 0);
    // Those of another repository, by a link.
    let theirs = fixture.at("theirs");
    fs::rename(tree.join(".git/lfs/objects"), &theirs).unwrap();
    fs::remove_dir_all(repo.join(".git/lfs/objects")).unwrap();
    std::os::unix::fs::symlink(&theirs, tree.join(".git/lfs/objects")).unwrap();
    fixture.publish();
    assert_eq!(at_home(large), None);
}

/// What has a name of any kind there, and none at home, is nowhere else.
#[test]
fn whatever_has_a_name_is_kept() {
    let fixture = Fixture::new();
    let tree = fixture.tree();
    fixture.commit("one");
    fixture.publish();
    assert!(!is_unsaved(&tree));
    let commit = git(&tree, &["commit-tree", "-m", "wip", "HEAD^{tree}"]);
    git(&tree, &["update-ref", "refs/wip/x", &commit]);
    fixture.publish();
    assert!(is_unsaved(&tree));
}

/// Of a partial clone, what was never fetched is no reason for a commit to stay away.
#[test]
fn commits_of_a_partial_clone_come_home() {
    let whole = Fixture::of(&[], |repo| {
        git(repo, &["config", "uploadpack.allowFilter", "true"]);
        git(repo, &["config", "uploadpack.allowAnySHA1InWant", "true"]);
        for text in ["1", "2"] {
            ["in", "out"].iter().for_each(|name| fs::create_dir_all(repo.join(name)).unwrap());
            ["in/f", "out/f"].iter().for_each(|name| fs::write(repo.join(name), text).unwrap());
            git(repo, &["add", "."]);
            git(repo, &["commit", "--quiet", "-m", text]);
        }
    });
    let fixture = Fixture(tempfile::tempdir().unwrap());
    let from = format!("file://{}", whole.repo().display());
    git(&fixture.at(""), &["clone", "--quiet", "--filter=blob:none", "--sparse", &from, "repo"]);
    git(&fixture.repo(), &["sparse-checkout", "set", "in"]);
    ensure(&fixture.place()).unwrap();
    let tree = fixture.tree();
    // The file outside is what it was once, which nobody has fetched.
    let old = git(&tree, &["rev-parse", "HEAD~^{tree}"]);
    let commit = git(&tree, &["commit-tree", "-p", "HEAD", "-m", "revert", &old]);
    git(&tree, &["update-ref", "HEAD", &commit]);
    fixture.publish();
    assert_eq!(fixture.home(BRANCH), Some(commit));
}

/// Who wants every object looked at that is fetched has these looked at.
#[test]
fn objects_are_looked_at_if_the_user_says_so() {
    for (says, is_brought) in [("false", true), ("true", false)] {
        let fixture = Fixture::of(&[], |repo| drop(git(repo, &["config", "transfer.fsckObjects", says])));
        let tree = fixture.tree();
        let inner = git(&tree, &["rev-parse", "HEAD^{tree}"]);
        fs::write(fixture.at("listed"), format!("040000 tree {inner}\t.git\n")).unwrap();
        let mut made = Command::new("git");
        made.arg("mktree").current_dir(&tree).stdin(fs::File::open(fixture.at("listed")).unwrap());
        let evil = String::from_utf8(made.output().unwrap().stdout).unwrap();
        let commit = git(&tree, &["commit-tree", "-p", "HEAD", "-m", "evil", evil.trim()]);
        git(&tree, &["update-ref", "HEAD", &commit]);
        assert_eq!(publish(&tree, &fixture.at("scratch")).came.is_ok(), is_brought);
        assert_eq!(fixture.home(BRANCH) == Some(commit), is_brought);
    }
}

/// What the user puts onto the run's branch himself is not lost; he is told, and both stay.
#[test]
fn a_branch_that_somebody_else_has_moved_stays() {
    let fixture = Fixture::new();
    let (repo, scratch) = (fixture.repo(), fixture.at("scratch"));
    fixture.commit("one");
    fixture.publish();
    let tree = git(&repo, &["rev-parse", "main^{tree}"]);
    let theirs = git(&repo, &["commit-tree", "-p", BRANCH, "-m", "theirs", &tree]);
    git(&repo, &["update-ref", &format!("refs/heads/{BRANCH}"), &theirs]);
    fixture.commit("two");
    let said = publish(&fixture.tree(), &scratch).came.unwrap_err().to_string();
    assert!(said.contains("was moved or checked out in"), "{said}");
    assert_eq!(fixture.home(BRANCH), Some(theirs));
    git(&fixture.tree(), &["branch", "beside"]);
    publish(&fixture.tree(), &scratch).came.unwrap_err();
    assert!(fixture.home("beside").is_some(), "other branches come all the same");
    // Whoever takes it in gets on.
    git(&fixture.tree(), &["merge", "--quiet", "--no-edit", &fixture.home(BRANCH).unwrap()]);
    fixture.publish();
    assert_eq!(fixture.home(BRANCH), Some(git(&fixture.tree(), &["rev-parse", "HEAD"])));
}

/// A48: without a record of what was lent, as after a disk was full, nothing counts as new. Names that are no text are on record too.
#[test]
fn a_record_that_is_lost_opens_nothing() {
    let fixture = Fixture::of(&[], |repo| {
        let name = OsStr::from_bytes(b"refs/tags/\xe9t\xe9");
        let mut done = Command::new("git");
        done.arg("update-ref").arg(name).arg("HEAD").current_dir(repo);
        assert!(done.status().unwrap().success());
    });
    let (repo, tree) = (fixture.repo(), fixture.tree());
    git(&repo, &["branch", "mine"]);
    let main = fixture.home("main");
    let moved = fixture.commit("new");
    for _ in 0..2 {
        git(&tree, &["branch", "-f", "main", "HEAD"]);
        git(&tree, &["branch", "-f", "mine", "main~"]);
        fixture.publish();
        git(&tree, &["branch", "-f", "mine", "HEAD"]);
        fixture.publish();
        assert_eq!((fixture.home("main"), fixture.home("mine")), (main.clone(), main.clone()));
        assert_eq!(fixture.home(BRANCH), Some(moved.clone()));
        fs::remove_file(repo.join(".git/worktrees/run_1/longhaul-lent")).ok();
    }
}

/// A03, A48: links that an agent puts in the place of git's own files lead our git nowhere: not to other files, not to the user's
/// repository, and not to another one's objects. What would be waited for is refused.
#[test]
fn links_in_the_directory_lead_nowhere() {
    if !longhaul_workspace::git::is_held() {
        println!("SKIP links_in_the_directory_lead_nowhere: no Landlock that holds files here");
        return;
    }
    let outside = |fixture: &Fixture| {
        let private = fixture.at("private");
        fs::create_dir_all(&private).unwrap();
        git(&private, &["init", "--quiet", "--initial-branch=main"]);
        fs::write(private.join("key"), "SECRET").unwrap();
        git(&private, &["add", "."]);
        git(&private, &["commit", "--quiet", "-m", "private"]);
        private
    };
    let commands = [
        "ln -s $REPO/.git/refs/heads .git/refs/heads/u; echo 'ref: refs/heads/u/main' > .git/HEAD",
        "rm -rf .git/logs; ln -s $OUT/logs .git/logs",
        "mkdir -p .git/logs; ln -sf $OUT/profile .git/logs/HEAD",
        "echo $REPO/.git > .git/commondir; echo 'ref: refs/heads/main' > .git/HEAD",
        "ln -s $OUT/.git/refs/heads/main .git/refs/heads/leak; for o in $OUT/.git/objects/??; do ln -s $o .git/objects/; done",
        "rm -rf .git/objects/pack; ln -s $OUT/.git/objects/pack .git/objects/pack; ln -s $OUT/.git/refs/heads/main .git/refs/heads/leak",
        "rm -f .git/packed-refs; ln -s $OUT/profile .git/packed-refs",
        "mkfifo .git/shallow",
        "rm .git/HEAD; mkfifo .git/HEAD",
    ];
    for command in commands {
        let fixture = Fixture::new();
        let (repo, tree, private) = (fixture.repo(), fixture.tree(), outside(&fixture));
        if command.contains("objects/pack") {
            git(&private, &["gc", "--quiet"]);
        }
        fs::create_dir(private.join("logs")).unwrap();
        fs::write(private.join("profile"), "token tok_1\n").unwrap();
        let main = fixture.home("main");
        let key = git(&private, &["rev-parse", "HEAD:key"]);
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(&tree).env("REPO", &repo).env("OUT", &private);
        assert!(shell.status().unwrap().success(), "{command}");
        fs::write(tree.join("new"), "x").unwrap();
        let scratch = fixture.at("scratch");
        let mut said = Vec::new();
        match Checkout::open(&tree, &scratch, Filters::Failing) {
            Ok(checkout) => {
                said.extend(commit(&checkout, "run_1", "x").0.err().map(|error| error.to_string()))
            }
            Err(error) => said.push(error.to_string()),
        }
        said.extend(publish(&tree, &scratch).came.err().map(|error| error.to_string()));
        refresh(&tree).ok();
        assert!(!said.iter().any(|said| said.contains("tok_1")), "{command}: {said:?}");
        assert_eq!(fixture.home("main"), main, "{command}");
        git(&repo, &["fsck", "--full"]);
        assert_eq!(fixture.home(&format!("{key}^{{blob}}")), None, "{command}");
        assert_eq!(fs::read_to_string(private.join("profile")).unwrap(), "token tok_1\n", "{command}");
        assert_eq!(fs::read_dir(private.join("logs")).unwrap().count(), 0, "{command}");
    }
}

/// What the user does meanwhile is seen by whoever works there next, but for what was moved there or is checked out.
#[test]
fn what_is_new_at_home_is_shown() {
    let fixture = Fixture::of(&[], |repo| {
        ["kept", "moved", "stale"].iter().for_each(|name| drop(git(repo, &["branch", name])));
    });
    let (repo, tree) = (fixture.repo(), fixture.tree());
    let own = fixture.commit("own");
    git(&tree, &["branch", "-f", "moved"]);
    fs::write(repo.join("file"), "two\n").unwrap();
    git(&repo, &["commit", "--quiet", "-am", "second"]);
    for name in ["kept", "moved"] {
        git(&repo, &["branch", "-f", name, "main"]);
    }
    // A name is needed for one below it.
    git(&repo, &["branch", "-m", "stale", "stale/new"]);
    git(&repo, &["tag", "v1"]);
    fs::write(repo.join("file"), "three\n").unwrap();
    git(&repo, &["stash", "--quiet"]);
    for _ in 0..2 {
        refresh(&tree).unwrap();
        let here = |name: &str| git(&tree, &["rev-parse", name]);
        for name in ["main", "kept", "v1", "stale/new"] {
            assert_eq!(Some(here(name)), fixture.home(name), "{name}");
        }
        assert_eq!((here("moved"), here("HEAD"), here(BRANCH)), (own.clone(), own.clone(), own.clone()));
        assert!(!tree.join(".git/refs/stash").exists());
    }
    // What was only lent does not come back.
    git(&repo, &["branch", "-D", "kept"]);
    fixture.publish();
    assert_eq!((fixture.home("stale"), fixture.home("kept")), (None, None));
    assert_eq!(fixture.home("moved"), fixture.home("main"));
}

/// F48: killed before a branch is moved, or right after, the next one knows which, also of one that was rewritten.
#[test]
fn what_was_just_being_brought_is_known() {
    let fixture = Fixture::new();
    let (repo, tree) = (fixture.repo(), fixture.tree());
    let entry = repo.join(".git/worktrees/run_1");
    let one = fixture.commit("one");
    git(&tree, &["branch", "topic"]);
    fixture.publish();
    for is_moved in [false, true] {
        git(&tree, &["commit", "--quiet", "--amend", "-m", &format!("other {is_moved}")]);
        git(&tree, &["branch", "-f", "topic"]);
        let other = git(&tree, &["rev-parse", "HEAD"]);
        for branch in [BRANCH, "topic"] {
            fs::write(entry.join("longhaul-coming"), format!("{other} refs/heads/{branch}\n")).unwrap();
            if is_moved {
                brought(&tree, &fixture.at("scratch")).unwrap();
                git(&repo, &["update-ref", &format!("refs/heads/{branch}"), &other]);
            }
            fixture.publish();
            assert_eq!(fixture.home(branch), Some(other.clone()), "{branch}");
            assert!(!entry.join("longhaul-coming").exists());
        }
        assert_ne!(one, other);
    }
}

/// F37: whoever has put something on top of what the run made has it; nothing is lacking and nothing is moved.
#[test]
fn what_the_user_went_on_from_is_home() {
    let fixture = Fixture::new();
    let (repo, tree, scratch) = (fixture.repo(), fixture.tree(), fixture.at("scratch"));
    fixture.commit("one");
    fixture.publish();
    let files = git(&repo, &["rev-parse", &format!("{BRANCH}^{{tree}}")]);
    let theirs = git(&repo, &["commit-tree", "-p", BRANCH, "-m", "theirs", &files]);
    git(&repo, &["update-ref", &format!("refs/heads/{BRANCH}"), &theirs]);
    for (publish, came) in [(publish as Bring, Came::All), (publish_if_moved, Came::NotLooked)] {
        let done = publish(&tree, &scratch);
        assert_eq!((done.came.unwrap(), done.brought.len()), (came, 0));
        assert_eq!(fixture.home(BRANCH), Some(theirs.clone()));
    }
    // Rewritten since, it is not what they went on from.
    git(&tree, &["commit", "--quiet", "--amend", "--allow-empty", "-m", "other"]);
    publish(&tree, &scratch).came.unwrap_err();
    assert_eq!(fixture.home(BRANCH), Some(theirs));
}

/// F37: commits that are on no branch that is brought are told of, for as long as somebody stands on them.
#[test]
fn what_is_on_no_branch_is_told_of() {
    let fixture = Fixture::new();
    let (tree, scratch) = (fixture.tree(), fixture.at("scratch"));
    fixture.commit("one");
    let came = || publish_if_moved(&tree, &scratch).came.unwrap();
    assert_eq!(came(), Came::All);
    git(&tree, &["checkout", "--quiet", "--detach"]);
    assert_eq!(came(), Came::All, "that commit has come");
    git(&tree, &["commit", "--quiet", "--allow-empty", "-m", "two"]);
    let without = Came::Without(vec!["HEAD".to_owned()]);
    assert_eq!((came(), is_home(&tree)), (without.clone(), false));
    git(&tree, &["branch", "-D", BRANCH]);
    assert_eq!(came(), without, "nor does it come with a branch that is gone");
    // As a merge that stops at a conflict leaves it: git at home has it, and lets go of it after two weeks.
    let two = brought(&tree, &scratch).unwrap().unwrap();
    assert_eq!(fixture.home(&format!("{two}^{{commit}}")), Some(two.clone()));
    assert_eq!((came(), is_home(&tree)), (without, false), "nothing leads to it there");
    git(&tree, &["symbolic-ref", "HEAD", "refs/mine/x"]);
    git(&tree, &["commit", "--quiet", "--allow-empty", "-m", "no branch"]);
    assert_eq!(
        (came(), is_home(&tree)),
        (Came::Without(vec!["HEAD".to_owned()]), false),
        "it has another kind of name"
    );
    git(&tree, &["checkout", "--quiet", "-b", "named", &two]);
    assert_eq!((came(), is_home(&tree)), (Came::All, true));
    assert_eq!(fixture.home("named"), Some(two));
}

/// F37: so is what stays on a branch whose name is taken, or that was the user's before, unless he has it by another name; what he
/// let go of since it was lent or brought is nothing that is lacking.
#[test]
fn what_stays_on_its_branch_is_told_of() {
    let fixture = Fixture::of(&[], |repo| {
        git(repo, &["tag", "v1"]);
        git(repo, &["branch", "mine"]);
        git(repo, &["checkout", "--quiet", "-b", "dropped"]);
        git(repo, &["commit", "--quiet", "--allow-empty", "-m", "dropped"]);
        git(repo, &["checkout", "--quiet", "main"]);
    });
    let (repo, tree, scratch) = (fixture.repo(), fixture.tree(), fixture.at("scratch"));
    let came = || publish(&tree, &scratch).came.unwrap();
    git(&tree, &["branch", "topic"]);
    fixture.commit("one");
    assert_eq!(came(), Came::All);
    git(&tree, &["checkout", "--quiet", "topic"]);
    assert_eq!(
        publish_if_moved(&tree, &scratch).came.unwrap(),
        Came::NotLooked,
        "it stands on what was brought"
    );
    for name in ["dropped", "topic"] {
        git(&repo, &["branch", "-D", name]);
    }
    assert_eq!(came(), Came::All);
    for name in ["mine", "v1"] {
        git(&tree, &["checkout", "--quiet", "-B", name]);
        git(&tree, &["commit", "--quiet", "--allow-empty", "-m", name]);
    }
    git(&tree, &["checkout", "--quiet", BRANCH]);
    let without = |names: &[&str]| Came::Without(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!((came(), is_home(&tree)), (without(&["mine", "v1"]), false));
    // Among very many, and whatever they are called.
    let (main, long) = (git(&repo, &["rev-parse", "main"]), "x".repeat(100_000));
    let packed = tree.join(".git/packed-refs");
    let names = fs::read_to_string(&packed).unwrap();
    let many: String = (0..300).map(|number| format!("{main} refs/heads/tags/many{number:03}\n")).collect();
    let mine = git(&tree, &["rev-parse", "mine"]);
    fs::write(
        &packed,
        format!("{}\n{many}{mine} refs/heads/tags/many{long}\n", names.lines().next().unwrap()),
    )
    .unwrap();
    let long = &format!("tags/many{long}")[..200];
    assert_eq!(came(), without(&["mine", long, "v1"]));
    fs::write(&packed, names).unwrap();
    git(&repo, &["fetch", "--quiet", tree.to_str().unwrap(), "refs/heads/mine:theirs"]);
    assert_eq!(came(), without(&["v1"]));
    git(&repo, &["fetch", "--quiet", tree.to_str().unwrap(), "refs/heads/v1:theirs"]);
    assert_eq!((came(), is_home(&tree)), (Came::All, true));
}

/// F47, F37: nobody says that all has come from what is no worktree any more.
#[test]
fn a_worktree_that_is_lost_is_not_home() {
    for is_moved in [false, true] {
        let fixture = Fixture::new();
        let (repo, tree, scratch) = (fixture.repo(), fixture.tree(), fixture.at("scratch"));
        fixture.commit("one");
        if is_moved {
            fs::rename(&repo, fixture.at("elsewhere")).unwrap();
        } else {
            fs::remove_dir_all(tree.join(".git")).unwrap();
        }
        for publish in [publish as Bring, publish_if_moved] {
            let error = publish(&tree, &scratch).came.unwrap_err();
            assert!(error.to_string().contains("is no worktree any more"), "{error}");
        }
        assert!(!is_home(&tree));
    }
    let fixture = Fixture::new();
    fixture.commit("one");
    assert!(!is_home(&fixture.tree()));
    fixture.publish();
    remove(&fixture.place()).unwrap();
    assert!(is_home(&fixture.tree()), "what we remove has nothing left");
    fs::rename(fixture.at("work"), fixture.at("aside")).unwrap();
    assert!(!is_home(&fixture.tree()), "what cannot be seen may have");
}

/// F37: what came before, and is there as it came, can be asked for by whoever may have to tell it.
#[test]
fn what_has_come_so_far_is_known() {
    let fixture = Fixture::new();
    let (repo, tree) = (fixture.repo(), fixture.tree());
    assert!(brought_so_far(&tree).is_empty());
    git(&tree, &["branch", "topic"]);
    let one = fixture.commit("one");
    fixture.publish();
    let of = |names: &[&str], commit: &str| -> Vec<(String, String)> {
        names.iter().map(|name| (format!("refs/heads/{name}"), commit.to_owned())).collect()
    };
    let topic = git(&tree, &["rev-parse", "topic"]);
    let all: Vec<_> = of(&[BRANCH], &one).into_iter().chain(of(&["topic"], &topic)).collect();
    assert_eq!(brought_so_far(&tree).into_iter().collect::<Vec<_>>(), all);
    git(&repo, &["branch", "-D", "topic"]);
    assert_eq!(brought_so_far(&tree).into_iter().collect::<Vec<_>>(), of(&[BRANCH], &one));
}

/// A52: a small object that unfolds to a gigabyte and more takes no such room of ours.
#[test]
fn an_object_that_unfolds_without_end_does_not_come() {
    let fixture = Fixture::new();
    let (tree, scratch) = (fixture.tree(), fixture.at("scratch"));
    let before = fixture.home(BRANCH);
    let bomb = Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/apart/bomb.py"))
        .current_dir(&tree)
        .output();
    let Ok(bomb) = bomb else {
        println!("SKIP an_object_that_unfolds_without_end_does_not_come: python3 is not here");
        return;
    };
    assert!(bomb.status.success(), "{}", String::from_utf8_lossy(&bomb.stderr));
    let said = publish(&tree, &scratch).came.unwrap_err().to_string();
    assert!(said.contains("over limit"), "{said}");
    assert_eq!(fixture.home(BRANCH), before);
}
