//! The type of a union's live member, for roles that depend on the value of a sibling enumeration.

use super::enums::*;
use super::structs::*;
use super::types::{Type, Typed};

/// Attributes of launches, streams and kernel nodes.
pub const LAUNCH_ATTRIBUTES: &[(u32, &Type)] = &[
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW.0, CUaccessPolicyWindow::TYPE),
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE.0, i32::TYPE),
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY.0, CUsynchronizationPolicy::TYPE),
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION.0, ClusterDim::TYPE),
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE.0, CUclusterSchedulingPolicy::TYPE),
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION.0, i32::TYPE),
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT.0, ProgrammaticEvent::TYPE),
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_PRIORITY.0, i32::TYPE),
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP.0, CUlaunchMemSyncDomainMap::TYPE),
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN.0, CUlaunchMemSyncDomain::TYPE),
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION.0, ClusterDim::TYPE),
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT.0, LaunchCompletionEvent::TYPE),
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE.0, DeviceUpdatableKernelNode::TYPE),
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT.0, u32::TYPE),
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING.0, u32::TYPE),
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_PORTABLE_CLUSTER_SIZE_MODE.0, CUlaunchAttributePortableClusterMode::TYPE),
    (CUstreamAttrID::CU_LAUNCH_ATTRIBUTE_SHARED_MEMORY_MODE.0, CUsharedMemoryMode::TYPE),
];

/// Operations of `cuStreamBatchMemOp` that have more to say than their flags.
pub const STREAM_MEM_OPS: &[(u32, &Type)] = &[
    (CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WAIT_VALUE_32.0, StreamWaitValue32::TYPE),
    (CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_32.0, StreamWriteValue32::TYPE),
    (CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WAIT_VALUE_64.0, StreamWaitValue64::TYPE),
    (CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_64.0, StreamWriteValue64::TYPE),
    (CUstreamBatchMemOpType::CU_STREAM_MEM_OP_ATOMIC_REDUCTION.0, StreamAtomicReduction::TYPE),
];

/// What `CUgraphNodeParams` holds, by the type of the node. An empty node has nothing.
pub const GRAPH_NODES: &[(u32, &Type)] = &[
    (CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL.0, CUDA_KERNEL_NODE_PARAMS_v3::TYPE),
    (CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY.0, CUDA_MEMCPY_NODE_PARAMS::TYPE),
    (CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET.0, CUDA_MEMSET_NODE_PARAMS_v2::TYPE),
    (CUgraphNodeType::CU_GRAPH_NODE_TYPE_HOST.0, CUDA_HOST_NODE_PARAMS_v2::TYPE),
    (CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH.0, CUDA_CHILD_GRAPH_NODE_PARAMS::TYPE),
    (CUgraphNodeType::CU_GRAPH_NODE_TYPE_WAIT_EVENT.0, CUDA_EVENT_WAIT_NODE_PARAMS::TYPE),
    (CUgraphNodeType::CU_GRAPH_NODE_TYPE_EVENT_RECORD.0, CUDA_EVENT_RECORD_NODE_PARAMS::TYPE),
    (CUgraphNodeType::CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL.0, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2::TYPE),
    (CUgraphNodeType::CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT.0, CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2::TYPE),
    (CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC.0, CUDA_MEM_ALLOC_NODE_PARAMS_v2::TYPE),
    (CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE.0, CUDA_MEM_FREE_NODE_PARAMS::TYPE),
    (CUgraphNodeType::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP.0, CUDA_BATCH_MEM_OP_NODE_PARAMS_v2::TYPE),
    (CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL.0, CUDA_CONDITIONAL_NODE_PARAMS::TYPE),
    (CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY_BATCH.0, CUDA_MEMCPY_BATCH_NODE_PARAMS::TYPE),
    (CUgraphNodeType::CU_GRAPH_NODE_TYPE_FABRIC_CPY_BATCH.0, CUDA_FABRIC_CPY_BATCH_NODE_PARAMS::TYPE),
];

/// The status with which `cuStreamGetCaptureInfo` fills in the rest; else it leaves it untouched (driver
/// 580).
pub const CAPTURING: u32 = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE.0;

/// Memory that the graphs of a device hold.
pub const GRAPH_MEM_ATTRIBUTES: &[(u32, &Type)] = &[
    (CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT.0, u64::TYPE),
    (CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH.0, u64::TYPE),
    (CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT.0, u64::TYPE),
    (CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH.0, u64::TYPE),
];

/// JIT options whose value is a text buffer that the driver fills; the option after each is the buffer's
/// size.
pub const LOG_BUFFERS: [u32; 2] = [CUjit_option::CU_JIT_INFO_LOG_BUFFER.0, CUjit_option::CU_JIT_ERROR_LOG_BUFFER.0];
