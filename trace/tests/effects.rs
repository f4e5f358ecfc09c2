//! The effects in the table: every line that needs an effect has one.

use trace::api::effect::{Bytes, Effect, Memory};
use trace::api::roles::{Class, Role};
use trace::api::types::{Form, Kind};
use trace::api::{FUNCTIONS, Function};

#[track_caller]
fn all(which: impl Fn(&Function) -> bool, holds: impl Fn(&Function) -> bool) {
    let of_class: Vec<&Function> = FUNCTIONS.iter().filter(|function| which(function)).collect();
    assert!(!of_class.is_empty());
    let without: Vec<&str> = of_class.into_iter().filter(|function| !holds(function)).map(|f| f.name).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn a_submission_says_what_it_submits() {
    let submits = |f: &Function| matches!(f.class, Class::submit | Class::launch | Class::copy);
    all(submits, |f| f.work().is_some());
    all(|f| f.work().is_some(), submits);
}

#[test]
fn an_allocation_says_its_kind_and_its_size() {
    let says = |f: &Function| match f.effect {
        Effect::Allocate { bytes, .. } => match bytes {
            Bytes::Of(at) | Bytes::Rows { rows: at, .. } => {
                matches!(f.params[usize::from(at.0)].ty.form, Form::Unsigned)
            }
            Bytes::OfArray(at) => matches!(f.params[usize::from(at.0)].ty.form, Form::Pointer(_)),
            Bytes::Untold => true,
        },
        Effect::Map { .. } | Effect::RetainPhysical => true,
        _ => false,
    };
    all(|f| f.class == Class::allocate, says);
    // Arrays are objects beside.
    all(|f| f.hands_out(Kind::Array).is_some() && f.class == Class::create, says);
    all(
        |f| matches!(f.effect, Effect::Allocate { .. }),
        |f| {
            let is_there = |role| matches!(role, Role::Create(_) | Role::HostAlloc(_) | Role::HostAddress);
            f.params.iter().any(|param| is_there(param.role))
        },
    );
}

#[test]
fn what_is_freed_has_a_kind() {
    all(|f| f.class == Class::free, |f| matches!(f.effect, Effect::Free(_) | Effect::Unmap { .. }));
    let ends = |f: &Function| f.params.iter().any(|param| matches!(param.role, Role::Destroy));
    all(|f| matches!(f.effect, Effect::Free(_)), ends);
    let of = |kind| move |f: &Function| f.effect == Effect::Free(kind);
    all(|f| f.ends(Kind::Array).is_some() || f.ends(Kind::MipmappedArray).is_some(), of(Memory::Array));
    all(|f| f.ends(Kind::Allocation).is_some(), of(Memory::Physical));
    let makes = |f: &Function| matches!(f.effect, Effect::Allocate { kind: Memory::Physical, .. });
    all(|f| f.creates(Kind::Allocation).is_some() && f.effect != Effect::RetainPhysical, makes);
}

#[test]
fn what_takes_an_event_in_a_stream_records_or_awaits_it() {
    use trace::api::effect::Work;
    all(
        |f| f.class == Class::submit && f.handle(Kind::Event).is_some(),
        |f| matches!(f.work(), Some(Work::RecordEvent | Work::AwaitEvent)),
    );
    all(
        |f| matches!(f.work(), Some(Work::RecordEvent | Work::AwaitEvent)),
        |f| [Kind::Stream, Kind::Context, Kind::GreenContext].iter().any(|kind| f.handle(*kind).is_some()),
    );
}

#[test]
fn what_an_executable_graph_is_changed_by_says_how() {
    all(
        |f| f.class == Class::graph && f.handle(Kind::GraphExec).is_some(),
        |f| matches!(f.effect, Effect::SetNode(_) | Effect::UpdateGraph | Effect::EnableNode),
    );
    let captures = |f: &Function| f.class == Class::graph && f.name.contains("Capture") && !f.name.contains("Update");
    all(captures, |f| matches!(f.effect, Effect::BeginCapture | Effect::EndCapture));
}

#[test]
fn what_names_a_variable_says_whether_it_is_managed() {
    let hands_out_address = |f: &Function| {
        let is_text = f.params.iter().any(|param| matches!(param.role, Role::Text));
        let is_address = |form| matches!(form, Form::Pointer(to) if matches!(to.form, Form::Address));
        is_text && f.params.iter().any(|param| matches!(param.role, Role::Out(_)) && is_address(param.ty.form))
    };
    all(hands_out_address, |f| matches!(f.effect, Effect::FindVariable { .. } | Effect::FindManaged { .. }));
}
