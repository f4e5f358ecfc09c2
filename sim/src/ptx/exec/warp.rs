//! Exchanges between the lanes of a warp, once all participants have arrived.

use super::thread::{Offer, State, Thread};
use crate::ptx::inst::Warp;

/// Completes the exchanges whose lanes have all arrived. With `force`, whoever has arrived counts as all:
/// lanes that took another branch do not come. True if a thread can go on.
pub(super) fn resolve(warp: &mut [Thread], force: bool) -> bool {
    let alive = mask_of(warp, |t| t.state != State::Done);
    let mut progress = false;
    for lane in 0..warp.len() {
        let Some(offer) = waiting(&warp[lane]) else { continue };
        let same = mask_of(warp, |t| waiting(t).is_some_and(|o| o.f == offer.f && o.mask == offer.mask));
        let needed = offer.mask & alive;
        if needed & !same != 0 && !force {
            continue;
        }
        complete(warp, same & offer.mask | 1 << lane, offer);
        progress = true;
    }
    progress
}

fn mask_of(warp: &[Thread], test: impl Fn(&Thread) -> bool) -> u32 {
    warp.iter().enumerate().filter(|(_, t)| test(t)).fold(0, |mask, (lane, _)| mask | 1 << lane)
}

fn waiting(thread: &Thread) -> Option<Offer> {
    if thread.state == State::Warp { thread.offer } else { None }
}

fn complete(warp: &mut [Thread], lanes: u32, kind: Offer) {
    let offers: Vec<_> = warp.iter().map(waiting).collect();
    let members = || (0..warp.len()).filter(|lane| lanes >> lane & 1 == 1);
    let values: Vec<u64> = offers.iter().map(|o| o.map_or(0, |o| o.a)).collect();
    let mut results = vec![(0u64, false); warp.len()];
    for lane in members() {
        let Some(offer) = offers[lane] else { continue };
        results[lane] = match kind.f {
            Warp::Up | Warp::Down | Warp::Butterfly | Warp::Index => {
                let (source, inside) = shuffle_source(kind.f, lane as u32, offer.b, offer.clamp);
                let value = values.get(source as usize).copied().unwrap_or(offer.a);
                (value & 0xffff_ffff, inside)
            }
            Warp::All => (u64::from(members().all(|l| values[l] & 1 == 1)), false),
            Warp::Any => (u64::from(members().any(|l| values[l] & 1 == 1)), false),
            Warp::Uniform => (u64::from(members().all(|l| values[l] & 1 == values[lane] & 1)), false),
            Warp::Ballot => (members().filter(|l| values[*l] & 1 == 1).fold(0, |m, l| m | 1 << l), false),
            Warp::MatchAny(ty) => {
                (members().filter(|l| ty.truncate(values[*l] ^ values[lane]) == 0).fold(0, |m, l| m | 1 << l), false)
            }
            Warp::MatchAll(ty) => {
                let all = members().all(|l| ty.truncate(values[l] ^ values[lane]) == 0);
                (if all { u64::from(lanes) } else { 0 }, all)
            }
            Warp::Sync => (0, false),
            _ => (reduce(kind.f, kind.clamp == 1, members().map(|l| values[l] as u32)), false),
        };
    }
    for lane in (0..warp.len()).filter(|lane| lanes >> lane & 1 == 1) {
        let (Some(offer), (value, flag)) = (offers[lane], results[lane]) else { continue };
        let thread = &mut warp[lane];
        if let Some(d) = offer.d {
            thread.set(d, value);
        }
        if let Some(register) = offer.flag {
            thread.set(register, u64::from(flag));
        }
        thread.offer = None;
        thread.state = State::Running;
    }
}

/// The lane that a shuffle reads, and whether it lies in the segment. `clamp`: bits 0-4 the bound, 8-12 the
/// segment mask.
fn shuffle_source(f: Warp, lane: u32, by: u32, clamp: u32) -> (u32, bool) {
    let (bound, segment) = (clamp & 31, clamp >> 8 & 31);
    let first = lane & segment;
    let last = first | bound & !segment & 31;
    let (lane, by, last) = (lane as i32, (by & 31) as i32, last as i32);
    let (source, inside) = match f {
        Warp::Up => (lane - by, lane - by >= last),
        Warp::Down => (lane + by, lane + by <= last),
        Warp::Butterfly => (lane ^ by, lane ^ by <= last),
        _ => {
            let source = first as i32 | by & !(segment as i32);
            (source, source <= last)
        }
    };
    (if inside { source as u32 } else { lane as u32 }, inside)
}

fn reduce(f: Warp, signed: bool, values: impl Iterator<Item = u32>) -> u64 {
    let key = |v: u32| if signed { i64::from(v as i32) } else { i64::from(v) };
    let result = values.reduce(|x, y| match f {
        Warp::ReduceAdd => x.wrapping_add(y),
        Warp::ReduceMin => {
            if key(x) <= key(y) {
                x
            } else {
                y
            }
        }
        Warp::ReduceMax => {
            if key(x) >= key(y) {
                x
            } else {
                y
            }
        }
        Warp::ReduceAnd => x & y,
        Warp::ReduceOr => x | y,
        _ => x ^ y,
    });
    u64::from(result.unwrap_or(0))
}
