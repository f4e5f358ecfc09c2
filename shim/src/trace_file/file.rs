//! The trace file, and the allocation of space for its segments.
//!
//! One atomic allocates all space. Every write checks RLIMIT_FSIZE first (`write_at`). The slot of a chunk is
//! reserved before anything is recorded in it, because the disk may be full when the process ends.

use crate::driver::directory;
use crate::os::config::Limit;
use crate::os::descriptors::away_from_standard_streams;
use crate::os::generation;
use crate::os::lock::Lock;
use crate::os::shared::Memory;
use crate::trace_file::blobs::Blobs;
use crate::trace_file::chunk_slots::Home;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::*};
use trace::base::announcements::FileLocation;
use trace::file::record::timed;
use trace::file::segment::{self, HEADER, Header, Kind, PAGE};

/// What closes a trace is no longer than this, and one part in so many of it: a segment takes a page and
/// more, and a footer nine bytes for each.
const FOOTER: u64 = 64 << 10;
const SEGMENTS: u64 = PAGE / 16;

pub(crate) struct TraceFile {
    /// Of the open file; looked at through `file` alone.
    descriptor: AtomicI32,
    /// Device and inode.
    identity: (u64, u64),
    pub path: PathBuf,
    end: AtomicU64,
    limit: Option<Limit>,
    /// So long has it been: one that is shorter was cut by somebody else.
    pub(crate) whole: AtomicU64,
    pub(crate) was_cut: AtomicBool,
    /// A whole segment with it, once both are written.
    pub(crate) preamble: OnceLock<Vec<u8>>,
    /// What chunks are in, and their places in the file.
    pub memory: Memory,
    pub(crate) homes: Lock<Vec<Home>>,
    pub(crate) stored: Blobs,
    /// Chunks of records that belong to no thread.
    of_no_thread: Lock<u64>,
    /// Payload capture has stopped: the disk is nearly full, or a write failed.
    pub stopped: AtomicBool,
}

impl TraceFile {
    /// Creates the file, numbering it if the name is taken: never over an existing one. It gets no longer
    /// than the limit, what closes it included.
    pub(crate) fn create(wanted: &OsStr, limit: Option<Limit>) -> io::Result<TraceFile> {
        let wanted = std::path::absolute(wanted)?;
        let mut path = wanted.clone();
        let mut number = 0;
        let file = loop {
            match create(&path) {
                Ok(file) => break away_from_standard_streams(file)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1_000_000 => {
                    number += 1;
                    path = numbered(&wanted, number);
                }
                Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
            }
        };
        directory::close();
        let identity = identity(&file.metadata()?);
        lock(&file);
        Ok(TraceFile {
            descriptor: AtomicI32::new(file.into_raw_fd()),
            identity,
            memory: Memory::new(identity, &path),
            path,
            end: AtomicU64::new(0),
            limit,
            whole: AtomicU64::new(0),
            was_cut: AtomicBool::new(false),
            preamble: OnceLock::new(),
            homes: Lock::default(),
            stored: Blobs::default(),
            of_no_thread: Lock::new(0),
            stopped: AtomicBool::new(false),
        })
    }

    /// The open file, whole again if somebody has cut it short.
    pub(crate) fn file(&self) -> io::Result<ManuallyDrop<File>> {
        let file = self.opened()?;
        if self.is_cut(&file) {
            self.mend(&file)?;
        }
        Ok(file)
    }

    /// Sees to it that the file is whole, while nothing is to be written. What is wrong only for now
    /// (descriptors that are all taken) is no end: the next write finds what is wrong for good.
    pub(crate) fn look(&self) {
        let _left_to_the_next_write = self.file();
    }

    /// The host may close a descriptor that it does not know, and be given its number for a file of its own:
    /// never write to it unseen.
    fn opened(&self) -> io::Result<ManuallyDrop<File>> {
        // SAFETY: only borrowed: not closed when dropped.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(self.descriptor.load(Acquire)) });
        if file.metadata().is_ok_and(|found| identity(&found) == self.identity) {
            return Ok(file);
        }
        let again = away_from_standard_streams(File::options().read(true).write(true).open(&self.path)?)?;
        if identity(&again.metadata()?) != self.identity {
            return Err(io::Error::other("the program closed the trace, and another file has its name"));
        }
        lock(&again);
        self.descriptor.store(again.as_raw_fd(), Release);
        Ok(ManuallyDrop::new(again))
    }

    pub(crate) fn location(&self) -> FileLocation {
        FileLocation { device: self.identity.0, inode: self.identity.1, path: self.path.clone() }
    }

    /// Whether it is still to be found: it may have been removed or renamed.
    pub(crate) fn is_at_its_path(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|found| identity(&found) == self.identity)
    }

    /// Of a trace that cannot begin: the file, and the memory of its chunks.
    pub(crate) fn remove(&self) {
        self.memory.remove(&[]);
        if self.is_at_its_path() {
            let _left_empty = std::fs::remove_file(&self.path);
        }
    }

    /// The next `size` bytes, into which nothing else is put. Where they would lie beyond the limit,
    /// recording ends: what is there by now is a trace that was cut off.
    fn claim(&self, size: u64) -> io::Result<u64> {
        let Some(limit) = &self.limit else { return Ok(self.end.fetch_add(size, Relaxed)) };
        let most = limit.bytes - FOOTER - limit.bytes / SEGMENTS;
        let fits = |end: u64| end.checked_add(size).filter(|end| *end <= most);
        self.end.fetch_update(Relaxed, Relaxed, fits).map_err(|_| {
            let why = format!("the size limit of {} is reached", limit.words);
            self.stopped.store(true, Relaxed);
            generation::full(&format!("{}: {why}", self.path.display()));
            io::Error::other(why)
        })
    }

    /// Nothing else is put into the next `size` bytes.
    pub(crate) fn set_aside(&self, size: u64) {
        self.end.fetch_add(size, Relaxed);
    }

    /// Sets `size` bytes aside and has the file system back them.
    pub(crate) fn reserve(&self, size: u64) -> io::Result<u64> {
        let offset = self.claim(size)?;
        within_limit(offset + size)?;
        let file = self.file()?;
        let error = loop {
            // SAFETY: a plain system call on our own descriptor.
            if unsafe { libc::fallocate(file.as_raw_fd(), 0, offset as i64, size as i64) } == 0 {
                self.whole.fetch_max(offset + size, Release);
                return Ok(offset);
            }
            // The host's signals interrupt us like anybody.
            match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => break error,
            }
        };
        // A file system may not know the call, and a sandbox may forbid it. That there is no room, writing
        // would find as well.
        if matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG | libc::EIO)) {
            return Err(error);
        }
        let zeros = vec![0; size as usize];
        write_at(&file, &zeros, offset)?;
        self.whole.fetch_max(offset + size, Release);
        Ok(offset)
    }

    /// Appends a whole segment. Where its content begins.
    pub(crate) fn append(&self, kind: Kind, thread: u32, id: u128, content: &[u8]) -> io::Result<u64> {
        let (file, offset, size) = self.write(content)?;
        let seal = trace::base::hash::checksum(content);
        let header = Header { thread, id, length: content.len() as u64, seal, ..Header::new(kind, size) };
        write_at(&file, &header.encode(), offset)?;
        Ok(offset + HEADER as u64)
    }

    /// Appends a chunk of records that belong to no thread. No number is left out, or a chunk would be
    /// missed.
    pub(crate) fn append_of_no_thread(&self, records: &[u8]) -> io::Result<()> {
        let mut number = self.of_no_thread.lock();
        self.append(Kind::Chunk, timed::THREAD, u128::from(*number) << 64, records)?;
        *number += 1;
        Ok(())
    }

    /// Writes what is to be a segment's content: where the segment begins, and its size.
    pub(crate) fn write(&self, content: &[u8]) -> io::Result<(ManuallyDrop<File>, u64, u64)> {
        let size = segment::round_up((HEADER + content.len()) as u64);
        let offset = self.claim(size)?;
        let file = self.file()?;
        // Until it is whole it is free space to a reader: a process may be ended in the midst of this.
        write_at(&file, &[0], offset + size - 1)?;
        write_at(&file, &Header::new(Kind::Free, size).encode(), offset)?;
        write_at(&file, content, offset + HEADER as u64)?;
        self.whole.fetch_max(offset + size, Release);
        Ok((file, offset, size))
    }
}

/// In the directory that was opened before: the program may have another root by now, with a directory of that
/// name. By its path where none is open, or the one that was open has been removed.
fn create(path: &Path) -> io::Result<File> {
    let in_directory =
        directory::create(path).filter(|made| !matches!(made, Err(error) if error.kind() == io::ErrorKind::NotFound));
    let by_path = in_directory.is_none();
    let made =
        in_directory.unwrap_or_else(|| File::options().read(true).write(true).create_new(true).mode(0o600).open(path));
    made.map_err(|error| {
        let is_file = || if by_path { path.is_file() } else { directory::has_file(path) };
        if error.kind() == io::ErrorKind::AlreadyExists && !is_file() {
            return io::Error::other("is not a regular file");
        }
        error
    })
}

/// Tells whoever would close the trace that it is written, even from another PID namespace. A lock of the
/// process, which goes with it: one of the open file would stay with a forked child, which has the descriptor
/// too and never writes. It goes with any descriptor of the file that the process closes; a file system may
/// know none.
fn lock(file: &File) {
    // SAFETY: all zeros are the whole of a file.
    let whole = libc::flock { l_type: libc::F_WRLCK as libc::c_short, ..unsafe { std::mem::zeroed() } };
    // SAFETY: a system call on our own descriptor, which reads the struct.
    let _unsupported = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &whole) };
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// `trace.bin` -> `trace.1.bin`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}.{number}.{}", extension.to_string_lossy()),
        None => format!("{stem}.{number}"),
    };
    path.with_file_name(name)
}

/// Every write to a trace. The host may have lowered its limit since the place was set aside.
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    within_limit(offset + bytes.len() as u64)?;
    file.write_all_at(bytes, offset)
}

/// Going past the limit would be a signal, which ends the program.
fn within_limit(end: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills the struct it is given.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    if known && limit.rlim_cur != libc::RLIM_INFINITY && end > limit.rlim_cur {
        return Err(io::Error::other(format!("the file-size limit of {} bytes is reached", limit.rlim_cur)));
    }
    Ok(())
}
