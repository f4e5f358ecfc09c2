//! A copy of a trace with more records: all of the trace, followed by the measurements of a replay.
//!
//! Segments are copied one by one, and records are written as they arrive, so memory does not grow with
//! either.

use crate::base::hash::checksum;
use crate::file::end_mark;
use crate::file::preamble::{Footer, Located, Preamble, encode};
use crate::file::record::{self, timed, with_body};
use crate::file::segment::{HEADER, Header, Kind, PAGE, round_up};
use crate::read::reader::Trace;
use crate::write::finish;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of records in a chunk.
const CHUNK: usize = 1 << 20;

/// A writer of such a copy.
pub struct Extension {
    file: File,
    /// Where the next segment goes.
    end: u64,
    blob_bytes: u64,
    located: Vec<Located>,
    records: Vec<u8>,
    chunks: u64,
    /// Behind two preambles, where it will stand how long the file is.
    page: Option<u64>,
}

impl Extension {
    fn empty(file: File) -> Extension {
        Extension { file, end: 0, blob_bytes: 0, located: Vec::new(), records: Vec::new(), chunks: 0, page: None }
    }

    /// Copies the trace into an empty file. What was measured before stays behind.
    pub fn begin(trace: &Trace, file: File) -> io::Result<Extension> {
        let mut extension = Extension::empty(file);
        for (offset, header) in finish::segments(trace) {
            if header.kind == Kind::Chunk && header.thread == timed::THREAD {
                continue;
            }
            extension.copy(trace, offset, header)?;
        }
        // The recording's clock may have been read there.
        let preambles = &trace.preamble.clocks;
        for clock in trace.clocks.iter().filter(|clock| !preambles.contains(clock)) {
            extension.push(&with_body(record::CLOCK, clock))?;
        }
        if let Some(printed) = &trace.printed {
            extension.push(&with_body(record::PRINTED, printed))?;
        }
        if let Some(ended) = trace.ended {
            extension.push(&with_body(record::ENDED, &(ended, trace.ended_at.unwrap_or(0))))?;
        }
        for delivered in &trace.delivered {
            extension.push(&with_body(record::nccl::DELIVERED, delivered))?;
        }
        for held in &trace.held {
            extension.push(&with_body(record::imported_memory::HELD, held))?;
        }
        for referenced in trace.references.records() {
            extension.push(&with_body(record::REFERENCED, &referenced))?;
        }
        Ok(extension)
    }

    /// Copies the trace into an empty file, with all that it names in other files, which have been followed.
    pub fn with_references(trace: &Trace, file: File) -> io::Result<Extension> {
        let mut extension = Extension::empty(file);
        for (offset, header) in finish::segments(trace) {
            extension.copy(trace, offset, header)?;
        }
        for hash in trace.referenced() {
            let content = trace.blob(hash).ok_or(io::ErrorKind::UnexpectedEof)?;
            let header = Header { id: hash.0, ..Header::new(Kind::Blob, PAGE) };
            extension.filled(header, checksum(content), content)?;
        }
        Ok(extension)
    }

    /// Copies the trace into an empty file, to be shown to others: with this preamble, without blobs unless
    /// they are asked for, and with what `change` makes of the records of each chunk.
    pub fn redacted(
        trace: &Trace,
        file: File,
        preamble: &Preamble,
        blobs: bool,
        mut change: impl FnMut(&Header, &[u8]) -> Vec<u8>,
    ) -> io::Result<Extension> {
        let mut extension = Extension::empty(file);
        for (offset, header) in finish::segments(trace) {
            match header.kind {
                Kind::Preamble => extension.whole(header, encode(preamble))?,
                Kind::Chunk => {
                    let length = trace.whole_records(offset, &header);
                    let content = trace.content(offset, &Header { length, ..header });
                    let content = change(&header, content.ok_or(io::ErrorKind::UnexpectedEof)?);
                    extension.whole(header, content)?;
                }
                Kind::Blob if !blobs => {}
                _ => extension.copy(trace, offset, header)?,
            }
        }
        Ok(extension)
    }

    fn whole(&mut self, header: Header, content: Vec<u8>) -> io::Result<()> {
        self.filled(header, checksum(&content), &content)
    }

    fn filled(&mut self, header: Header, seal: u64, content: &[u8]) -> io::Result<()> {
        let length = content.len() as u64;
        self.append(Header { length, seal, size: round_up(HEADER as u64 + length), ..header }, content)
    }

    fn copy(&mut self, trace: &Trace, offset: u64, header: Header) -> io::Result<()> {
        let header = match header.kind {
            // An open chunk ends with its last whole record.
            Kind::Chunk if header.seal == 0 => Header { length: trace.whole_records(offset, &header), ..header },
            _ => header,
        };
        let content = trace.content(offset, &header).ok_or(io::ErrorKind::UnexpectedEof)?;
        let seal = if header.seal == 0 { checksum(content) } else { header.seal };
        self.append(Header { seal, size: round_up(HEADER as u64 + header.length), ..header }, content)
    }

    fn append(&mut self, header: Header, content: &[u8]) -> io::Result<()> {
        let preambles = self.located.iter().filter(|at| at.kind == Kind::Preamble as u8).count();
        if header.kind != Kind::Preamble && (preambles, self.located.len()) == (2, 2) {
            self.page = Some(self.end);
            self.end += PAGE;
        }
        self.file.write_all_at(&header.encode(), self.end)?;
        self.file.write_all_at(content, self.end + HEADER as u64)?;
        self.located.push(Located { kind: header.kind as u8, offset: self.end });
        self.blob_bytes += if header.kind == Kind::Blob { header.length } else { 0 };
        self.end += header.size;
        // The padding is zeros without being written.
        self.file.set_len(self.end)
    }

    /// A record made by [`with_body`].
    pub fn push(&mut self, record: &[u8]) -> io::Result<()> {
        if !self.records.is_empty() && self.records.len() + record.len() > CHUNK {
            self.flush()?;
        }
        self.records.extend_from_slice(record);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let records = std::mem::take(&mut self.records);
        let header = Header {
            thread: timed::THREAD,
            id: u128::from(self.chunks) << 64,
            length: records.len() as u64,
            seal: checksum(&records),
            ..Header::new(Kind::Chunk, round_up((HEADER + records.len()) as u64))
        };
        self.append(header, &records)?;
        self.chunks += 1;
        self.records = records;
        self.records.clear();
        Ok(())
    }

    /// Writes the footer: the trace's own, or one with the verdict that `judge` gives. The size of the file.
    pub fn finish(mut self, trace: &Trace, judge: impl FnOnce(&Trace) -> (String, Vec<String>)) -> io::Result<u64> {
        if !self.records.is_empty() {
            self.flush()?;
        }
        let verdict = match &trace.footer {
            Some(footer) if !trace.damage.iter().any(|damage| damage.loses) => {
                (footer.verdict.clone(), footer.reasons.clone())
            }
            _ => judge(trace),
        };
        self.close(trace, verdict)
    }

    /// Writes a footer, with the verdict that `judge` gives on the copy: it may lack what a replay needs. It
    /// is at `path`.
    pub fn finish_judged(
        self,
        trace: &Trace,
        path: &Path,
        judge: impl FnOnce(&Trace) -> (String, Vec<String>),
    ) -> io::Result<u64> {
        self.close(trace, Default::default())?;
        let copy = Trace::open(path).map_err(io::Error::other)?;
        self.close(trace, judge(&copy))
    }

    /// Writes a footer with the losses of `trace`, its damage among them, and this verdict. The size of the
    /// file.
    fn close(&self, trace: &Trace, (verdict, reasons): (String, Vec<String>)) -> io::Result<u64> {
        if let Some(page) = self.page {
            self.file.write_all_at(&Header::new(Kind::Free, PAGE).encode(), page)?;
            end_mark::write(&self.file, page, self.end)?;
        }
        let footer = Footer {
            segments: self.located.clone(),
            calls: trace.len() as u64,
            blob_bytes: self.blob_bytes,
            losses: finish::losses(trace, |damage| damage.loses),
            verdict,
            reasons,
        };
        finish::write(&self.file, self.end, &footer, &[])
    }
}
