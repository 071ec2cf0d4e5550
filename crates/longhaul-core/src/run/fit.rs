//! Which events may follow what came before.

use crate::child::Origin;
use crate::event::Event;
use crate::run::Run;
use crate::status::Status;

impl Run {
    pub(super) fn check_fit(&self, event: &Event) -> Result<(), String> {
        let step_exists = |step: u32| match self.plan.steps.get(step as usize) {
            Some(_) => Ok(()),
            None => Err(format!("there is no step {step}")),
        };
        match event {
            Event::RunCreated(_) | Event::Imported { .. } => Err("a run begins only once".to_owned()),
            Event::StatusChanged { from, to, .. } => {
                if *from == self.status && from.may_become(*to) {
                    Ok(())
                } else {
                    Err(format!("a change {from} → {to} of a run that is {}", self.status))
                }
            }
            Event::Reopened if self.status != Status::Failed => {
                Err(format!("a run that is {} was opened again", self.status))
            }
            Event::Reopened => Ok(()),
            Event::GateChecked { step, .. }
            | Event::WaitingForHuman { step, .. }
            | Event::StepStarted { step }
            | Event::StepCompleted { step, .. }
            | Event::StepFailed { step, .. } => step_exists(*step),
            Event::CallRefused { call, .. }
            | Event::CallStarted { call, .. }
            | Event::CallFinished { call, .. }
            | Event::CallRetryScheduled { call, .. } => match self.call(*call) {
                Some(known) if !known.has_ended() => Ok(()),
                Some(_) => Err(format!("{call} has already ended")),
                None => Err(format!("there is no {call}")),
            },
            Event::ToolFailed { call, .. } => match self.call(*call) {
                Some(_) => Ok(()),
                None => Err(format!("there is no {call}")),
            },
            Event::GateAnswered { gate, .. } => match self.gate(*gate) {
                Some(known) if known.answer.is_none() => Ok(()),
                Some(_) => Err(format!("gate {gate} was answered before")),
                None => Err(format!("there is no gate {gate}")),
            },
            Event::ChildSpawned(errand) if errand.number as usize != self.children.len() + 1 => {
                Err(format!("child {} after {}", errand.number, self.children.len()))
            }
            Event::ChildSpawned(errand) => match errand.origin {
                Origin::Step { step } => step_exists(step),
                Origin::Call { call } => self.call(call).map(|_| ()).ok_or(format!("there is no {call}")),
            },
            Event::ChildRested { number, .. }
            | Event::ChildResumed { number, .. }
            | Event::ChildHeld { number }
            | Event::ChildEnded { number, .. } => match self.child(*number) {
                Some(child) if !child.has_ended() => Ok(()),
                Some(_) => Err(format!("child {number} has already ended")),
                None => Err(format!("there is no child {number}")),
            },
            Event::CommandApplied { .. }
            | Event::PlanMade { .. }
            | Event::PlanRefused { .. }
            | Event::CommandDropped { .. }
            | Event::TurnStarted { .. }
            | Event::ModelReplied { .. }
            | Event::TurnFailed { .. }
            | Event::PlanCompleted
            | Event::Checkpointed { .. }
            | Event::Recovered { .. }
            | Event::LimitReached { .. }
            | Event::LimitsChanged { .. }
            | Event::ModelChanged { .. }
            | Event::SchemaUpgraded { .. }
            | Event::Contained { .. }
            | Event::AgentStopped { .. }
            | Event::ExamineStarted { .. }
            | Event::Examined { .. }
            | Event::IterationStarted { .. }
            | Event::AsideStarted { .. }
            | Event::AsideEnded { .. }
            | Event::Compacted { .. }
            | Event::DoomLoop { .. }
            | Event::LoopChanged { .. }
            | Event::Told { .. }
            | Event::LimitPassed { .. }
            | Event::ChecksChanged { .. }
            | Event::WorkKept { .. }
            | Event::FilesStored { .. }
            | Event::CheckpointNamed { .. }
            | Event::SetUpStarted { .. }
            | Event::SetUpEnded { .. }
            | Event::SpentBefore { .. }
            | Event::CheckpointGuarded { .. }
            | Event::TornTailCut { .. }
            | Event::BranchesBrought { .. }
            | Event::BranchNotBrought { .. }
            | Event::BranchesComplete
            | Event::WorkspaceMended { .. }
            | Event::DerivedFailed { .. }
            | Event::PersistenceFellBack { .. } => Ok(()),
        }
    }
}
