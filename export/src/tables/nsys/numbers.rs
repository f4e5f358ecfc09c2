//! Contexts and streams by the numbers that the source of the device times gives them: known only for those
//! with timed work.

use super::Nsys;
use super::rows::Store;
use super::schema::ContextInfo;
use crate::events::event::Event;
use analysis::error::Result;
use foldhash::HashMap;
use std::collections::BTreeMap;
use trace::api::effect::Work;
use trace::file::record::Timed;
use trace::read::device_times::known_number;

/// The numbers of one process's contexts and streams.
#[derive(Default)]
pub(super) struct Numbers {
    /// By their place in the order of work, which no other stream gets.
    streams: HashMap<usize, u32>,
    /// By handle, until they end.
    contexts: HashMap<u64, u32>,
    /// By device and number: that of the legacy default stream.
    told: BTreeMap<(u32, u32), Option<u32>>,
}

impl Numbers {
    pub(super) fn stream(&self, at: usize) -> Option<u32> {
        self.streams.get(&at).copied()
    }

    pub(super) fn context(&self, handle: u64) -> Option<u32> {
        self.contexts.get(&handle).copied()
    }

    /// The call gave a device this work.
    pub(super) fn work(&mut self, event: &Event, about: &Timed) {
        let (Some(context), Some(stream)) = (known_number(about.context), known_number(about.stream)) else { return };
        let null = self.told.entry((about.device, context)).or_default();
        // Nodes of graphs may be on streams of the driver's own, and some launches are on several.
        let work = event.call.function().and_then(trace::Function::work);
        let Some(at) = event.followed.put.filter(|_| about.node == 0 && work != Some(Work::KernelOnEach)) else {
            return;
        };
        let streams = &event.outstanding.streams;
        let of = streams.order.stream(at);
        self.streams.insert(at, stream);
        // Work of a green context counts as that of its parent.
        if !streams.contexts.is_green(of.context) {
            self.contexts.insert(of.context, context);
            *null = of.id.is_legacy().then_some(stream).or(*null);
        }
    }

    /// What has the handle from now on is another context.
    pub(super) fn ended(&mut self, event: &Event) {
        let ended = event.followed.ended.iter().filter_map(|ended| ended.context);
        ended.for_each(|context| _ = self.contexts.remove(&context));
    }
}

impl<S: Store> Nsys<'_, '_, S> {
    /// Contexts in which work was timed: of others no number is known.
    pub(super) fn contexts(&mut self) -> Result<()> {
        let told = std::mem::take(&mut self.numbers.told);
        for ((device, context), null) in told {
            self.rows.add_row(ContextInfo {
                nullStreamId: null.into(),
                vmId: (self.process.host as i64).into(),
                processId: self.trace.preamble.pid.into(),
                deviceId: known_number(device).into(),
                contextId: context.into(),
                ..ContextInfo::default()
            })?;
        }
        Ok(())
    }
}
