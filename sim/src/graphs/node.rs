//! A node's work, and its parameters in the form of the interface.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::abi::code::{Code, Result};
use crate::abi::structs::{KernelNodeParameters, Memcpy3d};
use crate::abi::{Handle, HostFunction, Input, Opaque};
use crate::graphs::graph::Id;
use crate::memory::copy::{Copy, Fill, Plane, Side};
use crate::memory::graph_allocation::Memory;
use crate::ptx::exec::Grid;
use crate::streams::context;
use crate::streams::work::Work;

#[derive(Clone)]
pub(crate) enum Kind {
    Kernel(Arc<Grid>),
    Copy(Box<Memcpy3d>, Copy),
    Fill(Fill),
    Host(HostFunction, Opaque),
    Child(Handle),
    /// Graphs of which a condition chooses one.
    Conditional(Arc<Conditional>),
    Empty,
    /// Events by handle.
    WaitEvent(Handle),
    RecordEvent(Handle),
    Allocate(Arc<Memory>),
    Free(u64),
    /// Writes and waits of words, from a capture.
    Words(Work),
    /// The same, as a node of its own was given them.
    Batch(Batch),
}

#[derive(Clone)]
pub(crate) struct Batch {
    pub context: Handle,
    pub operations: Arc<[[u64; 6]]>,
    pub work: Arc<[Work]>,
}

/// A conditional node. Conditions keep their default: no kernel here changes them.
pub(crate) struct Conditional {
    pub bodies: Vec<Handle>,
    pub chosen: Option<Handle>,
}

pub(crate) struct Node {
    pub graph: Handle,
    pub id: Id,
    inner: Mutex<Inner>,
}

struct Inner {
    kind: Kind,
    dependencies: Vec<Handle>,
    /// Addresses of a kernel's arguments, which cuGraphKernelNodeGetParams hands out.
    arguments: Vec<usize>,
    /// Of a kernel: hints, kept to be told again.
    attributes: BTreeMap<u32, [u32; 16]>,
}

impl Node {
    pub(crate) fn new(graph: Handle, kind: Kind, dependencies: Vec<Handle>) -> Self {
        let arguments = arguments(&kind);
        let inner = Inner { kind, dependencies, arguments, attributes: BTreeMap::new() };
        Self { graph, id: Id::default(), inner: Mutex::new(inner) }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.inner.lock().kind.clone()
    }

    /// Replaces the parameters by others of the same kind.
    pub(crate) fn set_kind(&self, kind: Kind) -> Result {
        let mut inner = self.inner.lock();
        if kind.number() != inner.kind.number() {
            return Err(Code::INVALID_VALUE);
        }
        inner.arguments = arguments(&kind);
        inner.kind = kind;
        Ok(())
    }

    /// Reads or changes the attributes of a kernel.
    pub(crate) fn attributes(&self, then: impl FnOnce(&mut BTreeMap<u32, [u32; 16]>)) -> Result {
        let mut inner = self.inner.lock();
        if !matches!(inner.kind, Kind::Kernel(_)) {
            return Err(Code::INVALID_VALUE);
        }
        then(&mut inner.attributes);
        Ok(())
    }

    pub(crate) fn dependencies(&self) -> Vec<Handle> {
        self.inner.lock().dependencies.clone()
    }

    pub(crate) fn set_dependencies(&self, dependencies: Vec<Handle>) {
        self.inner.lock().dependencies = dependencies;
    }

    /// A kernel node's parameters; the argument pointers are the node's.
    pub(crate) fn kernel(&self) -> Result<KernelNodeParameters> {
        let inner = self.inner.lock();
        let Kind::Kernel(grid) = &inner.kind else { return Err(Code::INVALID_VALUE) };
        Ok(KernelNodeParameters {
            function: grid.function,
            blocks: grid.blocks,
            threads: grid.threads,
            dynamic_shared: grid.dynamic_shared,
            values: Input::from_raw(inner.arguments.as_ptr().cast()),
            extra: Input::from_raw(std::ptr::null()),
            kernel: 0,
            context: context::current_handle(),
        })
    }
}

fn arguments(kind: &Kind) -> Vec<usize> {
    let Kind::Kernel(grid) = kind else { return Vec::new() };
    let base = grid.parameters.as_ptr() as usize;
    grid.program.kernels[grid.kernel].parameters.iter().map(|p| base + p.offset).collect()
}

impl Kind {
    /// The value of CUgraphNodeType.
    pub(crate) fn number(&self) -> u32 {
        match self {
            Kind::Kernel(_) => 0,
            Kind::Copy(..) => 1,
            Kind::Fill(_) => 2,
            Kind::Host(..) => 3,
            Kind::Child(_) => 4,
            Kind::Empty => 5,
            Kind::WaitEvent(_) => 6,
            Kind::RecordEvent(_) => 7,
            Kind::Allocate(_) => 10,
            Kind::Free(_) => 11,
            Kind::Words(_) | Kind::Batch(_) => 12,
            Kind::Conditional(_) => 13,
        }
    }

    /// What a stream was given while it was capturing.
    pub(crate) fn from_work(work: Work) -> Result<Self> {
        Ok(match work {
            Work::Kernel(grid) => Kind::Kernel(grid),
            Work::Copy(copy) => Kind::Copy(Box::new(describe(&copy)?), copy),
            Work::Fill(fill) => Kind::Fill(fill),
            Work::Host { f, data } => Kind::Host(f, data),
            Work::WriteValue { .. } | Work::WaitValue(_) => Kind::Words(work),
            _ => return Err(Code::STREAM_CAPTURE_UNSUPPORTED),
        })
    }
}

/// A copy in the interface's terms.
fn describe(copy: &Copy) -> Result<Memcpy3d> {
    let side = |plane: &Plane| match plane.side {
        Side::Host(at) => Ok((1, at as usize, 0)),
        Side::Device(at) => Ok((2, 0, at)),
        Side::Staged(_) => Err(Code::STREAM_CAPTURE_UNSUPPORTED),
    };
    let (src_type, src_host, src_device) = side(&copy.from)?;
    let (dst_type, dst_host, dst_device) = side(&copy.to)?;
    let rows = |plane: &Plane| plane.slice.checked_div(plane.pitch).unwrap_or(0);
    Ok(Memcpy3d {
        src_x: 0,
        src_y: 0,
        src_z: 0,
        src_lod: 0,
        src_type,
        src_host,
        src_device,
        src_array: 0,
        src_reserved: 0,
        src_pitch: copy.from.pitch,
        src_height: rows(&copy.from),
        dst_x: 0,
        dst_y: 0,
        dst_z: 0,
        dst_lod: 0,
        dst_type,
        dst_host,
        dst_device,
        dst_array: 0,
        dst_reserved: 0,
        dst_pitch: copy.to.pitch,
        dst_height: rows(&copy.to),
        width: copy.width,
        height: copy.height,
        depth: copy.depth,
    })
}
