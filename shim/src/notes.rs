//! Annotations, written into the lane of the thread that makes them: a time stamp and one small record, its text copied
//! straight into the chunk.

use crate::lane::{self, Lane, put};
use crate::manners::guarded;
use crate::registered::{self, Registered};
use crate::{clock, early, generation, range};
use std::ffi::c_char;
use std::sync::atomic::Ordering::*;
use trace::record::{self, ANNOTATION, ANNOTATION_SIZE, Annotation, HEAD, Head, OPTIONAL, annotated};

/// A message as the program gives it. What it points to is read like a driver's string: NVTX's contract says that it is one.
#[derive(Clone, Copy)]
pub enum Text {
    None,
    Narrow(*const c_char),
    Wide(*const libc::wchar_t),
    /// By its handle.
    Registered(u64),
}

/// Bytes of a text that are kept.
const MOST: usize = 1 << 16;
const CUT: &str = "texts of annotations beyond 64 KiB";
pub const FOREIGN: &str = "messages of annotations that nobody registered";

/// Records an annotation, if this process records. `trouble`: what of it cannot be.
#[inline]
pub fn write(mut about: Annotation, text: Text, trouble: Option<&'static str>) {
    let records = lane::annotate(|lane| {
        about.time = clock::entry();
        add(lane, about, text, trouble);
    });
    if !records && generation::dormant() {
        early::keep(about, text, trouble);
    }
}

fn add(lane: &Lane, mut about: Annotation, text: Text, mut trouble: Option<&'static str>) {
    if about.domain != 0 {
        registered::find(about.domain.into()).into_iter().for_each(|domain| tell(lane, about.domain, domain));
    }
    if range::by_name() {
        guarded(|| range::annotated(lane, &about, || message(text)));
    }
    let (mut len, mut cut) = (0, false);
    match text {
        Text::Registered(handle) => match registered::find(handle).filter(|found| found.what == annotated::TEXT) {
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
        put(at, &head);
        put(at.add(HEAD), &about);
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
pub fn add_early(lane: &Lane, about: &Annotation, text: Option<&[u8]>, trouble: Option<&'static str>) {
    if about.domain != 0 {
        registered::find(about.domain.into()).into_iter().for_each(|domain| tell(lane, about.domain, domain));
    }
    if about.registered {
        let number = about.message;
        registered::find(number.into()).into_iter().for_each(|found| tell(lane, number, found));
    }
    if range::by_name() {
        let registered = || registered::find(about.message.into()).map(|found| found.text.to_vec());
        range::annotated(lane, about, || if about.registered { registered() } else { text.map(<[u8]>::to_vec) });
    }
    lane.append(&whole(about, text));
    trouble.into_iter().for_each(|what| lose(lane, what));
}

#[cold]
fn message(text: Text) -> Option<Vec<u8>> {
    match text {
        Text::Registered(handle) => registered::find(handle).map(|found| found.text.to_vec()),
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

impl Text {
    pub fn is_none(self) -> bool {
        match self {
            Text::None => true,
            Text::Narrow(at) => at.is_null(),
            Text::Wide(at) => at.is_null(),
            Text::Registered(_) => false,
        }
    }

    /// Bytes it takes as UTF-8, and whether there are more than are kept.
    #[inline]
    fn len(self) -> (usize, bool) {
        match self {
            Text::Narrow(at) => {
                // SAFETY: NVTX's contract: a C string.
                let len = unsafe { libc::strnlen(at, MOST + 1) };
                (len.min(MOST), len > MOST)
            }
            Text::Wide(at) => {
                let mut len = 0;
                // SAFETY: NVTX's contract: a wide C string.
                for c in unsafe { characters(at) } {
                    if len + c.len_utf8() > MOST {
                        return (len, true);
                    }
                    len += c.len_utf8();
                }
                (len, false)
            }
            _ => (0, false),
        }
    }

    /// Writes the first `len` bytes, as [`Text::len`] told them.
    ///
    /// # Safety
    /// There must be room for them. Another thread of the program may be changing the text: no more is written.
    unsafe fn copy(self, to: *mut u8, len: usize) {
        match self {
            // SAFETY: `strnlen` has found that many bytes there.
            Text::Narrow(at) => unsafe { std::ptr::copy_nonoverlapping(at.cast::<u8>(), to, len) },
            Text::Wide(at) => {
                let mut done = 0;
                // SAFETY: as in `len`; each character goes where the caller has room, or the copying ends.
                for c in unsafe { characters(at) } {
                    let mut utf8 = [0; 4];
                    let utf8 = c.encode_utf8(&mut utf8).as_bytes();
                    if done + utf8.len() > len {
                        break;
                    }
                    // SAFETY: within `len`.
                    unsafe { std::ptr::copy_nonoverlapping(utf8.as_ptr(), to.add(done), utf8.len()) };
                    done += utf8.len();
                }
            }
            _ => {}
        }
    }

    /// The text itself; not that of a registered one.
    #[cold]
    pub fn copied(self) -> Option<Vec<u8>> {
        if self.is_none() || matches!(self, Text::Registered(_)) {
            return None;
        }
        let (len, _) = self.len();
        let mut out = vec![0; len];
        // SAFETY: as long as that.
        unsafe { self.copy(out.as_mut_ptr(), len) };
        Some(out)
    }
}

/// The characters up to the nul; what is no character is shown as one that says so.
///
/// # Safety
/// `at` must be a wide C string as long as the iterator is used.
unsafe fn characters(at: *const libc::wchar_t) -> impl Iterator<Item = char> {
    // SAFETY: goes on only while no nul was found.
    let units = (0..).map(move |i| unsafe { at.add(i).read_unaligned() }).take_while(|unit| *unit != 0);
    units.map(|unit| char::from_u32(unit as u32).unwrap_or(char::REPLACEMENT_CHARACTER))
}
