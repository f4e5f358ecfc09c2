//! The lives of objects and memory ranges: the calls that made and ended each, and its name in `dump`.
//!
//! `dump` follows the calls from the first on to name a handle, but a viewer jumps anywhere. So each life is
//! kept, sorted by its search key.

use super::column::Column;
use analysis::text::kernel_name::{Names, Style};
use bytemuck::{Pod, Zeroable};
use std::collections::HashMap;
use trace::api::types::Kind;
use trace::model::decode::{Decoded, decode};
use trace::model::objects::{Objects, Range};
use trace::model::value::Value;
use trace::{Call, Trace};

/// The life of one object or range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Life {
    /// A [`Kind`] as a number, or [`RANGES`] and the label's index.
    pub kind: u32,
    /// The call that made it.
    pub made: u32,
    /// The handle, or where the range begins.
    pub value: u64,
    /// Of ranges, bytes.
    pub len: u64,
    /// As in `stream#3`.
    pub number: u32,
    /// The call that ended it; u32::MAX if none did.
    pub ended: u32,
    /// Index into the names plus 1; 0 if it has none.
    pub name: u32,
    pub(crate) zero: u32,
}

/// Kinds from here on are ranges: by their place in [`LABELS`].
pub(crate) const RANGES: u32 = 1000;
pub(crate) const LABELS: [&str; 3] = ["mem", "host", "global"];
/// How many different bases below an address are asked whether they hold it.
const TRIED: usize = 64;

#[derive(Clone, Default)]
pub struct Lives {
    /// By kind, value, and the call that made them.
    pub all: Column<Life>,
    pub names: Vec<String>,
}

impl Life {
    pub fn is_range(&self) -> bool {
        self.kind >= RANGES
    }

    pub(crate) fn label(&self) -> &'static str {
        match self.kind.checked_sub(RANGES) {
            Some(label) => LABELS.get(label as usize).copied().unwrap_or("?"),
            None => KINDS.iter().find(|kind| **kind as u32 == self.kind).map_or("?", |kind| kind.label()),
        }
    }

    /// Whether it stands for its value in this call, which may make or end it.
    pub fn holds_at(&self, call: u32) -> bool {
        self.made <= call && call <= self.ended
    }
}

/// Kinds that calls make.
const KINDS: [Kind; 33] = [
    Kind::Context,
    Kind::Module,
    Kind::Function,
    Kind::Library,
    Kind::Kernel,
    Kind::Array,
    Kind::MipmappedArray,
    Kind::TextureRef,
    Kind::SurfaceRef,
    Kind::Texture,
    Kind::Surface,
    Kind::Event,
    Kind::Stream,
    Kind::GraphicsResource,
    Kind::ExternalMemory,
    Kind::ExternalSemaphore,
    Kind::Graph,
    Kind::GraphNode,
    Kind::GraphExec,
    Kind::GraphDeviceNode,
    Kind::GraphConditional,
    Kind::MemoryPool,
    Kind::Allocation,
    Kind::UserObject,
    Kind::AsyncCallback,
    Kind::GreenContext,
    Kind::Link,
    Kind::ResourceDesc,
    Kind::LogsCallback,
    Kind::CoredumpCallback,
    Kind::CheckpointOperation,
    Kind::EglStream,
    Kind::Shareable,
];

impl Lives {
    /// Follows the calls that make, name or end objects, in order.
    pub(crate) fn from_trace(trace: &Trace, concerned: &[u32]) -> Lives {
        let mut walk = Walk::default();
        for number in concerned {
            let Some(call) = trace.call((*number).into()) else { continue };
            walk.observe(&call, decode(&call).as_ref());
        }
        let mut all = walk.all;
        all.sort_by_key(|life| (life.kind, life.value, life.made));
        Lives { all: all.into(), names: walk.names }
    }

    /// What a handle stood for in this call.
    pub(crate) fn object(&self, kind: Kind, value: u64, call: u32) -> Option<&Life> {
        self.find(kind as u32, value, call).filter(|life| life.holds_at(call))
    }

    fn find(&self, kind: u32, value: u64, call: u32) -> Option<&Life> {
        let after = self.all.partition_point(|life| (life.kind, life.value, life.made) <= (kind, value, call));
        let last = self.all.get(after.checked_sub(1)?)?;
        ((last.kind, last.value) == (kind, value)).then_some(last)
    }

    /// The range that held an address in this call.
    pub(crate) fn range(&self, address: u64, call: u32) -> Option<&Life> {
        self.nearest(address, call, |life| life.holds_at(call))
    }

    /// The nearest that was made around an address up to this call.
    fn nearest(&self, address: u64, call: u32, is_wanted: impl Fn(&Life) -> bool) -> Option<&Life> {
        let of_label = |label: usize| {
            let kind = RANGES + label as u32;
            let mut below = address;
            for _ in 0..TRIED {
                let after = self.all.partition_point(|life| (life.kind, life.value) <= (kind, below));
                let base = self.all.get(after.checked_sub(1)?).filter(|life| life.kind == kind)?.value;
                let found = self.find(kind, base, call).filter(|life| is_wanted(life));
                if let Some(life) = found.filter(|life| address - life.value < life.len.max(1)) {
                    return Some(life);
                }
                below = base.checked_sub(1)?;
            }
            None
        };
        (0..LABELS.len()).find_map(of_label)
    }

    /// The name the program gave, if it gave one.
    pub(crate) fn name(&self, life: &Life) -> Option<&str> {
        self.names.get(life.name.checked_sub(1)? as usize).map(String::as_str)
    }

    /// The same in a word: of C++ and Rust functions the last part.
    pub(crate) fn brief(&self, life: &Life) -> Option<String> {
        self.name(life).map(|name| Names::new(Style::Short).brief(name))
    }

    /// The life that is called `stream#3`.
    pub(crate) fn titled(&self, title: &str) -> Option<&Life> {
        let (label, number) = title.split_once('#')?;
        let number: u32 = number.split(':').next()?.parse().ok()?;
        self.all.iter().find(|life| life.number == number && life.label() == label)
    }

    /// `stream#3`
    pub fn title(&self, life: &Life) -> String {
        let name = self.brief(life).map_or(String::new(), |name| format!(":{}", crate::text::tame(&name)));
        format!("{}#{}{name}", life.label(), life.number)
    }

    /// Every life that a call's values name.
    pub fn named_lives(&self, decoded: &Decoded, call: u32) -> Vec<Life> {
        let mut met = Vec::new();
        for (_, value) in decoded.arguments.iter().chain(&decoded.outputs) {
            self.meet(value, call, &mut met);
        }
        let mut seen = std::collections::HashSet::new();
        met.retain(|life| seen.insert((life.kind, life.number)));
        met
    }

    fn meet(&self, value: &Value, call: u32, met: &mut Vec<Life>) {
        match value {
            Value::Handle { kind, value, .. } if *value != 0 => {
                let kernel = || self.object(Kind::Kernel, *value, call).filter(|_| *kind == Kind::Function);
                let living = self.object(*kind, *value, call).or_else(kernel);
                met.extend(living.or_else(|| self.find(*kind as u32, *value, call)));
            }
            Value::Address { value, .. } if *value != 0 => met.extend(self.range_or_nearest(*value, call)),
            Value::Argument { bytes, .. } if bytes.len() == 8 => {
                let word = bytes.as_ref().try_into().map_or(0, u64::from_le_bytes);
                met.extend(self.range_or_nearest(word, call));
            }
            Value::List(all) | Value::Launch { arguments: all, .. } => {
                all.iter().for_each(|value| self.meet(value, call, met));
            }
            Value::Struct(fields) => fields.iter().for_each(|(_, value)| self.meet(value, call, met)),
            Value::Options(pairs) => pairs.iter().for_each(|(_, value)| self.meet(value, call, met)),
            _ => {}
        }
    }

    /// Or that held it, if none does any more.
    fn range_or_nearest(&self, address: u64, call: u32) -> Option<&Life> {
        self.range(address, call).or_else(|| self.nearest(address, call, |_| true))
    }

    /// What stands for these lives when values are written down.
    pub fn objects(&self, met: &[Life]) -> Objects {
        let mut objects = Objects::default();
        for life in met {
            match life.kind.checked_sub(RANGES) {
                Some(_) => {
                    let (number, base, len) = (life.number.into(), life.value, life.len);
                    objects.know_range(Range { label: life.label(), number, base, len });
                }
                None => {
                    if let Some(kind) = KINDS.iter().find(|kind| **kind as u32 == life.kind) {
                        objects.know(*kind, life.value, life.number.into(), self.brief(life).as_deref());
                    }
                }
            }
        }
        objects
    }
}

#[derive(Default)]
struct Walk {
    objects: Objects,
    all: Vec<Life>,
    names: Vec<String>,
    known: HashMap<String, u32>,
    /// The latest life of each handle and base.
    latest: HashMap<(u32, u64), usize>,
}

impl Walk {
    fn observe(&mut self, call: &Call, decoded: Option<&Decoded>) {
        self.objects.advance(call, decoded);
        let number = call.number as u32;
        let ended: Vec<(u32, u64)> = self.objects.doomed().iter().map(|(kind, value)| (*kind as u32, *value)).collect();
        let freed: Vec<u64> = self.objects.freed_ranges().to_vec();
        for key in ended {
            self.end(key, number);
        }
        for base in freed {
            (0..LABELS.len() as u32).for_each(|label| self.end((RANGES + label, base), number));
        }
        let made: Vec<(u32, u64, u64, Option<String>)> = self
            .objects
            .created_objects()
            .map(|(kind, value, number, name)| (kind as u32, value, number, name.map(str::to_owned)))
            .collect();
        for (kind, value, count, name) in made {
            let name = name.map_or(0, |name| self.name(name));
            self.begin(Life {
                kind,
                made: number,
                value,
                len: 0,
                number: count as u32,
                ended: u32::MAX,
                name,
                zero: 0,
            });
        }
        let born: Vec<Range> = self.objects.born().collect();
        for Range { label, number: count, base, len } in born {
            let label = LABELS.iter().position(|known| *known == label).unwrap_or(0) as u32;
            let (kind, count) = (RANGES + label, count as u32);
            self.begin(Life { kind, made: number, value: base, len, number: count, ended: u32::MAX, name: 0, zero: 0 });
        }
    }

    fn name(&mut self, name: String) -> u32 {
        if let Some(known) = self.known.get(&name) {
            return *known;
        }
        self.names.push(name.clone());
        self.known.insert(name, self.names.len() as u32);
        self.names.len() as u32
    }

    fn begin(&mut self, life: Life) {
        // What still stood there has ended with its context or module.
        self.end((life.kind, life.value), life.made);
        self.latest.insert((life.kind, life.value), self.all.len());
        self.all.push(life);
    }

    fn end(&mut self, key: (u32, u64), call: u32) {
        if let Some(life) = self.latest.remove(&key).and_then(|at| self.all.get_mut(at)) {
            life.ended = call;
        }
    }
}
