//! Turns: what the model said, or that it did not, what that cost, and how much patience is left.

use std::sync::Arc;

use crate::context;
use crate::conversation::{Message, ModelFailureKind, ProposedCall, Raw, Stop, Usage};
use crate::event::Rest;
use crate::ids::Attempt;
use crate::prompt;
use crate::run::{Patience, Phase, Run, Silence, Spending};
use crate::time::Timestamp;

/// A reply as the conversation takes it in.
pub(super) struct Heard<'a> {
    pub(super) text: &'a str,
    pub(super) calls: &'a [ProposedCall],
    pub(super) raw: &'a Option<Raw>,
    pub(super) stop: Stop,
}

/// How a turn failed, and whether it is tried again.
pub(super) struct Failing {
    pub(super) turn: u32,
    pub(super) attempt: Attempt,
    pub(super) kind: ModelFailureKind,
    pub(super) garbled: bool,
    /// When the provider may be asked again, by its own word.
    pub(super) until: Option<Timestamp>,
    pub(super) retry: Option<Rest>,
}

impl Run {
    pub(super) fn begin_turn(&mut self, turn: u32, attempt: Attempt) {
        self.silence.take_if(|silence| silence.ended.is_some());
        self.turns = self.turns.saturating_add(u32::from(attempt == Attempt::FIRST));
        self.phase = Phase::Thinking { turn, attempt };
    }

    pub(super) fn take_reply(
        &mut self,
        at: Timestamp,
        turn: u32,
        heard: Heard<'_>,
        usage: &Usage,
        window: Option<u64>,
    ) {
        self.spend(usage);
        self.reserve = *usage;
        self.silence.iter_mut().for_each(|silence| silence.ended = Some(at));
        let sent = self.fill.bytes;
        self.hear(at, turn, heard);
        self.fill.window = window.or(self.fill.window);
        self.fill.count(sent, usage);
    }

    pub(super) fn fail_turn(&mut self, at: Timestamp, failing: Failing, usage: Option<&Usage>) {
        let Failing { turn, attempt, kind, garbled, until, retry } = failing;
        usage.into_iter().for_each(|usage| self.spend(usage));
        self.lose_patience(kind, until);
        self.patience.garbled = if garbled { self.patience.garbled.saturating_add(1) } else { 0 };
        self.fill.overflows =
            self.fill.overflows.saturating_add(u32::from(kind == ModelFailureKind::Overflow));
        self.fall_silent(at, kind);
        if let Some(rest) = retry {
            self.patience.switches = 0;
            self.phase = Phase::Resting { turn, attempt, rest, kind };
        }
    }

    fn hear(&mut self, at: Timestamp, turn: u32, heard: Heard<'_>) {
        // What was refused or had no room says nothing that the conversation could go on from: the turn is asked again.
        if matches!(heard.stop, Stop::Refused | Stop::Overflow) {
            return;
        }
        let cut_off = heard.stop == Stop::Length && heard.calls.is_empty();
        let is_empty = heard.calls.is_empty() && heard.text.trim().is_empty();
        self.pace.empty_replies = if is_empty { self.pace.empty_replies.saturating_add(1) } else { 0 };
        self.model_failures = 0;
        let cut_off_before = self.patience.cut_off;
        let unusable = std::mem::take(&mut self.patience.unusable);
        self.patience = Patience { reached: true, unusable, ..Patience::default() };
        let mut requests = Vec::with_capacity(heard.calls.len());
        for call in heard.calls {
            requests.push(self.propose(at, turn, call));
        }
        self.phase = match (heard.calls.is_empty(), cut_off) {
            (false, _) => Phase::Calling { turn },
            (true, false) => Phase::Answered { turn },
            (true, true) => Phase::CutOff { turn },
        };
        // A message without content is refused by providers, and says nothing.
        if !is_empty {
            let (text, raw) = (heard.text.to_owned(), heard.raw.clone().map(Box::new));
            self.say(Message::Assistant { text, calls: requests, raw });
        }
        if cut_off {
            self.patience.cut_off = cut_off_before.saturating_add(1);
            self.say(Message::User { text: prompt::GO_ON.to_owned() });
        }
    }

    /// Adds to the conversation in place: requests that shared it have been answered by now.
    pub(super) fn say(&mut self, message: Message) {
        self.has_images |= matches!(&message, Message::Tool { images, .. } if !images.is_empty());
        self.fill.bytes = self.fill.bytes.saturating_add(context::bytes(&message));
        Arc::make_mut(&mut self.messages).push(message);
    }

    fn lose_patience(&mut self, kind: ModelFailureKind, until: Option<Timestamp>) {
        let model = &self.spec.model;
        self.patience.held.retain(|(held, _)| held != model);
        self.patience.held.extend(until.map(|until| (model.clone(), until)));
        if kind.is_lasting() && !self.patience.unusable.contains(model) {
            self.patience.unusable.push(model.clone());
        }
        self.model_failures = self.model_failures.saturating_add(1);
        self.patience.failures = self.patience.failures.saturating_add(1);
        self.patience.broken =
            self.patience.broken.saturating_add(u32::from(kind == ModelFailureKind::Broken));
        self.patience.reached |= kind != ModelFailureKind::Unreachable;
    }

    fn fall_silent(&mut self, at: Timestamp, kind: ModelFailureKind) {
        let silence = self.silence.get_or_insert_with(|| Silence {
            since: at,
            told: Vec::new(),
            news: false,
            ended: None,
        });
        silence.tell(format!("{} {}", self.spec.model, kind.words()));
    }

    pub(super) fn change_model(&mut self, model: &str, by_itself: bool) {
        model.clone_into(&mut self.spec.model);
        self.fill.window = None;
        self.fill.counted = None;
        self.reserve = Usage::default();
        self.patience.failures = 0;
        self.patience.garbled = 0;
        self.patience.reached &= by_itself;
        self.patience.switches = self.patience.switches.saturating_add(u32::from(by_itself));
        if let Some(silence) = self.silence.as_mut().filter(|_| by_itself) {
            silence.tell(format!("to {model}"));
        }
    }

    fn spend(&mut self, usage: &Usage) {
        let model = self.spec.model.clone();
        self.spend_on(self.current_step, &model, usage);
    }

    pub(super) fn spend_on(&mut self, step: u32, model: &str, usage: &Usage) {
        self.usage.add(usage);
        let iteration = self.iteration;
        let same = |spent: &&mut Spending| {
            (spent.step, spent.iteration, spent.model.as_str()) == (step, iteration, model)
        };
        match self.spending.iter_mut().rev().find(same) {
            Some(spent) => {
                spent.replies = spent.replies.saturating_add(1);
                spent.usage.add(usage);
            }
            None => {
                let model = model.to_owned();
                self.spending.push(Spending { step, iteration, model, replies: 1, usage: *usage });
            }
        }
    }

    pub fn count_spent_before(&mut self, usage: &Usage) {
        self.usage.add(usage);
        // No conversation that is on record: it counts for the run, and for none of its iterations.
        let (step, iteration, model) = (self.current_step, 0, self.spec.model.clone());
        self.spending.insert(0, Spending { step, iteration, model, replies: 0, usage: *usage });
    }
}
