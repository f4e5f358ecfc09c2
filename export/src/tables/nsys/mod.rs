//! A trace as the rows of Nsight Systems' tables.
//!
//! A row of work names the call that submitted it by `correlationId`, which is the call's number in `dump`.
//! There is no table of kernels, copies or fills if the trace has no device times: an empty one would mean
//! that there were none.

mod annotations;
mod devices;
mod labels;
mod numbers;
pub mod rows;
pub(crate) mod schema;
mod waits;
mod works;

use crate::events::device_clock::Placed;
use crate::events::event::Event;
use crate::events::walk::{Needs, walk};
use analysis::error::Result;
use analysis::filter::progress::Progress;
use analysis::filter::selection::Selection;
use analysis::job::time_axis::Process;
use analysis::text::kernel_name::{Names, Style};
use devices::{Device, DeviceAnswers};
use numbers::Numbers;
use rows::{Cell, Rows, Store};
use schema::{
    Analysis, Environment, ExportMetaData, MemoryUsage, Processes, Ranks, Runtime, SessionStart, Strings, ThreadNames,
};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use trace::Trace;
use trace::api::effect::Memory;
use trace::file::preamble::{LOCAL_RANK, RANK, RANKS};
use trace::model::memory::Allocation;

/// What calls tell of devices, contexts and streams counts for those that are asked for, whoever told it.
const ROWS: Needs = Needs { arguments: false, model: true, all: true };

/// Puts what these processes did into the store. `written` is called for each trace, with how many calls of it
/// were written. There must be a process.
pub fn write<S: Store>(
    processes: &[Process],
    store: S,
    selection: &Selection,
    progress: &mut dyn Progress,
    mut written: impl FnMut(&Trace, u64),
) -> Result<S> {
    let mut tables = Nsys::new(&processes[0], store)?;
    for process in processes {
        if process.index != tables.process.index {
            tables.turn_to(process)?;
        }
        let walked = walk(process.trace, selection, ROWS, progress, |event| tables.call(event))?;
        tables.end(selection)?;
        written(process.trace, walked.made);
    }
    tables.finish()
}

pub(crate) struct Nsys<'x, 't, S> {
    /// Whose rows are written now.
    process: &'x Process<'t>,
    trace: &'t Trace,
    rows: Rows<S>,
    placed: Placed<'t>,
    names: [Names; 2],
    /// Strings that have a row, by what they are: their numbers.
    strings: HashMap<String, i64>,
    functions: Vec<Option<i64>>,
    /// Kernels by their names in the trace.
    kernels: HashMap<&'t str, Rc<works::Kernel>>,
    /// By what tells them apart.
    devices: HashMap<String, Device>,
    /// What those of the process said of themselves when the program asked.
    asked: DeviceAnswers,
    numbers: Numbers,
    events: waits::Events,
    /// Hosts that have rows.
    hosts: BTreeSet<usize>,
    /// Where device times are from, by what META_DATA_EXPORT says.
    times: BTreeSet<String>,
    /// The last time that a row names.
    last: i64,
    /// Calls that have no row.
    unreturned: u64,
    /// Further polls, which have none either.
    repeated: u64,
}

impl<'x, 't, S: Store> Nsys<'x, 't, S> {
    pub(crate) fn new(process: &'x Process<'t>, store: S) -> Result<Nsys<'x, 't, S>> {
        let trace = process.trace;
        let mut all = Nsys {
            process,
            trace,
            rows: Rows::new(store),
            placed: Placed::new(trace),
            names: [Style::Full, Style::Short].map(Names::new),
            strings: HashMap::new(),
            functions: Vec::new(),
            kernels: HashMap::new(),
            devices: HashMap::new(),
            asked: DeviceAnswers::default(),
            numbers: Numbers::default(),
            events: waits::Events::default(),
            hosts: BTreeSet::new(),
            times: BTreeSet::new(),
            last: 0,
            unreturned: 0,
            repeated: 0,
        };
        labels::write(&mut all.rows)?;
        all.begin()?;
        Ok(all)
    }

    /// What comes now is of this process.
    pub(crate) fn turn_to(&mut self, process: &'x Process<'t>) -> Result<()> {
        (self.process, self.trace) = (process, process.trace);
        self.placed = Placed::new(process.trace);
        self.functions.clear();
        (self.asked, self.numbers, self.events) = Default::default();
        self.begin()
    }

    fn begin(&mut self) -> Result<()> {
        self.times.insert(match &self.trace.profile {
            Some(profile) => {
                let source = analysis::calls::device_work::source(profile.source, profile.version);
                format!("of {}, by {source}", analysis::calls::device_work::run(profile.source))
            }
            None => "none".into(),
        });
        self.about_host()?;
        self.about_process()
    }

    /// What the trace knows of what Nsight Systems tells of a machine.
    fn about_host(&mut self) -> Result<()> {
        if !self.hosts.insert(self.process.host) {
            return Ok(());
        }
        let about = &self.trace.preamble;
        let version = Some(about.driver_version).filter(|version| *version > 0).map(|version| version.to_string());
        for (name, value) in [("Hostname", Some(&about.host)), ("CudaDriverVersion", version.as_ref())] {
            let Some(value) = value else { continue };
            self.rows.add_row(Environment {
                globalVid: self.host_id().into(),
                name: name.into(),
                value: value.as_str().into(),
                ..Environment::default()
            })?;
        }
        Ok(())
    }

    fn about_process(&mut self) -> Result<()> {
        let about = &self.trace.preamble;
        let name = about.program.rsplit('/').next().unwrap_or(&about.program);
        let id = self.process_id();
        self.rows.add_row(Processes { globalPid: id.into(), pid: about.pid.into(), name: name.into() })?;
        // Where each process has files of its own, their directories say it.
        if !S::ADDED {
            let number = |name: &str| Cell::from(about.number(name));
            let (command, trace) = (about.command_line.join(" "), self.trace.path.display().to_string());
            self.rows.add_row(Ranks {
                globalPid: id.into(),
                pid: about.pid.into(),
                rank: number(RANK),
                ranks: number(RANKS),
                localRank: number(LOCAL_RANK),
                hostName: about.host.as_str().into(),
                program: about.program.as_str().into(),
                command: command.as_str().into(),
                trace: trace.as_str().into(),
                start: self.process.start().into(),
            })?;
        }
        for (at, thread) in self.trace.threads.iter().enumerate() {
            let (name, id) = (self.string(&thread.name)?, self.thread_id(at as u32));
            self.rows.add_row(ThreadNames { nameId: name.into(), globalTid: id.into(), ..ThreadNames::default() })?;
        }
        Ok(())
    }

    /// As Nsight Systems makes one number of a machine, a process and a thread.
    fn process_id(&self) -> i64 {
        self.host_id() | i64::from(self.trace.preamble.pid & 0xff_ffff) << 24
    }

    fn host_id(&self) -> i64 {
        let host = self.process.host as i64;
        (host & 0x7f) << 56 | (host >> 7 & 0xff) << 48
    }

    fn thread_id(&self, index: u32) -> i64 {
        let thread = self.trace.threads.get(index as usize);
        self.process_id() | thread.map_or(0, |thread| i64::from(thread.os_id & 0xff_ffff))
    }

    fn string(&mut self, text: &str) -> Result<i64> {
        if let Some(id) = self.strings.get(text) {
            return Ok(*id);
        }
        let id = self.strings.len() as i64 + 1;
        self.strings.insert(text.to_owned(), id);
        self.rows.add_row(Strings { id: id.into(), value: text.into() })?;
        Ok(id)
    }

    pub(crate) fn call(&mut self, event: &Event<'_, 't>) -> Result<()> {
        let call = &event.call;
        self.asked.follow(call);
        self.follow_events(event);
        self.numbers.ended(event);
        if !event.is_selected {
            for work in self.placed.works(call.number) {
                self.numbers.work(event, &work.about);
            }
            return Ok(());
        }
        let begin = self.process.nanoseconds(call.begin);
        match (call.end, call.result) {
            (Some(end), Some(result)) => {
                let (end, name) = (self.process.nanoseconds(end), self.function(call.function_id(), call.name())?);
                self.rows.add_row(Runtime {
                    start: begin.into(),
                    end: end.into(),
                    eventClass: labels::DRIVER_CALL.into(),
                    globalTid: self.thread_id(call.thread).into(),
                    correlationId: call.number.into(),
                    nameId: name.into(),
                    returnValue: result.into(),
                    name: call.name().into(),
                    ..Runtime::default()
                })?;
                self.last = self.last.max(end);
                self.repeated = self.repeated.saturating_add(call.count().saturating_sub(1));
            }
            _ => self.unreturned += 1,
        }
        self.wait(event)?;
        for slice in self.placed.call(call.number, begin) {
            self.numbers.work(event, &slice.work.about);
            self.work(&slice)?;
        }
        for (one, _) in &event.followed.gone {
            self.memory(call.number, begin, one, labels::FREED)?;
        }
        for one in &event.followed.made {
            self.memory(call.number, self.process.nanoseconds(one.since), one, labels::ALLOCATED)?;
        }
        Ok(())
    }

    /// By its number in the file, the name's.
    fn function(&mut self, id: u16, name: &str) -> Result<i64> {
        let at = usize::from(id);
        if let Some(known) = self.functions.get(at).copied().flatten() {
            return Ok(known);
        }
        let string = self.string(name)?;
        self.functions.resize(self.functions.len().max(at + 1), None);
        self.functions[at] = Some(string);
        Ok(string)
    }

    /// Memory that was got or given up. Ranges of addresses without memory are none.
    fn memory(&mut self, call: u64, at: i64, one: &Allocation, operation: i64) -> Result<()> {
        let (Some(bytes), Some(kind)) = (one.bytes, memory_kind(one.kind)) else { return Ok(()) };
        self.rows.add_row(MemoryUsage {
            start: at.into(),
            globalPid: self.process_id().into(),
            deviceId: one.device.map(i64::from).into(),
            address: one.address().into(),
            bytes: bytes.into(),
            memKind: kind.into(),
            memoryOperationType: operation.into(),
            correlationId: call.into(),
            ..MemoryUsage::default()
        })
    }

    /// What is not of a call.
    pub(crate) fn end(&mut self, selection: &Selection) -> Result<()> {
        self.about_devices()?;
        self.contexts()?;
        self.annotations(selection)
    }

    /// What the whole says of itself. The store has it all then.
    pub(crate) fn finish(mut self) -> Result<S> {
        let last = self.last;
        self.devices()?;
        self.rows.add_row(SessionStart { utcEpochNs: self.process.epoch.into(), ..SessionStart::default() })?;
        let (from, to) = (Cell::from(0i64), Cell::from(last));
        self.rows.add_row(Analysis { globalVid: from, duration: to, startTime: from, stopTime: to })?;
        for (name, value) in self.about() {
            self.rows.add_row(ExportMetaData { name: name.into(), value: value.as_str().into() })?;
        }
        self.rows.finish()
    }

    /// What META_DATA_EXPORT says.
    fn about(&self) -> Vec<(&'static str, String)> {
        let [major, minor, micro] = schema::VERSION;
        let times = self.times.iter().cloned().collect::<Vec<_>>().join("; ");
        vec![
            ("EXPORT_PRODUCT_NAME", "cutrace".into()),
            ("EXPORT_PRODUCT_VERSION", env!("CARGO_PKG_VERSION").into()),
            ("EXPORT_SCHEMA_VERSION", format!("{major}.{minor}.{micro}")),
            ("EXPORT_SCHEMA_VERSION_MAJOR", major.to_string()),
            ("EXPORT_SCHEMA_VERSION_MINOR", minor.to_string()),
            ("EXPORT_SCHEMA_VERSION_MICRO", micro.to_string()),
            ("CUTRACE_DEVICE_TIMES", times),
            ("CUTRACE_CALLS_WITHOUT_RETURN", self.unreturned.to_string()),
            ("CUTRACE_REPEATED_POLLS", self.repeated.to_string()),
        ]
    }
}

/// None of addresses alone, and of memory that another program got.
fn memory_kind(kind: Memory) -> Option<i64> {
    Some(match kind {
        Memory::Device | Memory::Pooled | Memory::Physical => labels::DEVICE,
        Memory::Pinned | Memory::Registered => labels::PINNED,
        Memory::Managed => labels::MANAGED,
        Memory::Array => labels::ARRAY,
        Memory::Addresses | Memory::Imported => return None,
    })
}
