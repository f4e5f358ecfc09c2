//! Live addresses and handles in place of recorded ones.

use crate::call::build::{Builder, FieldContext};
use crate::memory::buffer::Refusal;
use crate::memory::live_address::LiveAddress;
use crate::memory::objects::Lookup;
use std::ops::Range;
use trace::api::roles::Field;
use trace::api::types::Kind;

impl Builder<'_, '_> {
    /// An address that the driver does nothing with itself, like those among the arguments of kernels.
    pub(crate) fn for_device(&self, recorded: u64) -> u64 {
        self.session.placement.moved(recorded).unwrap_or(recorded)
    }

    /// Where memory is that the driver may touch.
    pub(crate) fn bound(&self, name: &str, recorded: Range<u64>) -> Result<LiveAddress, Refusal> {
        let placement = &self.session.placement;
        let live = if self.makes_node() { placement.bound_in_node(&recorded) } else { placement.bound(&recorded) };
        if let Some(live) = live {
            return Ok(live);
        }
        let (start, plan) = (recorded.start, self.session.plan);
        let is_known = plan.addresses.device.contains(start) || plan.addresses.host.contains(start);
        // A node may be made of any address, to ask about it (XLA has cuDNN capture graphs that never run).
        // Ours is memory of the host, which the driver takes an address for that it does not know.
        if self.makes_node() && self.call.succeeded() && !is_known {
            return self.session.graph_memory.stand_in(&recorded);
        }
        let len = recorded.end - start;
        Err(Refusal(match (self.call.succeeded(), is_known) {
            (true, true) => format!("{name} {start:#x} is memory that the replay does not have, {len} bytes"),
            (true, false) => format!("{name} {start:#x} is an unknown address"),
            (false, _) => {
                format!("failed when recorded, and {name} {start:#x} is memory that the replay does not have")
            }
        }))
    }

    /// Puts an address where its field is.
    pub(crate) fn put_live(
        &mut self,
        here: FieldContext,
        at: u32,
        field: &Field,
        live: LiveAddress,
    ) -> Result<(), Refusal> {
        if field.ty.size < 8 && live.word() >> (field.ty.size * 8) != 0 {
            return Err(Refusal(format!(
                "{} is {:#x} in the replay, which does not fit into {} bytes",
                field.name,
                live.word(),
                field.ty.size
            )));
        }
        self.write(here, at, field.ty.size, live.word());
        Ok(())
    }

    pub(crate) fn handle(&mut self, kind: Kind, recorded: u64) -> Result<u64, Refusal> {
        if kind == Kind::Function {
            self.adopt_function(recorded)?;
        }
        let found = match self.session.objects.find(kind, recorded) {
            // What is known by this handle is an earlier one, whose module is gone.
            Lookup::Live(_)
                if kind == Kind::Function
                    && self.session.plan.special_calls.unknown_functions.contains(&self.call.number) =>
            {
                Lookup::Unknown
            }
            found => found,
        };
        let stray = match found {
            Lookup::Live(live) => return Ok(live),
            Lookup::Unknown if kind == Kind::Module && self.adopt(recorded) => return self.handle(kind, recorded),
            Lookup::Unknown if kind == Kind::Context && self.adopt_context(recorded) => {
                return self.handle(kind, recorded);
            }
            Lookup::Absent { .. } => "of a skipped call".to_owned(),
            Lookup::Dead { call } => format!("that call {call} destroyed"),
            Lookup::Unknown => "that no call in the trace created".to_owned(),
        };
        // The recorded value is nobody's here, or by now another object's.
        let needs = if self.call.succeeded() {
            "needs"
        } else {
            self.tally.unknown_handles += 1;
            "failed when recorded, and uses"
        };
        Err(Refusal(format!("{needs} {} {stray}", kind.one())))
    }
}
