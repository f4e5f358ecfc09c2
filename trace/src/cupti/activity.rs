//! CUPTI's activity records.
//!
//! The structs grow from version to version at their ends (CUpti_ActivityKernel9 to 13, Memcpy5 to 7, Memset4
//! to 5, MemcpyPtoP4, ExternalCorrelation); the fields read here lie at the same offsets in all of them. The
//! offsets were compared with offsetof in the headers of the releases below.

use crate::file::record::{Timed, timed};
use std::ffi::{CStr, c_char};

/// CUPTI_API_VERSION of the releases whose layouts are known: CUDA 12.1 to 12.9, and 13.0 to 13.5.
pub const KNOWN: [std::ops::RangeInclusive<u32>; 2] = [18..=28, 130_000..=130_599];

/// Kinds that are asked for. CONCURRENT_KERNEL leaves kernels to run side by side, and shows the nodes of
/// graphs one by one as long as GRAPH_TRACE is off.
pub const KINDS: [u32; 4] = [MEMCPY, MEMSET, CONCURRENT_KERNEL, MEMCPY2];
/// Of calls of the driver. There are none of EXTERNAL_CORRELATION without them.
pub const DRIVER: u32 = 4;
/// Of the numbers that whoever makes calls has given to them.
pub const EXTERNAL_CORRELATION: u32 = 39;

const MEMCPY: u32 = 1;
const MEMSET: u32 = 2;
const KERNEL: u32 = 3;
const CONCURRENT_KERNEL: u32 = 10;
const MEMCPY2: u32 = 22;

/// One activity record.
pub enum Record<'r> {
    /// Work on the device.
    Work(Activity<'r>),
    /// A call of the driver, and what it had been given as its number. The kind is a
    /// CUpti_ExternalCorrelationKind.
    Numbered {
        /// CUPTI's number of the call.
        correlation: u32,
        /// The CUpti_ExternalCorrelationKind of `number`.
        kind: u32,
        /// The number that was pushed before the call.
        number: u64,
    },
}

/// Work, with times on CUPTI's clock.
pub struct Activity<'r> {
    /// Times and details, in the form of a TIMED record.
    pub timed: Timed,
    /// CUPTI's number of the submitting call.
    pub correlation: u32,
    /// Mangled name of the kernel, if it is one.
    pub kernel: Option<&'r CStr>,
}

/// Fields of a record, by offset.
#[derive(Clone, Copy)]
struct Fields<'r>(&'r [u8]);

impl Fields<'_> {
    fn u8(self, at: usize) -> u8 {
        self.0[at]
    }

    fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.0[at..at + 2].try_into().expect("2 bytes"))
    }

    fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("4 bytes"))
    }

    fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("8 bytes"))
    }

    /// What all records have, from `start` on.
    fn times(self, timed: &mut Timed, start: usize) {
        (timed.start, timed.end) = (self.u64(start) as i64, self.u64(start + 8) as i64);
    }

    fn places(self, timed: &mut Timed, device: usize) {
        (timed.device, timed.context, timed.stream) = (self.u32(device), self.u32(device + 4), self.u32(device + 8));
    }
}

/// Bytes that are read of any record.
const LONGEST: usize = 152;

/// The record at `at`; None for a kind that tells nothing here.
///
/// # Safety
/// `at` is a record of a known version that CUPTI has just handed out. A kernel's name lives as long as CUPTI
/// does.
pub unsafe fn read<'r>(at: *const u8) -> Option<Record<'r>> {
    // SAFETY: every record begins with its kind.
    let kind = unsafe { at.cast::<u32>().read_unaligned() };
    let length = match kind {
        MEMCPY | MEMSET => 72,
        MEMCPY2 => 80,
        KERNEL | CONCURRENT_KERNEL => LONGEST,
        EXTERNAL_CORRELATION => 24,
        _ => return None,
    };
    // SAFETY: records of these kinds are at least as long in all known versions.
    let fields = Fields(unsafe { std::slice::from_raw_parts(at, length) });
    if kind == EXTERNAL_CORRELATION {
        let (correlation, kind, number) = (fields.u32(16), fields.u32(4), fields.u64(8));
        return Some(Record::Numbered { correlation, kind, number });
    }
    let mut timed = Timed { source: timed::CUPTI, ..Timed::BLANK };
    let (correlation, mut kernel) = match kind {
        MEMCPY | MEMCPY2 => {
            timed.what = timed::COPY;
            (timed.copy, timed.from, timed.to) = (fields.u8(4), fields.u8(5), fields.u8(6));
            timed.bytes = fields.u64(8);
            fields.times(&mut timed, 16);
            fields.places(&mut timed, 32);
            timed.node = fields.u64(if kind == MEMCPY { 64 } else { 72 });
            (fields.u32(if kind == MEMCPY { 44 } else { 60 }), None)
        }
        MEMSET => {
            (timed.what, timed.bytes) = (timed::FILL, fields.u64(8));
            fields.times(&mut timed, 16);
            fields.places(&mut timed, 32);
            timed.to = fields.u16(50) as u8;
            timed.node = fields.u64(64);
            (fields.u32(44), None)
        }
        _ => {
            timed.what = timed::KERNEL;
            fields.times(&mut timed, 16);
            fields.places(&mut timed, 40);
            timed.grid = [52, 56, 60].map(|at| fields.u32(at));
            timed.block = [64, 68, 72].map(|at| fields.u32(at));
            timed.registers = fields.u16(6).into();
            (timed.static_shared, timed.dynamic_shared) = (fields.u32(76), fields.u32(80));
            timed.local = fields.u32(84);
            timed.node = fields.u64(144);
            (fields.u32(92), Some(fields.u64(104) as *const c_char))
        }
    };
    // SAFETY: the caller vouches for the record, which holds the name's address.
    let kernel = kernel.take_if(|name| !name.is_null()).map(|name| unsafe { CStr::from_ptr(name) });
    Some(Record::Work(Activity { timed, correlation, kernel }))
}
