//! Device memory read by the replay itself, beside what the program does: on a stream of its own, in a mode in which a
//! capture elsewhere neither forbids it nor is broken by it.

use crate::driver::stream::within;
use crate::driver::{Failure, result};
use crate::memory::buffer::Memory;
use crate::options::Dump;
use crate::run::world::World;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;

/// Bytes read at a time.
const PIECE: u64 = 16 << 20;
const NON_BLOCKING: u64 = 1;
/// CU_POINTER_ATTRIBUTE_CONTEXT
const CONTEXT_OF_POINTER: u64 = 1;

/// Hands over the bytes of live device memory, piece by piece.
pub fn read(world: &World, live: Range<u64>, mut see: impl FnMut(&[u8])) -> Result<(), Failure> {
    let driver = world.driver;
    let no_memory = |_| Failure { name: "malloc", code: Some(result::OUT_OF_MEMORY) };
    let buffer = Memory::zeroed(PIECE.min(live.end - live.start) as usize).map_err(no_memory)?;
    let mut stream = 0u64;
    let mut work = || -> Result<(), Failure> {
        // SAFETY: an output word, then plain values.
        unsafe { driver.ask("cuStreamCreate", &[&raw mut stream as u64, NON_BLOCKING]) }?;
        let mut at = live.start;
        let mut done = Ok(());
        while at < live.end && done.is_ok() {
            let len = PIECE.min(live.end - at);
            // SAFETY: the buffer is as long, and is not looked at before the stream has been waited for.
            done = unsafe {
                driver
                    .ask("cuMemcpyDtoHAsync_v2", &[buffer.address(), at, len, stream])
                    .and_then(|()| driver.ask("cuStreamSynchronize", &[stream]))
            };
            if done.is_ok() {
                see(&buffer.bytes()[..len as usize]);
            }
            at += len;
        }
        // SAFETY: the stream just made.
        unsafe { driver.ask("cuStreamDestroy_v2", &[stream]) }.and(done)
    };
    let context = context_of(world, live.start)?;
    world.placement.relaxed(|| within(driver, context, &mut work))?
}

/// A live context from which the memory can be reached: its own if it has one, else any.
pub fn context_of(world: &World, live: u64) -> Result<u64, Failure> {
    let mut context = 0u64;
    // SAFETY: one output word.
    let asked =
        unsafe { world.driver.ask("cuPointerGetAttribute", &[&raw mut context as u64, CONTEXT_OF_POINTER, live]) };
    if asked.is_ok() && world.contexts.lock().contains(&context) {
        return Ok(context);
    }
    if let Some(any) = world.contexts.lock().first() {
        return Ok(*any);
    }
    let device = world.plan.devices.first().copied().unwrap_or(0);
    // SAFETY: an output word and a device.
    unsafe {
        let device = u64::from(world.objects.device(device) as u32);
        world.driver.ask("cuDevicePrimaryCtxRetain", &[&raw mut context as u64, device])?;
    }
    world.contexts.lock().insert(context);
    Ok(context)
}

/// Writes what was asked for, when all work has been waited for. What can spoil it is told to `warn`.
pub fn dump(world: &World, dumps: &[Dump], warn: impl Fn(&str)) -> Result<(), (PathBuf, String)> {
    if dumps.is_empty() {
        return Ok(());
    }
    if world.placement.captures.any() {
        warn("a stream capture is under way at the stop, so that nothing can be waited for: memory is dumped as it is");
    }
    dumps.iter().try_for_each(|dump| write(world, dump).map_err(|why| (dump.path.clone(), why)))
}

fn write(world: &World, Dump { range, file, .. }: &Dump) -> Result<(), String> {
    let Some(live) = world.placement.bound(range) else {
        return Err(format!("{:#x}..{:#x} is memory that is not here", range.start, range.end));
    };
    let start = live.word();
    let mut file: &File = file;
    let mut written = Ok(());
    let read = read(world, start..start + (range.end - range.start), |bytes| {
        if written.is_ok() {
            written = file.write_all(bytes);
        }
    });
    match (read, written) {
        (Ok(()), Ok(())) => Ok(()),
        (Err(failure), _) => Err(format!("{:#x}..{:#x} cannot be read: {failure}", range.start, range.end)),
        (_, Err(error)) => Err(error.to_string()),
    }
}
