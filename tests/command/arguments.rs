//! Kernel arguments, as every command shows them: by the types that their kernels declare.

use serde_json::{Value, json};
use tests::*;

/// `plain(NaN, 1e-42f, ...)` of each launch and kernel node.
fn shown(place: &Place) -> Vec<String> {
    let dump = run(&mut place.cutrace(["dump", "--grep", "cuLaunchKernel|GraphAddKernelNode"])).expect(0).stdout;
    let arguments = |line: &str| {
        let rest = line.split_once("kernelParams=").expect("arguments").1;
        rest.split_once(", extra=").expect("extra").0.to_owned()
    };
    dump.lines().map(arguments).collect()
}

#[test]
fn arguments_are_what_the_kernel_declares() {
    let place = Place::new();
    run(&mut place.recorded(client("argument_types.c"))).expect(0);
    let memory = calls_named(&place.trace(), "cuMemAlloc_v2")[0].output("dptr").expect("an address");
    let plain = format!(
        "plain(NaN, 1e-42f, 1073741824, -3, -inf, -2.0f16, 0x40000000 (4 B), {memory:#x}(mem#1), \
         <12 bytes 01000000 02000000 03000000>, -1, 5000000000)"
    );
    let plain = plain.as_str();
    let mixed = format!(
        "_Z5mixedPfjiflb6__half6float45ColorPKf({memory:#x}(mem#1), 3000000000, -3, -0.0f, -5000000000, true, \
         -2.0f16, {{1.0f, -2.0f, 0.5f, NaN}}, 7, NULL)"
    );
    let (single, unsigned) = ("which(1.0f)", "which(1065353216)");
    // Two modules, then others in the place of the first; through a library, and as a node of a graph.
    assert_eq!(shown(&place), [plain, &mixed, single, unsigned, unsigned, single, plain, plain, plain]);

    // The viewer names the types, also when it reads its index.
    let calls = calls_named(&place.trace(), "cuLaunchKernel").iter().map(|call| call.number).collect::<Vec<_>>();
    for _ in 0..2 {
        let at = calls[1].to_string();
        let frame = run(&mut place.cutrace(["view", "--once", "--size", "300x40", "--at", &at])).expect(0).stdout;
        let told = "unsigned int 3000000000, int -3, float -0.0f, long -5000000000, bool true, __half -2.0f16, \
                    float4 {1.0f, -2.0f, 0.5f, NaN}, Color 7, float const* NULL)";
        assert!(frame.contains(told), "{frame}");
        let at = calls[3].to_string();
        let frame = run(&mut place.cutrace(["view", "--once", "--size", "300x40", "--at", &at])).expect(0).stdout;
        assert!(frame.contains(unsigned), "{frame}");
    }
}

#[test]
fn arguments_in_json_have_types_sizes_and_bytes() {
    let place = Place::new();
    run(&mut place.recorded(client("argument_types.c"))).expect(0);
    let dump = run(&mut place.cutrace(["dump", "--json", "--grep", "cuLaunchKernel"])).expect(0).stdout;
    let launches = objects(&dump);
    let given = |launch: usize| &launches[launch]["args"]["kernelParams"];

    let (values, parameters) = (&given(0)["arguments"], &given(0)["parameters"]);
    let first = |values: &Value, count| Value::from(values.as_array().expect("a list")[..count].to_vec());
    let wanted = json!(["NaN", values[1], 1073741824, -3, "-inf", -2.0, "0x40000000 (4 B)"]);
    assert_eq!(first(values, 7), wanted);
    assert!(dump.contains(r#""arguments":["NaN",1e-42,"#), "{dump}");
    assert_eq!(values[8], json!({ "bytes": 12, "hex": "010000000200000003000000" }));
    assert_eq!(parameters[0], json!({ "type": ".f32", "size": 4, "hex": "0000c07f" }));
    assert_eq!(parameters[6], json!({ "type": null, "size": 4, "hex": "00000040" }));
    assert_eq!((&parameters[7]["type"], &parameters[8]["type"]), (&".u64 .ptr".into(), &".b8[12]".into()));

    let (values, parameters) = (&given(1)["arguments"], &given(1)["parameters"]);
    assert_eq!(first(values, 7), json!([values[0], 3000000000u32, -3, -0.0, -5000000000i64, true, -2.0]));
    let types: Vec<_> = parameters.as_array().expect("a list").iter().map(|one| one["type"].as_str()).collect();
    let wanted =
        ["float*", "unsigned int", "int", "float", "long", "bool", "__half", "float4", "Color", "float const*"];
    assert_eq!(types, wanted.map(Some));
}

/// Wherever it stands, and whatever the command.
#[test]
fn every_command_takes_a_colour() {
    let place = Place::new();
    let mut record = place.cutrace(["record", "--driver", "sim", "--color", "never", "--"]);
    run(record.arg(client("vector_add.c"))).expect(0);
    let replay =
        |color: &str| run(&mut place.cutrace(["replay", "--driver", "sim", "--color", color])).expect(0).stdout;
    assert!(replay("always").starts_with("\x1b[32mverified: "));
    assert!(is_verified(&replay("never")) && is_verified(&replay("auto")));
    let report = |arguments: &[&str]| run(&mut place.cutrace(arguments)).expect(0).stdout;
    assert!(report(&["--color", "always", "report"]).contains("\x1b[1m"));
    assert_eq!(report(&["report", "--color", "never"]), report(&["report"]));
    for command in ["info", "export", "repair", "redact", "pack", "doctor", "demo", "completions", "man", "on", "off"] {
        let help = run(&mut place.cutrace([command, "--help"])).expect(0).stdout;
        assert!(help.contains("--color <WHEN>"), "{command}: {help}");
    }
}
