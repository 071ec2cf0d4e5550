//! Creating runs: each is its own, and all are listed.

#![expect(clippy::unwrap_used, reason = "the helpers of a test stop it as its assertions do")]

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use longhaul_core::plan::Plan;
use longhaul_core::spec::RunSpec;
use longhaul_core::status::Status;
use longhaul_engine::Harness;
use longhaul_engine::clock::SystemClock;
use longhaul_model::Models;
use longhaul_store::Home;
use longhaul_store::catalog::Filter;
use longhaul_testkit::scripts;
use longhaul_tools::Toolbox;
use proptest::prelude::*;

/// Memory where there is some, since a thousand creations sync several thousand times.
fn place() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// AP3: Feature: agent-harnesses, Property 3: Harness creation invariants
    #[test]
    fn prop_03_creation_invariants(agents in prop::collection::vec("[A-Z]{1,12}", 10)) {
        let place = place();
        let home = Arc::new(Home::open(place.path()).unwrap());
        let models = Models { base_dir: place.path().to_owned(), ..Models::default() };
        let harness = Harness::durable(home, Toolbox::builtin(longhaul_tools::Sandbox::off()), models, Arc::new(SystemClock));
        let mut created = HashSet::new();
        for agent in &agents {
            let id = harness.new_run_id().unwrap();
            let spec = scripts::spec(id.clone(), place.path(), &harness.toolbox, &["x"]);
            let spec = RunSpec { agent: agent.clone(), plan: Plan::single("x", agent), ..spec };
            let run = harness.create(spec.clone()).unwrap();
            prop_assert_eq!((&run.spec.agent, run.status), (agent, Status::Created));
            prop_assert!(created.insert((id, agent.clone())));
            prop_assert!(harness.create(spec).is_err(), "an id is given once");
        }
        let (rows, unreadable) = harness.list(&Filter::default()).unwrap();
        let listed: HashSet<_> = rows.into_iter().map(|row| (row.id, row.agent)).collect();
        prop_assert_eq!((listed, unreadable.len()), (created, 0));
    }
}
