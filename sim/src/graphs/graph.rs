//! Graphs: nodes, the edges between them, and the work of each node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::abi::Handle;
use crate::abi::code::{Code, Result};
use crate::base::registry::{Registry, handle_of};
use crate::graphs::node::{Kind, Node};

#[derive(Default)]
pub(crate) struct Graph {
    /// In the order in which they were added.
    nodes: Mutex<Vec<Arc<Node>>>,
    /// In a clone: by original node, its copy.
    origins: Mutex<BTreeMap<Handle, Handle>>,
    /// A child graph belongs to its node and is not destroyed by the application.
    child: bool,
    pub id: Id,
    pub held: crate::graphs::user_object::References,
}

/// A unique number for each graph, node and executable graph.
pub(crate) struct Id(pub u32);

impl Default for Id {
    fn default() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        Id(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

static GRAPHS: Registry<Graph> = Registry::new();
static NODES: Registry<Node> = Registry::new();

pub(crate) fn create() -> Handle {
    GRAPHS.insert(Arc::default())
}

/// A graph that belongs to a node.
pub(crate) fn create_body() -> Handle {
    GRAPHS.insert(Arc::new(Graph { child: true, ..Graph::default() }))
}

pub(crate) fn find(handle: Handle) -> Result<Arc<Graph>> {
    GRAPHS.get(handle).ok_or(Code::INVALID_VALUE)
}

pub(crate) fn find_node(handle: Handle) -> Result<Arc<Node>> {
    NODES.get(handle).ok_or(Code::INVALID_VALUE)
}

pub(crate) fn destroy(handle: Handle) -> Result {
    if find(handle)?.child {
        return Err(Code::INVALID_VALUE);
    }
    discard(handle);
    Ok(())
}

pub(crate) fn discard(handle: Handle) {
    let Ok(graph) = GRAPHS.remove(handle) else { return };
    for node in graph.nodes() {
        NODES.remove(handle_of(&node)).ok();
        match node.kind() {
            Kind::Child(child) => discard(child),
            Kind::Conditional(of) => of.bodies.iter().for_each(|body| discard(*body)),
            _ => {}
        }
    }
}

/// A copy with the same edges; its nodes can be found from the originals.
pub(crate) fn copy(handle: Handle, child: bool) -> Result<Handle> {
    let original = find(handle)?;
    let copy = Arc::new(Graph { child, held: original.held.retain_all(), ..Graph::default() });
    let made = GRAPHS.insert(copy.clone());
    let mut origins = BTreeMap::new();
    for node in original.nodes() {
        let kind = match node.kind() {
            Kind::Child(graph) => Kind::Child(self::copy(graph, true)?),
            kind => kind,
        };
        let twin = copy.add(made, kind, Vec::new())?;
        let mut attributes = BTreeMap::new();
        if node.attributes(|all| attributes = all.clone()).is_ok() {
            find_node(twin)?.attributes(|all| *all = attributes)?;
        }
        origins.insert(handle_of(&node), twin);
    }
    for node in original.nodes() {
        let after = node.dependencies().iter().filter_map(|d| origins.get(d).copied()).collect();
        find_node(origins[&handle_of(&node)])?.set_dependencies(after);
    }
    *copy.origins.lock() = origins;
    Ok(made)
}

impl Graph {
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.lock().clone()
    }

    /// Adds a node after others of the same graph. `own` is the graph's handle.
    pub(crate) fn add(&self, own: Handle, kind: Kind, after: Vec<Handle>) -> Result<Handle> {
        for (index, other) in after.iter().enumerate() {
            if find_node(*other)?.graph != own || after[..index].contains(other) {
                return Err(Code::INVALID_VALUE);
            }
        }
        let node = Arc::new(Node::new(own, kind, after));
        self.nodes.lock().push(node.clone());
        Ok(NODES.insert(node))
    }

    /// Takes out a node and its edges.
    pub(crate) fn remove(&self, handle: Handle) {
        let mut nodes = self.nodes.lock();
        nodes.retain(|n| handle_of(n) != handle);
        for node in nodes.iter() {
            node.set_dependencies(node.dependencies().into_iter().filter(|d| *d != handle).collect());
        }
        drop(nodes);
        if let Ok(node) = NODES.remove(handle)
            && let Kind::Child(child) = node.kind()
        {
            discard(child);
        }
    }

    /// From and to.
    pub(crate) fn edges(&self) -> Vec<(Handle, Handle)> {
        let nodes = self.nodes();
        nodes.iter().flat_map(|n| n.dependencies().into_iter().map(|d| (d, handle_of(n)))).collect()
    }

    pub(crate) fn copy_of(&self, original: Handle) -> Option<Handle> {
        self.origins.lock().get(&original).copied()
    }

    /// The nodes in an order that the edges allow; none if they form a ring.
    pub(crate) fn sorted(&self) -> Option<Vec<Arc<Node>>> {
        let mut waiting = self.nodes();
        let mut done: Vec<Arc<Node>> = Vec::new();
        while !waiting.is_empty() {
            let ready = |n: &Arc<Node>| n.dependencies().iter().all(|d| done.iter().any(|o| handle_of(o) == *d));
            let next = waiting.iter().position(ready)?;
            done.push(waiting.remove(next));
        }
        Some(done)
    }
}
