//! Prints the driver table as JSON lines: all functions, then the structs they use, then all enumerations.
//!
//! `scripts/check-api` compares this with the headers.

use std::collections::BTreeSet;
use trace::api::enums::ENUMS;
use trace::api::roles::{Field, Role};
use trace::api::structs::CUlibraryHostUniversalFunctionAndDataTable;
use trace::api::types::{Form, Type, Typed};
use trace::api::{FUNCTIONS, Function};

fn main() {
    let mut structs = Structs::default();
    for function in &FUNCTIONS {
        println!("{}", line(function));
        structs.add_fields(function.params);
    }
    // Reached through the value of a library option.
    structs.add(CUlibraryHostUniversalFunctionAndDataTable::TYPE);
    for (ty, fields) in structs.found {
        println!(r#"{{"struct":"{}","size":{},"fields":[{}]}}"#, ty.name, ty.size, list(fields));
    }
    for of in ENUMS {
        let values: Vec<_> = of.values.iter().map(|(name, value)| format!(r#""{name}":{value}"#)).collect();
        println!(r#"{{"enum":"{}","values":{{{}}}}}"#, of.name, values.join(","));
    }
}

fn line(f: &Function) -> String {
    let twin_of = f.twin_of.map_or("null".to_string(), |of| format!(r#""{of}""#));
    let head = format!(r#""function":"{}","family":"{}","twin_of":{twin_of}"#, f.name, f.family);
    let kind = format!(r#""class":"{:?}","policy":"{:?}","opaque":{}"#, f.class, f.policy, f.opaque);
    format!(r#"{{{head},{kind},"params":[{}]}}"#, list(f.params))
}

fn list(fields: &[Field]) -> String {
    let field = |f: &Field| {
        format!(
            r#"{{"name":"{}","type":"{}","size":{},"offset":{},"role":"{}"}}"#,
            f.name,
            spelled(f.ty),
            f.ty.size,
            f.offset,
            name_of(&f.role),
        )
    };
    fields.iter().map(field).collect::<Vec<_>>().join(",")
}

/// The C spelling of a type.
fn spelled(ty: &Type) -> String {
    match ty.form {
        Form::Pointer(to) => {
            let constant = ty.name.starts_with("const");
            match (constant, to.form) {
                (false, _) => format!("{} *", spelled(to)),
                (true, Form::Pointer(_)) => format!("{} const *", spelled(to)),
                (true, _) => format!("const {} *", spelled(to)),
            }
        }
        Form::Array(of, length) => format!("{} [{length}]", spelled(of)),
        _ => ty.name.to_string(),
    }
}

/// The name of the role's variant, without what it holds.
fn name_of(role: &Role) -> String {
    format!("{role:?}").chars().take_while(|c| c.is_alphanumeric()).collect()
}

/// The struct types within reach of a set of fields: by value, behind pointers, in unions.
#[derive(Default)]
struct Structs {
    seen: BTreeSet<&'static str>,
    found: Vec<(&'static Type, &'static [Field])>,
}

impl Structs {
    fn add_fields(&mut self, fields: &'static [Field]) {
        for field in fields {
            self.add(field.ty);
            if let Role::Union(_, members)
            | Role::AttributeIn(_, members)
            | Role::AttributeOut(_, members)
            | Role::AttributesOut(_, _, members) = field.role
            {
                members.iter().for_each(|(_, ty)| self.add(ty));
            }
        }
    }

    fn add(&mut self, ty: &'static Type) {
        match ty.form {
            Form::Pointer(to) | Form::Array(to, _) => self.add(to),
            Form::Struct(fields) if self.seen.insert(ty.name) => {
                self.found.push((ty, fields));
                self.add_fields(fields);
            }
            _ => {}
        }
    }
}
