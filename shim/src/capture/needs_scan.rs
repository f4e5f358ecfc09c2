//! Whether a call must scan for CPU writes: decided without a lock or a system call.
//!
//! As long as no memory is watched, only calls that name pinned or managed memory scan, because they begin to
//! watch it. (docs/internals/host-writes.md, When scans happen.)

use crate::in_flight::host_functions;
use crate::recording::recorder::Recorder;
use crate::records::lane::Lane;
use crate::submission::readable::Readable;
use crate::submission::shape::{Launch, Reach, Shape};

/// Whether the call concerns memory that the CPU may write without a call.
#[inline(always)]
pub(crate) fn is_concerned(lane: &Lane, shape: &Shape, words: &[u64]) -> bool {
    let recorder = lane.recorder();
    let runs_callbacks = shape.runs_graph && host_functions::any_of_nodes();
    (recorder.reaches_host() || runs_callbacks) && may_use(lane, recorder, shape, words)
}

#[inline(never)]
fn may_use(lane: &Lane, recorder: &Recorder, shape: &Shape, words: &[u64]) -> bool {
    // Who can get to watched memory nobody knows: a kernel may have stored its address. And one under way may
    // be waiting for what the CPU has written, and this call for the kernel.
    if recorder.watch.any() || host_functions::any_under_way() || host_functions::any_of_nodes() {
        return true;
    }
    match shape.reach {
        Reach::Nothing => false,
        Reach::Anything => true,
        Reach::Named { words: named, source, lands } => {
            lands && recorder.destinations.any()
                || named.iter().any(|word| recorder.may_be_shared(words[*word as usize]))
                // Of other memory a source is recorded with the copy.
                || source.is_some_and(|word| recorder.watch.managed.may_hold(words[word as usize]))
        }
        Reach::Arguments(launch) => {
            recorder.watch.managed.any() || arguments(lane, launch, words).is_none_or(|any| any)
        }
    }
}

/// Whether a kernel's arguments may name pinned memory; none if they cannot be read without asking Linux. The
/// driver has not seen the call yet: only the stack in use, and what it has read before, is known to be
/// there.
fn arguments(lane: &Lane, launch: Launch, words: &[u64]) -> Option<bool> {
    let (array, extra) = (words[launch.arguments as usize], words[launch.extra as usize]);
    if array == 0 {
        return if launch.extra != 0 && extra != 0 { None } else { Some(false) };
    }
    let recorder = lane.recorder();
    let sizes = recorder.kernels.known_layout(words[launch.function as usize])?.sizes.as_ref()?;
    let readable = Readable::here(lane);
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let pointers = readable.at_once(array, sizes.len() * 8)?;
    for (pointer, size) in pointers.chunks_exact(8).map(word).zip(sizes).filter(|(_, size)| **size >= 8) {
        let argument = readable.at_once(pointer, *size as usize / 8 * 8)?;
        if argument.chunks_exact(8).map(word).any(|word| recorder.around.pinned.may_hold(word)) {
            return Some(true);
        }
    }
    Some(false)
}
