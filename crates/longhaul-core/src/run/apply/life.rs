//! Status, the clock, and commands: where a run stands as a whole.

use crate::conduct::Checks;
use crate::event::{Cause, Kept};
use crate::ids::CommandId;
use crate::limits;
use crate::run::{Pace, Patience, Run};
use crate::status::{Status, Wait};
use crate::time::Timestamp;

impl Run {
    /// Why a run has not begun that was told to; nobody need be there to be told. Once it is mended, that is no longer so.
    pub(super) fn end_set_up(&mut self, error: Option<&String>) {
        // Who paused or stopped it meanwhile has said why.
        let is_left_off = !std::mem::take(&mut self.setting_up);
        if !is_left_off && (self.status == Status::Created || error.is_some()) {
            self.reason = error.map(|error| format!("its workspace could not be set up: {error}"));
        }
    }

    pub(super) fn change_status(&mut self, at: Timestamp, to: Status, cause: Cause, reason: Option<String>) {
        self.status = to;
        self.setting_up = false;
        self.stop_the_clock(at);
        if to == Status::Running {
            self.working_since = Some(at);
            // A person has looked: what went wrong before counts no longer.
            self.pace = Pace { tree: self.pace.tree.take(), ..Pace::default() };
            self.repetitions.clear();
            self.novelty.forgive();
            self.calls_before_start = self.calls.len() as u32;
            self.fill.futile = 0;
            self.fill.overflows = 0;
            // Whoever it was may also have been at the files.
            self.head = None;
        }
        self.model_failures = 0;
        self.patience = Patience { reached: self.patience.reached, ..Patience::default() };
        self.cause = Some(cause);
        self.reason = reason;
        match to {
            Status::Created | Status::Running | Status::Paused => {}
            Status::Completed => self.completed_at = Some(at),
            Status::Failed => {
                self.completed_at = Some(at);
                if self.error.is_none() {
                    self.error.clone_from(&self.reason);
                }
            }
        }
    }

    pub(super) fn reopen(&mut self) {
        if self.was_stopped_at_limit() {
            // What came to its limit goes on with the very step that failed.
            let in_hand = self.fell_at_limit();
            self.plan.reopen();
            if in_hand {
                self.plan.start(self.current_step as usize);
            }
        }
        self.status = Status::Paused;
        self.cause = Some(Cause::Asked);
        self.reason = Some("it had failed, and was opened again".to_owned());
        self.completed_at = None;
        self.error = None;
    }

    pub(super) fn remember_command(&mut self, command: &CommandId) {
        if self.commands.len() == limits::COMMANDS_REMEMBERED_MAX {
            self.commands.pop_front();
        }
        self.commands.push_back(command.clone());
    }

    pub(super) fn change_checks(&mut self, checks: &Checks) {
        let conduct = self.spec.conduct.take().unwrap_or_default();
        self.spec.conduct = Some(Box::new(conduct.checked_by(checks.clone())));
    }

    pub(super) fn keep_work(&mut self, steps: u32, kept: &Kept) {
        self.kept_steps = steps;
        self.uncommitted = None;
        match kept {
            Kept::Committed { commit, .. } => self.commits.push(commit.clone()),
            Kept::Uncommitted { why } => self.uncommitted = Some(why.clone()),
            Kept::Unchanged { .. } => {}
        }
        self.head = kept.head().map(str::to_owned);
        // What was kept is what was looked at only if nobody worked in between.
        let untouched = !self.unseen && !self.has_called_since_look();
        if let Some(seen) = self.examined.as_mut().filter(|seen| seen.head.is_none() && untouched) {
            seen.head.clone_from(&self.head);
        }
    }

    /// Time counts while somebody works, not while everybody waits for a person.
    pub(in crate::run) fn mind_the_clock(&mut self, at: Timestamp) {
        if self.status != Status::Running {
            return;
        }
        if self.wait() == Wait::Human {
            self.stop_the_clock(at);
        } else {
            self.working_since.get_or_insert(at);
        }
    }

    /// What was worked until `at` is counted; what comes after only once the clock is started again.
    pub(in crate::run) fn stop_the_clock(&mut self, at: Timestamp) {
        if let Some(since) = self.working_since.take() {
            self.worked_ms = self.worked_ms.saturating_add(at.millis_since(since));
        }
    }
}
