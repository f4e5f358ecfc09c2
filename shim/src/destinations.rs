//! Pageable memory that graphs copy to: what they brought is looked at, as a copy's bytes are, when their launch has been waited for.
//!
//! The driver is asked what a graph copies when it is instantiated, so that nobody has to follow how it was made. Until some
//! node with such a destination is made nothing is asked.

use crate::ask::{self, Place};
use crate::lock::Lock;
use crate::memory::bytes_at;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::*};
use trace::api::copies::Region;
use trace::hash::Hash;

/// Of longer memory, and of more places in one graph, nothing is told.
const MOST_BYTES: u64 = 1 << 20;
const MOST_PLACES: usize = 256;

#[derive(Default)]
pub struct Destinations {
    any: AtomicBool,
    /// By executable graph: start and length.
    places: Lock<HashMap<u64, Vec<(u64, u64)>>>,
}

impl Destinations {
    /// Whether a node with such a destination was ever made.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// A node was made, or changed in an executable graph, that copies there.
    pub fn add(&self, executable: Option<u64>, region: &Region) {
        if ask::place(region.address) != Place::Pageable {
            return;
        }
        self.any.store(true, Relaxed);
        if let Some(executable) = executable {
            // Where it copied before nothing will have changed.
            self.keep(executable, &[*region]);
        }
    }

    /// An executable graph was made of this one, or became like it.
    pub fn instantiated(&self, executable: u64, graph: u64) {
        self.ends(executable);
        if self.any() {
            let mut regions = ask::copied_to_host(graph);
            regions.retain(|region| ask::place(region.address) == Place::Pageable);
            self.keep(executable, &regions);
        }
    }

    /// Takes no iterator: it would ask the driver with the lock held.
    fn keep(&self, executable: u64, regions: &[Region]) {
        let fits = |region: &&Region| region.is_dense() && region.bytes() <= MOST_BYTES;
        let mut places = self.places.lock();
        for region in regions.iter().filter(fits) {
            let known = places.entry(executable).or_default();
            let place = (region.address, region.bytes());
            if known.len() < MOST_PLACES && !known.contains(&place) {
                known.push(place);
            }
        }
    }

    pub fn ends(&self, executable: u64) {
        self.places.lock().remove(&executable);
    }

    /// Where a launch of this graph copies to, and what is there now.
    pub fn of(&self, executable: u64) -> Vec<(u64, u64, Hash)> {
        let places = self.places.lock().get(&executable).cloned().unwrap_or_default();
        let now = |(start, len): (u64, u64)| Some((start, len, Hash::of(&bytes_at(start, len as usize, true)?)));
        places.into_iter().filter_map(now).collect()
    }
}
