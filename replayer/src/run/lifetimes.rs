//! Objects, contexts and memory that begin or end with a call; in a replay the placement owns the memory.

use crate::driver::stream::with_context;
use crate::driver::{Failure, result, result_name};
use crate::memory::stream_ordered::StreamPosition;
use crate::plan::action::MemoryAction;
use crate::run::worker::Worker;
use crate::run::{finish, hazards};
use crate::session::device_memory;
use trace::api::roles::Role;
use trace::api::types::{Form, Kind};
use trace::model::change::{Change, resolve};
use trace::{Call, Function};

impl<'t> Worker<'_, 't> {
    /// The live contexts that end with this call.
    pub(crate) fn contexts_ended_by(&self, call: &Call) -> Vec<u64> {
        let ended = self.run.plan.memory.context_ends.get(&call.number).into_iter().flat_map(|end| &end.contexts);
        ended.filter_map(|context| self.run.objects.live(Kind::Context, *context)).collect()
    }

    /// What begins or ends with a call that succeeded.
    pub(crate) fn ended(&mut self, call: &Call, function: &Function) {
        for param in function.params.iter().filter(|param| matches!(param.role, Role::Destroy)) {
            if let Form::Handle(kind) = param.ty.form {
                self.run.objects.end(kind, call.argument(param.name).unwrap_or(0), call.number);
            }
        }
        if let Some(end) = self.run.plan.memory.context_ends.get(&call.number) {
            self.run.placement.end(&end.memory);
        }
        if let Some(linker) = function.ends(Kind::Link) {
            let state = call.argument(function.params[linker].name);
            self.run.linked.lock().retain(|_, linked| Some(linked.linker) != state);
        }
    }

    /// Has the memory that the call writes first and no call made.
    pub(crate) fn adopt(&mut self, call: &Call<'t>) {
        for allocation in self.run.plan.memory.adopted.get(&call.number).into_iter().flatten() {
            if let Err(failure) = self.run.placement.allocate(allocation, None) {
                self.diverged(call, "memory", "memory that no call allocated".into(), failure.to_string());
            }
        }
    }

    /// What a call does that has to do with memory. To free some a thread needs no current context: the
    /// driver finds it by the memory, and waits for what may use that (tests/gpu/facts/no_context.c).
    pub(crate) fn emulate(&mut self, call: &Call<'t>, function: &'static Function, memory: MemoryAction) {
        let freed = match (memory, resolve(call, function)) {
            (MemoryAction::Free | MemoryAction::HostFree, Some(Change::Freed { at, .. })) => Some(at),
            _ => None,
        };
        let driver = self.run.driver;
        let mut is_done = false;
        if let Some(start) = freed
            && driver.current_context() == 0
        {
            let live = self.run.placement.moved(start).unwrap_or(start);
            let context = device_memory::context_of(self.run, live);
            let here = || {
                is_done = true;
                self.emulate_here(call, function, memory);
            };
            // A context that cannot be made current here is of no use.
            let _ = context.and_then(|context| with_context(driver, context, here));
        }
        if !is_done {
            self.emulate_here(call, function, memory);
        }
    }

    fn emulate_here(&mut self, call: &Call<'t>, function: &'static Function, memory: MemoryAction) {
        let placement = &self.run.placement;
        let (at, bytes) = match resolve(call, function) {
            Some(Change::Allocated { at, bytes: Some(bytes), .. }) => (at, bytes),
            Some(Change::Freed { at, .. }) => (at, 0),
            _ => return self.refuse(call, function, "the address or the length of its memory was not recorded"),
        };
        let range = at..at.saturating_add(bytes);
        let done: Result<(), Failure> = match memory {
            MemoryAction::Allocate => match self.run.plan.memory.allocations.get(&call.number) {
                Some(allocation) => {
                    let ordered = StreamPosition::from_call(call, function, self.run.objects);
                    placement.takes_over(&self.run.plan.memory.handovers, call.number, at, ordered);
                    placement.allocate(allocation, ordered)
                }
                None => return self.refuse(call, function, "its memory is not in the replay's plan"),
            },
            MemoryAction::Free => placement.free(at),
            MemoryAction::FreeAsync => {
                let ordered = StreamPosition::from_call(call, function, self.run.objects);
                placement.hands_over(&self.run.plan.memory.handovers, call.number, at, ordered);
                placement.free_async(at, ordered)
            }
            MemoryAction::HostAllocate => placement.pin(range),
            MemoryAction::HostRegister => match self.host_shared_by(call) {
                Ok(shared) => placement.pin_with(range, &shared),
                Err(why) => return self.refuse(call, function, &why),
            },
            MemoryAction::HostFree => {
                if let Some(range) = placement.pinned_elsewhere(at) {
                    finish::memory_ends(self.run, &range, self.thread, &mut self.tally);
                } else if let Some(range) = placement.pinned_at(at) {
                    hazards::before_overwrite(self.run, self.thread, &range, &mut self.tally);
                }
                placement.unpin(at)
            }
            MemoryAction::Reserve => placement.reserve(range, call.argument("alignment").unwrap_or(0)),
            MemoryAction::Unreserve => match call.argument("size") {
                Some(bytes) => placement.unreserve(at, bytes),
                None => return self.refuse(call, function, "the length of its memory was not recorded"),
            },
        };
        self.tally.emulated += 1;
        match done {
            Ok(()) => {}
            Err(Failure { code: Some(code), .. }) if self.is_same_fault(call, result::SUCCESS, code) => {}
            Err(Failure { code: Some(code), name }) => {
                self.diverged(call, "result", "CUDA_SUCCESS".into(), format!("{}: {}", name, result_name(code)));
            }
            Err(failure) => self.diverged(call, "result", "CUDA_SUCCESS".into(), failure.to_string()),
        }
    }
}
