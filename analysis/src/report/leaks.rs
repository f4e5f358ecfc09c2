//! `leaks`: objects that the program made and did not destroy. Memory, as in `memory`, and by kind streams,
//! events, modules, graphs, contexts, pools, textures, reserved addresses.

use super::modules::{self, Key};
use super::walk::{Ending, Report, Step, changes_memory};
use crate::findings::finding::{Cost, Finding};
use crate::report::memory::leaked::{self, How, Left};
use crate::tables::table::{Cell, Head, Layout, Table, column};
use crate::tables::tally::{KEPT, LISTED, listed};
use crate::text::figures::counted;
use foldhash::HashMap;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use trace::api::FUNCTIONS;
use trace::api::effect::{Effect, Memory};
use trace::api::roles::{Class, Role};
use trace::api::types::{Form, Kind};
use trace::model::change::{Change, freed};
use trace::model::contexts::Owner;
use trace::model::objects::{Objects, ends};
use trace::{Function, Trace};

/// Ended by a call that names one of them. Of what counts its references or goes with something else nothing
/// is said.
static DESTROYED_BY_CALLS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let params = FUNCTIONS.iter().flat_map(|function| function.params);
    let destroyed = params.filter(|param| matches!(param.role, Role::Destroy));
    destroyed.filter_map(|param| if let Form::Handle(kind) = param.ty.form { Some(kind) } else { None }).collect()
});

/// Memory, of which another table tells.
const MEMORY: [Kind; 3] = [Kind::Array, Kind::MipmappedArray, Kind::Allocation];

/// What ends with its context.
const OF_CONTEXT: [Kind; 7] =
    [Kind::Module, Kind::Stream, Kind::Event, Kind::Texture, Kind::Surface, Kind::TextureRef, Kind::GraphicsResource];

/// What there is to leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Sort {
    Object(Kind),
    /// The primary context of a device, as often as it is retained.
    Retained,
    /// A range of addresses.
    Reserved,
}

impl Sort {
    fn name(self) -> &'static str {
        match self {
            Sort::Object(Kind::Context) => "context",
            Sort::Object(Kind::GreenContext) => "green context",
            Sort::Object(Kind::GraphExec) => "executable graph",
            Sort::Object(Kind::MemoryPool) => "memory pool",
            Sort::Object(kind) => kind.label(),
            Sort::Retained => "retained primary context",
            Sort::Reserved => "address reservation",
        }
    }
}

#[derive(Clone, Copy)]
struct LiveObject<'t> {
    call: u64,
    function: &'t str,
    selected: bool,
    /// Current when it was made.
    context: Option<Owner>,
    /// Of code, what it was loaded from.
    image: Option<Key>,
    /// A call that was to destroy it failed.
    tried: bool,
}

#[derive(Default)]
pub(crate) struct Leaks<'t> {
    /// By handle, address or device. Several have the same where contexts number for themselves, or where a
    /// destroying call is under way on another thread.
    live: HashMap<(Sort, u64), Vec<LiveObject<'t>>>,
    ended: Vec<(Sort, LiveObject<'t>)>,
    made: HashMap<Sort, u64>,
    memory: Left,
}

/// Those of one kind, made by one function, that ended in the same way.
#[derive(Default)]
struct Group {
    count: u64,
    calls: Vec<u64>,
    images: HashMap<Key, u64>,
}

pub(crate) fn make<'t>(_: &'t Trace) -> Box<dyn Report<'t> + 't> {
    Box::new(Leaks::default())
}

const MEMORY_LEFT: Head = Head {
    report: "leaks",
    part: "memory",
    title: "Leaked memory (leaks)",
    columns: leaked::WITH_CALLS,
    layout: Layout::Grid,
};

const HEAD: Head = Head {
    report: "leaks",
    part: "",
    title: "Leaked objects (leaks)",
    columns: &[
        column("objects", "objects"),
        column("made", "made"),
        column("kind", "kind"),
        column("first", "first_call"),
        column("same image", "same_image"),
        column("how they ended", "end"),
        column("function", "function"),
        column("created by calls", "calls"),
    ],
    layout: Layout::Grid,
};

impl<'t> Report<'t> for Leaks<'t> {
    fn visits(&self, function: &Function, _: bool) -> bool {
        Objects::concerns(function) || changes_memory(function)
    }

    fn visit(&mut self, step: &Step<'_, 't>) {
        self.memory.follow(step);
        step.followed.ended.iter().for_each(|ended| self.end_with(ended.owner));
        let call = step.call;
        let Some(function) = step.function else { return };
        if call.succeeded() {
            let made = step.objects.made_for_themselves();
            let counted = made.filter(|(kind, _)| DESTROYED_BY_CALLS.contains(kind) && !MEMORY.contains(kind));
            counted.for_each(|(kind, value)| self.begin(step, Sort::Object(kind), value));
        }
        let device = || function.handle(Kind::Device).and_then(|at| call.argument_of(at)).unwrap_or(0);
        match function.effect {
            Effect::Allocate { kind: Memory::Addresses, .. } => {
                let reserved = step.followed.made.first().and_then(|made| made.address());
                reserved.into_iter().for_each(|base| self.begin(step, Sort::Reserved, base));
            }
            Effect::Free(Memory::Addresses) => {
                freed(call, function).into_iter().for_each(|base| self.give_up(step, Sort::Reserved, base));
            }
            Effect::RetainPrimary if call.succeeded() => self.begin(step, Sort::Retained, device()),
            Effect::ReleasePrimary => self.give_up(step, Sort::Retained, device()),
            _ => ends(call).for_each(|(kind, value)| self.give_up(step, Sort::Object(kind), value)),
        }
    }

    fn tables(&mut self, ending: &Ending<'t>) -> Vec<Table> {
        let mut table = Table::new(HEAD);
        let mut groups: Vec<_> = self.groups().into_iter().collect();
        groups.sort_by_key(|((sort, how, _), group)| (std::cmp::Reverse(group.count), *sort, *how));
        for ((sort, how, function), group) in groups {
            table.row([
                Cell::Count(group.count),
                Cell::Count(self.made.get(&sort).copied().unwrap_or(0)),
                sort.name().into(),
                group.calls.first().copied().map(Cell::Number).into(),
                group.of_one_image().map(Cell::Count).into(),
                how.cell("the destroying call failed"),
                function.into(),
                listed(&group.calls).into(),
            ]);
        }
        table.note("made: all created by the program; same image: modules or libraries loaded from the same bytes");
        // Where the trace was not closed, this one says so.
        vec![table, self.memory.table(MEMORY_LEFT, ending)]
    }

    fn findings(&self, ending: &Ending<'t>) -> Vec<Finding> {
        // What the program still had when it was cut off is no leak.
        if ending.trace.footer.is_none() {
            return Vec::new();
        }
        let mut sorts: BTreeMap<Sort, Group> = BTreeMap::new();
        for ((sort, how, _), group) in self.groups() {
            if how != How::Tried {
                sorts.entry(sort).or_default().join(group);
            }
        }
        // The one stream or module of a program lives as long as its process.
        sorts.retain(|_, group| group.count > 1);
        let mut sorts: Vec<_> = sorts.into_iter().collect();
        sorts.sort_by_key(|(sort, group)| (std::cmp::Reverse(group.count), *sort));
        if sorts.is_empty() {
            return Vec::new();
        }
        let count = sorts.iter().map(|(_, group)| group.count).sum();
        let what: Vec<String> = sorts.iter().map(|(sort, group)| counted(group.count, sort.name())).collect();
        let first = |(sort, group): &(Sort, Group)| {
            let image = group.of_one_image().filter(|same| *same > 1);
            let image = image.map_or(String::new(), |same| format!(", {same} from one image"));
            format!("{} by call {}{image}", sort.name(), group.calls.first().unwrap_or(&0))
        };
        vec![Finding {
            kind: "not_destroyed".into(),
            what: format!("{} leaked", enumerated(&what)),
            evidence: format!("created first: {}", sorts.iter().map(first).collect::<Vec<_>>().join("; ")),
            next: "cutrace report -r leaks".into(),
            cost: Cost::Objects(count),
            times: count,
            calls: sorts.iter().flat_map(|(_, group)| group.calls.iter().take(LISTED).copied()).take(KEPT).collect(),
        }]
    }
}

impl<'t> Leaks<'t> {
    fn begin(&mut self, step: &Step<'_, 't>, sort: Sort, value: u64) {
        *self.made.entry(sort).or_default() += u64::from(step.selected);
        let is_load = step.class() == Some(Class::load);
        self.live.entry((sort, value)).or_default().push(LiveObject {
            call: step.call.number,
            function: step.call.name(),
            selected: step.selected,
            context: owner(step, sort),
            image: if is_load { modules::image(step).map(|image| image.0) } else { None },
            tried: false,
        });
    }

    /// By a call that succeeded, or had not returned; or that failed.
    fn give_up(&mut self, step: &Step<'_, 't>, sort: Sort, value: u64) {
        let Some(alike) = self.live.get_mut(&(sort, value)) else { return };
        let owner = owner(step, sort);
        let at = alike.iter().position(|made| made.context == owner).unwrap_or(0);
        if step.call.result.is_some() && !step.call.succeeded() {
            alike[at].tried = true;
            return;
        }
        alike.remove(at);
        if alike.is_empty() {
            self.live.remove(&(sort, value));
        }
    }

    fn end_with(&mut self, context: Owner) {
        let ended = &mut self.ended;
        self.live.retain(|(sort, _), alike| {
            if matches!(sort, Sort::Object(kind) if OF_CONTEXT.contains(kind)) {
                alike.retain(|made| {
                    let ends = made.context == Some(context);
                    ended.extend(ends.then_some((*sort, *made)));
                    !ends
                });
            }
            !alike.is_empty()
        });
    }

    fn groups(&self) -> BTreeMap<(Sort, How, &'t str), Group> {
        let live = self.live.iter().flat_map(|((sort, _), alike)| alike.iter().map(|made| (*sort, made, How::Live)));
        let ended = self.ended.iter().map(|(sort, made)| (*sort, made, How::WithContext));
        let mut groups: BTreeMap<_, Group> = BTreeMap::new();
        for (sort, made, how) in live.chain(ended).filter(|(_, made, _)| made.selected) {
            let how = if made.tried { How::Tried } else { how };
            let group = groups.entry((sort, how, made.function)).or_default();
            group.count += 1;
            group.calls.push(made.call);
            if let Some(image) = made.image {
                *group.images.entry(image).or_default() += 1;
            }
        }
        groups.values_mut().for_each(|group| group.calls.sort_unstable());
        groups
    }
}

/// The context with which it ends, at the latest.
fn owner(step: &Step, sort: Sort) -> Option<Owner> {
    let (contexts, thread) = (step.contexts(), step.call.thread);
    match (sort, step.change) {
        (Sort::Object(Kind::Stream), Some(Change::StreamMade { green: Some(green), .. })) => Some(Owner::Other(green)),
        (Sort::Object(Kind::Stream), _) => contexts.current(thread).map(|context| contexts.of_streams(context)),
        _ => contexts.owner(thread),
    }
}

impl Group {
    fn join(&mut self, other: Group) {
        self.count += other.count;
        self.calls.extend(other.calls);
        self.calls.sort_unstable();
        other.images.into_iter().for_each(|(image, count)| *self.images.entry(image).or_default() += count);
    }

    /// The most that were loaded from the same bytes.
    fn of_one_image(&self) -> Option<u64> {
        self.images.values().copied().max()
    }
}

/// `a, b and c`
fn enumerated(all: &[String]) -> String {
    match all {
        [one @ .., last] if !one.is_empty() => format!("{} and {last}", one.join(", ")),
        _ => all.concat(),
    }
}
