//! Fields of `--json`: docs/agents.md lists all that the commands print, with their types.

use crate::nsys_reports::annotated;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use tests::*;

const PAGE: &str = include_str!("../../docs/agents.md");

/// Rows of a table: path to type and whether the field is optional.
type Fields = BTreeMap<String, (String, bool)>;

static SAMPLES: LazyLock<BTreeMap<String, Vec<Value>>> = LazyLock::new(samples);

#[test]
fn json_has_the_fields_of_the_page() {
    let tables = tables(PAGE, "| field | type | meaning |");
    let names: BTreeSet<&String> = SAMPLES.keys().collect();
    assert_eq!(tables.keys().collect::<BTreeSet<_>>(), names, "each table needs output to compare with");
    let mut wrong = Vec::new();
    for (heading, rows) in &tables {
        let fields: Fields = rows.iter().map(|row| field(row)).collect();
        let mut printed = BTreeSet::new();
        for value in &SAMPLES[heading] {
            compare(value, "", &fields, &mut printed, &mut |what| wrong.push(format!("{heading}: {what}")));
        }
        for (path, (_, is_optional)) in &fields {
            if !is_optional && !printed.contains(path) {
                wrong.push(format!("{heading}: {path} is not printed"));
            }
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "docs/agents.md:\n{}", wrong.join("\n"));
}

#[test]
fn reports_have_the_columns_of_the_page() {
    let cells = |row: &Vec<String>| (row[0].clone(), row[1].clone(), row[2].clone());
    let listed: BTreeSet<_> = tables(PAGE, "| report | table | columns |").values().flatten().map(cells).collect();
    let mut printed = BTreeSet::new();
    for output in &SAMPLES["report"] {
        for table in output["reports"].as_array().expect("reports") {
            let columns = table["columns"].as_array().expect("columns").iter().filter_map(Value::as_str);
            let columns = columns.map(|column| format!("`{column}`")).collect::<Vec<_>>().join(", ");
            let name = |key: &str| table[key].as_str().map_or_else(String::new, |name| format!("`{name}`"));
            printed.insert((name("report"), name("table"), columns));
        }
    }
    let differing: Vec<_> = listed.symmetric_difference(&printed).collect();
    assert!(differing.is_empty(), "docs/agents.md: {differing:#?}");
}

/// Rows of the tables with this head, by heading, as cells.
fn tables(page: &str, head: &str) -> BTreeMap<String, Vec<Vec<String>>> {
    let mut all: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    let (mut heading, mut is_inside) = ("", false);
    for line in page.lines() {
        heading = line.strip_prefix("### ").unwrap_or(heading);
        is_inside = line == head || is_inside && line.starts_with('|');
        if is_inside && line != head && !line.starts_with("| ---") {
            let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
            all.entry(heading.to_owned()).or_default().push(cells.collect());
        }
    }
    all
}

fn field(cells: &[String]) -> (String, (String, bool)) {
    let (kind, is_optional) = cells[1].strip_suffix(", optional").map_or((&*cells[1], false), |kind| (kind, true));
    (cells[0].trim_matches('`').to_owned(), (kind.to_owned(), is_optional))
}

fn compare(value: &Value, path: &str, fields: &Fields, printed: &mut BTreeSet<String>, wrong: &mut impl FnMut(String)) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    };
    if let Some((listed, _)) = fields.get(path) {
        printed.insert(path.to_owned());
        let is_right = kind == "null" || listed == "any" || listed == kind || listed == "map" && kind == "object";
        if !is_right {
            wrong(format!("{path} is a {kind}"));
        }
        return;
    }
    let has_parts = path.is_empty() || fields.keys().any(|field| is_part(field, path));
    match value {
        _ if !has_parts => wrong(format!("{path} ({kind}) is not listed")),
        Value::Null => {}
        Value::Array(all) => all.iter().for_each(|one| compare(one, &format!("{path}[]"), fields, printed, wrong)),
        Value::Object(all) => all.iter().for_each(|(key, one)| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            compare(one, &path, fields, printed, wrong);
        }),
        _ => wrong(format!("{path} is a {kind}")),
    }
}

fn is_part(field: &str, path: &str) -> bool {
    field.strip_prefix(path).is_some_and(|rest| rest.starts_with('.') || rest.starts_with("[]"))
}

/// Output of the commands, by heading of the page.
fn samples() -> BTreeMap<String, Vec<Value>> {
    let place = annotated();
    let record = |name: &str, arguments: &[&str]| {
        let mut record = place.cutrace(["record", "--driver", "sim", "-o", name, "--"]);
        record.arg(artifact("cutrace")).args(["demo", "--sample"]).args(arguments);
        run(&mut record);
    };
    record("waste.bin", &["waste"]);
    record("clock.bin", &["clock"]);
    record("fault.bin", &["fault"]);
    run(place.cutrace(["record", "--driver", "sim", "-o", "faulty.bin", "--"]).arg(client("wasteful.c"))).expect(0);
    let mut job = place.cutrace(["record", "--driver", "sim", "-o", "run/", "--"]);
    run(job.arg(client("ipc_flag.c")).env("CUTRACE_SIM_DEVICES", "2")).expect(0);
    let doctor = run(&mut place.cutrace(["doctor", "--json"])).stdout;

    let lines = |arguments: &str, status: i32| -> Vec<Value> {
        let mut command = place.cutrace(arguments.split(' ').chain(["--json"]));
        let printed = run(command.env("CUTRACE_SIM_DEVICES", "2")).expect(status).stdout;
        serde_json::Deserializer::from_str(&printed).into_iter().map(|value| value.expect("JSON")).collect()
    };
    let all = |each: &[(&str, i32)]| each.iter().flat_map(|(arguments, status)| lines(arguments, *status)).collect();
    let list = lines("report --list", 0);
    let names: Vec<_> = list[0]["reports"].as_array().expect("reports").iter().map(|of| of["name"].as_str()).collect();
    let names = names.into_iter().flatten().collect::<Vec<_>>().join(",");
    let of_kind = |kinds: &[&str]| -> Vec<Value> {
        let is_asked = |line: &Value| line["kind"].as_str().is_some_and(|kind| kinds.contains(&kind));
        lines("dump trace.bin", 0).into_iter().filter(is_asked).collect()
    };
    let entries: Vec<(&str, Vec<Value>)> = vec![
        ("errors", lines("info none.bin", 3)),
        ("info", all(&[("info waste.bin", 0), ("info trace.bin", 0)])),
        ("info of a directory", lines("info run/", 0)),
        ("report", all(&[(&format!("report trace.bin -r {names}"), 0), ("report faulty.bin -r memory", 0)])),
        ("report --list", list.clone()),
        ("dump", of_kind(&["header"])),
        ("dump: call", of_kind(&["call"])),
        ("dump: kernel, copy, fill, graph", of_kind(&["kernel", "copy", "fill", "graph"])),
        ("dump: annotation", of_kind(&["annotation"])),
        (
            "replay",
            all(&[
                ("replay waste.bin", 0),
                ("replay clock.bin --bisect", 4),
                ("replay fault.bin --sync-launches", 1),
                ("replay waste.bin --profile -o profiled.bin", 0),
                ("replay waste.bin --loop 3 --scope 10..11", 0),
            ]),
        ),
        ("replay --dry-run", lines("replay waste.bin --dry-run", 0)),
        ("replay of a directory", lines("replay run/", 0)),
        ("doctor", vec![serde_json::from_str(&doctor).expect("JSON")]),
        ("pack", lines("pack waste.bin -o packed.bin", 0)),
        ("repair", lines("repair waste.bin -o repaired.bin", 0)),
        ("redact", lines("redact waste.bin -o redacted.bin", 0)),
        ("export", lines("export waste.bin --to chrome -o chrome.json", 0)),
        ("on and off", lines("on 1", 1)),
    ];
    entries.into_iter().map(|(heading, values)| (heading.to_owned(), values)).collect()
}
