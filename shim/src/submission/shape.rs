//! The shape of a function: all that its recording needs, derived from its table line at compile time.

use crate::records::lane::{MOST_ASKED, Repeat};
use crate::submission::hook::{self, Hook};
use crate::submission::{driver_memory, overlap};
use trace::Function;
use trace::api::effect::Work;
use trace::api::roles::{Class, Extent, Field, Role};
use trace::api::table::is_flat;
use trace::api::types::{Form, Kind};

/// The recording work of a wrapper beyond its words, derived from the table at compile time.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Some parameter has to be read before the call.
    pub at_entry: bool,
    /// The call may write over what it reads, which then has to be read before it.
    pub may_overlap: bool,
    /// The parameters, a bit each, whose inputs the call may free, and which are read before it.
    pub may_be_freed: u32,
    /// Some parameter needs more than a fixed number of bytes read after it.
    pub at_return: bool,
    /// Outputs of fixed size: argument word and bytes.
    pub outputs: [(u8, u8); 4],
    /// The call may wait for copies.
    pub waits: bool,
    /// The call gives the device work, which may read what the CPU wrote, or change what devices hold.
    pub submits: bool,
    /// And has read what it reads when it returns: copies without a stream.
    pub reads_at_once: bool,
    /// The call launches a kernel or a graph.
    pub launches: bool,
    /// The call launches a graph, which may run callbacks, or a kernel whose arguments other calls have set.
    pub runs_graph: bool,
    /// The executable graph that the call changes without making it anew.
    pub changes_executable: Option<u8>,
    /// What it concerns of the memory that the CPU may write without a call.
    pub reach: Reach,
    /// The driver may call the application before it returns.
    pub calls_back: bool,
    /// A capture range may leave the call out.
    pub may_be_left_out: bool,
    /// Of equal calls in a row only the first is recorded, and the others are counted.
    pub repeats: Repeat,
    /// The call only asks.
    pub is_query: bool,
    /// The call may give a device work that has times of its own.
    pub timed: bool,
    /// The call launches a kernel, with arguments of its own.
    pub launch: Option<Launch>,
    /// And nothing but these, and `config`, lies behind pointers.
    pub is_plain: bool,
    /// The structure that describes the launch: grid, blocks, attributes.
    pub config: Option<Config>,
}

/// The pinned and managed memory that a call may use, and that the CPU may write without a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// None: it gives devices nothing that they read or write.
    Nothing,
    /// What the arguments of a kernel name.
    Arguments(Launch),
    /// What these argument words name. `source`: host memory that is recorded with the call. `lands`: it may
    /// bring something to the host.
    Named { words: [u8; 2], source: Option<u8>, lands: bool },
    /// Any of it, for what the call alone tells.
    Anything,
}

/// A wrapper: its table line, and everything derived from it.
#[derive(Clone, Copy)]
pub(crate) struct Site {
    pub function: &'static Function,
    pub id: u16,
    pub shape: Shape,
    pub hook: Hook,
}

/// Argument words of a kernel launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Launch {
    pub function: u8,
    pub arguments: u8,
    pub extra: u8,
}

/// A structure behind an argument word, which the driver reads, and an array that it names. Neither has
/// further pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Config {
    pub word: u8,
    pub bytes: u8,
    /// Where in the structure the array's address stands, and how many elements it has.
    pub array: u8,
    pub count: u8,
    /// Bytes of an element.
    pub element: u8,
}

pub(crate) const fn shape(function: &Function) -> Shape {
    let mut shape = Shape {
        at_entry: false,
        may_overlap: overlap::is_possible(function),
        may_be_freed: driver_memory::may_be_freed(function),
        at_return: false,
        outputs: [(0, 0); 4],
        waits: false,
        submits: false,
        reads_at_once: false,
        launches: false,
        runs_graph: false,
        changes_executable: hook::changed_executable(function),
        reach: Reach::Nothing,
        calls_back: false,
        may_be_left_out: may_be_left_out(function),
        repeats: Repeat::Never,
        is_query: matches!(function.class, Class::query),
        timed: function.is_timed(),
        launch: None,
        is_plain: false,
        config: None,
    };
    let mut count = 0;
    let mut i = 0;
    while i < function.params.len() {
        let field = &function.params[i];
        if matches!(field.ty.form, Form::Callback) {
            shape.calls_back = true;
        }
        match field.role {
            Role::InOut(_) | Role::Source(_) | Role::CopyHost(_) | Role::Options { .. } => {
                shape.at_entry = true;
                shape.at_return = true;
            }
            Role::In(_) if describes_copy(field.ty.form) => {
                shape.at_entry = true;
                shape.at_return = true;
            }
            Role::Out(Extent::One) | Role::Create(Extent::One) | Role::Volatile(Extent::One) if is_flat(field) => {
                if let Form::Pointer(to) = field.ty.form
                    && count < 4
                {
                    shape.outputs[count] = ((field.offset / 8) as u8, to.size as u8);
                    count += 1;
                } else {
                    shape.at_return = true;
                }
            }
            _ => {
                if !is_flat(field) || matches!(field.role, Role::Writes(_)) && function.brings_at_once() {
                    shape.at_return = true;
                }
            }
        }
        i += 1;
    }
    if function.copies_unified() {
        shape.at_entry = true;
        shape.at_return = true;
    }
    (shape.launch, shape.is_plain, shape.config) = launch(function);
    shape.submits = matches!(function.class, Class::launch | Class::submit | Class::copy);
    shape.reads_at_once = matches!(function.class, Class::submit | Class::copy) && function.brings_at_once();
    shape.launches = matches!(function.class, Class::launch);
    shape.runs_graph = shape.launches && shape.launch.is_none();
    shape.waits = matches!(function.class, Class::synchronize | Class::poll | Class::copy);
    shape.reach = reach(function, shape.launch);
    let is_flat = !shape.at_entry && !shape.at_return && !shape.may_overlap && function.words() <= MOST_ASKED;
    shape.repeats = match function.class {
        // Of one object, and nothing else comes of it.
        Class::poll if is_flat && function.words() == 1 => Repeat::Poll,
        Class::query if is_flat && shape.outputs[0].1 != 0 && !hands_out(function) => Repeat::Query,
        _ => Repeat::Never,
    };
    shape
}

const fn reach(function: &Function, launch: Option<Launch>) -> Reach {
    match (function.class, function.work()) {
        (Class::launch, _) => match launch {
            Some(launch) => Reach::Arguments(launch),
            None => Reach::Anything,
        },
        (_, Some(Work::RecordEvent | Work::AwaitEvent)) => Reach::Nothing,
        (_, Some(Work::Copy | Work::UnifiedCopy | Work::Fill)) => argument_reach(function),
        (Class::submit | Class::copy, _) => Reach::Anything,
        _ => Reach::Nothing,
    }
}

/// A copy or fill whose ends are arguments.
const fn argument_reach(function: &Function) -> Reach {
    let (mut words, mut count, mut source, mut lands) = ([0; 2], 0, None, function.copies_unified());
    let mut i = 0;
    while i < function.params.len() {
        let word = (function.params[i].offset / 8) as u8;
        match function.params[i].role {
            Role::Source(_) => source = Some(word),
            Role::Reads(_) if function.copies_unified() => source = Some(word),
            Role::Reads(_) | Role::Writes(_) | Role::Sink(_) if count < words.len() => {
                words[count] = word;
                count += 1;
            }
            Role::Plain => {}
            _ => return Reach::Anything,
        }
        lands |= matches!(function.params[i].role, Role::Sink(_));
        i += 1;
    }
    match count {
        0 => Reach::Anything,
        1 => Reach::Named { words: [words[0], words[0]], source, lands },
        _ => Reach::Named { words, source, lands },
    }
}

/// Whether other calls can be made again without this one: it makes, changes and ends nothing, and hands out
/// no object or address that they may name.
const fn may_be_left_out(function: &Function) -> bool {
    match function.class {
        Class::launch | Class::copy | Class::synchronize | Class::poll => true,
        // An event that was never recorded answers otherwise.
        Class::submit => !matches!(function.work(), Some(Work::RecordEvent)),
        Class::query => !hands_out(function),
        _ => false,
    }
}

const fn hands_out(function: &Function) -> bool {
    let mut i = 0;
    while i < function.params.len() {
        let field = &function.params[i];
        if let (Role::Out(_) | Role::Create(_) | Role::InOut(_) | Role::Volatile(_), Form::Pointer(to)) =
            (field.role, field.ty.form)
        {
            match to.form {
                // The calls that make contexts are recorded; the most frequent questions are for them.
                Form::Handle(Kind::Context | Kind::Device) => {}
                Form::Handle(_) | Form::Address | Form::Struct(_) => return true,
                _ => {}
            }
        }
        i += 1;
    }
    false
}

/// Where a launch's arguments stand, whether nothing else lies behind pointers but what describes it, and
/// that.
const fn launch(function: &Function) -> (Option<Launch>, bool, Option<Config>) {
    let (mut launch, mut is_plain, mut described) = (None, true, None);
    let mut i = 0;
    while i < function.params.len() {
        let field = &function.params[i];
        let word = (field.offset / 8) as u8;
        match (field.role, launch) {
            (Role::Arguments(callee), None) => {
                let callee = (function.params[callee.0 as usize].offset / 8) as u8;
                launch = Some(Launch { function: callee, arguments: word, extra: 0 });
            }
            (Role::Extra, Some(before)) => launch = Some(Launch { extra: word, ..before }),
            (Role::In(Extent::One), _) if described.is_none() => {
                described = config(field);
                is_plain &= described.is_some();
            }
            _ => is_plain &= is_flat(field),
        }
        i += 1;
    }
    (launch, is_plain && launch.is_some(), described)
}

/// The structure behind a pointer, if it names one array and nothing else.
const fn config(field: &Field) -> Option<Config> {
    let Form::Pointer(to) = field.ty.form else { return None };
    let Form::Struct(fields) = to.form else { return None };
    let mut config = Config { word: (field.offset / 8) as u8, bytes: to.size as u8, array: 0, count: 0, element: 0 };
    let mut i = 0;
    while i < fields.len() {
        let field = &fields[i];
        match (field.role, field.ty.form) {
            (Role::In(Extent::Len(count)) | Role::InOut(Extent::Len(count)), Form::Pointer(to))
                if config.element == 0 && to.size < 256 && !overlap::leads_on(to) =>
            {
                let count = &fields[count.0 as usize];
                if count.ty.size != 4 {
                    return None;
                }
                config =
                    Config { array: field.offset as u8, count: count.offset as u8, element: to.size as u8, ..config };
            }
            _ if is_flat(field) => {}
            _ => return None,
        }
        i += 1;
    }
    if config.element == 0 || to.size >= 256 { None } else { Some(config) }
}

/// The host side of a copy may be pinned, and is then read before the call.
const fn describes_copy(form: Form) -> bool {
    let Form::Pointer(to) = form else { return false };
    let Form::Struct(fields) = to.form else { return false };
    let mut i = 0;
    while i < fields.len() {
        if matches!(fields[i].role, Role::CopyHost(_)) {
            return true;
        }
        i += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::api::FUNCTIONS;

    fn shape_of(name: &str) -> Shape {
        shape(FUNCTIONS.iter().find(|function| function.name == name).expect("in the table"))
    }

    fn of(name: &str) -> Reach {
        shape_of(name).reach
    }

    #[test]
    fn the_table_says_which_questions_are_counted() {
        for query in
            ["cuCtxGetCurrent", "cuCtxGetDevice", "cuDeviceGetAttribute", "cuMemGetInfo_v2", "cuStreamIsCapturing"]
        {
            assert_eq!(shape_of(query).repeats, Repeat::Query, "{query}");
        }
        for other in
            ["cuLaunchKernel", "cuCtxPushCurrent_v2", "cuModuleGetFunction", "cuDeviceGetName", "cuCtxSynchronize"]
        {
            assert_eq!(shape_of(other).repeats, Repeat::Never, "{other}");
        }
        let polls = FUNCTIONS.iter().filter(|function| shape(function).repeats == Repeat::Poll);
        let polls: Vec<_> = polls.map(|function| function.name).collect();
        assert_eq!(polls, ["cuStreamQuery", "cuStreamQuery_ptsz", "cuEventQuery"]);
    }

    #[test]
    fn the_table_says_which_launches_are_plain() {
        for plain in ["cuLaunchKernel", "cuLaunchKernel_ptsz", "cuLaunchCooperativeKernel"] {
            assert!(shape_of(plain).is_plain && shape_of(plain).config.is_none(), "{plain}");
        }
        let described = shape_of("cuLaunchKernelEx");
        assert!(described.is_plain);
        assert_eq!(described.config, Some(Config { word: 0, bytes: 56, array: 40, count: 48, element: 72 }));
        assert!(!shape_of("cuLaunchCooperativeKernelMultiDevice").is_plain);
    }

    #[test]
    fn the_table_says_which_shared_memory_a_call_concerns() {
        assert_eq!(of("cuCtxGetCurrent"), Reach::Nothing);
        assert_eq!(of("cuEventRecord"), Reach::Nothing);
        assert_eq!(of("cuStreamWaitEvent"), Reach::Nothing);
        assert_eq!(of("cuStreamQuery"), Reach::Nothing);
        assert_eq!(of("cuCtxSynchronize"), Reach::Nothing);
        assert_eq!(of("cuMemsetD8Async"), Reach::Named { words: [0, 0], source: None, lands: false });
        assert_eq!(of("cuMemcpyHtoDAsync_v2"), Reach::Named { words: [0, 0], source: Some(1), lands: false });
        assert_eq!(of("cuMemcpyDtoHAsync_v2"), Reach::Named { words: [0, 1], source: None, lands: true });
        assert_eq!(of("cuMemcpyAsync"), Reach::Named { words: [0, 0], source: Some(1), lands: true });
        assert!(matches!(of("cuLaunchKernel"), Reach::Arguments(_)));
        for any in ["cuGraphLaunch", "cuLaunchHostFunc", "cuMemcpy2DAsync_v2", "cuStreamWriteValue32_v2"] {
            assert_eq!(of(any), Reach::Anything, "{any}");
        }
    }
}
