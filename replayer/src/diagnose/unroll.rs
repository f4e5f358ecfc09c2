//! A graph taken apart: its nodes in an order that its edges allow, each of which can be put on a stream by itself.
//!
//! Read from the live graph when it is instantiated, because the program may destroy or change the graph afterwards.
//! Arguments of kernels are copied at once: the driver's pointers are good only as long as the node is as it was.

use crate::driver::{Driver, Failure, id, result, result_name};
use crate::memory::buffer::Memory;
use trace::api::by_name;
use trace::api::enums::CUgraphNodeType;
use trace::api::structs::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUgraphEdgeData,
};
use trace::api::types::{Form, Typed};
use trace::extra::Extra;

/// One node. Those of child graphs stand in the place of their child.
pub struct Node {
    /// Its live handle in the graph that was instantiated.
    pub handle: u64,
    pub enabled: bool,
    pub work: Work,
}

pub enum Work {
    Kernel(Kernel),
    /// The words of a CUDA_MEMCPY3D.
    Copy(Vec<u64>),
    Set(CUDA_MEMSET_NODE_PARAMS),
}

/// A launch, by live handles and live addresses.
pub struct Kernel {
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
    pub attributes: Vec<(u32, [u8; ATTRIBUTE])>,
}

/// Bytes of a CUlaunchAttributeValue.
const ATTRIBUTE: usize = 64;
/// Words of a CUDA_MEMCPY3D.
pub const COPY_WORDS: usize = size_of::<CUDA_MEMCPY3D>() / 8;
const COOPERATIVE: u32 = 2;
const CLUSTER_DIMENSION: u32 = 4;

/// Children deeper than this are taken for a ring.
const DEEP: u32 = 16;

/// The nodes of a live graph, or why they cannot be run one by one.
pub fn take_apart(driver: &Driver, graph: u64) -> Result<Vec<Node>, String> {
    let mut all = Vec::new();
    add(driver, graph, DEEP, &mut all)?;
    Ok(all)
}

fn add(driver: &Driver, graph: u64, depth: u32, all: &mut Vec<Node>) -> Result<(), String> {
    for node in sorted(nodes(driver, graph)?, &edges(driver, graph)?)? {
        let mut kind = 0u32;
        ask(driver, "cuGraphNodeGetType", &[node, &raw mut kind as u64])?;
        let work = match CUgraphNodeType(kind) {
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL => Work::Kernel(kernel_of(driver, node)?),
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY => {
                let mut copy = vec![0u64; COPY_WORDS];
                ask(driver, "cuGraphMemcpyNodeGetParams", &[node, copy.as_mut_ptr() as u64])?;
                Work::Copy(copy)
            }
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET => {
                // SAFETY: a plain C struct, for which zeros are valid.
                let mut set = unsafe { std::mem::zeroed::<CUDA_MEMSET_NODE_PARAMS>() };
                ask(driver, "cuGraphMemsetNodeGetParams", &[node, &raw mut set as u64])?;
                Work::Set(set)
            }
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH if depth > 0 => {
                let mut child = 0u64;
                ask(driver, "cuGraphChildGraphNodeGetGraph", &[node, &raw mut child as u64])?;
                add(driver, child, depth - 1, all)?;
                continue;
            }
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY => continue,
            kind => return Err(format!("it has a node of type {}", type_name(kind))),
        };
        all.push(Node { handle: node, enabled: true, work });
    }
    Ok(())
}

fn type_name(kind: CUgraphNodeType) -> String {
    let Form::Enum(names) = CUgraphNodeType::TYPE.form else { return kind.0.to_string() };
    names.name_of(kind.0.into()).map_or_else(|| kind.0.to_string(), str::to_owned)
}

fn nodes(driver: &Driver, graph: u64) -> Result<Vec<u64>, String> {
    let mut count = 0u64;
    ask(driver, "cuGraphGetNodes", &[graph, 0, &raw mut count as u64])?;
    let mut found = vec![0u64; count as usize];
    if count > 0 {
        ask(driver, "cuGraphGetNodes", &[graph, found.as_mut_ptr() as u64, &raw mut count as u64])?;
    }
    Ok(found)
}

/// From and to. The first form of the question refuses graphs whose edges carry data.
fn edges(driver: &Driver, graph: u64) -> Result<Vec<(u64, u64)>, String> {
    let second = "cuGraphGetEdges_v2";
    let name = if has(driver, second) { second } else { "cuGraphGetEdges" };
    let mut count = 0u64;
    let at = &raw mut count as u64;
    let words = if name == second { vec![graph, 0, 0, 0, at] } else { vec![graph, 0, 0, at] };
    ask(driver, name, &words)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    let (mut from, mut to) = (vec![0u64; count as usize], vec![0u64; count as usize]);
    // SAFETY: plain C structs, for which zeros are valid.
    let mut data: Vec<CUgraphEdgeData> = (0..count).map(|_| unsafe { std::mem::zeroed() }).collect();
    let (first, last, with) = (from.as_mut_ptr() as u64, to.as_mut_ptr() as u64, data.as_mut_ptr() as u64);
    let words = if name == second { vec![graph, first, last, with, at] } else { vec![graph, first, last, at] };
    ask(driver, name, &words)?;
    Ok(from.into_iter().zip(to).take(count as usize).collect())
}

/// An order that the edges allow, as close to the given one as can be.
fn sorted(nodes: Vec<u64>, edges: &[(u64, u64)]) -> Result<Vec<u64>, String> {
    let mut waiting = nodes;
    let mut done = Vec::with_capacity(waiting.len());
    let mut blocked: std::collections::HashMap<u64, usize> = Default::default();
    edges.iter().for_each(|(_, to)| *blocked.entry(*to).or_default() += 1);
    while !waiting.is_empty() {
        let (ready, rest): (Vec<u64>, Vec<u64>) =
            waiting.into_iter().partition(|node| blocked.get(node).is_none_or(|count| *count == 0));
        if ready.is_empty() {
            return Err("its edges form a ring".into());
        }
        for (_, to) in edges.iter().filter(|(from, _)| ready.contains(from)) {
            blocked.entry(*to).and_modify(|count| *count -= 1);
        }
        done.extend(ready);
        waiting = rest;
    }
    Ok(done)
}

fn kernel_of(driver: &Driver, node: u64) -> Result<Kernel, String> {
    let second = "cuGraphKernelNodeGetParams_v2";
    // SAFETY: a plain C struct, for which zeros are valid.
    let mut params = unsafe { std::mem::zeroed::<CUDA_KERNEL_NODE_PARAMS>() };
    // The first form is the beginning of the second.
    let name = if has(driver, second) { second } else { "cuGraphKernelNodeGetParams" };
    ask(driver, name, &[node, &raw mut params as u64])?;
    let mut kernel = kernel(driver, &params)?;
    let asks = "cuGraphKernelNodeGetAttribute";
    for attribute in [COOPERATIVE, CLUSTER_DIMENSION].into_iter().filter(|_| has(driver, asks)) {
        let mut value = [0u64; ATTRIBUTE / 8];
        ask(driver, asks, &[node, attribute.into(), value.as_mut_ptr() as u64])?;
        if value[0] != 0 {
            let mut bytes = [0; ATTRIBUTE];
            bytes.chunks_exact_mut(8).zip(value).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
            kernel.attributes.push((attribute, bytes));
        }
    }
    Ok(kernel)
}

/// The kernel of a node's parameters: those that the driver hands out, or live ones that were given to it.
pub fn kernel(driver: &Driver, params: &CUDA_KERNEL_NODE_PARAMS) -> Result<Kernel, String> {
    let function = if params.func.0 == 0 { params.kern.0 as u64 } else { params.func.0 as u64 };
    let sizes = parameters(driver, function)?;
    let word = |at: u64| {
        // SAFETY: the parameters have just been handed out, or are about to be given to the driver, so that their
        // arrays are there.
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
            (0, Some(buffer)) => Some(buffer + offset),
            (0, None) => None,
            (array, _) => word(array + index as u64 * 8),
        };
        let at = at.filter(|at| *at != 0).ok_or("a kernel's arguments are not there")?;
        arguments.push(bytes(at, size));
    }
    Ok(Kernel {
        function,
        name: name_of(driver, function),
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
pub unsafe fn kernel_at(driver: &Driver, address: u64, is_first: bool) -> Result<Kernel, String> {
    // SAFETY: a plain C struct, for which zeros are valid.
    let mut params = unsafe { std::mem::zeroed::<CUDA_KERNEL_NODE_PARAMS>() };
    let size = if is_first { size_of::<CUDA_KERNEL_NODE_PARAMS_v1>() } else { size_of_val(&params) };
    // SAFETY: the caller vouches for the source; the first form is the beginning of the second.
    unsafe { std::ptr::copy_nonoverlapping(address as *const u8, (&raw mut params).cast(), size) };
    kernel(driver, &params)
}

/// Offset and size of each parameter of a live function, or of a kernel in its place.
fn parameters(driver: &Driver, function: u64) -> Result<Vec<(u64, u64)>, String> {
    let (mut offset, mut size) = (0u64, 0u64);
    let mut asks = "cuFuncGetParamInfo";
    let mut all = Vec::new();
    loop {
        let words = [function, all.len() as u64, &raw mut offset as u64, &raw mut size as u64];
        // SAFETY: a live function or kernel, two output words.
        match unsafe { driver.ask(asks, &words) } {
            Ok(()) => all.push((offset, size)),
            Err(Failure { code: Some(result::INVALID_VALUE), .. }) => return Ok(all),
            Err(Failure { code: Some(_), .. }) if asks == "cuFuncGetParamInfo" => asks = "cuKernelGetParamInfo",
            Err(failure) => return Err(format!("the sizes of a kernel's arguments cannot be asked for: {failure}")),
        }
    }
}

/// The name of a live function, or of a kernel in its place.
fn name_of(driver: &Driver, function: u64) -> Option<String> {
    ["cuFuncGetName", "cuKernelGetName"].into_iter().find_map(|asks| {
        let mut text = std::ptr::null::<std::ffi::c_char>();
        // SAFETY: an output word and a live handle.
        unsafe { driver.ask(asks, &[&raw mut text as u64, function]) }.ok()?;
        // SAFETY: the driver has just handed out a string of its own.
        (!text.is_null()).then(|| unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned())
    })
}

impl Work {
    /// Puts it on a live stream. `is_twin`: stream 0 is the thread's own. The CUresult.
    pub fn put(&self, driver: &Driver, stream: u64, is_twin: bool) -> u32 {
        let twin = |name: &'static str, twin: &'static str| if is_twin { twin } else { name };
        let done = match self {
            Work::Kernel(kernel) => return kernel.launch(driver, stream, is_twin),
            Work::Copy(copy) => {
                let name = twin("cuMemcpy3DAsync_v2", "cuMemcpy3DAsync_v2_ptsz");
                // SAFETY: a live node's own parameters, and a live stream.
                unsafe { driver.ask(name, &[copy.as_ptr() as u64, stream]) }
            }
            Work::Set(set) => {
                let name = match set.elementSize {
                    1 => twin("cuMemsetD2D8Async", "cuMemsetD2D8Async_ptsz"),
                    2 => twin("cuMemsetD2D16Async", "cuMemsetD2D16Async_ptsz"),
                    _ => twin("cuMemsetD2D32Async", "cuMemsetD2D32Async_ptsz"),
                };
                // A single row has no pitch to speak of, but the driver checks it.
                let row = set.width as u64 * u64::from(set.elementSize);
                let pitch = if set.height <= 1 { row.max(set.pitch as u64) } else { set.pitch as u64 };
                let words = [set.dst.0, pitch, set.value.into(), set.width as u64, set.height.max(1) as u64, stream];
                // SAFETY: plain values; the memory is a live node's.
                unsafe { driver.ask(name, &words) }
            }
        };
        done.err().map_or(result::SUCCESS, |failure| failure.code.unwrap_or(NOT_FOUND))
    }
}

/// The driver has no such function.
const NOT_FOUND: u32 = 500;

impl Kernel {
    fn launch(&self, driver: &Driver, stream: u64, is_twin: bool) -> u32 {
        // Aligned for anything that a parameter can be.
        let values: Result<Vec<Memory>, _> = self.arguments.iter().map(|bytes| Memory::of(bytes)).collect();
        let Ok(values) = values else { return result::OUT_OF_MEMORY };
        let pointers: Vec<u64> = values.iter().map(Memory::address).collect();
        let ([gx, gy, gz], [bx, by, bz]) = (self.grid, self.block);
        let shape = [gx, gy, gz, bx, by, bz, self.shared];
        let (name, words) = if self.attributes.is_empty() {
            let mut words = vec![self.function];
            words.extend(shape.map(u64::from));
            words.extend([stream, pointers.as_ptr() as u64, 0]);
            (if is_twin { "cuLaunchKernel_ptsz" } else { "cuLaunchKernel" }, words)
        } else {
            let mut list = Vec::new();
            for (id, value) in &self.attributes {
                list.extend(u64::from(*id).to_le_bytes());
                list.extend(value);
            }
            let Ok(list) = Memory::of(&list) else { return result::OUT_OF_MEMORY };
            // CUlaunchConfig: seven dimensions, padding, the stream, the attributes and how many there are.
            let mut config: Vec<u8> = shape.iter().flat_map(|word| word.to_le_bytes()).collect();
            config.extend([0; 4]);
            config.extend([stream, list.address(), self.attributes.len() as u64].map(u64::to_le_bytes).concat());
            let Ok(config) = Memory::of(&config) else { return result::OUT_OF_MEMORY };
            let words = [config.address(), self.function, pointers.as_ptr() as u64, 0];
            let name = if is_twin { "cuLaunchKernelEx_ptsz" } else { "cuLaunchKernelEx" };
            // SAFETY: as below; the configuration and its attributes outlive the call.
            let done = unsafe { driver.ask(name, &words) };
            return done.err().map_or(result::SUCCESS, |failure| failure.code.unwrap_or(NOT_FOUND));
        };
        // SAFETY: a live function, one pointer for each of its parameters, to as many bytes as it takes.
        let done = unsafe { driver.ask(name, &words) };
        done.err().map_or(result::SUCCESS, |failure| failure.code.unwrap_or(NOT_FOUND))
    }
}

fn has(driver: &Driver, name: &str) -> bool {
    by_name(name).is_some_and(|function| driver.has(id(function)))
}

fn ask(driver: &Driver, name: &'static str, words: &[u64]) -> Result<(), String> {
    // SAFETY: all callers give live handles, and buffers of their own for what the function writes.
    unsafe { driver.ask(name, words) }.map_err(|failure| match failure.code {
        Some(code) => format!("{name} says {}", result_name(code)),
        None => format!("the driver has no {name}"),
    })
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
