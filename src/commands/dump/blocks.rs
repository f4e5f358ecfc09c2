//! Lines in blocks, made on all cores. To know the objects before its blocks, each worker follows only the
//! calls there that make or end objects; of the others it reads only the function's id.

use super::Arguments;
use crate::arguments::reading::Reading;
use analysis::calls::annotations::Annotations;
use analysis::calls::device_work;
use analysis::calls::host_writes;
use analysis::calls::line;
use analysis::calls::nccl::{self, NcclEvent};
use analysis::filter::grep::Grep;
use anyhow::{Context, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use trace::base::parallel::processors;
use trace::model::decode::decode;
use trace::model::objects::Objects;
use trace::model::value::Value;
use trace::read::device_times::ByCall;
use trace::{Call, Trace};

/// Calls of a block: few enough that the first lines are there at once.
const CALLS: u64 = 2048;
/// Blocks that wait for those before them, of each worker.
const WAITING: usize = 4;

/// The printed lines of some calls.
#[derive(Default)]
pub(super) struct Block {
    pub bytes: Vec<u8>,
    /// Of each call and annotation that `--limit` counts.
    pub told: Vec<Told>,
}

pub(super) struct Told {
    /// Bytes of the block up to here.
    pub end: usize,
    /// Pieces of data that the trace should hold and does not.
    pub missing: u64,
}

/// Gives the blocks to `take` in their order, as long as it wants more.
pub(super) fn each(trace: &Trace, arguments: &Arguments, mut take: impl FnMut(Block) -> Result<bool>) -> Result<()> {
    let selection = &arguments.reading.selection;
    let _wrong_ones_are_told_at_once = selection.test(trace)?;
    let Range { start, end } = selection.numbers(trace);
    let end = end.min(trace.len() as u64);
    // Behind the last call annotations may stand.
    let count = end.saturating_sub(start).div_ceil(CALLS).max(1);
    let block = |index: u64| start + index * CALLS..(start + (index + 1) * CALLS).min(end);
    let workers = processors().min(count as usize);
    let works = ByCall::new(trace);
    let said: Arc<[NcclEvent]> = nccl::selected_events(trace, selection)?.into();
    thread::scope(|scope| {
        let started = (0..workers).map(|first| {
            let (sender, receiver) = sync_channel(WAITING);
            let blocks = (first as u64..count).step_by(workers).map(move |index| (block(index), index + 1 == count));
            let (works, said) = (&works, said.clone());
            let making = move || work(trace, arguments, (works, said), blocks, &sender);
            thread::Builder::new().spawn_scoped(scope, making).context("cannot start a thread")?;
            Ok(receiver)
        });
        let mut ready = started.collect::<Result<Vec<_>>>()?;
        for index in 0..count {
            let block = ready[index as usize % workers].recv().expect("a worker formats all of its blocks");
            let wants_more = block.and_then(&mut take);
            if !matches!(wants_more, Ok(true)) {
                ready.clear();
                return wants_more.map(|_| ());
            }
        }
        Ok(())
    })
}

fn work(
    trace: &Trace,
    arguments: &Arguments,
    told: (&ByCall, Arc<[NcclEvent]>),
    blocks: impl Iterator<Item = (Range<u64>, bool)>,
    sender: &SyncSender<Result<Block>>,
) {
    let mut lines = match Lines::of(trace, arguments, told) {
        Ok(lines) => lines,
        Err(error) => return drop(sender.send(Err(error))),
    };
    for (calls, is_last) in blocks {
        // Nobody wants it any more.
        if sender.send(lines.block(calls, is_last)).is_err() {
            return;
        }
    }
}

/// Moved along the calls.
struct Lines<'a> {
    trace: &'a Trace,
    reading: &'a Reading,
    arguments: &'a Arguments,
    works: &'a ByCall<'a>,
    wanted: Box<dyn Fn(&Call) -> bool>,
    /// By the function's id: whether calls of it make or end objects.
    concerned: Vec<bool>,
    objects: Objects,
    /// Calls that were passed over since they make and end nothing: the last of them.
    passed: Option<u64>,
    grep: Grep<'a>,
    annotations: Annotations<'a>,
    colored: bool,
    /// The call that it was not moved past yet.
    next: u64,
    line: String,
}

impl<'a> Lines<'a> {
    fn of(
        trace: &'a Trace,
        arguments: &'a Arguments,
        (works, said): (&'a ByCall<'a>, Arc<[NcclEvent<'a>]>),
    ) -> Result<Lines<'a>> {
        let reading = &arguments.reading;
        let functions = 0..trace.preamble.functions.len() as u16;
        Ok(Lines {
            trace,
            reading,
            arguments,
            works,
            wanted: Box::new(reading.selection.test(trace)?),
            concerned: functions.map(|id| trace.function(id).is_some_and(Objects::concerns)).collect(),
            objects: Objects::default(),
            passed: None,
            grep: Grep::new(&reading.selection),
            annotations: Annotations::from_events(said, trace, &reading.selection, reading.json)?,
            colored: reading.colored(),
            next: 0,
            line: String::new(),
        })
    }

    fn skip_to(&mut self, number: u64) {
        for number in self.next..number {
            if self.trace.function_id(number).is_some_and(|id| self.is_concerned(id))
                && let Some(call) = self.trace.call(number)
            {
                self.objects.follow(&call);
            }
        }
        if number > self.next {
            let last = number - 1;
            // What a concerned one made is fresh until the next call.
            let is_concerned = self.trace.function_id(last).is_some_and(|id| self.is_concerned(id));
            self.passed = (!is_concerned).then_some(last);
        }
        if let Some(before) = number.checked_sub(1).and_then(|before| self.trace.call(before)) {
            self.annotations.skip(before.begin);
        }
        self.next = number;
    }

    /// `is_last`: nothing is printed behind it.
    fn block(&mut self, calls: Range<u64>, is_last: bool) -> Result<Block> {
        let mut block = Block::default();
        self.skip_to(calls.start);
        for call in calls.filter_map(|number| self.trace.call(number)) {
            self.annotate(&mut block, call.begin)?;
            self.call(&mut block, &call)?;
            self.next = call.number + 1;
        }
        if is_last && self.reading.selection.numbers(self.trace).end >= self.trace.len() as u64 {
            self.annotate(&mut block, u64::MAX)?;
        }
        Ok(block)
    }

    fn annotate(&mut self, Block { bytes, told }: &mut Block, time: u64) -> Result<()> {
        if !self.annotations.are_due(time) {
            return Ok(());
        }
        // They name objects as they are behind the call before.
        if let Some(before) = self.passed.take().and_then(|passed| self.trace.call(passed)) {
            self.objects.advance_time(&before);
        }
        let annotations = &mut self.annotations;
        Ok(annotations.print(bytes, time, &self.objects, |bytes| told.push(Told { end: bytes.len(), missing: 0 }))?)
    }

    fn is_concerned(&self, function: u16) -> bool {
        self.concerned.get(usize::from(function)).is_some_and(|concerned| *concerned)
    }

    fn call(&mut self, block: &mut Block, call: &Call<'a>) -> Result<()> {
        let Lines { trace, reading, arguments, .. } = *self;
        let is_selected = (self.wanted)(call) && self.grep.matches(call);
        if !self.is_concerned(call.function_id()) && !is_selected {
            self.passed = Some(call.number);
            return Ok(());
        }
        self.passed = None;
        let decoded = decode(call);
        self.objects.advance(call, decoded.as_ref());
        if !is_selected {
            return Ok(());
        }
        let out = &mut block.bytes;
        if reading.json {
            analysis::text::json::write(&mut *out, &line::object(trace, call, decoded.as_ref(), &self.objects))?;
            out.push(b'\n');
        } else {
            let writes = |find: fn(&Trace, &Call, &Objects, bool) -> Vec<String>| {
                find(trace, call, &self.objects, arguments.writes)
            };
            writes(host_writes::lines_before).iter().for_each(|line| put(out, line));
            self.line.clear();
            line::text(&mut self.line, trace, call, decoded.as_ref(), &self.objects, self.colored)?;
            put(out, &self.line);
            writes(host_writes::callback_lines).iter().for_each(|line| put(out, line));
        }
        for work in self.works.call(call.number) {
            match reading.json {
                true => analysis::text::json::write(&mut *out, &device_work::object(&work))?,
                false => out.extend(device_work::text(&work, trace.nanoseconds(call.begin)).as_bytes()),
            }
            out.push(b'\n');
        }
        let values = decoded.iter().flat_map(|d| d.arguments.iter().chain(&d.outputs));
        let missing = values.map(|(_, value)| missing_in(value)).sum();
        block.told.push(Told { end: block.bytes.len(), missing });
        Ok(())
    }
}

fn put(out: &mut Vec<u8>, line: &str) {
    out.extend(line.as_bytes());
    out.push(b'\n');
}

/// Pieces of data that the trace should hold and does not.
fn missing_in(value: &Value) -> u64 {
    match value {
        Value::Payload { missing, .. } => missing.is_some().into(),
        Value::Struct(fields) => fields.iter().map(|(_, value)| missing_in(value)).sum(),
        Value::List(all) => all.iter().map(missing_in).sum(),
        Value::Options(pairs) => pairs.iter().map(|(_, value)| missing_in(value)).sum(),
        _ => 0,
    }
}
