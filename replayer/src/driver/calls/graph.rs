//! Graphs and their nodes.

use super::stream::twin;
use crate::driver::{Driver, Failure};
use trace::api::enums::CUgraphNodeType;
use trace::api::structs::CUlaunchAttributeID;
use trace::api::structs::{CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUgraphEdgeData};
use trace::model::stream::StreamHandle;

/// Bytes of a CUlaunchAttributeValue.
pub(crate) const ATTRIBUTE: usize = 64;
/// Words of a CUDA_MEMCPY3D.
pub(crate) const COPY_WORDS: usize = size_of::<CUDA_MEMCPY3D>() / 8;

impl Driver {
    pub(crate) fn nodes(&self, graph: u64) -> Result<Vec<u64>, Failure> {
        // SAFETY: a handle and an output word.
        let mut count: u64 = unsafe { self.output_of("cuGraphGetNodes", |count| [graph, 0, count]) }?;
        let mut found = vec![0u64; count as usize];
        if count > 0 {
            // SAFETY: a handle, room for as many nodes, and how many.
            unsafe { self.ask("cuGraphGetNodes", &[graph, found.as_mut_ptr() as u64, &raw mut count as u64]) }?;
        }
        Ok(found)
    }

    /// From and to. The first form of the question refuses graphs whose edges carry data.
    pub(crate) fn edges(&self, graph: u64) -> Result<Vec<(u64, u64)>, Failure> {
        let second = "cuGraphGetEdges_v2";
        let name = self.newest(second, "cuGraphGetEdges");
        let mut count = 0u64;
        let at = &raw mut count as u64;
        let words = if name == second { vec![graph, 0, 0, 0, at] } else { vec![graph, 0, 0, at] };
        // SAFETY: a handle and an output word.
        unsafe { self.ask(name, &words) }?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let (mut from, mut to) = (vec![0u64; count as usize], vec![0u64; count as usize]);
        // SAFETY: plain C structs, for which zeros are valid.
        let mut data: Vec<CUgraphEdgeData> = (0..count).map(|_| unsafe { std::mem::zeroed() }).collect();
        let (first, last, with) = (from.as_mut_ptr() as u64, to.as_mut_ptr() as u64, data.as_mut_ptr() as u64);
        let words = if name == second { vec![graph, first, last, with, at] } else { vec![graph, first, last, at] };
        // SAFETY: a handle, room for as many edges, and how many.
        unsafe { self.ask(name, &words) }?;
        Ok(from.into_iter().zip(to).take(count as usize).collect())
    }

    pub(crate) fn node_type(&self, node: u64) -> Result<CUgraphNodeType, Failure> {
        // SAFETY: a handle and an output word.
        unsafe { self.output_of("cuGraphNodeGetType", |kind| [node, kind]) }.map(CUgraphNodeType)
    }

    pub(crate) fn child_graph(&self, node: u64) -> Result<u64, Failure> {
        // SAFETY: a handle and an output word.
        unsafe { self.output_of("cuGraphChildGraphNodeGetGraph", |child| [node, child]) }
    }

    /// What it points to is the driver's, and good as long as the node is as it was.
    pub(crate) fn kernel_node(&self, node: u64) -> Result<CUDA_KERNEL_NODE_PARAMS, Failure> {
        // The first form is the beginning of the second.
        let name = self.newest("cuGraphKernelNodeGetParams_v2", "cuGraphKernelNodeGetParams");
        // SAFETY: a plain C struct, for which zeros are valid.
        let mut params = unsafe { std::mem::zeroed::<CUDA_KERNEL_NODE_PARAMS>() };
        // SAFETY: a handle and a struct to be filled.
        unsafe { self.ask(name, &[node, &raw mut params as u64]) }?;
        Ok(params)
    }

    /// None if the driver knows of no attributes.
    pub(crate) fn kernel_node_attribute(
        &self,
        node: u64,
        which: CUlaunchAttributeID,
    ) -> Option<Result<[u8; ATTRIBUTE], Failure>> {
        let mut value = [0u64; ATTRIBUTE / 8];
        // SAFETY: a handle, a plain value, and room for the widest value.
        let asked =
            unsafe { self.ask("cuGraphKernelNodeGetAttribute", &[node, which.0.into(), value.as_mut_ptr() as u64]) };
        match asked {
            Err(Failure { code: None, .. }) => None,
            Err(failure) => Some(Err(failure)),
            Ok(()) => {
                let mut bytes = [0; ATTRIBUTE];
                bytes.chunks_exact_mut(8).zip(value).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
                Some(Ok(bytes))
            }
        }
    }

    /// The words of its CUDA_MEMCPY3D.
    pub(crate) fn copy_node(&self, node: u64) -> Result<Vec<u64>, Failure> {
        let mut copy = vec![0u64; COPY_WORDS];
        // SAFETY: a handle and a struct to be filled.
        unsafe { self.ask("cuGraphMemcpyNodeGetParams", &[node, copy.as_mut_ptr() as u64]) }?;
        Ok(copy)
    }

    pub(crate) fn fill_node(&self, node: u64) -> Result<CUDA_MEMSET_NODE_PARAMS, Failure> {
        // SAFETY: a plain C struct, for which zeros are valid.
        let mut params = unsafe { std::mem::zeroed::<CUDA_MEMSET_NODE_PARAMS>() };
        // SAFETY: a handle and a struct to be filled.
        unsafe { self.ask("cuGraphMemsetNodeGetParams", &[node, &raw mut params as u64]) }?;
        Ok(params)
    }

    /// Does what a copy node does.
    ///
    /// # Safety
    /// The words are those of a live node's CUDA_MEMCPY3D.
    pub(crate) unsafe fn copy_as(&self, copy: &[u64], stream: StreamHandle) -> Result<(), Failure> {
        let name = twin(stream, "cuMemcpy3DAsync_v2", "cuMemcpy3DAsync_v2_ptsz");
        // SAFETY: forwarded from the caller.
        unsafe { self.ask(name, &[copy.as_ptr() as u64, stream.handle]) }
    }

    /// Does what a memset node does.
    pub(crate) fn fill_as(&self, params: &CUDA_MEMSET_NODE_PARAMS, stream: StreamHandle) -> Result<(), Failure> {
        let name = match params.elementSize {
            1 => twin(stream, "cuMemsetD2D8Async", "cuMemsetD2D8Async_ptsz"),
            2 => twin(stream, "cuMemsetD2D16Async", "cuMemsetD2D16Async_ptsz"),
            _ => twin(stream, "cuMemsetD2D32Async", "cuMemsetD2D32Async_ptsz"),
        };
        // A single row has no pitch to speak of, but the driver checks it.
        let row = params.width as u64 * u64::from(params.elementSize);
        let pitch = if params.height <= 1 { row.max(params.pitch as u64) } else { params.pitch as u64 };
        let size = [params.width as u64, params.height.max(1) as u64];
        let words = [params.dst.0, pitch, params.value.into(), size[0], size[1], stream.handle];
        // SAFETY: plain values; an address that is no device memory is an error.
        unsafe { self.ask(name, &words) }
    }
}
