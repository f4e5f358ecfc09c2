//! SUPPORT.md is derived from the table: this test rewrites it and fails if it was stale.

use std::collections::BTreeSet;
use std::fmt::Write;
use trace::api::refusal::why_refused;
use trace::api::roles::{Class, Field, Policy, Role};
use trace::api::types::Form;
use trace::api::{FUNCTIONS, Function, by_name};

const HEAD: &str = "\
# Support matrix

Derived from the table in `src/api` by `tests/support.rs`: what is recorded of each driver function beyond its argument words,
result and times, and what a replay does with it. A name ending in `_ptsz` or `_ptds` (per-thread default stream) shares the line
of its twin.

Replay: *executed* as recorded; *placed*, reached by other calls that put memory back at its address; *waited for*, a poll: where
the recorded answer was yes replay waits, any other is left out; *left out*, because it does not affect the program's results;
*refused*, named in the verdict with the reason.

Tests: where a call of the function is in a trace whose replay comes out verified: on the *simulator*, by a program of
`tests/replay`, or on a *GPU*, by one that `scripts/gpu-test` runs. An error behind it is what every call returned there, and the
replay again. What is left out is tested in that the replay does as well without it.

";

/// Derived by `tests/replay/exercised.rs`, and by `scripts/gpu-test` on a GPU: a function, and an error if no
/// call succeeded.
const SIMULATOR: &str = include_str!("exercised.txt");
const GPU: &str = include_str!("../../tests/gpu/exercised.txt");

#[test]
fn support_matrix_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/SUPPORT.md");
    let wanted = matrix();
    let found = std::fs::read_to_string(path).unwrap_or_default();
    if found != wanted {
        std::fs::write(path, &wanted).expect("SUPPORT.md can be written");
        panic!("SUPPORT.md was stale and has been written anew: commit it");
    }
}

fn matrix() -> String {
    let mut out = HEAD.to_string();
    let replayed = |policy| FUNCTIONS.iter().filter(|f| f.policy == policy).count();
    let tested = |function: &&Function| !where_tested(function).is_empty();
    writeln!(
        out,
        "{} functions: {} executed, {} placed, {} waited for, {} left out, {} refused. Of those not refused {} are tested ({} of them by \
         failing alike), {} are not.",
        FUNCTIONS.len(),
        replayed(Policy::execute),
        replayed(Policy::emulate),
        replayed(Policy::custom),
        replayed(Policy::skip),
        replayed(Policy::refuse),
        FUNCTIONS.iter().filter(tested).count(),
        FUNCTIONS.iter().filter(tested).filter(|f| where_tested(f).iter().all(|(_, error)| error.is_some())).count(),
        FUNCTIONS.iter().filter(|f| f.policy != Policy::refuse && !tested(f)).count()
    )
    .expect("writing to a string");
    let mut family = "";
    for function in FUNCTIONS.iter().filter(|f| f.twin_of.is_none()) {
        if function.family != family {
            family = function.family;
            writeln!(
                out,
                "\n## {family}\n\n| function | kind | recorded | replay | tests |\n| --- | --- | --- | --- | --- |"
            )
            .expect("writing to a string");
        }
        let twin = FUNCTIONS.iter().find(|f| f.twin_of == Some(function.name));
        let ending = |t: &Function| t.name[t.name.len() - 5..].to_owned();
        let tested = match twin {
            Some(twin) if tests(twin) != tests(function) => {
                format!("{}; `{}`: {}", tests(function), ending(twin), tests(twin))
            }
            _ => tests(function),
        };
        let twin = twin.map_or(String::new(), |t| format!(" (`{}`)", ending(t)));
        writeln!(
            out,
            "| `{}`{twin} | {} | {} | {} | {tested} |",
            function.name,
            kind(function),
            recorded(function),
            replay(function)
        )
        .expect("writing to a string");
    }
    out
}

/// Where a verified replay has the function, each with the error if no call succeeded. A refused one may be
/// there, failing.
fn where_tested(function: &Function) -> Vec<(&'static str, Option<&'static str>)> {
    if function.policy == Policy::refuse {
        return Vec::new();
    }
    let of = |list: &'static str| {
        let mut lines =
            list.lines().map(|line| line.split_once(' ').map_or((line, None), |(name, error)| (name, Some(error))));
        lines.find(|(name, _)| *name == function.name).map(|(_, error)| error)
    };
    [("simulator", of(SIMULATOR)), ("GPU", of(GPU))]
        .into_iter()
        .filter_map(|(name, found)| Some((name, found?)))
        .collect()
}

fn tests(function: &Function) -> String {
    if function.policy == Policy::refuse {
        return "refused".into();
    }
    let all = where_tested(function).into_iter();
    let text: Vec<String> =
        all.map(|(name, error)| error.map_or(name.into(), |error| format!("{name}: {error}"))).collect();
    if text.is_empty() { "not exercised".into() } else { text.join(", ") }
}

fn kind(function: &Function) -> String {
    if function.opaque { "unknown".into() } else { format!("{:?}", function.class) }
}

fn recorded(function: &Function) -> String {
    if function.opaque {
        return "that it was called: no public prototype".into();
    }
    let mut what = BTreeSet::new();
    collect(function.params, &mut what);
    if function.class == Class::graph && what.remove("payload to the device") {
        what.insert("payload to the device, as it is when the node is made");
    }
    what.into_iter().collect::<Vec<_>>().join(", ")
}

fn collect(fields: &[Field], what: &mut BTreeSet<&'static str>) {
    for field in fields {
        let found = match field.role {
            Role::Arguments(_) | Role::Extra => Some("kernel arguments"),
            Role::Image | Role::SizedImage(_) => Some("module image"),
            Role::Path => Some("file content"),
            Role::Source(_) | Role::CopyHost(trace::api::roles::Side::Source) => Some("payload to the device"),
            Role::Sink(_) | Role::CopyHost(trace::api::roles::Side::Destination) => Some("hash of the result"),
            Role::Text | Role::TextOut => Some("text"),
            Role::Options { .. } => Some("options and logs"),
            Role::Out(_) | Role::Create(_) | Role::InOut(_) | Role::AttributeOut(..) | Role::AttributesOut(..) => {
                Some("outputs")
            }
            Role::Volatile(_) => Some("outputs, not compared"),
            Role::Owned(_) => Some("the driver's array"),
            Role::In(_) | Role::AttributeIn(..) | Role::ReadsEach { .. } | Role::WritesEach { .. } => Some("inputs"),
            Role::Callback => Some("that there is a callback"),
            Role::HostAlloc(_) => Some("the address"),
            _ => None,
        };
        what.extend(found);
        let inner = match field.ty.form {
            Form::Pointer(to) => to.form,
            form => form,
        };
        if let Form::Struct(fields) = inner {
            collect(fields, what);
        }
    }
}

fn replay(function: &Function) -> String {
    match function.policy {
        Policy::execute => "executed".into(),
        Policy::emulate => "placed".into(),
        Policy::custom => "waited for".into(),
        Policy::skip => "left out".into(),
        Policy::refuse => format!("refused: {}", why_refused(function).unwrap_or_default()),
    }
}

#[test]
fn what_is_refused_has_a_reason() {
    for function in FUNCTIONS.iter().filter(|f| f.policy == Policy::refuse) {
        assert!(why_refused(function).is_some(), "{}", function.name);
    }
}

#[test]
fn what_is_tested_is_in_the_table() {
    for line in SIMULATOR.lines().chain(GPU.lines()) {
        let name = line.split(' ').next().expect("a name");
        assert!(by_name(name).is_some(), "{name}");
    }
}

#[test]
fn policies_say_what_replay_does() {
    for function in FUNCTIONS.iter() {
        let (name, policy) = (function.name, function.policy);
        let is_about_memory = matches!(function.class, Class::allocate | Class::free);
        assert!(policy != Policy::emulate || is_about_memory, "{name}: only memory is placed");
        assert!(policy != Policy::custom || function.class == Class::poll, "{name}: only polls have code of their own");
        assert!(
            policy != Policy::execute || function.class != Class::poll,
            "{name}: the answer differs from run to run"
        );
        assert!(!function.opaque || policy == Policy::refuse, "{name}: its arguments are not recorded");
        let is_short = |field: &Field| match field.ty.form {
            Form::Pointer(to) => to.name == "CUdeviceptr_v1",
            _ => field.ty.name == "CUdeviceptr_v1",
        };
        let is_left = matches!(policy, Policy::refuse | Policy::skip);
        assert!(is_left || !function.params.iter().any(is_short), "{name}: 32-bit addresses are not placed");
    }
}
