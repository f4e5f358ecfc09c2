//! CPU writes that begin or end within a word: only some bytes of a changed address are recorded.
//!
//! If that address is a different one here, those bytes alone mean nothing. The replay's word is converted
//! back to the recorded program's, changed there, and translated as a whole.

use crate::base::addresses::extent;
use crate::base::ranges::widen;
use crate::memory::words::{Layout, Words};
use crate::session::Session;
use std::borrow::Cow;
use std::ops::Range;

/// Bytes for the replay's memory, and the recorded address where they begin. `read`: what the replay has at
/// recorded addresses.
pub(crate) fn translated<'b>(
    session: &Session,
    at: u64,
    bytes: &'b [u8],
    read: impl FnOnce(&Range<u64>) -> Option<Vec<u8>>,
) -> (u64, Cow<'b, [u8]>, Words) {
    let (plain, words) = session.placement.to_live(Cow::Borrowed(bytes), Layout::dense(at));
    let range = extent(at, bytes.len());
    let wide = widen(range.clone(), 8);
    if range.end - at != bytes.len() as u64 || wide == range || !session.translation.has_moved() {
        return (at, plain, words);
    }
    let Some(mut now) = read(&wide) else { return (at, plain, words) };
    let mapped = session.translation.to_recorded(&now, Layout::dense(0), usize::MAX);
    let mut recorded = mapped.map_or_else(|| now.clone(), |(recorded, _)| recorded);
    let inside = (at - wide.start) as usize..(range.end - wide.start) as usize;
    recorded[inside.clone()].copy_from_slice(bytes);
    now[inside].copy_from_slice(&plain);
    let (whole, words_of_whole) = session.placement.to_live(Cow::Owned(recorded), Layout::dense(0));
    match *whole == *now {
        // No address at the edges: what is beside the bytes may be the device's.
        true => (at, plain, words),
        false => (wide.start, whole, words_of_whole),
    }
}
