//! Objects that no call in the trace made: they come from the driver's export tables, which are not recorded.
//!
//! Three of them can be obtained all the same: a primary context, once a later call shows its device; a
//! module whose image was found; a function of a known module, whose name the driver reported at its launch
//! (cuFFT finds its kernels like that). A call that needs any other is refused, so the verdict must name it.

use std::collections::{HashMap, HashSet};
use trace::api::roles::{Class, Role};
use trace::api::types::{Form, Kind};
use trace::api::walk::{View, is_meant};
use trace::base::hash::Hash;
use trace::file::record::{Adopted, Kernel};
use trace::model::nested_structs::structs;
use trace::model::objects::Objects;
use trace::read::call::{Content, When};
use trace::read::recorded_memory::Recorded;
use trace::{Call, Function, Trace};

#[derive(Default)]
pub(crate) struct Origins {
    objects: Objects,
    missing: Vec<Missing>,
    found: HashMap<u64, AdoptedFunction>,
    /// Launched functions that were found, by id: each is one life of its handle.
    used: HashSet<u32>,
}

/// A function that a call is the first to use: it must be looked up in its module before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdoptedFunction {
    pub function: u64,
    pub module: u64,
    pub name: String,
}

/// A use of an object without an origin.
pub(crate) struct Missing {
    pub call: u64,
    pub function: &'static str,
    pub kind: Kind,
    pub value: u64,
}

impl Origins {
    pub(crate) fn observe(&mut self, trace: &Trace, call: &Call, function: &'static Function) {
        if call.succeeded() {
            for (at, param) in function.params.iter().enumerate() {
                let Form::Handle(kind) = param.ty.form else { continue };
                let value = call.argument_of(at).unwrap_or(0);
                let is_missing = kind != Kind::Device && !kind.is_special(value) && !self.is_known(call, kind, value);
                if is_missing && !(kind == Kind::Function && self.find(trace, call, value)) {
                    self.missing.push(Missing { call: call.number, function: function.name, kind, value });
                }
            }
            if function.class == Class::graph {
                self.see_named(call, function);
            }
        }
        self.objects.follow(call);
    }

    /// What the parameters of nodes name.
    fn see_named(&mut self, call: &Call, function: &'static Function) {
        let mut named = Vec::new();
        structs(call, function, &mut |ty, bytes| {
            let Form::Struct(fields) = ty.form else { return };
            let view = Recorded { call, bytes, when: When::Entry };
            for (index, field) in fields.iter().enumerate() {
                let is_used = matches!(field.role, Role::Plain | Role::Unless(_)) && is_meant(fields, index, 0, &view);
                if let (Form::Handle(kind), true) = (field.ty.form, is_used && field.ty.size == 8) {
                    named.extend(view.load(field.offset, 8).map(|value| (kind, value)));
                }
            }
        });
        for (kind, value) in named {
            if !kind.is_special(value) && !self.is_known(call, kind, value) {
                self.missing.push(Missing { call: call.number, function: function.name, kind, value });
            }
        }
    }

    fn is_known(&mut self, call: &Call, kind: Kind, value: u64) -> bool {
        self.objects.advance_time(call);
        let stands_for = match kind {
            Kind::Context => Some(Kind::GreenContext),
            Kind::GreenContext => Some(Kind::Context),
            _ => None,
        };
        self.objects.object(kind, value).is_some()
            || stands_for.is_some_and(|kind| self.objects.object(kind, value).is_some())
    }

    /// Whether the function was launched, now or later, out of a module that is there.
    fn find(&mut self, trace: &Trace, call: &Call, function: u64) -> bool {
        let of_call = call.images().find_map(|image| match image.content {
            Content::Arguments { kernel, .. } => Some(kernel),
            _ => None,
        });
        let here = |kernel: &&Kernel| {
            kernel.handle == function && !kernel.is_kernel && !kernel.name.is_empty() && kernel.module != 0
        };
        let named = trace.kernels.values().filter(|k| of_call.is_none_or(|id| k.id == id)).filter(here);
        let named = named.filter(|kernel| !self.used.contains(&kernel.id));
        let Some(kernel) = named.min_by_key(|kernel| kernel.id) else { return false };
        let adopted = || trace.adopted.iter().any(|a| a.module == kernel.module && has_image(trace, a));
        if self.objects.object(Kind::Module, kernel.module).is_none() && !adopted() {
            return false;
        }
        self.objects.adopt(Kind::Function, function, (Kind::Module, kernel.module), &kernel.name);
        self.used.insert(kernel.id);
        let found = AdoptedFunction { function, module: kernel.module, name: kernel.name.clone() };
        self.found.insert(call.number, found);
        true
    }

    /// By the call that needs each.
    pub(crate) fn take_found(&mut self) -> HashMap<u64, AdoptedFunction> {
        std::mem::take(&mut self.found)
    }

    /// Uses that a replay cannot serve. `is_primary` tells primary contexts by their recorded handles.
    pub(crate) fn missing(self, trace: &Trace, is_primary: impl Fn(u64) -> bool) -> impl Iterator<Item = Missing> {
        let adopted: Vec<u64> = trace.adopted.iter().filter(|a| has_image(trace, a)).map(|a| a.module).collect();
        self.missing.into_iter().filter(move |missing| match missing.kind {
            Kind::Context => !is_primary(missing.value),
            Kind::Module => !adopted.contains(&missing.value),
            _ => true,
        })
    }
}

/// Whether an image is there that the module may be of.
fn has_image(trace: &Trace, adopted: &Adopted) -> bool {
    adopted.images.iter().any(|image| !trace.lacks(Hash::from_bytes(*image)))
}
