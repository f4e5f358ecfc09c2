//! The live memory of one call.

use crate::call::readback::Readback;
use crate::driver::stream::Queue;
use crate::memory::buffer::{Arena, HostBuffer, Payload, Refusal};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use trace::api::Function;
use trace::api::copies::Region;
use trace::api::types::Type;
use trace::api::walk::Direction;

/// An output of the call.
pub(crate) enum Output {
    /// Elements in buffer `memory`, recorded at `address`.
    Values { name: &'static str, memory: usize, address: u64, element: &'static Type, count: u64, direction: Direction },
    /// Text in the buffer.
    Text { name: &'static str, memory: usize, address: u64, volatile: bool },
    /// A pointer in the buffer to text of the driver's.
    TextOut { name: &'static str, memory: usize, address: u64 },
    /// A pointer in the buffer to elements of the driver's; how many, the live words tell.
    Owned { name: &'static str, index: usize, memory: usize, address: u64, element: &'static Type },
}

/// Host memory that the call is about to read or overwrite, and that others may still be using.
pub(crate) enum Hazard<'t> {
    /// It has to hold what the application's CPU had written by then: the live rows, the recorded address of
    /// the first, the bytes row behind row.
    Write { to: Region, recorded: u64, bytes: Payload<'t> },
    /// The call brings other bytes.
    Overwrite(Range<u64>),
}

/// The place for a function and its data, which replace the application's.
pub(crate) struct CallbackSlot {
    /// The buffer, and where in it.
    pub memory: usize,
    pub offset: usize,
    /// It takes a stream and a status before its data.
    pub with_status: bool,
    /// Where the call puts it; none for a node of a graph.
    pub queue: Option<Queue>,
}

/// All memory of one call.
#[derive(Default)]
pub(crate) struct Frame<'t> {
    /// The first one holds the argument words.
    pub memory: Vec<HostBuffer>,
    pub outputs: Vec<Output>,
    pub readbacks: Vec<Readback<'t>>,
    pub files: Vec<OwnedFd>,
    /// Placed host ranges that the call reads.
    pub sources: Vec<Range<u64>>,
    /// What has to be done to host memory before the call, in this order.
    pub hazards: Vec<Hazard<'t>>,
    pub callbacks: Vec<CallbackSlot>,
    /// Memory of our own that the call's copies read.
    pub lent: Vec<HostBuffer>,
    /// What is called instead, with the same arguments.
    pub instead: Option<&'static Function>,
    /// The driver may use the memory after the call.
    pub retain: bool,
    /// Where small memory of the call is to lie, instead of anywhere.
    pub arena: Option<Arc<Arena>>,
}

impl Frame<'_> {
    pub(crate) fn zeroed(&self, len: usize) -> Result<HostBuffer, Refusal> {
        match &self.arena {
            Some(arena) => Arena::give(arena, len),
            None => HostBuffer::zeroed(len),
        }
    }

    pub(crate) fn holding(&self, bytes: &[u8]) -> Result<HostBuffer, Refusal> {
        let mut memory = self.zeroed(bytes.len())?;
        memory.write(0, bytes);
        Ok(memory)
    }

    /// What the driver may use when the call has returned.
    pub(crate) fn after_the_call(mut self) -> Self {
        self.memory.retain(|memory| !memory.holds_arguments());
        self
    }

    pub(crate) fn words(&self) -> Vec<u64> {
        self.memory[0].words()
    }
}
