//! Reports on device times, as measured by a replay. They walk over the measured work, not over the calls.

mod enclosing;
pub(crate) mod exec;
pub(crate) mod gaps;
pub(crate) mod kernels;
pub(crate) mod memory;
pub(crate) mod nvtx;
pub(crate) mod ranges;
pub(crate) mod trace;

use crate::error::Result;
use crate::filter::grep::Grep;
use crate::filter::progress::Progress;
use crate::filter::selection::Selection;
use crate::tables::table::Cell;
use crate::text::figures::counted;
use crate::text::kernel_name::Names;
use ::trace::Trace;
use ::trace::file::record::timed;
use ::trace::read::annotation;
use ::trace::read::device_times::Work;
use enclosing::Enclosing;

/// The scope of a report.
pub(crate) struct Scope<'t> {
    pub trace: &'t Trace,
    pub names: Names,
    is_everything: bool,
    wanted: Box<dyn Fn(&Work) -> bool + 't>,
    begun: Box<IsBegun<'t>>,
    called: Box<IsWanted<'t>>,
    /// Where names of kernels stand behind the innermost range in which they were launched.
    enclosing: Option<Enclosing<'t>>,
}

/// Of a call.
type IsWanted<'t> = dyn Fn(&::trace::Call) -> bool + 't;

/// Of something between calls: its thread, its time and its name.
type IsBegun<'t> = dyn Fn(u32, u64, &str) -> bool + 't;

impl<'t> Scope<'t> {
    pub(crate) fn new(trace: &'t Trace, selection: &'t Selection, names: Names) -> Result<Scope<'t>> {
        let everything = selection.selects_all();
        let (selected, grep) = (selection.test(trace)?, Grep::new(selection));
        let wanted = move |work: &Work| {
            let call = || work.call.and_then(|call| trace.call(call));
            everything || call().is_some_and(|call| selected(&call) && is_meant(&grep, &call, work))
        };
        let (called, named) = (selection.test(trace)?, Grep::new(selection));
        let called = move |call: &::trace::Call| called(call) && named.matches(call);
        let between = selection.annotation_filter(trace)?;
        let begun = move |thread: u32, time: u64, name: &str| {
            let is_named = || selection.grep.as_ref().is_none_or(|pattern| pattern.is_match(name));
            everything || between(thread, trace.call_from(time)) && is_named()
        };
        Ok(Scope {
            trace,
            names,
            is_everything: everything,
            wanted: Box::new(wanted),
            begun: Box::new(begun),
            called: Box::new(called),
            enclosing: None,
        })
    }

    /// The same, with names as `range/kernel`.
    pub(crate) fn in_ranges(mut self) -> Scope<'t> {
        self.enclosing = Some(Enclosing::new(self.trace.annotated_ranges()));
        self
    }

    /// Whether the call was asked for.
    pub(crate) fn has(&self, call: &::trace::Call) -> bool {
        (self.called)(call)
    }

    /// Whether the range of this name was opened among the calls that were asked for.
    pub(crate) fn is_opened_here(&self, range: &annotation::Range, name: &str) -> bool {
        self.is_begun_here(range.opened.thread, range.opened.about.time, name)
    }

    /// Whether what this thread began at this time, under this name, was begun among them.
    pub(crate) fn is_begun_here(&self, thread: u32, time: u64, name: &str) -> bool {
        (self.begun)(thread, time, name)
    }

    /// Whether nothing is left out.
    pub(crate) fn is_everything(&self) -> bool {
        self.is_everything
    }

    /// What was asked for, by the time at which it began.
    pub(crate) fn works(&self) -> impl Iterator<Item = Work<'t>> {
        self.trace.timed().filter(|work| (self.wanted)(work))
    }

    /// The kernel, or what stands for work that has no name.
    pub(crate) fn name(&self, work: &Work) -> String {
        let Some(name) = work.name else { return work.about.operation() };
        let name = self.names.display_name(name);
        let call = || work.call.and_then(|call| self.trace.call(call));
        let range = self.enclosing.as_ref().and_then(|all| {
            let call = call()?;
            all.open_at(call.thread, call.begin).next().map(|range| nvtx::name(&all.ranges[range]))
        });
        range.map_or(name.clone(), |range| format!("{range}/{name}"))
    }

    /// What stands below every report on times.
    pub(crate) fn notes(&self) -> Vec<String> {
        let Some(profile) = &self.trace.profile else { return Vec::new() };
        let mut notes = vec![match profile.source {
            timed::CUPTI => "times of a replay, by CUPTI".into(),
            timed::RECORDED => "times of the recording, by CUPTI".into(),
            _ => {
                "times of a replay, by events around each submission; they include the launch latency of an idle device"
                    .into()
            }
        }];
        let graphs = self.works().filter(|work| work.about.what == timed::GRAPH).count() as u64;
        if graphs > 0 {
            notes.push(format!("{} timed as a whole, not node by node", counted(graphs, "graph launch")));
        }
        for (why, count) in &profile.untimed {
            notes.push(format!("{} not timed: {why}", counted(*count, "piece") + " of work"));
        }
        notes
    }
}

/// `--grep`, also by the names of kernels in graphs.
fn is_meant(grep: &Grep, call: &::trace::Call, work: &Work) -> bool {
    grep.matches(call) || work.name.is_some_and(|name| grep.matches_with(call, name))
}

/// Says how many rows are not written because of a limit.
fn further<T>(rest: impl Iterator<Item = T>, progress: &dyn Progress) -> Option<String> {
    let more = if progress.is_unread() { 0 } else { rest.count() as u64 };
    (more > 0).then(|| format!("and {} more", counted(more, "row")))
}

/// Three numbers as Nsight Systems writes them.
fn xyz(shape: [u32; 3]) -> Cell {
    match ::trace::read::device_times::known_number(shape[0]) {
        Some(_) => Cell::Text(format!("{:>4} {:>4} {:>4}", shape[0], shape[1], shape[2])),
        None => Cell::None,
    }
}

/// Operating-system id of the thread that made the call.
fn os_id(trace: &Trace, thread: u32) -> Cell {
    trace.threads.get(thread as usize).map(|thread| Cell::Number(thread.os_id.into())).into()
}
