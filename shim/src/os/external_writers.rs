//! Writers of the program's memory through addresses of their own: fixed buffers of io_uring, network
//! adapters, other devices. Neither the page table nor write protection shows their writes, so the trace
//! names them where pinned or managed memory is watched.

use crate::os::clock;
use std::fs;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;

/// Open files are looked at this often, as they may be closed again, by the recorder thread; and sooner when
/// memory begins to be followed.
pub(crate) const SELDOM: Duration = Duration::from_secs(1);
pub(crate) const SOON: Duration = Duration::from_millis(20);

#[derive(Default)]
pub(crate) struct ExternalWriters {
    /// When, by the range's clock; `u64::MAX` once some were found.
    looked: AtomicU64,
}

impl ExternalWriters {
    /// What is found now, unless it was looked for in the period that has just passed.
    pub(crate) fn look(&self, period: Duration, is_followed: &dyn Fn(&Range<u64>) -> bool) -> Option<&'static str> {
        let (now, looked) = (clock::now(), self.looked.load(Relaxed));
        let is_due = now.saturating_sub(looked) >= period.as_nanos() as u64;
        if !is_due || self.looked.compare_exchange(looked, now, Relaxed, Relaxed).is_err() {
            return None;
        }
        let what = find(is_followed)?;
        self.looked.store(u64::MAX, Relaxed);
        Some(what)
    }
}

fn find(is_followed: &dyn Fn(&Range<u64>) -> bool) -> Option<&'static str> {
    let files = fs::read_dir("/proc/self/fd").ok()?;
    let mut names = files.flatten().filter_map(|file| Some((file.file_name(), fs::read_link(file.path()).ok()?)));
    names.find_map(|(number, path)| match path.to_str()? {
        "anon_inode:[io_uring]" => {
            let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", number.to_str()?)).ok()?;
            fixed(&about)
                .any(|memory| is_followed(&memory))
                .then_some("io_uring writes to fixed buffers in memory passed to devices")
        }
        path if path.starts_with("/dev/infiniband/") => Some("possible RDMA writes to memory passed to devices"),
        path if path.starts_with("/dev/vfio/") => {
            Some("possible writes of other devices (VFIO) to memory passed to devices")
        }
        _ => None,
    })
}

/// Buffers that were registered, as /proc/self/fdinfo has them: `    0: 0x7f1200000000/4096`.
fn fixed(about: &str) -> impl Iterator<Item = Range<u64>> {
    let buffers = about.lines().skip_while(|line| !line.starts_with("UserBufs:")).skip(1);
    buffers.take_while(|line| line.starts_with(' ')).filter_map(|line| {
        let (start, len) = line.split_once(": 0x")?.1.split_once('/')?;
        let (start, len) = (u64::from_str_radix(start, 16).ok()?, len.parse::<u64>().ok()?);
        Some(start..start.saturating_add(len))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_buffers_are_read() {
        let about = "pos:\t0\nSqMask:\t0x7\nUserFiles:\t1\n    0: weights\nUserBufs:\t3\n    0: 0x560529354850/4096\n    1: <none>\n   \
                     12: 0x10000/100\nPollList:\nNAPI:\tdisabled\n";
        assert_eq!(fixed(about).collect::<Vec<_>>(), [0x5605_2935_4850..0x5605_2935_5850, 0x1_0000..0x1_0064]);
        assert_eq!(fixed("UserBufs:\t0\nPollList:\n").count(), 0);
    }
}
