//! A kernel's parameter, and the reasons for which code cannot be read.

use std::collections::BTreeMap;

/// One parameter of a kernel, in the device-side layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Bytes from the first parameter's place. Differs between architectures where alignments exceed 16
    /// bytes.
    pub offset: u32,
    /// Bytes of the parameter.
    pub size: u32,
    /// Some(true): declared to be a pointer. Some(false): it cannot hold an address, or it is a plain number
    /// of a kernel whose pointers are declared. None: nothing is said, as of all structures.
    pub is_pointer: Option<bool>,
    /// The fundamental type that it is one of, or an array of; machine code names none.
    pub element: Option<Element>,
}

/// A fundamental type of PTX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    /// None: bits that may mean anything, as of `.b32`.
    pub number: Option<Number>,
    /// In bytes.
    pub size: u32,
}

/// The meaning of a number's bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// An unsigned integer.
    Unsigned,
    /// A signed integer.
    Signed,
    /// IEEE 754, of 2, 4 or 8 bytes.
    Float,
    /// The upper half of a float of 4 bytes.
    Brain,
}

/// Kernels by name, each with its parameters by ordinal.
pub type Kernels = BTreeMap<String, Vec<Parameter>>;

/// Most bytes that the parameters of one kernel take: 32,764 since CUDA 12.1 (CUDA C++ Programming Guide,
/// "Kernel parameters"), and some room.
pub(super) const MOST_BYTES: u32 = 1 << 16;

/// The reason why some code was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unread {
    /// Without the feature `zstd`, as the recorder is built: drivers that have no query for parameters cannot
    /// load it either.
    Zstd,
    /// An archive of relocatable code.
    Archive,
    /// For another device, or compiled by the driver from something that is neither PTX nor machine code.
    Other,
    /// Its headers contradict each other or its length.
    Broken,
}

impl Unread {
    /// The reason as a phrase.
    pub fn why(self) -> &'static str {
        match self {
            Unread::Zstd => "compressed with zstd",
            Unread::Archive => "an archive",
            Unread::Other => "code for other devices",
            Unread::Broken => "broken",
        }
    }
}
