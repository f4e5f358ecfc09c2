//! The live object for each recorded one.
//!
//! A handle value has a meaning only with its kind, and may be reused when its object is gone: the last
//! binding wins. A dead object is remembered as dead and not passed on, because its live value may by now be
//! another object's. Numbers assigned by contexts live as often as they are bound to the same live value.

use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use trace::api::types::Kind;
use trace::model::objects::NUMBERED_BY_CONTEXT;

const KINDS: usize = Kind::Shareable as usize + 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    Live(u64),
    /// The call that made the object was not replayed.
    Absent {
        call: u64,
    },
    /// A call ended it.
    Dead {
        call: u64,
    },
    /// No call in the trace made it.
    Unknown,
}

struct Bound {
    found: Lookup,
    /// How many ends make an end of it.
    lives: u32,
}

pub(crate) struct Objects {
    bound: [RwLock<HashMap<u64, Bound>>; KINDS],
    devices: HashMap<i32, i32>,
    /// Whether any object that kernels take by value has another value now.
    moved: AtomicBool,
}

/// Objects whose handles are passed to kernels as they are.
const IN_ARGUMENTS: [Kind; 4] = [Kind::Texture, Kind::Surface, Kind::GraphConditional, Kind::GraphDeviceNode];

impl Objects {
    /// `devices`: all recorded devices that are known, each with the live one; others stay what they are.
    pub(crate) fn new(devices: HashMap<i32, i32>) -> Objects {
        Objects { bound: std::array::from_fn(|_| RwLock::default()), devices, moved: AtomicBool::new(false) }
    }

    pub(crate) fn device(&self, recorded: i32) -> i32 {
        self.devices.get(&recorded).copied().unwrap_or(recorded)
    }

    /// Whether a live device stands in for more than one of those that were recorded.
    pub(crate) fn is_several(&self, live: i32) -> bool {
        self.devices.values().filter(|here| **here == live).count() > 1
    }

    pub(crate) fn find(&self, kind: Kind, recorded: u64) -> Lookup {
        if kind == Kind::Device {
            return Lookup::Live(u64::from(self.device(recorded as i32) as u32));
        }
        if kind.is_special(recorded) {
            return Lookup::Live(recorded);
        }
        self.bound[space(kind)].read().get(&recorded).map_or(Lookup::Unknown, |bound| bound.found)
    }

    /// The live object, if there is one.
    pub(crate) fn live(&self, kind: Kind, recorded: u64) -> Option<u64> {
        match self.find(kind, recorded) {
            Lookup::Live(live) => Some(live),
            _ => None,
        }
    }

    pub(crate) fn bind(&self, kind: Kind, recorded: u64, live: u64) {
        if kind != Kind::Device && !kind.is_special(recorded) {
            let mut all = self.bound[space(kind)].write();
            let others =
                all.get(&recorded).filter(|bound| bound.found == Lookup::Live(live)).map_or(0, |bound| bound.lives);
            let lives = if NUMBERED_BY_CONTEXT.contains(&kind) { others + 1 } else { 1 };
            all.insert(recorded, Bound { found: Lookup::Live(live), lives });
            if recorded != live && IN_ARGUMENTS.contains(&kind) {
                self.moved.store(true, Relaxed);
            }
        }
    }

    /// The object ended with this call. Memory handles are held several times over, and each release gives up
    /// one hold: they stay.
    pub(crate) fn end(&self, kind: Kind, recorded: u64, call: u64) {
        if kind == Kind::Allocation || kind.is_special(recorded) {
            return;
        }
        if let Some(bound) = self.bound[space(kind)].write().get_mut(&recorded) {
            bound.lives = bound.lives.saturating_sub(1);
            if bound.lives == 0 {
                bound.found = Lookup::Dead { call };
            }
        }
    }

    /// What a whole 8-byte argument of this value must become, if it is such an object. A number may happen
    /// to look like one, so nothing is changed unless some object has moved.
    pub(crate) fn in_arguments(&self, value: u64) -> Option<u64> {
        if value == 0 || !self.moved.load(Relaxed) {
            return None;
        }
        IN_ARGUMENTS.into_iter().find_map(|kind| self.live(kind, value))
    }

    /// The object of a call that was left out; one already known by this value is given up only if the call
    /// made it.
    pub(crate) fn forgo(&self, kind: Kind, recorded: u64, call: u64, made: bool) {
        if kind == Kind::Device || kind.is_special(recorded) {
            return;
        }
        let mut bound = self.bound[space(kind)].write();
        if made || !bound.contains_key(&recorded) {
            bound.insert(recorded, Bound { found: Lookup::Absent { call }, lives: 1 });
        }
    }
}

/// Kinds that the driver lets stand for each other share their values: a CUkernel is launched as a
/// CUfunction, a green context is the same address as its CUcontext.
fn space(kind: Kind) -> usize {
    match kind {
        Kind::Kernel => Kind::Function as usize,
        Kind::GreenContext => Kind::Context as usize,
        other => other as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_binding_wins_and_special_values_pass() {
        let objects = Objects::new(HashMap::from([(0, 3)]));
        assert_eq!(objects.find(Kind::Stream, 0x10), Lookup::Unknown);
        objects.bind(Kind::Stream, 0x10, 0x20);
        objects.bind(Kind::Stream, 0x10, 0x30);
        objects.bind(Kind::Stream, 2, 0x99);
        assert_eq!(objects.find(Kind::Stream, 0x10), Lookup::Live(0x30));
        assert_eq!(objects.find(Kind::Stream, 2), Lookup::Live(2));
        assert_eq!(objects.find(Kind::Event, 0x10), Lookup::Unknown);
        assert_eq!(objects.find(Kind::Device, 0), Lookup::Live(3));
        assert_eq!(objects.find(Kind::Device, 5), Lookup::Live(5));
    }

    #[test]
    fn a_dead_object_is_not_the_next_one_of_its_value() {
        let objects = Objects::new(HashMap::new());
        objects.end(Kind::Stream, 0x10, 3);
        assert_eq!(objects.find(Kind::Stream, 0x10), Lookup::Unknown);
        objects.bind(Kind::Stream, 0x10, 0x20);
        objects.end(Kind::Stream, 0x10, 4);
        assert_eq!(objects.find(Kind::Stream, 0x10), Lookup::Dead { call: 4 });
        objects.bind(Kind::Stream, 0x10, 0x30);
        assert_eq!(objects.find(Kind::Stream, 0x10), Lookup::Live(0x30));
    }

    #[test]
    fn what_contexts_number_for_themselves_lives_in_each() {
        let objects = Objects::new(HashMap::new());
        objects.bind(Kind::Texture, 1, 1);
        objects.bind(Kind::Texture, 1, 1);
        objects.end(Kind::Texture, 1, 4);
        assert_eq!(objects.find(Kind::Texture, 1), Lookup::Live(1));
        objects.end(Kind::Texture, 1, 5);
        assert_eq!(objects.find(Kind::Texture, 1), Lookup::Dead { call: 5 });
        objects.bind(Kind::Stream, 0x10, 0x20);
        objects.bind(Kind::Stream, 0x10, 0x20);
        objects.end(Kind::Stream, 0x10, 6);
        assert_eq!(objects.find(Kind::Stream, 0x10), Lookup::Dead { call: 6 });
    }

    #[test]
    fn a_kernel_passes_for_a_function() {
        let objects = Objects::new(HashMap::new());
        objects.bind(Kind::Kernel, 0x10, 0x20);
        assert_eq!(objects.find(Kind::Function, 0x10), Lookup::Live(0x20));
    }

    #[test]
    fn what_was_left_out_is_named() {
        let objects = Objects::new(HashMap::new());
        objects.forgo(Kind::Module, 0x10, 7, true);
        assert_eq!(objects.find(Kind::Module, 0x10), Lookup::Absent { call: 7 });
        objects.bind(Kind::Module, 0x10, 0x20);
        objects.forgo(Kind::Module, 0x10, 8, false);
        assert_eq!(objects.find(Kind::Module, 0x10), Lookup::Live(0x20));
    }
}
