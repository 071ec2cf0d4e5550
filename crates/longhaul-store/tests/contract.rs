//! Every store passes the same contract.

use std::sync::Arc;

use longhaul_store::{Engine, Memory, Sqlite, Store};
use longhaul_testkit::store_contract::{Subject, check};
use tempfile::TempDir;

#[test]
fn the_engine_keeps_the_contract() {
    check(|| {
        let dir = TempDir::new().unwrap();
        let path = dir.path().to_owned();
        let make = move || -> Arc<dyn Store> { Arc::new(Engine::new(&path)) };
        Subject { store: make(), other: Box::new(make), keep: Box::new(dir) }
    });
}

#[test]
fn the_fallback_keeps_the_contract() {
    check(|| {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("fallback.db");
        let make = move || -> Arc<dyn Store> { Arc::new(Sqlite::open(&path).unwrap()) };
        Subject { store: make(), other: Box::new(make), keep: Box::new(dir) }
    });
}

#[test]
fn memory_keeps_the_contract() {
    check(|| {
        let memory = Memory::new();
        let other = memory.clone();
        Subject {
            store: Arc::new(memory),
            other: Box::new(move || Arc::new(other.clone())),
            keep: Box::new(()),
        }
    });
}
