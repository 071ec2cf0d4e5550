//! A disk that fails: nothing acknowledged is lost, nothing half written is believed, and no sync is tried twice.

#![expect(clippy::unwrap_used, reason = "the helpers of a test stop it as its assertions do")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use longhaul_core::ids::CommandId;
use longhaul_store::{Engine, Entry, Error, Journal, Space, Store, limits};
use longhaul_testkit::faulty_disk::{Call, Crash, EINTR, EIO, ENOSPC, Fault, FaultyDisk, How, Names, Op};
use longhaul_testkit::store_contract::{entries, entry, keep, open_all, read_all, run_id, writer};
use tempfile::TempDir;

fn setup() -> (TempDir, FaultyDisk, Engine) {
    let dir = TempDir::new().unwrap();
    let disk = FaultyDisk::new();
    let engine = Engine::on(Arc::new(disk.clone()), dir.path());
    (dir, disk, engine)
}

fn once(call: Call, nth: usize, how: How) -> Fault {
    Fault { call, nth, sticky: false, how }
}

fn sized(bytes: usize) -> Vec<Entry> {
    vec![Entry { payload: vec![b'x'; bytes], ..entry("") }]
}

#[test]
fn one_append_is_one_sync_and_one_write() {
    let (_dir, disk, engine) = setup();
    let mut journal = engine.create(&run_id(1), &writer(), &sized(10)).unwrap();
    disk.reset_calls();
    for number in 1..=400 {
        journal.append(&sized(number * 7)).unwrap();
        assert_eq!(disk.calls(Call::SyncData), number);
    }
    assert!(disk.calls(Call::Write) <= 400 + 40, "growing the file is rare: {}", disk.calls(Call::Write));
    assert_eq!(disk.calls(Call::Read) + disk.calls(Call::Open) + disk.calls(Call::SetLen), 0);
    disk.reset_calls();
    journal.append(&[]).unwrap();
    assert_eq!(disk.calls(Call::SyncData), 0, "nothing to write is nothing to sync");
}

#[test]
fn stored_bytes_stay_near_the_payload() {
    let (_dir, _, engine) = setup();
    let mut journal = engine.create(&run_id(1), &writer(), &sized(1024)).unwrap();
    (0..500).for_each(|_| assert!(journal.append(&sized(1024)).is_ok()));
    let footprint = engine.footprint(&run_id(1)).unwrap();
    assert!(footprint.journal_bytes * 100 <= footprint.payload_bytes * 106, "{footprint:?}");
}

/// Appends until the disk gives in; returns what was acknowledged.
fn script(engine: &Engine, disk: &FaultyDisk) -> (Vec<Entry>, Option<Error>) {
    let mut acked = sized(100);
    let mut journal = match engine.create(&run_id(1), &writer(), &acked) {
        Ok(journal) => journal,
        Err(error) => return (Vec::new(), Some(error)),
    };
    for number in 0..30 {
        let batch = sized(2000 + number);
        match journal.append(&batch) {
            Ok(_) => acked.extend(batch),
            Err(error @ Error::NoSpace { .. }) => {
                assert_eq!(read_all(engine, &run_id(1)).unwrap(), acked, "nothing half written");
                disk.mend();
                let ack = journal.append(&batch).unwrap();
                assert_eq!((ack.space, ack.last_seq), (Space::Ample, acked.len() as u64 + 1), "it goes on");
                acked.extend(batch);
                drop(journal);
                return (acked, Some(error));
            }
            Err(error) => return (acked, Some(error)),
        }
    }
    (acked, None)
}

/// F10: ENOSPC at the n-th write, once and for good, for every n until a run finishes untouched.
#[test]
fn a_full_disk_at_any_write_loses_nothing() {
    for sticky in [false, true] {
        let mut strikes = 0;
        for nth in 1.. {
            let (dir, disk, engine) = setup();
            disk.fail(Fault { call: Call::Write, nth, sticky, how: How::Error(ENOSPC) });
            let (acked, error) = script(&engine, &disk);
            if disk.fired() == 0 {
                break;
            }
            strikes += 1;
            match error {
                Some(Error::NoSpace { .. }) | None => {}
                other => panic!("write {nth}: {other:?}"),
            }
            if acked.is_empty() {
                assert_eq!(engine.runs().unwrap(), vec![]);
                assert_eq!(fs::read_dir(dir.path().join("runs/.staging")).unwrap().count(), 0);
            } else {
                assert_eq!(open_all(&engine, &run_id(1)).unwrap(), acked, "write {nth}");
            }
        }
        assert!(strikes > 30, "{strikes}");
    }
}

/// F10: with the disk full, the reserve takes what says so; then nothing more; then, with space, everything again.
#[test]
fn the_reserve_is_there_when_the_disk_is_full() {
    let (_dir, disk, engine) = setup();
    let mut acked = sized(100);
    let mut journal = engine.create(&run_id(1), &writer(), &acked).unwrap();
    disk.fill_up(0);
    let mut from_reserve = 0;
    let refused = loop {
        let batch = sized(1000);
        match journal.append(&batch) {
            Ok(ack) => {
                from_reserve += usize::from(ack.space == Space::Reserve) * 1000;
                acked.extend(batch);
            }
            Err(error) => break error,
        }
    };
    assert!(disk.fired() > 0);
    assert!(matches!(refused, Error::NoSpace { .. }), "{refused:?}");
    assert!(from_reserve >= 14_000, "{from_reserve} bytes came from the reserve");
    assert_eq!(read_all(&engine, &run_id(1)).unwrap(), acked);
    acked.extend(sized(1));
    assert_eq!(
        journal.append(&acked[acked.len() - 1..]).unwrap().space,
        Space::Reserve,
        "a small one still fits"
    );
    disk.fill_up(3000);
    assert!(matches!(journal.append(&sized(9000)), Err(Error::NoSpace { .. })), "not enough for this one");
    disk.mend();
    assert_eq!(journal.append(&sized(9000)).unwrap().space, Space::Ample);
    drop(journal);
    assert_eq!(open_all(&engine, &run_id(1)).unwrap().len(), acked.len() + 1);
}

/// F10: a run that was put down keeps its reserve, so that it can be stopped on a disk that filled up meanwhile; one that
/// was closed for good gave it back.
#[test]
fn a_resting_run_keeps_its_reserve() {
    for resting in [true, false] {
        let (_dir, disk, engine) = setup();
        let journal = engine.create(&run_id(1), &writer(), &sized(100)).unwrap();
        if resting {
            journal.rest().unwrap()
        } else {
            journal.close().unwrap()
        }
        disk.fill_up(0);
        let mut journal = engine.open(&run_id(1), &writer(), &mut |_| Ok(())).unwrap();
        let stopped = journal.append(&sized(300));
        assert!(disk.fired() > 0);
        match stopped {
            Ok(ack) => assert!(resting && ack.space == Space::Reserve),
            Err(Error::NoSpace { .. }) => assert!(!resting),
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// F10: with the disk full, commands are written over what was set aside for them, whole and in order; then they are refused; what
/// was used is set aside again once there is space.
#[test]
fn commands_can_be_left_on_a_full_disk() {
    let (dir, disk, engine) = setup();
    let journal = engine.create(&run_id(1), &writer(), &sized(100)).unwrap();
    let inbox = dir.path().join("runs").join(run_id(1).as_str()).join("inbox");
    let files = || fs::read_dir(&inbox).unwrap().count();
    let set_aside = limits::COMMANDS_RESERVED;
    let post =
        |number: usize, body: &[u8]| engine.post(&run_id(1), &CommandId::from_bits(number as u128), body);
    let body = |number: usize| format!("command {number}").into_bytes();
    assert_eq!((files(), engine.pending(&run_id(1)).unwrap()), (set_aside, vec![]));
    assert!(fs::read_dir(&inbox).unwrap().all(|entry| entry.unwrap().metadata().unwrap().blocks() > 0));
    disk.fill_up(0);
    let large = post(0, &[b'x'; limits::COMMAND_RESERVE_BYTES + 1]);
    assert!(matches!(large, Err(Error::NoRoomForCommand { .. })), "{large:?}");
    (1..=set_aside).for_each(|number| post(number, &body(number)).unwrap());
    let refused = post(9, b"one too many");
    assert!(matches!(refused, Err(Error::NoRoomForCommand { .. })), "{refused:?}");
    let bodies: Vec<_> = engine.pending(&run_id(1)).unwrap().into_iter().map(|posted| posted.body).collect();
    assert_eq!(bodies, (1..=set_aside).map(body).collect::<Vec<_>>());
    assert_eq!(files(), set_aside, "nothing half made is left");
    disk.mend();
    engine.settle(&run_id(1), &CommandId::from_bits(1)).unwrap();
    (2..=set_aside)
        .for_each(|number| engine.settle(&run_id(1), &CommandId::from_bits(number as u128)).unwrap());
    assert_eq!((files(), engine.pending(&run_id(1)).unwrap()), (set_aside, vec![]));
    disk.fill_up(0);
    post(5, b"again").unwrap();
    disk.mend();
    journal.rest().unwrap();
    let journal = engine.open(&run_id(1), &writer(), &mut |_| Ok(())).unwrap();
    assert_eq!(files(), set_aside + 1, "who opens the run sets aside what is lacking");
    journal.close().unwrap();
    assert_eq!(files(), 1, "a run that has ended gives it back");
}

/// F09, F10: the same is true of a command that was written over what was set aside: it is there or not after any crash, never half.
#[test]
fn a_command_from_the_reserve_is_durable_or_absent() {
    let (dir, disk, engine) = setup();
    drop(engine.create(&run_id(1), &writer(), &entries(["a"])).unwrap());
    disk.fill_up(0);
    let before = disk.ops().len();
    engine.post(&run_id(1), &CommandId::from_bits(1), b"approve").unwrap();
    let ops = disk.ops();
    let mut seen = [0, 0];
    images(&ops, dir.path(), before, |end, engine| {
        let pending = engine.pending(&run_id(1)).unwrap();
        assert!(pending.len() == 1 || end < ops.len());
        assert!(pending.iter().all(|posted| posted.body == b"approve"));
        seen[pending.len()] += 1;
    });
    assert!(seen[0] > 0 && seen[1] > 0);
}

/// F12: EIO on sync: no acknowledgement, no second try, everything refused, and a reopening replays.
#[test]
fn a_failed_sync_poisons_the_journal() {
    for nth in 1..8 {
        let (_dir, disk, engine) = setup();
        let mut acked = sized(100);
        let mut journal = engine.create(&run_id(1), &writer(), &acked).unwrap();
        disk.reset_calls();
        disk.fail(once(Call::SyncData, nth, How::Error(EIO)));
        for _ in 1..nth {
            let batch = sized(50);
            journal.append(&batch).unwrap();
            acked.extend(batch);
        }
        let lost = entries(["not acknowledged"]);
        assert!(matches!(journal.append(&lost), Err(Error::Io { action: "sync", .. })));
        assert_eq!(disk.fired(), 1);
        assert!(matches!(journal.append(&lost), Err(Error::Poisoned { .. })));
        assert!(matches!(journal.close(), Err(Error::Poisoned { .. })));
        assert_eq!(disk.calls(Call::SyncData), nth, "no sync was tried again");
        let before = disk.ops().len();
        let found = open_all(&engine, &run_id(1)).unwrap();
        assert!(found == acked || found == [acked, lost].concat());
        let rewrites = disk.ops()[before..].iter().filter(|op| matches!(op, Op::Write { .. })).count();
        assert!(
            rewrites > 0,
            "the last batch is written again, for the system may call its lost pages clean"
        );
    }
}

/// F13: short writes and reads and interruptions are gone on from; EIO on a read is an error and changes nothing.
#[test]
fn short_and_interrupted_transfers_are_finished() {
    let (_dir, disk, engine) = setup();
    let (acked, _) = script(&engine, &disk);
    let writes = disk.calls(Call::Write);
    disk.reset_calls();
    assert_eq!(open_all(&engine, &run_id(1)).unwrap(), acked);
    let reads = disk.calls(Call::Read);
    assert!(writes > 30 && reads > 1, "{writes} writes, {reads} reads");
    for how in [How::Short, How::Error(EINTR)] {
        for nth in 1..=writes {
            let (_dir, disk, engine) = setup();
            disk.fail(once(Call::Write, nth, how));
            let (acked, error) = script(&engine, &disk);
            assert!(error.is_none() && disk.fired() == 1, "write {nth}: {error:?}");
            let read = 1 + nth % reads;
            disk.fail(once(Call::Read, read, how));
            assert_eq!(open_all(&engine, &run_id(1)).unwrap(), acked);
            assert_eq!(disk.fired(), 2, "read {read}");
        }
    }
    let (_dir, disk, engine) = setup();
    disk.fail(Fault { call: Call::Write, nth: 1, sticky: true, how: How::Short });
    let (acked, error) = script(&engine, &disk);
    assert!(error.is_none() && disk.fired() > 100, "always short, always finished");
    assert_eq!(open_all(&engine, &run_id(1)).unwrap(), acked);
}

/// F13: a storm of interruptions ends in an error, not in a busy loop.
#[test]
fn a_storm_of_interruptions_is_an_error() {
    let (_dir, disk, engine) = setup();
    let mut journal = engine.create(&run_id(1), &writer(), &sized(10)).unwrap();
    disk.fail(Fault { call: Call::Write, nth: 1, sticky: true, how: How::Error(EINTR) });
    assert!(matches!(journal.append(&sized(10)), Err(Error::Io { .. })));
    assert!(matches!(journal.append(&sized(10)), Err(Error::Poisoned { .. })));
    assert!(disk.fired() > 100);
}

/// F13: a write that fails half way poisons, and a read that fails is an error that changes nothing.
#[test]
fn errors_half_way_are_not_believed() {
    let (_dir, disk, engine) = setup();
    let acked = sized(700);
    let mut journal = engine.create(&run_id(1), &writer(), &acked).unwrap();
    disk.fail(once(Call::Write, 1, How::Short));
    disk.fail(once(Call::Write, 2, How::Error(EIO)));
    assert!(matches!(journal.append(&sized(900)), Err(Error::Io { .. })));
    assert!(matches!(journal.append(&sized(1)), Err(Error::Poisoned { .. })));
    drop(journal);
    disk.mend();
    assert_eq!(disk.fired(), 2);
    let before = fs::read(engine.journal_path(&run_id(1))).unwrap();
    disk.fail(Fault { call: Call::Read, nth: 1, sticky: true, how: How::Error(EIO) });
    assert!(matches!(read_all(&engine, &run_id(1)), Err(Error::Io { action: "read", .. })));
    assert!(matches!(open_all(&engine, &run_id(1)), Err(Error::Io { action: "read", .. })));
    assert!(disk.fired() > 3);
    disk.mend();
    assert_eq!(fs::read(engine.journal_path(&run_id(1))).unwrap(), before);
    assert_eq!(read_all(&engine, &run_id(1)).unwrap(), acked);
    assert_eq!(open_all(&engine, &run_id(1)).unwrap(), acked);
}

/// Every image a crash after each of the operations could leave, with names and data lost or kept.
fn images(ops: &[Op], root: &Path, from: usize, mut check: impl FnMut(usize, &Engine)) {
    for end in from..=ops.len() {
        let crash = Crash::after(&ops[..end], root);
        for names in [Names::OnlySynced, Names::All] {
            for data in [false, true] {
                let image = TempDir::new_in("/dev/shm").unwrap();
                crash.write(image.path(), names, &mut |_| data);
                check(end, &Engine::on(Arc::new(FaultyDisk::new()), image.path()));
            }
        }
    }
}

/// F09 and F17: a crash at each step of creating a run leaves it whole or absent; once it is made, it is there.
#[test]
fn a_run_is_wholly_there_or_not_at_all() {
    let (dir, disk, engine) = setup();
    let first = entries(["created", "started"]);
    drop(engine.create(&run_id(1), &writer(), &first).unwrap());
    let ops = disk.ops();
    let (mut there, mut absent) = (0, 0);
    images(&ops, dir.path(), 0, |end, engine| {
        if engine.runs().unwrap().is_empty() {
            absent += 1;
            assert!(end < ops.len(), "made, but not there");
            drop(engine.create(&run_id(1), &writer(), &first).unwrap());
        }
        there += 1;
        assert_eq!(open_all(engine, &run_id(1)).unwrap(), first);
    });
    assert!(absent > 10 && there > absent);
}

/// F09: a command that was posted and a blob that was put are there after any crash, and never half.
#[test]
fn commands_and_blobs_are_durable_or_absent() {
    let (dir, disk, engine) = setup();
    drop(engine.create(&run_id(1), &writer(), &entries(["a"])).unwrap());
    let before = disk.ops().len();
    engine.post(&run_id(1), &CommandId::from_bits(1), b"approve").unwrap();
    let posted = disk.ops().len();
    let hash = engine.put_blob(&run_id(1), &[7; 2000]).unwrap();
    let ops = disk.ops();
    let mut seen = [0, 0];
    images(&ops, dir.path(), before, |end, engine| {
        let pending = engine.pending(&run_id(1)).unwrap();
        assert!(pending.len() == 1 || end < posted);
        assert!(pending.iter().all(|posted| posted.body == b"approve"));
        match engine.blob(&run_id(1), &hash) {
            Ok(bytes) => assert_eq!(bytes, [7; 2000]),
            Err(Error::BlobMissing { .. }) => assert!(end < ops.len()),
            Err(error) => panic!("{error:?}"),
        }
        seen[pending.len()] += 1;
    });
    assert!(seen[0] > 0 && seen[1] > 0);
}

/// F17: a crash at each step of closing, which cuts the file, keeps everything; of removing, keeps all or nothing.
#[test]
fn closing_and_removing_keep_all_or_nothing() {
    let (dir, disk, engine) = setup();
    let all = entries(["a", "b", "c"]);
    let mut journal = engine.create(&run_id(1), &writer(), &all[..1]).unwrap();
    journal.append(&all[1..]).unwrap();
    let before = disk.ops().len();
    journal.close().unwrap();
    let closed = disk.ops().len();
    assert!(closed >= before + 2);
    engine.remove(&run_id(1)).unwrap();
    let ops = disk.ops();
    assert!(ops.len() >= closed + 3);
    images(&ops, dir.path(), before, |end, engine| {
        if engine.runs().unwrap().is_empty() {
            assert!(end > closed);
        } else {
            assert_eq!(open_all(engine, &run_id(1)).unwrap(), all);
            assert!(end < ops.len());
        }
    });
}

/// A run of four batches, the third with three events, that is to be taken back into the middle of that one.
fn to_take_back(engine: &Engine) -> (Vec<Entry>, Vec<Entry>) {
    let old = entries(["a", "b", "c", "d", "e", "f"]);
    let mut journal = engine.create(&run_id(1), &writer(), &old[..1]).unwrap();
    for batch in [&old[1..2], &old[2..5], &old[5..]] {
        journal.append(batch).unwrap();
    }
    journal.close().unwrap();
    let new = old[..4].to_vec();
    (old, new)
}

fn cut_after(engine: &Engine, seq: u64) -> Result<(), Error> {
    let cutting = engine.cutting(&run_id(1), &writer())?;
    cutting.cut_after(seq, &[], &cutting.free_name()?)
}

/// D11.16: what follows a cut is in the journal with it, and the whole one can be put back in its place. Cut again by whoever was
/// killed in the middle, the first copy stays.
#[test]
fn a_journal_that_was_cut_can_be_put_back() {
    let (_dir, _, engine) = setup();
    let (old, new) = to_take_back(&engine);
    let then = entries(["g"]);
    let cutting = engine.cutting(&run_id(1), &writer()).unwrap();
    let kept_as = cutting.free_name().unwrap();
    cutting.cut_after(4, &then, &kept_as).unwrap();
    drop(cutting);
    let cut = [&new[..], &then[..]].concat();
    assert_eq!(read_all(&engine, &run_id(1)).unwrap(), cut);
    let cutting = engine.cutting(&run_id(1), &writer()).unwrap();
    cutting.cut_after(4, &then, &kept_as).unwrap();
    drop(cutting);
    assert_eq!(read_all(&engine, &run_id(1)).unwrap(), cut);
    let cutting = engine.cutting(&run_id(1), &writer()).unwrap();
    let other = cutting.free_name().unwrap();
    assert_ne!(other, kept_as);
    cutting.bring_back(&kept_as, &other).unwrap();
    drop(cutting);
    assert_eq!(open_all(&engine, &run_id(1)).unwrap(), old);
    let cutting = engine.cutting(&run_id(1), &writer()).unwrap();
    cutting.bring_back(&other, &cutting.free_name().unwrap()).unwrap();
    drop(cutting);
    assert_eq!(open_all(&engine, &run_id(1)).unwrap(), cut);
}

/// AE8, F17: a crash at each step of taking a run back leaves the old journal or the new one; with the new one, the old
/// one is kept beside it to the last byte.
#[test]
fn taking_back_leaves_the_old_journal_or_the_new() {
    let (dir, disk, engine) = setup();
    let (old, new) = to_take_back(&engine);
    let bytes = fs::read(engine.journal_path(&run_id(1))).unwrap();
    let before = disk.ops().len();
    cut_after(&engine, 4).unwrap();
    let ops = disk.ops();
    let mut seen = [0, 0];
    images(&ops, dir.path(), before, |end, engine| {
        let found = open_all(engine, &run_id(1)).unwrap();
        let is_new = found == new;
        assert!(is_new || found == old && end < ops.len(), "after {end} operations");
        if is_new {
            let aside = engine.journal_path(&run_id(1)).with_file_name("journal.taken-back-1");
            assert_eq!(fs::read(aside).unwrap(), bytes);
        }
        seen[usize::from(is_new)] += 1;
    });
    assert!(seen[0] > 10 && seen[1] > 1, "{seen:?}");
}

/// AE8: taking back on a failing disk is an error that leaves the old journal or the new one, and a later try works.
#[test]
fn taking_back_on_a_failing_disk_can_be_tried_again() {
    let mut strikes = 0;
    for call in [Call::Open, Call::Read, Call::Write, Call::SyncData, Call::Rename, Call::SyncDir] {
        for nth in 1..20 {
            let (_dir, disk, engine) = setup();
            let (old, new) = to_take_back(&engine);
            disk.fail(once(call, nth, How::Error(EIO)));
            let result = cut_after(&engine, 4);
            if disk.fired() == 0 {
                assert!(result.is_ok());
                break;
            }
            strikes += 1;
            assert!(result.is_err(), "{call:?} {nth}");
            disk.mend();
            let found = read_all(&engine, &run_id(1)).unwrap();
            assert!(found == old || found == new && call == Call::SyncDir, "{call:?} {nth}");
            cut_after(&engine, 4).unwrap();
            assert_eq!(open_all(&engine, &run_id(1)).unwrap(), new);
        }
    }
    assert!(strikes >= 10, "{strikes}");
}

/// A reader that goes on with the file it knows would wait for ever, so it is told.
#[test]
fn a_reader_notices_that_the_run_was_taken_back() {
    let (_dir, _, engine) = setup();
    to_take_back(&engine);
    let mut reader = engine.reader(&run_id(1)).unwrap();
    reader.poll(&mut |_| Ok(())).unwrap();
    cut_after(&engine, 4).unwrap();
    assert!(matches!(reader.poll(&mut |_| Ok(())), Err(Error::TakenBack { .. })));
}

/// F09: any failing step of a creation leaves no run behind and the next creation works.
#[test]
fn a_creation_that_fails_leaves_nothing() {
    let mut strikes = 0;
    for call in [Call::CreateDir, Call::Open, Call::Write, Call::SyncData, Call::Rename, Call::SyncDir] {
        for nth in 1..10 {
            let (_dir, disk, engine) = setup();
            disk.fail(once(call, nth, How::Error(EIO)));
            let result: Result<Box<dyn Journal>, Error> = engine.create(&run_id(1), &writer(), &sized(10));
            if disk.fired() == 0 {
                assert!(result.is_ok());
                break;
            }
            strikes += 1;
            assert!(result.is_err(), "{call:?} {nth}");
            disk.mend();
            // Only the very last sync comes after the run has its name: then it is there, whole.
            match engine.runs().unwrap().len() {
                0 => drop(engine.create(&run_id(1), &writer(), &sized(10)).unwrap()),
                _ => assert_eq!(call, Call::SyncDir),
            }
            assert_eq!(open_all(&engine, &run_id(1)).unwrap().len(), 1);
        }
    }
    assert!(strikes >= 12, "{strikes}");
}

#[test]
fn a_reader_syncs_before_it_shows() {
    let (_dir, disk, engine) = setup();
    let mut journal = engine.create(&run_id(1), &writer(), &sized(10)).unwrap();
    let mut reader = engine.reader(&run_id(1)).unwrap();
    let mut found = Vec::new();
    disk.reset_calls();
    reader.poll(&mut keep(&mut found)).unwrap();
    assert_eq!((found.len(), disk.calls(Call::SyncData)), (1, 1));
    reader.poll(&mut keep(&mut found)).unwrap();
    assert_eq!(disk.calls(Call::SyncData), 1, "no news, no sync");
    journal.append(&sized(10)).unwrap();
    disk.fail(once(Call::SyncData, 1, How::Error(EIO)));
    assert!(reader.poll(&mut keep(&mut found)).is_err());
    assert_eq!(found.len(), 1, "what could not be synced is not shown");
    assert!(matches!(reader.poll(&mut keep(&mut found)), Err(Error::Poisoned { .. })));
    assert_eq!(read_all(&engine, &run_id(1)).unwrap().len(), 2);
}

/// What was closed was on disk before, so reading it costs no sync: a listing of thousands of ended runs would take its time. What is
/// open is synced, also when its last frame fills the file as far as it ever does.
#[test]
fn a_reader_syncs_only_what_may_not_be_on_disk() {
    let (_dir, disk, engine) = setup();
    let syncs_to_read = || {
        disk.reset_calls();
        read_all(&engine, &run_id(1)).unwrap();
        disk.calls(Call::SyncData)
    };
    let journal = engine.create(&run_id(1), &writer(), &sized(100)).unwrap();
    assert_eq!(syncs_to_read(), 1);
    journal.close().unwrap();
    assert_eq!(syncs_to_read(), 0);
    let mut journal = engine.open(&run_id(1), &writer(), &mut |_| Ok(())).unwrap();
    journal.append(&sized(100)).unwrap();
    disk.fill_up(0);
    let largest = (1..100_000).rev().find(|bytes| journal.append(&sized(*bytes)).is_ok());
    assert!(largest.is_some_and(|bytes| bytes > 1000 && bytes < 99_999), "{largest:?}");
    assert_eq!(syncs_to_read(), 1);
}

/// A frame that ends where the file ended when a reader asked for its length, and is written right after that into a file that was made
/// longer, is not on disk, though it looks like the last one of a file that was closed.
#[test]
fn a_reader_is_not_misled_by_a_file_that_grows() {
    let len = |engine: &Engine| fs::metadata(engine.journal_path(&run_id(1))).unwrap().len();
    let created = |engine: &Engine| engine.create(&run_id(1), &writer(), &sized(10)).unwrap();
    let ends_at = |bytes: usize| {
        let (_dir, _, engine) = setup();
        let mut journal = created(&engine);
        journal.append(&sized(bytes)).unwrap();
        journal.close().unwrap();
        len(&engine)
    };
    let (_dir, disk, engine) = setup();
    let mut journal = created(&engine);
    let before = len(&engine);
    let sizes: Vec<usize> = (1..before as usize).collect();
    let bytes = sizes.partition_point(|bytes| ends_at(*bytes) <= before);
    assert_eq!(ends_at(bytes), before);
    let mut reader = engine.reader(&run_id(1)).unwrap();
    let mut found = Vec::new();
    disk.fail(once(Call::SyncData, 1, How::Error(EIO)));
    let other = disk.clone();
    disk.after_len(move || {
        assert!(journal.append(&sized(bytes)).is_err());
        other.reset_calls();
    });
    reader.poll(&mut keep(&mut found)).unwrap();
    assert_eq!((found.len(), disk.calls(Call::SyncData)), (2, 1));
    assert!(len(&engine) > before);
}
