//! The stream to which a call submits its work, and the comparison of its copies.

use crate::call::frame::Frame;
use crate::check::payload;
use crate::driver::stream::{Queue, context_of, stream_of};
use crate::run::readbacks::{Pending, Source};
use crate::run::worker::Worker;
use trace::api::roles::Class;
use trace::model::stream::StreamHandle;
use trace::{Call, Function};

impl<'t> Worker<'_, 't> {
    /// Where a call puts its work.
    pub(crate) fn queue(&self, function: &Function, words: &[u64]) -> Queue {
        let stream = stream_of(function, words).unwrap_or(0);
        // Work on a stream needs no current context.
        let context = Some(self.run.driver.current_context()).filter(|context| *context != 0);
        let context = context.unwrap_or_else(|| context_of(self.run.driver, stream));
        Queue::from_handle(context, StreamHandle::new(function, stream), self.thread)
    }

    /// Copies of this call: compared at once if it waited for them, later if it did not.
    pub(crate) fn copies(
        &mut self,
        call: &Call<'t>,
        function: &'static Function,
        frame: &mut Frame<'t>,
        words: &[u64],
    ) {
        let waits = function.class == Class::copy;
        let runs_graph = function.launches_graph();
        let nothing = frame.sources.is_empty() && frame.lent.is_empty() && !runs_graph;
        if frame.readbacks.is_empty() && (waits || nothing) {
            return;
        }
        let queue = self.queue(function, words);
        let queue = Queue { context: if waits { 0 } else { queue.context }, ..queue };
        // A copy under a capture has become a node, which reads whenever its graph runs; so does a node made
        // by hand.
        let none = self.run.placement.captures.none();
        let captures = none.is_none();
        let is_captured = captures && queue.is_captured(self.run.driver);
        let submits = matches!(function.class, Class::submit | Class::launch);
        if function.class == Class::graph || is_captured {
            self.run.graph_reads.lock().extend(frame.sources.drain(..).map(|range| (range.start, range.end)));
        }
        if submits && !is_captured {
            let is_launch = function.class == Class::launch;
            let not_before = self.run.callbacks.ended_on(queue);
            let uses = |range, is_launch| {
                self.run.readbacks.use_source(Source { range, queue, is_launch, not_before }, call.begin);
            };
            frame.sources.drain(..).for_each(|range| uses(range, is_launch));
            if runs_graph {
                self.run.graph_reads.lock().iter().for_each(|(start, end)| uses(*start..*end, true));
            }
            if !captures {
                let context = self.run.driver.current_context();
                self.run.readbacks.reclaim(|queue| queue.is_finished(self.run.driver, context, self.thread));
            }
            self.run.readbacks.lend(frame.lent.drain(..), queue);
        }
        for readback in frame.readbacks.drain(..) {
            let at_once = readback.is_shared && !readback.expected.is_empty();
            if at_once && !waits {
                queue.wait(self.run.driver, self.thread, captures);
            }
            if waits || at_once {
                payload::compare(self.run, call.number, &readback, &mut self.tally);
            } else if readback.expected.is_empty() {
                // Under a capture the copy has become a node, which writes whenever its graph runs.
                self.tally.not_compared(call.number);
                frame.retain |= readback.memory.is_some();
                frame.memory.extend(readback.memory);
            } else {
                let seen = call.observed_at().unwrap_or(u64::MAX);
                // Only one that was looked at can be too late to be looked at here.
                let mark = || self.run.readbacks.arrivals.mark(self.run.driver, queue, call.number);
                let may_mark = seen != u64::MAX && !is_captured;
                let arrival = may_mark.then(|| self.run.placement.relaxed(mark)).flatten();
                self.run.readbacks.add(Pending { call: call.number, readback, queue, seen, arrival, number: 0 });
            }
        }
    }
}
