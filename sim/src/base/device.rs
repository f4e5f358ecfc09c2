//! The devices: their number and their properties.

use crate::abi::code::{Code, Result};
use crate::base::state::knobs;

pub(crate) const NAME: &str = "cutrace simulated device";
pub(crate) const DRIVER_VERSION: i32 = 13000;
pub(crate) const MULTIPROCESSORS: i32 = 16;
pub(crate) const MAX_THREADS: u32 = 1024;
pub(crate) const SHARED_PER_BLOCK: u32 = 48 << 10;
pub(crate) const SHARED_OPT_IN: u32 = 227 << 10;
pub(crate) const SHARED_PER_MULTIPROCESSOR: u32 = 228 << 10;
pub(crate) const THREADS_PER_MULTIPROCESSOR: u32 = 2048;
pub(crate) const BLOCKS_PER_MULTIPROCESSOR: u32 = 32;

pub(crate) fn check(device: i32) -> Result {
    if (0..knobs().devices).contains(&device) { Ok(()) } else { Err(Code::INVALID_DEVICE) }
}

/// Recognisable, different for every device, the same in every run.
pub(crate) fn uuid(device: i32) -> [u8; 16] {
    let mut uuid = *b"cutrace-sim-dev\0";
    uuid[15] = device as u8;
    uuid
}

pub(crate) fn pci_bus_id(device: i32) -> String {
    format!("0000:{:02X}:00.0", device + 1)
}

/// Attribute number to value. Numbers are those of CUdevice_attribute.
pub(crate) fn attribute(which: u32, device: i32) -> Result<i32> {
    check(device)?;
    Ok(match which {
        1..=3 => MAX_THREADS as i32,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65535,
        8 => SHARED_PER_BLOCK as i32,
        9 => 65536,
        10 => 32,
        11 => i32::MAX,
        12 | 82 => 65536,
        13 => 1_980_000,
        14 => 512,
        16 => MULTIPROCESSORS,
        // Overlap, mapped host memory, unified addressing, concurrent kernels, stream priorities, caches,
        // managed memory, preemption, host pointers of registered memory, stream memory operations,
        // cooperative launches, host registration, virtual memory, descriptors as handles, pools.
        15 | 19 | 31 | 41 | 78 | 79 | 80 | 83 | 89 | 90 | 91 | 92 | 93 | 94 | 95 | 99 | 102 | 113 | 115 | 122 | 123 => {
            1
        }
        21..=26 => 16384,
        27 | 28 | 42 => 32768,
        29 | 43 => 2048,
        30 => 512,
        32 => 1,
        33 => device + 1,
        36 => 2_619_000,
        37 => 6144,
        38 => 50 << 20,
        39 => THREADS_PER_MULTIPROCESSOR as i32,
        40 => 2,
        51 => 32,
        69..=72 => 1 << 27,
        75 => knobs().compute as i32 / 10,
        76 => knobs().compute as i32 % 10,
        81 => SHARED_PER_MULTIPROCESSOR as i32,
        87 => 2,
        97 => SHARED_OPT_IN as i32,
        106 => BLOCKS_PER_MULTIPROCESSOR as i32,
        111 => 1024,
        126 => 1,
        // No NUMA node.
        131 | 134 => -1,
        17..=149 => 0,
        _ => return Err(Code::INVALID_VALUE),
    })
}
