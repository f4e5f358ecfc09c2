//! Variables of modules and libraries in managed memory: the CPU reads and writes them at the address that
//! the driver returns.

use crate::driver::queries::{self, Place};
use crate::host_memory::watch::Watch;
use crate::os::lock::Lock;
use crate::os::probe::handed_out;

/// The variables looked up so far.
#[derive(Default)]
pub(crate) struct Variables {
    managed: Lock<Vec<Variable>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Variable {
    start: u64,
    len: u64,
    /// With each of these it ends: the module or library, the module's library, the context, and, by its
    /// number, the device.
    owners: [u64; 4],
}

impl Variables {
    /// After one has been found. `words`: where its address and its length are to stand, either of which may
    /// be nowhere, its module or library, and its name.
    pub(crate) fn watch_variable(
        &self,
        in_library: bool,
        managed: bool,
        words: [u64; 4],
        library_of: impl Fn(u64) -> u64,
        watch: &Watch,
    ) {
        let [place, length, owner, name] = words;
        if place == 0 {
            return;
        }
        let start = handed_out(place);
        // Libraries hand out no others there, and before there is a context about which the driver could be
        // asked.
        if !managed && queries::place(start) != Place::Managed {
            return;
        }
        let len = match length {
            // The runtime of CUDA 13 does not ask.
            0 => queries::variable_length(in_library, managed, owner, name),
            _ => Some(handed_out(length)),
        };
        let Some(len) = len.filter(|len| *len > 0) else { return };
        let library = library_of(owner);
        let owners = [owner, library, queries::current_context(), queries::current_device().unwrap_or(u64::MAX)];
        let variable = Variable { start, len, owners };
        let mut managed = self.managed.lock();
        managed.retain(|other| other.start != start || *other == variable);
        if !managed.contains(&variable) {
            managed.push(variable);
        } else if watch.managed.find(start) == Some((start, len)) {
            return;
        }
        drop(managed);
        watch.managed_made(start, len);
    }

    /// The addresses of those that end with this module, library, context or device.
    pub(crate) fn owned(&self, owner: u64) -> Vec<u64> {
        let managed = self.managed.lock();
        managed.iter().filter(|variable| variable.owners.contains(&owner)).map(|variable| variable.start).collect()
    }

    /// After the call that was to end this owner, and that of its variables nothing is followed any more.
    /// Some are still there if it failed, or if the owner has others who keep it.
    pub(crate) fn owner_ended(&self, owner: u64, succeeded: bool, watch: &Watch) {
        let is_owned = |variable: &mut Variable| variable.owners.contains(&owner);
        let owned: Vec<Variable> = self.managed.lock().extract_if(.., is_owned).collect();
        for variable in owned {
            if queries::is_managed(variable.start).unwrap_or(!succeeded) {
                self.managed.lock().push(variable);
                watch.managed_made(variable.start, variable.len);
            }
        }
    }
}
