//! What recording a function takes, worked out from its table line at compile time.

use crate::hooks;
use trace::Function;
use trace::api::roles::{Class, Extent, Role};
use trace::api::table::is_flat;
use trace::api::types::Form;

/// What a wrapper must do beyond its words, worked out from the table at compile time.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Some parameter has to be read before the call.
    pub at_entry: bool,
    /// Some parameter needs more than a fixed number of bytes read after it.
    pub at_return: bool,
    /// Outputs of fixed size: argument word and bytes.
    pub outputs: [(u8, u8); 4],
    pub waits: bool,
}

pub const fn shape(function: &Function) -> Shape {
    let mut shape = Shape { at_entry: false, at_return: false, outputs: [(0, 0); 4], waits: false };
    let mut count = 0;
    let mut i = 0;
    while i < function.params.len() {
        let field = &function.params[i];
        match field.role {
            Role::InOut(_) | Role::Source(_) | Role::CopyHost(_) => {
                shape.at_entry = true;
                shape.at_return = true;
            }
            Role::In(_) if describes_copy(field.ty.form) => {
                shape.at_entry = true;
                shape.at_return = true;
            }
            Role::Out(Extent::One) | Role::Create(Extent::One) | Role::Volatile(Extent::One) if is_flat(field) => {
                if let Form::Pointer(to) = field.ty.form
                    && count < 4
                {
                    shape.outputs[count] = ((field.offset / 8) as u8, to.size as u8);
                    count += 1;
                } else {
                    shape.at_return = true;
                }
            }
            _ => {
                if !is_flat(field) {
                    shape.at_return = true;
                }
            }
        }
        i += 1;
    }
    if hooks::copies_unified(function) {
        shape.at_entry = true;
        shape.at_return = true;
    }
    shape.waits = matches!(function.class, Class::synchronize | Class::poll | Class::copy);
    shape
}

/// The host side of a copy may be pinned, and is then read before the call.
const fn describes_copy(form: Form) -> bool {
    let Form::Pointer(to) = form else { return false };
    let Form::Struct(fields) = to.form else { return false };
    let mut i = 0;
    while i < fields.len() {
        if matches!(fields[i].role, Role::CopyHost(_)) {
            return true;
        }
        i += 1;
    }
    false
}
