//! The index of a file: the records in its chunks, and the return of each entry.

use crate::base::bytes::{u32_at, u64_at};
use crate::base::damage::Damage;
use crate::base::hash::Hash;
use crate::base::prefetch::prefetch;
use crate::file::call_table::{Calls, MOST};
use crate::file::lookup;
use crate::file::preamble::decode;
use crate::file::record::{self, Clock, Head, Kernel, Observed, Repeated, imported_memory, nccl};
use crate::file::repeats::{Repeats, Run};
use crate::file::scale::Scale;
use crate::file::segment::{HEADER, Header, Kind};
use crate::read::reader::{Thread, Trace};
use crate::read::thread_reader::Lane;
use bincode::Decode;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

/// More threads than any file has; a larger index in a chunk is damage that must not cost memory.
const THREADS: usize = 1 << 20;

/// What is odd about the records of one chunk: told once, however many there are.
#[derive(Default)]
struct Odd {
    backwards: Option<u64>,
    orphans: u64,
    /// Counts of repeated calls that cannot be.
    miscounted: u64,
    /// The first kind, and how many in all.
    unknown: Option<(u8, u64)>,
}

/// The record of a call's entry: where it is, its bytes, its time stamp.
struct Entry {
    at: u64,
    size: u64,
    stamp: u64,
    head: Head,
}

impl Trace {
    /// Where blobs lie, as far as the headers tell without complaint.
    pub(crate) fn blobs_of_segments(&mut self) {
        let len = self.map.len() as u64;
        for (offset, header) in self.segments.iter().filter(|(_, header)| header.kind == Kind::Blob) {
            let start = offset + HEADER as u64;
            if header.length <= header.room() && start.saturating_add(header.length) <= len {
                self.blobs.insert(Hash(header.id), (start, header.length));
            }
        }
    }

    pub(crate) fn index(&mut self) {
        self.map.prepare(Kind::Chunk);
        self.clocks = self.preamble.clocks.to_vec();
        self.scale = Scale::from_clocks(&self.clocks);
        let chunks = self.index_blobs();
        self.index_chunks(chunks);
        // Last words are said in a lane of their own, by no thread.
        while self.threads.pop_if(|thread| thread.os_id == 0 && thread.calls == 0 && !thread.name.is_empty()).is_some()
        {
        }
        self.order_calls();
        self.order_the_rest();
        self.unknown_since = self.left_out.iter().filter(|left| left.works > 0).map(|left| left.begin).min();
        for kernel in self.kernels.values() {
            let last = self.launched.entry(kernel.handle).or_insert(kernel.id);
            *last = kernel.id.max(*last);
        }
        self.complete_profile();
        self.agree_with_footer();
    }

    /// All chunks. Blobs are entered, and what the file's end cuts short is damage.
    fn index_blobs(&mut self) -> Vec<(u64, Header)> {
        let mut chunks: Vec<(u64, Header)> = Vec::new();
        for &(offset, header) in &self.segments {
            let start = offset + HEADER as u64;
            match header.kind {
                Kind::Chunk => chunks.push((offset, header)),
                Kind::Blob if header.length > header.room() => {
                    let what = format!("a blob of {} bytes in a segment of {}", header.length, header.room());
                    self.damage.push(Damage::new(offset, what));
                }
                Kind::Blob if start.saturating_add(header.length) <= self.map.len() as u64 => {
                    self.blobs.insert(Hash(header.id), (start, header.length));
                }
                _ => {}
            }
            // Every segment is set aside whole before anything is written into it.
            let is_cut = offset.saturating_add(header.size) > self.map.len() as u64;
            let name = match header.kind {
                Kind::Preamble => "preamble",
                Kind::Blob => "blob",
                Kind::Free => "free chunk",
                // Without its footer a trace holds as much.
                Kind::Chunk | Kind::Footer => continue,
            };
            if is_cut {
                let loses = header.kind != Kind::Preamble;
                self.damage.push(Damage { loses, ..Damage::new(offset, format!("the file ends inside this {name}")) });
            }
        }
        chunks
    }

    fn index_chunks(&mut self, mut chunks: Vec<(u64, Header)>) {
        // A footer lists what could be kept; what could not is among its losses.
        let explained = self.footer.as_ref().is_some_and(|footer| !footer.losses.is_empty());
        // Of two copies of a chunk the sealed one comes first.
        chunks.sort_by_key(|(_, h)| (h.thread, h.ordinal(), h.seal == 0));
        // Whatever the headers claim, the file has no more.
        let bytes: u64 = chunks.iter().fold(0, |all, (_, header)| all.saturating_add(header.length));
        self.calls = Calls::with_room_for(bytes.min(self.map.len() as u64));
        let mut lane = Lane::default();
        let mut previous: Option<Header> = None;
        for (offset, header) in chunks {
            if previous.is_some_and(|p| p.thread == header.thread && p.ordinal() == header.ordinal()) {
                // A full chunk on its way to the end of the file may stand there already.
                continue;
            }
            let follows = previous.is_some_and(|p| p.thread == header.thread);
            if !follows {
                lane = Lane { has_gaps: explained, ..Lane::default() };
            }
            let expected = if follows { previous.map_or(0, |p| p.ordinal() + 1) } else { 0 };
            let known = self.damage.len();
            if header.ordinal() != expected && !explained {
                let what = format!("thread {}: chunk {expected} is missing before this one", header.thread);
                self.damage.push(Damage::new(offset, what));
                lane.has_gaps = true;
            }
            previous = Some(header);
            self.index_chunk((offset, header), &mut lane);
            lane.has_gaps |= self.damage.len() > known;
        }
    }

    /// By time, or what else they are looked up by.
    fn order_the_rest(&mut self) {
        // Those with the same stamp stay in the order in which their thread wrote them.
        self.annotations.sort_by_key(|(time, thread, _)| (*time, *thread));
        self.began.sort_by_key(|(time, thread, _)| (*time, *thread));
        self.communicators.sort_by_key(|communicator| communicator.time);
        self.timed.sort_unstable();
        self.clocks.sort_by_key(|c| c.tsc);
        let annotated = self.annotations.first().map(|(time, ..)| *time);
        let began = self.began.first().map(|(time, ..)| *time);
        let told = self.communicators.first().map(|communicator| communicator.time);
        let earliest = [annotated, began, told].into_iter().flatten().filter(|time| *time != 0).min();
        self.scale = Scale::from_clocks(&self.clocks).counting_from(earliest.unwrap_or(u64::MAX));
        self.observed.values_mut().for_each(|all| all.sort_by_key(|o| o.address));
        self.observed_beside.sort_by_key(|(_, observed)| observed.time);
    }

    /// The times that a recording took itself name neither devices nor the driver: the preamble does.
    fn complete_profile(&mut self) {
        if let Some(profile) = self.profile.as_mut().filter(|profile| profile.source == record::timed::RECORDED) {
            let known =
                self.devices.iter().filter_map(|device| Some((device.ordinal.try_into().ok()?, device.name.clone())));
            profile.devices = known.collect();
            profile.driver = self.preamble.driver_path.clone();
            profile.driver_version = self.preamble.driver_version;
        }
    }

    fn order_calls(&mut self) {
        let mut calls = std::mem::take(&mut self.calls);
        let plain = self.plain().unwrap_or_default();
        calls.order(|entry| self.stamp(entry), |entry| prefetch(plain, entry as usize));
        self.calls = calls;
    }

    /// What the footer knows beyond what was found.
    fn agree_with_footer(&mut self) {
        let mut losses = std::mem::take(&mut self.losses);
        if let Some(footer) = &self.footer {
            losses.extend_from_slice(&footer.losses);
            let found = self.calls.len() as u64;
            if footer.calls != found && self.damage.is_empty() {
                let what = format!("the footer counts {} calls; {found} were found", footer.calls);
                self.damage.push(Damage::new(self.map.len() as u64 - 16, what));
            }
        }
        // The recorder counts up as it goes: the latest count is the whole.
        let mut places: HashMap<String, usize> = HashMap::new();
        for (what, count) in losses {
            let place = *places.entry(what.clone()).or_insert(self.losses.len());
            match self.losses.get_mut(place) {
                Some((_, known)) => *known = count.max(*known),
                None => self.losses.push((what, count)),
            }
        }
    }

    fn index_chunk(&mut self, (offset, header): (u64, Header), lane: &mut Lane) {
        let damaged = |what: String| Damage::new(offset, what);
        let start = offset as usize + HEADER;
        if let Some(why) = self.map.fault(start as u64) {
            let what = format!("{why}: all records of a chunk are skipped");
            self.damage.push(damaged(what));
            return;
        }
        let available = (self.map.len() - start.min(self.map.len())).min(header.room() as usize);
        if header.length > header.room() {
            let what = format!("a chunk of {} committed bytes, expected at most {}", header.length, header.room());
            self.damage.push(damaged(what));
            return;
        }
        let cut_off = header.length as usize > available;
        let length = (header.length as usize).min(available);
        if cut_off {
            let what = format!("the file ends inside this chunk: found {available} of {} bytes", header.length);
            self.damage.push(damaged(what));
        } else if header.seal != 0 && self.map.checksum(start as u64, length as u64) != Some(header.seal) {
            self.damage
                .push(damaged("a chunk whose content does not match its checksum: all its records are skipped".into()));
            return;
        }
        if !cut_off && offset.saturating_add(header.size) > self.map.len() as u64 {
            self.damage.push(damaged("the file ends inside this chunk, after its committed records".into()));
        }
        let thread = header.thread as usize;
        if self.threads.len() <= thread && thread < THREADS {
            self.threads.resize_with(thread + 1, Thread::default);
        }
        let (start, end) = (start as u64, (start + length) as u64);
        let mut odd = Odd::default();
        let ended = self.index_records(&header, start..end, lane, &mut odd);
        if let Err(what) = ended
            && !cut_off
        {
            lane.has_gaps = true;
            self.damage.push(what);
        }
        if let Some(at) = odd.backwards {
            let what = format!("the record at offset {at} is earlier than its predecessor: its time is corrected");
            self.damage.push(damaged(what));
        }
        if odd.orphans > 0 && !lane.has_gaps {
            self.damage.push(damaged(format!("{} returns of calls whose entries are missing", odd.orphans)));
        }
        if odd.miscounted > 0 {
            let what = format!("{} impossible counts of repeated polls: they are reduced", odd.miscounted);
            self.damage.push(damaged(what));
        }
        if let Some((kind, count)) = odd.unknown {
            self.damage
                .push(damaged(format!("{count} unknown records that must not be skipped, the first of kind {kind}")));
        }
    }

    /// Records up to the first that does not fit.
    fn index_records(
        &mut self,
        header: &Header,
        Range { start, end }: Range<u64>,
        lane: &mut Lane,
        odd: &mut Odd,
    ) -> Result<(), Damage> {
        let mut sequence = header.first_call() as u32;
        let mut at = start;
        self.calls.begin_chunk(header.thread, sequence, start);
        // The call whose return is the record before.
        let mut returned = None;
        while at < end {
            let Some(found) = self.record_within(at, end) else {
                let what = format!("the record at offset {at} has an invalid size: the rest of its chunk is skipped");
                return Err(Damage::new(start - HEADER as u64, what));
            };
            let (head, size) = (found.head, found.bytes.len() as u64);
            let returned_before = returned.take();
            match head.kind {
                record::ENTRY => {
                    let entry = Entry { at, size, stamp: u64_at(found.bytes, 8), head };
                    self.enters(header.thread, sequence, entry, lane, odd)?;
                    sequence = sequence.wrapping_add(1);
                }
                record::RETURN => {
                    let (call, end) = (u32_at(found.bytes, 16), u64_at(found.bytes, 8));
                    match lane.open.leave(call) {
                        Some(place) => {
                            self.returns(place, at, size, lane);
                            returned = Some((place, end));
                        }
                        None => odd.orphans += 1,
                    }
                }
                record::REPEATED => {
                    let head = found.head;
                    let repeated = body_of::<Repeated>(&found.bytes[record::HEAD..]).zip(returned_before);
                    let is_sound = repeated.is_some_and(|(repeated, (place, end))| {
                        let begin = self.begin_of(&self.calls.locate(place));
                        let (repeats, is_sound) = Repeats::decode(head, &repeated, end.max(begin));
                        lane.run = Some(place);
                        self.repeats(place, repeats);
                        is_sound
                    });
                    odd.miscounted += u64::from(!is_sound);
                }
                _ if self.other((header.thread, sequence), at, end) => {}
                kind => odd.unknown.get_or_insert((kind, 0)).1 += 1,
            }
            at += size;
        }
        Ok(())
    }

    /// The entry is of this call of its thread.
    fn enters(
        &mut self,
        thread: u32,
        sequence: u32,
        Entry { at, size, stamp, head }: Entry,
        lane: &mut Lane,
        odd: &mut Odd,
    ) -> Result<(), Damage> {
        let words = self.preamble.functions.get(head.function as usize).map_or(0, |(_, words)| *words);
        if size < (record::ENTRY_SIZE + 8 * words as usize) as u64 {
            let what = format!("a call with fewer than its {words} argument words: the rest of its chunk is skipped");
            return Err(Damage::new(at, what));
        }
        if stamp < lane.latest {
            odd.backwards.get_or_insert(at);
        }
        let Some(place) = self.calls.push(at) else {
            let what = format!("more calls than a chunk or a trace can have ({MOST}): the rest is skipped");
            return Err(Damage::new(at, what));
        };
        if stamp < lane.latest {
            self.calls.set_begin(place, lane.latest);
        }
        lane.latest = stamp.max(lane.latest);
        lane.open.enter(sequence, place);
        if let Some(run) = lane.run.take() {
            self.calls.set_run(run, Run::Counted);
        }
        if head.flags & record::INNER != 0 {
            lane.inner.push(place);
        }
        if size > lookup::CROWDED {
            self.crowded.insert(at, OnceLock::new());
        }
        if let Some(thread) = self.threads.get_mut(thread as usize) {
            thread.calls += 1;
        }
        Ok(())
    }

    /// The return at `at` is of this call.
    fn returns(&mut self, place: usize, at: u64, size: u64, lane: &mut Lane) {
        lane.leave_inner(place, &mut self.calls);
        self.calls.set_return(place, at);
        if size > lookup::CROWDED {
            self.crowded.insert(self.calls.entry(place), OnceLock::new());
        }
    }

    /// The call stands for others.
    fn repeats(&mut self, place: usize, repeats: Repeats) {
        self.calls.set_run(place, Run::Last);
        self.repeated = self.repeated.saturating_add(repeats.calls);
        if let Some(thread) = self.threads.get_mut(self.calls.locate(place).thread as usize) {
            thread.repeated = thread.repeated.saturating_add(repeats.calls);
        }
    }

    /// A record that is neither entry nor return, before the call `next` of its thread; false if this reader
    /// does not know it and must.
    fn other(&mut self, (thread, next): (u32, u32), at: u64, end: u64) -> bool {
        let Some(found) = self.record_within(at, end) else { return true };
        let (kind, flags) = (found.head.kind, found.head.flags);
        let body = &found.bytes[record::HEAD..];
        match kind {
            record::THREAD => {
                if let (Some(t), Some(slot)) = (body_of::<record::Thread>(body), self.threads.get_mut(thread as usize))
                {
                    (slot.os_id, slot.name) = (t.os_id, t.name);
                }
            }
            record::KERNEL => self.kernels.extend(body_of::<Kernel>(body).map(|k| (k.id, k))),
            record::DEVICE => self.devices.extend(body_of::<record::Device>(body)),
            record::ADOPTED => self.adopted.extend(body_of::<record::Adopted>(body)),
            record::CLOCK => self.clocks.extend(body_of::<Clock>(body)),
            record::OBSERVED => {
                if let Some(observed) = body_of::<Observed>(body) {
                    match next.checked_sub(1) {
                        Some(call) => self.observed_by.entry((thread, call)).or_default().push(observed),
                        None => self.observed_beside.push((thread, observed)),
                    }
                    self.observed.entry((observed.thread, observed.call)).or_default().push(observed);
                }
            }
            record::WRITTEN => {
                if let Some(written) = body_of::<record::Written>(body) {
                    self.written.entry((written.thread, written.call)).or_default().push((thread, at));
                }
            }
            record::TIMED => self.timed.extend(body_of::<record::Timed>(body).map(|timed| (timed.start, at))),
            record::PROFILE => match body_of::<record::Profile>(body) {
                Some(none) if none.source == record::timed::NONE => self.no_device_times = Some(none.why),
                found => self.profile = found.or(self.profile.take()),
            },
            record::NAMED => self.timed_names.extend(body_of::<record::Name>(body).map(|n| (n.number, n.name))),
            record::ANNOTATION => self.index_annotation(thread, at, end),
            nccl::COMMUNICATOR => self.communicators.extend(body_of::<nccl::Communicator>(body)),
            nccl::BEGAN => self.began.extend(body_of::<nccl::Began>(body).map(|began| (began.time, thread, at))),
            nccl::RETURNED => {
                // NCCL may return twice from what it began once.
                let returned = body_of::<nccl::Returned>(body);
                returned.iter().for_each(|of| _ = self.began_returned.entry(of.operation).or_insert(of.time));
            }
            nccl::DELIVERED => self.delivered.extend(body_of::<nccl::Delivered>(body)),
            imported_memory::HELD => self.held.extend(body_of::<imported_memory::ImportedMemory>(body)),
            record::PRINTED => self.printed = body_of::<record::Printed>(body),
            record::ENDED => {
                let (ended, at) = (body_of(body), body_of(body).map(|(_, at): (record::Ended, u64)| at));
                (self.ended, self.ended_at) = (ended, at.filter(|at| *at != 0));
            }
            record::LEFT_OUT => self.left_out.extend(body_of::<record::LeftOut>(body)),
            record::REFERENCED => self.references.extend(body_of::<record::Referenced>(body)),
            record::PASSED => {
                let passed = body_of::<record::Passed>(body);
                self.passed.extend(passed.map(|passed| ((thread, passed.call), passed)));
            }
            record::SHARED => {
                let shared = body_of::<record::Shared>(body);
                shared.iter().for_each(|of| self.shared.entry((thread, of.call)).or_default().push(*of));
            }
            record::SWITCHED => self.switched.extend(body_of::<record::Switched>(body)),
            record::LOSS => self.losses.extend(body_of::<record::Loss>(body).map(|loss| (loss.what, loss.count))),
            _ => return flags & record::OPTIONAL != 0,
        }
        true
    }
}

pub(crate) fn body_of<T: Decode<()>>(body: &[u8]) -> Option<T> {
    decode(body)
}
