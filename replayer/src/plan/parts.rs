//! Parts of one piece of pinned memory: launches that were given an address in its midst, copies of host memory to it, and callbacks that
//! wrote there.
//!
//! The driver has the CPU make such a copy. What the CPU writes, for the driver or for the program, cannot be told from what such a launch makes
//! on the same pages while it is under way; and of a launch nobody knows how far from its address it works.

use crate::plan::copied::{End, copied};
use crate::plan::outstanding::{Outstanding, arguments};
use std::collections::{HashMap, HashSet};
use trace::api::roles::Class;
use trace::api::types::Form;
use trace::{Call, Function};

const COPIED: &str = "kernels used parts of pinned memory to which host memory was being copied: what the CPU wrote on the same pages may be \
                      told too late";
const CALLED_BACK: &str = "kernels used parts of pinned memory of which callbacks on other streams wrote others: what they wrote on the same \
                           pages may be told for each other";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Launch,
    Copy,
    Callback,
}

/// A use, the stream it is on, and the memory.
struct Part {
    own: Use,
    stream: Option<u64>,
    memory: Vec<u64>,
}

impl Part {
    /// Why they cannot be told apart. Callbacks and launches of one stream come one behind the other.
    fn beside(&self, other: &Part) -> Option<&'static str> {
        let why = match (self.own, other.own) {
            (Use::Launch, Use::Copy) | (Use::Copy, Use::Launch) => COPIED,
            (Use::Launch, Use::Callback) | (Use::Callback, Use::Launch) if self.stream != other.stream => CALLED_BACK,
            _ => return None,
        };
        self.memory.iter().any(|at| other.memory.contains(at)).then_some(why)
    }
}

/// Which pinned memory submissions not known to have finished use in part, by its start.
#[derive(Default)]
pub struct Parts(HashMap<u64, Part>);

impl Parts {
    /// Moves past a call that `outstanding` has just moved past. Why its part of some memory cannot be told from what work under way makes
    /// of another.
    pub fn see(&mut self, call: &Call, function: &'static Function, outstanding: &Outstanding) -> Option<&'static str> {
        let part = part(call, function, outstanding)?;
        let under_way: HashSet<u64> = outstanding.under_way().collect();
        if !under_way.contains(&call.number) {
            return None;
        }
        self.0.retain(|other, _| under_way.contains(other));
        let beside = self.0.values().filter_map(|other| part.beside(other)).max();
        self.0.insert(call.number, part);
        beside
    }
}

fn part(call: &Call, function: &'static Function, outstanding: &Outstanding) -> Option<Part> {
    if !outstanding.has_pinned() {
        return None;
    }
    let around = |address| outstanding.pinned_around(address);
    let is_host =
        |end: End| matches!(end, End::Host(_)) || end.address().is_some_and(|address| around(address).is_some());
    let (own, memory): (Use, Vec<u64>) = match function.class {
        Class::launch => {
            let midst = |word| around(word).filter(|start| *start != word);
            (Use::Launch, arguments(call).filter_map(midst).collect())
        }
        Class::submit if function.params.iter().any(|param| matches!(param.ty.form, Form::Callback)) => {
            let runs = call.callback_runs().into_values().flatten();
            let images = runs.flat_map(|written| written.images());
            (Use::Callback, images.filter_map(|image| around(image.address)).collect())
        }
        Class::submit => {
            let brought = copied(call, function).into_iter().filter(|copied| is_host(copied.from));
            (Use::Copy, brought.filter_map(|copied| around(copied.to.address()?)).collect())
        }
        _ => return None,
    };
    let stream = call.argument("hStream");
    (!memory.is_empty()).then_some(Part { own, stream, memory })
}
