//! The source and destination of a copy or fill: read before the call, when anything it names may be bad, or
//! after it.

use crate::driver::queries::{self, Place};
use crate::in_flight::landing_range::Landing;
use crate::os::probe::{bytes_at, word_at};
use crate::recording::recorder;
use crate::records::lane::Lane;
use std::ops::Range;
use trace::Function;
use trace::api::copies::{device_region, region};
use trace::api::roles::{Role, Side};
use trace::api::types::{Form, Type};
use trace::api::walk::{Target, View, reach, resolve};

/// More copies than this in one call are not looked at one by one.
const MOST: u64 = 1 << 16;

/// The sources and destinations that a call itself names: in arguments, in structs, in arrays of addresses.
/// Memory is read only once.
pub(crate) struct Ends<'c> {
    lane: &'c Lane,
    function: &'static Function,
    words: &'c [u64],
    /// The structs that say what is copied, both sides of it.
    structs: Vec<(&'static Type, Vec<u8>)>,
    /// The copies of a batch that is given as arrays, side by side: where, and how many bytes.
    sources: Vec<(u64, u64)>,
    destinations: Vec<(u64, u64)>,
}

impl<'c> Ends<'c> {
    /// `place`: where memory is read that the call says something in, by address and length.
    pub(crate) fn find(
        lane: &'c Lane,
        function: &'static Function,
        words: &'c [u64],
        place: impl Fn(u64, u64) -> u64,
    ) -> Ends<'c> {
        let each = |side| each(function, words, side, &place);
        let (sources, destinations) = (each(Side::Source), each(Side::Destination));
        Ends { lane, function, words, structs: structs(function, words, &place), sources, destinations }
    }

    /// Memory shared with the device that is read, or written; other memory that is written, if graphs have
    /// copied to such.
    pub(crate) fn places(&self, side: Side) -> Vec<Range<u64>> {
        let any = side == Side::Destination && self.lane.recorder().destinations.any();
        let concerns = |address, len| any || self.lane.recorder().shares(address, len);
        let of_side = |role: &Role| match side {
            Side::Source => matches!(role, Role::Reads(_) | Role::Source(_)),
            Side::Destination => matches!(role, Role::Writes(_) | Role::Sink(_)),
        };
        let flat = argument_landings(self.function, self.words, of_side, concerns);
        let rows = self.structs.iter().filter_map(|(to, one)| {
            // Of an array's, at most: the handle may be anything yet.
            let region = region(to, one, side, |_| Some(16)).or_else(|| device_region(to, one, side))?;
            concerns(region.address, region.span()).then_some(Landing::Rows(region))
        });
        let batch = if side == Side::Source { &self.sources } else { &self.destinations };
        let is_memory = |address: u64, len| address.checked_add(len).is_some();
        let batch = batch.iter().filter(|(address, len)| is_memory(*address, *len) && concerns(*address, *len));
        let batch = batch.map(|(address, len)| Landing::Flat { address: *address, len: *len });
        flat.chain(rows).chain(batch).flat_map(Landing::places).collect()
    }

    /// Where structs name sources by device addresses, and all copies managed memory: that is watched, what
    /// else they read is recorded with the call.
    pub(crate) fn watched_sources(&self) -> Vec<u64> {
        let of_device = self.structs.iter().filter_map(|(to, one)| Some(device_region(to, one, Side::Source)?.address));
        let mut watched: Vec<u64> = of_device.collect();
        let managed = &self.lane.recorder().watch.managed;
        if managed.any() {
            let of_host = self.structs.iter().filter_map(|(to, one)| region(to, one, Side::Source, |_| Some(1)));
            let of_host = of_host.map(|region| region.address);
            let of_batch = self.sources.iter().map(|(address, _)| *address);
            let all = self.words.iter().copied().chain(of_batch).chain(of_host);
            watched.extend(all.filter(|address| managed.find(*address).is_some()));
        }
        watched
    }

    /// Host memory that structs and arrays name as destinations: where it begins, and bytes up to its end.
    pub(crate) fn host_destinations(&self) -> impl Iterator<Item = (u64, u64)> {
        // Of an array's, at most: the handle may be anything yet.
        let rows = self.structs.iter().filter_map(|(to, one)| region(to, one, Side::Destination, |_| Some(16)));
        rows.map(|region| (region.address, region.span())).chain(self.destinations.iter().copied())
    }

    /// Whether the CPU may be had to make this copy to host memory: of use only where something is watched.
    pub(crate) fn is_by_cpu(&self) -> bool {
        self.lane.recorder().watch.any() && self.reads_host()
    }

    /// Whether what it copies lies in host memory.
    pub(crate) fn reads_host(&self) -> bool {
        let pinned = &self.lane.recorder().around.pinned;
        let names_host = self.function.params.iter().any(|param| {
            let word = self.words[param.offset as usize / 8];
            match param.role {
                Role::Source(_) => true,
                Role::Reads(_) => {
                    pinned.find(word).is_some()
                        || self.function.copies_unified() && queries::place(word) == Place::Pageable
                }
                _ => false,
            }
        });
        names_host
            || self.sources.iter().any(|(address, _)| pinned.find(*address).is_some())
            // The driver is not asked about all of them.
            || self.sources.first().is_some_and(|(address, _)| queries::place(*address) == Place::Pageable)
            || self.structs.iter().any(|(to, one)| copies_host(to, one))
    }
}

fn structs(
    function: &'static Function,
    words: &[u64],
    place: impl Fn(u64, u64) -> u64,
) -> Vec<(&'static Type, Vec<u8>)> {
    let described = function.params.iter().enumerate().filter_map(|(index, param)| {
        let Form::Pointer(to) = param.ty.form else { return None };
        if !describes(to) {
            return None;
        }
        let Target::Span { address, count, .. } = resolve(function.params, index, 0, &Words(words)) else {
            return None;
        };
        let size = to.size as usize;
        let read = || bytes_at(place(address, count * u64::from(to.size)), count as usize * size, true);
        let all = (count <= MOST).then(read).flatten()?;
        Some(all.chunks_exact(size).map(|one| (to, one.to_vec())).collect::<Vec<_>>())
    });
    described.flatten().collect()
}

fn each(function: &'static Function, words: &[u64], side: Side, place: impl Fn(u64, u64) -> u64) -> Vec<(u64, u64)> {
    let batch = function.params.iter().find_map(|param| match (param.role, side) {
        (Role::ReadsEach { count, sizes }, Side::Source) | (Role::WritesEach { count, sizes }, Side::Destination) => {
            Some((param.offset, count, sizes))
        }
        _ => None,
    });
    let Some((offset, count, sizes)) = batch else { return Vec::new() };
    let word = |offset: u32| words[offset as usize / 8];
    let [count, sizes] = [count, sizes].map(|which| word(function.params[which.0 as usize].offset));
    let read = |address| bytes_at(place(address, count * 8), count as usize * 8, true);
    let list = |address| if count <= MOST { read(address) } else { None };
    let (Some(addresses), Some(sizes)) = (list(word(offset)), list(sizes)) else { return Vec::new() };
    let words = |bytes: &[u8]| {
        let each = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
        each.collect::<Vec<_>>()
    };
    words(&addresses).into_iter().zip(words(&sizes)).collect()
}

/// Whether what it copies stands in memory: in structs, or as arrays of addresses.
pub(crate) fn describes_copies(function: &Function) -> bool {
    function.params.iter().any(|param| match (param.role, param.ty.form) {
        (Role::ReadsEach { .. } | Role::WritesEach { .. }, _) => true,
        (_, Form::Pointer(to)) => describes(to),
        _ => false,
    })
}

/// Whether these are structs that say what is copied.
pub(crate) const fn describes(ty: &Type) -> bool {
    let Form::Struct(fields) = ty.form else { return false };
    let mut i = 0;
    while i < fields.len() {
        if matches!(fields[i].role, Role::CopyHost(_)) {
            return true;
        }
        i += 1;
    }
    false
}

/// Whether a copy like this has its source in host memory.
pub(crate) fn copies_host(ty: &Type, descriptor: &[u8]) -> bool {
    let from = || device_region(ty, descriptor, Side::Source);
    region(ty, descriptor, Side::Source, |_| None).is_some()
        || from().is_some_and(|from| recorder::recorder().around.pinned.find(from.address).is_some())
}

/// Memory shared with the device that arguments of this role name by its device address.
pub(crate) fn reached(
    lane: &Lane,
    function: &'static Function,
    words: &[u64],
    of: impl Fn(&Role) -> bool,
) -> impl Iterator<Item = Landing> {
    argument_landings(function, words, of, |address, len| lane.recorder().shares(address, len))
}

/// Memory that arguments of this role name, if it `concerns` us.
fn argument_landings(
    function: &'static Function,
    words: &[u64],
    of: impl Fn(&Role) -> bool,
    concerns: impl Fn(u64, u64) -> bool,
) -> impl Iterator<Item = Landing> {
    function.params.iter().enumerate().filter_map(move |(index, param)| {
        let address = words[param.offset as usize / 8];
        let is_met = of(&param.role) && concerns(address, 1);
        let len = is_met.then(|| reach(function.params, index, 0, &Words(words))).flatten()?;
        address.checked_add(len).map(|_| Landing::Flat { address, len })
    })
}

/// A call's argument words, as a container for the walk.
pub(crate) struct Words<'w>(pub &'w [u64]);

impl View for Words<'_> {
    fn load(&self, offset: u32, size: u32) -> Option<u64> {
        let word = self.0.get(offset as usize / 8)?;
        Some(if size < 8 { word & ((1 << (size * 8)) - 1) } else { *word })
    }

    fn read_word(&self, address: u64, size: u32) -> Option<u64> {
        word_at(address, size, true)
    }
}
