//! The exported functions, in files by family. Each is declared once, in an `entries!` block, which also
//! lists it for `cuGetProcAddress`.

mod array;
mod batch;
mod capture;
mod context;
mod copy;
mod core_dump;
mod device;
mod event;
mod function;
mod global;
mod graph;
mod graph_any;
mod graph_attribute;
mod graph_exec;
mod graph_memory;
mod graph_node;
mod green;
mod hidden;
mod hint;
mod host;
mod ipc;
mod launch;
mod library;
mod link;
mod memory;
mod mipmap;
mod module;
mod occupancy;
mod older;
mod older_launch;
mod pointer;
mod pool;
mod procaddress;
mod reference;
mod set;
pub mod since;
mod stream;
pub mod structs;
mod tensor_map;
mod texture;
mod user_object;
mod values;
mod virt;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::code::{Code, Result};
pub use copy::three;

/// An exported function's name and address.
pub type Entry = (&'static str, usize);

/// The result of a call as C sees it. A mistake of ours is an unknown error, never a panic in the
/// application.
#[inline]
fn outcome(call: impl FnOnce() -> Result) -> Code {
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
        pub(super) fn list() -> Vec<$crate::entry::Entry> {
            vec![$(
                (stringify!($name), $name as *const () as usize),
                $((stringify!($twin), $twin as *const () as usize),)?
            )*]
        }
    };
    (@ fn, $(#[$meta:meta])*, $name:ident, (), ($($arg:ident: $ty:ty),* $(,)?), $body:block) => {
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $ty),*) -> $crate::code::Code {
            let _call = $crate::cupti::Call::enter(stringify!($name));
            $crate::entry::outcome(|| {
                $crate::state::ready()?;
                $body
            })
        }
    };
    (@ always, $(#[$meta:meta])*, $name:ident, (), ($($arg:ident: $ty:ty),* $(,)?), $body:block) => {
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $ty),*) -> $crate::code::Code {
            $crate::entry::outcome(|| $body)
        }
    };
    (@ calling, $(#[$meta:meta])*, $name:ident, (), ($($arg:ident: $ty:ty),* $(,)?), $body:block) => {
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $name($($arg: $ty),*) -> $crate::code::Code {
            let call = || -> $crate::code::Result {
                $crate::state::ready()?;
                $body
            };
            call().err().unwrap_or($crate::code::Code::SUCCESS)
        }
    };
    (
        @ fn, $(#[$meta:meta])*, $name:ident, ($twin:ident, $null:ident),
        ($($arg:ident: $ty:ty),* $(,)?), $body:block
    ) => {
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $ty),*) -> $crate::code::Code {
            let $null = $crate::abi::NullStream::Legacy;
            let _call = $crate::cupti::Call::enter(stringify!($name));
            $crate::entry::outcome(|| {
                $crate::state::ready()?;
                $body
            })
        }

        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $twin($($arg: $ty),*) -> $crate::code::Code {
            let $null = $crate::abi::NullStream::PerThread;
            let _call = $crate::cupti::Call::enter(stringify!($twin));
            $crate::entry::outcome(|| {
                $crate::state::ready()?;
                $body
            })
        }
    };
}
use entries;

/// Everything exported.
pub fn all() -> Vec<Entry> {
    let lists = [
        array::list,
        batch::list,
        capture::list,
        context::list,
        copy::list,
        core_dump::list,
        device::list,
        event::list,
        function::list,
        global::list,
        graph::list,
        graph_any::list,
        graph_attribute::list,
        graph_exec::list,
        graph_memory::list,
        graph_node::list,
        green::list,
        hint::list,
        host::list,
        ipc::list,
        launch::list,
        library::list,
        link::list,
        memory::list,
        mipmap::list,
        module::list,
        occupancy::list,
        older::list,
        older_launch::list,
        pointer::list,
        pool::list,
        procaddress::list,
        reference::list,
        set::list,
        stream::list,
        tensor_map::list,
        texture::list,
        user_object::list,
        values::list,
        virt::list,
    ];
    lists.iter().flat_map(|list| list()).collect()
}
