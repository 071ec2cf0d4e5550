//! What the harness itself takes for a turn of a long conversation: decide, look whether the window fills, encode, apply, and
//! build the next request. The model, the tools and the disk are not in it.

use std::time::{Duration, Instant};

use longhaul_core::command::{Command, Wish};
use longhaul_core::conduct::{Conduct, Surroundings};
use longhaul_core::conversation::{ModelReply, ProposedCall, Usage};
use longhaul_core::decide::decide;
use longhaul_core::effect::Effect;
use longhaul_core::event::Event;
use longhaul_core::ids::{CommandId, RunId};
use longhaul_core::input::{Input, Tended};
use longhaul_core::json::Json;
use longhaul_core::prompt;
use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_core::time::Timestamp;
use longhaul_core::tool::Outcome;
use longhaul_engine::fold;
use serde_json::json;

use super::gate::TOOL;
use super::report::{Row, Target};
use super::rig::spec;
use super::stats::{micros, percentile};
use crate::failure::Failure;

/// Bytes of every result: half a page of code.
const RESULT_BYTES: usize = 2000;

/// The history is measured in tokens as providers count code: four bytes each.
const BYTES_PER_TOKEN: u64 = 4;

struct Talk {
    run: Run,
    next: Input,
    result: String,
    calls: u64,
    spent: Duration,
    bytes: usize,
}

impl Talk {
    fn new() -> Result<Talk, Failure> {
        let at = Timestamp::default();
        let surroundings = Surroundings {
            environment: "Platform: linux".to_owned(),
            rules: Some("Keep functions short. ".repeat(200)),
            rule_files: vec!["AGENTS.md".to_owned()],
        };
        let conduct = Conduct { surroundings: Some(surroundings), ..Conduct::default() };
        let spec = RunSpec { conduct: Some(Box::new(conduct)), ..spec(RunId::from_bits(1)) };
        let run = Run::first(1, at, &Event::RunCreated(Box::new(spec))).map_err(anyhow::Error::from)?;
        let wish = Wish::Start { limits: None, model: None, looping: None };
        let next = Input::Command(Command { id: CommandId::from_bits(1), wish });
        let line = "    let value = table.get(&key).copied().unwrap_or_default();\n";
        let result = line.repeat(RESULT_BYTES / line.len() + 1);
        Ok(Talk { run, next, result, calls: 0, spent: Duration::ZERO, bytes: 0 })
    }

    /// One input and all that follows from it; what it took is added to `spent`.
    fn step(&mut self) -> Result<Effect, Failure> {
        let at = Timestamp::default();
        let input = std::mem::replace(&mut self.next, Input::DiskLow);
        let started = Instant::now();
        let decision = decide(&self.run, at, input).map_err(longhaul_engine::Error::from)?;
        for event in &decision.events {
            self.bytes += fold::entry(at, event).payload.len();
            self.run.apply(self.run.seq + 1, at, event).map_err(anyhow::Error::from)?;
        }
        let effect = decision.effects.into_iter().next();
        let effect = effect.ok_or_else(|| anyhow::anyhow!("the conversation came to an end"))?;
        if let Effect::CallModel { turn, attempt } = effect {
            std::hint::black_box(prompt::request(&self.run, turn, attempt));
        }
        self.spent += started.elapsed();
        self.next = self.answer(&effect);
        Ok(effect)
    }

    fn answer(&mut self, effect: &Effect) -> Input {
        match *effect {
            Effect::CallModel { turn, attempt } => {
                self.calls += 1;
                let args = Json::of(&json!({ "path": format!("src/part{}.rs", self.calls) }));
                let calls = vec![ProposedCall::new(TOOL, args)];
                let usage = Usage {
                    input_tokens: self.run.fill.bytes / BYTES_PER_TOKEN + 1,
                    output_tokens: 20,
                    ..Usage::default()
                };
                let text = "I look at the next part.".to_owned();
                let reply =
                    ModelReply { text, calls, usage, window: Some(10_000_000), ..ModelReply::default() };
                Input::ModelReplied { turn, attempt, reply, duration_us: 1 }
            }
            Effect::RunTool { call, attempt } => {
                let outcome = Outcome::done(format!("// part {}\n{}", self.calls, self.result));
                Input::ToolEnded {
                    call,
                    attempt,
                    outcome,
                    duration_us: 1,
                    hold: None,
                    tended: Tended::default(),
                }
            }
            Effect::PrepareTool { .. }
            | Effect::CheckTool { .. }
            | Effect::Examine { .. }
            | Effect::AskAside { .. }
            | Effect::Attend { .. }
            | Effect::AwaitAnswer { .. }
            | Effect::EndChild { .. }
            | Effect::Sleep { .. }
            | Effect::CancelWork => Input::DiskLow,
        }
    }

    /// From one question to the model to the next.
    fn turn(&mut self) -> Result<Duration, Failure> {
        self.spent = Duration::ZERO;
        while !matches!(self.step()?, Effect::CallModel { .. }) {}
        Ok(self.spent)
    }
}

/// A turn at 50,000 and at 500,000 tokens of history.
pub fn rows(turns: usize) -> Result<Vec<Row>, Failure> {
    let mut talk = Talk::new()?;
    talk.turn()?;
    let mut rows = Vec::new();
    for (thousands, target, [p50, p99, bytes]) in [
        (50, 1000.0, ["turn_50k_p50", "turn_50k_p99", "turn_50k_bytes"]),
        (500, 5000.0, ["turn_500k_p50", "turn_500k_p99", "turn_500k_bytes"]),
    ] {
        while talk.run.fill.bytes < thousands * 1000 * BYTES_PER_TOKEN {
            talk.turn()?;
        }
        talk.bytes = 0;
        let times: Vec<f64> = (0..turns).map(|_| talk.turn().map(micros)).collect::<Result<_, _>>()?;
        let about = format!(
            "a turn without model, tools and disk at {thousands},000 tokens of history, over {turns}"
        );
        rows.push(Row::new(p50, &about, percentile(&times, 0.5), "µs"));
        rows.push(Row::new(p99, &about, percentile(&times, 0.99), "µs").target(Target::AtMost(target)));
        let added = talk.bytes as f64 / turns as f64;
        rows.push(Row::new(bytes, "what such a turn adds to the journal", added, "bytes"));
    }
    Ok(rows)
}
