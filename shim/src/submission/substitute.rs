//! Arguments that the driver gets in place of the application's: callbacks of ours for the application's, and
//! the clone of a graph that also copies the results of its collectives.

use crate::in_flight::host_functions::Callback;
use crate::readback::cloned_graphs::{Ended, Launching};

/// Arguments to be passed in place of the application's, from this word on.
#[derive(Clone, Copy)]
pub(crate) struct Substitute {
    place: usize,
    words: [u64; 2],
    count: usize,
    pub of: Purpose,
}

/// The purpose of a substitute, which the end of the call settles.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Callback(HandedOver),
    /// Both made by `Box::into_raw`.
    Launch(*mut Launching),
    /// No argument is replaced.
    Ended(*mut Ended),
}

/// A callback for the driver.
#[derive(Clone, Copy)]
pub(crate) struct HandedOver {
    /// Ours, and our copy of the application's struct; given up if the driver refuses the call.
    pub callback: *mut Callback,
    pub copy: *mut [u64; STRUCT],
    pub of_node: bool,
    pub call: u32,
}

/// Words of the largest struct that holds a callback, CUgraphNodeParams.
pub(crate) const STRUCT: usize = 32;

impl Substitute {
    pub(crate) fn of_none(of: Purpose) -> Substitute {
        Substitute { place: 0, words: [0; 2], count: 0, of }
    }

    pub(crate) fn of_one(place: usize, word: u64, of: Purpose) -> Substitute {
        Substitute { place, words: [word, 0], count: 1, of }
    }

    pub(crate) fn of_two(place: usize, words: [u64; 2], of: Purpose) -> Substitute {
        Substitute { place, words, count: 2, of }
    }

    /// The argument as the driver gets it.
    #[inline(always)]
    pub(crate) fn argument<T: Copy>(&self, place: usize, given: T) -> T {
        match place.checked_sub(self.place) {
            // SAFETY: only arguments of one word are replaced, each by a word that stands for the same type.
            Some(n) if n < self.count && size_of::<T>() == 8 => unsafe { std::mem::transmute_copy(&self.words[n]) },
            _ => given,
        }
    }
}
