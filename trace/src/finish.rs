//! Closing a trace after its process: every chunk sealed, the footer written.
//!
//! The recorder never does this: it may be killed at any moment, and a reader needs neither. `cutrace record` and
//! `cutrace repair` do it when the process has ended.

use crate::Trace;
use crate::hash::{Hash, checksum};
use crate::preamble::{Footer, Located, encode};
use crate::segment::{HEADER, Header, Kind, LENGTH_AT, MAGIC, round_up};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path}: process {pid} is still writing this trace; it can be finished when the process has ended")]
    InUse { path: PathBuf, pid: u32 },
}

/// What a trace was found to hold, and what was done to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub calls: u64,
    /// Size of the file.
    pub bytes: u64,
    /// Segments that the footer lists.
    pub segments: usize,
    /// Chunks that had no checksum yet.
    pub sealed: usize,
    /// Whether the footer had to be written.
    pub written: bool,
    /// Damage is among them once the footer is written.
    pub losses: Vec<(String, u64)>,
    pub verdict: String,
    pub reasons: Vec<String>,
}

/// Seals what is open and writes the footer, with the verdict that `judge` gives. A finished trace without damage is
/// left as it is. The trace must be opened anew to see the footer.
pub fn finish(trace: &Trace, judge: impl FnOnce(&Trace) -> (String, Vec<String>)) -> Result<Finished, Error> {
    let path = trace.path.as_path();
    if let Some(pid) = writer(trace) {
        return Err(Error::InUse { path: path.to_path_buf(), pid });
    }
    let (calls, bytes) = (trace.len() as u64, trace.bytes_on_disk());
    if let (Some(footer), []) = (&trace.footer, trace.damage.as_slice()) {
        let Footer { losses, verdict, reasons, .. } = footer.clone();
        let segments = footer.segments.len();
        return Ok(Finished { calls, bytes, segments, sealed: 0, written: false, losses, verdict, reasons });
    }
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let file = File::options().read(true).write(true).open(path).map_err(io)?;
    let kept = kept(trace);
    let sealed = seal(&file, trace, &kept).map_err(io)?;
    for (offset, header) in trace.segments.iter().filter(|(_, header)| is_spent(trace, header)) {
        // The header stays, so that a reader without the footer knows that nothing is missing here.
        file.write_all_at(&Header::new(Kind::Free, header.size).encode(), *offset).map_err(io)?;
        give_back(&file, offset + HEADER as u64, offset + header.size);
    }
    let (verdict, reasons) = judge(trace);
    let mut losses = trace.footer.as_ref().map_or(trace.losses.clone(), |footer| footer.losses.clone());
    losses.extend(trace.damage.iter().map(|d| (format!("at offset {}: {}", d.offset, d.what), 1)));
    let footer = Footer {
        segments: kept.iter().map(|(offset, h)| Located { kind: h.kind as u8, offset: *offset }).collect(),
        calls,
        blob_bytes: trace.blobs().map(|(_, len)| len).sum(),
        losses: losses.clone(),
        verdict: verdict.clone(),
        reasons: reasons.clone(),
    };
    let end = kept.iter().map(|(offset, h)| offset + h.size).max().unwrap_or(0);
    let bytes = write(&file, end, &footer).map_err(io)?;
    Ok(Finished { calls, bytes, segments: kept.len(), sealed, written: true, losses, verdict, reasons })
}

/// The process that still has the trace open, if there is one.
pub fn writer(trace: &Trace) -> Option<u32> {
    let pid = trace.preamble.pid;
    let wanted = std::fs::metadata(&trace.path).ok()?;
    let same = |path: PathBuf| {
        std::fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
    };
    // The list of a zombie is empty.
    let mut open = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    (pid != std::process::id() && open.any(|link| link.is_ok_and(|link| same(link.path())))).then_some(pid)
}

/// Segments whose content can be used.
fn kept(trace: &Trace) -> Vec<(u64, Header)> {
    let usable = |offset: u64, header: &Header| match header.kind {
        Kind::Footer => false,
        Kind::Preamble => true,
        Kind::Blob => trace.blob(Hash(header.id)).is_some(),
        Kind::Chunk | Kind::Free if is_spent(trace, header) => false,
        Kind::Chunk | Kind::Free => match trace.content(offset, header) {
            Some(content) => header.seal == 0 || checksum(content) == header.seal,
            None => header.length <= header.size - HEADER as u64,
        },
    };
    trace.segments.iter().filter(|(offset, header)| usable(*offset, header)).copied().collect()
}

/// A chunk whose records stand elsewhere: it was drained, or was about to be reused.
fn is_spent(trace: &Trace, header: &Header) -> bool {
    let same = |other: &Header| {
        other.kind == Kind::Chunk && other.seal != 0 && (other.thread, other.id) == (header.thread, header.id)
    };
    match header.kind {
        Kind::Free => true,
        Kind::Chunk => header.seal == 0 && trace.segments.iter().any(|(_, other)| same(other)),
        _ => false,
    }
}

/// Gives every open chunk its checksum; one that was cut off or torn ends with its last whole record.
fn seal(file: &File, trace: &Trace, kept: &[(u64, Header)]) -> io::Result<usize> {
    let mut sealed = 0;
    for (offset, header) in kept.iter().filter(|(_, h)| h.kind == Kind::Chunk) {
        if header.seal != 0 && trace.content(*offset, header).is_some() {
            continue;
        }
        let length = trace.whole_records(*offset, header);
        let content = trace.content(*offset, &Header { length, ..*header }).unwrap_or(&[]);
        let mut words = length.to_le_bytes().to_vec();
        words.extend(checksum(content).to_le_bytes());
        file.write_all_at(&words, offset + LENGTH_AT as u64)?;
        give_back(file, offset + HEADER as u64 + length, offset + header.size);
        sealed += 1;
    }
    Ok(sealed)
}

/// Whole pages of a chunk that were set aside and never used: the file system may have them back. It need not.
fn give_back(file: &File, from: u64, to: u64) {
    use std::os::fd::AsRawFd;
    let from = round_up(from);
    if from < to {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: a plain system call on our own descriptor; what it frees lies behind the committed bytes.
        let _unsupported = unsafe { libc::fallocate(file.as_raw_fd(), mode, from as i64, (to - from) as i64) };
    }
}

/// Writes the footer at `end`, behind the last segment, and returns the size of the file. What the file has beyond is
/// space that was set aside and never used.
fn write(file: &File, end: u64, footer: &Footer) -> io::Result<u64> {
    let content = encode(footer);
    let size = round_up((HEADER + content.len() + 16) as u64);
    let header = Header { length: content.len() as u64, seal: checksum(&content), ..Header::new(Kind::Footer, size) };
    let mut bytes = header.encode().to_vec();
    bytes.extend(content);
    bytes.resize(size as usize - 16, 0);
    bytes.extend(end.to_le_bytes());
    bytes.extend(MAGIC);
    file.write_all_at(&bytes, end)?;
    file.set_len(end + size)?;
    Ok(end + size)
}
