//! The program's standard output, if it is a plain file: it can be read afterwards, so no pipe is needed in
//! between. The output to a terminal or a pipe is not kept.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use trace::file::record::Printed;

/// More is not kept.
const MOST_BYTES: u64 = 4 << 20;
const MOST_LINES: usize = 1 << 16;

pub(crate) struct Output {
    file: File,
    start: u64,
}

impl Output {
    /// Where the program will begin to print.
    pub(crate) fn here() -> Option<Output> {
        // By a description of its own: its place in the file is not the program's.
        let file =
            File::open("/proc/self/fd/1").ok().filter(|file| file.metadata().is_ok_and(|about| about.is_file()))?;
        // SAFETY: asks alone.
        let (flags, at) = unsafe {
            (libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFL), libc::lseek(libc::STDOUT_FILENO, 0, libc::SEEK_CUR))
        };
        let end = file.metadata().ok()?.size();
        let start = if flags & libc::O_APPEND != 0 { end } else { u64::try_from(at).ok()? };
        Some(Output { file, start })
    }

    /// What has been printed since; none if that is too much.
    pub(crate) fn printed(mut self) -> io::Result<Option<Printed>> {
        self.file.seek(SeekFrom::Start(self.start))?;
        let mut text = Vec::new();
        self.file.take(MOST_BYTES + 1).read_to_end(&mut text)?;
        let printed = Printed::from_text(&text);
        Ok((text.len() as u64 <= MOST_BYTES && printed.lines.len() <= MOST_LINES).then_some(printed))
    }
}
