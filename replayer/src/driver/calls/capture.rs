//! The replay's own nodes in a capture of the program.

use super::stream::twin;
use crate::driver::{Driver, Failure};
use trace::api::enums::CUmemorytype;
use trace::api::structs::CUDA_MEMCPY3D;
use trace::api::types::CUdeviceptr;
use trace::model::stream::StreamHandle;

/// A copy of live device memory.
pub(crate) struct CaptureCopy {
    pub to: u64,
    pub from: u64,
    pub len: u64,
}

impl CaptureCopy {
    fn described(&self) -> CUDA_MEMCPY3D {
        // SAFETY: plain numbers and pointers, for which zeros are valid.
        let mut copy = unsafe { std::mem::zeroed::<CUDA_MEMCPY3D>() };
        (copy.srcMemoryType, copy.srcDevice) = (CUmemorytype::CU_MEMORYTYPE_UNIFIED, CUdeviceptr(self.from));
        (copy.dstMemoryType, copy.dstDevice) = (CUmemorytype::CU_MEMORYTYPE_UNIFIED, CUdeviceptr(self.to));
        (copy.WidthInBytes, copy.Height, copy.Depth) = (self.len as usize, 1, 1);
        copy
    }
}

impl Driver {
    /// Puts these copies, which run beside each other, into the capture of the stream: as one node, as a
    /// launch is one.
    ///
    /// # Safety
    /// The places must be memory that is there when the graph runs.
    pub(crate) unsafe fn capture_copies(&self, copies: &[CaptureCopy], stream: StreamHandle) -> Result<(), Failure> {
        const SET: u64 = 1;
        let (mut status, mut id, mut graph, mut nodes, mut count) = (0u64, 0u64, 0u64, 0u64, 0u64);
        let at = |word: &mut u64| std::ptr::from_mut(word) as u64;
        let ask = twin(stream, "cuStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo_v2_ptsz");
        let told = [at(&mut status), at(&mut id), at(&mut graph), at(&mut nodes), at(&mut count)];
        // SAFETY: a handle and words to be filled, each wide enough.
        unsafe { self.ask(ask, &[stream.handle, told[0], told[1], told[2], told[3], told[4]]) }?;
        let behind = [nodes, count];
        let node = match copies {
            // SAFETY: the driver has just told the graph and the nodes.
            [] => unsafe { self.output_of("cuGraphAddEmptyNode", |made| [made, graph, behind[0], behind[1]]) }?,
            [copy] => self.add_copy(graph, behind, copy)?,
            copies => self.add_copies(graph, behind, copies)?,
        };
        let update = twin(stream, "cuStreamUpdateCaptureDependencies", "cuStreamUpdateCaptureDependencies_ptsz");
        // SAFETY: a handle, one node of the graph, and plain values.
        unsafe { self.ask(update, &[stream.handle, &raw const node as u64, 1, SET]) }
    }

    fn add_copy(&self, graph: u64, [nodes, count]: [u64; 2], copy: &CaptureCopy) -> Result<u64, Failure> {
        let (described, context) = (copy.described(), self.current_context());
        let described = &raw const described as u64;
        // SAFETY: a graph, as many nodes of it as told, and a whole struct.
        unsafe { self.output_of("cuGraphAddMemcpyNode", |made| [made, graph, nodes, count, described, context]) }
    }

    fn add_copies(&self, graph: u64, [nodes, count]: [u64; 2], copies: &[CaptureCopy]) -> Result<u64, Failure> {
        // SAFETY: an output word and a plain value.
        let child: u64 = unsafe { self.output_of("cuGraphCreate", |made| [made, 0]) }?;
        let made = copies.iter().try_for_each(|copy| self.add_copy(child, [0, 0], copy).map(drop));
        // SAFETY: two graphs, and as many nodes of the first as told. The node has a copy of the other.
        let node = made.and_then(|()| unsafe {
            self.output_of("cuGraphAddChildGraphNode", |made| [made, graph, nodes, count, child])
        });
        // SAFETY: the graph is the replay's own.
        unsafe { self.ask("cuGraphDestroy", &[child]) }.and(node)
    }
}
