//! What takes the place of other processes where one is replayed without them.

use super::Survey;
use crate::plan::alone::{Alone, REFUSED, StandIn, TOUCHES, launches_nccl, names};
use trace::api::effect::Memory;
use trace::api::roles::Class;
use trace::api::types::Kind;
use trace::crossing::{Crossing, What};
use trace::model::change::Change;
use trace::{Call, Function, Trace, crossing as across};

const OF_OTHERS: &str = "left out or stood in for, as it is about what other processes have";

impl Survey {
    /// Of a process that is replayed without the others of its job.
    pub fn alone(trace: &Trace, alone: Alone) -> Survey {
        let mut survey = Survey::of(trace, None);
        survey.plan.alone = Some(alone);
        survey
    }

    pub(super) fn is_alone(&self) -> bool {
        self.plan.alone.is_some()
    }

    /// A call about what is shared with other processes.
    pub(super) fn is_of_others(&mut self, call: &Call, function: &Function) -> bool {
        let Some(crossing) = across::of(function).filter(|_| self.is_alone()) else { return false };
        self.notes.about_call(format!("{}: {OF_OTHERS}", function.name), call.number);
        self.foreign |= crossing == Crossing::Imports(What::Memory);
        true
    }

    /// Physical memory that another process has: how much of it is used its mappings tell.
    pub(super) fn stands_in(&mut self, call: &Call, function: &Function) {
        let made = function.creates(Kind::Allocation).and_then(|at| call.output_of(at));
        if let (Some(alone), Some(handle)) = (&mut self.plan.alone, made) {
            let device = self.work.streams.contexts.device_of_allocation(call);
            alone.stand_ins.insert(call.number, StandIn { bytes: 0, device });
            self.imported.insert(handle, call.number);
            self.notes.about_call(format!("{}: {OF_OTHERS}", function.name), call.number);
        }
    }

    pub(super) fn maps_stand_in(&mut self, call: &Call, change: Option<Change>) {
        let Some(alone) = &mut self.plan.alone else { return };
        match change {
            Some(Change::Mapped { at, bytes, handle }) => match self.imported.get(&handle) {
                Some(import) => {
                    let end = call.argument("offset").unwrap_or(0).saturating_add(bytes);
                    alone.stand_ins.entry(*import).and_modify(|one| one.bytes = end.max(one.bytes));
                    alone.foreign.insert(at..at.saturating_add(bytes));
                }
                None => alone.foreign.remove(&(at..at.saturating_add(bytes))),
            },
            // The value may be another's from now on.
            Some(Change::Allocated { kind: Memory::Physical, at: handle, .. }) => {
                self.imported.retain(|of, import| *of != handle || *import == call.number);
            }
            _ => {}
        }
    }

    /// Whether what a collective delivered takes the place of this call: then nothing else is to be known of
    /// it.
    pub(super) fn is_delivered(&mut self, call: &Call, function: &Function) -> bool {
        let is_captured = self.is_captured();
        let Some(alone) = &mut self.plan.alone else { return false };
        if let Some(deliveries) = alone.launches.get(&call.number).filter(|_| !is_captured) {
            for why in deliveries.iter().map(|delivery| &delivery.lost).filter(|why| !why.is_empty()) {
                self.reasons.about_call(format!("{}: {REFUSED}: {why}", function.name), call.number);
            }
            let at = deliveries.iter().map(|delivery| delivery.at.start);
            self.plan.reach.delivered(call.number, at, &self.live);
            return true;
        }
        if function.class == Class::launch && launches_nccl(call) {
            let why = if is_captured { ": it was captured into a graph" } else { "" };
            self.reasons.about_call(format!("{}: {REFUSED}{why}", function.name), call.number);
            alone.refused.insert(call.number);
        } else if matches!(function.class, Class::launch | Class::copy | Class::submit)
            && !alone.foreign.is_empty()
            && names(call, &alone.foreign)
        {
            self.reasons.about_call(format!("{}: {TOUCHES}", function.name), call.number);
            alone.touching.insert(call.number);
        }
        false
    }

    pub(super) fn alone_ends(&mut self) {
        if let Some(alone) = self.plan.alone.as_ref().filter(|alone| alone.untold > 0) {
            let what =
                "operations of NCCL's of which the trace does not tell what they delivered: the process was ended";
            self.reasons.about_trace(what, alone.untold);
        }
    }
}
