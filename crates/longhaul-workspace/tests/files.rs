//! What a workspace lets through, and what its files look like after a crash.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use longhaul_workspace::{ABSENT, Error, Kind, Metadata, Workspace, digest_of};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

struct Fixture {
    outer: TempDir,
    workspace: Workspace,
}

impl Fixture {
    fn new() -> Fixture {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(outer.path().join("secret"), "secret").unwrap();
        let workspace = Workspace::open(&root).unwrap();
        Fixture { outer, workspace }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.workspace.root().join(relative)
    }

    fn outside_is_unchanged(&self) {
        assert_eq!(names(self.outer.path()), ["root", "secret"]);
        assert_eq!(fs::read_to_string(self.outer.path().join("secret")).unwrap(), "secret");
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn paths_that_lead_out_are_refused_and_nothing_outside_changes() {
    let fixture = Fixture::new();
    symlink("../secret", fixture.path("link")).unwrap();
    symlink(fixture.outer.path().join("secret"), fixture.path("absolute-link")).unwrap();
    symlink("..", fixture.path("parent-link")).unwrap();
    symlink(fixture.outer.path(), fixture.path("absolute-parent-link")).unwrap();
    symlink("../not-there", fixture.path("dangling-out")).unwrap();
    let secret = fixture.outer.path().join("secret").display().to_string();
    let root = fixture.workspace.root().display().to_string();

    for path in [
        "../secret",
        "../new",
        "a/../../secret",
        &secret,
        &format!("{root}/../secret"),
        "link",
        "absolute-link",
        "parent-link/secret",
        "parent-link/new",
        "absolute-parent-link/secret",
        "absolute-parent-link/new/deep",
        "dangling-out",
        "/dev/zero",
        "/proc/self/root/etc/passwd",
        "~/secret",
    ] {
        fs::create_dir_all(fixture.path("a")).unwrap();
        let refused = |result: Result<(), Error>, action: &str| {
            assert!(matches!(result, Err(Error::Outside { .. })), "{action} {path}: {result:?}");
        };
        refused(fixture.workspace.read(path).map(drop), "read");
        refused(fixture.workspace.digest(path).map(drop), "digest");
        refused(fixture.workspace.metadata(path).map(drop), "metadata");
        refused(fixture.workspace.replace(path, b"x", "key"), "replace");
        refused(fixture.workspace.sweep(path, "key").map(drop), "sweep");
    }
    fixture.outside_is_unchanged();
}

/// How often a link is raced.
const RACES: usize = 100_000;

/// Changes `door`, a directory, and `trap`, a link that leads out, for each other until told to stop.
fn swap(root: &Path, stop: &AtomicBool) {
    let (door, trap) = (root.join("door"), root.join("trap"));
    while !stop.load(Ordering::Relaxed) {
        renameat_with(CWD, &door, CWD, &trap, RenameFlags::EXCHANGE).unwrap();
    }
}

/// Whatever happens, nobody is waited for in vain.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A04: a directory that is swapped for a link out while a file in it is written: whoever looks first and opens then is led out,
/// we never are, however often it is tried.
#[test]
fn a_link_swapped_in_between_leads_nowhere() {
    let memory = Path::new("/dev/shm");
    let outer =
        if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() };
    let place = outer.path().canonicalize().unwrap();
    let [root, out] = ["root", "out"].map(|name| place.join(name));
    fs::create_dir_all(root.join("door")).unwrap();
    fs::create_dir(&out).unwrap();
    symlink(&out, root.join("trap")).unwrap();
    let workspace = Workspace::open(&root).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| swap(&root, &stop));
        let ends = Ends(&stop);
        let naive = || {
            let looked = root.join("door").canonicalize().is_ok_and(|path| path.starts_with(&root));
            looked && fs::write(root.join("door/file"), "x").is_ok() && out.join("file").exists()
        };
        let is_led_out = (0..100 * RACES).any(|_| naive());
        fs::remove_file(out.join("file")).ok();
        let written = (0..RACES).filter(|_| workspace.replace("door/file", b"x", "key").is_ok()).count();
        drop(ends);
        assert!(is_led_out, "void: the swap was never met");
        assert!(written > 0, "void: nothing was ever written");
    });
    assert_eq!(names(&out), Vec::<String>::new());
}

#[test]
fn only_regular_files_are_touched() {
    let fixture = Fixture::new();
    assert!(Command::new("mkfifo").arg(fixture.path("fifo")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(fixture.path("socket")).unwrap();
    fs::create_dir(fixture.path("directory")).unwrap();
    fs::write(fixture.path("file"), "x").unwrap();

    let message = |path: &str| fixture.workspace.replace(path, b"x", "key").unwrap_err().to_string();
    assert_eq!(message("fifo"), "`fifo` is a FIFO, not a regular file");
    assert_eq!(message("socket"), "`socket` is a socket, not a regular file");
    assert_eq!(message("directory"), "`directory` is a directory, not a file");
    assert_eq!(message("."), "`.` is a directory, not a file");
    for path in ["file/", "nothing/"] {
        assert_eq!(
            message(path),
            format!("`{path}` ends in a slash, so it names a directory; give the path of a file")
        );
    }
    assert!(!fixture.path("nothing").exists());
    assert_eq!(message(""), Error::EmptyPath.to_string());
    assert_eq!(message("a\0b"), Error::NulInPath.to_string());
    assert!(message("file/below").contains("a part of the path is a file"));
    for path in ["fifo", "socket", "directory", ".", "", "a\0b", "file/below"] {
        assert!(fixture.workspace.read(path).is_err(), "{path:?}");
        assert!(fixture.workspace.digest(path).is_err(), "{path:?}");
    }
    let kind = |path: &str| fixture.workspace.metadata(path).unwrap().map(|metadata| metadata.kind);
    assert_eq!(kind("fifo"), Some(Kind::Special));
    assert_eq!(kind("directory"), Some(Kind::Directory));
    assert_eq!(kind("nothing"), None);
    assert_eq!(fixture.workspace.metadata("file").unwrap(), Some(Metadata { kind: Kind::File, bytes: 1 }));
}

#[test]
fn replacing_creates_parents_keeps_the_mode_and_leaves_no_temporary_file() {
    let fixture = Fixture::new();
    let absolute = fixture.path("new/deep/file").display().to_string();
    fixture.workspace.replace(&absolute, b"one", "run_x.call_1").unwrap();
    fs::set_permissions(fixture.path("new/deep/file"), fs::Permissions::from_mode(0o751)).unwrap();
    fixture.workspace.replace("new/deep/file", b"two", "run_x.call_2").unwrap();

    assert_eq!(fixture.workspace.read("new/deep/file").unwrap(), b"two");
    assert_eq!(fixture.workspace.digest("new/deep/file").unwrap(), digest_of(b"two"));
    let mode = fs::metadata(fixture.path("new/deep/file")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o751);
    assert_eq!(names(&fixture.path("new/deep")), ["file"]);
}

#[test]
fn what_is_not_agreed_to_is_not_replaced() {
    let fixture = Fixture::new();
    fs::write(fixture.path("file"), "one").unwrap();
    // When it is asked, all is written but the name.
    let refused = || {
        assert_eq!(names(fixture.workspace.root()), [".longhaul-key.tmp", "file"]);
        assert_eq!(fixture.workspace.read(".longhaul-key.tmp").unwrap(), b"two");
        false
    };
    assert!(!fixture.workspace.replace_if("file", b"two", "key", refused).unwrap());
    assert_eq!(names(fixture.workspace.root()), ["file"]);
    assert_eq!(fixture.workspace.read("file").unwrap(), b"one");
    assert!(fixture.workspace.replace_if("file", b"two", "key", || true).unwrap());
    assert_eq!(fixture.workspace.read("file").unwrap(), b"two");
}

#[test]
fn a_link_inside_stays_and_its_target_is_replaced() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("sub")).unwrap();
    fs::write(fixture.path("target"), "old").unwrap();
    symlink("../target", fixture.path("sub/link")).unwrap();
    symlink("sub/link", fixture.path("chain")).unwrap();
    symlink("loop", fixture.path("loop")).unwrap();

    fixture.workspace.replace("chain", b"new", "key").unwrap();

    assert_eq!(fs::read(fixture.path("target")).unwrap(), b"new");
    assert!(fixture.path("chain").is_symlink() && fixture.path("sub/link").is_symlink());
    let looped = fixture.workspace.replace("loop", b"x", "key");
    assert!(matches!(looped, Err(Error::LinkLoop { .. })), "{looped:?}");
}

#[test]
fn the_leftover_of_a_killed_replace_is_found_by_its_key_only() {
    let fixture = Fixture::new();
    fs::write(fixture.path("file"), "old").unwrap();
    fs::write(fixture.path(".longhaul-run_x.call_1.tmp"), "half").unwrap();
    fs::write(fixture.path(".longhaul-run_x.call_2.tmp"), "half").unwrap();

    assert!(fixture.workspace.sweep("file", "run_x.call_1").unwrap());
    assert!(!fixture.workspace.sweep("file", "run_x.call_1").unwrap());
    assert!(!fixture.workspace.sweep("missing/file", "run_x.call_1").unwrap());
    assert_eq!(names(fixture.workspace.root()), [".longhaul-run_x.call_2.tmp", "file"]);

    fixture.workspace.replace("file", b"new", "run_x.call_2").unwrap();
    assert_eq!(names(fixture.workspace.root()), ["file"]);
    assert_eq!(fixture.workspace.read("file").unwrap(), b"new");
}

#[test]
fn an_unusable_key_is_refused() {
    let fixture = Fixture::new();
    for key in ["", "a/b", "..\0", &"x".repeat(201)] {
        assert!(matches!(fixture.workspace.replace("file", b"x", key), Err(Error::BadKey { .. })), "{key:?}");
    }
    assert_eq!(fixture.workspace.digest("file").unwrap(), ABSENT);
}

#[test]
fn a_file_too_large_to_hold_is_refused_before_it_is_read() {
    let fixture = Fixture::new();
    fs::File::create(fixture.path("sparse")).unwrap().set_len(4 << 30).unwrap();
    assert!(matches!(fixture.workspace.read("sparse"), Err(Error::TooLarge { .. })));
}

/// F47: a workspace that was moved or deleted stops the work; nothing is written elsewhere.
#[test]
fn a_workspace_that_is_gone_is_said_to_be_gone() {
    let fixture = Fixture::new();
    fs::rename(fixture.workspace.root(), fixture.outer.path().join("moved")).unwrap();
    let gone = |result: Result<(), Error>| assert!(matches!(result, Err(Error::Gone { .. })), "{result:?}");
    gone(fixture.workspace.replace("file", b"x", "key"));
    fs::create_dir(fixture.outer.path().join("root")).unwrap();
    gone(fixture.workspace.replace("file", b"x", "key"));
    gone(fixture.workspace.read("file").map(drop));
    fs::remove_dir(fixture.outer.path().join("moved")).unwrap();
    gone(fixture.workspace.replace("file", b"x", "key"));
    fixture.outside_is_unchanged();
    assert!(names(&fixture.outer.path().join("root")).is_empty());
}
