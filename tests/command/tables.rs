//! `cutrace export --to sqlite`, `csv` and `parquet`: the tables of Nsight Systems, and their readers.

use crate::reporting::recorded;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::*;

fn export(place: &Place, arguments: &[&str]) -> Outcome {
    run(place.cutrace(["export"]).args(arguments))
}

/// A timed trace of a program, as timed.bin.
fn timed(app: &str) -> Place {
    let place = recorded(app);
    run(&mut place.cutrace(["replay", "--driver", "sim", "--profile"])).expect(0);
    place
}

/// What Python's own SQLite answers, row by row.
fn query(database: &Path, sql: &str) -> Vec<Vec<Value>> {
    let script = "import json, sqlite3, sys\n\
                  rows = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True).execute(sys.argv[2])\n\
                  print(json.dumps([list(row) for row in rows]))";
    let ran = run(Command::new("python3").args(["-c", script]).arg(database).arg(sql)).expect(0);
    serde_json::from_str(&ran.stdout).expect("rows")
}

fn tables(database: &Path) -> Vec<String> {
    let rows = query(database, "SELECT name FROM sqlite_master WHERE type = 'table'");
    rows.into_iter().map(|row| row[0].as_str().expect("a name").to_owned()).collect()
}

fn sums(rows: Vec<Vec<Value>>) -> BTreeMap<String, (u64, u64)> {
    let number = |value: &Value| value.as_u64().expect("a number");
    rows.iter().map(|row| (row[0].as_str().expect("a name").to_owned(), (number(&row[1]), number(&row[2])))).collect()
}

#[test]
fn calls_and_work_are_rows() {
    let place = timed("graphs.c");
    let ran = export(&place, &["timed.bin", "--to", "sqlite", "-o", "timed.sqlite"]).expect(0);
    let (database, trace) = (place.join("timed.sqlite"), sound(place.join("timed.bin")));
    assert!(ran.stdout.starts_with(&format!("timed.sqlite: sqlite, {} calls, ", trace.len())), "{}", ran.stdout);
    // The joins that scripts for Nsight Systems make.
    let calls = "SELECT s.value, count(*), sum(r.end - r.start) FROM CUPTI_ACTIVITY_KIND_RUNTIME r \
                 JOIN StringIds s ON r.nameId = s.id GROUP BY 1";
    let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for call in trace.calls() {
        let took = trace.nanoseconds(call.end.expect("it returned")) - trace.nanoseconds(call.begin);
        let entry = expected.entry(call.name().to_owned()).or_default();
        *entry = (entry.0 + 1, entry.1 + took as u64);
    }
    assert_eq!(sums(query(&database, calls)), expected);
    let work = "SELECT s.value, count(*), sum(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k \
                JOIN StringIds s ON k.shortName = s.id GROUP BY 1 UNION ALL \
                SELECT '[CUDA memcpy ' || e.label || ']', count(*), sum(m.end - m.start) \
                FROM CUPTI_ACTIVITY_KIND_MEMCPY m JOIN ENUM_CUDA_MEMCPY_OPER e ON m.copyKind = e.id GROUP BY 1";
    let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for work in trace.timed() {
        let name = work.name.map_or_else(|| work.about.operation(), String::from);
        let entry = expected.entry(name).or_default();
        *entry = (entry.0 + 1, entry.1 + work.duration() as u64);
    }
    assert_eq!(sums(query(&database, work)), expected);
    let launched = "SELECT DISTINCT s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r \
                    ON k.correlationId = r.correlationId AND k.globalPid = r.globalTid / 0x1000000 * 0x1000000 \
                    JOIN StringIds s ON r.nameId = s.id WHERE k.start >= r.start";
    assert_eq!(query(&database, launched), [[json!("cuGraphLaunch")]]);
    let pid = "SELECT pid, (globalPid >> 24) & 0xffffff FROM PROCESSES";
    assert_eq!(query(&database, pid), [[json!(trace.preamble.pid), json!(trace.preamble.pid)]]);
    let bytes = "SELECT count(*), sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY";
    let copies = trace.timed().filter(|work| !work.is_kernel());
    let (count, all) = copies.fold((0, 0), |(count, all), work| (count + 1, all + work.about.bytes));
    assert_eq!(query(&database, bytes), [[json!(count), json!(all)]]);
    let version = "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'";
    assert_eq!(query(&database, version), [[json!("3.16.1")]]);
}

/// An empty table of kernels would say that there were none.
#[test]
fn without_device_times_there_is_no_table_of_work() {
    let place = recorded("vector_add.c");
    export(&place, &["--to", "sqlite", "-o", "app.sqlite"]).expect(0);
    let tables = tables(&place.join("app.sqlite"));
    assert!(tables.iter().any(|name| name == "CUPTI_ACTIVITY_KIND_RUNTIME"), "{tables:?}");
    for work in ["KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"] {
        assert!(!tables.contains(&format!("CUPTI_ACTIVITY_KIND_{work}")), "{tables:?}");
    }
    // What was got and given up is known all the same.
    let memory = "SELECT memoryOperationType, count(*) FROM CUDA_GPU_MEMORY_USAGE_EVENTS GROUP BY 1 ORDER BY 1";
    assert_eq!(query(&place.join("app.sqlite"), memory), [[json!(0), json!(3)], [json!(1), json!(3)]]);
}

#[test]
fn annotations_are_rows() {
    let place = Place::new();
    let include = nvtx_include();
    let include = ["-I", include.to_str().expect("a plain path"), "-ldl"];
    run(&mut place.recorded(client_with("ranges.c", &include))).expect(0);
    export(&place, &["--to", "sqlite", "-o", "app.sqlite"]).expect(0);
    let ranges = "SELECT text, count(*), sum(end - start) FROM NVTX_EVENTS WHERE eventType IN (59, 60) GROUP BY 1";
    let (trace, mut expected) = (place.trace(), BTreeMap::<String, (u64, u64)>::new());
    for range in trace.annotated_ranges() {
        let [begin, end] = [range.opened.about.time, range.end.expect("it ended")].map(|at| trace.nanoseconds(at));
        let entry = expected.entry(range.opened.message.expect("a name").into_owned()).or_default();
        *entry = (entry.0 + 1, entry.1 + (end - begin) as u64);
    }
    assert_eq!(sums(query(&place.join("app.sqlite"), ranges)), expected);
    let domains = "SELECT DISTINCT d.text FROM NVTX_EVENTS e JOIN NVTX_EVENTS d \
                   ON d.eventType = 75 AND d.domainId = e.domainId WHERE e.eventType = 60";
    assert_eq!(query(&place.join("app.sqlite"), domains), [[json!("other")]]);
}

const WAITS: &str = "SELECT e.label, c.value, w.streamId, w.eventId, w.deviceId, w.contextId, w.end - w.start \
                     FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION w \
                     JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON w.correlationId = r.correlationId AND w.start = r.start \
                     AND w.end = r.end AND w.globalPid = r.globalTid / 0x1000000 * 0x1000000 \
                     JOIN StringIds c ON r.nameId = c.id JOIN ENUM_CUPTI_SYNC_TYPE e ON w.syncType = e.id \
                     ORDER BY w.start";

/// What a wait is not for has the number that CUPTI gives for it, and what is not known has none.
#[test]
fn waits_are_rows() {
    let place = timed("kinds_of_waits.c");
    for trace in ["trace", "timed"] {
        let (from, to) = (format!("{trace}.bin"), format!("{trace}.sqlite"));
        export(&place, &[&from, "--to", "sqlite", "-o", &to]).expect(0);
    }
    let none = json!(u32::MAX);
    let waits = |database: &str| {
        let mut rows = query(&place.join(database), WAITS);
        rows.iter_mut().for_each(|row| assert!(row.pop().is_some_and(|took| took.as_i64() > Some(0)), "{row:?}"));
        rows
    };
    let expected = |streams: [Value; 2], context: Value| {
        let [stream, other] = streams;
        let row = |kind: &str, call: &str, stream: &Value, event: &Value| {
            vec![json!(kind), json!(call), stream.clone(), event.clone(), json!(0), context.clone()]
        };
        [
            row("Stream sync", "cuStreamSynchronize", &stream, &none),
            row("Event sync", "cuEventSynchronize", &none, &Value::Null),
            row("Stream wait sync", "cuStreamWaitEvent", &other, &Value::Null),
            row("Context sync", "cuCtxSynchronize", &none, &none),
            row("Stream sync", "cuStreamSynchronize", &Value::Null, &none),
        ]
    };
    assert_eq!(waits("trace.sqlite"), expected([Value::Null, Value::Null], Value::Null));
    // As the kernels around them have them; of the other stream it is not known before its first work.
    let of_stream =
        "SELECT streamId, contextId FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1, 2 ORDER BY min(correlationId)";
    let kernels = query(&place.join("timed.sqlite"), of_stream);
    let [stream, context] = &kernels[0][..] else { panic!("{kernels:?}") };
    assert_eq!(kernels.len(), 2, "{kernels:?}");
    assert_eq!(waits("timed.sqlite"), expected([stream.clone(), Value::Null], context.clone()));
    // Also if the calls that tell are not asked for.
    let sync = ["timed.bin", "--to", "sqlite", "-o", "part.sqlite", "--grep", "Synchronize"];
    export(&place, &sync).expect(0);
    let mut all = waits("timed.sqlite");
    all.remove(2);
    assert_eq!(waits("part.sqlite"), all);
    let contexts = "SELECT i.processId, i.deviceId, i.contextId, count(*) FROM TARGET_INFO_CUDA_CONTEXT_INFO i \
                    JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.contextId = i.contextId AND k.deviceId = i.deviceId \
                    AND k.globalPid / 0x1000000 % 0x1000000 = i.processId GROUP BY 1, 2, 3";
    let pid = sound(place.join("timed.bin")).preamble.pid;
    assert_eq!(query(&place.join("timed.sqlite"), contexts), [[json!(pid), json!(0), context.clone(), json!(6)]]);
    assert!(!tables(&place.join("trace.sqlite")).iter().any(|name| name == "TARGET_INFO_CUDA_CONTEXT_INFO"));
}

#[test]
fn launches_are_regular_or_cooperative() {
    let place = timed("kinds_of_waits.c");
    export(&place, &["timed.bin", "--to", "sqlite", "-o", "timed.sqlite"]).expect(0);
    let kinds = "SELECT e.label FROM CUPTI_ACTIVITY_KIND_KERNEL k \
                 JOIN ENUM_CUDA_KERNEL_LAUNCH_TYPE e ON k.launchType = e.id ORDER BY k.correlationId";
    let kinds: Vec<Value> = query(&place.join("timed.sqlite"), kinds).concat();
    let (regular, cooperative) = (json!("Regular"), json!("Coop Single Device"));
    let expected = [&regular, &cooperative, &regular, &regular, &cooperative, &regular];
    assert_eq!(kinds.iter().collect::<Vec<_>>(), expected);
    // Of the nodes of a graph the launch does not tell.
    let place = timed("graphs.c");
    export(&place, &["timed.bin", "--to", "sqlite", "-o", "timed.sqlite"]).expect(0);
    let told = "SELECT count(*), count(launchType) FROM CUPTI_ACTIVITY_KIND_KERNEL";
    let told = query(&place.join("timed.sqlite"), told).concat();
    assert!(told[0].as_u64() > Some(0) && told[1] == json!(0), "{told:?}");
}

/// What the program did not ask, the trace does not know.
#[test]
fn devices_and_hosts_are_rows() {
    let place = recorded("kinds_of_waits.c");
    export(&place, &["--to", "sqlite", "-o", "app.sqlite"]).expect(0);
    let about = "SELECT g.name, g.smCount, d.numMultiprocessors, g.clockRate, g.busLocation, g.isDiscrete, \
                 g.l2CacheSize FROM TARGET_INFO_GPU g JOIN TARGET_INFO_CUDA_DEVICE d ON d.gpuId = g.id";
    let trace = place.trace();
    let expected = [
        json!(trace.devices[0].name),
        json!(16),
        json!(16),
        json!(1_980_000_000),
        json!("0000:01:00.0"),
        json!(1),
        Value::Null,
    ];
    assert_eq!(query(&place.join("app.sqlite"), about), [expected]);
    // Another process asked nothing, and comes first.
    let first = recorded("vector_add.c");
    let earlier = first.join("trace.bin");
    let both = [earlier.to_str().expect("a path"), "trace.bin", "--to", "sqlite", "-o", "both.sqlite"];
    export(&place, &both).expect(0);
    let about = "SELECT count(*), min(smCount), min(busLocation) FROM TARGET_INFO_GPU";
    assert_eq!(query(&place.join("both.sqlite"), about), [[json!(1), json!(16), json!("0000:01:00.0")]]);
    let about = "SELECT numMultiprocessors FROM TARGET_INFO_CUDA_DEVICE ORDER BY numMultiprocessors";
    assert_eq!(query(&place.join("both.sqlite"), about).concat(), [Value::Null, json!(16)]);
    let host = "SELECT name, value FROM TARGET_INFO_SYSTEM_ENV ORDER BY name";
    let expected = [
        [json!("CudaDriverVersion"), json!(trace.preamble.driver_version.to_string())],
        [json!("Hostname"), json!(trace.preamble.host)],
    ];
    assert_eq!(query(&place.join("app.sqlite"), host), expected);
}

/// Value by value what the database has, read by Python's own reader.
#[test]
fn tables_are_files_of_values() {
    let place = timed("graphs.c");
    export(&place, &["timed.bin", "--to", "sqlite", "-o", "timed.sqlite"]).expect(0);
    let ran = export(&place, &["timed.bin", "--to", "csv", "-o", "tables"]).expect(0);
    assert!(ran.stdout.starts_with("tables: csv, "), "{}", ran.stdout);
    let script = "import csv, os, sqlite3\n\
                  base = sqlite3.connect('timed.sqlite')\n\
                  names = sorted(name for name, in base.execute('SELECT name FROM sqlite_master WHERE type = \"table\"'))\n\
                  assert sorted(os.listdir('tables')) == [name + '.csv' for name in names], os.listdir('tables')\n\
                  for name in names:\n\
                  \x20   rows = base.execute(f'SELECT * FROM {name}')\n\
                  \x20   head = [column for column, *_ in rows.description]\n\
                  \x20   text = [['' if value is None else str(value) for value in row] for row in rows]\n\
                  \x20   with open(f'tables/{name}.csv', newline='') as file:\n\
                  \x20       assert list(csv.reader(file)) == [head, *text], name\n\
                  print(len(names))";
    let told = run(place.command("python3").args(["-c", script])).expect(0).stdout;
    assert!(told.trim().parse::<usize>().is_ok_and(|tables| tables > 12), "{told}");
    // Tables of a trace without device times do not come to stand beside these.
    let ran = export(&place, &["trace.bin", "--to", "csv", "-o", "tables"]).expect(1);
    assert!(ran.stderr.contains("exists already; --force replaces it"), "{}", ran.stderr);
    assert!(place.join("tables/CUPTI_ACTIVITY_KIND_KERNEL.csv").exists());
    export(&place, &["trace.bin", "--to", "csv", "-o", "tables", "--force"]).expect(0);
    assert!(!place.join("tables/CUPTI_ACTIVITY_KIND_KERNEL.csv").exists());
}

/// nsys-ai, which reads what Nsight Systems exports; `scripts/readers` fetches it.
#[test]
fn nsys_ai_reads_it() {
    let reader = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/readers/bin/nsys-ai");
    if !reader.exists() {
        eprintln!("SKIPPED: nsys-ai is not here; scripts/readers fetches it");
        return;
    }
    let place = timed("graphs.c");
    export(&place, &["timed.bin", "--to", "sqlite", "-o", "timed.sqlite"]).expect(0);
    let ask = |command: &str| run(place.command(&reader).args([command, "timed.sqlite"])).expect(0).stdout;
    let doctor = ask("doctor");
    assert!(doctor.contains("Schema compatibility") && doctor.contains("3.16.1"), "{doctor}");
    let (kernels, info) = (sound(place.join("timed.bin")).timed().filter(|work| work.is_kernel()).count(), ask("info"));
    assert!(info.contains(&kernels.to_string()), "{info}");
    let summary = ask("summary");
    assert!(summary.contains("add_two") && summary.contains("twice"), "{summary}");
    let place = timed("kinds_of_waits.c");
    export(&place, &["timed.bin", "--to", "sqlite", "-o", "timed.sqlite"]).expect(0);
    let ask = |words: &[&str]| run(place.command(&reader).args(words).arg("timed.sqlite")).expect(0).stdout;
    let info = ask(&["info"]);
    assert!(info.contains("PCI=0000:01:00.0 | SMs=16"), "{info}");
    let waits = ask(&["skill", "run", "sync_cost_analysis"]);
    assert!(waits.contains("CONTEXT_SYNCHRONIZE"), "{waits}");
}

/// What Python prints as JSON; none where it lacks a module that `scripts/readers` fetches.
fn told(module: &str, place: &Place, script: &str) -> Option<Value> {
    let python = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/readers/bin/python");
    let has = |module: &str| {
        let import = format!("import {module}");
        python.exists() && run(Command::new(&python).args(["-c", &import])).status.success()
    };
    if !has(module) {
        eprintln!("SKIPPED: {module} is not here; scripts/readers fetches it");
        return None;
    }
    let ran = run(place.command(&python).args(["-c", &format!("import json, {module}\n{script}")])).expect(0);
    Some(serde_json::from_str(&ran.stdout).expect("JSON"))
}

#[test]
fn processes_are_one_table() {
    let place = timed("graphs.c");
    for app in ["wasteful.c", "two_contexts.c"] {
        run(&mut place.recorded(client(app))).expect(0);
    }
    let files = ["timed.bin", "trace.1.bin", "trace.2.bin"];
    let ran = export(&place, &[&files[..], &["--to", "parquet", "-o", "tables"]].concat()).expect(0);
    let traces = files.map(|name| sound(place.join(name)));
    let calls: u64 = traces.iter().map(|trace| trace.len() as u64).sum();
    assert!(ran.stdout.starts_with(&format!("tables: parquet, {calls} calls, ")), "{}", ran.stdout);
    let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (trace, call) in traces.iter().flat_map(|trace| trace.calls().map(move |call| (trace, call))) {
        let took = trace.nanoseconds(call.end.expect("it returned")) - trace.nanoseconds(call.begin);
        let entry = expected.entry(call.name().to_owned()).or_default();
        *entry = (entry.0 + 1, entry.1 + took as u64);
    }
    let answer = told(
        "duckdb",
        &place,
        r#"
all = lambda table: f"read_parquet('tables/**/{table}.parquet', hive_partitioning = true)"
rows = lambda sql: duckdb.sql(sql).fetchall()
calls = all("CUPTI_ACTIVITY_KIND_RUNTIME")
joined = f"""select s.value, count(*) from {calls} r join {all("StringIds")} s
    on r.nameId = s.id and r.pid = s.pid and r.host = s.host group by 1"""
print(json.dumps({
    "by_name": rows(f'select name, count(*), sum("end" - start)::bigint from {calls} group by 1'),
    "joined": dict(rows(joined)),
    "processes": rows(f"select distinct pid::bigint, host, rank from {calls} order by 1"),
    "kernels": dict(rows(f"select name, count(*) from {all('CUPTI_ACTIVITY_KIND_KERNEL')} group by 1")),
    "grids": rows(f"select distinct gridX, graphNodeId is null from {all('CUPTI_ACTIVITY_KIND_KERNEL')}"),
}))"#,
    );
    if let Some(answer) = answer {
        let rows = |key: &str| serde_json::from_value::<Vec<Vec<Value>>>(answer[key].clone()).expect("rows");
        assert_eq!(sums(rows("by_name")), expected);
        let joined: BTreeMap<String, u64> = serde_json::from_value(answer["joined"].clone()).expect("counts");
        assert!(joined.iter().all(|(name, count)| expected[name].0 == *count), "{joined:?}");
        let mut pids: Vec<u32> = traces.iter().map(|trace| trace.preamble.pid).collect();
        pids.sort_unstable();
        let processes = rows("processes");
        assert_eq!(
            processes.iter().map(|row| row[0].as_u64()).collect::<Vec<_>>(),
            pids.iter().map(|pid| Some((*pid).into())).collect::<Vec<_>>()
        );
        assert!(
            processes.iter().all(|row| row[1] == json!(traces[0].preamble.host) && row[2].is_null()),
            "{processes:?}"
        );
        assert_eq!(answer["kernels"], json!({ "add_two": 5, "twice": 3 }));
    }
    let answer = told(
        "polars",
        &place,
        r#"
calls = polars.scan_parquet("tables/**/CUPTI_ACTIVITY_KIND_RUNTIME.parquet", hive_partitioning=True)
took = (polars.col("end") - polars.col("start")).sum()
print(json.dumps(calls.group_by("name").agg(polars.len(), took.alias("ns")).collect().rows()))"#,
    );
    if let Some(answer) = answer {
        assert_eq!(sums(serde_json::from_value(answer).expect("rows")), expected);
    }
}

/// Where one of several cannot be put into its place, each is there: the old or the new.
#[test]
fn what_cannot_be_replaced_is_kept() {
    let place = recorded("vector_add.c");
    run(&mut place.recorded(client("wasteful.c"))).expect(0);
    let files = ["trace.bin", "trace.1.bin"];
    let [first, second] = files.map(|name| {
        let about = sound(place.join(name)).preamble;
        format!("host={}/rank=__HIVE_DEFAULT_PARTITION__/pid={}", about.host, about.pid)
    });
    export(&place, &["trace.bin", "--to", "parquet", "-o", "tables"]).expect(0);
    std::fs::write(place.join("tables").join(&first).join("image=1/mark"), "old").expect("written");
    std::fs::write(place.join("tables").join(&second), "in the way").expect("written");
    let both = [&files[..], &["--to", "parquet", "-o", "tables", "--force"]].concat();
    let told = export(&place, &both).expect(1).stderr;
    assert!(told.contains(&format!("of 2 files, 1 in place, up to tables/{first}/image=1, ")), "{told}");
    let kept = told.trim_end().rsplit(' ').next().expect("where the others are");
    let has_calls = |within: &Path| within.join("image=1/CUPTI_ACTIVITY_KIND_RUNTIME.parquet").is_file();
    assert!(has_calls(&place.join("tables").join(&first)) && has_calls(&place.join(kept).join(&second)), "{told}");
    assert!(!place.join("tables").join(&first).join("image=1/mark").exists());
    assert_eq!(std::fs::read_to_string(place.join("tables").join(&second)).expect("as it was"), "in the way");
    // Where the first one cannot, nothing has happened.
    std::fs::remove_dir_all(place.join("tables")).expect("removed");
    std::fs::create_dir_all(place.join("tables").join(&first).parent().expect("a rank")).expect("a directory");
    std::fs::write(place.join("tables").join(&first), "in the way").expect("written");
    let told = export(&place, &both).expect(1).stderr;
    assert!(told.contains(&format!("tables/{first}/image=1: ")) && !told.contains("kept"), "{told}");
    assert_eq!(std::fs::read_dir(place.join("tables")).expect("a directory").count(), 1);
}

/// A process that became another program has a trace of each, of one pid.
#[test]
fn programs_of_one_process_are_told_apart() {
    let place = Place::new();
    run(place.recorded(client("exec_self.c")).arg("exec")).expect(9);
    let traces = ["trace.bin", "trace.1.bin"].map(|name| sound(place.join(name)));
    let pid = traces[0].preamble.pid;
    assert_eq!(traces[1].preamble.pid, pid);
    let files: Vec<String> = traces.iter().map(|trace| trace.path.display().to_string()).collect();
    // By time, not in the order in which they are named.
    let files = [&*files[1], &*files[0]];
    export(&place, &[&files[..], &["--to", "parquet", "-o", "tables"]].concat()).expect(0);
    let host = format!("host={}", traces[0].preamble.host);
    let process = place.join("tables").join(host).join(format!("rank=__HIVE_DEFAULT_PARTITION__/pid={pid}"));
    for image in ["image=1", "image=2"] {
        assert!(process.join(image).join("CUPTI_ACTIVITY_KIND_RUNTIME.parquet").is_file(), "{image}");
    }
    let answer = told(
        "duckdb",
        &place,
        r#"
calls = "read_parquet('tables/**/CUPTI_ACTIVITY_KIND_RUNTIME.parquet', hive_partitioning = true)"
print(json.dumps(duckdb.sql(f"select image::bigint, name from {calls} order by image, start").fetchall()))"#,
    );
    if let Some(answer) = answer {
        let expected = [(1, "cuInit"), (1, "cuDriverGetVersion"), (2, "cuInit"), (2, "cuDeviceGetCount")];
        assert_eq!(answer, json!(expected));
    }
    let report = ["report", "-r", "cuda_api_sum", "--format", "csv", "-o", "app"];
    run(place.cutrace(report).args(files)).expect(0);
    let text = |name: String| std::fs::read_to_string(place.join(&name)).expect(&name);
    assert!(text(format!("app_{pid}_cuda_api_sum.csv")).contains("cuDriverGetVersion"));
    assert!(text(format!("app_{pid}_2_cuda_api_sum.csv")).contains("cuDeviceGetCount"));
}

#[test]
fn directories_are_whole_or_not_there() {
    let place = recorded("vector_add.c");
    let host = place.trace().preamble.host.clone();
    export(&place, &["--to", "parquet", "-o", "tables"]).expect(0);
    let entries = |place: &Path| {
        let entries = std::fs::read_dir(place).expect("a directory");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(entries(&place.join("tables")), [format!("host={host}")]);
    let ran = export(&place, &["--to", "parquet", "-o", "tables"]).expect(1);
    assert!(ran.stderr.contains("exists already; --force replaces it"), "{}", ran.stderr);
    export(&place, &["--to", "parquet", "-o", "tables", "--force"]).expect(0);
    assert_eq!(entries(&place.join("tables")), [format!("host={host}")]);
    // A trace that cannot be read, the same process twice, and a disk that is full.
    std::fs::write(place.join("cut"), b"nothing").expect("written");
    export(&place, &["cut", "--to", "parquet", "-o", "other"]).expect(3);
    let ran = export(&place, &["trace.bin", "trace.bin", "--to", "parquet", "-o", "other"]).expect(1);
    assert!(ran.stderr.contains("two of the traces are of the same recording"), "{}", ran.stderr);
    let in_the_way = place.join("csv/StringIds.csv");
    std::fs::create_dir_all(in_the_way.join("kept")).expect("a directory");
    let ran = export(&place, &["--to", "csv", "-o", "csv", "--force"]).expect(1);
    assert!(ran.stderr.contains("csv/StringIds.csv: a directory, not replaced"), "{}", ran.stderr);
    assert_eq!((entries(&place.join("csv")), in_the_way.join("kept").is_dir()), (vec!["StringIds.csv".into()], true));
    let script = "ulimit -f 1; exec \"$0\" export --to parquet -o other";
    let ran = run(place.command("bash").args(["-c", script]).arg(artifact("cutrace"))).expect(1);
    assert!(ran.stderr.contains("File too large"), "{}", ran.stderr);
    assert!(!place.join("other").exists());
}
