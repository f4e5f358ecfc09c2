//! One process of a job replayed without the others: what stands in for these.
//!
//! What NCCL's operations brought to this rank is in the trace (`record --collectives`), each with the launch
//! that it was part of. These launches are not made: what they delivered is written instead, on the same
//! stream. Memory that other processes had exported is there as memory of the replay's own, which holds
//! zeros: NCCL's kernels are all that is known to use it, and what else names it is told.

use crate::ranges::Ranges;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use trace::api::roles::Class;
use trace::call::Content;
use trace::collective::is_kernel;
use trace::hash::Hash;
use trace::record;
use trace::record::nccl::{Delivered, began};
use trace::{Call, Trace};

/// What an operation brought to this rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Recorded addresses; empty if it brought nothing.
    pub at: Range<u64>,
    /// The bytes, by blobs of [`record::PIECE`] bytes.
    pub pieces: Vec<Hash>,
    /// Why they are not there; empty if they are.
    pub lost: String,
}

/// What takes the place of physical memory of another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandIn {
    /// So many bytes are mapped.
    pub bytes: u64,
    /// The recorded device of whoever imported it.
    pub device: i32,
}

#[derive(Debug, Default)]
pub struct Alone {
    /// Launches of NCCL's kernels, and what is written in their place.
    pub(crate) launches: HashMap<u64, Vec<Delivery>>,
    /// Launches of which that is not known.
    pub(crate) refused: HashSet<u64>,
    /// Physical memory of other processes, by the call that imported it.
    pub(crate) stand_ins: HashMap<u64, StandIn>,
    /// Calls, NCCL's launches aside, that were given memory of other processes.
    pub(crate) touching: HashSet<u64>,
    /// Where it is mapped.
    pub(crate) foreign: Ranges,
    /// Operations of which nothing is told.
    pub(crate) untold: u64,
}

/// Why a trace cannot be replayed alone.
pub const NOT_KEPT: &str =
    "the trace does not hold what NCCL's collectives delivered to this process: record --collectives keeps that";

pub const REFUSED: &str = "what this collective delivered is not in the trace";

pub const TOUCHES: &str = "uses memory of another process, which holds zeros here";

impl Alone {
    pub fn of(trace: &Trace) -> Result<Alone, &'static str> {
        if !trace.keeps_collectives() {
            return Err(NOT_KEPT);
        }
        let mut by_launch: HashMap<(u32, u32), Vec<Delivery>> = HashMap::new();
        for delivered in &trace.delivered {
            if let Some(launch) = delivered.launch {
                by_launch.entry(launch).or_default().push(delivery(delivered));
            }
        }
        let launches = trace.calls().filter(|call| call.function().is_some_and(|f| f.class == Class::launch));
        let found = launches.filter_map(|call| {
            let deliveries = by_launch.remove(&(call.thread, call.sequence))?;
            Some((call.number, deliveries)).filter(|_| launches_nccl(&call))
        });
        let launches = found.collect();
        let told: HashSet<u64> = trace.delivered.iter().map(|delivered| delivered.operation).collect();
        let given = trace.nccl_events().filter(|event| matches!(event.about.what, began::COLLECTIVE | began::TRANSFER));
        let untold = given.filter(|event| !told.contains(&event.about.operation)).count() as u64;
        Ok(Alone { launches, untold, ..Alone::default() })
    }
}

fn delivery(delivered: &Delivered) -> Delivery {
    let Delivered { address, len, pieces, lost, .. } = delivered;
    let end = address.checked_add(*len);
    let is_whole = pieces.len() as u64 == len.div_ceil(record::PIECE as u64);
    let lost = match end {
        Some(_) if is_whole || !lost.is_empty() => lost.clone(),
        _ => "what the trace says of it does not fit together".into(),
    };
    let pieces = pieces.iter().map(|hash| Hash::from_bytes(*hash)).collect();
    Delivery { at: *address..end.unwrap_or(*address), pieces, lost }
}

/// Whether it launches one of NCCL's kernels.
pub fn launches_nccl(call: &Call) -> bool {
    call.named_kernel().is_some_and(|kernel| is_kernel(&kernel.name))
}

/// Whether an argument of the call, or of the kernel that it launches, is an address in this memory.
pub fn names(call: &Call, memory: &Ranges) -> bool {
    let is_there = |bytes: &[u8]| {
        bytes.chunks_exact(8).any(|w| memory.contains(u64::from_le_bytes(w.try_into().expect("8 bytes"))))
    };
    is_there(call.argument_bytes())
        || call.images().any(|image| match image.content {
            Content::Arguments { packed, .. } => is_there(packed),
            _ => false,
        })
}
