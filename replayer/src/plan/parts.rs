//! Parts of one piece of pinned memory: launches that were given an address in its midst, and copies of host memory to it.
//!
//! The driver has the CPU make such a copy. What the CPU writes for the program on the same pages cannot be told from what such
//! a launch makes there while it is under way.

use crate::plan::copied::{End, copied};
use crate::plan::outstanding::{Outstanding, arguments};
use std::collections::{HashMap, HashSet};
use trace::api::roles::Class;
use trace::{Call, Function};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Launch,
    Copy,
}

/// Which pinned memory submissions not known to have finished use in part, by its start.
#[derive(Default)]
pub struct Parts(HashMap<u64, (Use, Vec<u64>)>);

impl Parts {
    /// Moves past a call that `outstanding` has just moved past. Whether it uses a part of memory of which work under way uses another, one
    /// of them a launch and the other such a copy.
    pub fn see(&mut self, call: &Call, function: &'static Function, outstanding: &Outstanding) -> bool {
        let Some((own, memory)) = part(call, function, outstanding) else { return false };
        let under_way: HashSet<u64> = outstanding.under_way().collect();
        if !under_way.contains(&call.number) {
            return false;
        }
        self.0.retain(|other, _| under_way.contains(other));
        let is_shared =
            |(other, others): &(Use, Vec<u64>)| *other != own && others.iter().any(|at| memory.contains(at));
        let is_met = self.0.values().any(is_shared);
        self.0.insert(call.number, (own, memory));
        is_met
    }
}

fn part(call: &Call, function: &'static Function, outstanding: &Outstanding) -> Option<(Use, Vec<u64>)> {
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
        Class::submit => {
            let brought = copied(call, function).into_iter().filter(|copied| is_host(copied.from));
            (Use::Copy, brought.filter_map(|copied| around(copied.to.address()?)).collect())
        }
        _ => return None,
    };
    (!memory.is_empty()).then_some((own, memory))
}
