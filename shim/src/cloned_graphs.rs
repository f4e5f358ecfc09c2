//! Graphs that hold collectives whose results are to be kept. Of each executable one there is a clone, in
//! which what they deliver is copied to pinned memory of the recorder's own, and which is launched in its
//! place: the application's graph stays as it is, and whoever asks about it is told what was captured.

use crate::deliveries::{Deliveries, Kept};
use crate::driver::calls;
use crate::lock::Lock;
use crate::staging::Room;
use crate::surroundings::Surroundings;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// A collective that was captured, and brings something.
#[derive(Clone)]
pub struct Collective {
    /// The node of its kernel.
    pub node: u64,
    pub operation: u64,
    pub address: u64,
    pub len: u64,
}

/// An executable graph with collectives.
pub struct Executable {
    pub collectives: Vec<Collective>,
    /// Why there is none: then what they deliver is lost.
    pub clone: Result<CloneOfGraph, String>,
    /// Its copies are told where to, and it is launched: by one thread at a time.
    pub is_launched: AtomicBool,
}

/// The driver's handles; ended with it.
pub struct CloneOfGraph {
    pub graph: u64,
    /// 0 while it is being made.
    pub executable: u64,
    /// A node for each collective, and the context in which they were made.
    pub copies: Vec<u64>,
    pub context: u64,
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

/// A launch of a clone under way.
pub struct Launching {
    pub deliveries: &'static Deliveries,
    pub around: &'static Surroundings,
    pub executable: Arc<Executable>,
    pub room: Room,
    pub kept: Vec<Kept>,
    pub stream: u64,
}

#[derive(Default)]
pub struct CollectiveGraphs {
    is_any: AtomicBool,
    all: Lock<All>,
}

#[derive(Default)]
struct All {
    graphs: HashMap<u64, Vec<Collective>>,
    executable: HashMap<u64, Arc<Executable>>,
}

impl CollectiveGraphs {
    /// Whether any collective was captured.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.is_any.load(Relaxed)
    }

    pub fn captured(&self, graph: u64, collective: Collective) {
        self.all.lock().graphs.entry(graph).or_default().push(collective);
        self.is_any.store(true, Release);
    }

    pub fn of(&self, graph: u64) -> Vec<Collective> {
        self.all.lock().graphs.get(&graph).cloned().unwrap_or_default()
    }

    pub fn destroyed(&self, graph: u64) {
        if self.any() {
            self.all.lock().graphs.remove(&graph);
        }
    }

    /// What is known of an executable graph from now on. What was known before is handed out: it may end
    /// only where no lock is held.
    pub fn set(&self, executable: u64, known: Option<Executable>) -> Option<Arc<Executable>> {
        let mut all = self.all.lock();
        match known {
            Some(known) => all.executable.insert(executable, Arc::new(known)),
            None => all.executable.remove(&executable),
        }
    }

    pub fn executable(&self, executable: u64) -> Option<Arc<Executable>> {
        self.all.lock().executable.get(&executable).cloned()
    }
}
