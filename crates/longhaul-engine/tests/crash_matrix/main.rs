//! Killed at every append and around every effect, and killed again while recovering, a run ends as if nothing had
//! happened. Real tools, a real journal; only time and the model are made up.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed"
)]

mod checks;
mod world;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use checks::{check, essence};
use longhaul_core::run::Run;
use longhaul_testkit::crash::Mortal;
use world::{Jump, World};

/// How far into a recovery the second death is tried. A recovery's own work (opening, its first append, the check or
/// the repeated effect and its report) is over by then; what follows are moments that a first death has tried already.
const SECOND_DEATH_MOMENTS: usize = 8;

/// AX2, F02, F24, F25: killed at any single moment and taken up again, a run ends in the same state; checkable effects
/// happen once, once-only effects at most once, and one that was cut short is reported to the agent as unknown.
#[test]
fn every_single_death_leads_to_the_same_end() {
    let undisturbed = undisturbed();
    let tally = Tally::default();
    in_parallel(undisturbed.moments.len(), |first| {
        tally.count(&undisturbed, &[first], Jump::None);
    });
    tally.report(&undisturbed, "single deaths");
    assert_eq!(tally.fired.load(Ordering::SeqCst), undisturbed.moments.len(), "each moment was died at");
    assert_eq!(*tally.places.lock().unwrap(), undisturbed.moments.iter().cloned().collect::<BTreeSet<_>>());
}

/// AX2, F03: killed at any moment and killed again while recovering from that, a run still ends in the same state.
#[test]
fn a_second_death_while_recovering_changes_nothing() {
    let undisturbed = undisturbed();
    let tally = Tally::default();
    in_parallel(undisturbed.moments.len(), |first| {
        for second in 0..SECOND_DEATH_MOMENTS {
            if !tally.count(&undisturbed, &[first, second], Jump::None) {
                // The recovery was shorter than this: it has no such moment, and no later one.
                break;
            }
        }
    });
    tally.report(&undisturbed, "second deaths");
    let fired = tally.fired.load(Ordering::SeqCst);
    assert!(fired >= undisturbed.moments.len() * 2, "only {fired} second deaths happened");
}

/// AX2, F03: a third death while recovering from the second, at moments spread over the run.
#[test]
fn a_third_death_changes_nothing() {
    let undisturbed = undisturbed();
    let tally = Tally::default();
    in_parallel(undisturbed.moments.len(), |first| {
        let (second, third) = (first % 5, first % 7);
        tally.count(&undisturbed, &[first, second, third], Jump::None);
    });
    tally.report(&undisturbed, "third deaths");
    assert!(tally.fired.load(Ordering::SeqCst) > undisturbed.moments.len() / 2);
}

/// F22: killed at any moment and taken up by a process whose clock is an hour behind, ten years ahead or in 1970, a run
/// ends in the same state.
#[test]
fn a_clock_that_jumps_changes_nothing() {
    let undisturbed = undisturbed();
    let tally = Tally::default();
    let jumps = [Jump::HourBack, Jump::TenYearsOn, Jump::To1970];
    in_parallel(undisturbed.moments.len() * jumps.len(), |number| {
        tally.count(&undisturbed, &[number / jumps.len()], jumps[number % jumps.len()]);
    });
    tally.report(&undisturbed, "deaths before a jump");
    assert_eq!(tally.fired.load(Ordering::SeqCst), undisturbed.moments.len() * jumps.len());
}

/// The run that nobody disturbs, and the moments at which it could have been.
struct Undisturbed {
    moments: Vec<String>,
    run: Run,
}

fn undisturbed() -> Undisturbed {
    let world = World::new();
    let life = world.live(&Mortal::undying());
    let run = life.expect("nobody killed it");
    check(&world, &run, &BTreeSet::new());
    let again = World::new();
    let mortal = Mortal::undying();
    let same = again.live(&mortal).expect("nobody killed it");
    let nothing = BTreeSet::new();
    assert_eq!(essence(&run, &nothing), essence(&same, &nothing), "the run is not the same twice");
    Undisturbed { moments: mortal.moments(), run }
}

#[derive(Default)]
struct Tally {
    runs: AtomicUsize,
    /// Runs in which the last of the deaths happened.
    fired: AtomicUsize,
    unknown: AtomicUsize,
    places: Mutex<BTreeSet<String>>,
}

impl Tally {
    /// Plays one run with these deaths, one for each process, and checks its end. False if the last did not happen.
    fn count(&self, undisturbed: &Undisturbed, deaths: &[usize], jump: Jump) -> bool {
        let world = World::new();
        let mut unknown = BTreeSet::new();
        let mut story = Vec::new();
        let mut ended = None;
        for moment in deaths {
            let mortal = Mortal::dying_at(*moment);
            ended = world.live(&mortal);
            assert_eq!(ended.is_none(), mortal.died());
            if ended.is_some() {
                break;
            }
            story.extend(mortal.moments().pop());
            unknown.extend(world.cut_short());
            world.move_clock(jump);
        }
        let fired = ended.is_none();
        // Shown by the test runner if a check fails below.
        println!("deaths at {deaths:?}, then {jump:?}: {story:?}");
        let run = match ended {
            Some(run) => run,
            None => world.live(&Mortal::undying()).expect("nobody killed it"),
        };
        check(&world, &run, &unknown);
        let (found, expected) = (essence(&run, &unknown), essence(&undisturbed.run, &unknown));
        assert_eq!(found, expected, "after deaths at {story:?}");
        self.runs.fetch_add(1, Ordering::SeqCst);
        self.fired.fetch_add(usize::from(fired), Ordering::SeqCst);
        self.unknown.fetch_add(unknown.len(), Ordering::SeqCst);
        if fired {
            self.places.lock().unwrap().extend(story.pop());
        }
        fired
    }

    fn report(&self, undisturbed: &Undisturbed, what: &str) {
        println!(
            "{what}: {} of {} runs died as told, over {} moments; {} calls were cut short",
            self.fired.load(Ordering::SeqCst),
            self.runs.load(Ordering::SeqCst),
            undisturbed.moments.len(),
            self.unknown.load(Ordering::SeqCst),
        );
    }
}

/// Does `work` for every number below `count`, on all processors.
fn in_parallel(count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(2, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= count {
                        return;
                    }
                    work(number);
                }
            });
        }
    });
}
