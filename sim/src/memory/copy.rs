//! Copies and fills, of one to three dimensions.

use std::sync::Arc;

use crate::abi::code::{Code, Result};
use crate::base::guard;
use crate::memory::pinned::as_device;
use crate::memory::table::{self, Kind, Ranges, Submission};

/// Bytes moved before the table of ranges is given free for changes.
const PIECE: usize = 1 << 20;

#[derive(Clone, Debug)]
pub(crate) enum Side {
    Device(u64),
    /// The application's memory; what a device cannot reach is the application's promise.
    Host(u64),
    /// Bytes taken from the application at the call.
    Staged(Arc<Vec<u8>>),
}

/// One side of a copy: the address of its first byte, and the distances of rows and slices.
#[derive(Clone, Debug)]
pub(crate) struct Plane {
    pub side: Side,
    pub pitch: usize,
    /// Bytes from one slice to the next.
    pub slice: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub to: Plane,
    pub from: Plane,
    /// Bytes a row.
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

impl Side {
    /// The same memory, some bytes further on. Staged bytes are always taken from their start.
    pub(crate) fn shifted(self, by: u64) -> Self {
        match self {
            Side::Device(at) => Side::Device(at + by),
            Side::Host(at) => Side::Host(at + by),
            Side::Staged(bytes) => Side::Staged(bytes),
        }
    }

    /// An address of unified memory: the device's if the device knows it.
    pub(crate) fn unified(address: u64) -> Self {
        match table::read().find(address) {
            Some(range) if !range.kind.host() => Side::Device(address),
            _ => Side::Host(address),
        }
    }
}

impl Copy {
    pub(crate) fn linear(to: Side, from: Side, bytes: usize) -> Self {
        let plane = |side| Plane { side, pitch: bytes, slice: bytes };
        Self { to: plane(to), from: plane(from), width: bytes, height: 1, depth: 1 }
    }

    fn rows(&self) -> impl Iterator<Item = (usize, usize)> {
        let height = self.height;
        (0..self.depth).flat_map(move |slice| (0..height).map(move |row| (slice, row)))
    }

    /// Bytes from the first to past the last on one side.
    fn extent(&self, plane: &Plane) -> usize {
        if self.width == 0 || self.height == 0 || self.depth == 0 {
            return 0;
        }
        (self.depth - 1) * plane.slice + (self.height - 1) * plane.pitch + self.width
    }

    /// Refuses device addresses that are not allocated.
    pub(crate) fn check(&self, submission: Submission) -> Result {
        let ranges = table::read();
        for (plane, write) in [(&self.to, true), (&self.from, false)] {
            if matches!(plane.side, Side::Host(0)) && self.extent(plane) > 0 {
                return Err(Code::INVALID_VALUE);
            }
            if let Side::Device(at) = plane.side {
                let rows_fit = self.height <= 1 || plane.pitch >= self.width;
                if !rows_fit || !ranges.accepts(at, self.extent(plane) as u64, write, submission) {
                    return Err(Code::INVALID_VALUE);
                }
            }
        }
        Ok(())
    }

    /// Whether only the device sees what it reads and writes.
    pub(crate) fn hidden(&self) -> bool {
        [&self.to, &self.from].iter().all(|plane| matches!(plane.side, Side::Device(at) if hidden(at)))
    }

    /// Whether a side is memory of the application that is not pinned.
    fn pageable(&self, plane: &Plane) -> bool {
        match plane.side {
            Side::Host(at) => !table::read().covers(at, self.extent(plane) as u64, false),
            _ => false,
        }
    }

    pub(crate) fn reads_pageable(&self) -> bool {
        self.pageable(&self.from)
    }

    pub(crate) fn writes_pageable(&self) -> bool {
        self.pageable(&self.to)
    }

    /// Takes the source's bytes now.
    pub(crate) fn stage(&mut self) -> Result {
        let bytes = self.width * self.height * self.depth;
        let mut staged = vec![0u8; bytes];
        let to =
            Plane { side: Side::Host(staged.as_mut_ptr() as u64), pitch: self.width, slice: self.width * self.height };
        let take = Copy { to, ..self.clone() };
        let start = staged.as_ptr() as u64;
        guard::cutrace_sim_buffer(start, bytes as u64);
        let taken = take.perform();
        guard::cutrace_sim_buffer(start, 0);
        taken?;
        self.from = Plane { side: Side::Staged(Arc::new(staged)), ..take.to };
        Ok(())
    }

    /// The first so many bytes of a longer copy in one piece, taken now; this one is of the rest then.
    pub(crate) fn take_first(&mut self, bytes: usize) -> Result<Option<Copy>> {
        if self.height * self.depth != 1 || self.width <= bytes {
            return Ok(None);
        }
        let mut first = Copy { width: bytes, ..self.clone() };
        first.stage()?;
        for plane in [&mut self.to, &mut self.from] {
            plane.side = plane.side.clone().shifted(bytes as u64);
        }
        self.width -= bytes;
        Ok(Some(first))
    }

    pub(crate) fn perform(&self) -> Result {
        for (slice, row) in self.rows() {
            let to = self.to.row(slice, row);
            let from = self.from.row(slice, row);
            for start in (0..self.width).step_by(PIECE) {
                let length = PIECE.min(self.width - start);
                let (to, from) = (to + start as u64, from + start as u64);
                let ranges = table::read();
                for (plane, at, write) in [(&self.to, to, true), (&self.from, from, false)] {
                    if matches!(plane.side, Side::Device(_)) && !ranges.covers(at, length as u64, write) {
                        return Err(Code::ILLEGAL_ADDRESS);
                    }
                }
                // From host memory to host memory the CPU copies, which shows (driver 580).
                let is_hosts = |plane: &Plane, at| match plane.side {
                    Side::Device(_) => ranges.find(at).is_some_and(|range| range.kind.host()),
                    Side::Host(_) | Side::Staged(_) => true,
                };
                if matches!(self.to.side, Side::Host(_)) && !ranges.covers(to, length as u64, false) {
                    guard::writes(to, length as u64);
                }
                let to = if is_hosts(&self.from, from) { to } else { as_device(to) };
                // SAFETY: device sides lie in live ranges while `ranges` is held, staged ones in the vector;
                // host sides are what the application promised. They may overlap.
                unsafe { std::ptr::copy(from as *const u8, to as *mut u8, length) };
            }
        }
        Ok(())
    }
}

impl Plane {
    fn row(&self, slice: usize, row: usize) -> u64 {
        let base = match &self.side {
            Side::Device(at) | Side::Host(at) => *at,
            Side::Staged(bytes) => bytes.as_ptr() as u64,
        };
        base + (slice * self.slice + row * self.pitch) as u64
    }
}

/// Whether the host reaches what is there by calls alone.
fn hidden(at: u64) -> bool {
    table::read().find(at).is_some_and(|range| !range.kind.host() && range.kind != Kind::Managed)
}

/// Rows of equal elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub at: u64,
    pub pitch: usize,
    pub value: u64,
    /// Bytes an element.
    pub element: usize,
    /// Elements a row.
    pub width: usize,
    pub height: usize,
}

impl Fill {
    /// Whether only the device sees what it fills.
    pub(crate) fn hidden(&self) -> bool {
        hidden(self.at)
    }

    fn extent(&self) -> usize {
        self.height.saturating_sub(1) * self.pitch + self.width * self.element
    }

    /// Refuses what is not allocated, or what the device whose ranges these are has no access to.
    pub(crate) fn check(&self, submission: Submission, ranges: &Ranges<'_>) -> Result {
        let aligned = self.at.is_multiple_of(self.element as u64) && matches!(self.element, 1 | 2 | 4 | 8);
        let rows_fit = self.height <= 1 || self.pitch >= self.width * self.element;
        let empty = self.width == 0 || self.height == 0;
        if aligned && rows_fit && (empty || ranges.accepts(self.at, self.extent() as u64, true, submission)) {
            Ok(())
        } else {
            Err(Code::INVALID_VALUE)
        }
    }

    pub(crate) fn perform(&self) -> Result {
        let element = &self.value.to_le_bytes()[..self.element];
        let piece = element.repeat((PIECE / self.element).min(self.width));
        let bytes = self.width * self.element;
        for row in 0..self.height {
            for start in (0..bytes).step_by(PIECE) {
                let at = self.at + (row * self.pitch + start) as u64;
                let length = PIECE.min(bytes - start);
                let ranges = table::read();
                if !ranges.covers(at, length as u64, true) {
                    return Err(Code::ILLEGAL_ADDRESS);
                }
                // Memory that nobody has touched takes no pages of the host, nor the time to fill them.
                if self.value == 0
                    && length == PIECE
                    && ranges.find(at).is_some_and(|range| range.empty(at, length as u64))
                {
                    continue;
                }
                // SAFETY: the target lies in a live, writable range while `ranges` is held; `piece` is as
                // long as a piece.
                unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), as_device(at) as *mut u8, length) };
            }
        }
        Ok(())
    }
}
