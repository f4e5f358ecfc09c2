//! A rank's own process: it starts its replay when the leader says so, and waits until all have ended.

use super::rank_process::{FromLead, ToLead};
use crate::commands::replay::together::launcher::rendezvous::Meeting;
use crate::commands::replay::together::process::{Spawned, spawn};
use crate::commands::replay::together::protocol;
use crate::commands::replay::together::request::ReplayRequest;
use crate::terminal::exit::{FAILED, failure};
use anyhow::{Context, Result, bail};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

const GONE: &str = "the coordinating process of the job has ended";

/// The exit status.
pub(super) fn follow(request: &ReplayRequest, meeting: &Meeting, trace: &Path, until: Instant) -> Result<u8> {
    let socket = meeting.join(until).context("finding the coordinating process of the job")?;
    let name = trace.file_name().unwrap_or_default().into();
    protocol::send(&socket, &ToLead::Joins { trace: name }, &[]).context(GONE)?;
    loop {
        match protocol::receive::<FromLead>(&socket).context(GONE)? {
            Some((FromLead::Begin, files)) => begin(request, &socket, trace, files)?,
            Some((FromLead::Over(status), _)) => return Ok(status),
            Some((FromLead::Refused(why), _)) => return Err(failure(FAILED, why)),
            // It has ended meanwhile.
            Some((FromLead::End, _)) => {}
            None => bail!(GONE),
        }
    }
}

/// Starts the replay, and waits for its end.
fn begin(request: &ReplayRequest, socket: &OwnedFd, trace: &Path, files: Vec<OwnedFd>) -> Result<()> {
    let spawned = match files.len() {
        3 => spawn(request, trace, [0, 1, 2].map(|at: usize| files[at].as_raw_fd())),
        n => bail!("received {n} descriptors, not 3"),
    };
    // The replay has its own, and its end shows by them.
    drop(files);
    let Spawned { mut child, said } = match spawned {
        Ok(spawned) => spawned,
        Err(why) => return Ok(protocol::send(socket, &ToLead::NotBegun(format!("{why:#}")), &[])?),
    };
    protocol::send(socket, &ToLead::Began, &[said.into()]).context(GONE)?;
    let is_led = attend(&mut child, socket);
    let status = child.wait().context("the replay")?;
    is_led?;
    protocol::send(socket, &ToLead::Ended(status.into_raw()), &[]).context(GONE)
}

/// Until it has ended: ends it if it is told to, or if nobody is there any more who would tell.
fn attend(child: &mut Child, socket: &OwnedFd) -> Result<()> {
    const PAUSE: Duration = Duration::from_secs(60);
    // SAFETY: makes a descriptor, which is ours, or an error.
    let ended = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    if ended < 0 {
        return Err(std::io::Error::last_os_error()).context("a descriptor of the replay");
    }
    // SAFETY: just made.
    let ended = unsafe { OwnedFd::from_raw_fd(ended as i32) };
    loop {
        let ready = protocol::ready(&[ended.as_raw_fd(), socket.as_raw_fd()], PAUSE)?;
        if ready.contains(&0) {
            return Ok(());
        }
        if ready.contains(&1) {
            let told = protocol::receive::<FromLead>(socket);
            child.kill().context("ending the replay")?;
            return match told {
                Ok(Some((FromLead::End, _))) => Ok(()),
                _ => bail!(GONE),
            };
        }
    }
}
