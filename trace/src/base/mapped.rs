//! The address ranges at which this process maps traces, for a SIGBUS handler, which must not take a lock.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

/// One that is over has the end 0, and is used again; none is ever freed.
struct Range {
    start: AtomicUsize,
    end: AtomicUsize,
    next: AtomicPtr<Range>,
}

static FIRST: AtomicPtr<Range> = AtomicPtr::new(null_mut());

/// A registered range of addresses, until this is dropped.
pub(crate) struct Mapped(&'static Range);

/// Taken, with no address in it yet.
const TAKEN: usize = 1;

impl Mapped {
    pub(crate) fn register(bytes: &[u8]) -> Mapped {
        let free = all().find(|range| range.end.compare_exchange(0, TAKEN, AcqRel, Relaxed).is_ok());
        let range = free.unwrap_or_else(|| {
            let made = Box::leak(Box::new(Range { start: 0.into(), end: TAKEN.into(), next: AtomicPtr::default() }));
            let mut first = FIRST.load(Acquire);
            loop {
                *made.next.get_mut() = first;
                match FIRST.compare_exchange_weak(first, made, AcqRel, Acquire) {
                    Ok(_) => return made,
                    Err(other) => first = other,
                }
            }
        });
        range.start.store(bytes.as_ptr().addr(), Release);
        range.end.store(bytes.as_ptr().addr() + bytes.len().max(TAKEN), Release);
        Mapped(range)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.0.end.store(0, Release);
    }
}

fn all() -> impl Iterator<Item = &'static Range> {
    // SAFETY: what is in the list lives for ever, and its `next` no longer changes.
    let mut next = unsafe { FIRST.load(Acquire).as_ref() };
    std::iter::from_fn(move || {
        let range = next?;
        // SAFETY: as above.
        next = unsafe { range.next.load(Acquire).as_ref() };
        Some(range)
    })
}

/// Whether a trace is mapped at this address. May be called by a signal's handler.
pub fn has(address: usize) -> bool {
    // Up to the end of its last page.
    all().any(|range| {
        let end = range.end.load(Acquire);
        end > TAKEN && (range.start.load(Acquire)..end.next_multiple_of(4096)).contains(&address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_known_while_it_is_mapped() {
        let bytes = vec![0; 3 * 4096];
        let address = bytes.as_ptr().addr();
        let mapped = Mapped::register(&bytes);
        assert!(has(address) && has(address + bytes.len() - 1));
        drop(mapped);
        assert!(!has(address + 4096));
        let (one, other) = (Mapped::register(&bytes[..4096]), Mapped::register(&bytes[8192..]));
        assert!(has(address) && has(address + 8192));
        drop((one, other));
        assert!(!has(address + 8192));
    }
}
