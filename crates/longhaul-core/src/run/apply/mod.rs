//! The fold itself: how each event changes a run. Here is the table; each kind of change has a room.

mod calls;
mod children;
mod course;
mod life;
mod steps;
mod turns;

use self::turns::{Failing, Heard};
use super::{Answer, Gate, NO_STEP, Phase, Run};
use crate::conversation::Message;
use crate::event::{Aside, Event, StopAction};
use crate::ids::Attempt;
use crate::time::Timestamp;
use crate::tool::Outcome;

impl Run {
    pub(super) fn remember(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::RunCreated(_)
            | Event::Imported { .. }
            | Event::PlanCompleted
            | Event::ToolFailed { .. }
            | Event::LimitReached { .. }
            | Event::TornTailCut { .. }
            | Event::WorkspaceMended { .. }
            | Event::DerivedFailed { .. } => {}

            Event::SetUpStarted { .. } => self.setting_up = true,
            Event::SetUpEnded { error, .. } => self.end_set_up(error.as_ref()),
            Event::StatusChanged { to, cause, reason, .. } => {
                self.change_status(at, *to, *cause, reason.clone());
            }
            Event::Reopened => self.reopen(),
            Event::CommandApplied { command, .. } | Event::CommandDropped { command, .. } => {
                self.remember_command(command);
            }
            Event::Recovered { generation } => {
                self.generation = *generation;
                self.files.lose_sight();
                self.head = None;
            }
            Event::SchemaUpgraded { to, .. } => self.schema = Some(*to),
            Event::Contained { by } => self.contained = Some(by.clone()),
            Event::PersistenceFellBack { reason } => self.fallback = Some(reason.clone()),
            Event::LimitPassed { limit, spent, max } => self.pass_limit(limit, spent, max),
            Event::LimitsChanged { limits } => {
                self.spec.limits = *limits;
                self.warned.clear();
            }
            Event::ChecksChanged { checks } => self.change_checks(checks),
            Event::LoopChanged { looping } => {
                self.spec.conduct.get_or_insert_default().looping = Some(looping.clone());
            }

            Event::Checkpointed { number } => {
                self.checkpoints = *number;
                self.last_checkpoint_at = Some(at);
            }
            Event::CheckpointNamed { name, .. } | Event::CheckpointGuarded { name, .. } => {
                self.checkpoint_names.push(name.clone());
            }
            Event::FilesStored { stored, moment } => self.files.store(stored, *moment),
            Event::WorkKept { steps, kept } => self.keep_work(*steps, kept),
            Event::BranchesBrought { branches } => {
                let branches = branches.iter().cloned();
                self.brought.extend(branches.map(|brought| (brought.branch, brought.commit)));
            }
            Event::BranchesComplete => self.not_brought = None,
            Event::BranchNotBrought { why } => self.not_brought = Some(why.clone()),

            Event::PlanMade { plan } => self.take_plan(plan),
            Event::PlanRefused { why } => self.refuse_plan(why),
            Event::GateChecked { step, .. } => self.come_to_step(*step),
            Event::WaitingForHuman { gate, step, ask, digest } => {
                let (number, step, ask, digest) = (*gate, *step, ask.clone(), digest.clone());
                self.open_gate(Gate { number, step, ask, digest, opened_at: at, answer: None });
            }
            Event::GateAnswered { gate, approved, reason, answer, .. } => {
                let (reason, text) = (reason.clone(), answer.clone());
                self.answer_gate(*gate, Answer { approved: *approved, reason, text, at });
            }
            Event::StepStarted { step } => self.open_step(*step),
            Event::StepCompleted { step, output } => self.complete_step(*step, output),
            Event::StepFailed { step, error } => self.fail_step(*step, error),

            Event::TurnStarted { turn, attempt } => self.begin_turn(*turn, *attempt),
            Event::ModelReplied { turn, text, calls, usage, raw, stop, window, .. } => {
                let heard = Heard { text, calls, raw, stop: stop.unwrap_or_default() };
                self.take_reply(at, *turn, heard, usage, *window);
            }
            Event::TurnFailed { turn, attempt, retry, kind, until, usage, garbled, .. } => {
                let (turn, attempt, kind) = (*turn, *attempt, kind.unwrap_or_default());
                let garbled = garbled.unwrap_or(false);
                let failing = Failing { turn, attempt, kind, garbled, until: *until, retry: *retry };
                self.fail_turn(at, failing, usage.as_ref());
            }
            Event::ModelChanged { model, why } => self.change_model(model, why.is_some()),
            Event::Told { text } => self.say(Message::User { text: text.clone() }),
            Event::SpentBefore { usage } => self.count_spent_before(usage),

            Event::CallStarted { call, attempt, class, traces } => {
                self.start_call(*call, *attempt, *class, traces);
            }
            Event::CallFinished { call, attempt, outcome, duration_us } => {
                self.finish_call(*call, *attempt, outcome, *duration_us);
            }
            Event::CallRefused { call, failure, message } => {
                self.end_call(*call, Attempt::FIRST, Outcome::failed(*failure, message.clone()), 1);
            }
            Event::CallRetryScheduled { call, attempt, message, rest } => {
                self.rest_call(*call, *attempt, message, *rest);
            }

            Event::AgentStopped { action: StopAction::Restart | StopAction::Limit, why, .. } => {
                self.resumed.next_note.clone_from(why);
            }
            Event::AgentStopped {
                action: StopAction::Complete | StopAction::Continue | StopAction::Pause,
                ..
            } => {}
            Event::ExamineStarted { turn, round, attempt, purpose } => {
                self.begin_examination(*turn, *round, *attempt, *purpose);
            }
            Event::Examined { found, .. } => self.see(at, found),
            Event::IterationStarted { number, why, note } => {
                self.begin_anew(*number, *why, note.as_deref());
            }
            Event::AsideStarted { aside, turn, attempt } => {
                self.phase = Phase::Aside { aside: *aside, turn: *turn, attempt: *attempt };
            }
            Event::AsideEnded { aside, model, text, usage, retry, kind, .. } => {
                let step = match aside {
                    Aside::Planning { .. } => NO_STEP,
                    Aside::Compaction { .. } | Aside::Iteration { .. } | Aside::Judgement => {
                        self.current_step
                    }
                };
                if let Some(usage) = usage {
                    self.spend_on(step, model, usage);
                    self.aside_reserve.heard(*aside, *usage);
                }
                self.hear_aside(*aside, model, text);
                self.rest_aside(*retry, kind.unwrap_or_default());
            }
            Event::Compacted { shortening, futile, tokens_after, .. } => {
                self.shorten(shortening, *tokens_after, *futile);
            }
            Event::DoomLoop { .. } => {
                self.repetitions.push(self.calls.len() as u32);
                self.novelty.tell();
            }

            Event::ChildSpawned(errand) => self.send(at, errand),
            Event::ChildRested { number, paused, reason, ledger } => {
                self.rest_child(*number, *paused, reason.as_ref(), *ledger);
            }
            Event::ChildResumed { number, limits, model } => {
                self.resume_child(*number, *limits, model.as_ref());
            }
            Event::ChildEnded { number, error, ledger } => self.end_child(*number, error.as_ref(), *ledger),
            Event::ChildHeld { number } => self.hold_back(*number),
        }
    }
}
