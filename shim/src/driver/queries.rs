//! The recorder's own queries to the real driver. All are allowed while a stream is being captured, and none
//! changes any state.

use crate::driver::calls;
use crate::driver::devices;
use crate::driver::queue::{LEGACY, PER_THREAD};
use crate::os::probe::bytes_at;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::*};
use trace::api::enums::CUgraphNodeType;

/// The calling thread's context; 0 if there is none.
pub(crate) fn current_context() -> u64 {
    let mut context = 0;
    // SAFETY: the call only reads a thread-local of the driver's.
    unsafe { calls::current_context(&mut context) };
    context
}

/// Whether the legacy stream waits for this one. Default streams are not asked about: a question about the
/// legacy stream would end captures of the streams that it waits for (tests/gpu/facts/asked_while_captured.c;
/// driver 580).
pub(crate) fn is_blocking(stream: u64) -> Option<bool> {
    const NON_BLOCKING: u32 = 1;
    if stream <= PER_THREAD {
        return Some(true);
    }
    let mut flags = 0;
    // SAFETY: the stream is that of the call at hand, for which the driver looks it up, too.
    let result = unsafe { calls::stream_flags(stream, &mut flags) };
    (result == Some(0)).then_some(flags & NON_BLOCKING == 0)
}

/// Set by the first capture or graph; until then nobody has to ask.
pub(crate) static GRAPHS: AtomicBool = AtomicBool::new(false);

/// Whether work put on this stream becomes graph nodes. `per_thread`: stream 0 is the calling thread's own.
pub(crate) fn is_capturing(stream: u64, per_thread: bool) -> bool {
    let stream = if stream == 0 && per_thread { PER_THREAD } else { stream };
    // The legacy stream cannot be captured.
    if !GRAPHS.load(Relaxed) || stream <= LEGACY {
        return false;
    }
    let mut status = 0;
    // SAFETY: of the call at hand, too.
    unsafe { calls::stream_is_capturing(stream, &mut status) };
    status != 0
}

/// Of a stream that is being captured: the graph, and the node that its next one will wait for, if it is one.
pub(crate) fn captured_last(stream: u64) -> Option<(u64, u64)> {
    const ACTIVE: u32 = 1;
    let (mut status, mut id, mut graph, mut nodes, mut count) = (0, 0, 0, std::ptr::null(), 0);
    // SAFETY: the stream is that of a call that was just made; the outputs are valid.
    let asked = unsafe { calls::capture_info(stream, &mut status, &mut id, &mut graph, &mut nodes, &mut count) };
    // SAFETY: the driver's array is as long as told, and good until the stream's capture goes on.
    (asked == Some(0) && status == ACTIVE && count == 1).then(|| (graph, unsafe { *nodes }))
}

pub(crate) fn node_kind(node: u64) -> Option<CUgraphNodeType> {
    let mut kind = 0;
    // SAFETY: the node is one that the driver has just told.
    let asked = unsafe { calls::node_type(node, &mut kind) };
    (asked == Some(0)).then_some(CUgraphNodeType(kind))
}

/// The nodes of a graph, those within child graphs aside.
pub(crate) fn graph_nodes(graph: u64) -> Vec<u64> {
    // SAFETY: the array is as long as told; the graph is one that the application has just used, or lies
    // within it.
    unsafe {
        let mut count = 0;
        if calls::graph_nodes(graph, std::ptr::null_mut(), &mut count) != Some(0) || count == 0 {
            return Vec::new();
        }
        let mut nodes = vec![0; count];
        let asked = calls::graph_nodes(graph, nodes.as_mut_ptr(), &mut count);
        nodes.truncate(if asked == Some(0) { count } else { 0 });
        nodes
    }
}

/// From which node of a graph to which; none if the driver does not tell.
pub(crate) fn graph_edges(graph: u64) -> Option<Vec<(u64, u64)>> {
    let (mut from, mut to, mut about, mut count) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in ["how many", "which"] {
        from.resize(count, 0u64);
        to.resize(count, 0u64);
        about.resize(count, 0u64);
        let array = |words: &mut Vec<u64>| if words.is_empty() { std::ptr::null_mut() } else { words.as_mut_ptr() };
        let (starts, ends, data) = (array(&mut from), array(&mut to), array(&mut about));
        // SAFETY: eight bytes are for what is told about an edge; the arrays are as long as told.
        let asked = unsafe {
            calls::graph_edges(graph, starts, ends, data, &mut count)
                .or_else(|| calls::older_graph_edges(graph, starts, ends, &mut count))
        };
        if asked != Some(0) {
            return None;
        }
    }
    Some(from.into_iter().zip(to).take(count).collect())
}

/// Whether a device's primary context is there. Of what the driver will not say: yes.
pub(crate) fn is_primary_active(device: u64) -> bool {
    let (mut flags, mut is_active) = (0, 0);
    // SAFETY: the outputs are valid; a CUdevice is its ordinal.
    let asked = unsafe { calls::primary_state(device as i32, &mut flags, &mut is_active) };
    asked != Some(0) || is_active != 0
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The driver does not know the address: ordinary memory of the process.
    Pageable,
    /// Host memory that the driver can reach.
    Pinned,
    Device,
    /// The driver moves it about: it must not be touched to find out what it holds.
    Managed,
}

/// What lies at an address that a copy was given.
pub(crate) fn place(address: u64) -> Place {
    const HOST: u32 = 1;
    match kind_at(address) {
        Some((1.., true)) => Place::Managed,
        Some((HOST, _)) => Place::Pinned,
        Some((1.., _)) => Place::Device,
        // What a graph allocates the driver does not know until a launch has (tests/gpu/facts/graph_memory.c;
        // driver 580).
        _ if GRAPHS.load(Relaxed) && bytes_at(address, 1, true).is_none() => Place::Device,
        _ => Place::Pageable,
    }
}

/// Whether managed memory is there, if the driver will say: without a context it may know nothing.
pub(crate) fn is_managed(address: u64) -> Option<bool> {
    let (_, is_managed) = kind_at(address).filter(|_| current_context() != 0)?;
    Some(is_managed)
}

/// The type of the memory there, 0 if the driver does not know it, and whether it is managed.
fn kind_at(address: u64) -> Option<(u32, bool)> {
    const MEMORY_TYPE: u32 = 2;
    const IS_MANAGED: u32 = 8;
    let (mut kind, mut managed) = (0u32, 0u32);
    // The plural form: it answers zeros for an address that the driver does not know, and no error, which
    // tools would report. SAFETY: the answers for both attributes fit an unsigned int.
    let result = unsafe {
        calls::pointer_attributes(
            2,
            [MEMORY_TYPE, IS_MANAGED].as_ptr(),
            [&raw mut kind, &raw mut managed].as_ptr(),
            address,
        )
    };
    (result == Some(0)).then_some((kind, kind != 0 && managed & 0xff != 0))
}

/// The memory of a device that holds this address.
pub(crate) fn memory_around(address: u64) -> Option<Range<u64>> {
    let (result, range) = range_around(address);
    (result == Some(0)).then_some(range)
}

/// Whether the driver says that there is no memory of a device at this address. Without a context it says
/// nothing.
pub(crate) fn is_no_memory(address: u64) -> bool {
    const INVALID_VALUE: u32 = 1;
    const NOT_FOUND: u32 = 500;
    matches!(range_around(address).0, Some(INVALID_VALUE | NOT_FOUND))
}

fn range_around(address: u64) -> (Option<u32>, Range<u64>) {
    let (mut start, mut len) = (0, 0);
    // SAFETY: the outputs are valid; any address may be asked about.
    let result = unsafe { calls::address_range(&mut start, &mut len, address) };
    (result, start..start.saturating_add(len as u64))
}

/// Whether the driver says that there is no pinned memory of its at this address. Without a context it says
/// nothing.
pub(crate) fn is_not_pinned(start: u64) -> bool {
    const INVALID_VALUE: u32 = 1;
    let mut flags = 0;
    // SAFETY: as above; any address may be asked about.
    let result = unsafe { calls::host_flags(&mut flags, start) };
    result == Some(INVALID_VALUE)
}

/// The length of a variable of a module or library, from this function, which looks it up by this name.
pub(crate) fn variable_length(in_library: bool, managed: bool, owner: u64, name: u64) -> Option<u64> {
    let find = match (in_library, managed) {
        (false, _) => calls::module_variable,
        (true, false) => calls::library_variable,
        (true, true) => calls::library_managed,
    };
    let (mut address, mut len) = (0, 0);
    // SAFETY: the driver has just been given the same module or library, and the name.
    let result = unsafe { find(&mut address, &mut len, owner, name) };
    (result == Some(0)).then_some(len)
}

/// Bytes of one element of an array, from its descriptor.
pub(crate) fn array_element(array: u64) -> Option<u64> {
    use trace::api::{copies, enums::CUarray_format, structs::CUDA_ARRAY3D_DESCRIPTOR};
    // SAFETY: as above; the descriptor is plain numbers, and zeros are valid in it.
    let (result, found) = unsafe {
        let mut found: CUDA_ARRAY3D_DESCRIPTOR = std::mem::zeroed();
        (calls::array_descriptor(&mut found, array), found)
    };
    if result != Some(0) {
        return None;
    }
    copies::element_bytes(CUarray_format(found.Format.0), found.NumChannels)
}

/// The number of the calling thread's device.
pub(crate) fn current_device() -> Option<u64> {
    let mut device = 0;
    // SAFETY: the output is valid.
    let result = unsafe { calls::current_device(&mut device) };
    (result == Some(0)).then_some(device as u64)
}

/// Its compute capability: 90 for 9.0.
pub(crate) fn compute_capability() -> Option<u32> {
    let (major, minor) = devices::compute(current_device()? as i32);
    (major > 0).then_some((major * 10 + minor) as u32)
}
