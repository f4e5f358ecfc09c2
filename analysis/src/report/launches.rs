//! `launches`: for each kernel the number of launches, their configurations, and the arguments that change
//! from launch to launch.

use super::walk::{Ending, Needs, Report, Step};
use crate::tables::table::{Cell, Head, Layout, Table, column};
use foldhash::{HashMap, HashSet};
use trace::api::roles::Class;
use trace::file::record::Kernel;
use trace::show::launch::{Shape, shape};
use trace::{Call, Function, Trace};

#[derive(Default)]
pub(crate) struct Launches<'t> {
    kernels: HashMap<&'t str, usize>,
    /// The same by the kernel's id: of several a program may have the same name.
    known: HashMap<u32, (usize, &'t Kernel)>,
    launched: Vec<Launched<'t>>,
    graphs: u64,
    /// Whether more is asked for than how often each was launched, and for how long.
    with_details: bool,
}

#[derive(Default)]
struct Launched<'t> {
    launches: u64,
    /// Nanoseconds of the host.
    time: i64,
    shapes: HashMap<Option<Shape>, u64>,
    /// Launches in shapes beyond those that are told apart.
    other_shapes: u64,
    streams: HashSet<u64>,
    first: u64,
    /// By position.
    arguments: Vec<Argument<'t>>,
    recorded: bool,
}

struct Argument<'t> {
    /// Launches that gave another value than the one before.
    changes: u64,
    latest: &'t [u8],
}

/// Configurations of one kernel, and streams, that are told apart.
const TOLD_APART: usize = 1024;
/// Configurations of one kernel that are listed.
const LISTED: usize = 8;

pub(crate) fn make<'t>(_: &'t Trace) -> Box<dyn Report<'t> + 't> {
    Box::new(Launches { with_details: true, ..Launches::default() })
}

const KERNELS: Head = Head {
    report: "launches",
    part: "kernels",
    title: "Kernels by launches (launches)",
    columns: &[
        column("launches", "launches"),
        column("host time", "host_ns"),
        column("average", "average_ns"),
        column("shapes", "configurations"),
        column("streams", "streams"),
        column("arguments", "arguments"),
        column("first", "first_call"),
        column("varying", "varying"),
        column("kernel", "kernel"),
    ],
    layout: Layout::Grid,
};

const SHAPES: Head = Head {
    report: "launches",
    part: "configurations",
    title: "Configurations of each kernel (launches)",
    columns: &[
        column("launches", "launches"),
        column("grid", "grid"),
        column("block", "block"),
        column("threads", "threads"),
        column("dynamic shared", "dynamic_shared_bytes"),
        column("kernel", "kernel"),
    ],
    layout: Layout::Grid,
};

const ARGUMENTS: Head = Head {
    report: "launches",
    part: "arguments",
    title: "Arguments that vary between launches (launches)",
    columns: &[
        column("changes", "changes"),
        column("launches", "launches"),
        column("argument", "argument"),
        column("size", "bytes"),
        column("kernel", "kernel"),
    ],
    layout: Layout::Grid,
};

impl<'t> Report<'t> for Launches<'t> {
    fn needs(&self) -> Needs {
        Needs::Nothing
    }

    fn visits(&self, function: &Function, succeeds: bool) -> bool {
        succeeds && function.class == Class::launch
    }

    fn visit(&mut self, step: &Step<'_, 't>) {
        if step.class() != Some(Class::launch) || !step.selected || !step.call.succeeded() {
            return;
        }
        if step.function.is_some_and(Function::launches_graph) {
            self.graphs += 1;
            return;
        }
        let number = step.call.number;
        let known = step.kernel_arguments().and_then(|(kernel, packed)| Some((*self.known.get(&kernel)?, packed)));
        let (at, given) = match known {
            Some(((at, about), packed)) => (at, Some((about, packed))),
            None => {
                let given = arguments(step.call);
                let named = given.map(|(about, _)| about).or_else(|| step.call.named_kernel());
                (self.place(named, number), given)
            }
        };
        let kernel = &mut self.launched[at];
        kernel.launches += 1;
        kernel.time += step.duration().unwrap_or(0);
        if !self.with_details {
            return;
        }
        let shape = shape(step.call);
        let is_full = kernel.shapes.len() >= TOLD_APART;
        match kernel.shapes.get_mut(&shape) {
            Some(launches) => *launches += 1,
            None if is_full => kernel.other_shapes += 1,
            None => _ = kernel.shapes.insert(shape, 1),
        }
        if kernel.streams.len() < TOLD_APART {
            kernel.streams.insert(step.call.stream().unwrap_or(0));
        }
        if let Some((about, packed)) = given {
            kernel.argue(about, packed);
        }
    }

    fn tables(&mut self, ending: &Ending<'t>) -> Vec<Table> {
        let mut all: Vec<_> = self.all().collect();
        all.sort_by_key(|(name, kernel)| (std::cmp::Reverse(kernel.launches), *name));
        let (mut kernels, mut shapes, mut arguments) = (Table::new(KERNELS), Table::new(SHAPES), Table::new(ARGUMENTS));
        for (name, kernel) in all {
            let name = ending.names.display_name(name);
            kernels.row([
                Cell::Count(kernel.launches),
                Cell::Time(kernel.time),
                Cell::Time(kernel.time / kernel.launches.max(1) as i64),
                Cell::Count(kernel.shapes.len() as u64),
                Cell::Count(kernel.streams.len() as u64),
                kernel.recorded.then_some(Cell::Count(kernel.arguments.len() as u64)).into(),
                Cell::Number(kernel.first),
                kernel.recorded.then(|| Cell::Count(kernel.varying().count() as u64)).into(),
                name.clone().into(),
            ]);
            for (position, argument) in kernel.varying() {
                arguments.row([
                    Cell::Count(argument.changes),
                    Cell::Count(kernel.launches),
                    Cell::Number(position as u64),
                    Cell::Bytes(argument.latest.len() as u64),
                    name.clone().into(),
                ]);
            }
            let mut of_kernel: Vec<_> = kernel.shapes.iter().collect();
            of_kernel.sort_by_key(|(shape, count)| (std::cmp::Reverse(**count), **shape));
            for (shape, count) in of_kernel.into_iter().take(LISTED) {
                let text = |xyz: [u32; 3]| Cell::Text(format!("{}x{}x{}", xyz[0], xyz[1], xyz[2]));
                let threads =
                    |s: Shape| s.grid.iter().chain(&s.block).map(|n| u64::from(*n)).fold(1, u64::saturating_mul);
                shapes.row([
                    Cell::Count(*count),
                    shape.map(|s| text(s.grid)).into(),
                    shape.map(|s| text(s.block)).into(),
                    shape.map(|s| Cell::Count(threads(s))).into(),
                    shape.map(|s| Cell::Bytes(s.shared.into())).into(),
                    name.clone().into(),
                ]);
            }
            if kernel.shapes.len() > LISTED || kernel.other_shapes > 0 {
                shapes.note(format!("{name}: the {LISTED} most frequent of {}", kernel.shapes.len()));
            }
        }
        kernels.note("varying: arguments that differ between launches");
        if !arguments.rows.is_empty() {
            arguments.note("argument: its position; changes: launches with another value than the launch before");
        }
        if self.graphs > 0 {
            let launches = crate::text::figures::counted(self.graphs, "graph launch");
            kernels.note(format!("plus {launches}, whose kernels are not counted here"));
        }
        vec![kernels, shapes, arguments]
    }
}

impl<'t> Launched<'t> {
    fn argue(&mut self, about: &'t Kernel, packed: &'t [u8]) {
        self.recorded = true;
        let mut rest = packed;
        for (index, (_, size)) in about.params.iter().flatten().enumerate() {
            let Some(bytes) = rest.get(..*size as usize) else { return };
            rest = rest.get((*size as usize).div_ceil(8) * 8..).unwrap_or(&[]);
            match self.arguments.get_mut(index) {
                None => self.arguments.push(Argument { changes: 0, latest: bytes }),
                Some(argument) if argument.latest != bytes => {
                    argument.changes += 1;
                    argument.latest = bytes;
                }
                Some(_) => {}
            }
        }
    }

    /// Arguments that are not the same in all launches, by their positions.
    fn varying(&self) -> impl Iterator<Item = (usize, &Argument<'t>)> {
        self.arguments.iter().enumerate().filter(|(_, argument)| argument.changes > 0)
    }
}

impl<'t> Launches<'t> {
    fn all(&self) -> impl Iterator<Item = (&'t str, &Launched<'t>)> {
        self.kernels.iter().map(|(name, at)| (*name, &self.launched[*at]))
    }

    /// Where a kernel is counted that is launched by this call.
    fn place(&mut self, kernel: Option<&'t Kernel>, call: u64) -> usize {
        if let Some((at, _)) = kernel.and_then(|kernel| self.known.get(&kernel.id)) {
            return *at;
        }
        let name = kernel.map_or("?", |kernel| kernel.name.as_str());
        let at = *self.kernels.entry(name).or_insert_with(|| {
            self.launched.push(Launched { first: call, ..Launched::default() });
            self.launched.len() - 1
        });
        self.known.extend(kernel.map(|kernel| (kernel.id, (at, kernel))));
        at
    }

    /// Kernels launched most: name, launches, nanoseconds of the host.
    pub(crate) fn most(&self, count: usize) -> Vec<(&'t str, u64, i64)> {
        let mut all: Vec<_> = self.all().map(|(name, k)| (name, k.launches, k.time)).collect();
        all.sort_by_key(|(name, launches, _)| (std::cmp::Reverse(*launches), *name));
        all.truncate(count);
        all
    }

    /// Kernels, their launches, and launches of graphs.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        (self.kernels.len() as u64, self.launched.iter().map(|kernel| kernel.launches).sum(), self.graphs)
    }
}

/// What the call launches with, packed by the recorder.
fn arguments<'t>(call: &Call<'t>) -> Option<(&'t Kernel, &'t [u8])> {
    call.kernel_arguments().find_map(|(kernel, packed)| Some((call.kernel(kernel)?, packed)))
}
