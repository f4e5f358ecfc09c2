//! The exported tables of Nsight Systems, with the columns of its schema 3.16.
//!
//! Its reference names the columns that always have a value. Here only those do for which the trace always
//! has one: an unknown value is NULL, where Nsight Systems writes zero.

use super::rows::{Cell, Row};

/// Of the schema, as META_DATA_EXPORT has it: Nsight Systems 2024.6 writes this one.
pub(crate) const VERSION: [u32; 3] = [3, 16, 1];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Real,
    Text,
}

#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    /// It always has a value.
    pub is_required: bool,
    /// Beside those of Nsight Systems: what its number stands for, for files that are read without a join.
    pub is_added: bool,
}

impl Column {
    const fn always(name: &'static str, kind: Kind) -> Column {
        Column { name, kind, is_required: true, is_added: false }
    }

    const fn maybe(name: &'static str, kind: Kind) -> Column {
        Column { name, kind, is_required: false, is_added: false }
    }

    const fn added(name: &'static str, kind: Kind) -> Column {
        Column { name, kind, is_required: true, is_added: true }
    }
}

/// A row of each table by its columns; tables of labels have three alike.
macro_rules! tables {
    (
        $($table:ident = $name:literal { $($column:ident: $rule:ident $kind:ident),* $(,)? })*
        @labels { $($labels:ident = $labels_name:literal),* $(,)? }
    ) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Table { $($table,)* $($labels,)* }

        /// By [`Table`].
        const TABLES: &[(Table, &str, &[Column])] = &[
            $((Table::$table, $name, &[$(Column::$rule(stringify!($column), Kind::$kind)),*]),)*
            $((Table::$labels, $labels_name, LABELS),)*
        ];

        $(
            #[allow(non_snake_case, reason = "Nsight Systems calls them so")]
            #[derive(Default)]
            pub(crate) struct $table<'x> {
                $(pub $column: Cell<'x>),*
            }

            impl<'x> Row<'x> for $table<'x> {
                const TABLE: Table = Table::$table;

                fn cells(self) -> impl AsRef<[Cell<'x>]> {
                    [$(self.$column),*]
                }
            }
        )*
    };
}

tables! {
    ExportMetaData = "META_DATA_EXPORT" {
        name: always Text, value: maybe Text,
    }
    Strings = "StringIds" {
        id: always Integer, value: always Text,
    }
    Processes = "PROCESSES" {
        globalPid: always Integer, pid: always Integer, name: always Text,
    }
    ThreadNames = "ThreadNames" {
        nameId: always Integer, priority: maybe Integer, globalTid: always Integer,
    }
    Analysis = "ANALYSIS_DETAILS" {
        globalVid: always Integer, duration: always Integer, startTime: always Integer,
        stopTime: always Integer,
    }
    SessionStart = "TARGET_INFO_SESSION_START_TIME" {
        utcEpochNs: always Integer, utcTime: maybe Text, localTime: maybe Text,
    }
    Gpu = "TARGET_INFO_GPU" {
        vmId: always Integer, id: always Integer, name: maybe Text, busLocation: maybe Text,
        isDiscrete: maybe Integer, l2CacheSize: maybe Integer, totalMemory: maybe Integer,
        memoryBandwidth: maybe Integer, clockRate: maybe Integer, smCount: maybe Integer,
        pwGpuId: maybe Integer, uuid: maybe Text, luid: maybe Integer, chipName: maybe Text,
        cuDevice: maybe Integer, ctxswDevPath: maybe Text, ctrlDevPath: maybe Text, revision: maybe Integer,
        nodeMask: maybe Integer, constantMemory: maybe Integer, maxIPC: maybe Integer,
        maxRegistersPerBlock: maybe Integer, maxShmemPerBlock: maybe Integer,
        maxShmemPerBlockOptin: maybe Integer, maxShmemPerSm: maybe Integer, maxRegistersPerSm: maybe Integer,
        threadsPerWarp: maybe Integer, asyncEngines: maybe Integer, maxWarpsPerSm: maybe Integer,
        maxBlocksPerSm: maybe Integer, maxThreadsPerBlock: maybe Integer, maxBlockDimX: maybe Integer,
        maxBlockDimY: maybe Integer, maxBlockDimZ: maybe Integer, maxGridDimX: maybe Integer,
        maxGridDimY: maybe Integer, maxGridDimZ: maybe Integer, computeMajor: maybe Integer,
        computeMinor: maybe Integer, smMajor: maybe Integer, smMinor: maybe Integer,
    }
    CudaDevice = "TARGET_INFO_CUDA_DEVICE" {
        gpuId: always Integer, cudaId: always Integer, pid: always Integer, uuid: maybe Text,
        numMultiprocessors: maybe Integer,
    }
    ContextInfo = "TARGET_INFO_CUDA_CONTEXT_INFO" {
        nullStreamId: maybe Integer, hwId: maybe Integer, vmId: always Integer, processId: always Integer,
        deviceId: maybe Integer, contextId: always Integer, parentContextId: maybe Integer,
        isGreenContext: maybe Integer,
    }
    Environment = "TARGET_INFO_SYSTEM_ENV" {
        globalVid: always Integer, devStateName: maybe Text, name: always Text, nameEnum: maybe Integer,
        value: always Text,
    }
    Runtime = "CUPTI_ACTIVITY_KIND_RUNTIME" {
        start: always Integer, end: always Integer, eventClass: always Integer, globalTid: always Integer,
        correlationId: always Integer, nameId: always Integer, returnValue: always Integer,
        callchainId: maybe Integer, name: added Text,
    }
    Kernel = "CUPTI_ACTIVITY_KIND_KERNEL" {
        start: always Integer, end: always Integer, deviceId: maybe Integer, contextId: maybe Integer,
        greenContextId: maybe Integer, streamId: maybe Integer, correlationId: maybe Integer,
        globalPid: always Integer, demangledName: always Integer, shortName: always Integer,
        mangledName: always Integer, launchType: maybe Integer, cacheConfig: maybe Integer,
        registersPerThread: maybe Integer, gridX: maybe Integer, gridY: maybe Integer, gridZ: maybe Integer,
        blockX: maybe Integer, blockY: maybe Integer, blockZ: maybe Integer, staticSharedMemory: maybe Integer,
        dynamicSharedMemory: maybe Integer, localMemoryPerThread: maybe Integer,
        localMemoryTotal: maybe Integer, gridId: maybe Integer, sharedMemoryExecuted: maybe Integer,
        graphNodeId: maybe Integer, sharedMemoryLimitConfig: maybe Integer, name: added Text,
    }
    Copy = "CUPTI_ACTIVITY_KIND_MEMCPY" {
        start: always Integer, end: always Integer, deviceId: maybe Integer, contextId: maybe Integer,
        greenContextId: maybe Integer, streamId: maybe Integer, correlationId: maybe Integer,
        globalPid: always Integer, bytes: always Integer, copyKind: always Integer,
        deprecatedSrcId: maybe Integer, srcKind: maybe Integer, dstKind: maybe Integer,
        srcDeviceId: maybe Integer, srcContextId: maybe Integer, dstDeviceId: maybe Integer,
        dstContextId: maybe Integer, migrationCause: maybe Integer, graphNodeId: maybe Integer,
        virtualAddress: maybe Integer,
    }
    Fill = "CUPTI_ACTIVITY_KIND_MEMSET" {
        start: always Integer, end: always Integer, deviceId: maybe Integer, contextId: maybe Integer,
        greenContextId: maybe Integer, streamId: maybe Integer, correlationId: maybe Integer,
        globalPid: always Integer, value: maybe Integer, bytes: always Integer, graphNodeId: maybe Integer,
        memKind: maybe Integer,
    }
    Graph = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" {
        start: always Integer, end: always Integer, deviceId: maybe Integer, contextId: maybe Integer,
        greenContextId: maybe Integer, streamId: maybe Integer, correlationId: maybe Integer,
        globalPid: always Integer, graphId: maybe Integer, graphExecId: maybe Integer,
    }
    Wait = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION" {
        start: always Integer, end: always Integer, deviceId: maybe Integer, contextId: maybe Integer,
        greenContextId: maybe Integer, streamId: maybe Integer, correlationId: always Integer,
        globalPid: always Integer, syncType: always Integer, eventId: maybe Integer,
    }
    MemoryUsage = "CUDA_GPU_MEMORY_USAGE_EVENTS" {
        start: always Integer, globalPid: always Integer, deviceId: maybe Integer, contextId: maybe Integer,
        address: maybe Integer, pc: maybe Integer, bytes: always Integer, memKind: always Integer,
        memoryOperationType: always Integer, name: maybe Text, correlationId: maybe Integer,
        streamId: maybe Integer, localMemoryPoolAddress: maybe Integer,
        localMemoryPoolReleaseThreshold: maybe Integer, localMemoryPoolSize: maybe Integer,
        localMemoryPoolUtilizedSize: maybe Integer, importedMemoryPoolAddress: maybe Integer,
        importedMemoryPoolProcessId: maybe Integer,
    }
    Nvtx = "NVTX_EVENTS" {
        start: always Integer, end: maybe Integer, eventType: always Integer, rangeId: maybe Integer,
        category: maybe Integer, color: maybe Integer, text: maybe Text, globalTid: always Integer,
        endGlobalTid: maybe Integer, textId: maybe Integer, domainId: always Integer,
        uint64Value: maybe Integer, int64Value: maybe Integer, doubleValue: maybe Real,
        uint32Value: maybe Integer, int32Value: maybe Integer, floatValue: maybe Real,
        jsonTextId: maybe Integer, jsonText: maybe Text, binaryData: maybe Text,
    }
    // Not one of Nsight Systems': who the processes are in their job.
    Ranks = "CUTRACE_PROCESSES" {
        globalPid: always Integer, pid: always Integer, rank: maybe Integer, ranks: maybe Integer,
        localRank: maybe Integer, hostName: always Text, program: always Text, command: always Text,
        trace: always Text, start: always Integer,
    }
    @labels {
        CopyKinds = "ENUM_CUDA_MEMCPY_OPER",
        MemoryKinds = "ENUM_CUDA_MEM_KIND",
        MemoryOperations = "ENUM_CUDA_DEV_MEM_EVENT_OPER",
        LaunchTypes = "ENUM_CUDA_KERNEL_LAUNCH_TYPE",
        WaitTypes = "ENUM_CUPTI_SYNC_TYPE",
        EventTypes = "ENUM_NSYS_EVENT_TYPE",
        EventClasses = "ENUM_NSYS_EVENT_CLASS",
    }
}

const LABELS: &[Column] =
    &[Column::always("id", Kind::Integer), Column::always("name", Kind::Text), Column::always("label", Kind::Text)];

impl Table {
    pub const COUNT: usize = TABLES.len();

    pub fn all() -> impl Iterator<Item = Table> {
        TABLES.iter().map(|(table, ..)| *table)
    }

    pub fn name(self) -> &'static str {
        TABLES[self as usize].1
    }

    pub fn columns(self) -> impl Iterator<Item = Column> {
        TABLES[self as usize].2.iter().copied()
    }
}
