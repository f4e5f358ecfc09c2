//! Exports of the job's other processes that this one imports.

use crate::plan::memory::allocations::Allocation;
use crate::plan::survey::walk::{FROM_ITSELF, Survey};
use std::ops::Range;
use trace::model::change::{Change, Moment};
use trace::read::shared_handles as across;
use trace::read::shared_handles::{Crossing, What};
use trace::{Call, Function};

impl Survey {
    /// Physical memory that is imported by a descriptor: by which of the process's own calls it was exported.
    pub(crate) fn imports_by_file(&mut self, call: &Call, function: &'static Function, change: Option<Change>) {
        match (across::crossing_of(function), across::bytes(call, function)) {
            (Some(Crossing::Exports(what @ What::Physical)), Some(bytes)) => {
                self.exported.insert(bytes, call.number);
                self.exports(call, function, what);
            }
            (Some(Crossing::Imports(What::Physical)), Some(bytes)) => match self.exported.get(&bytes) {
                Some(export) => {
                    self.plan.job.own_exports.insert(call.number, *export);
                    self.imports_own(*export);
                }
                None if self.is_single_rank() => self.stands_in(call, function),
                None => self.is_not_exported(call, function, What::Physical, change),
            },
            (Some(Crossing::Imports(What::Physical)), None) => {
                self.reasons.about_call(format!("{}: {FROM_ITSELF}", function.name), call.number);
            }
            _ => {}
        }
    }

    pub(crate) fn crosses(
        &mut self,
        call: &Call,
        function: &'static Function,
        crossing: Crossing,
        change: Option<Change>,
    ) {
        let source = self.imports.as_ref().and_then(|imports| imports.get(&call.number)).cloned();
        match (crossing, source, change) {
            (Crossing::Exports(what), ..) => self.exports(call, function, what),
            (Crossing::Imports(What::Event | What::Physical | What::Pool), Some(_), _) => {}
            // Of an older trace, which does not tell files apart.
            (Crossing::Imports(What::Physical), None, _) if call.passed().is_none() => {
                self.reasons.about_call(format!("{}: {FROM_ITSELF}", function.name), call.number);
            }
            (Crossing::Imports(What::Memory), Some(source), Some(Change::Allocated { at, .. })) => {
                let start = at.wrapping_sub(source.address.wrapping_sub(source.memory.start));
                let range = start..start.saturating_add(source.memory.end.saturating_sub(source.memory.start));
                let times = self.opened.entry(at).or_default();
                *times += 1;
                match *times {
                    1 => self.opened(call, range),
                    _ => self.plans_opened(call, range),
                }
            }
            // Who opens it once more gets the same address: it ends when it has been closed as often.
            (Crossing::Closes, _, Some(Change::Freed { kind, at, .. })) => match self.opened.get_mut(&at) {
                Some(times @ 2..) => *times -= 1,
                _ => {
                    self.opened.remove(&at);
                    self.freed(call, kind, at);
                }
            },
            (Crossing::Imports(what), ..) => {
                self.is_not_exported(call, function, what, change);
                self.foreign |= what == What::Memory;
            }
            (Crossing::Closes, ..) => {}
        }
        self.executable += 1;
    }

    /// Memory of another process has addresses here from now on.
    pub(crate) fn opened(&mut self, call: &Call, range: Range<u64>) {
        let (len, moment) = (range.end - range.start, Moment::from_call(call));
        self.live.add(range.start, len, moment.end);
        if self.only_judges {
            return;
        }
        self.lifetimes.takes(range.clone(), moment);
        self.plans_opened(call, range);
    }

    pub(crate) fn plans_opened(&mut self, call: &Call, range: Range<u64>) {
        if self.only_judges {
            return;
        }
        let device = self.work.streams.contexts.device_of_allocation(call);
        self.plan.devices.used.insert(device);
        self.plan.memory.allocations.insert(call.number, Allocation { call: call.number, range, device });
    }
}

#[cfg(test)]
mod tests {
    use crate::base::sample::Sample;
    use crate::job::peers::Source;
    use crate::job::ranks::MissingPeers;
    use crate::plan::plan_with_peers;

    const AT: u64 = 0x7f00_0000_0000;

    #[test]
    fn memory_that_is_open_twice_is_there_until_its_second_close() {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        for time in [2, 4] {
            let words = [&[0x100], &[7; 8][..], &[1]].concat();
            sample.call(0, "cuIpcOpenMemHandle_v2", time..time + 1, &words, &[(0x100, &AT.to_le_bytes())]);
        }
        for time in [10, 20] {
            sample.call(0, "cuIpcCloseMemHandle", time..time + 1, &[AT], &[]);
            sample.call(0, "cuMemsetD8_v2", time + 2..time + 3, &[AT, 0, 16], &[]);
        }
        let source = || Source { process: 1, call: 0, memory: AT..AT + 4096, address: AT };
        let plan = plan_with_peers(&sample.trace(), &[(1, source()), (2, source())].into(), MissingPeers::default());
        let reasons: Vec<String> = plan.judgement.reasons.iter().map(ToString::to_string).collect();
        // What is there is filled, what is gone is memory that nobody knows.
        assert!(matches!(&reasons[..], [one] if one.ends_with("(1 call: 6)")), "{reasons:?}");
    }
}
