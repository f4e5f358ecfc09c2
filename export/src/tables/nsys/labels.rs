//! Lookup tables: the meanings of numbers in other tables.

use super::rows::{Rows, Store};
use super::schema::Table;
use analysis::error::Result;

/// Of a column that is one of these: number, name, label.
type Labels = &'static [(i64, &'static str, &'static str)];

/// Driver calls, by ENUM_NSYS_EVENT_CLASS.
pub(super) const DRIVER_CALL: i64 = 1;

pub(super) const DOMAIN_CREATED: i64 = 75;
pub(super) const CATEGORY: i64 = 33;
pub(super) const MARK: i64 = 34;
pub(super) const PUSHED: i64 = 59;
pub(super) const STARTED: i64 = 60;

pub(super) const ALLOCATED: i64 = 0;
pub(super) const FREED: i64 = 1;

pub(super) const REGULAR: i64 = 1;
pub(super) const COOPERATIVE: i64 = 2;

pub(super) const EVENT_SYNC: i64 = 1;
pub(super) const STREAM_WAIT: i64 = 2;
pub(super) const STREAM_SYNC: i64 = 3;
pub(super) const CONTEXT_SYNC: i64 = 4;

pub(super) const PINNED: i64 = 1;
pub(super) const DEVICE: i64 = 2;
pub(super) const ARRAY: i64 = 3;
pub(super) const MANAGED: i64 = 4;
const UNKNOWN: i64 = 7;

/// CUPTI counts kinds of memory from 1, and 0 is none.
pub(super) fn memory_kind(cupti: u8) -> i64 {
    match cupti {
        1..=7 => i64::from(cupti) - 1,
        _ => UNKNOWN,
    }
}

const ALL: [(Table, Labels); 7] = [
    (
        Table::CopyKinds,
        &[
            (0, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"),
            (1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
            (2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
            (3, "CUDA_MEMCPY_KIND_HTOA", "Host-to-Array"),
            (4, "CUDA_MEMCPY_KIND_ATOH", "Array-to-Host"),
            (5, "CUDA_MEMCPY_KIND_ATOA", "Array-to-Array"),
            (6, "CUDA_MEMCPY_KIND_ATOD", "Array-to-Device"),
            (7, "CUDA_MEMCPY_KIND_DTOA", "Device-to-Array"),
            (8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"),
            (9, "CUDA_MEMCPY_KIND_HTOH", "Host-to-Host"),
            (10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"),
        ],
    ),
    (
        Table::MemoryKinds,
        &[
            (0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"),
            (PINNED, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"),
            (DEVICE, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"),
            (ARRAY, "CUDA_MEMOPR_MEMORY_KIND_ARRAY", "Array"),
            (MANAGED, "CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"),
            (5, "CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC", "Device Static"),
            (6, "CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC", "Managed Static"),
            (UNKNOWN, "CUDA_MEMOPR_MEMORY_KIND_UNKNOWN", "Unknown"),
        ],
    ),
    (
        Table::MemoryOperations,
        &[
            (ALLOCATED, "CUDA_DEV_MEM_EVENT_OPR_ALLOCATION", "Allocation"),
            (FREED, "CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION", "Deallocation"),
        ],
    ),
    (
        Table::LaunchTypes,
        &[
            (0, "CUDA_KERNEL_LAUNCH_TYPE_UNKNOWN", "Unknown"),
            (REGULAR, "CUDA_KERNEL_LAUNCH_TYPE_REGULAR", "Regular"),
            (COOPERATIVE, "CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE", "Coop Single Device"),
        ],
    ),
    (
        Table::WaitTypes,
        &[
            (EVENT_SYNC, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync"),
            (STREAM_WAIT, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait sync"),
            (STREAM_SYNC, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"),
            (CONTEXT_SYNC, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync"),
        ],
    ),
    (
        Table::EventTypes,
        &[
            (CATEGORY, "NvtxCategory", "NvtxCategory"),
            (MARK, "NvtxMark", "NvtxMark"),
            (PUSHED, "NvtxPushPopRange", "NvtxPushPopRange"),
            (STARTED, "NvtxStartEndRange", "NvtxStartEndRange"),
            (DOMAIN_CREATED, "NvtxDomainCreate", "NvtxDomainCreate"),
        ],
    ),
    (Table::EventClasses, &[(DRIVER_CALL, "TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver")]),
];

pub(super) fn write(rows: &mut Rows<impl Store>) -> Result<()> {
    for (table, labels) in ALL {
        for (id, name, label) in labels {
            rows.label(table, [(*id).into(), (*name).into(), (*label).into()])?;
        }
    }
    Ok(())
}
