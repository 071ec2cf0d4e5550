//! Repositories made to do harm, each beside a control that shows that the harm is real where nobody holds it.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use longhaul_workspace::checkout::{Checkout, Filters};
use longhaul_workspace::checkpoints::Vault;
use longhaul_workspace::commit::{Kept, commit};
use longhaul_workspace::place::{Place, changes, ensure, is_dirty};
use longhaul_workspace::source::{Address, Store};
use tempfile::TempDir;

struct Ground {
    dir: TempDir,
}

impl Ground {
    /// `repo` with one commit of `file`.
    fn new() -> Ground {
        let ground = Ground { dir: tempfile::tempdir().unwrap() };
        git(&ground.at(""), &["init", "-q", "--initial-branch=main", "repo"]);
        fs::write(ground.at("repo/file"), "one\n").unwrap();
        ground.commit();
        ground
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn commit(&self) {
        git(&self.at("repo"), &["add", "--all"]);
        git(&self.at("repo"), &["commit", "-q", "-m", "more"]);
    }

    /// Fetches the repository and makes a workspace of it.
    fn cloned(&self, name: &str) -> Result<PathBuf, String> {
        let address = Address::parse("repo", &self.at("")).unwrap();
        let store = Store::at(&self.at("stores"), address, None);
        let start = store.fetch(None).map_err(|error| format!("{error:?}"))?;
        let place = Place::Clone {
            store: store.directory().to_owned(),
            url: self.at("repo").display().to_string(),
            path: self.at("work").join(name),
            branch: format!("agent/{name}"),
            start,
        };
        ensure(&place).map_err(|error| format!("{error:?}"))?;
        Ok(place.directory().to_owned())
    }

    /// Points `main` at a tree of one entry, written as it is: git's own commands would refuse it.
    fn plant(&self, mode: &str, name: &str, object: &str) {
        let mut entry = format!("{mode} {name}\0").into_bytes();
        entry.extend(
            (0..object.len()).step_by(2).map(|at| u8::from_str_radix(&object[at..at + 2], 16).unwrap()),
        );
        let tree =
            fed(&self.at("repo"), &["hash-object", "-t", "tree", "--literally", "-w", "--stdin"], &entry);
        let commit = git(&self.at("repo"), &["commit-tree", "-m", "x", &tree]);
        git(&self.at("repo"), &["update-ref", "refs/heads/main", &commit]);
    }
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    fed(directory, arguments, b"")
}

fn fed(directory: &Path, arguments: &[&str], input: &[u8]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).args(["-c", "user.name=x", "-c", "user.email=x@x"]).args(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// What there is where workspaces are.
fn left(ground: &Ground) -> Vec<String> {
    let found = fs::read_dir(ground.at("work")).unwrap().flatten();
    found.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// A52: a tree that leads out of the workspace is not checked out, and nothing of the try is left.
#[test]
fn a_tree_that_leads_out_is_refused() {
    for (mode, name) in
        [("100644", ".."), ("40000", ".."), ("100644", "a/../../x"), ("100644", ".git"), ("40000", ".GIT")]
    {
        let ground = Ground::new();
        assert!(ground.cloned("control").is_ok(), "void: it cannot be cloned at all");
        let object = if mode == "40000" {
            git(&ground.at("repo"), &["rev-parse", "HEAD^{tree}"])
        } else {
            git(&ground.at("repo"), &["rev-parse", "HEAD:file"])
        };
        ground.plant(mode, name, &object);
        let refused = ground.cloned("one").unwrap_err();
        assert!(!ground.at("work/one").exists(), "{name}: {refused}");
        assert!(
            !ground.at("x").exists() && !ground.at("work/x").exists() && !ground.at("work/file").exists(),
            "{name}"
        );
        assert_eq!(left(&ground), ["control"], "{name}");
        assert!(ground.cloned("one").is_err());
    }
}

/// A52: directories in directories, more than any path can name, end in an error and not in a crash; many names are no trouble.
#[test]
fn a_deep_tree_and_many_names_are_bounded() {
    let ground = Ground::new();
    let mut object = git(&ground.at("repo"), &["rev-parse", "HEAD^{tree}"]);
    let mut stream = String::new();
    for number in 0..2000 {
        stream.push_str(&format!("create refs/heads/branch-{number} HEAD\n"));
    }
    fed(&ground.at("repo"), &["update-ref", "--stdin"], stream.as_bytes());
    assert!(ground.cloned("names").is_ok());
    let deep = "d".repeat(250);
    for _ in 0..40 {
        object = fed(&ground.at("repo"), &["mktree"], format!("040000 tree {object}\t{deep}\n").as_bytes());
    }
    let commit = git(&ground.at("repo"), &["commit-tree", "-m", "x", &object]);
    git(&ground.at("repo"), &["update-ref", "refs/heads/main", &commit]);
    let refused = ground.cloned("deep").unwrap_err();
    assert_eq!(left(&ground), ["names"], "{refused}");
}

/// A47: a repository in the repository that claims to be one of its own runs nothing, whoever looks at the files around it.
#[test]
fn a_bare_repository_inside_runs_nothing() {
    let ground = Ground::new();
    let (inner, mark) = (ground.at("repo/inner"), ground.at("mark"));
    git(&ground.at(""), &["init", "-q", "--bare", "repo/inner"]);
    fs::remove_dir_all(inner.join("hooks")).ok();
    let config = format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = \"touch '{}' #\"\n",
        mark.display()
    );
    fs::write(inner.join("config"), config).unwrap();
    for part in ["refs", "objects"] {
        fs::write(inner.join(part).join("kept"), "").unwrap();
    }
    ground.commit();
    let made = ground.cloned("one").unwrap();
    assert!(made.join("inner/HEAD").exists() && made.join("inner/refs/kept").exists());
    let plain = Command::new("git").args(["-C", "inner", "status"]).current_dir(&made).output().unwrap();
    assert!(mark.exists(), "void: plain git does not run it: {plain:?}");
    fs::remove_file(&mark).unwrap();
    fs::write(made.join("inner/more"), "x").unwrap();
    fs::write(made.join("file"), "two\n").unwrap();
    let stored = Vault::open(&made, &ground.at("state")).unwrap().store().unwrap();
    let checkout = Checkout::open(&made, &ground.at("state/scratch"), Filters::Failing).unwrap();
    assert!(matches!(commit(&checkout, "run_1", "work"), (Ok(Kept::Committed(_)), _)));
    assert_eq!(stored.tree, git(&made, &["rev-parse", "HEAD^{tree}"]), "all of it is files");
    assert!(!mark.exists());
}

/// A48: what an agent wrote into the configuration of its own clone is not run by whoever asks whether it is dirty.
#[test]
fn looking_at_a_clone_runs_nothing_of_its_agents() {
    let ground = Ground::new();
    let (made, mark) = (ground.cloned("one").unwrap(), ground.at("mark"));
    git(&made, &["config", "filter.evil.clean", &format!("touch '{}'; cat", mark.display())]);
    fs::create_dir_all(made.join(".git/info")).unwrap();
    fs::write(made.join(".git/info/attributes"), "* filter=evil\n").unwrap();
    // Of the same length, so that git has to read it.
    fs::write(made.join("file"), "two\n").unwrap();
    assert!(is_dirty(&made));
    assert!(changes(&made, None, None).is_some_and(|changes| changes.contains("file")));
    Vault::open(&made, &ground.at("state")).unwrap().store().unwrap();
    assert!(!mark.exists());
    git(&made, &["status"]);
    assert!(mark.exists(), "void: plain git does not run it");
}

/// A51: what a commit is called changes nothing but what it is called: no control characters, no trailer of another run.
#[test]
fn a_message_is_only_a_message() {
    let ground = Ground::new();
    let checkout = Checkout::open(&ground.at("repo"), &ground.at("scratch"), Filters::Failing).unwrap();
    let megabyte = "x".repeat(1 << 20);
    let messages = [
        "red \u{1b}[31m and bell \u{7}",
        "<script>alert(1)</script>",
        "subject\n\nLonghaul-Run: run_other\nSigned-off-by: you <you@x>",
        "subject\n\nbody\n\nLonghaul-Run: run_other",
        "--amend\n-F /etc/passwd",
        "",
        &megabyte,
    ];
    for (number, message) in messages.iter().enumerate() {
        fs::write(ground.at("repo/file"), format!("{number}\n")).unwrap();
        let (Ok(Kept::Committed(made)), _) = commit(&checkout, "run_own", message) else {
            panic!("{number}")
        };
        let kept = git(&ground.at("repo"), &["cat-file", "commit", &made.commit]);
        assert!(!kept.contains(['\u{1b}', '\u{7}']), "{number}");
        let own = git(&ground.at("repo"), &["log", "-1", "--format=%(trailers:only,unfold)", &made.commit]);
        assert_eq!(own.trim(), "Longhaul-Run: run_own", "{number}");
        assert_eq!(git(&ground.at("repo"), &["rev-list", "--count", "HEAD"]), (number + 2).to_string());
    }
}

/// D11.16: a name that git takes for its own is left out, and does not keep the others from being stored.
#[test]
fn a_name_that_git_refuses_is_left_out() {
    let ground = Ground::new();
    let work = ground.at("repo");
    fs::create_dir(work.join(".GIT")).unwrap();
    fs::write(work.join(".GIT/config"), "x").unwrap();
    fs::write(work.join("git~1"), "x").unwrap();
    let refused = Command::new("git").arg("-C").arg(&work).args(["add", ".GIT/config"]).output().unwrap();
    assert!(!refused.status.success(), "void: git does take it");
    let vault = Vault::open(&work, &ground.at("state")).unwrap();
    let first = vault.store().unwrap();
    assert_eq!(first.left_out, [PathBuf::from(".GIT/config")]);
    fs::write(work.join("git~1"), "y").unwrap();
    let second = vault.store().unwrap();
    vault.way(&second.tree, &first.tree).unwrap();
    vault.write(&second.tree, &first.tree).unwrap();
    assert_eq!(fs::read_to_string(work.join("git~1")).unwrap(), "x");
    assert!(work.join(".GIT/config").exists());
}
