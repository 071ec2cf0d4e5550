//! A run's work in real repositories: looked at, committed, brought into the user's checkout, refused, and killed half way.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use longhaul_workspace::checkout::{self, Checkout, Filters};
use longhaul_workspace::commit::{self, Kept, commit};
use longhaul_workspace::index_lock;
use longhaul_workspace::landing::{Error, Form, How, Landed, Work, apply, merge, settle};
use longhaul_workspace::place::{Place, ensure};
use tempfile::TempDir;

struct Fixture {
    outer: TempDir,
}

impl Fixture {
    /// A repository, and a run's worktree of it.
    fn new() -> Fixture {
        let fixture = Fixture { outer: tempfile::tempdir().unwrap() };
        let repo = fixture.repo();
        fs::create_dir_all(repo.join("src")).unwrap();
        git(&repo, &["init", "--quiet", "--initial-branch=main"]);
        git(&repo, &["config", "user.name", "The User"]);
        git(&repo, &["config", "user.email", "user@example.com"]);
        write(&repo, "file", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n");
        write(&repo, "src/lib.rs", "// code\n");
        write(&repo, "other", "other\n");
        write(&repo, ".gitignore", "ignored*\n");
        git(&repo, &["add", "."]);
        git(&repo, &["commit", "--quiet", "-m", "first"]);
        fixture.add_worktree();
        fixture
    }

    fn add_worktree(&self) {
        let (repo, path) = (self.repo(), self.tree());
        ensure(&Place::Worktree { repo, path, branch: "longhaul/run_1".to_owned(), start: None }).unwrap();
    }

    fn base(&self) -> PathBuf {
        self.outer.path().canonicalize().unwrap()
    }

    fn repo(&self) -> PathBuf {
        self.base().join("repo")
    }

    fn tree(&self) -> PathBuf {
        self.base().join("work/run_1")
    }

    fn scratch(&self) -> PathBuf {
        self.base().join("scratch")
    }

    fn work(&self) -> Work {
        Work {
            run: "run_1".to_owned(),
            title: "Do it".to_owned(),
            repository: self.repo(),
            worktree: self.tree(),
            branch: "longhaul/run_1".to_owned(),
            base: Some(git(&self.repo(), &["rev-list", "--max-parents=0", "HEAD"])),
            carried: false,
            scratch: self.scratch(),
        }
    }

    fn kept(&self) -> Result<commit::Kept, commit::Error> {
        let tree = Checkout::open(&self.tree(), &self.scratch(), Filters::Failing).unwrap();
        let (kept, done) = commit(&tree, "run_1", "Do it");
        done.came.unwrap();
        kept
    }

    fn commit(&self) -> Result<commit::Committed, commit::Error> {
        self.kept().map(|kept| match kept {
            Kept::Committed(committed) => committed,
            Kept::Unchanged { head } => panic!("nothing to commit on {head}"),
        })
    }

    /// Everything of the user's checkout: its files with their bytes, what git says of them, its branch and its index.
    fn checkout(&self) -> (Vec<(PathBuf, Vec<u8>)>, String, String, String) {
        let repo = self.repo();
        let status = git(&repo, &["status", "--porcelain", "--ignored"]);
        let staged = git(&repo, &["ls-files", "--stage"]);
        (files(&repo, &repo), status, git(&repo, &["rev-parse", "main", "HEAD"]), staged)
    }
}

fn files(top: &Path, dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with(".git") {
            continue;
        }
        if path.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            found.push((path, target.into_os_string().into_encoded_bytes()));
        } else if path.is_dir() {
            found.extend(files(top, &path));
        } else {
            found.push((path.strip_prefix(top).unwrap().to_owned(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn read(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).unwrap()
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(directory).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn names(paths: &[PathBuf]) -> Vec<&str> {
    paths.iter().map(|path| path.to_str().unwrap()).collect()
}

#[test]
fn what_a_run_has_made_is_shown_committed_or_not() {
    let fixture = Fixture::new();
    let tree = fixture.tree();
    write(&tree, "file", "one\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n");
    git(&tree, &["commit", "--quiet", "-am", "agent"]);
    write(&tree, "new name\nwith a break", "x\n");
    write(&tree, "ignored.log", "x\n");
    fs::remove_file(tree.join("src/lib.rs")).unwrap();
    let work = fixture.work();
    let work = Work { base: Some(git(&fixture.repo(), &["rev-parse", "main"])), ..work };
    let before = fixture.checkout();
    let index = fs::read(fixture.tree().join(".git/index")).unwrap();
    let result = work.result().unwrap();
    let listed = work.diff(&result, Form::Names).unwrap();
    assert_eq!(String::from_utf8(listed).unwrap(), "file\0new name\nwith a break\0src/lib.rs\0");
    let patch = String::from_utf8(work.diff(&result, Form::Patch).unwrap()).unwrap();
    assert!(patch.contains("-seven\n+SEVEN"), "{patch}");
    // Looking changes nothing, neither here nor there.
    assert_eq!(fixture.checkout(), before);
    assert_eq!(fs::read(fixture.tree().join(".git/index")).unwrap(), index);
    assert!(fs::read_dir(fixture.scratch()).unwrap().next().is_none(), "nothing is left behind");
}

#[test]
fn work_is_applied_to_files_and_merged_with_what_changed_here() {
    let fixture = Fixture::new();
    let (repo, tree) = (fixture.repo(), fixture.tree());
    let work = fixture.work();
    write(&tree, "file", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    write(&tree, "deep/er/new", "new\n");
    fs::remove_file(tree.join("src/lib.rs")).unwrap();
    symlink("file", tree.join("link")).unwrap();
    write(&tree, "script", "#!/bin/sh\n");
    fs::set_permissions(tree.join("script"), fs::Permissions::from_mode(0o755)).unwrap();
    // The same file has gone on here, at another line, and another has changes that are not committed.
    write(&repo, "file", "one\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n");
    git(&repo, &["commit", "--quiet", "-am", "meanwhile"]);
    write(&repo, "other", "mine\n");
    write(&repo, "untracked", "mine\n");
    let head = git(&repo, &["rev-parse", "HEAD"]);

    let landed = apply(&work).unwrap();
    assert_eq!(landed.changes.len(), 5);
    assert_eq!(read(&repo, "file"), "ONE\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n");
    assert_eq!(read(&repo, "deep/er/new"), "new\n");
    assert!(!repo.join("src").exists());
    assert_eq!(fs::read_link(repo.join("link")).unwrap(), Path::new("file"));
    assert_eq!(fs::metadata(repo.join("script")).unwrap().permissions().mode() & 0o111, 0o111);
    assert_eq!((read(&repo, "other"), read(&repo, "untracked")), ("mine\n".to_owned(), "mine\n".to_owned()));
    assert_eq!(git(&repo, &["rev-parse", "HEAD"]), head);
    assert_eq!(git(&repo, &["diff", "--cached", "--name-only"]), "", "nothing is staged");
    // Once more finds everything there.
    assert_eq!(apply(&work).unwrap().changes, []);
}

/// A12, A60: what an agent puts where longhaul keeps its state, an answer to its own question for one, never gets there.
#[test]
fn no_work_lands_in_the_state() {
    let planted = [".longhaul/runs/run_1/inbox/forged", "sub/.Longhaul/x", "state/answers/run_1.g1"];
    for name in planted {
        for is_committed in [false, true] {
            let fixture = Fixture::new();
            let (repo, tree) = (fixture.repo(), fixture.tree());
            let work = Work { scratch: repo.join("state/scratch"), ..fixture.work() };
            write(&tree, "file", "changed\n");
            write(&tree, name, "yes\n");
            if is_committed {
                git(&tree, &["add", "--force", "."]);
                git(&tree, &["commit", "--quiet", "-m", "work"]);
            }
            let is_refused = |land: fn(&Work) -> Result<Landed, Error>| {
                let refused = land(&work).unwrap_err();
                assert!(matches!(&refused, Error::OwnState { paths } if names(paths) == [name]), "{refused}");
                assert!(!repo.join(name).exists() && read(&repo, "file").starts_with("one\n"), "{name}");
            };
            is_refused(apply);
            if is_committed || name.starts_with("state/") {
                is_refused(merge);
            } else {
                // To be merged, work is committed first, and this is left out of it.
                merge(&work).unwrap();
                assert!(!repo.join(name).exists() && read(&repo, "file") == "changed\n", "{name}");
            }
        }
    }
}

#[test]
fn nothing_of_the_users_is_touched_that_is_not_committed() {
    let fixture = Fixture::new();
    let (repo, tree) = (fixture.repo(), fixture.tree());
    let work = fixture.work();
    write(&tree, "file", "ONE\n");
    write(&tree, "new", "agent\n");
    write(&tree, "fine", "agent\n");
    write(&tree, "ignored-but-added", "agent\n");
    git(&tree, &["add", "--force", "ignored-but-added"]);
    write(&repo, "file", "mine\n");
    let before = fixture.checkout();
    let refused = |error: Error| match error {
        Error::Uncommitted { paths } | Error::Conflicts { paths } | Error::InTheWay { paths } => paths,
        error @ (Error::Gone { .. }
        | Error::Unrelated
        | Error::Unmerged { .. }
        | Error::Filtered { .. }
        | Error::OwnState { .. }
        | Error::Detached { .. }
        | Error::Busy
        | Error::Unsettled { .. }) => {
            panic!("{error}")
        }
        error @ (Error::Commit(_) | Error::Lock(_) | Error::Apart(_) | Error::Checkout(_)) => {
            panic!("{error}")
        }
    };
    assert_eq!(names(&refused(apply(&work).unwrap_err())), ["file"]);
    assert_eq!(names(&refused(merge(&work).unwrap_err())), ["file"]);
    assert_eq!(fixture.checkout(), before);

    // Staged only, and put back on disk: there is work in the index.
    git(&repo, &["add", "file"]);
    write(&repo, "file", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    let before = fixture.checkout();
    assert_eq!(names(&refused(merge(&work).unwrap_err())), ["file"]);
    assert_eq!(fixture.checkout(), before);
    git(&repo, &["reset", "--quiet", "--hard"]);

    // Untracked, and ignored, where the run has a file.
    write(&repo, "new", "mine\n");
    let before = fixture.checkout();
    assert_eq!(names(&refused(apply(&work).unwrap_err())), ["new"]);
    assert_eq!(names(&refused(merge(&work).unwrap_err())), ["new"]);
    assert_eq!(fixture.checkout(), before);
    fs::remove_file(repo.join("new")).unwrap();
    write(&repo, "ignored-but-added", "mine\n");
    let before = fixture.checkout();
    assert_eq!(names(&refused(apply(&work).unwrap_err())), ["ignored-but-added"]);
    assert_eq!(names(&refused(merge(&work).unwrap_err())), ["ignored-but-added"]);
    assert_eq!(fixture.checkout(), before);
    fs::remove_file(repo.join("ignored-but-added")).unwrap();

    // A directory full of ignored files where the run has a file.
    write(&repo, "fine/ignored", "mine\n");
    let before = fixture.checkout();
    assert_eq!(names(&refused(apply(&work).unwrap_err())), ["fine"]);
    assert_eq!(names(&refused(merge(&work).unwrap_err())), ["fine"]);
    assert_eq!(fixture.checkout(), before);
    fs::remove_dir_all(repo.join("fine")).unwrap();
    assert!(merge(&work).unwrap().commit.is_some(), "void: nothing was in the way but that");
}

/// What the user told git to pass over is the user's all the same. It is not carried anywhere, and git goes on passing it over.
#[test]
fn nothing_is_touched_that_git_passes_over() {
    for option in ["--assume-unchanged", "--skip-worktree"] {
        let fixture = Fixture::new();
        let (repo, work) = (fixture.repo(), fixture.work());
        write(&fixture.tree(), "file", "agent\n");
        write(&fixture.tree(), "new", "agent\n");
        git(&repo, &["update-index", option, "file", "other", "src/lib.rs"]);
        write(&repo, "file", "mine\n");
        if option == "--skip-worktree" {
            // As in a sparse checkout.
            fs::remove_file(repo.join("src/lib.rs")).unwrap();
        }
        let tags = || git(&repo, &["ls-files", "-v"]);
        let (before, passed_over) = (fixture.checkout(), tags());
        assert!(before.1.is_empty(), "void: git sees it by itself");
        for landed in [apply(&work), merge(&work)] {
            let is_refused = matches!(&landed, Err(Error::Uncommitted { paths }) if names(paths) == ["file"]);
            assert!(is_refused, "{option}: {landed:?}");
        }
        assert_eq!((fixture.checkout(), tags()), (before, passed_over.clone()), "{option}");
        let checkout = Checkout::open(&repo, &fixture.scratch(), Filters::Absent).unwrap();
        let carried = checkout.carry("run_2").unwrap();
        assert_eq!(git(&repo, &["diff", "--name-only", "HEAD", &carried]), "", "{option}");
        // What the run leaves alone is in nobody's way.
        git(&fixture.tree(), &["checkout", "--quiet", "HEAD~1", "--", "file"]);
        assert!(merge(&work).unwrap().commit.is_some());
        assert_eq!((read(&repo, "file"), read(&repo, "new")), ("mine\n".to_owned(), "agent\n".to_owned()));
        assert_eq!(tags().replace("H new\n", ""), passed_over, "{option}");
    }
}

/// A link of the user's leads nowhere for a run's files.
#[test]
fn no_file_is_written_through_a_link() {
    let fixture = Fixture::new();
    let outside = fixture.base().join("outside");
    fs::create_dir(&outside).unwrap();
    write(&fixture.tree(), "ignored-link/new", "agent\n");
    git(&fixture.tree(), &["add", "--force", "."]);
    symlink(&outside, fixture.repo().join("ignored-link")).unwrap();
    assert!(matches!(apply(&fixture.work()), Err(Error::InTheWay { .. })));
    assert!(matches!(merge(&fixture.work()), Err(Error::InTheWay { .. })));
    assert!(fs::read_dir(&outside).unwrap().next().is_none());
    fs::remove_file(fixture.repo().join("ignored-link")).unwrap();
    assert_eq!(apply(&fixture.work()).unwrap().changes.len(), 1);
}

#[test]
fn a_merge_is_a_commit_or_nothing() {
    let fixture = Fixture::new();
    let (repo, tree) = (fixture.repo(), fixture.tree());
    let work = fixture.work();
    write(&tree, "file", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    write(&repo, "file", "1\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    git(&repo, &["commit", "--quiet", "-am", "meanwhile"]);
    write(&repo, "other", "mine\n");
    write(&repo, "staged", "mine\n");
    git(&repo, &["add", "staged"]);
    let before = fixture.checkout();
    for landed in [apply(&work), merge(&work)] {
        assert!(matches!(landed, Err(Error::Conflicts { paths }) if names(&paths) == ["file"]));
    }
    assert_eq!(fixture.checkout(), before);

    // Without the conflict, both sides are there, and what was not committed still is not.
    git(&tree, &["checkout", "--quiet", "HEAD~0", "--", "."]);
    write(&tree, "file", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    write(&repo, "file", "one\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n");
    git(&repo, &["commit", "--quiet", "--only", "file", "-m", "moved"]);
    let head = git(&repo, &["rev-parse", "HEAD"]);
    let landed = merge(&work).unwrap();
    let commit = landed.commit.unwrap();
    assert_eq!(git(&repo, &["rev-parse", "main"]), commit);
    assert_eq!(git(&repo, &["rev-parse", "HEAD^1", "ORIG_HEAD"]), format!("{head}\n{head}"));
    assert_eq!(
        git(&repo, &["log", "-1", "--format=%an %(trailers:key=Longhaul-Run,valueonly)"]),
        "The User run_1"
    );
    assert_eq!(read(&repo, "file"), "ONE\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n");
    assert_eq!(git(&repo, &["status", "--porcelain"]), " M other\nA  staged");
    assert_eq!(merge(&work).unwrap().commit, None, "all of it is here");
    git(&repo, &["fsck", "--strict"]);
}

#[test]
fn a_merge_wants_a_branch_and_nothing_under_way() {
    let fixture = Fixture::new();
    write(&fixture.tree(), "new", "x\n");
    git(&fixture.repo(), &["checkout", "--quiet", "--detach"]);
    assert!(matches!(merge(&fixture.work()), Err(Error::Detached { .. })));
    assert_eq!(apply(&fixture.work()).unwrap().changes.len(), 1, "files need no branch");
    fs::remove_file(fixture.repo().join("new")).unwrap();
    git(&fixture.repo(), &["checkout", "--quiet", "main"]);
    fs::write(fixture.repo().join(".git/MERGE_HEAD"), git(&fixture.repo(), &["rev-parse", "HEAD"])).unwrap();
    assert!(matches!(merge(&fixture.work()), Err(Error::Commit(commit::Error::UnderWay { .. }))));
    fs::remove_file(fixture.repo().join(".git/MERGE_HEAD")).unwrap();
    assert!(merge(&fixture.work()).unwrap().commit.is_some());
}

/// A12: what an agent leaves where states are kept is not committed as work; what is committed there already is not taken away.
#[test]
fn what_lies_where_states_are_kept_is_not_committed() {
    let fixture = Fixture::new();
    let tree = fixture.tree();
    write(&tree, "sub/.longhaul/tracked", "x\n");
    git(&tree, &["add", "-f", "sub"]);
    git(&tree, &["commit", "-qm", "tracked"]);
    for path in [".longhaul/runs/planted", "a/.LongHaul/planted", "sub/.longhaul/planted"] {
        write(&tree, path, "x\n");
    }
    write(&tree, "sub/.longhaul/tracked", "y\n");
    write(&tree, "new", "x\n");
    git(&tree, &["add", "-f", ".longhaul"]);
    let first = fixture.commit().unwrap();
    assert_eq!(git(&tree, &["show", "--name-status", "--format="]), "A\tnew\nM\tsub/.longhaul/tracked");
    assert_eq!(fixture.commit().unwrap(), first, "the same again");
}

/// D5.2: one commit with the run's name in it, and none where nothing has changed.
#[test]
fn work_is_committed_once() {
    let fixture = Fixture::new();
    let tree = fixture.tree();
    let head = |tree: &Path| git(tree, &["rev-parse", "HEAD"]);
    assert_eq!(fixture.kept().unwrap(), Kept::Unchanged { head: head(&tree) });
    write(&tree, "new", "x\n");
    write(&tree, "ignored", "x\n");
    fs::remove_file(tree.join("other")).unwrap();
    let first = fixture.commit().unwrap();
    assert_eq!(first.branch.as_deref(), Some("longhaul/run_1"));
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
    assert_eq!(
        git(&tree, &["log", "-1", "--format=%an|%s|%(trailers:only)"]),
        "The User|Do it|Longhaul-Run: run_1"
    );
    assert_eq!(git(&tree, &["show", "--name-status", "--format="]), "A\tnew\nD\tother");
    assert_eq!(fixture.commit().unwrap(), first, "the same again");
    assert_eq!(git(&tree, &["rev-list", "--count", "HEAD"]), "2");
    // Killed after the branch had moved and before its index was there.
    git(&tree, &["read-tree", "HEAD~1"]);
    assert_ne!(git(&tree, &["status", "--porcelain"]), "");
    assert_eq!(fixture.commit().unwrap(), first);
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
    assert_eq!(git(&fixture.repo(), &["status", "--porcelain"]), "");
    // What the agent committed itself is known by where the branch is.
    write(&tree, "own", "x\n");
    git(&tree, &["add", "own"]);
    git(&tree, &["commit", "--quiet", "--message=own"]);
    assert_eq!(fixture.kept().unwrap(), Kept::Unchanged { head: head(&tree) });
}

/// F48: in a run's own worktree, what a dead process left is cleared, and what a living one holds never is.
#[test]
fn only_the_lock_of_a_dead_process_is_cleared() {
    let fixture = Fixture::new();
    let own = fixture.tree().join(".git");
    let lock = own.join("index.lock");
    // Somebody who has it open; a git that has closed it and waits for an editor.
    let open = ["bash", "-c", r#"exec 7> "$LOCK"; echo; exec cat"#];
    let waiting = ["git", "commit", "--all"];
    for words in [open, waiting] {
        write(&fixture.tree(), "file", words[2]);
        let mut holder = Command::new(words[0]);
        holder.args(&words[1..]).current_dir(fixture.tree()).env("LOCK", &lock);
        holder.env("GIT_EDITOR", "echo; cat -; :").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        holder.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let refused = fixture.commit().unwrap_err();
        assert!(matches!(refused, commit::Error::Lock(index_lock::Error::Foreign { .. })), "{refused}");
        assert!(lock.exists());
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(lock.exists(), "it is left");
        fs::write(own.join("HEAD.lock"), "").unwrap();
        fixture.commit().unwrap();
        assert!(!lock.exists() && !own.join("HEAD.lock").exists());
    }
    write(&fixture.tree(), "new", "x\n");
    let own = longhaul_workspace::process::Process::own();
    let said = |pid: i32| {
        format!("longhaul {{\"pid\":{pid},\"started\":{},\"host\":\"{}\"}}\n", own.started, own.host)
    };
    fs::write(&lock, said(own.pid)).unwrap();
    assert!(matches!(fixture.commit(), Err(commit::Error::Lock(index_lock::Error::Ours { .. }))));
    // What became of a process of another host cannot be told here, so where its lock is has to be.
    fs::write(&lock, said(i32::MAX).replace(&own.host, "elsewhere")).unwrap();
    let refused = fixture.commit().unwrap_err().to_string();
    assert!(refused.contains(lock.to_str().unwrap()) && refused.contains("elsewhere"), "{refused}");
    fs::write(&lock, said(i32::MAX)).unwrap();
    assert!(fixture.commit().is_ok());
    assert!(!lock.exists());
}

/// F48: what is only called like git holds no lock of git's.
#[test]
fn a_program_with_a_similar_name_keeps_no_lock() {
    let fixture = Fixture::new();
    let lock = fixture.tree().join(".git/index.lock");
    for (name, is_git) in [("gitea", false), ("gitlab-runner", false), ("git-remote-http", true)] {
        write(&fixture.tree(), "file", name);
        fs::write(&lock, "").unwrap();
        let mut other = Command::new("bash");
        other.args(["-c", &format!("printf {name} > /proc/self/comm; echo; read")]);
        other.current_dir(fixture.tree()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut other = other.spawn().unwrap();
        other.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let committed = fixture.commit();
        assert_eq!((committed.is_err(), lock.exists()), (is_git, is_git), "{name}: {committed:?}");
        drop(other.stdin.take());
        other.wait().unwrap();
    }
}

/// What a git that died with us has left is known by our own lock and cleared with it; whatever that does not name stays.
#[test]
fn the_locks_that_our_git_left_are_cleared() {
    let fixture = Fixture::new();
    let (repo, tree) = (fixture.repo(), fixture.tree());
    let (common, own) = (repo.join(".git"), tree.join(".git"));
    let process = longhaul_workspace::process::Process::own();
    let dead = format!("longhaul {{\"pid\":{},\"started\":0,\"host\":\"{}\"}}\n", i32::MAX, process.host);
    let named = |name: &str, to: &str| format!("{{\"name\":\"{name}\",\"to\":\"{to}\"}}\n");
    let leave = |directory: &Path, locks: &[(PathBuf, &str, &str)]| {
        let said: String = locks.iter().map(|(_, name, to)| named(name, to)).collect();
        fs::write(directory.join("index.lock"), format!("{dead}{said}")).unwrap();
        locks.iter().for_each(|(path, _, to)| fs::write(path, format!("{to}\n")).unwrap());
    };
    let branch = "refs/heads/longhaul/run_1.lock";
    write(&tree, "new", "x\n");
    fs::create_dir_all(own.join(branch).parent().unwrap()).unwrap();
    leave(&own, &[(own.join("HEAD.lock"), "HEAD.lock", ""), (own.join(branch), branch, "abc")]);
    fs::write(own.join("HEAD.lock"), "").unwrap();
    fixture.commit().unwrap();
    assert!(!own.join("HEAD.lock").exists() && !own.join(branch).exists());

    // In the user's checkout, with and without a note of what was under way.
    let main = "refs/heads/main.lock";
    leave(
        &common,
        &[(common.join("ORIG_HEAD.lock"), "ORIG_HEAD.lock", "abc"), (common.join(main), main, "abc")],
    );
    assert!(settle(&fixture.work()).unwrap().is_none());
    for name in ["index.lock", "ORIG_HEAD.lock", main] {
        assert!(!common.join(name).exists(), "{name}");
    }
    // Somebody else's: with other words in it, of another name, or where ours has none to name.
    let other = "refs/heads/other.lock";
    leave(&common, &[(common.join(main), main, "abc"), (common.join(other), other, "abc")]);
    fs::write(common.join(main), "def\n").unwrap();
    fs::write(
        common.join("index.lock"),
        format!("{dead}{}{}", named(main, "abc"), named("../x.lock", "abc")),
    )
    .unwrap();
    fs::write(repo.join("x.lock"), "abc\n").unwrap();
    assert!(settle(&fixture.work()).unwrap().is_none());
    assert!([common.join(main), common.join(other), repo.join("x.lock")].iter().all(|path| path.exists()));
    assert!(!common.join("index.lock").exists());
    fs::remove_file(common.join(main)).unwrap();
    fs::remove_file(repo.join("x.lock")).unwrap();
    assert!(merge(&fixture.work()).unwrap().commit.is_some());
    // A git of ours that still lives holds our lock.
    leave(&common, &[]);
    let held = fs::File::open(common.join("index.lock")).unwrap();
    held.lock().unwrap();
    assert!(settle(&fixture.work()).unwrap().is_none());
    assert!(common.join("index.lock").exists());
}

/// A branch that the user stands on is not moved from under the user's files, whatever an agent makes its `HEAD`; what it made is
/// shown and merged all the same.
#[test]
fn a_branch_that_is_checked_out_elsewhere_is_not_moved() {
    let fixture = Fixture::new();
    git(&fixture.tree(), &["symbolic-ref", "HEAD", "refs/heads/main"]);
    write(&fixture.tree(), "new", "x\n");
    let before = fixture.checkout();
    let committed = fixture.commit().unwrap();
    assert_eq!(committed.branch.as_deref(), Some("main"));
    assert_eq!(fixture.checkout(), before);
    assert_eq!(fixture.work().result().unwrap().head, committed.commit);
    assert_eq!(fixture.checkout(), before);
    assert_eq!(merge(&fixture.work()).unwrap().commit, Some(committed.commit));
}

/// A47, A48: nothing that an agent wrote into configuration, attributes or hooks is run by looking, committing or landing.
#[test]
fn nothing_an_agent_names_is_run() {
    let fixture = Fixture::new();
    let (repo, tree) = (fixture.repo(), fixture.tree());
    let mark = fixture.base().join("mark");
    let evil = format!("touch '{}'; cat", mark.display());
    let configured = |key: &str, value: &str| {
        [&repo, &tree].iter().for_each(|top| drop(git(top, &["config", key, value])));
    };
    for key in [
        "filter.evil.clean",
        "filter.evil.smudge",
        "merge.evil.driver",
        "diff.evil.textconv",
        "diff.evil.command",
    ] {
        configured(key, &evil);
    }
    for key in
        ["core.fsmonitor", "core.editor", "core.pager", "diff.external", "gpg.program", "core.sshCommand"]
    {
        configured(key, &evil);
    }
    for top in [&repo, &tree] {
        git(top, &["config", "commit.gpgSign", "true"]);
        fs::create_dir_all(top.join(".git/info")).unwrap();
        fs::create_dir_all(top.join(".git/hooks")).unwrap();
        fs::write(top.join(".git/info/attributes"), "file filter=evil merge=evil diff=evil\n").unwrap();
    }
    for hook in [
        "post-checkout",
        "post-commit",
        "pre-commit",
        "reference-transaction",
        "post-index-change",
        "post-merge",
    ] {
        for path in [&repo, &tree].map(|top| top.join(".git/hooks").join(hook)) {
            fs::write(&path, format!("#!/bin/sh\n{evil}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    write(&tree, "file", "changed\n");
    Command::new("git").arg("-C").arg(&tree).args(["status"]).output().unwrap();
    assert!(mark.exists(), "void: plain git does not run it");
    fs::remove_file(&mark).unwrap();

    let work = fixture.work();
    let result = work.result().unwrap();
    assert!(!work.diff(&result, Form::Patch).unwrap().is_empty());
    assert!(apply(&work).is_err(), "a filtered file is refused");
    assert!(fixture.commit().is_err(), "and so is storing one");
    assert!(!mark.exists());
    // Both sides change the file of the merge driver, each at its end. The commit on this side is made without it.
    let attributes = |text: &str| {
        [&repo, &tree].iter().for_each(|top| fs::write(top.join(".git/info/attributes"), text).unwrap());
    };
    attributes("file merge=evil diff=evil\n");
    write(&tree, "file", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    write(&repo, "file", "one\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n");
    let harmless =
        ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false"];
    git(&repo, &[&harmless[..], &["commit", "--quiet", "-am", "meanwhile"]].concat());
    assert!(matches!(merge(&work), Err(Error::Conflicts { .. })), "no driver, no merge of that file");
    attributes("");
    assert!(merge(&work).unwrap().commit.is_some());
    assert!(!mark.exists());
    assert_eq!(read(&repo, "file"), "ONE\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n");
}

/// A tree that no git would make has paths that lead out of a checkout, or into its `.git`.
#[test]
fn a_tree_with_paths_that_lead_out_is_refused() {
    let fixture = Fixture::new();
    let tree = fixture.repo();
    let blob = git(&tree, &["rev-parse", "HEAD:file"]);
    for name in [".git", "..", ".GIT"] {
        let mut mktree = Command::new("git");
        mktree.arg("-C").arg(&tree).args(["mktree"]).stdin(std::process::Stdio::piped());
        let mut child = mktree.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let line = format!("100644 blob {blob}\tevil\n");
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), line.as_bytes()).unwrap();
        let inner = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let raw = raw_tree(&tree, name, inner.trim());
        let commit = git(
            &tree,
            &["-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", "-p", "HEAD", "-m", "x", &raw],
        );
        git(&fixture.repo(), &["update-ref", "refs/heads/evil", &commit]);
        let work =
            Work { worktree: fixture.base().join("gone"), branch: "evil".to_owned(), ..fixture.work() };
        let before = fixture.checkout();
        for landed in [apply(&work), merge(&work)] {
            let error = landed.unwrap_err().to_string();
            assert!(error.contains("which no checkout may have"), "{name}: {error}");
        }
        assert_eq!(fixture.checkout(), before, "{name}");
        assert!(!fixture.base().join("evil").exists());
    }
}

/// A filter that is not run keeps nobody from files it has nothing to do with, nor from its own that are as they were, whatever their
/// times say. What has changed and would be stored through it is named.
#[test]
fn a_filter_is_in_the_way_of_its_own_files_only() {
    let fixture = Fixture::new();
    let (repo, tree) = (fixture.repo(), fixture.tree());
    for top in [&repo, &tree] {
        fs::write(top.join(".git/info/attributes"), "file filter=large\n").unwrap();
        for (key, value) in [("clean", "sed s/^/P:/"), ("smudge", "sed s/^P://"), ("required", "true")] {
            git(top, &["config", &format!("filter.large.{key}"), value]);
        }
    }
    let touched = fs::File::options().write(true).open(tree.join("file")).unwrap();
    touched.set_modified(std::time::SystemTime::now()).unwrap();
    write(&tree, "new", "agent\n");
    let commit = fixture.commit().unwrap().commit;
    assert_eq!(git(&repo, &["diff", "--name-only", "main", &commit]), "new");
    assert_eq!(merge(&fixture.work()).unwrap().changes.len(), 1);
    write(&tree, "file", "agent\n");
    let refused = fixture.commit().unwrap_err();
    let commit::Error::Checkout(checkout::Error::Filtered { paths }) = refused else { panic!("{refused}") };
    assert_eq!(names(&paths), ["file"]);
    for landed in [apply(&fixture.work()), merge(&fixture.work())] {
        assert!(landed.unwrap_err().to_string().ends_with("no filter is run here: file"));
    }
}

/// A tree with one directory of a name that `mktree` would refuse.
fn raw_tree(repo: &Path, name: &str, inner: &str) -> String {
    let bytes: Vec<u8> =
        (0..inner.len()).step_by(2).map(|at| u8::from_str_radix(&inner[at..at + 2], 16).unwrap()).collect();
    let object = [format!("40000 {name}\0").as_bytes(), &bytes].concat();
    let file = repo.join("ignored-object");
    fs::write(&file, object).unwrap();
    let id = git(repo, &["hash-object", "-t", "tree", "-w", "--literally", "ignored-object"]);
    fs::remove_file(file).unwrap();
    id
}

/// A merge of four files, and the note of one that was killed.
struct CutShort {
    fixture: Fixture,
    note: PathBuf,
    committed: String,
    said: String,
}

impl CutShort {
    fn new() -> CutShort {
        let fixture = Fixture::new();
        let (repo, tree) = (fixture.repo(), fixture.tree());
        write(&tree, "file", "agent\n");
        write(&tree, "other", "agent\n");
        write(&tree, "new", "agent\n");
        fs::remove_file(tree.join("src/lib.rs")).unwrap();
        let committed = fixture.commit().unwrap().commit;
        // The name of the note, as a landing that goes well uses it.
        assert!(settle(&fixture.work()).unwrap().is_none());
        let mut lock = fs::read_dir(fixture.scratch()).unwrap().map(|entry| entry.unwrap().path());
        let note = lock.find(|path| path.extension().unwrap() == "lock").unwrap().with_extension("json");
        let head = git(&repo, &["rev-parse", "HEAD"]);
        let after = git(&repo, &["rev-parse", &format!("{committed}^{{tree}}")]);
        let said = format!(
            "{{\"run\":\"run_1\",\"before\":\"{head}\",\"after\":\"{after}\",\
             \"moved\":{{\"from\":\"{head}\",\"to\":\"{committed}\"}},\
             \"head\":\"{head}\",\"branch\":\"refs/heads/main\",\"written\":"
        );
        CutShort { fixture, note, committed, said }
    }

    fn note(&self, written: bool) {
        fs::write(&self.note, format!("{}{written}}}", self.said)).unwrap();
    }

    /// Two of the files are written, one is removed, and the other is as it was.
    fn half(&self) {
        self.note(false);
        let repo = self.fixture.repo();
        write(&repo, "file", "agent\n");
        write(&repo, "new", "agent\n");
        fs::remove_file(repo.join("src/lib.rs")).unwrap();
    }

    fn settle(&self) -> How {
        settle(&self.fixture.work()).unwrap().unwrap().how
    }
}

/// A landing that was killed half way is taken back, and one that lacked only its commit is finished.
#[test]
fn a_killed_landing_is_taken_back_or_finished() {
    let cut = CutShort::new();
    let repo = cut.fixture.repo();
    let before = cut.fixture.checkout();
    cut.half();
    let How::TakenBack { paths } = cut.settle() else { panic!("it is not taken back") };
    assert_eq!(names(&paths), ["file", "new", "src/lib.rs"]);
    assert_eq!(cut.fixture.checkout(), before);
    assert!(settle(&cut.fixture.work()).unwrap().is_none(), "once is enough");

    // All files are written, the branch has not moved.
    cut.half();
    cut.note(true);
    write(&repo, "other", "agent\n");
    assert_eq!(cut.settle(), How::Finished);
    assert_eq!(git(&repo, &["rev-parse", "main"]), cut.committed);
    assert_eq!(git(&repo, &["status", "--porcelain"]), "");

    // The branch has moved and its index has not; what the user has staged since stays staged.
    cut.note(true);
    git(&repo, &["read-tree", "HEAD~1"]);
    write(&repo, "other", "mine\n");
    git(&repo, &["add", "other"]);
    assert_eq!(cut.settle(), How::Finished);
    assert_eq!(git(&repo, &["status", "--porcelain"]), "M  other");
}

/// What the user has made of the files since is the user's: it stays, it is named, and nothing lands on it.
#[test]
fn what_the_user_wrote_after_a_killed_landing_stays() {
    let cut = CutShort::new();
    let (repo, work) = (cut.fixture.repo(), cut.fixture.work());
    for land in [apply, merge] {
        cut.half();
        write(&repo, "file", "agent\nand mine\n");
        write(&repo, "other", "mine\n");
        write(&repo, "new", "mine\n");
        let refused = land(&work).unwrap_err();
        let Error::Unsettled { paths, back, .. } = refused else { panic!("{refused}") };
        assert_eq!((names(&paths), back), (vec!["file", "new", "other"], 1));
        assert_eq!(read(&repo, "file"), "agent\nand mine\n");
        assert_eq!((read(&repo, "other"), read(&repo, "new")), ("mine\n".into(), "mine\n".into()));
        assert_eq!(read(&repo, "src/lib.rs"), "// code\n", "this one was ours");
        // The next one is refused as any is that would touch what is not committed.
        let stands = cut.fixture.checkout();
        assert!(land(&work).is_err());
        assert_eq!(cut.fixture.checkout(), stands);
        fs::remove_file(repo.join("new")).unwrap();
        git(&repo, &["reset", "--quiet", "--hard"]);
    }
    // Also where git does not look.
    cut.half();
    fs::remove_file(repo.join("new")).unwrap();
    write(&repo, ".git/info/exclude", "new\n");
    write(&repo, "new", "mine\n");
    assert!(matches!(apply(&work), Err(Error::Unsettled { paths, .. }) if names(&paths) == ["new"]));
    assert_eq!(read(&repo, "new"), "mine\n");
}

/// Once another commit or branch is checked out, or the user has put the files back, nothing is taken back.
#[test]
fn nothing_is_taken_back_once_the_user_has_moved_on() {
    let commits: [&[&[&str]]; 3] = [
        &[&["add", "."], &["commit", "--quiet", "-m", "I keep it"]],
        &[&["commit", "--quiet", "--allow-empty", "-m", "mine"]],
        &[&["checkout", "--quiet", "-b", "elsewhere"]],
    ];
    for commands in commits {
        for written in [false, true] {
            let cut = CutShort::new();
            let repo = cut.fixture.repo();
            cut.half();
            cut.note(written);
            for command in commands {
                git(&repo, command);
            }
            let stands = cut.fixture.checkout();
            assert_eq!(cut.settle(), How::MovedOn, "{commands:?}");
            assert_eq!(cut.fixture.checkout(), stands, "{commands:?}");
            assert!(settle(&cut.fixture.work()).unwrap().is_none(), "the note is gone");
        }
    }
    let cut = CutShort::new();
    let before = cut.fixture.checkout();
    cut.half();
    cut.note(true);
    git(&cut.fixture.repo(), &["reset", "--quiet", "--hard"]);
    fs::remove_file(cut.fixture.repo().join("new")).unwrap();
    assert_eq!(cut.settle(), How::TakenBack { paths: Vec::new() });
    assert_eq!(cut.fixture.checkout(), before);
}

/// What is carried in is a commit that nothing of the user's knows; the run's version of it comes back with `apply`.
#[test]
fn changes_are_carried_in_and_come_back() {
    let fixture = Fixture::new();
    let repo = fixture.repo();
    write(&repo, "file", "mine\n");
    write(&repo, "staged", "mine\n");
    git(&repo, &["add", "staged"]);
    write(&repo, "untracked", "mine\n");
    write(&repo, "ignored", "mine\n");
    fs::remove_file(repo.join("other")).unwrap();
    let before = fixture.checkout();
    let checkout = Checkout::open(&repo, &fixture.scratch(), Filters::Absent).unwrap();
    let carried = checkout.carry("run_2").unwrap();
    assert_eq!(fixture.checkout(), before);

    let (path, branch) = (fixture.base().join("work/run_2"), "longhaul/run_2".to_owned());
    let start = Some(carried.clone());
    ensure(&Place::Worktree { repo: repo.clone(), path: path.clone(), branch: branch.clone(), start })
        .unwrap();
    assert_eq!(
        (read(&path, "file"), read(&path, "untracked"), read(&path, "staged")),
        ("mine\n".into(), "mine\n".into(), "mine\n".into())
    );
    assert!(!path.join("other").exists() && !path.join("ignored").exists());
    let work = Work {
        run: "run_2".to_owned(),
        worktree: path.clone(),
        branch,
        base: Some(carried),
        carried: true,
        ..fixture.work()
    };
    assert_eq!(
        work.diff(&work.result().unwrap(), Form::Names).unwrap(),
        b"",
        "it is the user's, not the run's"
    );
    write(&path, "file", "mine\nand the agent's\n");
    let landed = apply(&work).unwrap();
    assert_eq!(landed.changes.len(), 1);
    assert_eq!(read(&repo, "file"), "mine\nand the agent's\n");
    assert_eq!(read(&repo, "untracked"), "mine\n");
    // Going on by hand makes it work that is not carried.
    write(&path, "file", "mine\nand the agent's again\n");
    write(&repo, "file", "by hand\n");
    assert!(matches!(apply(&work), Err(Error::Conflicts { .. } | Error::Uncommitted { .. })));
    assert_eq!(read(&repo, "file"), "by hand\n");
}

/// What the run was given and has changed is merged where the user's copy is still as it was given, and only there.
#[test]
fn what_was_carried_in_and_changed_is_merged() {
    let fixture = Fixture::new();
    let repo = fixture.repo();
    write(&repo, "file", "mine\n");
    write(&repo, "untracked", "mine\n");
    fs::remove_file(repo.join("other")).unwrap();
    let checkout = Checkout::open(&repo, &fixture.scratch(), Filters::Absent).unwrap();
    let (carried, path) = (checkout.carry("run_2").unwrap(), fixture.base().join("work/run_2"));
    let (branch, start) = ("longhaul/run_2".to_owned(), Some(carried.clone()));
    ensure(&Place::Worktree { repo: repo.clone(), path: path.clone(), branch: branch.clone(), start })
        .unwrap();
    for name in ["file", "untracked", "other"] {
        write(&path, name, "mine and the agent's\n");
    }
    let (run, worktree, base) = ("run_2".to_owned(), path, Some(carried));
    let work = Work { run, worktree, branch, base, carried: true, ..fixture.work() };
    write(&repo, "untracked", "mine, later\n");
    let before = fixture.checkout();
    assert!(matches!(merge(&work), Err(Error::Uncommitted { paths }) if names(&paths) == ["untracked"]));
    assert_eq!(fixture.checkout(), before);
    write(&repo, "untracked", "mine\n");
    assert!(merge(&work).unwrap().commit.is_some());
    for name in ["file", "untracked", "other"] {
        assert_eq!(read(&repo, name), "mine and the agent's\n");
    }
    assert_eq!(git(&repo, &["status", "--porcelain"]), "");
}

/// Conflicts that are still in the index are named, whatever left them there.
#[test]
fn an_index_with_conflicts_is_said_to_be_one() {
    let fixture = Fixture::new();
    let repo = fixture.repo();
    write(&fixture.tree(), "new", "agent\n");
    write(&repo, "file", "stashed\n");
    git(&repo, &["stash", "--quiet"]);
    write(&repo, "file", "mine\n");
    git(&repo, &["commit", "--quiet", "-am", "mine"]);
    Command::new("git").arg("-C").arg(&repo).args(["stash", "pop", "--quiet"]).output().unwrap();
    let before = fixture.checkout();
    assert!(matches!(merge(&fixture.work()), Err(Error::Unmerged { paths }) if names(&paths) == ["file"]));
    assert_eq!(fixture.checkout(), before);
}

#[test]
fn repositories_that_hurt() {
    let fixture = Fixture::new();
    let (repo, tree) = (fixture.repo(), fixture.tree());
    // Line ends that differ between the store and the checkout.
    [&repo, &tree].iter().for_each(|top| drop(git(top, &["config", "core.autocrlf", "true"])));
    write(&tree, "crlf.txt", "a\r\nb\r\n");
    // A repository in it, with commits and without, and a file nobody may write.
    for inner in ["nested", "bare-of-commits"] {
        fs::create_dir(tree.join(inner)).unwrap();
        git(&tree.join(inner), &["init", "--quiet"]);
        write(&tree.join(inner), "inside", "x\n");
    }
    git(&tree.join("nested"), &["add", "."]);
    git(&tree.join("nested"), &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "x"]);
    fs::set_permissions(repo.join("file"), fs::Permissions::from_mode(0o444)).unwrap();
    write(&tree, "file", "agent\n");
    write(&tree, " odd\t\"name\" ", "x\n");
    // A file becomes a directory, and a directory a file.
    fs::remove_file(tree.join("other")).unwrap();
    write(&tree, "other/inside", "x\n");
    fs::remove_dir_all(tree.join("src")).unwrap();
    write(&tree, "src", "x\n");
    let committed = fixture.commit().unwrap();
    assert_eq!(names(&committed.nested), ["bare-of-commits/", "nested/"]);
    assert!(merge(&fixture.work()).unwrap().commit.is_some());
    assert_eq!(read(&repo, "crlf.txt"), "a\r\nb\r\n");
    assert_eq!(git(&repo, &["cat-file", "blob", "HEAD:crlf.txt"]), "a\nb");
    assert_eq!((read(&repo, "other/inside"), read(&repo, "src")), ("x\r\n".into(), "x\r\n".into()));
    assert_eq!(read(&repo, " odd\t\"name\" "), "x\r\n");
    assert_eq!(git(&repo, &["status", "--porcelain"]), "");
}
