//! The replay's action for each function: the policy of its line in the table, and the exceptions.

use std::mem::discriminant;
use std::sync::LazyLock;
use trace::api::effect::{Effect, Memory as Kind, Work};
use trace::api::refusal::why_refused;
use trace::api::roles::{Class, Extent, Policy, Role};
use trace::api::table::Awaited;
use trace::api::{FUNCTIONS, Function};

/// A memory call that is replayed by other means, see [`place`](crate::memory::place).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryAction {
    Allocate,
    /// Frees, and waits for the context as the driver does.
    Free,
    /// Frees in stream order.
    FreeAsync,
    HostAllocate,
    HostRegister,
    HostFree,
    /// Takes a range of addresses.
    Reserve,
    Unreserve,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Execute,
    /// Left out: it changes nothing that the program computes.
    Skip(&'static str),
    /// Left out although it matters: the verdict says so.
    Refuse(&'static str),
    /// Asks whether something has finished: a recorded yes becomes a call of `wait` for each of these
    /// arguments, a no is left out.
    Poll {
        wait: &'static str,
        of: &'static [usize],
    },
    Memory(MemoryAction),
}

pub(crate) fn action(function: &Function) -> Action {
    match function.policy {
        Policy::execute => Action::Execute,
        Policy::skip => Action::Skip(why_skipped(function)),
        Policy::refuse => Action::Refuse(why_refused(function).unwrap_or("not replayable")),
        Policy::emulate => memory(function).map_or(Action::Refuse(NO_CODE), Action::Memory),
        Policy::custom => wait(function).map_or(Action::Refuse(NO_CODE), |(wait, of)| Action::Poll { wait, of }),
    }
}

/// A line whose policy promises code that is not here; a test sees to it that there is none.
const NO_CODE: &str = "not implemented in this version of cutrace";

fn memory(function: &Function) -> Option<MemoryAction> {
    Some(match function.effect {
        Effect::Allocate { kind: Kind::Device | Kind::Managed | Kind::Pooled, .. } => MemoryAction::Allocate,
        Effect::Allocate { kind: Kind::Pinned, .. } => MemoryAction::HostAllocate,
        Effect::Allocate { kind: Kind::Registered, .. } => MemoryAction::HostRegister,
        Effect::Allocate { kind: Kind::Addresses, .. } => MemoryAction::Reserve,
        Effect::Free(Kind::Device) => MemoryAction::Free,
        Effect::Free(Kind::Pooled) => MemoryAction::FreeAsync,
        Effect::Free(Kind::Pinned | Kind::Registered) => MemoryAction::HostFree,
        Effect::Free(Kind::Addresses) => MemoryAction::Unreserve,
        _ => return None,
    })
}

/// The call that waits for what a poll asks about, and where that stands among the poll's arguments.
fn wait(function: &Function) -> Option<(&'static str, &'static [usize])> {
    static WAITS: LazyLock<Vec<&Function>> = LazyLock::new(|| {
        let waits = |function: &&Function| function.class == Class::synchronize && function.params.len() == 1;
        FUNCTIONS.iter().filter(waits).collect()
    });
    static POSITIONS: [usize; 4] = [0, 1, 2, 3];
    let asked = function.awaited().filter(|_| function.class == Class::poll)?;
    let positions = match asked {
        Awaited::Stream(at) => at..at + 1,
        // The events may be of two streams that know nothing of each other.
        Awaited::Events([first, last]) => first..last + 1,
        Awaited::Context(_) => return None,
    };
    let waits_so = |wait: &&&Function| {
        let awaited = wait.awaited().map(|awaited| discriminant(&awaited));
        awaited == Some(discriminant(&asked)) && wait.twin_of.is_some() == function.twin_of.is_some()
    };
    Some((WAITS.iter().find(waits_so)?.name, POSITIONS.get(positions)?))
}

/// The copy between addresses of either side that takes the same arguments, for memory that was the host's as
/// well and is the device's in a replay: managed memory.
pub(crate) fn between_either(function: &Function) -> Option<&'static Function> {
    static UNIFIED: LazyLock<Vec<&Function>> =
        LazyLock::new(|| FUNCTIONS.iter().filter(|function| function.copies_unified()).collect());
    let is_host = |role| matches!(role, Role::Source(Extent::Len(_)) | Role::Sink(Extent::Len(_)));
    let is_device = |role| matches!(role, Role::Reads(_) | Role::Writes(_));
    let [to, from, ..] = function.params else { return None };
    let has_host = is_host(to.role) && is_device(from.role) || is_device(to.role) && is_host(from.role);
    if function.effect != Effect::Submit(Work::Copy) || !has_host {
        return None;
    }
    let shape = |function: &Function| (function.class, function.twin_of.is_some(), function.params.len());
    let same = |unified: &&&Function| {
        let sizes = function.params.iter().zip(unified.params);
        shape(function) == shape(unified) && sizes.into_iter().all(|(a, b)| a.ty.size == b.ty.size)
    };
    UNIFIED.iter().find(same).copied()
}

fn why_skipped(function: &Function) -> &'static str {
    match function.family {
        "memory" | "memory_virtual" | "memory_pool" if function.class == Class::query || sets_attribute(function) => {
            "its result describes the recorded allocation, which the replay makes in another way"
        }
        "memory" | "copy" => "managed memory is device memory in a replay",
        _ if function.work() == Some(Work::Migrate) => "managed memory is device memory in a replay",
        _ => "does not affect the program's results",
    }
}

fn sets_attribute(function: &Function) -> bool {
    function.params.iter().any(|param| matches!(param.role, Role::AttributeIn(..)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::api::by_name;
    use trace::api::roles::Field;
    use trace::api::types::{Form, Kind};

    #[test]
    fn the_exceptions_name_functions_of_the_table() {
        for function in FUNCTIONS.iter() {
            if let Action::Poll { wait, of } = action(function) {
                let kind = |param: &Field| matches!(param.ty.form, Form::Handle(Kind::Event));
                let waits = &by_name(wait).expect("a function of the table").params[0];
                assert!(of.iter().all(|at| kind(&function.params[*at]) == kind(waits)), "{}: {wait}", function.name);
                assert_eq!(function.class, Class::poll, "{}", function.name);
            }
        }
    }

    #[test]
    fn copies_between_either_side_take_the_same_arguments() {
        let found = FUNCTIONS.iter().filter_map(|function| Some((function, between_either(function)?)));
        let shape = |function: &Function| {
            let params = function.params.iter();
            (function.class, function.twin_of.is_some(), params.map(|p| (p.offset, p.ty.size)).collect::<Vec<_>>())
        };
        assert_eq!(found.clone().count(), 8);
        found.for_each(|(function, instead)| assert_eq!(shape(function), shape(instead), "{}", function.name));
    }

    #[test]
    fn memory_of_other_processes_is_refused() {
        for name in [
            "cuMemPoolExportToShareableHandle",
            "cuMemPoolImportFromShareableHandle",
            "cuMemPoolExportPointer",
            "cuMemPoolImportPointer",
            "cuIpcOpenMemHandle_v2",
        ] {
            let function = by_name(name).expect("a function of the table");
            assert_eq!(action(function), Action::Refuse("shared with another process"), "{name}");
        }
    }

    #[test]
    fn texts_that_are_given_to_the_driver_name_no_files() {
        let executed = FUNCTIONS.iter().filter(|function| action(function) == Action::Execute);
        for (function, param) in
            executed.flat_map(|function| function.params.iter().map(move |param| (function, param)))
        {
            let name = param.name.to_lowercase();
            let names_file = matches!(param.role, Role::Text) && (name.contains("path") || name.contains("file"));
            assert!(!names_file, "{}: {}", function.name, param.name);
        }
    }

    #[test]
    fn policies_that_promise_code_have_it() {
        for function in FUNCTIONS.iter() {
            assert_ne!(action(function), Action::Refuse(NO_CODE), "{}", function.name);
        }
    }
}
