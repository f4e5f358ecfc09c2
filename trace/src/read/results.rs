//! Results: the contents of memory that work had used, hashed once a wait or a callback showed the work to be
//! complete.

use crate::api::roles::Class;
use crate::base::hash::Hash;
use crate::file::record::{self, Observed};
use crate::read::call::{Call, Content, Image, When};
use crate::read::reader::Trace;
use std::ops::Range;

impl Trace {
    /// As [`Call::results`], of launches that a callback found done which ran on this thread, within this
    /// time.
    pub fn results_of_callback(
        &self,
        thread: u32,
        time: Range<u64>,
    ) -> impl Iterator<Item = (Call<'_>, Image<'_>)> + use<'_> {
        self.observed_by_thread(thread, time).filter_map(|observed| self.result(observed))
    }

    /// As [`Call::results`], of launches that any callbacks found done.
    pub fn results_of_callbacks(&self) -> impl Iterator<Item = (Call<'_>, Image<'_>)> {
        self.observed_beside.iter().filter_map(|(_, observed)| self.result(observed))
    }

    /// Calls whose work such a callback found done, by their numbers.
    pub fn seen_by_callback(&self, thread: u32, time: Range<u64>) -> impl Iterator<Item = u64> + use<'_> {
        let seen = self.observed_by_thread(thread, time);
        seen.filter_map(|observed| Some(self.call_of(observed.thread, observed.call)?.number))
    }

    fn observed_by_thread(&self, thread: u32, time: Range<u64>) -> impl Iterator<Item = &Observed> + use<'_> {
        let all = &self.observed_beside;
        let before = |time: u64| all.partition_point(|(_, observed)| observed.time < time);
        let within = all.get(before(time.start)..before(time.end)).into_iter().flatten();
        within.filter(move |(finder, _)| *finder == thread).map(|(_, observed)| observed)
    }

    /// As [`Call::results`], of all calls: when each was found, in no order.
    pub fn results_of_calls(&self) -> impl Iterator<Item = (u64, Call<'_>, Image<'_>)> {
        let all = self.observed_by.values().flatten();
        all.filter_map(|observed| self.result(observed).map(|(launch, image)| (observed.time, launch, image)))
    }

    fn result(&self, observed: &Observed) -> Option<(Call<'_>, Image<'_>)> {
        let launch = self.call_of(observed.thread, observed.call)?;
        let is_launch = launch.function().is_some_and(|function| function.class == Class::launch);
        Some((launch, of_launch(observed).filter(|_| is_launch)?))
    }
}

impl<'a> Call<'a> {
    /// Memory in the host's reach that this launch was given, as it was when that was looked at.
    pub fn looked_at(&self) -> impl Iterator<Item = Image<'a>> + use<'a> {
        let observed = self.trace.observed.get(&(self.thread, self.sequence)).into_iter().flatten();
        observed.filter_map(of_launch)
    }

    /// The same, of what had been looked at by then.
    pub fn looked_at_before(&self, time: u64) -> impl Iterator<Item = Image<'a>> + use<'a> {
        let observed = self.trace.observed.get(&(self.thread, self.sequence)).into_iter().flatten();
        observed.filter(move |observed| observed.time < time).filter_map(of_launch)
    }

    /// When this was found there that [`looked_at`](Call::looked_at) tells.
    pub fn looked_at_since(&self, image: &Image) -> Option<u64> {
        let hash = match image.content {
            Content::Hash { hash, .. } | Content::Blob(hash) => hash.to_bytes(),
            _ => return None,
        };
        let mut all = self.trace.observed.get(&(self.thread, self.sequence))?.iter();
        let is_it = |o: &&Observed| (o.address, o.len, o.hash) == (image.address, image.len, hash);
        all.find(is_it).map(|observed| observed.time)
    }

    /// When all that its copies brought had been looked at.
    pub fn observed_at(&self) -> Option<u64> {
        let observed = self.trace.observed.get(&(self.thread, self.sequence))?;
        observed.iter().map(|observed| observed.time).max()
    }

    /// What memory held, in the host's reach, that launches before had been given, once this call had waited
    /// for them.
    pub fn results(&self) -> impl Iterator<Item = (Call<'a>, Image<'a>)> + use<'a> {
        let this = *self;
        let observed = self.trace.observed_by.get(&(self.thread, self.sequence)).into_iter().flatten();
        observed.filter_map(move |observed| this.trace.result(observed))
    }
}

fn of_launch<'a>(&Observed { address, len, hash, form, late, .. }: &Observed) -> Option<Image<'a>> {
    let hash = Hash::from_bytes(hash);
    let content = match form {
        record::HASH => Content::Hash { hash, late },
        record::BLOB => Content::Blob(hash),
        _ => return None,
    };
    Some(Image { address, len, when: When::Return, rows: false, option: 0, content })
}
