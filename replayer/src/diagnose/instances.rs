//! Executable graphs, followed through the calls that make and change them, so that they can be run node by node.

use crate::diagnose::unroll::{Node, NodeOp, kernel_at, take_apart};
use crate::driver::Driver;
use crate::driver::calls::COPY_WORDS;
use std::collections::HashMap;
use std::sync::Arc;
use trace::Function;
use trace::api::structs::{CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_MEMSET_NODE_PARAMS};

/// Kernels of such a graph may launch graphs themselves.
const DEVICE_LAUNCH: u64 = 4;

/// By live handle: the nodes, or why they cannot be run one by one.
#[derive(Default)]
pub struct Instances(HashMap<u64, Result<Arc<Vec<Node>>, String>>);

impl Instances {
    pub fn nodes(&self, executable: u64) -> Result<Arc<Vec<Node>>, String> {
        let unknown = || Err("no call that the replay made has instantiated it".into());
        self.0.get(&executable).cloned().unwrap_or_else(unknown)
    }

    /// Follows a call that has just succeeded, with its live argument words.
    pub fn see(&mut self, driver: &Driver, function: &Function, words: &[u64]) {
        let name = function.common_name();
        let executable = words.first().copied().unwrap_or(0);
        match name {
            "cuGraphInstantiateWithFlags" | "cuGraphInstantiateWithParams" => {
                let flags = match name {
                    "cuGraphInstantiateWithFlags" => words[2],
                    // SAFETY: the driver has just read the struct there.
                    _ => unsafe { (words[2] as *const CUDA_GRAPH_INSTANTIATE_PARAMS).read() }.flags,
                };
                let nodes = match flags & DEVICE_LAUNCH {
                    0 => take_apart(driver, words[1]),
                    _ => Err("it is made to be launched from the device".into()),
                };
                self.made(words[0], nodes);
            }
            "cuGraphInstantiate" | "cuGraphInstantiate_v2" => self.made(words[0], take_apart(driver, words[1])),
            "cuGraphExecUpdate" | "cuGraphExecUpdate_v2" => {
                let nodes = match self.0.get(&executable) {
                    Some(Ok(old)) if old.iter().all(|node| node.enabled) => take_apart(driver, words[1]),
                    Some(Err(why)) => Err(why.clone()),
                    _ => Err("it was updated while some of its nodes were disabled".into()),
                };
                self.0.insert(executable, nodes.map(Arc::new));
            }
            "cuGraphExecDestroy" => {
                self.0.remove(&executable);
            }
            "cuGraphNodeSetEnabled" => {
                let enabled = words[2] as u32 != 0;
                self.change(executable, words[1], name, |node| {
                    node.enabled = enabled;
                    Ok(())
                });
            }
            "cuGraphExecKernelNodeSetParams" | "cuGraphExecKernelNodeSetParams_v2" => {
                // SAFETY: the driver has just read the struct there, of the form that the function's name tells.
                let new = unsafe { kernel_at(driver, words[2], !name.ends_with("_v2")) };
                self.change(executable, words[1], name, |node| {
                    let mut new = new?;
                    if let NodeOp::Kernel(old) = &mut node.work {
                        new.attributes = std::mem::take(&mut old.attributes);
                    }
                    node.work = NodeOp::Kernel(new);
                    Ok(())
                });
            }
            "cuGraphExecMemcpyNodeSetParams" => {
                // SAFETY: the driver has just read the struct there.
                let new = unsafe { std::slice::from_raw_parts(words[2] as *const u64, COPY_WORDS) };
                self.replace(executable, words[1], name, NodeOp::Copy(new.to_vec()));
            }
            "cuGraphExecMemsetNodeSetParams" => {
                // SAFETY: as above.
                let new = unsafe { (words[2] as *const CUDA_MEMSET_NODE_PARAMS).read() };
                self.replace(executable, words[1], name, NodeOp::Set(new));
            }
            _ if name.starts_with("cuGraphExec") && name.contains("NodeSet") => {
                self.0.insert(executable, Err(format!("{name} has changed it")));
            }
            _ => {}
        }
    }

    /// `at` is where the driver has put the new handle.
    fn made(&mut self, at: u64, nodes: Result<Vec<Node>, String>) {
        // SAFETY: the call has succeeded, and its output lies in the frame of the call, which is still there.
        let executable = unsafe { (at as *const u64).read() };
        self.0.insert(executable, nodes.map(Arc::new));
    }

    fn replace(&mut self, executable: u64, node: u64, by: &str, work: NodeOp) {
        self.change(executable, node, by, |node| {
            node.work = work;
            Ok(())
        });
    }

    fn change(&mut self, executable: u64, node: u64, by: &str, change: impl FnOnce(&mut Node) -> Result<(), String>) {
        let Some(Ok(nodes)) = self.0.get_mut(&executable) else { return };
        let changed = match Arc::get_mut(nodes).and_then(|nodes| nodes.iter_mut().find(|one| one.handle == node)) {
            Some(node) => change(node),
            // A node of another graph of the same shape, after an update.
            None => Err(format!("{by} has changed a node that is not known")),
        };
        if let Err(why) = changed {
            self.0.insert(executable, Err(why));
        }
    }
}
