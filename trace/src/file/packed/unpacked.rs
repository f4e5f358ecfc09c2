//! The trace in a packed file, as memory whose bytes are unpacked on first access.

use super::hashes::ZEROS;
use super::{FIXED, LONGEST, MOST, STEP, places, unpack_between_headers};
use crate::base::damage::Damage;
use crate::base::hash::Checksum;
use crate::base::mapped::Mapped;
use crate::base::parallel;
use crate::file::segment::{HEADER, Header, Kind, PACKED_VERSION, PAGE};
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::OnceLock;

/// A trace that is longer when it is unpacked goes to a file without a name in the directory for temporary
/// ones, whose pages Linux can take back; what is shorter stays in memory.
const IN_MEMORY: u64 = 1 << 30;
/// A damaged beginning is searched this far for the first packed segment.
const SEARCH: u64 = 16 << 20;

/// A packed segment: its place in the file, and the piece of the trace that it holds.
pub(super) struct Packed {
    at: u64,
    pub(super) kind: Kind,
    count: u32,
    length: u64,
    seal: u64,
    pub(super) from: u64,
    pub(super) to: u64,
    /// The first of its headers, among those of all.
    first: usize,
    /// Whether its bytes are there, or why not.
    state: OnceLock<Result<(), String>>,
}

impl Packed {
    /// Where in the file the headers of the trace's segments stand.
    fn raw_at(&self) -> u64 {
        self.at + (HEADER + FIXED) as u64
    }
}

pub(crate) struct Unpacked {
    packed: File,
    pub(super) segments: Vec<Packed>,
    /// Where the trace's segments begin, in order. Their headers are read from the file: a forged one may have as many as
    /// fit into it.
    pub(super) places: Vec<u64>,
    plain: File,
    map: memmap2::Mmap,
    _mapped: Mapped,
    damage: Vec<Damage>,
}

/// The header of the first packed segment, if this is such a file.
fn first(file: &File, len: u64) -> Option<u64> {
    for at in (0..len.min(SEARCH)).step_by(PAGE as usize) {
        let mut bytes = [0; HEADER];
        file.read_exact_at(&mut bytes, at).ok()?;
        if let Some(header) = Header::decode(&bytes) {
            return (header.version == PACKED_VERSION).then_some(at);
        }
    }
    None
}

impl Unpacked {
    /// None: the file is not packed.
    pub(crate) fn open(file: &File) -> io::Result<Option<Unpacked>> {
        let len = file.metadata()?.len();
        if first(file, len).is_none() {
            return Ok(None);
        }
        let (segments, damage) = list_segments(file, len);
        let to = segments.last().map_or(0, |last| last.to);
        let plain = backing(to)?;
        plain.set_len(to)?;
        // SAFETY: nobody else has the file, and of its bytes only such are looked at as were written before.
        let map = unsafe { memmap2::Mmap::map(&plain) }?;
        let (packed, places, _mapped) = (file.try_clone()?, Vec::new(), Mapped::register(&map));
        let mut unpacked = Unpacked { packed, segments, places, plain, map, _mapped, damage };
        unpacked.read_places();
        unpacked.begin(len);
        Ok(Some(unpacked))
    }

    fn read_places(&mut self) {
        let mut places = Vec::new();
        for index in 0..self.segments.len() {
            self.segments[index].first = places.len();
            let one = &self.segments[index];
            // What cannot be read here cannot be unpacked either, which is damage.
            let _read = self.each_header(one, |at, _, _| {
                places.push(one.from + at);
                Ok(())
            });
        }
        self.places = places;
    }

    /// The headers of the trace's segments in a piece, with where they are in it. They are never in memory together.
    pub(super) fn each_header(
        &self,
        one: &Packed,
        mut to: impl FnMut(u64, Header, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut step = [0; 256 * HEADER];
        let bytes = u64::from(one.count).min(one.length.saturating_sub(FIXED as u64) / HEADER as u64) * HEADER as u64;
        let mut next = 0u64;
        for from in (0..bytes).step_by(step.len()) {
            let part = &mut step[..(bytes - from).min(256 * HEADER as u64) as usize];
            self.packed.read_exact_at(part, one.raw_at() + from)?;
            let mut left = part.len() / HEADER;
            for (at, header, raw) in places(part, next, one.to - one.from) {
                left -= 1;
                next = at.saturating_add(header.size);
                to(at, header, raw)?;
            }
            // The piece ends, or what follows is no header.
            if left > 0 {
                break;
            }
        }
        Ok(())
    }

    /// What a reader looks at without asking: preambles, the footer, what is no segment.
    fn begin(&mut self, len: u64) {
        let mut damage = Vec::new();
        for one in &self.segments {
            let is_cut = one.at + HEADER as u64 + one.length > len;
            if is_cut {
                let what = format!("the file ends inside the packed segment at offset {} of the file", one.at);
                damage.push(Damage { loses: one.kind != Kind::Preamble, ..Damage::new(one.from, what) });
            } else if matches!(one.kind, Kind::Preamble | Kind::Footer | Kind::Free)
                && let Err(why) = self.fill(one)
            {
                damage.push(Damage { loses: one.kind == Kind::Free, ..Damage::new(one.from, why.clone()) });
            }
        }
        self.damage.extend(damage);
    }

    /// What is wrong with the packed file, by the offsets of the trace.
    pub(crate) fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// The bytes from an offset on, up to `end` or as far as the packed segment goes; none if it cannot be
    /// unpacked.
    pub(crate) fn bytes_from(&self, at: u64, end: u64) -> Option<&[u8]> {
        let one = self.segment_at(at)?;
        self.fill(one).ok()?;
        self.map.get(at as usize..end.min(one.to) as usize)
    }

    /// Why the bytes at an offset cannot be had.
    pub(crate) fn fault(&self, at: u64) -> Option<&str> {
        self.fill(self.segment_at(at)?).err().map(String::as_str)
    }

    /// A few bytes at an offset; of a segment's header without unpacking anything.
    pub(crate) fn read(&self, at: u64, bytes: &mut [u8]) -> Option<()> {
        let one = self.segment_at(at)?;
        if let Ok(index) = self.places.binary_search(&at)
            && bytes.len() <= HEADER
        {
            return self.packed.read_exact_at(bytes, one.raw_at() + ((index - one.first) * HEADER) as u64).ok();
        }
        self.fill(one).ok()?;
        // Past the mapping: there each page that is looked at takes memory.
        (at.checked_add(bytes.len() as u64)? <= one.to).then(|| self.plain.read_exact_at(bytes, at).ok())?
    }

    /// Unpacks all that stands for segments of this kind, on several threads.
    pub(crate) fn fill_all(&self, kind: Kind) {
        let open: Vec<&Packed> =
            self.segments.iter().filter(|one| one.kind == kind && one.state.get().is_none()).collect();
        parallel::share(threads_for(&open), open, |one| {
            let _told_by_its_reader = self.fill(one);
        });
    }

    /// Writes the trace into an empty file; of what cannot be unpacked the headers of its segments.
    pub(crate) fn write(&self, file: &File) -> io::Result<()> {
        for one in &self.segments {
            match self.unpacked(one, true, |at, bytes| write_sparse(file, bytes, one.from + at)) {
                Ok(()) => {}
                Err(Fault::Room(error)) => return Err(error),
                Err(Fault::Wrong(_)) => self.each_header(one, |at, _, raw| file.write_all_at(raw, one.from + at))?,
            }
        }
        file.set_len(self.map.len() as u64)
    }

    /// The checksum of bytes, as zeros where nothing was put.
    pub(crate) fn checksum(&self, at: u64, len: u64) -> Option<u64> {
        self.bytes_from(at, at.checked_add(len)?)?;
        let (mut sum, mut part) = (Checksum::default(), [0; STEP / 2]);
        let (mut at, end) = (at, at + len);
        while at < end {
            let step = (end - at).min(part.len() as u64) as usize;
            // Of a mapping that is looked at each page takes memory, whether something is there or not.
            self.plain.read_exact_at(&mut part[..step], at).ok()?;
            sum.update(&part[..step]);
            at += step as u64;
        }
        Some(sum.finish())
    }

    pub(super) fn segment_at(&self, at: u64) -> Option<&Packed> {
        let one = self.segments.get(self.segments.partition_point(|one| one.from <= at).checked_sub(1)?)?;
        (at < one.to).then_some(one)
    }

    fn fill<'a>(&self, one: &'a Packed) -> Result<(), &'a String> {
        // The others are asked for by `read`: a page for each is much more than the packed segment has of it.
        let with_headers = matches!(one.kind, Kind::Preamble | Kind::Footer);
        let fill = || {
            let unpacked =
                self.unpacked(one, with_headers, |at, bytes| write_sparse(&self.plain, bytes, one.from + at));
            unpacked.map_err(|fault| match fault {
                Fault::Wrong(why) => why,
                Fault::Room(error) => {
                    format!("cannot store unpacked data in memory or in {}: {error}", temporary().display())
                }
            })
        };
        one.state.get_or_init(fill).as_ref().copied()
    }

    pub(super) fn unpacked(
        &self,
        one: &Packed,
        with_headers: bool,
        mut to: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> Result<(), Fault> {
        let at = one.at;
        let wrong = |what: &str| Fault::Wrong(format!("the packed segment at offset {at} of the file {what}"));
        let (begin, content, seal) = self.sealed(one).map_err(|error| match error.kind() {
            io::ErrorKind::OutOfMemory => Fault::Room(error),
            _ => wrong(&format!("cannot be read: {error}")),
        })?;
        if seal != one.seal {
            return Err(wrong("does not match its checksum"));
        }
        if one.length < (FIXED + one.count as usize * HEADER) as u64 {
            return Err(wrong("cannot be unpacked"));
        }
        let bytes = one.to - one.from;
        let mut unpacked = unpack_between_headers(&begin, &content, bytes, &mut to);
        if with_headers && unpacked.is_ok() {
            unpacked = self.each_header(one, |at, _, raw| to(at, raw));
        }
        unpacked.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => wrong("cannot be unpacked"),
            _ => Fault::Room(error),
        })
    }
}

impl Unpacked {
    /// The content of a packed segment with its checksum: up to its first header, what follows its last one. The headers
    /// between may be most of it.
    fn sealed(&self, one: &Packed) -> io::Result<(Vec<u8>, Vec<u8>, u64)> {
        let at = one.at + HEADER as u64;
        let (length, headers) = (one.length as usize, one.count as usize * HEADER);
        let (mut sum, mut step) = (Checksum::default(), [0; 16 << 10]);
        let (mut begin, mut done) = (Vec::new(), 0);
        let split = length.min(FIXED + headers);
        while done < split {
            let part = &mut step[..(split - done).min(16 << 10)];
            self.packed.read_exact_at(part, at + done as u64)?;
            sum.update(part);
            if done == 0 {
                begin.extend_from_slice(&part[..part.len().min(FIXED + HEADER)]);
            }
            done += part.len();
        }
        let mut content = Vec::new();
        // No longer than the file.
        content.try_reserve_exact(length - split)?;
        content.resize(length - split, 0);
        self.packed.read_exact_at(&mut content, at + split as u64)?;
        sum.update(&content);
        Ok((begin, content, sum.finish()))
    }
}

/// The reason why a packed segment is not unpacked.
pub(super) enum Fault {
    Wrong(String),
    /// What it stands for goes nowhere.
    Room(io::Error),
}

/// Writes bytes into a file that has zeros there.
fn write_sparse(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    match bytes.chunks(ZEROS.len()).all(|part| *part == ZEROS[..part.len()]) {
        true => Ok(()),
        false => file.write_all_at(bytes, at),
    }
}

pub(super) fn threads_for(all: &[&Packed]) -> usize {
    parallel::processors().min(all.len() / 4 + 1)
}

impl std::ops::Deref for Unpacked {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

/// The packed segments of a file, and what else was found there.
fn list_segments(file: &File, len: u64) -> (Vec<Packed>, Vec<Damage>) {
    let (mut segments, mut damage) = (Vec::<Packed>::new(), Vec::new());
    let (mut at, mut is_lost) = (0, false);
    while at + HEADER as u64 <= len {
        let mut bytes = [0; HEADER];
        let header = file.read_exact_at(&mut bytes, at).ok().and_then(|()| Header::decode(&bytes));
        let before = segments.last().map_or(0, |last| last.to);
        match header.and_then(|header| one(&header, at, before, len)) {
            Some(one) => {
                is_lost = false;
                at += header.map_or(PAGE, |header| header.size);
                segments.push(one);
            }
            None => {
                let is_cut = header.is_some_and(|header| header.size > len - at);
                let what = match is_cut {
                    true => format!("the file ends inside the packed segment at offset {at} of the file"),
                    false => format!("expected the header of a packed segment at offset {at} of the file, found none"),
                };
                damage.extend((!is_lost).then(|| Damage::new(before, what)));
                is_lost = true;
                at += PAGE;
            }
        }
    }
    if at < len {
        let before = segments.last().map_or(0, |last| last.to);
        damage.push(Damage::new(
            before,
            format!("the file ends inside a packed segment's header at offset {at} of the file"),
        ));
    }
    (segments, damage)
}

/// The packed segment with this header, behind what stands for the trace up to `before`.
fn one(header: &Header, at: u64, before: u64, len: u64) -> Option<Packed> {
    let (from, bytes) = (header.id as u64, (header.id >> 64) as u64);
    let to = from.checked_add(bytes)?;
    let is_sound = header.version == PACKED_VERSION
        && from >= before
        && (1..=LONGEST).contains(&bytes)
        && at.checked_add(header.size).is_some_and(|end| end <= i64::MAX as u64)
        && bytes / MOST <= header.size
        && to / MOST <= len
        && header.length <= header.room().min(len);
    let (kind, count, length, seal) = (header.kind, header.thread, header.length, header.seal);
    is_sound.then(|| Packed { at, kind, count, length, seal, from, to, first: 0, state: OnceLock::new() })
}

fn temporary() -> std::path::PathBuf {
    std::env::temp_dir()
}

/// An empty file for so many bytes, without a name.
fn backing(bytes: u64) -> io::Result<File> {
    if bytes > IN_MEMORY {
        let made = File::options().read(true).write(true).custom_flags(libc::O_TMPFILE).mode(0o600).open(temporary());
        if made.is_ok() {
            return made;
        }
    }
    // SAFETY: a plain system call; the descriptor is nobody else's.
    unsafe {
        match libc::memfd_create(c"unpacked trace".as_ptr(), libc::MFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(File::from_raw_fd(descriptor)),
        }
    }
}
