//! Device times on their way into the file: matched with calls, converted to the trace's clock, written as
//! chunks of a pseudo-thread. Each chunk ends with all that is known by then, so that the last whole one is
//! enough.

use crate::os::lock::Lock;
use crate::os::{clock, generation};
use crate::trace_file::file::TraceFile;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use trace::cupti::{Activity, Compared};
use trace::file::record::{self, Name, Profile, Timed, timed, with_body};

/// Readings that the clocks are compared by.
pub(super) const TRIES: usize = 8;
/// Calls that are kept in mind at least; streams hold some thousand pieces of work.
const KEPT: usize = 1 << 18;
/// Buffers that work waits for to be told whose it is: its call may return after it, and be in a later one.
const PATIENCE: u8 = 16;
/// Pieces of work that wait at the most: those of calls that a range leaves out wait in vain.
const WAITING: usize = 1 << 16;

pub(super) struct Written {
    file: Arc<TraceFile>,
    version: u32,
    /// The first clock pair of the trace.
    origin: i64,
    state: Lock<State>,
}

struct State {
    /// Calls by correlation id: the latest, and those before them.
    calls: HashMap<u32, u64>,
    older: HashMap<u32, u64>,
    waiting: Vec<Waiting>,
    names: HashMap<String, u32>,
    clocks: [Compared; 2],
    /// To be put into the file.
    records: Vec<u8>,
    works: u64,
    foreign: u64,
    untimed: BTreeMap<String, u64>,
    why: String,
}

/// Work whose call was not known yet when it came.
struct Waiting {
    correlation: u32,
    timed: Timed,
    /// Buffers that have come since without telling of its call.
    buffers: u8,
}

impl Written {
    pub(super) fn new(file: Arc<TraceFile>, version: u32, origin: i64, first: Compared) -> Written {
        let state = State {
            calls: HashMap::new(),
            older: HashMap::new(),
            waiting: Vec::new(),
            names: HashMap::new(),
            clocks: [first; 2],
            records: Vec::new(),
            works: 0,
            foreign: 0,
            untimed: BTreeMap::new(),
            why: String::new(),
        };
        Written { file, version, origin, state: Lock::new(state) }
    }

    /// The clocks were compared once more; what comes now is mostly from between the two times.
    pub(super) fn compared(&self, clocks: Compared) {
        let mut state = self.state.lock();
        state.clocks = [state.clocks[1], clocks];
    }

    /// A call of the driver was given this number of ours.
    pub(super) fn numbered(&self, correlation: u32, number: u64) {
        let mut state = self.state.lock();
        if state.calls.len() >= KEPT {
            state.older = std::mem::take(&mut state.calls);
        }
        state.calls.insert(correlation, number);
    }

    pub(super) fn add(&self, activity: &Activity) {
        let mut timed = activity.timed;
        if timed.start == 0 || timed.end < timed.start {
            return self.untimed("CUPTI has no times for it", 1);
        }
        let mut state = self.state.lock();
        for time in [&mut timed.start, &mut timed.end] {
            *time += state.offset(*time) - self.origin;
        }
        timed.source = timed::RECORDED;
        if let Some(name) = activity.kernel {
            timed.name = state.name(&name.to_string_lossy());
        }
        state.take(Waiting { correlation: activity.correlation, timed, buffers: 0 });
    }

    pub(super) fn untimed(&self, why: &str, count: u64) {
        if count > 0 {
            *self.state.lock().untimed.entry(why.to_owned()).or_default() += count;
        }
    }

    /// The buffer is empty: what waits is looked up once more, and everything goes into the file.
    pub(super) fn flush(&self) {
        let mut state = self.state.lock();
        for waiting in std::mem::take(&mut state.waiting) {
            state.take(waiting);
        }
        if !state.records.is_empty() {
            self.append(&mut state);
        }
    }

    /// No more comes.
    pub(super) fn stops(&self, why: &str) {
        self.state.lock().why = why.to_owned();
        self.close();
    }

    /// Everything has come.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        for waiting in std::mem::take(&mut state.waiting) {
            state.take(Waiting { buffers: PATIENCE, ..waiting });
        }
        self.append(&mut state);
    }

    fn append(&self, state: &mut State) {
        let mut untimed: Vec<(String, u64)> = state.untimed.clone().into_iter().collect();
        if state.works == 0 && state.foreign > 0 {
            untimed.push(("CUPTI's record matches no call of the trace".into(), state.foreign));
        }
        // Stopped before there was anything: there are no times.
        let nothing = state.works == 0 && !state.why.is_empty();
        let profile = Profile {
            source: if nothing { timed::NONE } else { timed::RECORDED },
            version: self.version,
            why: state.why.clone(),
            offset: state.clocks[1].offset - self.origin,
            uncertainty: state.clocks[1].apart,
            works: state.works,
            untimed,
            ..blank()
        };
        let mut records = std::mem::take(&mut state.records);
        records.extend(with_body(record::PROFILE, &profile));
        records.extend(with_body(record::CLOCK, &clock::sharp_pair()));
        append_records(&self.file, &records);
        records.clear();
        state.records = records;
    }
}

impl State {
    /// What is to be added to CUPTI's time: what it was at the nearer comparison, or in between.
    fn offset(&self, theirs: i64) -> i64 {
        let [first, last] = self.clocks;
        let (whole, part) = (last.theirs - first.theirs, (theirs - first.theirs).max(0));
        if part >= whole {
            return last.offset;
        }
        first.offset + (i128::from(last.offset - first.offset) * i128::from(part) / i128::from(whole)) as i64
    }

    fn name(&mut self, name: &str) -> u32 {
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        let number = self.names.len() as u32 + 1;
        self.records.extend(with_body(record::NAMED, &Name { number, name: name.to_owned() }));
        self.names.insert(name.to_owned(), number);
        number
    }

    fn take(&mut self, work: Waiting) {
        let number = self.calls.get(&work.correlation).or_else(|| self.older.get(&work.correlation));
        match number {
            Some(number) => {
                let timed = Timed { thread: (number >> 32) as u32 - 1, call: *number as u32, ..work.timed };
                self.records.extend(with_body(record::TIMED, &timed));
                self.works += 1;
            }
            // Of a call that is not recorded.
            None if work.buffers >= PATIENCE || self.waiting.len() >= WAITING => self.foreign += 1,
            None => self.waiting.push(Waiting { buffers: work.buffers + 1, ..work }),
        }
    }
}

/// Says in the file that there are no times, and why.
pub(super) fn none(file: &TraceFile, why: &str) {
    append_records(file, &with_body(record::PROFILE, &Profile { source: timed::NONE, why: why.to_owned(), ..blank() }));
}

fn append_records(file: &TraceFile, records: &[u8]) {
    if let Err(error) = file.append_of_no_thread(records) {
        generation::off(&format!("{}: {error}", file.path.display()));
        generation::say_last("device times, for lack of space");
    }
}

fn blank() -> Profile {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Profile {
        created: since.as_nanos() as u64,
        source: timed::NONE,
        version: 0,
        why: String::new(),
        // It stands in the preamble.
        driver: String::new(),
        driver_version: 0,
        devices: Vec::new(),
        offset: 0,
        uncertainty: 0,
        works: 0,
        untimed: Vec::new(),
        more: Vec::new(),
    }
}
