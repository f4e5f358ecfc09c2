//! The device times of work, as measured by a replay or the recorder.

use crate::file::record::{self, HEAD, Timed, timed};
use crate::file::scale::FAR;
use crate::read::call::Call;
use crate::read::index::body_of;
use crate::read::reader::Trace;

/// One kernel, copy or fill.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    /// The record.
    pub about: Timed,
    /// The number of the call that put it there; none if the call is not in the file.
    pub call: Option<u64>,
    /// The kernel.
    pub name: Option<&'a str>,
    /// Where its record stands in the file, for [`Trace::timed_at`].
    pub at: u64,
}

impl Work<'_> {
    /// Nanoseconds.
    pub fn duration(&self) -> i64 {
        self.about.end.saturating_sub(self.about.start).max(0)
    }

    /// Nanoseconds from the replay's making of the call to the start of the work.
    pub fn delay(&self) -> i64 {
        self.about.start.saturating_sub(self.about.submitted)
    }

    /// Whether it is a kernel.
    pub fn is_kernel(&self) -> bool {
        self.about.what == timed::KERNEL
    }
}

/// A number that is there.
pub fn known_number(number: u32) -> Option<u32> {
    (number != timed::UNKNOWN).then_some(number)
}

impl Timed {
    /// How Nsight Systems calls work that has no name of its own.
    pub fn operation(&self) -> String {
        let copy = match self.copy {
            1 => "Host-to-Device",
            2 => "Device-to-Host",
            3 => "Host-to-Array",
            4 => "Array-to-Host",
            5 => "Array-to-Array",
            6 => "Array-to-Device",
            7 => "Device-to-Array",
            8 => "Device-to-Device",
            9 => "Host-to-Host",
            10 => "Peer-to-Peer",
            _ => "of an unknown kind",
        };
        match self.what {
            timed::COPY => format!("[CUDA memcpy {copy}]"),
            timed::FILL => "[CUDA memset]".into(),
            timed::GRAPH => "[CUDA graph]".into(),
            timed::KERNEL => "[CUDA kernel]".into(),
            what => format!("[CUDA work {what}]"),
        }
    }

    /// The fraction of warps that fit, in percent.
    pub fn occupancy(&self) -> Option<f64> {
        (self.occupancy != timed::UNKNOWN_OCCUPANCY).then_some(f64::from(self.occupancy) / 10.0)
    }
}

/// CUPTI's kinds of memory.
pub fn memory_kind(kind: u8) -> &'static str {
    match kind {
        1 => "Pageable",
        2 => "Pinned",
        3 => "Device",
        4 => "Array",
        5 => "Managed",
        6 => "Device Static",
        7 => "Managed Static",
        _ => "",
    }
}

impl Trace {
    /// Whether it was measured when devices worked.
    pub fn has_device_times(&self) -> bool {
        self.profile.is_some()
    }

    /// How much work was timed.
    pub fn timed_works(&self) -> u64 {
        self.timed.len() as u64
    }

    /// What devices did, by the time it began.
    pub fn timed(&self) -> impl ExactSizeIterator<Item = Work<'_>> {
        self.timed.iter().map(|(start, at)| self.work_at(*start, *at))
    }

    fn work_at(&self, start: i64, at: u64) -> Work<'_> {
        let about = self.timed_at(at);
        let about = about.unwrap_or_else(|| unreachable!("the record of {start} was read when it was indexed"));
        let name = self.timed_names.get(&about.name).map(String::as_str);
        let call = self.number_of(about.thread, about.call);
        let about = match call.and_then(|number| self.call(number)) {
            Some(call) => self.of_call(about, &call),
            None => about,
        };
        Work { about, call, name, at }
    }

    /// The record at a place that a [`Work`] told of, of this file: for readers that keep such places.
    pub fn timed_at(&self, at: u64) -> Option<Timed> {
        let found = self.record(at).filter(|found| found.head.kind == record::TIMED)?;
        let mut about = body_of::<Timed>(&found.bytes[HEAD..])?;
        for time in [&mut about.start, &mut about.end, &mut about.submitted, &mut about.returned] {
            *time = (*time).clamp(-FAR, FAR).saturating_add(self.first_clock()).clamp(-FAR, FAR);
        }
        Some(about)
    }

    /// Of a recording's own times: when the call was made that put the work there.
    pub fn of_call(&self, about: Timed, call: &Call) -> Timed {
        if about.source != timed::RECORDED {
            return about;
        }
        let submitted = self.nanoseconds(call.begin);
        Timed { submitted, returned: call.end.map_or(about.start, |end| self.nanoseconds(end)), ..about }
    }

    /// The number of a call in the trace, by its thread and its number there.
    pub fn number_of(&self, thread: u32, sequence: u32) -> Option<u64> {
        self.calls.number_of(thread, sequence, |entry| self.stamp(entry)).map(|number| number as u64)
    }
}

/// The device work of each call.
pub struct ByCall<'t> {
    trace: &'t Trace,
    /// Number of the call, and position of the work.
    found: Vec<(u64, u32)>,
}

impl<'t> ByCall<'t> {
    /// Indexes all timed work of the trace.
    pub fn new(trace: &'t Trace) -> ByCall<'t> {
        let calls = trace.timed().enumerate().filter_map(|(at, work)| Some((work.call?, at as u32)));
        let mut found: Vec<(u64, u32)> = calls.collect();
        found.sort_unstable();
        ByCall { trace, found }
    }

    /// By the time at which it began.
    pub fn call(&self, number: u64) -> impl Iterator<Item = Work<'t>> + use<'t, '_> {
        let from = self.found.partition_point(|(call, _)| *call < number);
        let works = self.found[from..].iter().take_while(move |(call, _)| *call == number);
        works
            .filter_map(|(_, at)| self.trace.timed.get(*at as usize).map(|(start, at)| self.trace.work_at(*start, *at)))
    }
}
