//! The protocol between a replay of a job and the process that started it: each message is one packet of a
//! Unix socket, with the descriptors that belong to it.
//!
//! The packets are JSON, as both ends are one program. They contain data of the trace only as numbers.

use libc::{c_int, c_void};
use replayer::{Live, Source};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A replay's parameters: the process that it replays, and the imports of its calls.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Part {
    pub process: u32,
    /// The processes with which it shares something, in what order that has to be kept, from this time on.
    pub peers: Vec<u32>,
    pub since: u64,
    /// Some of the job are not replayed; and whether ranks of its communicators are among them, if that is told.
    pub is_incomplete: bool,
    pub lacks_ranks: Option<bool>,
    pub imports: Vec<Imported>,
    /// What calls register of host memory that others have as well.
    pub host: Vec<Registered>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Registered {
    pub by: u64,
    pub memory: Range<u64>,
    pub file: u32,
    pub offset: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Imported {
    pub by: u64,
    pub process: u32,
    pub call: u64,
    pub memory: Range<u64>,
    pub address: u64,
}

impl Imported {
    pub(super) fn source(&self) -> Source {
        Source { process: self.process, call: self.call, memory: self.memory.clone(), address: self.address }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromReplay {
    /// The call of this number has exported.
    Exported { call: u64, live: Result<Told, String> },
    /// What a call of another process has exported is needed.
    Wants { process: u32, call: u64 },
    /// A file that several map as host memory is needed.
    WantsFile { file: u32 },
    /// This call's outcome is another than recorded, or it was refused: the first of which that is so.
    Differs { call: u64 },
    /// The replay has ended. A file with its summary goes with the message: it may be longer than a packet.
    Finished,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Told {
    Event(Vec<u8>),
    /// A descriptor each goes with the message.
    Memory(Vec<Range<u64>>),
    /// A descriptor goes with it.
    File,
    Pool,
}

pub(super) type ToReplay = Result<Told, String>;

pub(super) fn told(live: Live) -> (Told, Vec<OwnedFd>) {
    match live {
        Live::Event(bytes) => (Told::Event(bytes), Vec::new()),
        Live::Memory(pieces) => {
            let (ranges, files) = pieces.into_iter().unzip();
            (Told::Memory(ranges), files)
        }
        Live::File(file) => (Told::File, vec![file]),
        Live::Pool => (Told::Pool, Vec::new()),
    }
}

/// None if what should have come with it is not there.
pub(super) fn live(told: Told, mut files: Vec<OwnedFd>) -> Option<Live> {
    Some(match told {
        Told::Event(bytes) => Live::Event(bytes),
        Told::Memory(ranges) if ranges.len() != files.len() => return None,
        Told::Memory(ranges) => Live::Memory(ranges.into_iter().zip(files).collect()),
        Told::File => Live::File(files.pop()?),
        Told::Pool => Live::Pool,
    })
}

/// A packet is not longer.
const PACKET: usize = 64 << 10;
/// Linux passes no more descriptors at once (SCM_MAX_FD).
const FILES: usize = 253;

#[repr(C, align(8))]
struct Ancillary([u8; 2048]);

/// Lets this process have as many descriptors open as it may: it holds one for each piece of memory that is
/// exported.
pub(super) fn allow_more_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a struct of ours. Where it cannot be raised, what is lost is told when it comes to that.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            let _kept = libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Those of which something is to be received, or whose other end is closed. Waits so long for it.
pub(super) fn ready(sockets: &[RawFd], limit: Duration) -> io::Result<Vec<usize>> {
    let wanted = |fd: &RawFd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 };
    let mut asked: Vec<libc::pollfd> = sockets.iter().map(wanted).collect();
    let limit = c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX);
    // SAFETY: an array of this length.
    let found = unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, limit) };
    if found < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted { Ok(Vec::new()) } else { Err(error) };
    }
    Ok(asked.iter().enumerate().filter(|(_, asked)| asked.revents != 0).map(|(at, _)| at).collect())
}

/// Memory that processes map who are given this file.
pub(super) fn memory(len: u64) -> io::Result<OwnedFd> {
    // SAFETY: makes a descriptor, which is ours.
    let file = unsafe { libc::memfd_create(c"cutrace-shared".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made.
    let file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(file) });
    file.set_len(len).map(|()| file.into())
}

/// Two ends, which a program that is started inherits only if it is let.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: makes two descriptors, which are ours.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

pub(super) fn send(socket: &OwnedFd, message: &impl Serialize, files: &[OwnedFd]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > PACKET || files.len() > FILES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "more memory ranges than one message can carry"));
    }
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut room = Ancillary([0; 2048]);
    // SAFETY: a plain struct, for which zeros are valid.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    if !files.is_empty() {
        let len = size_of::<RawFd>() * files.len();
        header.msg_control = room.0.as_mut_ptr().cast::<c_void>();
        // SAFETY: plain computations; the room is as long as so many descriptors take.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(len as u32) as _;
            let first = libc::CMSG_FIRSTHDR(&raw const header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(len as u32) as _;
            let at = libc::CMSG_DATA(first).cast::<RawFd>();
            files.iter().enumerate().for_each(|(n, file)| at.add(n).write_unaligned(file.as_raw_fd()));
        }
    }
    // SAFETY: the header and all that it points to are ours.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// None: the other end is closed.
pub(super) fn receive<T: DeserializeOwned>(socket: &OwnedFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = vec![0u8; PACKET];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut room = Ancillary([0; 2048]);
    // SAFETY: a plain struct, for which zeros are valid.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    header.msg_control = room.0.as_mut_ptr().cast::<c_void>();
    header.msg_controllen = room.0.len() as _;
    // SAFETY: buffers of these lengths.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    let files = descriptors(&header);
    if header.msg_flags & libc::MSG_CTRUNC != 0 {
        let why = "descriptors of a message were lost: the limit of open files is too low (ulimit -n)";
        return Err(io::Error::other(why));
    }
    if len == 0 {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&bytes[..len])?, files)))
}

/// Those that came with a message.
fn descriptors(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut files = Vec::new();
    // SAFETY: walks what the system has put there; each descriptor is new, and ours.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while !at.is_null() {
            if ((*at).cmsg_level, (*at).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let data = libc::CMSG_DATA(at);
                let bytes = (*at).cmsg_len as usize - (data as usize - at as usize);
                let count = bytes / size_of::<c_int>();
                let each = (0..count).map(|n| data.cast::<RawFd>().add(n).read_unaligned());
                files.extend(each.map(|file| OwnedFd::from_raw_fd(file)));
            }
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_bring_descriptors() {
        let (here, there) = pair().expect("two ends");
        let file = || OwnedFd::from(tempfile::tempfile().expect("a file"));
        let live = Live::Memory(vec![(0..4, file()), (4..9, file())]);
        let (sent, files) = told(live);
        send(&here, &FromReplay::Exported { call: 7, live: Ok(sent) }, &files).expect("sent");
        send(&here, &FromReplay::Wants { process: 1, call: 2 }, &[]).expect("sent");
        let (first, files) = receive::<FromReplay>(&there).expect("received").expect("a message");
        assert!(matches!(first, FromReplay::Exported { call: 7, live: Ok(Told::Memory(all)) } if all == [0..4, 4..9]));
        assert_eq!(files.len(), 2);
        let (second, files) = receive::<FromReplay>(&there).expect("received").expect("a message");
        assert!(matches!(second, FromReplay::Wants { process: 1, call: 2 }) && files.is_empty());
        let short = Told::Memory(vec![0..4, 4..9]);
        assert!(super::live(short, vec![file()]).is_none(), "one of two is missing");
        drop(here);
        assert!(receive::<FromReplay>(&there).expect("an end").is_none());
    }
}
