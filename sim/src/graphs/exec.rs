//! Instantiated graphs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::node::Kind;
use super::user_object::References;
use crate::abi::Handle;
use crate::abi::code::{Code, Result};
use crate::base::registry::{Registry, handle_of};
use crate::graphs::graph::{Graph, Id, find};
use crate::memory::graph_allocation;
use crate::streams::event::{self, Event};
use crate::streams::stream::{Point, Stream};
use crate::streams::work::{Stamp, Work};

/// A frozen graph: later changes to the graph do not reach it.
pub(crate) struct Exec {
    steps: Mutex<Vec<Step>>,
    pub flags: u64,
    pub id: Id,
    _held: References,
}

struct Step {
    /// The graph's node.
    origin: Handle,
    kind: Kind,
    /// What a child graph's node stands for.
    child: Vec<Step>,
    enabled: AtomicBool,
}

static EXECS: Registry<Exec> = Registry::new();

/// Any of the known flags: free on launch, upload, device launch, node priorities.
const FLAGS: u64 = 0xf;
const AUTO_FREE: u64 = 1;

pub(crate) fn instantiate(graph: Handle, flags: u64) -> Result<Handle> {
    if flags & !FLAGS != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let graph = find(graph)?;
    let steps = Mutex::new(steps(&graph)?);
    Ok(EXECS.insert(Arc::new(Exec { steps, flags, id: Id::default(), _held: graph.held.retain_all() })))
}

fn steps(graph: &Graph) -> Result<Vec<Step>> {
    let nodes = graph.sorted().ok_or(Code::INVALID_VALUE)?;
    nodes
        .iter()
        .map(|node| {
            let kind = node.kind();
            let child = match kind {
                Kind::Child(child) => steps(&*find(child)?)?,
                Kind::Conditional(ref of) => of.chosen.map_or(Ok(Vec::new()), |body| steps(&*find(body)?))?,
                _ => Vec::new(),
            };
            Ok(Step { origin: handle_of(node), kind, child, enabled: AtomicBool::new(true) })
        })
        .collect()
}

pub(crate) fn find_exec(handle: Handle) -> Result<Arc<Exec>> {
    EXECS.get(handle).ok_or(Code::INVALID_VALUE)
}

pub(crate) fn destroy(handle: Handle) -> Result {
    EXECS.remove(handle).map(drop).map_err(|_| Code::INVALID_VALUE)
}

/// What a launch does, and what it needs besides.
#[derive(Default)]
struct Plan {
    work: Vec<Work>,
    after: Vec<Point>,
    records: Vec<(Arc<Event>, Arc<Stamp>)>,
    /// What an earlier launch left allocated is freed first.
    auto_free: bool,
}

impl Plan {
    fn add(&mut self, steps: &[Step]) -> Result {
        for step in steps.iter().filter(|s| s.enabled.load(Ordering::Relaxed)) {
            match &step.kind {
                Kind::Kernel(grid) => self.work.push(Work::Kernel(grid.clone())),
                Kind::Copy(_, copy) => self.work.push(Work::Copy(copy.clone())),
                Kind::Fill(fill) => self.work.push(Work::Fill(*fill)),
                Kind::Host(f, data) => self.work.push(Work::Host { f: *f, data: *data }),
                Kind::Words(work) => self.work.push(work.clone()),
                Kind::Batch(batch) => self.work.extend(batch.work.iter().cloned()),
                Kind::Child(_) | Kind::Conditional(_) => self.add(&step.child)?,
                Kind::Empty => {}
                Kind::Allocate(memory) => {
                    if self.auto_free {
                        graph_allocation::free(memory.at);
                    }
                    graph_allocation::launch(memory)?;
                    self.work.push(Work::Activate(memory.clone(), true));
                }
                Kind::Free(at) => {
                    self.work.extend(graph_allocation::free(*at).map(|memory| Work::Activate(memory, false)))
                }
                Kind::WaitEvent(handle) => self.after.extend(event::find(*handle)?.point()),
                Kind::RecordEvent(handle) => {
                    let stamp = Arc::<Stamp>::default();
                    self.records.push((event::find(*handle)?, stamp.clone()));
                    self.work.push(Work::Record(stamp));
                }
            }
        }
        Ok(())
    }

    /// Of a launch that is refused: what it had allocated by then.
    fn give_back(&self) {
        for work in &self.work {
            if let Work::Activate(memory, true) = work {
                graph_allocation::free(memory.at);
            }
        }
    }
}

impl Exec {
    pub(crate) fn launch(&self, stream: &Arc<Stream>) -> Result {
        let mut plan = Plan { auto_free: self.flags & AUTO_FREE != 0, ..Plan::default() };
        if let Err(code) = plan.add(&self.steps.lock()) {
            plan.give_back();
            return Err(code);
        }
        let point = stream.submit(Work::Graph(plan.work.into()), plan.after)?;
        for (event, stamp) in plan.records {
            event.recorded(point.clone(), stamp);
        }
        Ok(())
    }

    /// Gives a node other parameters, from the next launch on.
    pub(crate) fn set(&self, node: Handle, kind: Kind) -> Result {
        self.with_step(node, |step| {
            if step.kind.number() != kind.number() {
                return Err(Code::INVALID_VALUE);
            }
            if let Kind::Child(child) = kind {
                step.child = steps(&*find(child)?)?;
            }
            step.kind = kind;
            Ok(())
        })
    }

    pub(crate) fn enable(&self, node: Handle, enabled: bool) -> Result {
        self.with_step(node, |step| {
            if step.kind.number() > 2 {
                return Err(Code::INVALID_VALUE);
            }
            step.enabled.store(enabled, Ordering::Relaxed);
            Ok(())
        })
    }

    pub(crate) fn enabled(&self, node: Handle) -> Result<bool> {
        self.with_step(node, |step| Ok(step.enabled.load(Ordering::Relaxed)))
    }

    fn with_step<T>(&self, node: Handle, then: impl FnOnce(&mut Step) -> Result<T>) -> Result<T> {
        let mut steps = self.steps.lock();
        let step = steps.iter_mut().find(|s| s.origin == node).ok_or(Code::INVALID_VALUE)?;
        then(step)
    }

    /// Takes over the parameters of a graph of the same shape. An error says how the shapes differ, by the
    /// values of CUgraphExecUpdateResult, and at which node.
    pub(crate) fn update(&self, graph: Handle) -> Result<std::result::Result<(), (u32, Handle)>> {
        const TOPOLOGY: u32 = 2;
        const NODE_TYPE: u32 = 3;
        let new = steps(&*find(graph)?)?;
        let mut old = self.steps.lock();
        if old.len() != new.len() {
            return Ok(Err((TOPOLOGY, 0)));
        }
        if let Some((_, other)) = old.iter().zip(&new).find(|(a, b)| a.kind.number() != b.kind.number()) {
            return Ok(Err((NODE_TYPE, other.origin)));
        }
        for (step, other) in old.iter_mut().zip(new) {
            (step.kind, step.child) = (other.kind, other.child);
        }
        Ok(Ok(()))
    }
}
