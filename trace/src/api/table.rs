//! The table of all driver functions as data, built from the lines of the family files.

use super::effect::{Effect, Work};
use super::enums::CUresult;
use super::roles::{Class, Extent, Field, Policy, Role, Sibling};
use super::types::{Form, Kind, Type};

/// Results of calls that end a capture without a graph.
pub const BROKEN_CAPTURE: [u32; 2] =
    [CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED.0, CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED.0];

/// One exported driver function.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// The exported name, with its suffix: `cuMemAlloc_v2`.
    pub name: &'static str,
    /// The macro that has the function's line: `memory`.
    pub family: &'static str,
    /// The parameters in their order.
    pub params: &'static [Field],
    /// The kind of call.
    pub class: Class,
    /// The way in which a replay makes the call.
    pub policy: Policy,
    /// What a call does beyond what its roles move.
    pub effect: Effect,
    /// No public prototype: the wrapper is a tail jump that only counts, and no argument is recorded.
    pub opaque: bool,
    /// The function whose line this one shares, if it is a per-thread-stream twin.
    pub twin_of: Option<&'static str>,
    /// The position of the first argument that is a stream.
    pub stream_at: Option<u8>,
    /// Whether it is given a function that the driver calls.
    pub calls_back: bool,
}

/// The work that is complete when a wait has returned, or when a poll has reported success. Numbers are
/// argument positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// What was before both; of most functions they are one.
    Events([usize; 2]),
    /// The work that was submitted to this stream.
    Stream(usize),
    /// All of this context, or of the current one if that is 0 or nothing says.
    Context(Option<usize>),
}

impl Awaited {
    /// The context at this position of a call's arguments; none if the current one is meant.
    pub fn context(position: Option<usize>, word: impl Fn(usize) -> u64) -> Option<u64> {
        position.map(word).filter(|context| *context != 0)
    }
}

impl Function {
    /// Argument words: every argument takes its size rounded up to 8 bytes, in order.
    pub const fn words(&self) -> usize {
        match self.params {
            [] => 0,
            [.., last] => (last.offset as usize + last.ty.size as usize).div_ceil(8),
        }
    }

    /// The name of its line, which a per-thread-stream twin shares.
    pub const fn common_name(&self) -> &'static str {
        match self.twin_of {
            Some(name) => name,
            None => self.name,
        }
    }

    /// Whether what it launches is cooperative whatever its arguments say: the blocks may wait for each other.
    pub fn is_cooperative(&self) -> bool {
        self.common_name() == "cuLaunchCooperativeKernel"
    }

    /// The position of the parameter with this name.
    pub fn param(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|p| p.name == name)
    }

    /// What the call has a stream do; none if it submits nothing.
    pub const fn work(&self) -> Option<Work> {
        match self.effect {
            Effect::Submit(work) => Some(work),
            _ => None,
        }
    }

    /// Whether it copies between addresses of which either may be the host's.
    pub const fn copies_unified(&self) -> bool {
        matches!(self.work(), Some(Work::UnifiedCopy))
    }

    /// Whether a device may have to do something that has a beginning and an end of its own.
    pub const fn is_timed(&self) -> bool {
        matches!(self.work(), Some(work) if work.is_timed())
    }

    /// The position of the first argument that is a handle of this kind.
    pub const fn handle(&self, kind: Kind) -> Option<usize> {
        first_handle(self.params, kind)
    }

    /// The position of the first argument through which the call hands out one handle of this kind: a new
    /// one, or one of an object that there was.
    pub const fn hands_out(&self, kind: Kind) -> Option<usize> {
        let mut i = 0;
        while i < self.params.len() {
            if let (Role::Create(Extent::One) | Role::Out(Extent::One), Form::Pointer(to)) =
                (self.params[i].role, self.params[i].ty.form)
                && is_handle(to, kind)
            {
                return Some(i);
            }
            i += 1;
        }
        None
    }

    /// The same, of one handle of this kind that the call brought into being.
    pub const fn creates(&self, kind: Kind) -> Option<usize> {
        match self.hands_out(kind) {
            Some(at) if matches!(self.params[at].role, Role::Create(_)) => Some(at),
            _ => None,
        }
    }

    /// The position of the handle of this kind whose object ends with the call.
    pub const fn ends(&self, kind: Kind) -> Option<usize> {
        match self.handle(kind) {
            Some(at) if matches!(self.params[at].role, Role::Destroy) => Some(at),
            _ => None,
        }
    }

    /// Whether a call with this result did what it is for. A capture also ends if it had been broken, or if
    /// streams had not joined it again.
    pub fn takes_effect(&self, result: u32) -> bool {
        result == 0 || self.ends_capture() && BROKEN_CAPTURE.contains(&result)
    }

    /// Where it hands out the address and the length of a variable of a module or library.
    pub const fn variable(&self) -> Option<[usize; 2]> {
        match self.effect {
            Effect::FindVariable { at, bytes } | Effect::FindManaged { at, bytes } => {
                Some([at.0 as usize, bytes.0 as usize])
            }
            _ => None,
        }
    }

    /// The parameter through which it hands out or takes a descriptor of memory, which one says whether it is
    /// a descriptor, and whether it hands it out.
    pub const fn descriptor(&self) -> Option<(usize, Sibling, bool)> {
        let mut i = 0;
        while i < self.params.len() {
            if let Role::AttributeOut(kind, types) | Role::AttributeIn(kind, types) = self.params[i].role {
                let mut j = 0;
                while j < types.len() {
                    if is_handle(types[j].1, Kind::Shareable) {
                        return Some((i, kind, matches!(self.params[i].role, Role::AttributeOut(..))));
                    }
                    j += 1;
                }
            }
            i += 1;
        }
        None
    }

    /// None of functions that neither wait nor ask, and of copies that wait: those are work of their stream.
    pub fn awaited(&self) -> Option<Awaited> {
        if !matches!(self.class, Class::synchronize | Class::poll) {
            return None;
        }
        let is = |field: &Field, kind| matches!(field.ty.form, Form::Handle(of) if of == kind);
        let first = |kind| self.params.iter().position(|field| is(field, kind));
        let last = |kind| self.params.iter().rposition(|field| is(field, kind));
        let events = || Some(Awaited::Events([first(Kind::Event)?, last(Kind::Event)?]));
        let context = || (self.params.is_empty() || first(Kind::Context).is_some()).then(|| first(Kind::Context));
        events().or_else(|| first(Kind::Stream).map(Awaited::Stream)).or_else(|| context().map(Awaited::Context))
    }

    /// Whether the driver, before it takes the memory back, waits for all work of the context, as it does for
    /// memory that no stream orders. cuda.h does not promise it, so that only reports go by it.
    pub fn waits_in_practice(&self) -> bool {
        use super::effect::Memory::{Array, Device, Managed, Pinned};
        let is_ordered = self.params.iter().any(|field| matches!(field.ty.form, Form::Handle(Kind::Stream)));
        matches!(self.effect, Effect::Free(Device | Managed | Pinned | Array)) && !is_ordered
    }

    /// The stream that a call names: in an argument, or in the structure that one points to, as launches have
    /// a configuration; of several the first. `word`: an argument word, by its number; `at`: the 8 bytes at
    /// an address in such a structure.
    pub fn stream(&self, word: impl Fn(usize) -> u64, at: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let is_stream = |field: &&Field| matches!(field.ty.form, Form::Handle(Kind::Stream));
        let word_of = |param: &Field| word(param.offset as usize / 8);
        if let Some(at) = self.stream_at {
            return Some(word_of(&self.params[usize::from(at)]));
        }
        self.params.iter().find_map(|param| {
            let is_there = match param.role {
                Role::In(Extent::One) => true,
                Role::In(Extent::Len(len)) => word_of(&self.params[usize::from(len.0)]) != 0,
                _ => false,
            };
            let Form::Pointer(to) = param.ty.form else { return None };
            let Form::Struct(fields) = to.form else { return None };
            let offset = fields.iter().find(is_stream)?.offset;
            Some(word_of(param)).filter(|pointer| is_there && *pointer != 0)?.checked_add(offset.into()).and_then(&at)
        })
    }

    /// Whether the call launches an executable graph.
    pub fn launches_graph(&self) -> bool {
        self.work() == Some(Work::Graph)
    }

    /// Whether the call begins a stream capture.
    pub fn begins_capture(&self) -> bool {
        self.effect == Effect::BeginCapture
    }

    /// Whether the call ends a stream capture.
    pub fn ends_capture(&self) -> bool {
        self.effect == Effect::EndCapture
    }

    /// Whether the driver writes to the outputs of a call that fails, too: why, and what is in the way. What
    /// it makes it writes only when it has made it.
    pub fn tells_why_it_failed(&self) -> bool {
        ["cuGraphInstantiate", "cuGraphExecUpdate"].iter().any(|start| self.name.starts_with(start))
    }

    /// Whether what a copy or a fill brings to memory that the host has, too, is there when it returns: all
    /// without a stream wait for that (seen on driver 580: tests/gpu/facts/waiting_copies.c).
    pub const fn brings_at_once(&self) -> bool {
        self.stream_at.is_none()
    }
}

const fn first_handle(params: &[Field], kind: Kind) -> Option<usize> {
    let mut i = 0;
    while i < params.len() {
        if is_handle(params[i].ty, kind) {
            return Some(i);
        }
        i += 1;
    }
    None
}

/// [`Function::stream_at`].
pub const fn stream_at(params: &[Field]) -> Option<u8> {
    match first_handle(params, Kind::Stream) {
        Some(at) => Some(at as u8),
        None => None,
    }
}

/// [`Function::calls_back`].
pub const fn calls_back(params: &[Field]) -> bool {
    let mut i = 0;
    while i < params.len() {
        if matches!(params[i].role, Role::Callback) {
            return true;
        }
        i += 1;
    }
    false
}

const fn is_handle(ty: &Type, kind: Kind) -> bool {
    matches!(ty.form, Form::Handle(of) if of as u8 == kind as u8)
}

/// Gives parameters their offsets in the argument words.
pub const fn in_words<const N: usize>(mut params: [Field; N]) -> [Field; N] {
    let mut i = 0;
    let mut offset = 0;
    while i < N {
        params[i].offset = offset;
        offset += params[i].ty.size.div_ceil(8) * 8;
        i += 1;
    }
    params
}

/// Whether walking the parameter needs more than its words and, for an output, one fixed-size value.
pub const fn is_flat(field: &Field) -> bool {
    use super::roles::Extent;
    match field.role {
        Role::Plain | Role::Bits(_) | Role::Destroy | Role::Reads(_) | Role::Writes(_) => {
            !matches!(field.ty.form, Form::Struct(_))
        }
        Role::Out(Extent::One) | Role::Create(Extent::One) | Role::Volatile(Extent::One) => match field.ty.form {
            Form::Pointer(to) => to.size <= 16 && !matches!(to.form, Form::Struct(_) | Form::Void),
            _ => false,
        },
        Role::Address | Role::Callback | Role::UserData | Role::HostAddress | Role::Opaque | Role::EntryPoint => true,
        _ => false,
    }
}

macro_rules! policy_or_execute {
    () => {
        $crate::api::roles::Policy::execute
    };
    ($policy:ident) => {
        $crate::api::roles::Policy::$policy
    };
}

macro_rules! some_or_none {
    () => {
        None
    };
    ($name:ident) => {
        Some(stringify!($name))
    };
}

/// Functions in `lines`, twins counted.
pub const fn count(lines: &[(Function, Option<&str>)]) -> usize {
    let (mut i, mut count) = (0, lines.len());
    while i < lines.len() {
        count += lines[i].1.is_some() as usize;
        i += 1;
    }
    count
}

/// The lines in order, each followed by its twin.
pub const fn with_twins<const N: usize>(lines: &[(Function, Option<&'static str>)]) -> [Function; N] {
    let mut all = [lines[0].0; N];
    let (mut i, mut next) = (0, 0);
    while i < lines.len() {
        all[next] = lines[i].0;
        next += 1;
        if let Some(twin) = lines[i].1 {
            all[next] = lines[i].0;
            all[next].twin_of = Some(lines[i].0.name);
            all[next].name = twin;
            next += 1;
        }
        i += 1;
    }
    all
}

/// Parameters and effect of one line as data.
macro_rules! describe_line {
    (($($param:ident : $type:ty $(= $role:expr)?),* $(,)?) $($effect:expr)?) => {{
        #[allow(unused_imports)]
        use $crate::api::roles::{Extent::*, Role::*, *};
        #[allow(non_camel_case_types, dead_code, clippy::enum_variant_names)]
        enum Index { $($param),* }
        $(#[allow(non_upper_case_globals, dead_code)] const $param: Sibling = Sibling(Index::$param as u8);)*
        const PARAMS: &[Field] = &$crate::api::table::in_words([$(Field {
            name: $crate::api::roles::plain_name(stringify!($param)),
            ty: <$type as $crate::api::types::Typed>::TYPE,
            offset: 0,
            role: $crate::api::roles::role_or_plain!($($role)?),
        }),*]);
        #[allow(unused_imports)]
        const EFFECT: $crate::api::effect::Effect = {
            use $crate::api::effect::{Bytes::*, Effect::*, Memory::*, Work::*};
            effect_or_none!($($effect)?)
        };
        (PARAMS, EFFECT)
    }};
}

macro_rules! effect_or_none {
    () => {
        $crate::api::effect::Effect::None
    };
    ($effect:expr) => {
        $effect
    };
}

/// Equality of strings in constants.
pub const fn same(a: &str, b: &str) -> bool {
    same_bytes(a.as_bytes(), b.as_bytes())
}

const fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// All functions of one family, in the order of its lines, each twin behind its line.
macro_rules! describe {
    ($family:literal; $($name:ident $params:tt $class:ident $($policy:ident)? $(| $twin:ident)? $(=> $effect:expr)? ;)*) => {
        #[allow(unused_imports)]
        use $crate::api::{attributes::*, enums::*, roles::Field, structs::*, types::*};
        #[allow(unused_imports)]
        use std::ffi::{c_char, c_void};

        const LINES: &[($crate::api::Function, Option<&str>)] = &[$({
            let (params, effect) = describe_line!($params $($effect)?);
            (
                $crate::api::Function {
                    name: stringify!($name),
                    family: $family,
                    params,
                    class: $crate::api::roles::Class::$class,
                    policy: policy_or_execute!($($policy)?),
                    effect,
                    opaque: false,
                    twin_of: None,
                    stream_at: $crate::api::table::stream_at(params),
                    calls_back: $crate::api::table::calls_back(params),
                },
                some_or_none!($($twin)?),
            )
        }),*];
        pub const FUNCTIONS: &[$crate::api::Function] =
            &$crate::api::table::with_twins::<{ $crate::api::table::count(LINES) }>(LINES);
    };
    ($family:literal opaque; $($name:ident)*) => {
        pub const FUNCTIONS: &[$crate::api::Function] = &[$($crate::api::Function {
            name: stringify!($name),
            family: $family,
            params: &[],
            class: $crate::api::roles::Class::query,
            policy: $crate::api::roles::Policy::refuse,
            effect: $crate::api::effect::Effect::None,
            opaque: true,
            twin_of: None,
            stream_at: None,
            calls_back: false,
        }),*];
    };
}

macro_rules! describe_family {
    ($family:ident) => {
        $family! { describe }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::FUNCTIONS;

    #[test]
    fn streams_stand_in_few_structures() {
        let is_stream = |field: &Field| matches!(field.ty.form, Form::Handle(Kind::Stream));
        let others = FUNCTIONS.iter().filter(|function| !function.params.iter().any(is_stream));
        let named = others.filter(|function| function.stream(|_| 0x1000, |_| Some(7)) == Some(7));
        let mut names: Vec<&str> = named.map(|function| function.common_name()).collect();
        names.dedup();
        let launches = ["cuLaunchKernelEx", "cuLaunchCooperativeKernelMultiDevice"];
        let questions = ["cuOccupancyMaxPotentialClusterSize", "cuOccupancyMaxActiveClusters"];
        assert_eq!(names, [launches, questions].concat());
    }
}
