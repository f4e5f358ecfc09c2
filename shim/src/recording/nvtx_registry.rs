//! Names that programs register with NVTX: domains and strings, kept for the life of the process, whether or
//! not it records. A recording stores the meaning of a number when an annotation first needs it.
//!
//! Handles are numbers, so that a wrong one is an error instead of a fault. The same name is the same domain,
//! and the same string the same number, so that a program which registers in a loop does not use more memory
//! each time. No locks: a forked child would inherit one that another thread held.

use crate::os::guard::guarded;
use crate::os::text::Text;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use trace::file::record::annotated;

pub(crate) struct Registered {
    /// DOMAIN or TEXT.
    pub what: u8,
    /// The domain of a text.
    pub domain: u32,
    pub text: Box<[u8]>,
    /// The recording that has been told.
    pub told: AtomicU64,
    number: u32,
    next: AtomicPtr<Registered>,
}

/// The number of a domain whose handle is none of ours.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// By hash of what they are; never freed.
static KNOWN: [AtomicPtr<Registered>; 1024] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 1024];
static LAST: AtomicU32 = AtomicU32::new(0);

/// By number: each block holds twice as many as the one before it.
static BLOCKS: [AtomicPtr<AtomicPtr<Registered>>; 24] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 24];
const FIRST: u32 = 64;

pub(crate) fn named_domain(name: Text) -> u64 {
    number(annotated::DOMAIN, 0, name)
}

pub(crate) fn text(domain_handle: u64, text: Text) -> u64 {
    number(annotated::TEXT, domain(domain_handle), text)
}

/// The number of the domain with this handle.
#[inline]
pub(crate) fn domain(handle: u64) -> u32 {
    match handle {
        0 => 0,
        _ => find(handle).filter(|found| found.what == annotated::DOMAIN).map_or(UNKNOWN, |_| handle as u32),
    }
}

#[inline]
pub(crate) fn find(number: u64) -> Option<&'static Registered> {
    let (block, index) = place(u32::try_from(number).ok()?)?;
    let block = BLOCKS[block].load(Acquire);
    if block.is_null() {
        return None;
    }
    // SAFETY: a block has that many places, and lives as long as the process, as does what they point to.
    unsafe { (*block.add(index)).load(Acquire).as_ref() }
}

#[inline]
fn place(number: u32) -> Option<(usize, usize)> {
    let index = number.checked_sub(1)?;
    let block = (index / FIRST + 1).ilog2();
    ((block as usize) < BLOCKS.len()).then(|| (block as usize, (index - FIRST * ((1 << block) - 1)) as usize))
}

/// 0 if there is nothing to register, or no more room.
#[cold]
fn number(what: u8, domain: u32, text: Text) -> u64 {
    let mut number = 0;
    guarded(|| {
        let Some(text) = text.copied() else { return };
        let mut hasher = DefaultHasher::new();
        (what, domain, &text).hash(&mut hasher);
        let head = &KNOWN[hasher.finish() as usize % KNOWN.len()];
        let known = |from: *mut Registered| {
            // SAFETY: never freed.
            let mut next = unsafe { from.as_ref() };
            while let Some(found) = next {
                if (found.what, found.domain) == (what, domain) && *found.text == *text {
                    return found.number;
                }
                // SAFETY: never freed.
                next = unsafe { found.next.load(Acquire).as_ref() };
            }
            0
        };
        number = known(head.load(Acquire)).into();
        if number == 0 {
            number = add(head, what, domain, text.clone().into());
        }
    });
    number
}

/// Two threads that register the same at the same time may get two numbers for it.
fn add(head: &AtomicPtr<Registered>, what: u8, domain: u32, text: Box<[u8]>) -> u64 {
    let number = LAST.fetch_add(1, Relaxed).wrapping_add(1);
    let Some((block, index)) = place(number) else {
        LAST.store(u32::MAX / 2, Relaxed);
        return 0;
    };
    let len = (FIRST as usize) << block;
    let mut at = BLOCKS[block].load(Acquire);
    if at.is_null() {
        let fresh: Vec<AtomicPtr<Registered>> = (0..len).map(|_| AtomicPtr::default()).collect();
        let fresh = Box::into_raw(fresh.into_boxed_slice());
        let first = fresh.cast::<AtomicPtr<Registered>>();
        match BLOCKS[block].compare_exchange(std::ptr::null_mut(), first, AcqRel, Acquire) {
            Ok(_) => at = first,
            Err(other) => {
                // SAFETY: made above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(fresh) });
                at = other;
            }
        }
    }
    let (told, next) = (AtomicU64::new(0), AtomicPtr::new(head.load(Acquire)));
    let new = Box::into_raw(Box::new(Registered { what, domain, text, told, number, next }));
    // SAFETY: the block has that many places; `new` is never freed.
    unsafe {
        (*at.add(index)).store(new, Release);
        while let Err(other) = head.compare_exchange((*new).next.load(Relaxed), new, AcqRel, Acquire) {
            (*new).next.store(other, Relaxed);
        }
    }
    number.into()
}
