//! Kernel launches: checks, and the parameter buffer.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi::code::{Code, Result};
use crate::abi::{Bytes, Handle, Input};
use crate::base::device;
use crate::base::guard;
use crate::base::registry::handle_of;
use crate::objects::library;
use crate::objects::module;
use crate::objects::texture;
use crate::ptx::Kernel;
use crate::ptx::exec::{Grid, Workspace};
use crate::streams::context;
use crate::streams::stream::Stream;
use crate::streams::work::Work;

/// The shape of a launch, from its caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub blocks: [u32; 3],
    pub threads: [u32; 3],
    pub dynamic_shared: u32,
    pub cooperative: bool,
    pub cluster: [u32; 3],
}

const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;

/// A launch ready to be submitted.
pub(crate) fn prepare(
    handle: Handle,
    shape: Shape,
    values: Input<*const c_void>,
    extra: Input<*const c_void>,
) -> Result<Arc<Grid>> {
    if handle == 0 {
        return Err(Code::INVALID_HANDLE);
    }
    let function = library::function(handle)?;
    let context = match context::current_handle() {
        0 => function.context().ok_or(Code::INVALID_CONTEXT)?,
        _ => context::usable()?,
    };
    let code = function.kernel();
    check(code, shape, function.settings.max_dynamic(code))?;
    let parameters = if extra.is_null() { from_values(code, values)? } else { from_buffer(code, extra)? };
    function.load();
    static IDS: AtomicU64 = AtomicU64::new(1);
    Ok(Arc::new(Grid {
        program: function.program.clone(),
        kernel: function.kernel,
        blocks: shape.blocks,
        cluster: shape.cluster,
        threads: shape.threads,
        dynamic_shared: shape.dynamic_shared,
        parameters,
        id: IDS.fetch_add(1, Ordering::Relaxed),
        workspace: if shape.cooperative { Workspace::new(context.device)? } else { Workspace::default() },
        context: function.context().map_or(context.id, |own| own.id),
        device: function.context().map_or(context.device, |own| own.device),
        fetch: texture::fetch,
        function: handle_of(&function),
    }))
}

/// Submits to a stream of the function's own context.
pub(crate) fn submit(stream: &Arc<Stream>, grid: Arc<Grid>) -> Result {
    let context = stream.context()?;
    context.check()?;
    if !module::function(grid.function)?.is_in(&context) {
        return Err(Code::INVALID_HANDLE);
    }
    stream.submit(Work::Kernel(grid), Vec::new()).map(drop)
}

fn check(kernel: &Kernel, shape: Shape, most_dynamic: i32) -> Result {
    let Shape { blocks, threads, dynamic_shared, cooperative, .. } = shape;
    let total = threads.iter().map(|&n| u64::from(n)).product::<u64>();
    let grid_fits = blocks.iter().all(|&n| n > 0) && blocks[0] <= i32::MAX as u32 && blocks[1].max(blocks[2]) <= 65535;
    let limits = [device::MAX_THREADS, device::MAX_THREADS, 64];
    let block_fits = threads.iter().zip(limits).all(|(&n, most)| (1..=most).contains(&n));
    if !grid_fits || !block_fits || total > u64::from(device::MAX_THREADS) {
        return Err(Code::INVALID_VALUE);
    }
    if i64::from(dynamic_shared) > i64::from(most_dynamic) {
        return Err(Code::INVALID_VALUE);
    }
    if kernel.max_threads.is_some_and(|most| total > u64::from(most)) {
        return Err(Code::INVALID_VALUE);
    }
    let grid = blocks.iter().map(|&n| u64::from(n)).product::<u64>();
    if cooperative && grid > resident(total, kernel.static_shared as u64 + u64::from(dynamic_shared)) {
        return Err(Code::COOPERATIVE_LAUNCH_TOO_LARGE);
    }
    Ok(())
}

/// Blocks that fit on the device at once.
fn resident(threads: u64, shared: u64) -> u64 {
    u64::from(per_multiprocessor(threads as u32, shared)) * device::MULTIPROCESSORS as u64
}

/// Blocks that fit on one multiprocessor.
pub(crate) fn per_multiprocessor(threads: u32, shared: u64) -> u32 {
    let warps = threads.max(1).div_ceil(32) * 32;
    let by_threads = device::THREADS_PER_MULTIPROCESSOR / warps;
    let by_shared = u64::from(device::SHARED_PER_MULTIPROCESSOR) / (shared + 1024);
    by_threads.min(by_shared as u32).min(device::BLOCKS_PER_MULTIPROCESSOR)
}

/// The parameter buffer from one pointer a parameter.
fn from_values(kernel: &Kernel, values: Input<*const c_void>) -> Result<Vec<u8>> {
    let mut buffer = vec![0; kernel.parameter_bytes];
    for (index, parameter) in kernel.parameters.iter().enumerate() {
        guard::reads(values.address(), values.address() + index as u64 * 8, 8);
        let at = values.element(index)?.cast::<u8>();
        if at.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        guard::reads(values.address(), at as u64, parameter.size as u64);
        let bytes = Bytes { at, length: parameter.size }.to_vec();
        buffer[parameter.offset..parameter.offset + parameter.size].copy_from_slice(&bytes);
    }
    Ok(buffer)
}

/// The parameter buffer that `extra` points to.
fn from_buffer(kernel: &Kernel, extra: Input<*const c_void>) -> Result<Vec<u8>> {
    let (mut at, mut length) = (std::ptr::null::<u8>(), None);
    for pair in 0.. {
        match extra.element(2 * pair)? as usize {
            0 => break,
            BUFFER_POINTER => at = extra.element(2 * pair + 1)?.cast(),
            BUFFER_SIZE => length = Some(Input::from_raw(extra.element(2 * pair + 1)?.cast::<usize>()).get()?),
            _ => return Err(Code::INVALID_VALUE),
        }
    }
    let length = length.ok_or(Code::INVALID_VALUE)?;
    if at.is_null() && length > 0 {
        return Err(Code::INVALID_VALUE);
    }
    // Fewer bytes than the parameters have are taken, the padding of a C struct behind them is not (driver
    // 580; tests/gpu/facts/packed_sizes.c).
    match length {
        0 if kernel.parameter_bytes > 0 => return Err(Code::INVALID_VALUE),
        _ if length > kernel.parameter_bytes => return Err(Code::LAUNCH_OUT_OF_RESOURCES),
        _ => {}
    }
    let mut buffer = Bytes { at, length }.to_vec();
    buffer.resize(kernel.parameter_bytes, 0);
    Ok(buffer)
}
