//! A description of the work that a call submits, as far as the call shows it.

use crate::session::Session;
use trace::api::effect::Work;
use trace::api::types::{Form, Kind};
use trace::file::record::{Timed, timed};
use trace::model::copy_endpoints::{CopyEndpoints, End, copy_endpoints};
use trace::read::requested_size::moved;
use trace::show::launch::{kernel, shape};
use trace::{Call, Function};

/// A call that is about to be made.
#[derive(Clone, Copy)]
pub(crate) struct StartedCall<'a, 't> {
    /// The recorded call.
    pub call: &'a Call<'t>,
    /// The driver function that the replay calls.
    pub live: &'static Function,
    /// Argument words of the live call.
    pub words: &'a [u64],
    /// It is a write of ours from host memory, before the recorded call or in its place.
    pub brings: bool,
}

/// Work to be timed.
pub(super) struct TimedWork<'t> {
    pub timed: Timed,
    pub kernel: Option<&'t str>,
    /// The live function that is launched; 0 for none.
    pub function: u64,
}

/// CUPTI's CUpti_ActivityMemoryKind.
mod memory {
    pub(super) const PAGEABLE: u8 = 1;
    pub(super) const PINNED: u8 = 2;
    pub(super) const DEVICE: u8 = 3;
    pub(super) const ARRAY: u8 = 4;
}

/// CUpti_ActivityMemcpyKind of a copy between contexts.
const PEER: u8 = 10;

/// None: nothing that can be timed by itself.
pub(super) fn describe<'t>(session: &Session, made: StartedCall<'_, 't>) -> Option<TimedWork<'t>> {
    let StartedCall { call, live, words, brings } = made;
    let mut described = TimedWork { timed: Timed::BLANK, kernel: None, function: 0 };
    let timed = &mut described.timed;
    match live.work()? {
        Work::Graph => timed.what = timed::GRAPH,
        Work::Kernel | Work::KernelOnEach => {
            timed.what = timed::KERNEL;
            described.kernel = kernel(call);
            described.function = launched(live, words)?;
            if let Some(shape) = shape(call) {
                (timed.grid, timed.block, timed.dynamic_shared) = (shape.grid, shape.block, shape.shared);
            }
        }
        Work::Fill => {
            (timed.what, timed.to, timed.bytes) = (timed::FILL, memory::DEVICE, moved(call, live).unwrap_or(0));
        }
        _ if brings => {
            let ends = (memory::PAGEABLE, memory::DEVICE);
            (timed.what, timed.copy, (timed.from, timed.to)) = (timed::COPY, direction(ends), ends);
            // As [`ordered_write`](crate::driver::calls::ordered_write) has them.
            timed.bytes = words.get(2).copied().unwrap_or(0);
        }
        _ => {
            timed.what = timed::COPY;
            let all = copy_endpoints(call, call.function()?);
            timed.bytes = all.iter().fold(0, |sum, copy| sum.saturating_add(copy.bytes));
            let mut kinds = all.iter().map(|copy| kinds(session, copy));
            let first = kinds.next()?;
            // Of a batch of several kinds there is nothing to say.
            if kinds.all(|other| other == first) {
                (timed.from, timed.to) = first;
                timed.copy = if is_between_contexts(live) { PEER } else { direction(first) };
            }
        }
    }
    Some(described)
}

/// The live function that a launch names.
pub(super) fn launched(live: &Function, words: &[u64]) -> Option<u64> {
    let param = &live.params[live.handle(Kind::Function)?];
    words.get(param.offset as usize / 8).copied()
}

fn is_between_contexts(live: &Function) -> bool {
    live.params.iter().filter(|param| matches!(param.ty.form, Form::Handle(Kind::Context))).count() == 2
}

fn kinds(session: &Session, copy: &CopyEndpoints) -> (u8, u8) {
    let kind = |end: End| match end {
        End::Host(at) | End::Unified(at) if is_pinned(session, at) => memory::PINNED,
        End::Host(_) => memory::PAGEABLE,
        End::Device(_) => memory::DEVICE,
        End::Unified(at) if session.placement.is_in_place(at) || session.translation.live(at).is_some() => {
            memory::DEVICE
        }
        End::Unified(_) => memory::PAGEABLE,
        End::Array => memory::ARRAY,
    };
    (kind(copy.from), kind(copy.to))
}

fn is_pinned(session: &Session, at: u64) -> bool {
    let pinned = session.placement.pinned.lock();
    pinned.range(..=at).next_back().is_some_and(|(_, end)| at < *end)
}

/// CUPTI's CUpti_ActivityMemcpyKind.
fn direction((from, to): (u8, u8)) -> u8 {
    const HOST: [u8; 2] = [memory::PAGEABLE, memory::PINNED];
    let side = |kind: u8| {
        if HOST.contains(&kind) {
            'h'
        } else if kind == memory::ARRAY {
            'a'
        } else {
            'd'
        }
    };
    match (side(from), side(to)) {
        ('h', 'd') => 1,
        ('d', 'h') => 2,
        ('h', 'a') => 3,
        ('a', 'h') => 4,
        ('a', 'a') => 5,
        ('a', _) => 6,
        ('d', 'a') => 7,
        ('d', _) => 8,
        _ => 9,
    }
}
