//! The state directory: the engine if it can be, the fallback if not, and back without losing anything.

#![expect(clippy::unwrap_used, reason = "the helpers of a test stop it as its assertions do")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use longhaul_core::ids::CommandId;
use longhaul_store::home::{Brought, FallbackReason};
use longhaul_store::{Backend, Entry, Error, Home, Sqlite, Store};
use longhaul_testkit::faulty_disk::{Call, Crash, EIO, Fault, FaultyDisk, How, Names};
use longhaul_testkit::store_contract::{entries, open_all, read_all, run_id, writer};
use tempfile::TempDir;

const ENOENT: i32 = 2;

/// A state directory whose `runs` cannot be made, because a file is in its place.
fn broken_home() -> (TempDir, Home) {
    let dir = TempDir::new().unwrap();
    let home = Home::open(&dir.path().join("state")).unwrap();
    fs::write(home.runs_dir(), "in the way").unwrap();
    (dir, home)
}

/// A run in the fallback with some of everything; returns its events.
fn in_fallback(store: &dyn Store) -> Vec<Entry> {
    let mut all = entries(["created"]);
    let mut journal = store.create(&run_id(1), &writer(), &all).unwrap();
    for number in 0..20 {
        let batch = vec![Entry { payload: vec![number; 200_000], ..all[0].clone() }];
        journal.append(&batch).unwrap();
        all.extend(batch);
    }
    store.put_blob(&run_id(1), b"a large output").unwrap();
    store.post(&run_id(1), &CommandId::from_bits(2), b"first").unwrap();
    store.post(&run_id(1), &CommandId::from_bits(1), b"second").unwrap();
    journal.close().unwrap();
    all
}

fn check_all_there(store: &dyn Store, all: &[Entry]) {
    assert!(read_all(store, &run_id(1)).unwrap() == all);
    let hash = store.put_blob(&run_id(1), b"a large output").unwrap();
    assert_eq!(store.blob(&run_id(1), &hash).unwrap(), b"a large output");
    let bodies: Vec<_> = store.pending(&run_id(1)).unwrap().into_iter().map(|posted| posted.body).collect();
    assert_eq!(bodies, [b"first".to_vec(), b"second".to_vec()]);
}

/// A89: a state directory that was made for others to read or write is its owner's alone; one with other things in it stays to be
/// read, and `/tmp` and its like stay as they are.
#[test]
fn a_directory_that_is_open_to_others_is_closed() {
    let outer = TempDir::new().unwrap();
    let opened = |before: u32, name: &str, file: Option<&str>| {
        let dir = outer.path().join(format!("{name}-{before:o}"));
        fs::create_dir(&dir).unwrap();
        if let Some(file) = file {
            fs::write(dir.join(file), "").unwrap();
        }
        fs::set_permissions(&dir, fs::Permissions::from_mode(before)).unwrap();
        Home::open(&dir).unwrap();
        fs::metadata(&dir).unwrap().permissions().mode() & 0o7777
    };
    for (before, alone, shared) in [
        (0o777, 0o700, 0o755),
        (0o770, 0o700, 0o750),
        (0o755, 0o700, 0o755),
        (0o700, 0o700, 0o700),
        (0o1777, 0o1777, 0o1777),
    ] {
        assert_eq!(opened(before, "alone", None), alone, "{before:o}");
        assert_eq!(opened(before, "shared", Some("notes")), shared, "{before:o}");
    }
}

/// AE1: a probe file that another process removes in this very moment does not mean that the engine cannot be used.
#[test]
fn a_probe_that_goes_away_is_no_broken_disk() {
    let dir = TempDir::new().unwrap();
    let disk = FaultyDisk::new();
    let home = Home::open_on(Arc::new(disk.clone()), dir.path()).unwrap();
    fs::create_dir(home.runs_dir()).unwrap();
    fs::write(home.runs_dir().join(".probe"), "").unwrap();
    // The first opening finds that it is there, the second that it is not.
    disk.fail(Fault { call: Call::Open, nth: 2, sticky: false, how: How::Error(ENOENT) });
    let (store, reason) = home.store_for_new().unwrap();
    assert_eq!((store.backend(), reason, disk.fired()), (Backend::Engine, None, 1));
    assert!(!home.runs_dir().join(".probe").exists());
}

#[test]
fn a_new_home_is_private_and_ignored_by_git() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("deep/state");
    assert!(Home::existing(&path).unwrap().is_none());
    assert!(!dir.path().join("deep").exists(), "asking makes nothing");
    let home = Home::open(&path).unwrap();
    assert_eq!(fs::read_to_string(path.join(".gitignore")).unwrap(), "*\n");
    let names: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [".gitignore"], "nothing else before it is needed");
    let (store, reason) = home.store_for_new().unwrap();
    assert_eq!((store.backend(), reason), (Backend::Engine, None));
    drop(store.create(&run_id(1), &writer(), &entries(["a"])).unwrap());
    let existing = Home::existing(&path).unwrap().unwrap();
    assert_eq!(existing.all_runs().unwrap(), vec![run_id(1)]);
    assert!(matches!(existing.store_of(&run_id(2)).err(), Some(Error::NotFound { .. })));
    assert!(!home.fallback_path().exists() && !home.catalog_path().exists());
    assert_eq!(existing.catalog().unwrap().ids_with_freshness().unwrap(), vec![]);
}

#[test]
fn a_home_that_cannot_be_made_is_a_clear_error() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "").unwrap();
    let error = Home::open(&path.join("state")).err().unwrap().to_string();
    assert!(
        error.starts_with("cannot create the state directory `") && error.contains("file/state"),
        "{error}"
    );
    assert!(Home::existing(&path).is_err());
}

#[test]
fn without_the_engine_runs_go_to_the_fallback_and_come_home() {
    let (_dir, home) = broken_home();
    let (store, reason) = home.store_for_new().unwrap();
    assert_eq!(store.backend(), Backend::Sqlite);
    let FallbackReason(reason) = reason.unwrap();
    assert!(reason.contains("runs") && reason.len() > 20, "{reason}");
    let all = in_fallback(&*store);
    assert_eq!(home.store_of(&run_id(1)).unwrap().backend(), Backend::Sqlite);
    assert!(matches!(home.bring_home(&run_id(1), &writer()).unwrap(), Brought::NotYet(_)));
    assert_eq!(home.all_runs().unwrap(), vec![run_id(1)]);

    fs::remove_file(home.runs_dir()).unwrap();
    assert_eq!(home.store_for_new().unwrap().0.backend(), Backend::Engine);
    let held = store.open(&run_id(1), &writer(), &mut |_| Ok(())).unwrap();
    assert!(matches!(home.bring_home(&run_id(1), &writer()), Err(Error::Held { .. })));
    let generation = held.generation();
    drop(held);
    assert_eq!(home.bring_home(&run_id(1), &writer()).unwrap(), Brought::Moved);
    let store = home.store_of(&run_id(1)).unwrap();
    assert_eq!(store.backend(), Backend::Engine);
    check_all_there(&*store, &all);
    assert!(store.open(&run_id(1), &writer(), &mut |_| Ok(())).unwrap().generation() > generation);
    assert_eq!(home.bring_home(&run_id(1), &writer()).unwrap(), Brought::AlreadyHome);
    assert!(matches!(home.bring_home(&run_id(2), &writer()), Err(Error::NotFound { .. })));
    assert_eq!(home.all_runs().unwrap(), vec![run_id(1)]);
}

/// F17: a crash at each step of bringing a run home leaves it whole in one place or in both.
#[test]
fn a_crash_while_bringing_home_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let disk = FaultyDisk::new();
    let home = Home::open_on(Arc::new(disk.clone()), dir.path()).unwrap();
    let all = in_fallback(&Sqlite::open(&home.fallback_path()).unwrap());
    let before: Vec<u8> = fs::read(home.fallback_path()).unwrap();
    assert!(!dir.path().join("fallback.db-wal").exists(), "the copy is the whole database");
    assert_eq!(home.bring_home(&run_id(1), &writer()).unwrap(), Brought::Moved);
    let ops = disk.ops();
    let (mut still_there, mut both) = (0, 0);
    for end in 0..=ops.len() {
        let crash = Crash::after(&ops[..end], dir.path());
        for (names, data) in [(Names::OnlySynced, false), (Names::All, false), (Names::All, true)] {
            let image = TempDir::new_in("/dev/shm").unwrap();
            crash.write(image.path(), names, &mut |_| data);
            fs::write(image.path().join("fallback.db"), &before).unwrap();
            let home = Home::open_on(Arc::new(FaultyDisk::new()), image.path()).unwrap();
            let store = home.store_of(&run_id(1)).unwrap();
            still_there += usize::from(store.backend() == Backend::Sqlite);
            both += usize::from(store.backend() == Backend::Engine);
            check_all_there(&*store, &all);
            let brought = home.bring_home(&run_id(1), &writer()).unwrap();
            assert!(matches!(brought, Brought::Moved | Brought::AlreadyHome), "{brought:?}");
            let store = home.store_of(&run_id(1)).unwrap();
            assert_eq!(store.backend(), Backend::Engine);
            check_all_there(&*store, &all);
            assert_eq!(Sqlite::open(&home.fallback_path()).unwrap().runs().unwrap(), vec![]);
        }
    }
    assert!(still_there > 10 && both > 0, "{still_there} {both}");
    let after = Home::existing(dir.path()).unwrap().unwrap();
    check_all_there(&*after.store_of(&run_id(1)).unwrap(), &all);
}

/// F17: the same with each step failing instead.
#[test]
fn a_failure_while_bringing_home_loses_nothing() {
    let mut strikes = 0;
    for call in [Call::CreateDir, Call::Open, Call::Write, Call::SyncData, Call::Rename, Call::SyncDir] {
        for nth in 1.. {
            let dir = TempDir::new_in("/dev/shm").unwrap();
            let disk = FaultyDisk::new();
            let home = Home::open_on(Arc::new(disk.clone()), dir.path()).unwrap();
            let all = in_fallback(&Sqlite::open(&home.fallback_path()).unwrap());
            disk.fail(Fault { call, nth, sticky: false, how: How::Error(EIO) });
            let brought = home.bring_home(&run_id(1), &writer());
            if disk.fired() == 0 {
                break;
            }
            strikes += 1;
            // A blob that cannot be read back is written again; every other failure stops the move.
            let harmless = call == Call::Open && matches!(brought, Ok(Brought::Moved));
            assert!(
                harmless || matches!(brought, Err(_) | Ok(Brought::NotYet(_))),
                "{call:?} {nth}: {brought:?}"
            );
            disk.mend();
            check_all_there(&*home.store_of(&run_id(1)).unwrap(), &all);
            assert!(home.bring_home(&run_id(1), &writer()).is_ok());
            check_all_there(&*home.store_of(&run_id(1)).unwrap(), &all);
        }
    }
    assert!(strikes > 20, "{strikes}");
}

#[test]
fn two_histories_that_differ_are_not_merged() {
    let dir = TempDir::new().unwrap();
    let home = Home::open(dir.path()).unwrap();
    let fallback = Sqlite::open(&home.fallback_path()).unwrap();
    drop(fallback.create(&run_id(1), &writer(), &entries(["a", "b"])).unwrap());
    drop(home.engine().create(&run_id(1), &writer(), &entries(["a"])).unwrap());
    assert!(matches!(home.bring_home(&run_id(1), &writer()), Err(Error::Diverged { .. })));
    assert_eq!(open_all(&fallback, &run_id(1)).unwrap().len(), 2);
}

/// Commands posted to the fallback while its run moves are carried over too.
#[test]
fn commands_left_behind_are_carried_over() {
    let dir = TempDir::new().unwrap();
    let home = Home::open(dir.path()).unwrap();
    let fallback = Sqlite::open(&home.fallback_path()).unwrap();
    let all = in_fallback(&fallback);
    drop(fallback);
    let saved = fs::read(home.fallback_path()).unwrap();
    assert!(saved.len() > 1000 && no_wal(dir.path()));
    home.bring_home(&run_id(1), &writer()).unwrap();
    drop(home);
    // As if the crash came before the deletion, and somebody then posted where the run still was.
    fs::write(dir.path().join("fallback.db"), &saved).unwrap();
    let fallback = Sqlite::open(&dir.path().join("fallback.db")).unwrap();
    fallback.post(&run_id(1), &CommandId::from_bits(9), b"late").unwrap();
    let home = Home::open(dir.path()).unwrap();
    assert_eq!(home.bring_home(&run_id(1), &writer()).unwrap(), Brought::AlreadyHome);
    let pending = home.store_of(&run_id(1)).unwrap().pending(&run_id(1)).unwrap();
    assert_eq!(pending.last().map(|posted| posted.body.as_slice()), Some(b"late".as_slice()));
    assert_eq!((pending.len(), fallback.runs().unwrap().len()), (3, 0));
    assert_eq!(read_all(&**home.engine(), &run_id(1)).unwrap().len(), all.len());
}

fn no_wal(dir: &Path) -> bool {
    !dir.join("fallback.db-wal").exists()
}

/// Whoever only looks makes nothing, also to see whether the engine could be used.
#[test]
fn looking_at_an_empty_home_makes_nothing() {
    let dir = TempDir::new().unwrap();
    let home = Home::existing(dir.path()).unwrap().unwrap();
    assert_eq!((home.engine_trouble(), home.all_runs().unwrap()), (None, vec![]));
    assert!(home.fallback_trouble().is_none());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// F07: what git is told to ignore is told again if a power cut left nothing of it; what somebody wrote there stays.
#[test]
fn an_empty_gitignore_is_written_again() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join(".gitignore");
    for (before, after) in [("", "*\n"), ("mine\n", "mine\n")] {
        fs::write(&path, before).unwrap();
        Home::open(dir.path()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), after);
    }
}

/// F07: each directory that is made has its name on disk before anything is in it.
#[test]
fn new_directories_are_synced_in_those_above() {
    let dir = TempDir::new().unwrap();
    let disk = Arc::new(FaultyDisk::new());
    Home::open_on(disk.clone(), &dir.path().join("deep/state")).unwrap();
    assert_eq!(
        (disk.calls(Call::CreateDir), disk.calls(Call::SyncDir)),
        (2, 3),
        "and that of the first file"
    );
}

/// AE1: a fallback that cannot be read hides nothing of the engine's and holds up none of its runs. What it may hold itself is
/// unknown, so nobody is told that there is nothing.
#[test]
fn a_damaged_fallback_leaves_the_engine_alone() {
    for is_directory in [false, true] {
        let dir = TempDir::new().unwrap();
        let home = Home::open(dir.path()).unwrap();
        let (store, _) = home.store_for_new().unwrap();
        drop(store.create(&run_id(1), &writer(), &entries(["a"])).unwrap());
        if is_directory {
            fs::create_dir(home.fallback_path()).unwrap();
        } else {
            fs::write(home.fallback_path(), [7; 5000]).unwrap();
        }
        assert_eq!(home.readable_runs().unwrap(), vec![run_id(1)]);
        assert_eq!(home.store_of(&run_id(1)).unwrap().backend(), Backend::Engine);
        assert_eq!(home.bring_home(&run_id(1), &writer()).unwrap(), Brought::AlreadyHome);
        assert_eq!(home.store_for_new().unwrap().0.backend(), Backend::Engine);
        let trouble = home.fallback_trouble().unwrap().to_string();
        assert!(trouble.contains("fallback.db"), "{trouble}");
        assert!(home.all_runs().is_err(), "whoever needs all of them is not told of some");
        let unknown = home.store_of(&run_id(2)).err().unwrap();
        assert!(!matches!(unknown, Error::NotFound { .. }), "{unknown}");
    }
}
