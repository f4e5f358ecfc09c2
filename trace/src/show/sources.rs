//! Launched kernels, and the properties of the code that they came from.

use crate::api::roles::Class;
use crate::base::hash::Hash;
use crate::code::parameters::{Code, from};
use crate::code::varying::{self, Causes, causes};
use crate::file::record::Kernel;
use crate::model::origins::image;
use crate::read::call::Call;
use crate::read::call::When;
use crate::read::reader::Trace;
use foldhash::{HashMap, HashSet};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// A kernel that was launched, or that became a node of a graph.
pub struct Launched<'t> {
    /// The kernel's record.
    pub kernel: &'t Kernel,
    /// Number of launches and nodes.
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
    let (mut all, mut places) = (Vec::<Launched>::new(), HashMap::default());
    for call in trace.calls().filter(Call::succeeded) {
        if !call.function().is_some_and(|function| matches!(function.class, Class::launch | Class::graph)) {
            continue;
        }
        let Some(kernel) = call.named_kernel() else { continue };
        let place = *places.entry(kernel.id).or_insert_with(|| {
            let loaded = trace.load_of(kernel, call.number).map(|load| Source::Call(load.number));
            let adopted = || trace.adopted.iter().find(|adopted| adopted.module == kernel.module);
            let source = loaded.or_else(|| adopted().map(|adopted| Source::Adopted(adopted.module)));
            all.push(Launched { kernel, count: 0, calls: Vec::new(), source });
            all.len() - 1
        });
        let launched = &mut all[place];
        launched.count += 1;
        launched.calls.extend((launched.calls.len() < NAMED).then_some(call.number));
    }
    all
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
    let sm = compute(trace);
    match source {
        Source::Call(number) => trace.call(number).map_or_else(BTreeMap::new, |load| in_load(trace, load, names, sm)),
        Source::Adopted(module) => {
            let images = trace.adopted.iter().filter(|adopted| adopted.module == module).flat_map(|a| &a.images);
            let blobs = images.filter_map(|image| trace.blob(Hash::from_bytes(*image)));
            of_several(blobs.map(|blob| {
                let read = from(blob);
                causes(&Code::new(0, blob.len(), sm, &read), names.clone(), &read)
            }))
        }
    }
}

/// The kernels whose code uses only their arguments and the memory that these lead to.
#[derive(Default)]
pub struct SelfContained {
    /// Of all kernels of the trace.
    names: Option<HashSet<String>>,
    by_kernel: HashMap<u32, bool>,
    /// By the call that loaded the code: modules have thousands of kernels.
    by_load: HashMap<u64, varying::SelfContained>,
}

impl SelfContained {
    /// `at`: a call that launches the kernel.
    pub fn holds(&mut self, trace: &Trace, kernel: &Kernel, at: u64) -> bool {
        if let Some(told) = self.by_kernel.get(&kernel.id) {
            return *told;
        }
        let told = self.in_load(trace, kernel, at).unwrap_or(false);
        self.by_kernel.insert(kernel.id, told);
        told
    }

    fn in_load(&mut self, trace: &Trace, kernel: &Kernel, at: u64) -> Option<bool> {
        let load = trace.load_of(kernel, at)?;
        let (address, len) = image(&load)?;
        let names = self.names.get_or_insert_with(|| trace.kernels.values().map(|k| k.name.clone()).collect());
        let read = |at, len: usize| load.memory(When::Entry, at, len as u64).map(Cow::into_owned);
        let code = || varying::SelfContained::new(Code::new(address, len, compute(trace), &read));
        let code = self.by_load.entry(load.number).or_insert_with(code);
        Some(code.holds(&kernel.name, |name| names.contains(name), &read))
    }
}

/// As 90 for 9.0.
fn compute(trace: &Trace) -> Option<u32> {
    let (major, minor) = trace.devices.first()?.compute;
    major.checked_mul(10)?.checked_add(minor)?.try_into().ok()
}

/// In what a call loads, and in what it was linked from.
fn in_load<'n>(trace: &Trace, load: Call, names: BTreeSet<&'n str>, sm: Option<u32>) -> BTreeMap<&'n str, Causes> {
    let linked = image(&load).map_or_else(Vec::new, |(address, _)| trace.linked_of(&load, address));
    of_several(std::iter::once(load).chain(linked).filter_map(|load| {
        let (address, len) = image(&load)?;
        let read = |at, len: usize| load.memory(When::Entry, at, len as u64).map(Cow::into_owned);
        Some(causes(&Code::new(address, len, sm, &read), names.clone(), &read))
    }))
}

/// For each kernel the first that tells something.
fn of_several<'n>(all: impl Iterator<Item = BTreeMap<&'n str, Causes>>) -> BTreeMap<&'n str, Causes> {
    let mut told = BTreeMap::<&str, Causes>::new();
    for (name, found) in all.flatten() {
        match told.entry(name).or_insert(Err(None)) {
            known @ Err(None) => *known = found,
            known @ Err(_) if found.is_ok() => *known = found,
            _ => {}
        }
    }
    told
}
