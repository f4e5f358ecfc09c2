//! Checks of the contents of a trace.

use std::path::Path;
use trace::{Call, Trace};

/// Opens a trace that must be whole: no damage, every blob what its name says.
#[track_caller]
pub fn sound(path: impl AsRef<Path>) -> Trace {
    let mut trace = Trace::open(&path).unwrap_or_else(|error| panic!("{error}"));
    trace.check_blobs();
    assert!(trace.damage.is_empty(), "{}: {:?}", path.as_ref().display(), trace.damage);
    trace
}

/// The lines of `dump --json`, behind the one about the trace.
pub fn objects(dump: &str) -> Vec<serde_json::Value> {
    let mut all = dump.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let header: serde_json::Value = all.next().expect("a header");
    assert_eq!((&header["kind"], &header["schema"]), (&"header".into(), &1.into()));
    all.collect()
}

/// The functions called, by entry time.
pub fn names(trace: &Trace) -> Vec<&str> {
    trace.calls().map(|call| call.name()).collect()
}

/// The functions that one thread called.
pub fn thread_names(trace: &Trace, thread: u32) -> Vec<&str> {
    trace.calls().filter(|call| call.thread == thread).map(|call| call.name()).collect()
}

pub fn calls_named<'a>(trace: &'a Trace, name: &str) -> Vec<Call<'a>> {
    trace.calls().filter(|call| call.name() == name).collect()
}
