//! What keeps an agent on course: examinations of its work, questions beside the conversation, shortening it, beginning anew.

use std::sync::Arc;

use crate::context::{self, Shortening};
use crate::conversation::{Message, ModelFailureKind};
use crate::event::{Aside, FreshStart, Purpose, Rest};
use crate::evidence::Examination;
use crate::ids::Attempt;
use crate::limits::{EARLY_TURNS, UNDONE_REMEMBERED_MAX};
use crate::policy::Limit;
use crate::prompt;
use crate::run::{Baseline, Files, Judgement, PassedLimit, Phase, Resumed, Run, Seen};
use crate::time::Timestamp;

impl Run {
    pub(super) fn begin_examination(&mut self, turn: u32, round: u32, attempt: Attempt, purpose: Purpose) {
        self.examinations = round;
        // It was about the work as it was then.
        self.judgement.take_if(|_| purpose.is_claim());
        // Verify commands run what the agent wrote.
        if purpose.is_claim() && self.files != Files::Untouched {
            self.files.touch();
        }
        self.phase = Phase::Examining { turn, round, attempt, purpose };
    }

    pub(super) fn see(&mut self, at: Timestamp, found: &Examination) {
        let Phase::Examining { turn, purpose, .. } = self.phase else { return };
        if purpose == Purpose::Baseline {
            self.phase = Phase::Idle;
            self.pace.tree.clone_from(&found.tree);
            let (protected, commit, tree) =
                (found.baseline.clone(), found.commit.clone(), found.tree.clone());
            self.baseline = Some(Baseline { protected, commit, tree });
            return;
        }
        self.remember_undone(found);
        if purpose == Purpose::Whole {
            self.phase = Phase::Idle;
            self.unseen = !found.holds() || self.spec.conduct().judge.is_some();
            // The last step's work was kept before all of it was looked at, unless that is still owed.
            let head = self.head.clone().filter(|_| !self.owes_commit());
            self.examined = Some(Seen { at, purpose, found: found.clone(), head });
            return;
        }
        if purpose == Purpose::Claim && found.holds() && self.spec.conduct().judge.is_none() {
            self.unseen = false;
        }
        self.phase = Phase::Answered { turn };
        // A list that may be half written is not yet the list; one that is known goes on with its marks.
        let may_be_new = !matches!(purpose, Purpose::FreshStart { .. });
        if let Some(list) = found.features.as_ref().and_then(|features| features.list.as_ref())
            && (may_be_new || self.feature_list.is_some())
        {
            self.feature_list = Some(list.clone());
        }
        let same = found.tree.is_some() && found.tree == self.pace.tree;
        match purpose {
            Purpose::Claim if !found.holds() => {
                // A tree that cannot be hashed is no sign that anything changed.
                self.pace.refuted =
                    if same || found.tree.is_none() { self.pace.refuted.saturating_add(1) } else { 1 };
            }
            Purpose::Claim
            | Purpose::Stop
            | Purpose::FreshStart { .. }
            | Purpose::Baseline
            | Purpose::Whole => {
                self.pace.refuted = 0;
            }
        }
        self.pace.idle_iterations = if same { self.pace.idle_iterations.saturating_add(1) } else { 0 };
        self.pace.tree.clone_from(&found.tree);
        self.examined = Some(Seen { at, purpose, found: found.clone(), head: None });
    }

    /// Of each protected file, what was last taken back.
    fn remember_undone(&mut self, found: &Examination) {
        for what in found.features.iter().flat_map(|features| &features.restored) {
            if !self.restored.contains(what) && self.restored.len() < UNDONE_REMEMBERED_MAX {
                self.restored.push(what.clone());
            }
        }
        for change in found.protected.iter().filter(|change| change.undone) {
            self.undone.retain(|known| known.path != change.path);
            if self.undone.len() < UNDONE_REMEMBERED_MAX {
                self.undone.push(change.clone());
            }
        }
    }

    pub(super) fn hear_aside(&mut self, aside: Aside, model: &str, text: &Option<String>) {
        match aside {
            Aside::Iteration { .. } => self.resumed.next_summary.clone_from(text),
            Aside::Judgement => self.hear_judge(model, text.as_deref()),
            Aside::Compaction { .. } | Aside::Planning { .. } => {}
        }
    }

    /// Nobody answered what was asked beside the conversation, and it is asked again later.
    pub(super) fn rest_aside(&mut self, retry: Option<Rest>, kind: ModelFailureKind) {
        if let (Some(rest), Phase::Aside { aside, turn, attempt }) = (retry, &self.phase) {
            let (aside, turn, attempt) = (*aside, *turn, *attempt);
            self.phase = Phase::AsideResting { aside, turn, attempt, rest, kind };
        }
    }

    fn hear_judge(&mut self, model: &str, answer: Option<&str>) {
        let Some(opinion) = answer.and_then(prompt::opinion) else { return };
        let judge = self.spec.conduct().judge.as_ref();
        self.judgement = Some(Judgement {
            accepted: opinion.accepted,
            reasons: opinion.reasons.clone(),
            acceptance: judge.map_or(Vec::new(), |judge| judge.acceptance.clone()),
            model: model.to_owned(),
        });
        if opinion.accepted {
            self.unseen = false;
        }
        if self.plan.is_completed() {
            self.phase = Phase::Idle;
            return;
        }
        // What is refused goes back to the conversation, whether or not its next turn can begin at once.
        if let (false, Phase::Aside { turn, .. }) = (opinion.accepted, &self.phase) {
            self.phase = Phase::Answered { turn: turn.saturating_sub(1) };
        }
        let tree = self.examined.as_ref().and_then(|seen| seen.found.tree.clone());
        let same = tree.is_none() || tree == self.pace.judged_tree;
        self.pace.judge_refusals = match (opinion.accepted, same) {
            (true, _) => 0,
            (false, true) => self.pace.judge_refusals.saturating_add(1),
            (false, false) => 1,
        };
        self.pace.judged_tree = tree;
    }

    pub(super) fn shorten(&mut self, shortening: &Shortening, tokens_after: u64, futile: bool) {
        // The summary is there; what is left of the turn before it is to go on with the next.
        if let Phase::Aside { aside: Aside::Compaction { .. }, turn, .. } = self.phase {
            self.phase = Phase::Calling { turn: turn.saturating_sub(1) };
        }
        self.messages = Arc::new(context::shortened(&self.messages, shortening, &self.calls));
        self.fill.shrink(&self.messages, tokens_after);
        self.fill.compactions = self.fill.compactions.saturating_add(1);
        self.fill.futile = if futile { self.fill.futile.saturating_add(1) } else { 0 };
    }

    pub(super) fn begin_anew(&mut self, number: u32, why: FreshStart, note: Option<&str>) {
        let is_early = why == FreshStart::Context && self.fill.overflows > 0 && self.turn() <= EARLY_TURNS;
        self.pace.early_overflows = if is_early { self.pace.early_overflows.saturating_add(1) } else { 0 };
        self.iteration = number;
        self.said_before = self.last_words().map(str::to_owned);
        self.phase = Phase::Opened;
        self.cwd = None;
        self.resumed = Resumed {
            handoff: self.examined.as_ref().and_then(|seen| seen.found.handoff.clone()),
            summary: self.resumed.next_summary.take(),
            next_summary: None,
            next_note: None,
        };
        self.messages = Arc::new(vec![Message::User { text: prompt::iteration_text(self, why, note) }]);
        self.fill.recount(&self.messages);
        self.pace.fresh_starts = match why {
            FreshStart::Context | FreshStart::DoomLoop => self.pace.fresh_starts.saturating_add(1),
            // A loop counts its iterations, and has a limit for them.
            FreshStart::Limit if self.spec.conduct().looping.is_none() => {
                self.pace.fresh_starts.saturating_add(1)
            }
            FreshStart::NoPromise | FreshStart::Refuted | FreshStart::Limit => 0,
        };
        self.forget_warnings();
    }

    pub(super) fn pass_limit(&mut self, limit: &str, spent: &str, max: &str) {
        self.warned.push(limit.to_owned());
        self.passed.retain(|passed| passed.limit != limit);
        self.passed.push(PassedLimit {
            limit: limit.to_owned(),
            spent: spent.to_owned(),
            max: max.to_owned(),
        });
    }

    /// What is counted anew with a conversation is told anew.
    pub(super) fn forget_warnings(&mut self) {
        let lasts = |name: &String| !name.parse::<Limit>().is_ok_and(Limit::is_of_one_iteration);
        self.warned.retain(lasts);
    }
}
