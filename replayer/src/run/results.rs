//! What launches make of host memory, which the program looks at without a copy: compared when it had waited for them.

use crate::check::payload;
use crate::check::report::Tally;
use crate::memory::words::Layout;
use crate::run::sinks::Sink;
use crate::run::world::World;
use crate::run::written::host;
use trace::Call;
use trace::api::copies::Region;
use trace::hash::Hash;

/// What agrees afterwards because nobody wrote there is no result.
pub fn before_launch(world: &World, launch: &Call) {
    for (address, len) in launch.looked_at() {
        let Some(live) = host(world, &(address..address.saturating_add(len))) else { continue };
        // SAFETY: the placement holds this memory until the end.
        let bytes = unsafe { std::slice::from_raw_parts(live as *const u8, len as usize) };
        world.before_launches.lock().insert((launch.number, address), Hash::of(bytes));
    }
}

/// After a call that waited, or that found work done.
pub fn after_wait(world: &World, call: &Call, tally: &mut Tally) {
    for (launch, image) in call.results() {
        let Some(live) = host(world, &(image.address..image.address.saturating_add(image.len))) else { continue };
        let Some(before) = world.before_launches.lock().remove(&(launch.number, image.address)) else { continue };
        if world.plan.shared.contains(&(call.number, launch.number, image.address)) {
            tally.unchecked_copies += 1;
            continue;
        }
        let region = Region {
            address: live,
            row_bytes: image.len,
            rows: 1,
            pitch: image.len,
            slices: 1,
            slice_pitch: image.len,
        };
        let sink = Sink {
            name: "mapped host memory",
            region,
            memory: None,
            expected: vec![(0, image.len, image.content)],
            words: Layout::dense(image.address),
            since: world.translation.now(),
        };
        // SAFETY: as above.
        let now = Hash::of(unsafe { std::slice::from_raw_parts(live as *const u8, image.len as usize) });
        let mut compared = Tally::default();
        payload::compare(world, call.number, &sink, &mut compared);
        if compared.divergences == 0 && now == before {
            continue;
        }
        tally.add(compared);
    }
}
