//! The launch of a graph to which a run of a node's callback belongs: work before that launch has completed
//! when the callback begins, and work after it has not begun.
//!
//! A repeated launch of a graph waits for the previous one, so runs come in the order of the launches. If
//! several executable graphs run the same callback, their runs come in that order on one stream; otherwise
//! nothing is known until all of them have come.

use crate::driver::queue::Queue;
use crate::in_flight::landing_range::Landing;
use crate::os::lock::Lock;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use trace::api::copies::Region;

/// More launches than this whose runs have not come: they never will.
const MOST: usize = 4096;

/// The origin of a callback's run: its stream, or a launch of its graph.
#[derive(Clone)]
pub(crate) struct Turn {
    pub queue: Queue,
    /// Work that stands before it has a lesser position, its graph's own lies between the two, and what
    /// stands behind it follows.
    pub before: u64,
    pub behind: u64,
    /// The call: thread index and call number.
    pub by: (u32, u32),
    pub around: Arc<NeighbourWrites>,
    /// The callback had begun at this position, if it has.
    pub begun: Option<u64>,
}

/// Writes of other nodes of its graph before a callback begins, and after it has ended. All others have no
/// known order.
#[derive(Default)]
pub(crate) struct NeighbourWrites {
    pub before: Vec<Region>,
    pub after: Vec<Region>,
    /// Of `before` what is copied from the device, and stands there when the callback begins whatever other
    /// nodes do beside it.
    pub results: Vec<Region>,
}

impl Turn {
    pub(crate) fn is_of_graph(&self) -> bool {
        self.before != self.behind
    }

    /// Whether what its graph brings there it has brought before the callback begins, or brings when that has
    /// ended.
    pub(crate) fn settles(&self, landing: Landing) -> bool {
        self.around.before.iter().chain(&self.around.after).any(|region| landing.is_at(region))
    }
}

#[derive(Default)]
pub(crate) struct NodeRuns {
    state: Lock<State>,
}

/// Callbacks by the data that the driver was given with them.
#[derive(Default)]
struct State {
    /// By executable graph.
    callbacks: HashMap<u64, Vec<(u64, Arc<NeighbourWrites>)>>,
    /// Those of which it is not known any more how many runs are to come.
    lost: HashSet<u64>,
    launches: HashMap<u64, Launches>,
}

/// Launches of which a callback's runs have not begun.
#[derive(Default)]
struct Launches {
    /// Each with its executable graph.
    turns: VecDeque<(u64, Turn)>,
    /// Their runs may come in another order.
    are_unordered: bool,
}

impl Launches {
    fn push(&mut self, executable: u64, turn: Turn) {
        let is_ordered =
            |(other, last): &(u64, Turn)| *other == executable || (last.queue, last.by.0) == (turn.queue, turn.by.0);
        self.are_unordered |= !self.turns.back().is_none_or(is_ordered);
        self.turns.push_back((executable, turn));
    }
}

impl NodeRuns {
    /// An executable graph was made, or became another, that runs these callbacks.
    pub(crate) fn instantiated(&self, executable: u64, callbacks: Vec<(u64, NeighbourWrites)>) {
        self.ends(executable);
        if callbacks.is_empty() {
            return;
        }
        let callbacks = callbacks.into_iter().map(|(callback, around)| (callback, around.into())).collect();
        self.state.lock().callbacks.insert(executable, callbacks);
    }

    /// It is gone, or runs others now, of which nothing is known.
    pub(crate) fn ends(&self, executable: u64) {
        let mut state = self.state.lock();
        let State { callbacks, launches, lost } = &mut *state;
        let all = callbacks.remove(&executable).unwrap_or_default();
        let is_to_come = |callback: &u64| {
            launches.get(callback).is_some_and(|known| known.turns.iter().any(|(of, _)| *of == executable))
        };
        // Runs of its last launches may be to come, with or without being known; what they change then the
        // others find, which may have begun.
        if all.iter().any(|(callback, _)| is_to_come(callback)) {
            lost.extend(all.into_iter().map(|(callback, _)| callback));
        }
    }

    pub(crate) fn has(&self, executable: u64) -> bool {
        self.state.lock().callbacks.contains_key(&executable)
    }

    pub(crate) fn launched(&self, executable: u64, launch: Turn) {
        let mut state = self.state.lock();
        let State { callbacks, launches, lost } = &mut *state;
        for (callback, around) in callbacks.get(&executable).into_iter().flatten() {
            let known = launches.entry(*callback).or_default();
            if known.turns.len() >= MOST {
                known.turns.clear();
                lost.insert(*callback);
            }
            known.push(executable, Turn { around: around.clone(), ..launch.clone() });
        }
    }

    /// The driver has refused the launch.
    pub(crate) fn refused(&self, by: (u32, u32)) {
        let mut state = self.state.lock();
        state.launches.values_mut().for_each(|launches| launches.turns.retain(|(_, turn)| turn.by != by));
        state.launches.retain(|_, launches| !launches.turns.is_empty());
    }

    /// The launch of which a run begins.
    pub(crate) fn begins(&self, callback: u64) -> Option<Turn> {
        let mut state = self.state.lock();
        let launches = state.launches.get_mut(&callback)?;
        let launch = launches.turns.pop_front().filter(|_| !launches.are_unordered);
        if launches.turns.is_empty() {
            state.launches.remove(&callback);
        }
        launch.map(|(_, turn)| turn).filter(|_| !state.lost.contains(&callback))
    }
}
