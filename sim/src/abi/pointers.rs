//! Pointers from C, with one type for each use of them.
//!
//! All of them have the layout of a plain pointer. Every caller of a driver function promises that a pointer
//! which is not null is valid for its type; nothing here can check it.

use std::ffi::{CStr, c_char, c_void};

use super::code::{Code, Result};

/// A pointer to which one value is stored.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Stores, or says that the argument is invalid.
    pub(crate) fn set(self, value: T) -> Result {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        self.set_if(value);
        Ok(())
    }

    /// Stores unless the pointer is null.
    pub(crate) fn set_if(self, value: T) {
        self.set_at(0, value);
    }

    /// Stores the `index`th element of an array, unless the pointer is null.
    pub(crate) fn set_at(self, index: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: the caller of the driver function gave a pointer to writable storage of this type,
            // large enough.
            unsafe { self.0.add(index).write_unaligned(value) }
        }
    }

    pub(crate) fn raw(self) -> *mut T {
        self.0
    }

    pub(crate) fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    pub(crate) const fn from_raw(pointer: *mut T) -> Self {
        Out(pointer)
    }
}

impl<T: Copy> Out<T> {
    /// What stands there, for a parameter that goes both ways.
    pub(crate) fn get(self) -> Result<T> {
        Input(self.0.cast_const()).get()
    }
}

/// A pointer from which values are read.
#[repr(transparent)]
pub(crate) struct Input<T>(*const T);

impl<T> Clone for Input<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Input<T> {}

impl<T: Copy> Input<T> {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn get(self) -> Result<T> {
        self.element(0)
    }

    pub(crate) fn address(self) -> u64 {
        self.0 as u64
    }

    /// To store what a call gives through it.
    pub(crate) fn as_out(self) -> Out<T> {
        Out(self.0.cast_mut())
    }

    /// The `index`th element of an array.
    pub(crate) fn element(self, index: usize) -> Result<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller of the driver function gave a pointer to at least this many readable values.
        Ok(unsafe { self.0.add(index).read_unaligned() })
    }

    /// All of an array; empty for a null pointer with no length.
    pub(crate) fn all(self, count: usize) -> Result<Vec<T>> {
        (0..count).map(|index| self.element(index)).collect()
    }

    pub(crate) const fn from_raw(pointer: *const T) -> Self {
        Input(pointer)
    }
}

impl Input<c_char> {
    /// A string, or an invalid argument where the pointer is null.
    pub(crate) fn text(self) -> Result<String> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller of the driver function gave a nul-terminated string.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }
}

/// Bytes of the caller, given as address and length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    pub at: *const u8,
    pub length: usize,
}

impl Bytes {
    pub(crate) fn to_vec(self) -> Vec<u8> {
        if self.length == 0 {
            return Vec::new();
        }
        // SAFETY: the caller of the driver function owns `length` readable bytes there for the duration of
        // the call.
        unsafe { std::slice::from_raw_parts(self.at, self.length) }.to_vec()
    }
}

/// A pointer that is passed on and never followed, such as a callback's argument.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opaque(pub *mut c_void);

// SAFETY: never dereferenced here; handing it to the callback is what the application asked for.
unsafe impl Send for Opaque {}
// SAFETY: as above.
unsafe impl Sync for Opaque {}

pub(crate) type HostFunction = extern "C-unwind" fn(Opaque);
pub(crate) type StreamCallback = extern "C-unwind" fn(Handle, u32, Opaque);

pub(crate) type Handle = usize;
pub(crate) type DevicePointer = u64;

/// The stream that a function means by the null handle: the `_ptds` and `_ptsz` names mean the calling
/// thread's own stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NullStream {
    Legacy,
    PerThread,
}

/// Writes `text` and a nul into a caller's buffer, cut to its length.
pub(crate) fn put_text(to: Out<c_char>, length: usize, text: &str) {
    if length == 0 {
        return;
    }
    let kept = text.len().min(length - 1);
    for (index, byte) in text.bytes().take(kept).chain([0]).enumerate() {
        to.set_at(index, byte as c_char);
    }
}
