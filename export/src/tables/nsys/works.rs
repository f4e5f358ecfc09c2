//! Kernels, copies, fills, and graphs timed as a whole.

use super::rows::{Cell, Store};
use super::schema::{Copy, Fill, Graph, Kernel as KernelRow};
use super::{Nsys, labels};
use crate::events::device_clock::Slice;
use analysis::error::Result;
use std::rc::Rc;
use trace::file::record::timed;
use trace::read::device_times::known_number;
use trace::show::launch::is_cooperative;

/// A kernel's names.
pub(super) struct Kernel {
    /// Demangled, short, mangled: as strings have rows.
    ids: [i64; 3],
    full: String,
}

/// What all kinds of work have.
struct Place {
    start: Cell<'static>,
    end: Cell<'static>,
    device: Cell<'static>,
    context: Cell<'static>,
    stream: Cell<'static>,
    call: Cell<'static>,
    process: Cell<'static>,
    node: Cell<'static>,
}

/// A row about work, with what all kinds of it have.
macro_rules! placed {
    ($row:ident, $at:ident, { $($field:ident: $value:expr,)* }) => {
        $row {
            start: $at.start,
            end: $at.end,
            deviceId: $at.device,
            contextId: $at.context,
            streamId: $at.stream,
            correlationId: $at.call,
            globalPid: $at.process,
            $($field: $value,)*
            ..$row::default()
        }
    };
}

impl<'t, S: Store> Nsys<'_, 't, S> {
    pub(super) fn work(&mut self, slice: &Slice<'t>) -> Result<()> {
        self.last = self.last.max(slice.end);
        match slice.work.about.what {
            timed::KERNEL => self.kernel(slice),
            timed::COPY => self.copy(slice),
            timed::FILL => self.fill(slice),
            timed::GRAPH => {
                let at = self.place(slice);
                self.rows.add_row(placed!(Graph, at, {}))
            }
            _ => Ok(()),
        }
    }

    fn place(&self, slice: &Slice) -> Place {
        let about = &slice.work.about;
        Place {
            start: slice.start.into(),
            end: slice.end.into(),
            device: known_number(about.device).into(),
            context: known_number(about.context).into(),
            stream: known_number(about.stream).into(),
            call: slice.work.call.into(),
            process: self.process_id().into(),
            node: (about.node != 0).then_some(about.node).into(),
        }
    }

    fn kernel(&mut self, slice: &Slice<'t>) -> Result<()> {
        let (about, at) = (&slice.work.about, self.place(slice));
        let names = self.kernel_names(slice.work.name.unwrap_or("[CUDA kernel]"))?;
        let [demangled, short, mangled] = names.ids;
        let shape = |[x, y, z]: [u32; 3]| [x, y, z].map(|number| Cell::from(known_number(x).map(|_| number)));
        let ([gx, gy, gz], [bx, by, bz]) = (shape(about.grid), shape(about.block));
        self.rows.add_row(placed!(KernelRow, at, {
            demangledName: demangled.into(),
            shortName: short.into(),
            mangledName: mangled.into(),
            launchType: self.launch_type(slice).into(),
            registersPerThread: known_number(about.registers).into(),
            gridX: gx,
            gridY: gy,
            gridZ: gz,
            blockX: bx,
            blockY: by,
            blockZ: bz,
            staticSharedMemory: known_number(about.static_shared).into(),
            dynamicSharedMemory: known_number(about.dynamic_shared).into(),
            localMemoryPerThread: known_number(about.local).into(),
            graphNodeId: at.node,
            name: names.full.as_str().into(),
        }))
    }

    /// None of nodes of graphs, which are no launches of their own.
    fn launch_type(&self, slice: &Slice) -> Option<i64> {
        let call = self.trace.call(slice.work.call.filter(|_| slice.work.about.node == 0)?)?;
        Some(if is_cooperative(&call)? { labels::COOPERATIVE } else { labels::REGULAR })
    }

    fn kernel_names(&mut self, name: &'t str) -> Result<Rc<Kernel>> {
        if let Some(known) = self.kernels.get(name) {
            return Ok(known.clone());
        }
        let [full, short] = [0, 1].map(|style: usize| self.names[style].display_name(name));
        let ids = [self.string(&full)?, self.string(&short)?, self.string(name)?];
        let kernel = Rc::new(Kernel { ids, full });
        self.kernels.insert(name, kernel.clone());
        Ok(kernel)
    }

    fn copy(&mut self, slice: &Slice<'t>) -> Result<()> {
        let (about, at) = (&slice.work.about, self.place(slice));
        self.rows.add_row(placed!(Copy, at, {
            bytes: about.bytes.into(),
            copyKind: i64::from(about.copy).into(),
            srcKind: labels::memory_kind(about.from).into(),
            dstKind: labels::memory_kind(about.to).into(),
            graphNodeId: at.node,
        }))
    }

    fn fill(&mut self, slice: &Slice<'t>) -> Result<()> {
        let (about, at) = (&slice.work.about, self.place(slice));
        self.rows.add_row(placed!(Fill, at, {
            bytes: about.bytes.into(),
            graphNodeId: at.node,
            memKind: labels::memory_kind(about.to).into(),
        }))
    }
}
