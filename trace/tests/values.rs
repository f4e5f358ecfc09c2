//! Calls as text, and the names of the objects they create.

mod writer;

use trace::Trace;
use trace::file::record::{self, with_body};
use trace::model::decode::{Decoded, decode};
use trace::model::objects::Objects;
use trace::show::text::Text;
use writer::{Writer, arguments, blob, hash, inline, nested};

/// `name(arguments) -> outputs`, for each call in turn.
fn shown(writer: &Writer) -> Vec<String> {
    let file = writer.file();
    let trace = Trace::open(file.path()).expect("readable");
    let mut objects = Objects::default();
    let one = |call: trace::Call| {
        let Decoded { arguments, outputs } = decode(&call).expect("a known function");
        objects.advance(&call, Some(&Decoded { arguments: arguments.clone(), outputs: outputs.clone() }));
        let list = |list: &[(&str, trace::model::value::Value)]| {
            let all: Vec<String> = list.iter().map(|(name, v)| format!("{name}={}", Text(v, &objects))).collect();
            all.join(", ")
        };
        format!("{}({}) -> {}", call.name(), list(&arguments), list(&outputs))
    };
    trace.calls().map(one).collect()
}

const STREAM: u64 = 0x8000;

fn stream(writer: &mut Writer, time: u64, handle: u64) {
    writer.call(0, "cuStreamCreate", time, &[0x10, 1], 0, &[inline(0, &handle.to_le_bytes())]);
}

fn memory(writer: &mut Writer, time: u64, address: u64, bytes: u64) {
    writer.call(0, "cuMemAlloc_v2", time, &[0x10, bytes], 0, &[inline(0, &address.to_le_bytes())]);
}

#[test]
fn handles_are_named_for_the_life_of_their_object() {
    let mut writer = Writer::new();
    stream(&mut writer, 100, STREAM);
    writer.call(0, "cuStreamDestroy_v2", 200, &[STREAM], 0, &[]);
    writer.call(0, "cuStreamQuery", 300, &[STREAM], 400, &[]);
    stream(&mut writer, 400, STREAM);
    writer.call(0, "cuStreamDestroy_v2", 500, &[STREAM], 1, &[]);
    writer.call(0, "cuStreamQuery", 600, &[STREAM], 0, &[]);
    for default in 0..3 {
        writer.call(0, "cuStreamQuery", 700 + default, &[default], 0, &[]);
    }
    assert_eq!(
        shown(&writer),
        [
            "cuStreamCreate(phStream=&, Flags=CU_STREAM_NON_BLOCKING) -> phStream=stream#1",
            "cuStreamDestroy_v2(hStream=stream#1) -> ",
            "cuStreamQuery(hStream=stream@0x8000(was stream#1, destroyed by call 1)) -> ",
            "cuStreamCreate(phStream=&, Flags=CU_STREAM_NON_BLOCKING) -> phStream=stream#2",
            "cuStreamDestroy_v2(hStream=stream#2) -> ",
            "cuStreamQuery(hStream=stream#2) -> ",
            "cuStreamQuery(hStream=NULL) -> ",
            "cuStreamQuery(hStream=CU_STREAM_LEGACY) -> ",
            "cuStreamQuery(hStream=CU_STREAM_PER_THREAD) -> ",
        ]
    );
}

#[test]
fn an_object_is_not_there_before_its_call_returned() {
    let mut writer = Writer::new();
    let making = writer.enter(0, "cuStreamCreate", 100, &[0x10, 0], &[]);
    writer.call(1, "cuStreamQuery", 150, &[STREAM], 400, &[]);
    writer.leave(0, making, 200, 0, &[inline(0, &STREAM.to_le_bytes())]);
    writer.call(1, "cuStreamQuery", 250, &[STREAM], 0, &[]);
    assert_eq!(
        shown(&writer),
        [
            "cuStreamCreate(phStream=&, Flags=CU_STREAM_DEFAULT) -> phStream=stream#1",
            "cuStreamQuery(hStream=stream@0x8000) -> ",
            "cuStreamQuery(hStream=stream#1) -> ",
        ]
    );
}

#[test]
fn what_belongs_to_a_module_goes_with_it() {
    let mut writer = Writer::new();
    let code = writer.blob(&[b'x'; 5000]);
    for round in 0..2u64 {
        let time = 1000 * round;
        let module = inline(0, &0x6000u64.to_le_bytes());
        writer.call(0, "cuModuleLoadData", time, &[0x10, 0x999], 0, &[blob(1, 5000, code), module]);
        let name = inline(2, if round == 0 { b"first\0" } else { b"other\0" });
        let function = inline(0, &0x7000u64.to_le_bytes());
        writer.call(0, "cuModuleGetFunction", time + 100, &[0x10, 0x6000, 0x20], 0, &[name, function]);
        writer.call(0, "cuModuleUnload", time + 200, &[0x6000], 0, &[]);
    }
    let all = shown(&writer);
    assert_eq!(all[1], "cuModuleGetFunction(hfunc=&, hmod=module#1, name=\"first\") -> hfunc=function#1:first");
    assert_eq!(all[4], "cuModuleGetFunction(hfunc=&, hmod=module#2, name=\"other\") -> hfunc=function#2:other");
    let image =
        format!("cuModuleLoadData(module=&, image=<blob {:.8}.. 5000 bytes>) -> module=module#1", code.to_string());
    assert_eq!(all[0], image);
}

#[test]
fn addresses_are_placed_in_live_allocations() {
    let mut writer = Writer::new();
    memory(&mut writer, 100, 0x7f00_0000_0000, 512);
    memory(&mut writer, 200, 0x7f00_0000_0200, 512);
    let copy = |writer: &mut Writer, time, to| {
        writer.call(0, "cuMemcpyHtoD_v2", time, &[to, 0x999, 4], 0, &[inline(1, b"abcd")]);
    };
    copy(&mut writer, 300, 0x7f00_0000_0210);
    writer.call(0, "cuMemFree_v2", 400, &[0x7f00_0000_0000], 0, &[]);
    copy(&mut writer, 500, 0x7f00_0000_0010);
    let all = shown(&writer);
    assert_eq!(all[0], "cuMemAlloc_v2(dptr=&, bytesize=512) -> dptr=0x7f0000000000(mem#1)");
    assert!(all[2].starts_with("cuMemcpyHtoD_v2(dstDevice=0x7f0000000210(mem#2+0x10), "), "{}", all[2]);
    assert_eq!(all[3], "cuMemFree_v2(dptr=0x7f0000000000(mem#1)) -> ");
    let was = "0x7f0000000010(was mem#1+0x10, freed by call 3)";
    assert!(all[4].starts_with(&format!("cuMemcpyHtoD_v2(dstDevice={was}, ")), "{}", all[4]);
}

#[test]
fn arguments_of_no_known_type_show_their_bits() {
    let mut writer = Writer::new();
    memory(&mut writer, 100, 0x7f00_0000_0000, 512);
    let params = Some(vec![(0, 8), (8, 4), (12, 4), (16, 1), (20, 12)]);
    let kernel = record::Kernel { id: 3, handle: 0x7000, is_kernel: false, name: "scale".into(), params, module: 0 };
    writer.record(0, &with_body(record::KERNEL, &kernel));
    let values: [&[u8]; 5] = [
        &0x7f00_0000_0008u64.to_le_bytes(),
        &(-5i32).to_le_bytes(),
        &0.25f32.to_le_bytes(),
        &[9],
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
    ];
    let words = [0x7000, 1, 2, 3, 32, 1, 1, 0, 0, 0x500, 0];
    let call = writer.enter(0, "cuLaunchKernel", 200, &words, &[arguments(9, 3, &values)]);
    writer.leave(0, call, 300, 0, &[]);
    let launch = &shown(&writer)[1];
    let expected = "kernelParams=scale(0x7f0000000008(mem#1+0x8), 0xfffffffb (4 B), 0x3e800000 (4 B), 0x9 (1 B), \
                    <12 bytes 01020304 05060708 090a0b0c>), extra=NULL) -> ";
    assert!(launch.ends_with(expected), "{launch}");
}

#[test]
fn packed_arguments_are_found_through_their_words() {
    let mut writer = Writer::new();
    let params = Some(vec![(0, 1), (8, 8)]);
    let kernel = record::Kernel { id: 1, handle: 0x7000, is_kernel: false, name: "mix".into(), params, module: 0 };
    writer.record(0, &with_body(record::KERNEL, &kernel));
    let extra: Vec<u8> = [1u64, 0xb0, 2, 0xa0, 0].iter().flat_map(|w| w.to_le_bytes()).collect();
    let mut buffer = [0; 16];
    (buffer[0], buffer[8]) = (7, 9);
    let images = [inline(10, &extra), nested(0xa0, &16u64.to_le_bytes()), nested(0xb0, &buffer)];
    let call = writer.enter(0, "cuLaunchKernel", 200, &[0x7000, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0x500], &images);
    writer.leave(0, call, 300, 0, &[]);
    let launch = &shown(&writer)[0];
    assert!(launch.ends_with("kernelParams=NULL, extra=mix(0x7 (1 B), 0x9 (8 B); 16 bytes)) -> "), "{launch}");
}

#[test]
fn copies_to_the_host_show_what_came() {
    let mut writer = Writer::new();
    let found = trace::base::hash::Hash::compute(b"result");
    writer.call(0, "cuMemcpyDtoH_v2", 100, &[0x999, 0x7f00_0000_0000, 4096], 0, &[hash(0, 4096, found)]);
    let expected = format!("-> dstHost=<hash {:.8}.. 4096 bytes>", found.to_string());
    assert!(shown(&writer)[0].ends_with(&expected), "{}", shown(&writer)[0]);
}

#[test]
fn flags_and_errors_are_symbolic() {
    let mut writer = Writer::new();
    writer.call(0, "cuMemHostAlloc", 100, &[0x10, 64, 3], 0, &[inline(0, &0x7a00_0000u64.to_le_bytes())]);
    writer.call(0, "cuMemHostAlloc", 200, &[0x10, 64, 0x81], 1, &[]);
    writer.call(0, "cuMemFreeHost", 300, &[0x7a00_0000], 0, &[]);
    assert_eq!(
        shown(&writer),
        [
            "cuMemHostAlloc(pp=&, bytesize=64, Flags=CU_MEMHOSTALLOC_PORTABLE|CU_MEMHOSTALLOC_DEVICEMAP) -> \
             pp=0x7a000000(host#1)",
            "cuMemHostAlloc(pp=&, bytesize=64, Flags=CU_MEMHOSTALLOC_PORTABLE|0x80) -> ",
            "cuMemFreeHost(p=0x7a000000(host#1)) -> ",
        ]
    );
}
