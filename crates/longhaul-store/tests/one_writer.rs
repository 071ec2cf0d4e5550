//! One writer at a time, whoever dies or lingers; readers beside it; repair only when asked.

#![expect(clippy::unwrap_used, reason = "the helpers of a test stop it as its assertions do")]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use longhaul_core::ids::CommandId;
use longhaul_store::{Engine, Entry, Error, Sqlite, Store, Writer, limits};
use longhaul_testkit::faulty_disk::FaultyDisk;
use longhaul_testkit::store_contract::{entries, entry, keep, open_all, read_all, run_id, writer};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use tempfile::TempDir;

fn nothing(_: longhaul_store::Record<'_>) -> Result<(), Error> {
    Ok(())
}

#[test]
fn a_writer_whose_lock_was_replaced_is_fenced() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::new(dir.path());
    let mut stale = engine.create(&run_id(1), &writer(), &entries(["a"])).unwrap();
    let lock = dir.path().join("runs").join(run_id(1).as_str()).join("lock");
    fs::remove_file(&lock).unwrap();
    let mut fresh = engine.open(&run_id(1), &writer(), &mut nothing).unwrap();
    assert!(fresh.generation() > stale.generation());
    fresh.append(&entries(["b"])).unwrap();
    assert!(matches!(stale.append(&entries(["lost"])), Err(Error::Fenced { generation: 1, .. })));
    assert!(matches!(stale.append(&entries(["lost"])), Err(Error::Poisoned { .. })));
    assert!(stale.close().is_err(), "and it must not cut the file of the new one");
    fresh.append(&entries(["c"])).unwrap();
    drop(fresh);
    assert_eq!(open_all(&engine, &run_id(1)).unwrap().len(), 3);
}

#[test]
fn a_writer_whose_line_was_overwritten_is_fenced() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::new(dir.path());
    let mut journal = engine.create(&run_id(1), &writer(), &entries(["a"])).unwrap();
    let lock = dir.path().join("runs").join(run_id(1).as_str()).join("lock");
    let line = fs::read_to_string(&lock).unwrap();
    assert_eq!(line.matches('\n').count(), 1);
    fs::write(&lock, line.replace("\"generation\":1", "\"generation\":2")).unwrap();
    assert!(matches!(journal.append(&entries(["b"])), Err(Error::Fenced { .. })));
}

/// A child that is being started has the files of its parent open until it is another program; who lets a run go does not wait
/// for that.
#[test]
fn a_lock_is_let_go_of_whoever_has_its_file_open() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::new(dir.path());
    let journal = engine.create(&run_id(1), &writer(), &entries(["a"])).unwrap();
    let lock = dir.path().canonicalize().unwrap().join("runs").join(run_id(1).as_str()).join("lock");
    let is_lock =
        |number: &i32| fs::read_link(format!("/proc/self/fd/{number}")).is_ok_and(|path| path == lock);
    let number = (3..1024).find(is_lock).unwrap();
    let twin = pidfd_open(getpid(), PidfdFlags::empty())
        .and_then(|process| pidfd_getfd(process, number, PidfdGetfdFlags::empty()));
    let Ok(_twin) = twin else {
        return eprintln!("SKIP a_lock_is_let_go_of_whoever_has_its_file_open: needs pidfd_getfd");
    };
    assert!(matches!(engine.open(&run_id(1), &writer(), &mut nothing), Err(Error::Held { .. })));
    drop(journal);
    engine.open(&run_id(1), &writer(), &mut nothing).unwrap();
}

#[test]
fn asking_for_the_holder_does_not_disturb_the_writer() {
    let dir = TempDir::new().unwrap();
    let engine = Arc::new(Engine::new(dir.path()));
    drop(engine.create(&run_id(1), &writer(), &entries(["a"])).unwrap());
    let asking = engine.clone();
    let asker =
        std::thread::spawn(move || (0..2000).for_each(|_| assert!(asking.holder(&run_id(1)).is_ok())));
    while !asker.is_finished() {
        drop(engine.open(&run_id(1), &writer(), &mut nothing).unwrap());
    }
    asker.join().unwrap();
}

/// A reader beside a busy writer sees every record once, in order, and never takes a write in progress for damage.
#[test]
fn a_reader_beside_a_busy_writer_sees_no_damage() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::on(Arc::new(FaultyDisk::new()), dir.path());
    let mut journal = engine.create(&run_id(1), &writer(), &entries(["a"])).unwrap();
    let reading = Engine::on(Arc::new(FaultyDisk::new()), dir.path());
    let reader = std::thread::spawn(move || {
        let mut reader = reading.reader(&run_id(1)).unwrap();
        let mut found = Vec::new();
        while found.len() < 1501 {
            reader.poll(&mut keep(&mut found)).unwrap();
        }
    });
    for number in 0..1500 {
        journal.append(&[Entry { payload: vec![1; number * 31 % 9000], ..entry("") }]).unwrap();
    }
    reader.join().unwrap();
}

/// AD4: the journal is the run. A copy that lost what was empty beside it is opened, and told things, as any other.
#[test]
fn what_lies_beside_a_journal_may_be_missing() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::new(dir.path());
    let place = dir.path().join("runs").join(run_id(1).as_str());
    drop(engine.create(&run_id(1), &writer(), &entries(["a"])).unwrap());
    let lose = || ["inbox", "blobs"].map(|name| fs::remove_dir_all(place.join(name)).unwrap());
    lose();
    assert_eq!(engine.pending(&run_id(1)).unwrap().len(), 0);
    assert!(engine.footprint(&run_id(1)).unwrap().journal_bytes > 0);
    engine.post(&run_id(1), &CommandId::from_bits(1), b"pause").unwrap();
    assert_eq!(engine.pending(&run_id(1)).unwrap().len(), 1);
    lose();
    drop(engine.open(&run_id(1), &writer(), &mut nothing).unwrap());
    let hash = engine.put_blob(&run_id(1), b"large").unwrap();
    assert_eq!(engine.blob(&run_id(1), &hash).unwrap(), b"large");
}

#[test]
fn the_fallback_takes_over_from_the_dead_and_fences_the_stale() {
    let dir = TempDir::new().unwrap();
    let store = Sqlite::open(&dir.path().join("fallback.db")).unwrap();
    // No process has this number: the kernel's largest is 2^22.
    let dead = Writer { pid: 5_000_000, ..writer() };
    let mut stale = store.create(&run_id(1), &dead, &entries(["a"])).unwrap();
    assert_eq!(store.holder(&run_id(1)).unwrap(), None);
    let mut fresh = store.open(&run_id(1), &writer(), &mut nothing).unwrap();
    assert!(matches!(stale.append(&entries(["lost"])), Err(Error::Fenced { generation: 1, .. })));
    drop(stale);
    assert!(
        store.holder(&run_id(1)).unwrap().is_some(),
        "the stale writer's end does not free the fresh one's"
    );
    fresh.append(&entries(["b"])).unwrap();
    drop(fresh);
    assert_eq!(open_all(&store, &run_id(1)).unwrap().len(), 2);
    let elsewhere = Writer { host: "another-host".to_owned(), ..dead };
    let held = store.open(&run_id(1), &elsewhere, &mut nothing).unwrap();
    assert!(
        matches!(store.remove(&run_id(1)), Err(Error::Held { .. })),
        "who cannot be looked at is left alone"
    );
    drop(held);
}

#[test]
fn verify_changes_nothing_and_repair_keeps_a_copy() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::new(dir.path());
    let mut journal = engine.create(&run_id(1), &writer(), &entries(["a", "b"])).unwrap();
    journal.append(&entries(["c"])).unwrap();
    let sound_to = engine.footprint(&run_id(1)).unwrap().journal_bytes;
    journal.append(&entries(["damaged from here"])).unwrap();
    journal.append(&entries(["and after"])).unwrap();
    assert!(matches!(engine.repair(&run_id(1), &writer(), &mut |_| Ok(())), Err(Error::Held { .. })));
    journal.close().unwrap();
    let path = engine.journal_path(&run_id(1));
    let whole = fs::read(&path).unwrap();
    let report = engine.verify(&run_id(1)).unwrap();
    assert_eq!((report.records, report.bytes, report.damage), (5, whole.len() as u64, None));
    let untouched = engine.repair(&run_id(1), &writer(), &mut |_| Ok(())).unwrap();
    assert_eq!((untouched.bytes_cut, untouched.kept_as), (0, None));

    let mut bytes = whole.clone();
    bytes[sound_to as usize + 50] ^= 4;
    fs::write(&path, &bytes).unwrap();
    let report = engine.verify(&run_id(1)).unwrap();
    assert_eq!((report.records, report.damage.map(|damage| damage.offset)), (3, Some(sound_to)));
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let mut lost = Vec::new();
    let repaired = engine
        .repair(&run_id(1), &writer(), &mut |record| {
            lost.push((record.seq, record.payload.to_vec()));
            Ok(())
        })
        .unwrap();
    assert_eq!((repaired.records_kept, repaired.cut_at), (3, sound_to));
    assert_eq!(repaired.records_lost, 2);
    assert_eq!(lost, [(5, entry("and after").payload)], "what is sound behind the damage is shown");
    assert_eq!(repaired.bytes_cut, whole.len() as u64 - sound_to);
    assert_eq!(fs::read(repaired.kept_as.unwrap()).unwrap(), bytes);
    assert_eq!(open_all(&engine, &run_id(1)).unwrap().len(), 3);

    let mut bytes = fs::read(&path).unwrap();
    bytes[20] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert_eq!(engine.verify(&run_id(1)).unwrap().damage.map(|damage| damage.offset), Some(0));
    let repaired = engine.repair(&run_id(1), &writer(), &mut |_| Ok(())).unwrap();
    assert_eq!((repaired.records_kept, repaired.bytes_cut), (3, 0), "only the header was damaged");
    assert!(repaired.kept_as.unwrap().ends_with("journal.damaged-2"));
    assert_eq!(open_all(&engine, &run_id(1)).unwrap().len(), 3);
}

#[test]
fn a_repair_that_would_keep_nothing_is_refused() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::new(dir.path());
    engine.create(&run_id(1), &writer(), &entries(["a"])).unwrap().close().unwrap();
    let path = engine.journal_path(&run_id(1));
    let mut bytes = fs::read(&path).unwrap();
    bytes[150] ^= 1;
    fs::write(&path, &bytes).unwrap();
    for bytes in [bytes, b"not even a header".to_vec(), Vec::new()] {
        fs::write(&path, &bytes).unwrap();
        let refused = engine.repair(&run_id(1), &writer(), &mut |_| Ok(()));
        assert!(matches!(refused, Err(Error::NothingSound { .. })));
        assert_eq!(fs::read(&path).unwrap(), bytes);
        let left = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
        let copies = left.filter(|name| name.to_string_lossy().starts_with("journal.")).count();
        assert_eq!(copies, 0, "nothing was changed, so nothing is kept");
    }
}

#[test]
fn everything_made_is_private() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::new(dir.path());
    let _journal = engine.create(&run_id(1), &writer(), &entries(["a"])).unwrap();
    engine.post(&run_id(1), &CommandId::from_bits(1), b"{}").unwrap();
    engine.put_blob(&run_id(1), b"blob").unwrap();
    let mut files = 0;
    check_private(&dir.path().join("runs"), &mut files);
    assert_eq!(files, 4 + limits::COMMANDS_RESERVED);
}

fn check_private(dir: &Path, files: &mut usize) {
    assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700, "{dir:?}");
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            check_private(&entry.path(), files);
        } else {
            *files += 1;
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
        }
    }
}

#[test]
fn a_link_in_place_of_a_run_or_journal_is_refused() {
    let (dir, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let engine = Engine::new(dir.path());
    let other = Engine::new(elsewhere.path());
    drop(other.create(&run_id(1), &writer(), &entries(["a"])).unwrap());
    let there = elsewhere.path().join("runs").join(run_id(1).as_str());
    let here = dir.path().join("runs").join(run_id(1).as_str());
    fs::create_dir_all(dir.path().join("runs")).unwrap();
    std::os::unix::fs::symlink(&there, &here).unwrap();
    assert!(matches!(open_all(&engine, &run_id(1)), Err(Error::Io { .. })));
    fs::remove_file(&here).unwrap();
    fs::create_dir(&here).unwrap();
    std::os::unix::fs::symlink(there.join("journal"), here.join("journal")).unwrap();
    assert!(matches!(open_all(&engine, &run_id(1)), Err(Error::Io { .. })));
    assert!(matches!(read_all(&engine, &run_id(1)), Err(Error::Io { .. })));
}

#[test]
fn leftovers_are_not_runs_and_are_swept_when_old() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::new(dir.path());
    let staging = dir.path().join("runs/.staging");
    for (name, age) in [("old", 7200), ("new", 1)] {
        let path = staging.join(format!(".tmp-{name}"));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("journal"), "half").unwrap();
        let modified = SystemTime::now() - Duration::from_secs(age);
        File::open(&path).unwrap().set_modified(modified).unwrap();
    }
    fs::create_dir_all(dir.path().join("runs/run_empty")).unwrap();
    assert_eq!(engine.runs().unwrap(), vec![]);
    drop(engine.create(&run_id(1), &writer(), &entries(["a"])).unwrap());
    assert_eq!(engine.runs().unwrap(), vec![run_id(1)]);
    let left: Vec<_> = fs::read_dir(&staging).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".tmp-new"]);
}

#[test]
fn a_damaged_blob_is_not_passed_on() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::new(dir.path());
    drop(engine.create(&run_id(1), &writer(), &entries(["a"])).unwrap());
    let hash = engine.put_blob(&run_id(1), b"good bytes").unwrap();
    let path = dir.path().join("runs").join(run_id(1).as_str()).join("blobs").join(&hash);
    fs::write(&path, b"evil bytes").unwrap();
    assert!(matches!(engine.blob(&run_id(1), &hash), Err(Error::BlobDamaged { .. })));
    engine.put_blob(&run_id(1), b"good bytes").unwrap();
    assert_eq!(engine.blob(&run_id(1), &hash).unwrap(), b"good bytes", "putting it again mends it");
}

#[test]
fn a_hundred_thousand_records_open_fast() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::on(Arc::new(FaultyDisk::new()), dir.path());
    let mut journal = engine.create(&run_id(1), &writer(), &entries(["a"])).unwrap();
    let batch: Vec<_> = (0..50).map(|_| Entry { payload: vec![3; 200], ..entry("") }).collect();
    (0..2000).for_each(|_| assert!(journal.append(&batch).is_ok()));
    drop(journal);
    let engine = Engine::new(dir.path());
    let start = Instant::now();
    let mut count = 0;
    let opened = engine.open(&run_id(1), &writer(), &mut |_| {
        count += 1;
        Ok(())
    });
    assert!(opened.is_ok() && count == 100_001);
    let budget_ms = if cfg!(debug_assertions) { 2000 } else { 300 };
    assert!(start.elapsed().as_millis() < budget_ms, "{:?}", start.elapsed());
}

/// A pipe or a directory with a command's name in an inbox holds up nobody, and commands are taken all the same.
#[test]
fn only_files_are_commands() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::new(dir.path());
    drop(engine.create(&run_id(1), &writer(), &entries(["a"])).unwrap());
    let inbox = dir.path().join("runs").join(run_id(1).as_str()).join("inbox");
    let odd = CommandId::from_bits(5);
    let made = std::process::Command::new("mkfifo").arg(inbox.join(format!("1-{odd}"))).status().unwrap();
    assert!(made.success());
    fs::create_dir(inbox.join(format!("2-{odd}"))).unwrap();
    engine.post(&run_id(1), &CommandId::from_bits(6), b"pause").unwrap();
    let pending = engine.pending(&run_id(1)).unwrap();
    let shown: Vec<_> = pending.into_iter().map(|posted| (posted.id, posted.body)).collect();
    assert_eq!(shown, [(CommandId::from_bits(6), b"pause".to_vec())]);
    engine.settle(&run_id(1), &CommandId::from_bits(6)).unwrap();
}

/// F16: a writer whose journal was removed says that, and not that somebody took the run over.
#[test]
fn a_journal_that_was_removed_is_not_taken_for_a_newer_writer() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::new(dir.path());
    let mut journal = engine.create(&run_id(1), &writer(), &entries(["a"])).unwrap();
    fs::remove_dir_all(dir.path().join("runs")).unwrap();
    let error = journal.append(&entries(["b"])).unwrap_err();
    assert!(matches!(error, Error::Gone { .. }), "{error}");
}

/// F47: nor does one who is only kept from looking, as by a directory that an agent has closed.
#[test]
fn a_journal_out_of_reach_is_not_taken_for_a_newer_writer() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::new(dir.path());
    let mut journal = engine.create(&run_id(1), &writer(), &entries(["a"])).unwrap();
    let runs = dir.path().join("runs");
    fs::rename(&runs, dir.path().join("aside")).unwrap();
    std::os::unix::fs::symlink("runs", &runs).unwrap();
    let error = journal.append(&entries(["b"])).unwrap_err();
    assert!(matches!(error, Error::Io { action: "reach", .. }), "{error}");
}

/// A run of which only the directory is left is named; one in the fallback or with its journal is not.
#[test]
fn a_run_without_its_journal_is_named() {
    let dir = TempDir::new().unwrap();
    let home = longhaul_store::Home::open(dir.path()).unwrap();
    for number in [1, 2] {
        home.engine().create(&run_id(number), &writer(), &entries(["a"])).unwrap().close().unwrap();
    }
    home.fallback_store().unwrap().create(&run_id(3), &writer(), &entries(["a"])).unwrap();
    fs::create_dir(home.run_dir(&run_id(3))).unwrap();
    assert_eq!(home.lost_runs().unwrap(), []);
    fs::remove_file(home.engine().journal_path(&run_id(2))).unwrap();
    assert_eq!(home.lost_runs().unwrap(), [run_id(2)]);
}
