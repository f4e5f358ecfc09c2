//! Texture and surface objects are small numbers, which programs keep wherever they like: in structs, in tables in device memory.
//! Among other small numbers nobody could find them, so the replay's have to be the recorded ones.
//!
//! Which number the driver gives depends on what it has done with those of objects that are gone. So objects are made until one
//! has the right number, and the others go again.

use crate::call::driver::{id, result};
use crate::run::world::World;
use trace::{Call, Function};

/// The most that are made for the sake of one.
const MOST: usize = 4096;

/// After such a call succeeded: whether it made an object whose number is another one for good. `words`: its live arguments, of
/// which the first is where the number stands.
pub fn differs(world: &World, call: &Call, function: &'static Function, words: &[u64]) -> bool {
    let (name, destroy) = match function.name {
        "cuTexObjectCreate" => ("pTexObject", "cuTexObjectDestroy"),
        "cuSurfObjectCreate" => ("pSurfObject", "cuSurfObjectDestroy"),
        _ => return false,
    };
    let (Some(recorded), [place, ..]) = (call.output(name), words) else { return false };
    let place = *place as *mut u64;
    // SAFETY: the frame's memory for this output, which is alive and used by nobody else.
    let made = || unsafe { place.read() };
    let mut others = Vec::new();
    while made() != recorded && others.len() < MOST {
        // A number may come free only once what used its object has ended. To wait would break a capture under way.
        if others.is_empty()
            && made() > recorded
            && let Some(_none) = world.placement.captures.none()
        {
            // SAFETY: no arguments.
            let _ = unsafe { world.driver.ask("cuCtxSynchronize", &[]) };
        }
        others.push(made());
        // SAFETY: the arguments with which the call has just been made.
        if unsafe { world.driver.call(id(function), words) } != result::SUCCESS {
            break;
        }
    }
    let is_other = made() != recorded;
    if is_other {
        if !others.contains(&made()) {
            others.push(made());
        }
        // SAFETY: as above.
        unsafe { place.write(others.remove(0)) };
    }
    for other in others {
        // SAFETY: an object that was just made, which nothing uses.
        let _ = unsafe { world.driver.ask(destroy, &[other]) };
    }
    is_other
}
