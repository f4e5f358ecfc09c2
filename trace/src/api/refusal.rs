//! Why a replay refuses what it refuses: said in the verdict, and in SUPPORT.md.

use super::Function;
use super::roles::Field;
use super::types::Form;

/// The reason, for a function whose policy is to refuse; nothing where none is known, which a test does not
/// let happen.
pub fn why_refused(function: &Function) -> Option<&'static str> {
    const INTERFACE: &str = "an object of another programming interface, which exists only in the recorded process";
    let is_short = |param: &Field| match param.ty.form {
        Form::Pointer(to) => to.name == "CUdeviceptr_v1",
        _ => param.ty.name == "CUdeviceptr_v1",
    };
    if function.opaque {
        return Some("its prototype is not public, its arguments are not recorded");
    }
    if function.params.iter().any(is_short) {
        return Some("a 32-bit address: such memory is not placed");
    }
    let name = function.name;
    Some(match function.family {
        "external" | "graphics" | "gl" => INTERFACE,
        "graph_node" | "graph_exec" if name.contains("ExternalSemaphores") => INTERFACE,
        "stream" if name.contains("CaptureToCig") => INTERFACE,
        "stream" if name.contains("Recapture") => "a callback of the application decides what becomes of the graph",
        "memory_virtual" if name.starts_with("cuMulticast") => "multicast memory is not placed",
        "endpoint" => "memory of another device or process at the end of a fabric",
        "memory" | "memory_virtual" | "memory_pool" => "shared with another process",
        "module" => "hands out code of the driver itself",
        "device" => "acts on or speaks to something outside the process",
        _ => return None,
    })
}
