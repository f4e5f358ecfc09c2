//! Calls about what several processes share, in a replay of all of them.

use crate::company::{Company, Live, NOT_EXPORTED};
use crate::run::worker::Worker;
use std::ops::Range;
use trace::api::roles::Class;
use trace::api::types::Kind;
use trace::crossing::{Crossing, What};
use trace::{Call, Function};

/// Why it is not done: what is not there is refused, what fails differs from the recording.
enum Failed {
    Refused(String),
    Differs(String),
}

/// Whether a call may meet what other processes do: it gives work, waits, or is about memory or events.
pub(super) fn is_ordered(function: &Function) -> bool {
    !matches!(function.class, Class::query | Class::state | Class::load | Class::unload | Class::graph)
}

impl<'t> Worker<'_, 't> {
    pub(super) fn crosses(&mut self, call: Call<'t>, function: &'static Function, crossing: Crossing) {
        let Some(company) = self.run.company.clone() else { return };
        let done = match crossing {
            Crossing::Exports(what) => {
                let live = self.exported(&call, function, what);
                let why = live.as_ref().err().cloned();
                company.tell(call.number, live);
                why.map_or(Ok(()), |why| Err(Failed::Refused(why)))
            }
            Crossing::Imports(what) => self.imported(&call, function, what, &*company),
            Crossing::Closes => {
                let address = call.argument_of(0).unwrap_or(0);
                self.run.placement.close(address).map_err(|failure| Failed::Differs(failure.to_string()))
            }
        };
        match done {
            Ok(()) => {
                self.tally.executed += 1;
                self.compare(&call, crate::driver::result::SUCCESS);
            }
            Err(Failed::Refused(why)) => self.refuse(&call, function, &why),
            Err(Failed::Differs(why)) => {
                self.diverged(&call, "result", "CUDA_SUCCESS".into(), why);
                self.forgo(&call, function);
            }
        }
    }

    fn exported(&self, call: &Call, function: &Function, what: What) -> Result<Live, String> {
        let run = self.run;
        match what {
            What::Event => {
                let event = call.handle(Kind::Event).and_then(|event| run.objects.live(Kind::Event, event));
                let event = event.ok_or("the event is not there")?;
                run.driver.export_event(event).map(|bytes| Live::Event(bytes.to_vec())).map_err(|why| why.to_string())
            }
            What::Memory => {
                let address = function.param("dptr").and_then(|at| call.argument_of(at)).unwrap_or(0);
                let home = run.placement.home(address).ok_or("the memory is not at its recorded address here")?;
                run.placement.export(&home).map(Live::Memory)
            }
        }
    }

    fn imported(&self, call: &Call, function: &Function, what: What, company: &dyn Company) -> Result<(), Failed> {
        let run = self.run;
        let source = company.imports().get(&call.number).ok_or_else(|| Failed::Refused(NOT_EXPORTED.into()))?;
        let differs = |failure: crate::driver::Failure| Failed::Differs(failure.to_string());
        match (what, company.ask(source).map_err(Failed::Refused)?) {
            (What::Event, Live::Event(bytes)) => {
                let made = function.creates(Kind::Event).and_then(|at| call.output_of(at));
                let live = run.driver.open_event(&bytes).map_err(differs)?;
                made.into_iter().for_each(|made| run.objects.bind(Kind::Event, made, live));
                Ok(())
            }
            (What::Memory, Live::Memory(pieces)) => {
                let planned = run.plan.allocations.get(&call.number);
                let planned = planned.ok_or_else(|| Failed::Refused(NOT_EXPORTED.into()))?;
                let (range, theirs): (Range<u64>, _) = (planned.range.clone(), source.memory.start);
                let device = run.objects.device(planned.device);
                run.placement.import(range, device, theirs, pieces).map_err(differs)
            }
            _ => Err(Failed::Refused("the other process has shared something else".into())),
        }
    }
}
