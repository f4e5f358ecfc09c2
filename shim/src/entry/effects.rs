//! The recorder's actions at the calls that it follows, beyond what their table lines say.

use crate::capture::callback;
use crate::capture::implicit_modules;
use crate::driver::queries;
use crate::driver::queue::{PER_THREAD, Queue};
use crate::entry::call::Open;
use crate::entry::graph_dot;
use crate::in_flight::host_functions;
use crate::in_flight::pending::Uses;
use crate::job::{collective_graphs, imported_snapshots, passed_files, shared_mappings};
use crate::os::generation;
use crate::os::guard::guarded;
use crate::os::probe::{handed_out, word_at};
use crate::recording::{range, recorder};
use crate::records::lane::{self, Lane};
use crate::records::times;
use crate::submission::hook::Hook;
use crate::submission::nodes::Nodes;
use crate::submission::observation;
use crate::submission::shape::Site;
use crate::submission::substitute::{Purpose, Substitute};
use std::sync::atomic::Ordering::*;
use trace::api::roles::Class;
use trace::api::table::BROKEN_CAPTURE;

/// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
const FILE_DESCRIPTOR: u64 = 1;

/// CU_MEMHOSTREGISTER_IOMEMORY
const IO_MEMORY: u64 = 4;

/// Before the real call: what is about to be given back may be someone else's when the call returns.
#[inline(always)]
pub(crate) fn before_driver(hook: Hook, words: &[u64]) -> u64 {
    match hook {
        Hook::HostFree { .. } | Hook::ModuleEnds { .. } | Hook::CodeEnds { .. } | Hook::StreamEnds { .. } => {
            if matches!(hook, Hook::CodeEnds { context: true, .. }) && range::takes_times() {
                times::context_ends();
            }
            lane::with_lane(|lane| ending(hook, lane, words))
        }
        Hook::MemoryFree { .. } | Hook::Closed { .. } | Hook::Unmapped { .. } | Hook::Released { .. }
            if !generation::recording() =>
        {
            0
        }
        Hook::MemoryFree { address } => {
            let recorder = recorder::recorder();
            let imported = match recorder.imported.any() {
                true => lane::with_lane(|lane| imported_freed(lane, words[usize::from(address)])),
                false => 0,
            };
            match recorder.watch.managed.any() {
                true if imported == 0 => lane::with_lane(|lane| ending(hook, lane, words)),
                _ => imported,
            }
        }
        Hook::Closed { .. } | Hook::Unmapped { .. } | Hook::Released { .. }
            if recorder::recorder().deliveries.is_some() =>
        {
            lane::with_lane(|lane| imported_ends(hook, lane, words))
        }
        _ => 0,
    }
}

/// Tells the length of memory of another process from that of managed memory.
const OF_OTHERS: u64 = 1 << 63;

/// The length of the memory of another process, if it is that.
#[cold]
fn imported_freed(lane: &Lane, address: u64) -> u64 {
    let range = recorder::recorder().imported.closed(address);
    imported_snapshots::ends(lane, range.clone());
    range.map_or(0, |range| OF_OTHERS | (range.end - range.start))
}

/// Of memory of another process that ends by its address: its length, or the request to unmap it.
#[cold]
fn imported_ends(hook: Hook, lane: &Lane, words: &[u64]) -> u64 {
    let word = |at: u8| words[usize::from(at)];
    let imported = &recorder::recorder().imported;
    match hook {
        Hook::Closed { address } => {
            let range = imported.closed(word(address));
            imported_snapshots::ends(lane, range.clone());
            range.map_or(0, |range| range.end - range.start)
        }
        Hook::Unmapped { at, bytes } => {
            let range = word(at)..word(at).saturating_add(word(bytes));
            let request = imported.unmaps(&range);
            imported_snapshots::ends(lane, Some(range));
            request
        }
        Hook::Released { handle } => {
            imported.released(word(handle));
            0
        }
        _ => 0,
    }
}

/// What the driver is given in the place of some arguments.
#[inline(always)]
pub(crate) fn substitute(site: Site, words: &[u64], open: Option<Open>) -> Option<Substitute> {
    match (site.hook, open) {
        (Hook::HandsOver, Some(open)) => callback::hand_over(site.function, words, open.sequence),
        (Hook::GraphLaunched { executable, stream, per_thread }, Some(open))
            if recorder::recorder().collective_graphs.any() =>
        {
            let stream = words[usize::from(stream)];
            let stream = if stream == 0 && per_thread { PER_THREAD } else { stream };
            collective_graphs::substitute((executable, words[usize::from(executable)]), stream, open.sequence)
        }
        (Hook::GraphEnds { .. } | Hook::GraphDestroyed { .. }, _) => collective_graphs::ending(site.hook, words),
        _ => None,
    }
}

/// After the real call, before anything is recorded of what it brought.
#[inline(always)]
pub(crate) fn restore(site: Site, words: &[u64], made: Option<Substitute>, result: u32) {
    let word = |at: u8| words[usize::from(at)];
    if matches!(site.hook, Hook::HandsOver)
        && let Some(Substitute { of: Purpose::Callback(made), .. }) = made
    {
        callback::handed_over(made, result);
    }
    if matches!(site.hook, Hook::GraphLaunched { .. })
        && let Some(Substitute { of: Purpose::Launch(launching), .. }) = made
    {
        collective_graphs::launched(launching, result);
    }
    if let Some(Substitute { of: Purpose::Ended(ended), .. }) = made {
        collective_graphs::ended(ended, result);
    }
    if matches!(site.hook, Hook::CodeEnds { .. } | Hook::EndCapture { .. } | Hook::NodeDestroyed { .. }) {
        collective_graphs::after_call(site.hook, site.function, words, result);
    }
    if let (Some(executable), 0) = (site.shape.changes_executable, result) {
        collective_graphs::changed(word(executable));
    }
    if matches!(site.hook, Hook::HandsBack) && result == 0 {
        callback::give_back(site.function, words);
    }
    if let Hook::Draws { path } = site.hook
        && result == 0
    {
        guarded(|| graph_dot::give_back(word(path)));
    }
}

/// The length of the pinned or managed memory that ends, if it is one.
#[cold]
fn ending(hook: Hook, lane: &Lane, words: &[u64]) -> u64 {
    let word = |at: u8| words[usize::from(at)];
    let recorder = recorder::recorder();
    if matches!(hook, Hook::ModuleEnds { .. } | Hook::CodeEnds { .. }) && recorder.watch.any() {
        // The driver may wait for kernels that wait for what the CPU has written. The call's entry has been
        // written: it is the latest.
        let mut writes = lane.writes_before(lane.sequence().wrapping_sub(1));
        recorder.watch.scan(Class::synchronize, Uses::default(), None, false, &mut writes);
        lane.add(writes);
    }
    match hook {
        Hook::ModuleEnds { module } => {
            recorder.kernels.forget_module(word(module));
            code_ends(lane, word(module));
        }
        Hook::CodeEnds { owner, .. } => {
            recorder.kernels.forget();
            code_ends(lane, word(owner));
            if recorder.watch.managed.any() {
                // Its managed memory may end with a context.
                let mut writes = lane.writes_before(lane.sequence().wrapping_sub(1));
                recorder.watch.scan_last(&mut writes);
                lane.add(writes);
            }
        }
        Hook::StreamEnds { stream } => recorder.around.pending.stream_ends(Queue::resolve(
            word(stream),
            false,
            lane.index(),
            queries::current_context,
        )),
        Hook::MemoryFree { address } => return managed_ends(lane, word(address)),
        Hook::HostFree { address, gone } => {
            let Some(len) = recorder.around.pinned.remove(word(address)) else { return 0 };
            recorder.watch.forget(word(address), len, gone, None);
            // What copies still bring there nobody will look at.
            recorder
                .around
                .pending
                .forget(word(address), len)
                .iter()
                .for_each(|copy| observation::observed(lane, copy, None));
            return len;
        }
        _ => {}
    }
    0
}

/// A module or library ends, and its variables with it.
fn code_ends(lane: &Lane, owner: u64) {
    let recorder = recorder::recorder();
    recorder.images.owner_ends(owner);
    recorder.variables.owned(owner).into_iter().for_each(|start| _ = managed_ends(lane, start));
}

/// The length of this managed memory, if it is that. What the CPU has there is told.
fn managed_ends(lane: &Lane, start: u64) -> u64 {
    let watch = &recorder::recorder().watch;
    let Some(len) = watch.managed.remove(start) else { return 0 };
    // The call's entry has been written: it is the latest.
    let mut writes = lane.writes_before(lane.sequence().wrapping_sub(1));
    watch.forget(start, len, true, Some(&mut writes));
    lane.add(writes);
    len
}

/// After the real call, recorded or not.
#[inline(always)]
pub(crate) fn after_driver(hook: Hook, words: &[u64], result: u32, open: Option<Open>, removed: u64) {
    let word = |at: u8| words[usize::from(at)];
    if matches!(hook, Hook::None | Hook::GraphLaunched { .. })
        || matches!(hook, Hook::MemoryFree { .. }) && (removed == 0 || result == 0)
    {
        return;
    }
    if let Hook::FunctionUsed { function } = hook
        && (result != 0 || open.is_none() || is_known(word(function)))
    {
        return;
    }
    let is_of_imported = matches!(
        hook,
        Hook::Opened { .. } | Hook::Closed { .. } | Hook::Mapped { .. } | Hook::Unmapped { .. } | Hook::Released { .. }
    );
    if is_of_imported && (open.is_none() || !recorder::recorder().imported.is_snapshotted()) {
        return;
    }
    let is_order = matches!(hook, Hook::EventRecord { .. } | Hook::ContextRecord { .. } | Hook::StreamWait { .. });
    if is_order && (result != 0 || open.is_none() || !orders(recorder::recorder())) {
        return;
    }
    let succeeded = result == 0 || matches!(hook, Hook::EndCapture { .. }) && BROKEN_CAPTURE.contains(&result);
    if let Some(open) = open {
        lane::with_lane(|lane| ended(hook, lane, words, succeeded, open.position, removed));
    }
}

/// Whether the trace holds who this function is, or a call that looked it up.
fn is_known(function: u64) -> bool {
    let kernels = &recorder::recorder().kernels;
    kernels.known_layout(function).is_some() || kernels.is_handed_out(function)
}

fn ended(hook: Hook, lane: &Lane, words: &[u64], succeeded: bool, position: u64, removed: u64) {
    let word = |at: u8| words[usize::from(at)];
    let recorder = recorder::recorder();
    match (hook, succeeded) {
        // Whether or not it succeeded: a reset that failed may have ended something all the same.
        (Hook::CodeEnds { owner, .. }, _) => {
            recorder.deliveries.iter().for_each(|deliveries| deliveries.context_ends());
            recorder.kernels.forget();
            recorder.modules.owner_ends(word(owner));
            recorder.variables.owner_ended(word(owner), succeeded, &recorder.watch);
            recorder.around.pinned.remove_freed(queries::is_not_pinned);
            recorder.watch.forget_freed(&recorder.around.pinned);
            if recorder.imported.any() {
                recorder.imported.forget_closed(queries::is_no_memory);
            }
        }
        (Hook::ModuleEnds { module }, _) => {
            recorder.kernels.forget_module(word(module));
            recorder.modules.remove(word(module));
            recorder.variables.owner_ended(word(module), succeeded, &recorder.watch);
        }
        // A driver under another tool refuses it.
        (Hook::Profiler { begins }, _) => range::profiler(&recorder.range, begins),
        (Hook::MemoryFree { address }, false) if removed & OF_OTHERS != 0 => reopen(word(address)),
        (Hook::MemoryFree { address }, false) if removed != 0 => recorder.watch.managed_made(word(address), removed),
        // How it had been asked for is forgotten.
        (Hook::HostFree { address, gone: true }, false) if removed != 0 => {
            recorder.around.pinned.add(word(address), removed, true);
        }
        (Hook::HostFree { address, gone: false }, false) if removed != 0 => {
            recorder.around.pinned.register(word(address), removed);
        }
        (Hook::Closed { address }, false) if removed != 0 => reopen(word(address)),
        (Hook::Unmapped { .. }, _) if removed != 0 => recorder.imported.unmapped(removed, !succeeded),
        (_, false) => {}
        (_, true) => took_effect(hook, lane, words, position),
    }
}

/// Memory of another process was not given up after all.
fn reopen(address: u64) {
    queries::memory_around(address).into_iter().for_each(|range| recorder::recorder().imported.opened(range));
}

fn took_effect(hook: Hook, lane: &Lane, words: &[u64], position: u64) {
    let word = |at: u8| words[usize::from(at)];
    let recorder = recorder::recorder();
    match hook {
        Hook::ManagedMade { place, bytes } => {
            recorder.watch.managed_made(handed_out(word(place)), word(bytes));
        }
        Hook::VariableFound { in_library, managed, place, bytes, owner, name } => {
            let library_of = |module| recorder.modules.library_of(module);
            recorder.variables.watch_variable(
                in_library,
                managed,
                [place, bytes, owner, name].map(word),
                library_of,
                &recorder.watch,
            );
        }
        // Memory of devices is never read by the CPU: it may have side effects.
        Hook::HostRegister { address, bytes, flags } if word(flags) & IO_MEMORY == 0 => {
            recorder.around.pinned.register(word(address), word(bytes));
            shared_mappings::registered(lane, word(address)..word(address).saturating_add(word(bytes)));
        }
        Hook::EventRecord { event, stream, per_thread } => {
            let queue = Queue::resolve(word(stream), per_thread, lane.index(), queries::current_context);
            recorder.around.pending.event_recorded(word(event), queue, position);
        }
        Hook::ContextRecord { event, context } => {
            recorder.around.pending.context_recorded(word(event), word(context), position);
        }
        Hook::EventEnds { event } => recorder.around.pending.event_ends(word(event)),
        Hook::StreamWait { stream, event, per_thread } => {
            let queue = Queue::resolve(word(stream), per_thread, lane.index(), queries::current_context);
            recorder.around.pending.stream_waits(queue, word(event));
        }
        Hook::Textured { address, within } if recorder.reaches_host() => {
            let address =
                within.map_or(Some(word(address)), |offset| word_at(word(address) + u64::from(offset), 8, true));
            // The call's entry has been written: it is the latest.
            let mut writes = lane.writes_before(lane.sequence().wrapping_sub(1));
            recorder.watch.refer_stored(address.into_iter(), &mut writes);
            lane.add(writes);
        }
        Hook::Instantiated { place, graph } => {
            collective_graphs::instantiated(recorder, handed_out(word(place)), word(graph), true);
            instantiated(lane, handed_out(word(place)), word(graph));
        }
        Hook::GraphUpdated { executable, graph } => {
            collective_graphs::instantiated(recorder, word(executable), word(graph), false);
            instantiated(lane, word(executable), word(graph));
        }
        Hook::GraphEnds { executable } => {
            recorder.destinations.ends(word(executable));
            recorder.node_runs.ends(word(executable));
        }
        Hook::Opened { place } => imported_snapshots::opened(lane, handed_out(word(place))),
        Hook::Mapped { at, bytes, handle } => {
            recorder.imported.mapped(word(at)..word(at).saturating_add(word(bytes)), word(handle));
            if recorder.imported.any() {
                imported_snapshots::imported(lane);
            }
        }
        Hook::FilePassed { file, kind, is_exported, place } if word(kind) == FILE_DESCRIPTOR => {
            if let Some(place) = place.filter(|_| recorder.imported.is_snapshotted()) {
                recorder.imported.imported(handed_out(word(place)));
                imported_snapshots::imported(lane);
            }
            // What is handed out has been put where the call points to; what is taken is the word itself.
            let file = if is_exported { word_at(word(file), 4, true) } else { Some(word(file)) };
            file.into_iter().for_each(|file| passed_files::passed(lane, file as i32, is_exported));
        }
        Hook::BeginCapture => {
            queries::GRAPHS.store(true, Relaxed);
            range::capture_begins();
        }
        Hook::GraphMade => queries::GRAPHS.store(true, Relaxed),
        Hook::EndCapture { .. } => range::capture_ends(),
        _ => code_found(hook, lane, word),
    }
}

/// Modules, libraries, kernels and functions by the calls that make them, find them or use them.
fn code_found(hook: Hook, lane: &Lane, word: impl Fn(u8) -> u64) {
    let recorder = recorder::recorder();
    match hook {
        Hook::ModuleMade { place, library } => {
            let module = handed_out(word(place));
            let library = library.map_or(0, word);
            recorder.images.library_module(module, library);
            recorder.modules.add(module, library, queries::current_context());
        }
        Hook::ModuleUsed { place, module, name } => {
            implicit_modules::looked_into(lane, word(module));
            recorder.kernels.give(handed_out(word(place)), word(module));
            recorder.images.function_found(word(place), word(module), word(name), false);
        }
        Hook::KernelFound { place, library, name } => {
            recorder.kernels.give(handed_out(word(place)), 0);
            recorder.images.function_found(word(place), word(library), word(name), true);
        }
        Hook::KernelFunction { place, kernel } => {
            recorder.kernels.give(handed_out(word(place)), 0);
            recorder.images.kernel_function(word(place), word(kernel));
        }
        Hook::FunctionUsed { function } => _ = lane.introduce(word(function)),
        _ => {}
    }
}

/// Whether anything is under way of which it matters what waits for it.
fn orders(recorder: &recorder::Recorder) -> bool {
    recorder.around.pending.any() || host_functions::any_under_way()
}

/// An executable graph was made of another one, or became like it.
fn instantiated(lane: &Lane, executable: u64, graph: u64) {
    let recorder = lane.recorder();
    let copies = recorder.destinations.any() || recorder.shares_any();
    let nodes = if copies || host_functions::any_of_nodes() { Nodes::list(graph) } else { Nodes::default() };
    let written = nodes.written();
    let called_back = nodes.called_back(&written);
    let changes = !called_back.is_empty();
    recorder.node_runs.instantiated(executable, called_back);
    recorder.destinations.instantiated(executable, &written, |at, len| recorder.shares(at, len));
    if changes {
        // What its callbacks make of that before anybody may look.
        let mut writes = lane.writes_before(lane.sequence().wrapping_sub(1));
        for (address, len) in recorder.destinations.pageable(executable) {
            recorder.watch.watch(address, len, false, &mut writes);
        }
        lane.add(writes);
    }
}
