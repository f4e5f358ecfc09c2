//! `summary`: one page with the work that ran, the host's time, and the findings.

mod ran;

use super::device::kernels;
use super::findings::Findings;
use super::launches::Launches;
use super::walk::{Ending, Needs, Part, Report, Step};
use crate::findings::finding::Cost;
use crate::tables::table::{Cell, Head, Layout, Table, column};
use crate::text::figures::counted;
use crate::text::shell::shell;
use trace::Trace;
use trace::api::effect::Work;
use trace::api::roles::Class;
use trace::base::by_thread::ByThread;
use trace::file::record::timed;

#[derive(Default)]
pub(crate) struct Summary<'t> {
    findings: Findings<'t>,
    launches: Launches<'t>,
    times: Times<'t>,
}

/// Where the host's time went.
#[derive(Default)]
struct Times<'t> {
    kinds: Vec<Kind<'t>>,
    /// By the function's id in the file: the place of its kind there.
    kind_of: Vec<Option<usize>>,
    calls: u64,
    threads: ByThread<Span>,
}

/// From a thread's first call that was asked for to its last. Nanoseconds.
#[derive(Default)]
struct Span {
    begin: i64,
    end: i64,
    /// In calls that were not asked for, up to the last that was; and since.
    elsewhere: i64,
    since: i64,
}

/// Calls of a kind.
#[derive(Default)]
struct Kind<'t> {
    name: &'static str,
    calls: u64,
    time: i64,
    longest: i64,
    longest_call: u64,
    function: &'t str,
}

/// Kernels that are listed.
const KERNELS: usize = 5;

pub(crate) fn make<'t>(_: &'t Trace) -> Box<dyn Report<'t> + 't> {
    Box::new(Summary::default())
}

const fn head(part: &'static str, title: &'static str, layout: Layout) -> Head {
    Head { report: "summary", part, title, columns: &[], layout }
}

const TIME: Head = Head {
    columns: &[
        column("time", "time_ns"),
        column("%", "percent"),
        column("calls", "calls"),
        column("longest", "longest_ns"),
        column("call", "longest_call"),
        column("kind", "kind"),
        column("longest call of", "longest_function"),
    ],
    ..head("host_time", "Host time in the driver", Layout::Grid)
};

const LAUNCHED: Head = Head {
    columns: &[column("launches", "launches"), column("host time", "host_ns"), column("kernel", "kernel")],
    ..head("kernels", "Kernels by launches", Layout::Grid)
};

const DEVICE: Head = Head {
    columns: &[
        column("time", "time_ns"),
        column("%", "percent"),
        column("instances", "instances"),
        column("median", "median_ns"),
        column("kernel or copy", "work"),
    ],
    ..head("device_time", "Device time (of a replay)", Layout::Grid)
};

const DEVICE_RECORDED: Head = Head { title: "Device time", ..DEVICE };

const FINDINGS: Head = Head {
    columns: &[
        column("what", "what"),
        column("evidence", "evidence"),
        column("next", "next"),
        column("kind", "kind"),
        column("time", "cost_ns"),
        column("bytes", "cost_bytes"),
        column("times", "times"),
        column("calls", "calls"),
    ],
    ..head("findings", "Findings", Layout::List)
};

impl<'t> Report<'t> for Times<'t> {
    fn needs(&self) -> Needs {
        Needs::Nothing
    }

    fn visit(&mut self, step: &Step<'_, 't>) {
        if !step.selected {
            if let Some(span) = self.threads.get_mut(step.call.thread).filter(|_| !step.call.inner) {
                span.since = span.since.saturating_add(step.took().unwrap_or(0));
            }
            return;
        }
        self.calls = self.calls.saturating_add(step.call.count());
        let (begin, end) = (step.begin, step.last_return().unwrap_or(step.begin));
        let span = self.threads.get_or_insert_with(step.call.thread, || Span { begin, end, ..Span::default() });
        span.end = span.end.max(end);
        span.elsewhere += std::mem::take(&mut span.since);
        // The time of a call made inside another is the other's already.
        let Some(ns) = step.duration().filter(|_| !step.call.inner) else { return };
        let kind = self.kind(step);
        kind.calls = kind.calls.saturating_add(step.call.count());
        kind.time = kind.time.saturating_add(step.took().unwrap_or(ns));
        if ns >= kind.longest {
            (kind.longest, kind.longest_call, kind.function) = (ns, step.call.number, step.call.name());
        }
    }

    fn tables(&mut self, _: &Ending<'t>) -> Vec<Table> {
        Vec::new()
    }
}

impl<'t> Report<'t> for Summary<'t> {
    fn visit(&mut self, _: &Step<'_, 't>) {}

    fn has_parts(&self) -> bool {
        true
    }

    fn parts(&mut self) -> Vec<Part<'_, 't>> {
        let mut parts = self.findings.parts();
        parts.push(&mut self.launches);
        parts.push(&mut self.times);
        parts
    }

    fn tables(&mut self, ending: &Ending<'t>) -> Vec<Table> {
        let mut tables = vec![ran::table(self, ending), self.times.table()];
        if !self.launches.most(1).is_empty() {
            tables.push(self.kernels(ending));
        }
        if ending.trace.has_device_times() {
            tables.push(device(ending));
        }
        tables.push(self.look_at(ending));
        tables
    }
}

impl<'t> Times<'t> {
    fn kind(&mut self, step: &Step<'_, 't>) -> &mut Kind<'t> {
        let id = usize::from(step.call.function_id());
        let at = match self.kind_of.get(id) {
            Some(Some(at)) => *at,
            _ => self.learn(id, kind_of(step)),
        };
        &mut self.kinds[at]
    }

    fn learn(&mut self, id: usize, name: &'static str) -> usize {
        let known = self.kinds.iter().position(|kind| kind.name == name);
        let at = known.unwrap_or_else(|| {
            self.kinds.push(Kind { name, ..Kind::default() });
            self.kinds.len() - 1
        });
        self.kind_of.resize(self.kind_of.len().max(id + 1), None);
        *self.kind_of[id].insert(at)
    }

    fn in_driver(&self) -> i64 {
        self.kinds.iter().fold(0, |all, kind| all.saturating_add(kind.time))
    }

    /// In calls of which only that is known.
    fn elsewhere(&self) -> i64 {
        self.threads.iter().fold(0, |all, (_, span)| all.saturating_add(span.elsewhere))
    }

    /// In no call.
    fn outside(&self) -> i64 {
        let spans = self.threads.iter().map(|(_, span)| span.end.saturating_sub(span.begin));
        let spans = spans.fold(0i64, i64::saturating_add);
        spans.saturating_sub(self.in_driver()).saturating_sub(self.elsewhere()).max(0)
    }

    fn table(&self) -> Table {
        let mut table = Table::new(TIME);
        let mut kinds: Vec<_> = self.kinds.iter().collect();
        kinds.sort_by_key(|kind| (std::cmp::Reverse(kind.time), kind.name));
        let whole = self.in_driver().max(1) as f64;
        for kind in kinds {
            table.row([
                Cell::Time(kind.time),
                Cell::Percent(kind.time as f64 * 100.0 / whole),
                Cell::Count(kind.calls),
                Cell::Time(kind.longest),
                Cell::Number(kind.longest_call),
                kind.name.into(),
                kind.function.into(),
            ]);
        }
        table
    }
}

impl<'t> Summary<'t> {
    fn kernels(&self, ending: &Ending<'t>) -> Table {
        let mut table = Table::new(LAUNCHED);
        for (name, launches, time) in self.launches.most(KERNELS) {
            table.row([Cell::Count(launches), Cell::Time(time), ending.names.brief(name).into()]);
        }
        let more = self.launches.counts().0.saturating_sub(KERNELS as u64);
        if more > 0 {
            table.note(format!("and {} more: cutrace report -r launches", counted(more, "kernel")));
        }
        table
    }

    fn look_at(&self, ending: &Ending<'t>) -> Table {
        let (found, negligible) = self.findings.list(ending);
        let mut table = Table::new(FINDINGS);
        let path = shell(&[ending.trace.path.display().to_string()]);
        for finding in found {
            let (ns, bytes) = match finding.cost {
                Cost::Wrong | Cost::Objects(_) => (None, None),
                Cost::Time(ns) => (Some(Cell::Time(ns)), None),
                Cost::Memory(bytes) => (None, Some(Cell::Bytes(bytes))),
            };
            let next = finding.command(&path);
            let calls: Vec<String> = finding.calls.iter().map(u64::to_string).collect();
            table.row([
                finding.what.into(),
                finding.evidence.into(),
                next.into(),
                finding.kind.into(),
                ns.into(),
                bytes.into(),
                Cell::Count(finding.times),
                calls.join(" ").into(),
            ]);
        }
        if negligible > 0 {
            table.note(format!("not listed: {} that cost less than 0.1 % of the run", counted(negligible, "finding")));
        }
        table
    }
}

/// The works that took most of the device's time.
fn device(ending: &Ending) -> Table {
    let recorded = ending.trace.profile.as_ref().is_some_and(|profile| profile.source == timed::RECORDED);
    let mut table = Table::new(if recorded { DEVICE_RECORDED } else { DEVICE });
    let (groups, whole) = kernels::operations(&ending.scope);
    let more = groups.len().saturating_sub(KERNELS) as u64;
    for (name, durations) in groups.into_iter().take(KERNELS) {
        table.row([
            Cell::Time(durations.sum),
            Cell::Percent(durations.sum as f64 * 100.0 / whole.max(1) as f64),
            Cell::Count(durations.count),
            Cell::Time(durations.figures().median as i64),
            name.into(),
        ]);
    }
    if more > 0 {
        table.note(format!("and {more} more: cutrace report -r cuda_gpu_sum"));
    }
    table
}

fn kind_of(step: &Step) -> &'static str {
    let Some(function) = step.function else { return "other" };
    match function.class {
        Class::launch => "launching",
        Class::copy => "copying",
        Class::submit if function.work().is_some_and(Work::moves_memory) => "copying",
        Class::synchronize | Class::poll => "waiting",
        Class::allocate | Class::free => "memory",
        Class::load | Class::unload => "loading code",
        Class::graph => "graphs",
        _ if matches!(function.family, "stream" | "event") => "streams and events",
        _ if matches!(function.family, "device" | "context") => "devices and contexts",
        _ if function.family == "module" => "looking up code",
        _ => "other",
    }
}
