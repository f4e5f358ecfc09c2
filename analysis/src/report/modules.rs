//! `modules`: the loaded images, with their sizes, numbers and times of loads, and the kernels used of them.

use super::walk::{Ending, Report, Step};
use crate::findings::finding::{Cost, Finding};
use crate::tables::table::{Cell, Head, Layout, Table, column};
use crate::tables::tally::Tally;
use crate::text::figures::{counted, duration, size};
use foldhash::{HashMap, HashSet};
use trace::api::roles::{Class, Role};
use trace::api::types::{Form, Kind};
use trace::base::hash::Hash;
use trace::code::image::Format;
use trace::model::value::Value;
use trace::read::call::Content;
use trace::show::text::handle;
use trace::{Function, Trace};

#[derive(Default)]
pub(crate) struct Modules<'t> {
    images: HashMap<Key, Image<'t>>,
    /// Loads of what had been loaded before, and of what the driver compiles.
    repeated: Tally,
    compiled: Tally,
    /// The image of a module, library, kernel or function.
    of: HashMap<(Kind, u64), Key>,
    /// Launches by the function or kernel, that are yet to be counted for its image.
    launched: HashMap<u64, u64>,
    /// Whether they are counted.
    with_launches: bool,
}

const PTX: &str = "PTX";

/// An image by its contents, or by its address if its contents were not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Content(Hash),
    Address(u64),
}

#[derive(Default)]
struct Image<'t> {
    format: &'static str,
    bytes: u64,
    loads: u64,
    failed: u64,
    unloads: u64,
    /// Nanoseconds, and those of loads after the first in their context.
    time: i64,
    repeated: u64,
    repeated_time: i64,
    longest: i64,
    first: u64,
    contexts: HashSet<Option<u64>>,
    functions: HashSet<u64>,
    launches: u64,
    /// As the first load names it.
    name: String,
    function: &'t str,
}

pub(crate) fn make<'t>(_: &'t Trace) -> Box<dyn Report<'t> + 't> {
    Box::new(Modules { with_launches: true, ..Modules::default() })
}

const HEAD: Head = Head {
    report: "modules",
    part: "",
    title: "Module images (modules)",
    columns: &[
        column("size", "bytes"),
        column("loads", "loads"),
        column("repeated", "repeated"),
        column("failed", "failed"),
        column("unloads", "unloads"),
        column("time", "time_ns"),
        column("longest", "longest_ns"),
        column("kernels", "functions_looked_up"),
        column("launches", "launches"),
        column("first", "first_call"),
        column("kind", "kind"),
        column("first as", "first_as"),
        column("content", "content"),
        column("function", "function"),
    ],
    layout: Layout::Grid,
};

impl<'t> Report<'t> for Modules<'t> {
    fn visits(&self, function: &Function, _: bool) -> bool {
        match function.class {
            Class::load | Class::unload => true,
            Class::launch => self.with_launches,
            _ => is_lookup(function),
        }
    }

    fn visit(&mut self, step: &Step<'_, 't>) {
        let Some(function) = step.function else { return };
        if function.class != Class::launch {
            self.count_launched();
        }
        match function.class {
            Class::load => self.load(step),
            Class::unload if step.call.succeeded() => {
                let of = function.params.first().and_then(|param| match param.ty.form {
                    Form::Handle(kind) => Some((kind, step.call.argument(param.name)?)),
                    _ => None,
                });
                if let Some(image) = of.and_then(|of| self.of.remove(&of)).and_then(|key| self.images.get_mut(&key)) {
                    image.unloads += 1;
                }
            }
            Class::launch => {
                let launched = step.call.handle(Kind::Function);
                launched.into_iter().for_each(|launched| *self.launched.entry(launched).or_default() += 1);
            }
            Class::query if is_lookup(function) => self.lookup(step),
            _ => {}
        }
    }

    fn tables(&mut self, ending: &Ending<'t>) -> Vec<Table> {
        self.count_launched();
        let mut table = Table::new(HEAD);
        let mut all: Vec<_> = self.images.iter().collect();
        all.sort_by_key(|(_, image)| (std::cmp::Reverse(image.time), image.first));
        for (key, image) in all {
            table.row([
                Cell::Bytes(image.bytes),
                Cell::Count(image.loads),
                Cell::Count(image.repeated),
                Cell::Count(image.failed),
                Cell::Count(image.unloads),
                Cell::Time(image.time),
                Cell::Time(image.longest),
                Cell::Count(image.functions.len() as u64),
                Cell::Count(image.launches),
                Cell::Number(image.first),
                image.format.into(),
                image.name.clone().into(),
                match key {
                    Key::Content(hash) => format!("{:.8}", hash.to_string()).into(),
                    Key::Address(_) => Cell::None,
                },
                image.function.into(),
            ]);
        }
        table.note("repeated: loaded again into a context that already had the same bytes");
        for adopted in &ending.trace.adopted {
            let images = counted(adopted.images.len() as u64, "image");
            table.note(format!(
                "module {:#x} was not loaded by a recorded call: {images} from {}",
                adopted.module, adopted.origin
            ));
        }
        vec![table]
    }

    fn findings(&self, _: &Ending<'t>) -> Vec<Finding> {
        let mut found = Vec::new();
        let finding = |kind: &str, what: &str, tally: &Tally, most: String| Finding {
            kind: kind.into(),
            what: format!("{}{what}", counted(tally.calls, "module load")),
            evidence: format!("{} in total; {most}", duration(tally.time)),
            next: "cutrace report -r modules".into(),
            cost: Cost::Time(tally.time),
            times: tally.calls,
            calls: tally.costliest(),
        };
        let again = self.images.values().filter(|image| image.repeated > 0);
        if let Some(most) = again.max_by_key(|image| (image.repeated_time, std::cmp::Reverse(image.first))) {
            found.push(finding(
                "repeated_module_loads",
                ": the context had already loaded the same image",
                &self.repeated,
                format!(
                    "the costliest image has {} and is loaded {}, first by call {}",
                    size(most.bytes),
                    counted(most.loads, "time"),
                    most.first
                ),
            ));
        }
        let compiled = self.images.values().filter(|image| image.format == PTX);
        if let Some(longest) = compiled.max_by_key(|image| (image.longest, std::cmp::Reverse(image.first))) {
            found.push(finding(
                "ptx_loads",
                " with PTX, which the driver compiles",
                &self.compiled,
                format!(
                    "the longest took {}; call {} first loaded that image",
                    duration(longest.longest),
                    longest.first
                ),
            ));
        }
        found
    }
}

fn is_lookup(function: &Function) -> bool {
    function.class == Class::query && function.family == "module"
}

impl<'t> Modules<'t> {
    /// Before it changes which image a function is of.
    fn count_launched(&mut self) {
        for (function, launches) in self.launched.drain() {
            let key = self.of.get(&(Kind::Function, function)).or_else(|| self.of.get(&(Kind::Kernel, function)));
            if let Some(image) = key.and_then(|key| self.images.get_mut(key)) {
                image.launches += launches;
            }
        }
    }

    fn load(&mut self, step: &Step<'_, 't>) {
        let Some(function) = step.function else { return };
        let created = function.params.iter().find_map(|param| match (param.role, param.ty.form) {
            (Role::Create(_), Form::Pointer(to)) => match to.form {
                Form::Handle(kind @ (Kind::Module | Kind::Library)) => Some((kind, param.name)),
                _ => None,
            },
            _ => None,
        });
        let Some((kind, output)) = created else { return };
        let Some((key, format, bytes, path)) = image(step) else { return };
        let made = step.call.output(output).filter(|_| step.call.succeeded()).map(|value| (kind, value));
        self.of.extend(made.map(|made| (made, key)));
        if !step.selected {
            return;
        }
        let ns = step.duration().unwrap_or(0);
        let image = self.images.entry(key).or_insert_with(|| Image {
            format,
            bytes,
            first: step.call.number,
            name: path.or(made.map(|(kind, value)| handle(kind, value, step.objects))).unwrap_or_default(),
            function: step.call.name(),
            ..Image::default()
        });
        image.loads += 1;
        image.time += ns;
        if format == PTX {
            self.compiled.add(step.call.number, ns);
        }
        image.longest = image.longest.max(ns);
        if made.is_none() {
            image.failed += 1;
        } else if !image.contexts.insert(step.contexts().current(step.call.thread)) {
            image.repeated += 1;
            self.repeated.add(step.call.number, ns);
            image.repeated_time += ns;
        }
    }

    /// A function of a module, a kernel of a library, the module of a library, the function of a kernel.
    fn lookup(&mut self, step: &Step<'_, 't>) {
        let Some(decoded) = step.decoded.filter(|_| step.call.succeeded()) else { return };
        let of = decoded.arguments.iter().find_map(|(_, value)| match value {
            Value::Handle { kind: kind @ (Kind::Module | Kind::Library | Kind::Kernel), value, .. } => {
                Some((*kind, *value))
            }
            _ => None,
        });
        let Some(key) = of.and_then(|of| self.of.get(&of).copied()) else { return };
        for (_, value) in &decoded.outputs {
            let Value::Handle { kind, value, .. } = value else { continue };
            self.of.insert((*kind, *value), key);
            let is_kernel = matches!((of, kind), (Some((Kind::Module, _)), Kind::Function) | (_, Kind::Kernel));
            if let Some(image) = self.images.get_mut(&key).filter(|_| is_kernel) {
                image.functions.insert(*value);
            }
        }
    }
}

/// What a call loads: its content, what it is, its bytes, and its file if it is read from one.
pub(crate) fn image(step: &Step) -> Option<(Key, &'static str, u64, Option<String>)> {
    let param =
        step.function?.params.iter().find(|p| matches!(p.role, Role::Image | Role::SizedImage(_) | Role::Path))?;
    let shown = step.decoded?.arguments.iter().find(|(name, _)| *name == param.name).map(|(_, value)| value)?;
    let trace = step.call.trace();
    let absent = if trace.preamble.without_data().is_some() { "left out" } else { "not in the file" };
    let known = |content: &Content, len: u64| match content {
        Content::Blob(hash) => {
            let bytes = trace.blob(*hash);
            Some((Key::Content(*hash), bytes.map_or(absent, kind), bytes.map_or(len, |b| b.len() as u64)))
        }
        Content::Bytes(bytes) => Some((Key::Content(Hash::compute(bytes)), kind(bytes), bytes.len() as u64)),
        Content::Lost if trace.preamble.is_data_left_out() => {
            Some((Key::Address(step.call.argument(param.name)?), absent, len))
        }
        _ => None,
    };
    let (found, path) = match shown {
        Value::Payload { content, len, .. } => (known(content, *len), None),
        // The content of a file stands at address 0.
        Value::Text(path) => {
            let content = step.call.images_at(0).next();
            (content.and_then(|image| known(&image.content, image.len)), Some(path.to_string()))
        }
        _ => (None, None),
    };
    let (key, format, bytes) = found.unwrap_or((Key::Address(step.call.argument(param.name)?), "not recorded", 0));
    Some((key, format, bytes, path))
}

fn kind(bytes: &[u8]) -> &'static str {
    match Format::detect(bytes.get(..8).unwrap_or(bytes)) {
        Format::Wrapper => "fatbin wrapper",
        Format::Fatbin => "fatbin",
        Format::Elf => "cubin",
        Format::Archive => "archive",
        Format::Text => PTX,
    }
}
