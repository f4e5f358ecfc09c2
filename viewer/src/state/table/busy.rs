//! The busy share of devices in a piece of the trace, by their own times.

use super::piece::Piece;
use crate::data::lane::{Lane, Source};
use crate::data::open::Opened;
use crate::state::parts::scope::Scope;
use crate::text::{duration, percent};
use std::collections::BTreeMap;

/// Pieces of work that are put in order for one answer: for a table that is asked for, and for a frame.
pub(crate) const ASKED: usize = 4_000_000;
pub(crate) const FRAME: usize = 200_000;

/// One line for each device. `most`: more work is not put in order.
pub(crate) fn lines(opened: &Opened, scope: Scope, most: usize) -> Vec<String> {
    let (from, to) = scope.time().unwrap_or((0, opened.summary().end));
    if opened.summary().timing.is_none() {
        return Vec::new();
    }
    let piece = Piece::new(opened, None, scope);
    let lines = devices(opened).into_iter().map(|(device, lanes)| {
        let Some((busy, span)) = busy_time(&piece, &lanes, most) else {
            return format!("device {device}: too much work to sum its busy time; select less");
        };
        let whole = to.saturating_sub(from);
        let share = |busy: u64, of: &str| {
            format!("device {device}: busy {} of {of}{} ({})", duration(busy), duration(whole), percent(busy, whole))
        };
        let Scope::Range(..) = scope else { return share(busy, "") };
        // What a range gave to the device may run when the range is over.
        let during = busy_time(&Piece::new(opened, None, Scope::Selection(from, to)), &lanes, most);
        let during = share(during.map_or(0, |(busy, _)| busy), "the range's ");
        let Some((first, last)) = span else { return format!("{during}; no work of the range") };
        let (took, own, of) = (duration(last - first), duration(busy), percent(busy, last - first));
        format!("{during}; the range's own work: span {took}, busy {own} ({of})")
    });
    lines.collect()
}

/// The lanes of each device that hold its own times.
fn devices(opened: &Opened) -> BTreeMap<i32, Vec<&Lane>> {
    let mut devices: BTreeMap<i32, Vec<&Lane>> = BTreeMap::new();
    for lane in &opened.model.lanes {
        if let Source::Device { queue, .. } = &lane.source {
            devices.entry(queue.device).or_default().push(lane);
        }
    }
    devices
}

/// Nanoseconds in which at least one of the lanes had something to do, and from when to when; none if it is
/// too much to tell.
fn busy_time(piece: &Piece, lanes: &[&Lane], most: usize) -> Option<(u64, Option<(u64, u64)>)> {
    // What a lane shows does not overlap.
    if let ([only], Some(busy)) = (lanes, lanes.first().and_then(|lane| piece.busy(lane))) {
        let ends = only.begin.first().zip(only.len().checked_sub(1).map(|last| only.end(last)));
        return Some((busy, ends.map(|(first, last)| (*first, last))));
    }
    let mut times = Vec::new();
    for lane in lanes {
        if times.len() + piece.works_of(lane) > most {
            return None;
        }
        piece.device_times(lane, &mut times);
    }
    Some(union(&mut times))
}

/// What pieces of time cover together, and from when to when.
fn union(times: &mut [(u64, u64)]) -> (u64, Option<(u64, u64)>) {
    times.sort_unstable();
    let (mut busy, mut until) = (0, 0);
    for (from, to) in times.iter().copied() {
        busy += to.saturating_sub(from.max(until));
        until = until.max(to);
    }
    (busy, times.first().map(|(first, _)| (*first, until)))
}

#[cfg(test)]
mod tests {
    use super::union;

    #[test]
    fn what_overlaps_counts_once() {
        assert_eq!(union(&mut []), (0, None));
        assert_eq!(union(&mut [(5, 9), (1, 3), (2, 4), (6, 7)]), (7, Some((1, 9))));
    }
}
