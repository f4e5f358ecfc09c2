//! To which launch of a graph the run of a node's callback belongs: what stood before that launch has finished when the callback
//! begins, and what stands behind it has not begun.
//!
//! A graph that is launched again waits for itself, so that runs come in the order of the launches. Of callbacks that several
//! executable graphs run, or that may run more than once, nothing is known.

use crate::landing::Landing;
use crate::lock::Lock;
use crate::queue::Queue;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use trace::api::copies::Region;

/// More launches than this whose runs have not come: they never will.
const MOST: usize = 4096;

/// When a callback is run: by its stream, or by a launch of its graph.
#[derive(Clone)]
pub struct Turn {
    pub queue: Queue,
    /// Work that stands before it has a lesser position, its graph's own lies between the two, and what stands behind it follows.
    pub before: u64,
    pub behind: u64,
    /// The call: thread index and call number.
    pub by: (u32, u32),
    pub around: Arc<Around>,
    /// The callback had begun at this position, if it has.
    pub begun: Option<u64>,
}

/// What other nodes of its graph write before a callback begins, and when it has ended. Of what is in neither no order is settled.
#[derive(Default)]
pub struct Around {
    pub before: Vec<Region>,
    pub after: Vec<Region>,
}

impl Turn {
    pub fn is_of_graph(&self) -> bool {
        self.before != self.behind
    }

    /// Whether what its graph brings there it has brought before the callback begins, or brings when that has ended.
    pub fn settles(&self, landing: Landing) -> bool {
        self.around.before.iter().chain(&self.around.after).any(|region| landing.is_at(region))
    }
}

#[derive(Default)]
pub struct NodeRuns {
    state: Lock<State>,
}

/// Callbacks by the data that the driver was given with them.
#[derive(Default)]
struct State {
    /// By executable graph.
    callbacks: HashMap<u64, Vec<(u64, Arc<Around>)>>,
    /// Those that several executable graphs were seen to run.
    shared: HashSet<u64>,
    /// Those whose runs have not begun.
    launches: HashMap<u64, VecDeque<Turn>>,
}

impl NodeRuns {
    /// An executable graph was made, or became another, that runs these callbacks.
    pub fn instantiated(&self, executable: u64, callbacks: Vec<(u64, Around)>) {
        self.ends(executable);
        if callbacks.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        let State { callbacks: known, shared, .. } = &mut *state;
        let known_ones: HashSet<u64> = known.values().flatten().map(|(callback, _)| *callback).collect();
        shared.extend(callbacks.iter().map(|(callback, _)| *callback).filter(|callback| known_ones.contains(callback)));
        known.insert(executable, callbacks.into_iter().map(|(callback, around)| (callback, around.into())).collect());
    }

    /// It is gone, or runs others now, of which nothing is known.
    pub fn ends(&self, executable: u64) {
        let mut state = self.state.lock();
        for (callback, _) in state.callbacks.remove(&executable).unwrap_or_default() {
            // Runs of its last launches may be to come, with or without being known.
            if state.launches.get(&callback).is_some_and(|launches| !launches.is_empty()) {
                state.shared.insert(callback);
            }
        }
    }

    pub fn has(&self, executable: u64) -> bool {
        self.state.lock().callbacks.contains_key(&executable)
    }

    pub fn launched(&self, executable: u64, launch: Turn) {
        let mut state = self.state.lock();
        let State { callbacks, launches, shared } = &mut *state;
        for (callback, around) in callbacks.get(&executable).into_iter().flatten() {
            let known = launches.entry(*callback).or_default();
            if known.len() >= MOST {
                known.clear();
                shared.insert(*callback);
            }
            known.push_back(Turn { around: around.clone(), ..launch.clone() });
        }
    }

    /// The driver has refused the launch.
    pub fn refused(&self, by: (u32, u32)) {
        let mut state = self.state.lock();
        state.launches.values_mut().for_each(|launches| launches.retain(|launch| launch.by != by));
    }

    /// The launch of which a run begins.
    pub fn begins(&self, callback: u64) -> Option<Turn> {
        let mut state = self.state.lock();
        let launches = state.launches.get_mut(&callback)?;
        let launch = launches.pop_front();
        if launches.is_empty() {
            state.launches.remove(&callback);
        }
        launch.filter(|_| !state.shared.contains(&callback))
    }
}
