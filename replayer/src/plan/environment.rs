//! The recorded environment variables of the driver. A replay sets only those that change results or their
//! order.
//!
//! A trace may be a stranger's, and other variables name files that the driver opens and writes, tools that
//! it loads, servers that it connects to, or make it wait for a debugger.

use trace::Trace;

/// The list of the programming guide of CUDA 13, 5.2
/// (docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html), without those that
/// * name a file or a directory: CUDA_CACHE_PATH, CUDA_LOG_FILE;
/// * make code compile or load faster or slower: CUDA_CACHE_DISABLE, CUDA_CACHE_MAXSIZE,
///   CUDA_BINARY_LOADER_THREAD_COUNT;
/// * change clocks, or how the CPU waits: CUDA_AUTO_BOOST, CUDA_DISABLE_PERF_BOOST,
///   CUDA_PREFER_SPINLOCKS_ON_HOST;
/// * wait for a debugger: CUDA_DEVICE_WAITS_ON_EXCEPTION;
/// * are for the daemon of MPS: CUDA_DEVICE_DEFAULT_PERSISTING_L2_CACHE_PERCENTAGE_LIMIT, and those that the
///   guide leaves to the document on MPS.
///
/// Without CUDA_FORCE_PRELOAD_LIBRARIES, the guide says, some programs with several threads deadlock.
const SET: [&str; 16] = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_MANAGED_FORCE_DEVICE_ALLOC",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_FORCE_JIT",
    "CUDA_DISABLE_JIT",
    "CUDA_FORCE_PRELOAD_LIBRARIES",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS",
    "CUDA_SCALE_LAUNCH_QUEUES",
    "CUDA_GRAPHS_USE_NODE_PRIORITY",
    "CUDA_MODULE_LOADING",
    "CUDA_MODULE_DATA_LOADING",
    "CUDA_DEVICE_DEFAULT_STACK_SIZE_MAX",
];

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Environment {
    pub set: Vec<(String, String)>,
    /// Names of the driver's other variables.
    pub left_out: Vec<String>,
}

impl Environment {
    pub fn from_trace(trace: &Trace) -> Environment {
        let mut environment = Environment::default();
        for (name, value) in trace.preamble.environment.iter().filter(|(name, _)| name.starts_with("CUDA_")) {
            match SET.contains(&name.as_str()) && !value.contains('\0') {
                true => environment.set.push((name.clone(), value.clone())),
                false => environment.left_out.push(name.escape_debug().to_string()),
            }
        }
        environment
    }
}
