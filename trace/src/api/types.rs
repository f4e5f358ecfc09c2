//! C types as data: the kind, width and text form of each argument word and struct field.
//!
//! Every type that appears in the table implements [`Typed`]. Handles and enumerations are transparent
//! newtypes, so the wrappers built from the table have the true C signature and the table still knows a
//! stream from a context.

use super::roles::Field;
use std::ffi::{c_char, c_void};

/// A type of the driver API: its C name, its size in bytes and its form.
#[derive(Debug)]
pub struct Type {
    /// The type's name in the header; of pointers and arrays a placeholder.
    pub name: &'static str,
    /// Size in bytes.
    pub size: u32,
    /// The form of its values.
    pub form: Form,
}

/// The form of a type's values: how bytes become a value, and how it prints.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// An unsigned integer of the type's size.
    Unsigned,
    /// A signed integer of the type's size.
    Signed,
    /// A floating-point number of the type's size.
    Float,
    /// A byte of text.
    Char,
    /// No value: the target of an untyped pointer.
    Void,
    /// A device address (CUdeviceptr and its 32-bit ancestor).
    Address,
    /// An enumeration of 4 bytes.
    Enum(&'static Enum),
    /// A handle of an object.
    Handle(Kind),
    /// Code of the application that the driver calls.
    Callback,
    /// A pointer to host memory, with the type of its target.
    Pointer(&'static Type),
    /// An array, with the type and number of its elements.
    Array(&'static Type, u32),
    /// A struct, with its fields by offset.
    Struct(&'static [Field]),
}

/// An enumeration of the header: names of its values, in the header's order.
#[derive(Debug)]
pub struct Enum {
    /// The enumeration's name in the header.
    pub name: &'static str,
    /// Names and values; several names may have one value.
    pub values: &'static [(&'static str, i64)],
}

impl Enum {
    /// The first name the header gives to `value`.
    pub fn name_of(&self, value: i64) -> Option<&'static str> {
        self.values.iter().find(|(_, v)| *v == value).map(|(name, _)| *name)
    }
}

/// Implemented by every Rust type that represents a C type of the table.
pub trait Typed: 'static {
    /// The description of the type.
    const TYPE: &'static Type;
}

macro_rules! plain {
    ($($rust:ty, $name:literal, $form:ident;)*) => {$(
        impl Typed for $rust {
            const TYPE: &'static Type = &Type { name: $name, size: size_of::<$rust>() as u32, form: Form::$form };
        }
    )*};
}

plain! {
    u8, "unsigned char", Unsigned;
    u16, "unsigned short", Unsigned;
    u32, "unsigned int", Unsigned;
    u64, "unsigned long long", Unsigned;
    usize, "size_t", Unsigned;
    i32, "int", Signed;
    i64, "long long", Signed;
    f32, "float", Float;
    f64, "double", Float;
    c_char, "char", Char;
}

impl Typed for c_void {
    const TYPE: &'static Type = &Type { name: "void", size: 1, form: Form::Void };
}

impl<T: Typed> Typed for *const T {
    const TYPE: &'static Type = &Type { name: "const *", size: 8, form: Form::Pointer(T::TYPE) };
}

impl<T: Typed> Typed for *mut T {
    const TYPE: &'static Type = &Type { name: "*", size: 8, form: Form::Pointer(T::TYPE) };
}

impl<T: Typed, const N: usize> Typed for [T; N] {
    const TYPE: &'static Type =
        &Type { name: "[]", size: size_of::<[T; N]>() as u32, form: Form::Array(T::TYPE, N as u32) };
}

/// A device address in the driver's sense.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CUdeviceptr(pub u64);

impl Typed for CUdeviceptr {
    const TYPE: &'static Type = &Type { name: "CUdeviceptr", size: 8, form: Form::Address };
}

/// The 32-bit device address of the API before CUDA 3.2.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub struct CUdeviceptr_v1(pub u32);

impl Typed for CUdeviceptr_v1 {
    const TYPE: &'static Type = &Type { name: "CUdeviceptr_v1", size: 4, form: Form::Address };
}

macro_rules! handles {
    ($($name:ident($repr:ty) $kind:ident $label:literal;)*) => {
        /// The kind of object that a handle names. A handle value has a meaning only together with its kind.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "the kinds are objects of the driver: its header documents them")]
        pub enum Kind { $($kind),* }

        impl Kind {
            /// The word used for objects of this kind in text (`ctx#1`, `stream#3`).
            pub const fn label(self) -> &'static str {
                match self { $(Kind::$kind => $label),* }
            }

            /// The word with its article: `an event`, `a stream`.
            pub fn one(self) -> String {
                let label = self.label();
                let article = if label.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
                format!("{article} {label}")
            }

            /// Whether the value names no object of the application: null, and the two default streams.
            pub fn is_special(self, value: u64) -> bool {
                value == 0 || self == Kind::Stream && value <= 2
            }
        }

        $(
            #[repr(transparent)]
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
            #[allow(missing_docs, reason = "the names are the driver's: its header documents them")]
            pub struct $name(pub $repr);

            impl Typed for $name {
                const TYPE: &'static Type =
                    &Type { name: stringify!($name), size: size_of::<$repr>() as u32, form: Form::Handle(Kind::$kind) };
            }
        )*
    };
}

handles! {
    CUdevice(i32) Device "device";
    CUcontext(usize) Context "ctx";
    CUmodule(usize) Module "module";
    CUfunction(usize) Function "function";
    CUlibrary(usize) Library "library";
    CUkernel(usize) Kernel "kernel";
    CUarray(usize) Array "array";
    CUmipmappedArray(usize) MipmappedArray "mipmap";
    CUtexref(usize) TextureRef "texref";
    CUsurfref(usize) SurfaceRef "surfref";
    CUtexObject(u64) Texture "texture";
    CUsurfObject(u64) Surface "surface";
    CUevent(usize) Event "event";
    CUstream(usize) Stream "stream";
    CUgraphicsResource(usize) GraphicsResource "resource";
    CUexternalMemory(usize) ExternalMemory "extmem";
    CUexternalSemaphore(usize) ExternalSemaphore "extsem";
    CUgraph(usize) Graph "graph";
    CUgraphNode(usize) GraphNode "node";
    CUgraphExec(usize) GraphExec "exec";
    CUgraphDeviceNode(usize) GraphDeviceNode "devnode";
    CUgraphConditionalHandle(u64) GraphConditional "conditional";
    CUmemoryPool(usize) MemoryPool "pool";
    CUmemGenericAllocationHandle(u64) Allocation "allocation";
    CUuserObject(usize) UserObject "userobject";
    CUasyncCallbackHandle(usize) AsyncCallback "asynccallback";
    CUgreenCtx(usize) GreenContext "greenctx";
    CUlinkState(usize) Link "link";
    CUdevResourceDesc(usize) ResourceDesc "resourcedesc";
    CUlogsCallbackHandle(usize) LogsCallback "logscallback";
    CUcoredumpCallbackHandle(usize) CoredumpCallback "coredumpcallback";
    CUcheckpointOperationHandle(usize) CheckpointOperation "checkpoint";
    CUeglStreamConnection(usize) EglStream "eglstream";
    CUshareableHandle(i32) Shareable "shareable";
}

macro_rules! callbacks {
    ($($name:ident)*) => {$(
        /// A function pointer of the application; never called through this type.
        #[repr(transparent)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub usize);

        impl Typed for $name {
            const TYPE: &'static Type = &Type { name: stringify!($name), size: 8, form: Form::Callback };
        }
    )*};
}

callbacks! {
    CUhostFn CUstreamCallback CUoccupancyB2DSize CUasyncCallback CUlogsCallback CUcoredumpStatusCallback
    CUgraphRecaptureCallback
}

/// Declares enumerations as transparent newtypes with the names of their values.
///
/// `BITS` is the role of an `unsigned int` parameter that holds an or of these values.
macro_rules! enums {
    ($($name:ident { $($value:ident = $number:expr),* $(,)? })*) => {
        /// Every enumeration, in the order of the header.
        pub const ENUMS: &[&$crate::api::types::Enum] = &[$($name::ENUM),*];

        $(
            #[repr(transparent)]
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
            #[allow(non_camel_case_types)]
            pub struct $name(pub u32);

            #[allow(non_upper_case_globals, dead_code)]
            impl $name {
                $(pub const $value: $name = $name(($number) as i64 as u32);)*
                pub const ENUM: &'static $crate::api::types::Enum = &$crate::api::types::Enum {
                    name: stringify!($name),
                    values: &[$((stringify!($value), ($number) as i64)),*],
                };
                pub const BITS: $crate::api::roles::Role = $crate::api::roles::Role::Bits(Self::ENUM);
            }

            impl $crate::api::types::Typed for $name {
                const TYPE: &'static $crate::api::types::Type = &$crate::api::types::Type {
                    name: stringify!($name),
                    size: 4,
                    form: $crate::api::types::Form::Enum(Self::ENUM),
                };
            }
        )*
    };
}
pub(crate) use enums;

/// Declares C structs once: layout for the compiler, fields and roles for everything that walks them.
///
/// A union is an array of words with the role [`Union`](crate::api::roles::Role::Union).
macro_rules! structs {
    ($($name:ident { $($field:ident : $type:ty $(= $role:expr)?),* $(,)? })*) => {$(
        #[repr(C)]
        #[derive(Clone, Copy)]
        #[allow(non_camel_case_types, non_snake_case)]
        pub struct $name { $(pub $field: $type),* }

        impl $crate::api::types::Typed for $name {
            const TYPE: &'static $crate::api::types::Type = &$crate::api::types::Type {
                name: stringify!($name),
                size: size_of::<$name>() as u32,
                form: $crate::api::types::Form::Struct({
                    #[allow(unused_imports)]
                    use $crate::api::roles::{Extent::*, Role::*, *};
                    #[allow(non_camel_case_types, dead_code, clippy::enum_variant_names)]
                    enum Index { $($field),* }
                    $(#[allow(non_upper_case_globals, dead_code)] const $field: Sibling = Sibling(Index::$field as u8);)*
                    &[$(Field {
                        name: $crate::api::roles::plain_name(stringify!($field)),
                        ty: <$type as $crate::api::types::Typed>::TYPE,
                        offset: std::mem::offset_of!($name, $field) as u32,
                        role: $crate::api::roles::role_or_plain!($($role)?),
                    }),*]
                }),
            };
        }
    )*};
}
pub(crate) use structs;
