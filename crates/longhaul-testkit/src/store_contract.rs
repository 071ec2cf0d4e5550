//! The promises of a `Store`, as checks that every implementation must pass. Owns what all stores have in common;
//! what only files can do wrong (torn writes, damage, full disks) is tested beside the engine.

#![expect(clippy::unwrap_used, reason = "a check that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use longhaul_core::ids::{CommandId, RunId};
use longhaul_core::time::Timestamp;
use longhaul_store::{Entry, Error, Reader, Record, Store, Writer, limits};

/// A fresh, empty store, and a way to reach what it keeps through another handle, as another process would.
pub struct Subject {
    pub store: Arc<dyn Store>,
    pub other: Box<dyn Fn() -> Arc<dyn Store>>,
    /// Whatever must outlive the store, such as its directory.
    pub keep: Box<dyn std::any::Any>,
}

type Check = fn(&Subject);

/// All checks, by name.
pub const CHECKS: &[(&str, Check)] = &[
    ("a run is made once and found again", a_run_is_made_once),
    ("what is not there is not found", what_is_not_there),
    ("what was appended is there after reopening", appended_is_there),
    ("a visitor's error stops the opening", a_visitor_can_refuse),
    ("batches have no gaps and an empty one changes nothing", batches_have_no_gaps),
    ("each writer has a higher generation", generations_grow),
    ("a second writer is told who holds the run", a_second_writer),
    ("a reader follows the writer", a_reader_follows),
    ("commands wait in order, once each", commands_wait),
    ("blobs are kept by content", blobs_are_kept),
    ("a held run is not removed, a free one is gone", removal),
    ("too large a batch is refused and harms nothing", too_large),
    ("text of all scripts and bytes of all values are kept", all_bytes),
    ("many runs do not mix", many_runs),
    ("the footprint counts what is kept", the_footprint),
];

/// Runs every check on a store of its own.
pub fn check(make: impl Fn() -> Subject) {
    for (name, check) in CHECKS {
        // Shown by the test runner if the check panics.
        std::io::Write::write_all(&mut std::io::stderr(), format!("checking: {name}\n").as_bytes()).unwrap();
        check(&make());
    }
}

pub fn run_id(number: u128) -> RunId {
    RunId::from_bits(number)
}

/// This process as a writer.
pub fn writer() -> Writer {
    let at = Timestamp::from_millis(1_771_581_600_000);
    Writer { pid: std::process::id(), host: longhaul_store::host(), at }
}

pub fn entry(text: &str) -> Entry {
    static CLOCK: AtomicU64 = AtomicU64::new(0);
    let at = Timestamp::from_millis(1_771_581_600_000).plus_millis(CLOCK.fetch_add(1, Ordering::Relaxed));
    Entry { at, kind: 7, version: 1, payload: text.as_bytes().to_vec() }
}

pub fn entries<const N: usize>(texts: [&str; N]) -> Vec<Entry> {
    texts.into_iter().map(entry).collect()
}

/// Keeps what it is shown and insists that sequence numbers have no gaps.
pub fn keep(into: &mut Vec<Entry>) -> impl FnMut(Record<'_>) -> Result<(), Error> {
    |record| {
        assert_eq!(record.seq, into.len() as u64 + 1, "sequence numbers have no gaps");
        let Record { at, kind, version, payload, .. } = record;
        into.push(Entry { at, kind, version, payload: payload.to_vec() });
        Ok(())
    }
}

/// Everything a new reader is shown.
pub fn read_all(store: &dyn Store, run: &RunId) -> Result<Vec<Entry>, Error> {
    let mut found = Vec::new();
    store.reader(run)?.poll(&mut keep(&mut found))?;
    Ok(found)
}

/// Everything an opening writer is shown; the run is given up again.
pub fn open_all(store: &dyn Store, run: &RunId) -> Result<Vec<Entry>, Error> {
    let mut found = Vec::new();
    let journal = store.open(run, &writer(), &mut keep(&mut found))?;
    assert_eq!(journal.last_seq(), found.len() as u64);
    Ok(found)
}

fn nothing(_: Record<'_>) -> Result<(), Error> {
    Ok(())
}

fn a_run_is_made_once(subject: &Subject) {
    let (store, run) = (&subject.store, run_id(1));
    assert_eq!(store.runs().unwrap(), vec![]);
    assert!(matches!(store.create(&run, &writer(), &[]), Err(Error::NoFirstEvent { .. })));
    assert_eq!(store.runs().unwrap(), vec![], "a refused creation leaves nothing");
    let journal = store.create(&run, &writer(), &entries(["first"])).unwrap();
    assert_eq!((journal.last_seq(), journal.generation()), (1, 1));
    assert!(matches!(store.create(&run, &writer(), &entries(["again"])), Err(Error::Exists { .. })));
    drop(journal);
    assert!(matches!(store.create(&run, &writer(), &entries(["again"])), Err(Error::Exists { .. })));
    assert_eq!((subject.other)().runs().unwrap(), vec![run]);
}

fn what_is_not_there(subject: &Subject) {
    let (store, run, command) = (&subject.store, run_id(404), CommandId::from_bits(1));
    let missing =
        |error: Option<Error>| matches!(error, Some(Error::NotFound { run: named }) if named == run);
    assert!(missing(store.open(&run, &writer(), &mut nothing).err()));
    assert!(missing(store.reader(&run).err()));
    assert!(missing(store.remove(&run).err()));
    assert!(missing(store.holder(&run).err()));
    assert!(missing(store.post(&run, &command, b"{}").err()));
    assert!(missing(store.pending(&run).err()));
    assert!(missing(store.settle(&run, &command).err()));
    assert!(missing(store.put_blob(&run, b"x").err()));
    assert!(missing(store.blob(&run, "00").err()));
    assert!(missing(store.footprint(&run).err()));
    assert_eq!(store.runs().unwrap(), vec![]);
}

fn appended_is_there(subject: &Subject) {
    let (store, run) = (&subject.store, run_id(2));
    let mut expected = entries(["created", "started"]);
    let mut journal = store.create(&run, &writer(), &expected).unwrap();
    for batch in [entries(["one"]).to_vec(), entries(["two", "", "three"]).to_vec()] {
        let ack = journal.append(&batch).unwrap();
        expected.extend(batch);
        assert_eq!(ack.last_seq, expected.len() as u64);
    }
    drop(journal);
    assert_eq!(open_all(&**store, &run).unwrap(), expected);
    let other = (subject.other)();
    let mut journal = other.open(&run, &writer(), &mut nothing).unwrap();
    let more = entries(["after reopening"]);
    assert_eq!(journal.append(&more).unwrap().last_seq, expected.len() as u64 + 1);
    expected.extend(more);
    journal.close().unwrap();
    assert_eq!(open_all(&*other, &run).unwrap(), expected);
    assert_eq!(read_all(&**store, &run).unwrap(), expected);
}

fn a_visitor_can_refuse(subject: &Subject) {
    let (store, run) = (&subject.store, run_id(3));
    drop(store.create(&run, &writer(), &entries(["a", "b", "c"])).unwrap());
    let mut seen = 0;
    let result = store.open(&run, &writer(), &mut |record| {
        seen = record.seq;
        if record.seq == 2 { Err(Error::visit("not an event I know")) } else { Ok(()) }
    });
    assert!(matches!(result.err(), Some(Error::Visit(_))));
    assert_eq!(seen, 2);
    assert_eq!(store.holder(&run).unwrap(), None, "a failed opening holds nothing");
    assert_eq!(open_all(&**store, &run).unwrap().len(), 3);
}

fn batches_have_no_gaps(subject: &Subject) {
    let (store, run) = (&subject.store, run_id(4));
    let mut journal = store.create(&run, &writer(), &entries(["a"])).unwrap();
    assert_eq!(journal.append(&[]).unwrap().last_seq, 1);
    assert_eq!(journal.append(&entries(["b", "c", "d"])).unwrap().last_seq, 4);
    assert_eq!(journal.append(&[]).unwrap().last_seq, 4);
    assert_eq!(journal.append(&entries(["e"])).unwrap().last_seq, 5);
    assert_eq!(journal.last_seq(), 5);
    let payloads: Vec<_> = read_all(&**store, &run).unwrap().into_iter().map(|entry| entry.payload).collect();
    assert_eq!(payloads, [b"a", b"b", b"c", b"d", b"e"]);
}

fn generations_grow(subject: &Subject) {
    let (store, run) = (&subject.store, run_id(5));
    let mut last = store.create(&run, &writer(), &entries(["a"])).unwrap().generation();
    for round in 0..4 {
        let mut journal = store.open(&run, &writer(), &mut nothing).unwrap();
        assert!(journal.generation() > last);
        last = journal.generation();
        if round % 2 == 0 {
            journal.append(&entries(["b"])).unwrap();
            journal.close().unwrap();
        }
    }
}

fn a_second_writer(subject: &Subject) {
    let (store, run) = (&subject.store, run_id(6));
    let mut journal = store.create(&run, &writer(), &entries(["a"])).unwrap();
    let holder = store.holder(&run).unwrap().unwrap();
    let Writer { pid, host, at } = writer();
    assert_eq!((holder.pid, &holder.host, holder.since), (pid, &host, at));
    assert_eq!(holder.generation, journal.generation());
    let other = (subject.other)();
    match other.open(&run, &writer(), &mut nothing).err() {
        Some(Error::Held { run: held, holder: named }) => assert_eq!((held, named), (run.clone(), holder)),
        other => panic!("expected to find the run held, got {other:?}"),
    }
    journal.append(&entries(["b"])).unwrap();
    drop(journal);
    assert_eq!(store.holder(&run).unwrap(), None);
    assert_eq!(open_all(&*other, &run).unwrap().len(), 2);
}

fn a_reader_follows(subject: &Subject) {
    let (store, run) = (&subject.store, run_id(7));
    let mut expected = entries(["a"]);
    let mut journal = store.create(&run, &writer(), &expected).unwrap();
    let other = (subject.other)();
    let mut reader = other.reader(&run).unwrap();
    let mut found = Vec::new();
    for round in 0..50 {
        follow(&mut *reader, &mut found);
        assert_eq!(found, expected);
        let batch: Vec<_> =
            (0..round % 4).map(|index| entry(&format!("{round}/{index}").repeat(round))).collect();
        journal.append(&batch).unwrap();
        expected.extend(batch);
    }
    journal.close().unwrap();
    follow(&mut *reader, &mut found);
    follow(&mut *reader, &mut found);
    assert_eq!(found, expected);
    let mut journal = store.open(&run, &writer(), &mut nothing).unwrap();
    let more = entries(["after the reopening"]);
    journal.append(&more).unwrap();
    expected.extend(more);
    follow(&mut *reader, &mut found);
    assert_eq!(found, expected);
}

fn follow(reader: &mut dyn Reader, found: &mut Vec<Entry>) {
    reader.poll(&mut keep(found)).unwrap();
}

fn commands_wait(subject: &Subject) {
    let (store, run) = (&subject.store, run_id(8));
    // Nobody drives the run: its commands wait all the same.
    drop(store.create(&run, &writer(), &entries(["a"])).unwrap());
    // Ids sort the other way round, so that the order can only come from the posting.
    let ids: Vec<_> = (0..5u128).rev().map(CommandId::from_bits).collect();
    for id in ids.iter().chain(&ids) {
        store.post(&run, id, format!("{{\"for\":\"{id}\"}}").as_bytes()).unwrap();
    }
    let other = (subject.other)();
    let pending = other.pending(&run).unwrap();
    assert_eq!(pending.iter().map(|posted| &posted.id).collect::<Vec<_>>(), ids.iter().collect::<Vec<_>>());
    assert_eq!(pending[0].body, format!("{{\"for\":\"{}\"}}", ids[0]).as_bytes());
    other.settle(&run, &ids[1]).unwrap();
    other.settle(&run, &ids[1]).unwrap();
    let left: Vec<_> = store.pending(&run).unwrap().into_iter().map(|posted| posted.id).collect();
    assert_eq!(left, [&ids[..1], &ids[2..]].concat());
    let large = vec![b'x'; limits::COMMAND_BYTES_MAX + 1];
    assert!(matches!(store.post(&run, &ids[1], &large), Err(Error::TooLarge { .. })));
    assert_eq!(store.pending(&run).unwrap().len(), 4);
}

fn blobs_are_kept(subject: &Subject) {
    let (store, run) = (&subject.store, run_id(9));
    drop(store.create(&run, &writer(), &entries(["a"])).unwrap());
    let large: Vec<u8> = (0..300_000u32).map(|index| (index % 251) as u8).collect();
    let hash = store.put_blob(&run, &large).unwrap();
    assert_eq!(store.put_blob(&run, &large).unwrap(), hash, "the same content has the same name");
    let empty = store.put_blob(&run, b"").unwrap();
    let other = (subject.other)();
    assert_eq!(other.blob(&run, &hash).unwrap(), large);
    assert_eq!(other.blob(&run, &empty).unwrap(), b"");
    assert_eq!(other.footprint(&run).unwrap().blob_bytes, large.len() as u64, "kept once");
    for name in ["", "../journal", &"0".repeat(64), &hash.to_uppercase()] {
        assert!(matches!(store.blob(&run, name), Err(Error::BlobMissing { .. })), "{name:?}");
    }
}

fn removal(subject: &Subject) {
    let (store, run) = (&subject.store, run_id(10));
    let journal = store.create(&run, &writer(), &entries(["a"])).unwrap();
    store.put_blob(&run, b"blob").unwrap();
    store.post(&run, &CommandId::from_bits(1), b"{}").unwrap();
    let other = (subject.other)();
    assert!(matches!(other.remove(&run), Err(Error::Held { .. })));
    assert_eq!(read_all(&*other, &run).unwrap().len(), 1);
    drop(journal);
    other.remove(&run).unwrap();
    assert_eq!(store.runs().unwrap(), vec![]);
    assert!(matches!(store.reader(&run).err(), Some(Error::NotFound { .. })));
    drop(store.create(&run, &writer(), &entries(["b"])).unwrap());
    assert_eq!(store.pending(&run).unwrap(), vec![], "nothing of the removed run is left");
}

fn too_large(subject: &Subject) {
    let (store, run) = (&subject.store, run_id(11));
    let mut journal = store.create(&run, &writer(), &entries(["a"])).unwrap();
    let mut large = entry("");
    large.payload = vec![b'x'; limits::FRAME_BYTES_MAX];
    assert!(matches!(journal.append(&[large.clone()]), Err(Error::TooLarge { .. })));
    large.payload.truncate(limits::FRAME_BYTES_MAX - 100);
    assert_eq!(journal.append(&[large.clone()]).unwrap().last_seq, 2);
    journal.append(&entries(["c"])).unwrap();
    drop(journal);
    let found = open_all(&**store, &run).unwrap();
    assert_eq!(found.len(), 3);
    assert!(found[1] == large);
}

fn all_bytes(subject: &Subject) {
    let (store, run) = (&subject.store, RunId::parse("A-b_c.9").unwrap());
    let mut expected = entries(["größer", "日本語", "🦀\u{0}\u{7f}", "\r\n\"\\"]);
    for byte in [0x00, 0xff, 0xa7, 0xd7, 0xf5] {
        expected.push(Entry { payload: vec![byte; 3000], kind: u16::MAX, version: u16::MAX, ..entry("") });
    }
    expected.push(Entry { payload: (0..=255).collect(), kind: 0, version: 0, ..entry("") });
    let mut journal = store.create(&run, &writer(), &expected[..1]).unwrap();
    journal.append(&expected[1..5]).unwrap();
    expected[5..].iter().for_each(|entry| assert!(journal.append(std::slice::from_ref(entry)).is_ok()));
    drop(journal);
    assert_eq!(open_all(&*(subject.other)(), &run).unwrap(), expected);
}

fn many_runs(subject: &Subject) {
    let store = &subject.store;
    let runs: Vec<_> = (0..30).map(run_id).collect();
    let mut journals: Vec<_> =
        runs.iter().map(|run| store.create(run, &writer(), &entries([run.as_str()])).unwrap()).collect();
    for (journal, run) in journals.iter_mut().zip(&runs).rev() {
        journal.append(&entries(["second", run.as_str()])).unwrap();
    }
    assert_eq!(store.runs().unwrap(), runs);
    for run in &runs {
        let found = read_all(&**store, run).unwrap();
        let payloads: Vec<_> = found.iter().map(|entry| entry.payload.as_slice()).collect();
        assert_eq!(payloads, [run.as_str().as_bytes(), b"second", run.as_str().as_bytes()]);
    }
}

fn the_footprint(subject: &Subject) {
    let (store, run) = (&subject.store, run_id(12));
    let mut journal = store.create(&run, &writer(), &entries(["12345"])).unwrap();
    journal.append(&entries(["67", "890"])).unwrap();
    store.put_blob(&run, &[1; 1000]).unwrap();
    let footprint = store.footprint(&run).unwrap();
    assert_eq!((footprint.records, footprint.payload_bytes, footprint.blob_bytes), (3, 10, 1000));
    assert!(footprint.journal_bytes >= 10);
}
