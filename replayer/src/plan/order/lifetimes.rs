//! Objects with reused handle values: a creation that overlaps the destruction of its value on another
//! thread.
//!
//! By their time stamps such calls are unordered, but the driver ordered them: the value was released before
//! it was returned again.

use std::collections::HashMap;
use std::ops::Range;
use trace::api::roles::{Class, Role};
use trace::api::types::{Form, Kind};
use trace::model::change::Moment;
use trace::{Call, Function};

/// Kind and value of a handle; no kind for memory.
type Object = (Option<Kind>, u64);

#[derive(Default)]
pub(crate) struct Lifetimes {
    /// Latest calls that ended, or made, an object of this value.
    ended: HashMap<Object, Vec<Moment>>,
    made: HashMap<Object, Vec<Moment>>,
    /// Latest calls that gave memory back, or took some: the same addresses may lie elsewhere within another
    /// allocation.
    freed: Vec<(Range<u64>, Moment)>,
    taken: Vec<(Range<u64>, Moment)>,
    /// (later, earlier) calls that overlapped all the same.
    pub edges: Vec<(u64, u64)>,
}

impl Lifetimes {
    pub(crate) fn observe(&mut self, call: &Call, function: &Function, moment: Moment) {
        for param in function.params {
            match (param.role, param.ty.form) {
                (Role::Destroy, form) => {
                    let object = (kind(form), call.argument(param.name).unwrap_or(0));
                    let made = recent(&mut self.made, object, moment);
                    self.edges
                        .extend(made.iter().filter(|made| overlap(made, &moment)).map(|made| (made.call, moment.call)));
                    recent(&mut self.ended, object, moment).push(moment);
                }
                (Role::Out(_), _) if function.class == Class::query => {}
                (Role::Create(_) | Role::Out(_) | Role::HostAlloc(_), Form::Pointer(to)) => {
                    let Some(kind) = kind_of_made(to.form) else { continue };
                    let Some(value) = call.output(param.name) else { continue };
                    self.make((kind, value), moment);
                }
                (Role::HostAddress, _) if function.class == Class::allocate => {
                    self.make((None, call.argument(param.name).unwrap_or(0)), moment);
                }
                _ => {}
            }
        }
    }

    pub(crate) fn frees(&mut self, range: Range<u64>, moment: Moment) {
        let taken = meeting(&mut self.taken, &range, moment);
        self.edges.extend(taken.into_iter().map(|taken| (taken, moment.call)));
        self.freed.push((range, moment));
    }

    pub(crate) fn takes(&mut self, range: Range<u64>, moment: Moment) {
        let freed = meeting(&mut self.freed, &range, moment);
        self.edges.extend(freed.into_iter().map(|freed| (moment.call, freed)));
        self.taken.push((range, moment));
    }

    fn make(&mut self, object: Object, moment: Moment) {
        // Whoever gave up this value while the call was inside did so before the call got it.
        let ended = recent(&mut self.ended, object, moment);
        self.edges.extend(ended.iter().filter(|ended| overlap(ended, &moment)).map(|ended| (moment.call, ended.call)));
        recent(&mut self.made, object, moment).push(moment);
    }
}

/// The calls about memory there that overlap with this one.
fn meeting(calls: &mut Vec<(Range<u64>, Moment)>, range: &Range<u64>, moment: Moment) -> Vec<u64> {
    calls.retain(|(_, call)| call.end > moment.begin);
    let meets = |other: &Range<u64>| other.start < range.end && range.start < other.end;
    let met = calls.iter().filter(|(other, call)| meets(other) && overlap(call, &moment));
    met.map(|(_, call)| call.call).collect()
}

fn overlap(a: &Moment, b: &Moment) -> bool {
    a.thread != b.thread && a.begin < b.end && b.begin < a.end
}

fn kind(form: Form) -> Option<Kind> {
    match form {
        Form::Handle(kind) => Some(kind),
        _ => None,
    }
}

fn kind_of_made(form: Form) -> Option<Option<Kind>> {
    match form {
        Form::Handle(kind) => Some(Some(kind)),
        Form::Pointer(_) | Form::Address => Some(None),
        _ => None,
    }
}

/// The calls on this value that may overlap with the one of this moment or a later one.
fn recent(of: &mut HashMap<Object, Vec<Moment>>, object: Object, moment: Moment) -> &mut Vec<Moment> {
    let calls = of.entry(object).or_default();
    calls.retain(|call| call.end > moment.begin);
    calls
}
