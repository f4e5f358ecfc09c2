//! Kernels, copies, fills, and graphs that were timed as a whole.

use super::rows::{Cell, Store};
use super::schema::Table;
use super::{Nsys, labels};
use crate::export::placed::Slice;
use anyhow::Result;
use std::rc::Rc;
use trace::record::timed;
use trace::timed::known;

/// A kernel's names.
pub struct Kernel {
    /// Demangled, short, mangled: as strings have rows.
    ids: [i64; 3],
    full: String,
}

impl<'t, S: Store> Nsys<'_, 't, S> {
    pub(super) fn work(&mut self, slice: &Slice<'t>) -> Result<()> {
        self.last = self.last.max(slice.end);
        match slice.work.about.what {
            timed::KERNEL => self.kernel(slice),
            timed::COPY => self.copy(slice),
            timed::FILL => self.fill(slice),
            timed::GRAPH => {
                let row: [Cell; 10] = with(self.place(slice), [Cell::None; 2]);
                self.rows.add(Table::Graph, row)
            }
            _ => Ok(()),
        }
    }

    /// The columns that all kinds of work begin with.
    fn place(&self, slice: &Slice) -> [Cell<'static>; 8] {
        let about = &slice.work.about;
        [
            slice.start.into(),
            slice.end.into(),
            known(about.device).into(),
            known(about.context).into(),
            Cell::None,
            known(about.stream).into(),
            slice.work.call.into(),
            self.process_id().into(),
        ]
    }

    fn kernel(&mut self, slice: &Slice<'t>) -> Result<()> {
        let about = &slice.work.about;
        let names = self.kernel_names(slice.work.name.unwrap_or("[CUDA kernel]"))?;
        let [demangled, short, mangled] = names.ids;
        let shape = |[x, y, z]: [u32; 3]| [x, y, z].map(|number| Cell::from(known(x).map(|_| number)));
        let ([gx, gy, gz], [bx, by, bz]) = (shape(about.grid), shape(about.block));
        let rest = [
            demangled.into(),
            short.into(),
            mangled.into(),
            Cell::None,
            Cell::None,
            known(about.registers).into(),
            gx,
            gy,
            gz,
            bx,
            by,
            bz,
            known(about.static_shared).into(),
            known(about.dynamic_shared).into(),
            known(about.local).into(),
            Cell::None,
            Cell::None,
            Cell::None,
            (about.node != 0).then_some(about.node).into(),
            Cell::None,
            names.full.as_str().into(),
        ];
        let row: [Cell; 29] = with(self.place(slice), rest);
        self.rows.add(Table::Kernel, row)
    }

    fn kernel_names(&mut self, name: &'t str) -> Result<Rc<Kernel>> {
        if let Some(known) = self.kernels.get(name) {
            return Ok(known.clone());
        }
        let [full, short] = [0, 1].map(|style: usize| self.names[style].of(name));
        let ids = [self.string(&full)?, self.string(&short)?, self.string(name)?];
        let kernel = Rc::new(Kernel { ids, full });
        self.kernels.insert(name, kernel.clone());
        Ok(kernel)
    }

    fn copy(&mut self, slice: &Slice<'t>) -> Result<()> {
        let about = &slice.work.about;
        let rest = [
            about.bytes.into(),
            i64::from(about.copy).into(),
            Cell::None,
            labels::memory_kind(about.from).into(),
            labels::memory_kind(about.to).into(),
            Cell::None,
            Cell::None,
            Cell::None,
            Cell::None,
            Cell::None,
            (about.node != 0).then_some(about.node).into(),
            Cell::None,
        ];
        let row: [Cell; 20] = with(self.place(slice), rest);
        self.rows.add(Table::Copy, row)
    }

    fn fill(&mut self, slice: &Slice<'t>) -> Result<()> {
        let about = &slice.work.about;
        let node = (about.node != 0).then_some(about.node).into();
        let rest = [Cell::None, about.bytes.into(), node, labels::memory_kind(about.to).into()];
        let row: [Cell; 12] = with(self.place(slice), rest);
        self.rows.add(Table::Fill, row)
    }
}

fn with<'x, const REST: usize, const ALL: usize>(place: [Cell<'x>; 8], rest: [Cell<'x>; REST]) -> [Cell<'x>; ALL] {
    let mut row = [Cell::None; ALL];
    row[..8].copy_from_slice(&place);
    row[8..].copy_from_slice(&rest);
    row
}
