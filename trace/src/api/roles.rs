//! The roles of parameters and struct fields: the data that each one moves.
//!
//! A table line gives each pointer a [`Role`]; values (numbers, enums, handles) need none, because their type
//! is enough. Roles name sibling parameters, so a wrong name is a compile error.

use super::types::{Enum, Type};

/// One parameter of a function, or one field of a struct.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Name in the header.
    pub name: &'static str,
    /// The C type.
    pub ty: &'static Type,
    /// Bytes from the start of the struct; for a parameter, from the start of the argument words.
    pub offset: u32,
    /// The data that the parameter or field moves.
    pub role: Role,
}

/// A sibling parameter or field, by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sibling(pub u8);

/// The purpose of a parameter or field, seen from the driver.
#[derive(Debug, Clone, Copy)]
pub enum Role {
    /// A value: its type says what it means. A handle is used, a device address is passed.
    Plain,
    /// An integer holding an or of the enumeration's values.
    Bits(&'static Enum),
    /// A handle or address by value whose object ends with this call.
    Destroy,
    /// A device (or unified) address by value: this many bytes there are read.
    Reads(Extent),
    /// A device (or unified) address by value: this many bytes there are written.
    Writes(Extent),
    /// A device (or unified) address that C spells as a pointer: passed on, its bytes untouched by this call.
    Address,
    /// An array of `count` device (or unified) addresses, `sizes` an array as long: as many bytes are read at
    /// each.
    ReadsEach {
        /// Number of addresses and of sizes.
        count: Sibling,
        /// Array of sizes in bytes.
        sizes: Sibling,
    },
    /// As `ReadsEach`, written.
    WritesEach {
        /// Number of addresses and of sizes.
        count: Sibling,
        /// Array of sizes in bytes.
        sizes: Sibling,
    },
    /// Host memory that the driver reads during the call: elements of the pointee type, walked by that type.
    In(Extent),
    /// Host memory that the driver fills. Handles found there are bound to what the driver returned, never
    /// compared.
    Out(Extent),
    /// As `Out`, and every element is a handle or address that this call brought into being.
    Create(Extent),
    /// As `Out`, but the contents differ from run to run: recorded, never compared.
    Volatile(Extent),
    /// Read, then written: counts of count-then-fill pairs, structs with results in them.
    InOut(Extent),
    /// A field by value that the driver fills, in a struct it also reads: what stood there before means
    /// nothing.
    Filled,
    /// As `Filled`, and the handle or address there is one that this call brought into being.
    Created,
    /// As `Created`, of memory of this many bytes.
    Allocated(Sibling),
    /// A handle by value that the driver does not look at, and that may be anything, where the sibling is not
    /// null.
    Unless(Sibling),
    /// Host bytes that a copy takes to the device; captured as payload.
    Source(Extent),
    /// Host bytes that a copy brings from the device; hashed once the application may look at them.
    Sink(Extent),
    /// A NUL-terminated string read by the driver.
    Text,
    /// The path of a file that the driver reads; the file's bytes are captured with it.
    Path,
    /// A `const char**` through which the driver hands out a string of its own.
    TextOut,
    /// A `T**` through which the driver hands out memory of its own: this many elements of T there. As a
    /// field of a struct that the driver fills, the `T*` itself.
    Owned(Extent),
    /// A module image: cubin, PTX, fatbin or fatbin wrapper. The length follows from its own headers.
    Image,
    /// A module image of this many bytes.
    SizedImage(Sibling),
    /// The pointer-array form of kernel arguments, for the function or kernel in the sibling.
    Arguments(Sibling),
    /// The packed form of kernel arguments (`CU_LAUNCH_PARAM_BUFFER_POINTER` ...).
    Extra,
    /// Values of JIT or library options: the option codes and their number are siblings. Some are buffers
    /// that the driver retains and fills.
    Options {
        /// Array of option codes.
        codes: Sibling,
        /// Number of options.
        count: Sibling,
    },
    /// A pointer to a value whose type depends on the enumeration value in the sibling: read by the driver. A
    /// handle is passed as the pointer itself.
    AttributeIn(Sibling, &'static [(u32, &'static Type)]),
    /// As `AttributeIn`, written by the driver.
    AttributeOut(Sibling, &'static [(u32, &'static Type)]),
    /// Pointers to values, one for each enumeration value of the sibling array (its length the second),
    /// written by the driver.
    AttributesOut(Sibling, Sibling, &'static [(u32, &'static Type)]),
    /// By value or as a struct field: a union whose live member is told by a sibling.
    Union(Sibling, &'static [(u32, &'static Type)]),
    /// Host bytes laid out by the copy descriptor that holds this field; which side it is. The field is a
    /// pointer to them or an operand struct, itself walked; [`copies`](super::copies) tells whether there are
    /// any, and which.
    CopyHost(Side),
    /// A device (or unified) address by value, whose reach the copy descriptor that holds this field tells.
    CopyDevice,
    /// A function of the application.
    Callback,
    /// What the application wants handed back to its callback.
    UserData,
    /// A host address that names memory (pinned, registered, managed) and is not read through.
    HostAddress,
    /// A `void**` through which the driver hands out new pinned host memory of this many bytes.
    HostAlloc(Extent),
    /// A `void**` receiving an address of code or tables inside the driver.
    EntryPoint,
    /// A pointer whose target has no meaning outside the process; the word alone is recorded.
    Opaque,
}

/// One end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The side that is read.
    Source,
    /// The side that is written.
    Destination,
}

/// The length of the memory behind a pointer, in elements of the pointee type (bytes for `void`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// One element.
    One,
    /// This number of elements.
    Fixed(u32),
    /// As many as the sibling value says.
    Len(Sibling),
    /// This many fewer than the sibling value says, at least none.
    LenLess(Sibling, u32),
    /// As many as the sibling *pointer* points to when the call returns; none where the sibling's own extent
    /// is a `When` that does not hold.
    LenAt(Sibling),
    /// The lesser of what the first sibling's value allows and what the second, a pointer, points to when the
    /// call returns.
    LenUpTo(Sibling, Sibling),
    /// The sibling's value times this many bytes.
    Scaled(Sibling, u32),
    /// Rows: pitch in bytes, width in elements of this many bytes, height.
    Rect {
        /// Bytes from one row to the next.
        pitch: Sibling,
        /// Elements in a row.
        width: Sibling,
        /// Number of rows.
        height: Sibling,
        /// Bytes of an element.
        element: u32,
    },
    /// As the last says, if the sibling *pointer* points to this value when the call returns; else none, and
    /// the driver left untouched what stood there.
    When(Sibling, u32, &'static Extent),
    /// As `Rect`, with elements of as many bytes as the last sibling's value says.
    RectOf {
        /// Bytes from one row to the next.
        pitch: Sibling,
        /// Elements in a row.
        width: Sibling,
        /// Number of rows.
        height: Sibling,
        /// Bytes of an element.
        element: Sibling,
    },
    /// Read on to a NUL, at most the sibling's value.
    TextUpTo(Sibling),
    /// Nobody but the driver knows, when it comes to it; never more than this.
    AtMost(&'static Extent),
    /// Nobody but the driver knows.
    Unknown,
}

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types)]
pub enum Class {
    /// Asks, changes nothing.
    query,
    /// Asks whether something has finished.
    poll,
    /// Changes the state of the process, a thread or an object.
    state,
    /// Makes an object other than memory.
    create,
    /// Ends an object other than memory.
    destroy,
    /// Brings code in.
    load,
    /// Takes code out.
    unload,
    /// Allocates memory.
    allocate,
    /// Frees memory.
    free,
    /// Puts work on a stream.
    submit,
    /// Puts a kernel on a stream.
    launch,
    /// Moves bytes and returns when they are where they should be (host side).
    copy,
    /// Waits.
    synchronize,
    /// Builds or changes a graph.
    graph,
}

/// The replay's treatment of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types)]
pub enum Policy {
    /// Issue the same call, every argument rebuilt by its role.
    execute,
    /// Leave it out: it has no effect on what the program computes.
    skip,
    /// Reach the same effect by other calls (placement of memory).
    emulate,
    /// Do something else in its place, in code written for this function: polls.
    custom,
    /// Not replayable: the verdict says so.
    refuse,
}

/// `r#type` as a name is `type`.
pub const fn plain_name(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! role_or_plain {
    () => {
        $crate::api::roles::Role::Plain
    };
    ($role:expr) => {
        $role
    };
}
pub use role_or_plain;
