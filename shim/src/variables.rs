//! Variables of modules and libraries that lie in managed memory: the CPU reads and writes them at the address that the driver hands out.

use crate::ask::{self, Place};
use crate::hooks::handed_out;
use crate::lock::Lock;
use crate::start;

/// Looked up so far, each with the module or library that has it.
#[derive(Default)]
pub struct Variables {
    managed: Lock<Vec<(u64, u64)>>,
}

impl Variables {
    /// After this function has found one. `words`: where its address and its length are to stand, either of which may be nowhere, its
    /// module or library, and its name.
    pub fn found(&self, function: &'static str, words: &[u64]) {
        let [place, length, owner, name, ..] = *words else { return };
        if place == 0 {
            return;
        }
        let start = handed_out(place);
        // Libraries hand out no others there, and before there is a context about which the driver could be asked.
        if function != "cuLibraryGetManaged" && ask::place(start) != Place::Managed {
            return;
        }
        let len = match length {
            // The runtime of CUDA 13 does not ask.
            0 => ask::variable_length(function, owner, name),
            _ => Some(handed_out(length)),
        };
        let Some(len) = len.filter(|len| *len > 0) else { return };
        let mut managed = self.managed.lock();
        if !managed.contains(&(owner, start)) {
            managed.push((owner, start));
            start::recorder().watch.managed_made(start, len);
        }
    }

    /// The addresses of those that end with this module or library.
    pub fn owner_ends(&self, owner: u64) -> Vec<u64> {
        self.managed.lock().extract_if(.., |(of, _)| *of == owner).map(|(_, start)| start).collect()
    }
}
