//! The reports by name: what each is about, and what it needs that a trace may not have.

use super::device::{self, Scope, exec, gaps, kernels, nvtx};
use super::table::Table;
use super::walk::Report;
use super::{
    api_sum, collectives, errors, host, launches, leaks, memory, modules, pending, ranks, summary, sync, transfers,
};
use crate::exit::{USAGE, failure};
use crate::shell::shell;
use anyhow::Result;
use trace::Trace;

/// What a report is made of besides the recorded calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Calls,
    DeviceTimes,
    Annotations,
    Both,
}

impl Needs {
    /// Why the report cannot be made.
    fn missing(self, trace: &Trace) -> Option<String> {
        const ANNOTATIONS: &str = "needs NVTX annotations, and this trace has none: the program made none, or the recorder \
                                   could not take them";
        let times = matches!(self, Needs::DeviceTimes | Needs::Both) && !trace.has_device_times();
        let annotations = matches!(self, Needs::Annotations | Needs::Both) && !trace.has_annotations();
        match (times, annotations) {
            (_, true) => Some(ANNOTATIONS.into()),
            (true, _) => {
                let path = shell(&[trace.path.display().to_string()]);
                let how =
                    format!("cutrace replay {path} --profile -o timed.bin makes one that does, or record --gpu-times");
                Some(format!("needs device times, and this trace has none: {how}"))
            }
            _ => None,
        }
    }

    fn described(self) -> &'static str {
        match self {
            Needs::Calls => "",
            Needs::DeviceTimes => " (needs device times)",
            Needs::Annotations => " (needs annotations)",
            Needs::Both => " (needs both)",
        }
    }
}

/// Makes it.
type Make = for<'t> fn(&'t Trace) -> Box<dyn Report<'t> + 't>;

/// Makes it of what was measured and annotated.
type Measured = fn(&Scope) -> Vec<Table>;

/// A report that can be made.
#[derive(Clone, Copy)]
pub enum Way {
    Walk(Make),
    Measured(Measured),
    /// Written row by row, in a walk of its own.
    Stream(Stream),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Calls,
    Works,
    Launches,
}

struct Entry {
    name: &'static str,
    about: &'static str,
    way: Way,
    needs: Needs,
}

const fn entry(name: &'static str, about: &'static str, way: Way) -> Entry {
    Entry { name, about, way, needs: Needs::Calls }
}

const fn measured(name: &'static str, about: &'static str, make: Measured, needs: Needs) -> Entry {
    Entry { name, about, way: Way::Measured(make), needs }
}

const fn streamed(name: &'static str, about: &'static str, stream: Stream) -> Entry {
    Entry { name, about, way: Way::Stream(stream), needs: Needs::DeviceTimes }
}

pub const SUMMARY: &str = "summary";
pub const RANKS: &str = "ranks";
pub const COLLECTIVES: &str = "collectives";
/// Those that put several traces into one table.
pub const TOGETHER: [&str; 2] = [RANKS, COLLECTIVES];

/// The names of Nsight Systems come with its columns, and a shipped report keeps its columns.
const REPORTS: &[Entry] = &[
    entry(SUMMARY, "one page: what ran, where the host's time went, what to look at", Way::Walk(summary::make)),
    entry("cuda_api_sum", "driver functions: calls and their times", Way::Walk(api_sum::make)),
    entry("cuda_api_trace", "every call: start, duration, result", Way::Stream(Stream::Calls)),
    entry("sync", "who waited for what, and how long", Way::Walk(sync::make)),
    entry("host", "when no thread was in the driver, and when nothing was outstanding", Way::Walk(host::make)),
    entry("memory", "bytes by kind of memory: peak, churn, live at the peak, leaks", Way::Walk(memory::make)),
    entry(
        "leaks",
        "memory not freed; streams, events, modules, graphs, contexts ... not destroyed",
        Way::Walk(leaks::make),
    ),
    entry("transfers", "copies: direction, pageable or pinned, rate; the same bytes again", Way::Walk(transfers::make)),
    entry("launches", "kernels: launches, configurations, arguments that vary", Way::Walk(launches::make)),
    entry("modules", "module images: size, loads, time", Way::Walk(modules::make)),
    entry("errors", "calls that failed", Way::Walk(errors::make)),
    entry("pending", "submitted, and not known to have finished at the end", Way::Walk(pending::make)),
    entry(RANKS, "the processes of a job beside each other: work, waits, who is slowest", Way::Walk(ranks::make)),
    entry(
        COLLECTIVES,
        "NCCL's communicators and operations: which rank is behind, what the others wait in",
        Way::Walk(collectives::make),
    ),
    measured("cuda_gpu_kern_sum", "kernels: device times", kernels::by_name, Needs::DeviceTimes),
    measured("cuda_gpu_kern_gb_sum", "kernels by grid and block: device times", kernels::by_shape, Needs::DeviceTimes),
    streamed("cuda_gpu_trace", "every kernel, copy and fill on the device", Stream::Works),
    measured("cuda_gpu_mem_time_sum", "copies and fills: device times", device::memory::by_time, Needs::DeviceTimes),
    measured(
        "cuda_gpu_mem_size_sum",
        "copies and fills on the device: sizes",
        device::memory::by_size,
        Needs::DeviceTimes,
    ),
    measured("cuda_gpu_sum", "kernels, copies and fills: device times", kernels::all, Needs::DeviceTimes),
    measured("cuda_kern_exec_sum", "kernels: launch, queue and device times", exec::sum, Needs::DeviceTimes),
    streamed("cuda_kern_exec_trace", "every kernel: launch, queue and device time", Stream::Launches),
    measured("gaps", "why the device idled", gaps::tables, Needs::DeviceTimes),
    measured("nvtx_sum", "NVTX ranges", nvtx::all, Needs::Annotations),
    measured("nvtx_pushpop_sum", "NVTX ranges that were pushed and popped", nvtx::pushed, Needs::Annotations),
    measured("nvtx_gpu_proj_sum", "NVTX ranges on the device", nvtx::projected, Needs::Both),
];

/// What was asked for.
#[derive(Clone, Copy)]
pub struct Chosen(&'static Entry);

impl Chosen {
    pub fn way(self) -> Way {
        self.0.way
    }

    /// Says why it cannot be made of this trace.
    pub fn check(self, trace: &Trace) -> Result<()> {
        match self.0.needs.missing(trace) {
            Some(missing) => Err(failure(USAGE, format_args!("report {} {missing}", self.0.name))),
            None => Ok(()),
        }
    }
}

pub fn names() -> impl Iterator<Item = &'static str> {
    REPORTS.iter().map(|entry| entry.name)
}

/// Names that are in the list, each once.
pub fn choose(names: &[String]) -> Vec<Chosen> {
    let first = names.iter().enumerate().filter(|(at, name)| !names[..*at].contains(name)).map(|(_, name)| name);
    first.filter_map(|name| REPORTS.iter().find(|entry| entry.name == name)).map(Chosen).collect()
}

/// The list for `--help`.
pub fn described() -> String {
    let line = |entry: &Entry| format!("  {:<22} {}{}\n", entry.name, entry.about, entry.needs.described());
    REPORTS.iter().map(line).collect()
}
