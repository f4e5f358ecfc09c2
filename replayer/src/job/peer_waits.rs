//! Launches that may wait for another process's write although that process is not replayed: in host memory
//! that others may also have mapped, or in their device memory, for which this replay has substitutes.

use crate::base::ranges::Ranges;
use crate::job::single_rank::names;
use crate::plan::Plan;
use std::ops::Range;
use trace::api::effect::Memory;
use trace::file::record::Shared;
use trace::model::change::{Change, resolve};
use trace::model::objects::Objects;
use trace::model::outstanding::Outstanding;
use trace::{Call, Trace};

/// A launch that uses memory of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerWait {
    /// Number of the call that launches.
    pub launch: u64,
    /// Name of the kernel, or the function if it names none.
    pub kernel: String,
    /// The memory for which the launch may wait.
    pub memory: PeerMemory,
}

/// Memory that a process outside the replay may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerMemory {
    /// Host memory, which this call registered.
    Host {
        /// Number of the call that registered the memory.
        registered: u64,
        /// The mapping that is shared.
        memory: Shared,
    },
    /// Device memory that another process had exported.
    Device(Range<u64>),
}

/// Whether there may be any.
pub(crate) fn may_await(trace: &Trace, plan: &Plan) -> bool {
    trace.shares_host_memory() || plan.job.single_rank.as_ref().is_some_and(|alone| !alone.given.is_empty())
}

/// Among the launches that one of these calls is, or waits for.
pub(crate) fn awaiting(trace: &Trace, plan: &Plan, calls: &[u64]) -> Vec<PeerWait> {
    let Some(last) = calls.iter().copied().max() else { return Vec::new() };
    let (mut work, mut objects) = (Outstanding::default(), Objects::default());
    // By the address that was registered.
    let mut registered: Vec<(u64, u64, &[Shared])> = Vec::new();
    for call in trace.calls().take_while(|call| call.number < last).filter(|call| !call.inner) {
        objects.follow(&call);
        let Some(function) = call.function() else { continue };
        work.advance(&call, function, &objects);
        match call.took_effect().then(|| resolve(&call, function)).flatten() {
            Some(Change::Allocated { kind: Memory::Registered, at, .. }) => {
                registered.push((at, call.number, call.shared_mappings()));
            }
            Some(Change::Freed { kind: Memory::Registered, at, .. }) => registered.retain(|(start, ..)| *start != at),
            _ => {}
        }
    }
    trace.callers_back().iter().filter(|call| call.number < last).for_each(|call| work.called_back(call.number, true));
    let host = |call: &Call| {
        call.named_kernel()?;
        let all = registered.iter().rev().flat_map(|(_, number, parts)| parts.iter().map(|part| (*number, *part)));
        let range = |part: &Shared| part.start..part.start.saturating_add(part.len);
        let is_named = |part: &Shared| names(call, &Ranges::union(std::iter::once(range(part)), 1));
        let mut all = all.filter(|(_, part)| is_named(part));
        all.next().map(|(registered, memory)| PeerMemory::Host { registered, memory })
    };
    let device = |launch: u64| plan.job.single_rank.as_ref()?.given.get(&launch).cloned().map(PeerMemory::Device);
    let given = |launch: u64| {
        let call = trace.call(launch)?;
        let memory = host(&call).or_else(|| device(launch))?;
        let kernel = call.named_kernel().map(|kernel| kernel.name.clone());
        Some(PeerWait { launch, kernel: kernel.unwrap_or_else(|| call.name().to_owned()), memory })
    };
    let mut launches: Vec<u64> = work.under_way().chain(calls.iter().copied()).collect();
    launches.sort_unstable();
    launches.dedup();
    launches.into_iter().filter_map(given).collect()
}
