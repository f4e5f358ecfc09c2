//! Stream operations that write a word in memory or wait for one.

use super::declare::entries;
use crate::abi::code::{Code, Result};
use crate::abi::{DevicePointer, Handle, Input, NullStream};
use crate::memory::table;
use crate::streams::stream;
use crate::streams::work::{Wait, Work};

/// The comparisons, and that remote writes be flushed.
const WAIT_FLAGS: u32 = 3 | 1 << 30;

fn submit(work: Work, at: u64, size: u64, hstream: Handle, null: NullStream) -> Result {
    let stream = stream::find(hstream, null)?;
    stream.context()?.check()?;
    if !at.is_multiple_of(size) || !table::read().covers(at, size, false) {
        return Err(Code::INVALID_VALUE);
    }
    stream.submit(work, Vec::new()).map(drop)
}

fn write(hstream: Handle, at: u64, value: u64, wide: bool, flags: u32, null: NullStream) -> Result {
    if flags > 1 {
        return Err(Code::INVALID_VALUE);
    }
    submit(Work::WriteValue { at, value, wide }, at, if wide { 8 } else { 4 }, hstream, null)
}

fn wait(hstream: Handle, at: u64, value: u64, wide: bool, flags: u32, null: NullStream) -> Result {
    if flags & !WAIT_FLAGS != 0 {
        return Err(Code::INVALID_VALUE);
    }
    submit(Work::WaitValue(Wait { at, value, wide, flags }), at, if wide { 8 } else { 4 }, hstream, null)
}

/// One element of a batch: waits, writes; nothing for a barrier, as memory is in order here. `words` is the
/// union, eight bytes each.
pub(super) fn work(words: [u64; 6]) -> Result<Option<Work>> {
    let [operation, at, value, flags, ..] = words;
    let (wide, flags) = (operation as u32 >= 4, flags as u32);
    let value = if wide { value } else { u64::from(value as u32) };
    match operation as u32 {
        1 | 4 if flags & !WAIT_FLAGS == 0 => Ok(Some(Work::WaitValue(Wait { at, value, wide, flags }))),
        2 | 5 if flags <= 1 => Ok(Some(Work::WriteValue { at, value, wide })),
        3 | 6 => Ok(None),
        _ => Err(Code::INVALID_VALUE),
    }
}

fn batched(hstream: Handle, words: [u64; 6], null: NullStream) -> Result {
    match work(words)? {
        Some(work) => submit(work, words[1], if words[0] as u32 >= 4 { 8 } else { 4 }, hstream, null),
        None => Ok(()),
    }
}

fn batch(hstream: Handle, count: u32, operations: Input<[u64; 6]>, flags: u32, null: NullStream) -> Result {
    if flags != 0 || count > 256 {
        return Err(Code::INVALID_VALUE);
    }
    let all = operations.all(count as usize)?;
    all.into_iter().try_for_each(|words| batched(hstream, words, null))
}

entries! {
    fn cuStreamBatchMemOp / cuStreamBatchMemOp_ptsz [null] (
        hstream: Handle, count: u32, operations: Input<[u64; 6]>, flags: u32,
    ) {
        batch(hstream, count, operations, flags, null)
    }

    fn cuStreamBatchMemOp_v2 / cuStreamBatchMemOp_v2_ptsz [null] (
        hstream: Handle, count: u32, operations: Input<[u64; 6]>, flags: u32,
    ) {
        batch(hstream, count, operations, flags, null)
    }

    fn cuStreamWriteValue32 / cuStreamWriteValue32_ptsz [null] (
        hstream: Handle, at: DevicePointer, value: u32, flags: u32,
    ) {
        write(hstream, at, value.into(), false, flags, null)
    }

    fn cuStreamWriteValue32_v2 / cuStreamWriteValue32_v2_ptsz [null] (
        hstream: Handle, at: DevicePointer, value: u32, flags: u32,
    ) {
        write(hstream, at, value.into(), false, flags, null)
    }

    fn cuStreamWriteValue64 / cuStreamWriteValue64_ptsz [null] (
        hstream: Handle, at: DevicePointer, value: u64, flags: u32,
    ) {
        write(hstream, at, value, true, flags, null)
    }

    fn cuStreamWriteValue64_v2 / cuStreamWriteValue64_v2_ptsz [null] (
        hstream: Handle, at: DevicePointer, value: u64, flags: u32,
    ) {
        write(hstream, at, value, true, flags, null)
    }

    fn cuStreamWaitValue32 / cuStreamWaitValue32_ptsz [null] (
        hstream: Handle, at: DevicePointer, value: u32, flags: u32,
    ) {
        wait(hstream, at, value.into(), false, flags, null)
    }

    fn cuStreamWaitValue32_v2 / cuStreamWaitValue32_v2_ptsz [null] (
        hstream: Handle, at: DevicePointer, value: u32, flags: u32,
    ) {
        wait(hstream, at, value.into(), false, flags, null)
    }

    fn cuStreamWaitValue64 / cuStreamWaitValue64_ptsz [null] (
        hstream: Handle, at: DevicePointer, value: u64, flags: u32,
    ) {
        wait(hstream, at, value, true, flags, null)
    }

    fn cuStreamWaitValue64_v2 / cuStreamWaitValue64_v2_ptsz [null] (
        hstream: Handle, at: DevicePointer, value: u64, flags: u32,
    ) {
        wait(hstream, at, value, true, flags, null)
    }
}
