//! Inputs of calls that are not in the file, and effects that no call shows.

use crate::plan::Missing;
use crate::plan::action::{Action, action, between_either};
use crate::plan::graphs::captures;
use crate::plan::order::waits::{self, Memories};
use crate::plan::survey::walk::{GONE, PINNED, Survey};
use std::ops::Range;
use trace::api::roles::{Class, Role};
use trace::api::types::Form;
use trace::file::preamble::Data;
use trace::read::call::{Content, When};
use trace::{Call, Function, Trace};

const MANAGED: &str = "this copy treats managed memory as host memory and has no equivalent";

impl Survey {
    /// Inputs that are not in the file, and effects that no call shows.
    pub(crate) fn inputs(&mut self, trace: &Trace, call: &Call, function: &'static Function) {
        let words = |role: fn(&Role) -> bool| {
            let params = function.params.iter().enumerate().filter(move |(_, param)| role(&param.role));
            params.filter_map(|(at, _)| call.argument_of(at)).filter(|word| *word != 0).collect::<Vec<u64>>()
        };
        let sinks = words(|role| matches!(role, Role::Sink(_) | Role::Writes(_)));
        if !matches!(action(function), Action::Execute) {
            return;
        }
        let written = call.written().flat_map(|written| written.images());
        let lost = call.images().filter(|image| !(sinks.contains(&image.address) && image.when == When::Return));
        let missing = written.chain(lost).find_map(|image| match image.content {
            Content::Blob(blob) if trace.lacks(blob) => {
                Some(Missing { call: call.number, function: function.name, blob: Some(blob), len: image.len })
            }
            _ => None,
        });
        self.plan.missing = self.plan.missing.take().or(missing);
        self.lacks_input(trace, call, function, &sinks);
        let either = words(|role| matches!(role, Role::Reads(_) | Role::Writes(_)));
        let is_host = |address: u64| call.images().any(|image| image.address == address);
        let is_captured = self.is_captured();
        let makes_node = function.class == Class::graph || is_captured;
        if makes_node || matches!(function.class, Class::copy | Class::submit) {
            if is_captured {
                self.plan.graph_nodes.copies.insert(call.number);
            }
            let pageable = |range: &Range<u64>| !self.live.holds(range.start);
            let named = captures::named_memory(call, function).into_iter().filter(pageable);
            if makes_node { self.of_nodes.extend(named) } else { self.of_copies.extend(named) }
        }
        if !makes_node && either.iter().any(|address| !self.is_known(*address) && !is_host(*address)) {
            let what = format!("{}: unknown address", function.name);
            self.reasons.about_call(what, call.number);
        }
        let called_host = words(|role| matches!(role, Role::Source(_) | Role::Sink(_)));
        let is_managed = |at: &&u64| self.live.holds(**at) && !self.host.contains(**at) && !is_host(**at);
        if between_either(function).is_none() && called_host.iter().any(|at| is_managed(&at)) {
            self.reasons.about_call(format!("{} {MANAGED}", function.name), call.number);
        }
        let read = words(|role| matches!(role, Role::Reads(_)));
        let memory = Memories { host: &self.host, live: &self.live, makes_node };
        if self.signals.observe(trace, call, function, memory) {
            self.reasons.about_call(format!("{}: {}", function.name, waits::WHY), call.number);
        } else if !trace.follows_host_memory()
            && read.iter().any(|address| self.host.contains(*address) && !is_host(*address))
        {
            self.reasons.about_call(PINNED, call.number);
        }
        let arguments = words(|role| matches!(role, Role::Arguments(_)));
        let recorded = call.images().any(|image| matches!(image.content, Content::Arguments { .. }));
        if !arguments.is_empty() && !recorded {
            let what = format!("{}: the kernel's arguments were not recorded", function.name);
            self.reasons.about_call(what, call.number);
        }
        if !trace.follows_host_memory() && calls_back(function, call) {
            let what = format!("{}: the writes of the program's callback are not recorded", function.name);
            self.reasons.about_call(what, call.number);
        }
    }

    /// What of it was not recorded, or was and is gone. `sinks`: where the call writes.
    fn lacks_input(&mut self, trace: &Trace, call: &Call, function: &'static Function, sinks: &[u64]) {
        let (mut is_unrecorded, mut gone) = (false, None);
        for image in call.images() {
            match image.content {
                Content::Lost if image.when == When::Entry || !sinks.contains(&image.address) => {
                    let lost = Missing { call: call.number, function: function.name, blob: None, len: image.len };
                    self.plan.missing = self.plan.missing.take().or(Some(lost).filter(|_| call.succeeded()));
                    is_unrecorded = true;
                }
                // What a copy brought is compared by its hash, which is the blob's name.
                Content::Blob(_) if sinks.contains(&image.address) && image.when == When::Return => {}
                // It is left out on purpose.
                Content::Blob(hash) if trace.lacks(hash) && trace.preamble.data == Data::None => is_unrecorded = true,
                Content::Blob(hash) if trace.lacks(hash) => gone = gone.or(Some((hash, image.len))),
                _ => {}
            }
        }
        if is_unrecorded {
            let why = if trace.preamble.is_data_left_out() { "removed" } else { "not recorded" };
            self.reasons.about_call(format!("{}: part of its input was {why}", function.name), call.number);
        }
        if let Some((blob, len)) = gone {
            // The first of each function: a forged trace may name any number.
            let what = self.gone.entry(function.name).or_insert_with(|| {
                format!("{}: needs data that is {GONE}: blob {blob} of {len} bytes, the first", function.name)
            });
            self.reasons.about_call(what.clone(), call.number);
        }
    }
}

/// Whether the call hands the driver code of the application that may run when work gets to it.
fn calls_back(function: &Function, call: &Call) -> bool {
    let submits = matches!(function.class, Class::submit | Class::graph);
    submits
        && function.params.iter().any(|param| match param.ty.form {
            Form::Callback => call.argument(param.name) != Some(0),
            Form::Pointer(to) => match to.form {
                Form::Struct(fields) => fields.iter().any(|field| matches!(field.ty.form, Form::Callback)),
                _ => false,
            },
            _ => false,
        })
}
