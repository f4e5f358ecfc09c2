//! Launches one at a time: the replay waits for each, whole or node by node, before the next call that
//! launches.
//!
//! It waits for the launch's stream. Other streams may be waiting for a later call: their work gets some
//! time, which shortens with each vain attempt.
//!
//! Attribution needs this: a context reports that its work failed, never which. Every call that launches,
//! changes an executable graph or begins a capture takes a turn, so that a failure in a turn belongs to its
//! work. As with CUDA_LAUNCH_BLOCKING, a launch that waits for a later call never ends. A launch without a
//! recorded end gets as much time as at the end of a replay, and is named.
//!
//! During a capture there is no wait, because no capture survives a wait for its context. Work put on streams
//! then is remembered, and waited for before the next launch.

use crate::diagnose::bisection::Entry;
use crate::diagnose::culprit::{Culprit, Suspect, Symptom};
use crate::diagnose::graph_execs::{self, GraphExecs};
use crate::diagnose::launch_hashes::{self, LaunchHashes, Step};
use crate::diagnose::unroll::Node;
use crate::driver::stream::{ContextWait, Queue, queue_of, stream_of, synchronize, with_context};
use crate::driver::{Failure, id, result, result_name};
use crate::session::Session;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use trace::api::effect::Work;
use trace::api::roles::Class;
use trace::model::outstanding::Left;
use trace::model::stream::StreamHandle;
use trace::{Call, Function};

/// The launches to be hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashedLaunches {
    /// Those before the first difference that a call finds.
    UntilItDiffers,
    /// Those up to this call.
    Until(u64),
}

/// For what is under way on other streams, at first, and how often that may be halved.
const PATIENCE: Duration = Duration::from_secs(1);
const HALVED: u32 = 6;

/// The results of serial launches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SerialReport {
    /// Launches that were waited for, one by one; nodes of graphs are counted apart.
    pub launches: u64,
    /// Launches of graphs that were taken apart, and the nodes that were run for them.
    pub graphs: u64,
    /// Nodes that were run one at a time.
    pub nodes: u64,
    /// Graphs that were launched whole: why, how often, and the first call.
    pub whole: BTreeMap<String, (u64, u64)>,
    /// Launches made while a capture was under way, which were not waited for at once.
    pub not_waited: u64,
}

pub(crate) struct SerialLaunches {
    turn: Mutex<SerialState>,
    followed: Option<HashedLaunches>,
    /// Submissions of which the recording does not tell that they ended, and how long those are waited for.
    left: HashSet<u64>,
    patience: Duration,
    /// At this call something differs from the recording.
    differs_at: AtomicU64,
    is_found: AtomicBool,
    found: Mutex<Option<Culprit>>,
}

#[derive(Default)]
struct SerialState {
    instances: GraphExecs,
    watched: SerialReport,
    /// Work that no wait has covered: where it was put, and its call.
    open: Vec<(Queue, u64)>,
    /// By context: a wait for all of it that has not come to an end yet.
    waiting: HashMap<u64, ContextWait>,
    /// Waits for all of a context that were given up.
    in_vain: u32,
    trail: Option<LaunchHashes>,
}

/// How a wait came to an end, if it did.
enum WaitEnd {
    Well,
    Failed(u32),
    Never,
}

impl WaitEnd {
    /// Of a wait: what tells that work has failed.
    fn from_wait(waited: Result<(), Failure>) -> WaitEnd {
        let code = waited.err().and_then(|failure| failure.code).filter(|code| result::is_sticky(*code));
        code.map_or(WaitEnd::Well, WaitEnd::Failed)
    }
}

impl SerialLaunches {
    /// `followed`: with hashes of what these can have written. `left`: what was under way when the recording
    /// ended, and how long that is waited for.
    pub(crate) fn new(followed: Option<HashedLaunches>, left: Option<(&Left, Duration)>) -> SerialLaunches {
        SerialLaunches {
            left: left.iter().flat_map(|(left, _)| &left.works).flat_map(|work| work.calls.iter().copied()).collect(),
            patience: left.map_or(Duration::MAX, |(_, patience)| patience),
            turn: Mutex::new(SerialState { trail: followed.map(|_| LaunchHashes::new()), ..SerialState::default() }),
            followed,
            differs_at: AtomicU64::new(u64::MAX),
            is_found: AtomicBool::new(false),
            found: Mutex::default(),
        }
    }

    /// Whether a launch has failed: nothing more is to be done.
    pub(crate) fn is_found(&self) -> bool {
        self.is_found.load(Relaxed)
    }

    pub(crate) fn is_followed(&self) -> bool {
        self.followed.is_some()
    }

    pub(crate) fn differs_at(&self, call: u64) {
        self.differs_at.fetch_min(call, Relaxed);
    }

    /// What was loaded into it to hash memory ends with it.
    pub(crate) fn context_ends(&self, context: u64) {
        let mut turn = self.turn.lock();
        turn.open.retain(|(queue, _)| queue.context != context);
        turn.waiting.remove(&context);
        if let Some(trail) = &mut turn.trail {
            trail.context_ends(context);
        }
    }

    fn trail<'t>(&self, turn: &'t mut SerialState, call: &Call) -> Option<&'t mut LaunchHashes> {
        turn.trail.as_mut().filter(|_| call.number <= self.end())
    }

    /// The last call that is followed, for all that is known.
    fn end(&self) -> u64 {
        match self.followed {
            Some(HashedLaunches::Until(call)) => call,
            _ => self.differs_at.load(Relaxed),
        }
    }

    pub(crate) fn into_results(self) -> (SerialReport, Option<Culprit>, Vec<Entry>) {
        let end = self.end();
        let turn = self.turn.into_inner();
        let mut entries = turn.trail.map_or_else(Vec::new, |trail| trail.entries);
        entries.retain(|entry| entry.call <= end);
        (turn.watched, self.found.into_inner(), entries)
    }

    /// Makes a call in the place of [`Driver::call`](crate::driver::Driver::call).
    ///
    /// # Safety
    /// As for [`Driver::call`](crate::driver::Driver::call).
    pub(crate) unsafe fn call(&self, session: &Session, call: &Call, live: &'static Function, words: &[u64]) -> u32 {
        // SAFETY: forwarded from the caller.
        let plain = || unsafe { session.driver.call(id(live), words) };
        match live.class {
            Class::launch => self.launch(session, call, live, words, plain),
            Class::submit => {
                let mut turn = self.turn.lock();
                let result = plain();
                if result == result::SUCCESS {
                    turn.open.push((queue_of(session.driver, call.thread, live, words), call.number));
                }
                result
            }
            _ if graph_execs::concerns(live) => {
                let mut turn = self.turn.lock();
                let result = plain();
                if result == result::SUCCESS {
                    turn.instances.observe(session, live, words);
                }
                result
            }
            _ => plain(),
        }
    }

    fn launch(
        &self,
        session: &Session,
        call: &Call,
        live: &'static Function,
        words: &[u64],
        plain: impl Fn() -> u32,
    ) -> u32 {
        let driver = session.driver;
        let mut turn = self.turn.lock();
        let none = session.placement.captures.none();
        if none.is_none() {
            turn.watched.not_waited += 1;
            turn.open.push((queue_of(driver, call.thread, live, words), call.number));
            return plain();
        }
        let stream = stream_of(live, words);
        let named = StreamHandle::new(live, stream.unwrap_or(0));
        // One on several devices names a stream for each.
        let is_one = live.work() != Some(Work::KernelOnEach);
        let queue = stream.filter(|_| is_one).map(|_| queue_of(driver, call.thread, live, words));
        if !turn.open.is_empty() {
            let is_suspect = |of: &Queue| queue.is_none_or(|queue| queue.context == of.context);
            let suspects = turn.open.iter().filter(|(of, _)| is_suspect(of)).map(|(_, call)| *call).collect();
            if self.is_over(session, &mut turn, call, queue, || Suspect::Earlier(suspects)) {
                return result::SUCCESS;
            }
        }
        if live.launches_graph() {
            let why = match turn.instances.nodes(words[0]) {
                Ok(nodes) => {
                    let put = |node: &Node| node.work.launch(session, named);
                    match self.node_by_node(session, call, queue, &mut turn, &nodes, put) {
                        Ok(result) => return result,
                        Err(why) => why,
                    }
                }
                Err(why) => why,
            };
            return self.whole(session, call, queue, &mut turn, why, plain);
        }
        let step = self.trail(&mut turn, call).map(|trail| {
            let kernel = trace::show::launch::kernel(call).unwrap_or(call.name());
            trail.before_launch(session, call, None, kernel.to_owned(), launch_hashes::words(call))
        });
        let result = plain();
        if result == result::SUCCESS {
            turn.watched.launches += 1;
            if !self.is_over(session, &mut turn, call, queue, || Suspect::Launch) {
                turn.waited(session, step);
            }
        }
        result
    }

    /// The result of the launch; an error if not even the first node runs by itself.
    fn node_by_node(
        &self,
        session: &Session,
        call: &Call,
        queue: Option<Queue>,
        turn: &mut SerialState,
        nodes: &[Node],
        put: impl Fn(&Node) -> u32,
    ) -> Result<u32, String> {
        let enabled = nodes.iter().enumerate().filter(|(_, node)| node.enabled);
        for (ran, (index, node)) in enabled.enumerate() {
            let step = self.trail(turn, call).map(|trail| {
                let (kernel, words) = (node.work.name(session), Some(node.work.words()));
                trail.before_launch(session, call, Some(index as u64), kernel, words)
            });
            match put(node) {
                result::SUCCESS => {}
                result if ran == 0 => return Err(format!("its first node returns {} on its own", result_name(result))),
                result => return Ok(result),
            }
            turn.watched.nodes += 1;
            let suspect = || Suspect::Node { index, of: nodes.len(), work: &node.work };
            if self.is_over(session, turn, call, queue, suspect) {
                break;
            }
            turn.waited(session, step);
        }
        turn.watched.graphs += 1;
        Ok(result::SUCCESS)
    }

    /// Launches a graph that cannot be taken apart.
    fn whole(
        &self,
        session: &Session,
        call: &Call,
        queue: Option<Queue>,
        turn: &mut SerialState,
        why: String,
        plain: impl Fn() -> u32,
    ) -> u32 {
        turn.watched.whole.entry(why.clone()).or_insert((0, call.number)).0 += 1;
        let step =
            self.trail(turn, call).map(|trail| trail.before_launch(session, call, None, "(a graph)".into(), None));
        let result = plain();
        if result == result::SUCCESS && !self.is_over(session, turn, call, queue, || Suspect::Graph(why)) {
            turn.waited(session, step);
        }
        result
    }

    /// Waits for a launch, or for what was before it: whether that failed or does not end, for which the
    /// suspect is accused.
    fn is_over<'a>(
        &self,
        session: &Session,
        turn: &mut SerialState,
        call: &Call,
        queue: Option<Queue>,
        suspect: impl FnOnce() -> Suspect<'a>,
    ) -> bool {
        let culprit = match self.wait(session, turn, call.number, queue) {
            WaitEnd::Well => return false,
            WaitEnd::Failed(code) => Culprit::new(session, call, Symptom::Fails(code), suspect()),
            WaitEnd::Never => {
                let context = queue.map(|queue| queue.context);
                let is_left = |(of, call): &&(Queue, u64)| {
                    self.left.contains(call) && context.is_none_or(|context| of.context == context)
                };
                // What was put there before may be what it waits for.
                let before: Vec<u64> = turn.open.iter().filter(is_left).map(|(_, call)| *call).collect();
                let suspect = if before.is_empty() { suspect() } else { Suspect::Earlier(before) };
                Culprit::new(session, call, Symptom::NeverEnds(self.patience), suspect)
            }
        };
        self.found.lock().get_or_insert(culprit);
        self.is_found.store(true, Relaxed);
        true
    }

    /// Waits for what was put here, or for all contexts, and a while for what else is under way in the
    /// context.
    fn wait(&self, session: &Session, turn: &mut SerialState, call: u64, queue: Option<Queue>) -> WaitEnd {
        let may_hang = self.left.contains(&call) || turn.open.iter().any(|(_, call)| self.left.contains(call));
        let Some(queue) = queue else {
            let all: Vec<u64> = session.contexts.lock().iter().copied().collect();
            for context in all {
                let waited = match may_hang {
                    true => ContextWait::begin(session.driver, context).end(self.patience),
                    false => Some(session.placement.relaxed(|| synchronize(session.driver, context))),
                };
                match waited.map_or(WaitEnd::Never, WaitEnd::from_wait) {
                    WaitEnd::Well => {}
                    ended => return ended,
                }
            }
            turn.open.clear();
            return WaitEnd::Well;
        };
        let context = queue.context;
        let own = || match may_hang {
            true => queue.finished_within(session.driver, self.patience),
            false => Some(queue.synchronize(session.driver)),
        };
        let waited = session.placement.relaxed(|| with_context(session.driver, context, own));
        match waited.unwrap_or_else(|failure| Some(Err(failure))).map_or(WaitEnd::Never, WaitEnd::from_wait) {
            WaitEnd::Never => return WaitEnd::Never,
            ended => {
                turn.open.retain(|(of, _)| *of != queue);
                if let WaitEnd::Failed(_) = ended {
                    return ended;
                }
            }
        }
        while turn.open.iter().any(|(of, _)| of.context == context) {
            let patience = PATIENCE / (1 << turn.in_vain.min(HALVED));
            let earlier = turn.waiting.remove(&context);
            // One that was begun earlier knows nothing of what came since.
            let covers_all = earlier.is_none();
            let waiting = earlier.unwrap_or_else(|| ContextWait::begin(session.driver, context));
            let Some(waited) = waiting.end(patience) else {
                turn.in_vain += 1;
                turn.waiting.insert(context, waiting);
                break;
            };
            if covers_all {
                turn.open.retain(|(of, _)| of.context != context);
            }
            if let failed @ WaitEnd::Failed(_) = WaitEnd::from_wait(waited) {
                return failed;
            }
        }
        WaitEnd::Well
    }
}

impl SerialState {
    /// A launch has been waited for.
    fn waited(&mut self, session: &Session, step: Option<Step>) {
        if let (Some(trail), Some(step)) = (&mut self.trail, step) {
            trail.after_launch(session, step);
        }
    }
}
