//! Memory at its place that goes from one stream to another: the second waits for the first, see
//! [`plan::handover`](crate::plan::handover).

use crate::driver::Failure;
use crate::memory::ordered::Ordered;
use crate::memory::place::Placement;
use crate::plan::handover::Handovers;
use std::sync::atomic::Ordering::Relaxed;

const NO_TIMING: u64 = 2;

impl Placement<'_> {
    /// After a free in a stream's order, of memory that is at its place: marks where in that order it is.
    pub fn hands_over(&self, handovers: &Handovers, call: u64, start: u64, ordered: Option<Ordered>) {
        let Some(uses) = handovers.before.get(&call).filter(|_| self.held.contains(start)) else { return };
        let mut event = 0u64;
        let marked = ordered.ok_or(()).and_then(|ordered| {
            self.relaxed(|| {
                // SAFETY: an output word, then a live event and a live stream.
                unsafe {
                    self.driver.ask("cuEventCreate", &[&raw mut event as u64, NO_TIMING])?;
                    self.driver.ask(ordered.twin("cuEventRecord", "cuEventRecord_ptsz"), &[event, ordered.stream])
                }
            })
            .map_err(|_: Failure| ())
        });
        // Without a mark, the allocation counts what is missing.
        if marked.is_ok() {
            self.marks.lock().insert(call, (event, *uses));
        }
    }

    /// Before memory is used again that other streams freed. `ordered`: none if the host may use it at once.
    pub fn takes_over(&self, handovers: &Handovers, call: u64, start: u64, ordered: Option<Ordered>) {
        for free in handovers.after.get(&call).filter(|_| self.held.contains(start)).into_iter().flatten() {
            let mut marks = self.marks.lock();
            let Some((event, uses)) = marks.get_mut(free) else {
                self.counts.unordered.fetch_add(1, Relaxed);
                continue;
            };
            let event = *event;
            *uses -= 1;
            let is_last = *uses == 0;
            if is_last {
                marks.remove(free);
            }
            drop(marks);
            let waited = self.relaxed(|| match ordered {
                Some(ordered) => {
                    let wait = ordered.twin("cuStreamWaitEvent", "cuStreamWaitEvent_ptsz");
                    // SAFETY: a live stream and an event of this placement's.
                    unsafe { self.driver.ask(wait, &[ordered.stream, event, 0]) }
                }
                // SAFETY: an event of this placement's.
                None => unsafe { self.driver.ask("cuEventSynchronize", &[event]) },
            });
            if waited.is_err() {
                self.counts.unordered.fetch_add(1, Relaxed);
            }
            if is_last {
                // SAFETY: as above; what waits for it goes on waiting.
                let _ = unsafe { self.driver.ask("cuEventDestroy_v2", &[event]) };
            }
        }
    }
}
