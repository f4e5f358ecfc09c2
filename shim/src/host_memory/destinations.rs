//! Host memory that graphs copy to. Results in pageable memory are hashed like a copy's, once a wait covers
//! the launch; before that, memory shared with the device has no known writer.
//!
//! The copies of a graph are queried from the driver at instantiation, so the recorder need not follow how it
//! was built. Nothing is queried until a node with a pageable destination is made or memory is pinned.

use crate::in_flight::landing_range::Landing;
use crate::in_flight::pending::Work;
use crate::os::lock::Lock;
use crate::os::probe::bytes_at;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::*};
use trace::api::copies::Region;
use trace::base::hash::Hash;

/// Of longer memory, and of more places in one graph, nothing is told but that it is so.
pub(crate) const MOST_BYTES: u64 = 1 << 20;
const MOST_PLACES: usize = 256;
/// So much is read for one launch, once before it and once when it is waited for: that takes up to four
/// milliseconds each (`long_results.rs`), about what the copies themselves take.
const MOST_AT_ONCE: u64 = 8 << 20;

/// Host memory that a node of a graph writes.
pub(crate) struct Write {
    pub region: Region,
    pub node: u64,
    pub by: WriteKind,
    /// It is copied from host memory.
    pub from_host: bool,
}

#[derive(PartialEq)]
pub(crate) enum WriteKind {
    Copy,
    Fill,
}

#[derive(Default)]
pub(crate) struct Destinations {
    any: AtomicBool,
    /// By executable graph.
    places: Lock<HashMap<u64, Places>>,
}

#[derive(Default, Clone)]
struct Places {
    /// Start and length.
    pageable: Vec<(u64, u64)>,
    /// With whether it is copied there from host memory.
    shared: Vec<(Landing, bool)>,
    /// There are more.
    are_in_part: bool,
}

/// Host memory that a launch of a graph writes.
#[derive(Default)]
pub(crate) struct GraphWrites {
    pub landings: Vec<(Landing, Work, bool)>,
    /// There are others.
    pub are_in_part: bool,
}

impl Destinations {
    /// Whether graphs with such destinations may have been made.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// A node was made, or changed in an executable graph, that copies there.
    pub(crate) fn add(
        &self,
        executable: Option<u64>,
        region: &Region,
        from_host: bool,
        shares: impl Fn(u64, u64) -> bool,
    ) {
        let places = Self::sorted([(*region, from_host)].into_iter(), shares);
        if places.are_none() {
            return;
        }
        self.any.store(true, Relaxed);
        if let Some(executable) = executable {
            // Where it copied before nothing will have changed.
            self.keep(executable, places);
        }
    }

    /// An executable graph was made, or became another, whose nodes write there.
    pub(crate) fn instantiated(&self, executable: u64, written: &[Write], shares: impl Fn(u64, u64) -> bool) {
        self.ends(executable);
        let places = Self::sorted(written.iter().map(|write| (write.region, write.from_host)), shares);
        if !places.are_none() {
            self.any.store(true, Relaxed);
            self.keep(executable, places);
        }
    }

    /// Of regions that the CPU can see.
    fn sorted(regions: impl Iterator<Item = (Region, bool)>, shares: impl Fn(u64, u64) -> bool) -> Places {
        let mut places = Places::default();
        for (region, from_host) in regions {
            if shares(region.address, region.span()) {
                places.shared.push((Landing::Rows(region), from_host));
            } else if shares(region.address, 1) {
                // Neither the one nor the other.
            } else if region.is_dense() && region.bytes() <= MOST_BYTES {
                places.pageable.push((region.address, region.bytes()));
            } else {
                places.are_in_part |= region.bytes() > 0;
            }
        }
        places
    }

    fn keep(&self, executable: u64, new: Places) {
        let mut places = self.places.lock();
        let known = places.entry(executable).or_default();
        known.are_in_part |= new.are_in_part;
        for place in new.pageable {
            if known.pageable.contains(&place) {
                continue;
            }
            match known.pageable.len() < MOST_PLACES {
                true => known.pageable.push(place),
                false => known.are_in_part = true,
            }
        }
        let room = MOST_PLACES.saturating_sub(known.shared.len());
        known.are_in_part |= new.shared.len() > room;
        known.shared.extend(new.shared.into_iter().take(room));
    }

    pub(crate) fn ends(&self, executable: u64) {
        self.places.lock().remove(&executable);
    }

    /// Start and length of the pageable memory that a graph writes.
    pub(crate) fn pageable(&self, executable: u64) -> Vec<(u64, u64)> {
        self.places.lock().get(&executable).map_or(Vec::new(), |places| places.pageable.clone())
    }

    /// Where a launch of this graph brings bytes.
    pub(crate) fn writes_of(&self, executable: u64) -> GraphWrites {
        let Places { pageable, shared, mut are_in_part } =
            self.places.lock().get(&executable).cloned().unwrap_or_default();
        let mut landings = Vec::new();
        let mut room = MOST_AT_ONCE;
        for (address, len) in pageable {
            let Some(left) = room.checked_sub(len) else {
                are_in_part = true;
                continue;
            };
            room = left;
            if let Some(bytes) = bytes_at(address, len as usize, true) {
                landings.push((Landing::Flat { address, len }, Work::Graph(Hash::compute(&bytes)), false));
            }
        }
        landings.extend(shared.into_iter().map(|(landing, from_host)| (landing, Work::Fill, from_host)));
        GraphWrites { landings, are_in_part }
    }
}

impl Places {
    fn are_none(&self) -> bool {
        self.pageable.is_empty() && self.shared.is_empty() && !self.are_in_part
    }
}
