//! The reason of a failed call, if the program's earlier calls show it: events without a time, objects
//! destroyed with their context, memory that is not managed, limits.

use super::walk::Step;
use crate::report::refused_launches::{Limits, of_enum};
use crate::text::figures::size;
use foldhash::HashMap;
use trace::api::effect::{Effect, Memory, Work};
use trace::api::enums::{CUdevice_attribute, CUlimit, CUmem_advise, CUresult};
use trace::api::roles::{Class, Role};
use trace::api::structs::CUmemPoolProps;
use trace::api::table::Awaited;
use trace::api::types::{Form, Kind, Typed};
use trace::model::change::Change;
use trace::model::contexts::Owner;
use trace::model::objects::Objects;
use trace::read::call::When;
use trace::read::requested_size;
use trace::show::text::{handle, symbol};
use trace::{Call, Function};

/// What ends with its context, by a handle of its own.
const OF_CONTEXT: [Kind; 7] =
    [Kind::Module, Kind::Function, Kind::Stream, Kind::Event, Kind::Texture, Kind::Surface, Kind::GraphicsResource];

#[derive(Default)]
pub(crate) struct Reasons {
    events: HashMap<u64, Event>,
    objects: HashMap<(Kind, u64), Owner>,
    /// What a call ended with its context.
    gone: HashMap<(Kind, u64), u64>,
    /// By handle: the call that made the pool, and how many bytes it may have.
    pools: HashMap<u64, (u64, u64)>,
    /// The first launch of a kernel.
    launched: Option<u64>,
}

struct Event {
    made: u64,
    is_timed: bool,
    context: Option<Owner>,
    /// The call that recorded it last, and whether that became part of a capture.
    recorded: Option<(u64, bool)>,
}

/// What it is about, and the reason.
type Reason = (String, String);

impl Reasons {
    /// Whether a call of this function may be one.
    pub(crate) fn follows(function: &Function) -> bool {
        function.effect == Effect::Submit(Work::RecordEvent) || Objects::concerns(function)
    }

    pub(crate) fn follow(&mut self, step: &Step) {
        for ended in &step.followed.ended {
            let of_it = self.objects.iter().filter(|(_, owner)| **owner == ended.owner);
            self.gone.extend(of_it.map(|(object, _)| (*object, step.call.number)));
            self.objects.retain(|_, owner| *owner != ended.owner);
        }
        match step.change {
            Some(Change::EventRecorded { event, is_external, .. }) => {
                let is_captured = step.followed.is_captured && !is_external;
                let recorded = Some((step.call.number, is_captured));
                self.events.entry(event).and_modify(|event| event.recorded = recorded);
            }
            Some(Change::EventEnded { event }) => _ = self.events.remove(&event),
            _ => {}
        }
        let Some(function) = step.function.filter(|_| step.call.succeeded()) else { return };
        for (kind, value) in step.objects.created_objects().map(|(kind, value, ..)| (kind, value)) {
            if OF_CONTEXT.contains(&kind) {
                self.gone.remove(&(kind, value));
                self.objects.extend(owner(step, kind).map(|owner| ((kind, value), owner)));
            }
            if kind == Kind::Event && function.creates(Kind::Event).is_some() {
                let (made, context) = (step.call.number, owner(step, kind));
                let event = Event { made, is_timed: is_timed(step.call, function), context, recorded: None };
                self.events.insert(value, event);
            }
        }
        let pool = function.creates(Kind::MemoryPool).and_then(|at| step.call.output_of(at));
        if let Some((pool, most)) = pool.and_then(|pool| Some((pool, most_of_pool(step.call, function)?))) {
            self.pools.insert(pool, (step.call.number, most));
        }
    }

    /// Of a call that has failed.
    pub(crate) fn explain(&mut self, step: &Step, limits: &Limits) -> Vec<Reason> {
        let Some(function) = step.function else { return Vec::new() };
        let mut found = self.untimed(step, function);
        found.extend(self.stale(step, function));
        found.extend(unmanaged(step, function, limits));
        found.extend(self.full_pool(step, function));
        found.extend(self.limit(step, function));
        found.extend(unknown(step.call, function));
        if step.call.result.map(CUresult) == Some(CUresult::CUDA_ERROR_INVALID_CONTEXT)
            && step.contexts().current(step.call.thread).is_none()
        {
            found.push(("context".into(), "no context is current on the thread".into()));
        }
        found
    }

    /// Why there is no time between two events.
    fn untimed(&self, step: &Step, function: &Function) -> Vec<Reason> {
        let Some(Awaited::Events([first, last])) = function.awaited().filter(|_| function.class == Class::poll) else {
            return Vec::new();
        };
        if first == last {
            return Vec::new();
        }
        let (mut found, mut contexts) = (Vec::new(), Vec::new());
        for at in [first, last] {
            let Some(value) = step.call.argument_of(at) else { continue };
            let Some(event) = self.events.get(&value) else { continue };
            contexts.extend(event.context);
            let why = match event {
                Event { is_timed: false, .. } => "was created without timing (CU_EVENT_DISABLE_TIMING)".into(),
                Event { recorded: None, .. } => "was never recorded".into(),
                Event { recorded: Some((by, true)), .. } => {
                    format!("was last recorded in a capture (call {by}), so it has no time")
                }
                _ => continue,
            };
            let text = format!("{}, created by call {}, {why}", handle(Kind::Event, value, step.objects), event.made);
            found.push((function.params[at].name.to_owned(), text));
        }
        if let ([one, other], true) = (&contexts[..], found.is_empty())
            && one != other
        {
            found.push(("events".into(), "the two events belong to different contexts".into()));
        }
        found
    }

    /// What it names that went with its context.
    fn stale(&self, step: &Step, function: &Function) -> Vec<Reason> {
        let named = function.params.iter().enumerate().filter_map(|(at, param)| match param.ty.form {
            Form::Handle(kind) => Some((param.name, kind, step.call.argument_of(at)?)),
            _ => None,
        });
        let gone = named.filter_map(|(name, kind, value)| {
            let by = self.gone.get(&(kind, value))?;
            let what = handle(kind, value, step.objects);
            Some((name.to_owned(), format!("{what} was destroyed with its context by call {by}")))
        });
        gone.collect()
    }

    fn full_pool(&self, step: &Step, function: &Function) -> Option<Reason> {
        let Effect::Allocate { kind: Memory::Pooled, .. } = function.effect else { return None };
        let pool = step.call.argument_of(function.handle(Kind::MemoryPool)?)?;
        let (made, most) = self.pools.get(&pool).filter(|(_, most)| *most > 0)?;
        let asked = requested_size::bytes(step.call, function)?;
        let live = step.memory().live().filter(|one| one.pool == Some(pool)).filter_map(|one| one.bytes);
        let live = live.fold(0, u64::saturating_add);
        (live.saturating_add(asked) > *most).then(|| {
            let (most, live, asked) = (size(*most), size(live), size(asked));
            let what = handle(Kind::MemoryPool, pool, step.objects);
            (
                "pool".into(),
                format!("{what} is limited to {most} (call {made}); {live} are allocated, {asked} more were requested"),
            )
        })
    }

    /// Some limits are fixed by the first kernel.
    fn limit(&mut self, step: &Step, function: &Function) -> Option<Reason> {
        let at = of_enum(function, CUlimit::ENUM)?;
        let limit = step.call.argument_of(at).map(|limit| CUlimit(limit as u32));
        let is_fixed = limit.is_some_and(|limit| {
            [CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE, CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE].contains(&limit)
        });
        if !is_fixed || function.class != Class::state {
            return None;
        }
        let is_launch = |call: &Call| call.named_kernel().is_some() && call.succeeded();
        let trace = step.call.trace();
        let mut before = trace.calls().take_while(|call| call.number < step.call.number);
        let first = self.launched.or_else(|| before.find(is_launch).map(|call| call.number));
        self.launched = first;
        let text = format!("set after the first kernel launch (call {}), which fixes this limit", first?);
        Some((function.params[at].name.to_owned(), text))
    }
}

/// Advice and prefetches are for managed memory.
fn unmanaged(step: &Step, function: &Function, limits: &Limits) -> Option<Reason> {
    if function.effect != Effect::Submit(Work::Migrate) && of_enum(function, CUmem_advise::ENUM).is_none() {
        return None;
    }
    let at = function.params.iter().position(|param| matches!(param.ty.form, Form::Address))?;
    let name = function.params[at].name.to_owned();
    let one = step.memory().find(step.call.argument_of(at)?)?;
    if one.kind != Memory::Managed {
        let got = step.call.trace().call(one.call);
        let got = got.map_or(String::new(), |call| format!(", from {} (call {})", call.name(), call.number));
        return Some((name, format!("the memory is not managed{got}")));
    }
    let device = step.contexts().device(step.call.thread);
    let told = limits.limit_of(device, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
    (told == Some(0)).then(|| (name, format!("device {device} has no concurrent access to managed memory")))
}

/// A value of an enumeration that the header does not have.
fn unknown(call: &Call, function: &Function) -> Option<Reason> {
    function.params.iter().enumerate().find_map(|(at, param)| {
        let Form::Enum(of) = param.ty.form else { return None };
        let value = call.argument_of(at)? as u32;
        let is_known = of.values.iter().any(|(_, known)| *known as u32 == value);
        (!is_known).then(|| (param.name.to_owned(), format!("{} is not a known {}", symbol(of, value.into()), of.name)))
    })
}

fn owner(step: &Step, kind: Kind) -> Option<Owner> {
    let (contexts, thread) = (step.contexts(), step.call.thread);
    match (kind, step.change) {
        (Kind::Stream, Some(Change::StreamMade { green: Some(green), .. })) => Some(Owner::Other(green)),
        (Kind::Stream, _) => contexts.current(thread).map(|context| contexts.of_streams(context)),
        _ => contexts.owner(thread),
    }
}

fn is_timed(call: &Call, function: &Function) -> bool {
    /// CU_EVENT_DISABLE_TIMING
    const WITHOUT: u64 = 2;
    let flags = function.params.iter().position(|param| matches!(param.role, Role::Bits(_)));
    flags.and_then(|at| call.argument_of(at)).unwrap_or(0) & WITHOUT == 0
}

fn most_of_pool(call: &Call, function: &Function) -> Option<u64> {
    let is_it = |ty: &trace::api::types::Type| ty.name == CUmemPoolProps::TYPE.name;
    let described = |form| matches!(form, Form::Pointer(to) if is_it(to));
    let at = function.params.iter().position(|param| described(param.ty.form))?;
    let at = call.argument_of(at)?.checked_add(std::mem::offset_of!(CUmemPoolProps, maxSize) as u64)?;
    Some(u64::from_le_bytes(call.memory(When::Entry, at, 8)?[..].try_into().ok()?))
}
