//! Annotations, written into the lane of the thread that makes them: a time stamp and one small record, with
//! its text copied straight into the chunk.

use crate::os::generation;
use crate::os::guard::guarded;
use crate::os::text::Text;
use crate::recording::nvtx_registry::{self, Registered};
use crate::recording::range;
use crate::records::lane::{Lane, encode_at};
use std::sync::atomic::Ordering::*;
use trace::file::record::{self, ANNOTATION, ANNOTATION_SIZE, Annotation, HEAD, Head, OPTIONAL, annotated};

const CUT: &str = "texts of annotations beyond 64 KiB";
pub(crate) const FOREIGN: &str = "messages of annotations without registration";

pub(crate) fn add(lane: &Lane, mut about: Annotation, text: Text, mut trouble: Option<&'static str>) {
    if about.domain != 0 {
        nvtx_registry::find(about.domain.into()).into_iter().for_each(|domain| tell(lane, about.domain, domain));
    }
    if range::by_name() {
        guarded(|| range::annotated(&lane.recorder().range, lane.opening_range(), &about, || message(text)));
    }
    let (mut len, mut cut) = (0, false);
    match text {
        Text::Registered(handle) => match nvtx_registry::find(handle).filter(|found| found.what == annotated::TEXT) {
            Some(found) => {
                tell(lane, handle as u32, found);
                (about.message, about.registered) = (handle as u32, true);
            }
            None => trouble = Some(FOREIGN),
        },
        _ if text.is_none() => {}
        _ => {
            (len, cut) = text.len();
            about.message = len as u32 + 1;
        }
    }
    let size = ANNOTATION_SIZE + len.next_multiple_of(8);
    if lane.room() < size && !lane.refill(size) {
        return;
    }
    let head = Head { size: size as u32, kind: ANNOTATION, flags: OPTIONAL, function: 0 };
    // SAFETY: `size` bytes from the cursor are in the chunk, and only this thread writes there.
    unsafe {
        let at = lane.cursor();
        encode_at(at, &head);
        encode_at(at.add(HEAD), &about);
        if len != 0 {
            at.add(size - 8).cast::<u64>().write(0);
            text.copy(at.add(ANNOTATION_SIZE), len);
        }
        lane.commit(size);
    }
    for what in [trouble, cut.then_some(CUT)].into_iter().flatten() {
        lose(lane, what);
    }
}

/// Appends an annotation that was made before the recording began.
pub(crate) fn add_early(lane: &Lane, about: &Annotation, text: Option<&[u8]>, trouble: Option<&'static str>) {
    if about.domain != 0 {
        nvtx_registry::find(about.domain.into()).into_iter().for_each(|domain| tell(lane, about.domain, domain));
    }
    if about.registered {
        let number = about.message;
        nvtx_registry::find(number.into()).into_iter().for_each(|found| tell(lane, number, found));
    }
    if range::by_name() {
        let registered = || nvtx_registry::find(about.message.into()).map(|found| found.text.to_vec());
        range::annotated(&lane.recorder().range, lane.opening_range(), about, || {
            if about.registered { registered() } else { text.map(<[u8]>::to_vec) }
        });
    }
    lane.append(&whole(about, text));
    trouble.into_iter().for_each(|what| lose(lane, what));
}

#[cold]
fn message(text: Text) -> Option<Vec<u8>> {
    match text {
        Text::Registered(handle) => nvtx_registry::find(handle).map(|found| found.text.to_vec()),
        _ => text.copied(),
    }
}

/// Says what a number stands for, once a recording.
#[inline]
fn tell(lane: &Lane, number: u32, registered: &Registered) {
    let generation = generation::generation();
    if registered.told.load(Relaxed) != generation && registered.told.swap(generation, AcqRel) != generation {
        let &Registered { what, domain, .. } = registered;
        let about = Annotation { what, domain, subject: number.into(), ..Annotation::default() };
        guarded(|| lane.append(&whole(&about, Some(&registered.text))));
    }
}

#[cold]
fn lose(lane: &Lane, what: &'static str) {
    guarded(|| lane.lose(what));
}

#[cold]
fn whole(about: &Annotation, text: Option<&[u8]>) -> Vec<u8> {
    let mut about = *about;
    if let Some(text) = text {
        about.message = text.len() as u32 + 1;
    }
    let mut out = record::with_body(ANNOTATION, &about);
    out.extend_from_slice(text.unwrap_or_default());
    out.resize(out.len().next_multiple_of(8), 0);
    let size = (out.len() as u32).to_le_bytes();
    out[..4].copy_from_slice(&size);
    out
}
