//! The replay's decision on a recorded call: by its policy in the table, by its recorded result, and by the
//! plan.

use crate::driver::result;
use crate::job::run::single_rank::{self, OF_OTHERS};
use crate::plan::action::{Action, MemoryAction, action};
use crate::run::profiler_marks;
use crate::run::repeat::gate::EVENTS;
use crate::run::state::Run;
use trace::api::by_name;
use trace::api::effect::{Effect, Work};
use trace::api::enums::CUgraphNodeType;
use trace::api::roles::{Class, Field, Role};
use trace::api::types::{Form, Kind};
use trace::api::walk::has_structure;
use trace::read::call::When;
use trace::read::shared_handles::{self, Crossing, What};
use trace::{Call, Function};

/// The treatment of a call. `Skip` and `Refuse` have the reason.
pub(crate) enum Decision {
    /// Left out, as it did nothing when it was recorded; nor is memory made for it.
    Nothing(&'static str),
    /// Left out: it changes nothing that the program computes.
    Skip(&'static str),
    /// Left out although it matters.
    Refuse(&'static str),
    /// Made, as this function: for each of these arguments once.
    Execute { made: &'static Function, arguments: &'static [usize] },
    /// Replayed by other means.
    Emulate(MemoryAction),
    /// What it exports or imports is shared with the replays of other processes.
    Cross(Crossing),
    /// What collectives had delivered is written in its place.
    Deliver,
    /// Something of the replay's own takes the place of what another process had exported.
    StandIn(What),
}

pub(crate) fn decide(run: &Run, call: &Call, function: &'static Function) -> Decision {
    if let Some(why) = why_nothing(run, call, function) {
        return Decision::Nothing(why);
    }
    if is_between_one(run, call, function) {
        return Decision::Skip("concerns two devices that map to the same one");
    }
    if asks_about_several(run, call, function) {
        return Decision::Skip("queries a device that several recorded devices map to");
    }
    if run.repeats.as_ref().is_some_and(|repeats| repeats.keeps(call, function)) {
        return Decision::Skip(EVENTS);
    }
    if let Some(decision) = single_rank::decide(run.plan, call, function) {
        return decision;
    }
    if let Some(why) = run.plan.job.refusals.get(&call.number) {
        return Decision::Refuse(why);
    }
    if let Some(crossing) = shared_handles::crossing_of(function).filter(|_| call.succeeded()) {
        let is_physical = matches!(crossing, Crossing::Exports(What::Physical) | Crossing::Imports(What::Physical));
        if run.company.is_some() || is_physical && call.passed().is_some() {
            return Decision::Cross(crossing);
        }
        if matches!(crossing, Crossing::Exports(What::Memory | What::Pool)) {
            return Decision::Skip(OF_OTHERS);
        }
    }
    let itself = Decision::Execute { made: function, arguments: &[0] };
    match action(function) {
        Action::Execute if run.marked.is_some() && profiler_marks::is_mark(function) => {
            Decision::Skip("only the selected kernels are marked")
        }
        Action::Skip(why) => Decision::Skip(why),
        Action::Refuse(_) if !call.succeeded() => Decision::Skip("failed when recorded"),
        Action::Refuse(why) => Decision::Refuse(why),
        Action::Poll { wait, of } if call.succeeded() => {
            let made = by_name(wait).expect("the exceptions name functions of the table");
            Decision::Execute { made, arguments: of }
        }
        Action::Poll { of: [_, _, ..], .. } => Decision::Skip("the event's time was not available when recorded"),
        Action::Memory(MemoryAction::Allocate) if run.plan.graph_nodes.allocations.contains_key(&call.number) => itself,
        Action::Memory(memory) if call.succeeded() => Decision::Emulate(memory),
        _ => itself,
    }
}

/// Whether the call is about how one device reaches another, and the same one stands in for both.
fn is_between_one(run: &Run, call: &Call, function: &Function) -> bool {
    let is_device = |param: &&Field| matches!(param.ty.form, Form::Handle(Kind::Device));
    let devices = function.params.iter().filter(is_device).filter_map(|param| call.argument(param.name));
    let devices: Vec<i32> = devices.map(|device| device as i32).collect();
    if let [one, other] = devices[..] {
        return one != other && run.objects.device(one) == run.objects.device(other);
    }
    // What a context is to reach is another's, when recorded.
    let peer = call.argument("peerContext").filter(|_| function.class == Class::state && call.succeeded());
    peer.is_some_and(|peer| run.objects.live(Kind::Context, peer) == Some(run.driver.current_context()))
}

/// Whether the answer was one device's, and is that of several here: whether one has a primary context, and
/// how that is set. What a device says of itself is not compared anyway, and objects that are handed out are
/// to be known.
fn asks_about_several(run: &Run, call: &Call, function: &Function) -> bool {
    let is_compared =
        |param: &Field| matches!((param.role, param.ty.form), (Role::Out(_), Form::Pointer(to)) if !has_structure(to));
    if function.class != Class::query || !function.params.iter().any(is_compared) {
        return false;
    }
    let is_about_current_context =
        function.family == "context" && function.params.iter().all(|param| matches!(param.role, Role::Out(_)));
    let device = match function.handle(Kind::Device) {
        Some(at) => call.argument_of(at).map(|recorded| run.objects.device(recorded as i32)),
        None if is_about_current_context => run.driver.current_device().ok(),
        None => None,
    };
    device.is_some_and(|live| run.objects.is_several(live))
}

/// Why the recorded call did nothing that a replay could do again, if it failed so.
fn why_nothing(run: &Run, call: &Call, function: &Function) -> Option<&'static str> {
    match call.result {
        Some(result::OUT_OF_MEMORY) => Some("failed for lack of memory when recorded"),
        // The replay has to start the driver first, to reserve addresses.
        Some(result::NOT_INITIALIZED) => Some("called before the driver was initialised"),
        Some(result::DEINITIALIZED) => Some("called after the driver was shut down"),
        Some(result::NOT_READY) => Some("returned not ready when recorded"),
        _ if run.plan.special_calls.beyond_allocation.contains(&call.number) => {
            Some("failed when recorded: its range was outside any allocation")
        }
        Some(_) if !call.succeeded() && fails_by_memory(call, function) => {
            Some("failed when recorded, on memory that the replay allocates in another way")
        }
        _ => None,
    }
}

/// Whether its failure, which changed nothing, has to do with how memory was made; the replay's is mapped
/// where the program's was allocated, and its reservations are there all the time. A copy in an executable
/// graph keeps to memory of its kind (driver 580: to none of a pool, if it was made with other).
fn fails_by_memory(call: &Call, function: &Function) -> bool {
    match function.effect {
        Effect::Map { .. } | Effect::Unmap { .. } | Effect::SetAccess | Effect::RetainPhysical => true,
        Effect::SetNode(Work::Copy | Work::Fill) => true,
        Effect::SetNode(Work::Described) => {
            let kind = call.argument("nodeParams").and_then(|params| call.memory(When::Entry, params, 4));
            let kind = kind.and_then(|bytes| Some(CUgraphNodeType(u32::from_le_bytes(bytes[..].try_into().ok()?))));
            matches!(
                kind,
                Some(CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY | CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET)
            )
        }
        _ => false,
    }
}
