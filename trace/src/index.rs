//! Finding what a file holds: its segments, the records in its chunks, and which return belongs to which
//! entry.

use crate::closed_end;
use crate::damage::Damage;
use crate::hash::{Hash, checksum};
use crate::located::MOST;
use crate::lookup;
use crate::preamble::{Footer, decode};
use crate::reader::{Thread, Trace};
use crate::record::{self, Clock, Head, Kernel, Observed, Repeated, held, nccl};
use crate::repeats::{Repeats, Run};
use crate::segment::{HEADER, Header, Kind, MAGIC, PAGE, u32_at, u64_at};
use crate::shared_memory::Place;
use crate::writer;
use bincode::Decode;
use std::collections::{HashMap, HashSet};
use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// As many chunks are worth a thread.
const MANY: usize = 16;

/// More threads than any file has; a larger index in a chunk is damage that must not cost memory.
const THREADS: usize = 1 << 20;

/// What carries over from one chunk of a thread to the next.
#[derive(Default)]
struct Lane {
    /// Calls without a return so far.
    open: Open,
    /// The latest entry or return. A thread's calls follow each other whatever their stamps say, or the order
    /// of calls could have circles in it.
    latest: u64,
    /// Calls that claim to have been made inside another that has not returned yet, where they stand in the
    /// index.
    inner: Vec<usize>,
    /// The latest call that stands for others, if it is the thread's last.
    run: Option<usize>,
    /// Something of this thread is known to be gone: returns may lack their entries.
    has_gaps: bool,
}

/// Calls without a return so far, in the order of their numbers on the thread: where each stands in the
/// index. Nearly always the last is the next to return.
#[derive(Default)]
struct Open(Vec<(u32, Option<usize>)>);

impl Open {
    fn enter(&mut self, sequence: u32, index: usize) {
        self.0.push((sequence, Some(index)));
    }

    fn leave(&mut self, sequence: u32) -> Option<usize> {
        let at = match self.0.last() {
            Some((last, _)) if *last == sequence => self.0.len() - 1,
            _ => self.0.binary_search_by_key(&sequence, |(of, _)| *of).ok()?,
        };
        let index = self.0[at].1.take();
        while self.0.pop_if(|(_, index)| index.is_none()).is_some() {}
        index
    }
}

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
    pub(crate) fn locate(&mut self) {
        match self.find_footer() {
            Some((at, footer)) => {
                self.locate_listed(at, &footer);
                self.footer = Some(footer);
            }
            None => {
                self.locate_all();
                self.look_at_end();
            }
        }
    }

    /// The segments that the footer lists, and the footer's own.
    fn locate_listed(&mut self, footer_at: u64, footer: &Footer) {
        let mut offsets: Vec<u64> = footer.segments.iter().map(|s| s.offset).chain([footer_at]).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let mut end = 0;
        for offset in offsets {
            let header = self.map.peek::<HEADER>(offset).and_then(|bytes| Header::decode(&bytes));
            let what = match header.and_then(|h| Some((h, end_of(offset, &h)?))) {
                None => "a segment header that does not match its checksum",
                Some(_) if !offset.is_multiple_of(PAGE) => "the footer lists a segment that begins within a page",
                Some(_) if offset < end => "the footer lists a segment that begins within another one",
                Some((header, its_end)) => {
                    end = its_end;
                    self.segments.push((offset, header));
                    continue;
                }
            };
            self.damage.push(Damage::new(offset, what));
        }
    }

    fn locate_all(&mut self) {
        let mut offset = 0;
        let mut lost = false;
        while offset + HEADER as u64 <= self.map.len() as u64 {
            let here = &self.map[offset as usize..];
            let header = self.map.peek::<HEADER>(offset).and_then(|bytes| Header::decode(&bytes));
            if let Some((header, end)) = header.and_then(|h| Some((h, end_of(offset, &h)?))) {
                lost = false;
                self.segments.push((offset, header));
                offset = end;
                continue;
            }
            if !lost && here[..here.len().min(PAGE as usize)].iter().any(|b| *b != 0) {
                lost = true;
                let what = "expected the header of a segment, found none that matches its checksum";
                self.damage.push(Damage::new(offset, what));
            }
            offset += PAGE;
        }
        let is_footer = closed_end::of(&self.map, &self.segments).is_some_and(|end| end <= offset);
        if !is_footer && self.map.get(offset as usize..).is_some_and(|tail| tail.iter().any(|b| *b != 0)) {
            self.damage.push(Damage::new(offset, "the file ends inside the header of a segment"));
        }
    }

    /// Without a footer: whether more than that is missing. A recorder sets the place of its first chunk
    /// aside before a call is recorded, and of a trace that was not closed one at least is open.
    fn look_at_end(&mut self) {
        let len = self.map.len() as u64;
        let footer = self.segments.iter().find(|(_, header)| header.kind == Kind::Footer).map(|(offset, _)| *offset);
        let end = closed_end::of(&self.map, &self.segments).or(footer);
        if let Some(end) = end {
            self.damage.iter_mut().filter(|damage| damage.offset >= end).for_each(|damage| damage.loses = false);
        }
        let is_told = |(offset, header): &(u64, Header)| {
            matches!(header.kind, Kind::Blob | Kind::Free | Kind::Chunk) && offset.saturating_add(header.size) > len
        };
        let is_open = |h: &Header| h.kind == Kind::Chunk && h.seal == 0 || Place::of(h).is_some();
        let what = match end {
            _ if self.segments.iter().any(is_told) => return,
            Some(end) if len < end => format!("the file ends here: it went on to {end} before it was cut off"),
            Some(_) => return,
            None if self.segments.iter().any(|(_, header)| is_open(header)) => return,
            None if writer::of(&self.path, self.preamble.pid).is_some() => return,
            None => "the file ends here: it was cut off, with neither a footer nor an open chunk left".into(),
        };
        self.damage.push(Damage::new(len, what));
    }

    fn find_footer(&mut self) -> Option<(u64, Footer)> {
        let end = self.map.len();
        let tail = self.map.get(end.checked_sub(16)?..)?;
        if tail[8..] != MAGIC {
            return None;
        }
        let at = u64_at(tail, 0);
        // The magic is what every segment begins with, and may be the last that a cut has left.
        if at == 0 || !at.is_multiple_of(PAGE) {
            return None;
        }
        let found = self.footer_at(at);
        if found.is_none() {
            let what = "a footer that does not match its checksum; the segments were found without it";
            self.damage.push(Damage::mendable(end as u64 - 16, what));
        }
        Some((at, found?))
    }

    fn footer_at(&self, offset: u64) -> Option<Footer> {
        let header = self.map.get(offset as usize..).and_then(Header::decode).filter(|h| h.kind == Kind::Footer)?;
        let content = self.content(offset, &header)?;
        (checksum(content) == header.seal).then(|| decode(content)).flatten()
    }

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
        let chunks = self.chunks_beside_blobs();
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
    fn chunks_beside_blobs(&mut self) -> Vec<(u64, Header)> {
        let mut chunks: Vec<(u64, Header)> = Vec::new();
        for &(offset, header) in &self.segments {
            let start = offset + HEADER as u64;
            match header.kind {
                Kind::Chunk => chunks.push((offset, header)),
                Kind::Blob if header.length > header.room() => {
                    let what = format!("a blob of {} bytes in a segment for {}", header.length, header.room());
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
        let unsound = self.unsound(&chunks);
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
            self.index_chunk(offset, header, unsound.contains(&offset), &mut lane);
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
        self.settle_clocks();
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
        calls.order(|entry| self.stamp(entry));
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

    /// Chunks whose content does not match its checksum, by where they begin. To look at all of a long file
    /// takes as long as finding its records: several threads do.
    fn unsound(&self, chunks: &[(u64, Header)]) -> HashSet<u64> {
        let workers = thread::available_parallelism().map_or(1, NonZero::get).min(chunks.len() / MANY);
        let next = AtomicUsize::new(0);
        let check = || {
            let taken = std::iter::from_fn(|| chunks.get(next.fetch_add(1, Ordering::Relaxed)));
            let is_unsound = |offset, header: &Header| {
                header.seal != 0 && self.content(offset, header).map(checksum) != Some(header.seal)
            };
            taken
                .filter(|(offset, header)| is_unsound(*offset, header))
                .map(|(offset, _)| *offset)
                .collect::<Vec<u64>>()
        };
        thread::scope(|scope| {
            let others: Vec<_> = (1..workers).map(|_| scope.spawn(check)).collect();
            let own = check();
            let others = others.into_iter().flat_map(|other| other.join().expect("nothing there panics"));
            others.chain(own).collect()
        })
    }

    fn index_chunk(&mut self, offset: u64, header: Header, is_unsound: bool, lane: &mut Lane) {
        let damaged = |what: String| Damage::new(offset, what);
        let start = offset as usize + HEADER;
        if let Some(why) = self.map.fault(start as u64) {
            let what = format!("{why}: all records of a chunk are left out");
            self.damage.push(damaged(what));
            return;
        }
        let available = (self.map.len() - start.min(self.map.len())).min(header.room() as usize);
        if header.length > header.room() {
            let what = format!("a chunk with {} committed bytes of {}", header.length, header.room());
            self.damage.push(damaged(what));
            return;
        }
        let cut_off = header.length as usize > available;
        let length = (header.length as usize).min(available);
        if cut_off {
            let what = format!("the file ends inside this chunk: {available} of {} bytes are there", header.length);
            self.damage.push(damaged(what));
        } else if is_unsound {
            self.damage.push(damaged(
                "a chunk whose content does not match its checksum: all its records are left out".into(),
            ));
            return;
        }
        if !cut_off && offset.saturating_add(header.size) > self.map.len() as u64 {
            self.damage.push(damaged("the file ends inside this chunk, behind its committed records".into()));
        }
        let thread = header.thread as usize;
        if self.threads.len() <= thread && thread < THREADS {
            self.threads.resize_with(thread + 1, Thread::default);
        }
        let mut odd = Odd::default();
        let ended = self.index_records(&header, start as u64, (start + length) as u64, lane, &mut odd);
        if let Err(what) = ended
            && !cut_off
        {
            lane.has_gaps = true;
            self.damage.push(what);
        }
        if let Some(at) = odd.backwards {
            let what = format!("a record at offset {at} whose time goes back on its own thread: it counts as later");
            self.damage.push(damaged(what));
        }
        if odd.orphans > 0 && !lane.has_gaps {
            self.damage.push(damaged(format!("{} returns of calls whose entries are not in the file", odd.orphans)));
        }
        if odd.miscounted > 0 {
            let what = format!("{} counts of repeated polls that cannot be: they are cut to what can", odd.miscounted);
            self.damage.push(damaged(what));
        }
        if let Some((kind, count)) = odd.unknown {
            self.damage.push(damaged(format!("{count} records that cannot be passed over, the first of kind {kind}")));
        }
    }

    /// Records up to the first that does not fit.
    fn index_records(
        &mut self,
        header: &Header,
        start: u64,
        end: u64,
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
                let what = format!("a record at offset {at} that does not fit: the rest of its chunk is left out");
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
                        let begin = self.begin_of(&self.calls.at(place));
                        let (repeats, is_sound) = Repeats::of(head, &repeated, end.max(begin));
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
            let what = format!("a call with fewer than its {words} argument words: the rest of its chunk is left out");
            return Err(Damage::new(at, what));
        }
        if stamp < lane.latest {
            odd.backwards.get_or_insert(at);
        }
        let Some(place) = self.calls.push(at) else {
            let what = format!("a call beyond what a chunk or a trace has, {MOST} of them: the rest is left out");
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
        // The recorder can be wrong about a call that something was left through: only what began in between
        // an entry and its return was made inside.
        while let Some(inner) = lane.inner.pop_if(|inner| *inner > place) {
            self.calls.set_inner(inner);
        }
        self.calls.set_return(place, at);
        if size > lookup::CROWDED {
            self.crowded.insert(self.calls.entry(place), OnceLock::new());
        }
    }

    /// The call stands for others.
    fn repeats(&mut self, place: usize, repeats: Repeats) {
        self.calls.set_run(place, Run::Last);
        self.repeated = self.repeated.saturating_add(repeats.calls);
        if let Some(thread) = self.threads.get_mut(self.calls.at(place).thread as usize) {
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
            record::NAMED => self.timed_names.extend(body_of::<record::Named>(body).map(|n| (n.number, n.name))),
            record::ANNOTATION => self.index_annotation(thread, at, end),
            nccl::COMMUNICATOR => self.communicators.extend(body_of::<nccl::Communicator>(body)),
            nccl::BEGAN => self.began.extend(body_of::<nccl::Began>(body).map(|began| (began.time, thread, at))),
            nccl::RETURNED => {
                // NCCL may return twice from what it began once.
                let returned = body_of::<nccl::Returned>(body);
                returned.iter().for_each(|of| _ = self.began_returned.entry(of.operation).or_insert(of.time));
            }
            nccl::DELIVERED => self.delivered.extend(body_of::<nccl::Delivered>(body)),
            held::HELD => self.held.extend(body_of::<held::Held>(body)),
            record::PRINTED => self.printed = body_of::<record::Printed>(body),
            record::ENDED => self.ended = body_of::<record::Ended>(body),
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

/// Where a segment ends; none beyond what a file can hold.
fn end_of(offset: u64, header: &Header) -> Option<u64> {
    offset.checked_add(header.size).filter(|end| *end <= i64::MAX as u64)
}

pub(crate) fn body_of<T: Decode<()>>(body: &[u8]) -> Option<T> {
    decode(body)
}
