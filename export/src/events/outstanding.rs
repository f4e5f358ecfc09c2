//! Outstanding work as the host knows it, for traces without device times: a stream has some from its first
//! submission to the call that showed the last to be complete.

use super::event::Event;
use super::track::{PROCESS_TRACK, Track};
use analysis::job::time_axis::Process;
use foldhash::HashMap;

/// Beyond those of counters.
const TRACKS: u64 = 1 << 35;

/// A period in which a stream had work.
pub(crate) struct Period {
    pub track: u64,
    pub begin: i64,
    /// None if nothing told that all of it had finished.
    pub end: Option<i64>,
    pub first: u64,
    pub last: u64,
    pub submissions: u64,
    /// What was submitted, if it was one function alone.
    pub function: Option<&'static str>,
}

#[derive(Default)]
pub(crate) struct Submitted {
    streams: HashMap<usize, Stream>,
    /// Of submissions that are outstanding: their streams.
    calls: HashMap<u64, usize>,
}

struct Stream {
    track: u64,
    period: Option<Open>,
    /// When the last one ended.
    until: i64,
}

struct Open {
    period: Period,
    outstanding: u64,
    is_selected: bool,
}

impl Submitted {
    /// What has ended by this call. Streams that are new get their tracks.
    pub(crate) fn call(&mut self, process: &Process, event: &Event, new: &mut Vec<Track>) -> Vec<Period> {
        let (call, followed) = (&event.call, &event.followed);
        if let (Some(at), Some(function)) = (followed.put.filter(|_| !followed.is_done), call.function()) {
            let next = TRACKS + self.streams.len() as u64;
            let stream = self.streams.entry(at).or_insert_with(|| {
                let name = event.outstanding.stream_name(call, function, event.objects);
                let name = format!("{name}: submission to known end");
                new.push(Track { number: next, parent: Some(PROCESS_TRACK), name });
                Stream { track: next, period: None, until: i64::MIN }
            });
            let begin = process.nanoseconds(call.begin).max(stream.until);
            let (track, number, name) = (stream.track, call.number, function.name);
            let open = stream.period.get_or_insert(Open {
                period: Period {
                    track,
                    begin,
                    end: None,
                    first: number,
                    last: number,
                    submissions: 0,
                    function: Some(name),
                },
                outstanding: 0,
                is_selected: false,
            });
            open.outstanding += 1;
            open.is_selected |= event.is_selected;
            open.period.submissions += 1;
            open.period.last = number;
            open.period.function = open.period.function.filter(|of| *of == name);
            self.calls.insert(number, at);
        }
        let end = call.last_end().map_or(process.nanoseconds(call.begin), |end| process.nanoseconds(end));
        event.finished.iter().filter_map(|number| self.finished(*number, end)).collect()
    }

    fn finished(&mut self, number: u64, end: i64) -> Option<Period> {
        let stream = self.streams.get_mut(&self.calls.remove(&number)?)?;
        let open = stream.period.as_mut()?;
        open.outstanding -= 1;
        if open.outstanding > 0 {
            return None;
        }
        let Open { period, is_selected, .. } = stream.period.take()?;
        stream.until = end.max(period.begin);
        is_selected.then_some(Period { end: Some(stream.until), ..period })
    }

    /// What has not ended.
    pub(crate) fn finish(&mut self) -> Vec<Period> {
        let left = self.streams.values_mut().filter_map(|stream| stream.period.take());
        let mut left: Vec<Period> = left.filter(|open| open.is_selected).map(|open| open.period).collect();
        left.sort_by_key(|period| period.track);
        left
    }
}

impl Period {
    pub(crate) fn title(&self) -> String {
        match (self.submissions, self.function) {
            (1, Some(function)) => function.into(),
            (count, Some(function)) => format!("{count} x {function}"),
            (count, None) => format!("{count} submissions"),
        }
    }
}
