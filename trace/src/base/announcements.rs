//! Announcements by the processes of a recording to `cutrace record`: that they call the driver, where their
//! trace is, or why there is none.
//!
//! They lie in System V shared memory that `record` makes and removes at once, so that it is freed when no
//! process maps it. A process maps it before its program begins, and can therefore write to it whatever the
//! program does before its first driver call: it needs no descriptor, path, right or variable.
//!
//! ```text
//! at 0   magic, token u64
//!        mapped u32: by how many processes, forks not counted
//!        used u32: bytes of the lines behind, also of those that found no room
//!        ended u32: how many of the processes that mapped it have ended by `exit`
//! at 64  lines: a line feed, process id, space, word, space, rest, line feed
//! ```
//!
//! In the rest a backslash or a line feed has a backslash before it or is `\n`.
//!
//! A line's place is taken before the line is written: a process that is killed in between leaves zeros.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// Names the memory to the processes of a recording: its id, a full stop, the token.
pub const VARIABLE: &str = "CUTRACE_ANNOUNCEMENTS";

const MAGIC: u64 = u64::from_le_bytes(*b"CUTRSAID");
const SIZE: usize = 256 << 10;
const LINES: usize = 64;

/// The first bytes.
#[repr(C)]
struct First {
    magic: u64,
    token: u64,
    mapped: AtomicU32,
    used: AtomicU32,
    ended: AtomicU32,
}

/// The announcements' memory, mapped for the life of the process.
#[derive(Clone, Copy)]
pub struct Announcements {
    base: usize,
}

/// One announcement by a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Announcement {
    /// It makes its first driver call.
    Called,
    /// It has made this file for its trace.
    Made(FileLocation),
    /// It records.
    Recorded,
    /// CUTRACE_DISABLE is 1.
    Disabled,
    /// It has no trace, and this is why.
    Refused(String),
}

/// A file, and the path at which its process made it. The reader may have another file at the same path,
/// because the process may have another root directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLocation {
    /// Device of the file system (`st_dev`).
    pub device: u64,
    /// Inode of the file (`st_ino`).
    pub inode: u64,
    /// Path of the file in the recorded process.
    pub path: PathBuf,
}

impl FileLocation {
    /// Whether the path leads to this file here.
    pub fn is_at_its_path(&self) -> bool {
        let is_it = |found: Metadata| found.is_file() && (found.dev(), found.ino()) == (self.device, self.inode);
        self.path.symlink_metadata().is_ok_and(is_it)
    }

    fn decode(rest: &[u8]) -> Option<FileLocation> {
        let mut parts = rest.splitn(3, |byte| *byte == b' ');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse().ok();
        let (device, inode) = (number()?, number()?);
        Some(FileLocation { device, inode, path: OsString::from_vec(parts.next()?.to_vec()).into() })
    }

    fn encode(&self) -> Vec<u8> {
        [format!("{} {} ", self.device, self.inode).as_bytes(), self.path.as_os_str().as_bytes()].concat()
    }
}

/// As part of one line.
pub fn escape(bytes: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        b'\\' => b"\\\\".to_vec(),
        b'\n' => b"\\n".to_vec(),
        other => vec![*other],
    };
    bytes.iter().flat_map(escape).collect()
}

/// Reverts [`escape`].
pub fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.iter();
    let next = || {
        Some(match *bytes.next()? {
            b'\\' if bytes.as_slice().first() == Some(&b'n') => bytes.next().map(|_| b'\n')?,
            b'\\' => *bytes.next()?,
            other => other,
        })
    };
    std::iter::from_fn(next).collect()
}

const WORDS: [&[u8]; 5] = [b"called", b"made", b"recorded", b"disabled", b"refused"];

impl Announcement {
    fn decode(word: &[u8], rest: &[u8]) -> Option<Announcement> {
        Some(match WORDS.iter().position(|known| *known == word)? {
            0 => Announcement::Called,
            1 => Announcement::Made(FileLocation::decode(rest)?),
            2 => Announcement::Recorded,
            3 => Announcement::Disabled,
            _ => Announcement::Refused(String::from_utf8_lossy(rest).into_owned()),
        })
    }

    fn parts(&self) -> (&'static [u8], Cow<'_, [u8]>) {
        match self {
            Announcement::Called => (WORDS[0], Cow::default()),
            Announcement::Made(made) => (WORDS[1], made.encode().into()),
            Announcement::Recorded => (WORDS[2], Cow::default()),
            Announcement::Disabled => (WORDS[3], Cow::default()),
            Announcement::Refused(why) => (WORDS[4], why.as_bytes().into()),
        }
    }
}

impl Announcements {
    /// New memory, and the value of [`VARIABLE`] that names it.
    pub fn make(token: u64) -> io::Result<(Announcements, String)> {
        // SAFETY: plain system calls; the mapping is fresh, and its first bytes ours to write.
        unsafe {
            let id = libc::shmget(libc::IPC_PRIVATE, SIZE, libc::IPC_CREAT | libc::SHM_NORESERVE | 0o600);
            if id < 0 {
                return Err(io::Error::last_os_error());
            }
            let base = libc::shmat(id, std::ptr::null(), 0);
            let error = io::Error::last_os_error();
            // Linux lets it be mapped by its id as long as somebody has it.
            libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
            if base as isize == -1 {
                return Err(error);
            }
            base.cast::<First>().write(First {
                magic: MAGIC,
                token,
                mapped: 0.into(),
                used: 0.into(),
                ended: 0.into(),
            });
            Ok((Announcements { base: base as usize }, format!("{id}.{token}")))
        }
    }

    /// That of another process; none if it is gone.
    pub fn map(value: &[u8]) -> Option<Announcements> {
        let (id, token) = std::str::from_utf8(value).ok()?.split_once('.')?;
        let (id, token): (i32, u64) = (id.parse().ok()?, token.parse().ok()?);
        // SAFETY: all zeros are a valid struct of numbers, which the call fills; the mapping is fresh, and as
        // long as the call has said.
        unsafe {
            let mut about: libc::shmid_ds = std::mem::zeroed();
            if libc::shmctl(id, libc::IPC_STAT, &mut about) != 0 || about.shm_segsz < SIZE {
                return None;
            }
            let base = libc::shmat(id, std::ptr::null(), 0);
            if base as isize == -1 {
                return None;
            }
            let first = &*base.cast::<First>();
            if (first.magic, first.token) != (MAGIC, token) {
                libc::shmdt(base);
                return None;
            }
            first.mapped.fetch_add(1, Relaxed);
            Some(Announcements { base: base as usize })
        }
    }

    fn first(&self) -> &First {
        // SAFETY: mapped for as long as the process lives, and only its atomics change.
        unsafe { &*(self.base as *const First) }
    }

    /// Adds a line, if there is room for it: whether there was.
    pub fn say(&self, process: u32, said: &Announcement) -> bool {
        let (word, rest) = said.parts();
        let (process, rest) = (process.to_string(), escape(&rest));
        let parts: [&[u8]; 7] = [b"\n", process.as_bytes(), b" ", word, b" ", &rest, b"\n"];
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let at = self.first().used.fetch_update(AcqRel, Acquire, |used| used.checked_add(len as u32));
        let Some(mut at) = at.ok().map(|at| LINES + at as usize).filter(|at| at + len <= SIZE) else { return false };
        for part in parts {
            // SAFETY: within the mapping, in a place that nobody else was given.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), (self.base as *mut u8).add(at), part.len()) };
            at += part.len();
        }
        true
    }

    /// Whether any process has mapped it.
    pub fn is_mapped(&self) -> bool {
        self.first().mapped.load(Acquire) > 0
    }

    /// A process that has mapped it ends by `exit`.
    pub fn end(&self) {
        self.first().ended.fetch_add(1, Release);
    }

    /// How many of the programs that mapped it have not ended by `exit`: they run, were killed, called `_exit`, or
    /// executed another program, which may not have mapped it.
    pub fn open(&self) -> u32 {
        let ended = self.first().ended.load(Acquire);
        self.first().mapped.load(Acquire).saturating_sub(ended)
    }

    /// Whether some line found no room.
    pub fn is_full(&self) -> bool {
        self.first().used.load(Acquire) as usize > SIZE - LINES
    }

    /// What was said, by process, in order; what is no whole line is left out.
    pub fn list(&self) -> Vec<(u32, Announcement)> {
        let used = (self.first().used.load(Acquire) as usize).min(SIZE - LINES);
        // SAFETY: within the mapping. Who still writes there writes bytes that are zeros so far.
        let lines = unsafe { std::slice::from_raw_parts((self.base as *const u8).add(LINES), used) }.to_vec();
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.contains(&0));
        lines.filter_map(parsed).collect()
    }
}

fn parsed(line: &[u8]) -> Option<(u32, Announcement)> {
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let (process, word, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let process = std::str::from_utf8(process).ok()?.parse().ok()?;
    Some((process, Announcement::decode(word, &unescape(rest))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read() {
        let Ok((made, value)) = Announcements::make(7) else {
            eprintln!("skipped: no System V shared memory here");
            return;
        };
        assert!(!made.is_mapped());
        assert!(Announcements::map(value.replace(".7", ".8").as_bytes()).is_none());
        let mapped = Announcements::map(value.as_bytes()).expect("it is there");
        let all = [
            Announcement::Called,
            Announcement::Made(FileLocation { device: 3, inode: 4, path: "/tmp/a\n12 called \\n trace\\.bin".into() }),
            Announcement::Recorded,
            Announcement::Disabled,
            Announcement::Refused("/x\n: Permission denied".into()),
        ];
        assert!(all.iter().all(|said| mapped.say(12, said)));
        // Of a process that was killed before it had written anything.
        made.first().used.fetch_add(9, Relaxed);
        assert!(mapped.say(13, &Announcement::Called));
        let said: Vec<(u32, Announcement)> =
            all.into_iter().map(|said| (12, said)).chain([(13, Announcement::Called)]).collect();
        assert_eq!(made.list(), said);
        assert!(made.is_mapped() && !made.is_full());
        assert_eq!(made.open(), 1);
        mapped.end();
        assert_eq!(made.open(), 0);
        assert!(!mapped.say(14, &Announcement::Refused("x".repeat(SIZE))));
        assert!(made.is_full());
        assert_eq!(made.list(), said);
    }
}
