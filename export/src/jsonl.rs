//! JSON Lines: the output of `dump --json`.

use crate::events::event::Event;
use analysis::calls::annotations::Annotations;
use analysis::calls::{device_work, line};
use analysis::error::Result;
use analysis::filter::selection::Selection;
use serde::Serialize;
use std::io::Write;
use trace::Trace;
use trace::model::objects::Objects;
use trace::read::device_times::ByCall;

pub(crate) struct Jsonl<'t> {
    trace: &'t Trace,
    annotations: Annotations<'t>,
    works: ByCall<'t>,
}

impl<'t> Jsonl<'t> {
    pub(crate) fn new(trace: &'t Trace, selection: &'t Selection) -> Result<Jsonl<'t>> {
        // Before anything is written.
        let _is_there = selection.test(trace)?;
        Ok(Jsonl { trace, annotations: Annotations::new(trace, selection, true)?, works: ByCall::new(trace) })
    }

    /// In front of the first call.
    pub(crate) fn begin(&mut self, out: &mut impl Write) -> Result<()> {
        write_line(out, &line::header(self.trace))
    }

    pub(crate) fn call(&mut self, out: &mut impl Write, event: &Event<'_, 't>) -> Result<()> {
        let call = &event.call;
        self.annotations.print(out, call.begin, event.objects, |_| ())?;
        write_line(out, &line::object(self.trace, call, event.decoded.as_ref(), event.objects))?;
        self.works.call(call.number).try_for_each(|work| write_line(out, &device_work::object(&work)))
    }

    /// Behind the last call of the trace.
    pub(crate) fn finish(&mut self, out: &mut impl Write, objects: &Objects) -> Result<()> {
        self.annotations.print(out, u64::MAX, objects, |_| ())
    }
}

fn write_line(out: &mut impl Write, line: &impl Serialize) -> Result<()> {
    analysis::text::json::write(&mut *out, line)?;
    Ok(out.write_all(b"\n")?)
}
