//! Journals of every version ever written open for ever, and newer ones are left as they are.

#![expect(clippy::unwrap_used, reason = "the helpers of a test stop it as its assertions do")]

use std::fs;
use std::path::Path;

use longhaul_core::ids::RunId;
use longhaul_core::time::Timestamp;
use longhaul_store::{Engine, Entry, Error, Store};
use longhaul_testkit::store_contract::{open_all, read_all, run_id, writer};
use tempfile::TempDir;

const GOLDEN: &[u8] = include_bytes!("golden/journal-v1.bin");

fn golden_run() -> RunId {
    RunId::parse("run_golden").unwrap()
}

/// What the golden journal holds: three batches, by one writer, closed.
fn golden_batches() -> Vec<Vec<Entry>> {
    let entry = |millis, kind, version, payload: &[u8]| Entry {
        at: Timestamp::from_millis(millis),
        kind,
        version,
        payload: payload.to_vec(),
    };
    vec![
        vec![
            entry(1_771_581_600_000, 1, 1, b"created"),
            entry(1_771_581_600_001, 2, 1, "größer 🦀".as_bytes()),
        ],
        vec![entry(-1, u16::MAX, u16::MAX, b"")],
        vec![entry(0, 0, 0, &[0; 1200]), entry(5, 3, 2, &(0..=255).collect::<Vec<u8>>())],
    ]
}

fn place(dir: &Path, run: &RunId, bytes: &[u8]) -> Engine {
    let run_dir = dir.join("runs").join(run.as_str());
    fs::create_dir_all(run_dir.join("inbox")).unwrap();
    fs::create_dir_all(run_dir.join("blobs")).unwrap();
    fs::write(run_dir.join("journal"), bytes).unwrap();
    Engine::new(dir)
}

/// F18: the first format, kept for ever. If this fails, the code is wrong, not the file.
#[test]
fn the_golden_journal_opens() {
    let dir = TempDir::new().unwrap();
    let engine = place(dir.path(), &golden_run(), GOLDEN);
    assert_eq!(read_all(&engine, &golden_run()).unwrap(), golden_batches().concat());
    assert_eq!(open_all(&engine, &golden_run()).unwrap(), golden_batches().concat());
    let mut journal = engine.open(&golden_run(), &writer(), &mut |_| Ok(())).unwrap();
    journal.append(&golden_batches()[0]).unwrap();
    drop(journal);
    assert_eq!(open_all(&engine, &golden_run()).unwrap().len(), 7);
}

/// F18: what is written today is still the first format, byte for byte.
#[test]
fn the_golden_journal_is_what_is_written() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::new(dir.path());
    let batches = golden_batches();
    let mut journal = engine.create(&golden_run(), &writer(), &batches[0]).unwrap();
    batches[1..].iter().for_each(|batch| assert!(journal.append(batch).is_ok()));
    journal.close().unwrap();
    assert!(fs::read(engine.journal_path(&golden_run())).unwrap() == GOLDEN);
}

/// F19: a newer format is refused by its number, and not a byte of it changes.
#[test]
fn a_newer_format_is_left_alone() {
    let dir = TempDir::new().unwrap();
    let mut bytes = GOLDEN.to_vec();
    bytes[8..12].copy_from_slice(&2u32.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..92]);
    bytes[92..96].copy_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(b"and whatever a newer program puts here");
    let engine = place(dir.path(), &golden_run(), &bytes);
    let too_new = |error: Option<Error>| matches!(error, Some(Error::TooNew { version: 2, .. }));
    assert!(too_new(read_all(&engine, &golden_run()).err()));
    assert!(too_new(open_all(&engine, &golden_run()).err()));
    assert!(too_new(engine.verify(&golden_run()).err()));
    assert!(too_new(engine.repair(&golden_run(), &writer(), &mut |_| Ok(())).err()));
    assert_eq!(fs::read(engine.journal_path(&golden_run())).unwrap(), bytes);
}

/// F19: kinds nobody knows yet are passed on and kept as they are; a visitor that refuses them changes nothing.
#[test]
fn unknown_kinds_are_kept() {
    let dir = TempDir::new().unwrap();
    let engine = place(dir.path(), &golden_run(), GOLDEN);
    let refused = engine.open(&golden_run(), &writer(), &mut |record| {
        if record.kind == u16::MAX { Err(Error::visit("an event of a kind I do not know")) } else { Ok(()) }
    });
    assert!(matches!(refused.err(), Some(Error::Visit(_))));
    assert_eq!(fs::read(engine.journal_path(&golden_run())).unwrap(), GOLDEN);
    assert!(read_all(&engine, &golden_run()).unwrap().iter().any(|entry| entry.kind == u16::MAX));
}

#[test]
fn a_journal_under_another_name_is_refused() {
    let dir = TempDir::new().unwrap();
    let engine = place(dir.path(), &run_id(5), GOLDEN);
    match read_all(&engine, &run_id(5)) {
        Err(Error::Damaged { offset: 0, what, .. }) => assert!(what.contains("another run")),
        other => panic!("{other:?}"),
    }
}
