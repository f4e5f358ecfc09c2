//! The instructions of a kernel that may make it nondeterministic: clocks, atomics that reveal which thread
//! came first, sums in order of arrival, addresses from the device's own heap.
//!
//! They are found only where the code shows them. A kernel with such an instruction may have a result that
//! does not depend on it, and a kernel without any may still be in a race.

mod machine;
mod text;

use crate::code::image::Read;
use crate::code::parameters::{Code, Unread};
use machine::Machine;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use text::Text;

/// A reason why a kernel may compute other results from the same inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The kernel reads a clock.
    Clock,
    /// Which multiprocessor, warp slot or grid it is.
    Place,
    /// The kernel uses the result of an atomic, which depends on the order of threads.
    AtomicResult,
    /// The kernel adds floating-point numbers with atomics, in no fixed order.
    FloatAtomic,
    /// The kernel allocates from the device's heap, at no fixed address.
    Malloc,
}

impl Cause {
    /// What the kernel does: "reads the clock".
    pub fn what(self) -> &'static str {
        match self {
            Cause::Clock => "reads the clock",
            Cause::Place => "reads its multiprocessor, warp or grid number",
            Cause::AtomicResult => "uses the result of an atomic, which depends on the order of threads",
            Cause::FloatAtomic => "adds floating-point numbers with atomics, in no fixed order",
            Cause::Malloc => "allocates from the device heap, at no fixed address",
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

/// Of one kernel. Where no code of its name was found: why some of the image could not be read, if that is
/// so.
pub type Causes = Result<BTreeSet<Cause>, Option<Unread>>;

/// Of these kernels of an image, in the code that the driver would choose. `read` must be that of
/// [`Code::new`].
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
        let mut text = is_text.then(|| Text::parse(&content, |name| kernels.contains(name)));
        let mut machine = if is_text { None } else { Machine::parse(&content) };
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

/// The kernels of an image whose results depend only on their inputs: their code is found, and the image has
/// neither variables that outlive a launch, nor a heap from which the code allocates. Each piece of code is
/// read only once, however many queries there are.
pub struct SelfContained {
    code: Code,
    /// The next entry to look into.
    next: usize,
    /// By kernel.
    told: HashMap<String, bool>,
}

impl SelfContained {
    /// No kernel of this code has been examined yet.
    pub fn new(code: Code) -> SelfContained {
        SelfContained { code, next: 0, told: HashMap::new() }
    }

    /// Whether this kernel does. `may_be_asked`: the kernels that count at all. `read` must be that of
    /// [`Code::new`].
    pub fn holds(&mut self, kernel: &str, may_be_asked: impl Fn(&str) -> bool, read: Read) -> bool {
        while !self.told.contains_key(kernel) && self.look(&may_be_asked, read) {}
        self.told.get(kernel) == Some(&true)
    }

    /// Looks into the next entry; false if there is none.
    fn look(&mut self, may_be_asked: impl Fn(&str) -> bool, read: Read) -> bool {
        let Some(entry) = self.code.entries().get(self.next) else { return false };
        self.next += 1;
        let Ok((content, is_text)) = entry.content(read) else {
            // The driver would have chosen it.
            self.next = usize::MAX;
            return false;
        };
        if is_text {
            let mut text = Text::parse(&content, &may_be_asked);
            let (names, has_variables) = (text.names(), text.has_variables);
            self.tell(names, may_be_asked, |kernel| !has_variables && is_without_heap(text.causes(kernel)));
        } else if let Some(mut machine) = Machine::parse(&content) {
            let has_variables = machine::has_variables(&content);
            let names = machine.names();
            self.tell(names, may_be_asked, |kernel| !has_variables && is_without_heap(machine.causes(kernel)));
        }
        true
    }

    /// What an earlier entry has told stays.
    fn tell(
        &mut self,
        names: Vec<&[u8]>,
        may_be_asked: impl Fn(&str) -> bool,
        mut is_contained: impl FnMut(&str) -> bool,
    ) {
        let names = names.into_iter().filter_map(|name| std::str::from_utf8(name).ok());
        for name in names.filter(|name| may_be_asked(name)) {
            if !self.told.contains_key(name) {
                self.told.insert(name.to_owned(), is_contained(name));
            }
        }
    }
}

fn is_without_heap(causes: Option<BTreeSet<Cause>>) -> bool {
    causes.is_some_and(|causes| !causes.contains(&Cause::Malloc))
}
