//! Slots in the file for the chunks in memory: each is free and names the place of its chunk until the chunk
//! is copied to it. If somebody else truncates the file meanwhile, everything that can be written again is
//! written again.

use crate::os::generation;
use crate::os::log::tell;
use crate::trace_file::chunk::settled;
use crate::trace_file::file::{TraceFile, write_at};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use trace::base::hash::checksum;
use trace::file::end_mark;
use trace::file::segment::{HEADER, Header, Kind, MAGIC, whole};
use trace::file::shared_memory::Place;

pub(crate) struct Home {
    pub offset: u64,
    size: u64,
    place: Place,
    base: usize,
}

impl Home {
    /// Free to a reader, who finds there where the chunk is; all of it is in the file.
    fn write(&self, file: &File) -> io::Result<()> {
        write_at(file, &Header { id: self.place.id(), ..Header::new(Kind::Free, self.size) }.encode(), self.offset)?;
        write_at(file, &[0], self.offset + self.size - 1)
    }

    /// The chunk itself, or that there is none.
    fn fill(&self, file: &File) -> io::Result<()> {
        let (header, content) = self.settled()?;
        write_at(file, &content, self.offset + HEADER as u64)?;
        write_at(file, &header.encode(), self.offset)
    }

    fn settled(&self) -> io::Result<(Header, Vec<u8>)> {
        // SAFETY: the memory of a chunk, which is given back only after its home has been taken off the list.
        let found = unsafe { settled(self.base as *const u8) };
        found.ok_or_else(|| io::Error::other("a chunk changed at each read"))
    }

    /// A copy, for the case that the memory is gone when somebody looks for it: the place still says where.
    fn copy(&self, file: &File) -> io::Result<()> {
        let (header, content) = self.settled()?;
        let header = Header { seal: checksum(&content), ..header };
        write_at(file, &content, self.offset + HEADER as u64)?;
        write_at(file, &header.encode(), self.offset + self.size - HEADER as u64)
    }
}

impl TraceFile {
    /// Sets the place for a chunk aside.
    pub(crate) fn home(&self, size: usize, place: Place, base: *mut u8) -> io::Result<u64> {
        let offset = self.reserve(size as u64)?;
        let home = Home { offset, size: size as u64, place, base: base as usize };
        home.write(&*self.file()?)?;
        self.homes.lock().push(home);
        Ok(offset)
    }

    /// Puts a chunk into its place, which does not change any more.
    pub(crate) fn settle(&self, offset: u64, header: Header, content: &[u8]) -> io::Result<()> {
        let file = self.file()?;
        // Whoever mends the file meanwhile must not say again that the chunk is in memory.
        let mut homes = self.homes.lock();
        write_at(&file, content, offset + HEADER as u64)?;
        write_at(&file, &header.encode(), offset)?;
        homes.retain(|home| home.offset != offset);
        Ok(())
    }

    /// At the end of the process, if nobody else does it: every chunk goes to its place, and the memory is
    /// nobody's. What cannot be written stays in memory, and its place says where.
    pub(crate) fn bring_home(&self) -> io::Result<()> {
        let file = self.file()?;
        let (mut failed, mut done) = (Vec::new(), Ok(()));
        for home in self.homes.lock().iter() {
            if let Err(error) = home.fill(&file) {
                failed.push(home.place.memory);
                done = Err(error);
            }
        }
        self.memory.remove(&failed);
        done?;
        // All that was recorded is there, as in a trace that is closed.
        let end = file.metadata()?.len();
        self.preamble.get().map_or(Ok(()), |preamble| end_mark::mark(&file, preamble.len() as u64, end))
    }

    /// The same, if somebody waits for the process and then closes the trace: what other threads still record
    /// counts, too.
    pub(crate) fn copy_home(&self) -> io::Result<()> {
        let file = self.file()?;
        self.homes.lock().iter().map(|home| home.copy(&file)).fold(Ok(()), io::Result::and)
    }

    /// Both preambles, and before them what is to be behind them: a file that lacks it was cut off.
    pub(crate) fn begin<T>(&self, preamble: &[u8], behind: impl FnOnce(&TraceFile) -> io::Result<T>) -> io::Result<T> {
        let whole = whole(Kind::Preamble, 0, preamble);
        let size = whole.len() as u64;
        self.set_aside(2 * size);
        let behind = behind(self)?;
        let file = self.file()?;
        for offset in [0, size] {
            // Free space until it is whole.
            write_at(&file, &Header::new(Kind::Free, size).encode(), offset)?;
            write_at(&file, &whole[HEADER..], offset + HEADER as u64)?;
            write_at(&file, &whole[..HEADER], offset)?;
        }
        let _only_once = self.preamble.set(whole);
        Ok(behind)
    }

    /// Whether somebody has cut the file short, as far as its length and its first bytes tell.
    pub(crate) fn is_cut(&self, file: &File) -> bool {
        // First: it grows with the file.
        let whole = self.whole.load(Acquire);
        let is_short = file.metadata().is_ok_and(|found| found.len() < whole);
        let begins = || {
            let mut first = [0; MAGIC.len()];
            file.read_exact_at(&mut first, 0).is_ok() && first == MAGIC
        };
        self.preamble.get().is_some() && (is_short || !begins())
    }

    /// The file is one that can be read again. What it had held is lost: payloads that come once more are
    /// stored once more.
    #[cold]
    pub(crate) fn mend(&self, file: &File) -> io::Result<()> {
        let homes = self.homes.lock();
        let Some(preamble) = self.preamble.get().filter(|_| self.is_cut(file)) else { return Ok(()) };
        self.stored.lost();
        write_at(file, preamble, 0)?;
        write_at(file, preamble, preamble.len() as u64)?;
        homes.iter().try_for_each(|home| home.write(file))?;
        self.whole.store(file.metadata()?.len(), Release);
        let what = "contents of the trace before another process truncated it";
        if !self.was_cut.swap(true, Relaxed) {
            tell(&format!("{}: another process truncated it; its earlier contents are lost", self.path.display()));
        }
        if generation::has_recorded() {
            generation::say_last(what);
        }
        Ok(())
    }
}
