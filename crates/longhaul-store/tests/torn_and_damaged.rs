//! What a crash tears is cut; what was damaged is named, and never passed over.

#![expect(clippy::unwrap_used, reason = "the helpers of a test stop it as its assertions do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul_store::{Engine, Entry, Error, Store};
use longhaul_testkit::faulty_disk::{Call, Crash, EIO, Fault, FaultyDisk, How, Names, Op};
use longhaul_testkit::store_contract::{entries, entry, open_all, read_all, run_id, writer};
use tempfile::TempDir;

/// An engine whose syncs cost nothing, for tests that open thousands of journals.
fn engine(dir: &Path) -> Engine {
    Engine::on(Arc::new(FaultyDisk::new()), dir)
}

/// A closed journal of these batches; its bytes, and where each batch ends.
fn journal_of(dir: &Path, batches: &[Vec<Entry>]) -> (PathBuf, Vec<u64>) {
    let (engine, run) = (engine(dir), run_id(1));
    let mut journal = engine.create(&run, &writer(), &batches[0]).unwrap();
    let mut ends = vec![engine.footprint(&run).unwrap().journal_bytes];
    for batch in &batches[1..] {
        journal.append(batch).unwrap();
        ends.push(engine.footprint(&run).unwrap().journal_bytes);
    }
    journal.close().unwrap();
    (engine.journal_path(&run), ends)
}

fn batch(size: usize, count: usize) -> Vec<Entry> {
    (0..count).map(|index| Entry { payload: vec![index as u8 + 1; size], ..entry("") }).collect()
}

fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// F04: torn tail; the file cut at every byte of the last three batches keeps every whole batch before the cut.
#[test]
fn a_journal_cut_anywhere_keeps_what_is_whole() {
    let dir = TempDir::new().unwrap();
    let batches = [batch(20, 1), batch(300, 2), batch(1, 1), batch(700, 1), batch(40, 3)];
    let (path, ends) = journal_of(dir.path(), &batches);
    let whole = fs::read(&path).unwrap();
    assert_eq!(whole.len() as u64, ends[4]);
    for cut in ends[1]..=ends[4] {
        fs::write(&path, &whole[..cut as usize]).unwrap();
        let kept: Vec<Entry> = ends
            .iter()
            .zip(&batches)
            .filter(|(end, _)| **end <= cut)
            .flat_map(|(_, batch)| batch.clone())
            .collect();
        let (engine, run) = (engine(dir.path()), run_id(1));
        assert_eq!(read_all(&engine, &run).unwrap(), kept, "read, cut at {cut}");
        let report = engine.verify(&run).unwrap();
        let torn = !ends.contains(&cut);
        assert_eq!((report.damage, report.torn_bytes > 0), (None, torn), "verified, cut at {cut}");
        assert_eq!(open_all(&engine, &run).unwrap(), kept, "opened, cut at {cut}");
        assert_eq!(open_all(&engine, &run).unwrap(), kept, "opened twice, cut at {cut}");
        let mut journal = engine.open(&run, &writer(), &mut |_| Ok(())).unwrap();
        let more = batch(100, 2);
        journal.append(&more).unwrap();
        drop(journal);
        let all = [kept, more].concat();
        assert_eq!(open_all(&engine, &run).unwrap(), all);
        assert_eq!(open_all(&engine, &run).unwrap(), all);
    }
}

/// Flips one bit, checks that reader, writer and verify all name damage and that nothing was changed, flips it back.
fn check_flip(engine: &Engine, path: &Path, bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
    fs::write(path, &*bytes).unwrap();
    let run = run_id(1);
    let damaged = |error: Option<Error>| match error {
        Some(Error::Damaged { file, offset, .. }) => {
            assert!(file == path && offset <= bit as u64 / 8, "bit {bit} reported at byte {offset}");
        }
        other => panic!("bit {bit} gave {other:?}"),
    };
    damaged(read_all(engine, &run).err());
    damaged(open_all(engine, &run).err());
    assert!(engine.verify(&run).unwrap().damage.is_some());
    assert!(fs::read(path).unwrap() == bytes, "bit {bit}: the damaged file was changed");
    bytes[bit / 8] ^= 1 << (bit % 8);
}

/// F06: every single bit of a small journal, header, frames, stamps and ends alike.
#[test]
fn every_flipped_bit_of_a_journal_is_damage() {
    let dir = TempDir::new().unwrap();
    // The last batch is mostly zeros: it must not pass for one that was never written.
    let zeros = vec![Entry { payload: vec![0; 1100], ..entry("") }];
    let (path, _) = journal_of(dir.path(), &[batch(30, 1), batch(5, 2), zeros]);
    let mut bytes = fs::read(&path).unwrap();
    let engine = engine(dir.path());
    for bit in 0..bytes.len() * 8 {
        check_flip(&engine, &path, &mut bytes, bit);
    }
    fs::write(&path, &bytes).unwrap();
    assert_eq!(open_all(&engine, &run_id(1)).unwrap().len(), 4, "and whole again it opens");
}

/// F06: the zeros behind the end of an open journal, and sampled bits of a larger one.
#[test]
fn sampled_flipped_bits_of_zeros_and_large_journals_are_damage() {
    let dir = TempDir::new().unwrap();
    let engine = engine(dir.path());
    let mut journal = engine.create(&run_id(1), &writer(), &batch(30, 1)).unwrap();
    let path = engine.journal_path(&run_id(1));
    let mut next = numbers(42);
    for (rounds, samples) in [(1, 1500), (60, 400)] {
        for round in 0..rounds {
            journal.append(&batch(round * 37, 1 + round % 3)).unwrap();
        }
        // As a killed writer leaves it, zeros and all.
        drop(journal);
        let mut bytes = fs::read(&path).unwrap();
        assert!(bytes.ends_with(&[0; 8192]), "there are zeros to flip");
        for _ in 0..samples {
            let bit = next() as usize % (bytes.len() * 8);
            check_flip(&engine, &path, &mut bytes, bit);
        }
        fs::write(&path, &bytes).unwrap();
        journal = engine.open(&run_id(1), &writer(), &mut |_| Ok(())).unwrap();
    }
}

#[test]
fn garbage_behind_the_end_is_damage() {
    let dir = TempDir::new().unwrap();
    let engine = engine(dir.path());
    drop(engine.create(&run_id(1), &writer(), &batch(30, 1)).unwrap());
    let path = engine.journal_path(&run_id(1));
    let end = engine.footprint(&run_id(1)).unwrap().journal_bytes as usize;
    let whole = fs::read(&path).unwrap();
    for offset in [end, end + 1, end + 100, end + 600, end + 5000, whole.len() - 7] {
        let mut bytes = whole.clone();
        bytes[offset..offset + 7].copy_from_slice(b"garbage");
        fs::write(&path, bytes).unwrap();
        assert!(matches!(read_all(&engine, &run_id(1)), Err(Error::Damaged { .. })), "at {offset}");
        assert!(matches!(open_all(&engine, &run_id(1)), Err(Error::Damaged { .. })), "at {offset}");
    }
}

/// A sector the disk lost in the middle looks like one never written; what follows it proves that it was.
#[test]
fn a_lost_sector_before_the_last_batch_is_damage() {
    let dir = TempDir::new().unwrap();
    let batches: Vec<_> = (0..12).map(|number| batch(150 + number * 40, 1)).collect();
    let (path, ends) = journal_of(dir.path(), &batches);
    let whole = fs::read(&path).unwrap();
    let engine = engine(dir.path());
    let last_batch = ends[10] as usize;
    let sectors = (512..last_batch - 512).step_by(512);
    assert!(sectors.len() > 4);
    for lost in sectors {
        let mut bytes = whole.clone();
        bytes[lost..lost + 512].fill(0);
        fs::write(&path, &bytes).unwrap();
        assert!(matches!(read_all(&engine, &run_id(1)), Err(Error::Damaged { .. })), "sector at {lost}");
        assert!(matches!(open_all(&engine, &run_id(1)), Err(Error::Damaged { .. })), "sector at {lost}");
        assert!(fs::read(&path).unwrap() == bytes);
    }
}

/// Garbage is not excused by a later byte that looks like the end of a frame.
#[test]
fn garbage_before_something_like_an_end_is_damage() {
    let dir = TempDir::new().unwrap();
    let engine = engine(dir.path());
    drop(engine.create(&run_id(1), &writer(), &batch(30, 1)).unwrap());
    let path = engine.journal_path(&run_id(1));
    let mut bytes = fs::read(&path).unwrap();
    bytes[2048..2055].copy_from_slice(b"garbage");
    bytes[4100] = 0xD7;
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(read_all(&engine, &run_id(1)), Err(Error::Damaged { offset: 2048, .. })));
    assert!(matches!(open_all(&engine, &run_id(1)), Err(Error::Damaged { offset: 2048, .. })));
}

/// Sound batches of another copy of the same run, with the right numbers, do not follow these.
#[test]
fn batches_spliced_from_another_history_are_damage() {
    let (dir, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (path, ends) = journal_of(dir.path(), &[batch(30, 1), batch(40, 1), batch(50, 1)]);
    let changed = vec![Entry { payload: vec![9; 30], ..entry("") }];
    let (other_path, other_ends) = journal_of(other.path(), &[changed, batch(40, 1), batch(50, 1)]);
    assert_eq!(ends, other_ends);
    let cut = ends[0] as usize;
    let spliced = [&fs::read(&path).unwrap()[..cut], &fs::read(&other_path).unwrap()[cut..]].concat();
    fs::write(&path, spliced).unwrap();
    let found = read_all(&engine(dir.path()), &run_id(1));
    assert!(matches!(found, Err(Error::Damaged { offset, .. }) if offset == ends[0]), "{found:?}");
}

/// Any bytes at all: an error or a prefix, never a panic.
#[test]
fn no_bytes_make_it_panic() {
    let dir = TempDir::new().unwrap();
    let (path, _) = journal_of(dir.path(), &[batch(30, 1), batch(600, 2), batch(9, 1)]);
    let whole = fs::read(&path).unwrap();
    let engine = engine(dir.path());
    let mut next = numbers(7);
    for _ in 0..3000 {
        let mut bytes = whole.clone();
        for _ in 0..next() % 8 {
            let (start, len) = (next() as usize % bytes.len(), next() as usize % 40);
            let end = (start + len).min(bytes.len());
            let fill = next() as u8;
            bytes[start..end].fill(if fill.is_multiple_of(3) { 0 } else { fill });
        }
        bytes.truncate(next() as usize % (bytes.len() * 4));
        fs::write(&path, &bytes).unwrap();
        let read = read_all(&engine, &run_id(1));
        let report = engine.verify(&run_id(1)).unwrap();
        assert_eq!(read.is_err(), report.damage.is_some());
        if let Ok(read) = read {
            assert_eq!(open_all(&engine, &run_id(1)).unwrap(), read);
        }
    }
}

/// What an image must hold: everything acknowledged, then all of the unfinished batch or nothing of it.
fn check_image(image: &Path, acked: &[Entry], unfinished: &[Entry]) -> usize {
    let engine = engine(image);
    let found = open_all(&engine, &run_id(1)).unwrap();
    let with_unfinished = [acked, unfinished].concat();
    assert!(found == acked || found == with_unfinished, "{} records", found.len());
    let mut journal = engine.open(&run_id(1), &writer(), &mut |_| Ok(())).unwrap();
    let more = entries(["and on it goes"]);
    journal.append(&more).unwrap();
    drop(journal);
    let all = [found.clone(), more].concat();
    assert_eq!(open_all(&engine, &run_id(1)).unwrap(), all);
    assert_eq!(read_all(&engine, &run_id(1)).unwrap(), all);
    found.len()
}

/// Records an append on a disk that remembers, up to just before its sync.
fn unfinished_append(root: &Path, acked: &[Vec<Entry>], unfinished: &[Entry]) -> Vec<Op> {
    let disk = FaultyDisk::new();
    let engine = Engine::on(Arc::new(disk.clone()), root);
    let mut journal = engine.create(&run_id(1), &writer(), &acked[0]).unwrap();
    acked[1..].iter().for_each(|batch| assert!(journal.append(batch).is_ok()));
    journal.append(unfinished).unwrap();
    let mut ops = disk.ops();
    assert!(matches!(ops.pop(), Some(Op::SyncData(_))), "an append ends with its sync");
    ops
}

/// F08: reordered persistence, exhaustive: every subset of the sectors of one unsynced batch.
#[test]
fn any_subset_of_sectors_can_be_opened() {
    for (size, count) in [(10, 1), (500, 1), (700, 2), (0, 3), (1000, 3)] {
        let root = TempDir::new().unwrap();
        let acked = [batch(100, 1), batch(370, 1), batch(3, 2)];
        let mut unfinished = batch(size, count);
        // Zeros in a payload must not look like a sector that was never written.
        unfinished.iter_mut().take(1).for_each(|entry| entry.payload.fill(0));
        let ops = unfinished_append(root.path(), &acked, &unfinished);
        let crash = Crash::after(&ops, root.path());
        let pieces = crash.pieces();
        assert!((1..=9).contains(&pieces), "{pieces} sectors to lose");
        let mut whole = 0;
        for mask in 0..1usize << pieces {
            let image = TempDir::new_in("/dev/shm").unwrap();
            crash.write(image.path(), Names::OnlySynced, &mut |piece| mask >> piece.index & 1 == 1);
            let found = check_image(image.path(), &acked.concat(), &unfinished);
            whole += usize::from(found > acked.concat().len());
        }
        assert_eq!(whole, 1, "only the full set holds the batch");
    }
}

/// F08: sampled, for a batch that also makes the file grow, with and without the growth surviving.
#[test]
fn sampled_subsets_of_a_growing_file_can_be_opened() {
    let root = TempDir::new().unwrap();
    let (acked, unfinished) = ([batch(100, 1), batch(9000, 3)], batch(30_000, 4));
    let ops = unfinished_append(root.path(), &acked, &unfinished);
    let crash = Crash::after(&ops, root.path());
    assert!(crash.pieces() > 200);
    let mut next = numbers(99);
    for round in 0..300u64 {
        let image = TempDir::new_in("/dev/shm").unwrap();
        let losing = 1 + round % 7;
        let zeros_stay = next().is_multiple_of(2);
        crash.write(image.path(), Names::OnlySynced, &mut |piece| {
            if piece.zeros { zeros_stay && !next().is_multiple_of(3) } else { next() % 7 >= losing }
        });
        check_image(image.path(), &acked.concat(), &unfinished);
    }
}

/// F08 twice: the recovery of a torn tail is itself cut short at each of its steps.
#[test]
fn a_crash_during_recovery_is_recovered_from() {
    let root = TempDir::new().unwrap();
    let disk = FaultyDisk::new();
    let engine = Engine::on(Arc::new(disk.clone()), root.path());
    let acked = [batch(100, 1), batch(370, 1)];
    let mut journal = engine.create(&run_id(1), &writer(), &acked[0]).unwrap();
    journal.append(&acked[1]).unwrap();
    disk.fail(Fault { call: Call::Write, nth: 1, sticky: false, how: How::ShortToSector });
    disk.fail(Fault { call: Call::Write, nth: 2, sticky: false, how: How::Error(EIO) });
    let unfinished = batch(1500, 1);
    assert!(matches!(journal.append(&unfinished), Err(Error::Io { .. })));
    assert_eq!(disk.fired(), 2);
    drop(journal);
    disk.mend();
    let before = disk.ops().len();
    assert_eq!(open_all(&engine, &run_id(1)).unwrap(), acked.concat());
    let ops = disk.ops();
    assert!(ops.len() > before + 2, "recovery wrote something");
    let mut next = numbers(5);
    for end in before..=ops.len() {
        let crash = Crash::after(&ops[..end], root.path());
        for _ in 0..100 {
            let image = TempDir::new_in("/dev/shm").unwrap();
            crash.write(image.path(), Names::OnlySynced, &mut |_| next().is_multiple_of(2));
            check_image(image.path(), &acked.concat(), &unfinished);
        }
    }
}
