//! The containers of a recorded call (its argument words, the structs passed to it), as the walk sees them.

use crate::api::roles::{Field, Role, Sibling};
use crate::api::walk::View;
use crate::read::call::Call;
use crate::read::call::When;

/// A container at one moment of the call.
pub struct Recorded<'c, 't> {
    /// The call whose memory it is.
    pub call: &'c Call<'t>,
    /// Bytes of the container.
    pub bytes: &'c [u8],
    /// The moment.
    pub when: When,
}

impl View for Recorded<'_, '_> {
    fn load(&self, offset: u32, size: u32) -> Option<u64> {
        load(self.bytes, offset, size)
    }

    fn read_word(&self, address: u64, size: u32) -> Option<u64> {
        load(&self.call.memory(self.when, address, size.into())?, 0, size)
    }
}

/// The first 8 bytes, at most, of a field: zero-extended.
pub fn load(bytes: &[u8], at: u32, size: u32) -> Option<u64> {
    let bytes = bytes.get(at as usize..(at + size.min(8)) as usize)?;
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}

/// Memory that came into being inside a struct (an allocation node): its address, and the length that stands
/// beside it.
pub fn made_in(fields: &[Field], bytes: &[u8]) -> Option<(u64, u64)> {
    let at = |field: &Field| load(bytes, field.offset, 8);
    fields.iter().find_map(|field| match field.role {
        Role::Allocated(Sibling(len)) => Some((at(field)?, at(fields.get(usize::from(len))?)?)),
        _ => None,
    })
}
