//! The rules for the memory behind a pointer, shared by the recorder (over live memory) and by `dump` and the
//! replay (over attachments).
//!
//! [`resolve`] answers for one field; each consumer continues from there in its own way.

use crate::api::roles::{Extent, Field, Role, Sibling};
use crate::api::types::{Form, Kind, Type};

/// The container of a field (argument words or a struct), and the memory around it.
pub trait View {
    /// `size` bytes (at most 8) at `offset` in the container, zero-extended.
    fn load(&self, offset: u32, size: u32) -> Option<u64>;
    /// `size` bytes (at most 8) of memory at an application address, zero-extended.
    fn read_word(&self, address: u64, size: u32) -> Option<u64>;
}

/// The direction in which bytes move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The driver reads the bytes during the call.
    In,
    /// The driver writes the bytes during the call.
    Out,
    /// Out, every element an object that came into being.
    Create,
    /// Out, and different in every run.
    Volatile,
    /// The driver reads the bytes, then writes them.
    InOut,
    /// Payload to the device.
    Source,
    /// Payload from the device.
    Sink,
}

impl Direction {
    /// Whether the driver reads the bytes.
    pub fn is_input(self) -> bool {
        matches!(self, Direction::In | Direction::InOut | Direction::Source)
    }

    /// Whether the driver writes the bytes.
    pub fn is_output(self) -> bool {
        !matches!(self, Direction::In | Direction::Source)
    }
}

/// The target of a pointer field.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// A null pointer, or one that is not followed.
    Nothing,
    /// `count` elements of `element` at `address`.
    Span {
        /// Address of the first element.
        address: u64,
        /// Type of the elements.
        element: &'static Type,
        /// Number of elements.
        count: u64,
        /// Whether the driver reads or writes them.
        direction: Direction,
    },
    /// A NUL-terminated string, read or (`out`) written with at most `limit` bytes.
    Text {
        /// Address of the first byte.
        address: u64,
        /// Bytes up to which a NUL is sought.
        limit: u64,
        /// Whether the driver writes the string.
        out: bool,
    },
    /// A NUL-terminated path of a file that the driver reads.
    Path {
        /// Address of the path.
        address: u64,
    },
    /// No pointer: its word is the value.
    Value {
        /// Type of the value.
        element: &'static Type,
    },
    /// A pointer to a pointer to a string of the driver's.
    TextOut {
        /// Address of the outer pointer.
        address: u64,
    },
    /// A pointer to a pointer to `count` elements of the driver's.
    Owned {
        /// Address of the outer pointer.
        address: u64,
        /// Type of the elements.
        element: &'static Type,
        /// Number of elements.
        count: u64,
    },
    /// A pointer to a pointer to new pinned memory.
    HostAlloc {
        /// Address of the outer pointer.
        address: u64,
        /// Size of the new memory.
        bytes: u64,
    },
    /// A module image.
    Image {
        /// Address of the image.
        address: u64,
        /// Size in bytes; None if the image's own headers have it.
        size: Option<u64>,
    },
    /// An array of pointers to the arguments of a kernel.
    Arguments {
        /// Address of the array.
        address: u64,
        /// Handle of the function or kernel, which determines the number of arguments.
        function: u64,
    },
    /// The packed form of kernel arguments.
    Extra {
        /// Address of the array of codes and values.
        address: u64,
    },
    /// An array of words, each a value or a buffer by the code at the same place of `codes`.
    Options {
        /// Address of the words.
        address: u64,
        /// Address of the option codes.
        codes: u64,
        /// Number of options.
        count: u64,
    },
    /// An array of pointers, each to a value whose type the code at the same place of `codes` tells.
    Attributes {
        /// Address of the pointers.
        address: u64,
        /// Address of the codes.
        codes: u64,
        /// Number of codes.
        count: u64,
        /// The type for each code.
        types: &'static [(u32, &'static Type)],
    },
    /// Host memory laid out by the copy descriptor around this field.
    CopyHost {
        /// Address in the descriptor.
        address: u64,
    },
}

/// The type that a tag selects.
pub fn select(types: &'static [(u32, &'static Type)], tag: u64) -> Option<&'static Type> {
    types.iter().find(|(value, _)| u64::from(*value) == tag).map(|(_, ty)| *ty)
}

/// The live member of the union `fields[index]`.
pub fn member(fields: &'static [Field], index: usize, base: u32, view: &impl View) -> Option<&'static Type> {
    match fields[index].role {
        Role::Union(tag, types) => select(types, sibling(fields, tag, base, view)?),
        _ => None,
    }
}

/// Whether the driver looks at this field, for all that the others say.
pub fn is_meant(fields: &'static [Field], index: usize, base: u32, view: &impl View) -> bool {
    match fields[index].role {
        Role::Unless(other) => sibling(fields, other, base, view).is_none_or(|other| other == 0),
        _ => true,
    }
}

/// What the pointer `fields[index]` points to; `base` is the offset of the fields' struct in its container.
pub fn resolve(fields: &'static [Field], index: usize, base: u32, view: &impl View) -> Target {
    resolved(fields, index, base, view).unwrap_or(Target::Nothing)
}

fn resolved(fields: &'static [Field], index: usize, base: u32, view: &impl View) -> Option<Target> {
    let field = &fields[index];
    let Form::Pointer(element) = field.ty.form else { return None };
    let address = view.load(base + field.offset, 8)?;
    if address == 0 {
        return None;
    }
    let span = |extent, direction| {
        if let Extent::TextUpTo(limit) = extent {
            return Some(Target::Text { address, limit: sibling(fields, limit, base, view)?, out: true });
        }
        Some(Target::Span { address, element, count: count(extent, fields, base, view)?, direction })
    };
    let one = |ty: Option<&'static Type>, direction| Some(Target::Span { address, element: ty?, count: 1, direction });
    match field.role {
        Role::In(extent) => span(extent, Direction::In),
        Role::Out(extent) => span(extent, Direction::Out),
        Role::Create(extent) => span(extent, Direction::Create),
        Role::Volatile(extent) => span(extent, Direction::Volatile),
        Role::InOut(extent) => span(extent, Direction::InOut),
        Role::ReadsEach { count, .. } | Role::WritesEach { count, .. } => span(Extent::Len(count), Direction::In),
        Role::Source(extent) => span(extent, Direction::Source),
        Role::Sink(extent) => span(extent, Direction::Sink),
        Role::Text => Some(Target::Text { address, limit: u64::MAX, out: false }),
        Role::Path => Some(Target::Path { address }),
        Role::TextOut => Some(Target::TextOut { address }),
        Role::Owned(extent) => {
            let count = count(extent, fields, base, view)?;
            match element.form {
                Form::Pointer(element) => Some(Target::Owned { address, element, count }),
                // A field that the driver filled with the address of an array of its own.
                _ => Some(Target::Span { address, element, count, direction: Direction::Create }),
            }
        }
        Role::HostAlloc(extent) => Some(Target::HostAlloc { address, bytes: count(extent, fields, base, view)? }),
        Role::Image => Some(Target::Image { address, size: None }),
        Role::SizedImage(size) => Some(Target::Image { address, size: Some(sibling(fields, size, base, view)?) }),
        Role::Arguments(function) => {
            let function = match sibling(fields, function, base, view)? {
                0 => kernel(fields, base, view)?,
                function => function,
            };
            Some(Target::Arguments { address, function })
        }
        Role::Extra => Some(Target::Extra { address }),
        Role::Options { codes, count } => Some(Target::Options {
            address,
            codes: sibling(fields, codes, base, view)?,
            count: sibling(fields, count, base, view)?,
        }),
        Role::AttributeIn(tag, types) => match select(types, sibling(fields, tag, base, view)?)? {
            element @ Type { form: Form::Handle(_), .. } => Some(Target::Value { element }),
            element => one(Some(element), Direction::In),
        },
        Role::AttributeOut(tag, types) => one(select(types, sibling(fields, tag, base, view)?), Direction::Out),
        Role::AttributesOut(codes, count, types) => Some(Target::Attributes {
            address,
            codes: sibling(fields, codes, base, view)?,
            count: sibling(fields, count, base, view)?,
            types,
        }),
        Role::CopyHost(_) => Some(Target::CopyHost { address }),
        _ => None,
    }
}

/// Node parameters name a CUkernel in a field of its own, where they name no CUfunction.
fn kernel(fields: &'static [Field], base: u32, view: &impl View) -> Option<u64> {
    let field = fields.iter().find(|field| matches!(field.ty.form, Form::Handle(Kind::Kernel)))?;
    view.load(base + field.offset, 8).filter(|kernel| *kernel != 0)
}

/// Bytes at the address that the parameter or field holds, by the extent of its role.
pub fn reach(fields: &'static [Field], index: usize, base: u32, view: &impl View) -> Option<u64> {
    match fields[index].role {
        Role::Reads(extent) | Role::Writes(extent) | Role::Source(extent) | Role::Sink(extent) => {
            count(extent, fields, base, view)
        }
        _ => None,
    }
}

/// The most bytes that the driver may touch there, also where only the driver knows how many it does.
pub fn most(fields: &'static [Field], index: usize, base: u32, view: &impl View) -> Option<u64> {
    match fields[index].role {
        Role::Reads(Extent::AtMost(extent)) | Role::Writes(Extent::AtMost(extent)) => {
            count(*extent, fields, base, view)
        }
        _ => reach(fields, index, base, view),
    }
}

/// Bytes from the first of a rectangle to its last.
fn rect(pitch: u64, row: u64, rows: u64) -> Option<u64> {
    match rows {
        0 => Some(0),
        rows => pitch.max(row).checked_mul(rows - 1)?.checked_add(row),
    }
}

fn sibling(fields: &'static [Field], which: Sibling, base: u32, view: &impl View) -> Option<u64> {
    let field = &fields[which.0 as usize];
    view.load(base + field.offset, field.ty.size.min(8))
}

fn count(extent: Extent, fields: &'static [Field], base: u32, view: &impl View) -> Option<u64> {
    let value = |which| sibling(fields, which, base, view);
    let through = |which: Sibling| {
        let Form::Pointer(to) = fields[which.0 as usize].ty.form else { return None };
        match value(which)? {
            0 => None,
            address => view.read_word(address, to.size.min(8)),
        }
    };
    match extent {
        Extent::One => Some(1),
        Extent::Fixed(n) => Some(n.into()),
        Extent::Len(n) => value(n),
        Extent::LenLess(n, fewer) => Some(value(n)?.saturating_sub(fewer.into())),
        Extent::LenAt(n) => match fields[n.0 as usize].role {
            Role::Out(when @ Extent::When(..)) => count(when, fields, base, view).and(through(n)),
            _ => through(n),
        },
        Extent::LenUpTo(limit, n) => Some(value(limit)?.min(through(n).unwrap_or(u64::MAX))),
        Extent::Scaled(n, by) => value(n)?.checked_mul(by.into()),
        Extent::Rect { pitch, width, height, element } => {
            rect(value(pitch)?, value(width)?.checked_mul(element.into())?, value(height)?)
        }
        Extent::RectOf { pitch, width, height, element } => {
            rect(value(pitch)?, value(width)?.checked_mul(value(element)?)?, value(height)?)
        }
        Extent::When(state, then, extent) if through(state)? == then.into() => count(*extent, fields, base, view),
        Extent::When(..) => None,
        Extent::TextUpTo(n) => value(n),
        Extent::AtMost(_) | Extent::Unknown => None,
    }
}

/// Whether values of this type hold anything beyond plain bits: handles, addresses, pointers, unions.
pub fn has_structure(ty: &'static Type) -> bool {
    match ty.form {
        Form::Handle(_) | Form::Address | Form::Pointer(_) | Form::Callback => true,
        Form::Array(element, _) => has_structure(element),
        Form::Struct(fields) => fields.iter().any(|f| matches!(f.role, Role::Union(..)) || has_structure(f.ty)),
        _ => false,
    }
}
