//! Ids of texture and surface objects. They are small numbers, which programs store anywhere: in structs, in
//! tables in device memory. Among other small numbers they cannot be found for translation, so the replay's
//! must equal the recorded ones.
//!
//! The number that the driver returns depends on its use of the numbers of destroyed objects, and on time: it
//! takes numbers itself for copies to arrays in flight. Both kinds of objects share the numbers. So the first
//! object is made with as many others as the recording has numbers, and a number is freed only for the object
//! that is to have it: objects that the program destroys stay until then.
//!
//! This works as long as all numbers are in one block. The driver returns the free ones of a block, and once
//! that is full, those of others in turn: a number of a full block does not return for a long time
//! (tests/gpu/facts/texture_numbers.c). So in recordings with more numbers, objects are destroyed when the
//! program destroys them, and numbers mostly agree.

use crate::driver::{id, result};
use crate::session::Session;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::OnceLock;
use trace::api::roles::Field;
use trace::api::types::Kind;
use trace::{Call, Function, Trace};

/// How many numbers a block has, from 1.
const BLOCK: u64 = 64;
/// How many of them are left to the driver.
const LEFT: u64 = 8;
/// The most that are made for the sake of one.
const MOST: usize = 256;

/// Unused objects that reserve numbers, by context: the number and the kind of each.
#[derive(Default)]
pub(crate) struct ReservedIds {
    of: Mutex<HashMap<u64, HashMap<u64, Kind>>>,
    /// The highest recorded number.
    last: OnceLock<u64>,
}

impl ReservedIds {
    /// The context is gone, and all that was made in it.
    pub(crate) fn ended(&self, context: u64) {
        self.of.lock().remove(&context);
    }

    /// The highest recorded number, if all are of one block.
    fn of_a_block(&self, trace: &Trace) -> Option<u64> {
        let number = |call: Call| call.output(made_by(call.function()?)?.1.name).filter(|_| call.succeeded());
        let last = *self.last.get_or_init(|| trace.calls().filter_map(number).max().unwrap_or(0));
        Some(last).filter(|last| *last <= BLOCK - LEFT)
    }

    /// Before a call: whether it destroys an object that is to stay, as a spare.
    pub(crate) fn keeps(&self, session: &Session, function: &Function, words: &[u64]) -> bool {
        let Some(kind) = KINDS.into_iter().find(|kind| function.ends(*kind).is_some()) else { return false };
        if self.of_a_block(session.trace).is_none() {
            return false;
        }
        let mut spares = self.of.lock();
        // Of several contexts nobody knows whose object it is.
        let context = session.driver.current_context();
        let is_only = spares.len() == 1;
        spares.get_mut(&context).filter(|_| is_only).is_some_and(|spares| spares.insert(words[0], kind).is_none())
    }

    /// After such a call succeeded: whether it made an object whose number is another one for good. `words`:
    /// its live arguments, of which the first is where the number stands.
    pub(crate) fn differs(&self, session: &Session, call: &Call, function: &'static Function, words: &[u64]) -> bool {
        let (Some((kind, number)), [place, ..]) = (made_by(function), words) else { return false };
        let Some(recorded) = call.output(number.name) else { return false };
        let place = *place as *mut u64;
        // SAFETY: the frame's memory for this output, which is alive and used by nobody else.
        let made = || unsafe { place.read() };
        // SAFETY: the arguments with which the call has just been made.
        let again = || unsafe { session.driver.call(id(function), words) } == result::SUCCESS;
        let context = session.driver.current_context();
        // A number may come free only once what used its object has ended. To wait would break a capture
        // under way. Without the lock: a callback may wait for a thread that makes another.
        if made() != recorded
            && let Some(_none) = session.placement.captures.none()
        {
            // What has failed other calls will tell, too.
            let _ = session.driver.synchronize_context();
        }
        let last = self.of_a_block(session.trace);
        let mut all = self.of.lock();
        let is_first = !all.contains_key(&context);
        let spares = all.entry(context).or_default();
        let mut others = Vec::new();
        // Where it stands among the others.
        let mut own = None;
        loop {
            own = own.or((made() == recorded).then_some(others.len()));
            let is_enough = own.is_some() && !last.is_some_and(|last| is_first && made() < last);
            if is_enough || others.len() >= MOST {
                break;
            }
            if own.is_none()
                && let Some(kind) = spares.remove(&recorded)
            {
                // If it stays, the number is another one, which is counted.
                let _ = session.driver.destroy_object(kind, recorded);
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
            if last.is_some_and(|last| other <= last) {
                spares.insert(other, kind);
            } else {
                // One that stays costs a number that nobody has recorded.
                let _ = session.driver.destroy_object(kind, other);
            }
        }
        own.is_none()
    }
}

/// Kinds of such objects.
const KINDS: [Kind; 2] = [Kind::Texture, Kind::Surface];

/// The kind of objects that a function makes, and the parameter by which one comes; none if it makes others.
fn made_by(function: &'static Function) -> Option<(Kind, &'static Field)> {
    KINDS.into_iter().find_map(|kind| Some((kind, &function.params[function.hands_out(kind)?])))
}
