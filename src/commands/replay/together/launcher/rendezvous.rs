//! The rendezvous of the processes of one launch: a Unix socket without a file. Its name is derived from the
//! directory and from the variables that launchers set alike for all ranks.

use crate::commands::replay::together::protocol;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Two launches in one directory at the same time are told apart by these, where the launcher sets any: those
/// of torchrun, PMIx (Open MPI, Slurm), MPICH's hydra and Slurm.
const LAUNCH: [&str; 6] =
    ["TORCHELASTIC_RUN_ID", "MASTER_PORT", "PMIX_NAMESPACE", "PMI_ID_KVS", "SLURM_JOB_ID", "SLURM_STEP_ID"];

pub(super) struct Meeting(SocketAddr);

pub(super) enum Place {
    Leads(Listener),
    Joins,
}

pub(super) struct Listener(UnixListener);

impl Meeting {
    /// Of the processes that were recorded on this host.
    pub(super) fn of(directory: &Path, host: &str) -> io::Result<Meeting> {
        let about = std::fs::metadata(directory)?;
        let mut launch = DefaultHasher::new();
        LAUNCH.map(std::env::var_os).hash(&mut launch);
        host.hash(&mut launch);
        // SAFETY: asks.
        let user = unsafe { libc::geteuid() };
        let (device, inode, launch) = (about.dev(), about.ino(), launch.finish());
        let name = format!("cutrace-replay-{user}-{device:x}-{inode:x}-{launch:016x}");
        SocketAddr::from_abstract_name(name).map(Meeting)
    }

    /// Whoever comes first leads.
    pub(super) fn place(&self, until: Instant) -> io::Result<Place> {
        match UnixListener::bind_addr(&self.0) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                Ok(Place::Leads(Listener(listener)))
            }
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < until => Ok(Place::Joins),
            Err(error) => Err(error),
        }
    }

    /// To the one that leads: an end of a socket for messages.
    pub(super) fn join(&self, until: Instant) -> io::Result<OwnedFd> {
        loop {
            match UnixStream::connect_addr(&self.0) {
                Ok(stream) => {
                    is_of_this_user(stream.as_fd())?;
                    let (here, there) = protocol::pair()?;
                    protocol::send(&OwnedFd::from(stream), &(), &[there])?;
                    return Ok(here);
                }
                // It has the name and does not listen yet, or not any more.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Listener {
    /// The ends of those that have come. What is none of this user's is not listened to.
    pub(super) fn accept(&self) -> Vec<OwnedFd> {
        let mut all = Vec::new();
        while let Ok((stream, _)) = self.0.accept() {
            let is_ready = is_of_this_user(stream.as_fd()).and_then(|()| stream.set_nonblocking(false));
            let is_ready = is_ready.and_then(|()| stream.set_read_timeout(Some(Duration::from_secs(1))));
            let told = is_ready.and_then(|()| protocol::receive::<()>(&OwnedFd::from(stream)));
            all.extend(told.ok().flatten().and_then(|((), mut files)| files.pop()));
        }
        all
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Names of this kind belong to whoever takes them first.
fn is_of_this_user(socket: BorrowedFd) -> io::Result<()> {
    let mut other = libc::ucred { pid: 0, uid: u32::MAX, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: fills a struct of this length.
    let asked = unsafe {
        let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut other).cast(), &raw mut len)
    };
    // SAFETY: asks.
    match unsafe { libc::geteuid() } {
        _ if asked != 0 => Err(io::Error::last_os_error()),
        own if own == other.uid => Ok(()),
        _ => Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "another user's process uses the name of the rendezvous socket",
        )),
    }
}
