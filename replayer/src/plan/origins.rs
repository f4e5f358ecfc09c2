//! Objects that no call in the trace made: they came out of tables of the driver's that are not recorded.
//!
//! Two of them can be had all the same: a primary context, once a later call tells whose it is, and a module whose image was
//! found. A call that needs any other is refused, so the verdict has to name it.

use crate::call::objects::is_special;
use trace::api::types::{Form, Kind};
use trace::objects::Objects;
use trace::{Call, Function, Trace, decode};

#[derive(Default)]
pub struct Origins {
    objects: Objects,
    missing: Vec<Missing>,
}

/// A use of an object without an origin.
pub struct Missing {
    pub call: u64,
    pub function: &'static str,
    pub kind: Kind,
    pub value: u64,
}

impl Origins {
    pub fn see(&mut self, call: &Call, function: &'static Function) {
        if call.succeeded() {
            for param in function.params {
                let Form::Handle(kind) = param.ty.form else { continue };
                let value = call.argument(param.name).unwrap_or(0);
                if kind != Kind::Device && !is_special(kind, value) && !self.is_known(call, kind, value) {
                    self.missing.push(Missing { call: call.number, function: function.name, kind, value });
                }
            }
        }
        match self.objects.concerned(call).then(|| decode::decode(call)).flatten() {
            Some(decoded) => self.objects.advance(call, &decoded),
            None => self.objects.until(call),
        }
    }

    fn is_known(&mut self, call: &Call, kind: Kind, value: u64) -> bool {
        self.objects.until(call);
        let stands_for = match kind {
            Kind::Context => Some(Kind::GreenContext),
            Kind::GreenContext => Some(Kind::Context),
            _ => None,
        };
        self.objects.object(kind, value).is_some()
            || stands_for.is_some_and(|kind| self.objects.object(kind, value).is_some())
    }

    /// Uses that a replay cannot serve. `is_primary` tells primary contexts by their recorded handles.
    pub fn missing(self, trace: &Trace, is_primary: impl Fn(u64) -> bool) -> impl Iterator<Item = Missing> {
        let adopted: Vec<u64> = trace.adopted.iter().filter(|a| !a.images.is_empty()).map(|a| a.module).collect();
        self.missing.into_iter().filter(move |missing| match missing.kind {
            Kind::Context => !is_primary(missing.value),
            Kind::Module => !adopted.contains(&missing.value),
            _ => true,
        })
    }
}
