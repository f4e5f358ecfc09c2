//! The reasons for which a replay refuses a function, as the verdict and SUPPORT.md state them.

use super::Function;
use super::roles::Field;
use super::types::Form;

/// The reason, for a function whose policy is to refuse; nothing where none is known, which a test does not
/// let happen.
pub fn why_refused(function: &Function) -> Option<&'static str> {
    const INTERFACE: &str = "an object of another API that exists only in the recorded process";
    let is_short = |param: &Field| match param.ty.form {
        Form::Pointer(to) => to.name == "CUdeviceptr_v1",
        _ => param.ty.name == "CUdeviceptr_v1",
    };
    if function.opaque {
        return Some("its prototype is not public, so its arguments are not recorded");
    }
    if function.params.iter().any(is_short) {
        return Some("memory with 32-bit addresses is not placed");
    }
    let name = function.name;
    Some(match function.family {
        "external" | "graphics" | "gl" => INTERFACE,
        "graph_node" | "graph_exec" if name.contains("ExternalSemaphores") => INTERFACE,
        "stream" if name.contains("CaptureToCig") => INTERFACE,
        "stream" if name.contains("Recapture") => "a callback of the application determines the graph",
        "memory_virtual" if name.starts_with("cuMulticast") => "multicast memory is not placed",
        "endpoint" => "memory of another device or process, reached over a fabric",
        "memory" | "memory_virtual" | "memory_pool" => "shared with another process",
        "module" => "returns code of the driver itself",
        "device" => "acts outside the process",
        _ => return None,
    })
}
