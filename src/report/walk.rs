//! One walk over a trace for all reports that ask for the driver's state, and beside it one for those that do
//! not: following the state takes about as long as what most reports make of a call.

use super::device::Scope;
use super::table::Table;
use crate::grep::{Grep, kernel_name};
use crate::progress::Progress;
use crate::reading::Reading;
use anyhow::Result;
use trace::api::effect::{Effect, Memory as MemoryKind};
use trace::api::roles::Class;
use trace::decode::Decoded;
use trace::model::change::{Change, resolve};
use trace::model::contexts::Contexts;
use trace::model::memory::Memory;
use trace::model::outstanding::{Outstanding, Wait, Work};
use trace::model::streams::Followed;
use trace::objects::Objects;
use trace::{Call, Function, Trace};
use viewer::data::findings::Finding;
use viewer::kernel_name::{Names, Style};

/// A call, and what is known when it is made.
pub struct Step<'s, 't> {
    pub call: Call<'t>,
    /// None if this build does not know it.
    pub function: Option<&'static Function>,
    /// Nanoseconds since the start of the trace.
    pub begin: i64,
    /// None if it did not return.
    pub end: Option<i64>,
    /// Asked for by --calls, --window, --thread and --grep. What is not still makes and ends objects.
    pub selected: bool,
    /// Of calls that make or end objects.
    pub decoded: Option<&'s Decoded<'t>>,
    pub objects: &'s Objects,
    /// What the call changed, if it took effect and was not made inside another one, and what came of that.
    pub change: Option<Change>,
    pub followed: &'s Followed,
    /// What the call waited for, if it is one that waits and succeeded.
    pub wait: Option<Wait>,
    /// Moved to this call.
    pub outstanding: &'s Outstanding,
}

impl Step<'_, '_> {
    /// Nanoseconds; none if it did not return.
    pub fn duration(&self) -> Option<i64> {
        Some(self.end?.saturating_sub(self.begin).max(0))
    }

    /// Nanoseconds inside all calls that it stands for; none if it did not return.
    pub fn took(&self) -> Option<i64> {
        Some(self.duration()?.saturating_add(self.call.repeats_took()))
    }

    /// When the last of them returned.
    pub fn last_end(&self) -> Option<i64> {
        match self.call.repeats {
            None => self.end,
            Some(_) => self.call.last_end().map(|end| self.call.trace().nanoseconds(end)),
        }
    }

    pub fn class(&self) -> Option<Class> {
        self.function.map(|function| function.class)
    }

    /// Moved to this call.
    pub fn contexts(&self) -> &Contexts {
        &self.outstanding.streams.contexts
    }

    /// Moved to this call.
    pub fn memory(&self) -> &Memory {
        &self.outstanding.streams.memory
    }

    /// The kind of memory that the function allocates.
    pub fn allocates(&self) -> Option<MemoryKind> {
        match self.function?.effect {
            Effect::Allocate { kind, .. } => Some(kind),
            _ => None,
        }
    }
}

/// What came of the walk besides.
pub struct Ending<'t> {
    pub trace: &'t Trace,
    pub pending: Vec<Work>,
    pub memory: Memory,
    pub names: Names,
    /// What devices did, if a replay has measured it.
    pub scope: Scope<'t>,
}

impl Ending<'_> {
    /// A submission as notes name it: `cuLaunchKernel of vector_add`.
    pub fn described(&self, call: &Call) -> String {
        match kernel_name(call) {
            Some(kernel) => format!("{} of {}", call.name(), self.names.of(kernel)),
            None => call.name().to_owned(),
        }
    }
}

/// A report, or a piece of one.
pub type Part<'r, 't> = &'r mut (dyn Report<'t> + 't);

/// Something that is found out about the calls of a trace, one by one in the order of their entry.
pub trait Report<'t>: Send {
    /// Whether it asks what the driver's state is at a call. Where none does, it is not followed: the objects
    /// of a [`Step`] are none then, nor is there a change or a wait, and nothing is outstanding.
    fn needs_state(&self) -> bool {
        true
    }

    fn see(&mut self, step: &Step<'_, 't>);

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

pub fn walk<'t>(
    trace: &'t Trace,
    reading: &'t Reading,
    style: Style,
    progress: Progress,
    reports: &mut [Box<dyn Report<'t> + 't>],
) -> Result<Ending<'t>> {
    // A wrong one is told at once.
    let _selection = reading.selection(trace)?;
    let mut parts: Vec<Part> = Vec::new();
    for report in reports {
        match report.has_parts() {
            true => parts.extend(report.parts()),
            false => parts.push(&mut **report),
        }
    }
    let (mut with_state, mut others): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(|part| part.needs_state());
    let outstanding = std::thread::scope(|scope| {
        if with_state.is_empty() {
            return see::<false>(trace, reading, progress, &mut others);
        }
        let are_others = !others.is_empty();
        let beside = move || see::<false>(trace, reading, Progress::hidden(), &mut others).map(|_| ());
        let beside = are_others.then(|| scope.spawn(beside));
        let outstanding = see::<true>(trace, reading, progress, &mut with_state);
        beside.map_or(Ok(()), |beside| beside.join().expect("reports do not panic"))?;
        outstanding
    })?;
    let scope = Scope::new(trace, reading, Names::new(style))?;
    let (pending, memory) = (outstanding.left(), outstanding.streams.memory);
    Ok(Ending { trace, pending, memory, names: Names::new(style), scope })
}

/// Shows the calls to these reports; with what the driver's state is, if it is followed. What was outstanding
/// at the end.
fn see<'t, const FOLLOWS: bool>(
    trace: &'t Trace,
    reading: &Reading,
    mut progress: Progress,
    reports: &mut [Part<'_, 't>],
) -> Result<Outstanding> {
    let (wanted, grep) = (reading.selection(trace)?, Grep::new(reading));
    let (mut objects, mut outstanding) = (Objects::default(), Outstanding::default());
    for call in trace.calls() {
        progress.advance();
        let decoded = if FOLLOWS { objects.follow(&call) } else { None };
        let function = call.function();
        let known = function.filter(|_| FOLLOWS && !call.inner);
        let change = known.filter(|_| call.took_effect()).and_then(|function| resolve(&call, function));
        let step = known.map(|function| outstanding.step(&call, function, change, &objects));
        let (wait, followed) = step.unwrap_or_default();
        let step = Step {
            call,
            function,
            begin: trace.nanoseconds(call.begin),
            end: call.end.map(|end| trace.nanoseconds(end)),
            selected: wanted(&call) && grep.matches(&call),
            decoded: decoded.as_ref(),
            objects: &objects,
            change,
            followed: &followed,
            wait,
            outstanding: &outstanding,
        };
        reports.iter_mut().for_each(|report| report.see(&step));
    }
    Ok(outstanding)
}
