//! What replay does with each function: the policy of its line in the table, and the exceptions.

use trace::api::Function;
use trace::api::roles::{Class, Policy};

/// A memory call that is replayed by other means, see [`place`](crate::memory::place).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    Allocate,
    /// Frees, and waits for the context as the driver does.
    Free,
    /// Frees in stream order.
    FreeAsync,
    HostAllocate,
    HostRegister,
    HostFree,
    /// Takes a range of addresses.
    Reserve,
    Unreserve,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Execute,
    /// Left out: it changes nothing that the program computes.
    Skip(&'static str),
    /// Left out although it matters: the verdict says so.
    Refuse(&'static str),
    /// Asks whether something has finished: a recorded yes becomes a call of `wait`, a no is left out.
    Poll {
        wait: &'static str,
    },
    Memory(Memory),
}

const MANAGED: &str = "managed memory is device memory in a replay";
const OWN_PLACEMENT: &str = "its answer is about the recorded allocation, which replay serves in another way";
const SHORT: &str = "a 32-bit address: such memory is not placed";

pub fn action(function: &Function) -> Action {
    let twin = function.twin_of.is_some();
    match function.twin_of.unwrap_or(function.name) {
        "cuMemAlloc_v2"
        | "cuMemAllocPitch_v2"
        | "cuMemAllocManaged"
        | "cuMemAllocAsync"
        | "cuMemAllocFromPoolAsync" => Action::Memory(Memory::Allocate),
        "cuMemFree_v2" => Action::Memory(Memory::Free),
        "cuMemFreeAsync" => Action::Memory(Memory::FreeAsync),
        "cuMemAllocHost_v2" | "cuMemAllocHost" | "cuMemHostAlloc" => Action::Memory(Memory::HostAllocate),
        "cuMemHostRegister_v2" | "cuMemHostRegister" => Action::Memory(Memory::HostRegister),
        "cuMemFreeHost" | "cuMemHostUnregister" => Action::Memory(Memory::HostFree),
        "cuMemAddressReserve" => Action::Memory(Memory::Reserve),
        "cuMemAddressFree" => Action::Memory(Memory::Unreserve),
        // The recorded addresses are reserved: the same mappings can be made there, aliases and all.
        "cuMemCreate"
        | "cuMemRelease"
        | "cuMemRetainAllocationHandle"
        | "cuMemMap"
        | "cuMemUnmap"
        | "cuMemSetAccess"
        | "cuMemMapArrayAsync"
        | "cuMemPoolSetAccess" => Action::Execute,
        "cuPointerSetAttribute" => Action::Skip(OWN_PLACEMENT),
        "cuStreamAttachMemAsync" => Action::Skip(MANAGED),
        "cuStreamQuery" if twin => Action::Poll { wait: "cuStreamSynchronize_ptsz" },
        "cuStreamQuery" => Action::Poll { wait: "cuStreamSynchronize" },
        "cuEventQuery" => Action::Poll { wait: "cuEventSynchronize" },
        "cuEventElapsedTime" | "cuEventElapsedTime_v2" => {
            Action::Skip("asks for a time, which differs from run to run")
        }
        _ if function.opaque => Action::Refuse("its prototype is not public, its arguments are not recorded"),
        _ => match function.policy {
            Policy::execute | Policy::custom => Action::Execute,
            Policy::skip => Action::Skip(why_skipped(function)),
            Policy::refuse => Action::Refuse(why_refused(function)),
            Policy::emulate => Action::Refuse(why_not_emulated(function)),
        },
    }
}

fn why_skipped(function: &Function) -> &'static str {
    match function.family {
        "memory" | "memory_virtual" | "memory_pool" if function.class == Class::query => OWN_PLACEMENT,
        "memory" | "copy" => MANAGED,
        _ => "has no effect on what the program computes",
    }
}

fn why_refused(function: &Function) -> &'static str {
    match function.family {
        "external" | "graphics" | "gl" => {
            "an object of another programming interface, which exists only in the recorded process"
        }
        "memory" | "memory_virtual" | "memory_pool" => "shared with another process",
        "module" => "hands out code of the driver itself",
        "device" => "acts on or speaks to something outside the process",
        _ => "not replayable",
    }
}

fn why_not_emulated(function: &Function) -> &'static str {
    if function.name.starts_with("cuMulticast") { "multicast memory is not placed" } else { SHORT }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::api::{FUNCTIONS, by_name};

    #[test]
    fn the_exceptions_name_functions_of_the_table() {
        for function in FUNCTIONS.iter() {
            if let Action::Poll { wait } = action(function) {
                assert!(by_name(wait).is_some(), "{}: {wait}", function.name);
                assert_eq!(function.class, Class::poll, "{}", function.name);
            }
        }
    }

    #[test]
    fn what_is_emulated_has_code_or_a_reason() {
        for function in FUNCTIONS.iter().filter(|f| f.policy == Policy::emulate) {
            if let Action::Refuse(why) = action(function) {
                let old = function.params.iter().any(|p| p.ty.name == "CUdeviceptr_v1" || p.ty.name.contains('*'));
                assert!(why != SHORT || old, "{}: {why}", function.name);
            }
        }
    }
}
