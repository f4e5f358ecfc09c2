//! Requests to Linux for large pages, for big tables with random access: they cause one fault per 2 MiB and
//! fit the processor's TLB.

/// Less is not worth a system call.
const MUCH: usize = 4 << 20;

const PAGE: usize = 4096;

/// An empty list with room for as many, if there is so much.
pub(crate) fn list<T>(room: usize) -> Vec<T> {
    let mut list = Vec::new();
    // It grows as it is filled, then.
    let _has_room = list.try_reserve_exact(room);
    prefer(list.as_ptr(), list.capacity());
    list
}

/// Memory that has not been touched yet is better had in large pages.
pub(crate) fn prefer<T>(at: *const T, count: usize) {
    let (begin, bytes) = ((at as usize).next_multiple_of(PAGE), count * size_of::<T>());
    let end = (at as usize + bytes) / PAGE * PAGE;
    if bytes >= MUCH {
        // SAFETY: a hint about pages that are wholly in an allocation of the caller's; what they hold stays as it
        // is, and a refusal changes nothing.
        unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_HUGEPAGE) };
    }
}
