//! Unordered pairs: two submissions that use the same memory without an order between them. A result that
//! depends on one can change when launches are waited for, or when another run is slower somewhere.
//!
//! Memory is distinguished by allocation, and whether a kernel writes it is not known: it is certain that the
//! two are unordered, not that they touch the same bytes.

use crate::plan::Plan;
use std::collections::HashMap;
use trace::model::objects::Objects;
use trace::model::outstanding::Outstanding;
use trace::{Call, Trace};

/// A launch, copy or fill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Number of the call.
    pub call: u64,
    /// Name of the driver function.
    pub function: String,
    /// Name of the kernel, if the call launches one.
    pub kernel: Option<String>,
    /// As `dump` names it: `stream#3`, `the legacy stream of ctx#1`.
    pub stream: String,
}

/// The earlier and the later of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnorderedPair(pub Submission, pub Submission);

/// The last two that both share memory with what this call brings, or that call and what was submitted before
/// it.
pub fn unordered(trace: &Trace, plan: &Plan, at: u64) -> Option<UnorderedPair> {
    let sharers: HashMap<u64, _> = plan.comparability.reach.sharers(at).into_iter().collect();
    let (mut walk, mut objects) = (Outstanding::default(), Objects::default());
    let mut found = None;
    for call in trace.calls().take_while(|call| call.number <= at).filter(|call| !call.inner) {
        objects.follow(&call);
        let Some(function) = call.function() else { continue };
        if let Some(own) = sharers.get(&call.number) {
            let share = |other: u64| sharers.get(&other).is_some_and(|uses| uses.iter().any(|id| own.contains(id)));
            let stream = walk.stream_name(&call, function, &objects);
            let pair = walk.unordered(&call, function, share).and_then(|(other, of)| {
                let earlier = submission(trace.call(other)?, of.to_owned());
                Some(UnorderedPair(earlier, submission(call, stream)))
            });
            found = pair.or(found);
        }
        walk.advance(&call, function, &objects);
    }
    found
}

fn submission(call: Call, stream: String) -> Submission {
    let kernel = call.named_kernel().map(|kernel| kernel.name.clone()).filter(|name| !name.is_empty());
    Submission { call: call.number, function: call.name().to_owned(), kernel, stream }
}
