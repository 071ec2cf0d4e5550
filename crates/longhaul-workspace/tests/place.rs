//! Places are made with real git, and made again after every way of being killed.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::Command;

use longhaul_workspace::homing::publish;
use longhaul_workspace::place::{
    Error, Place, detached, discover_repo, ensure, is_gone, is_unsaved, remove, unlist_gone,
};
use rustix::fs::inotify;
use tempfile::TempDir;

struct Fixture {
    outer: TempDir,
}

impl Fixture {
    /// A repository with one commit and uncommitted work in its checkout.
    fn new() -> Fixture {
        let fixture = Fixture { outer: tempfile::tempdir().unwrap() };
        let repo = fixture.repo();
        fs::create_dir_all(repo.join("src")).unwrap();
        git(&repo, &["init", "--quiet", "--initial-branch=main"]);
        fs::write(repo.join("file"), "committed\n").unwrap();
        fs::write(repo.join("src/lib.rs"), "// code\n").unwrap();
        fs::write(repo.join(".git/hooks/post-checkout"), "#!/bin/sh\ntouch \"$GIT_DIR/hook-ran\"\n").unwrap();
        Command::new("chmod").arg("+x").arg(repo.join(".git/hooks/post-checkout")).status().unwrap();
        git(&repo, &["add", "."]);
        git(&repo, &["commit", "--quiet", "-m", "first"]);
        fs::write(repo.join("file"), "uncommitted\n").unwrap();
        fs::write(repo.join("untracked"), "mine\n").unwrap();
        fixture
    }

    fn repo(&self) -> PathBuf {
        self.outer.path().canonicalize().unwrap().join("repo")
    }

    fn path(&self) -> PathBuf {
        self.outer.path().canonicalize().unwrap().join("work/run_1")
    }

    fn place(&self) -> Place {
        Place::Worktree {
            repo: self.repo(),
            path: self.path(),
            branch: "longhaul/run_1".to_owned(),
            start: None,
        }
    }

    fn administration(&self) -> PathBuf {
        self.repo().join(".git/worktrees/run_1")
    }

    /// The worktree is complete, and the user's checkout is as it was.
    fn check_good(&self) {
        let path = self.path();
        assert_eq!(git(&path, &["status", "--porcelain"]), "");
        assert_eq!(git(&path, &["rev-parse", "--abbrev-ref", "HEAD"]), "longhaul/run_1");
        assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "committed\n");
        let administration = PathBuf::from(git(&path, &["rev-parse", "--absolute-git-dir"]));
        assert_eq!(administration, path.join(".git"), "it has a directory of its own");
        assert_eq!(git(&path, &["rev-parse", "--git-common-dir"]), ".git");
        let listed = git(&self.repo(), &["worktree", "list", "--porcelain"]);
        assert!(listed.contains("branch refs/heads/longhaul/run_1"), "{listed}");
        assert!(!listed.contains("locked") && !listed.contains("prunable"), "{listed}");
        assert_eq!(git(&self.repo(), &["status", "--porcelain"]), " M file\n?? untracked");
        assert_eq!(git(&self.repo(), &["worktree", "list"]).lines().count(), 2);
        assert!(!administration.join("hook-ran").exists());
    }

    fn ensure_good(&self) {
        ensure(&self.place()).unwrap();
        self.check_good();
    }
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.com"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn a_fresh_place_is_made_once_and_kept() {
    let outer = tempfile::tempdir().unwrap();
    let path = outer.path().join("a/b/c");
    ensure(&Place::Fresh(path.clone())).unwrap();
    fs::write(path.join("work"), "kept").unwrap();
    ensure(&Place::Fresh(path.clone())).unwrap();
    assert_eq!(fs::read_to_string(path.join("work")).unwrap(), "kept");
    let below_a_file = Place::Fresh(path.join("work/below"));
    assert!(matches!(ensure(&below_a_file), Err(Error::NotDirectory { .. })));
    assert!(ensure(&Place::InPlace(path.clone())).is_ok());
    assert!(matches!(ensure(&Place::InPlace(path.join("work"))), Err(Error::NotDirectory { .. })));
}

#[test]
fn a_worktree_is_made_and_then_left_alone() {
    let fixture = Fixture::new();
    fixture.ensure_good();
    fs::write(fixture.path().join("file"), "agent\n").unwrap();
    fs::write(fixture.path().join("new"), "agent\n").unwrap();
    ensure(&fixture.place()).unwrap();
    assert_eq!(git(&fixture.path(), &["status", "--porcelain"]), " M file\n?? new");
}

#[test]
fn a_worktree_killed_before_its_directory_was_linked_is_completed() {
    let fixture = Fixture::new();
    git(&fixture.repo(), &["branch", "longhaul/run_1"]);
    fixture.ensure_good();
}

#[test]
fn a_worktree_killed_right_after_its_registration_is_completed() {
    let fixture = Fixture::new();
    git(&fixture.repo(), &["branch", "longhaul/run_1"]);
    let administration = fixture.administration();
    fs::create_dir_all(&administration).unwrap();
    fs::write(administration.join("locked"), "initializing").unwrap();
    // Nothing says yet which path this was for, so it stays: git makes the next one under another name.
    fixture.ensure_good();
}

#[test]
fn a_worktree_killed_during_its_checkout_is_made_again() {
    let fixture = Fixture::new();
    fixture.ensure_good();
    // What git leaves when killed in the middle: its own mark, a lock, a part of the files.
    fs::write(fixture.administration().join("locked"), "initializing").unwrap();
    fs::rename(fixture.path().join(".git/index"), fixture.path().join(".git/index.lock")).unwrap();
    fs::remove_dir_all(fixture.path().join("src")).unwrap();
    fixture.ensure_good();
}

/// An empty `commondir` makes git refuse every worktree command in the repository.
#[test]
fn a_registration_killed_half_written_is_removed() {
    let fixture = Fixture::new();
    fixture.ensure_good();
    fs::write(fixture.administration().join("locked"), "initializing").unwrap();
    fs::write(fixture.administration().join("commondir"), "").unwrap();
    fixture.ensure_good();
    fs::write(fixture.administration().join("locked"), "initializing").unwrap();
    fs::write(fixture.administration().join("commondir"), "").unwrap();
    fs::remove_dir_all(fixture.path()).unwrap();
    fixture.ensure_good();
}

#[test]
fn a_branch_killed_half_made_is_made_again() {
    let fixture = Fixture::new();
    let lock = fixture.repo().join(".git/refs/heads/longhaul/run_1.lock");
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    fs::write(&lock, "").unwrap();
    fixture.ensure_good();
    assert!(!lock.exists());
}

#[test]
fn a_worktree_whose_directory_is_lost_is_made_again() {
    let fixture = Fixture::new();
    fixture.ensure_good();
    fs::remove_dir_all(fixture.path()).unwrap();
    fixture.ensure_good();
    fs::write(fixture.administration().join("locked"), "initializing").unwrap();
    fs::remove_dir_all(fixture.path()).unwrap();
    fixture.ensure_good();
}

#[test]
fn a_directory_with_only_a_dangling_link_is_made_again() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path()).unwrap();
    fs::write(fixture.path().join(".git"), "").unwrap();
    fixture.ensure_good();
}

/// What was committed in the directory that is lost is lost with it, unless it was brought home; no file is.
#[test]
fn work_in_a_worktree_without_its_directory_is_kept_and_given_another() {
    let fixture = Fixture::new();
    fixture.ensure_good();
    fs::write(fixture.path().join("new"), "agent\n").unwrap();
    for damage in [None, Some("gitdir: /nowhere\n"), Some("")] {
        fs::remove_dir_all(fixture.path().join(".git")).unwrap();
        if let Some(text) = damage {
            fs::write(fixture.path().join(".git"), text).unwrap();
        }
        ensure(&fixture.place()).unwrap();
        assert_eq!(git(&fixture.path(), &["status", "--porcelain"]), "?? new");
    }
}

/// One that shares the directory of its repository, as git makes it, is given its own, with what is staged and under way there.
#[test]
fn a_worktree_that_is_only_linked_is_parted() {
    let fixture = Fixture::new();
    let path = fixture.path();
    git(&fixture.repo(), &["worktree", "add", "--quiet", "-b", "longhaul/run_1", path.to_str().unwrap()]);
    git(&path, &["commit", "--quiet", "--allow-empty", "-m", "agent"]);
    fs::write(path.join("staged"), "agent\n").unwrap();
    git(&path, &["add", "staged"]);
    fs::write(path.join("file"), "agent\n").unwrap();
    fs::write(fixture.administration().join("MERGE_HEAD"), git(&path, &["rev-parse", "HEAD~"])).unwrap();
    let head = git(&path, &["rev-parse", "HEAD"]);
    for _ in 0..2 {
        ensure(&fixture.place()).unwrap();
        assert_eq!(git(&path, &["status", "--porcelain"]), " M file\nA  staged");
        assert_eq!(git(&path, &["rev-parse", "HEAD"]), head);
        assert!(path.join(".git/MERGE_HEAD").exists());
    }
    fs::remove_file(path.join(".git/MERGE_HEAD")).unwrap();
    git(&path, &["reset", "--quiet", "--hard", "HEAD~"]);
    fs::remove_file(path.join("staged")).ok();
    fixture.check_good();
}

/// Whatever the user's repository forgets, the work stays where it is, and is listed again.
#[test]
fn a_worktree_whose_registration_is_gone_is_listed_again() {
    let fixture = Fixture::new();
    fixture.ensure_good();
    fs::write(fixture.path().join("new"), "agent\n").unwrap();
    for gone in [fixture.administration(), fixture.repo().join(".git/worktrees")] {
        fs::remove_dir_all(gone).unwrap();
        ensure(&fixture.place()).unwrap();
        assert_eq!(git(&fixture.path(), &["status", "--porcelain"]), "?? new");
    }
    fs::remove_file(fixture.path().join("new")).unwrap();
    fixture.check_good();
    remove(&fixture.place()).unwrap();
    assert_eq!(git(&fixture.repo(), &["worktree", "list"]).lines().count(), 1);
}

/// The same for one that shares the directory of its repository: then only its files are left, and those are set aside.
#[test]
fn files_whose_registration_is_gone_are_set_aside_whole() {
    let fixture = Fixture::new();
    let path = fixture.path();
    git(&fixture.repo(), &["worktree", "add", "--quiet", "-b", "longhaul/run_1", path.to_str().unwrap()]);
    fs::write(path.join("new"), "agent\n").unwrap();
    fs::remove_dir_all(fixture.administration()).unwrap();
    fixture.ensure_good();
    let aside = path.with_file_name("run_1.set-aside-1");
    assert_eq!(fs::read_to_string(aside.join("new")).unwrap(), "agent\n");
}

/// D14.8: what a killed making has left goes, however little can be told of it by git: what is noted to be in the making is nobody's work.
#[test]
fn half_a_worktree_that_git_knows_nothing_of_is_made_again() {
    let fixture = Fixture::new();
    let note = fixture.path().with_file_name("run_1.making");
    let neighbour = fixture.path().with_file_name("run_2");
    fs::create_dir_all(&neighbour).unwrap();
    fs::write(neighbour.join("precious"), "mine").unwrap();
    // Killed by turns: while git takes back what it has begun, with the registration gone or left without its mark.
    for is_registered in [false, true] {
        if is_registered {
            fixture.ensure_good();
            fs::remove_file(fixture.administration().join("commondir")).unwrap();
        }
        fs::create_dir_all(fixture.path().join("src")).unwrap();
        fs::remove_dir_all(fixture.path().join(".git")).ok();
        fs::write(fixture.path().join("file"), "half").unwrap();
        fs::write(&note, "").unwrap();
        fixture.ensure_good();
        assert!(!note.exists());
        remove(&fixture.place()).unwrap();
    }
    assert_eq!(fs::read_to_string(neighbour.join("precious")).unwrap(), "mine");
    fs::write(&note, "").unwrap();
    remove(&fixture.place()).unwrap();
    assert!(!note.exists(), "it goes with its place");
}

/// A worktree whose files cannot be written is taken back whole, and its note with it.
#[test]
fn a_worktree_that_cannot_be_filled_is_taken_back() {
    let fixture = Fixture::new();
    let blob = git(&fixture.repo(), &["rev-parse", "HEAD:src/lib.rs"]);
    let object = fixture.repo().join(".git/objects").join(&blob[..2]).join(&blob[2..]);
    let away = fixture.repo().join("away");
    fs::rename(&object, &away).unwrap();
    assert!(matches!(ensure(&fixture.place()), Err(Error::Git(_))));
    assert_eq!(git(&fixture.repo(), &["worktree", "list"]).lines().count(), 1);
    let left: Vec<_> = fs::read_dir(fixture.path().parent().unwrap()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    fs::rename(&away, &object).unwrap();
    fixture.ensure_good();
}

/// A44: no lock is taken in the user's repository but that of the branch which is made: killed, git would leave it there.
#[test]
fn making_a_worktree_locks_nothing_of_the_repository() {
    let fixture = Fixture::new();
    git(&fixture.repo(), &["pack-refs", "--all"]);
    let seen = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&seen, fixture.repo().join(".git"), inotify::WatchFlags::CREATE).unwrap();
    ensure(&fixture.place()).unwrap();
    detached(&fixture.repo(), &fixture.path().with_file_name("beside"), "HEAD").unwrap();
    let mut room = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(seen, &mut room);
    let mut made = Vec::new();
    while let Ok(event) = events.next() {
        made.extend(event.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    assert!(made.contains(&"worktrees".to_owned()), "void: {made:?}");
    assert!(!made.iter().any(|name| name.ends_with(".lock")), "{made:?}");
}

#[test]
fn somebody_elses_directory_is_refused_and_kept() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path()).unwrap();
    fs::write(fixture.path().join("precious"), "mine").unwrap();
    assert!(matches!(ensure(&fixture.place()), Err(Error::NotEmpty { .. })));
    git(&fixture.path(), &["init", "--quiet"]);
    assert!(matches!(ensure(&fixture.place()), Err(Error::NotEmpty { .. })));
    assert_eq!(fs::read_to_string(fixture.path().join("precious")).unwrap(), "mine");
}

#[test]
fn a_worktree_inside_the_checkout_is_not_mistaken_for_it() {
    let fixture = Fixture::new();
    fs::write(fixture.repo().join(".git/info/exclude"), ".longhaul\n").unwrap();
    let path = fixture.repo().join(".longhaul/workspace/run_2");
    let place =
        Place::Worktree { repo: fixture.repo(), path: path.clone(), branch: "b".to_owned(), start: None };
    ensure(&place).unwrap();
    fs::remove_dir_all(path.join(".git")).unwrap();
    ensure(&place).unwrap();
    assert_eq!(git(&path, &["rev-parse", "--show-toplevel"]), path.display().to_string());
    assert_eq!(git(&path, &["status", "--porcelain"]), "");
}

#[test]
fn a_branch_in_use_elsewhere_is_refused() {
    let fixture = Fixture::new();
    let place = Place::Worktree {
        repo: fixture.repo(),
        path: fixture.path(),
        branch: "main".to_owned(),
        start: None,
    };
    assert!(matches!(ensure(&place), Err(Error::Git(_))));
}

/// Git is killed for real, at many points, and each time the worktree comes out complete.
#[test]
fn git_killed_at_any_point_is_recovered_from() {
    let fixture = Fixture::new();
    for number in 0..300 {
        fs::write(fixture.repo().join(format!("src/{number}")), "x".repeat(4096)).unwrap();
    }
    git(&fixture.repo(), &["add", "src"]);
    git(&fixture.repo(), &["commit", "--quiet", "-m", "many"]);
    fs::create_dir_all(fixture.path().parent().unwrap()).unwrap();
    for delay_us in (0..20_000).step_by(1000) {
        let mut child = Command::new("git")
            .args(["worktree", "add", "--quiet", "-b", "longhaul/run_1"])
            .arg(fixture.path())
            .arg("HEAD")
            .current_dir(fixture.repo())
            .spawn()
            .unwrap();
        // Not an assertion on time: wherever this lands, the result must be the same.
        std::thread::sleep(std::time::Duration::from_micros(delay_us));
        child.kill().unwrap();
        child.wait().unwrap();
        // The checkout runs in a child of git's own; wait until it is gone, as the lock would make us.
        wait_for_no_process_in(&fixture.path(), &fixture.repo());
        ensure(&fixture.place()).unwrap();
        assert_eq!(git(&fixture.path(), &["status", "--porcelain"]), "");
        remove(&fixture.place()).unwrap();
        git(&fixture.repo(), &["branch", "-D", "--quiet", "longhaul/run_1"]);
    }
}

fn wait_for_no_process_in(path: &Path, repo: &Path) {
    let works_there = |entry: fs::DirEntry| {
        let Ok(cwd) = fs::read_link(entry.path().join("cwd")) else { return false };
        cwd.starts_with(path) || cwd.starts_with(repo)
    };
    while fs::read_dir("/proc").unwrap().flatten().any(works_there) {
        std::thread::yield_now();
    }
}

/// A harness that was killed may have left its git child at work: the next attempt waits for that child's lock.
#[test]
fn a_place_that_is_being_made_is_waited_for() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path()).unwrap();
    let held = fs::File::open(fixture.path()).unwrap();
    held.lock().unwrap();
    let place = fixture.place();
    let waiting = std::thread::spawn(move || ensure(&place));
    assert!(!waiting.is_finished());
    assert!(!fixture.administration().exists());
    drop(held);
    waiting.join().unwrap().unwrap();
    fixture.check_good();
}

#[test]
fn the_nearest_repository_is_found() {
    let fixture = Fixture::new();
    let repo = fixture.repo();
    let found = |path: &Path| discover_repo(path).map(|root| root.path().to_owned());
    assert_eq!(found(&repo), Some(repo.clone()));
    assert_eq!(found(&repo.join("src")), Some(repo.clone()));
    let inner = repo.join("inner");
    fs::create_dir(&inner).unwrap();
    git(&inner, &["init", "--quiet"]);
    assert_eq!(found(&inner), None, "it has no commit, and the one above is another");
    git(&inner, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
    assert_eq!(found(&inner), Some(inner));
    assert_eq!(found(fixture.outer.path()), None);
    assert_eq!(found(Path::new("/nowhere")), None);
}

/// What is removed leaves neither a directory nor a registration, wherever the removal was killed before.
#[test]
fn a_place_is_removed_whole() {
    for killed in ["never", "after it was moved aside", "after it was forgotten"] {
        let fixture = Fixture::new();
        fixture.ensure_good();
        fs::write(fixture.path().join("new"), "x").unwrap();
        let aside = fixture.path().with_file_name("run_1.removing");
        match killed {
            "never" => {}
            "after it was moved aside" => fs::rename(fixture.path(), &aside).unwrap(),
            _ => {
                fs::rename(fixture.path(), &aside).unwrap();
                fs::remove_dir_all(fixture.administration()).unwrap();
            }
        }
        remove(&fixture.place()).unwrap();
        assert!(!fixture.path().exists() && !aside.exists(), "{killed}");
        assert_eq!(git(&fixture.repo(), &["worktree", "list"]).lines().count(), 1, "{killed}");
        assert_eq!(git(&fixture.repo(), &["branch", "--list", "longhaul/run_1"]).trim(), "longhaul/run_1");
        assert_eq!(git(&fixture.repo(), &["status", "--porcelain"]), " M file\n?? untracked");
        fixture.ensure_good();
    }
    let fixture = Fixture::new();
    remove(&Place::InPlace(fixture.repo())).unwrap();
    assert!(fixture.repo().exists(), "what is the user's stays");
}

/// D12.1: many worktrees of one repository, made at once, do not stand in each other's way.
#[test]
fn many_worktrees_are_made_at_once() {
    let fixture = Fixture::new();
    let places: Vec<Place> = (0..16)
        .map(|number| Place::Worktree {
            repo: fixture.repo(),
            path: fixture.path().with_file_name(format!("many_{number}")),
            branch: format!("longhaul/many_{number}"),
            start: None,
        })
        .collect();
    std::thread::scope(|scope| {
        let making: Vec<_> = places.iter().map(|place| scope.spawn(move || ensure(place))).collect();
        making.into_iter().for_each(|made| made.join().unwrap().unwrap());
    });
    assert_eq!(git(&fixture.repo(), &["worktree", "list"]).lines().count(), 17);
    assert_eq!(git(&fixture.repo(), &["status", "--porcelain"]), " M file\n?? untracked");
}

/// A47: a filter is run for no worktree, also not for the commit that is checked out: an agent may have made that, and the script.
#[test]
fn no_filter_is_run_for_a_worktree() {
    let fixture = Fixture::new();
    let repo = fixture.repo();
    let mark = fixture.outer.path().join("mark");
    git(&repo, &["config", "filter.f.smudge", "sh ./smudge.sh"]);
    fs::write(repo.join(".gitattributes"), "*.txt filter=f\n").unwrap();
    fs::write(repo.join("smudge.sh"), format!("touch '{}'; cat\n", mark.display())).unwrap();
    fs::write(repo.join("z.txt"), "text\n").unwrap();
    git(&repo, &["checkout", "--quiet", "-b", "agents"]);
    git(&repo, &["add", ".gitattributes", "smudge.sh", "z.txt"]);
    git(&repo, &["commit", "--quiet", "-m", "an agent's"]);
    let commit = git(&repo, &["rev-parse", "HEAD"]);
    let at = |name: &str, start: Option<&String>| Place::Worktree {
        repo: repo.clone(),
        path: fixture.path().with_file_name(name),
        branch: name.to_owned(),
        start: start.cloned(),
    };
    ensure(&at("own", None)).unwrap();
    assert!(!mark.exists());
    git(&repo, &["worktree", "add", "--quiet", "--detach", "../plain"]);
    assert!(mark.exists(), "void: git does not run it");
    git(&repo, &["stash", "--quiet"]);
    git(&repo, &["checkout", "--quiet", "main"]);
    fs::remove_file(&mark).ok();
    git(&repo, &["branch", "there", &commit]);
    ensure(&at("apart", Some(&commit))).unwrap();
    ensure(&at("there", None)).unwrap();
    detached(&repo, &fixture.path(), &commit).unwrap();
    for name in ["own", "apart", "there", "run_1"] {
        let file = fixture.path().with_file_name(name).join("z.txt");
        assert_eq!(fs::read_to_string(file).unwrap(), "text\n", "{name}");
    }
    assert!(!mark.exists(), "the agent's script was run");
}

/// D14.8: a directory is saved if git says that its files are committed, on a branch that stays. What git cannot tell is not.
#[test]
fn what_git_cannot_tell_is_unsaved() {
    let fixture = Fixture::new();
    let (repo, path) = (fixture.repo(), fixture.path());
    assert!(!is_unsaved(&path), "nothing is there");
    fs::create_dir_all(&path).unwrap();
    assert!(!is_unsaved(&path), "nothing is in it");
    fixture.ensure_good();
    assert!(!is_unsaved(&path));
    git(&path, &["checkout", "--quiet", "--detach"]);
    assert!(!is_unsaved(&path), "a branch has that commit");
    git(&path, &["commit", "--quiet", "--allow-empty", "-m", "on no branch"]);
    assert!(is_unsaved(&path));
    git(&path, &["checkout", "--quiet", "longhaul/run_1"]);
    fs::write(path.join("new"), "x").unwrap();
    assert!(is_unsaved(&path));
    fs::remove_file(path.join("new")).unwrap();
    assert!(!is_unsaved(&path));
    let moved = repo.with_file_name("moved");
    fs::rename(&repo, &moved).unwrap();
    assert!(is_unsaved(&path), "its repository is elsewhere");
    fs::rename(&moved, &repo).unwrap();
    // A repository of the agent's own goes with its directory, and so do its branches.
    fs::remove_dir_all(path.join(".git")).unwrap();
    assert!(is_unsaved(&path), "no repository at all");
    git(&path, &["init", "--quiet"]);
    git(&path, &["add", "."]);
    git(&path, &["commit", "--quiet", "-m", "its own"]);
    assert!(is_unsaved(&path));
    // Within a checkout, git would answer for that one.
    let inner = repo.join("inner");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("work"), "x").unwrap();
    fs::write(repo.join(".git/info/exclude"), "inner\nuntracked\n").unwrap();
    git(&repo, &["checkout", "--quiet", "--", "file"]);
    assert!(is_unsaved(&inner));
}

/// D14.8: what stands where another repository belongs, or is one, is nowhere else, whatever commit of it is named outside. An empty
/// directory, as git makes it for a submodule, holds nothing.
#[test]
fn work_in_an_inner_repository_is_unsaved() {
    let fixture = Fixture::new();
    fixture.ensure_good();
    let path = fixture.path();
    let inner = path.join("inner");
    git(&path, &["init", "--quiet", "inner"]);
    fs::write(inner.join("work"), "x").unwrap();
    git(&inner, &["add", "work"]);
    git(&inner, &["commit", "--quiet", "-m", "inner"]);
    assert!(is_unsaved(&path), "git names it as new");
    git(&path, &["add", "inner"]);
    git(&path, &["commit", "--quiet", "-m", "outer"]);
    assert_eq!(git(&path, &["status", "--porcelain"]), "", "void: git names it still");
    assert!(is_unsaved(&path));
    fs::remove_dir_all(inner.join(".git")).unwrap();
    assert!(is_unsaved(&path), "a file that no commit has");
    fs::remove_file(inner.join("work")).unwrap();
    assert!(is_unsaved(&path), "its commit is not at home");
    publish(&path, &fixture.path().with_file_name("scratch")).came.unwrap();
    assert!(!is_unsaved(&path));
}

/// A worktree that git refuses to make leaves no directory that would be taken for it, whoever made that.
#[test]
fn a_place_that_cannot_be_made_is_not_half_there() {
    let fixture = Fixture::new();
    git(&fixture.repo(), &["checkout", "--quiet", "-b", "longhaul/run_1"]);
    for is_there in [false, true] {
        if is_there {
            fs::create_dir_all(fixture.path()).unwrap();
        }
        assert!(matches!(ensure(&fixture.place()), Err(Error::Git(_))));
        assert!(!fixture.path().exists());
        assert!(is_gone(&fixture.place()));
    }
    git(&fixture.repo(), &["checkout", "--quiet", "main"]);
    fixture.ensure_good();
    assert!(!is_gone(&fixture.place()));
}

/// D14.8: a worktree whose directory is gone is forgotten, but not while somebody is making it again, and not because its directory
/// cannot be looked at. No directory is left that was only made to ask.
#[test]
fn a_worktree_that_is_being_made_again_is_not_forgotten() {
    let fixture = Fixture::new();
    fixture.ensure_good();
    let below = fixture.path().parent().unwrap().to_owned();
    let (repo, is_listed) = (fixture.repo(), || fixture.administration().exists());
    let forgotten = || unlist_gone(&repo, &below).unwrap();
    assert_eq!((forgotten(), is_listed()), (0, true), "it is there");
    fs::remove_dir_all(&below).unwrap();
    fs::write(&below, "no directory").unwrap();
    assert_eq!((forgotten(), is_listed()), (0, true), "nobody knows");
    fs::remove_file(&below).unwrap();
    fs::create_dir_all(fixture.path()).unwrap();
    let held = fs::File::open(fixture.path()).unwrap();
    held.lock().unwrap();
    assert_eq!((forgotten(), is_listed()), (0, true), "somebody is making it");
    remove(&fixture.place()).unwrap();
    assert!(!is_listed(), "whoever takes it away knows better");
    drop(held);
    fixture.ensure_good();
    fs::remove_dir_all(&below).unwrap();
    assert_eq!((forgotten(), is_listed()), (1, false));
    assert!(!below.exists());
    fixture.ensure_good();
}
