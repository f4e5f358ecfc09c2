//! Graphs that hold collectives, or lack nodes because their calls are refused, followed to their launches.

use crate::job::single_rank::{Delivery, REFUSED};
use crate::plan::comparability::reach::described;
use crate::plan::graphs::uses::Graphs;
use crate::plan::survey::walk::Survey;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use trace::api::roles::Class;
use trace::api::types::Kind;
use trace::model::streams::Target;
use trace::{Call, Function, Trace};

const LACKS_NODES: &str = "launches a graph with missing nodes: the calls that add them are refused";
const NO_LAUNCH: &str = "the trace has no record of this launch of its graph";

/// The operations that graphs use, as numbers: one for each operation, and one that marks a missing node.
#[derive(Default)]
pub(crate) struct GraphOperations {
    graphs: Graphs,
    /// NCCL's operations by their numbers here.
    operations: Vec<u64>,
    /// What the call that is seen puts into a graph.
    put: BTreeSet<u32>,
}

const LACKS: u32 = u32::MAX;

impl GraphOperations {
    /// The call that is seen is these operations.
    pub(crate) fn holds(&mut self, operations: impl Iterator<Item = u64>) {
        for operation in operations {
            self.put.insert(self.operations.len() as u32);
            self.operations.push(operation);
        }
    }

    /// The call that is seen is refused: if it is captured, its graph lacks it.
    pub(crate) fn lacks_if(&mut self, is_captured: bool) {
        if is_captured {
            self.put.insert(LACKS);
        }
    }

    fn follow(&mut self, call: &Call, function: &Function, target: Target) -> BTreeSet<u32> {
        let put = Arc::new(std::mem::take(&mut self.put));
        let used = self.graphs.follow(call, function, target, put);
        used.filter(|_| function.launches_graph()).map(Arc::unwrap_or_clone).unwrap_or_default()
    }
}

impl Survey {
    /// Follows what a call does to graphs; behind all that is found out about it otherwise.
    pub(crate) fn follow_graphs(&mut self, trace: &Trace, call: &Call, function: &'static Function) {
        let Some(target) = self.target else { return };
        let is_about_graphs =
            function.family.starts_with("graph") || function.begins_capture() || function.ends_capture();
        let used = match target.capture.is_some() || is_about_graphs {
            true => self.captured.follow(call, function, target),
            // A kernel may launch the graphs that it is given.
            false if function.class == Class::launch && !self.captured.operations.is_empty() => described(trace, call)
                .flat_map(|word| self.captured.graphs.launched(word).iter().copied().collect::<Vec<u32>>())
                .collect(),
            false => return,
        };
        if used.contains(&LACKS) {
            self.reasons.about_call(format!("{}: {LACKS_NODES}", function.name), call.number);
            self.plan.comparability.may_differ.insert(call.number);
        }
        let Some(alone) = &mut self.plan.job.single_rank else { return };
        let told: HashMap<u64, &Delivery> = match alone.of_graphs.get(&call.number) {
            Some(told) if !used.is_empty() => told.iter().filter_map(|one| Some((one.of_graph?, one))).collect(),
            _ => HashMap::new(),
        };
        let is_operation = |number: &&u32| **number != LACKS;
        let why_not = |number: &u32| match self
            .captured
            .operations
            .get(*number as usize)
            .and_then(|operation| told.get(operation))
        {
            Some(one) if one.lost.is_empty() => None,
            Some(one) => Some(one.lost.clone()),
            None => Some(NO_LAUNCH.to_owned()),
        };
        if let Some(why) = used.iter().filter(is_operation).find_map(why_not) {
            self.reasons.about_call(format!("{}: {REFUSED}: {why}", function.name), call.number);
            alone.refused.insert(call.number);
        }
        let node = function.handle(Kind::GraphNode).and_then(|at| call.argument_of(at));
        if let Some(node) = node.filter(|_| function.class == Class::query)
            && self.captured.graphs.graph_of_node(node).iter().any(|number| *number != LACKS)
        {
            alone.about_nodes.insert(call.number);
        }
    }
}
