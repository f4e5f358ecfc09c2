//! Texture and surface objects are small numbers, which programs keep wherever they like: in structs, in tables in device memory.
//! Among other small numbers nobody could find them, so the replay's have to be the recorded ones.
//!
//! Which number the driver gives depends on what it has done with those of objects that are gone, and on when: it takes numbers
//! itself for copies to arrays while they are under way. So the first texture object is made with as many others as the
//! recording has numbers, and no number comes free but for the object that is to have it: what the program destroys stays until then.

use crate::call::driver::{id, result};
use crate::run::queue::current_context;
use crate::run::world::World;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;
use trace::{Call, Function, Trace};

/// The most that are made beforehand, and how many more for the sake of one: they stay, or what they free would be theirs to come later.
const MOST: u64 = 4096;
const MORE: u64 = 256;
const DESTROY: &str = "cuTexObjectDestroy";

/// Texture objects that nothing uses, by context.
#[derive(Default)]
pub struct Spares {
    of: Mutex<HashMap<u64, BTreeSet<u64>>>,
    /// The highest recorded number.
    last: OnceLock<u64>,
}

impl Spares {
    /// The context is gone, and all that was made in it.
    pub fn ended(&self, context: u64) {
        self.of.lock().remove(&context);
    }

    fn last(&self, trace: &Trace) -> u64 {
        let number = |call: Call| call.output(made_by(call.function()?)?).filter(|_| call.succeeded());
        *self.last.get_or_init(|| trace.calls().filter_map(number).max().unwrap_or(0))
    }
}

/// The parameter by which a function returns such an object, if it makes one.
fn made_by(function: &Function) -> Option<&'static str> {
    match function.name {
        "cuTexObjectCreate" => Some("pTexObject"),
        "cuSurfObjectCreate" => Some("pSurfObject"),
        _ => None,
    }
}

/// Before a call: whether it destroys a texture object that is to stay, as a spare.
pub fn keeps(world: &World, function: &Function, words: &[u64]) -> bool {
    if function.name != DESTROY {
        return false;
    }
    let mut spares = world.spares.of.lock();
    // Of several contexts nobody knows whose object it is.
    let context = current_context(world.driver);
    let is_only = spares.len() == 1;
    spares.get_mut(&context).filter(|_| is_only).is_some_and(|spares| spares.insert(words[0]))
}

/// After such a call succeeded: whether it made an object whose number is another one for good. `words`: its live arguments, of
/// which the first is where the number stands.
pub fn differs(world: &World, call: &Call, function: &'static Function, words: &[u64]) -> bool {
    let (Some(name), [place, ..]) = (made_by(function), words) else { return false };
    let Some(recorded) = call.output(name) else { return false };
    let place = *place as *mut u64;
    // SAFETY: the frame's memory for this output, which is alive and used by nobody else.
    let made = || unsafe { place.read() };
    // SAFETY: the arguments with which the call has just been made.
    let again = || unsafe { world.driver.call(id(function), words) } == result::SUCCESS;
    let is_texture = name == "pTexObject";
    let context = current_context(world.driver);
    // A number may come free only once what used its object has ended. To wait would break a capture under way. Without the lock:
    // a callback may wait for a thread that makes another.
    if made() != recorded
        && let Some(_none) = world.placement.captures.none()
    {
        // What has failed other calls will tell, too.
        // SAFETY: no arguments.
        let _ = unsafe { world.driver.ask("cuCtxSynchronize", &[]) };
    }
    let mut all = world.spares.of.lock();
    let is_first = is_texture && !all.contains_key(&context);
    let spares = all.entry(context).or_default();
    let mut others = Vec::new();
    // Where it stands among the others.
    let mut own = None;
    let is_it = |made: u64| made == recorded;
    let last = world.spares.last(world.trace).min(MOST);
    loop {
        own = own.or(is_it(made()).then_some(others.len()));
        let is_enough = own.is_some() && !(is_first && made() < last);
        if is_enough || others.len() as u64 > last + MORE {
            break;
        }
        if own.is_none() && spares.remove(&recorded) {
            // If it stays, the number is another one, which is counted.
            // SAFETY: an object that nothing uses any more.
            let _ = unsafe { world.driver.ask(DESTROY, &[recorded]) };
        }
        others.push(made());
        if !again() {
            break;
        }
    }
    if !others.contains(&made()) {
        others.push(made());
    }
    let taken = others.remove(own.unwrap_or(0));
    // SAFETY: as above.
    unsafe { place.write(taken) };
    for other in others {
        if is_texture {
            spares.insert(other);
        } else {
            // One that stays costs a number that nobody has recorded.
            // SAFETY: an object that was just made, which nothing uses.
            let _ = unsafe { world.driver.ask("cuSurfObjectDestroy", &[other]) };
        }
    }
    own.is_none()
}
