//! One event of a lane, and the kinds of events, each with a colour.

use trace::Function;
use trace::api::effect::Work;
use trace::api::roles::Class;

/// The kind of an event's call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Category {
    /// A query of the driver.
    Query,
    /// A query for completion.
    Poll,
    /// A change of the state of the process, a thread or an object.
    State,
    /// An object other than memory is created or destroyed.
    Object,
    /// Code is loaded or unloaded.
    Load,
    /// Memory is allocated or freed.
    Memory,
    /// A copy or fill, on a stream or not.
    Copy,
    /// A launch of a kernel or a graph.
    Launch,
    /// Other work on a stream.
    Submit,
    /// A wait.
    Synchronize,
    /// A graph is built or changed.
    Graph,
    /// A function that this build does not know.
    Other,
    /// Not a call: what the program said of itself.
    Range,
    /// Of the second of two traces: against the first.
    Slower,
    /// The event took less time than in the first trace.
    Faster,
    /// The event took about the same time in both traces.
    Same,
    /// The other trace does not have it.
    Only,
}

impl Category {
    pub(crate) const ALL: [Category; 17] = [
        Category::Query,
        Category::Poll,
        Category::State,
        Category::Object,
        Category::Load,
        Category::Memory,
        Category::Copy,
        Category::Launch,
        Category::Submit,
        Category::Synchronize,
        Category::Graph,
        Category::Other,
        Category::Range,
        Category::Slower,
        Category::Faster,
        Category::Same,
        Category::Only,
    ];

    pub(crate) fn from_function(function: &Function) -> Category {
        match function.class {
            Class::query => Category::Query,
            Class::poll => Category::Poll,
            Class::state => Category::State,
            Class::create | Class::destroy => Category::Object,
            Class::load | Class::unload => Category::Load,
            Class::allocate | Class::free => Category::Memory,
            Class::copy => Category::Copy,
            Class::submit if function.work().is_some_and(Work::moves_memory) => Category::Copy,
            Class::submit => Category::Submit,
            Class::launch => Category::Launch,
            Class::synchronize => Category::Synchronize,
            Class::graph => Category::Graph,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Category::Query => "query",
            Category::Poll => "poll",
            Category::State => "state",
            Category::Object => "object",
            Category::Load => "load",
            Category::Memory => "memory",
            Category::Copy => "copy",
            Category::Launch => "launch",
            Category::Submit => "submit",
            Category::Synchronize => "sync",
            Category::Graph => "graph",
            Category::Other => "other",
            Category::Range => "range",
            Category::Slower => "slower",
            Category::Faster => "faster",
            Category::Same => "same",
            Category::Only => "only",
        }
    }
}

/// One byte per event: its errors in the low bits, the category above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    pub(crate) const FAILED: u8 = 1;
    /// The call had not returned when the trace ended; of stream lanes, nothing tells that the work was done.
    pub const OPEN: u8 = 2;
    /// The trace that this one is compared with does not have it.
    pub const ALONE: u8 = 0x80;

    pub(crate) fn new(category: Category, failed: bool, open: bool) -> Flags {
        let bits = if failed { Flags::FAILED } else { 0 } | if open { Flags::OPEN } else { 0 };
        Flags(bits | (category as u8) << 2)
    }

    /// Whether the call returned an error.
    pub fn failed(self) -> bool {
        self.0 & Flags::FAILED != 0
    }

    /// Whether the event has no known end.
    pub fn open(self) -> bool {
        self.0 & Flags::OPEN != 0
    }

    /// As it is shown.
    pub fn category(self) -> Category {
        if self.0 & Flags::ALONE != 0 { Category::Only } else { self.own() }
    }

    /// What it is by itself.
    pub fn own(self) -> Category {
        let index = (self.0 & !Flags::ALONE) >> 2;
        Category::ALL.get(usize::from(index)).copied().unwrap_or(Category::Other)
    }
}

/// Of events that no call made.
pub const NO_CALL: u32 = u32::MAX;

/// An event, as a lane stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the start of the trace.
    pub begin: u64,
    /// Nanoseconds since the start of the trace.
    pub end: u64,
    /// Index into [`Summary::names`](super::model::Summary::names).
    pub name: u32,
    /// Failure, missing end, and category.
    pub flags: Flags,
    /// The call's number in the trace; of annotations [`NO_CALL`].
    pub call: u32,
}

impl Event {
    /// Nanoseconds.
    pub fn length(&self) -> u64 {
        self.end - self.begin
    }
}

/// A difference below both of these is none: a tenth, and as many nanoseconds.
const TENTH: u64 = 10;
const LEAST: u64 = 500;

/// How long something took against how long it had taken.
pub fn change(before: u64, after: u64) -> Category {
    if before.abs_diff(after) <= (before / TENTH).max(LEAST) {
        return Category::Same;
    }
    if after > before { Category::Slower } else { Category::Faster }
}

#[cfg(test)]
mod tests {
    use super::{Category, change};
    use trace::api::{FUNCTIONS, by_name};

    #[test]
    fn prefetches_discards_and_decompression_count_as_copies_do() {
        let category = |name| Category::from_function(by_name(name).expect("a function of the table"));
        for name in ["cuMemPrefetchAsync_v2", "cuMemDiscardBatchAsync", "cuMemBatchDecompressAsync", "cuMemcpyPeer"] {
            assert!(category(name) == Category::Copy, "{name}");
        }
        // Those that a device takes time for by itself are fewer.
        let timed = FUNCTIONS.iter().filter(|f| f.is_timed() && !f.name.starts_with("cuMemcpy3D"));
        let of_copies = timed.filter(|f| Category::from_function(f) == Category::Copy).map(|f| &f.name[..8]);
        assert!(of_copies.into_iter().all(|name| ["cuMemcpy", "cuMemset", "cuFabric"].contains(&name)));
    }

    #[test]
    fn small_differences_are_none() {
        use Category::*;
        let all = [(1000, 1400), (1000, 1600), (100_000, 111_000), (100_000, 89_000), (100_000, 109_000)];
        assert_eq!(all.map(|(before, after)| change(before, after)), [Same, Slower, Slower, Faster, Same]);
    }
}
