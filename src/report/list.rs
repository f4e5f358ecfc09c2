//! The reports by name: what each is about, and what it needs that a trace may not have.

use super::walk::Report;
use super::{api_sum, errors, launches, memory, modules, pending, summary, sync, transfers};
use crate::exit::{USAGE, failure};
use anyhow::Result;
use trace::Trace;

/// What a report is made of besides the recorded calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    DeviceTimes,
    Annotations,
}

impl Needs {
    /// Why the report cannot be made.
    fn missing(self) -> &'static str {
        match self {
            Needs::DeviceTimes => {
                "needs device times, and this trace has none: cutrace replay --profile -o timed.bin makes one that does"
            }
            Needs::Annotations => {
                "needs NVTX annotations, and this trace has none: a recorder that takes them must have made it"
            }
        }
    }
}

/// Makes it.
type Make = for<'t> fn(&'t Trace) -> Box<dyn Report<'t> + 't>;

enum Way {
    Walk(Make),
    /// Written call by call, in a walk of its own.
    Stream,
    /// Needs what no trace of this version holds.
    Later(Needs),
}

struct Entry {
    name: &'static str,
    about: &'static str,
    way: Way,
}

const fn entry(name: &'static str, about: &'static str, way: Way) -> Entry {
    Entry { name, about, way }
}

pub const SUMMARY: &str = "summary";

/// The names of Nsight Systems come with its columns, and a shipped report keeps its columns.
const REPORTS: &[Entry] = &[
    entry(SUMMARY, "one page: what ran, where the host's time went, what to look at", Way::Walk(summary::make)),
    entry("cuda_api_sum", "driver functions: calls and their times", Way::Walk(api_sum::make)),
    entry("cuda_api_trace", "every call: start, duration, result", Way::Stream),
    entry("sync", "who waited for what, and how long", Way::Walk(sync::make)),
    entry("memory", "bytes by kind of memory: peak, churn, live at the peak, leaks", Way::Walk(memory::make)),
    entry("transfers", "copies: direction, pageable or pinned, rate; the same bytes again", Way::Walk(transfers::make)),
    entry("launches", "kernels: launches, configurations, arguments that vary", Way::Walk(launches::make)),
    entry("modules", "module images: size, loads, time", Way::Walk(modules::make)),
    entry("errors", "calls that failed", Way::Walk(errors::make)),
    entry("pending", "submitted, and not known to have finished at the end", Way::Walk(pending::make)),
    entry("cuda_gpu_kern_sum", "kernels: device times", Way::Later(Needs::DeviceTimes)),
    entry("cuda_gpu_kern_gb_sum", "kernels by grid and block: device times", Way::Later(Needs::DeviceTimes)),
    entry("cuda_gpu_trace", "every kernel, copy and fill on the device", Way::Later(Needs::DeviceTimes)),
    entry("cuda_gpu_mem_time_sum", "copies and fills: device times", Way::Later(Needs::DeviceTimes)),
    entry("cuda_gpu_mem_size_sum", "copies and fills on the device: sizes", Way::Later(Needs::DeviceTimes)),
    entry("cuda_gpu_sum", "kernels, copies and fills: device times", Way::Later(Needs::DeviceTimes)),
    entry("cuda_kern_exec_sum", "kernels: launch, queue and device times", Way::Later(Needs::DeviceTimes)),
    entry("cuda_kern_exec_trace", "every kernel: launch, queue and device time", Way::Later(Needs::DeviceTimes)),
    entry("gaps", "why the device idled", Way::Later(Needs::DeviceTimes)),
    entry("nvtx_sum", "NVTX ranges", Way::Later(Needs::Annotations)),
    entry("nvtx_pushpop_sum", "NVTX ranges that were pushed and popped", Way::Later(Needs::Annotations)),
    entry("nvtx_gpu_proj_sum", "NVTX ranges on the device", Way::Later(Needs::Annotations)),
];

/// A report that can be made.
pub enum Chosen {
    Walk(Make),
    Stream,
}

/// What was asked for, or why it cannot be had.
pub fn choose(names: &[String]) -> Result<Vec<Chosen>> {
    let names = names.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
    names.map(one).collect()
}

fn one(name: &str) -> Result<Chosen> {
    let Some(entry) = REPORTS.iter().find(|entry| entry.name == name) else {
        return Err(unknown(name));
    };
    match &entry.way {
        Way::Walk(make) => Ok(Chosen::Walk(*make)),
        Way::Stream => Ok(Chosen::Stream),
        Way::Later(needs) => Err(failure(USAGE, format_args!("report {name} {}", needs.missing()))),
    }
}

fn unknown(name: &str) -> anyhow::Error {
    let known: Vec<&str> = REPORTS.iter().map(|entry| entry.name).collect();
    failure(USAGE, format_args!("no report {name:?}; there are {}", known.join(", ")))
}

/// The list for `--help`.
pub fn described() -> String {
    let line = |entry: &Entry| match entry.way {
        Way::Later(Needs::DeviceTimes) => format!("  {:<22} {} (needs device times)\n", entry.name, entry.about),
        Way::Later(Needs::Annotations) => format!("  {:<22} {} (needs annotations)\n", entry.name, entry.about),
        _ => format!("  {:<22} {}\n", entry.name, entry.about),
    };
    REPORTS.iter().map(line).collect()
}
