//! Types of kernel parameters, with the results found so far.

use crate::code::parameters::{Code, Number};
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

/// A parameter's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// As C++ or PTX spells it: `float const*`, `.f32`.
    pub name: String,
    /// The form of its bytes.
    pub form: Form,
}

/// The form of a parameter's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An address, 8 bytes.
    Pointer,
    /// A truth value, 1 byte.
    Bool,
    /// So many numbers of so many bytes each, one behind the other.
    Numbers(Number, u32, u32),
    /// 8 bytes of text that declares no pointers: a number or an address.
    Word,
    /// A structure, or what the program calls by a name of its own.
    Bytes,
}

impl Form {
    /// In bytes, where the form tells it.
    pub(crate) fn size(self) -> Option<u32> {
        match self {
            Form::Pointer | Form::Word => Some(8),
            Form::Bool => Some(1),
            Form::Numbers(_, size, count) => Some(size * count),
            Form::Bytes => None,
        }
    }
}

/// The signatures found so far.
#[derive(Default)]
pub(crate) struct Signatures {
    pub(crate) by_kernel: OnceLock<HashMap<u32, OnceLock<Signature>>>,
    /// PTX by the call that loaded it.
    pub(crate) texts: Mutex<HashMap<u64, Code>>,
}

/// By parameter; None where nothing tells its type.
pub type Signature = Vec<Option<Declared>>;
