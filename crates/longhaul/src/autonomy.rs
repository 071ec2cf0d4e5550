//! What a level of autonomy means: what is asked, and how often a checkpoint is made.
//!
//! Owns the words for it and the rhythm of checkpoints. What a gate is, and that rules ask on every level, is core's to decide.

use std::time::Duration;

use longhaul_core::spec::Autonomy;
use serde_json::{Value, json};

use crate::duration;
use crate::failure::Failure;
use crate::settings::{Settings, Source};

/// How often a checkpoint is made, as it is typed.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RhythmArgs {
    /// Dream Mode: a checkpoint by the clock, at least as often as `harness.checkpoint_interval_ms` says (five minutes), whatever
    /// the level of autonomy
    #[arg(long)]
    pub dream: bool,
    /// How often a checkpoint is made while the run works, like `1s` or `5m` [default: by the level of autonomy; see `longhaul
    /// config explain`]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub checkpoint_interval: Option<Duration>,
    /// The same in milliseconds
    #[arg(long, value_name = "MS", conflicts_with = "checkpoint_interval")]
    pub checkpoint_interval_ms: Option<u64>,
}

impl RhythmArgs {
    /// What was typed, else what somebody set, else by the level.
    pub fn interval_ms(&self, settings: &Settings, autonomy: Autonomy) -> u64 {
        let typed =
            self.checkpoint_interval.map(|time| time.as_millis() as u64).or(self.checkpoint_interval_ms);
        let of_level = interval_ms(settings, autonomy);
        let dreaming = if self.dream { of_level.min(settings.checkpoint_interval_ms) } else { of_level };
        typed.unwrap_or(dreaming)
    }
}

/// Whoever wants to be asked about every step wants to be able to go back a little; what nobody has set is for them.
pub fn interval_ms(settings: &Settings, autonomy: Autonomy) -> u64 {
    let set = settings.checkpoint_interval_ms;
    let is_default = |(_, source): &(Value, Source)| *source == Source::Default;
    if !settings.origins.get("harness.checkpoint_interval_ms").is_some_and(is_default) {
        return set;
    }
    match autonomy.level() {
        1 => set / 5,
        2 => set / 2,
        _ => set,
    }
}

/// The levels there are.
pub fn levels(one: Option<u8>) -> Result<Vec<Autonomy>, Failure> {
    let Some(level) = one else { return Ok((1..=5).filter_map(Autonomy::new).collect()) };
    let autonomy = Autonomy::new(level);
    Ok(vec![autonomy.ok_or_else(|| Failure::usage(format!("--autonomy is 1 to 5, not {level}")))?])
}

/// Before which steps a person is asked.
pub fn gates(autonomy: Autonomy) -> &'static str {
    match (autonomy.gates(false), autonomy.gates(true)) {
        (true, _) => "before every step",
        (false, true) => "before critical steps",
        (false, false) => "before no step",
    }
}

/// What a call that a rule asks about leads to.
pub fn asks(autonomy: Autonomy) -> &'static str {
    if autonomy.level() == 5 {
        "it is denied, and the agent goes on without it (--on-ask wait would wait)"
    } else {
        "the run waits for a person (--on-ask deny or pause would not)"
    }
}

/// What a command leads to that the rules cannot judge.
pub fn doubts(autonomy: Autonomy) -> &'static str {
    if autonomy.asks_in_doubt() { "a person is asked" } else { "the agent is told to put it more plainly" }
}

pub fn as_json(settings: &Settings, autonomy: Autonomy) -> Value {
    json!({
        "autonomy": autonomy.level(),
        "inForce": autonomy == settings.autonomy,
        "gates": gates(autonomy),
        "gatesEveryStep": autonomy.gates(false),
        "gatesCriticalSteps": autonomy.gates(true),
        "checkpointIntervalMs": interval_ms(settings, autonomy),
        "askRule": asks(autonomy),
        "unclearCommand": doubts(autonomy),
    })
}
