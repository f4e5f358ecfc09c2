//! The operations on NCCL's communicators, in the order in which they began.

use crate::file::record::HEAD;
use crate::file::record::nccl::{Began, Name, began};
use crate::read::index::body_of;
use crate::read::reader::Trace;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// An operation that began, as NCCL reported it.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// Number of the recorded thread.
    pub thread: u32,
    /// The record.
    pub about: Began,
    /// When it returned.
    pub end: Option<u64>,
}

/// An operation on a communicator. Times are stamps.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Number of the communicator's record.
    pub communicator: u32,
    /// Its number, from 1: of the collectives on its communicator, or of the sends to its peer, or the
    /// receives from it. All ranks count collectives alike, and two peers what goes between them.
    pub number: u64,
    /// The program's call, where NCCL tells of it.
    pub call: Option<Event>,
    /// How NCCL gave it to the device; none where it has not come to that, or by another way.
    pub given: Option<Event>,
}

impl Operation {
    /// What was told first.
    fn first(&self) -> Event {
        self.call.or(self.given).expect("an operation has a call or a submission")
    }

    fn last(&self) -> Event {
        self.given.or(self.call).expect("an operation has a call or a submission")
    }

    /// Number of the recorded thread that called NCCL, or submitted if the call is unknown.
    pub fn thread(&self) -> u32 {
        self.first().thread
    }

    /// When the program called NCCL, or NCCL submitted if the call is unknown.
    pub fn begin(&self) -> u64 {
        self.first().about.time
    }

    /// When NCCL's call returned; none if it is not known to have.
    pub fn end(&self) -> Option<u64> {
        self.first().end
    }

    /// When it was given to the device, and by which thread.
    pub fn submitted_at(&self) -> Option<(u64, u32)> {
        self.given.map(|given| (given.about.time, given.thread))
    }

    /// False for a send or a receive.
    pub fn is_collective(&self) -> bool {
        matches!(self.first().about.what, began::COLLECTIVE_CALL | began::COLLECTIVE)
    }

    /// Part of a graph that was captured then; it runs whenever the graph does.
    pub fn is_captured(&self) -> bool {
        self.call.is_some_and(|call| call.about.captured)
    }

    /// `AllReduce`, `Send`.
    pub fn function(&self) -> String {
        text(&self.first().about.function).into_owned()
    }

    /// `ncclFloat32`.
    pub fn datatype(&self) -> String {
        text(&self.first().about.datatype).into_owned()
    }

    /// Number of elements.
    pub fn count(&self) -> u64 {
        self.first().about.count
    }

    /// Of the elements that it counts; none of a type that is not known.
    pub fn bytes(&self) -> Option<u64> {
        width(&text(&self.first().about.datatype)).map(|width| self.count().saturating_mul(width))
    }

    /// The other rank of a send or receive.
    pub fn peer(&self) -> Option<i32> {
        Some(self.last().about.peer).filter(|peer| !self.is_collective() && *peer >= 0)
    }

    /// The rank that has what it begins with, or gets what comes of it.
    pub fn root(&self) -> Option<i32> {
        let has_one = matches!(&*text(&self.first().about.function), "Broadcast" | "Reduce" | "Gather" | "Scatter");
        Some(self.first().about.peer).filter(|root| has_one && *root >= 0)
    }

    /// `RING LL`, as NCCL chose it.
    pub fn way(&self) -> Option<String> {
        let Began { algorithm, protocol, .. } = self.given?.about;
        let words: Vec<_> = [text(&algorithm), text(&protocol)].into_iter().filter(|word| !word.is_empty()).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
}

impl Trace {
    /// All that began and was told, by time.
    pub fn nccl_events(&self) -> impl Iterator<Item = Event> {
        self.began.iter().filter_map(|(_, thread, at)| {
            let found = self.record(*at)?;
            let about = body_of::<Began>(&found.bytes[HEAD..])?;
            let end = self.began_returned.get(&about.operation).copied().filter(|end| *end >= about.time);
            Some(Event { thread: *thread, about, end })
        })
    }

    /// By time. What a graph holds is one however often the graph runs: NCCL tells it from a callback of the
    /// graph, at ranks whose work needs the CPU, with each run, and at others when it is captured.
    pub fn operations(&self) -> Vec<Operation> {
        let mut all: Vec<Operation> = Vec::new();
        let later_runs = self.later_runs();
        let is_told_again = |event: &Event| {
            let (thread, time) = (event.thread, event.about.time);
            let before = later_runs.partition_point(|(of, times)| (*of, times.start) <= (thread, time));
            let last = before.checked_sub(1).and_then(|last| later_runs.get(last));
            last.is_some_and(|(of, times)| *of == thread && times.contains(&time))
        };
        let mut calls: HashMap<u64, usize> = HashMap::new();
        for event in self.nccl_events() {
            let Began { operation, parent, communicator, what, .. } = event.about;
            let is_call = matches!(what, began::COLLECTIVE_CALL | began::TRANSFER_CALL);
            if is_call {
                calls.insert(operation, all.len());
            } else if let Some(call) = calls.get(&parent).map(|at| &mut all[*at])
                && call.communicator == communicator
            {
                // NCCL may give one in several pieces.
                call.given.get_or_insert(event);
                continue;
            } else if is_told_again(&event) {
                continue;
            }
            let (call, given) = if is_call { (Some(event), None) } else { (None, Some(event)) };
            all.push(Operation { communicator, number: 0, call, given });
        }
        let mut counts: HashMap<(u32, Option<(i32, bool)>), u64> = HashMap::new();
        for operation in &mut all {
            let is_send = operation.first().about.function.starts_with(b"Send");
            let kind = (!operation.is_collective()).then(|| (operation.last().about.peer, is_send));
            let count = counts.entry((operation.communicator, kind)).or_default();
            *count += 1;
            operation.number = *count;
        }
        all
    }
}

/// Why what an operation delivered is not told where it was captured.
pub const CAPTURED: &str = "each launch of the graph tells it";

/// The key under which the preamble says that what collectives deliver was to be kept.
pub const KEPT: &str = "collectives";

impl Trace {
    /// Whether what collectives deliver was to be kept.
    pub fn keeps_collectives(&self) -> bool {
        self.preamble.more.iter().any(|(key, _)| key == KEPT)
    }
}

/// Where an operation brings bytes to this rank of its communicator, and how many; an empty range if it
/// brings none. `ranks`: 0 if that is not known. An error says why it cannot be told.
pub fn brings(about: &Began, rank: i32, ranks: u32) -> Result<Range<u64>, String> {
    let function = text(&about.function);
    let times = match &*function {
        "AllReduce" | "Broadcast" | "ReduceScatter" | "Recv" => 1,
        "Reduce" => u64::from(about.peer == rank),
        // What one rank sends is counted.
        "AllGather" if ranks > 0 => u64::from(ranks),
        "AllGather" => return Err("NCCL does not report the number of ranks".into()),
        "Send" => 0,
        other => return Err(format!("the results of {other} are unknown")),
    };
    let datatype = text(&about.datatype);
    let width = width(&datatype).ok_or_else(|| format!("unknown data type {datatype:?}"))?;
    let bytes = about.count.checked_mul(width).and_then(|bytes| bytes.checked_mul(times));
    let end = bytes.and_then(|bytes| about.destination.checked_add(bytes));
    let range = about.destination..end.ok_or("its length is out of range")?;
    match (range.is_empty(), range.start) {
        (true, _) => Ok(0..0),
        (false, 0) => Err("NCCL does not report the address of its result".into()),
        _ => Ok(range),
    }
}

/// NCCL's kernels by the beginnings of their names, in all versions since 2.0.
pub const KERNELS: [&str; 4] = ["ncclDevKernel_", "ncclKernel_", "ncclSymkDevKernel_", "ncclSymDevKernel_"];

/// Whether it is one of NCCL's.
pub fn is_kernel(name: &str) -> bool {
    KERNELS.iter().any(|begins| name.contains(begins))
}

/// What a field holds.
pub fn text(name: &Name) -> Cow<'_, str> {
    let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..len])
}

/// Bytes of an element.
fn width(datatype: &str) -> Option<u64> {
    let bits = datatype.trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits = bits.find(|c: char| !c.is_ascii_digit()).map_or(bits, |end| &bits[..end]);
    digits.parse::<u64>().ok().filter(|bits| bits.is_multiple_of(8) && (8..=128).contains(bits)).map(|bits| bits / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(function: &str, count: u64) -> Began {
        let mut about = Began { count, destination: 0x1000, peer: 1, ..Began::default() };
        about.function[..function.len()].copy_from_slice(function.as_bytes());
        about.datatype[..11].copy_from_slice(b"ncclFloat32");
        about
    }

    #[test]
    fn operations_bring_what_their_functions_do() {
        let found =
            |function, rank, ranks| brings(&about(function, 3), rank, ranks).map(|to| (to.start, to.end - to.start));
        for function in ["AllReduce", "Broadcast", "ReduceScatter", "Recv"] {
            assert_eq!(found(function, 0, 4), Ok((0x1000, 12)), "{function}");
        }
        assert_eq!((found("Reduce", 1, 4), found("Reduce", 0, 4)), (Ok((0x1000, 12)), Ok((0, 0))));
        assert_eq!((found("AllGather", 0, 4), found("Send", 0, 4)), (Ok((0x1000, 48)), Ok((0, 0))));
        assert!(found("AllGather", 0, 0).is_err() && found("AlltoAll", 0, 4).is_err());
        assert!(brings(&about("AllReduce", u64::MAX), 0, 4).is_err());
        assert!(brings(&Began { destination: 0, ..about("AllReduce", 1) }, 0, 4).is_err());
        assert_eq!(brings(&Began { destination: 0, ..about("AllReduce", 0) }, 0, 4), Ok(0..0));
    }

    #[test]
    fn elements_have_the_width_that_their_type_is_named_by() {
        let widths =
            ["ncclFloat32", "ncclBfloat16", "ncclFloat8e4m3", "ncclUint64", "ncclInt8", "Unknown", ""].map(width);
        assert_eq!(widths, [Some(4), Some(2), Some(1), Some(8), Some(1), None, None]);
    }
}
