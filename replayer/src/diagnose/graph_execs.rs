//! Executable graphs, followed through the calls that make and change them, so that they can be executed node
//! by node.

use crate::diagnose::unroll::{Node, NodeOp, Parameters, kernel_at, take_apart};
use crate::driver::calls::COPY_WORDS;
use crate::session::Session;
use std::collections::HashMap;
use std::sync::Arc;
use trace::Function;
use trace::api::effect::{Effect, Work};
use trace::api::roles::{Field, Role};
use trace::api::structs::{CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMSET_NODE_PARAMS};
use trace::api::types::{Form, Kind, Typed};

/// Kernels of such a graph may launch graphs themselves.
const DEVICE_LAUNCH: u64 = 4;

#[derive(Default)]
pub(crate) struct GraphExecs {
    /// By live handle: the nodes, or why they cannot be run one by one.
    all: HashMap<u64, Result<Arc<Vec<Node>>, String>>,
    /// Of recorded kernels, once there is a graph.
    parameters: Option<Arc<Parameters>>,
}

impl GraphExecs {
    pub(crate) fn nodes(&self, executable: u64) -> Result<Arc<Vec<Node>>, String> {
        let unknown = || Err("no replayed call instantiated it".into());
        self.all.get(&executable).cloned().unwrap_or_else(unknown)
    }

    /// Follows a call that has just succeeded, with its live argument words.
    pub(crate) fn observe(&mut self, session: &Session, function: &'static Function, words: &[u64]) {
        let known = self.parameters.get_or_insert_with(|| Arc::new(Parameters::from_trace(session.trace))).clone();
        let (driver, known) = (session.driver, &*known);
        let word = |at: usize| words[function.params[at].offset as usize / 8];
        let operand = |kind| function.handle(kind).map_or(0, word);
        let (executable, graph, node) = (operand(Kind::GraphExec), operand(Kind::Graph), operand(Kind::GraphNode));
        // What is said of a node stands behind it.
        let said = || function.handle(Kind::GraphNode).map_or(0, |at| word(at + 1));
        let by = function.common_name();
        match function.effect {
            Effect::UpdateGraph => {
                let nodes = match self.all.get(&executable) {
                    Some(Ok(old)) if old.iter().all(|node| node.enabled) => take_apart(driver, known, graph),
                    Some(Err(why)) => Err(why.clone()),
                    _ => Err("it was updated while some of its nodes were disabled".into()),
                };
                self.all.insert(executable, nodes.map(Arc::new));
            }
            Effect::EnableNode => {
                let enabled = said() as u32 != 0;
                self.change(executable, node, by, |node| {
                    node.enabled = enabled;
                    Ok(())
                });
            }
            Effect::SetNode(Work::Kernel) => {
                // SAFETY: the driver has just read the struct there, of the form that the parameter's type
                // tells.
                let new = unsafe { kernel_at(driver, known, said(), is_first_form(function)) };
                self.change(executable, node, by, |node| {
                    let mut new = new?;
                    if let NodeOp::Kernel(old) = &mut node.work {
                        new.attributes = std::mem::take(&mut old.attributes);
                    }
                    node.work = NodeOp::Kernel(new);
                    Ok(())
                });
            }
            Effect::SetNode(Work::Copy) => {
                // SAFETY: the driver has just read the struct there.
                let new = unsafe { std::slice::from_raw_parts(said() as *const u64, COPY_WORDS) };
                self.replace(executable, node, by, NodeOp::Copy(new.to_vec()));
            }
            Effect::SetNode(Work::Fill) => {
                // SAFETY: as above.
                let new = unsafe { (said() as *const CUDA_MEMSET_NODE_PARAMS).read() };
                self.replace(executable, node, by, NodeOp::Set(new));
            }
            Effect::SetNode(_) => {
                self.all.insert(executable, Err(format!("{by} has changed it")));
            }
            _ if function.ends(Kind::GraphExec).is_some() => {
                self.all.remove(&executable);
            }
            _ => {
                let Some(at) = function.hands_out(Kind::GraphExec) else { return };
                let nodes = match flags(function, words) & DEVICE_LAUNCH {
                    0 => take_apart(driver, known, graph),
                    _ => Err("it is instantiated for launches from the device".into()),
                };
                self.insert(word(at), nodes);
            }
        }
    }

    /// `at` is where the driver has put the new handle.
    fn insert(&mut self, at: u64, nodes: Result<Vec<Node>, String>) {
        // SAFETY: the call has succeeded, and its output lies in the frame of the call, which is still there.
        let executable = unsafe { (at as *const u64).read() };
        self.all.insert(executable, nodes.map(Arc::new));
    }

    fn replace(&mut self, executable: u64, node: u64, by: &str, work: NodeOp) {
        self.change(executable, node, by, |node| {
            node.work = work;
            Ok(())
        });
    }

    fn change(&mut self, executable: u64, node: u64, by: &str, change: impl FnOnce(&mut Node) -> Result<(), String>) {
        let Some(Ok(nodes)) = self.all.get_mut(&executable) else { return };
        let changed = match Arc::get_mut(nodes).and_then(|nodes| nodes.iter_mut().find(|one| one.handle == node)) {
            Some(node) => change(node),
            // A node of another graph of the same shape, after an update.
            None => Err(format!("{by} has changed an unknown node")),
        };
        if let Err(why) = changed {
            self.all.insert(executable, Err(why));
        }
    }
}

/// Whether a call makes, changes or uses an executable graph.
pub(crate) fn concerns(function: &Function) -> bool {
    function.handle(Kind::GraphExec).or(function.hands_out(Kind::GraphExec)).is_some()
}

/// How a graph is instantiated: told in an argument, or in the struct that one points to.
fn flags(function: &Function, words: &[u64]) -> u64 {
    let flags = |param: &Field| match (param.role, param.ty.form) {
        (Role::Bits(_), _) => Some(words[param.offset as usize / 8]),
        (_, Form::Pointer(to)) if to.name == CUDA_GRAPH_INSTANTIATE_PARAMS::TYPE.name => {
            // SAFETY: the driver has just read the struct there.
            Some(unsafe { (words[param.offset as usize / 8] as *const CUDA_GRAPH_INSTANTIATE_PARAMS).read() }.flags)
        }
        _ => None,
    };
    function.params.iter().find_map(flags).unwrap_or(0)
}

fn is_first_form(function: &Function) -> bool {
    let first = CUDA_KERNEL_NODE_PARAMS_v1::TYPE.name;
    function.params.iter().any(|param| matches!(param.ty.form, Form::Pointer(to) if to.name == first))
}
