//! What other processes of the job export and this one imports.

use super::{FROM_ITSELF, Survey};
use crate::company::NOT_EXPORTED;
use crate::plan::Allocation;
use std::ops::Range;
use trace::crossing::{Crossing, What};
use trace::model::change::{Change, Moment};
use trace::{Call, Function, crossing as across};

impl Survey {
    /// Physical memory that is imported by a descriptor: by which of the process's own calls it was exported.
    pub(super) fn imports_by_file(&mut self, call: &Call, function: &Function) {
        match (across::of(function), across::bytes(call, function)) {
            (Some(crossing @ Crossing::Exports(What::Physical)), Some(bytes)) => {
                self.exported.insert(bytes, call.number);
                self.exports(call, function, crossing);
            }
            (Some(Crossing::Imports(What::Physical)), Some(bytes)) => match self.exported.get(&bytes) {
                Some(export) => _ = self.plan.own.insert(call.number, *export),
                None if self.is_alone() => self.stands_in(call, function),
                None => self.reasons.about_call(format!("{}: {NOT_EXPORTED}", function.name), call.number),
            },
            (Some(Crossing::Imports(What::Physical)), None) => {
                self.reasons.about_call(format!("{}: {FROM_ITSELF}", function.name), call.number);
            }
            _ => {}
        }
    }

    pub(super) fn crosses(&mut self, call: &Call, function: &Function, crossing: Crossing, change: Option<Change>) {
        let source = self.imports.as_ref().and_then(|imports| imports.get(&call.number)).cloned();
        match (crossing, source, change) {
            (Crossing::Exports(_), ..) => {}
            (Crossing::Imports(What::Event | What::Physical | What::Pool), Some(_), _) => {}
            // Of an older trace, which does not tell files apart.
            (Crossing::Imports(What::Physical), None, _) if call.passed().is_none() => {
                self.reasons.about_call(format!("{}: {FROM_ITSELF}", function.name), call.number);
            }
            (Crossing::Imports(What::Memory), Some(source), Some(Change::Allocated { at, .. })) => {
                let start = at.wrapping_sub(source.address.wrapping_sub(source.memory.start));
                let range = start..start.saturating_add(source.memory.end.saturating_sub(source.memory.start));
                self.opened(call, range);
            }
            (Crossing::Closes, _, Some(Change::Freed { kind, at })) => self.freed(call, kind, at),
            _ => {
                self.reasons.about_call(format!("{}: {NOT_EXPORTED}", function.name), call.number);
                self.foreign |= crossing == Crossing::Imports(What::Memory);
            }
        }
        self.executable += 1;
    }

    /// Memory of another process has addresses here from now on.
    pub(super) fn opened(&mut self, call: &Call, range: Range<u64>) {
        let (len, moment) = (range.end - range.start, Moment::of(call));
        self.live.add(range.start, len, moment.end);
        if self.only_judges {
            return;
        }
        self.lifetimes.takes(range.clone(), moment);
        self.plans_opened(call, range);
    }

    pub(super) fn plans_opened(&mut self, call: &Call, range: Range<u64>) {
        if self.only_judges {
            return;
        }
        let device = self.work.streams.contexts.device_of_allocation(call);
        self.plan.devices.insert(device);
        self.plan.allocations.insert(call.number, Allocation { call: call.number, range, device });
    }
}
