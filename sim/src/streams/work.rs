//! The work of streams.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::abi::code::{Code, Result};
use crate::abi::{Handle, HostFunction, Opaque, StreamCallback};
use crate::base::state;
use crate::cupti::activities::{Activity, Origin, timed};
use crate::memory::copy::{Copy, Fill};
use crate::memory::graph_allocation::Memory;
use crate::memory::{allocate, table};
use crate::ptx::exec::{self, Fault, Fifo, Grid};
use crate::streams::context::{self, Context, PRINTF_FIFO_SIZE};
use crate::streams::signal::Turn;

/// The time of an event in nanoseconds; 0 until it has happened.
#[derive(Debug, Default)]
pub(crate) struct Stamp(AtomicU64);

impl Stamp {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// A comparison of cuStreamWaitValue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub at: u64,
    pub value: u64,
    pub wide: bool,
    pub flags: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Work {
    Kernel(Arc<Grid>),
    Copy(Copy),
    Fill(Fill),
    Host {
        f: HostFunction,
        data: Opaque,
    },
    Callback {
        f: StreamCallback,
        stream: Handle,
        data: Opaque,
    },
    Record(Arc<Stamp>),
    /// An event that other processes see is recorded, or waited for.
    Signal(Turn),
    Await(Turn),
    WriteValue {
        at: u64,
        value: u64,
        wide: bool,
    },
    WaitValue(Wait),
    Free(u64),
    /// A graph's memory comes to life or goes.
    Activate(Arc<Memory>, bool),
    /// The nodes of a graph, in an order that their edges allow.
    Graph(Arc<[Work]>),
    Nothing,
}

impl Work {
    /// Does it, on a stream's thread or on the caller's. An error spoils the context.
    pub(crate) fn perform(&self, context: &Arc<Context>) {
        if let Work::Callback { f, stream, data } = self {
            let status = context.check().err().unwrap_or(Code::SUCCESS);
            return user_code(|| f(*stream, status.0, *data));
        }
        if let Work::Record(stamp) = self {
            return stamp.0.store(state::nanoseconds(), Ordering::Release);
        }
        if let Work::Signal(turn) = self {
            return turn.comes();
        }
        if context.check().is_err() {
            return;
        }
        if let Work::Await(turn) = self {
            return turn.wait();
        }
        if let Work::Graph(nodes) = self {
            return (1..).zip(nodes.iter()).for_each(|(number, node)| {
                Origin::node(number).perform(|| node.perform(context));
            });
        }
        if let Work::Host { f, data } = self {
            return user_code(|| f(*data));
        }
        // A mistake of ours must not end the stream's thread: everybody would wait for ever.
        let outcome = catch_unwind(AssertUnwindSafe(|| timed(self.activity(), || self.attempt(context))));
        if let Err(code) = outcome.unwrap_or(Err(Code::UNKNOWN)) {
            context.fail(code);
        }
    }

    fn activity(&self) -> Option<Activity<'_>> {
        match self {
            Work::Kernel(grid) => Some(Activity::Kernel(grid)),
            Work::Copy(copy) => Some(Activity::Copy(copy)),
            Work::Fill(fill) => Some(Activity::Fill(fill)),
            _ => None,
        }
    }

    fn attempt(&self, context: &Context) -> Result {
        match self {
            Work::Kernel(grid) => {
                let mut printed = Fifo::new(context.limit(PRINTF_FIFO_SIZE)?);
                let ran = exec::run(grid, &mut printed, &|| state::ready().is_err());
                if printed.flush() {
                    context.has_printed.store(true, Ordering::Release);
                }
                allocate::migrate();
                ran.map_err(|fault| match fault {
                    Fault::IllegalAddress => Code::ILLEGAL_ADDRESS,
                    Fault::Misaligned => Code::MISALIGNED_ADDRESS,
                    Fault::Trap => Code::LAUNCH_FAILED,
                    Fault::InvalidPc => Code::INVALID_PC,
                    Fault::Stack => Code::HARDWARE_STACK_ERROR,
                    Fault::NotSimulated => Code::NOT_SUPPORTED,
                })
            }
            Work::Copy(copy) => copy.perform(),
            Work::Fill(fill) => fill.perform(),
            Work::WriteValue { at, value, wide } => {
                let fill =
                    Fill { at: *at, pitch: 0, value: *value, element: if *wide { 8 } else { 4 }, width: 1, height: 1 };
                fill.perform()
            }
            Work::WaitValue(wait) => wait.perform(),
            Work::Activate(memory, active) => {
                memory.activate(*active);
                Ok(())
            }
            Work::Free(at) => allocate::free(*at).map_err(|_| Code::ILLEGAL_ADDRESS),
            Work::Signal(_) | Work::Await(_) => Ok(()),
            Work::Nothing | Work::Graph(_) | Work::Callback { .. } | Work::Host { .. } | Work::Record(_) => Ok(()),
        }
    }
}

/// Calls back into the application from a stream's thread, where it may not call the driver.
fn user_code(call: impl FnOnce()) {
    context::forbid_calls();
    call();
}

impl Wait {
    fn perform(&self) -> Result {
        while !self.satisfied()? {
            if state::ready().is_err() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        Ok(())
    }

    fn satisfied(&self) -> Result<bool> {
        let ranges = table::read();
        let size = if self.wide { 8 } else { 4 };
        if !ranges.covers(self.at, size, false) {
            return Err(Code::ILLEGAL_ADDRESS);
        }
        // SAFETY: the address is in a live range while `ranges` is held, and was found aligned at submission.
        let found = unsafe {
            if self.wide {
                AtomicU64::from_ptr(self.at as *mut u64).load(Ordering::Acquire)
            } else {
                u64::from(std::sync::atomic::AtomicU32::from_ptr(self.at as *mut u32).load(Ordering::Acquire))
            }
        };
        let difference = if self.wide {
            found.wrapping_sub(self.value) as i64
        } else {
            i64::from((found as u32).wrapping_sub(self.value as u32) as i32)
        };
        let ones = if self.wide { u64::MAX } else { u64::from(u32::MAX) };
        Ok(match self.flags & 3 {
            0 => difference >= 0,
            1 => found == self.value & ones,
            2 => found & self.value != 0,
            _ => !(found | self.value) & ones != 0,
        })
    }
}
