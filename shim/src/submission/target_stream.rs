//! The stream to which a call submits its work, and the known work in flight there.

use crate::driver::queries;
use crate::driver::queue::Queue;
use crate::in_flight::host_functions;
use crate::in_flight::landing_range::Landing;
use crate::in_flight::pending::{Copy, Work};
use crate::os::probe::word_at;
use crate::records::lane::Lane;
use crate::submission::observation;
use trace::Function;

/// Copies that read what callbacks under way may still write.
pub(crate) fn reads(lane: &Lane, call: u32, function: &Function, words: &[u64], from: impl Iterator<Item = Landing>) {
    if host_functions::any_under_way() {
        under_way(lane, call, function, words, from.map(|landing| (landing, Work::Read, false)));
    }
}

/// What this call's work brings is not there yet: where, by what, and whether the CPU may be had to do it.
pub(crate) fn under_way(
    lane: &Lane,
    call: u32,
    function: &Function,
    words: &[u64],
    memory: impl Iterator<Item = (Landing, Work, bool)>,
) {
    let recorder = lane.recorder();
    let mut queue = None;
    for (landing, work, by_cpu) in memory {
        let per_thread = function.twin_of.is_some();
        let (stream, captured, context) = *queue.get_or_insert_with(|| {
            let stream = stream(function, words).unwrap_or(0);
            (stream, queries::is_capturing(stream, per_thread), queries::current_context())
        });
        if captured {
            return;
        }
        let mut copy = Copy::new(landing, context, queries::is_blocking(stream), lane.index(), call);
        (copy.work, copy.by_cpu, copy.is_being_put) = (work, by_cpu, true);
        let queue = Queue::resolve(stream, per_thread, lane.index(), || context);
        let given_up = recorder.around.pending.add_work(queue, copy);
        given_up.iter().filter_map(observation::give_up).for_each(|record| lane.append(&record));
    }
}

pub(crate) fn queue(lane: &Lane, function: &Function, words: &[u64]) -> Queue {
    let stream = stream(function, words).unwrap_or(0);
    Queue::resolve(stream, function.twin_of.is_some(), lane.index(), queries::current_context)
}

/// Whether a capture takes the work: nothing is done now.
pub(crate) fn makes_node(function: &Function, words: &[u64]) -> bool {
    stream(function, words).is_some_and(|stream| queries::is_capturing(stream, function.twin_of.is_some()))
}

/// The stream that a call names. The driver has not seen it yet: what it points to may be bad.
pub(crate) fn stream(function: &Function, words: &[u64]) -> Option<u64> {
    function.stream(|word| words[word], |address| word_at(address, 8, true))
}
