//! A run's worktree has a git directory of its own, and what is committed there comes home.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use longhaul_workspace::checkout::{Checkout, Filters};
use longhaul_workspace::commit::commit;
use longhaul_workspace::gitdirs;
use longhaul_workspace::homing::{brought, publish, publish_if_moved};
use longhaul_workspace::lending::refresh;
use longhaul_workspace::place::{Place, ensure, is_unsaved, remove};
use tempfile::TempDir;

/// A repository with a commit, and a worktree of it.
struct Fixture(TempDir);

const BRANCH: &str = "agent/run_1";

impl Fixture {
    fn new() -> Fixture {
        Fixture::of(&[], |_| {})
    }

    /// The same of a repository that is made with these words, and then as `prepare` has it.
    fn of(words: &[&str], prepare: impl Fn(&Path)) -> Fixture {
        let fixture = Fixture(tempfile::tempdir().unwrap());
        let repo = fixture.repo();
        fs::create_dir_all(&repo).unwrap();
        git(&repo, &[&["init", "--quiet", "--initial-branch=main"], words].concat());
        fs::write(repo.join("file"), "one\n").unwrap();
        git(&repo, &["add", "."]);
        git(&repo, &["commit", "--quiet", "-m", "first"]);
        prepare(&repo);
        ensure(&fixture.place()).unwrap();
        fixture
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn repo(&self) -> PathBuf {
        self.at("repo")
    }

    fn tree(&self) -> PathBuf {
        self.at("work/run_1")
    }

    fn place(&self) -> Place {
        Place::Worktree { repo: self.repo(), path: self.tree(), branch: BRANCH.to_owned(), start: None }
    }

    fn publish(&self) {
        publish(&self.tree(), &self.at("scratch")).unwrap();
    }

    fn commit(&self, name: &str) -> String {
        fs::write(self.tree().join(name), name).unwrap();
        git(&self.tree(), &["add", "."]);
        git(&self.tree(), &["commit", "--quiet", "-m", name]);
        git(&self.tree(), &["rev-parse", "HEAD"])
    }

    /// What a name stands for at home.
    fn home(&self, name: &str) -> Option<String> {
        let asked = ["rev-parse", "--quiet", "--verify", name];
        let output = Command::new("git").args(asked).current_dir(self.repo()).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

fn git(directory: &Path, words: &[&str]) -> String {
    let who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"];
    let output = Command::new("git").args(who).args(words).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Commits come home with the branch, once; so does a branch that was rewritten, and what is packed on either side.
#[test]
fn what_is_committed_comes_home() {
    let fixture = Fixture::new();
    let (repo, tree, scratch) = (fixture.repo(), fixture.tree(), fixture.at("scratch"));
    let one = fixture.commit("one");
    assert_ne!(fixture.home(BRANCH), Some(one.clone()), "void: it is there by itself");
    for _ in 0..2 {
        publish_if_moved(&tree, &scratch).unwrap();
        assert_eq!(fixture.home(BRANCH), Some(one.clone()));
    }
    git(&tree, &["commit", "--quiet", "--amend", "-m", "other"]);
    let other = git(&tree, &["rev-parse", "HEAD"]);
    fixture.publish();
    assert_eq!(fixture.home(BRANCH), Some(other));
    for top in [&repo, &tree] {
        git(top, &["gc", "--quiet", "--prune=now"]);
        let next = fixture.commit(top.file_name().unwrap().to_str().unwrap());
        publish_if_moved(&tree, &scratch).unwrap();
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
    assert!(publish(&tree, &fixture.at("scratch")).is_err());
    assert_eq!(fixture.home(BRANCH), before);
    // Another object under its name.
    fs::copy(object(&other), object(&lost)).unwrap();
    assert!(publish(&tree, &fixture.at("scratch")).is_err());
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
    publish_if_moved(&tree, &fixture.at("scratch")).unwrap();
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
    let said = publish(&fixture.tree(), &scratch).unwrap_err().to_string();
    assert!(said.contains("was moved or checked out in"), "{said}");
    assert_eq!(fixture.home(BRANCH), Some(theirs));
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
            Ok(checkout) => said.extend(commit(&checkout, "run_1", "x").err().map(|error| error.to_string())),
            Err(error) => said.push(error.to_string()),
        }
        said.extend(publish(&tree, &scratch).err().map(|error| error.to_string()));
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

/// D7: keys in the settings of the user's repository are not handed on; what else is said there is, whatever it is made of.
#[test]
fn settings_are_handed_on_without_keys() {
    let odd = "a \"b\" \\c\td;#\ne ";
    let fixture = Fixture::of(&[], |repo| {
        for (key, value) in [
            ("remote.origin.url", "https://user:hunter2@example.com/a.git"),
            ("remote.ssh.url", "ssh://git@example.com/a.git"),
            ("http.https://example.com/.extraheader", "AUTHORIZATION: basic aHVudGVyMg=="),
            ("url.https://hunter2@example.com/.insteadOf", "gh:"),
            ("credential.helper", "!echo hunter2"),
            ("sendemail.smtppass", "hunter2"),
            ("github.token", "hunter2"),
            ("remote.other.url", "ssh://git:hunter2@example.com/b.git"),
            ("alias.odd \"name\".key", odd),
            ("core.worktree", "/nowhere"),
        ] {
            git(repo, &["config", "--local", key, value]);
        }
        fs::write(
            repo.join(".git/more"),
            "[branch \"main\"]\n\tdescription = included\n[rerere]\n\tenabled\n",
        )
        .unwrap();
        git(repo, &["config", "--local", "include.path", "more"]);
        git(repo, &["config", "--local", "--unset", "core.worktree"]);
    });
    let tree = fixture.tree();
    let text = fs::read_to_string(tree.join(".git/config")).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
    let said = |key: &str| git(&tree, &["config", "--local", key]);
    assert_eq!(said("remote.origin.url"), "https://example.com/a.git");
    assert_eq!(said("remote.ssh.url"), "ssh://git@example.com/a.git");
    assert_eq!(said("remote.other.url"), "ssh://git@example.com/b.git");
    assert_eq!(said("alias.odd \"name\".key"), odd.trim_end());
    assert_eq!(said("branch.main.description"), "included");
    assert_eq!(git(&tree, &["config", "--local", "--type=bool", "rerere.enabled"]), "true");
}

/// Repositories of every kind, and paths of every kind.
#[test]
fn every_kind_of_repository_is_parted() {
    let sparse = |repo: &Path| {
        fs::create_dir_all(repo.join("left-out")).unwrap();
        fs::write(repo.join("left-out/file"), "x").unwrap();
        git(repo, &["add", "."]);
        git(repo, &["commit", "--quiet", "-m", "more"]);
        git(repo, &["sparse-checkout", "set", "--cone", "none"]);
    };
    let packed = |repo: &Path| drop(git(repo, &["gc", "--quiet"]));
    let linked = |repo: &Path| {
        git(repo, &["worktree", "add", "--quiet", "-b", "beside", "../beside"]);
        fs::write(repo.join(".git/info/exclude"), "ignored\n").unwrap();
    };
    type Prepared<'a> = &'a dyn Fn(&Path);
    let kinds: [(&[&str], Prepared<'_>); 5] = [
        (&["--object-format=sha256"], &packed),
        (&["--ref-format=reftable"], &|_| {}),
        (&[], &sparse),
        (&[], &linked),
        (&["--separate-git-dir=../else\nwhere.git"], &|_| {}),
    ];
    for (words, prepare) in kinds {
        let fixture = Fixture::of(words, prepare);
        let tree = fixture.tree();
        assert_eq!(git(&tree, &["status", "--porcelain"]), "", "{words:?}");
        assert_eq!(git(&tree, &["rev-parse", "--git-common-dir"]), ".git", "{words:?}");
        assert!(!tree.join("left-out").exists());
        let commit = fixture.commit("new");
        fixture.publish();
        assert_eq!(fixture.home(BRANCH), Some(commit.clone()), "{words:?}");
        assert_eq!(brought(&tree, &fixture.at("scratch")).unwrap(), Some(commit));
        git(&fixture.repo(), &["fsck", "--full"]);
        assert!(!is_unsaved(&tree), "{words:?}");
        ensure(&fixture.place()).unwrap();
        remove(&fixture.place()).unwrap();
    }
}

/// What the user's own directory has by a link is there as what it leads to.
#[test]
fn linked_hooks_and_excludes_are_copied() {
    let fixture = Fixture::of(&[], |repo| {
        let shared = repo.join("../shared");
        fs::create_dir_all(shared.join("hooks")).unwrap();
        fs::write(shared.join("hooks/pre-commit"), "#!/bin/sh\n").unwrap();
        fs::write(shared.join("exclude"), "ignored\n").unwrap();
        fs::remove_dir_all(repo.join(".git/hooks")).ok();
        fs::remove_file(repo.join(".git/info/exclude")).ok();
        std::os::unix::fs::symlink("../../shared/hooks", repo.join(".git/hooks")).unwrap();
        std::os::unix::fs::symlink("../../../shared/exclude", repo.join(".git/info/exclude")).unwrap();
    });
    let tree = fixture.tree();
    assert!(fs::symlink_metadata(tree.join(".git/hooks/pre-commit")).unwrap().is_file());
    fs::write(tree.join("ignored"), "x").unwrap();
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
    assert!(!is_unsaved(&tree));
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

/// A shallow repository knows where its history ends, and so does a worktree of it.
#[test]
fn a_shallow_repository_stays_shallow() {
    let whole = Fixture::new();
    git(&whole.repo(), &["commit", "--quiet", "--allow-empty", "-m", "second"]);
    let fixture = Fixture(tempfile::tempdir().unwrap());
    let from = format!("file://{}", whole.repo().display());
    git(&fixture.at(""), &["clone", "--quiet", "--depth=1", &from, "repo"]);
    ensure(&fixture.place()).unwrap();
    assert_eq!(git(&fixture.tree(), &["rev-list", "--count", "HEAD"]), "1");
    let commit = fixture.commit("new");
    fixture.publish();
    assert_eq!(fixture.home(BRANCH), Some(commit));
    assert_eq!(git(&fixture.repo(), &["rev-list", "--count", BRANCH]), "2");
}

/// A48: only a store of objects lends any, whatever is named; and only who is known by a repository is a worktree of it.
#[test]
fn what_is_named_is_held_against_what_is_there() {
    let fixture = Fixture::new();
    let (repo, tree) = (fixture.repo(), fixture.tree());
    let own = tree.join(".git");
    assert_eq!(gitdirs::lent(&own), [repo.join(".git/objects")]);
    assert_eq!(gitdirs::lender(&tree).unwrap().common, repo.join(".git"));
    let secrets = fixture.at("home/.ssh");
    fs::create_dir_all(&secrets).unwrap();
    let named = format!("{}\n# x\n{}/objects\n", secrets.display(), secrets.display());
    fs::write(own.join("objects/info/alternates"), named).unwrap();
    assert_eq!(gitdirs::lent(&own), Vec::<PathBuf>::new());
    // A worktree of somebody else's, and another that says it is this one.
    git(&repo, &["worktree", "add", "--quiet", "-b", "other", "../other"]);
    fs::write(own.join("longhaul-worktree"), repo.join(".git/worktrees/other").display().to_string())
        .unwrap();
    assert_eq!(gitdirs::lender(&tree), None);
    fs::write(own.join("longhaul-worktree"), "../..\n").unwrap();
    assert_eq!(gitdirs::lender(&tree), None);
}
