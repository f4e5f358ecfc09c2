//! The reports by name, with the subject of each, and the data it needs that a trace may lack.

use super::device::{self, Scope, exec, gaps, kernels, nvtx, ranges};
use super::walk::Report;
use super::{
    api_sum, collectives, errors, host, launches, leaks, memory, modules, pending, ranks, summary, sync, transfers,
};
use crate::error::Error;
use crate::error::Result;
use crate::tables::table::Table;
use crate::text::shell::shell;
use trace::Trace;

pub(crate) const NO_ANNOTATIONS: &str =
    "needs NVTX annotations, and this trace has none: the program made none, or they could not be recorded";

/// The data that a report needs besides the recorded calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Calls,
    DeviceTimes,
    Annotations,
    Both,
}

impl Needs {
    /// Why the report cannot be made.
    fn missing(self, trace: &Trace) -> Option<String> {
        let times = matches!(self, Needs::DeviceTimes | Needs::Both) && !trace.has_device_times();
        let annotations = matches!(self, Needs::Annotations | Needs::Both) && !trace.has_annotations();
        match (times, annotations) {
            (_, true) => Some(NO_ANNOTATIONS.into()),
            (true, _) => {
                let path = shell(&[trace.path.display().to_string()]);
                let how = match trace.may_be_replayed() {
                    true => {
                        format!("cutrace replay {path} --profile -o timed.bin adds them, or record with --gpu-times")
                    }
                    false => "record with --gpu-times (this trace cannot be replayed)".into(),
                };
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

/// The way in which a report is made.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    Walk(Make),
    Measured(Measured),
    /// Written row by row, in a walk of its own.
    Stream(Stream),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Calls,
    Works,
    Launches,
    Pushed,
    Projected,
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

const fn streamed(name: &'static str, about: &'static str, stream: Stream, needs: Needs) -> Entry {
    Entry { name, about, way: Way::Stream(stream), needs }
}

/// The report that is made if none is named.
pub const SUMMARY: &str = "summary";
/// The report on ranks of a job.
pub const RANKS: &str = "ranks";
pub(crate) const COLLECTIVES: &str = "collectives";
/// Those that put several traces into one table.
pub const TOGETHER: [&str; 2] = [RANKS, COLLECTIVES];

/// The names of Nsight Systems come with its columns, and a shipped report keeps its columns.
const REPORTS: &[Entry] = &[
    entry(SUMMARY, "one page: what ran, host time by call, findings", Way::Walk(summary::make)),
    entry("cuda_api_sum", "driver functions: calls and their times", Way::Walk(api_sum::make)),
    entry("cuda_api_trace", "every call: start, duration, result", Way::Stream(Stream::Calls)),
    entry("sync", "waits of the host: for which work, how long", Way::Walk(sync::make)),
    entry("host", "gaps without a thread in the driver, or without submitted work", Way::Walk(host::make)),
    entry("memory", "bytes by kind of memory: peak, churn, live at the peak, leaks", Way::Walk(memory::make)),
    entry("leaks", "leaked memory, streams, events, modules, graphs, contexts", Way::Walk(leaks::make)),
    entry("transfers", "copies: direction, pageable or pinned, rate, redundant copies", Way::Walk(transfers::make)),
    entry("launches", "kernels: launches, configurations, arguments that vary", Way::Walk(launches::make)),
    entry("modules", "module images: size, loads, time", Way::Walk(modules::make)),
    entry("errors", "calls that failed", Way::Walk(errors::make)),
    entry("pending", "calls and submissions unfinished at the end", Way::Walk(pending::make)),
    entry(RANKS, "the processes of a job compared: work, waits, the slowest", Way::Walk(ranks::make)),
    entry(
        COLLECTIVES,
        "NCCL communicators and operations: which rank is behind, where the others wait",
        Way::Walk(collectives::make),
    ),
    measured("cuda_gpu_kern_sum", "kernels: device times", kernels::by_name, Needs::DeviceTimes),
    measured("cuda_gpu_kern_gb_sum", "kernels by grid and block: device times", kernels::by_shape, Needs::DeviceTimes),
    streamed("cuda_gpu_trace", "every kernel, copy and fill on the device", Stream::Works, Needs::DeviceTimes),
    measured("cuda_gpu_mem_time_sum", "copies and fills: device times", device::memory::by_time, Needs::DeviceTimes),
    measured(
        "cuda_gpu_mem_size_sum",
        "copies and fills on the device: sizes",
        device::memory::by_size,
        Needs::DeviceTimes,
    ),
    measured("cuda_gpu_sum", "kernels, copies and fills: device times", kernels::all, Needs::DeviceTimes),
    measured(
        "cuda_api_gpu_sum",
        "driver functions, kernels, copies and fills together",
        kernels::with_calls,
        Needs::DeviceTimes,
    ),
    measured("cuda_kern_exec_sum", "kernels: launch, queue and device times", exec::sum, Needs::DeviceTimes),
    streamed(
        "cuda_kern_exec_trace",
        "every kernel: launch, queue and device time",
        Stream::Launches,
        Needs::DeviceTimes,
    ),
    measured("gaps", "why the device was idle", gaps::tables, Needs::DeviceTimes),
    measured("nvtx_sum", "NVTX ranges", nvtx::all, Needs::Annotations),
    measured("nvtx_pushpop_sum", "NVTX push/pop ranges", nvtx::pushed, Needs::Annotations),
    streamed("nvtx_pushpop_trace", "every NVTX push/pop range", Stream::Pushed, Needs::Annotations),
    measured("nvtx_startend_sum", "NVTX start/end ranges", nvtx::started, Needs::Annotations),
    measured("nvtx_startend_trace", "every NVTX start/end range", ranges::started, Needs::Annotations),
    measured("nvtx_kern_sum", "kernels by the NVTX ranges around their launches", ranges::kernels, Needs::Both),
    measured("nvtx_gpu_proj_sum", "NVTX ranges on the device", nvtx::projected, Needs::Both),
    streamed("nvtx_gpu_proj_trace", "every NVTX range on the device", Stream::Projected, Needs::Both),
];

/// Names of Nsight Systems' for what a report of ours answers, with columns of ours.
const ALIASES: &[(&str, &str)] = &[
    ("cuda_api_sync", "sync"),
    ("cuda_memcpy_async", "transfers"),
    ("cuda_memcpy_sync", "transfers"),
    ("cuda_memset_sync", "sync"),
    ("gpu_gaps", "gaps"),
    ("gpu_time_util", "gaps"),
];

/// Reports of Nsight Systems on what is no call of the CUDA driver.
const ELSEWHERE: &[&str] = &[
    "dx11_pix_sum",
    "dx12_gpu_marker_sum",
    "dx12_mem_ops",
    "dx12_pix_sum",
    "mpi_event_sum",
    "mpi_event_trace",
    "mpi_msg_size_sum",
    "network_congestion",
    "nvvideo_api_sum",
    "openacc_sum",
    "opengl_khr_gpu_range_sum",
    "opengl_khr_range_sum",
    "openmp_sum",
    "osrt_sum",
    "syscall_sum",
    "um_cpu_page_faults_sum",
    "um_sum",
    "um_total_sum",
    "vulkan_api_sum",
    "vulkan_api_trace",
    "vulkan_gpu_marker_sum",
    "vulkan_marker_sum",
    "wddm_queue_sum",
];

/// Reports in which kernels have names that can be written in several ways, by the report.
const WITH_KERNELS: &[&str] = &[
    "cuda_api_gpu_sum",
    "cuda_gpu_kern_gb_sum",
    "cuda_gpu_kern_sum",
    "cuda_gpu_sum",
    "cuda_gpu_trace",
    "cuda_kern_exec_sum",
    "cuda_kern_exec_trace",
    NVTX_KERNELS,
];

const NVTX_KERNELS: &str = "nvtx_kern_sum";

/// A listed report.
#[derive(Clone, Copy)]
pub struct Chosen(&'static Entry);

impl PartialEq for Chosen {
    fn eq(&self, other: &Chosen) -> bool {
        self.0.name == other.0.name
    }
}

impl std::fmt::Debug for Chosen {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(self.0.name)
    }
}

impl Chosen {
    pub(crate) fn way(self) -> Way {
        self.0.way
    }

    /// The name of the report on the command line.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    pub(crate) fn has_kernels(self) -> bool {
        WITH_KERNELS.contains(&self.0.name)
    }

    /// Its rows are of ranges.
    pub fn has_ranges(self) -> bool {
        self.0.name == NVTX_KERNELS
    }

    /// Says why it cannot be made of this trace.
    pub fn check(self, trace: &Trace) -> Result<()> {
        match self.0.needs.missing(trace) {
            Some(missing) => Err(Error::usage(format_args!("report {} {missing}", self.0.name))),
            None => Ok(()),
        }
    }
}

/// Names of all reports.
pub fn names() -> impl Iterator<Item = &'static str> {
    REPORTS.iter().map(|entry| entry.name)
}

/// By its name, or one that Nsight Systems has for it.
pub fn find(name: &str) -> Result<Chosen, String> {
    let known = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, of)| of);
    let found = REPORTS.iter().find(|entry| entry.name == known).map(Chosen);
    found.ok_or_else(|| match ELSEWHERE.contains(&name) {
        true => format!(
            "{name}: Nsight Systems takes this report from other sources than the CUDA driver; a trace has driver calls only"
        ),
        false => format!("[possible values: {}]", names().collect::<Vec<_>>().join(", ")),
    })
}

/// The list for people.
pub fn described() -> String {
    let line = |entry: &Entry| format!("  {:<22} {}{}\n", entry.name, entry.about, entry.needs.described());
    let aliases = ALIASES.iter().map(|(alias, of)| format!("  {alias:<22} same as {of}\n"));
    REPORTS.iter().map(line).chain(aliases).collect()
}

/// The same for scripts.
pub fn objects() -> Vec<serde_json::Value> {
    let object = |entry: &Entry| {
        let aliases = ALIASES.iter().filter(|(_, of)| *of == entry.name).map(|(alias, _)| *alias);
        serde_json::json!({
            "name": entry.name,
            "about": entry.about,
            "device_times": matches!(entry.needs, Needs::DeviceTimes | Needs::Both),
            "annotations": matches!(entry.needs, Needs::Annotations | Needs::Both),
            "aliases": aliases.collect::<Vec<_>>(),
        })
    };
    REPORTS.iter().map(object).collect()
}
