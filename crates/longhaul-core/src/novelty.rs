//! Whether anything a step's calls bring is new. Kept over fresh conversations and compactions, which an agent may forget by and a
//! circle may not. What is remembered of calls is a number for each, and bounded; what failed is known by what it said.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::ids::CallId;
use crate::json::Json;
use crate::limits::{CHANGING_REPEATS_FACTOR, KNOWN_CALLS_MAX, NOTHING_NEW_FACTOR, OLD_NEWS_CALLS};
use crate::repetition::{Found, Repetition};
use crate::tool::{BASH_OUTPUT, Failure, Outcome, STILL_RUNNING};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Novelty {
    known: Arc<Known>,
    /// Calls in a row that brought nothing new.
    pub stale: u32,
    /// How often something was done about circles since anything was new.
    pub told: u32,
    /// Calls in a row that failed and brought nothing but that, each maybe in other words.
    #[serde(default)]
    pub failing: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    asked: Bounded,
    brought: Bounded,
}

/// The last so many of what was put in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
struct Bounded {
    set: HashSet<u64>,
    order: VecDeque<u64>,
}

impl From<Vec<u64>> for Bounded {
    fn from(order: Vec<u64>) -> Bounded {
        Bounded { set: order.iter().copied().collect(), order: order.into() }
    }
}

impl From<Bounded> for Vec<u64> {
    fn from(bounded: Bounded) -> Vec<u64> {
        bounded.order.into()
    }
}

impl Bounded {
    /// Was it not there before?
    fn put(&mut self, number: u64) -> bool {
        if !self.set.insert(number) {
            return false;
        }
        self.order.push_back(number);
        if self.order.len() > KNOWN_CALLS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.set.remove(&oldest);
        }
        true
    }
}

impl Novelty {
    /// A call of the step in hand has ended.
    pub(crate) fn learn(&mut self, call: CallId, tool: &str, args: &Json, outcome: &Outcome) {
        if is_wait(tool, outcome) {
            // What is done between two looks, a nap say, is waiting too.
            self.stale = 0;
            return;
        }
        if !counts(outcome) {
            return;
        }
        let fruitless = matches!(outcome, Outcome::Failed { output, .. } if output.text.is_empty());
        self.failing = if fruitless { self.failing.saturating_add(1) } else { 0 };
        let asked = number([tool, &args.value().to_string()]);
        let asked_of = match outcome {
            Outcome::Failed { .. } => number([tool]),
            Outcome::Done { .. } | Outcome::Unknown { .. } => asked,
        };
        // A command that is left running and a file of what was found are called by the call's own name, which is no news.
        let brought = joined(asked_of, outcome.for_model().split(&call.to_string()));
        let known = Arc::make_mut(&mut self.known);
        known.asked.put(asked);
        if known.brought.put(brought) {
            (self.stale, self.told) = (0, 0);
        } else {
            self.stale = self.stale.saturating_add(1);
        }
    }

    /// A person has looked: what brought nothing so far counts no longer. What is known stays known.
    pub(crate) fn forgive(&mut self) {
        (self.stale, self.told, self.failing) = (0, 0, 0);
    }

    /// Something was done about a circle. Who was told so may try something else for a while.
    pub(crate) fn tell(&mut self) {
        self.told = self.told.saturating_add(1);
        self.failing /= 2;
    }

    /// Would this call go on with what has brought nothing new for so long? Who asks for something new may have it, unless
    /// nothing came of anything. A fresh conversation may look at everything once more.
    pub fn found(&self, tool: &str, args: &Json, max: u32) -> Option<Found> {
        if self.failing >= max * CHANGING_REPEATS_FACTOR {
            return Some(Found { repetition: Repetition::AllFail, count: self.failing });
        }
        let once = max * CHANGING_REPEATS_FACTOR + OLD_NEWS_CALLS;
        let most = match self.told {
            0 => once,
            1 => once + max * NOTHING_NEW_FACTOR,
            _ => 2 * once + max * NOTHING_NEW_FACTOR,
        };
        if self.stale < most {
            return None;
        }
        let is_known = self.known.asked.set.contains(&number([tool, &args.value().to_string()]));
        is_known.then_some(Found { repetition: Repetition::NothingNew, count: self.stale })
    }
}

/// Waiting for a command that runs is honest.
fn is_wait(tool: &str, outcome: &Outcome) -> bool {
    let still_runs = |text: &str| text.trim_end().ends_with(STILL_RUNNING);
    tool == BASH_OUTPUT
        && outcome.is_done()
        && outcome.output().is_some_and(|output| still_runs(&output.text))
}

/// A hook that broke is not the agent's doing, nor is a stop of longhaul; and what was not made brought nothing.
fn counts(outcome: &Outcome) -> bool {
    !outcome.was_cut_short()
        && !matches!(outcome, Outcome::Failed { failure: Failure::Hook | Failure::DoomLoop, .. })
}

fn number<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    joined(0, parts)
}

/// The same in every version and on every machine, as it is in documents. Not made to withstand anybody: this is done again for
/// every call whenever a run is opened, and whoever deceives it only looks idle.
fn joined<'a>(before: u64, parts: impl IntoIterator<Item = &'a str>) -> u64 {
    parts.into_iter().fold(before, |number, part| xxh3_64_with_seed(part.as_bytes(), number))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Novelty, number};
    use crate::ids::CallId;
    use crate::json::Json;
    use crate::limits::{CHANGING_REPEATS_FACTOR, KNOWN_CALLS_MAX, REPEATS_MAX_DEFAULT};
    use crate::repetition::Repetition;
    use crate::tool::{Failure, Outcome};

    /// What is remembered of calls stands in documents, so it is the same number tomorrow.
    #[test]
    fn what_is_remembered_is_the_same_in_every_version() {
        assert_eq!(number(["read", "{}"]), 14_100_780_276_645_789_798);
        assert_ne!(number(["ab", "c"]), number(["a", "bc"]));
    }

    /// D3.4: who fails again and again, each time otherwise, is stopped; who gets anything done is not.
    #[test]
    fn a_long_row_of_failures_is_a_circle() {
        let failed = |number: u32| Outcome::failed(Failure::NotPermitted, format!("rm /x{number} is denied"));
        let asked = |number: u32| Json::of(&json!({ "command": format!("rm /x{number}") }));
        let most = REPEATS_MAX_DEFAULT * CHANGING_REPEATS_FACTOR;
        let mut novelty = Novelty::default();
        let fail = |novelty: &mut Novelty, number| {
            assert_eq!(novelty.found("bash", &asked(number), REPEATS_MAX_DEFAULT), None, "{number}");
            novelty.learn(CallId(1), "bash", &asked(number), &failed(number));
        };
        for number in 0..most {
            fail(&mut novelty, number);
        }
        let found = novelty.found("bash", &asked(most), REPEATS_MAX_DEFAULT).unwrap();
        assert_eq!((found.repetition, found.count), (Repetition::AllFail, most));
        novelty.tell();
        for number in most..most + most / 2 {
            fail(&mut novelty, number);
        }
        assert!(
            novelty.found("bash", &asked(999), REPEATS_MAX_DEFAULT).is_some(),
            "sooner than the first time"
        );
        novelty.learn(CallId(1), "read", &asked(999), &Outcome::done("a file".to_owned()));
        assert_eq!(novelty.found("bash", &asked(999), REPEATS_MAX_DEFAULT), None);
    }

    /// However many calls a circle has, also one that is begun anew after each compaction, it is found within a bounded number of
    /// calls, and three times in a row.
    #[test]
    fn every_circle_is_found() {
        for length in (1..=40).chain([148, 1000]) {
            let (mut novelty, mut found, mut calls) = (Novelty::default(), 0, 0);
            while found < 3 {
                let args = Json::of(&json!({ "path": format!("{}.txt", calls % length) }));
                match novelty.found("read", &args, REPEATS_MAX_DEFAULT) {
                    Some(_) => {
                        novelty.tell();
                        found += 1;
                    }
                    None => novelty.learn(
                        CallId(1),
                        "read",
                        &args,
                        &Outcome::done(format!("text {}", calls % length)),
                    ),
                }
                calls += 1;
                assert!(calls <= length + 200, "a circle of {length} calls");
            }
        }
    }

    /// D3.3: what is remembered is bounded, and circles are found after ten thousand calls as after ten.
    #[test]
    fn only_so_many_calls_are_remembered() {
        let mut novelty = Novelty::default();
        let mut learn = |number: u64| {
            let args = Json::of(&json!({ "path": format!("file-{number}") }));
            novelty.learn(CallId(1), "read", &args, &Outcome::done(format!("text {number}")));
        };
        (0..10_000).for_each(&mut learn);
        (0..50).for_each(|_| learn(9_999));
        for kept in [&novelty.known.asked, &novelty.known.brought] {
            assert_eq!((kept.order.len(), kept.set.len()), (KNOWN_CALLS_MAX, KNOWN_CALLS_MAX));
        }
        let last = Json::of(&json!({ "path": "file-9999" }));
        assert!(novelty.found("read", &last, REPEATS_MAX_DEFAULT).is_some());
    }

    /// What is new ends the count, and what is newly asked for is never held back.
    #[test]
    fn news_is_no_circle() {
        let mut novelty = Novelty::default();
        let args = Json::of(&json!({ "command": "make test" }));
        for round in 0..500 {
            assert_eq!(novelty.found("bash", &args, REPEATS_MAX_DEFAULT), None, "round {round}");
            novelty.learn(CallId(1), "bash", &args, &Outcome::done(format!("{round} tests pass")));
        }
        for _ in 0..500 {
            novelty.learn(CallId(1), "bash", &args, &Outcome::done("as before".to_owned()));
        }
        let other = Json::of(&json!({ "command": "git log" }));
        assert_eq!(novelty.found("bash", &other, REPEATS_MAX_DEFAULT), None);
        assert!(novelty.found("bash", &args, REPEATS_MAX_DEFAULT).is_some());
    }
}
