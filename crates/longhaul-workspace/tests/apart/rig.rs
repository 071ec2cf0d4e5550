//! A repository, and a run's worktree of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use longhaul_workspace::homing::publish;
use longhaul_workspace::place::{Place, ensure};
use tempfile::TempDir;

/// A repository with a commit, and a worktree of it.
pub struct Fixture(pub TempDir);

pub const BRANCH: &str = "agent/run_1";

impl Fixture {
    pub fn new() -> Fixture {
        Fixture::of(&[], |_| {})
    }

    /// The same of a repository that is made with these words, and then as `prepare` has it.
    pub fn of(words: &[&str], prepare: impl Fn(&Path)) -> Fixture {
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

    pub fn at(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    pub fn repo(&self) -> PathBuf {
        self.at("repo")
    }

    pub fn tree(&self) -> PathBuf {
        self.at("work/run_1")
    }

    pub fn place(&self) -> Place {
        Place::Worktree { repo: self.repo(), path: self.tree(), branch: BRANCH.to_owned(), start: None }
    }

    pub fn publish(&self) {
        publish(&self.tree(), &self.at("scratch")).came.unwrap();
    }

    pub fn commit(&self, name: &str) -> String {
        fs::write(self.tree().join(name), name).unwrap();
        git(&self.tree(), &["add", "."]);
        git(&self.tree(), &["commit", "--quiet", "-m", name]);
        git(&self.tree(), &["rev-parse", "HEAD"])
    }

    /// What a name stands for at home.
    pub fn home(&self, name: &str) -> Option<String> {
        let asked = ["rev-parse", "--quiet", "--verify", name];
        let output = Command::new("git").args(asked).current_dir(self.repo()).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

pub fn git(directory: &Path, words: &[&str]) -> String {
    let who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"];
    let output = Command::new("git").args(who).args(words).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}
