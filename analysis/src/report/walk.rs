//! One walk over a trace for all reports that need the driver's state, and a second one for those that need
//! only the results of each call: following the state takes about as long as most reports' own work on a
//! call.

use super::device::Scope;
use crate::error::{Error, Result};
use crate::filter::grep::{Grep, kernel_name};
use crate::filter::progress::Progress;
use crate::filter::selection::Selection;
use crate::findings::finding::Finding;
use crate::tables::table::Table;
use crate::text::kernel_name::{Names, Style};
use std::cell::OnceCell;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use trace::api::effect::{Effect, Memory as MemoryKind, Work};
use trace::api::roles::Class;
use trace::api::types::Kind;
use trace::file::record::Kernel;
use trace::model::change::{Change, is_followed, resolve, submits, submitted};
use trace::model::contexts::Contexts;
use trace::model::decode::Decoded;
use trace::model::memory::Memory;
use trace::model::objects::Objects;
use trace::model::outstanding::{self, Outstanding, Wait};
use trace::model::streams::Followed;
use trace::write::finish;
use trace::{Call, Function, Trace};

/// A call, and the state of the driver when it is made.
pub(crate) struct Step<'s, 't> {
    pub call: &'s Call<'t>,
    /// None if this build does not know it.
    pub function: Option<&'static Function>,
    /// Nanoseconds since the start of the trace.
    pub begin: i64,
    /// Of a call that had not returned when the process ended, or this moment: then. None if neither is known,
    /// or if the call was left by an exception or a longjmp.
    pub end: Option<i64>,
    /// Asked for by --calls, --window, --thread and --grep. What is not still makes and ends objects.
    pub selected: bool,
    /// Of calls that make or end objects.
    pub decoded: Option<&'s Decoded<'t>>,
    pub objects: &'s Objects,
    /// What the call changed, if it took effect and was not made inside another one, and what came of that.
    pub change: Option<Change>,
    pub followed: &'s Followed,
    pub outcome: Outcome,
    /// Looked up when it is asked for.
    given: OnceCell<Option<(u32, &'t [u8])>>,
    /// Moved to this call.
    pub outstanding: &'s Outstanding,
}

/// The result of a call that was not made inside another one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outcome {
    /// What the call waited for, if it is one that waits and succeeded.
    pub wait: Option<Wait>,
    /// The stream on which it put work.
    pub put: Option<usize>,
    /// The work is a kernel, and will not run when a graph does.
    pub is_launched: bool,
    /// Nothing is outstanding behind it.
    pub is_idle: bool,
}

/// The data that a report needs besides the call itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Needs {
    /// The objects of a [`Step`] are none then, nor is there a change or an outcome, and nothing is
    /// outstanding.
    Nothing,
    /// Its outcome, and no more.
    Outcome,
    /// What the driver's state is.
    State,
}

/// Outcomes that go to the other walk at once, and how many such pieces may wait.
const PIECE: usize = 1024;
const WAITING: usize = 16;

impl<'t> Step<'_, 't> {
    /// What the kernel is given that the call launches, and its id: of the first, if it launches several.
    pub(crate) fn kernel_arguments(&self) -> Option<(u32, &'t [u8])> {
        let is_launch = self.class() == Some(Class::launch);
        *self.given.get_or_init(|| if is_launch { self.call.kernel_arguments().next() } else { None })
    }

    /// The kernel that it launches.
    pub(crate) fn kernel(&self) -> Option<&'t Kernel> {
        self.kernel_arguments().and_then(|(kernel, _)| self.call.kernel(kernel)).or_else(|| self.call.named_kernel())
    }

    /// Nanoseconds; none if its end is not known.
    pub(crate) fn duration(&self) -> Option<i64> {
        Some(self.end?.saturating_sub(self.begin).max(0))
    }

    /// Nanoseconds inside all calls that it stands for; none if it did not return.
    pub(crate) fn took(&self) -> Option<i64> {
        Some(self.duration()?.saturating_add(self.call.repeats_took()))
    }

    /// When the last of them returned, or its thread made another call before that.
    pub(crate) fn last_end(&self) -> Option<i64> {
        match self.call.repeats {
            None => self.end,
            Some(_) => self.call.last_end().map(|end| self.call.trace().nanoseconds(end)),
        }
    }

    /// The same, behind later calls of its thread if some of those that it stands for may be.
    pub(crate) fn last_return(&self) -> Option<i64> {
        match self.call.repeats {
            None => self.end,
            Some(_) => self.call.last_return().map(|end| self.call.trace().nanoseconds(end)),
        }
    }

    pub(crate) fn class(&self) -> Option<Class> {
        self.function.map(|function| function.class)
    }

    /// Moved to this call.
    pub(crate) fn contexts(&self) -> &Contexts {
        &self.outstanding.streams.contexts
    }

    /// Moved to this call.
    pub(crate) fn memory(&self) -> &Memory {
        &self.outstanding.streams.memory
    }

    /// The kind of memory that the function allocates.
    pub(crate) fn allocates(&self) -> Option<MemoryKind> {
        match self.function?.effect {
            Effect::Allocate { kind, .. } => Some(kind),
            _ => None,
        }
    }
}

/// Whether memory can come or go with a call of this function, or its context.
pub(crate) fn changes_memory(function: &Function) -> bool {
    use Effect::{Allocate, DetachContext, Free, Map, ReleasePrimary, ResetPrimary, RetainPhysical, Submit, Unmap};
    matches!(function.effect, Allocate { .. } | Free(_) | Map { .. } | Unmap { .. } | RetainPhysical)
        || function.effect == Submit(Work::Graph)
        || matches!(function.effect, ReleasePrimary | ResetPrimary | DetachContext)
        || [Kind::Context, Kind::GreenContext].into_iter().any(|kind| function.ends(kind).is_some())
}

/// The state at the end of the walk.
pub(crate) struct Ending<'t> {
    pub trace: &'t Trace,
    /// The last entry or return of a call, or the end of one that has not returned. Nanoseconds since the start
    /// of the trace.
    pub latest: i64,
    pub pending: Vec<outstanding::Work>,
    pub memory: Memory,
    pub names: Names,
    /// What devices did, if a replay has measured it.
    pub scope: Scope<'t>,
}

impl Ending<'_> {
    /// A submission as notes name it: `cuLaunchKernel of vector_add`.
    pub(crate) fn described(&self, call: &Call) -> String {
        match kernel_name(call) {
            Some(kernel) => format!("{} of {}", call.name(), self.names.display_name(kernel)),
            None => call.name().to_owned(),
        }
    }
}

/// A report, or a piece of one.
pub(crate) type Part<'r, 't> = &'r mut (dyn Report<'t> + 't);

/// A report that observes the calls of a trace one by one, in the order of their entry.
pub(crate) trait Report<'t>: Send {
    fn needs(&self) -> Needs {
        Needs::State
    }

    /// Whether a call of this function may concern it that succeeds, or that does not. All others are shown to
    /// all reports: of functions that are not known, and such as stand for several.
    fn visits(&self, _: &Function, _succeeds: bool) -> bool {
        true
    }

    fn visit(&mut self, step: &Step<'_, 't>);

    /// Whether it is made of others, its [`Report::parts`], which see the calls instead of it.
    fn has_parts(&self) -> bool {
        false
    }

    fn parts(&mut self) -> Vec<Part<'_, 't>> {
        Vec::new()
    }

    /// What it came to. Asked once.
    fn tables(&mut self, ending: &Ending<'t>) -> Vec<Table>;

    /// What somebody should look at.
    fn findings(&self, _: &Ending<'t>) -> Vec<Finding> {
        Vec::new()
    }
}

pub(crate) fn walk<'t>(
    trace: &'t Trace,
    selection: &'t Selection,
    style: Style,
    progress: &mut dyn Progress,
    reports: &mut [Box<dyn Report<'t> + 't>],
) -> Result<Ending<'t>> {
    // A wrong one is told at once.
    let _selection = selection.test(trace)?;
    let mut parts: Vec<Part> = Vec::new();
    for report in reports {
        match report.has_parts() {
            true => parts.extend(report.parts()),
            false => parts.push(&mut **report),
        }
    }
    progress.begin("reading", trace.len() as u64);
    let (mut with_state, mut others): (Vec<Part>, Vec<Part>) =
        parts.into_iter().partition(|part| part.needs() == Needs::State);
    let most = others.iter().map(|part| part.needs()).max();
    let seen = match most {
        Some(Needs::Nothing) | None if with_state.is_empty() => {
            walk_calls(trace, selection, progress, &mut others, Outcomes::None)?
        }
        None => walk_calls(trace, selection, progress, &mut with_state, Outcomes::Found)?,
        Some(most) => walk_in_parallel(trace, selection, progress, (&mut with_state, &mut others), most)?,
    };
    progress.end();
    let scope = Scope::new(trace, selection, Names::new(style))?;
    let (pending, memory) = (seen.outstanding.left(), seen.outstanding.streams.memory);
    Ok(Ending { trace, latest: seen.latest, pending, memory, names: Names::new(style), scope })
}

/// Two walks at a time, of which the one may wait for outcomes that the other finds.
fn walk_in_parallel<'t>(
    trace: &'t Trace,
    selection: &Selection,
    progress: &mut dyn Progress,
    (with_state, others): (&mut [Part<'_, 't>], &mut [Part<'_, 't>]),
    most: Needs,
) -> Result<WalkResult> {
    let (sender, receiver) = sync_channel(WAITING);
    let (to, from) = match most {
        Needs::Outcome => (Outcomes::Sent(sender, Vec::new()), Outcomes::Received(receiver, Vec::new())),
        Needs::Nothing | Needs::State => (Outcomes::Found, Outcomes::None),
    };
    std::thread::scope(|scope| {
        let walk = || walk_calls(trace, selection, &mut (), others, from);
        let beside = std::thread::Builder::new().spawn_scoped(scope, walk);
        let beside = beside.map_err(|error| Error::from(error).with_place("cannot start a thread"))?;
        let seen = walk_calls(trace, selection, progress, with_state, to);
        beside.join().expect("reports do not panic").and(seen)
    })
}

/// Where a walk has the outcomes of calls from.
enum Outcomes {
    None,
    /// It follows the driver's state.
    Found,
    /// The same, and tells the other walk.
    Sent(SyncSender<Vec<Outcome>>, Vec<Outcome>),
    /// Those that have not been seen yet, the latest first.
    Received(Receiver<Vec<Outcome>>, Vec<Outcome>),
}

impl Outcomes {
    fn follows(&self) -> bool {
        matches!(self, Outcomes::Found | Outcomes::Sent(..))
    }

    /// Of the next call; `found` if it was followed.
    fn next(&mut self, found: Outcome) -> Outcome {
        match self {
            Outcomes::None | Outcomes::Found => found,
            Outcomes::Sent(sender, piece) => {
                piece.push(found);
                if piece.len() >= PIECE {
                    // Whoever has failed wants no more.
                    let _is_wanted = sender.send(std::mem::replace(piece, Vec::with_capacity(PIECE)));
                }
                found
            }
            Outcomes::Received(receiver, piece) => piece.pop().unwrap_or_else(|| {
                *piece = receiver.recv().unwrap_or_default();
                piece.reverse();
                piece.pop().unwrap_or_default()
            }),
        }
    }
}

impl Drop for Outcomes {
    fn drop(&mut self) {
        if let Outcomes::Sent(sender, piece) = self {
            let _is_wanted = sender.send(std::mem::take(piece));
        }
    }
}

/// What is to be done with the calls of each function.
struct Plans {
    of: Vec<Plan>,
    /// Those of functions that are not in the list.
    other: Plan,
}

struct Plan {
    /// Whether they may change what the driver's state is.
    is_followed: bool,
    /// The work that they give a stream, if they do nothing besides.
    submits: Option<Work>,
    /// Neither do they, nor do they concern objects, nor is any report shown one that stands for itself.
    is_nothing: bool,
    /// Who of the reports is shown those that did not succeed, and those that did.
    shown: [Vec<usize>; 2],
    all: Vec<usize>,
}

impl Plans {
    fn new(trace: &Trace, reports: &[Part]) -> Plans {
        let plan = |function: Option<&'static Function>| {
            let sees = |at: &usize, succeeds| function.is_none_or(|function| reports[*at].visits(function, succeeds));
            let shown = |succeeds| (0..reports.len()).filter(|at| sees(at, succeeds)).collect();
            let shown: [Vec<usize>; 2] = [false, true].map(shown);
            let is_followed = function.is_some_and(is_followed);
            let matters = is_followed || function.is_some_and(Objects::concerns);
            let is_nothing = !matters && shown.iter().all(Vec::is_empty);
            Plan {
                is_followed,
                submits: function.and_then(submits),
                is_nothing,
                shown,
                all: (0..reports.len()).collect(),
            }
        };
        let functions = (0..trace.preamble.functions.len()).map(|id| trace.function(id as u16));
        Plans { of: functions.map(plan).collect(), other: plan(None) }
    }

    fn plan_for(&self, call: &Call) -> &Plan {
        self.of.get(usize::from(call.function_id())).unwrap_or(&self.other)
    }
}

impl Plan {
    fn interested_reports(&self, call: &Call) -> &[usize] {
        if call.repeats.is_some() { &self.all } else { &self.shown[usize::from(call.succeeded())] }
    }
}

/// What a walk found out.
struct WalkResult {
    outstanding: Outstanding,
    latest: i64,
}

/// Shows the calls to these reports; with what the driver's state is, if it is followed.
fn walk_calls<'t>(
    trace: &'t Trace,
    selection: &Selection,
    progress: &mut dyn Progress,
    reports: &mut [Part<'_, 't>],
    outcomes: Outcomes,
) -> Result<WalkResult> {
    match outcomes.follows() {
        true => visit_calls::<true>(trace, selection, progress, reports, outcomes),
        false => visit_calls::<false>(trace, selection, progress, reports, outcomes),
    }
}

fn visit_calls<'t, const FOLLOWS: bool>(
    trace: &'t Trace,
    selection: &Selection,
    progress: &mut dyn Progress,
    reports: &mut [Part<'_, 't>],
    mut outcomes: Outcomes,
) -> Result<WalkResult> {
    let (wanted, grep, is_all) = (selection.test(trace)?, Grep::new(selection), selection.selects_all());
    let (mut objects, mut outstanding) = (Objects::default(), Outstanding::default());
    let (plans, mut latest) = (Plans::new(trace, reports), None);
    let (nothing, until) = (Followed::default(), OnceCell::new());
    let until = || *until.get_or_init(|| finish::last_moment(trace));
    let mut inside_until = 0;
    for call in trace.calls() {
        progress.advance();
        latest = latest.max(Some(call.last_return().unwrap_or(call.begin)));
        let (function, plan) = (call.function(), plans.plan_for(&call));
        if FOLLOWS && plan.is_nothing && call.repeats.is_none() && call.end.is_some() {
            outcomes.next(Outcome { is_idle: outstanding.is_empty(), ..Outcome::default() });
            continue;
        }
        let decoded = if FOLLOWS { objects.follow(&call) } else { None };
        let known = function.filter(|_| FOLLOWS && plan.is_followed && !call.inner && call.took_effect());
        let change = known.and_then(|function| match plan.submits {
            Some(work) => Some(submitted(&call, function, work)),
            None => resolve(&call, function),
        });
        let put = match (known, change) {
            (Some(function), Some(Change::Submitted { on, .. })) => outstanding.submit(&call, function, on, &objects),
            _ => None,
        };
        let rest = known.filter(|_| put.is_none());
        let rest = rest.map(|function| outstanding.step(&call, function, change, &objects));
        let (wait, followed) = rest.as_ref().map_or((None, &nothing), |(wait, followed)| (*wait, followed));
        let is_kernel = matches!(change, Some(Change::Submitted { work: Work::Kernel, .. }));
        let found = Outcome {
            wait,
            put: put.or(followed.put),
            is_launched: is_kernel && !followed.is_captured,
            is_idle: outstanding.is_empty(),
        };
        let begin = trace.nanoseconds(call.begin);
        let end = match call.end {
            Some(end) => Some(trace.nanoseconds(end)),
            None => call.inside_since().and_then(|_| until()).map(|until| until.max(begin)),
        };
        inside_until = inside_until.max(end.filter(|_| call.end.is_none()).unwrap_or(0));
        let step = Step {
            given: OnceCell::new(),
            call: &call,
            function,
            begin,
            end,
            selected: is_all || wanted(&call) && grep.matches(&call),
            decoded: decoded.as_ref(),
            objects: &objects,
            change,
            followed,
            outcome: outcomes.next(found),
            outstanding: &outstanding,
        };
        plan.interested_reports(&call).iter().for_each(|at| reports[*at].visit(&step));
    }
    Ok(WalkResult { outstanding, latest: latest.map_or(0, |latest| trace.nanoseconds(latest).max(inside_until)) })
}
