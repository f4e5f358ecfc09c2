//! Live memory on devices and outstanding work, as they change with the calls.
//!
//! Calls come in the order of their entry, but a call may take effect (free, submit, allocate) at its entry
//! or at its return: changes are held until the calls have reached their time.

use super::event::Event;
use analysis::job::time_axis::Process;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use trace::model::memory::Allocation;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Counter {
    /// Bytes that live on a device.
    Memory(i32),
    /// Submissions of which nothing has told that they have finished.
    Outstanding,
}

impl Counter {
    pub(crate) fn title(self) -> String {
        match self {
            Counter::Memory(device) => format!("memory of device {device}"),
            Counter::Outstanding => "submissions in flight".into(),
        }
    }
}

/// That it has this value from here on.
pub(crate) type Point = (Counter, i64, i64);

#[derive(Default)]
pub(crate) struct Counters {
    /// By time, and in the order in which they came.
    ahead: BinaryHeap<Reverse<(i64, u64, Counter, i64)>>,
    changes: u64,
    values: BTreeMap<Counter, i64>,
    /// Changed by calls that were not asked for.
    unsaid: BTreeSet<Counter>,
}

impl Counters {
    /// Points up to the entry of this call, as far as calls around it were asked for: counter, nanoseconds,
    /// value.
    pub(crate) fn call(&mut self, process: &Process, event: &Event) -> Vec<Point> {
        let (call, followed) = (&event.call, &event.followed);
        let begin = process.nanoseconds(call.begin);
        let mut points = Vec::new();
        if event.is_selected {
            let unsaid = std::mem::take(&mut self.unsaid);
            points.extend(unsaid.into_iter().map(|counter| (counter, begin, self.values[&counter])));
        }
        self.advance(begin, event.is_selected, &mut points);
        for (one, _) in &followed.gone {
            self.memory(begin, one, -1);
        }
        for one in &followed.made {
            self.memory(process.nanoseconds(one.since), one, 1);
        }
        if followed.put.is_some() && !followed.is_done {
            self.change(begin, Counter::Outstanding, 1);
        }
        if !event.finished.is_empty() {
            let end = call.last_end().map_or(begin, |end| process.nanoseconds(end));
            self.change(end, Counter::Outstanding, -(event.finished.len() as i64));
        }
        points
    }

    /// What is left.
    pub(crate) fn finish(&mut self) -> Vec<Point> {
        let mut points = Vec::new();
        self.advance(i64::MAX, true, &mut points);
        points
    }

    fn memory(&mut self, at: i64, one: &Allocation, sign: i64) {
        if let (Some(device), Some(bytes)) = (one.device, one.bytes) {
            self.change(at, Counter::Memory(device), sign.saturating_mul(i64::try_from(bytes).unwrap_or(i64::MAX)));
        }
    }

    fn change(&mut self, at: i64, counter: Counter, by: i64) {
        self.changes += 1;
        self.ahead.push(Reverse((at, self.changes, counter, by)));
    }

    fn advance(&mut self, time: i64, is_said: bool, points: &mut Vec<Point>) {
        while self.ahead.peek().is_some_and(|Reverse((at, ..))| *at <= time)
            && let Some(Reverse((at, _, counter, by))) = self.ahead.pop()
        {
            let value = self.values.entry(counter).or_default();
            *value = value.saturating_add(by);
            match is_said {
                true => points.push((counter, at, *value)),
                false => _ = self.unsaid.insert(counter),
            }
        }
    }
}
