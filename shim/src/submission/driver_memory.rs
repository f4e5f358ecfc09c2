//! The driver's own memory that it shows to the program: the arguments of a node, the dependencies of a
//! capture. The program may pass it to a call that changes the object it belongs to, and the driver may free,
//! move or overwrite it within that call.
//!
//! The table shows which inputs may lie in such memory: some function returns memory of this type, of an
//! object of this kind, and the call names such an object. They are read before the call, like memory that a
//! call overwrites (`overlap.rs`), and with care, since the driver has not accepted them.

use crate::submission::overlap::leads_on;
use trace::Function;
use trace::api::FUNCTIONS;
use trace::api::roles::{Class, Field, Role};
use trace::api::table::same;
use trace::api::types::{Form, Type};

/// The parameters, a bit each, whose inputs the call may free: a call that only asks frees nothing.
pub(crate) const fn may_be_freed(function: &Function) -> u32 {
    let mut found = 0;
    let mut i = 0;
    while i < function.params.len() && !matches!(function.class, Class::query) {
        if let (Role::In(_) | Role::InOut(_) | Role::Text, Form::Pointer(to)) =
            (function.params[i].role, function.params[i].ty.form)
            && is_shown(function, to)
        {
            found |= 1 << i;
        }
        i += 1;
    }
    found
}

/// Whether some function shows memory of this type that belongs to an object of a kind which this one names.
const fn is_shown(function: &Function, to: &Type) -> bool {
    let mut i = 0;
    while i < FUNCTIONS.len() {
        let other = &FUNCTIONS[i];
        let mut j = 0;
        while j < other.params.len() {
            if shows(&other.params[j], to) && name_alike(function.params, other.params) {
                return true;
            }
            j += 1;
        }
        i += 1;
    }
    false
}

/// Whether the driver hands out through this parameter memory of this type, or a structure of it that leads to
/// such memory.
const fn shows(param: &Field, to: &Type) -> bool {
    let Form::Pointer(out) = param.ty.form else { return false };
    match (param.role, out.form) {
        (Role::Owned(_) | Role::TextOut, Form::Pointer(own)) => same(own.name, to.name),
        (Role::Out(_) | Role::Volatile(_), Form::Struct(_)) => leads_on(out) && same(out.name, to.name),
        _ => false,
    }
}

/// Whether both name objects of one kind.
const fn name_alike(some: &[Field], others: &[Field]) -> bool {
    let mut i = 0;
    while i < some.len() {
        let mut j = 0;
        while j < others.len() {
            if let (Form::Handle(one), Form::Handle(other)) = (some[i].ty.form, others[j].ty.form)
                && one as u8 == other as u8
            {
                return true;
            }
            j += 1;
        }
        i += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_that_a_call_may_free_are_read_before_it() {
        let of = |function: &&Function| may_be_freed(function) != 0;
        let mut names: Vec<&str> = FUNCTIONS.iter().filter(of).map(|function| function.common_name()).collect();
        names.dedup();
        let captures = [
            "cuStreamBeginCaptureToGraph",
            "cuStreamUpdateCaptureDependencies_v2",
            "cuStreamUpdateCaptureDependencies",
        ];
        let setters = names.split_off(captures.len());
        assert_eq!(names, captures);
        assert_eq!(setters.len(), 13, "{setters:?}");
        let is_setter =
            |name: &&str| name.contains("NodeSetParams") && !name.contains("Memset") && !name.contains("Host");
        assert!(setters.iter().all(is_setter), "{setters:?}");
        let function = trace::api::by_name(captures[1]).expect("in the table");
        assert_eq!(may_be_freed(function), 0b110);
    }

    /// An object that ends takes its memory with it, whatever shows that.
    #[test]
    fn a_call_that_ends_an_object_is_given_nothing_to_read() {
        let ends = |function: &&Function| {
            let of = |is: fn(&Field) -> bool| function.params.iter().any(is);
            of(|param| matches!(param.role, Role::Destroy))
                && of(|param| matches!(param.role, Role::In(_) | Role::InOut(_) | Role::Text | Role::Source(_)))
        };
        let names: Vec<&str> = FUNCTIONS.iter().filter(ends).map(|function| function.name).collect();
        assert_eq!(names, [""; 0]);
    }
}
