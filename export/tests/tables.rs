//! The tables of an export, in memory.

use analysis::error::Result;
use analysis::filter::selection::Selection;
use analysis::job::time_axis::Process;
use export::tables::nsys;
use export::tables::nsys::rows::{Batch, Store, Values};
use std::collections::BTreeMap;
use std::path::Path;
use trace::Trace;

/// Rows by the names of their tables, and the texts of the first column that has any.
#[derive(Default)]
struct Memory {
    rows: BTreeMap<&'static str, usize>,
    strings: Vec<String>,
}

impl Store for Memory {
    const ADDED: bool = false;

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        *self.rows.entry(batch.table.name()).or_default() += batch.rows;
        if batch.table.name() == "StringIds" {
            for filled in &batch.columns {
                if let Values::Text(texts) = &filled.values {
                    self.strings.extend(texts.iter().cloned());
                }
            }
        }
        Ok(())
    }
}

fn exported(name: &str, selection: &Selection) -> (Memory, u64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name);
    let traces = [Trace::open(path).expect("a golden trace")];
    let mut written = 0;
    let store = Memory::default();
    let store = nsys::write(&Process::all(&traces), store, selection, &mut (), |_, calls| written += calls);
    (store.expect("written"), written)
}

#[test]
fn a_call_has_a_row_and_its_name_once() {
    let (store, written) = exported("vector_add.bin", &Selection::default());
    assert_eq!(store.rows["CUPTI_ACTIVITY_KIND_RUNTIME"] as u64, written);
    assert_eq!(store.strings.iter().filter(|text| *text == "cuMemAlloc_v2").count(), 1);
    // No device has measured anything: a table without rows would say that nothing ran.
    assert!(!store.rows.contains_key("CUPTI_ACTIVITY_KIND_KERNEL"), "{:?}", store.rows);
}

#[test]
fn work_with_times_has_rows() {
    let (store, _) = exported("graphs_timed.bin", &Selection::default());
    assert_eq!(store.rows["CUPTI_ACTIVITY_KIND_KERNEL"], 8);
}

#[test]
fn calls_that_are_not_asked_for_have_none() {
    let two = Selection { calls: "..2".parse().ok(), ..Selection::default() };
    let (store, written) = exported("vector_add.bin", &two);
    assert_eq!((store.rows["CUPTI_ACTIVITY_KIND_RUNTIME"], written), (2, 2));
}
