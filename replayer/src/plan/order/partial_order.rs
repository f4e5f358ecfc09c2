//! The partial order of a trace, as a plan and as a gate.
//!
//! X precedes Y if X returned before Y was entered; calls that overlap are unordered. The calls that precede
//! Y are therefore a prefix of all calls sorted by their returns, and one number gives its length: Y may
//! start when the first `after` returns of the recording have happened again. Calls that overlapped are never
//! made to wait for each other, with one exception: a destroy counts from its entry and a creation until its
//! return, so that a creation which got the value of an object being destroyed at the same time waits for
//! that destroy (an edge).
//!
//! No wait lasts for ever, whatever stamps and handles a damaged trace holds. Every call has one key, a time
//! within the call with its number behind it, and each of the three reasons to wait leads to a lesser key:
//! * the calls of a thread follow each other (a call's end is cut to the next one's beginning), so keys rise
//!   on a lane;
//! * X.end < Y.begin puts the whole of X before the whole of Y;
//! * an edge is taken only if it leads to a lesser key. A destroy that others wait for has its beginning for
//!   a key, any other call its end, so every edge is taken that the recorded program can have seen: a destroy
//!   that began before the creation returned.
//!
//! The same holds for the lanes that are not begun yet: a lane is begun when what precedes its first call is
//! done, and all of that has lesser keys than the first call's beginning, hence lies on lanes that are begun.

use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use trace::model::change::Moment;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub call: u64,
    /// How many returns must have happened before this call starts.
    pub after: u64,
    /// Position of this call's own return among all returns.
    pub rank: u64,
}

/// A destroy that a creation waits for. It may have begun later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    pub call: u64,
    pub rank: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Order {
    /// One lane a recorded thread, in the order of their first calls.
    pub lanes: Vec<Lane>,
    /// Call to the overlapping destroys that it waits for.
    pub edges: HashMap<u64, Vec<Edge>>,
    pub calls: u64,
    /// When the calls returned, in that order; empty if nobody asks.
    pub ends: Vec<u64>,
}

#[derive(Debug)]
pub(crate) struct Lane {
    pub thread: u32,
    pub steps: Vec<Step>,
}

impl Order {
    /// `moments` by entry time, as [`trace::Trace::calls`] gives them; only calls that returned. `edges` are
    /// pairs of call numbers: a later call and the overlapping destroy that it waits for.
    pub(crate) fn new(moments: &[Moment], edges: &[(u64, u64)]) -> Order {
        let moments = &one_after_the_other(moments);
        let mut ends: Vec<(u64, usize)> = moments.iter().enumerate().map(|(at, m)| (m.end, at)).collect();
        ends.sort_unstable();
        let mut ranks = vec![0; moments.len()];
        for (rank, (_, at)) in ends.iter().enumerate() {
            ranks[*at] = rank as u64;
        }
        let mut order = Order { calls: moments.len() as u64, ..Order::default() };
        let mut lane_of = HashMap::new();
        let mut after = 0;
        for (at, moment) in moments.iter().enumerate() {
            while ends.get(after).is_some_and(|(end, _)| *end < moment.begin) {
                after += 1;
            }
            let lane = *lane_of.entry(moment.thread).or_insert_with(|| {
                order.lanes.push(Lane { thread: moment.thread, steps: Vec::new() });
                order.lanes.len() - 1
            });
            order.lanes[lane].steps.push(Step { call: moment.call, after: after as u64, rank: ranks[at] });
        }
        order.add_edges(edges, moments, &ranks);
        order
    }

    pub(crate) fn ends(moments: &[Moment]) -> Vec<u64> {
        let mut ends: Vec<u64> = one_after_the_other(moments).iter().map(|moment| moment.end).collect();
        ends.sort_unstable();
        ends
    }

    /// Takes the edges that lead to a lesser key.
    fn add_edges(&mut self, edges: &[(u64, u64)], moments: &[Moment], ranks: &[u64]) {
        let destroys: HashSet<u64> = edges.iter().map(|(_, earlier)| *earlier).collect();
        let find = |call| moments.binary_search_by_key(&call, |moment: &Moment| moment.call).ok();
        let key = |at: usize| {
            let moment = &moments[at];
            (if destroys.contains(&moment.call) { moment.begin } else { moment.end }, moment.call)
        };
        for (later, earlier) in edges {
            let (Some(at), Some(before)) = (find(*later), find(*earlier)) else { continue };
            if key(before) < key(at) {
                let edge = Edge { call: *earlier, rank: ranks[before] };
                self.edges.entry(*later).or_default().push(edge);
            }
        }
    }
}

/// The calls of a thread follow each other; a stamp that says otherwise is damaged.
fn one_after_the_other(moments: &[Moment]) -> Vec<Moment> {
    let mut next = HashMap::new();
    let mut all = moments.to_vec();
    for moment in all.iter_mut().rev() {
        let before = next.insert(moment.thread, moment.begin).unwrap_or(u64::MAX);
        moment.end = moment.end.min(before).max(moment.begin);
    }
    all
}

/// Starts calls in the recorded partial order.
pub(crate) struct Gate {
    /// One bit a return, by rank.
    done: Vec<AtomicU64>,
    /// All returns below this have happened.
    reached: AtomicU64,
    /// The least number that anybody waits for.
    wanted: AtomicU64,
    waiting: Mutex<BTreeMap<(u64, u64), Arc<Sleeper>>>,
    tickets: AtomicU64,
    aborted: AtomicBool,
}

#[derive(Default)]
struct Sleeper {
    awake: Mutex<bool>,
    changed: Condvar,
}

/// Another worker failed, so the wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Aborted;

impl Gate {
    pub(crate) fn new(calls: u64) -> Gate {
        Gate {
            done: (0..calls.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            reached: AtomicU64::new(0),
            wanted: AtomicU64::new(u64::MAX),
            waiting: Mutex::default(),
            tickets: AtomicU64::new(0),
            aborted: AtomicBool::new(false),
        }
    }

    pub(crate) fn reached(&self) -> u64 {
        self.reached.load(SeqCst)
    }

    /// Returns when the first `after` returns have happened.
    pub(crate) fn wait(&self, after: u64) -> Result<(), Aborted> {
        if self.reached() >= after {
            return Ok(());
        }
        let sleeper = Arc::new(Sleeper::default());
        {
            let mut waiting = self.waiting.lock();
            waiting.insert((after, self.tickets.fetch_add(1, SeqCst)), sleeper.clone());
            self.publish(&waiting);
        }
        // Whoever got there between the look above and the entry in the list has not seen it.
        self.wake();
        let mut awake = sleeper.awake.lock();
        while !*awake {
            sleeper.changed.wait(&mut awake);
        }
        if self.aborted.load(SeqCst) { Err(Aborted) } else { Ok(()) }
    }

    /// Returns when the call of this step may start. No call from `end` on is made.
    pub(crate) fn start(&self, order: &Order, step: &Step, end: u64) -> Result<(), Aborted> {
        self.wait(step.after)?;
        let edges = order.edges.get(&step.call).into_iter().flatten();
        edges.filter(|edge| edge.call < end).try_for_each(|edge| self.wait_for(edge.rank))
    }

    /// Returns when this one return has happened. Rare: for [`Order::edges`] alone.
    pub(crate) fn wait_for(&self, rank: u64) -> Result<(), Aborted> {
        while !self.is_done(rank) {
            if self.aborted.load(SeqCst) {
                return Err(Aborted);
            }
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
        Ok(())
    }

    pub(crate) fn finish(&self, rank: u64) {
        self.done[rank as usize / 64].fetch_or(1 << (rank % 64), SeqCst);
        // Of two that finish at once at least one sees the other's bit, so none is left behind.
        let mut reached = self.reached();
        while (reached as usize) < self.done.len() * 64 && self.is_done(reached) {
            match self.reached.compare_exchange(reached, reached + 1, SeqCst, SeqCst) {
                Ok(_) => reached += 1,
                Err(now) => reached = now,
            }
        }
        if reached >= self.wanted.load(SeqCst) {
            self.wake();
        }
    }

    /// Ends all waiting.
    pub(crate) fn abort(&self) {
        self.aborted.store(true, SeqCst);
        self.wake();
    }

    fn is_done(&self, rank: u64) -> bool {
        self.done[rank as usize / 64].load(SeqCst) & (1 << (rank % 64)) != 0
    }

    fn wake(&self) {
        let mut waiting = self.waiting.lock();
        while let Some((&(after, _), _)) = waiting.first_key_value() {
            if after > self.reached() && !self.aborted.load(SeqCst) {
                break;
            }
            let (_, sleeper) = waiting.pop_first().expect("looked at above");
            *sleeper.awake.lock() = true;
            sleeper.changed.notify_one();
        }
        self.publish(&waiting);
    }

    fn publish(&self, waiting: &BTreeMap<(u64, u64), Arc<Sleeper>>) {
        self.wanted.store(waiting.first_key_value().map_or(u64::MAX, |((after, _), _)| *after), SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Threads of calls, each a gap and a duration; returned by entry time as a trace gives them.
    fn moments() -> impl Strategy<Value = Vec<Moment>> {
        let thread = prop::collection::vec((0u64..20, 0u64..30), 1..12);
        prop::collection::vec(thread, 1..5).prop_map(|threads| {
            let mut all = Vec::new();
            for (thread, calls) in threads.iter().enumerate() {
                let mut now = 0;
                for (gap, duration) in calls {
                    let begin = now + gap;
                    now = begin + duration;
                    all.push(Moment { call: 0, thread: thread as u32, begin, end: now });
                    now += 1;
                }
            }
            all.sort_by_key(|m| (m.begin, m.thread));
            for (number, moment) in all.iter_mut().enumerate() {
                moment.call = number as u64;
            }
            all
        })
    }

    proptest! {
        /// What a call waits for is exactly what had returned when it was entered.
        #[test]
        fn a_prefix_is_the_whole_past(moments in moments()) {
            let order = Order::new(&moments, &[]);
            let steps: HashMap<u64, Step> =
                order.lanes.iter().flat_map(|lane| &lane.steps).map(|step| (step.call, *step)).collect();
            for later in &moments {
                for earlier in &moments {
                    let waits = steps[&earlier.call].rank < steps[&later.call].after;
                    prop_assert_eq!(waits, earlier.end < later.begin);
                }
            }
        }

        /// Workers under the gate start nothing too early, and come to an end.
        #[test]
        fn workers_keep_the_order(moments in moments()) {
            let order = Order::new(&moments, &[]);
            let ran = perform(&order, u64::MAX);
            for later in &moments {
                for earlier in moments.iter().filter(|earlier| earlier.end < later.begin) {
                    prop_assert!(ran[&earlier.call].1 < ran[&later.call].0);
                }
            }
        }

        /// Whatever ends the stamps name and whatever calls the handles tie together.
        #[test]
        fn no_wait_is_for_ever(
            moments in moments(),
            ends in prop::collection::vec((any::<prop::sample::Index>(), 0u64..400), 0..6),
            edges in prop::collection::vec(any::<[prop::sample::Index; 2]>(), 0..12),
            end in any::<prop::sample::Index>(),
        ) {
            let mut moments = moments;
            for (which, end) in ends {
                let at = which.index(moments.len());
                moments[at].end = end;
            }
            let pick = |which: prop::sample::Index| which.index(moments.len()) as u64;
            let pair = |[later, earlier]: [prop::sample::Index; 2]| (pick(later), pick(earlier));
            let edges: Vec<(u64, u64)> = edges.into_iter().map(pair).collect();
            let order = Order::new(&moments, &edges);
            perform(&order, u64::MAX);
            // Nor where the replay stops on the way.
            perform(&order, end.index(moments.len()) as u64);
        }

        /// An edge from a creation to a destroy that had begun before it returned is never given up.
        #[test]
        fn true_edges_are_taken(moments in moments()) {
            let is_destroy = |moment: &Moment| moment.call.is_multiple_of(2);
            let overlap = |a: &Moment, b: &Moment| a.thread != b.thread && a.begin < b.end && b.begin < a.end;
            let mut edges = Vec::new();
            for later in moments.iter().filter(|moment| !is_destroy(moment)) {
                let destroys = moments.iter().filter(|earlier| is_destroy(earlier) && overlap(earlier, later));
                edges.extend(destroys.map(|earlier| (later.call, earlier.call)));
            }
            let order = Order::new(&moments, &edges);
            prop_assert_eq!(order.edges.values().map(Vec::len).sum::<usize>(), edges.len());
            let ran = perform(&order, u64::MAX);
            for (later, earlier) in edges {
                prop_assert!(ran[&earlier].1 < ran[&later].0);
            }
        }
    }

    /// Runs the steps below the end as the replay does: when each call began and ended. Panics if a call
    /// waits for ever.
    fn perform(order: &Order, end: u64) -> HashMap<u64, (u64, u64)> {
        let gate = Gate::new(order.calls);
        let clock = AtomicU64::new(0);
        let ran = Mutex::new(HashMap::new());
        std::thread::scope(|scope| {
            let mut workers = Vec::new();
            for lane in &order.lanes {
                if lane.steps[0].call >= end {
                    continue;
                }
                if gate.wait(lane.steps[0].after).is_err() {
                    break;
                }
                let (gate, clock, ran) = (&gate, &clock, &ran);
                workers.push(scope.spawn(move || {
                    for step in lane.steps.iter().take_while(|step| step.call < end) {
                        gate.start(order, step, end)?;
                        let begin = clock.fetch_add(1, SeqCst);
                        std::thread::yield_now();
                        ran.lock().insert(step.call, (begin, clock.fetch_add(1, SeqCst)));
                        gate.finish(step.rank);
                    }
                    Ok::<(), Aborted>(())
                }));
            }
            let give_up = std::time::Instant::now() + std::time::Duration::from_secs(20);
            while workers.iter().any(|worker| !worker.is_finished()) {
                if std::time::Instant::now() > give_up {
                    gate.abort();
                }
                std::thread::yield_now();
            }
        });
        let ran = ran.into_inner();
        assert_eq!(ran.len() as u64, end.min(order.calls), "calls wait for ever");
        ran
    }

    #[test]
    fn calls_in_flight_together_may_wait_for_each_other() {
        // Two calls overlap; the one that began later must be able to return while the other is still inside.
        let moments = [
            Moment { call: 0, thread: 0, begin: 0, end: 100 },
            Moment { call: 1, thread: 1, begin: 50, end: 60 },
            Moment { call: 2, thread: 1, begin: 70, end: 80 },
        ];
        let order = Order::new(&moments, &[]);
        assert_eq!(order.lanes[1].steps.iter().map(|s| s.after).collect::<Vec<_>>(), [0, 1]);
        let gate = Gate::new(3);
        gate.finish(order.lanes[1].steps[0].rank);
        assert_eq!(gate.wait(order.lanes[1].steps[1].after), Ok(()));
    }

    #[test]
    fn an_abort_frees_everybody() {
        let gate = Gate::new(2);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| (gate.wait(2), gate.wait_for(1)));
            std::thread::sleep(std::time::Duration::from_millis(5));
            gate.abort();
            assert_eq!(waits.join().unwrap(), (Err(Aborted), Err(Aborted)));
        });
    }
}
