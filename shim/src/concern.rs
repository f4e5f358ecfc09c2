//! Whether a call has to look for what the CPU wrote without a call: decided without a lock or a system call.
//!
//! A call that neither names pinned or managed memory nor can meet work that uses it leaves what the CPU wrote
//! to the next call that does: nothing before that one can read it. (docs/host-writes.md, When scans happen.)

use crate::host_functions;
use crate::lane::Lane;
use crate::recorder::Recorder;
use crate::shape::{Launch, Reach, Shape};
use crate::stack::Stack;
use std::sync::atomic::Ordering::Relaxed;

/// A launch waits when so many are under way that the driver has no room for another (1,024 on driver 580, for
/// all threads together).
const SELDOM: u32 = 32;

/// Whether the call concerns memory that the CPU may write without a call.
#[inline(always)]
pub fn is_concerned(lane: &Lane, shape: &Shape, words: &[u64]) -> bool {
    let recorder = lane.recorder();
    let runs_callbacks = shape.runs_graph && host_functions::any_of_nodes();
    (recorder.reaches_host() || runs_callbacks) && may_use(lane, recorder, shape, words)
}

#[inline(never)]
fn may_use(lane: &Lane, recorder: &Recorder, shape: &Shape, words: &[u64]) -> bool {
    // What callbacks write is told from what the program writes beside them by looking at each call.
    if host_functions::any_under_way() || host_functions::any_of_nodes() {
        return true;
    }
    // A kernel under way may be waiting for what the CPU has written, and this call for the kernel.
    let is_used = || recorder.watch.any() && recorder.around.pending.any();
    match shape.reach {
        Reach::Nothing => false,
        Reach::Anything => true,
        Reach::UnderWay => is_used(),
        Reach::Named { words: named, source, lands } => {
            lands && recorder.destinations.any()
                || named.iter().any(|word| may_be_shared(recorder, words[*word as usize]))
                || source.is_some_and(|word| is_watched(recorder, words[word as usize]))
                || is_used()
        }
        // Managed memory, and pinned memory whose address stands in memory, kernels find by themselves.
        Reach::Arguments(launch) => {
            recorder.watch.managed.any()
                || recorder.watch.stored.load(Relaxed)
                || arguments(lane, launch, words).is_none_or(|any| any)
                || is_used() && lane.has_launched(SELDOM)
        }
    }
}

fn may_be_shared(recorder: &Recorder, address: u64) -> bool {
    recorder.around.pinned.may_hold(address) || recorder.watch.managed.may_hold(address)
}

/// Whether this may lie in memory of which it is known what the CPU has written: such a source is not recorded
/// with the copy that reads it.
fn is_watched(recorder: &Recorder, source: u64) -> bool {
    recorder.watch.managed.may_hold(source) || recorder.watch.any() && recorder.around.pinned.may_hold(source)
}

/// Whether a kernel's arguments may name pinned memory; none if they cannot be read without asking Linux. The
/// driver has not seen the call yet: only the stack in use is known to be there.
fn arguments(lane: &Lane, launch: Launch, words: &[u64]) -> Option<bool> {
    let (array, extra) = (words[launch.arguments as usize], words[launch.extra as usize]);
    if array == 0 {
        return if launch.extra != 0 && extra != 0 { None } else { Some(false) };
    }
    let recorder = lane.recorder();
    let sizes = recorder.kernels.known(words[launch.function as usize])?.sizes.as_ref()?;
    let stack = Stack::here(lane);
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let pointers = stack.used(array, sizes.len() * 8)?;
    for (pointer, size) in pointers.chunks_exact(8).map(word).zip(sizes).filter(|(_, size)| **size >= 8) {
        let argument = stack.used(pointer, *size as usize / 8 * 8)?;
        if argument.chunks_exact(8).map(word).any(|word| recorder.around.pinned.may_hold(word)) {
            return Some(true);
        }
    }
    Some(false)
}
