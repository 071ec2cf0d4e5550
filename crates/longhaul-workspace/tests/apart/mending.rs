//! What an agent has done to its worktree's own directory, and what becomes of that.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use longhaul_workspace::checkout::{Checkout, Filters};
use longhaul_workspace::commit::{Kept, commit};
use longhaul_workspace::homing::{Came, Error, publish, publish_if_moved};
use longhaul_workspace::place::{Place, ensure, head, is_unsaved};
use longhaul_workspace::source::{Address, Store};

use super::rig::{BRANCH, Fixture, git};

fn shell(tree: &Path, command: &str) {
    let mut shell = Command::new("sh");
    assert!(shell.args(["-c", command]).current_dir(tree).status().unwrap().success(), "{command}");
}

/// F48: a worktree whose `.git` was broken, as far as a sandbox lets it be, is one again with all that had come home, and the files
/// are as they were. A48: it is the same directory, upon which is mounted what holds commands.
#[test]
fn a_broken_repository_is_mended() {
    // What is mounted there stays.
    let rest = "config|hooks|info|longhaul-worktree|objects|refs";
    let wiped = format!(
        "cd .git && for f in *; do case $f in {rest}) ;; *) rm -rf $f; esac; done; rm -rf refs/heads refs/tags; mkdir refs/replace; \
         find objects -mindepth 1 -maxdepth 1 ! -name info -exec rm -rf {{}} +"
    );
    let broken = [
        (wiped.as_str(), &[][..]),
        ("rm -rf .git/objects", &[]),
        ("rm .git/packed-refs; mkdir .git/longhaul-mending-0", &[]),
        ("echo > .git/longhaul-broken; rm .git/packed-refs; echo x > .git/HEAD", &["HEAD-1"]),
        ("echo garbage > .git/HEAD", &["HEAD-1"]),
        ("truncate -s 3G .git/HEAD", &[]),
        ("rm -rf .git/refs .git/HEAD", &["packed-refs-1"]),
        ("rm -rf .git/refs; echo > .git/refs", &["packed-refs-1", "refs-1"]),
        ("echo ref: refs/../../../evil > .git/HEAD", &["HEAD-1"]),
        ("rm .git/index; mkfifo .git/index", &[]),
        ("echo short > .git/index", &["index-1"]),
        ("chmod -R a-x .git/objects .git/refs; chmod 000 .git .", &[]),
    ];
    for (command, aside) in broken {
        let fixture = Fixture::new();
        let (repo, tree, scratch) = (fixture.repo(), fixture.tree(), fixture.at("scratch"));
        let one = fixture.commit("one");
        publish_if_moved(&tree, &scratch).came.unwrap();
        let inode = fs::metadata(tree.join(".git")).unwrap().ino();
        fs::write(tree.join("work"), "not committed").unwrap();
        shell(&tree, command);
        let done = publish_if_moved(&tree, &scratch);
        done.came.unwrap();
        assert!(!done.mended.is_empty() && done.brought.is_empty(), "{command}: {:?}", done.mended);
        assert_eq!(fs::metadata(tree.join(".git")).unwrap().ino(), inode);
        assert_eq!(git(&tree, &["rev-parse", "HEAD", "main"]), git(&repo, &["rev-parse", BRANCH, "main"]));
        assert_eq!(git(&tree, &["symbolic-ref", "HEAD"]), format!("refs/heads/{BRANCH}"));
        assert_eq!(git(&tree, &["status", "--porcelain"]), "?? work", "{command}");
        assert_eq!(put_aside(&tree), aside, "{command}");
        let two = fixture.commit("two");
        let done = publish_if_moved(&tree, &scratch);
        done.came.unwrap();
        let came = [(format!("refs/heads/{BRANCH}"), two.clone())];
        assert_eq!((done.mended, done.brought), (vec![], BTreeMap::from(came)));
        assert_eq!(fixture.home(BRANCH), Some(two.clone()));
        assert_eq!(git(&repo, &["rev-parse", &format!("{two}~")]), one);
        assert_eq!(is_unsaved(&tree), !aside.is_empty(), "what was broken may have had something");
        ensure(&fixture.place()).unwrap();
        assert_eq!(git(&tree, &["rev-parse", "HEAD"]), two);
    }
}

fn put_aside(tree: &Path) -> Vec<String> {
    let found = fs::read_dir(tree.join(".git/longhaul-broken")).into_iter().flatten().flatten();
    let mut names: Vec<String> = found.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// F48: what only git can tell is broken is seen to before work is committed.
#[test]
fn what_git_cannot_read_is_mended() {
    for (command, mended) in [
        ("head -c 1000 /dev/urandom > .git/packed-refs", &["refs"][..]),
        ("printf 'x\\0garbage\\n' >> .git/packed-refs", &["refs"]),
        ("echo short > .git/index", &["index"]),
        ("git ls-files > /dev/null; head -c 100 .git/index > i; cat i > .git/index; rm i", &["index"]),
        ("rm -r .git/refs/heads/agent", &[]),
        ("rm -r .git/refs/heads/agent; sed -i /agent/d .git/packed-refs", &["branch"]),
    ] {
        let fixture = Fixture::new();
        let tree = fixture.tree();
        fixture.commit("one");
        fixture.publish();
        git(&fixture.repo(), &["branch", "-m", BRANCH, "better"]);
        fs::write(tree.join("work"), "new").unwrap();
        shell(&tree, command);
        let checkout = Checkout::open(&tree, &fixture.at("scratch"), Filters::Failing).unwrap();
        let (kept, done) = commit(&checkout, "run_1", "work");
        assert!(matches!(kept, Ok(Kept::Committed(_))), "{command}: {kept:?}");
        assert_eq!(done.mended, mended, "{command}");
        let came = [("refs/heads/better".to_owned(), git(&tree, &["rev-parse", "HEAD"]))];
        assert_eq!(done.brought, BTreeMap::from(came));
        assert_eq!(fixture.home("better"), Some(git(&tree, &["rev-parse", "HEAD"])), "{command}");
        assert_eq!(git(&fixture.repo(), &["show", "better:work"]), "new", "{command}");
        assert_eq!(git(&fixture.repo(), &["show", "better:one"]), "one", "{command}");
    }
}

/// F48, A52: a name with a file that git cannot take in, deeper than anybody looks, goes with all that have one, once; and a git that
/// was kept from looking has not found anything broken.
#[test]
fn a_name_that_git_cannot_read_is_put_aside() {
    let fixture = Fixture::new();
    let tree = fixture.tree();
    let one = fixture.commit("one");
    fixture.publish();
    let deep = vec!["a"; 70].join("/");
    shell(&tree, &format!("mkdir -p .git/refs/heads/{deep}; truncate -s 2G .git/refs/heads/{deep}/huge"));
    for mended in [&["refs"][..], &[]] {
        fs::write(tree.join("work"), format!("{mended:?}")).unwrap();
        let checkout = Checkout::open(&tree, &fixture.at("scratch"), Filters::Failing).unwrap();
        let (kept, done) = commit(&checkout, "run_1", "work");
        assert!(matches!(kept, Ok(Kept::Committed(_))), "{kept:?}");
        assert_eq!((done.mended, done.came.unwrap()), (mended.to_vec(), Came::All));
        assert_eq!(put_aside(&tree), ["packed-refs-1", "packed-refs-2", "refs-1"]);
    }
    assert_eq!(fixture.home(&format!("{BRANCH}~2")), Some(one));
}

/// F48: nor is what is ignored although it is tracked, when the branch and the index are lost at once.
#[test]
fn what_is_tracked_and_ignored_is_not_taken_for_deleted() {
    for command in ["git update-ref -d HEAD; rm .git/index", "rm -rf .git/objects/??; rm .git/index"] {
        let fixture = Fixture::of(&[], |repo| {
            fs::write(repo.join("kept.log"), "kept").unwrap();
            git(repo, &["add", "kept.log"]);
            fs::write(repo.join(".gitignore"), "*.log\n").unwrap();
            git(repo, &["add", "."]);
            git(repo, &["commit", "--quiet", "-m", "second"]);
        });
        let tree = fixture.tree();
        fixture.commit("one");
        fixture.publish();
        fixture.commit("two");
        shell(&tree, command);
        drop(publish_if_moved(&tree, &fixture.at("scratch")));
        fs::write(tree.join("work"), "new").unwrap();
        let checkout = Checkout::open(&tree, &fixture.at("scratch"), Filters::Failing).unwrap();
        let (kept, _) = commit(&checkout, "run_1", "work");
        assert!(matches!(kept, Ok(Kept::Committed(_))), "{command}: {kept:?}");
        assert_eq!(git(&fixture.repo(), &["show", &format!("{BRANCH}:kept.log")]), "kept", "{command}");
        assert_eq!(git(&fixture.repo(), &["show", &format!("{BRANCH}:two")]), "two", "{command}");
    }
}

/// F48: a branch that begins without a commit needs no index to be one, and what git refuses a directory for is not sought in its names.
#[test]
fn a_branch_without_a_commit_is_not_broken() {
    let fixture = Fixture::new();
    let (tree, scratch) = (fixture.tree(), fixture.at("scratch"));
    fixture.commit("one");
    fixture.publish();
    shell(&tree, "git symbolic-ref HEAD refs/heads/pages; rm .git/index");
    let done = publish_if_moved(&tree, &scratch);
    assert_eq!((done.came.unwrap(), done.mended), (Came::All, vec!["index"]));
    assert_eq!(git(&tree, &["ls-files"]), "");
    let pages = fixture.commit("page");
    fixture.publish();
    assert_eq!(fixture.home("pages"), Some(pages));
    shell(&tree, "git config core.repositoryformatversion 99");
    let checkout = Checkout::open(&tree, &scratch, Filters::Failing);
    assert!(checkout.is_err() || commit(&checkout.unwrap(), "run_1", "work").0.is_err());
    assert!(put_aside(&tree).is_empty(), "{:?}", put_aside(&tree));
}

/// F48: what a sparse checkout leaves out is not taken for deleted when its index is made anew.
#[test]
fn a_sparse_checkout_stays_sparse() {
    let fixture = Fixture::of(&[], |repo| {
        for name in ["in", "out"] {
            fs::create_dir_all(repo.join(name)).unwrap();
            fs::write(repo.join(name).join("file"), name).unwrap();
        }
        git(repo, &["add", "."]);
        git(repo, &["commit", "--quiet", "-m", "more"]);
        git(repo, &["sparse-checkout", "set", "in"]);
    });
    let tree = fixture.tree();
    assert!(tree.join("in/file").exists() && !tree.join("out").exists());
    shell(&tree, "rm .git/HEAD .git/index");
    publish_if_moved(&tree, &fixture.at("scratch")).came.unwrap();
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
    // Also if nothing but the index is lost, or somebody was killed while it was made.
    for left in ["", "cp .git/index .git/longhaul-index"] {
        shell(&tree, &format!("{left}\nrm .git/index; echo more >> in/file"));
        let checkout = Checkout::open(&tree, &fixture.at("scratch"), Filters::Failing).unwrap();
        commit(&checkout, "run_1", "work").1.came.unwrap();
        let listed = git(&fixture.repo(), &["ls-tree", "-r", "--name-only", BRANCH]);
        assert_eq!(listed.lines().collect::<Vec<_>>(), ["file", "in/file", "out/file"]);
    }
}

/// F48, A48: what git would follow, wait for, or read into memory whole goes, wherever it is; nothing goes through a link.
#[test]
fn what_git_would_stop_at_goes() {
    let fixture = Fixture::new();
    let (tree, own) = (fixture.tree(), fixture.tree().join(".git"));
    let outside = fixture.at("outside");
    fs::create_dir_all(outside.join("below")).unwrap();
    symlink("nowhere", outside.join("below/link")).unwrap();
    let one = fixture.commit("one");
    shell(&tree, "mkfifo .git/refs/heads/pipe .git/objects/pack/p.idx .git/logs/refs/heads/pipe .git/odd");
    shell(&tree, "mkdir .git/objects/ab; mkfifo .git/objects/ab/cdef; echo .. > .git/commondir");
    for at in ["refs/heads/out", "objects/pack/out", "logs/out", "out"] {
        symlink(&outside, own.join(at)).unwrap();
    }
    shell(
        &tree,
        "mkdir .git/rebase-merge; mkfifo .git/rebase-merge/head-name; truncate -s 1G .git/EVIL_HEAD",
    );
    File::create(own.join("refs/heads/huge")).unwrap().set_len(1 << 30).unwrap();
    publish(&tree, &fixture.at("scratch")).came.unwrap();
    assert_eq!(fixture.home(BRANCH), Some(one));
    for gone in [
        "refs/heads/pipe",
        "refs/heads/huge",
        "refs/heads/out",
        "objects/pack/p.idx",
        "objects/pack/out",
        "objects/ab/cdef",
        "logs/refs/heads/pipe",
        "logs/out",
        "rebase-merge/head-name",
        "EVIL_HEAD",
        "odd",
        "out",
        "commondir",
    ] {
        assert!(own.join(gone).symlink_metadata().is_err(), "{gone}");
    }
    assert!(outside.join("below/link").symlink_metadata().is_ok());
    assert!(own.join("logs/HEAD").is_file() && own.join("refs/heads/agent").is_dir());
}

/// A48: a `.git` that is broken is not passed over for the repository that the workspace is in.
#[test]
fn a_broken_repository_is_not_the_one_around_it() {
    let fixture = Fixture::new();
    let repo = fixture.repo();
    let address = Address::parse(repo.to_str().unwrap(), &repo).unwrap();
    let store = Store::at(&fixture.at("cache"), address, None);
    let start = store.fetch(None).unwrap();
    let (path, url) = (repo.join(".longhaul/run_2"), repo.display().to_string());
    let (store, branch) = (store.directory().to_owned(), "work".to_owned());
    ensure(&Place::Clone { store, url, path: path.clone(), branch, start }).unwrap();
    assert_eq!(head(&path), head(&repo));
    fs::write(path.join(".git/HEAD"), "garbage").unwrap();
    assert!(Command::new("git").args(["log"]).current_dir(&path).output().unwrap().status.success(), "void");
    assert_eq!(head(&path), None);
    assert!(is_unsaved(&path));
}

/// A48: losing what is lent is no way to have the user's commits taken for the worktree's own, nor to bring back what he has removed.
#[test]
fn what_the_user_did_meanwhile_is_not_ours_after_mending() {
    // With its references its commit is lost, and what is left of it is part of what the user went on from.
    for (command, is_lacking) in [
        ("rm .git/packed-refs", true),
        ("rm -rf .git/refs .git/packed-refs", false),
        ("rm -rf .git/refs .git/HEAD", false),
    ] {
        let fixture = Fixture::of(&[], |repo| drop(git(repo, &["branch", "feature"])));
        let (repo, tree, scratch) = (fixture.repo(), fixture.tree(), fixture.at("scratch"));
        fixture.commit("one");
        fixture.publish();
        let files = git(&repo, &["rev-parse", &format!("{BRANCH}^{{tree}}")]);
        let theirs = git(&repo, &["commit-tree", "-p", BRANCH, "-m", "theirs", &files]);
        git(&repo, &["update-ref", &format!("refs/heads/{BRANCH}"), &theirs]);
        git(&tree, &["commit", "--quiet", "--allow-empty", "-m", "mine"]);
        git(&tree, &["branch", "-f", "feature", "HEAD"]);
        git(&repo, &["branch", "-D", "feature"]);
        shell(&tree, command);
        let came = publish(&tree, &scratch).came;
        assert_eq!(matches!(came, Err(Error::Diverged { .. })), is_lacking, "{command}: {came:?}");
        assert_eq!((fixture.home(BRANCH), fixture.home("feature")), (Some(theirs), None), "{command}");
    }
}

/// A48: what others have put onto the run's branch at home is not taken out by the next commit of files that never had it, also where
/// the worktree's branch is lost and made anew, or all of its `.git`.
#[test]
fn a_branch_that_is_made_anew_is_as_it_was_here() {
    for command in [
        "rm -rf .git/refs .git/packed-refs",
        "rm -r .git/refs/heads/agent; sed -i /agent/d .git/packed-refs",
        "rm -rf .git",
    ] {
        for renamed in [false, true] {
            let fixture = Fixture::new();
            let (repo, tree) = (fixture.repo(), fixture.tree());
            let one = fixture.commit("one");
            fixture.publish();
            let there = if renamed { "better" } else { BRANCH };
            if renamed {
                git(&repo, &["branch", "-m", BRANCH, there]);
            }
            fs::write(repo.join("theirs.txt"), "theirs").unwrap();
            git(&repo, &["add", "theirs.txt"]);
            let files = git(&repo, &["write-tree"]);
            let theirs = git(&repo, &["commit-tree", "-p", there, "-m", "theirs", &files]);
            git(&repo, &["update-ref", &format!("refs/heads/{there}"), &theirs]);
            shell(&tree, command);
            ensure(&fixture.place()).unwrap();
            drop(publish_if_moved(&tree, &fixture.at("scratch")));
            fs::write(tree.join("work"), "new").unwrap();
            let checkout = Checkout::open(&tree, &fixture.at("scratch"), Filters::Failing).unwrap();
            let (kept, done) = commit(&checkout, "run_1", "work");
            assert!(matches!(kept, Ok(Kept::Committed(_))), "{command}: {kept:?}");
            assert_eq!(git(&tree, &["rev-parse", "HEAD~"]), one, "{command}");
            let said = done.came.unwrap_err().to_string();
            assert!(said.contains("was moved or checked out in"), "{command}: {said}");
            assert_eq!(fixture.home(there), Some(theirs), "{command}");
        }
    }
}

/// F48: a name that leads deeper than anybody looks is no branch to stand on, and git is not asked to wait at its end.
#[test]
fn a_branch_of_absurd_depth_is_none() {
    let fixture = Fixture::new();
    let (tree, scratch) = (fixture.tree(), fixture.at("scratch"));
    let one = fixture.commit("one");
    let deep = vec!["a"; 70].join("/");
    shell(
        &tree,
        &format!(
            "mkdir -p .git/refs/heads/{deep}; mkfifo .git/refs/heads/{deep}/pipe; echo ref: refs/heads/{deep}/pipe > .git/HEAD"
        ),
    );
    let done = publish(&tree, &scratch);
    done.came.unwrap();
    assert_eq!(done.mended, ["HEAD"]);
    assert_eq!(fixture.home(BRANCH), Some(one));
}
