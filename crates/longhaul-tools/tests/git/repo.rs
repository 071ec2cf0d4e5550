//! A workspace that is a repository, and plain git beside the tools.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use longhaul_core::tool::Outcome;
use serde_json::{Value, json};

use crate::fixture::{Fixture, done};

pub struct Repo {
    pub fixture: Fixture,
}

impl Repo {
    /// With one commit of `a.txt`; `None` where there is no git.
    pub fn new() -> Option<Repo> {
        let repo = Repo::empty(&[])?;
        repo.write("a.txt", "one\ntwo\n");
        repo.git(&["add", "."]);
        repo.git(&["commit", "--quiet", "-m", "first"]);
        Some(repo)
    }

    /// Without a commit, made with these options of `git init`.
    pub fn empty(options: &[&str]) -> Option<Repo> {
        if Command::new("git").arg("--version").output().is_err() {
            println!("SKIP: git is not installed");
            return None;
        }
        let repo = Repo { fixture: Fixture::new() };
        repo.git(&[&["init", "--quiet", "--initial-branch=main"], options, &["."]].concat());
        Some(repo)
    }

    pub fn root(&self) -> PathBuf {
        self.fixture.path("")
    }

    /// Outside the workspace; what an attack would leave.
    pub fn mark(&self) -> PathBuf {
        self.fixture.outer.path().join("mark")
    }

    pub fn write(&self, path: &str, content: &str) {
        let path = self.fixture.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A program that leaves the mark.
    pub fn program(&self, path: &str) -> String {
        let text = format!("#!/bin/sh\ntouch '{}'\n", self.mark().display());
        self.write(path, &text);
        let path = self.fixture.path(path);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn config(&self, key: &str, value: &str) {
        self.git(&["config", key, value]);
    }

    /// Plain git, as a user without settings of their own has it.
    pub fn git(&self, arguments: &[&str]) -> String {
        let output = plain(&self.root(), arguments);
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    pub async fn run(&self, tool: &str, args: Value) -> Outcome {
        self.fixture.run(tool, &args).await
    }

    /// The JSON that a tool answers, in its first line.
    pub async fn json(&self, tool: &str, args: Value) -> Value {
        let outcome = self.run(tool, args).await;
        serde_json::from_str(done(&outcome).lines().next().unwrap()).unwrap()
    }

    pub async fn status(&self) -> Value {
        self.json("git_status", json!({})).await
    }
}

pub fn plain(directory: &Path, arguments: &[&str]) -> Output {
    Command::new("git")
        .current_dir(directory)
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", "/nonexistent")
        .envs([("GIT_AUTHOR_NAME", "Test"), ("GIT_AUTHOR_EMAIL", "test@example.com")])
        .envs([("GIT_COMMITTER_NAME", "Test"), ("GIT_COMMITTER_EMAIL", "test@example.com")])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap()
}
