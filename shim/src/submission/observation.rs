//! Observations: the results of copies, as records.

use crate::in_flight::pending::{Copy, Work};
use crate::os::clock;
use crate::records::lane::Lane;
use trace::base::hash::Hash;
use trace::file::record;

/// Writes down what a copy brought; nothing, if it can no longer be known.
pub(crate) fn observed(lane: &Lane, copy: &Copy, found: Option<(u8, Hash)>) {
    if found.is_some() || copy.work == Work::Copy {
        lane.append(&observation(copy, found));
    }
}

/// A copy that nobody waited for makes room for others.
pub(crate) fn give_up(copy: &Copy) -> Option<Vec<u8>> {
    if copy.work != Work::Copy {
        return None;
    }
    crate::recording::recorder::recorder()
        .around
        .lose("results of copies without a wait before the next 65,536 copies");
    Some(observation(copy, None))
}

fn observation(copy: &Copy, found: Option<(u8, Hash)>) -> Vec<u8> {
    let (address, len) = (copy.landing.address(), copy.landing.bytes());
    let (form, hash) = found.map_or((record::LOST, [0; 16]), |(form, hash)| (form, hash.to_bytes()));
    let Copy { thread, call, late, .. } = *copy;
    let body = record::Observed { time: clock::exit(), thread, call, address, len, hash, form, late };
    record::with_body(record::OBSERVED, &body)
}
