//! Attributes of pointers.

use super::table::{self, Kind, Range};
use crate::abi::code::{Code, Result};

/// An attribute's value, in the width that the header declares.
pub(crate) enum Value {
    Byte(u8),
    Word(u32),
    Long(u64),
}

const CONTEXT: u32 = 1;
const MEMORY_TYPE: u32 = 2;
const DEVICE_POINTER: u32 = 3;
const HOST_POINTER: u32 = 4;
const SYNC_MEMOPS: u32 = 6;
const BUFFER_ID: u32 = 7;
const IS_MANAGED: u32 = 8;
const DEVICE_ORDINAL: u32 = 9;
const IPC_CAPABLE: u32 = 10;
const RANGE_START: u32 = 11;
const RANGE_SIZE: u32 = 12;
const MAPPED: u32 = 13;
const HANDLE_TYPES: u32 = 14;
const RDMA_CAPABLE: u32 = 15;
const ACCESS_FLAGS: u32 = 16;
const POOL: u32 = 17;
const MAPPING_SIZE: u32 = 18;
const MAPPING_BASE: u32 = 19;
const BLOCK_ID: u32 = 20;
const DECOMPRESS_CAPABLE: u32 = 21;

/// One attribute of the memory around `address`.
pub(crate) fn get(which: u32, address: u64) -> Result<Value> {
    let range = table::find_live(address).ok_or(Code::INVALID_VALUE)?;
    range_attribute(which, address, &range)
}

/// As `get`, but with the values that cuPointerGetAttributes gives for memory that the driver does not know.
pub(crate) fn get_or_nothing(which: u32, address: u64) -> Result<Value> {
    match get(which, address) {
        Err(Code::INVALID_VALUE) if (CONTEXT..=DECOMPRESS_CAPABLE).contains(&which) => Ok(nothing(which)),
        other => other,
    }
}

fn nothing(which: u32) -> Value {
    match which {
        DEVICE_ORDINAL => Value::Word(-2i32 as u32),
        MEMORY_TYPE | SYNC_MEMOPS | ACCESS_FLAGS => Value::Word(0),
        IS_MANAGED | IPC_CAPABLE | MAPPED | RDMA_CAPABLE | DECOMPRESS_CAPABLE => Value::Byte(0),
        _ => Value::Long(0),
    }
}

fn range_attribute(which: u32, address: u64, range: &Range) -> Result<Value> {
    let host_reaches = range.kind.host() || range.kind.managed();
    Ok(match which {
        CONTEXT if matches!(range.kind, Kind::Mapped(_) | Kind::Pool(_)) => Value::Long(0),
        CONTEXT => Value::Long(range.context as u64),
        MEMORY_TYPE => Value::Word(if range.kind.host() { 1 } else { 2 }),
        DEVICE_POINTER => Value::Long(address),
        HOST_POINTER if host_reaches => Value::Long(address),
        HOST_POINTER => return Err(Code::INVALID_VALUE),
        SYNC_MEMOPS => Value::Word(0),
        BUFFER_ID => Value::Long(range.id),
        IS_MANAGED => Value::Byte(u8::from(range.kind.managed())),
        DEVICE_ORDINAL => Value::Word(range.device as u32),
        IPC_CAPABLE | RDMA_CAPABLE | DECOMPRESS_CAPABLE => Value::Byte(0),
        RANGE_START | MAPPING_BASE => Value::Long(range.start),
        RANGE_SIZE | MAPPING_SIZE => Value::Long(range.size),
        MAPPED => Value::Byte(1),
        HANDLE_TYPES => Value::Long(0),
        ACCESS_FLAGS => Value::Word(range.access.flags(None)),
        POOL => Value::Long(if let Kind::Pool(pool) = range.kind { pool as u64 } else { 0 }),
        BLOCK_ID => Value::Long(range.id),
        _ => return Err(Code::INVALID_VALUE),
    })
}
