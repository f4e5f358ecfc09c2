//! The host memory that a copy or a fill writes.

use std::ops::Range;
use trace::api::copies::Region;

/// The destination of a copy.
#[derive(Clone, Copy)]
pub(crate) enum Landing {
    Flat { address: u64, len: u64 },
    Rows(Region),
}

impl Landing {
    pub(crate) fn address(self) -> u64 {
        match self {
            Landing::Flat { address, .. } => address,
            Landing::Rows(region) => region.address,
        }
    }

    /// Bytes that land.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Landing::Flat { len, .. } => len,
            Landing::Rows(region) => region.bytes(),
        }
    }

    /// Bytes from the first that lands to the last.
    pub(crate) fn span(self) -> u64 {
        match self {
            Landing::Flat { len, .. } => len,
            Landing::Rows(region) => region.span(),
        }
    }

    pub(crate) fn end(self) -> u64 {
        self.address() + self.span()
    }

    pub(crate) fn extent(self) -> Range<u64> {
        self.address()..self.end()
    }

    pub(crate) fn is_at(self, region: &Region) -> bool {
        (self.address(), self.bytes(), self.span()) == (region.address, region.bytes(), region.span())
    }

    /// Where they land: row by row, unless it is very much in pieces.
    pub(crate) fn places(self) -> Vec<Range<u64>> {
        const MOST: u64 = 4096;
        let whole = Region {
            address: self.address(),
            row_bytes: self.span(),
            rows: 1,
            pitch: self.span(),
            slices: 1,
            slice_pitch: self.span(),
        };
        let region = match self {
            Landing::Rows(region) if !region.is_dense() && region.rows.saturating_mul(region.slices) <= MOST => region,
            _ => whole,
        };
        region.row_addresses().map(|row| row..row + region.row_bytes).collect()
    }
}
