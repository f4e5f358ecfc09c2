//! One thunk per driver function: it takes argument words and makes a call with the true C signature.
//!
//! Thunks are made from the table, in the order of its ids. Each argument takes its size rounded up to 8
//! bytes, as recorded.

use trace::api::FUNCTIONS;

/// Calls the function at `real` with the arguments that lie at `words`.
///
/// Safety: `real` is the entry point of the function that the thunk was made for, `words` has as many words
/// as the table says, and what the arguments point to is what that function expects.
pub(crate) type Thunk = unsafe fn(real: *const (), words: *const u64) -> u32;

/// A function without a known prototype: never called.
unsafe fn unknown(_: *const (), _: *const u64) -> u32 {
    unreachable!("functions without a prototype are refused")
}

macro_rules! thunk {
    ($name:ident ($($param:ident : $type:ty $(= $role:expr)?),* $(,)?)) => {{
        #[allow(non_snake_case, unused_variables, unused_assignments, unused_mut, clippy::too_many_arguments)]
        unsafe fn $name(real: *const (), words: *const u64) -> u32 {
            // SAFETY: the caller gives the entry point of this function; the line is its C signature.
            let real: unsafe extern "C" fn($($type),*) -> u32 = unsafe { std::mem::transmute(real) };
            let mut at = words;
            $(
                // SAFETY: the caller gives all the words; every argument begins at a word of its own.
                let $param = unsafe { at.cast::<$type>().read() };
                at = at.wrapping_add(size_of::<$type>().div_ceil(8));
            )*
            // SAFETY: the caller vouches for the arguments.
            unsafe { real($($param),*) }
        }
        $name as Thunk
    }};
}

/// The twin of a line has the same signature, so the same thunk serves it.
macro_rules! lines {
    ($family:literal; $($name:ident $params:tt $class:ident $($policy:ident)? $(| $twin:ident)? $(=> $effect:expr)? ;)*) => {
        pub(crate) const LINES: &[(Thunk, bool)] = &[$((thunk!($name $params), false $(|| !stringify!($twin).is_empty())?)),*];
    };
    ($family:literal opaque; $($name:ident)*) => {
        pub(crate) const LINES: &[(Thunk, bool)] = &[$({ let _ = stringify!($name); (super::unknown as Thunk, false) }),*];
    };
}

macro_rules! families {
    ($($family:ident)*) => {
        $(mod $family {
            #[allow(unused_imports)]
            use super::Thunk;
            #[allow(unused_imports)]
            use std::ffi::{c_char, c_void};
            #[allow(unused_imports)]
            use trace::api::{enums::*, structs::*, types::*};
            trace::$family! { lines }
        })*

        const FAMILIES: &[&[(Thunk, bool)]] = &[$($family::LINES),*];
    };
}
trace::for_each_family! { families }

/// By function id.
pub(crate) static THUNKS: [Thunk; FUNCTIONS.len()] = {
    let mut all = [unknown as Thunk; FUNCTIONS.len()];
    let (mut family, mut id) = (0, 0);
    while family < FAMILIES.len() {
        let mut line = 0;
        while line < FAMILIES[family].len() {
            let (thunk, has_twin) = FAMILIES[family][line];
            all[id] = thunk;
            id += 1;
            if has_twin {
                all[id] = thunk;
                id += 1;
            }
            line += 1;
        }
        family += 1;
    }
    assert!(id == FUNCTIONS.len(), "a thunk for every function");
    all
};

#[cfg(test)]
mod tests {
    use super::*;
    use trace::api::by_name;
    use trace::api::types::{CUdevice, CUfunction};

    fn thunk_of(name: &str) -> Thunk {
        let function = by_name(name).unwrap();
        THUNKS[crate::driver::id(function)]
    }

    #[test]
    fn narrow_and_wide_arguments_arrive() {
        unsafe extern "C" fn attribute(out: *mut i32, attribute: u32, device: CUdevice) -> u32 {
            // SAFETY: the test passes a valid address.
            unsafe { *out = attribute as i32 + device.0 };
            7
        }
        let mut out = 0i32;
        let words = [&raw mut out as u64, 40, 2];
        // SAFETY: `attribute` has the signature of this function.
        let result = unsafe { thunk_of("cuDeviceGetAttribute")(attribute as *const (), words.as_ptr()) };
        assert_eq!((result, out), (7, 42));
    }

    #[test]
    fn a_float_travels_as_a_float() {
        unsafe extern "C" fn set(_: CUfunction, offset: i32, value: f32) -> u32 {
            (offset as f32 * value) as u32
        }
        let words = [0, 4, u64::from(2.5f32.to_bits())];
        // SAFETY: `set` has the signature of this function.
        assert_eq!(unsafe { thunk_of("cuParamSetf")(set as *const (), words.as_ptr()) }, 10);
    }
}
