//! A graph as single nodes, in an order that its edges allow; each of them can be put on a stream by itself.
//!
//! The nodes are read from the live graph at instantiation, because the program may destroy or change the
//! graph afterwards. Kernel arguments are copied at once: the driver's pointers are valid only while the node
//! is unchanged.

use crate::driver::calls::{ATTRIBUTE, Launch};
use crate::driver::{Driver, Failure, result, result_name};
use crate::memory::arguments::RegionKind;
use crate::memory::buffer::{HostBuffer, Refusal};
use crate::memory::objects::Lookup;
use crate::session::Session;
use std::collections::HashMap;
use trace::Trace;
use trace::api::enums::CUgraphNodeType;
use trace::api::extra::Extra;
use trace::api::structs::CUlaunchAttributeID;
use trace::api::structs::{CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMSET_NODE_PARAMS};
use trace::api::types::{Form, Kind, Typed};
use trace::base::bytes::u64_at;
use trace::model::stream::StreamHandle;

/// One node. A child graph is replaced by its nodes.
pub(crate) struct Node {
    /// Its live handle in the graph that was instantiated.
    pub handle: u64,
    pub enabled: bool,
    pub work: NodeOp,
}

pub(crate) enum NodeOp {
    Kernel(Kernel),
    /// The words of a CUDA_MEMCPY3D.
    Copy(Vec<u64>),
    Set(CUDA_MEMSET_NODE_PARAMS),
}

/// A launch, with live handles and live addresses.
pub(crate) struct Kernel {
    /// A CUfunction, or a CUkernel in its place.
    pub function: u64,
    /// As the driver told before anything failed: afterwards it tells nothing.
    pub name: Option<String>,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    pub arguments: Vec<Vec<u8>>,
    /// Launch attributes that the kernel's meaning depends on: id and value.
    pub attributes: Vec<(CUlaunchAttributeID, [u8; ATTRIBUTE])>,
}

/// Those that are kept.
const ATTRIBUTES: [CUlaunchAttributeID; 2] =
    [CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION];

/// Children deeper than this are taken for a ring.
const DEEP: u32 = 16;

/// Offset and size of each parameter of recorded kernels, by name; none if several kernels with different
/// parameters share a name. So the driver need not be queried until its error ends the list.
pub(crate) struct Parameters(HashMap<String, Option<Vec<(usize, usize)>>>);

impl Parameters {
    pub(crate) fn from_trace(trace: &Trace) -> Parameters {
        let mut all: HashMap<String, Option<Vec<(usize, usize)>>> = HashMap::new();
        for kernel in trace.kernels.values() {
            let Some(params) = &kernel.params else { continue };
            let params: Vec<_> = params.iter().map(|(offset, size)| (*offset as usize, *size as usize)).collect();
            let known = all.entry(kernel.name.clone()).or_insert_with(|| Some(params.clone()));
            *known = known.take().filter(|known| *known == params);
        }
        Parameters(all)
    }

    fn by_name(&self, name: Option<&String>) -> Option<&Vec<(usize, usize)>> {
        self.0.get(name?)?.as_ref()
    }
}

/// The nodes of a live graph, or why they cannot be run one by one.
pub(crate) fn take_apart(driver: &Driver, known: &Parameters, graph: u64) -> Result<Vec<Node>, String> {
    let mut all = Vec::new();
    add(driver, known, graph, DEEP, &mut all)?;
    Ok(all)
}

fn add(driver: &Driver, known: &Parameters, graph: u64, depth: u32, all: &mut Vec<Node>) -> Result<(), String> {
    let nodes = driver.nodes(graph).map_err(describe)?;
    for node in sorted(nodes, &driver.edges(graph).map_err(describe)?)? {
        let work = match driver.node_type(node).map_err(describe)? {
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL => NodeOp::Kernel(kernel_of(driver, known, node)?),
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY => NodeOp::Copy(driver.copy_node(node).map_err(describe)?),
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET => NodeOp::Set(driver.fill_node(node).map_err(describe)?),
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH if depth > 0 => {
                add(driver, known, driver.child_graph(node).map_err(describe)?, depth - 1, all)?;
                continue;
            }
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY => continue,
            kind => return Err(format!("it has a node of type {}", type_name(kind))),
        };
        all.push(Node { handle: node, enabled: true, work });
    }
    Ok(())
}

fn describe(failure: Failure) -> String {
    match failure.code {
        Some(code) => format!("{} returned {}", failure.name, result_name(code)),
        None => failure.to_string(),
    }
}

fn type_name(kind: CUgraphNodeType) -> String {
    let Form::Enum(names) = CUgraphNodeType::TYPE.form else { return kind.0.to_string() };
    names.name_of(kind.0.into()).map_or_else(|| kind.0.to_string(), str::to_owned)
}

/// An order that the edges allow, as close to the given one as can be.
fn sorted(nodes: Vec<u64>, edges: &[(u64, u64)]) -> Result<Vec<u64>, String> {
    let mut waiting = nodes;
    let mut done = Vec::with_capacity(waiting.len());
    let mut blocked: HashMap<u64, usize> = Default::default();
    edges.iter().for_each(|(_, to)| *blocked.entry(*to).or_default() += 1);
    while !waiting.is_empty() {
        let (ready, rest): (Vec<u64>, Vec<u64>) =
            waiting.into_iter().partition(|node| blocked.get(node).is_none_or(|count| *count == 0));
        if ready.is_empty() {
            return Err("its edges form a cycle".into());
        }
        for (_, to) in edges.iter().filter(|(from, _)| ready.contains(from)) {
            blocked.entry(*to).and_modify(|count| *count -= 1);
        }
        done.extend(ready);
        waiting = rest;
    }
    Ok(done)
}

fn kernel_of(driver: &Driver, known: &Parameters, node: u64) -> Result<Kernel, String> {
    let params = driver.kernel_node(node).map_err(describe)?;
    let mut kernel = kernel(driver, known, &params)?;
    for id in ATTRIBUTES {
        let Some(value) = driver.kernel_node_attribute(node, id) else { break };
        let value = value.map_err(describe)?;
        if value[..8] != [0; 8] {
            kernel.attributes.push((id, value));
        }
    }
    Ok(kernel)
}

/// The kernel of a node's parameters: those that the driver hands out, or live ones that were given to it.
pub(crate) fn kernel(driver: &Driver, known: &Parameters, params: &CUDA_KERNEL_NODE_PARAMS) -> Result<Kernel, String> {
    let is_kernel = params.func.0 == 0;
    let function = if is_kernel { params.kern.0 as u64 } else { params.func.0 as u64 };
    let name = driver.function_name(function, is_kernel);
    let known = known.by_name(name.as_ref()).filter(|known| driver.has_parameters(function, is_kernel, known));
    let sizes = known.map_or_else(|| driver.parameters(function), |known| Ok(known.clone()));
    let sizes = sizes.map_err(|failure| format!("cannot query the sizes of a kernel's arguments: {failure}"))?;
    let word = |at: u64| {
        // SAFETY: the parameters have just been handed out, or are about to be given to the driver, so that
        // their arrays are there.
        (at != 0).then(|| unsafe { (at as *const u64).read_unaligned() })
    };
    let bytes = |at: u64, size: u64| {
        // SAFETY: as above; the driver itself reads as many bytes there.
        unsafe { std::slice::from_raw_parts(at as *const u8, size as usize) }.to_vec()
    };
    let packed = Extra::read(params.extra as u64, word);
    let mut arguments = Vec::with_capacity(sizes.len());
    for (index, (offset, size)) in sizes.into_iter().enumerate() {
        let at = match (params.kernelParams as u64, packed.buffer()) {
            (0, Some(buffer)) => Some(buffer + offset as u64),
            (0, None) => None,
            (array, _) => word(array + index as u64 * 8),
        };
        let at = at.filter(|at| *at != 0).ok_or("a kernel's arguments are missing")?;
        arguments.push(bytes(at, size as u64));
    }
    Ok(Kernel {
        function,
        name,
        grid: [params.gridDimX, params.gridDimY, params.gridDimZ],
        block: [params.blockDimX, params.blockDimY, params.blockDimZ],
        shared: params.sharedMemBytes,
        arguments,
        attributes: Vec::new(),
    })
}

/// As [`kernel`], from the struct's address in memory that a call was given.
///
/// # Safety
/// `address` leads to live parameters of the form that `is_first` tells.
pub(crate) unsafe fn kernel_at(
    driver: &Driver,
    known: &Parameters,
    address: u64,
    is_first: bool,
) -> Result<Kernel, String> {
    // SAFETY: a plain C struct, for which zeros are valid.
    let mut params = unsafe { std::mem::zeroed::<CUDA_KERNEL_NODE_PARAMS>() };
    let size = if is_first { size_of::<CUDA_KERNEL_NODE_PARAMS_v1>() } else { size_of_val(&params) };
    // SAFETY: the caller vouches for the source; the first form is the beginning of the second.
    unsafe { std::ptr::copy_nonoverlapping(address as *const u8, (&raw mut params).cast(), size) };
    kernel(driver, known, &params)
}

impl NodeOp {
    /// Puts it on a live stream. The CUresult.
    pub(crate) fn launch(&self, session: &Session, stream: StreamHandle) -> u32 {
        let driver = session.driver;
        let done = match self {
            NodeOp::Kernel(kernel) => return kernel.launch(session, stream),
            // SAFETY: a live node's own parameters.
            NodeOp::Copy(copy) => unsafe { driver.copy_as(copy, stream) },
            NodeOp::Set(set) => driver.fill_as(set, stream),
        };
        code_of(done)
    }
}

fn code_of(done: Result<(), Failure>) -> u32 {
    /// The driver has no such function.
    const NOT_FOUND: u32 = 500;
    done.err().map_or(result::SUCCESS, |failure| failure.code.unwrap_or(NOT_FOUND))
}

impl Kernel {
    fn launch(&self, session: &Session, stream: StreamHandle) -> u32 {
        let Ok((_values, pointers)) = self.with_arguments(session) else { return result::OUT_OF_MEMORY };
        let (driver, function, arguments) = (session.driver, self.function, pointers.address());
        let launch = Launch { function, grid: self.grid, block: self.block, shared: self.shared, arguments };
        if self.attributes.is_empty() {
            // SAFETY: a pointer for each of its parameters, to as many bytes as it takes: more of them than
            // are known are zeros.
            return code_of(unsafe { driver.launch(&launch, stream) });
        }
        let mut list = Vec::new();
        for (id, value) in &self.attributes {
            list.extend(u64::from(id.0).to_le_bytes());
            list.extend(value);
        }
        let Ok(list) = HostBuffer::from_bytes(&list) else { return result::OUT_OF_MEMORY };
        let attributes = (list.address(), self.attributes.len() as u64);
        // SAFETY: as above.
        code_of(unsafe { driver.launch_with(&launch, attributes, stream) })
    }

    /// The values of its parameters, and the pointers to them.
    fn with_arguments(&self, session: &Session) -> Result<(HostBuffer, HostBuffer), Refusal> {
        /// For anything that a parameter can be.
        const ALIGNMENT: usize = 16;
        let (mut packed, mut places) = (Vec::new(), Vec::new());
        for bytes in &self.arguments {
            places.push(packed.len() as u64);
            packed.extend(bytes);
            packed.resize(packed.len().next_multiple_of(ALIGNMENT), 0);
        }
        let values = session.arguments.holding(RegionKind::Values, &packed, false)?;
        let pointers: Vec<u8> = places.iter().flat_map(|at| (values.address() + at).to_le_bytes()).collect();
        let pointers = session.arguments.holding(RegionKind::Pointers, &pointers, false)?;
        Ok((values, pointers))
    }
}

impl Kernel {
    /// As the driver or, where it does not tell names, the trace has it.
    pub(crate) fn name(&self, session: &Session) -> Option<String> {
        self.name.clone().or_else(|| Some(self.recorded(session)?.name.clone()))
    }

    /// What was recorded of its function.
    pub(crate) fn recorded<'t>(&self, session: &Session<'t>) -> Option<&'t trace::file::record::Kernel> {
        let is_named =
            |recorded: &trace::file::record::Kernel| self.name.as_ref().is_none_or(|name| *name == recorded.name);
        let is_it = |handle| session.objects.find(Kind::Function, handle) == Lookup::Live(self.function);
        let all = || session.trace.kernels.values().filter(|recorded| is_named(recorded));
        // Of those that had the handle one after the other, the last: earlier ones are gone.
        let by_handle = all().filter(|recorded| is_it(recorded.handle)).max_by_key(|recorded| recorded.id);
        by_handle.or_else(|| {
            // A node of a library's kernel has a function that no call handed out.
            let sizes = |recorded: &trace::file::record::Kernel| {
                let recorded = recorded.params.iter().flatten().map(|(_, size)| *size as usize);
                recorded.eq(self.arguments.iter().map(Vec::len))
            };
            let mut alike = all().filter(|recorded| self.name.is_some() && sizes(recorded));
            alike.next().filter(|_| alike.next().is_none())
        })
    }
}

impl NodeOp {
    /// What it runs: the kernel's name, or its kind.
    pub(crate) fn name(&self, session: &Session) -> String {
        let NodeOp::Kernel(kernel) = self else { return self.kind().to_owned() };
        kernel.name(session).unwrap_or_else(|| self.kind().to_owned())
    }

    /// Live words that may be addresses.
    pub(crate) fn words(&self) -> Vec<u64> {
        match self {
            NodeOp::Kernel(kernel) => {
                kernel.arguments.iter().flat_map(|bytes| bytes.chunks_exact(8).map(|word| u64_at(word, 0))).collect()
            }
            NodeOp::Copy(words) => words.clone(),
            NodeOp::Set(set) => vec![set.dst.0],
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            NodeOp::Kernel(_) => "kernel",
            NodeOp::Copy(_) => "copy",
            NodeOp::Set(_) => "memset",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_after_what_they_depend_on() {
        assert_eq!(sorted(vec![3, 1, 2], &[(1, 3), (2, 3), (1, 2)]), Ok(vec![1, 2, 3]));
        assert_eq!(sorted(vec![5, 4], &[]), Ok(vec![5, 4]));
        assert!(sorted(vec![1, 2], &[(1, 2), (2, 1)]).is_err());
    }
}
