//! The tables of Nsight Systems' exports that are written, with the columns of its schema 3.16.
//!
//! Its reference says which columns always have a value. Here only those do of which the trace always knows
//! one: what is not known is NULL, where Nsight Systems writes zero.

/// Of the schema, as META_DATA_EXPORT has it: Nsight Systems 2024.6 writes this one.
pub const VERSION: [u32; 3] = [3, 16, 1];

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    ExportMetaData,
    Strings,
    Processes,
    ThreadNames,
    Analysis,
    SessionStart,
    Gpu,
    CudaDevice,
    Runtime,
    Kernel,
    Copy,
    Fill,
    Graph,
    MemoryUsage,
    Nvtx,
    CopyKinds,
    MemoryKinds,
    MemoryOperations,
    EventTypes,
    EventClasses,
    Ranks,
}

/// By [`Table`]: the name, and the columns: ! has a value in every row, $ is text, ~ is a real number, + is
/// added.
const TABLES: [(Table, &str, &str); 21] = [
    (Table::ExportMetaData, "META_DATA_EXPORT", "name!$ value$"),
    (Table::Strings, "StringIds", "id! value!$"),
    (Table::Processes, "PROCESSES", "globalPid! pid! name!$"),
    (Table::ThreadNames, "ThreadNames", "nameId! priority globalTid!"),
    (Table::Analysis, "ANALYSIS_DETAILS", "globalVid! duration! startTime! stopTime!"),
    (Table::SessionStart, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs! utcTime$ localTime$"),
    (
        Table::Gpu,
        "TARGET_INFO_GPU",
        "vmId! id! name$ busLocation$ isDiscrete l2CacheSize totalMemory memoryBandwidth clockRate smCount pwGpuId \
         uuid$ luid chipName$ cuDevice ctxswDevPath$ ctrlDevPath$ revision nodeMask constantMemory maxIPC \
         maxRegistersPerBlock maxShmemPerBlock maxShmemPerBlockOptin maxShmemPerSm maxRegistersPerSm threadsPerWarp \
         asyncEngines maxWarpsPerSm maxBlocksPerSm maxThreadsPerBlock maxBlockDimX maxBlockDimY maxBlockDimZ \
         maxGridDimX maxGridDimY maxGridDimZ computeMajor computeMinor smMajor smMinor",
    ),
    (Table::CudaDevice, "TARGET_INFO_CUDA_DEVICE", "gpuId! cudaId! pid! uuid$ numMultiprocessors"),
    (
        Table::Runtime,
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "start! end! eventClass! globalTid! correlationId! nameId! returnValue! callchainId name!+$",
    ),
    (
        Table::Kernel,
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "start! end! deviceId contextId greenContextId streamId correlationId globalPid! demangledName! shortName! \
         mangledName! launchType cacheConfig registersPerThread gridX gridY gridZ blockX blockY blockZ \
         staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted \
         graphNodeId sharedMemoryLimitConfig name!+$",
    ),
    (
        Table::Copy,
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "start! end! deviceId contextId greenContextId streamId correlationId globalPid! bytes! copyKind! \
         deprecatedSrcId srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId migrationCause graphNodeId \
         virtualAddress",
    ),
    (
        Table::Fill,
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "start! end! deviceId contextId greenContextId streamId correlationId globalPid! value bytes! graphNodeId \
         memKind",
    ),
    (
        Table::Graph,
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        "start! end! deviceId contextId greenContextId streamId correlationId globalPid! graphId graphExecId",
    ),
    (
        Table::MemoryUsage,
        "CUDA_GPU_MEMORY_USAGE_EVENTS",
        "start! globalPid! deviceId contextId address pc bytes! memKind! memoryOperationType! name$ correlationId \
         streamId localMemoryPoolAddress localMemoryPoolReleaseThreshold localMemoryPoolSize \
         localMemoryPoolUtilizedSize importedMemoryPoolAddress importedMemoryPoolProcessId",
    ),
    (
        Table::Nvtx,
        "NVTX_EVENTS",
        "start! end eventType! rangeId category color text$ globalTid! endGlobalTid textId domainId! uint64Value \
         int64Value doubleValue~ uint32Value int32Value floatValue~ jsonTextId jsonText$ binaryData$",
    ),
    (Table::CopyKinds, "ENUM_CUDA_MEMCPY_OPER", LABELS),
    (Table::MemoryKinds, "ENUM_CUDA_MEM_KIND", LABELS),
    (Table::MemoryOperations, "ENUM_CUDA_DEV_MEM_EVENT_OPER", LABELS),
    (Table::EventTypes, "ENUM_NSYS_EVENT_TYPE", LABELS),
    (Table::EventClasses, "ENUM_NSYS_EVENT_CLASS", LABELS),
    // Not one of Nsight Systems': who the processes are in their job.
    (
        Table::Ranks,
        "CUTRACE_PROCESSES",
        "globalPid! pid! rank ranks localRank hostName!$ program!$ command!$ trace!$ start!",
    ),
];

const LABELS: &str = "id! name!$ label!$";

impl Table {
    pub const COUNT: usize = TABLES.len();

    pub fn all() -> impl Iterator<Item = Table> {
        TABLES.iter().map(|(table, ..)| *table)
    }

    pub fn name(self) -> &'static str {
        TABLES[self as usize].1
    }

    pub fn columns(self) -> impl Iterator<Item = Column> {
        TABLES[self as usize].2.split_ascii_whitespace().map(|written| {
            let (rest, kind) = match written.strip_suffix(['$', '~']) {
                Some(rest) if written.ends_with('$') => (rest, Kind::Text),
                Some(rest) => (rest, Kind::Real),
                None => (written, Kind::Integer),
            };
            let (rest, is_added) = rest.strip_suffix('+').map_or((rest, false), |rest| (rest, true));
            let name = rest.strip_suffix('!');
            Column { name: name.unwrap_or(rest), kind, is_required: name.is_some(), is_added }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_stand_at_their_numbers() {
        assert!(TABLES.iter().enumerate().all(|(at, (table, ..))| *table as usize == at));
        let of = |column: Column| (column.name, column.kind, column.is_required);
        let strings: Vec<_> = Table::Strings.columns().map(of).collect();
        assert_eq!(strings, [("id", Kind::Integer, true), ("value", Kind::Text, true)]);
        let double = Table::Nvtx.columns().find(|column| column.name == "doubleValue").map(of);
        assert_eq!(double, Some(("doubleValue", Kind::Real, false)));
    }
}
