//! Devices that structures name by number: locations of memory, and access rights to it.

use crate::call::build::{Builder, FieldContext};
use std::mem::offset_of;
use trace::api::enums::CUmemLocationType;
use trace::api::structs::{CUmemAccessDesc, CUmemLocation};
use trace::api::types::{Form, Type, Typed};

/// Whether a value of this type may name a device.
pub(crate) fn names_devices(ty: &Type) -> bool {
    match ty.form {
        Form::Array(element, _) => names_devices(element),
        Form::Struct(fields) => {
            ty.name == CUmemLocation::TYPE.name || fields.iter().any(|field| names_devices(field.ty))
        }
        _ => false,
    }
}

impl Builder<'_, '_> {
    /// Puts the device that stands in for the recorded one into a [`CUmemLocation`] that begins at `base`.
    pub(crate) fn location(&mut self, base: u32, here: FieldContext) {
        let on_device = u64::from(CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE.0);
        let id = base + offset_of!(CUmemLocation, id) as u32;
        if here.load(base + offset_of!(CUmemLocation, r#type) as u32, 4) == Some(on_device) {
            let device = here.load(id, 4).unwrap_or(0) as i32;
            self.write(here, id, 4, self.session.objects.device(device) as u32 as u64);
        }
    }

    /// How many of these `count` descriptors are left in this buffer when each place is named once. Several
    /// recorded devices may be one here, which is to have what any of them was granted.
    pub(crate) fn accesses(&mut self, memory: usize, count: u64) -> u64 {
        const SIZE: usize = size_of::<CUmemAccessDesc>();
        const FLAGS: usize = offset_of!(CUmemAccessDesc, flags);
        let all = self.frame.memory[memory].bytes().chunks_exact(SIZE).take(count as usize);
        let mut left: Vec<(Vec<u8>, u32)> = Vec::new();
        for descriptor in all {
            let (place, flags) = descriptor.split_at(FLAGS);
            let flags = u32::from_le_bytes(flags.try_into().expect("the flags are its last word"));
            match left.iter_mut().find(|(of, _)| of == place) {
                // Reading and writing are a bit each.
                Some((_, granted)) => *granted |= flags,
                None => left.push((place.to_vec(), flags)),
            }
        }
        for (n, (place, flags)) in left.iter().enumerate() {
            self.frame.memory[memory].write(n * SIZE, place);
            self.frame.memory[memory].write(n * SIZE + FLAGS, &flags.to_le_bytes());
        }
        left.len() as u64
    }
}
