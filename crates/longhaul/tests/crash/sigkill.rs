//! `kill -9` at moments nobody chose.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::rig::{Chance, Rig, told};

const STEPS: usize = 20;
const KILLS: usize = 500;
/// What holds commands takes its time, so these are fewer.
const STEPS_HELD: usize = 5;
const KILLS_HELD: usize = 60;

/// How long a killer waits at most, to begin with. One that finds nothing under way learns to wait longer, so that a busy
/// machine is killed at its work too.
const DELAY_US_FIRST: u64 = 60_000;
const DELAY_US_MAX: u64 = 8_000_000;

/// A run that makes no headway all the same is left alone after this many.
const KILLS_PER_RUN_MAX: usize = 60;

/// AX2, A1.4: killed at random at least five hundred times over several runs of twenty steps, every run completes, every
/// step happens once, every journal stays sound, and the catalogue is what the journals say.
#[test]
fn five_hundred_kills_lose_nothing_and_repeat_nothing() {
    sweep(KILLS, STEPS, |steps| Some(Rig::with_steps(steps)));
}

/// AX2, A1.4: the same as users have it who set nothing, with the runs in the project and the commands held.
#[test]
fn kills_lose_nothing_where_users_have_it() {
    sweep(KILLS_HELD, STEPS_HELD, |steps| Rig::with_steps(steps).held_in_the_project());
}

fn sweep(kills: usize, steps: usize, rig: impl Fn(usize) -> Option<Rig> + Sync) {
    if rig(steps).is_none() {
        return;
    }
    let chance = Mutex::new(Chance::new());
    let tally = Tally::default();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while tally.kills.load(Ordering::SeqCst) < kills {
                    let mut chance = chance.lock().unwrap().split();
                    one_run(&rig(steps).unwrap(), steps, &mut chance, &tally);
                }
            });
        }
    });
    println!("{tally:?}");
    assert!(tally.kills.load(Ordering::SeqCst) >= kills);
    assert!(tally.mid_run.load(Ordering::SeqCst) >= kills / 4, "most kills missed the work itself");
}

#[derive(Debug, Default)]
struct Tally {
    runs: AtomicUsize,
    kills: AtomicUsize,
    /// Kills that found the run under way, not just the program starting.
    mid_run: AtomicUsize,
    before_creation: AtomicUsize,
    cut_short: AtomicUsize,
}

fn one_run(rig: &Rig, steps: usize, chance: &mut Chance, tally: &Tally) {
    let (mut kills, mut delay_us) = (0, DELAY_US_FIRST);
    let id = loop {
        let id = rig.runs().pop();
        let resume = id.as_deref().map(|id| vec!["resume", id]);
        let mut live = rig.start(&resume.unwrap_or_else(|| rig.run_args()));
        if kills < KILLS_PER_RUN_MAX {
            std::thread::sleep(Duration::from_micros(chance.below(delay_us)));
            if !live.has_ended() {
                live.kill();
                kills += 1;
                let was_under_way = count_kill(rig, tally);
                delay_us = if was_under_way {
                    DELAY_US_FIRST.max(delay_us * 3 / 4)
                } else {
                    DELAY_US_MAX.min(delay_us * 2)
                };
                match rig.runs().pop() {
                    Some(id) if rig.status(&id) == "completed" => break id,
                    Some(_) | None => continue,
                }
            }
        }
        let output = live.wait();
        assert!(output.status.success(), "{}", told(&output));
        break rig.runs().pop().unwrap();
    };
    assert_eq!(rig.runs(), [id.as_str()], "one run was made");
    let cut_short = rig.check_end(&id, steps);
    let before = rig.json(&["list", "--json"]);
    rig.says(&["store", "rebuild"]);
    assert_eq!(rig.json(&["list", "--json"]), before, "the catalogue follows from the journals");
    assert_eq!(before[0]["status"], "completed");
    tally.runs.fetch_add(1, Ordering::SeqCst);
    tally.cut_short.fetch_add(cut_short, Ordering::SeqCst);
}

/// Was the run under way?
fn count_kill(rig: &Rig, tally: &Tally) -> bool {
    tally.kills.fetch_add(1, Ordering::SeqCst);
    match rig.runs().pop() {
        None => {
            tally.before_creation.fetch_add(1, Ordering::SeqCst);
            false
        }
        Some(id) => {
            rig.says(&["store", "verify", &id]);
            let under_way = rig.status(&id) == "running";
            tally.mid_run.fetch_add(usize::from(under_way), Ordering::SeqCst);
            under_way
        }
    }
}
