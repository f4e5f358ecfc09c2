//! Graphs with collectives whose results are to be kept. Each executable one has a clone that also copies
//! those results to the recorder's pinned memory, and the clone is launched in its place. The application's
//! graph stays unchanged, and queries about it return what was captured.

use crate::driver::calls;
use crate::os::lock::Lock;
use crate::readback::readback_pool::Room;
use crate::readback::readback_queue::{Deliveries, Readback};
use crate::trace_file::recorder_parts::Surroundings;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};

/// A captured collective with results.
#[derive(Clone)]
pub(crate) struct Collective {
    /// The node of its kernel.
    pub node: u64,
    pub operation: u64,
    pub address: u64,
    pub len: u64,
}

/// An executable graph with collectives.
pub(crate) struct Executable {
    pub collectives: Vec<Collective>,
    /// Why there is none: then what they deliver is lost.
    pub clone: Result<CloneOfGraph, String>,
    /// Its copies are told where to, and it is launched: by one thread at a time.
    pub is_launched: AtomicBool,
}

impl Executable {
    /// So long may another thread take to launch it; a launch that waits for the device takes longer than
    /// most.
    const PATIENCE: Duration = Duration::from_secs(5);

    /// Of which nothing is kept.
    pub(crate) fn lost(collectives: Vec<Collective>, why: String) -> Executable {
        Executable { collectives, clone: Err(why), is_launched: AtomicBool::new(false) }
    }

    /// Only one thread at a time: false if it is not this one's turn in time.
    pub(crate) fn begins_launch(&self) -> bool {
        let since = Instant::now();
        while self.is_launched.swap(true, Acquire) {
            if since.elapsed() > Self::PATIENCE {
                return false;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        true
    }
}

/// The driver's handles of a clone, destroyed with it.
pub(crate) struct CloneOfGraph {
    pub graph: u64,
    /// 0 while it is being made.
    pub executable: u64,
    /// A node for each collective, and the context in which they were made.
    pub copies: Vec<u64>,
    pub context: u64,
    pub device: Option<u64>,
}

impl Drop for CloneOfGraph {
    fn drop(&mut self) {
        // SAFETY: both are the recorder's own, and nobody else has them. What was launched runs to its end.
        unsafe {
            if self.executable != 0 {
                calls::destroy_executable(self.executable);
            }
            calls::destroy_graph(self.graph);
        }
    }
}

/// A launch of a clone that has not returned.
pub(crate) struct Launching {
    pub deliveries: &'static Deliveries,
    pub around: &'static Surroundings,
    pub executable: Arc<Executable>,
    pub room: Room,
    pub kept: Vec<Readback>,
    pub stream: u64,
}

/// The object that a call ends, saved before it: the handle may be another's when the call returns.
pub(crate) enum Ended {
    Executable(u64, Arc<Executable>),
    Graph(u64, Captured),
}

#[derive(Default)]
pub(crate) struct CollectiveGraphs {
    is_any: AtomicBool,
    all: Lock<All>,
}

#[derive(Default)]
struct All {
    graphs: HashMap<u64, Captured>,
    executable: HashMap<u64, Arc<Executable>>,
}

/// The collectives of a graph.
#[derive(Default)]
pub(crate) struct Captured {
    collectives: Vec<Collective>,
    /// The capture has ended, and the graph is there: that of one that failed is not, and nobody tells of it.
    is_whole: bool,
}

impl CollectiveGraphs {
    /// Whether any collective was captured, or an executable graph changed.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.is_any.load(Relaxed)
    }

    pub(crate) fn captured(&self, graph: u64, collective: Collective) {
        self.all.lock().graphs.entry(graph).or_default().collectives.push(collective);
        self.is_any.store(true, Release);
    }

    /// A capture has ended: with this graph, or without one.
    pub(crate) fn capture_ended(&self, graph: Option<u64>) {
        let mut all = self.all.lock();
        match graph {
            Some(graph) => all.graphs.get_mut(&graph).into_iter().for_each(|captured| captured.is_whole = true),
            None => all.graphs.retain(|_, captured| captured.is_whole),
        }
    }

    pub(crate) fn node_destroyed(&self, node: u64) {
        let mut all = self.all.lock();
        all.graphs.values_mut().for_each(|captured| captured.collectives.retain(|one| one.node != node));
    }

    pub(crate) fn collectives_of(&self, graph: u64) -> Vec<Collective> {
        let all = self.all.lock();
        let captured = all.graphs.get(&graph).filter(|captured| captured.is_whole);
        captured.map(|captured| captured.collectives.clone()).unwrap_or_default()
    }

    pub(crate) fn executable(&self, executable: u64) -> Option<Arc<Executable>> {
        self.all.lock().executable.get(&executable).cloned()
    }

    /// What is known of an executable graph from now on. What was known before is handed out: it may end
    /// only where no lock is held.
    pub(crate) fn set(&self, executable: u64, known: Executable) -> Option<Arc<Executable>> {
        self.is_any.store(true, Release);
        self.all.lock().executable.insert(executable, Arc::new(known))
    }

    pub(crate) fn take(&self, executable: u64) -> Option<Arc<Executable>> {
        self.all.lock().executable.remove(&executable)
    }

    pub(crate) fn take_graph(&self, graph: u64) -> Option<Captured> {
        self.all.lock().graphs.remove(&graph)
    }

    /// It was not ended after all.
    pub(crate) fn put_back(&self, ended: Ended) {
        let mut all = self.all.lock();
        match ended {
            Ended::Executable(executable, known) => _ = all.executable.entry(executable).or_insert(known),
            Ended::Graph(graph, captured) => _ = all.graphs.entry(graph).or_insert(captured),
        }
    }

    /// Those whose clones are of such a context, which has ended with them: they are not ended once more,
    /// which the driver does not survive.
    pub(crate) fn context_ended(&self, is_gone: impl Fn(&CloneOfGraph) -> bool) {
        let gone = |known: &Arc<Executable>| known.clone.as_ref().is_ok_and(&is_gone);
        self.all.lock().executable.extract_if(|_, known| gone(known)).for_each(|(_, known)| std::mem::forget(known));
    }
}
