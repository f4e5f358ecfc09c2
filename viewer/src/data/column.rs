//! Columns of plain numbers, built in memory or mapped from an index file; both are read as slices.

use bytemuck::{Pod, cast_slice, try_cast_slice};
use memmap2::{Mmap, UncheckedAdvice};
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

/// A column; cheap to clone when mapped.
#[derive(Clone)]
pub enum Column<T: Pod> {
    Owned(Vec<T>),
    Mapped(Mapped<T>),
}

#[derive(Clone)]
pub struct Mapped<T> {
    map: Arc<Mmap>,
    start: usize,
    end: usize,
    of: PhantomData<T>,
}

impl<T: Pod> Column<T> {
    /// `len` bytes of a mapped file; none if they are not in it, or not aligned for T.
    pub fn mapped(map: &Arc<Mmap>, start: u64, len: u64) -> Option<Column<T>> {
        let (start, end) = (usize::try_from(start).ok()?, usize::try_from(start.checked_add(len)?).ok()?);
        try_cast_slice::<u8, T>(map.get(start..end)?).ok()?;
        Some(Column::Mapped(Mapped { map: map.clone(), start, end, of: PhantomData }))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        cast_slice(self)
    }

    /// Has the pages of a mapped column out of view: they stay in the page cache, and come back one by one as
    /// they are looked at.
    pub fn let_go(&self) {
        if let Column::Mapped(Mapped { map, start, end, .. }) = self {
            // SAFETY: a shared mapping of a file, which is only read: its content is the file's before and
            // after.
            let _as_good_as_it_gets =
                unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, *start, *end - *start) };
        }
    }
}

impl<T: Pod> Deref for Column<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Column::Owned(values) => values,
            Column::Mapped(mapped) => cast_slice(&mapped.map[mapped.start..mapped.end]),
        }
    }
}

impl<T: Pod> Default for Column<T> {
    fn default() -> Column<T> {
        Column::Owned(Vec::new())
    }
}

impl<T: Pod> From<Vec<T>> for Column<T> {
    fn from(values: Vec<T>) -> Column<T> {
        Column::Owned(values)
    }
}
