//! Operations: compact copies of the calls that affect a device's streams and memory.

use super::event::Category;
use trace::api::roles::Class;
use trace::api::types::Kind;
use trace::base::hash::Hash;
use trace::model::change::{Change, Moment, is_followed, resolve};
use trace::model::objects::Objects;
use trace::read::call::Content;
use trace::read::requested_size::moved;
use trace::{Call, Function, Trace};

/// A call that affects streams or memory.
#[derive(Debug, Clone, Copy)]
pub struct Op {
    pub(crate) call: u32,
    pub(crate) thread: u32,
    /// Nanoseconds since the start of the trace.
    pub begin: u64,
    pub(crate) end: u64,
    /// The function's id in the file.
    pub function: u16,
    pub(crate) what: What,
}

impl Op {
    pub(crate) fn moment(&self) -> Moment {
        Moment { call: self.call.into(), thread: self.thread, begin: self.begin, end: self.end }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    /// `kernel`: the id of the one that is launched, or u32::MAX; `bytes`: how many are copied or filled.
    Changed { change: Change, kernel: u32, bytes: u64 },
    /// A module image: the high half of its hash (0 if the trace does not hold it), and its bytes.
    Loaded { image: u64, bytes: u64 },
}

/// The viewer's treatment of a function's calls.
pub struct Plan {
    pub(crate) category: Category,
    /// Whether its calls make, name or end objects.
    pub concerned: bool,
    /// None if they do not matter for streams or memory.
    follows: Option<(&'static Function, Follows)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Follows {
    Change,
    Load,
}

fn follows(function: &Function) -> Option<Follows> {
    let loads = function.class == Class::load
        && (function.creates(Kind::Module).is_some() || function.creates(Kind::Library).is_some());
    let changes = || is_followed(function).then_some(Follows::Change);
    loads.then_some(Follows::Load).or_else(changes)
}

impl Plan {
    /// By function id of the file.
    pub fn all(trace: &Trace) -> Vec<Plan> {
        (0..trace.preamble.functions.len()).map(|id| Plan::from_function(trace, id as u16)).collect()
    }

    fn from_function(trace: &Trace, id: u16) -> Plan {
        let Some(function) = trace.function(id) else {
            return Plan { category: Category::Other, concerned: false, follows: None };
        };
        Plan {
            category: Category::from_function(function),
            concerned: Objects::concerns(function),
            follows: follows(function).map(|follows| (function, follows)),
        }
    }

    /// Whether `Plan::op` has anything to say.
    pub fn matters(&self) -> bool {
        self.follows.is_some()
    }

    pub(crate) fn op(&self, call: &Call) -> Option<What> {
        let (function, follows) = self.follows.filter(|_| call.took_effect())?;
        if follows == Follows::Load {
            return Some(loaded(call));
        }
        let kernel = if self.category == Category::Launch { kernel_of(call) } else { None };
        let bytes = if self.category == Category::Copy { moved(call, function) } else { None };
        Some(What::Changed {
            change: resolve(call, function)?,
            kernel: kernel.unwrap_or(u32::MAX),
            bytes: bytes.unwrap_or(0),
        })
    }
}

fn loaded(call: &Call) -> What {
    // The first word is where the handle goes.
    let images = call.images().filter(|image| image.address != call.word(0));
    let largest = images.max_by_key(|image| image.len);
    let hash = largest.and_then(|image| match image.content {
        Content::Blob(hash) => Some(hash),
        // A short one stands in the call's record.
        _ => call.trace().bytes(&image).map(Hash::compute),
    });
    What::Loaded {
        image: hash.map_or(0, |Hash(hash)| (hash >> 64) as u64),
        bytes: largest.map_or(0, |image| image.len),
    }
}

/// The kernel that a launch names.
pub fn kernel_of(call: &Call) -> Option<u32> {
    call.named_kernel().map(|kernel| kernel.id)
}
