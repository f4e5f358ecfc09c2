//! The reader of a trace, whether whole, truncated, or damaged.
//!
//! The footer only saves the search: without it the segments are found by their headers. A torn or corrupt
//! chunk loses only that chunk, and [`Trace::damage`] reports it.

use crate::api::{self, Function};
use crate::base::damage::Damage;
use crate::base::hash::{Hash, checksum};
use crate::code::parameter_types::Signatures;
use crate::file::call_table::Calls;
use crate::file::lookup::Lookup;
use crate::file::mapping::Mapping;
use crate::file::open_chunks::Copies;
use crate::file::origin::Origin;
use crate::file::preamble::{Footer, Preamble, SIMULATED_DEVICE, decode};
use crate::file::record::{self, Clock, Head, Kernel, Observed};
use crate::file::reference::References;
use crate::file::scale::Scale;
use crate::file::segment::{FORMAT_VERSION, HEADER, Header, Kind, MAGIC, PACKED_VERSION, PAGE};
use foldhash::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A file that cannot be opened as a trace.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused to read it.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// It is a directory, a pipe or a device.
    #[error("{path}: not a regular file; expected a trace")]
    NotAFile {
        /// Path of the file.
        path: PathBuf,
    },
    /// It has no bytes.
    #[error("{path}: the file is empty; a trace begins with the 8 bytes \"CUTRACE\\n\"")]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
    /// It does not begin with the magic.
    #[error("{path}: not a cutrace trace: found {found} at offset 0, expected \"CUTRACE\\n\"")]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// Its first bytes, for people.
        found: String,
    },
    #[error(
        "{path}: format version {found} at offset 9; this cutrace reads up to {PACKED_VERSION}: use a newer cutrace"
    )]
    /// Its format is of a later version.
    Newer {
        /// Path of the file.
        path: PathBuf,
        /// The version.
        found: u8,
    },
    /// Both copies of the preamble are damaged.
    #[error("{path}: no readable preamble at offset 0 nor in its copy; expected one that matches its checksum")]
    NoPreamble {
        /// Path of the file.
        path: PathBuf,
    },
}

/// One recorded thread.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    /// The operating-system id.
    pub os_id: u32,
    /// The name when its first record was written.
    pub name: String,
    /// That are in the file, each as a call of its own.
    pub calls: u64,
    /// That others stand for.
    pub repeated: u64,
}

/// An opened trace.
pub struct Trace {
    /// Path by which it was opened.
    pub path: PathBuf,
    /// Device and inode.
    pub(crate) file: (u64, u64),
    /// Bytes of the file.
    size: u64,
    pub(crate) map: Arc<Mapping>,
    pub(crate) copies: Copies,
    /// Facts about the recorded process.
    pub preamble: Preamble,
    /// Totals, if the trace is closed.
    pub footer: Option<Footer>,
    /// The recorded threads by index.
    pub threads: Vec<Thread>,
    /// Launched functions by id.
    pub kernels: HashMap<u32, Kernel>,
    /// Devices that the process saw.
    pub devices: Vec<record::Device>,
    /// Modules that no call loaded.
    pub adopted: Vec<record::Adopted>,
    /// If `record` could know it.
    pub printed: Option<record::Printed>,
    /// How the program ended, if `record` had started it itself.
    pub ended: Option<record::Ended>,
    /// And when, if `record` saw it: nanoseconds of CLOCK_MONOTONIC_RAW.
    pub ended_at: Option<u64>,
    /// What was not recorded, and how often: as the recorder and the footer say.
    pub losses: Vec<(String, u64)>,
    /// Parts of the file that could not be used.
    pub damage: Vec<Damage>,
    /// What a capture range left out, by thread and then by time.
    pub left_out: Vec<record::LeftOut>,
    /// By `cutrace on` and `cutrace off`, in order.
    pub switched: Vec<record::Switched>,
    /// When the first call was left out that may have changed what devices hold: what they held from then on
    /// is not known.
    pub unknown_since: Option<u64>,
    /// Clock pairs, by time.
    pub clocks: Vec<Clock>,
    pub(crate) scale: Scale,
    /// Every segment found, in file order.
    pub segments: Vec<(u64, Header)>,
    pub(crate) functions: Vec<Option<&'static Function>>,
    pub(crate) blobs: HashMap<Hash, (u64, u64)>,
    /// What lies in other files.
    pub(crate) references: References,
    /// Descriptors, by thread and call.
    pub(crate) passed: HashMap<(u32, u32), record::Passed>,
    /// By thread and call: what of the host memory that it registered is shared.
    pub(crate) shared: HashMap<(u32, u32), Vec<record::Shared>>,
    /// By thread and call, then by address.
    pub(crate) observed: HashMap<(u32, u32), Vec<Observed>>,
    /// The same, by the call after which it was observed.
    pub(crate) observed_by: HashMap<(u32, u32), Vec<Observed>>,
    /// By threads that had made no call, each with its index: what was found done when a callback began. By
    /// time.
    pub(crate) observed_beside: Vec<(u32, Observed)>,
    /// The thread and offset of WRITTEN records, by the thread and call that they name.
    pub(crate) written: HashMap<(u32, u32), Vec<(u32, u64)>>,
    /// Annotations by time: the stamp, the thread, the record's offset.
    pub(crate) annotations: Vec<(u64, u32, u64)>,
    /// What domains and registered texts are called, by their numbers.
    pub(crate) domains: HashMap<u32, String>,
    pub(crate) texts: HashMap<u32, String>,
    /// As NCCL told of them, in order.
    pub communicators: Vec<record::nccl::Communicator>,
    /// What began in NCCL, by time: the stamp, the thread, the record's offset.
    pub(crate) began: Vec<(u64, u32, u64)>,
    /// When it returned, by its number.
    pub(crate) began_returned: HashMap<u64, u64>,
    /// What operations of NCCL brought to this rank, if that was kept.
    pub delivered: Vec<record::nccl::Delivered>,
    /// What memory of other processes held, if that was kept.
    pub held: Vec<record::imported_memory::ImportedMemory>,
    /// What a device did, by its start: the time, the record's offset.
    pub(crate) timed: Vec<(i64, u64)>,
    pub(crate) timed_names: HashMap<u32, String>,
    /// The replay that measured it.
    pub profile: Option<record::Profile>,
    /// Why there are none, though the recording was to have them.
    pub no_device_times: Option<String>,
    /// Calls with large records, by the offset of their entry.
    pub(crate) crowded: HashMap<u64, OnceLock<Lookup>>,
    /// What was launched last under a handle.
    pub(crate) launched: HashMap<u64, u32>,
    pub(crate) calls: Calls,
    /// Calls that others stand for.
    pub(crate) repeated: u64,
    /// By thread: number of the first call and offset of each chunk. For calls that are not in `calls`.
    pub(crate) chunks: OnceLock<HashMap<u32, Vec<(u32, u64)>>>,
    /// Where launched functions come from. Made when first needed.
    pub(crate) origins: OnceLock<Vec<Origin>>,
    pub(crate) signatures: Signatures,
}

impl Trace {
    /// Opens and indexes a trace. Damage is no error: see [`Trace::damage`].
    pub fn open(path: impl AsRef<Path>) -> Result<Trace, Error> {
        let mut trace = Trace::located(path.as_ref())?;
        trace.copy_open_chunks();
        trace.index();
        Ok(trace)
    }

    /// What a trace says of itself, without a look at the rest.
    pub fn preamble_of(path: &Path) -> Result<Preamble, Error> {
        Ok(Trace::mapped(path)?.1)
    }

    /// The file, with its device and inode, its preamble, and what was wrong with that.
    #[allow(clippy::type_complexity)]
    fn mapped(path: &Path) -> Result<((Mapping, std::fs::Metadata), Preamble, Vec<Damage>), Error> {
        let path = path.to_path_buf();
        let io = |source| Error::Io { path: path.clone(), source };
        let found = std::fs::metadata(&path).map_err(io)?;
        if !found.is_file() {
            return Err(Error::NotAFile { path });
        }
        let file = std::fs::File::open(&path).map_err(io)?;
        if found.len() == 0 {
            return Err(Error::Empty { path });
        }
        let map = Mapping::open(file).map_err(io)?;
        let (preamble, mut damage) = find_preamble(&map, &path)?;
        damage.extend_from_slice(map.damage());
        Ok(((map, found), preamble, damage))
    }

    /// With its segments found, and nothing known of what is in them.
    pub(crate) fn located(path: &Path) -> Result<Trace, Error> {
        let ((map, found), preamble, damage) = Trace::mapped(path)?;
        let known = |(name, words): &(String, u16)| {
            // A line that changed its shape since the file was written cannot be walked.
            api::by_name(name).filter(|function| function.words() == usize::from(*words))
        };
        let functions = preamble.functions.iter().map(known).collect();
        let mut trace = Trace {
            path: path.to_path_buf(),
            file: (found.dev(), found.ino()),
            size: found.len(),
            map: Arc::new(map),
            copies: Copies::default(),
            preamble,
            footer: None,
            threads: Vec::new(),
            kernels: HashMap::default(),
            devices: Vec::new(),
            adopted: Vec::new(),
            printed: None,
            ended: None,
            ended_at: None,
            losses: Vec::new(),
            damage,
            left_out: Vec::new(),
            switched: Vec::new(),
            unknown_since: None,
            clocks: Vec::new(),
            scale: Scale::default(),
            segments: Vec::new(),
            functions,
            blobs: HashMap::default(),
            references: References::default(),
            passed: HashMap::default(),
            shared: HashMap::default(),
            observed: HashMap::default(),
            observed_by: HashMap::default(),
            observed_beside: Vec::new(),
            written: HashMap::default(),
            annotations: Vec::new(),
            domains: HashMap::default(),
            texts: HashMap::default(),
            communicators: Vec::new(),
            began: Vec::new(),
            began_returned: HashMap::default(),
            delivered: Vec::new(),
            held: Vec::new(),
            timed: Vec::new(),
            timed_names: HashMap::default(),
            profile: None,
            no_device_times: None,
            crowded: HashMap::default(),
            launched: HashMap::default(),
            calls: Calls::default(),
            repeated: 0,
            chunks: OnceLock::new(),
            origins: OnceLock::new(),
            signatures: Signatures::default(),
        };
        trace.locate();
        Ok(trace)
    }

    /// From here on a program that still writes the file does not change what was found in it.
    pub(crate) fn copy_open_chunks(&mut self) {
        self.copies = Copies::copy_all(&self.map, &mut self.segments, &mut self.damage);
    }

    /// Whether host memory was registered that other processes may have mapped as well.
    pub fn shares_host_memory(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Gives back the shared memory in which the process had its open chunks, if this is the file that it
    /// wrote and not a copy: nothing is lost by that once they are in a file.
    pub fn release_memory(&self) {
        self.copies.release(self.file);
    }

    /// Whether there is any to give back.
    pub fn has_memory(&self) -> bool {
        self.copies.has_memory()
    }

    /// What the file holds from an offset on, up to `end`: of an open chunk, what it held.
    #[inline]
    pub(crate) fn bytes_from(&self, at: u64, end: u64) -> Option<&[u8]> {
        self.copies.bytes_from(at, end).or_else(|| self.map.bytes_from(at, end))
    }

    /// The size limit, as it was asked for, if recording ended because of it; and how many calls are known to
    /// have come later.
    pub fn size_limit_reached(&self) -> Option<(&str, u64)> {
        let (_, beyond) = self.losses.iter().find(|(what, _)| what == record::BEYOND_LIMIT)?;
        let limit = self.preamble.more.iter().find(|(key, _)| key == record::SIZE_LIMIT);
        Some((limit.map_or("its file", |(_, limit)| limit), *beyond))
    }

    /// Stretches of time in which a recording that is switched from outside was on, by its clock; the last
    /// may go on to the end.
    pub fn switched_on(&self) -> Vec<(u64, Option<u64>)> {
        let begins_off = self.switched.first().is_some_and(|first| first.is_on);
        let mut stretches = if begins_off { Vec::new() } else { vec![(self.clocks[0].tsc, None)] };
        for switched in &self.switched {
            match (switched.is_on, stretches.last_mut()) {
                (true, None | Some((_, Some(_)))) => stretches.push((switched.time, None)),
                (false, Some((_, to @ None))) => *to = Some(switched.time),
                _ => {}
            }
        }
        stretches
    }

    /// Calls that a capture range left out.
    pub fn calls_left_out(&self) -> u64 {
        self.left_out.iter().map(|left| left.calls).fold(0, u64::saturating_add)
    }

    /// Those of them that gave devices work.
    pub fn works_left_out(&self) -> u64 {
        self.left_out.iter().map(|left| left.works).fold(0, u64::saturating_add)
    }

    /// Size of the file in bytes.
    pub fn bytes_on_disk(&self) -> u64 {
        match *self.map {
            Mapping::Packed(_) => self.size,
            // It may have grown since.
            _ => self.length(),
        }
    }

    /// Bytes of the trace: of a packed one, those that its file stands for. Offsets are meant in it.
    pub fn length(&self) -> u64 {
        self.map.len() as u64
    }

    /// Whether a replay is worth a hint: `record` has not judged it "no", or not judged it at all.
    pub fn may_be_replayed(&self) -> bool {
        self.footer.as_ref().is_none_or(|footer| footer.verdict != "no")
    }

    /// Whether the simulated driver made its times, which predict nothing of a GPU.
    pub fn is_simulated(&self) -> bool {
        self.devices.iter().any(|device| device.name == SIMULATED_DEVICE)
    }

    /// Whether the file is packed: its records are compressed.
    pub fn is_packed(&self) -> bool {
        matches!(*self.map, Mapping::Packed(_))
    }

    /// Number of recorded calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether it has no recorded call.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Name of a function id of this file; `?` if the file does not list it.
    pub fn function_name(&self, id: u16) -> &str {
        self.preamble.functions.get(id as usize).map_or("?", |(name, _)| name)
    }

    /// The function of an id of this file; None if this build does not know it.
    #[inline]
    pub fn function(&self, id: u16) -> Option<&'static Function> {
        *self.functions.get(usize::from(id))?
    }

    /// The content of a blob, if the trace has it whole, or the file that it names has been followed.
    pub fn blob(&self, hash: Hash) -> Option<&[u8]> {
        let Some(&(offset, len)) = self.blobs.get(&hash) else { return self.references.bytes(hash) };
        self.map.bytes_from(offset, offset.checked_add(len)?).filter(|content| content.len() as u64 == len)
    }

    /// Hashes and lengths in bytes of all blobs.
    pub fn blobs(&self) -> impl Iterator<Item = (Hash, u64)> {
        self.blobs.iter().map(|(hash, (_, len))| (*hash, *len))
    }

    /// What a copy of this call had brought to an address.
    pub(crate) fn observed(&self, thread: u32, sequence: u32, address: u64) -> Option<&Observed> {
        let all = self.observed.get(&(thread, sequence))?;
        let at = all.partition_point(|o| o.address < address);
        let before = || all.get(at.checked_sub(1)?).filter(|o| o.form == record::LOST && address - o.address < o.len);
        // What could not be read is told as a whole.
        all.get(at).filter(|o| o.address == address).or_else(before)
    }

    /// What was launched last under this handle.
    pub fn kernel(&self, handle: u64) -> Option<&Kernel> {
        self.kernels.get(self.launched.get(&handle)?)
    }

    /// Nanoseconds since the start of the trace: since the earliest call, annotation or operation of NCCL in
    /// it, or its first clock pair if that is earlier.
    #[inline]
    pub fn nanoseconds(&self, ticks: u64) -> i64 {
        self.scale.nanoseconds(ticks)
    }

    /// When the first clock pair was read, in nanoseconds since the start of the trace. The file counts device
    /// times from there.
    pub fn first_clock(&self) -> i64 {
        self.nanoseconds(self.clocks[0].tsc)
    }

    /// The start of the trace in nanoseconds of CLOCK_MONOTONIC_RAW.
    pub fn started(&self) -> u64 {
        self.clocks[0].ns.saturating_sub_signed(self.first_clock())
    }

    /// The start of the trace in nanoseconds since 1970.
    pub fn started_on(&self) -> u64 {
        self.preamble.created.saturating_sub_signed(self.first_clock())
    }

    /// The committed content of a segment, if the file has all of it.
    pub fn content(&self, offset: u64, header: &Header) -> Option<&[u8]> {
        let start = offset + HEADER as u64;
        let content = self.bytes_from(start, start.checked_add(header.length)?)?;
        (content.len() as u64 == header.length && header.length <= header.room()).then_some(content)
    }

    /// Bytes of the whole records at the start of a chunk that the file may have only in part.
    pub fn whole_records(&self, offset: u64, header: &Header) -> u64 {
        let start = offset + HEADER as u64;
        let end = start.saturating_add(header.length.min(header.room())).min(self.map.len() as u64);
        let mut at = start;
        while let Some(found) = self.record_within(at, end).filter(|_| at < end) {
            at += found.bytes.len() as u64;
        }
        at - start
    }

    /// Reads every blob: those that are not what their name says, with where each begins.
    pub fn wrong_blobs(&self) -> Vec<(Hash, u64)> {
        let is_wrong_packed = self.map.check_packed_blobs();
        let is_wrong = |hash: &Hash, start: u64| {
            let of_others = || self.blob(*hash).map(Hash::compute) != Some(*hash);
            is_wrong_packed(start - HEADER as u64).unwrap_or_else(of_others)
        };
        let wrong = self.blobs.iter().filter(|(hash, (start, _))| is_wrong(hash, *start));
        let mut wrong: Vec<(Hash, u64)> = wrong.map(|(hash, (start, _))| (*hash, *start)).collect();
        wrong.sort_unstable_by_key(|(_, start)| *start);
        wrong
    }

    /// Reads every blob and leaves out those that are not what their name says. [`Trace::open`] does not: it
    /// takes as long as reading the file.
    pub fn check_blobs(&mut self) {
        self.leave_out(&self.wrong_blobs());
    }

    /// The same, if it is known which these are, and where they begin: in the trace of which this one is a copy.
    pub fn leave_out(&mut self, wrong: &[(Hash, u64)]) {
        /// A forged trace may have more of them than anybody reads.
        const NAMED: usize = 1000;
        wrong.iter().for_each(|(hash, _)| _ = self.blobs.remove(hash));
        for (hash, start) in wrong.iter().take(NAMED) {
            let what = format!("a blob that does not match its hash {hash}: it is skipped");
            self.damage.push(Damage::new(start - HEADER as u64, what));
        }
        if let Some((_, start)) = wrong.get(NAMED) {
            let what = format!("{} more blobs that do not match their hashes: they are skipped", wrong.len() - NAMED);
            self.damage.push(Damage::new(start - HEADER as u64, what));
        }
    }

    /// The whole file, if all that it holds is read there.
    #[inline]
    pub(crate) fn plain(&self) -> Option<&[u8]> {
        self.map.plain().filter(|_| self.copies.is_empty())
    }

    #[inline]
    pub(crate) fn record(&self, at: u64) -> Option<Record<'_>> {
        match self.plain() {
            Some(all) => Record::first_of(all.get(at as usize..)?),
            None => self.record_within(at, self.map.len() as u64),
        }
    }

    pub(crate) fn record_within(&self, at: u64, end: u64) -> Option<Record<'_>> {
        Record::first_of(self.bytes_from(at, end)?)
    }
}

pub(crate) struct Record<'a> {
    pub(crate) head: Head,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Record<'a> {
    #[inline]
    pub(crate) fn first_of(bytes: &'a [u8]) -> Option<Record<'a>> {
        let head = Head::decode(bytes)?;
        let size = head.size as usize;
        let least = match head.kind {
            record::ENTRY => record::ENTRY_SIZE,
            record::RETURN => record::RETURN_SIZE,
            _ => record::HEAD,
        };
        if size < least || !size.is_multiple_of(8) {
            return None;
        }
        Some(Record { head, bytes: bytes.get(..size)? })
    }
}

/// The preamble, from the start of the file or from its copy; with what was wrong with the first.
fn find_preamble(map: &[u8], path: &Path) -> Result<(Preamble, Vec<Damage>), Error> {
    const SEARCH: usize = 16 << 20;
    let mut damage = Vec::new();
    // Nothing of a packed file is that of which nothing can be unpacked.
    let mut foreign = !map.is_empty() && (map.len() < 8 || map[..8] != MAGIC);
    let mut next = 0;
    while next < map.len().min(SEARCH) {
        let offset = next;
        next += PAGE as usize;
        let Some(header) = Header::decode(&map[offset..]) else { continue };
        foreign = false;
        if header.version > FORMAT_VERSION {
            return Err(Error::Newer { path: path.to_path_buf(), found: header.version });
        }
        if header.kind != Kind::Preamble {
            continue;
        }
        next = offset.saturating_add(header.size as usize);
        let content = map.get(offset + HEADER..).and_then(|rest| rest.get(..header.length as usize));
        let content = content.filter(|_| header.length <= header.room());
        let whole = content.filter(|content| checksum(content) == header.seal).and_then(decode);
        if let Some(preamble) = whole {
            if offset != 0 && damage.is_empty() {
                damage.push(Damage::mendable(0, "the first preamble is damaged; its copy was used"));
            }
            return Ok((preamble, damage));
        }
        damage.push(Damage::mendable(offset as u64, "a preamble that does not match its checksum"));
    }
    if foreign {
        let found = map[..map.len().min(8)].escape_ascii().to_string();
        return Err(Error::Foreign { path: path.to_path_buf(), found: format!("\"{found}\"") });
    }
    Err(Error::NoPreamble { path: path.to_path_buf() })
}
