//! cuGetProcAddress: exported functions by name, in the version that fits the caller's CUDA version.

use std::collections::HashMap;
use std::ffi::c_char;
use std::sync::OnceLock;

use super::declare::entries;
use crate::abi::code::{Code, Result};
use crate::abi::{Input, Out};
use crate::base::device::DRIVER_VERSION;
use crate::base::since::since;

const FOUND: u32 = 0;
const NOT_FOUND: u32 = 1;
const TOO_OLD: u32 = 2;
const PER_THREAD: u64 = 2;
/// The CUDA that brought the per-thread default stream.
const FIRST_TWINS: i32 = 7000;

/// Base name, the exported name, and the first CUDA version whose header maps the one to the other.
const VERSIONS: &[(&str, &str, i32)] = &[
    ("cuArray3DCreate", "cuArray3DCreate_v2", 3020),
    ("cuArray3DGetDescriptor", "cuArray3DGetDescriptor_v2", 3020),
    ("cuArrayCreate", "cuArrayCreate_v2", 3020),
    ("cuArrayGetDescriptor", "cuArrayGetDescriptor_v2", 3020),
    ("cuCtxCreate", "cuCtxCreate_v2", 3020),
    ("cuCtxCreate", "cuCtxCreate_v3", 11040),
    ("cuCtxCreate", "cuCtxCreate_v4", 12050),
    ("cuCtxDestroy", "cuCtxDestroy_v2", 4000),
    ("cuCtxGetDevice", "cuCtxGetDevice_v2", 13000),
    ("cuCtxPopCurrent", "cuCtxPopCurrent_v2", 4000),
    ("cuCtxPushCurrent", "cuCtxPushCurrent_v2", 4000),
    ("cuCtxSynchronize", "cuCtxSynchronize_v2", 13000),
    ("cuDeviceGetUuid", "cuDeviceGetUuid_v2", 11040),
    ("cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2", 11000),
    ("cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2", 11000),
    ("cuDevicePrimaryCtxSetFlags", "cuDevicePrimaryCtxSetFlags_v2", 11000),
    ("cuDeviceTotalMem", "cuDeviceTotalMem_v2", 3020),
    ("cuEventDestroy", "cuEventDestroy_v2", 4000),
    ("cuEventElapsedTime", "cuEventElapsedTime_v2", 12080),
    ("cuGetProcAddress", "cuGetProcAddress_v2", 12000),
    ("cuGraphAddKernelNode", "cuGraphAddKernelNode_v2", 12000),
    ("cuGraphAddNode", "cuGraphAddNode_v2", 12030),
    ("cuGraphAddNode", "cuGraphAddNode_v3", 13040),
    ("cuGraphAddDependencies", "cuGraphAddDependencies_v2", 12030),
    ("cuGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams_v2", 12000),
    ("cuGraphExecUpdate", "cuGraphExecUpdate_v2", 12000),
    ("cuGraphGetEdges", "cuGraphGetEdges_v2", 12030),
    ("cuGraphInstantiate", "cuGraphInstantiate_v2", 11000),
    ("cuGraphInstantiate", "cuGraphInstantiateWithFlags", 12000),
    ("cuGraphRemoveDependencies", "cuGraphRemoveDependencies_v2", 12030),
    ("cuStreamUpdateCaptureDependencies", "cuStreamUpdateCaptureDependencies_v2", 12030),
    ("cuGraphKernelNodeGetParams", "cuGraphKernelNodeGetParams_v2", 12000),
    ("cuGraphKernelNodeSetParams", "cuGraphKernelNodeSetParams_v2", 12000),
    ("cuGraphNodeGetDependencies", "cuGraphNodeGetDependencies_v2", 12030),
    ("cuGraphNodeGetDependentNodes", "cuGraphNodeGetDependentNodes_v2", 12030),
    ("cuGraphNodeSetParams", "cuGraphNodeSetParams_v2", 13040),
    ("cuLaunchHostFunc", "cuLaunchHostFunc_v2", 13010),
    ("cuLinkAddData", "cuLinkAddData_v2", 6050),
    ("cuLinkAddFile", "cuLinkAddFile_v2", 6050),
    ("cuLinkCreate", "cuLinkCreate_v2", 6050),
    ("cuMemAllocHost", "cuMemAllocHost_v2", 3020),
    ("cuMemGetInfo", "cuMemGetInfo_v2", 3020),
    ("cuMemcpy2D", "cuMemcpy2D_v2", 3020),
    ("cuMemcpy2DAsync", "cuMemcpy2DAsync_v2", 3020),
    ("cuMemcpy2DUnaligned", "cuMemcpy2DUnaligned_v2", 3020),
    ("cuMemcpy3D", "cuMemcpy3D_v2", 3020),
    ("cuMemcpy3DAsync", "cuMemcpy3DAsync_v2", 3020),
    ("cuMemcpy3DBatchAsync", "cuMemcpy3DBatchAsync_v2", 13000),
    ("cuMemcpyAtoA", "cuMemcpyAtoA_v2", 3020),
    ("cuMemcpyAtoH", "cuMemcpyAtoH_v2", 3020),
    ("cuMemcpyAtoHAsync", "cuMemcpyAtoHAsync_v2", 3020),
    ("cuMemcpyHtoA", "cuMemcpyHtoA_v2", 3020),
    ("cuMemcpyHtoAAsync", "cuMemcpyHtoAAsync_v2", 3020),
    ("cuTexRefSetAddress2D", "cuTexRefSetAddress2D_v2", 3020),
    ("cuTexRefSetAddress2D", "cuTexRefSetAddress2D_v3", 4010),
    ("cuMemcpyBatchAsync", "cuMemcpyBatchAsync_v2", 13000),
    ("cuMemHostRegister", "cuMemHostRegister_v2", 6050),
    ("cuMemAdvise", "cuMemAdvise_v2", 12020),
    ("cuMemPrefetchAsync", "cuMemPrefetchAsync_v2", 12020),
    ("cuStreamBatchMemOp", "cuStreamBatchMemOp_v2", 11070),
    ("cuStreamBeginCapture", "cuStreamBeginCapture_v2", 10010),
    ("cuStreamDestroy", "cuStreamDestroy_v2", 4000),
    ("cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", 11030),
    ("cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v3", 12030),
    ("cuStreamGetCtx", "cuStreamGetCtx_v2", 12050),
    ("cuStreamWaitValue32", "cuStreamWaitValue32_v2", 11070),
    ("cuStreamWaitValue64", "cuStreamWaitValue64_v2", 11070),
    ("cuStreamWriteValue32", "cuStreamWriteValue32_v2", 11070),
    ("cuStreamWriteValue64", "cuStreamWriteValue64_v2", 11070),
];

fn exports() -> &'static HashMap<&'static str, usize> {
    static EXPORTS: OnceLock<HashMap<&'static str, usize>> = OnceLock::new();
    EXPORTS.get_or_init(|| super::all().into_iter().filter(|(name, _)| !crate::base::age::lacks(name)).collect())
}

/// Whether this is the name of one form of a function (`cuMemAlloc_v2`, `cuLaunchKernel_ptsz`), which is not asked for.
fn is_form(symbol: &str) -> bool {
    let (_, end) = symbol.rsplit_once('_').unwrap_or_default();
    matches!(end, "ptsz" | "ptds") || end.strip_prefix('v').is_some_and(|digits| digits.parse::<u32>().is_ok())
}

/// The exported name that a base name means to a caller of this CUDA version, or why there is none.
fn versioned(symbol: &str, version: i32) -> std::result::Result<String, u32> {
    let rows = || VERSIONS.iter().filter(|(base, name, _)| *base == symbol && exports().contains_key(name));
    let newest = rows().filter(|(.., since)| *since <= version).max_by_key(|(.., since)| *since);
    if let Some((_, name, _)) = newest {
        return Ok((*name).to_owned());
    }
    if is_form(symbol) {
        return Err(NOT_FOUND);
    }
    // Functions of CUDA 3.2 that took 32-bit sizes before: only the second form exists here.
    let second = format!("{symbol}_v2");
    let listed = VERSIONS.iter().any(|(base, name, _)| *base == symbol && *name == second);
    let known = |name: &str| exports().contains_key(name);
    if known(symbol) && since(symbol) <= version {
        Ok(symbol.to_owned())
    } else if !known(symbol) && known(&second) && !listed && version >= 3020 {
        Ok(second)
    } else if known(symbol) || known(&second) || rows().next().is_some() {
        Err(TOO_OLD)
    } else {
        Err(NOT_FOUND)
    }
}

/// Address and status.
fn find(symbol: &str, version: i32, flags: u64) -> (usize, u32) {
    let name = match versioned(symbol, version) {
        Ok(name) => name,
        Err(status) => return (0, status),
    };
    let twins = ["_ptsz", "_ptds"].map(|suffix| format!("{name}{suffix}"));
    let twin = twins.iter().find_map(|twin| exports().get(twin.as_str()));
    if twin.is_some() && flags & PER_THREAD != 0 && version < FIRST_TWINS {
        return (0, TOO_OLD);
    }
    match twin.filter(|_| flags & PER_THREAD != 0).or_else(|| exports().get(name.as_str())) {
        Some(address) => (*address, FOUND),
        None => (0, NOT_FOUND),
    }
}

fn answer(symbol: Input<c_char>, function: Out<usize>, version: i32, flags: u64, status: Out<u32>) -> Result {
    if function.is_null() || flags > 3 || version > DRIVER_VERSION {
        return Err(Code::INVALID_VALUE);
    }
    let (address, found) = find(&symbol.text()?, version, flags);
    function.set(address)?;
    status.set_if(found);
    Ok(())
}

entries! {
    always cuGetProcAddress(symbol: Input<c_char>, function: Out<usize>, version: i32, flags: u64) {
        answer(symbol, function, version, flags, Out::from_raw(std::ptr::null_mut()))?;
        if function.get()? == 0 { Err(Code::NOT_FOUND) } else { Ok(()) }
    }

    always cuGetProcAddress_v2(symbol: Input<c_char>, function: Out<usize>, version: i32, flags: u64, status: Out<u32>) {
        // Who asks for the status is answered there alone.
        let has_status = !status.is_null();
        answer(symbol, function, version, flags, status)?;
        if function.get()? == 0 && !has_status { Err(Code::NOT_FOUND) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_is_exported_once() {
        assert_eq!(super::super::all().len(), exports().len());
    }

    #[test]
    fn versions_name_what_is_exported() {
        for (base, name, _) in VERSIONS {
            assert!(exports().contains_key(name), "{base}: {name}");
        }
    }

    #[test]
    fn the_version_and_the_flag_choose() {
        let address = |name| (exports()[name], FOUND);
        assert_eq!(find("cuMemAlloc", 12000, 0), address("cuMemAlloc_v2"));
        assert_eq!(find("cuCtxCreate", 11000, 0), address("cuCtxCreate_v2"));
        assert_eq!(find("cuCtxCreate", 13000, 0), address("cuCtxCreate_v4"));
        assert_eq!(find("cuLaunchKernel", 13000, 0), address("cuLaunchKernel"));
        assert_eq!(find("cuLaunchKernel", 13000, PER_THREAD), address("cuLaunchKernel_ptsz"));
        assert_eq!(find("cuMemcpyHtoD", 13000, PER_THREAD), address("cuMemcpyHtoD_v2_ptds"));
        assert_eq!(find("cuMemAlloc", 2000, 0), (0, TOO_OLD));
        assert_eq!(find("cuMulticastCreate", 13000, 0), (0, NOT_FOUND));
        assert_eq!(find("", 0, 0), (0, NOT_FOUND));
        assert_eq!(find("cuKernelGetLibrary", 12040, 0), (0, TOO_OLD));
        assert_eq!(find("cuKernelGetLibrary", 12050, 0), address("cuKernelGetLibrary"));
        assert_eq!(find("cuLaunchHostFunc", 13000, PER_THREAD), address("cuLaunchHostFunc_ptsz"));
        assert_eq!(find("cuLaunchHostFunc", 13010, PER_THREAD), address("cuLaunchHostFunc_v2_ptsz"));
    }

    /// `PFN_cuMemcpy2D_v3020`: what the header has for callers of each version. Those of per-thread streams came
    /// with the rest, or all with 7.0.
    #[test]
    fn versions_are_those_of_the_header() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/cuda/include-13.5/cudaTypedefs.h");
        let header = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}: run scripts/cuda-headers"));
        let mut versions: HashMap<&str, BTreeSet<i32>> = HashMap::new();
        for name in header.split("PFN_").skip(1).filter_map(|rest| rest.split(')').next()) {
            if let Some((base, version)) = name.rsplit_once("_v").filter(|(base, _)| exports().contains_key(base))
                && let Ok(version) = version.parse()
            {
                versions.entry(base).or_default().insert(version);
            }
        }
        assert!(versions.len() > 300, "{}", versions.len());
        for (base, all) in versions {
            assert_eq!(all.first(), Some(&since(base)), "{base}");
            let found: Vec<_> = all.iter().map(|version| versioned(base, *version).expect(base)).collect();
            let before: Vec<_> = all.iter().skip(1).map(|version| versioned(base, version - 1).expect(base)).collect();
            assert_eq!(before, found[..before.len()], "{base}: {all:?}");
            let distinct: BTreeSet<&String> = found.iter().collect();
            assert_eq!(distinct.len(), found.len(), "{base}: {found:?}");
        }
    }
}
