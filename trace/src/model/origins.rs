//! The origin of kernels: the call that loaded the code of a launched function.
//!
//! A function is looked up in a module, or belongs to a kernel, which was looked up in a library. The driver
//! reuses handles, so each lookup and each load counts from its call until the next that returns the same
//! handle. The output of a linker is loaded from the address at which the linker left it.

use crate::api::Function;
use crate::api::roles::{Field, Role};
use crate::api::types::{Form, Kind};
use crate::file::call_table::Located;
use crate::file::origin::Origin;
use crate::file::record::Kernel;
use crate::model::decode::decode;
use crate::model::objects::owner;
use crate::model::value::Value;
use crate::read::call::Call;
use crate::read::reader::Trace;

/// What code is reached by.
const KINDS: [Kind; 5] = [Kind::Module, Kind::Library, Kind::Function, Kind::Kernel, Kind::Link];
/// In the place of a kind: code that a linker made, by its address.
const LINKED: u8 = u8::MAX;

impl Trace {
    /// All of them, by kind, handle and call.
    pub(crate) fn origins(&self) -> &[Origin] {
        self.origins.get_or_init(|| {
            let mut found = Vec::new();
            let brings: Vec<bool> = self.functions.iter().map(|function| function.is_some_and(brings)).collect();
            // Most calls do not: of those no more than the head is read.
            let brings = |at: &Located| {
                let entry = self.record(at.entry);
                entry.is_some_and(|entry| brings.get(usize::from(entry.head.function)).is_some_and(|brings| *brings))
            };
            let found_by = self.calls.iter().enumerate().filter(|(_, at)| brings(at));
            let calls = found_by.filter_map(|(number, at)| self.read(&at, number as u64));
            for call in calls.filter(Call::succeeded) {
                let outputs = decode(&call).map(|decoded| decoded.outputs).unwrap_or_default();
                outputs.iter().for_each(|(_, value)| collect(&call, value, &mut found));
                collect_linked(&call, &mut found);
            }
            found.sort_unstable();
            found
        })
    }

    /// The call that loaded the code of a kernel which call `at` launches, or adds to a graph.
    pub(crate) fn load_of(&self, kernel: &Kernel, at: u64) -> Option<Call<'_>> {
        let by = |kind| self.loaded(kind, kernel.handle, at);
        by(Kind::Function as u8).or_else(|| by(Kind::Kernel as u8)).or_else(|| match kernel.module {
            0 => None,
            module => self.loaded(Kind::Module as u8, module, at),
        })
    }

    /// The calls that gave a linker what it made the code of, which this call loads from an address.
    pub(crate) fn linked_of(&self, load: &Call, address: u64) -> Vec<Call<'_>> {
        let made =
            self.origins_before(LINKED, address, load.number).last().and_then(|made| Some((made.owner?, made.call)));
        let Some(((kind, state), at)) = made else { return Vec::new() };
        let all = self.origins_before(kind, state, at);
        // The linker before it may have had the same handle.
        let begin = all.iter().rposition(|origin| origin.owner.is_none()).map_or(0, |begin| begin + 1);
        all[begin..].iter().filter_map(|origin| self.call_of_origin(origin)).collect()
    }

    fn loaded(&self, kind: u8, handle: u64, at: u64) -> Option<Call<'_>> {
        let origin = self.origins_before(kind, handle, at).last()?;
        match origin.owner {
            Some((kind, handle)) => self.loaded(kind, handle, origin.call),
            None => self.call_of_origin(origin),
        }
    }

    /// What came under a handle before call `at`.
    fn origins_before(&self, kind: u8, handle: u64, at: u64) -> &[Origin] {
        let all = self.origins();
        let before = |call| all.partition_point(|o| (o.kind, o.handle, o.call) < (kind, handle, call));
        &all[before(0)..before(at)]
    }

    fn call_of_origin(&self, origin: &Origin) -> Option<Call<'_>> {
        match self.is_empty() {
            true => self.call_at(origin.thread, origin.sequence, origin.call, origin.is_inner),
            false => self.call(origin.call),
        }
    }
}

/// Where the code lies that a call loads, and how much there is in one piece. A file's content stands at
/// address 0.
pub(crate) fn image(load: &Call) -> Option<(u64, usize)> {
    let mut params = load.function()?.params.iter();
    let image = params.find(|p| matches!(p.role, Role::Image | Role::SizedImage(_) | Role::Path))?;
    let address = if matches!(image.role, Role::Path) { 0 } else { load.argument(image.name)? };
    let mut len = 0u64;
    while let Some(piece) = load.images_at(address.checked_add(len)?).next().filter(|piece| piece.len > 0) {
        len = len.checked_add(piece.len)?;
    }
    Some((address, len as usize))
}

/// Whether calls of this function load code, find something in it, or link it.
fn brings(function: &Function) -> bool {
    function.params.iter().any(|param| match (param.role, param.ty.form) {
        (Role::Plain, Form::Handle(Kind::Link)) => true,
        (Role::Out(_) | Role::Create(_), Form::Pointer(to)) => {
            matches!(to.form, Form::Handle(kind) if KINDS.contains(&kind))
        }
        _ => false,
    })
}

fn collect(call: &Call, value: &Value, found: &mut Vec<Origin>) {
    match *value {
        Value::List(ref all) => all.iter().for_each(|value| collect(call, value, found)),
        Value::Handle { kind, value: handle, born } if KINDS.contains(&kind) && handle != 0 => {
            let owner = owner(call, kind).map(|(kind, owner)| (kind as u8, owner));
            // Who asks which module a function is in finds no code.
            if owner.is_some() || born {
                found.push(Origin::new(call, kind as u8, handle, owner));
            }
        }
        _ => {}
    }
}

/// What a linker was given, or what it made.
fn collect_linked(call: &Call, found: &mut Vec<Origin>) {
    let params = call.function().map_or(&[][..], |function| function.params);
    let is_linker = |param: &&Field| matches!(param.ty.form, Form::Handle(Kind::Link));
    let Some(state) = params.iter().find(is_linker).and_then(|param| call.argument(param.name)) else { return };
    let owner = Some((Kind::Link as u8, state));
    let made = params.iter().find(|param| matches!(param.role, Role::Owned(_)));
    match made.map(|param| call.output(param.name)) {
        Some(Some(address)) => found.push(Origin::new(call, LINKED, address, owner)),
        Some(None) => {}
        None => found.push(Origin::new(call, Kind::Link as u8, state, owner)),
    }
}

impl Origin {
    fn new(call: &Call, kind: u8, handle: u64, owner: Option<(u8, u64)>) -> Origin {
        let Call { number, thread, sequence, inner, .. } = *call;
        Origin { kind, handle, call: number, thread, sequence, is_inner: inner, owner }
    }
}
