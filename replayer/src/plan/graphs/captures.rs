//! Copies that a graph makes: they read host memory when the graph runs, and the bytes read then are not
//! recorded.

use crate::base::ranges::Ranges;
use std::ops::Range;
use trace::api::copies::region;
use trace::api::enums::CUmemorytype;
use trace::api::roles::{Role, Side};
use trace::api::types::{Form, Type};
use trace::model::nested_structs::structs;
use trace::read::call::{Content, Image};
use trace::{Call, Function};

pub(crate) const WHY: &str = "a graph copies from host memory: CPU writes there between its launches are not recorded";

/// Whether one of the call's sources is host memory.
pub(crate) fn reads_host(call: &Call, function: &'static Function, host: &Ranges) -> bool {
    let is_recorded = |address: u64| {
        let is_memory = |image: &Image| !matches!(image.content, Content::Arguments { .. });
        call.images().any(|image| image.address == address && is_memory(&image))
    };
    let mut found = function.params.iter().any(|param| {
        let address = call.argument(param.name).unwrap_or(0);
        match param.role {
            Role::Source(_) => address != 0,
            Role::Reads(_) => address != 0 && (host.contains(address) || is_recorded(address)),
            _ => false,
        }
    });
    structs(call, function, &mut |ty, bytes| {
        // How wide an array's elements are does not matter here.
        let Some(from) = has_source(ty).then(|| region(ty, bytes, Side::Source, |_| Some(1))).flatten() else { return };
        let is_unified = memory_type(ty, bytes, Side::Source) != Some(CUmemorytype::CU_MEMORYTYPE_HOST);
        found |= !is_unified || host.contains(from.address) || is_recorded(from.address);
    });
    found
}

/// Memory that a copy names, on whichever side.
pub(crate) fn named_memory(call: &Call, function: &'static Function) -> Vec<Range<u64>> {
    let len = call.argument("ByteCount").or_else(|| call.argument("size")).unwrap_or(0);
    let is_named = |role| matches!(role, Role::Source(_) | Role::Sink(_) | Role::Reads(_) | Role::Writes(_));
    let named = function.params.iter().filter(|param| is_named(param.role));
    let starts = named.filter_map(|param| call.argument(param.name));
    let mut all: Vec<Range<u64>> = starts.map(|start| start..start.saturating_add(len)).collect();
    structs(call, function, &mut |ty, bytes| {
        for side in [Side::Source, Side::Destination].into_iter().filter(|_| has_source(ty)) {
            let region = region(ty, bytes, side, |_| Some(1));
            all.extend(region.map(|region| region.address..region.address.saturating_add(region.span())));
        }
    });
    all
}

fn has_source(ty: &Type) -> bool {
    let Form::Struct(fields) = ty.form else { return false };
    fields.iter().any(|field| matches!(field.role, Role::CopyHost(Side::Source)))
}

/// What a copy descriptor says about the memory at one of its sides, if it does.
pub(crate) fn memory_type(ty: &Type, descriptor: &[u8], side: Side) -> Option<CUmemorytype> {
    let name = match side {
        Side::Source => "srcMemoryType",
        Side::Destination => "dstMemoryType",
    };
    let Form::Struct(fields) = ty.form else { return None };
    let at = fields.iter().find(|field| field.name == name)?.offset as usize;
    let tag = descriptor.get(at..at + 4)?.try_into().expect("4 bytes");
    Some(CUmemorytype(u32::from_le_bytes(tag)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sample::Sample;
    use crate::plan::plan;
    use trace::api::structs::CUDA_MEMCPY3D;
    use trace::api::table::BROKEN_CAPTURE;

    const HOST: u64 = 0x5555_0000_0000;
    const DEVICE: u64 = 0x7f00_0000_0000;
    const STREAM: u64 = 0x51;
    const OTHER: u64 = 0x52;

    fn with_memory() -> Sample {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.call(0, "cuMemAllocHost_v2", 2..3, &[0x100, 4096], &[(0x100, &HOST.to_le_bytes())]);
        sample.call(0, "cuMemAlloc_v2", 4..5, &[0x100, 4096], &[(0x100, &DEVICE.to_le_bytes())]);
        for (at, stream) in [(6, STREAM), (8, OTHER)] {
            sample.call(0, "cuStreamCreate", at..at + 1, &[0x100, 1], &[(0x100, &stream.to_le_bytes())]);
        }
        sample
    }

    fn is_named(sample: &Sample) -> bool {
        plan(&sample.trace()).judgement.reasons.iter().any(|reason| reason.what == WHY)
    }

    fn copy(sample: &mut Sample, at: u64, stream: u64) {
        sample.call(0, "cuMemcpyAsync", at..at + 1, &[DEVICE, HOST, 64, stream], &[(HOST, &[1; 64])]);
    }

    #[test]
    fn a_captured_copy_from_pinned_memory() {
        let mut sample = with_memory();
        copy(&mut sample, 10, STREAM);
        sample.call(0, "cuStreamBeginCapture_v2", 12..13, &[STREAM, 0], &[]);
        copy(&mut sample, 14, OTHER);
        assert!(!is_named(&sample));
        copy(&mut sample, 16, STREAM);
        assert!(is_named(&sample));
    }

    #[test]
    fn a_capture_that_was_broken_has_ended() {
        let mut sample = with_memory();
        sample.call(0, "cuStreamBeginCapture_v2", 12..13, &[STREAM, 0], &[]);
        sample.failed(0, "cuStreamEndCapture", 14..15, BROKEN_CAPTURE[0], &[STREAM, 0x100]);
        copy(&mut sample, 16, STREAM);
        assert!(!is_named(&sample));
    }

    #[test]
    fn a_stream_that_joined_the_capture() {
        let mut sample = with_memory();
        sample.call(0, "cuEventCreate", 10..11, &[0x100, 0], &[(0x100, &0xe0u64.to_le_bytes())]);
        sample.call(0, "cuStreamBeginCapture_v2", 12..13, &[STREAM, 0], &[]);
        sample.call(0, "cuEventRecord", 14..15, &[0xe0, STREAM], &[]);
        sample.call(0, "cuStreamWaitEvent", 16..17, &[OTHER, 0xe0, 0], &[]);
        sample.call(0, "cuStreamEndCapture", 18..19, &[STREAM, 0x100], &[(0x100, &0xabu64.to_le_bytes())]);
        copy(&mut sample, 20, OTHER);
        assert!(!is_named(&sample));
        sample.call(0, "cuStreamBeginCapture_v2", 22..23, &[STREAM, 0], &[]);
        sample.call(0, "cuEventRecord", 24..25, &[0xe0, STREAM], &[]);
        sample.call(0, "cuStreamWaitEvent", 26..27, &[OTHER, 0xe0, 0], &[]);
        copy(&mut sample, 28, OTHER);
        assert!(is_named(&sample));
    }

    #[test]
    fn a_node_that_copies() {
        for (memory_type, named) in
            [(CUmemorytype::CU_MEMORYTYPE_HOST, true), (CUmemorytype::CU_MEMORYTYPE_DEVICE, false)]
        {
            let mut sample = with_memory();
            // SAFETY: a plain C struct, for which zeros are valid.
            let mut params = unsafe { std::mem::zeroed::<CUDA_MEMCPY3D>() };
            params.srcMemoryType = memory_type;
            params.srcHost = HOST as *const _;
            params.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
            (params.WidthInBytes, params.Height, params.Depth) = (64, 1, 1);
            // SAFETY: the bytes of a struct without padding.
            let bytes = unsafe { std::slice::from_raw_parts((&raw const params).cast::<u8>(), size_of_val(&params)) };
            sample.call(0, "cuGraphCreate", 10..11, &[0x100, 0], &[(0x100, &0xa0u64.to_le_bytes())]);
            let words = [0x108, 0xa0, 0, 0, 0x200, 0];
            let made = 0xd0u64.to_le_bytes();
            sample.call(0, "cuGraphAddMemcpyNode", 12..13, &words, &[(0x108, &made), (0x200, bytes)]);
            assert_eq!(is_named(&sample), named);
        }
    }
}
