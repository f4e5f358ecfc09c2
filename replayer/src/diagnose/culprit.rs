//! The launch that failed: its kernel, its inputs, and whether the recorded program failed in the same way.

use crate::base::addresses::looks_like_address;
use crate::diagnose::unroll::NodeOp;
use crate::driver::result_name;
use crate::plan::memory::allocation_names::{AllocationNames, Place};
use crate::session::Session;
use std::time::Duration;
use trace::Call;
use trace::api::copies::device_region;
use trace::api::roles::{Class, Side};
use trace::api::structs::CUDA_MEMCPY3D;
use trace::api::types::Typed;
use trace::base::bytes::u64_at;
use trace::code::parameters::Number;
use trace::model::copy_bounds::misfit;
use trace::model::decode::decode;
use trace::model::objects::Range;
use trace::model::value::Value;
use trace::show::launch::{Shape, launched, shape};
use trace::show::signature::{Declared, Form};
use trace::show::text::plain;

/// The first launch whose work failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Culprit {
    /// The recorded call; with [`Suspects`](FailedWork::Earlier) the first one that was found to come after the
    /// failure.
    pub call: u64,
    /// Name of the driver function.
    pub function: String,
    /// Number of the recorded thread.
    pub thread: u32,
    /// The driver's name of the failure, or that there is no end.
    pub failure: String,
    /// It did not come to an end in this time, nor did it when recorded.
    pub never_ends: Option<Duration>,
    /// The part of the call that failed, as far as it is known.
    pub what: FailedWork,
    /// Name of the kernel, if one failed.
    pub kernel: Option<String>,
    /// Grid, block and shared memory, if a kernel failed.
    pub shape: Option<Shape>,
    /// The kernel's arguments, in the order of its parameters.
    pub arguments: Vec<Argument>,
    /// Of a copy or fill, what its memory does not hold.
    pub misfits: Vec<String>,
    /// The failure that the recorded program returned_by of, if it did.
    pub recorded: Option<RecordedFault>,
}

/// The failed part of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailedWork {
    /// The launch of a kernel.
    Launch,
    /// A node of a graph: its position among those that do something, how many there are, and its kind.
    Node {
        /// Position among the nodes that do something, from 0.
        index: u64,
        /// Number of these nodes.
        of: u64,
        /// Kind of the node in words.
        kind: &'static str,
    },
    /// Some node of a graph that was launched whole, and why it was.
    Graph {
        /// Why the graph was not taken apart.
        why: String,
    },
    /// One of these calls, which were not waited for one by one.
    Earlier {
        /// Numbers and functions of the suspected calls.
        calls: Vec<(u64, String)>,
    },
}

/// One argument of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// As the kernel's C++ name or its PTX has it, where one of them tells.
    pub ty: Option<String>,
    /// As it was recorded, live addresses as recorded ones; None if it was not.
    pub bytes: Option<Vec<u8>>,
    /// The value as `dump` prints it.
    pub value: String,
    /// Where the addresses in it lead: offset in the argument, and the place.
    pub places: Vec<(u64, Place)>,
}

/// A failure in the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedFault {
    /// The driver's name of the failure.
    pub failure: String,
    /// The call that told the program.
    pub returned_by: u64,
    /// Launches that can have caused it: those from `since` to `returned_by`.
    pub since: u64,
    /// Number of these launches.
    pub launches: u64,
    /// The same failure, of a launch among those.
    pub is_same: bool,
}

/// The suspected work, before it is described.
pub(crate) enum Suspect<'a> {
    Launch,
    Node { index: usize, of: usize, work: &'a NodeOp },
    Graph(String),
    Earlier(Vec<u64>),
}

/// The way in which the suspect fails.
pub(crate) enum Symptom {
    Fails(u32),
    NeverEnds(Duration),
}

impl Culprit {
    pub(crate) fn new(session: &Session, call: &Call, how: Symptom, suspect: Suspect) -> Culprit {
        let named = AllocationNames::before_call(session.trace, call.number);
        let mut culprit = Culprit {
            call: call.number,
            function: call.name().to_owned(),
            thread: call.thread,
            failure: match how {
                Symptom::Fails(code) => result_name(code),
                Symptom::NeverEnds(given) => format!("waited {:.1} s", given.as_secs_f64()),
            },
            never_ends: match how {
                Symptom::Fails(_) => None,
                Symptom::NeverEnds(given) => Some(given),
            },
            what: FailedWork::Launch,
            kernel: None,
            shape: None,
            arguments: Vec::new(),
            misfits: Vec::new(),
            recorded: match how {
                Symptom::Fails(code) => recorded(session, call.number, code),
                Symptom::NeverEnds(_) => None,
            },
        };
        match suspect {
            Suspect::Launch => {
                culprit.shape = shape(call);
                culprit.kernel = launched(call, &named.objects).map(|name| plain(&name).into_owned());
                let decoded = decode(call).map(|decoded| decoded.arguments).unwrap_or_default();
                for value in decoded.iter().map(|(_, value)| value) {
                    if let Value::Launch { arguments, .. } = value {
                        culprit.arguments = arguments.iter().map(|value| recorded_argument(value, &named)).collect();
                    }
                }
            }
            Suspect::Node { index, of, work } => {
                culprit.what = FailedWork::Node { index: index as u64, of: of as u64, kind: work.kind() };
                if let NodeOp::Copy(words) = work {
                    culprit.misfits = misfits(session, &named, words);
                }
                if let NodeOp::Kernel(kernel) = work {
                    culprit.kernel = kernel.name(session).map(|name| plain(&name).into_owned());
                    culprit.shape = Some(Shape { grid: kernel.grid, block: kernel.block, shared: kernel.shared });
                    let recorded = kernel.recorded(session);
                    let types = recorded.map_or(&[][..], |kernel| session.trace.signature(kernel.id, call.number));
                    let one = |(index, bytes): (usize, &Vec<u8>)| {
                        let declared = types.get(index).and_then(Option::as_ref);
                        argument(back(session, &named, bytes), declared, &named)
                    };
                    culprit.arguments = kernel.arguments.iter().enumerate().map(one).collect();
                }
            }
            Suspect::Graph(why) => culprit.what = FailedWork::Graph { why },
            Suspect::Earlier(calls) => {
                let name = |call| session.trace.call(call).map_or("?", |call| call.name()).to_owned();
                culprit.what =
                    FailedWork::Earlier { calls: calls.into_iter().map(|call| (call, name(call))).collect() };
            }
        }
        culprit
    }

    /// Whether a kernel failed of which all arguments are known, and no address in them leads out of live
    /// memory.
    pub fn has_good_addresses(&self) -> bool {
        let is_good = |place: &Place| matches!(place, Place::Inside(_));
        let all_good =
            |argument: &Argument| argument.bytes.is_some() && argument.places.iter().all(|(_, place)| is_good(place));
        self.never_ends.is_none() && self.kernel.is_some() && self.arguments.iter().all(all_good)
    }

    /// Whether the recorded program met the same failure, as far as its trace can tell.
    pub fn is_as_recorded(&self) -> bool {
        self.never_ends.is_some() || self.recorded.as_ref().is_some_and(|recorded| recorded.is_same)
    }
}

fn recorded(session: &Session, call: u64, code: u32) -> Option<RecordedFault> {
    let fault = session.plan.fault?;
    let window = fault.since..=fault.returned_by;
    let is_launch =
        |call: &Call| call.succeeded() && call.function().is_some_and(|function| function.class == Class::launch);
    let launches = session.trace.calls().skip(fault.since as usize).take_while(|call| window.contains(&call.number));
    Some(RecordedFault {
        failure: result_name(fault.code),
        returned_by: fault.returned_by,
        since: fault.since,
        launches: launches.filter(is_launch).count() as u64,
        is_same: fault.code == code && window.contains(&call),
    })
}

fn recorded_argument(value: &Value, named: &AllocationNames) -> Argument {
    match value {
        Value::Argument { bytes, of } => argument(bytes.to_vec(), of.declared(), named),
        Value::Bytes(bytes) => argument(bytes.to_vec(), None, named),
        _ => Argument { ty: None, bytes: None, value: "not recorded".into(), places: Vec::new() },
    }
}

fn argument(bytes: Vec<u8>, declared: Option<&Declared>, named: &AllocationNames) -> Argument {
    let value = match trace::show::argument::Argument::decode(&bytes, declared, &named.objects) {
        // Where it lies is told beside it.
        trace::show::argument::Argument::Address(address) => format!("{address:#x}"),
        value => value.text(&named.objects).to_string(),
    };
    let places = places(&bytes, declared.map(|declared| declared.form), named);
    Argument { ty: declared.map(|declared| declared.name.clone()), bytes: Some(bytes), value, places }
}

/// A word of a structure that lies farther from all memory is no address: two short integers side by side
/// look like one.
const NEAR: u64 = 1 << 32;

/// The addresses in an argument, and where they lead.
fn places(bytes: &[u8], form: Option<Form>, named: &AllocationNames) -> Vec<(u64, Place)> {
    if !form.is_none_or(|form| matches!(form, Form::Pointer | Form::Word | Form::Bytes | UNSIGNED_WORD)) {
        return Vec::new();
    }
    let (mut found, mut at) = (Vec::new(), 0);
    // Packed structures have addresses at multiples of 4, too.
    while let Some(word) = bytes.get(at..at + 8) {
        let word = u64_at(word, 0);
        let place = named.place(word);
        let is_one = match place {
            Place::Inside(_) | Place::Gone(..) => true,
            _ if bytes.len() == 8 => looks_like_address(word),
            Place::Missed(_, _, bytes) => at % 8 == 0 && looks_like_address(word) && bytes < NEAR,
            Place::Nowhere => false,
        };
        if is_one {
            found.push((at as u64, place));
        }
        at += if is_one { 8 } else { 4 };
    }
    found
}

/// What some programs hand over addresses as.
const UNSIGNED_WORD: Form = Form::Numbers(Number::Unsigned, 8, 1);

/// What the memory of a live copy does not hold; its words are those of a CUDA_MEMCPY3D.
fn misfits(session: &Session, named: &AllocationNames, words: &[u64]) -> Vec<String> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let bytes = back(session, named, &bytes);
    let side = |side| {
        let region = device_region(CUDA_MEMCPY3D::TYPE, &bytes, side)?;
        misfit(region.address, region.span(), side, &named.objects)
    };
    [Side::Source, Side::Destination].into_iter().filter_map(side).collect()
}

/// Live addresses as the recorded ones, where memory was moved.
fn back(session: &Session, named: &AllocationNames, bytes: &[u8]) -> Vec<u8> {
    let recorded = |word: u64| {
        named.ranges().find_map(|Range { base, len, .. }| {
            let offset = word.checked_sub(session.translation.live(base)?)?;
            (offset < len).then_some(base + offset)
        })
    };
    let mut out = bytes.to_vec();
    for word in out.chunks_exact_mut(8) {
        let value = u64_at(word, 0);
        if let Some(was) = recorded(value) {
            word.copy_from_slice(&was.to_le_bytes());
        }
    }
    out
}
