//! Comparison of copies to the host with the recorded ones.

use crate::base::extent::{compare_numbers, extent};
use crate::base::parallel;
use crate::call::readback::Readback;
use crate::check::driver_addresses::Moves;
use crate::check::hint::strange_addresses;
use crate::session::Session;
use crate::tally::{Divergence, LaunchBefore, Tally, hex};
use std::borrow::Cow;
use std::cell::LazyCell;
use std::ops::Range;
use trace::base::hash::Hash;
use trace::read::call::Content;

/// A copy to the host that has finished. It counts as compared as far as there was something to compare it
/// with.
pub(crate) fn compare(session: &Session, call: u64, readback: &Readback, tally: &mut Tally) {
    if !session.verify {
        return;
    }
    // A range left out what made these bytes.
    if let Some(since) = session.trace.unknown_since
        && !session.plan.comparability.known_copies.contains(&call)
        && session.trace.call(call).is_some_and(|call| call.begin > since)
    {
        tally.not_compared(call);
        return;
    }
    let packed = packed(readback);
    let mut taught = 0;
    // Only if the bytes differ as they are.
    let mapped = LazyCell::new(|| {
        let moves = learn(session, readback, &packed);
        tally.words.learned += moves.count;
        taught = 8 * moves.words;
        session.translation.to_recorded(&packed, readback.words, readback.since)
    });
    let (mut compared, mut mapped_back) = (0, 0);
    let mut is_close = false;
    let differences = parallel::each(&readback.expected, packed.len(), |(offset, len, content)| {
        difference(session, content, packed.get(part(*offset, *len, packed.len()))?)
    });
    for ((offset, len, content), found) in readback.expected.iter().zip(differences) {
        let Some(mut found) = found else { continue };
        let part = part(*offset, *len, packed.len());
        let (live, len) = (&packed[part.clone()], part.len() as u64);
        if found.is_some()
            && let Some((mapped, words)) = &*mapped
        {
            found = difference(session, content, &mapped[part]).flatten();
            mapped_back = *words;
        }
        compared += len;
        let was = recorded(session, content);
        if let (Some(tolerance), Some(was), Some(_)) = (&session.tolerance, was, &found)
            && compare_numbers(tolerance, was, live).0
        {
            is_close = true;
            continue;
        }
        if found.is_some()
            && let Some(refused) = session.refused_before(call)
        {
            tally.add_dependent(call, refused);
            return;
        }
        if let (Some((at, expected, found)), Some(call)) = (found, session.trace.call(call)) {
            let found = found + &strange_addresses(session, &packed, readback.words).unwrap_or_default();
            // A hash covers its piece, and no more is known.
            let whole = readback.expected.len() == 1;
            let within = if whole { String::new() } else { format!(", bytes {offset} to {}", offset + len) };
            let what = format!("bytes copied to {}{within}", readback.name);
            let all = recorded_whole(session, readback).filter(|all| all.len() == packed.len());
            let (was, live) = all.as_deref().map_or((was, live), |all| (Some(all), &packed));
            tally.diverged(Divergence {
                offset: at.map(|at| offset + at),
                extent: Some(extent(was, live, session.tolerance.as_ref(), session.placement.fill)),
                launches: launches(session, call.number),
                ..Divergence::new(&call, &what, expected, found)
            });
            is_close = false;
            break;
        }
    }
    tally.words.results += mapped_back;
    if compared < packed.len() as u64 {
        tally.not_compared(call);
    }
    let compared = compared.saturating_sub(taught);
    if compared > 0 {
        tally.checked.copies += 1;
        tally.checked.bytes += compared;
        tally.checked.within_tolerance += u64::from(is_close);
        tally.compared.insert(call);
    }
}

/// All that was recorded of a result in several pieces, if each of them was.
fn recorded_whole(session: &Session, readback: &Readback) -> Option<Vec<u8>> {
    let is_cut = readback.expected.len() > 1;
    let pieces = readback.expected.iter().map(|(.., content)| recorded(session, content));
    is_cut.then(|| pieces.collect::<Option<Vec<&[u8]>>>()).flatten().map(|pieces| pieces.concat())
}

/// Which bytes an attachment is of. Its length field ends at 4 GiB; the hash of a longer copy covers all of
/// it.
fn part(offset: u64, len: u64, all: usize) -> Range<usize> {
    let len = if len == u32::MAX.into() { (all as u64).saturating_sub(offset) } else { len };
    offset as usize..offset.saturating_add(len) as usize
}

/// Looks in bytes that differ for addresses of the driver's own.
fn learn(session: &Session, readback: &Readback, packed: &[u8]) -> Moves {
    let mut moves = Moves::default();
    for (offset, len, content) in &readback.expected {
        let Some(was) = recorded(session, content).filter(|was| was.len() as u64 == *len) else { continue };
        readback.words.each(packed, |at, live| {
            let from = (at as u64).checked_sub(*offset).and_then(|from| was.get(from as usize..)?.first_chunk::<8>());
            if let Some(recorded) = from.map(|word| u64::from_le_bytes(*word)) {
                moves.learn(session, recorded, live);
            }
        });
    }
    moves
}

/// Where bytes differ from recorded content (nowhere if only a hash was recorded), and both, to be shown.
type Difference = (Option<u64>, String, String);

/// None if there is nothing to compare with.
fn difference(session: &Session, content: &Content, live: &[u8]) -> Option<Option<Difference>> {
    let by_hash = |hash: &Hash, late: bool| {
        let late = if late { ", recorded late" } else { "" };
        let expected = || format!("hash {hash} of {} bytes{late}", live.len());
        let found = || format!("hash {}, beginning with {}", Hash::compute(live), hex(live));
        (Hash::compute(live) != *hash).then(|| (None, expected(), found()))
    };
    let by_bytes = |recorded: &[u8]| {
        let first = recorded.iter().zip(live).position(|(was, is)| was != is)?;
        Some((Some(first as u64), hex(&recorded[first..]), hex(&live[first..])))
    };
    match content {
        Content::Bytes(recorded) => (recorded.len() == live.len()).then(|| by_bytes(recorded)),
        // A blob is named by its hash: that tells as much when the blob itself is lost.
        Content::Blob(hash) => match session.trace.blob(*hash) {
            Some(recorded) => (recorded.len() == live.len()).then(|| by_bytes(recorded)),
            None => Some(by_hash(hash, false)),
        },
        Content::Hash { hash, late } => Some(by_hash(hash, *late)),
        _ => None,
    }
}

/// The bytes that were recorded, if they were.
fn recorded<'a>(session: &'a Session, content: &'a Content) -> Option<&'a [u8]> {
    match *content {
        Content::Bytes(bytes) => Some(bytes),
        Content::Blob(hash) => session.trace.blob(hash),
        _ => None,
    }
}

/// The touched bytes of the readback, row behind row.
fn packed<'s>(readback: &'s Readback) -> Cow<'s, [u8]> {
    let region = readback.region;
    // SAFETY: the readback's own buffer, or host memory that the placement holds until the end.
    let span: &'s [u8] = unsafe { std::slice::from_raw_parts(region.address as *const u8, region.span() as usize) };
    if region.is_dense() {
        return Cow::Borrowed(span);
    }
    let rows = region.row_addresses().map(|row| {
        let at = (row - region.address) as usize;
        &span[at..at + region.row_bytes as usize]
    });
    Cow::Owned(rows.collect::<Vec<_>>().concat())
}

fn launches(session: &Session, call: u64) -> Vec<LaunchBefore> {
    let named = |number| {
        let call = session.trace.call(number)?;
        let kernel = call.named_kernel().map_or(call.name(), |kernel| &kernel.name).to_owned();
        Some(LaunchBefore { call: number, kernel })
    };
    session.plan.comparability.reach.writers(call).into_iter().filter_map(named).collect()
}
