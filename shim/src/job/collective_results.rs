//! Results of NCCL's operations, for `record --collectives`. They are copied when NCCL reports that it has
//! submitted the operation, on the thread that has just launched its kernel.

use crate::capture::step::{CallEntry, CallReturn};
use crate::driver::queries;
use crate::driver::queue::PER_THREAD;
use crate::job::collective_graphs;
use crate::os::guard::guarded;
use crate::readback::readback_queue::Deliveries;
use crate::records::lane::Lane;
use crate::submission::shape::Launch;
use crate::submission::target_stream;
use trace::Function;
use trace::file::record::nccl::{Began, DELIVERED, Delivered};
use trace::file::record::with_body;
use trace::read::collective::{CAPTURED, brings};

/// What NCCL tells next is of this launch, of which nothing is kept.
#[inline(always)]
pub(crate) fn left_out(call: CallEntry) {
    if call.site.shape.submits {
        call.lane.launched.set(None);
    }
}

pub(crate) fn behind_work(call: CallReturn) {
    let CallReturn { lane, site, words, sequence, .. } = call;
    if lane.recorder().keeps_collectives {
        guarded(|| note_launch(lane, site.function, site.shape.launch, words, sequence));
    }
}

/// Behind a call that has given a device work.
fn note_launch(lane: &Lane, function: &'static Function, launch: Option<Launch>, words: &[u64], call: u32) {
    let is_nccls = launch.is_some_and(|launch| lane.introduce(words[usize::from(launch.function)]).is_nccls);
    let stream = || match target_stream::stream(function, words).unwrap_or(0) {
        0 if function.twin_of.is_some() => PER_THREAD,
        stream => stream,
    };
    lane.launched.set(is_nccls.then(|| (call, stream())));
}

/// An operation was given to the device, of this rank among so many.
#[cold]
pub(crate) fn record_delivery(lane: &Lane, deliveries: &Deliveries, about: &Began, rank: i32, ranks: u32) {
    // NCCL gives the device nothing between the launch and this.
    let launched = lane.launched.get();
    let launch = launched.map(|(call, _)| (lane.index(), call));
    let told = |lost: String| {
        let delivered = Delivered { operation: about.operation, launch, lost, ..Delivered::default() };
        lane.append(&with_body(DELIVERED, &delivered));
    };
    let place = match brings(about, rank, ranks) {
        Ok(place) => place,
        Err(why) => return told(why),
    };
    let Some((_, stream)) = launched else {
        // A graph that holds it runs: NCCL tells it from a callback, which may call no driver.
        return told("it is part of a graph, or NCCL launched no kernel for it".into());
    };
    let (address, len) = (place.start, place.end - place.start);
    let delivered = Delivered { operation: about.operation, launch, address, len, ..Delivered::default() };
    if queries::is_capturing(stream, false) {
        let why = collective_graphs::captured(lane, &delivered, stream).err().unwrap_or(CAPTURED);
        return lane.append(&with_body(DELIVERED, &Delivered { lost: why.into(), ..delivered }));
    }
    if place.is_empty() {
        return told(String::new());
    }
    if let Err(why) = deliveries.take(&lane.recorder().around, delivered, stream) {
        told(why);
    }
}
