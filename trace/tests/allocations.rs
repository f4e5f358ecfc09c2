//! The address and size of every allocation, for each function that allocates: by the effect of its line, not
//! by name.

mod writer;

use trace::api::effect::{Bytes, Effect, Memory};
use trace::api::roles::{Field, Role};
use trace::api::types::Form;
use trace::api::{FUNCTIONS, Function};
use trace::model::decode::decode;
use trace::model::objects::Objects;
use trace::read::requested_size;
use trace::{Call, Trace};
use writer::{Writer, inline};

/// Each argument is another number, and each output twice its argument.
fn made_once(function: &Function, result: u32, check: impl Fn(&Call)) {
    let mut writer = Writer::new();
    let words: Vec<u64> = (1..=function.words() as u64).map(|word| word * 0x1000).collect();
    let output = |(at, param): (usize, &Field)| match (param.role, param.ty.form) {
        (Role::Create(_) | Role::Out(_) | Role::HostAlloc(_), Form::Pointer(to)) => {
            Some(inline(at as u8, &(2 * words[at]).to_le_bytes()[..to.size as usize]))
        }
        _ => None,
    };
    let outputs: Vec<Vec<u8>> = function.params.iter().enumerate().filter_map(output).collect();
    writer.call(0, function.name, 100, &words, result, if result == 0 { &outputs } else { &[] });
    let file = writer.file();
    check(&Trace::open(file.path()).expect("readable").call(0).expect("one call"));
}

/// The same with parameters that have other names.
fn renamed(function: &Function) -> Function {
    const NAMES: [&str; 8] = ["len", "a", "b", "c", "d", "e", "f", "g"];
    let params = function.params.iter().zip(NAMES).map(|(param, name)| Field { name, ..*param });
    Function { params: Box::leak(params.collect()), ..*function }
}

#[test]
fn memory_is_named_and_measured_without_names_of_parameters() {
    for function in FUNCTIONS.iter() {
        let Effect::Allocate { kind, bytes } = function.effect else { continue };
        let len = match bytes {
            Bytes::Of(at) => u64::from(at.0 + 1) * 0x1000,
            Bytes::Rows { pitch, rows, .. } => u64::from(pitch.0 + 1) * 0x2000 * u64::from(rows.0 + 1) * 0x1000,
            Bytes::OfArray(_) | Bytes::Untold => continue,
        };
        let start = if kind == Memory::Registered { 0x1000 } else { 0x2000 };
        made_once(function, 0, |call| {
            let other = renamed(function);
            assert_eq!(
                (requested_size::place(call, &other), requested_size::bytes(call, &other)),
                (Some(start), Some(len)),
                "{other:?}"
            );
            let mut objects = Objects::default();
            objects.advance(call, decode(call).as_ref());
            let born: Vec<_> = objects.born().map(|range| (range.label, range.base, range.len)).collect();
            let label = if kind.is_host() { "host" } else { "mem" };
            let named = (kind != Memory::Physical).then_some((label, start, len));
            assert_eq!(born, Vec::from_iter(named), "{}", function.name);
        });
    }
}

#[test]
fn rows_that_were_not_got_are_as_wide_as_they_were_asked_for() {
    let function = trace::api::by_name("cuMemAllocPitch_v2").expect("in the table");
    made_once(function, 2, |call| assert_eq!(requested_size::bytes(call, function), Some(0x3000 * 0x4000)));
}
