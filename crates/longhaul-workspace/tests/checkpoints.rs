//! Files stored and brought back: what is kept, what is left alone, and what is never run or followed.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use longhaul_workspace::checkpoints::{Error, Vault};
use longhaul_workspace::prune::Pruning;
use tempfile::TempDir;

struct Ground {
    dir: TempDir,
}

impl Ground {
    fn new() -> Ground {
        let dir = tempfile::tempdir().unwrap();
        for name in ["work", "state", "outside"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        Ground { dir }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.at("work").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn vault(&self) -> Vault {
        Vault::open(&self.at("work"), &self.at("state")).unwrap()
    }

    fn store(&self) -> String {
        self.vault().store().unwrap().tree
    }

    fn bring(&self, tree: &str) {
        let vault = self.vault();
        let now = vault.store().unwrap().tree;
        vault.way(&now, tree).unwrap();
        vault.write(&now, tree).unwrap();
    }

    fn git(&self, args: &[&str]) {
        let mut command = Command::new("git");
        command.arg("-C").arg(self.at("work")).args(["-c", "user.name=x", "-c", "user.email=x@x"]);
        assert!(command.args(args).output().unwrap().status.success(), "{args:?}");
    }

    /// Everything that stands there but directories and `.git`: path, kind, whether it can be run, and what is in it.
    fn found(&self) -> Vec<String> {
        let mut found = Vec::new();
        look(&self.at("work"), &self.at("work"), &mut found);
        found.sort();
        found
    }
}

fn look(top: &Path, directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(top).unwrap().display().to_string();
        let facts = path.symlink_metadata().unwrap();
        if name == ".git" {
            continue;
        } else if facts.is_symlink() {
            found.push(format!("{name} -> {}", fs::read_link(&path).unwrap().display()));
        } else if facts.is_dir() {
            look(top, &path, found);
        } else {
            let mode = facts.permissions().mode() & 0o111;
            found.push(format!("{name} {mode:o} {:?}", fs::read(&path).unwrap()));
        }
    }
}

/// D11.16: contents, modes, links, deletions and odd names come back, also where a file has become a directory or a link, and
/// in a workspace that is no repository. An empty directory is not kept.
#[test]
fn everything_that_can_be_stored_comes_back() {
    for is_repository in [false, true] {
        let ground = Ground::new();
        if is_repository {
            ground.git(&["init", "-q"]);
        }
        for (name, text) in
            [("a", "one"), ("with space", ""), ("new\nline", "q"), ("d/e/f", "deep"), ("-x", "\r\n")]
        {
            ground.write(name, text);
        }
        let work = ground.at("work");
        fs::set_permissions(work.join("a"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("nowhere", work.join("link")).unwrap();
        fs::create_dir(work.join("empty")).unwrap();
        let (first, before) = (ground.store(), ground.found());
        fs::set_permissions(work.join("a"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::remove_file(work.join("new\nline")).unwrap();
        fs::remove_file(work.join("link")).unwrap();
        fs::remove_dir_all(work.join("d")).unwrap();
        symlink(ground.at("outside"), work.join("d")).unwrap();
        ground.write("link/now/a/directory", "x");
        ground.write("more", "x");
        let (second, after) = (ground.store(), ground.found());
        ground.bring(&first);
        assert_eq!(ground.found(), before);
        ground.bring(&second);
        assert_eq!(ground.found(), after);
        assert_eq!(ground.store(), second, "the same files are the same tree");
        assert_eq!(fs::read_dir(ground.at("outside")).unwrap().count(), 0, "no link was followed");
    }
}

/// D11.16: no empty directory is brought back; one that the way back empties goes, one that was empty stays, and one that is in the
/// place of a file makes room.
#[test]
fn empty_directories_are_no_part_of_it() {
    let ground = Ground::new();
    let work = ground.at("work");
    ground.write("file", "one");
    fs::create_dir(work.join("empty")).unwrap();
    let first = ground.store();
    fs::remove_dir(work.join("empty")).unwrap();
    fs::create_dir_all(work.join("still/empty")).unwrap();
    fs::remove_file(work.join("file")).unwrap();
    fs::create_dir(work.join("file")).unwrap();
    ground.write("emptied/by/it", "x");
    let second = ground.store();
    ground.bring(&first);
    let there = |name: &str| work.join(name).exists();
    assert_eq!(["empty", "emptied", "still/empty"].map(there), [false, false, true]);
    assert!(work.join("file").is_file());
    ground.bring(&second);
    assert_eq!(["emptied/by/it", "file", "still/empty"].map(there), [true, false, true]);
}

/// D11.16: a directory that may not be written keeps nobody from bringing back what is in it; where a link leads is left alone.
#[test]
fn directories_that_may_not_be_written_are_opened() {
    let ground = Ground::new();
    let (work, outside) = (ground.at("work"), ground.at("outside"));
    ground.write("d/e/a", "one");
    ground.write("other/a", "one");
    let first = ground.store();
    ground.write("d/e/a", "two");
    fs::remove_dir_all(work.join("other")).unwrap();
    fs::create_dir(outside.join("e")).unwrap();
    symlink(&outside, work.join("other")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for path in [work.join("d"), work.join("d/e"), outside.clone(), outside.join("e")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o555)).unwrap();
    }
    let now = ground.store();
    ground.bring(&first);
    assert_eq!(fs::read(work.join("d/e/a")).unwrap(), b"one");
    assert_eq!([mode(&work.join("d")), mode(&work.join("d/e"))], [0o755, 0o755]);
    ground.bring(&now);
    assert_eq!([mode(&outside), mode(&outside.join("e"))], [0o555, 0o555]);
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o755)).unwrap();
}

/// D11.16: nothing has changed, and nothing is written; what was killed between two steps is not taken for stored.
#[test]
fn what_is_the_same_is_not_stored_again() {
    let ground = Ground::new();
    ground.write("a", "one");
    let first = ground.store();
    let objects = || fs::read_dir(ground.at("state/checkpoints/files.git/objects")).unwrap().count();
    let before = objects();
    assert_eq!(ground.store(), first);
    assert_eq!(objects(), before);
    // Killed after the index was written and before the tree was: the same as here.
    ground.write("a", "two");
    let own = fs::read_dir(ground.at("state/checkpoints")).unwrap().flatten();
    let own = own.map(|entry| entry.path()).find(|path| path.is_dir() && path.extension().is_none()).unwrap();
    let mut index = Command::new("git");
    index.env("GIT_DIR", &own).env("GIT_OBJECT_DIRECTORY", ground.at("state/checkpoints/files.git/objects"));
    index.env("GIT_WORK_TREE", ground.at("work")).current_dir(ground.at("work"));
    assert!(index.args(["update-index", "a"]).status().unwrap().success());
    let second = ground.store();
    assert_ne!(second, first);
    // A cache that nobody can read is made anew.
    for broken in ["index", "HEAD", "last"] {
        fs::write(own.join(broken), "broken").unwrap();
        assert_eq!(ground.store(), second, "{broken}");
    }
}

/// D11.16: files that are no longer all there are not written in part.
#[test]
fn what_is_lost_is_said_before_anything_is_written() {
    let ground = Ground::new();
    ground.write("a", "one");
    ground.write("b", "other");
    let first = ground.store();
    ground.write("a", "two");
    let second = ground.store();
    fs::remove_file(ground.at("work/b")).unwrap();
    let now = ground.store();
    let mut name = Command::new("git");
    let store = ground.at("state/checkpoints/files.git");
    let name = name.arg("--git-dir").arg(&store).args(["rev-parse", &format!("{first}:a")]).output().unwrap();
    let name = String::from_utf8(name.stdout).unwrap();
    fs::remove_file(store.join("objects").join(&name[..2]).join(name[2..].trim())).unwrap();
    assert!(matches!(ground.vault().way(&now, &first), Err(Error::Lost)));
    assert!(matches!(ground.vault().way(&now, &"0".repeat(40)), Err(Error::Lost)));
    ground.bring(&second);
}

/// D11.16: what is ignored, repositories inside and files that are too large are neither stored nor touched.
#[test]
fn what_is_not_stored_is_left_alone() {
    let ground = Ground::new();
    ground.git(&["init", "-q"]);
    ground.write(".gitignore", "*.log\n");
    ground.write(".git/info/exclude", "private\n");
    ground.write("a", "one");
    let first = ground.store();
    for (name, text) in [("x.log", "log"), ("private", "p"), ("a", "two"), ("nested/file", "n")] {
        ground.write(name, text);
    }
    let nested = Command::new("git").arg("init").arg("-q").arg(ground.at("work/nested")).output().unwrap();
    assert!(nested.status.success());
    let large = fs::File::create(ground.at("work/large")).unwrap();
    large.set_len(longhaul_workspace::limits::CHECKPOINT_FILE_BYTES_MAX + 1).unwrap();
    let stored = ground.vault().store().unwrap();
    assert_eq!(stored.left_out, [PathBuf::from("large"), PathBuf::from("nested/")]);
    ground.bring(&first);
    assert_eq!(fs::read(ground.at("work/a")).unwrap(), b"one");
    for name in ["x.log", "private", "nested/file", "large"] {
        assert!(ground.at("work").join(name).exists(), "{name}");
    }
}

/// D11.16: a file that is ignored now and was not then is left alone on the way there, on the way back, and by whoever goes on
/// after a kill.
#[test]
fn what_is_ignored_on_one_side_only_is_left_alone() {
    let ground = Ground::new();
    for (name, text) in [("a", "one"), ("b", "one"), ("gone/x", "one")] {
        ground.write(name, text);
    }
    let then = ground.store();
    for (name, text) in
        [(".gitignore", "build/\n.env\n"), ("build/x", "built"), (".env", "secret"), ("a", "two")]
    {
        ground.write(name, text);
    }
    fs::remove_dir_all(ground.at("work/gone")).unwrap();
    let (now, stood) = (ground.store(), ground.found());
    ground.bring(&then);
    let back = ground.found();
    for name in [".env", "build/x"] {
        assert!(ground.at("work").join(name).exists(), "{name}");
    }
    assert!(!ground.at("work/.gitignore").exists());
    ground.vault().write_rest(&then, &now).unwrap();
    assert_eq!(ground.found(), stood);
    // Killed when some of it was written: the rest of the way, and back.
    for step in ["gitignore", "a", "gone"] {
        ground.vault().write_rest(&then, &now).unwrap();
        match step {
            "gitignore" => fs::remove_file(ground.at("work/.gitignore")).unwrap(),
            "a" => ground.write("a", "one"),
            _ => ground.write("gone/x", "one"),
        }
        ground.vault().write_rest(&now, &then).unwrap();
        assert_eq!(ground.found(), back, "{step}");
        ground.vault().write_rest(&then, &now).unwrap();
        assert_eq!(ground.found(), stood, "{step}");
        assert_eq!(ground.store(), now, "what is ignored was not taken in: {step}");
    }
}

/// D11.16: what was ignored, was seen for a while because the rules had not been written yet, and is ignored again is left alone by
/// undoing. What the way there wrote goes, ignored or not.
#[test]
fn undoing_leaves_alone_what_is_ignored_then() {
    let ground = Ground::new();
    ground.write("a", "one");
    ground.write("then.log", "stored");
    let then = ground.store();
    fs::remove_file(ground.at("work/then.log")).unwrap();
    for (name, text) in [
        (".gitignore", "deps/\n"),
        ("d/.gitignore", "*\n!.gitignore\n"),
        ("deps/x", "fetched"),
        ("d/:(y)*", "made"),
    ] {
        ground.write(name, text);
    }
    let _ = ground.store();
    ground.write(".gitignore", "deps/\n*.log\n");
    let (now, stood) = (ground.store(), ground.found());
    ground.bring(&then);
    assert!(ground.at("work/then.log").exists());
    let undo = || {
        let vault = ground.vault().having_written(Some(then.clone()));
        let seen = vault.store().unwrap().tree;
        let paths: Vec<PathBuf> =
            vault.way(&seen, &now).unwrap().into_iter().map(|change| change.path).collect();
        (vault, seen, paths)
    };
    let (vault, seen, paths) = undo();
    assert_eq!(paths, [".gitignore", "d/.gitignore", "then.log"].map(PathBuf::from));
    vault.write(&seen, &now).unwrap();
    drop(vault);
    assert_eq!(ground.found(), stood);
    assert_eq!(ground.store(), now, "what is ignored was not taken in");
    // Killed half way.
    ground.bring(&then);
    let (vault, seen, _) = undo();
    ground.write(".gitignore", "deps/\n*.log\n");
    vault.write_rest(&seen, &now).unwrap();
    assert_eq!(ground.found(), stood);
}

/// D11.16: a file in whose place a directory is to be, or the other way round, comes back from every moment at which somebody may
/// have been killed.
#[test]
fn a_file_and_a_directory_change_places_through_kills() {
    let kinds = ["nothing", "file", "empty", "directory"];
    for (stands, to_file) in kinds.iter().flat_map(|kind| [(*kind, true), (*kind, false)]) {
        let ground = Ground::new();
        let a = ground.at("work/a");
        ground.write("a", "file");
        ground.write("b", "one");
        let (file, as_file) = (ground.store(), ground.found());
        fs::remove_file(&a).unwrap();
        ground.write("a/x", "deep");
        ground.write("a/y/z", "deeper");
        let (directory, as_directory) = (ground.store(), ground.found());
        fs::remove_dir_all(&a).unwrap();
        match stands {
            "file" => ground.write("a", "file"),
            "empty" => fs::create_dir_all(a.join("y")).unwrap(),
            "directory" => ground.write("a/x", "deep"),
            _ => {}
        }
        let (from, to, wanted) =
            if to_file { (&directory, &file, as_file) } else { (&file, &directory, as_directory) };
        ground.vault().write_rest(from, to).unwrap_or_else(|error| panic!("{stands} {to_file}: {error}"));
        assert_eq!(ground.found(), wanted, "{stands} {to_file}");
        assert_eq!(ground.store(), *to, "{stands} {to_file}");
    }
}

/// D11.16: what a repository tracks although it is ignored is work like any other.
#[test]
fn what_is_tracked_though_ignored_is_stored() {
    let ground = Ground::new();
    ground.git(&["init", "-q"]);
    for (name, text) in [
        (".gitignore", "dist\n*.lock\n"),
        ("dist/app.js", "one"),
        ("yarn.lock", "one"),
        ("dist/map", "built"),
    ] {
        ground.write(name, text);
    }
    ground.git(&["add", "--force", ".gitignore", "dist/app.js", "yarn.lock"]);
    let (first, before) = (ground.store(), ground.found());
    assert_eq!(ground.store(), first);
    ground.write("dist/app.js", "two");
    fs::remove_file(ground.at("work/yarn.lock")).unwrap();
    let (second, after) = (ground.store(), ground.found());
    assert_ne!(second, first);
    ground.bring(&first);
    assert_eq!(ground.found(), before);
    ground.bring(&second);
    assert_eq!(ground.found(), after);
    // A repository that cannot be read keeps nothing from being stored.
    fs::write(ground.at("work/.git/index"), "broken").unwrap();
    ground.write("dist/app.js", "three");
    assert_ne!(ground.store(), second);
}

/// D11.16: a file that was never stored is not written over.
#[test]
fn what_was_never_stored_is_not_replaced() {
    let ground = Ground::new();
    ground.write("x.log", "kept then");
    let first = ground.store();
    fs::remove_file(ground.at("work/x.log")).unwrap();
    ground.write(".gitignore", "*.log\n");
    let now = ground.store();
    ground.write("x.log", "ignored now");
    let Err(Error::InTheWay { paths }) = ground.vault().way(&now, &first) else {
        panic!("nothing was in the way")
    };
    assert_eq!(paths, [PathBuf::from("x.log")]);
}

/// D11.16: files are stored byte for byte, whatever attributes say, and no filter that a configuration names is run.
#[test]
fn attributes_change_nothing_and_run_nothing() {
    let ground = Ground::new();
    ground.git(&["init", "-q"]);
    let proof = ground.at("outside/ran");
    let filter = format!("touch {}; cat", proof.display());
    ground.git(&["config", "filter.x.clean", &filter]);
    ground.git(&["config", "filter.x.smudge", &filter]);
    ground.write(".gitattributes", "* text=auto eol=crlf filter=x ident\n");
    ground.write("a", "one\r\ntwo\n$Id$\n");
    let (first, before) = (ground.store(), ground.found());
    ground.write("a", "other");
    ground.bring(&first);
    assert_eq!(ground.found(), before);
    assert!(!proof.exists());
    // The control: git itself, asked the same, does run it.
    ground.git(&["add", "a"]);
    assert!(proof.exists());
}

/// D11.16: the repository in the workspace is not touched by any of it.
#[test]
fn the_workspaces_own_repository_is_not_touched() {
    let ground = Ground::new();
    ground.git(&["init", "-q"]);
    ground.write("a", "one");
    ground.git(&["add", "a"]);
    let index = fs::read(ground.at("work/.git/index")).unwrap();
    let first = ground.store();
    ground.write("a", "two");
    ground.bring(&first);
    assert_eq!(fs::read(ground.at("work/.git/index")).unwrap(), index);
    let mut objects = fs::read_dir(ground.at("work/.git/objects")).unwrap().flatten();
    assert_eq!(objects.by_ref().filter(|entry| entry.file_name().len() == 2).count(), 1, "only git's own");
}

/// D11.16: many files at once are stored together, and come back like any other.
#[test]
fn many_files_are_stored_together() {
    let ground = Ground::new();
    for number in 0..=longhaul_workspace::limits::CHECKPOINT_LOOSE_MAX {
        ground.write(&format!("d/{number}"), &format!("{number}\r\n"));
    }
    let (first, before) = (ground.store(), ground.found());
    let objects = fs::read_dir(ground.at("state/checkpoints/files.git/objects")).unwrap().flatten();
    let loose = objects.filter(|entry| entry.file_name().len() == 2).count();
    assert!(loose < 10, "{loose}");
    fs::remove_dir_all(ground.at("work/d")).unwrap();
    ground.store();
    ground.bring(&first);
    assert_eq!(ground.found(), before);
}

/// D11.16: what a killed git left keeps nobody from giving back what is not needed.
#[test]
fn the_locks_of_a_killed_pruning_are_cleared() {
    let ground = Ground::new();
    ground.write("a", "one");
    let tree = ground.store();
    let store = ground.at("state/checkpoints/files.git");
    fs::create_dir_all(store.join("refs/kept")).unwrap();
    let kept = format!("refs/kept/{tree}.lock");
    for name in ["gc.pid.lock", "packed-refs.lock", kept.as_str()] {
        fs::write(store.join(name), "").unwrap();
    }
    let pruning = Pruning::begin(&ground.at("state")).unwrap().unwrap();
    pruning.finish(&BTreeSet::from([tree.clone()]), Duration::ZERO).unwrap();
    assert_eq!(ground.store(), tree);
    ground.write("a", "two");
    ground.bring(&tree);
    assert_eq!(fs::read(ground.at("work/a")).unwrap(), b"one");
}
