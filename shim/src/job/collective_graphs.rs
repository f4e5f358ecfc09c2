//! Collectives in graphs, for `record --collectives`: found when they are captured. A clone of the graph,
//! launched in its place, copies their results (`cloned_graphs`).

use crate::driver::calls;
use crate::driver::queries;
use crate::os::generation;
use crate::os::guard::guarded;
use crate::os::probe::handed_out;
use crate::readback::cloned_graphs::{CloneOfGraph, Collective, Ended, Executable, Launching};
use crate::readback::readback_pool::Room;
use crate::readback::readback_queue::{Deliveries, Readback, relaxed};
use crate::recording::recorder;
use crate::recording::recorder::Recorder;
use crate::records::lane::{self, Lane};
use crate::submission::hook::Hook;
use crate::submission::substitute::{Purpose, Substitute};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use trace::Function;
use trace::api::effect::Effect;
use trace::api::enums::{CUgraphNodeType, CUmemorytype};
use trace::api::structs::CUDA_MEMCPY3D;
use trace::api::table::BROKEN_CAPTURE;
use trace::api::types::{CUdeviceptr, Kind};
use trace::file::record::nccl::Delivered;

const CHANGED: &str = "its executable graph was changed after instantiation";

/// The collective that was just launched into a capture of this stream; an error says why it is not followed.
pub(crate) fn captured(lane: &Lane, of: &Delivered, stream: u64) -> Result<(), &'static str> {
    const OTHERWISE: &str = "it was captured into a graph, and its node is unknown";
    let (graph, node) = queries::captured_last(stream).ok_or(OTHERWISE)?;
    if queries::node_kind(node) != Some(CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL) {
        return Err(OTHERWISE);
    }
    if of.len > 0 {
        let collective = Collective { node, operation: of.operation, address: of.address, len: of.len };
        lane.recorder().collective_graphs.captured(graph, collective);
    }
    Ok(())
}

/// An executable graph was made of this one, or an older one became as it is.
pub(crate) fn instantiated(recorder: &'static Recorder, executable: u64, graph: u64, is_new: bool) {
    let (graphs, deliveries) = (&recorder.collective_graphs, recorder.collectives());
    let Some(deliveries) = deliveries.filter(|_| graphs.any()) else { return };
    // Which nodes are switched off an update leaves as it is, and nothing tells.
    let was_changed = !is_new
        && graphs.executable(executable).is_some_and(|known| known.clone.as_ref().is_err_and(|why| why == CHANGED));
    let nodes = queries::graph_nodes(graph);
    let mut collectives = graphs.collectives_of(graph);
    collectives.retain(|one| nodes.contains(&one.node));
    let before = match (was_changed, collectives.is_empty()) {
        (true, _) => graphs.set(executable, Executable::lost(collectives, CHANGED.into())),
        (false, true) => graphs.take(executable),
        (false, false) => {
            let clone = relaxed(|| with_copies(deliveries, executable, graph, &collectives));
            graphs.set(executable, Executable { collectives, clone, is_launched: AtomicBool::new(false) })
        }
    };
    drop(before);
}

/// A clone in which each collective is followed by a copy of what it delivers.
fn with_copies(
    deliveries: &Deliveries,
    executable: u64,
    graph: u64,
    collectives: &[Collective],
) -> Result<CloneOfGraph, String> {
    let longest = collectives.iter().map(|one| one.len).max().unwrap_or(0);
    // Where copies go is said before each launch; until then to some memory of the kind.
    let anywhere = deliveries.anywhere(longest).ok_or("it does not fit the recorder's pinned memory")?;
    let mut cloned = 0;
    // SAFETY: the application has just instantiated the graph.
    done("to clone the graph", unsafe { calls::clone_graph(&mut cloned, graph) })?;
    let (context, device) = (queries::current_context(), queries::current_device());
    let mut clone = CloneOfGraph { graph: cloned, executable: 0, copies: Vec::new(), context, device };
    let edges = queries::graph_edges(cloned).ok_or("the driver does not report the edges of the graph's clone")?;
    for one in collectives {
        let (mut node, mut copy) = (0, 0);
        let described = described(one, anywhere);
        // SAFETY: the node is one of the graph, the arrays are as long as told, the struct is whole.
        unsafe {
            done("to find its node in the graph's clone", calls::node_in_clone(&mut node, one.node, cloned))?;
            done(
                "to add a copy to the graph's clone",
                calls::add_copy(&mut copy, cloned, &node, 1, &described, context),
            )?;
        }
        let behind: Vec<u64> = edges.iter().filter(|(from, _)| *from == node).map(|(_, to)| *to).collect();
        let copies = vec![copy; behind.len()];
        if !behind.is_empty() {
            // SAFETY: as above.
            let added = unsafe { calls::add_edges(cloned, copies.as_ptr(), behind.as_ptr(), behind.len()) };
            done("to add the copy's dependents", added)?;
        }
        clone.copies.push(copy);
    }
    // SAFETY: the graph is the recorder's own.
    done("to instantiate the graph's clone", unsafe {
        calls::instantiate(&mut clone.executable, cloned, flags(executable))
    })?;
    Ok(clone)
}

/// Those of the application's that say how its kernels run.
fn flags(executable: u64) -> u64 {
    const USE_NODE_PRIORITY: u64 = 8;
    let mut flags = 0;
    // SAFETY: the driver has just made it; older ones cannot be asked.
    match unsafe { calls::executable_flags(executable, &mut flags) } {
        Some(0) => flags & USE_NODE_PRIORITY,
        _ => 0,
    }
}

fn described(of: &Collective, to: u64) -> CUDA_MEMCPY3D {
    // SAFETY: plain numbers and pointers, for which zeros are valid.
    let mut copy = unsafe { std::mem::zeroed::<CUDA_MEMCPY3D>() };
    (copy.srcMemoryType, copy.srcDevice) = (CUmemorytype::CU_MEMORYTYPE_UNIFIED, CUdeviceptr(of.address));
    (copy.dstMemoryType, copy.dstDevice) = (CUmemorytype::CU_MEMORYTYPE_UNIFIED, CUdeviceptr(to));
    (copy.WidthInBytes, copy.Height, copy.Depth) = (of.len as usize, 1, 1);
    copy
}

fn done(what: &str, result: Option<u32>) -> Result<(), String> {
    match result {
        Some(0) => Ok(()),
        Some(code) => Err(format!("the driver refused {what} (CUresult {code})")),
        None => Err(format!("this driver has no function {what}")),
    }
}

/// The clone for the application's graph: by the argument word and the handle of that.
#[cold]
pub(crate) fn substitute((word, executable): (u8, u64), stream: u64, call: u32) -> Option<Substitute> {
    let known = recorder::recorder().collective_graphs.executable(executable)?;
    let mut made = None;
    lane::with_lane(|lane| made = prepared(lane, &known, stream, call));
    let launching = made?;
    let own = launching.executable.clone.as_ref().map_or(0, |clone| clone.executable);
    Some(Substitute::of_one(word.into(), own, Purpose::Launch(Box::into_raw(Box::new(launching)))))
}

/// The clone with room for what this launch brings; without it the application's own graph runs.
fn prepared(lane: &Lane, executable: &Arc<Executable>, stream: u64, call: u32) -> Option<Launching> {
    let recorder = recorder::recorder();
    let deliveries = recorder.collectives()?;
    // It becomes part of another graph.
    if queries::is_capturing(stream, false) {
        return None;
    }
    let about = |one: &Collective| Delivered {
        operation: one.operation,
        launch: Some((lane.index(), call)),
        address: one.address,
        len: one.len,
        ..Delivered::default()
    };
    let kept: Vec<Readback> = executable.collectives.iter().map(|one| about(one).into()).collect();
    let lost = |why: String| {
        let all = executable.collectives.iter().map(about);
        all.for_each(|of| deliveries.tell(&recorder.around, Delivered { lost: why.clone(), ..of }));
        None
    };
    let clone = match &executable.clone {
        Ok(clone) => clone,
        Err(why) => return lost(why.clone()),
    };
    let found = deliveries.room_for(&recorder.around, &kept).and_then(|room| {
        let directed = match executable.begins_launch() {
            true => relaxed(|| directed(clone, executable, &kept, &room)),
            false => Err("another thread was launching the same graph".into()),
        };
        match directed {
            Ok(()) => Ok(room),
            Err(why) => {
                deliveries.give_back(&room);
                Err(why)
            }
        }
    });
    match found {
        Ok(room) => {
            let (around, executable) = (&recorder.around, executable.clone());
            Some(Launching { deliveries, around, executable, room, kept, stream })
        }
        Err(why) => lost(why),
    }
}

/// Tells the copies where to.
fn directed(clone: &CloneOfGraph, of: &Executable, kept: &[Readback], room: &Room) -> Result<(), String> {
    let (_, start) = room.on_device();
    let places = Deliveries::places(kept);
    for ((collective, node), at) in of.collectives.iter().zip(&clone.copies).zip(places) {
        let copy = described(collective, start + at);
        // SAFETY: all are the recorder's own; the struct is whole.
        let set = unsafe { calls::set_copy(clone.executable, *node, &copy, clone.context) };
        if let Err(why) = done("to set the copy's destination", set) {
            of.is_launched.store(false, Release);
            return Err(why);
        }
    }
    Ok(())
}

/// The launch was made, or refused.
#[cold]
pub(crate) fn launched(launching: *mut Launching, result: u32) {
    // SAFETY: `substitute` has made it, and its call returns once.
    let Launching { deliveries, around, executable, room, kept, stream } = *unsafe { Box::from_raw(launching) };
    guarded(|| {
        // What an error tells may be of earlier work, and this be under way: the room is not used again.
        if result == 0 {
            deliveries.follow(around, room, kept, stream);
        }
        executable.is_launched.store(false, Release);
        drop(executable);
    });
}

/// The application has changed an executable graph, which its clone does not know.
#[inline]
pub(crate) fn changed(executable: u64) {
    if !generation::recording() || !recorder::recorder().keeps_collectives {
        return;
    }
    guarded(|| {
        let graphs = &recorder::recorder().collective_graphs;
        let collectives = graphs.executable(executable).map(|known| known.collectives.clone()).unwrap_or_default();
        drop(graphs.set(executable, Executable::lost(collectives, CHANGED.into())));
    });
}

/// Before a graph or an executable one is destroyed. NCCL waits for all that holds its kernels to be gone:
/// clones end with what they were made of also when nothing is recorded any more.
#[cold]
pub(crate) fn ending(hook: Hook, words: &[u64]) -> Option<Substitute> {
    let graphs = &recorder::of_this_process()?.collective_graphs;
    let word = |at: u8| words[usize::from(at)];
    let ended = match hook {
        _ if !graphs.any() => None,
        Hook::GraphEnds { executable } => {
            graphs.take(word(executable)).map(|known| Ended::Executable(word(executable), known))
        }
        Hook::GraphDestroyed { graph } => graphs.take_graph(word(graph)).map(|known| Ended::Graph(word(graph), known)),
        _ => None,
    };
    Some(Substitute::of_none(Purpose::Ended(Box::into_raw(Box::new(ended?)))))
}

#[cold]
pub(crate) fn ended(ended: *mut Ended, result: u32) {
    // SAFETY: `ending` has made it, and its call returns once.
    let ended = *unsafe { Box::from_raw(ended) };
    guarded(|| match result {
        0 => drop(ended),
        _ => recorder::recorder().collective_graphs.put_back(ended),
    });
}

/// Behind the end of a capture, of a node, or of a context.
#[cold]
pub(crate) fn after_call(hook: Hook, function: &'static Function, words: &[u64], result: u32) {
    let Some(recorder) = recorder::of_this_process().filter(|recorder| recorder.collective_graphs.any()) else {
        return;
    };
    let (graphs, word) = (&recorder.collective_graphs, |at: u8| words[usize::from(at)]);
    guarded(|| match hook {
        Hook::EndCapture { place } if result == 0 => {
            graphs.capture_ended(place.map(|place| handed_out(word(place))));
        }
        Hook::EndCapture { .. } if BROKEN_CAPTURE.contains(&result) => graphs.capture_ended(None),
        Hook::NodeDestroyed { node } if result == 0 => graphs.node_destroyed(word(node)),
        Hook::CodeEnds { owner, .. } => match function.effect {
            Effect::ReleasePrimary if queries::is_primary_active(word(owner)) => {}
            Effect::ReleasePrimary | Effect::ResetPrimary => {
                graphs.context_ended(|clone| clone.device == Some(word(owner)));
            }
            _ if function.handle(Kind::Context).is_some() => {
                graphs.context_ended(|clone| clone.context == word(owner));
            }
            _ if function.handle(Kind::GreenContext).is_some() => graphs.context_ended(|_| true),
            _ => {}
        },
        _ => {}
    });
}
