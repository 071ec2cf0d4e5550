//! Those who were sent: as this run knows them.

use crate::child::{Child, ChildLedger, ChildState, Errand, Origin};
use crate::event::Cause;
use crate::run::Run;
use crate::spec::Limits;
use crate::time::Timestamp;

impl Run {
    pub(super) fn send(&mut self, at: Timestamp, errand: &Errand) {
        self.files.touch();
        if let Origin::Step { step } = errand.origin {
            self.plan.start(step as usize);
        }
        self.sub_agents.push(errand.id.to_string());
        let (state, ledger) = (ChildState::Working, ChildLedger::default());
        let child = Child { errand: errand.clone(), spawned_at: at, state, ledger, model: None };
        self.children.push(child);
    }

    pub(super) fn rest_child(
        &mut self,
        number: u32,
        paused: Option<Cause>,
        reason: Option<&String>,
        ledger: ChildLedger,
    ) {
        let reason = reason.cloned().unwrap_or_default();
        let state = paused.map_or(ChildState::Waiting, |cause| ChildState::Paused { cause, reason });
        self.set_child(number, state, ledger);
        // It was told: which model it goes on with from here is its own to find.
        self.children.change(number, |child| child.model = None);
    }

    pub(super) fn resume_child(&mut self, number: u32, limits: Option<Limits>, model: Option<&String>) {
        self.children.change(number, |child| {
            child.state = ChildState::Working;
            child.errand.limits = limits.unwrap_or(child.errand.limits);
            child.model = model.cloned().or(child.model.take());
        });
    }

    pub(super) fn end_child(&mut self, number: u32, error: Option<&String>, ledger: ChildLedger) {
        self.files.go_on_changing();
        self.unseen = true;
        let state = error.cloned().map_or(ChildState::Completed, |error| ChildState::Failed { error });
        self.set_child(number, state, ledger);
    }

    /// Nobody was sent after all: there is no run of that name.
    pub(super) fn hold_back(&mut self, number: u32) {
        let name = self.child(number).map(|child| child.errand.id.to_string());
        self.sub_agents.retain(|id| Some(id) != name.as_ref());
        self.set_child(number, ChildState::Held, ChildLedger::default());
    }

    fn set_child(&mut self, number: u32, state: ChildState, ledger: ChildLedger) {
        self.children.change(number, |child| {
            child.state = state;
            child.ledger = ledger;
        });
    }
}
