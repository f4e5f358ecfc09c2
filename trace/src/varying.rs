//! What in a kernel's code may make it compute otherwise in every run, on the same input: clocks, atomics that see who
//! came first, sums in the order of arrival, memory of the device's own heap.
//!
//! Found where code says so by itself. That a kernel has such an instruction does not mean that its result depends on
//! it, and a kernel without any may still be in a race.

mod machine;
mod text;

use crate::image::Read;
use crate::parameters::{Code, Unread};
use machine::Machine;
use std::collections::{BTreeMap, BTreeSet};
use text::Text;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    Clock,
    /// Which multiprocessor, warp slot or grid it is.
    Place,
    AtomicResult,
    FloatAtomic,
    Malloc,
}

impl Cause {
    /// What the kernel does: "reads the clock".
    pub fn what(self) -> &'static str {
        match self {
            Cause::Clock => "reads the clock",
            Cause::Place => "asks on which multiprocessor it runs",
            Cause::AtomicResult => "uses what an atomic found, which depends on who comes first",
            Cause::FloatAtomic => "adds floating-point numbers by atomics, in no fixed order",
            Cause::Malloc => "allocates memory on the device, wherever its heap has some",
        }
    }

    /// In JSON.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Clock => "clock",
            Cause::Place => "place",
            Cause::AtomicResult => "atomic_result",
            Cause::FloatAtomic => "float_atomic",
            Cause::Malloc => "device_malloc",
        }
    }
}

/// Of one kernel. Where no code of its name was found: why some of the image could not be read, if that is so.
pub type Causes = Result<BTreeSet<Cause>, Option<Unread>>;

/// Of these kernels of an image, in the code that the driver would choose. `read` must be that of [`Code::new`].
pub fn causes<'n>(code: &Code, mut kernels: BTreeSet<&'n str>, read: Read) -> BTreeMap<&'n str, Causes> {
    let (mut found, mut unread) = (BTreeMap::new(), None);
    for entry in code.entries() {
        if kernels.is_empty() {
            break;
        }
        let (content, is_text) = match entry.content(read) {
            Ok(content) => content,
            Err(why) => {
                unread = Some(why);
                continue;
            }
        };
        let mut text = is_text.then(|| Text::of(&content, &kernels));
        let mut machine = if is_text { None } else { Machine::of(&content) };
        let mut causes = |kernel: &str| match &mut text {
            Some(text) => text.causes(kernel),
            None => machine.as_mut()?.causes(kernel),
        };
        let here: Vec<_> = kernels.iter().filter_map(|kernel| Some((*kernel, Ok(causes(kernel)?)))).collect();
        here.iter().for_each(|(kernel, _)| _ = kernels.remove(kernel));
        found.extend(here);
    }
    found.extend(kernels.into_iter().map(|kernel| (kernel, Err(unread))));
    found
}

/// Whether what a kernel computes depends on nothing but what it is given: its code is found, and there are neither variables that
/// outlive a launch beside it, nor a heap that it allocates from. `read` must be that of [`Code::new`].
pub fn is_self_contained(code: &Code, kernel: &str, read: Read) -> bool {
    let wanted = BTreeSet::from([kernel]);
    for entry in code.entries() {
        // What the driver would choose must be read.
        let Ok((content, is_text)) = entry.content(read) else { return false };
        let (causes, has_variables) = if is_text {
            let mut text = Text::of(&content, &wanted);
            (text.causes(kernel), text.has_variables)
        } else {
            let causes = Machine::of(&content).and_then(|mut machine| machine.causes(kernel));
            (causes, machine::has_variables(&content))
        };
        if let Some(causes) = causes {
            return !has_variables && !causes.contains(&Cause::Malloc);
        }
    }
    false
}
