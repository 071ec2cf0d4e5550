//! Joining branches: all of them or nothing, and nothing of the user's lost by it.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use longhaul_workspace::joining::{Error, Resolved, Target};
use longhaul_workspace::landing::{self, Work};
use longhaul_workspace::place::{self, Place};
use tempfile::TempDir;

struct Fixture(TempDir);

impl Fixture {
    fn new() -> Fixture {
        let fixture = Fixture(tempfile::tempdir().unwrap());
        fs::create_dir(fixture.repo()).unwrap();
        fixture.git(&["init", "-q", "--initial-branch=main"]);
        fixture.git(&["config", "user.name", "x"]);
        fixture.git(&["config", "user.email", "x@x"]);
        fixture.commit("shared", "first\n");
        fixture
    }

    fn repo(&self) -> PathBuf {
        self.0.path().join("repo")
    }

    fn git(&self, args: &[&str]) -> String {
        let done = Command::new("git").args(args).current_dir(self.repo()).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
    }

    fn commit(&self, name: &str, text: &str) {
        fs::write(self.repo().join(name), text).unwrap();
        self.git(&["add", "."]);
        self.git(&["commit", "-q", "-m", name]);
    }

    /// A run that has left a file in its worktree.
    fn work(&self, run: &str, name: &str, text: &str) -> Work {
        let (worktree, branch) = (self.0.path().join(run), format!("agent/s/{run}"));
        let start = Some(self.git(&["rev-parse", "main"]));
        let (repo, path) = (self.repo(), worktree.clone());
        place::ensure(&Place::Worktree { repo, path, branch: branch.clone(), start: start.clone() }).unwrap();
        fs::write(worktree.join(name), text).unwrap();
        let (title, scratch) = (run.to_owned(), self.0.path().join("scratch"));
        let repository = self.repo();
        Work {
            run: run.to_owned(),
            title,
            repository,
            worktree,
            branch,
            base: start,
            carried: false,
            scratch,
        }
    }

    fn target(&self, branch: &str) -> Target {
        Target { repository: self.repo(), branch: branch.to_owned(), scratch: self.0.path().join("scratch") }
    }

    fn state(&self) -> [String; 3] {
        [&["rev-parse", "main"][..], &["status", "--porcelain"], &["stash", "create"]]
            .map(|args| self.git(args))
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// D16.3: in order, as one commit with every branch as a parent; one branch on top needs none of its own.
#[test]
fn branches_become_one_commit() {
    let fixture = Fixture::new();
    let works =
        [fixture.work("one", "a", "1\n"), fixture.work("two", "b", "2\n"), fixture.work("three", "c", "3\n")];
    let target = fixture.target("main");
    let before = fixture.state();
    let joined = target.join(&works, "them", &[]).unwrap();
    assert_eq!(fixture.state(), before, "working it out changes nothing");
    let landed = target.land(&joined, "them").unwrap();
    assert_eq!(landed.commit, Some(fixture.git(&["rev-parse", "main"])));
    let tips = works.clone().map(|work| fixture.git(&["rev-parse", &work.branch])).join(" ");
    assert_eq!(fixture.git(&["log", "-1", "--format=%P"]), format!("{} {tips}", before[0]));
    assert_eq!(["a", "b", "c"].map(|name| text(&fixture.repo().join(name))), ["1\n", "2\n", "3\n"]);
    assert_eq!(fixture.git(&["status", "--porcelain"]), "");
    let again = target.join(&works, "them", &[]).unwrap();
    assert_eq!((&again.to, again.runs.len(), again.known.len()), (&again.from, 0, 3));
    let alone = [fixture.work("four", "d", "4\n")];
    let joined = target.join(&alone, "it", &[]).unwrap();
    assert_eq!(joined.to, fixture.git(&["rev-parse", "agent/s/four"]));
}

/// D16.3: a conflict says which run, which files and with what; it is known again by its sides, and what somebody made of it is used.
#[test]
fn a_conflict_is_all_there_is() {
    let fixture = Fixture::new();
    let works = [
        fixture.work("left", "shared", "left\n"),
        fixture.work("right", "shared", "right\n"),
        fixture.work("late", "c", "3\n"),
    ];
    let (target, before) = (fixture.target("main"), fixture.state());
    let Err(Error::Conflict(conflict)) = target.join(&works, "them", &[]) else { panic!("no conflict") };
    assert_eq!((conflict.run.as_str(), &conflict.before[..]), ("right", &["agent/s/left".to_owned()][..]));
    assert_eq!(conflict.paths, [PathBuf::from("shared")]);
    assert_eq!(fixture.state(), before);
    let marked = fixture.git(&["show", &format!("{}:shared", conflict.commit)]);
    assert!(marked.contains("<<<<<<<") && marked.contains("left") && marked.contains("right"), "{marked}");
    let made = fixture.work("made", "shared", "both\n").result().unwrap().tree;
    let other = Resolved { agent: String::new(), sides: vec![before[0].clone()], tree: made.clone() };
    assert!(matches!(target.join(&works, "them", &[other]), Err(Error::Conflict(_))), "of another conflict");
    let resolved = Resolved { agent: String::new(), sides: conflict.sides.clone(), tree: made };
    let joined = target.join(&works, "them", &[resolved]).unwrap();
    target.land(&joined, "them").unwrap();
    assert_eq!(["shared", "c"].map(|name| text(&fixture.repo().join(name))), ["both\n", "3\n"]);
}

/// D16.3: a conflict that no mark can show is resolved only by a change of it or by saying that it is right, and no name that git made up may stay.
#[test]
fn a_conflict_without_marks_is_not_resolved_by_doing_nothing() {
    // What one side does, what the other does, what is named as left, and what resolves it.
    let cases = [
        ("printf '\\0l' > bin", "printf '\\0r' > bin", "has resolved nothing in bin", "printf '\\0b' > bin"),
        ("ln -sfn l link", "ln -sfn r link", "has resolved nothing in link", "ln -sfn both link"),
        ("printf '\\0l' > new", "printf '\\0r' > new", "has resolved nothing in new", "rm new"),
        ("rm d/b", "echo more >> d/b", "has resolved nothing in d/b", "rm d/b"),
        ("echo more >> d/b", "rm d/b", "has resolved nothing in d/b", "echo again >> d/b"),
        ("mv long one", "mv long two", "has resolved nothing in long, one, two", "rm two"),
        ("echo 1 > d/b", "echo 2 > d/b", "has left conflict marks in d/b", "echo 3 > d/b"),
        (
            "rm d/b; mkdir d/b; echo x > d/b/x",
            "echo more >> d/b",
            "has resolved nothing in d/b, d/b~SIDE, and has left the names that git made up for d/b~SIDE",
            "rm d/b~*",
        ),
    ];
    for (left, right, expected, resolution) in cases {
        let fixture = Fixture::new();
        fs::create_dir(fixture.repo().join("d")).unwrap();
        sh(&fixture.repo(), "printf '\\0' > bin; ln -s a link; seq 30 > long");
        fixture.commit("d/b", "b\n");
        let works = [("left", left), ("right", right)].map(|(run, line)| {
            let work = fixture.work(run, run, "x\n");
            sh(&work.worktree, line);
            work
        });
        let target = fixture.target("main");
        let Err(Error::Conflict(conflict)) = target.join(&works, "them", &[]) else { panic!("{left}") };
        let place = fixture.0.path().join("made");
        place::detached(&fixture.repo(), &place, &conflict.commit).unwrap();
        let made = |line: &str, right: &BTreeSet<PathBuf>| {
            sh(&place, line);
            let tree = Work { worktree: place.clone(), ..works[0].clone() }.result().unwrap().tree;
            target.unresolved(&conflict, &tree, right).unwrap().said()
        };
        let nothing = BTreeSet::new();
        let said = made("echo beside > other", &nothing).unwrap_or_default();
        // Whoever says that it is right as it stands has looked; of marks and made-up names nobody can say that.
        for contested in &conflict.unmarked {
            let right = BTreeSet::from([contested[0].path.clone()]);
            let left = made("true", &right).unwrap_or_default();
            assert!(!left.contains("has resolved nothing"), "{left}");
            assert_eq!(left.is_empty(), conflict.made_up.is_empty(), "{left}");
        }
        let sides = said.split(['~', ',', ' ']).filter(|word| word.len() == 40).map(str::to_owned);
        let said =
            sides.collect::<Vec<_>>().iter().fold(said.clone(), |said, side| said.replace(side, "SIDE"));
        assert_eq!((said.as_str(), made(resolution, &nothing)), (expected, None), "{left} | {right}");
    }
}

fn sh(directory: &Path, line: &str) {
    let done = Command::new("sh").args(["-ec", line]).current_dir(directory).output().unwrap();
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
}

/// What the user has not committed, and a branch that somebody moved meanwhile, stay as they are.
#[test]
fn nothing_of_the_users_is_lost() {
    let fixture = Fixture::new();
    let works = [fixture.work("one", "shared", "1\n"), fixture.work("two", "b", "2\n")];
    let target = fixture.target("main");
    let joined = target.join(&works, "them", &[]).unwrap();
    fs::write(fixture.repo().join("shared"), "mine\n").unwrap();
    let before = fixture.git(&["rev-parse", "main"]);
    let refused = target.land(&joined, "them").unwrap_err();
    assert!(matches!(refused, Error::Landing(landing::Error::Uncommitted { .. })), "{refused}");
    assert_eq!(
        (text(&fixture.repo().join("shared")).as_str(), fixture.git(&["rev-parse", "main"])),
        ("mine\n", before)
    );
    fs::write(fixture.repo().join("shared"), "first\n").unwrap();
    fs::write(fixture.repo().join("b"), "untracked\n").unwrap();
    let refused = target.land(&joined, "them").unwrap_err();
    let is_in_the_way = matches!(
        refused,
        Error::Landing(landing::Error::InTheWay { .. } | landing::Error::Uncommitted { .. })
    );
    assert!(is_in_the_way, "{refused}");
    assert_eq!(text(&fixture.repo().join("b")), "untracked\n");
    fs::remove_file(fixture.repo().join("b")).unwrap();
    fixture.commit("meanwhile", "x\n");
    let moved = fixture.git(&["rev-parse", "main"]);
    let refused = target.land(&joined, "them").unwrap_err();
    assert!(matches!(refused, Error::Moved { .. }), "{refused}");
    assert_eq!(fixture.git(&["rev-parse", "main"]), moved);
    // The same where nobody has it checked out.
    fixture.git(&["branch", "next", &joined.from]);
    let beside = fixture.target("next");
    fixture.git(&["update-ref", "refs/heads/next", &moved]);
    assert!(matches!(beside.land(&joined, "them"), Err(Error::Moved { .. })));
    assert_eq!(fixture.git(&["rev-parse", "next"]), moved);
    let joined = beside.join(&works, "them", &[]).unwrap();
    beside.land(&joined, "them").unwrap();
    assert_eq!(fixture.git(&["show", "next:shared", "next:b", "next:meanwhile"]), "1\n2\nx");
    assert_eq!(fixture.git(&["rev-parse", "main"]), moved);
    assert!(matches!(fixture.target("none").join(&works, "them", &[]), Err(Error::NoBranch { .. })));
}

/// A git that is killed alone, with the branch's lock in its hand, keeps nobody from moving the branch later.
#[test]
fn the_lock_of_a_git_that_was_killed_alone_is_cleared() {
    let fixture = Fixture::new();
    let works = [fixture.work("one", "a", "1\n")];
    fixture.git(&["branch", "held"]);
    let target = fixture.target("held");
    let joined = target.join(&works, "it", &[]).unwrap();
    let lock = fixture.repo().join(".git/refs/heads/held.lock");
    let log = fixture.repo().join(".git/logs/refs/heads/held");
    // Git writes its log while it holds the lock, and here waits for somebody to read that.
    fs::remove_file(&log).unwrap();
    sh(&fixture.repo(), "mkfifo .git/logs/refs/heads/held");
    std::thread::scope(|scope| {
        let landing = scope.spawn(|| target.land(&joined, "it"));
        let began = Instant::now();
        while !lock.exists() {
            assert!(began.elapsed() < Duration::from_secs(60) && !landing.is_finished(), "git never began");
            std::thread::sleep(Duration::from_millis(5));
        }
        // The bracket keeps the shell that looks for it from finding itself.
        let found = format!("pgrep -P {} -f 'update-re[f].*heads/held'", std::process::id());
        sh(&fixture.repo(), &format!("kill -9 $({found})"));
        assert!(landing.join().unwrap().is_err());
    });
    assert!(lock.exists(), "it is left");
    fs::remove_file(&log).unwrap();
    target.land(&joined, "it").unwrap();
    assert!(!lock.exists());
    assert_eq!(fixture.git(&["rev-parse", "held"]), joined.to);
}

/// A name for a branch is one that nobody has, however the agent is called.
#[test]
fn a_free_name_is_found() {
    let fixture = Fixture::new();
    let free = |agent: &str, taken: &[&str]| {
        let taken: Vec<String> = taken.iter().map(|name| (*name).to_owned()).collect();
        place::free_branch(&fixture.repo(), "agent/s/", agent, &taken).unwrap()
    };
    assert_eq!(free("front", &[]), "agent/s/front");
    assert_eq!(free("front", &["agent/s/front"]), "agent/s/front-2");
    fixture.git(&["branch", "agent/s/front"]);
    assert_eq!(free("Front", &["agent/s/front-2"]), "agent/s/front-3");
    fixture.git(&["branch", "agent/s/deep/er"]);
    assert_eq!(free("deep", &[]), "agent/s/deep-2");
    assert_eq!(free("../x\n--y", &[]), "agent/s/x---y");
    assert_eq!(free("日本", &[]), "agent/s/agent");
}
