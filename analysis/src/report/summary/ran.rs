//! The work that ran: in words for people, and number by number for scripts.

use super::Summary;
use crate::calls::device_work::{SIMULATED, source};
use crate::calls::unfinished::not_closed;
use crate::report::device::gaps;
use crate::report::walk::Ending;
use crate::tables::table::{Cell, Head, Layout, Table, column};
use crate::text::figures::{counted, duration, grouped, size};
use crate::text::shell::shell;
use trace::Trace;

const RAN: Head = Head {
    report: "summary",
    part: "ran",
    title: "What ran",
    columns: &[column("what", "what"), column("of", "of"), column("value", "value")],
    layout: Layout::Facts,
};

pub(super) fn table(summary: &Summary, ending: &Ending) -> Table {
    let mut ran = Ran(Table::new(RAN));
    ran.trace(ending.trace);
    ran.calls(summary, ending.trace);
    ran.work(summary, ending.trace);
    ran.devices(ending);
    for (what, count) in &ending.trace.losses {
        ran.value("not_recorded", what.as_str(), Cell::Count(*count));
        ran.0.note(format!("not recorded: {what} ({})", grouped(*count)));
    }
    ran.0
}

struct Ran(Table);

impl Ran {
    fn fact(&mut self, what: &'static str, how: impl Into<String>) {
        self.0.facts.push((what, how.into()));
    }

    /// `of`: which of several; empty if there is one.
    fn value(&mut self, what: &str, of: impl Into<String>, value: impl Into<Cell>) {
        let of = Some(of.into()).filter(|of| !of.is_empty());
        self.0.row([what.into(), of.into(), value.into()]);
    }

    fn count(&mut self, what: &str, count: u64) {
        self.value(what, "", Cell::Count(count));
    }

    fn nanoseconds(&mut self, what: &str, ns: i64) {
        self.value(what, "", Cell::Nanoseconds(ns));
    }

    fn trace(&mut self, trace: &Trace) {
        let (path, command) = (trace.path.display().to_string(), shell(&trace.preamble.command_line));
        let closed = not_closed(trace);
        self.fact("trace", format!("{path} ({}{closed})", size(trace.bytes_on_disk())));
        self.value("trace", "", path);
        self.value("trace_bytes", "", Cell::Bytes(trace.bytes_on_disk()));
        self.count("trace_closed", trace.footer.is_some().into());
        self.fact("command", command.as_str());
        self.value("command", "", command);
        if let Some(how) = trace.ended.filter(|ended| !ended.is_success()) {
            self.fact("ended", how.to_string());
            self.value("ended", "", how.to_string());
        }
        for device in &trace.devices {
            let ordinal = device.ordinal.to_string();
            self.fact("device", format!("{ordinal} {} ({})", device.name, size(device.memory)));
            self.value("device", ordinal.as_str(), device.name.as_str());
            self.value("device_bytes", ordinal, Cell::Bytes(device.memory));
        }
        if trace.is_simulated() {
            self.fact("times", SIMULATED);
        }
    }

    fn calls(&mut self, summary: &Summary, trace: &Trace) {
        let times = &summary.times;
        let (threads, elapsed) = (times.threads.iter().count() as u64, summary.findings.host.elapsed());
        let all = trace.calls_made();
        let is_part = times.calls < all;
        let of = if is_part { format!("{} of ", grouped(times.calls)) } else { String::new() };
        let who = format!("{of}{} by {}", counted(all, "call"), counted(threads, "thread"));
        self.fact("calls", format!("{who}, {} from the first to the last", duration(elapsed)));
        self.count("calls", times.calls);
        self.count("calls_recorded", all);
        self.count("threads", threads);
        self.nanoseconds("elapsed_ns", elapsed);
        let left_out = trace.calls_left_out();
        if left_out > 0 {
            let more = &trace.preamble.more;
            let range = more.iter().find(|(key, _)| key == "range").map_or("", |(_, words)| words);
            self.fact("left out", format!("{} outside the recorded range ({range})", counted(left_out, "call")));
            self.value("calls_left_out", range, Cell::Count(left_out));
        }
        let (inside, elsewhere, outside) = (times.in_driver(), times.elsewhere(), times.outside());
        let (these, it) = if is_part { ("these calls", "the driver") } else { ("the driver", "it") };
        let mut parts = vec![format!("{} in {these}", duration(inside))];
        parts.extend((elsewhere > 0).then(|| format!("{} in other calls between them", duration(elsewhere))));
        let or = if left_out > 0 { " or in calls outside the recorded range" } else { "" };
        parts.push(format!("{} outside {it}{or}", duration(outside)));
        let summed = if threads > 1 { "; summed over all threads" } else { "" };
        self.fact("host time", format!("{}{summed}", parts.join(", ")));
        self.nanoseconds("host_in_calls_ns", inside);
        self.nanoseconds("host_in_other_calls_ns", elsewhere);
        self.nanoseconds("host_outside_ns", outside);
    }

    fn work(&mut self, summary: &Summary, trace: &Trace) {
        let (kernels, launches, graphs) = summary.launches.counts();
        let of_graphs = if graphs > 0 { format!(", plus {}", counted(graphs, "graph launch")) } else { String::new() };
        self.fact("launches", format!("{} of {}{of_graphs}", counted(launches, "launch"), counted(kernels, "kernel")));
        self.count("launches", launches);
        self.count("kernels", kernels);
        self.count("graph_launches", graphs);
        let [to, from] = summary.findings.transfers.across();
        let across = |(copies, bytes)| format!("{} in {}", size(bytes), counted(copies, "copy"));
        self.fact("copies", format!("{} to the device, {} to the host", across(to), across(from)));
        for (way, (copies, bytes)) in [("to_device", to), ("from_device", from)] {
            self.value("copies", way, Cell::Count(copies));
            self.value("copied_bytes", way, Cell::Bytes(bytes));
        }
        let peaks: Vec<_> = summary.findings.memory.most().collect();
        let shown = |(side, peak): &(_, u64)| format!("{} on {side}", size(*peak)).replace("on host", "pinned");
        if !peaks.is_empty() {
            let whole = if summary.times.calls < trace.calls_made() { " in the whole trace" } else { "" };
            let all: Vec<String> = peaks.iter().map(shown).collect();
            self.fact("memory", format!("peak {}{whole}", all.join(", ")));
        }
        peaks.into_iter().for_each(|(side, peak)| self.value("peak_bytes", side.to_string(), Cell::Bytes(peak)));
    }

    fn devices(&mut self, ending: &Ending) {
        let Some(profile) = &ending.trace.profile else { return };
        let by = source(profile.source, profile.version);
        for (device, busy, span) in gaps::busy(&ending.scope) {
            let percent = busy as f64 * 100.0 / span.max(1) as f64;
            let (part, whole) = (duration(busy), duration(span));
            self.fact("device time", format!("device {device} busy for {part} of {whole} ({percent:.0} %), by {by}"));
            self.value("device_busy_ns", device.to_string(), Cell::Nanoseconds(busy));
            self.value("device_span_ns", device.to_string(), Cell::Nanoseconds(span));
        }
    }
}
