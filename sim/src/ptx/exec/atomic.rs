//! Atomic read-modify-write operations.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire};

use super::space::{Env, Place};
use super::thread::Thread;
use crate::ptx::alu::alu;
use crate::ptx::float::float;
use crate::ptx::inst::{Alu, Atomic, Float};
use crate::ptx::types::Type;

/// Applies `f` and gives the value before. `b` is the new value of a compare-and-swap.
pub(super) fn update(thread: &mut Thread, env: &mut Env<'_>, place: Place, f: Atomic, ty: Type, a: u64, b: u64) -> u64 {
    let next = |old| changed(f, ty, old, a, b);
    match place {
        // SAFETY: the address lies in a live, writable range whose guard is held, aligned for its size;
        // kernels of other streams may be updating it too.
        Place::Device(address) => unsafe {
            match ty.size() {
                2 => u64::from(
                    AtomicU16::from_ptr(address as *mut u16)
                        .fetch_update(AcqRel, Acquire, |old| Some(next(u64::from(old)) as u16))
                        .unwrap_or_else(|old| old),
                ),
                8 => AtomicU64::from_ptr(address as *mut u64)
                    .fetch_update(AcqRel, Acquire, |old| Some(next(old)))
                    .unwrap_or_else(|old| old),
                _ => u64::from(
                    AtomicU32::from_ptr(address as *mut u32)
                        .fetch_update(AcqRel, Acquire, |old| Some(next(u64::from(old)) as u32))
                        .unwrap_or_else(|old| old),
                ),
            }
        },
        Place::Shared(_) | Place::Stack(_) => {
            let old = thread.load(env, place, ty.size());
            thread.store(env, place, ty.size(), next(old));
            old
        }
    }
}

fn changed(f: Atomic, ty: Type, old: u64, a: u64, b: u64) -> u64 {
    let (old_number, limit) = (ty.truncate(old), ty.truncate(a));
    match f {
        Atomic::Add if ty.float() => float(Float::Add, ty, old, a, 0),
        Atomic::Min if ty.float() => float(Float::Min, ty, old, a, 0),
        Atomic::Max if ty.float() => float(Float::Max, ty, old, a, 0),
        Atomic::Add => alu(Alu::Add, ty, old, a, 0),
        Atomic::Min => alu(Alu::Min, ty, old, a, 0),
        Atomic::Max => alu(Alu::Max, ty, old, a, 0),
        Atomic::And => old & a,
        Atomic::Or => old | a,
        Atomic::Xor => old ^ a,
        Atomic::Exchange => a,
        Atomic::CompareSwap if old_number == limit => b,
        Atomic::CompareSwap => old,
        Atomic::Increment if old_number >= limit => 0,
        Atomic::Increment => old_number + 1,
        Atomic::Decrement if old_number == 0 || old_number > limit => limit,
        Atomic::Decrement => old_number - 1,
    }
}
