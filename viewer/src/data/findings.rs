//! What is worth looking at, each with its evidence.

use super::holes::Hole;
use super::memory::Usage;
use crate::text::{bytes, counted, duration};
use bincode::{Decode, Encode};
use std::collections::{BTreeMap, HashMap};

/// Time in which a device had nothing to do: by its own times, or else because nothing was outstanding as far as the host knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Gap {
    pub device: i32,
    /// Nanoseconds; of the replay's clock if it is by device times.
    pub begin: u64,
    pub end: u64,
    /// The call that waited for all work; with device times, the one whose work was the last.
    pub after: u32,
    /// The call that submitted the next.
    pub before: u32,
    /// By device times: how long the host, and the way of the launch, are why.
    pub causes: Option<(u64, u64)>,
}

impl Gap {
    pub fn length(&self) -> u64 {
        self.end - self.begin
    }
}

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Finding {
    pub title: String,
    /// What it means, and what to do.
    pub why: String,
    /// Nanoseconds of the host or of an idle device; 0 where time is not the matter.
    pub cost: u64,
    pub count: u64,
    /// The calls that show it, the costliest first.
    pub evidence: Vec<u32>,
}

pub const HOLES_TITLE: &str = "calls are lost: the trace is damaged";
pub const IDLE_TITLE: &str = "the device had nothing to do, as far as the host knows";
/// Behind `device 0`.
pub const WAITED: &str = "waited for the host";

/// Calls kept as evidence.
const KEPT: usize = 64;
/// Idle stretches shorter than this are not told of, ns.
pub const IDLE: u64 = 100_000;

/// Calls of one kind: how many, how long, the longest.
#[derive(Default)]
struct Tally {
    count: u64,
    cost: u64,
    evidence: Vec<(u64, u32)>,
}

impl Tally {
    fn add(&mut self, call: u32, cost: u64) {
        self.count += 1;
        self.cost += cost;
        self.evidence.push((cost, call));
        if self.evidence.len() >= 2 * KEPT {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        self.evidence.sort_by_key(|(cost, call)| (std::cmp::Reverse(*cost), *call));
        self.evidence.truncate(KEPT);
    }

    fn finding(mut self, title: String, why: &str) -> Finding {
        self.shrink();
        let evidence = self.evidence.into_iter().map(|(_, call)| call).collect();
        Finding { title, why: why.into(), cost: self.cost, count: self.count, evidence }
    }
}

/// Collects what the walk over the calls meets.
#[derive(Default)]
pub struct Collector {
    failed: BTreeMap<(String, String), Tally>,
    unfinished: Tally,
    pageable: Tally,
    synchronous: Tally,
    needless: Tally,
    images: HashMap<u64, u32>,
    reloads: Tally,
    pinned: BTreeMap<u64, u64>,
}

impl Collector {
    pub fn failed(&mut self, function: &str, result: String, call: u32, took: u64) {
        self.failed.entry((function.to_owned(), result)).or_default().add(call, took);
    }

    /// A call that had not returned when the trace ended, after that long.
    pub fn unfinished(&mut self, call: u32, since: u64) {
        self.unfinished.add(call, since);
    }

    pub fn pin(&mut self, address: u64, bytes: u64) {
        self.pinned.insert(address, bytes);
    }

    pub fn unpin(&mut self, address: u64) {
        self.pinned.remove(&address);
    }

    /// A copy with this address at its host side (0: none).
    pub fn copied(&mut self, host: u64, call: u32, took: u64, waits: bool) {
        let below = self.pinned.range(..=host).next_back();
        let is_pinned = below.is_some_and(|(start, bytes)| host - start < *bytes);
        if host != 0 && !is_pinned {
            self.pageable.add(call, took);
        } else if waits {
            self.synchronous.add(call, took);
        }
    }

    /// A wait that had nothing to wait for.
    pub fn needless(&mut self, call: u32, took: u64) {
        self.needless.add(call, took);
    }

    pub fn loaded(&mut self, image: u64, call: u32, took: u64) {
        if image != 0 && self.images.insert(image, call).is_some() {
            self.reloads.add(call, took);
        }
    }

    pub fn finish(self, gaps: &[Gap], waiting: &[i32], holes: &[Hole], memory: &Usage, whole: bool) -> Vec<Finding> {
        let mut all: Vec<Finding> = Vec::new();
        if !holes.is_empty() {
            all.push(Finding {
                title: HOLES_TITLE.into(),
                why: "nothing is known of what these threads did meanwhile; the calls stand behind what is lost".into(),
                cost: holes.iter().map(|hole| hole.end - hole.begin).sum(),
                count: holes.len() as u64,
                evidence: holes.iter().filter_map(|hole| hole.behind).take(KEPT).collect(),
            });
        }
        for ((function, result), tally) in self.failed {
            let title = format!("{function} failed: {result}");
            all.push(tally.finding(title, "the call did not do what it was asked; see what the program did next"));
        }
        let mut idle = Tally::default();
        let as_known = gaps.iter().filter(|gap| gap.causes.is_none() && gap.length() >= IDLE);
        as_known.for_each(|gap| idle.add(gap.before, gap.length()));
        for device in waiting {
            let mut tally = Tally::default();
            let own = gaps.iter().filter(|gap| gap.device == *device);
            own.filter_map(|gap| Some((gap, gap.causes?.0))).filter(|(_, host)| *host > 0).for_each(|(gap, host)| {
                tally.add(gap.before, host);
            });
            let why = "by the device's times: submit ahead, or wait later; the calls ended each stretch";
            all.push(tally.finding(format!("device {device} {WAITED}"), why));
        }
        let why = "nothing was outstanding from the end of a wait to the next submission: submit ahead, or wait later; the calls \
                   ended each stretch. How long the device worked before it, a trace without device times does not say";
        for (tally, title, why) in [
            (
                self.unfinished,
                "calls that had not returned",
                "when the trace ended their threads were inside of them; cutrace info tells what each stream had not finished",
            ),
            (idle, IDLE_TITLE, why),
            (
                self.pageable,
                "copies between the device and pageable memory",
                "they go through a staging buffer and cannot overlap: pin the memory (cuMemHostAlloc, cuMemHostRegister)",
            ),
            (
                self.synchronous,
                "copies that the host waits for",
                "the call returns when the bytes are there: an Async copy and a wait later lets the host go on",
            ),
            (self.needless, "waits for nothing", "nothing that the wait covers was outstanding: it can be left out"),
            (self.reloads, "module images loaded again", "the same image was loaded before: keep the module"),
        ] {
            if tally.count > 0 {
                all.push(tally.finding(title.into(), why));
            }
        }
        let (count, held, largest) = memory.left();
        // A program that was cut off had no chance to free.
        if count > 0 && whole {
            all.push(Finding {
                title: format!("{} of device memory never freed", bytes(held)),
                why: "still allocated when the program ended; the call made the largest of them".into(),
                cost: 0,
                count,
                evidence: largest.into_iter().collect(),
            });
        }
        all.sort_by_key(|finding| std::cmp::Reverse(finding.cost));
        all
    }
}

impl Finding {
    /// In one line: what, how often, what it cost.
    pub fn line(&self) -> String {
        let cost = if self.cost == 0 { String::new() } else { format!(", {}", duration(self.cost)) };
        format!("{} ({}{cost})", self.title, counted(self.count, "time"))
    }
}
