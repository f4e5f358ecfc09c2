//! The wait until contexts are idle.
//!
//! Work without a recorded end may never end: a stream waits for a value that nobody wrote, or that a call
//! behind the stop writes; a kernel spins. It gets as much time as when recorded, and some seconds more; work
//! that the recording did wait for is waited for.

use crate::driver::stream::{ContextWait, context_of, with_context};
use crate::driver::{Failure, result};
use crate::session::Session;
use std::time::{Duration, Instant};
use trace::api::types::Kind;
use trace::model::outstanding::{Left, Work, left_at};
use trace::model::stream::StreamHandle;

/// Before the trace is asked: to walk it takes its time.
const AT_FIRST: Duration = Duration::from_secs(1);
/// What is under way here may be slower than what was recorded.
const MORE: Duration = Duration::from_secs(5);

/// The state in which a context became idle.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Idle {
    Done,
    /// It is no more, and its work went with it.
    Gone,
    /// Its work failed; none of it runs any more.
    Failed(u32),
    /// It cannot be waited for.
    Never,
}

impl Idle {
    /// What a wait for it says.
    pub(crate) fn from_wait(waited: Result<(), Failure>) -> Idle {
        match waited {
            Ok(()) => Idle::Done,
            Err(Failure { code: Some(result::INVALID_CONTEXT | result::CONTEXT_IS_DESTROYED), .. }) => Idle::Gone,
            Err(Failure { code: Some(code), .. }) if result::is_sticky(code) => Idle::Failed(code),
            Err(_) => Idle::Never,
        }
    }
}

/// How long work is waited for of which the recording does not tell that it ended.
pub(crate) fn patience(left: &Left) -> Duration {
    left.took + MORE
}

pub(crate) struct QuiesceResult {
    /// Live contexts.
    pub contexts: Vec<(u64, Idle)>,
    /// What was given up.
    pub under_way: Vec<Work>,
}

/// Waits for all work of all contexts. Calls from this one on have not been made.
pub(crate) fn all(session: &Session, before: u64) -> QuiesceResult {
    let contexts: Vec<u64> = session.contexts.lock().iter().copied().collect();
    let begun = Instant::now();
    let waits: Vec<ContextWait> = contexts.iter().map(|context| ContextWait::begin(session.driver, *context)).collect();
    let mut left: Option<Left> = None;
    let mut is_given_up = false;
    let mut wait = |wait: &ContextWait| {
        if let Some(waited) = wait.end(AT_FIRST.saturating_sub(begun.elapsed())) {
            return Idle::from_wait(waited);
        }
        let left = left.get_or_insert_with(|| left_at(session.trace, before));
        let patience = match left.works.is_empty() {
            true => Duration::MAX,
            false => patience(left).saturating_sub(begun.elapsed()),
        };
        let waited = wait.end(patience);
        is_given_up |= waited.is_none();
        waited.map_or(Idle::Never, Idle::from_wait)
    };
    let rests = waits.iter().map(&mut wait).collect::<Vec<Idle>>();
    let works = left.filter(|_| is_given_up).map_or_else(Vec::new, |left| left.works);
    let (finished, under_way): (Vec<Work>, Vec<Work>) =
        works.into_iter().partition(|work| session.placement.relaxed(|| is_finished(session, work)));
    // Something is, if not what any stream tells.
    let under_way = if under_way.is_empty() { finished } else { under_way };
    QuiesceResult { contexts: contexts.into_iter().zip(rests).collect(), under_way }
}

/// Whether a stream says so.
fn is_finished(session: &Session, work: &Work) -> bool {
    let live = |kind, handle| session.objects.live(kind, handle);
    let place = match work.queue.context {
        0 => live(Kind::Stream, work.queue.stream).map(|stream| (context_of(session.driver, stream), stream)),
        context => live(Kind::Context, context).map(|context| (context, work.queue.stream)),
    };
    // A thread's own stream only that thread could ask.
    let ask = |handle| session.driver.query_stream(StreamHandle { handle, per_thread: false });
    let asked = place
        .filter(|_| work.queue.thread.is_none())
        .map(|(context, stream)| with_context(session.driver, context, || ask(stream)));
    matches!(asked, Some(Ok(Ok(true))))
}

/// `stream#3 has not come to the end of its work: call 7 cuLaunchKernel and 2 more`
pub(crate) fn describe(session: &Session, work: &Work) -> String {
    let first = work.calls[0];
    let name = session.trace.call(first).map_or("?", |call| call.name());
    let more = match work.calls.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{} has unfinished work: call {first} {name}{more}", work.stream)
}
