//! Sessions: one holder at a time, freed by death, never taken from the living.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use longhaul_core::time::Timestamp;
use longhaul_workspace::limits::SESSION_EXPIRY;
use longhaul_workspace::process::Process;
use longhaul_workspace::session::{Error, Hold, Lease, Name, Session, Visit, all};

fn session(outer: &Path) -> Session {
    let session = Session::at(outer, Name::parse("nightly").unwrap());
    session.note(Timestamp::from_millis(1000), |_| {}).unwrap();
    session
}

fn lease(outer: &Path) -> std::path::PathBuf {
    outer.join("nightly/lease.json")
}

fn forge(outer: &Path, process: Process, expires_at: i64) {
    let [acquired_at, expires_at] = [1, expires_at].map(Timestamp::from_millis);
    let forged = Lease { run: "run_dead".to_owned(), process, acquired_at, expires_at };
    fs::write(lease(outer), serde_json::to_vec(&forged).unwrap()).unwrap();
}

/// A name is a name: it leads nowhere, and hides nothing.
#[test]
fn names_that_lead_elsewhere_are_refused() {
    for name in ["a", "pr-456", "nightly_scan.2"] {
        assert!(Name::parse(name).is_ok(), "{name}");
    }
    let long = "a".repeat(65);
    for name in [
        "", ".", "..", "../x", "a/b", "/etc", "-rf", ".git", "a b", "a\nb", "a\0b", "a..b", "x.lock", "é",
        &long,
    ] {
        assert!(matches!(Name::parse(name), Err(Error::Name { .. })), "{name:?}");
    }
}

/// D16.5, D16.7, D16.8: the second is told who has it; the lease says run, process, host, since when and until when, and is gone
/// with its holder.
#[test]
fn a_session_is_for_one_run_at_a_time() {
    let outer = tempfile::tempdir().unwrap();
    let session = session(outer.path());
    let (held, stale) = session.take("run_1", SESSION_EXPIRY).unwrap();
    assert_eq!(stale, None);
    let written: serde_json::Value = serde_json::from_slice(&fs::read(lease(outer.path())).unwrap()).unwrap();
    for field in ["run", "pid", "started", "host", "acquiredAt", "expiresAt"] {
        assert!(!written[field].is_null(), "{field}");
    }
    let refused = session.take("run_2", SESSION_EXPIRY).err().unwrap().to_string();
    assert!(refused.starts_with("Session locked by run run_1 (process "), "{refused}");
    assert!(matches!(session.unlock(true), Err(Error::Locked { .. })), "a live holder is never robbed");
    // Even without its lease, the lock holds; and a lease that says its process is over does not open it.
    forge(outer.path(), Process { pid: i32::MAX, ..Process::own() }, 0);
    assert!(matches!(session.take("run_2", SESSION_EXPIRY), Err(Error::Locked { .. })));
    fs::remove_file(lease(outer.path())).unwrap();
    assert!(matches!(session.take("run_2", SESSION_EXPIRY), Err(Error::Busy { .. })));
    drop(held);
    assert!(!lease(outer.path()).exists());
    assert_eq!(session.hold(Timestamp::from_millis(0)).unwrap(), Hold::Free);
    assert!(session.take("run_2", SESSION_EXPIRY).is_ok());
}

/// D16.9: what a killed run left is taken over and named; what may live elsewhere is not, until it runs out.
#[test]
fn only_what_is_dead_is_taken_over() {
    let outer = tempfile::tempdir().unwrap();
    let session = session(outer.path());
    let own = Process::own();
    let year_9000 = 221_845_392_000_000;
    forge(outer.path(), Process { pid: i32::MAX, ..own.clone() }, year_9000);
    assert!(matches!(session.hold(Timestamp::from_millis(0)).unwrap(), Hold::Stale(_)));
    let (held, stale) = session.take("run_1", SESSION_EXPIRY).unwrap();
    assert_eq!(stale.unwrap().run, "run_dead");
    drop(held);
    // The number of the dead process belongs to another one now.
    forge(outer.path(), Process { started: own.started + 1, ..own.clone() }, year_9000);
    assert!(session.take("run_1", SESSION_EXPIRY).unwrap().1.is_some());
    // A live process without a lock, as on a file system that has none.
    forge(outer.path(), own.clone(), 0);
    assert!(matches!(session.take("run_1", SESSION_EXPIRY), Err(Error::Locked { .. })));
    let elsewhere = Process { host: "elsewhere".to_owned(), ..own };
    forge(outer.path(), elsewhere.clone(), year_9000);
    assert!(matches!(session.take("run_1", SESSION_EXPIRY), Err(Error::Locked { .. })));
    assert!(matches!(session.unlock(false), Err(Error::Locked { .. })));
    assert_eq!(session.unlock(true).unwrap().unwrap().run, "run_dead");
    forge(outer.path(), elsewhere, 0);
    assert!(session.take("run_1", SESSION_EXPIRY).unwrap().1.is_some());
}

/// A lease that a disk has spoilt keeps nobody out, and lets nobody in beside a living holder.
#[test]
fn a_damaged_lease_says_nothing() {
    let outer = tempfile::tempdir().unwrap();
    let session = session(outer.path());
    for damaged in ["", "{", "not a lease", "[]"] {
        fs::write(lease(outer.path()), damaged).unwrap();
        assert_eq!(session.hold(Timestamp::from_millis(0)).unwrap(), Hold::Free, "{damaged:?}");
        assert_eq!(session.unlock(false).unwrap(), None, "{damaged:?}");
        let (held, stale) = session.take("run_1", SESSION_EXPIRY).unwrap();
        assert_eq!(stale, None);
        fs::write(lease(outer.path()), damaged).unwrap();
        assert!(matches!(session.take("run_2", SESSION_EXPIRY), Err(Error::Busy { .. })), "{damaged:?}");
        drop(held);
    }
}

/// D16.10: a lease is renewed for as long as its holder lives.
#[test]
fn a_long_run_keeps_its_lease() {
    let outer = tempfile::tempdir().unwrap();
    let session = session(outer.path());
    let (_held, _) = session.take("run_1", Duration::from_millis(30)).unwrap();
    let expires = || -> Lease { serde_json::from_slice(&fs::read(lease(outer.path())).unwrap()).unwrap() };
    let first = expires().expires_at;
    while expires().expires_at == first {
        std::thread::yield_now();
    }
    assert!(expires().expires_at > first);
}

#[test]
fn what_is_known_of_a_session_is_kept() {
    let outer = tempfile::tempdir().unwrap();
    assert_eq!(all(&outer.path().join("none")).unwrap().len(), 0);
    let session = session(outer.path());
    let at = Timestamp::from_millis(3000);
    let visits = (0..1001).map(|run| Visit { run: format!("run_{run}"), at, branch: None });
    session.note(at, |notes| notes.runs.extend(visits)).unwrap();
    let notes = session.notes().unwrap();
    assert_eq!((notes.created_at.as_millis(), notes.last_used_at.as_millis()), (1000, 3000));
    assert_eq!((notes.runs.len(), notes.runs[0].run.as_str()), (1000, "run_1"));
    fs::create_dir(outer.path().join(".hidden")).unwrap();
    fs::create_dir(outer.path().join("half-made")).unwrap();
    assert_eq!(all(outer.path()).unwrap().iter().map(Session::name).collect::<Vec<_>>(), ["nightly"]);
    let (held, _) = session.take("session delete", SESSION_EXPIRY).unwrap();
    session.delete(held).unwrap();
    assert!(!outer.path().join("nightly").exists());
    assert!(matches!(session.notes(), Err(Error::Missing { .. })));
}
