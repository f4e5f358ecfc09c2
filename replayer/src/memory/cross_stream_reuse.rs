//! Placed memory that passes from one stream to another: the second waits for the first, see
//! [`plan::handover`](crate::plan::memory::cross_stream_reuse).

use crate::memory::place::Placement;
use crate::memory::stream_ordered::StreamPosition;
use crate::plan::memory::cross_stream_reuse::Handovers;
use std::sync::atomic::Ordering::Relaxed;

impl Placement<'_> {
    /// After a free in a stream's order, of memory that is at its place: marks where in that order it is.
    pub(crate) fn hands_over(&self, handovers: &Handovers, call: u64, start: u64, ordered: Option<StreamPosition>) {
        let Some(uses) = handovers.before.get(&call).filter(|_| self.held.contains(start)) else { return };
        let mark = |ordered: StreamPosition| {
            let event = self.driver.create_event(false).ok()?;
            self.driver.record_event(event, ordered.stream).ok().map(|()| event)
        };
        // Without a mark, the allocation counts what is missing.
        if let Some(event) = ordered.and_then(|ordered| self.relaxed(|| mark(ordered))) {
            self.marks.lock().insert(call, (event, *uses));
        }
    }

    /// Before memory is used again that other streams freed. `ordered`: none if the host may use it at once.
    pub(crate) fn takes_over(&self, handovers: &Handovers, call: u64, start: u64, ordered: Option<StreamPosition>) {
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
                Some(ordered) => self.driver.await_event(event, ordered.stream),
                None => self.driver.synchronize_event(event),
            });
            if waited.is_err() {
                self.counts.unordered.fetch_add(1, Relaxed);
            }
            if is_last {
                let _ = self.driver.destroy_event(event);
            }
        }
    }
}
