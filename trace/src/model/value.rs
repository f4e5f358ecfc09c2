//! Decoded arguments, fields and results: the form in which calls are shown.
//!
//! Values are raw: [`Objects`](crate::model::objects::Objects) supplies the names of handles and addresses
//! when they are shown.

use crate::api::roles::Side;
use crate::api::types::{Enum, Kind};
use crate::read::call::Content;
use crate::read::reader::Trace;
use crate::read::references::Lacking;
use std::borrow::Cow;

/// A decoded argument, field or result.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// A null pointer.
    Null,
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// A floating-point number.
    Float(f64),
    /// A value of an enumeration.
    Symbol(&'static Enum, i64),
    /// An or of an enumeration's values.
    Bits(&'static Enum, u64),
    /// `born`: this call made the object.
    Handle {
        /// Kind of the object.
        kind: Kind,
        /// The handle.
        value: u64,
        /// Whether this call made it.
        born: bool,
    },
    /// An address that names memory of the device or pinned memory.
    Address {
        /// The address.
        value: u64,
        /// Whether this call allocated the memory.
        born: bool,
    },
    /// An address that is not followed.
    Pointer(u64),
    /// The address of memory that the call fills; its content stands among the outputs.
    Result(u64),
    /// A string; bytes that are not UTF-8 are replaced.
    Text(Cow<'a, str>),
    /// Bytes without structure.
    Bytes(Cow<'a, [u8]>),
    /// Bytes that the trace holds apart, or knows by their hash, or not at all. `side`: of a copy, where they
    /// come from or go to. `content`: of the first of so many `pieces`. `missing`: one of them should be a
    /// blob, but the file does not hold it, and why.
    Payload {
        /// The side of the copy that has the bytes; None for other data.
        side: Option<Side>,
        /// Bytes of all pieces.
        len: u64,
        /// Number of pieces.
        pieces: u64,
        /// The first piece.
        content: Content<'a>,
        /// Why a piece is missing.
        missing: Option<Lacking>,
    },
    /// Elements of an array.
    List(Vec<Value<'a>>),
    /// A struct with its fields.
    Struct(Fields<'a>),
    /// Kernel arguments; each an [`Argument`](Value::Argument).
    Launch {
        /// Name of the kernel.
        kernel: &'a str,
        /// The arguments in order.
        arguments: Vec<Value<'a>>,
        /// The form in which the launch passes them.
        given: ArgumentPassing,
    },
    /// An argument that lies beyond the bytes that a launch was given.
    NotGiven,
    /// One kernel argument ([`argument`](crate::show::argument) tells what it is).
    Argument {
        /// The argument's bytes.
        bytes: Cow<'a, [u8]>,
        /// The parameter that it is for.
        of: Slot<'a>,
    },
    /// Option codes and their values.
    Options(Vec<(Value<'a>, Value<'a>)>),
    /// Memory at this address that the trace does not hold.
    Unrecorded(u64),
}

/// The kernel and parameter that an argument belongs to. Its type is looked up only on request, because the
/// code may be long.
#[derive(Clone, Copy)]
pub struct Slot<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) kernel: u32,
    /// The call that gives the argument.
    pub(crate) call: u64,
    pub(crate) index: usize,
}

impl std::fmt::Debug for Slot<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "parameter {} of kernel {}", self.index, self.kernel)
    }
}

/// Values by parameter or field, in the order of the prototype.
pub type Fields<'a> = Vec<(&'static str, Value<'a>)>;

/// The form in which a launch gets its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentPassing {
    /// By a pointer to each.
    Each,
    /// In one buffer. `declared`: bytes that the kernel's parameters take, if the trace tells.
    Packed {
        /// Bytes of the buffer.
        bytes: u64,
        /// Bytes of all parameters.
        declared: Option<u64>,
    },
    /// They are not in the trace. `parameters`: how many the kernel has, if the trace tells.
    Unread {
        /// Number of the kernel's parameters.
        parameters: Option<usize>,
        /// Why they are missing.
        why: &'static str,
    },
}

impl ArgumentPassing {
    /// Whether the driver takes no buffer of this size.
    pub fn is_odd(self) -> bool {
        matches!(self, ArgumentPassing::Packed { bytes, declared: Some(declared) } if bytes != declared)
    }

    /// What the arguments themselves do not tell.
    pub fn note(self) -> Option<String> {
        Some(match self {
            ArgumentPassing::Each => return None,
            ArgumentPassing::Packed { bytes, declared: Some(declared) } if bytes != declared => {
                format!("{bytes} bytes passed, {declared} declared")
            }
            ArgumentPassing::Packed { bytes, .. } => format!("{bytes} bytes"),
            ArgumentPassing::Unread { parameters: Some(1), why } => format!("1 argument, not recorded: {why}"),
            ArgumentPassing::Unread { parameters: Some(count), why } => {
                format!("{count} arguments, not recorded: {why}")
            }
            ArgumentPassing::Unread { parameters: None, why } => format!("arguments not recorded: {why}"),
        })
    }
}
