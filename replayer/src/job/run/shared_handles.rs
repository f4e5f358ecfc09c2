//! Calls on objects that several processes share, in a replay of all of them.

use crate::driver::{Failure, result};
use crate::job::peers::{HostPart, Live, NOT_EXPORTED, Source};
use crate::run::worker::Worker;
use std::os::fd::{AsRawFd, OwnedFd};
use trace::api::roles::Class;
use trace::api::types::Kind;
use trace::read::shared_handles::{Crossing, What, exported_address};
use trace::{Call, Function};

/// Why it is not done: what is not there is refused, what fails differs from the recording.
enum ExchangeError {
    Refused(String),
    Differs(String),
}

/// Whether a call may meet what other processes do: it gives work, waits, or is about memory or events.
pub(crate) fn is_ordered(function: &Function) -> bool {
    !matches!(function.class, Class::query | Class::state | Class::load | Class::unload | Class::graph)
}

impl<'t> Worker<'_, 't> {
    pub(crate) fn crosses(&mut self, call: Call<'t>, function: &'static Function, crossing: Crossing) {
        let done = match crossing {
            Crossing::Exports(What::Physical) => return self.exports_file(call, function),
            Crossing::Imports(What::Physical) => match self.imported_file(&call) {
                Ok(()) => return self.execute(call, function, function, &[0]),
                Err(why) => Err(ExchangeError::Refused(why)),
            },
            Crossing::Exports(what) => {
                let live = self.exported(&call, function, what);
                let why = live.as_ref().err().cloned();
                self.tell(&call, live);
                why.map_or(Ok(()), |why| Err(ExchangeError::Refused(why)))
            }
            Crossing::Imports(what) => self.imported(&call, function, what),
            Crossing::Closes => {
                let address = call.argument_of(0).unwrap_or(0);
                let own = self.run.plan.job.single_rank.as_ref().and_then(|alone| alone.closing.get(&call.number));
                let closed = match own {
                    Some(start) => self.run.placement.close_stand_in(*start),
                    None => self.run.placement.close(address),
                };
                closed.map_err(|failure| ExchangeError::Differs(failure.to_string()))
            }
        };
        match done {
            Ok(()) => {
                self.tally.executed += 1;
                self.compare(&call, result::SUCCESS);
            }
            Err(ExchangeError::Refused(why)) => self.refuse(&call, function, &why),
            Err(ExchangeError::Differs(why)) => {
                self.diverged(&call, "result", "CUDA_SUCCESS".into(), why);
                self.forgo(&call, function);
            }
        }
    }

    fn tell(&self, call: &Call, live: Result<Live, String>) {
        if let Some(company) = &self.run.company {
            company.tell(call.number, live);
        }
    }

    /// What another process has told of what this call imports.
    fn ask(&self, call: &Call) -> Result<(Source, Live), String> {
        let company = self.run.company.as_ref().ok_or(NOT_EXPORTED)?;
        let source = company.imports().get(&call.number).cloned().ok_or(NOT_EXPORTED)?;
        company.ask(&source).map(|live| (source, live))
    }

    /// What a call registers of memory that other processes have as well, and the files that all map there.
    pub(crate) fn host_shared_by(&self, call: &Call) -> Result<Vec<(HostPart, OwnedFd)>, String> {
        let Some(company) = &self.run.company else { return Ok(Vec::new()) };
        let parts = company.host_parts(call.number).iter();
        parts.map(|part| Ok((part.clone(), company.host_file(part.file)?))).collect()
    }

    /// Makes a descriptor, and keeps another of the same file for who imports it.
    fn exports_file(&mut self, call: Call<'t>, function: &'static Function) {
        self.execute(call, function, function, &[0]);
        let run = self.run;
        let number = call.argument_of(0).and_then(|at| call.output_at(at, 4));
        let number = number.and_then(|bytes| Some(u32::from_le_bytes(bytes[..].try_into().ok()?)));
        let file = number.and_then(|number| run.shared.lock().get(&number.into())?.try_clone().ok());
        let is_imported = run.plan.job.own_exports.values().any(|export| *export == call.number);
        if let Some(own) = file.as_ref().filter(|_| is_imported).and_then(|file| file.try_clone().ok()) {
            run.exported.lock().insert(call.number, own);
        }
        self.tell(&call, file.map(Live::File).ok_or_else(|| "its descriptor could not be created".into()));
    }

    /// The descriptor that stands for the recorded one is that of the file which had been exported.
    fn imported_file(&self, call: &Call) -> Result<(), String> {
        let run = self.run;
        let own = run.plan.job.own_exports.get(&call.number).map(|export| {
            let exported = run.exported.lock();
            exported.get(export).and_then(|file| file.try_clone().ok()).ok_or("the call that exported it failed")
        });
        let file = match own {
            Some(own) => own?,
            None if run.company.is_some() && call.passed().is_none() => return Ok(()),
            None => match self.ask(call)? {
                (_, Live::File(file)) => file,
                _ => return Err(OTHERWISE.into()),
            },
        };
        let number = call.argument_of(1).unwrap_or(0) & u64::from(u32::MAX);
        run.objects.bind(Kind::Shareable, number, file.as_raw_fd() as u64);
        run.shared.lock().insert(number, file);
        Ok(())
    }

    fn exported(&self, call: &Call, function: &Function, what: What) -> Result<Live, String> {
        let run = self.run;
        match what {
            What::Event => {
                let event = call.handle(Kind::Event).and_then(|event| run.objects.live(Kind::Event, event));
                let event = event.ok_or("the event is missing")?;
                run.driver.export_event(event).map(|bytes| Live::Event(bytes.to_vec())).map_err(|why| why.to_string())
            }
            What::Memory => {
                let address = exported_address(call, function).unwrap_or(0);
                let home =
                    run.placement.home(address).ok_or("the memory is not at its recorded address in the replay")?;
                run.placement.export(&home).map(Live::Memory)
            }
            What::Physical | What::Pool => Ok(Live::Pool),
        }
    }

    fn imported(&self, call: &Call, function: &Function, what: What) -> Result<(), ExchangeError> {
        let run = self.run;
        let (source, live) = self.ask(call).map_err(ExchangeError::Refused)?;
        let differs = |failure: Failure| ExchangeError::Differs(failure.to_string());
        match (what, live) {
            (What::Event, Live::Event(bytes)) => {
                let made = function.creates(Kind::Event).and_then(|at| call.output_of(at));
                let live = run.driver.open_event(&bytes).map_err(differs)?;
                made.into_iter().for_each(|made| run.objects.bind(Kind::Event, made, live));
                Ok(())
            }
            (What::Memory, Live::Memory(pieces)) => {
                let planned = run.plan.memory.allocations.get(&call.number);
                let planned = planned.ok_or_else(|| ExchangeError::Refused(NOT_EXPORTED.into()))?;
                let (range, device) = (planned.range.clone(), run.objects.device(planned.device));
                run.placement.import(range, device, source.memory.start, pieces).map_err(differs)
            }
            (What::Pool, Live::Pool) => {
                let device = run.plan.devices.used.first().map_or(0, |device| run.objects.device(*device));
                let made = function.creates(Kind::MemoryPool).and_then(|at| call.output_of(at));
                let live = run.driver.create_pool(device).map_err(differs)?;
                made.into_iter().for_each(|made| run.objects.bind(Kind::MemoryPool, made, live));
                Ok(())
            }
            _ => Err(ExchangeError::Refused(OTHERWISE.into())),
        }
    }
}

const OTHERWISE: &str = "the other process shared another object";
