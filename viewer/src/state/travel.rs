//! Movement from event to event: next, previous, failures, gaps, matches, and from call to work.

use super::fields::{EventPlace, State};
use crate::data::compare;
use crate::data::event::{Event, Flags};
use crate::data::lane::{Lane, Source};
use crate::text::{counted, duration};
use analysis::text::numbers::time;
use std::sync::Arc;

/// The shortest gap on a row that g and G stop at unless configured, ns.
pub(crate) const GAP: u64 = 100_000;
/// Jumps that [`State::back`] remembers.
const TRAIL: usize = 256;

impl State {
    /// Selects an event, and shows it.
    pub(crate) fn select(&mut self, at: EventPlace) {
        let Some(lane) = self.lane_of(at.0).filter(|lane| at.1 < lane.len()) else { return };
        let begin = lane.begin[at.1];
        self.event = Some(at);
        self.window = self.window.showing(begin);
        if !self.rows.get(self.row).is_some_and(|row| row.is_of(at.0)) {
            self.unfold(at.0);
            if let Some(row) = self.rows.iter().position(|row| row.is_of(at.0)) {
                self.row = row;
            }
        }
    }

    /// As [`State::select`], from where [`State::back`] leads back.
    pub(crate) fn jump(&mut self, at: EventPlace) {
        self.trail.push((self.event, self.window, self.row));
        if self.trail.len() > TRAIL {
            self.trail.remove(0);
        }
        self.select(at);
    }

    pub(crate) fn back(&mut self) {
        match self.trail.pop() {
            Some((event, window, row)) => {
                (self.event, self.row) = (event, row.min(self.rows.len().saturating_sub(1)));
                self.window = window.resized(self.window.columns).ended(self.window.end);
            }
            None => self.say("no earlier jump"),
        }
    }

    /// The next event of the lane, or the one before: that passes the filter, if there is one.
    pub(crate) fn step_event(&mut self, forward: bool) {
        let Some(at) = self.lane() else { return self.say("no events on this row") };
        let index = match self.event.filter(|(lane, _)| *lane == at) {
            Some((_, index)) if forward => Some(index + 1),
            Some((_, index)) => index.checked_sub(1),
            None => {
                let Some(lane) = self.lane_of(at) else { return };
                let here = lane.event_at(self.window.cursor);
                let next = lane.first_at(self.window.cursor);
                if forward { here.or(Some(next)) } else { here.or(next.checked_sub(1)) }
            }
        };
        let found = index.and_then(|index| self.passing(at, index, forward));
        match found {
            Some(index) => self.select((at, index)),
            None => self.say(if forward { "no later event on this row" } else { "no earlier event on this row" }),
        }
    }

    /// The nearest event that `find` finds in that direction, on any lane of threads and of what they
    /// annotated: by the time at which it begins, then by its lane. From the selected event, or from the
    /// cursor.
    fn nearest(&self, forward: bool, find: impl Fn(&Lane, usize) -> Option<usize>) -> Option<EventPlace> {
        let selected = self.event.filter(|(at, index)| self.lane_of(*at).is_some_and(|lane| *index < lane.len()));
        let time = selected.map_or(self.window.cursor, |(at, index)| self.opened.model.lanes[at].begin[index]);
        let shown = |source: &Source| matches!(source, Source::Thread { .. } | Source::Range { .. });
        let lanes = self.opened.model.lanes.iter().enumerate().filter(|(_, lane)| shown(&lane.source));
        let found = lanes.filter_map(|(at, lane)| {
            let start = match selected {
                Some((own, index)) if own == at => index + usize::from(forward),
                Some((own, _)) if at < own => lane.begin.partition_point(|begin| *begin <= time),
                // What begins at a cursor that was merely put there is found.
                _ => lane.first_at(time),
            };
            Some((at, find(lane, start)?))
        });
        let by_time = |(at, index): &EventPlace| (self.opened.model.lanes[*at].begin[*index], *at);
        if forward { found.min_by_key(by_time) } else { found.max_by_key(by_time) }
    }

    /// The longest event of a name: work of this call, or an annotation.
    pub(crate) fn slowest(&self, name: u32, call: Option<u32>) -> Option<EventPlace> {
        let lanes = self.opened.model.lanes.iter().enumerate();
        let all = lanes.filter(|(_, lane)| !lane.source.is_thread()).flat_map(|(at, lane)| {
            let first = call.map_or(Some(0), |call| lane.of_call(call)).unwrap_or(lane.len());
            let those = (first..lane.len()).take_while(move |index| call.is_none_or(|call| lane.call[*index] == call));
            those.filter(move |index| lane.name[*index] == name).map(move |index| (at, index))
        });
        all.max_by_key(|(at, index)| (self.opened.model.lanes[*at].length(*index), std::cmp::Reverse((*at, *index))))
    }

    pub(crate) fn step_failure(&mut self, forward: bool) {
        let found = self.nearest(forward, |lane, start| {
            let has = |node: &crate::data::pyramid::Node| node.failed > 0;
            match forward {
                true => lane.pyramid.next(start, lane.len(), |index| lane.node(index), has),
                false => lane.pyramid.previous(start, |index| lane.node(index), has),
            }
        });
        match found {
            Some(at) => self.jump(at),
            None => self.say(if forward { "no later call failed" } else { "no earlier call failed" }),
        }
    }

    pub(crate) fn step_match(&mut self, forward: bool) {
        let Some(search) = &self.search else { return self.say("no search yet: / begins one") };
        let model = &self.opened.model;
        // A launch matches by its kernel, whose name its work has.
        let kernels: Vec<&Lane> = model.lanes.iter().filter(|lane| lane.source.is_work()).collect();
        let hits = |lane: &Lane, index: usize| {
            search.hits(lane.name[index])
                || Flags(lane.flags[index]).own() == crate::data::event::Category::Launch
                    && kernels
                        .iter()
                        .any(|work| work.of_call(lane.call[index]).is_some_and(|at| search.hits(work.name[at])))
        };
        let found = self.nearest(forward, |lane, start| match forward {
            true => (start..lane.len()).find(|index| hits(lane, *index)),
            false => (0..start).rev().find(|index| hits(lane, *index)),
        });
        match found {
            Some(at) => self.jump(at),
            None => {
                let text = format!("no {} match for {:?}", if forward { "later" } else { "earlier" }, search.text);
                self.say(text);
            }
        }
    }

    /// The next gap on the row, or the one before, with its length.
    pub(crate) fn step_gap(&mut self, forward: bool) {
        let Some(at) = self.lane() else { return self.say("no events on this row") };
        let cursor = self.window.cursor;
        let Some(lane) = self.lane_of(at) else { return };
        let is_gap = |index: &usize| lane.begin[*index].saturating_sub(lane.end(*index - 1)) >= self.gap;
        let found = match forward {
            true => (lane.first_at(cursor + 1).max(1)..lane.len()).find(|n| is_gap(n) && lane.end(*n - 1) > cursor),
            false => (1..lane.first_at(cursor).max(1)).rev().find(|n| is_gap(n) && lane.end(*n - 1) < cursor),
        };
        let Some(index) = found else {
            return self.say(if forward { "no later gap on this row" } else { "no earlier gap on this row" });
        };
        let (from, to) = (lane.end(index - 1), lane.begin[index]);
        self.event = None;
        self.window = self.window.showing(from);
        self.say(format!("a gap of {}", duration(to - from)));
    }

    /// The other end of the current event's way: of a call its work, of work its call.
    pub fn partner(&self) -> Option<EventPlace> {
        let (lane, event) = self.current()?;
        let model = &self.opened.model;
        match model.lanes[lane].source {
            Source::Thread { .. } => model.find_work(event.call),
            Source::Stream(_) | Source::Device { .. } => model.find_call(event.call),
            Source::Range { .. } => None,
            Source::Second(_) => match &self.opened.second {
                Some(second) => second.of_second(event.call).and_then(|call| model.find_call(call)),
                None => model.find_call(event.call),
            },
            Source::Peer { process, ref inner } => {
                let is_other = |source: &Source| match source {
                    Source::Peer { process: of, inner: other } => {
                        *of == process && (other.is_work() && inner.is_thread() || other.is_thread() && inner.is_work())
                    }
                    _ => false,
                };
                let mut others = model.lanes.iter().enumerate().filter(|(_, lane)| is_other(&lane.source));
                others.find_map(|(at, lane)| Some((at, lane.of_call(event.call)?)))
            }
            Source::Operations { .. } => self.opened.job.as_ref()?.next(lane, self.index_of(lane, &event)?),
        }
    }

    /// Where an event stands that is the current one.
    pub(crate) fn index_of(&self, lane: usize, event: &Event) -> Option<usize> {
        let selected = self.event.filter(|(at, _)| *at == lane).map(|(_, index)| index);
        selected.or_else(|| self.lane_of(lane)?.event_at(event.begin))
    }

    /// The current event, if it is a rank's part of a collective.
    pub fn collective(&self) -> Option<EventPlace> {
        let (lane, event) = self.current()?;
        let at = self.index_of(lane, &event)?;
        self.opened.job.as_ref()?.operation(lane, at).filter(|operation| operation.is_collective)?;
        Some((lane, at))
    }

    /// What belongs to the current event on other lanes: of a collective that of every other rank.
    pub fn partners(&self) -> Vec<EventPlace> {
        let of_ranks = self.collective().and_then(|(lane, at)| Some(self.opened.job.as_ref()?.counterparts(lane, at)));
        of_ranks.filter(|all| !all.is_empty()).unwrap_or_else(|| self.partner().into_iter().collect())
    }

    /// From a call to the work that it put on a stream, or from work to its call.
    pub(crate) fn follow(&mut self) {
        if self.current().is_none() {
            return self.say("no event under the cursor");
        }
        match self.partner() {
            Some(at) => self.jump(at),
            None if self.is_of_nccl() => self.say("no other rank has begun this operation"),
            None => self.say("this call submitted no work"),
        }
    }

    fn is_of_nccl(&self) -> bool {
        let source = self.current().map(|(lane, _)| &self.opened.model.lanes[lane].source);
        matches!(source, Some(Source::Operations { .. }))
    }

    /// Two traces: the current call and the one that it belongs to begin together from now on.
    pub(crate) fn align(&mut self) {
        let Some(second) = &self.opened.second else { return self.say("no second trace (cutrace view FIRST SECOND)") };
        let Some((lane, event)) = self.current() else { return self.say("no event under the cursor") };
        let pair = match self.opened.model.lanes[lane].source {
            Source::Second(_) => second.of_second(event.call).map(|call| (call, event.call)),
            _ => second.of_first(event.call).map(|call| (event.call, call)),
        };
        let Some((first, other)) = pair else { return self.say("no matching call in the other trace") };
        if let Some(opened) = compare::aligned(&self.opened, first, other) {
            self.reload(Arc::new(opened));
            self.say(format!("call {first} aligned with the second's call {other}"));
        }
    }

    pub(crate) fn go_to_call(&mut self, call: u32) {
        match self.opened.model.find_call(call) {
            Some(at) => self.jump(at),
            None => {
                let calls = self.opened.summary().calls;
                self.say(format!("no call {call}; the trace has {}", counted(calls, "call")));
            }
        }
    }

    /// To a call number, a time with a unit, or a share.
    pub(crate) fn go_to(&mut self, text: &str) {
        let text = text.trim();
        if let Ok(call) = text.replace(['_', ','], "").parse::<u64>() {
            return self.go_to_call(call.min(u32::MAX.into()) as u32);
        }
        let end = self.window.end;
        let share = text.strip_suffix('%').map(|share| share.trim().parse::<f64>());
        let moment = match share {
            Some(Ok(share)) if (0.0..=100.0).contains(&share) => Ok((end as f64 * share / 100.0) as u64),
            Some(_) => Err(format!("{text:?} is not a share; expected 0% to 100%")),
            None => time(text)
                .map_err(|_| format!("{text:?}: expected a call (1234), a time (1.5s, 20ms) or a share (50%)")),
        };
        match moment {
            Ok(moment) => {
                self.trail.push((self.event, self.window, self.row));
                self.event = None;
                self.window = self.window.showing(moment);
            }
            Err(wrong) => self.say(wrong),
        }
    }
}
