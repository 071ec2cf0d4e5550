//! The pure part of a step, without a disk: decide, encode, apply.

use std::time::{Duration, Instant};

use longhaul_core::command::{Command, Wish};
use longhaul_core::conversation::{ModelReply, ProposedCall};
use longhaul_core::decide::decide;
use longhaul_core::effect::Effect;
use longhaul_core::event::Event;
use longhaul_core::ids::{CommandId, RunId};
use longhaul_core::input::{Input, Tended};
use longhaul_core::json::Json;
use longhaul_core::run::Run;
use longhaul_core::time::Timestamp;
use longhaul_core::tool::Outcome;
use longhaul_engine::fold;
use longhaul_store::Entry;

use super::gate::TOOL;
use super::ground::text;
use super::report::{Row, Target};
use super::rig::spec;
use super::stats::{micros, percentile};
use crate::failure::Failure;

/// Events that make one turn: the turn, its reply, its call, its outcome.
pub const EVENTS_PER_TURN: usize = 4;

/// A run that is only thought.
pub struct Machine {
    run: Run,
    next: Input,
    text: String,
    entries: Vec<Entry>,
    spent: Duration,
}

impl Machine {
    pub fn new(id: RunId) -> Result<Machine, Failure> {
        let at = Timestamp::default();
        let created = Event::RunCreated(Box::new(spec(id)));
        let entries = vec![fold::entry(at, &created)];
        let run = Run::first(1, at, &created).map_err(anyhow::Error::from)?;
        let wish = Wish::Start { limits: None, model: None, looping: None };
        let next = Input::Command(Command { id: CommandId::from_bits(1), wish });
        Ok(Machine { run, next, text: text(), entries, spent: Duration::ZERO })
    }

    /// Takes one step; what it costs is in `spent`, what it would append in `entries`.
    pub fn step(&mut self) -> Result<(), Failure> {
        let at = Timestamp::default();
        let input = std::mem::replace(&mut self.next, Input::DiskLow);
        let started = Instant::now();
        let decision = decide(&self.run, at, input).map_err(longhaul_engine::Error::from)?;
        self.entries.extend(decision.events.iter().map(|event| fold::entry(at, event)));
        for event in &decision.events {
            self.run.apply(self.run.seq + 1, at, event).map_err(anyhow::Error::from)?;
        }
        self.spent = started.elapsed();
        let effect = decision.effects.first().ok_or_else(|| anyhow::anyhow!("the run came to an end"))?;
        self.next = self.answer(effect);
        Ok(())
    }

    /// Hands over what was to be appended since the last time.
    pub fn entries(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.entries)
    }

    fn answer(&self, effect: &Effect) -> Input {
        let text = self.text.clone();
        match *effect {
            Effect::CallModel { turn, attempt } => {
                let calls = vec![ProposedCall::new(TOOL, Json::empty_object())];
                let reply = ModelReply { text, calls, ..ModelReply::default() };
                Input::ModelReplied { turn, attempt, reply, duration_us: 1 }
            }
            Effect::RunTool { call, attempt } => Input::ToolEnded {
                call,
                attempt,
                outcome: Outcome::done(text),
                duration_us: 1,
                hold: None,
                tended: Tended::default(),
            },
            // A run of a tool of class once asks for nothing else.
            Effect::Examine { .. }
            | Effect::AskAside { .. }
            | Effect::PrepareTool { .. }
            | Effect::CheckTool { .. }
            | Effect::Attend { .. }
            | Effect::AwaitAnswer { .. }
            | Effect::EndChild { .. }
            | Effect::Sleep { .. }
            | Effect::CancelWork => Input::DiskLow,
        }
    }
}

/// How long each of that many steps took, in microseconds.
pub fn times(steps: usize) -> Result<Vec<f64>, Failure> {
    let mut machine = Machine::new(RunId::from_bits(1))?;
    let mut times = Vec::with_capacity(steps);
    for _ in 0..steps {
        machine.step()?;
        machine.entries();
        times.push(micros(machine.spent));
    }
    Ok(times)
}

pub fn rows(times: &[f64]) -> Vec<Row> {
    let about = format!("decide, encode and apply, without IO, over {} steps", times.len());
    vec![
        Row::new("overhead_p50", &about, percentile(times, 0.5), "µs"),
        Row::new("overhead_p99", about, percentile(times, 0.99), "µs").target(Target::AtMost(200.0)),
    ]
}
