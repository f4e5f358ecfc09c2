//! Text that a program passes for an annotation.

use std::ffi::c_char;

/// A message from the program. Its pointer is read like a driver's string: NVTX's contract says that it is
/// one.
#[derive(Clone, Copy)]
pub(crate) enum Text {
    None,
    Narrow(*const c_char),
    Wide(*const libc::wchar_t),
    /// By its handle.
    Registered(u64),
}

/// Bytes of a text that are kept.
const MOST: usize = 1 << 16;

impl Text {
    pub(crate) fn is_none(self) -> bool {
        match self {
            Text::None => true,
            Text::Narrow(at) => at.is_null(),
            Text::Wide(at) => at.is_null(),
            Text::Registered(_) => false,
        }
    }

    /// Bytes it takes as UTF-8, and whether there are more than are kept.
    #[inline]
    pub(crate) fn len(self) -> (usize, bool) {
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
    /// There must be room for them. Another thread of the program may be changing the text: no more is
    /// written.
    pub(crate) unsafe fn copy(self, to: *mut u8, len: usize) {
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
    pub(crate) fn copied(self) -> Option<Vec<u8>> {
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
