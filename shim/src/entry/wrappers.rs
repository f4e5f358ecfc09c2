//! The exported functions, one for each line of the table, with their true C signatures.

use crate::driver::real_driver;
use crate::os::counters;
use crate::submission::substitute::Substitute;
use std::ffi::c_void;
use std::sync::atomic::Ordering::Relaxed;

/// Lays arguments out as words.
#[inline(always)]
pub(crate) fn lay_out<T>(words: &mut [u64], at: &mut usize, value: T) {
    let count = size_of::<T>().div_ceil(8);
    // SAFETY: the array has as many words as all arguments take; they were zero before.
    unsafe { words[*at..*at + count].as_mut_ptr().cast::<T>().write_unaligned(value) };
    *at += count;
}

/// The argument that begins at word `at`, as the driver gets it.
#[inline(always)]
pub(crate) fn passed<T: Copy>(made: &Option<Substitute>, at: &mut usize, given: T) -> T {
    let place = *at;
    *at += size_of::<T>().div_ceil(8);
    match made {
        Some(made) => made.argument(place, given),
        None => given,
    }
}

macro_rules! wrapper {
    ($name:ident ($($param:ident : $type:ty $(= $role:expr)?),* $(,)?)) => {
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments)]
        pub(crate) unsafe extern "C-unwind" fn $name($($param: $type),*) -> u32 {
            type Real = unsafe extern "C-unwind" fn($($type),*) -> u32;
            const SITE: $crate::submission::shape::Site = {
                let function = &family::FUNCTIONS[Line::$name as usize];
                let id = trace::api::base(FAMILY) + Line::$name as u16;
                let (shape, hook) = ($crate::submission::shape::shape(function), $crate::submission::hook::hook_of(function));
                $crate::submission::shape::Site { function, id, shape, hook }
            };
            let site: &'static $crate::submission::shape::Site = &SITE;
            #[allow(unused_mut)]
            let mut words = [0u64; const { family::FUNCTIONS[Line::$name as usize].words() }];
            #[allow(unused_mut, unused_variables)]
            let mut at = 0;
            $($crate::entry::wrappers::lay_out(&mut words, &mut at, $param);)*
            // Lives on this frame until the call has returned: see lane::Lane::is_inside.
            let frame = std::cell::Cell::new(0u64);
            let open = $crate::entry::call::enter(site, &words, &frame);
            let removed = if open.is_some() { $crate::entry::effects::before_driver(site.hook, &words) } else { 0 };
            // SAFETY: the entry point of this very function in the real driver, or a stand-in that takes no
            // argument.
            let real: Real = unsafe { std::mem::transmute($crate::driver::real_driver::entry(site.id)) };
            let made = $crate::entry::effects::substitute(*site, &words, open);
            #[allow(unused_mut, unused_variables)]
            let mut at = 0;
            $(let $param = $crate::entry::wrappers::passed(&made, &mut at, $param);)*
            // SAFETY: the arguments are the caller's, unchanged but for what `substitute` names.
            let result = unsafe { real($($param),*) };
            $crate::entry::effects::restore(*site, &words, made, result);
            if let Some(open) = open {
                $crate::entry::call::leave(site, &words, &frame, open, result);
            }
            if let $crate::submission::hook::Hook::ProcAddress { place } = site.hook
                && result == 0
            {
                $crate::entry::interpose::hand_out(words[place as usize]);
            }
            $crate::entry::effects::after_driver(site.hook, &words, result, open, removed);
            result
        }
    };
}

macro_rules! wrap {
    ($family:literal; $($name:ident $params:tt $class:ident $($policy:ident)? $(| $twin:ident)? $(=> $effect:expr)? ;)*) => {
        #[allow(unused_imports)]
        use trace::api::{enums::*, structs::*, types::*};
        #[allow(unused_imports)]
        use std::ffi::{c_char, c_void};

        const FAMILY: &str = $family;

        #[allow(non_camel_case_types, clippy::enum_variant_names)]
        #[repr(u16)]
        enum Line { $($name, $($twin,)?)* }

        pub(crate) const ADDRESSES: &[fn() -> *const c_void] = &[$(
            || $name as *const c_void,
            $(|| $twin as *const c_void,)?
        )*];

        $(
            wrapper! { $name $params }
            $(wrapper! { $twin $params })?
        )*
    };
    ($family:literal opaque; $($name:ident)*) => {
        use std::ffi::c_void;

        #[allow(non_camel_case_types, clippy::enum_variant_names)]
        #[repr(u16)]
        enum Line { $($name),* }

        pub(crate) const ADDRESSES: &[fn() -> *const c_void] = &[$(|| $name as *const c_void),*];

        $(
            /// Saves every register that may carry an argument, asks where the real function is, and jumps
            /// there.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name() -> u32 {
                std::arch::naked_asm!(
                    "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                    "sub rsp, 128",
                    "movups [rsp], xmm0", "movups [rsp + 16], xmm1", "movups [rsp + 32], xmm2", "movups [rsp + 48], xmm3",
                    "movups [rsp + 64], xmm4", "movups [rsp + 80], xmm5", "movups [rsp + 96], xmm6",
                    "movups [rsp + 112], xmm7",
                    "mov edi, {id}",
                    "call {find}",
                    "mov r11, rax",
                    "movups xmm0, [rsp]", "movups xmm1, [rsp + 16]", "movups xmm2, [rsp + 32]", "movups xmm3, [rsp + 48]",
                    "movups xmm4, [rsp + 64]", "movups xmm5, [rsp + 80]", "movups xmm6, [rsp + 96]",
                    "movups xmm7, [rsp + 112]",
                    "add rsp, 128",
                    "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                    "jmp r11",
                    id = const trace::api::base($family) + Line::$name as u16,
                    find = sym $crate::entry::wrappers::opaque_entry,
                )
            }
        )*
    };
}

pub(crate) extern "C" fn opaque_entry(id: u16) -> *const c_void {
    counters::OPAQUE_CALLS.fetch_add(1, Relaxed);
    real_driver::entry(id)
}

macro_rules! families {
    ($($family:ident)*) => {
        $(mod $family {
            #[allow(unused_imports)]
            use trace::api::$family as family;
            trace::$family! { wrap }
        })*

        /// The wrapper of a function.
        pub(crate) fn address(id: u16) -> *mut c_void {
            $(
                const { assert!($family::ADDRESSES.len() == trace::api::$family::FUNCTIONS.len()) };
                let first = const { trace::api::base(stringify!($family)) };
                if let Some(line) = id.checked_sub(first)
                    && let Some(address) = $family::ADDRESSES.get(line as usize)
                {
                    return address().cast_mut();
                }
            )*
            std::ptr::null_mut()
        }
    };
}
trace::for_each_family! { families }
