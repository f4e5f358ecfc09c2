//! The start of watching: memory that calls name, managed memory, and memory that either of them refers to.

use super::Watch;
use crate::host_memory::host_writes::HostWrites;
use crate::in_flight::users::Users;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::*;
use trace::file::preamble::Data;

impl Watch {
    /// Begins to watch what these words of a call point to, if it is memory of the host that the device can
    /// reach.
    pub(crate) fn refer(&self, words: impl Iterator<Item = u64>, writes: &mut HostWrites) {
        self.refer_for(Users::One(writes.thread()), words, writes);
    }

    /// The same, of words that stand in memory.
    pub(crate) fn refer_stored(&self, words: impl Iterator<Item = u64>, writes: &mut HostWrites) {
        self.refer_for(Users::Nobody, words, writes);
    }

    fn refer_for(&self, users: Users, words: impl Iterator<Item = u64>, writes: &mut HostWrites) {
        let around = writes.around;
        if self.data == Data::None {
            return;
        }
        for word in words {
            if let Some((start, len)) = around.pinned.find(word) {
                if users == Users::Nobody {
                    self.stored.store(true, Relaxed);
                }
                self.watch_for(users, start, len, false, writes);
            } else if let Some((start, len)) = self.managed.find(word) {
                self.watch_for(users, start, len, true, writes);
            }
        }
    }

    /// Managed memory was made, or has become known.
    pub(crate) fn managed_made(&self, start: u64, len: u64) {
        self.forget(start, len, true, None);
        self.managed.add(start, len, false);
        if self.data == Data::None {
            return;
        }
        let mut fresh = self.fresh.lock();
        fresh.push((start, len));
        self.is_fresh.store(true, Release);
    }

    /// Begins to watch all managed memory: a launch can get to it by pointers that lie in other memory. With
    /// the lock held: another thread's launch waits for what is recorded.
    pub(crate) fn refer_managed(&self, writes: &mut HostWrites) {
        if self.data == Data::None || !self.is_fresh.load(Acquire) {
            return;
        }
        let mut fresh = self.fresh.lock();
        let is_new = |(start, len): &(u64, u64)| {
            self.managed.find(*start) == Some((*start, *len)) && !self.follows(*start, *len)
        };
        for (start, len) in fresh.drain(..).filter(is_new) {
            if !self.has_room() {
                // What launches are given by name may still be watched.
                writes.lose(start, 0, "managed memory passed to no launch, in too many ranges");
                continue;
            }
            self.watch_for(Users::Nobody, start, len, true, writes);
        }
        self.is_fresh.store(false, Release);
    }

    /// Begins to watch what is named in memory that was found, and what is named there in turn.
    pub(crate) fn refer_named(&self, writes: &mut HostWrites) {
        while !writes.named.is_empty() {
            let named = std::mem::take(&mut writes.named).into_iter();
            // Of memory that cannot be followed this is asked again each time it is found.
            let named: BTreeSet<u64> = named.filter_map(|word| Some(writes.around.pinned.find(word)?.0)).collect();
            self.refer_for(Users::Nobody, named.into_iter(), writes);
        }
    }
}
