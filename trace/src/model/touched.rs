//! Copies and fills of memory that the host can reach: without a stream they are complete when the call
//! returns.

use crate::api::Function;
use crate::api::copies::{Place, place};
use crate::api::roles::{Role, Side};
use crate::api::types::Form;
use crate::read::call::{Call, When};

/// The memory that a copy or a fill reads and writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Touched {
    /// Whether the call itself tells that it is host memory.
    by_name: bool,
    /// Unified addresses, which may be of either; else 0.
    at: [u64; 2],
}

impl Touched {
    /// Reads the call's arguments, and the copy descriptor among them.
    pub fn from_call(call: &Call, function: &Function) -> Touched {
        let mut touched = Touched::default();
        for (at, param) in function.params.iter().enumerate() {
            let Some(word) = call.argument_of(at) else { continue };
            match (param.role, param.ty.form) {
                (Role::Source(_) | Role::Sink(_), _) => touched.by_name = true,
                (Role::Reads(_), _) => touched.at[Side::Source as usize] = word,
                (Role::Writes(_), _) => touched.at[Side::Destination as usize] = word,
                (Role::In(_), Form::Pointer(ty)) => {
                    let Some(descriptor) = call.memory(When::Entry, word, ty.size.into()) else { continue };
                    for side in [Side::Source, Side::Destination] {
                        match place(ty, &descriptor, side) {
                            Some(Place::Host) => touched.by_name = true,
                            Some(Place::Unified(address)) => touched.at[side as usize] = address,
                            None => {}
                        }
                    }
                }
                _ => {}
            }
        }
        // What the recorder has taken of it was in the host's reach.
        touched.by_name |= touched.at.iter().any(|at| *at != 0 && call.images_at(*at).next().is_some());
        touched
    }

    /// Whether any of it is known to be in the host's reach. `is_shared`: whether what lies at an address is.
    pub fn is_in_reach(self, is_shared: impl Fn(u64) -> bool) -> bool {
        self.by_name || self.at.into_iter().any(is_shared)
    }
}
