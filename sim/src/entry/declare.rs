//! Declarations of exported functions, and the code around each.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::code::{Code, Result};

/// An exported function's name and address.
pub(super) type Entry = (&'static str, usize);

/// The result of a call as C sees it. A mistake of ours is an unknown error, never a panic in the
/// application.
#[inline]
pub(super) fn outcome(call: impl FnOnce() -> Result) -> Code {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => Code::SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => Code::UNKNOWN,
    }
}

/// Declares exported functions. Kinds:
///
/// * `fn`: refused before cuInit, in a forked child, and while the process ends;
/// * `always`: allowed at any time;
/// * `calling`: as `fn`, for functions that call back into the application, which may unwind through them.
///
/// `name / twin [null]` declares a function and its per-thread-stream twin; `null` is what the null stream
/// means.
macro_rules! entries {
    ($(
        $(#[$meta:meta])*
        $kind:ident $name:ident $(/ $twin:ident [$null:ident])? ($($arg:ident: $ty:ty),* $(,)?) $body:block
    )*) => {
        $(entries!(@ $kind, $(#[$meta])*, $name, ($($twin, $null)?), ($($arg: $ty),*), $body);)*

        /// What this file exports.
        pub(crate) fn list() -> Vec<$crate::entry::declare::Entry> {
            vec![$(
                (stringify!($name), $name as *const () as usize),
                $((stringify!($twin), $twin as *const () as usize),)?
            )*]
        }
    };
    (@ fn, $(#[$meta:meta])*, $name:ident, (), ($($arg:ident: $ty:ty),* $(,)?), $body:block) => {
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($arg: $ty),*) -> $crate::abi::code::Code {
            let _call = $crate::cupti::callbacks::Call::enter(stringify!($name));
            $crate::entry::declare::outcome(|| {
                $crate::base::state::ready()?;
                $body
            })
        }
    };
    (@ always, $(#[$meta:meta])*, $name:ident, (), ($($arg:ident: $ty:ty),* $(,)?), $body:block) => {
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($arg: $ty),*) -> $crate::abi::code::Code {
            $crate::entry::declare::outcome(|| $body)
        }
    };
    (@ calling, $(#[$meta:meta])*, $name:ident, (), ($($arg:ident: $ty:ty),* $(,)?), $body:block) => {
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C-unwind" fn $name($($arg: $ty),*) -> $crate::abi::code::Code {
            let call = || -> $crate::abi::code::Result {
                $crate::base::state::ready()?;
                $body
            };
            call().err().unwrap_or($crate::abi::code::Code::SUCCESS)
        }
    };
    (
        @ fn, $(#[$meta:meta])*, $name:ident, ($twin:ident, $null:ident),
        ($($arg:ident: $ty:ty),* $(,)?), $body:block
    ) => {
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($arg: $ty),*) -> $crate::abi::code::Code {
            let $null = $crate::abi::NullStream::Legacy;
            let _call = $crate::cupti::callbacks::Call::enter(stringify!($name));
            $crate::entry::declare::outcome(|| {
                $crate::base::state::ready()?;
                $body
            })
        }

        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $twin($($arg: $ty),*) -> $crate::abi::code::Code {
            let $null = $crate::abi::NullStream::PerThread;
            let _call = $crate::cupti::callbacks::Call::enter(stringify!($twin));
            $crate::entry::declare::outcome(|| {
                $crate::base::state::ready()?;
                $body
            })
        }
    };
}
pub(crate) use entries;
