//! Opening of a trace without reading its records, for a reader with an index of its own that holds the
//! results of [`Trace::open`]. Single calls are then found by their chunk.

use crate::base::bytes::u32_at;
use crate::base::damage::Damage;
use crate::base::hash::checksum;
use crate::base::parallel;
use crate::file::call_table::Located;
use crate::file::origin::Origin;
use crate::file::preamble::encode;
use crate::file::record::{self, Adopted, Clock, Device, Ended, Kernel, LeftOut, Observed, Profile, Switched};
use crate::file::repeats::Run;
use crate::file::scale::Scale;
use crate::file::segment::{HEADER, Header, Kind};
use crate::read::call::Call;
use crate::read::reader::Trace;
use crate::read::reader::{Error, Thread};
use bincode::{Decode, Encode};
use foldhash::HashMap;
use std::path::Path;

/// A summary of a trace's records other than calls.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct RecordSummary {
    /// Operating-system id, name, calls, and those that others stand for.
    pub(crate) threads: Vec<(u32, String, u64, u64)>,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) devices: Vec<Device>,
    pub(crate) adopted: Vec<Adopted>,
    pub(crate) losses: Vec<(String, u64)>,
    /// Offset, and what was found and expected there.
    pub(crate) damage: Vec<(u64, String)>,
    pub(crate) clocks: Vec<Clock>,
    /// Clock ticks that times count from.
    pub(crate) earliest: u64,
    /// As [`Trace::ended`].
    pub ended: Option<Ended>,
    /// As [`Trace::ended_at`].
    pub ended_at: Option<u64>,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) switched: Vec<Switched>,
    pub(crate) profile: Option<Profile>,
    pub(crate) no_device_times: Option<String>,
    pub(crate) observed: Vec<Observed>,
    pub(crate) origins: Vec<Origin>,
}

impl Trace {
    /// What an index keeps for [`Trace::open_summarized`].
    pub fn summarize(&self) -> RecordSummary {
        let mut observed: Vec<Observed> = self.observed.values().flatten().copied().collect();
        observed.sort_by_key(|o| (o.thread, o.call, o.address));
        RecordSummary { observed, origins: self.origins().to_vec(), ..self.summarize_without_calls() }
    }

    /// The same without what only calls ask for.
    pub fn summarize_without_calls(&self) -> RecordSummary {
        let mut kernels: Vec<Kernel> = self.kernels.values().cloned().collect();
        kernels.sort_by_key(|kernel| kernel.id);
        RecordSummary {
            threads: self.threads.iter().map(|t| (t.os_id, t.name.clone(), t.calls, t.repeated)).collect(),
            kernels,
            devices: self.devices.clone(),
            adopted: self.adopted.clone(),
            losses: self.losses.clone(),
            damage: self.damage.iter().map(|d| (d.offset, d.what.clone())).collect(),
            clocks: self.clocks.clone(),
            earliest: self.scale.first(),
            ended: self.ended,
            ended_at: self.ended_at,
            left_out: self.left_out.clone(),
            switched: self.switched.clone(),
            profile: self.profile.clone(),
            no_device_times: self.no_device_times.clone(),
            observed: Vec::new(),
            origins: Vec::new(),
        }
    }

    /// The summary that `record` wrote into the footer when it closed the trace ([`Judgement::summary`]), of a trace
    /// whose chunks match their checksums. None where there is no summary.
    ///
    /// [`Judgement::summary`]: crate::write::finish::Judgement::summary
    pub fn summary(path: impl AsRef<Path>) -> Result<Option<Vec<u8>>, Error> {
        let trace = Trace::located(path.as_ref())?;
        let Some(footer) = trace.footer.as_ref().filter(|_| trace.damage.is_empty()) else { return Ok(None) };
        let segment = trace.segments.iter().find(|(_, header)| header.kind == Kind::Footer);
        let content = segment.and_then(|(offset, header)| trace.content(*offset, header));
        let summary = content.and_then(|content| content.get(encode(footer).len()..)).filter(|rest| !rest.is_empty());
        Ok(summary.filter(|_| trace.chunks_match()).map(<[u8]>::to_vec))
    }

    /// A packed segment is checked when it is unpacked.
    fn chunks_match(&self) -> bool {
        let chunks: Vec<_> = self.segments.iter().filter(|(_, h)| h.kind == Kind::Chunk && !self.is_packed()).collect();
        let matches = |(offset, header): &&(u64, Header)| {
            self.content(*offset, header).is_some_and(|content| checksum(content) == header.seal)
        };
        parallel::map(parallel::processors(), chunks, |chunk| matches(&chunk)).into_iter().all(|matches| matches)
    }

    /// Opens a trace of which everything but its calls is known. [`Trace::calls`] is empty then; calls are
    /// had from [`Trace::call_at`]. Fails as [`Trace::open`] does.
    pub fn open_summarized(path: impl AsRef<Path>, known: RecordSummary) -> Result<Trace, Error> {
        let mut trace = Trace::located(path.as_ref())?;
        trace.copy_open_chunks();
        trace.blobs_of_segments();
        let threads = known.threads.into_iter();
        trace.threads = threads.map(|(os_id, name, calls, repeated)| Thread { os_id, name, calls, repeated }).collect();
        trace.repeated = trace.threads.iter().fold(0, |all, thread| all.saturating_add(thread.repeated));
        trace.devices = known.devices;
        trace.adopted = known.adopted;
        trace.losses = known.losses;
        trace.damage = known.damage.into_iter().map(|(offset, what)| Damage::new(offset, what)).collect();
        (trace.ended, trace.ended_at) = (known.ended, known.ended_at);
        trace.left_out = known.left_out;
        trace.switched = known.switched;
        trace.profile = known.profile;
        trace.no_device_times = known.no_device_times;
        trace.clocks = known.clocks;
        if trace.clocks.is_empty() {
            trace.clocks = trace.preamble.clocks.to_vec();
        }
        trace.scale = Scale::from_clocks(&trace.clocks).counting_from(known.earliest);
        for kernel in known.kernels {
            let last = trace.launched.entry(kernel.handle).or_insert(kernel.id);
            *last = kernel.id.max(*last);
            trace.kernels.insert(kernel.id, kernel);
        }
        for observed in known.observed {
            trace.observed.entry((observed.thread, observed.call)).or_default().push(observed);
        }
        trace.origins = known.origins.into();
        Ok(trace)
    }

    /// A number that changes with what the segments hold, without reading them: of their headers, which hold
    /// checksums.
    pub fn fingerprint(path: impl AsRef<Path>) -> Result<u64, Error> {
        let mut trace = Trace::located(path.as_ref())?;
        trace.copy_open_chunks();
        let mut bytes = trace.bytes_on_disk().to_le_bytes().to_vec();
        for (offset, header) in &trace.segments {
            bytes.extend(offset.to_le_bytes());
            bytes.extend(header.encode());
            // Counts in an open chunk grow where they stand.
            if header.kind == Kind::Chunk && header.seal == 0 {
                let content = trace.content(*offset, header).unwrap_or(&[]);
                bytes.extend(checksum(content).to_le_bytes());
            }
        }
        Ok(checksum(&bytes))
    }

    /// The call with this number on its thread, read from the chunk it stands in; `number` is its number in
    /// the trace. None if no chunk of the thread holds it.
    pub fn call_at(&self, thread: u32, sequence: u32, number: u64, inner: bool) -> Option<Call<'_>> {
        let chunks = self.chunks.get_or_init(|| self.chunks_by_thread()).get(&thread)?;
        let index = chunks.partition_point(|(first, _)| *first <= sequence).checked_sub(1)?;
        let (mut entry, mut ret, mut run) = (None, 0, Run::None);
        let mut at_call = chunks[index].0;
        'chunks: for (_, offset) in &chunks[index..] {
            let mut records = self.records_of(*offset);
            while let Some((at, kind, call)) = records.next() {
                match kind {
                    record::ENTRY => {
                        if entry.is_none() && at_call == sequence {
                            entry = Some(at);
                        }
                        at_call = at_call.wrapping_add(1);
                    }
                    record::RETURN if entry.is_some() && call == sequence => {
                        ret = at;
                        let behind = self.record(at).map(|found| at + found.bytes.len() as u64);
                        if records.next().is_some_and(|(at, kind, _)| kind == record::REPEATED && Some(at) == behind) {
                            let calls = self.threads.get(thread as usize).map(|thread| thread.calls as u32);
                            run = if calls == Some(sequence.wrapping_add(1)) { Run::Last } else { Run::Counted };
                        }
                        break 'chunks;
                    }
                    _ => {}
                }
            }
            entry?;
        }
        let entry = entry?;
        self.read(&Located { begin: None, thread, sequence, entry, inner, ret, run }, number)
    }

    /// Entries, returns and counts of repeated calls of a chunk: offset, kind, and of returns the call they
    /// belong to.
    fn records_of(&self, offset: u64) -> impl Iterator<Item = (u64, u8, u32)> + '_ {
        let mut at = offset + HEADER as u64;
        let found = self.segments.binary_search_by_key(&offset, |(offset, _)| *offset).ok();
        let header = found.map(|index| self.segments[index].1);
        let end = header.map_or(at, |h| (at + h.length.min(h.room())).min(self.map.len() as u64));
        std::iter::from_fn(move || {
            while at < end {
                let found = self.record_within(at, end)?;
                let here = at;
                at += found.bytes.len() as u64;
                match found.head.kind {
                    record::ENTRY => return Some((here, record::ENTRY, 0)),
                    record::RETURN => return Some((here, record::RETURN, u32_at(found.bytes, 16))),
                    record::REPEATED => return Some((here, record::REPEATED, 0)),
                    _ => {}
                }
            }
            None
        })
    }

    fn chunks_by_thread(&self) -> HashMap<u32, Vec<(u32, u64)>> {
        let mut chunks: Vec<_> = self.segments.iter().filter(|(_, h)| h.kind == Kind::Chunk).collect();
        // Of two copies of a chunk the sealed one comes first.
        chunks.sort_by_key(|(_, h)| (h.thread, h.ordinal(), h.seal == 0));
        chunks.dedup_by_key(|(_, h)| (h.thread, h.ordinal()));
        let mut by_thread: HashMap<u32, Vec<(u32, u64)>> = HashMap::default();
        for (offset, header) in chunks {
            by_thread.entry(header.thread).or_default().push((header.first_call() as u32, *offset));
        }
        by_thread
    }
}
