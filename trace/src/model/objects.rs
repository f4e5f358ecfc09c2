//! Names for the objects that a program creates: `ctx#1`, `stream#3`, `mem#2`.
//!
//! The driver reuses a handle's value once its object is gone, so a name follows the object's life: it begins
//! when the creating call returns, and ends when the destroying call is entered.

use crate::api::Function;
use crate::api::effect::Effect;
use crate::api::roles::{Class, Extent, Field, Role};
use crate::api::types::{Form, Kind, Type};
use crate::api::walk;
use crate::model::change::{Moment, resolve};
use crate::model::contexts::Contexts;
use crate::model::decode::{Decoded, decode};
use crate::model::ended_objects::{Ended, EndedObjects};
use crate::model::memory::{End, Memory};
use crate::model::value::Value;
use crate::read::call::Call;
use foldhash::HashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Who takes whom along when it goes.
const OWNS: &[(Kind, &[Kind])] = &[
    (Kind::Module, &[Kind::Function, Kind::TextureRef, Kind::SurfaceRef]),
    (Kind::Library, &[Kind::Kernel, Kind::Module]),
    (Kind::Kernel, &[Kind::Function]),
    (Kind::Graph, &[Kind::GraphNode]),
    (Kind::MipmappedArray, &[Kind::Array]),
    (Kind::Array, &[Kind::Array]),
];

/// Numbered by each context for itself: several may be alive by the same value. Whose is destroyed is not
/// asked: a program that destroys one twice, which the driver lets it, ends another context's here.
pub const NUMBERED_BY_CONTEXT: &[Kind] = &[Kind::Texture, Kind::Surface];

/// A live range of memory that a call named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// `mem`, `host` or `global`.
    pub label: &'static str,
    /// The number in the name, from 1.
    pub number: u64,
    /// Address of the first byte.
    pub base: u64,
    /// Bytes of the range.
    pub len: u64,
}

impl Range {
    /// Of memory without a length behind a byte.
    pub(crate) fn end(&self) -> u64 {
        self.base.saturating_add(self.len.max(1))
    }

    pub(crate) fn holds(&self, address: u64) -> bool {
        (self.base..self.end()).contains(&address)
    }
}

#[derive(Debug, Clone)]
struct Object {
    number: u64,
    owner: Option<(Kind, u64)>,
    /// The name the program gave: of a kernel or function.
    name: Option<String>,
    /// The call that brought it made it, and did not only show it.
    born: bool,
}

/// The objects that a call gives up if it succeeds.
pub fn ends(call: &Call) -> impl Iterator<Item = (Kind, u64)> {
    let params = call.function().map_or(&[][..], |function| function.params);
    params.iter().enumerate().filter_map(move |(at, param)| match (param.role, param.ty.form) {
        (Role::Destroy, Form::Handle(kind)) => Some((kind, call.argument_of(at).unwrap_or(0))),
        _ => None,
    })
}

#[derive(Debug)]
enum Thing {
    Object(Kind, u64, Object),
    Range(Range),
}

/// The live objects, advanced along the calls of a trace in the order of their entry.
#[derive(Default)]
pub struct Objects {
    live: HashMap<(Kind, u64), Object>,
    ranges: BTreeMap<u64, Range>,
    /// How often one has come or gone.
    changes_of_ranges: u64,
    made: HashMap<&'static str, u64>,
    /// Made by calls that have not returned yet, by the time they will.
    pending: BinaryHeap<Reverse<(u64, u64)>>,
    things: HashMap<u64, Vec<Thing>>,
    /// The call moved to last: what it made has its names at once.
    fresh: Option<u64>,
    doomed: Vec<(Kind, u64)>,
    freed: Vec<u64>,
    /// The call that ends these.
    ender: u64,
    gone: EndedObjects,
    contexts: Contexts,
    memory: Memory,
    /// How many ends a value outlives: of a physical allocation, since it was retained that often; of what
    /// contexts number for themselves, since others have it as well.
    holds: HashMap<(Kind, u64), u64>,
    /// By the function's id in the file: whether calls of it can matter here.
    relevant: Vec<Option<bool>>,
}

impl Objects {
    /// Whether calls of this function make, show or end anything; others need not be decoded for
    /// [`Objects::advance`].
    #[inline]
    pub fn concerned(&mut self, call: &Call) -> bool {
        match self.relevant.get(usize::from(call.function_id())) {
            Some(Some(is_relevant)) => *is_relevant,
            _ => self.learn(call),
        }
    }

    fn learn(&mut self, call: &Call) -> bool {
        let id = usize::from(call.function_id());
        self.relevant.resize(self.relevant.len().max(id + 1), None);
        *self.relevant[id].insert(call.function().is_some_and(Objects::concerns))
    }

    /// Whether calls of this function make, show or end anything, or tell with what that will end.
    pub fn concerns(function: &Function) -> bool {
        function.class == Class::allocate
            || function.class == Class::free
            || function.effect.is_of_contexts()
            || function.params.iter().any(|p| match p.role {
                Role::Destroy | Role::HostAlloc(_) => true,
                Role::Out(_) | Role::Create(_) | Role::Volatile(_) | Role::InOut(_) => {
                    matches!(p.ty.form, Form::Pointer(to) if walk::has_structure(to))
                }
                Role::AttributeOut(_, types) => types.iter().any(|(_, to)| walk::has_structure(to)),
                _ => false,
            })
    }

    /// Moves to this call, and decodes it if it can matter here. Of a question that was answered with objects
    /// which are known, nothing can.
    #[inline]
    pub fn follow<'t>(&mut self, call: &Call<'t>) -> Option<Decoded<'t>> {
        if self.concerned(call) {
            return self.follow_concerned(call);
        }
        self.advance_time(call);
        None
    }

    fn follow_concerned<'t>(&mut self, call: &Call<'t>) -> Option<Decoded<'t>> {
        if call.function().is_some_and(|function| self.are_known(call, function)) {
            self.advance_time(call);
            return None;
        }
        let decoded = decode(call);
        self.advance(call, decoded.as_ref());
        decoded
    }

    /// Whether all that a question about contexts was answered with are objects that live by then.
    fn are_known(&self, call: &Call, function: &Function) -> bool {
        let is_question = function.class == Class::query && function.family == "context";
        let is_known = |(at, param): (usize, &Field)| match (param.role, param.ty.form) {
            (Role::Out(Extent::One), Form::Pointer(Type { form: Form::Handle(kind), .. })) => {
                call.output_of(at).is_some_and(|value| self.live.contains_key(&(*kind, value)))
            }
            (_, Form::Pointer(_)) => false,
            _ => true,
        };
        is_question && function.effect == Effect::None && function.params.iter().enumerate().all(is_known)
    }

    /// Moves to this call: what its predecessors destroyed is gone, and what it makes itself has names.
    /// `decoded`: none if it makes and ends nothing.
    pub fn advance(&mut self, call: &Call, decoded: Option<&Decoded>) {
        self.advance_time(call);
        let Some(decoded) = decoded else { return };
        self.ender = call.number;
        if call.succeeded() || call.result.is_none() {
            self.collect_ends(call);
        }
        if call.succeeded() {
            let mut things = Vec::new();
            for (_, value) in &decoded.outputs {
                self.collect_births(call, value, &mut things);
            }
            things.extend(call.function().and_then(|f| self.range_of(call, f)).map(Thing::Range));
            if !things.is_empty() {
                self.things.insert(call.number, things);
                self.pending.push(Reverse((call.end.unwrap_or(u64::MAX), call.number)));
                self.fresh = Some(call.number);
            }
        }
    }

    /// As [`Objects::advance`], for a call that makes and ends nothing.
    #[inline]
    pub fn advance_time(&mut self, call: &Call) {
        self.fresh = None;
        let is_due = |Reverse((end, _)): &Reverse<(u64, u64)>| *end <= call.begin;
        if !self.doomed.is_empty() || !self.freed.is_empty() || self.pending.peek().is_some_and(is_due) {
            self.apply_due(call);
        }
    }

    fn apply_due(&mut self, call: &Call) {
        for (kind, value) in std::mem::take(&mut self.doomed) {
            self.remove(kind, value);
        }
        for base in std::mem::take(&mut self.freed) {
            if let Some(range) = self.ranges.remove(&base) {
                self.changes_of_ranges += 1;
                self.gone.add_range(range, self.ender);
            }
        }
        while self.pending.peek().is_some_and(|Reverse((end, _))| *end <= call.begin) {
            let Some(Reverse((_, number))) = self.pending.pop() else { break };
            for thing in self.things.remove(&number).into_iter().flatten() {
                match thing {
                    Thing::Object(kind, value, object) => {
                        let others = self.live.insert((kind, value), object);
                        if others.is_some() && NUMBERED_BY_CONTEXT.contains(&kind) {
                            *self.holds.entry((kind, value)).or_insert(0) += 1;
                        }
                    }
                    Thing::Range(range) => self.place(range),
                }
            }
        }
    }

    /// What still stands in the way has ended with its context or module.
    fn place(&mut self, range: Range) {
        while let Some((&base, _)) =
            self.ranges.range(..range.end()).next_back().filter(|(_, other)| other.end() > range.base)
        {
            self.ranges.remove(&base);
        }
        self.gone.overlaid(range);
        self.changes_of_ranges += 1;
        self.ranges.insert(range.base, range);
    }

    /// The number of a live object, and its name if the program gave it one.
    pub fn object(&self, kind: Kind, value: u64) -> Option<(u64, Option<&str>)> {
        let fresh = self.fresh.and_then(|call| self.things.get(&call)).into_iter().flatten();
        let mut made = fresh.filter_map(|thing| match thing {
            Thing::Object(k, v, object) if (*k, *v) == (kind, value) => Some(object),
            _ => None,
        });
        match made.next_back().or_else(|| self.live.get(&(kind, value))) {
            Some(object) => Some((object.number, object.name.as_deref())),
            // Launches take a CUkernel where a CUfunction is asked for.
            None if kind == Kind::Function => self.object(Kind::Kernel, value),
            None => None,
        }
    }

    /// The live allocation that holds this address.
    pub fn range(&self, address: u64) -> Option<Range> {
        let holds = |range: &Range| range.holds(address);
        let fresh = self.fresh.and_then(|call| self.things.get(&call)).into_iter().flatten();
        let mut made = fresh.filter_map(|thing| match thing {
            Thing::Range(range) if holds(range) => Some(*range),
            _ => None,
        });
        made.next().or_else(|| self.ranges.range(..=address).next_back().map(|(_, r)| *r).filter(holds))
    }

    /// A number that changes whenever [`Objects::range`] may answer otherwise, of another call than one that
    /// has brought a range itself.
    pub fn changes_of_ranges(&self) -> u64 {
        self.changes_of_ranges
    }

    /// The number of the object that had this handle last, if none has it now.
    pub fn ended(&self, kind: Kind, value: u64) -> Option<Ended<u64>> {
        self.gone.object(kind, value).filter(|_| self.object(kind, value).is_none())
    }

    /// The allocation that held this address last, if none does now.
    pub fn ended_range(&self, address: u64) -> Option<Ended<Range>> {
        self.gone.range(address).filter(|_| self.range(address).is_none())
    }

    /// Ranges that the call moved to last has brought.
    pub fn born(&self) -> impl Iterator<Item = Range> {
        let fresh = self.fresh.and_then(|call| self.things.get(&call)).into_iter().flatten();
        fresh.filter_map(|thing| match thing {
            Thing::Range(range) => Some(*range),
            Thing::Object(..) => None,
        })
    }

    /// Where ranges begin that the call moved to last gives up.
    pub fn freed_ranges(&self) -> &[u64] {
        &self.freed
    }

    /// Objects that the call moved to last has brought: kind, handle, number, and the name if the program
    /// gave one.
    pub fn created_objects(&self) -> impl Iterator<Item = (Kind, u64, u64, Option<&str>)> {
        let fresh = self.fresh.and_then(|call| self.things.get(&call)).into_iter().flatten();
        fresh.filter_map(|thing| match thing {
            Thing::Object(kind, value, object) => Some((*kind, *value, object.number, object.name.as_deref())),
            Thing::Range(_) => None,
        })
    }

    /// Objects that the call moved to last has made, and that go with no other object: kind and handle.
    pub fn made_for_themselves(&self) -> impl Iterator<Item = (Kind, u64)> {
        let fresh = self.fresh.and_then(|call| self.things.get(&call)).into_iter().flatten();
        fresh.filter_map(|thing| match thing {
            Thing::Object(kind, value, object) if object.born && object.owner.is_none() => Some((*kind, *value)),
            _ => None,
        })
    }

    /// Objects that the call moved to last gives up; not those that they take along.
    pub fn doomed(&self) -> &[(Kind, u64)] {
        &self.doomed
    }

    /// Tells of a live object, for a reader that kept what an earlier walk had found.
    pub fn know(&mut self, kind: Kind, value: u64, number: u64, name: Option<&str>) {
        self.live.insert((kind, value), Object { number, owner: None, name: name.map(str::to_owned), born: false });
    }

    /// Tells of a live range, as [`Objects::know`] does of objects.
    pub fn know_range(&mut self, range: Range) {
        self.place(range);
    }

    fn remove(&mut self, kind: Kind, value: u64) {
        let Some(object) = self.live.remove(&(kind, value)) else { return };
        self.gone.add(kind, value, object.number, self.ender);
        if !OWNS.iter().any(|(owner, _)| *owner == kind) {
            return;
        }
        let owned: Vec<(Kind, u64)> =
            self.live.iter().filter(|(_, o)| o.owner == Some((kind, value))).map(|(key, _)| *key).collect();
        for (kind, value) in owned {
            self.remove(kind, value);
        }
    }

    /// Names an object that no call made.
    pub fn adopt(&mut self, kind: Kind, value: u64, owner: (Kind, u64), name: &str) {
        let number = self.number(kind.label());
        self.live
            .insert((kind, value), Object { number, owner: Some(owner), name: Some(name.to_owned()), born: false });
    }

    fn number(&mut self, label: &'static str) -> u64 {
        let made = self.made.entry(label).or_insert(0);
        *made += 1;
        *made
    }

    fn collect_ends(&mut self, call: &Call) {
        for (kind, value) in ends(call) {
            if !self.outlives(kind, value) {
                self.doomed.push((kind, value));
            }
        }
    }

    /// Gives up one hold of an object, if it has more than one.
    fn outlives(&mut self, kind: Kind, value: u64) -> bool {
        let Some(holds) = self.holds.get_mut(&(kind, value)).filter(|holds| **holds > 0) else { return false };
        *holds -= 1;
        true
    }

    fn collect_births(&mut self, call: &Call, value: &Value, things: &mut Vec<Thing>) {
        match value {
            Value::List(all) => all.iter().for_each(|v| self.collect_births(call, v, things)),
            Value::Struct(fields) => fields.iter().for_each(|(_, v)| self.collect_births(call, v, things)),
            &Value::Handle { kind, value, born } if value != 0 && kind != Kind::Device => {
                let is_live = self.live.contains_key(&(kind, value));
                if is_live && kind == Kind::Allocation {
                    *self.holds.entry((kind, value)).or_insert(0) += 1;
                    return;
                }
                let known = !born && is_live;
                if known || things.iter().any(|t| matches!(t, Thing::Object(k, v, _) if (*k, *v) == (kind, value))) {
                    return;
                }
                let number = self.number(kind.label());
                let object = Object { number, owner: owner(call, kind), name: self.name(call, kind, value), born };
                things.push(Thing::Object(kind, value, object));
            }
            _ => {}
        }
    }

    /// The name of a function or kernel, given when it was looked up or inherited from the kernel it was made
    /// of.
    fn name(&self, call: &Call, kind: Kind, handle: u64) -> Option<String> {
        if !matches!(kind, Kind::Function | Kind::Kernel) {
            return None;
        }
        let function = call.function()?;
        if let Some(text) = function.params.iter().find(|p| matches!(p.role, Role::Text)) {
            return call.text(call.argument(text.name)?).map(|name| name.into_owned());
        }
        let kernel = function.params.iter().find(|p| matches!(p.ty.form, Form::Handle(Kind::Kernel)));
        let made_of = kernel.and_then(|p| self.live.get(&(Kind::Kernel, call.argument(p.name)?))?.name.clone());
        let launched = || call.trace.kernels.values().find(|k| k.handle == handle).map(|k| k.name.clone());
        made_of.or_else(launched)
    }

    /// The range that a call brought, or the variable of a module that was looked up.
    fn range_of(&mut self, call: &Call, function: &Function) -> Option<Range> {
        let (label, base, len) = match function.variable() {
            Some([at, bytes]) => ("global", call.output_of(at)?, call.output_of(bytes)?),
            None => self.allocation(call, function)?,
        };
        if base == 0 || self.ranges.get(&base).is_some_and(|r| (r.label, r.len) == (label, len) && label == "global") {
            return None;
        }
        Some(Range { label, number: self.number(label), base, len })
    }

    /// Follows contexts and memory, also of graphs: what a capture allocates has a name, too.
    fn allocation(&mut self, call: &Call, function: &Function) -> Option<(&'static str, u64, u64)> {
        let change = resolve(call, function)?;
        let mut gone = Vec::new();
        let ended = self.contexts.follow(call.thread, &change);
        let made = self.memory.follow(Moment::from_call(call), &change, &self.contexts, &mut gone);
        // What lies beneath new memory goes when that is there.
        let freed = gone.iter().filter(|(_, end)| *end == End::Freed).filter_map(|(one, _)| one.address());
        self.freed.extend(freed);
        for one in ended.into_iter().flat_map(|ended| self.memory.context_ended(ended.owner)) {
            self.freed.extend(one.address());
        }
        // What has no address is known by its handle.
        let made = made?;
        Some((if made.kind.is_host() { "host" } else { "mem" }, made.address()?, made.bytes?))
    }
}

/// The argument whose end will be the end of a new object of this kind.
pub(crate) fn owner(call: &Call, kind: Kind) -> Option<(Kind, u64)> {
    call.function()?.params.iter().find_map(|p| match p.ty.form {
        Form::Handle(owner) if OWNS.iter().any(|(k, owned)| *k == owner && owned.contains(&kind)) => {
            Some((owner, call.argument(p.name)?))
        }
        _ => None,
    })
}
