//! The child's side of a replay that is part of a job.

use super::protocol::{self, FromReplay, Part, Registered, ToReplay};
use crate::commands::replay::as_json::ReplaySummary;
use crate::commands::replay::together::progress::Page;
use crate::terminal::exit::say;
use anyhow::{Context, Result};
use parking_lot::Mutex;
use replayer::{HostPart, Imports, Live, MissingPeers, Peers, Source};
use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Names the descriptors that such a replay has inherited: the socket, what its part is, and how far all have
/// come. A replay that starts anew for another layout has them as well.
pub(super) const PART: &str = "CUTRACE_REPLAY_PART";

/// A replay waits where the program did not (for what still reads memory that the CPU then wrote). If the
/// work that it waits for needs another process's next call, and that would be in order behind this one,
/// nobody comes further. After so long the order is given up, for all calls that follow.
const MOST: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
    part: Part,
    imports: Imports,
    host: HashMap<u64, Vec<HostPart>>,
    page: Page,
    /// Whoever asks waits for the answer before another does.
    asking: Mutex<()>,
    has_let_go: AtomicBool,
    has_differed: AtomicBool,
}

impl Link {
    /// None: nobody has started it as a part.
    pub(crate) fn inherited() -> Result<Option<Link>> {
        let Ok(named) = std::env::var(PART) else { return Ok(None) };
        let numbers = named.split(',').map(str::parse::<i32>).collect::<Result<Vec<_>, _>>();
        let Some([socket, part, page]) = numbers.ok().and_then(|all| <[i32; 3]>::try_from(all).ok()) else {
            anyhow::bail!("{PART}={named}: expected three descriptors");
        };
        // SAFETY: whoever set the variable gave these to this process, and nothing else here uses them.
        let [socket, part, page] = [socket, part, page].map(|file| unsafe { OwnedFd::from_raw_fd(file) });
        let file = File::from(part);
        let mut text = vec![0; file.metadata().context(PART)?.len() as usize];
        // At a place: a replay that starts anew reads it once more.
        file.read_exact_at(&mut text, 0).context(PART)?;
        let part: Part = serde_json::from_slice(&text).context(PART)?;
        let processes = File::from(page.try_clone()?).metadata()?.len() as usize / 8;
        let map = Page::map(page.as_fd(), processes).context(PART)?;
        // For who starts anew.
        std::mem::forget((file, page));
        let imports = part.imports.iter().map(|import| (import.by, import.source())).collect();
        let mut host = HashMap::<u64, Vec<HostPart>>::new();
        for Registered { by, memory, file, offset } in &part.host {
            host.entry(*by).or_default().push(HostPart { memory: memory.clone(), file: *file, offset: *offset });
        }
        Ok(Some(Link {
            socket,
            part,
            imports,
            host,
            page: map,
            asking: Mutex::default(),
            has_let_go: AtomicBool::default(),
            has_differed: AtomicBool::default(),
        }))
    }

    /// Whether nothing is shared with any process that is replayed.
    pub(crate) fn is_by_itself(&self) -> bool {
        self.part.peers.is_empty() && self.imports.is_empty()
    }

    /// Sends how this replay came out.
    pub(crate) fn finish(&self, summary: &ReplaySummary) -> Result<()> {
        let file = tempfile::tempfile().context("a temporary file")?;
        serde_json::to_writer(BufWriter::new(&file), summary)?;
        Ok(protocol::send(&self.socket, &FromReplay::Finished, &[file.into()])?)
    }

    /// What of the job is not replayed.
    pub(crate) fn lacks(&self) -> MissingPeers {
        MissingPeers { processes: self.part.is_incomplete, ranks: self.part.lacks_ranks }
    }

    /// A call goes on without what it would have to wait for.
    fn lets_go(&self) -> bool {
        let seconds = MOST.as_secs();
        if !self.has_let_go.swap(true, Ordering::Relaxed) {
            say(format_args!("no process made progress for {seconds} s: from here on calls may be out of order"));
        }
        true
    }

    fn asks(&self, wants: &FromReplay) -> Result<Live, String> {
        let _one = self.asking.lock();
        let failed = |error: std::io::Error| format!("cannot reach the job's other processes: {error}");
        protocol::send(&self.socket, wants, &[]).map_err(failed)?;
        match protocol::receive::<ToReplay>(&self.socket).map_err(failed)? {
            Some((answer, files)) => {
                answer.and_then(|told| protocol::live(told, files).ok_or_else(|| "received no descriptor".into()))
            }
            None => Err("the replay of the job has ended".into()),
        }
    }

    /// Whether whoever started this is there still.
    fn is_alone(&self) -> bool {
        let mut asked = libc::pollfd { fd: std::os::fd::AsRawFd::as_raw_fd(&self.socket), events: 0, revents: 0 };
        // SAFETY: an array of one.
        unsafe { libc::poll(&raw mut asked, 1, 0) > 0 && asked.revents & (libc::POLLHUP | libc::POLLERR) != 0 }
    }
}

impl Peers for Link {
    fn imports(&self) -> &Imports {
        &self.imports
    }

    fn tell(&self, call: u64, live: Result<Live, String>) {
        let (live, files) = match live.map(protocol::told) {
            Ok((told, files)) => (Ok(told), files),
            Err(why) => (Err(why), Vec::new()),
        };
        if let Err(error) = protocol::send(&self.socket, &FromReplay::Exported { call, live }, &files) {
            let live = Err(error.to_string());
            // Where nobody is any more, nobody waits for it.
            let _gone = protocol::send(&self.socket, &FromReplay::Exported { call, live }, &[]);
        }
    }

    fn ask(&self, source: &Source) -> Result<Live, String> {
        self.asks(&FromReplay::Wants { process: source.process, call: source.call })
    }

    fn host_parts(&self, call: u64) -> &[HostPart] {
        self.host.get(&call).map_or(&[], |parts| parts)
    }

    fn host_file(&self, file: u32) -> Result<OwnedFd, String> {
        match self.asks(&FromReplay::WantsFile { file })? {
            Live::File(file) => Ok(file),
            _ => Err("the file of shared memory was not received".into()),
        }
    }

    fn differs(&self, call: u64) {
        if !self.has_differed.swap(true, Ordering::Relaxed) {
            // Where nobody is any more, nobody waits for it.
            let _gone = protocol::send(&self.socket, &FromReplay::Differs { call }, &[]);
        }
    }

    fn advance(&self, to: u64) {
        self.page.advance(self.part.process as usize, to);
    }

    fn wait(&self, until: u64) -> bool {
        if until < self.part.since || self.has_let_go.load(Ordering::Relaxed) {
            return true;
        }
        const LOOKS: u32 = 64;
        const PAUSE: Duration = Duration::from_micros(20);
        /// Pauses between two looks at whether anybody is there, and goes on.
        const PAUSES: u32 = 5000;
        let (mut reached, mut since) = (Vec::new(), Instant::now());
        for peer in self.part.peers.iter().map(|peer| *peer as usize) {
            let mut looks = 0u32;
            while self.page.get(peer) < until {
                looks += 1;
                match looks {
                    ..LOOKS => std::thread::yield_now(),
                    _ => std::thread::sleep(PAUSE),
                }
                if looks.is_multiple_of(PAUSES) {
                    if self.is_alone() {
                        return false;
                    }
                    let now = self.page.all();
                    if now != reached {
                        (reached, since) = (now, Instant::now());
                    } else if since.elapsed() > MOST {
                        return self.lets_go();
                    }
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_was_given_up_is_waited_for_no_more() {
        let (page, _file) = Page::new(2).expect("a page");
        let (socket, _other) = protocol::pair().expect("a pair of sockets");
        let part = Part {
            process: 0,
            peers: vec![1],
            since: 0,
            is_incomplete: false,
            lacks_ranks: None,
            imports: Vec::new(),
            host: Vec::new(),
        };
        let (imports, host, asking) = Default::default();
        let (has_let_go, has_differed) = (AtomicBool::new(true), AtomicBool::default());
        let link = Link { socket, part, imports, host, page, asking, has_let_go, has_differed };
        let since = Instant::now();
        assert!((1..1000).all(|until| link.wait(until)));
        assert!(since.elapsed() < MOST);
    }
}
