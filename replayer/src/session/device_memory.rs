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

/// Hands over the bytes of live device memory, piece by piece.
pub fn read(world: &World, live: Range<u64>, mut see: impl FnMut(&[u8])) -> Result<(), Failure> {
    let driver = world.driver;
    let no_memory = |_| Failure { name: "malloc", code: Some(result::OUT_OF_MEMORY) };
    let buffer = Memory::zeroed(PIECE.min(live.end - live.start) as usize).map_err(no_memory)?;
    let mut work = || -> Result<(), Failure> {
        let stream = driver.create_stream()?;
        let mut at = live.start;
        let mut done = Ok(());
        while at < live.end && done.is_ok() {
            let len = PIECE.min(live.end - at);
            // SAFETY: the buffer is as long, and is not looked at before the stream has been waited for.
            done = unsafe { driver.read_ordered(buffer.address() as *mut u8, at, len, stream) }
                .and_then(|()| driver.synchronize_stream(stream));
            if done.is_ok() {
                see(&buffer.bytes()[..len as usize]);
            }
            at += len;
        }
        driver.destroy_stream(stream).and(done)
    };
    let context = context_of(world, live.start)?;
    world.placement.relaxed(|| within(driver, context, &mut work))?
}

/// A live context from which the memory can be reached: its own if it has one, else any.
pub fn context_of(world: &World, live: u64) -> Result<u64, Failure> {
    let own = world.driver.context_of_memory(live);
    if let Some(context) = own.ok().filter(|context| world.contexts.lock().contains(context)) {
        return Ok(context);
    }
    if let Some(any) = world.contexts.lock().first() {
        return Ok(*any);
    }
    let device = world.plan.devices.first().copied().unwrap_or(0);
    let context = world.driver.retain_primary_context(world.objects.device(device))?;
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
