//! Callbacks that the application passes to the driver for execution as work. The driver gets the recorder's
//! callback instead, which runs the application's and records when that was and what it changed.
//!
//! Queries of a node's parameters return the application's callback.

use crate::capture::completed;
use crate::driver::queries;
use crate::driver::queue::Queue;
use crate::host_memory::host_writes::HostWrites;
use crate::in_flight::host_functions::{Callback, OF_NODES, UNDER_WAY};
use crate::in_flight::node_runs::Turn;
use crate::os::guard::guarded;
use crate::os::probe::{bytes_at, word_at};
use crate::os::{clock, generation};
use crate::records::lane::{self, Lane};
use crate::records::thread_start;
use crate::submission::substitute::{HandedOver, Purpose, STRUCT, Substitute};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use trace::Function;
use trace::api::roles::{Field, Role};
use trace::api::types::{Form, Type};
use trace::api::walk::{View, member};
use trace::file::record::Written;

/// What the driver is given for the function of a node.
pub(crate) fn own_function() -> u64 {
    run as *const () as u64
}

/// What to pass on in the place of a callback; nothing if there is none in this call.
#[cold]
pub(crate) fn hand_over(function: &'static Function, words: &[u64], call: u32) -> Option<Substitute> {
    let mut made = None;
    lane::with_lane(|lane| made = substitute(lane, function, words, call));
    made
}

fn substitute(lane: &Lane, function: &'static Function, words: &[u64], call: u32) -> Option<Substitute> {
    let place = |field: &Field| field.offset as usize / 8;
    let by_value = function.params.iter().position(|p| matches!(p.role, Role::Callback));
    let callback = |code: u64, data: u64, turn| Callback {
        function: code,
        data,
        generation: generation::generation(),
        thread: lane.index(),
        call,
        turn,
        runs: AtomicU32::new(0),
        before: AtomicPtr::default(),
    };
    if let Some(index) = by_value {
        let at = place(&function.params[index]);
        let (code, data) = (words[at], words[at + 1]);
        if code == 0 {
            return None;
        }
        let with_status = function.params[index].ty.name == "CUstreamCallback";
        let queue = Queue::resolve(words[0], function.twin_of.is_some(), lane.index(), queries::current_context);
        // A captured one has become a node.
        let is_captured = queries::is_capturing(words[0], function.twin_of.is_some());
        let turn = (!is_captured).then(|| {
            let position = lane.recorder().around.pending.take_position();
            let by = (lane.index(), call);
            Turn { queue, before: position, behind: position, by, around: Arc::default(), begun: None }
        });
        let of_node = turn.is_none();
        UNDER_WAY.fetch_add(usize::from(!of_node), AcqRel);
        let callback = Box::into_raw(Box::new(callback(code, data, turn)));
        let ours = if with_status { run_with_status as *const () as u64 } else { run as *const () as u64 };
        let words = [ours, callback as u64];
        let handed_over = HandedOver { callback, copy: std::ptr::null_mut(), of_node, call };
        return Some(Substitute::of_two(at, words, Purpose::Callback(handed_over)));
    }
    function.params.iter().find_map(|param| {
        let Form::Pointer(ty) = param.ty.form else { return None };
        if !matches!(ty.form, Form::Struct(_)) || !matches!(param.role, Role::In(_) | Role::InOut(_)) {
            return None;
        }
        let mut copy = Box::new([0u64; STRUCT]);
        let bytes = bytes_at(words[place(param)], (ty.size as usize).min(STRUCT * 8), true)?;
        for (word, bytes) in copy.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(whole);
        }
        let at = callback_offset(ty, 0, &Copied(&copy))? / 8;
        if copy[at] == 0 {
            return None;
        }
        let callback = Box::into_raw(Box::new(callback(copy[at], copy[at + 1], None)));
        (copy[at], copy[at + 1]) = (run as *const () as u64, callback as u64);
        let copy = Box::into_raw(copy);
        let handed_over = HandedOver { callback, copy, of_node: true, call };
        Some(Substitute::of_one(place(param), copy as u64, Purpose::Callback(handed_over)))
    })
}

struct Copied<'c>(&'c [u64; STRUCT]);

impl View for Copied<'_> {
    fn load(&self, offset: u32, size: u32) -> Option<u64> {
        let word = self.0.get(offset as usize / 8)? >> (offset % 8 * 8);
        Some(if size < 8 { word & ((1 << (size * 8)) - 1) } else { word })
    }

    fn read_word(&self, address: u64, size: u32) -> Option<u64> {
        word_at(address, size, true)
    }
}

/// Where in the struct a callback stands, if there is one now.
fn callback_offset(ty: &'static Type, base: u32, view: &Copied) -> Option<usize> {
    let Form::Struct(fields) = ty.form else { return None };
    fields.iter().enumerate().find_map(|(index, field)| match (field.role, field.ty.form) {
        (Role::Callback, _) => Some((base + field.offset) as usize),
        (Role::Union(..), _) => callback_offset(member(fields, index, base, view)?, base + field.offset, view),
        (_, Form::Struct(_)) => callback_offset(field.ty, base + field.offset, view),
        _ => None,
    })
}

/// After the call.
#[cold]
pub(crate) fn handed_over(made: HandedOver, result: u32) {
    // SAFETY: the copy and, if the driver refused it, the callback are ours alone now.
    unsafe {
        if !made.copy.is_null() {
            drop(Box::from_raw(made.copy));
        }
        if result != 0 {
            let callback = Box::from_raw(made.callback);
            UNDER_WAY.fetch_sub(usize::from(callback.turn.is_some()), AcqRel);
        } else if made.of_node {
            let _ = OF_NODES.fetch_update(AcqRel, Acquire, |last| {
                (*made.callback).before.store(last, Release);
                Some(made.callback)
            });
        } else {
            lane::with_lane(|lane| lane.recorder().around.pending.handed_over(lane.index(), made.call));
        }
    }
}

/// After a successful question for a node's parameters, before anybody sees them.
#[cold]
pub(crate) fn give_back(function: &'static Function, words: &[u64]) {
    guarded(|| {
        for param in function.params {
            let Form::Pointer(ty) = param.ty.form else { continue };
            let given = words[param.offset as usize / 8];
            let size = ty.size as usize;
            if given == 0 || !matches!(ty.form, Form::Struct(_)) || size > STRUCT * 8 || !size.is_multiple_of(8) {
                continue;
            }
            let mut copy = [0u64; STRUCT];
            // SAFETY: the driver has just filled the struct for the application.
            unsafe { std::ptr::copy_nonoverlapping(given as *const u64, copy.as_mut_ptr(), size / 8) };
            let Some(at) = callback_offset(ty, 0, &Copied(&copy)) else { continue };
            if copy[at / 8] == run as *const () as u64 {
                // SAFETY: the data of ours is a callback that is never freed; the struct is the application's
                // to be filled.
                unsafe {
                    let callback = &*(copy[at / 8 + 1] as *const Callback);
                    let place = (given as *mut u64).add(at / 8);
                    place.write(callback.function);
                    place.add(1).write(callback.data);
                }
            }
        }
    });
}

unsafe extern "C-unwind" fn run(data: *mut c_void) {
    // SAFETY: what `substitute` made, and what the application gave for its own function.
    unsafe {
        let callback = &*data.cast::<Callback>();
        let begun = began(callback);
        let function: unsafe extern "C-unwind" fn(u64) = std::mem::transmute(callback.function);
        function(callback.data);
        ended(callback, begun);
        let ran_once = callback.turn.is_some();
        if ran_once {
            UNDER_WAY.fetch_sub(1, AcqRel);
            drop(Box::from_raw(data.cast::<Callback>()));
        }
    }
}

unsafe extern "C-unwind" fn run_with_status(stream: u64, status: u32, data: *mut c_void) {
    // SAFETY: as above.
    unsafe {
        let callback = &*data.cast::<Callback>();
        let begun = began(callback);
        let function: unsafe extern "C-unwind" fn(u64, u32, u64) = std::mem::transmute(callback.function);
        function(stream, status, callback.data);
        ended(callback, begun);
        if callback.turn.is_some() {
            UNDER_WAY.fetch_sub(1, AcqRel);
            drop(Box::from_raw(data.cast::<Callback>()));
        }
    }
}

/// A run under way.
struct Begun {
    time: u64,
    /// By which the watch knows it.
    number: u64,
    /// None of a graph's if nobody knows which launch it was.
    turn: Option<Turn>,
}

/// The work before it has finished: the application may look at what it brought.
fn began(callback: &Callback) -> Begun {
    let mut begun = Begun { time: clock::entry(), number: 0, turn: callback.turn.clone() };
    if callback.generation == generation::generation() {
        thread_start::with_any_lane(|lane| {
            let of_launch = || lane.recorder().node_runs.begins(std::ptr::from_ref(callback) as u64);
            let position = lane.recorder().around.pending.take_position();
            begun.turn = begun.turn.take().or_else(of_launch).map(|turn| Turn { begun: Some(position), ..turn });
            // What a scan under way finds is stamped before it.
            lane.recorder().watch.wait_for_scan();
            begun.time = clock::entry();
            begun.turn.iter().for_each(|turn| completed::turn_comes(lane, callback.thread, turn));
            // Nor what others find before it really runs.
            begun.number = lane.recorder().watch.callback_begins(callback.thread, begun.turn.clone());
        });
    }
    begun
}

fn ended(callback: &Callback, begun: Begun) {
    if callback.generation != generation::generation() {
        return;
    }
    let run = callback.runs.fetch_add(1, AcqRel) + 1;
    thread_start::with_any_lane(|lane| {
        let (thread, call, end) = (callback.thread, callback.call, clock::exit());
        let mut writes =
            HostWrites::new(Written { begin: begun.time, end, thread, call, run, seen: 0 }, &lane.recorder().around);
        lane.recorder().watch.callback_ends(begun.number, begun.turn.as_ref(), &mut writes);
        lane.add(writes.of_run());
    });
}
