//! The index file, `trace.bin.idx`: a [`Model`] stored beside its trace, so that the trace opens at once.
//!
//! ```text
//! header     magic "CUTRIDX\n" | version u32 | zero u32 | fingerprint u64 | file u64 | directory offset u64,
//!            length u64, checksum u64 | checksum of all this u64
//! sections   columns, each on a 64-byte boundary
//! directory  bincode(Directory): the summary, findings, and where each column is, with a checksum for every
//!            4 MiB
//! ```
//!
//! It repeats the contents of the trace and can be deleted. It is valid only for a trace of the same [`Key`];
//! otherwise it is rebuilt.

use super::column::Column;
use super::lane::{Lane, Source};
use super::lives::{Life, Lives};
use super::memory::{Memory, Owner};
use super::model::{Model, Summary};
use super::pyramid::{Node, Pyramid};
use super::side_files::{Kind, keep, places};
use analysis::findings::finding::Finding;
use bincode::{Decode, Encode};
use bytemuck::Pod;
use memmap2::{Advice, Mmap, UncheckedAdvice};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use trace::Trace;
use trace::base::hash::checksum;
use trace::file::preamble::{decode, encode};
use trace::read::summary::RecordSummary;

const MAGIC: [u8; 8] = *b"CUTRIDX\n";
/// Ending and first bytes of index files.
pub const INDEX: Kind = Kind { suffix: "idx", begins: &MAGIC };
const VERSION: u32 = 16;
const HEADER: usize = 64;
const ALIGNED: u64 = 64;
/// Bytes under one checksum.
const PIECE: usize = 4 << 20;
/// An index up to this size is checked before it is used; a longer one while it is.
const CHECKED_AT_ONCE: u64 = 64 << 20;

/// An index is valid only if this agrees with the trace: its segment headers, and the identity and change
/// time of its file. Records are not read for it: damage that changes neither, such as a disk's, is found
/// only by reading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Key {
    fingerprint: u64,
    /// Checksum of the device, the inode, and the times of change of the content and of the inode. A program
    /// can put back the former time, not the latter.
    file: u64,
}

impl Key {
    pub(crate) fn from_path(trace: &Path) -> Result<Key, trace::Error> {
        let fingerprint = Trace::fingerprint(trace)?;
        let about = fs::metadata(trace).map_err(|source| trace::Error::Io { path: trace.to_path_buf(), source })?;
        let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()].map(i64::cast_unsigned);
        let file = [&[about.dev(), about.ino()], &times[..]].concat();
        Ok(Key { fingerprint, file: checksum(bytemuck::cast_slice(&file)) })
    }
}

#[derive(Debug, Clone, PartialEq, Encode, Decode)]
struct Section {
    offset: u64,
    length: u64,
    checks: Vec<u64>,
}

#[derive(Encode, Decode)]
struct LaneEntry {
    source: Source,
    begin: Section,
    length: Section,
    long: Section,
    name: Section,
    flags: Section,
    call: Section,
    done: Section,
    record: Section,
    nodes: Section,
    firsts: Section,
}

#[derive(Encode, Decode)]
struct Directory {
    summary: Summary,
    known: RecordSummary,
    lanes: Vec<LaneEntry>,
    memory: Vec<(Owner, Section, Section)>,
    concerned: Section,
    lives: Section,
    life_names: Vec<String>,
    /// None: not looked for yet.
    findings: Option<Vec<Finding>>,
}

/// An index that agrees with the trace, and the rest of its checks.
pub struct Loaded {
    pub(crate) model: Model,
    pub(crate) known: RecordSummary,
    pub(crate) lives: Lives,
    pub(crate) findings: Option<Vec<Finding>>,
    pub(crate) path: PathBuf,
    /// None: it has been checked. Otherwise `Unchecked::check` is to be called, and its answer heeded.
    pub unchecked: Option<Unchecked>,
    pub(crate) pages: Pages,
}

/// The pages of an index that this process has mapped in.
#[derive(Clone)]
pub struct Pages(Arc<Mmap>);

impl Pages {
    /// Lets go of them: they stay in the page cache, and come back one by one as they are looked at. A frame
    /// of the whole of a long trace looks at places all over the index, and the kernel has what lies around
    /// each of them in view, too.
    pub fn let_go(&self) {
        // SAFETY: a shared mapping of a file, which is only read: its content is the file's before and after.
        let _as_good_as_it_gets = unsafe { self.0.unchecked_advise(UncheckedAdvice::DontNeed) };
    }
}

/// The checksums of an index's sections, not yet verified.
pub struct Unchecked {
    path: PathBuf,
    sections: Vec<Section>,
}

impl Unchecked {
    /// Reads the whole file; false if a byte is not as it was written.
    pub(crate) fn check(&self) -> bool {
        let Ok(mut file) = File::open(&self.path) else { return false };
        let mut bytes = vec![0; PIECE];
        self.sections.iter().all(|section| sound(&mut file, section, &mut bytes).unwrap_or(false))
    }
}

fn sound(file: &mut File, section: &Section, bytes: &mut [u8]) -> io::Result<bool> {
    file.seek(SeekFrom::Start(section.offset))?;
    let mut left = section.length as usize;
    for check in &section.checks {
        let piece = &mut bytes[..left.min(PIECE)];
        file.read_exact(piece)?;
        if checksum(piece) != *check {
            return Ok(false);
        }
        left -= piece.len();
    }
    Ok(left == 0)
}

/// The reason why an index cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// There is no index.
    #[error("it no longer exists")]
    Gone,
    /// The index is of another version.
    #[error("an index of version {0}, this cutrace needs version {own}", own = VERSION)]
    Version(u32),
    /// The trace changed after its index was written.
    #[error("an index of the trace as it was before it changed")]
    Changed,
    /// A checksum or a length does not match.
    #[error("a damaged index")]
    Damaged,
}

/// The index of a trace, if there is one that agrees with it; and what is wrong with one that does not.
pub fn load(trace: &Path, key: Key) -> (Option<Loaded>, Option<String>) {
    let mut why = None;
    for path in places(trace, &INDEX) {
        match read(&path, key) {
            Ok(loaded) => return (Some(loaded), None),
            Err(Unfit::Gone) => {}
            Err(unfit) => why = why.or(Some(format!("{}: {unfit}: the trace was read instead", path.display()))),
        }
    }
    (None, why)
}

fn read(path: &Path, key: Key) -> Result<Loaded, Unfit> {
    if !INDEX.is_at(path) {
        return Err(Unfit::Gone);
    }
    let file = File::open(path).map_err(|_| Unfit::Gone)?;
    // SAFETY: the mapping is read as plain numbers, all of which are checked before they index anything.
    // Nobody but another viewer writes here, and that one puts a new file in its place.
    let map = Arc::new(unsafe { Mmap::map(&file) }.map_err(|_| Unfit::Damaged)?);
    // A frame reads single pages here and there: what lies around them would be read from the disk in vain.
    let _as_good_as_it_gets = map.advise(Advice::Random);
    let directory = directory_of(&map, key)?;
    let sections = directory.sections();
    let mut unchecked = Some(Unchecked { path: path.to_path_buf(), sections });
    if map.len() as u64 <= CHECKED_AT_ONCE && !unchecked.take().is_some_and(|unchecked| unchecked.check()) {
        return Err(Unfit::Damaged);
    }
    let findings = directory.findings.clone();
    let (model, known, lives) = directory.open(&map).ok_or(Unfit::Damaged)?;
    Ok(Loaded { model, known, lives, findings, path: path.to_path_buf(), unchecked, pages: Pages(map) })
}

fn directory_of(map: &Mmap, key: Key) -> Result<Directory, Unfit> {
    let header = map.get(..HEADER).ok_or(Unfit::Damaged)?;
    let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
    let version = u32::from_le_bytes(header[8..12].try_into().expect("4 bytes"));
    if header[..8] != MAGIC || checksum(&header[..56]) != word(56) {
        return Err(Unfit::Damaged);
    }
    if version != VERSION {
        return Err(Unfit::Version(version));
    }
    if (Key { fingerprint: word(16), file: word(24) }) != key {
        return Err(Unfit::Changed);
    }
    let end = word(32).checked_add(word(40)).ok_or(Unfit::Damaged)?;
    let directory = map.get(word(32) as usize..end as usize).ok_or(Unfit::Damaged)?;
    if checksum(directory) != word(48) {
        return Err(Unfit::Damaged);
    }
    decode(directory).ok_or(Unfit::Damaged)
}

impl Directory {
    fn sections(&self) -> Vec<Section> {
        let mut all = vec![self.concerned.clone(), self.lives.clone()];
        for (_, time, live) in &self.memory {
            all.extend([time.clone(), live.clone()]);
        }
        for lane in &self.lanes {
            let LaneEntry { begin, length, long, name, flags, call, done, record, nodes, firsts, .. } = lane;
            all.extend([begin, length, long, name, flags, call, done, record, nodes, firsts].map(Section::clone));
        }
        all
    }

    fn open(self, map: &Arc<Mmap>) -> Option<(Model, RecordSummary, Lives)> {
        fn column<T: Pod>(map: &Arc<Mmap>, section: &Section) -> Option<Column<T>> {
            Column::mapped(map, section.offset, section.length)
        }
        let lanes = self.lanes.iter().map(|entry| {
            let begin: Column<u64> = column(map, &entry.begin)?;
            let events = begin.len();
            let lane = Lane {
                source: entry.source.clone(),
                begin,
                length: column(map, &entry.length)?,
                long: column(map, &entry.long)?,
                name: column(map, &entry.name)?,
                flags: column(map, &entry.flags)?,
                call: column(map, &entry.call)?,
                done: column(map, &entry.done)?,
                record: column(map, &entry.record)?,
                pyramid: Pyramid::from_columns(
                    column::<Node>(map, &entry.nodes)?,
                    column(map, &entry.firsts)?,
                    events,
                )?,
            };
            let lengths = [lane.length.len(), lane.name.len(), lane.flags.len(), lane.call.len()];
            let (done, record) = match lane.source {
                Source::Stream(_) => (events, 0),
                Source::Device { .. } => (0, events),
                _ => (0, 0),
            };
            let more = (lane.done.len(), lane.record.len()) == (done, record);
            (lengths == [events; 4] && more).then_some(lane)
        });
        let lanes: Vec<Lane> = lanes.collect::<Option<_>>()?;
        let memory = self.memory.iter().map(|(of, time, live)| {
            let (time, live) = (column::<u64>(map, time)?, column::<u64>(map, live)?);
            (time.len() == live.len()).then(|| Memory::new(*of, time, live))
        });
        let memory = memory.collect::<Option<_>>()?;
        let lives = Lives { all: column::<Life>(map, &self.lives)?, names: self.life_names };
        let concerned = column(map, &self.concerned)?;
        Some((Model { summary: self.summary, lanes, memory, concerned }, self.known, lives))
    }
}

/// Writes the index to the first place that takes it, unless it is told to stop; where that was.
pub fn save(
    trace: &Path,
    key: Key,
    model: &Model,
    (lives, findings): (&Lives, Option<&[Finding]>),
    known: RecordSummary,
    stop: &AtomicBool,
) -> io::Result<PathBuf> {
    keep(trace, &INDEX, |file| write_into((file, stop), key, model, (lives, findings), &known))
}

/// Puts what was found into the index of a trace, if there is one that agrees with it: a new directory behind
/// the old one. Whoever reads the index meanwhile has the one or the other, or none of which the checksum
/// holds.
pub fn add_findings(trace: &Path, key: Key, findings: &[Finding]) -> io::Result<()> {
    for path in places(trace, &INDEX) {
        let Ok(file) = File::options().read(true).write(true).open(&path) else { continue };
        // SAFETY: as in `read`.
        let map = unsafe { Mmap::map(&file) }?;
        let Ok(directory) = directory_of(&map, key) else { continue };
        let directory = encode(&Directory { findings: Some(findings.to_vec()), ..directory });
        let start = map.len() as u64;
        file.write_all_at(&directory, start)?;
        return file.write_all_at(&header(key, start, &directory), 0);
    }
    Ok(())
}

struct Output<'s> {
    out: BufWriter<File>,
    at: u64,
    stop: &'s AtomicBool,
}

impl Output<'_> {
    fn section<T: Pod>(&mut self, column: &Column<T>) -> io::Result<Section> {
        let pad = self.at.next_multiple_of(ALIGNED) - self.at;
        self.append(&vec![0; pad as usize])?;
        let (offset, bytes) = (self.at, column.bytes());
        self.append(bytes)?;
        Ok(Section { offset, length: bytes.len() as u64, checks: bytes.chunks(PIECE).map(checksum).collect() })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.stop.load(Relaxed) {
            return Err(io::Error::other("the viewer was closed first"));
        }
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

fn write_into(
    (file, stop): (File, &AtomicBool),
    key: Key,
    model: &Model,
    (lives, findings): (&Lives, Option<&[Finding]>),
    known: &RecordSummary,
) -> io::Result<()> {
    let mut out = Output { out: BufWriter::with_capacity(1 << 20, file), at: 0, stop };
    out.append(&[0; HEADER])?;
    let mut lanes = Vec::new();
    for lane in &model.lanes {
        lanes.push(LaneEntry {
            source: lane.source.clone(),
            begin: out.section(&lane.begin)?,
            length: out.section(&lane.length)?,
            long: out.section(&lane.long)?,
            name: out.section(&lane.name)?,
            flags: out.section(&lane.flags)?,
            call: out.section(&lane.call)?,
            done: out.section(&lane.done)?,
            record: out.section(&lane.record)?,
            nodes: out.section(lane.pyramid.nodes())?,
            firsts: out.section(lane.pyramid.firsts())?,
        });
    }
    let mut memory = Vec::new();
    for lane in &model.memory {
        memory.push((lane.of, out.section(&lane.time)?, out.section(&lane.live)?));
    }
    let directory = Directory {
        summary: model.summary.clone(),
        known: known.clone(),
        lanes,
        memory,
        concerned: out.section(&model.concerned)?,
        lives: out.section(&lives.all)?,
        life_names: lives.names.clone(),
        findings: findings.map(<[Finding]>::to_vec),
    };
    let directory = encode(&directory);
    let start = out.at;
    out.append(&directory)?;
    let file = out.out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.write_all_at(&header(key, start, &directory), 0)
}

/// `start`: where the directory is.
fn header(key: Key, start: u64, directory: &[u8]) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.extend(VERSION.to_le_bytes());
    header.extend([0; 4]);
    for word in [key.fingerprint, key.file, start, directory.len() as u64, checksum(directory)] {
        header.extend(word.to_le_bytes());
    }
    header.extend(checksum(&header).to_le_bytes());
    header
}
