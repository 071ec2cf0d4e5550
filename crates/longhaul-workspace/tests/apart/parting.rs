//! What a worktree's own directory is made of.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use longhaul_workspace::checkout::{Checkout, Filters};
use longhaul_workspace::commit::commit;
use longhaul_workspace::gitdirs;
use longhaul_workspace::homing::brought;
use longhaul_workspace::place::{ensure, is_unsaved, remove};

use super::rig::{BRANCH, Fixture, git};

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

/// A48, A31: what an agent has put where git keeps things is not copied from where it leads, neither from a repository that it has
/// worked in nor from a worktree that had no directory of its own yet, which has the run's branch brought whatever it says.
#[test]
fn links_of_an_agents_are_not_followed() {
    let secrets = |fixture: &Fixture| {
        let secrets = fixture.at("secrets");
        fs::create_dir_all(&secrets).unwrap();
        fs::write(secrets.join("key"), "SECRET").unwrap();
        secrets
    };
    let has_secret = |tree: &Path| {
        let found =
            std::process::Command::new("grep").args(["-rq", "SECRET", "."]).current_dir(tree).status();
        found.unwrap().success()
    };
    let fixture = Fixture::of(&[], |repo| {
        let secrets = repo.join("../secrets");
        fs::create_dir_all(&secrets).unwrap();
        fs::write(secrets.join("key"), "SECRET").unwrap();
        symlink("../../secrets", repo.join(".git/shallow")).unwrap();
    });
    assert!(!has_secret(&fixture.tree()));

    let fixture = Fixture::new();
    let (repo, tree) = (fixture.repo(), fixture.tree());
    remove(&fixture.place()).unwrap();
    git(&repo, &["worktree", "add", "--quiet", tree.to_str().unwrap(), BRANCH]);
    git(&repo, &["branch", "victim"]);
    let entry = repo.join(".git/worktrees/run_1");
    for name in ["evil", "shallow", "info/sparse-checkout"] {
        fs::create_dir_all(entry.join("info")).unwrap();
        symlink(secrets(&fixture), entry.join(name)).unwrap();
    }
    git(&tree, &["symbolic-ref", "HEAD", "refs/heads/victim"]);
    ensure(&fixture.place()).unwrap();
    assert!(!has_secret(&tree) && tree.join(".git").is_dir());
    fixture.commit("one");
    fixture.publish();
    assert_eq!(fixture.home("victim"), fixture.home("main"));
    git(&tree, &["checkout", "--quiet", BRANCH]);
    let two = fixture.commit("two");
    fixture.publish();
    assert_eq!(fixture.home(BRANCH), Some(two));
}

/// What the user has git ignore, wherever that is said, is ignored in a worktree, also by our git; a repository's own word counts more.
#[test]
fn what_the_user_ignores_is_ignored() {
    let fixture = Fixture::of(&[], |repo| {
        fs::write(repo.join("../ignore"), "secret\nwanted\n").unwrap();
        fs::write(repo.join("../attributes"), "*.txt fromuser\n").unwrap();
        fs::write(repo.join(".gitignore"), "!wanted\n").unwrap();
        git(repo, &["add", "."]);
        git(repo, &["commit", "--quiet", "-m", "ignore"]);
        let beside = |name: &str| repo.parent().unwrap().join(name).display().to_string();
        git(repo, &["config", "core.excludesFile", &beside("ignore")]);
        git(repo, &["config", "core.attributesFile", &beside("attributes")]);
    });
    let tree = fixture.tree();
    for name in ["secret", "wanted", "a.txt"] {
        fs::write(tree.join(name), "x").unwrap();
    }
    let checkout = Checkout::open(&tree, &fixture.at("scratch"), Filters::Failing).unwrap();
    commit(&checkout, "run_1", "work").1.came.unwrap();
    let listed = git(&tree, &["ls-tree", "--name-only", "HEAD"]);
    assert_eq!(listed.lines().collect::<Vec<_>>(), [".gitignore", "a.txt", "file", "wanted"]);
    assert_eq!(git(&tree, &["check-attr", "fromuser", "a.txt"]), "a.txt: fromuser: set");
}

/// F48: killed while a repository is told of a worktree again, the same once more does it.
#[test]
fn a_worktree_is_told_of_again_after_a_kill() {
    let fixture = Fixture::new();
    let entry = fixture.repo().join(".git/worktrees/run_1");
    for left in [&[][..], &["commondir"], &["commondir", "HEAD"]] {
        fs::remove_dir_all(&entry).unwrap();
        fs::create_dir(&entry).unwrap();
        left.iter().for_each(|name| fs::write(entry.join(name), "../..\n").unwrap());
        ensure(&fixture.place()).unwrap();
        assert!(git(&fixture.repo(), &["worktree", "list"]).contains(BRANCH), "{left:?}");
    }
    let one = fixture.commit("one");
    fixture.publish();
    assert_eq!(fixture.home(BRANCH), Some(one));
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
    // What it says itself counts for nothing, also if a repository of an agent's own making agrees.
    let fake = tree.join("fake/.git/worktrees/x");
    fs::create_dir_all(&fake).unwrap();
    fs::write(fake.join("gitdir"), format!("{}\n", own.display())).unwrap();
    fs::write(own.join("longhaul-worktree"), format!("{}\n", fake.display())).unwrap();
    assert_eq!(gitdirs::lender(&tree).unwrap().common, repo.join(".git"));
    let fresh = fixture.at("fresh");
    fs::create_dir(&fresh).unwrap();
    git(&fresh, &["init", "--quiet"]);
    fs::write(fake.join("gitdir"), format!("{}\n", fresh.join(".git").display())).unwrap();
    fs::write(fresh.join(".git/longhaul-worktree"), format!("{}\n", fake.display())).unwrap();
    assert_eq!(gitdirs::lender(&fresh), None);
    // The note beside it counts if the repository knows the place.
    let note = fixture.at("work/run_1.worktree-of");
    git(&repo, &["worktree", "add", "--quiet", "-b", "other", "../other"]);
    fs::write(&note, repo.join(".git/worktrees/other").display().to_string()).unwrap();
    assert_eq!(gitdirs::lender(&tree), None);
    fs::write(&note, "../..\n").unwrap();
    assert_eq!(gitdirs::lender(&tree), None);
    // One that is lost is written again, by whoever knows which repository it is.
    fs::remove_file(&note).unwrap();
    fs::write(own.join("longhaul-worktree"), repo.join(".git/worktrees/run_1").display().to_string())
        .unwrap();
    ensure(&fixture.place()).unwrap();
    assert_eq!(gitdirs::lender(&tree).unwrap().common, repo.join(".git"));
    remove(&fixture.place()).unwrap();
    assert!(!note.exists());
}
