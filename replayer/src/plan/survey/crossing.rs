//! What other processes of the job export and this one imports.

use super::Survey;
use crate::company::NOT_EXPORTED;
use crate::plan::Allocation;
use trace::crossing::{Crossing, What};
use trace::model::change::{Change, Moment};
use trace::{Call, Function};

impl Survey {
    pub(super) fn crosses(&mut self, call: &Call, function: &Function, crossing: Crossing, change: Option<Change>) {
        let source = self.imports.as_ref().and_then(|imports| imports.get(&call.number)).cloned();
        match (crossing, source, change) {
            (Crossing::Exports(_), ..) | (Crossing::Imports(What::Event), Some(_), _) => {}
            (Crossing::Imports(What::Memory), Some(source), Some(Change::Allocated { at, .. })) => {
                let start = at.wrapping_sub(source.address.wrapping_sub(source.memory.start));
                let range = start..start.saturating_add(source.memory.end.saturating_sub(source.memory.start));
                let (len, moment) = (range.end - range.start, Moment::of(call));
                self.live.add(range.start, len, moment.end);
                self.lifetimes.takes(range.clone(), moment);
                let device = self.work.streams.contexts.device_of_allocation(call);
                self.plan.devices.insert(device);
                self.plan.allocations.insert(call.number, Allocation { call: call.number, range, device });
            }
            (Crossing::Closes, _, Some(Change::Freed { kind, at })) => self.freed(call, kind, at),
            _ => {
                self.reasons.about_call(format!("{}: {NOT_EXPORTED}", function.name), call.number);
                self.foreign |= crossing == Crossing::Imports(What::Memory);
            }
        }
        self.executable += 1;
    }
}
