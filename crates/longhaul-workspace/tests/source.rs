//! Repositories of elsewhere, with real git and bare repositories on this machine.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use longhaul_workspace::place::{Place, checkout_bytes, ensure, is_dirty, is_unsaved};
use longhaul_workspace::source::{Address, Error, Store, check_reference, refresh};
use tempfile::TempDir;

struct Fixture {
    outer: TempDir,
}

impl Fixture {
    /// `origin.git` with one commit on main, and the checkout it was pushed from.
    fn new() -> Fixture {
        let fixture = Fixture { outer: tempfile::tempdir().unwrap() };
        let base = fixture.base();
        git(&base, &["init", "--quiet", "--bare", "--initial-branch=main", "origin.git"]);
        git(&base, &["clone", "--quiet", "origin.git", "upstream"]);
        fixture.push("file", "one\n");
        fixture
    }

    fn base(&self) -> PathBuf {
        self.outer.path().canonicalize().unwrap()
    }

    fn push(&self, name: &str, text: &str) -> String {
        let upstream = self.base().join("upstream");
        fs::write(upstream.join(name), text).unwrap();
        git(&upstream, &["add", "--force", "."]);
        git(&upstream, &["commit", "--quiet", "-m", name]);
        git(&upstream, &["push", "--quiet", "origin", "HEAD:main"]);
        git(&upstream, &["rev-parse", "HEAD"])
    }

    fn store(&self, depth: Option<u32>) -> Store {
        let address = Address::parse("origin.git", &self.base()).unwrap();
        Store::at(&self.base().join("stores"), address, depth)
    }

    fn place(&self, store: &Store, name: &str, start: &str) -> Place {
        Place::Clone {
            store: store.directory().to_owned(),
            url: self.base().join("origin.git").display().to_string(),
            path: self.base().join("work").join(name),
            branch: format!("agent/{name}"),
            start: start.to_owned(),
        }
    }
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args([
            "-c",
            "user.name=Test",
            "-c",
            "user.email=test@example.com",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A45, D15.5: https, ssh and repositories here, and nothing that git would take for an option or run.
#[test]
fn addresses() {
    let fixture = Fixture::new();
    let base = fixture.base();
    let url = format!("file://{}", base.join("origin.git").display());
    for text in [
        "https://example.com/a/b.git",
        "https://example.com:8443/@scope/a",
        "ssh://git@example.com/a/b",
        "https://[fe80:0:0:0:0:0:0:1]:8443/a",
        "git@example.com:team/@scope/b",
        "ssh://git@example.com:22/a/b",
        "git@example.com:a/b.git",
        "example.com:a",
        "origin.git",
        "./origin.git",
        "upstream",
        &url,
    ] {
        assert!(Address::parse(text, &base).is_ok(), "{text}");
    }
    for text in [
        "",
        "ext::sh -c touch% /tmp/x",
        "fd::3",
        "--upload-pack=touch /tmp/x",
        "-utouch",
        "-c x=y",
        "file:///etc",
        "/etc",
        "..",
        "../no-such",
        "http://example.com/a",
        "git://example.com/a",
        "ftp://example.com/a",
        "ssh://-oProxyCommand=touch/a",
        "ssh://git@-oProxyCommand=x/a",
        "ssh://-l@host/a",
        "git@host:-x",
        "-oProxyCommand=x:a",
        "git@-host:a",
        "https://user:secret@example.com/a",
        "https://secret@example.com/a.git",
        "https://secret@example.com:8443/a",
        "https://secret?secret@example.com/a",
        "https://sec#secret@example.com/a",
        "https://example.com/a?key=secret@secret",
        "ssh://user:secret@example.com/a",
        "https://example.com",
        "https:///a",
        "https://exa mple.com/a",
        "https://example.com/a\r\nx",
        "https://example.com/a\nx",
        "git@host:",
        "user:secret@host:a",
        "user:secret@host:a/b",
        "user:a/secret@host:b",
        "https://example.com/a?token=secret",
        "https://example.com/a#secret",
        "https://user:secret@example.com/a?secret",
        "ssh://host:22:33/a",
        "ssh://host:+22/a",
        "ssh://host:x/a",
        "https://[fe80:1/a",
        "https://[fe80:1]x/a",
    ] {
        let refused = Address::parse(text, &base).unwrap_err();
        assert!(matches!(refused, Error::Address { .. }), "{text}");
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
}

/// A46: names of branches, tags and commits, and nothing that means more.
#[test]
fn references() {
    for name in ["main", "feature/x-1", "v1.2.3", "a1b2c3d", "feat/@scope=x,y", "fürs", "a{b}", "at@x"] {
        assert!(check_reference(name).is_ok(), "{name}");
    }
    for name in [
        "",
        "--orphan",
        "-b",
        "-b--upload-pack=x",
        "..",
        "a..b",
        "/abs",
        ".git",
        "a:b",
        "@{-1}",
        "a@{1}",
        "HEAD",
        "a^",
        "a~1",
        "a b",
        "a\nb",
        "a//b",
        "a/",
        "a.lock",
        "a/.b",
        "a/-b",
        "refs*",
        "+a:b",
        "@",
        "a?",
        "a[1]",
        "a\\b",
        "a\u{7f}",
        "a\u{2028}b",
        "a.",
    ] {
        assert!(check_reference(name).is_err(), "{name:?}");
    }
}

/// A46, D14.3: full names and those of a clone mean branches and tags, and nothing else that is kept in the store; a branch that is
/// itself called so comes first.
#[test]
fn full_names_are_understood() {
    let fixture = Fixture::new();
    let upstream = fixture.base().join("upstream");
    let (store, first) = (fixture.store(None), fixture.push("file", "half\n"));
    git(&upstream, &["tag", "-a", "same", "-m", "x"]);
    git(&upstream, &["push", "--quiet", "origin", "refs/tags/same"]);
    let second = fixture.push("file", "two\n");
    git(&upstream, &["push", "--quiet", "origin", "HEAD:refs/heads/same"]);
    for (name, commit) in [
        ("same", &second),
        ("refs/heads/same", &second),
        ("refs/tags/same", &first),
        ("origin/same", &second),
        ("refs/remotes/origin/same", &second),
        ("refs/heads/main", &second),
    ] {
        assert_eq!(store.fetch(Some(name)).unwrap(), *commit, "{name}");
    }
    for name in
        ["refs/longhaul/head", "longhaul/head", "refs/remotes/same", "upstream/same", "refs/heads/none"]
    {
        assert!(matches!(store.fetch(Some(name)), Err(Error::NoReference { .. })), "{name}");
    }
    for name in [
        "refs/heads/../x",
        "refs/heads/",
        "refs/tags/-x",
        "refs/heads/a:b",
        "origin/HEAD~1",
        "refs/heads/x.lock",
    ] {
        assert!(matches!(store.fetch(Some(name)), Err(Error::Reference { .. })), "{name}");
    }
    git(&upstream, &["push", "--quiet", "origin", &format!("{first}:refs/heads/origin/same")]);
    assert_eq!(store.fetch(Some("origin/same")).unwrap(), first);
}

/// D14.3, D15.1, D15.2, D15.4: the named commit is checked out on a branch of its own; a second fetch brings what is new, and the
/// second workspace of it needs no origin.
#[test]
fn a_repository_is_fetched_once_and_made_often() {
    let fixture = Fixture::new();
    let store = fixture.store(None);
    let first = store.fetch(None).unwrap();
    git(&fixture.base().join("upstream"), &["tag", "v1"]);
    git(&fixture.base().join("upstream"), &["push", "--quiet", "origin", "v1"]);
    let second = fixture.push("file", "two\n");
    assert_eq!(store.fetch(Some("main")).unwrap(), second);
    assert_eq!(store.fetch(Some("v1")).unwrap(), first);
    assert_eq!(store.fetch(Some(&first[..12])).unwrap(), first);
    assert!(matches!(store.fetch(Some("none")), Err(Error::NoReference { .. })));

    let place = fixture.place(&store, "one", &first);
    ensure(&place).unwrap();
    let path = place.directory();
    assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "one\n");
    assert_eq!(git(path, &["symbolic-ref", "--short", "HEAD"]), "agent/one");
    assert_eq!(
        git(path, &["remote", "get-url", "origin"]),
        fixture.base().join("origin.git").display().to_string()
    );
    fs::write(path.join("file"), "agent\n").unwrap();
    ensure(&place).unwrap();
    assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "agent\n", "what is there is left alone");
    // The origin is gone; the store is enough. No workspace needs another, nor the store.
    fs::rename(fixture.base().join("origin.git"), fixture.base().join("away")).unwrap();
    let other = fixture.place(&store, "two", &second);
    ensure(&other).unwrap();
    fs::remove_dir_all(store.directory()).unwrap();
    git(other.directory(), &["fsck", "--strict"]);
    assert!(!is_dirty(other.directory()));
    assert!(matches!(store.fetch(None), Err(Error::Fetch { .. })));

    let fixture = Fixture::new();
    fixture.push("file", "two\n");
    let store = fixture.store(Some(1));
    let place = fixture.place(&store, "shallow", &store.fetch(None).unwrap());
    ensure(&place).unwrap();
    assert_eq!(git(place.directory(), &["rev-list", "--count", "HEAD"]), "1");
    assert_eq!(git(place.directory(), &["rev-parse", "--is-shallow-repository"]), "true");
}

/// D14.8: what a clone has that its origin has not is nowhere else, whatever names it. Tags of the origin's are the origin's, also those
/// that none of its branches has.
#[test]
fn work_in_a_clone_is_unsaved_whatever_names_it() {
    let fixture = Fixture::new();
    let upstream = fixture.base().join("upstream");
    let tag_beside = |name: &str| {
        git(&upstream, &["checkout", "--quiet", "--detach"]);
        git(&upstream, &["commit", "--quiet", "--allow-empty", "-m", name]);
        git(&upstream, &["tag", name]);
        git(&upstream, &["push", "--quiet", "origin", name]);
        git(&upstream, &["checkout", "--quiet", "-"]);
    };
    tag_beside("v1");
    let store = fixture.store(None);
    let start = store.fetch(None).unwrap();
    let work: [(&str, &[&[&str]]); 4] = [
        ("branch", &[&["checkout", "-q", "-b", "feature"], &["commit", "-q", "-a", "-m", "work"]]),
        ("tag", &[&["commit", "-q", "-a", "-m", "work"], &["tag", "done"], &["reset", "-q", "HEAD~"]]),
        ("stash", &[&["stash", "-q"]]),
        ("nothing", &[&["checkout", "-q", "--", "."]]),
    ];
    for (name, deeds) in work {
        let place = fixture.place(&store, name, &start);
        ensure(&place).unwrap();
        let path = place.directory();
        fs::write(path.join("file"), "work\n").unwrap();
        deeds.iter().for_each(|words| drop(git(path, words)));
        git(path, &["checkout", "-q", "-f", &format!("agent/{name}")]);
        assert!(!is_dirty(path), "void");
        assert_eq!(is_unsaved(path), name != "nothing", "{name}");
        git(path, &["push", "-q", "origin", "HEAD"]);
        assert_eq!(is_unsaved(path), name != "nothing", "{name}: what is pushed is not all there is");
    }
    tag_beside("v2");
    store.fetch(None).unwrap();
    let place = fixture.place(&store, "nothing", &start);
    let new = fixture.push("file", "new\n");
    store.fetch(None).unwrap();
    refresh(store.directory(), place.directory(), &fixture.base().join("scratch")).unwrap();
    assert_eq!(git(place.directory(), &["tag", "--list"]), "v1\nv2");
    assert_eq!(git(place.directory(), &["rev-parse", "origin/main"]), new);
    git(place.directory(), &["fsck", "--full"]);
    assert!(!is_unsaved(place.directory()));
    let store = fixture.store(Some(1));
    let place = fixture.place(&store, "shallow", &store.fetch(None).unwrap());
    ensure(&place).unwrap();
    assert!(!is_unsaved(place.directory()));
    let new = fixture.push("file", "newer\n");
    store.fetch(None).unwrap();
    refresh(store.directory(), place.directory(), &fixture.base().join("scratch")).unwrap();
    assert_eq!(git(place.directory(), &["rev-parse", "origin/main"]), new);
    git(place.directory(), &["fsck", "--full"]);
}

/// A52: what a commit takes on disk is known before any of it is written.
#[test]
fn a_small_repository_may_be_a_large_checkout() {
    let fixture = Fixture::new();
    let text = "0".repeat(1_000_000);
    (0..4).for_each(|number| drop(fixture.push(&format!("f{number}"), &text)));
    let (store, head) = (fixture.store(None), fixture.push("last", "x\n"));
    store.fetch(None).unwrap();
    let bytes = Some(4 * 1_000_000 + "one\n".len() as u64 + 2);
    assert_eq!(checkout_bytes(store.directory(), &head), bytes);
    assert_eq!(checkout_bytes(&fixture.base().join("upstream"), "HEAD"), bytes);
    assert_eq!(checkout_bytes(store.directory(), "nothing"), None);
}

/// D15.5: a repository whose objects have the longer names is fetched and made like any other.
#[test]
fn a_repository_with_longer_names_is_fetched() {
    let fixture = Fixture { outer: tempfile::tempdir().unwrap() };
    let base = fixture.base();
    git(
        &base,
        &["init", "--quiet", "--bare", "--initial-branch=main", "--object-format=sha256", "origin.git"],
    );
    git(&base, &["init", "--quiet", "--initial-branch=main", "--object-format=sha256", "upstream"]);
    git(&base.join("upstream"), &["remote", "add", "origin", "../origin.git"]);
    let first = fixture.push("file", "one\n");
    let store = fixture.store(None);
    assert_eq!(store.fetch(None).unwrap(), first);
    let second = fixture.push("file", "two\n");
    assert_eq!(store.fetch(Some("main")).unwrap(), second);
    let place = fixture.place(&store, "run_1", &second);
    ensure(&place).unwrap();
    assert_eq!(fs::read_to_string(place.directory().join("file")).unwrap(), "two\n");
}

/// A git that died while it fetched has left its locks, and the next one fetches all the same.
#[test]
fn the_locks_of_a_killed_fetch_are_cleared() {
    let fixture = Fixture::new();
    let store = fixture.store(None);
    store.fetch(None).unwrap();
    let pushed = fixture.push("file", "two\n");
    let left = ["refs/heads/main.lock", "shallow.lock", "packed-refs.lock", "objects/info/commit-graph.lock"];
    fs::create_dir_all(store.directory().join("objects/info")).unwrap();
    left.iter().for_each(|name| fs::write(store.directory().join(name), "").unwrap());
    assert_eq!(store.fetch(Some("main")).unwrap(), pushed);
    assert!(left.iter().all(|name| !store.directory().join(name).exists()));
}

/// F48: half a store and half a workspace, as a kill leaves them, are made anew; what is somebody's is not.
#[test]
fn half_a_clone_is_made_anew() {
    let fixture = Fixture::new();
    let store = fixture.store(None);
    fs::create_dir_all(store.directory().join("objects/pack")).unwrap();
    fs::write(store.directory().join("objects/pack/tmp_pack_x"), "half").unwrap();
    let start = store.fetch(None).unwrap();
    let place = fixture.place(&store, "one", &start);
    let half = fixture.base().join("work/one.cloning/.git");
    fs::create_dir_all(&half).unwrap();
    fs::write(half.join("index.lock"), "").unwrap();
    ensure(&place).unwrap();
    assert!(!half.exists());
    assert!(!is_dirty(place.directory()));
    let foreign = fixture.place(&store, "foreign", &start);
    fs::create_dir_all(foreign.directory()).unwrap();
    fs::write(foreign.directory().join("mine"), "x").unwrap();
    assert!(ensure(&foreign).is_err());
    assert!(foreign.directory().join("mine").exists());
}

/// A06, F48: a workspace that was made before what it is made from was set apart is so from then on, wherever that is cut off.
#[test]
fn older_workspaces_are_set_apart() {
    let fixture = Fixture::new();
    let store = fixture.store(None);
    let place = fixture.place(&store, "one", &store.fetch(None).unwrap());
    ensure(&place).unwrap();
    let own = place.directory().join(".git");
    let (objects, fetched) = (own.join("objects"), own.join("longhaul-fetched"));
    let is_apart = || {
        git(place.directory(), &["fsck", "--full"]);
        fetched.join("objects/pack").is_dir() && fs::read_dir(objects.join("pack")).unwrap().next().is_none()
    };
    assert!(is_apart());
    for steps in 0..4 {
        // As it was, and as it is after each step.
        fs::remove_dir_all(&objects).unwrap();
        fs::rename(fetched.join("objects"), &objects).unwrap();
        fs::remove_dir(&fetched).unwrap();
        if steps > 0 {
            fs::create_dir(&fetched).unwrap();
        }
        if steps > 1 {
            fs::rename(&objects, fetched.join("objects")).unwrap();
        }
        if steps > 2 {
            fs::create_dir_all(objects.join("info")).unwrap();
        }
        ensure(&place).unwrap();
        assert!(is_apart(), "{steps}");
    }
    // Nothing is put where a link leads.
    let outside = fixture.base().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::remove_dir_all(&fetched).unwrap();
    std::os::unix::fs::symlink(&outside, &fetched).unwrap();
    assert!(ensure(&place).is_err());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn a_repository_without_commits_is_said_to_be_one() {
    let outer = tempfile::tempdir().unwrap();
    git(outer.path(), &["init", "--quiet", "--bare", "empty.git"]);
    let address = Address::parse("empty.git", outer.path()).unwrap();
    let fetched = Store::at(&outer.path().join("stores"), address, None).fetch(None);
    assert!(matches!(fetched, Err(Error::Empty { .. })), "{fetched:?}");
}

/// A fetch that fails takes away what it has made itself, and nothing that was fetched before, whatever git says of that just now.
#[test]
fn a_failed_fetch_takes_no_store_away() {
    let fixture = Fixture::new();
    let store = fixture.store(None);
    let new = Store::at(
        &fixture.base().join("others"),
        Address::parse("origin.git", &fixture.base()).unwrap(),
        None,
    );
    let first = store.fetch(None).unwrap();
    let (origin, away) = (fixture.base().join("origin.git"), fixture.base().join("away.git"));
    fs::rename(&origin, &away).unwrap();
    git(store.directory(), &["update-ref", "-d", "refs/longhaul/head"]);
    assert!(matches!(store.fetch(None), Err(Error::Fetch { .. })));
    assert_eq!(git(store.directory(), &["rev-parse", "main"]), first);
    assert!(matches!(new.fetch(None), Err(Error::Fetch { .. })));
    assert!(!new.directory().exists());
}
