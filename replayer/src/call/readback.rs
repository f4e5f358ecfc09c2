//! The bytes that a copy brings to the host.

use crate::memory::buffer::HostBuffer;
use crate::memory::words::Layout;
use std::borrow::Cow;
use std::ops::Range;
use trace::api::copies::Region;
use trace::read::call::Content;

/// The destination of a copy, and its recorded bytes.
pub(crate) struct Readback<'t> {
    /// Of a parameter or a field.
    pub name: Cow<'static, str>,
    /// Live memory.
    pub region: Region,
    /// The replay's own buffer; none if the bytes go to placed host memory.
    pub memory: Option<HostBuffer>,
    /// Pageable memory, in which the bytes are when the call returns, and that nodes share.
    pub is_shared: bool,
    /// Recorded content by offset into the packed bytes; empty if there is none.
    pub expected: Vec<(u64, u64, Content<'t>)>,
    /// Where addresses may stand in the packed bytes.
    pub words: Layout,
    /// When it was put on its way, as [`Translation::now`](crate::memory::translate::Translation::now) tells.
    pub since: usize,
}

impl Readback<'_> {
    /// Whether it brings bytes to this placed or translated host range.
    pub(crate) fn lands_in(&self, range: &Range<u64>) -> bool {
        /// Of more rows it is not asked which.
        const MOST: u64 = 4096;
        let own = self.region.address..self.region.address + self.region.span();
        let is_long = self.region.rows.saturating_mul(self.region.slices) > MOST;
        let is_met = |row| meet(&(row..row + self.region.row_bytes), range);
        self.memory.is_none() && meet(&own, range) && (is_long || self.region.row_addresses().any(is_met))
    }
}

pub(crate) fn meet(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}
