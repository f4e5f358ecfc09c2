//! Parameters, found by type and role at compile time.

use trace::Function;
use trace::api::roles::{Extent, Field, Role, Sibling};
use trace::api::types::{Form, Kind, Type};

/// The property by which a parameter is found.
#[derive(Clone, Copy)]
pub(super) enum Sought {
    Handle(Kind),
    HandedOut(Kind),
    /// The object or the memory that ends.
    Ending,
    /// Where the address of new memory is to stand.
    NewAddress,
    HostAddress,
    EntryPoint,
    Name,
    Flags,
}

/// The argument word of the first such parameter.
pub(super) const fn find(function: &Function, sought: Sought) -> Option<u8> {
    let found = match sought {
        Sought::Handle(kind) => function.handle(kind),
        Sought::HandedOut(kind) => function.hands_out(kind),
        _ => {
            let mut i = 0;
            while i < function.params.len() && !is(&function.params[i], sought) {
                i += 1;
            }
            if i < function.params.len() { Some(i) } else { None }
        }
    };
    match found {
        Some(index) => Some((function.params[index].offset / 8) as u8),
        None => None,
    }
}

const fn is(field: &Field, sought: Sought) -> bool {
    match (sought, field.role, field.ty.form) {
        (Sought::NewAddress, Role::Create(Extent::One), Form::Pointer(to)) => matches!(to.form, Form::Address),
        (Sought::Ending, Role::Destroy, _)
        | (Sought::HostAddress, Role::HostAddress, _)
        | (Sought::EntryPoint, Role::EntryPoint, _)
        | (Sought::Name, Role::Text, _)
        | (Sought::Flags, Role::Bits(_), _) => true,
        _ => false,
    }
}

/// The word of the first such parameter. That there is one the compiler finds out.
pub(super) const fn word(function: &Function, sought: Sought) -> u8 {
    match find(function, sought) {
        Some(word) => word,
        None => panic!("a line lacks the parameter of its effect"),
    }
}

pub(super) const fn word_of(function: &Function, at: Sibling) -> u8 {
    (function.params[at.0 as usize].offset / 8) as u8
}

pub(super) const fn holds_callback(ty: &Type) -> bool {
    let Form::Struct(fields) = ty.form else { return false };
    let mut i = 0;
    while i < fields.len() {
        match fields[i].role {
            Role::Callback => return true,
            Role::Union(_, members) => {
                let mut j = 0;
                while j < members.len() {
                    if holds_callback(members[j].1) {
                        return true;
                    }
                    j += 1;
                }
            }
            _ => {
                if holds_callback(fields[i].ty) {
                    return true;
                }
            }
        }
        i += 1;
    }
    false
}

/// Where a resource description that this parameter points to has the address of linear and of pitched
/// memory: first in its union.
pub(super) const fn address_offset(function: &Function, at: Sibling) -> Option<u8> {
    let Form::Pointer(to) = function.params[at.0 as usize].ty.form else { return None };
    let Form::Struct(fields) = to.form else { return None };
    let mut i = 0;
    while !matches!(fields[i].role, Role::Union(..)) {
        i += 1;
    }
    Some(fields[i].offset as u8)
}
