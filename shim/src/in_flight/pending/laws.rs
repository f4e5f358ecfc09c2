//! Tests of the work that a wait covers.

use super::{Copy, Covered, Pending, Uses};
use crate::driver::queue::{LEGACY, Queue};
use crate::in_flight::landing_range::Landing;
use crate::in_flight::node_runs::Turn;
use std::sync::Arc;

const CONTEXT: u64 = 7;

fn stream(number: u64) -> Queue {
    Queue::resolve(number, false, 0, || CONTEXT)
}

/// Puts a copy to this address on a stream.
fn submit_copy(pending: &Pending, queue: Queue, address: u64, blocking: bool) {
    let copy = Copy::new(Landing::Flat { address, len: 64 }, CONTEXT, Some(blocking), 0, address as u32);
    assert!(pending.add(queue, copy).is_empty());
}

/// Where copies are done when a wait that began now has returned.
fn covered(pending: &Pending, by: Covered) -> Vec<u64> {
    covered_since(pending, by, pending.position())
}

fn covered_since(pending: &Pending, by: Covered, position: u64) -> Vec<u64> {
    let finished = pending.finished(by, position, Some(0));
    pending.looked_at(&finished);
    let mut found: Vec<u64> = finished.copies.iter().map(|(copy, _)| copy.landing.address()).collect();
    found.sort_unstable();
    found
}

#[test]
fn a_wait_covers_what_stood_on_its_stream_when_it_began() {
    let pending = Pending::default();
    submit_copy(&pending, stream(10), 0x1000, true);
    submit_copy(&pending, stream(11), 0x2000, true);
    let began = pending.position();
    submit_copy(&pending, stream(10), 0x3000, true);
    assert_eq!(covered_since(&pending, Covered::Stream(stream(10)), began), [0x1000]);
    assert_eq!(covered(&pending, Covered::Stream(stream(10))), [0x3000]);
    assert!(pending.any(), "the other stream has a copy yet");
    assert_eq!(covered(&pending, Covered::Context(CONTEXT)), [0x2000]);
    assert!(!pending.any());
}

#[test]
fn an_event_covers_what_stood_before_it_and_what_its_stream_waited_for() {
    let pending = Pending::default();
    submit_copy(&pending, stream(10), 0x1000, true);
    pending.event_recorded(1, stream(10), pending.position());
    submit_copy(&pending, stream(10), 0x2000, true);
    pending.stream_waits(stream(11), 1);
    submit_copy(&pending, stream(11), 0x3000, true);
    let began = pending.position();
    pending.event_recorded(2, stream(11), began);
    assert!(covered_since(&pending, Covered::Event(2), began).is_empty(), "it was recorded after the wait began");
    assert_eq!(covered(&pending, Covered::Event(2)), [0x1000, 0x3000]);
    assert_eq!(covered(&pending, Covered::Stream(stream(10))), [0x2000]);
}

#[test]
fn a_destroyed_event_covers_nothing() {
    let pending = Pending::default();
    submit_copy(&pending, stream(10), 0x1000, true);
    pending.event_recorded(1, stream(10), pending.position());
    pending.event_ends(1);
    assert!(covered(&pending, Covered::Event(1)).is_empty());
}

#[test]
fn the_legacy_stream_waits_for_those_that_block_it() {
    let pending = Pending::default();
    submit_copy(&pending, stream(10), 0x1000, true);
    submit_copy(&pending, stream(11), 0x2000, false);
    assert_eq!(covered(&pending, Covered::Stream(stream(LEGACY))), [0x1000]);
    assert_eq!(covered(&pending, Covered::Stream(stream(11))), [0x2000]);
}

#[test]
fn work_of_a_stream_that_was_destroyed_is_covered_by_its_context() {
    let pending = Pending::default();
    submit_copy(&pending, stream(10), 0x1000, true);
    pending.stream_ends(stream(10));
    assert!(covered(&pending, Covered::Stream(stream(10))).is_empty(), "the handle may be another's");
    assert_eq!(covered(&pending, Covered::Context(CONTEXT)), [0x1000]);
}

/// A callback that has written leaves that to the thread whose memory it is, unless work of that waits for it.
#[test]
fn work_that_is_about_to_be_put_waits_for_a_callback_as_its_stream_does() {
    let pending = Pending::default();
    let position = pending.take_position();
    let (queue, by) = (stream(10), (1, 0));
    let turn = Turn { queue, before: position, behind: position, by, around: Arc::default(), begun: None };
    pending.event_recorded(0xe, queue, pending.take_position());
    pending.stream_waits(stream(11), 0xe);
    let memory = 0x1000..0x1040;
    let entering = |at: u64, number: u64| {
        pending.enters(0, Uses::Only(std::iter::once(at..at + 0x40).collect()), Some(stream(number)));
        let found = pending.has_behind(&memory, &turn);
        pending.entered(0);
        found
    };
    assert!(entering(0x1000, 11) && entering(0x1000, 10));
    assert!(!entering(0x1000, 12) && !entering(0x2000, 11));
    assert!(!pending.has_behind(&memory, &turn));
}
