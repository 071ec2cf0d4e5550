//! Gates before steps: where autonomy puts them, and that an answer counts once.

use longhaul_core::command::Wish;
use longhaul_core::spec::{Autonomy, RunSpec};
use longhaul_core::status::{Status, Wait};

use super::sim::{Sim, World, chain, spec};

/// The gates a plan of three steps, the second critical, meets at each level.
#[test]
fn autonomy_places_the_gates() {
    for (level, expected) in [(1, 3), (2, 3), (3, 1), (4, 0), (5, 0)] {
        let mut plan = chain(3);
        plan.steps[1].critical = true;
        let mut sim = Sim::create(RunSpec { plan, autonomy: Autonomy::new(level).unwrap(), ..spec() });
        let mut world = World::with_turns(&[]);
        sim.start().unwrap();
        loop {
            sim.settle(&mut world);
            if sim.run.wait() != Wait::Human {
                break;
            }
            let gate = sim.run.gates.len() as u32;
            sim.wish(Wish::Approve { gate, digest: None }).unwrap();
        }
        assert_eq!((sim.run.gates.len(), sim.run.status), (expected, Status::Completed), "level {level}");
    }
    assert!(Autonomy::new(0).is_none() && Autonomy::new(6).is_none());
}

/// A rejection pauses with its reason; the same gate cannot be answered again; going on asks anew.
#[test]
fn a_rejection_pauses() {
    let mut world = World::with_turns(&[]);
    let mut sim = Sim::create(RunSpec { autonomy: Autonomy::new(1).unwrap(), ..spec() });
    sim.start().unwrap();
    sim.wish(Wish::Reject { gate: 1, reason: "no".to_owned() }).unwrap();
    assert_eq!((sim.run.status, sim.run.reason.as_deref()), (Status::Paused, Some("no")));
    assert!(
        sim.wish(Wish::Approve { gate: 1, digest: None })
            .unwrap_err()
            .to_string()
            .contains("already rejected")
    );
    assert!(
        sim.wish(Wish::Approve { gate: 9, digest: None }).unwrap_err().to_string().contains("no approval 9")
    );
    sim.start().unwrap();
    assert_eq!(sim.run.wait(), Wait::Human);
    sim.wish(Wish::Approve { gate: 2, digest: None }).unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed);
}
