//! Objects and ranges whose life has ended, for calls that still name them.

use crate::api::types::Kind;
use crate::model::objects::Range;
use foldhash::HashMap;
use std::collections::BTreeMap;

/// An object or memory that is no longer alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended<What> {
    pub what: What,
    /// The call that ended it.
    pub by: u64,
}

/// The last object of each ended handle, and the last memory at each ended address.
#[derive(Default)]
pub(crate) struct EndedObjects {
    /// By their number.
    objects: HashMap<(Kind, u64), Ended<u64>>,
    ranges: BTreeMap<u64, Ended<Range>>,
}

impl EndedObjects {
    pub(crate) fn add(&mut self, kind: Kind, value: u64, number: u64, by: u64) {
        self.objects.insert((kind, value), Ended { what: number, by });
    }

    pub(crate) fn add_range(&mut self, range: Range, by: u64) {
        self.ranges.insert(range.base, Ended { what: range, by });
    }

    /// Other memory is there.
    pub(crate) fn overlaid(&mut self, range: Range) {
        while let Some((&base, _)) =
            self.ranges.range(..range.end()).next_back().filter(|(_, gone)| gone.what.end() > range.base)
        {
            self.ranges.remove(&base);
        }
    }

    pub(crate) fn object(&self, kind: Kind, value: u64) -> Option<Ended<u64>> {
        self.objects.get(&(kind, value)).copied()
    }

    pub(crate) fn range(&self, address: u64) -> Option<Ended<Range>> {
        let (_, gone) = self.ranges.range(..=address).next_back()?;
        gone.what.holds(address).then_some(*gone)
    }
}
