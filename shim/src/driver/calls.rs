//! Driver functions that the recorder calls for itself, with the signatures of cuda.h. All are queries and
//! allowed while a stream is being captured, except those of the last block: these copy the results of
//! collectives and the contents of imported memory, if the user asked for them.

use crate::driver::real_driver;
use std::ffi::c_char;
use trace::api::structs::{CUDA_ARRAY3D_DESCRIPTOR, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS};

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $exported:literal ($($argument:ident: $type:ty),* $(,)?);)*) => {$(
        /// The result; none if this driver lacks the function.
        $(#[$doc])*
        ///
        /// # Safety
        /// Handles must be ones that the driver knows, and pointers lead to as much as it reads or writes
        /// there.
        pub(crate) unsafe fn $name($($argument: $type),*) -> Option<u32> {
            type Call = unsafe extern "C" fn($($type),*) -> u32;
            // SAFETY: the signature is that of cuda.h.
            let call = unsafe { real_driver::function::<Call>(const { real_driver::id_named($exported) }) }?;
            // SAFETY: the caller's promise.
            Some(unsafe { call($($argument),*) })
        }
    )*};
}

calls! {
    driver_version = "cuDriverGetVersion"(version: *mut i32);
    device_count = "cuDeviceGetCount"(count: *mut i32);
    /// A CUdevice is its ordinal.
    device_name = "cuDeviceGetName"(name: *mut u8, len: i32, device: i32);
    device_uuid = "cuDeviceGetUuid_v2"(uuid: *mut [u8; 16], device: i32);
    device_memory = "cuDeviceTotalMem_v2"(bytes: *mut u64, device: i32);
    device_attribute = "cuDeviceGetAttribute"(value: *mut i32, attribute: u32, device: i32);
    current_context = "cuCtxGetCurrent"(context: *mut u64);
    current_device = "cuCtxGetDevice"(device: *mut i32);
    primary_state = "cuDevicePrimaryCtxGetState"(device: i32, flags: *mut u32, active: *mut i32);
    stream_flags = "cuStreamGetFlags"(stream: u64, flags: *mut u32);
    stream_is_capturing = "cuStreamIsCapturing"(stream: u64, status: *mut u32);
    pointer_attributes = "cuPointerGetAttributes"(
        count: u32, attributes: *const u32, values: *const *mut u32, address: u64);
    address_range = "cuMemGetAddressRange_v2"(start: *mut u64, bytes: *mut usize, address: u64);
    host_flags = "cuMemHostGetFlags"(flags: *mut u32, address: u64);
    array_descriptor = "cuArray3DGetDescriptor_v2"(descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, array: u64);
    module_variable = "cuModuleGetGlobal_v2"(address: *mut u64, len: *mut u64, module: u64, name: u64);
    library_variable = "cuLibraryGetGlobal"(address: *mut u64, len: *mut u64, library: u64, name: u64);
    library_managed = "cuLibraryGetManaged"(address: *mut u64, len: *mut u64, library: u64, name: u64);
    function_parameter = "cuFuncGetParamInfo"(function: u64, index: usize, offset: *mut usize, size: *mut usize);
    kernel_parameter = "cuKernelGetParamInfo"(kernel: u64, index: usize, offset: *mut usize, size: *mut usize);
    function_name = "cuFuncGetName"(name: *mut *const c_char, function: u64);
    kernel_name = "cuKernelGetName"(name: *mut *const c_char, kernel: u64);
    function_module = "cuFuncGetModule"(module: *mut u64, function: u64);
    graph_nodes = "cuGraphGetNodes"(graph: u64, nodes: *mut u64, count: *mut usize);
    /// `data`: eight bytes for each edge.
    graph_edges = "cuGraphGetEdges_v2"(
        graph: u64, from: *mut u64, to: *mut u64, data: *mut u64, count: *mut usize);
    older_graph_edges = "cuGraphGetEdges"(graph: u64, from: *mut u64, to: *mut u64, count: *mut usize);
    node_type = "cuGraphNodeGetType"(node: u64, kind: *mut u32);
    child_graph = "cuGraphChildGraphNodeGetGraph"(node: u64, graph: *mut u64);
    copy_node = "cuGraphMemcpyNodeGetParams"(node: u64, parameters: *mut u8);
    fill_node = "cuGraphMemsetNodeGetParams"(node: u64, parameters: *mut CUDA_MEMSET_NODE_PARAMS);
    /// `nodes`: what comes next waits for these; the driver's, until the capture goes on. It says no where an
    /// edge carries data.
    capture_info = "cuStreamGetCaptureInfo_v2"(
        stream: u64, status: *mut u32, id: *mut u64, graph: *mut u64, nodes: *mut *const u64, count: *mut usize);
    executable_flags = "cuGraphExecGetFlags"(executable: u64, flags: *mut u64);
    /// `parameters`: a function and its data.
    host_node = "cuGraphHostNodeGetParams"(node: u64, parameters: *mut [u64; 2]);
}

calls! {
    /// The calling thread's mode; the one that it had comes back.
    exchange_capture_mode = "cuThreadExchangeStreamCaptureMode"(mode: *mut u32);
    pin = "cuMemHostRegister_v2"(address: u64, bytes: usize, flags: u32);
    device_address = "cuMemHostGetDevicePointer_v2"(address: *mut u64, host: u64, flags: u32);
    copy = "cuMemcpyAsync"(to: u64, from: u64, bytes: usize, stream: u64);
    /// Into pinned memory, behind what the stream was given before.
    write_value = "cuStreamWriteValue32_v2"(stream: u64, address: u64, value: u32, flags: u32);
    clone_graph = "cuGraphClone"(clone: *mut u64, graph: u64);
    node_in_clone = "cuGraphNodeFindInClone"(found: *mut u64, node: u64, clone: u64);
    add_copy = "cuGraphAddMemcpyNode"(
        node: *mut u64, graph: u64, after: *const u64, count: usize, copy: *const CUDA_MEMCPY3D, context: u64);
    add_edges = "cuGraphAddDependencies"(graph: u64, from: *const u64, to: *const u64, count: usize);
    instantiate = "cuGraphInstantiateWithFlags"(executable: *mut u64, graph: u64, flags: u64);
    set_copy = "cuGraphExecMemcpyNodeSetParams"(
        executable: u64, node: u64, copy: *const CUDA_MEMCPY3D, context: u64);
    destroy_executable = "cuGraphExecDestroy"(executable: u64);
    destroy_graph = "cuGraphDestroy"(graph: u64);
}

/// Whether this driver can be asked how parameters lie. It then tells names and modules as well.
pub(crate) fn tells_parameters() -> bool {
    ["cuFuncGetParamInfo", "cuKernelGetParamInfo"].iter().all(|name| real_driver::has(name))
}
