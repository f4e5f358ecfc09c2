//! Which image a launched kernel came from: the calls that loaded code and looked things up in it, followed by handle.

use crate::api::roles::{Class, Role};
use crate::api::types::{Form, Kind};
use crate::call::When;
use crate::hash::Hash;
use crate::parameters::{Code, from};
use crate::record::Kernel;
use crate::varying::{Causes, causes};
use crate::{Call, Trace};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A kernel that was launched, or made a node of a graph.
pub struct Launched<'t> {
    pub kernel: &'t Kernel,
    pub count: u64,
    /// The first calls that launched it.
    pub calls: Vec<u64>,
    source: Option<Source>,
}

/// Where an image lies in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Source {
    /// The call that loaded it.
    Call(u64),
    /// A module that no call loaded, by its recorded handle.
    Adopted(u64),
}

/// Calls of one kernel that are named.
const NAMED: usize = 5;

/// What was launched, in the order of the first launches.
pub fn launched(trace: &Trace) -> Vec<Launched<'_>> {
    let mut of: HashMap<(Kind, u64), Source> = HashMap::new();
    let (mut all, mut places) = (Vec::<Launched>::new(), HashMap::new());
    for call in trace.calls().filter(Call::succeeded) {
        let Some(function) = call.function() else { continue };
        match function.class {
            Class::load | Class::query => follow(&call, &mut of),
            Class::launch | Class::graph | Class::submit => {
                let Some(kernel) = call.named_kernel() else { continue };
                let place = *places.entry(kernel.id).or_insert_with(|| {
                    let kind = if kernel.is_kernel { Kind::Kernel } else { Kind::Function };
                    let loaded = of.get(&(kind, kernel.handle)).or_else(|| of.get(&(Kind::Module, kernel.module)));
                    let adopted = trace.adopted.iter().find(|adopted| adopted.module == kernel.module);
                    let source = loaded.copied().or(adopted.map(|adopted| Source::Adopted(adopted.module)));
                    all.push(Launched { kernel, count: 0, calls: Vec::new(), source });
                    all.len() - 1
                });
                let launched = &mut all[place];
                launched.count += 1;
                launched.calls.extend((launched.calls.len() < NAMED).then_some(call.number));
            }
            _ => {}
        }
    }
    all
}

/// What a call loads, or what it finds in what was loaded.
fn follow(call: &Call, of: &mut HashMap<(Kind, u64), Source>) {
    let params = call.function().map_or(&[][..], |function| function.params);
    let is_code = |kind: Kind| matches!(kind, Kind::Module | Kind::Library | Kind::Kernel | Kind::Function);
    let given = params.iter().find_map(|param| match param.ty.form {
        Form::Handle(kind) if is_code(kind) => of.get(&(kind, call.argument(param.name)?)).copied(),
        _ => None,
    });
    for param in params {
        let Form::Pointer(to) = param.ty.form else { continue };
        let Form::Handle(kind) = to.form else { continue };
        let source = match param.role {
            Role::Create(_) => Some(Source::Call(call.number)),
            _ => given,
        };
        if let (Some(source), Some(made), true) = (source, call.output(param.name), is_code(kind)) {
            of.insert((kind, made), source);
        }
    }
}

/// What in the code of these kernels may come out otherwise in every run, by [`Kernel::id`].
pub fn varying<'t>(trace: &'t Trace, kernels: &[&Launched<'t>]) -> BTreeMap<u32, Causes> {
    let mut by_source: BTreeMap<Source, Vec<&Kernel>> = BTreeMap::new();
    let mut all = BTreeMap::new();
    for launched in kernels {
        match launched.source {
            Some(source) => by_source.entry(source).or_default().push(launched.kernel),
            None => _ = all.insert(launched.kernel.id, Err(None)),
        }
    }
    for (source, kernels) in by_source {
        let names: BTreeSet<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        let found = in_source(trace, source, names);
        all.extend(kernels.iter().map(|kernel| (kernel.id, found.get(&*kernel.name).cloned().unwrap_or(Err(None)))));
    }
    all
}

fn in_source<'n>(trace: &Trace, source: Source, names: BTreeSet<&'n str>) -> BTreeMap<&'n str, Causes> {
    let sm = trace.devices.first().map(|device| (device.compute.0 * 10 + device.compute.1) as u32);
    match source {
        Source::Call(number) => {
            let Some((call, address, len)) = trace.call(number).and_then(image) else { return BTreeMap::new() };
            let read = |at, len: usize| call.memory(When::Entry, at, len as u64).map(Cow::into_owned);
            causes(&Code::new(address, len, sm, &read), names, &read)
        }
        Source::Adopted(module) => {
            let images = trace.adopted.iter().filter(|adopted| adopted.module == module).flat_map(|a| &a.images);
            let blobs = images.filter_map(|image| trace.blob(Hash::from_bytes(*image)));
            let mut all = BTreeMap::<&str, Causes>::new();
            for blob in blobs {
                let read = from(blob);
                for (name, found) in causes(&Code::new(0, blob.len(), sm, &read), names.clone(), &read) {
                    let known = all.entry(name).or_insert(Err(None));
                    if known.is_err() {
                        *known = found;
                    }
                }
            }
            all
        }
    }
}

/// The call with the address and the length of what it loads. The content of a file stands at address 0.
fn image<'t>(call: Call<'t>) -> Option<(Call<'t>, u64, usize)> {
    let of = |role: &Role| matches!(role, Role::Image | Role::SizedImage(_) | Role::Path);
    let param = call.function()?.params.iter().find(|param| of(&param.role))?;
    let address = if matches!(param.role, Role::Path) { 0 } else { call.argument(param.name)? };
    let len = call.images_at(address).map(|image| image.len).max()?;
    Some((call, address, len as usize))
}
