//! Whatever is kept comes back as it was.

#![expect(clippy::unwrap_used, reason = "the helpers of a test stop it as its assertions do")]

#[path = "../../longhaul-core/tests/machine/lives.rs"]
mod lives;
#[path = "../../longhaul-core/tests/machine/sim.rs"]
#[expect(dead_code, reason = "much of this world is for other tests")]
mod sim;

use std::sync::atomic::{AtomicU64, Ordering};

use lives::lives;
use longhaul_core::codec;
use longhaul_core::event::Event;
use longhaul_core::run::Run;
use longhaul_core::time::Timestamp;
use longhaul_store::{Engine, Entry, Sqlite, Store};
use longhaul_testkit::store_contract::{open_all, read_all, run_id, writer};
use proptest::collection::vec;
use proptest::prelude::*;
use sim::Sim;
use tempfile::TempDir;

fn any_entry() -> impl Strategy<Value = Entry> {
    let payload = prop_oneof![
        4 => vec(any::<u8>(), 0..200),
        1 => vec(any::<u8>(), 0..3000),
        1 => (any::<u8>(), 0..3000usize).prop_map(|(byte, len)| vec![byte; len]),
    ];
    (any::<i64>(), any::<u16>(), any::<u16>(), payload).prop_map(|(millis, kind, version, payload)| Entry {
        at: Timestamp::from_millis(millis),
        kind,
        version,
        payload,
    })
}

fn any_history() -> impl Strategy<Value = (Vec<Entry>, Vec<(Vec<Entry>, bool)>)> {
    (vec(any_entry(), 1..5), vec((vec(any_entry(), 0..5), any::<bool>()), 0..6))
}

/// Writes the history, reopening where it says so, and compares what a reader and a writer are shown.
fn persist_and_restore(store: &dyn Store, history: (Vec<Entry>, Vec<(Vec<Entry>, bool)>)) -> Vec<Entry> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let run = run_id(u128::from(NEXT.fetch_add(1, Ordering::Relaxed)));
    let (mut expected, batches) = history;
    let mut journal = store.create(&run, &writer(), &expected).unwrap();
    for (batch, reopen) in batches {
        journal.append(&batch).unwrap();
        expected.extend(batch);
        if reopen {
            drop(journal);
            journal = store.open(&run, &writer(), &mut |_| Ok(())).unwrap();
        }
    }
    assert_eq!(journal.last_seq(), expected.len() as u64);
    assert_eq!(read_all(store, &run).unwrap(), expected);
    journal.close().unwrap();
    let restored = open_all(store, &run).unwrap();
    assert_eq!(restored, expected);
    restored
}

/// A run is written as it came about, in batches of some size, and folded from what is read back.
fn keeps_the_run(store: &dyn Store, lived: &Sim, batch: usize, reopen: bool) {
    let entry = |(_, at, event): &(u64, Timestamp, Event)| Entry {
        at: *at,
        kind: event.kind(),
        version: codec::VERSION,
        payload: codec::encode(event),
    };
    let entries: Vec<Entry> = lived.journal.iter().map(entry).collect();
    let batches = entries[1..].chunks(batch).map(|batch| (batch.to_vec(), reopen)).collect();
    let restored = persist_and_restore(store, (entries[..1].to_vec(), batches));
    let mut events = (1..).zip(&restored).map(|(seq, entry)| {
        (seq, entry.at, codec::decode(seq, entry.kind, entry.version, &entry.payload).unwrap())
    });
    let (seq, at, first) = events.next().unwrap();
    let mut run = Run::first(seq, at, &first).unwrap();
    events.for_each(|(seq, at, event)| run.apply(seq, at, &event).unwrap());
    assert_eq!(run, lived.run);
}

/// AP5 on the engine. Feature: agent-harnesses, Property 5: Eternal Engine persistence round-trip
#[test]
fn prop_05_the_engine_restores_the_run() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::new(dir.path());
    proptest!(ProptestConfig::with_cases(128), |(life in lives(), batch in 1usize..30, reopen in any::<bool>())| {
        keeps_the_run(&engine, &life.lived(), batch, reopen);
    });
}

/// AP5 on the fallback. Feature: agent-harnesses, Property 5: Eternal Engine persistence round-trip
#[test]
fn prop_05_the_fallback_restores_the_run() {
    let dir = TempDir::new().unwrap();
    let fallback = Sqlite::open(&dir.path().join("fallback.db")).unwrap();
    proptest!(ProptestConfig::with_cases(128), |(life in lives(), batch in 1usize..30, reopen in any::<bool>())| {
        keeps_the_run(&fallback, &life.lived(), batch, reopen);
    });
}

/// AP5: any bytes at all come back from the engine.
#[test]
fn the_engine_restores_what_it_was_given() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::new(dir.path());
    proptest!(ProptestConfig::with_cases(128), |(history in any_history())| {
        persist_and_restore(&engine, history);
    });
}

/// AP5: and from the fallback.
#[test]
fn the_fallback_restores_what_it_was_given() {
    let dir = TempDir::new().unwrap();
    let fallback = Sqlite::open(&dir.path().join("fallback.db")).unwrap();
    proptest!(ProptestConfig::with_cases(128), |(history in any_history())| {
        persist_and_restore(&fallback, history);
    });
}
