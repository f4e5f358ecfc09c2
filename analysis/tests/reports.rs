//! Reports on recorded traces, made without starting the command.

use analysis::error::Error;
use analysis::filter::progress::Progress;
use analysis::filter::selection::Selection;
use analysis::report::request::{Request, about};
use analysis::report::selection::{ReportRequest, parse};
use analysis::tables::render::Format;
use analysis::tables::table::{Cell, Table};
use analysis::text::kernel_name::Style;
use std::collections::HashMap;
use std::path::Path;
use trace::Trace;

fn golden(name: &str) -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name);
    Trace::open(path).expect("a golden trace")
}

fn request(report: &str, selection: Selection, format: Format) -> Request {
    let Ok(ReportRequest::Report(report)) = parse(report) else { panic!("no report {report}") };
    Request { reports: vec![report], selection, style: Style::Full, format, unit: None, colored: false }
}

fn tables(trace: &Trace, report: &str, selection: Selection) -> Result<Vec<Table>, Error> {
    let made = request(report, selection, Format::Csv).make(trace, &|_| true, &mut ())?;
    Ok(made.into_iter().flat_map(|(_, tables)| tables.expect("it is not written row by row")).collect())
}

/// The column of a table with this key.
fn column(table: &Table, key: &str) -> Vec<Cell> {
    let at = table.head.columns.iter().position(|column| column.key == key).expect("a column");
    table.rows.iter().map(|row| row[at].clone()).collect()
}

fn only(range: &str) -> Selection {
    Selection { calls: Some(range.parse().expect("a range")), ..Selection::default() }
}

#[test]
fn copies_have_directions_and_bytes() {
    let ways = &tables(&golden("vector_add.bin"), "transfers", Selection::default()).expect("made")[0];
    assert_eq!(column(ways, "from"), ["pageable", "device"].map(Cell::from));
    assert_eq!(column(ways, "bytes"), [Cell::Bytes(8000), Cell::Bytes(4000)]);
}

#[test]
fn a_selection_leaves_out_calls_and_still_follows_them() {
    let trace = golden("failing_calls.bin");
    let failed = |selection| column(&tables(&trace, "errors", selection).expect("made")[0], "first_call");
    assert_eq!(failed(Selection::default()).len(), 9);
    assert_eq!(failed(only("9..11")), [Cell::Number(9), Cell::Number(10)]);
    let limited = Selection { limit: Some(2), ..Selection::default() };
    assert_eq!(failed(limited).len(), 2);
    let named = Selection { grep: Some(regex::Regex::new("Module").expect("a pattern")), ..Selection::default() };
    assert_eq!(failed(named), [7, 9, 12].map(Cell::Number));
}

#[test]
fn what_is_not_freed_is_a_leak() {
    let leaks = tables(&golden("failing_calls.bin"), "leaks", Selection::default()).expect("made");
    assert_eq!(column(&leaks[0], "kind"), ["module", "retained primary context"].map(Cell::from));
    assert_eq!(column(&leaks[1], "bytes"), [Cell::Bytes(64)]);
    let none = tables(&golden("vector_add.bin"), "leaks", Selection::default()).expect("made");
    assert!(none[1].rows.is_empty(), "{:?}", none[1].rows);
}

#[test]
fn kernels_have_device_times_or_a_reason() {
    let trace = golden("graphs_timed.bin");
    let kernels = &tables(&trace, "cuda_gpu_kern_sum", Selection::default()).expect("made")[0];
    assert_eq!(column(kernels, "Name"), ["add_two", "twice"].map(Cell::from));
    let error = tables(&golden("vector_add.bin"), "cuda_gpu_kern_sum", Selection::default()).expect_err("no times");
    assert!(matches!(&error, Error::Usage(why) if why.contains("needs device times")), "{error}");
}

#[test]
fn what_no_call_can_match_is_a_wrong_selection() {
    let trace = golden("vector_add.bin");
    let thread = Selection { thread: Some("nobody".into()), ..Selection::default() };
    for (selection, why) in [(only("100.."), "beyond the end of the trace"), (thread, "no thread \"nobody\"")] {
        let error = tables(&trace, "sync", selection).expect_err(why);
        assert!(matches!(&error, Error::Usage(told) if told.contains(why)), "{error}");
    }
}

/// Reads so many calls.
#[derive(Default)]
struct Reader {
    announced: u64,
    read: u64,
    most: u64,
}

impl Progress for Reader {
    fn begin(&mut self, _what: &str, calls: u64) {
        self.announced += calls;
    }

    fn advance(&mut self) {
        self.read += 1;
    }

    fn is_unread(&self) -> bool {
        self.read > self.most
    }
}

#[test]
fn rows_are_written_as_long_as_somebody_reads() {
    let trace = golden("vector_add.bin");
    let request = request("cuda_api_trace", Selection::default(), Format::Csv);
    let written = |reader: &mut Reader| {
        let mut out = Vec::new();
        let about = about(&trace, &HashMap::new());
        request.write(&mut out, &trace, &about, &|_| true, reader).expect("written");
        String::from_utf8(out).expect("text").lines().count() as u64
    };
    let calls = trace.len() as u64;
    let mut patient = Reader { most: u64::MAX, ..Reader::default() };
    assert_eq!(written(&mut patient), 1 + calls);
    assert_eq!((patient.announced, patient.read), (calls, calls));
    let mut gone = Reader { most: 3, ..Reader::default() };
    assert_eq!((written(&mut gone), gone.read), (1 + 3, 4));
}

#[test]
fn a_report_as_json_names_its_columns() {
    let trace = golden("vector_add.bin");
    let mut out = Vec::new();
    let request = request("launches", Selection::default(), Format::Json);
    request.write(&mut out, &trace, &about(&trace, &HashMap::new()), &|_| true, &mut ()).expect("written");
    let whole: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    let row = &whole["reports"][0]["rows"][0];
    assert_eq!((&row["kernel"], &row["launches"]), (&"vector_add".into(), &1.into()));
}
