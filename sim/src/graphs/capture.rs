//! Stream capture: work becomes nodes of a graph instead of being executed.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::ThreadId;

use parking_lot::Mutex;

use super::graph::{self, Graph, find};
use super::node::Kind;
use crate::abi::Handle;
use crate::abi::code::{Code, Result};
use crate::base::registry::handle_of;
use crate::streams::stream::{Lane, Stream};

const GLOBAL: u32 = 0;
const THREAD_LOCAL: u32 = 1;
const RELAXED: u32 = 2;

/// One capture, over all streams that have joined it.
pub(crate) struct Capture {
    pub id: u64,
    pub graph: Handle,
    mode: u32,
    thread: ThreadId,
    /// The stream that began it, which must end it.
    origin: usize,
    blocking: bool,
    context: Handle,
    /// The application gave the graph, and keeps it.
    given: bool,
    invalid: AtomicBool,
    /// The streams that have joined it.
    streams: Mutex<Vec<Weak<Stream>>>,
}

/// A stream's part in a capture.
#[derive(Clone)]
pub(crate) struct Part {
    pub capture: Arc<Capture>,
    /// What the stream's next node comes after.
    pub tail: Arc<Vec<Handle>>,
}

static ACTIVE: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

pub(crate) fn exchange_mode(mode: u32) -> Result<u32> {
    if mode > RELAXED { Err(Code::INVALID_VALUE) } else { Ok(MODE.with(|m| m.replace(mode))) }
}

/// Refuses a call that could disturb a capture, such as an allocation, as the thread's mode has it; the
/// captures that it would have disturbed are invalid from then on.
pub(crate) fn check_unsafe_call() -> Result {
    if COUNT.load(Ordering::Acquire) == 0 {
        return Ok(());
    }
    let (mode, thread) = (MODE.with(Cell::get), std::thread::current().id());
    let disturbed = |c: &&Arc<Capture>| match mode {
        RELAXED => false,
        THREAD_LOCAL => c.thread == thread && c.mode != RELAXED,
        _ => c.thread == thread && c.mode != RELAXED || c.mode == GLOBAL,
    };
    refuse(disturbed, Code::STREAM_CAPTURE_UNSUPPORTED)
}

/// Refuses work on the legacy stream while a stream that must wait for it captures.
pub(crate) fn check_legacy(context: Handle) -> Result {
    if COUNT.load(Ordering::Acquire) == 0 {
        return Ok(());
    }
    refuse(|c| c.context == context && c.blocking, Code::STREAM_CAPTURE_IMPLICIT)
}

/// The same of a question that ends no capture.
pub(crate) fn ask_legacy(context: Handle) -> Result {
    let is_captured = ACTIVE.lock().iter().any(|c| c.context == context && c.blocking);
    if is_captured { Err(Code::STREAM_CAPTURE_IMPLICIT) } else { Ok(()) }
}

/// Refuses to wait for a context in which a stream captures.
pub(crate) fn check_context(context: Handle) -> Result {
    if COUNT.load(Ordering::Acquire) == 0 {
        return Ok(());
    }
    refuse(|c| c.context == context, Code::STREAM_CAPTURE_IMPLICIT)
}

fn refuse(disturbed: impl Fn(&&Arc<Capture>) -> bool, code: Code) -> Result {
    let active = ACTIVE.lock();
    let mut refused = Ok(());
    for capture in active.iter().filter(disturbed) {
        capture.invalid.store(true, Ordering::Release);
        refused = Err(code);
    }
    refused
}

impl Capture {
    pub(crate) fn check(&self) -> Result {
        if self.invalid.load(Ordering::Acquire) { Err(Code::STREAM_CAPTURE_INVALIDATED) } else { Ok(()) }
    }

    pub(crate) fn invalidate(&self) {
        self.invalid.store(true, Ordering::Release);
    }

    /// Notes that a stream has a part in it from now on.
    pub(crate) fn has(&self, stream: &Arc<Stream>) {
        self.streams.lock().push(Arc::downgrade(stream));
    }

    fn release_streams(self: &Arc<Self>) {
        let streams: Vec<_> = self.streams.lock().drain(..).filter_map(|stream| stream.upgrade()).collect();
        for stream in streams {
            stream.part.lock().take_if(|part| Arc::ptr_eq(&part.capture, self));
        }
    }

    pub(crate) fn graph(&self) -> Result<Arc<Graph>> {
        find(self.graph)
    }
}

/// Begins, into a new graph or a given one after some of its nodes.
pub(crate) fn begin(stream: &Arc<Stream>, mode: u32, into: Option<(Handle, Vec<Handle>)>) -> Result {
    static IDS: AtomicU64 = AtomicU64::new(1);
    if mode > RELAXED {
        return Err(Code::INVALID_VALUE);
    }
    if stream.lane == Lane::Legacy {
        return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
    }
    let given = into.is_some();
    let (graph, tail) = match into {
        Some((graph, tail)) => {
            find(graph)?;
            (graph, tail)
        }
        None => (graph::create(), Vec::new()),
    };
    let capture = Arc::new(Capture {
        id: IDS.fetch_add(1, Ordering::Relaxed),
        graph,
        mode,
        thread: std::thread::current().id(),
        origin: handle_of(stream),
        blocking: stream.blocking(),
        context: stream.context_handle,
        given,
        invalid: AtomicBool::new(false),
        streams: Mutex::new(vec![Arc::downgrade(stream)]),
    });
    let mut part = stream.part.lock();
    if part.is_some() {
        return Err(Code::ILLEGAL_STATE);
    }
    *part = Some(Part { capture: capture.clone(), tail: Arc::new(tail) });
    drop(part);
    ACTIVE.lock().push(capture);
    COUNT.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// Ends, and gives the graph.
pub(crate) fn end(stream: &Arc<Stream>) -> Result<Handle> {
    let Some(part) = stream.part.lock().clone() else { return Err(Code::ILLEGAL_STATE) };
    let capture = part.capture;
    if capture.origin != handle_of(stream) {
        return Err(Code::STREAM_CAPTURE_UNMATCHED);
    }
    if capture.mode != RELAXED && capture.thread != std::thread::current().id() {
        return Err(Code::STREAM_CAPTURE_WRONG_THREAD);
    }
    stream.context()?;
    capture.release_streams();
    ACTIVE.lock().retain(|c| !Arc::ptr_eq(c, &capture));
    COUNT.fetch_sub(1, Ordering::AcqRel);
    let outcome = capture.check().and_then(|()| joined(&*capture.graph()?, &part.tail));
    if let Err(code) = outcome {
        if !capture.given {
            graph::discard(capture.graph);
        }
        return Err(code);
    }
    Ok(capture.graph)
}

/// Whether nothing captured was left behind on another stream.
fn joined(graph: &Graph, tail: &[Handle]) -> Result {
    let edges = graph.edges();
    let leaf = |node: &Handle| !edges.iter().any(|(from, _)| from == node);
    let left = graph.nodes().iter().map(handle_of).filter(leaf).any(|node| !tail.contains(&node));
    if left { Err(Code::STREAM_CAPTURE_UNJOINED) } else { Ok(()) }
}

impl Part {
    /// Adds a node at the stream's tail.
    pub(crate) fn add(&mut self, kind: Kind) -> Result {
        self.capture.check()?;
        let node = self.capture.graph()?.add(self.capture.graph, kind, self.tail.to_vec())?;
        self.tail = Arc::new(vec![node]);
        Ok(())
    }

    /// Makes the stream's next node come after these too.
    pub(crate) fn join(&mut self, others: &[Handle]) {
        let mut tail = self.tail.to_vec();
        tail.extend(others.iter().filter(|o| !self.tail.contains(o)));
        self.tail = Arc::new(tail);
    }
}
