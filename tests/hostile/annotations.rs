//! NVTX annotations: valid ones, invalid ones, and those that must not be kept.

use serde_json::Value;
use std::path::PathBuf;
use tests::*;
use trace::Trace;
use trace::file::record::annotated;
use trace::read::annotation::{Annotation, Payload};

fn annotating(name: &str) -> PathBuf {
    client_with(name, &["-I", nvtx_include().to_str().expect("a plain path")])
}

/// What happened, with the message and domain.
fn said(annotation: &Annotation) -> (u8, String, String) {
    let text = |text: &Option<_>| text.as_deref().unwrap_or("-").to_string();
    (annotation.about.what, text(&annotation.message), text(&annotation.domain))
}

fn marked<'a>(trace: &'a Trace, message: &str) -> Annotation<'a> {
    let mut found = trace.annotations().filter(|a| a.message.as_deref() == Some(message));
    let (first, more) = (found.next(), found.count());
    assert_eq!(more, 0, "{message}");
    first.unwrap_or_else(|| panic!("no annotation {message:?}"))
}

#[test]
fn everything_that_nvtx_can_say() {
    let place = Place::new();
    let program = annotating("annotated.c");
    let bare = run(&mut place.bare(&program));
    let ran = run(&mut place.recorded(&program)).expect(0);
    place.same(&bare, &ran);
    let trace = place.trace();
    assert_eq!((trace.len(), trace.threads.len()), (8, 1));
    assert_eq!(trace.losses, []);

    let ranges: Vec<_> = trace.annotated_ranges();
    let shown: Vec<_> =
        ranges.iter().map(|r| (r.opened.message.as_deref().expect("a message"), r.depth, r.end.is_some())).collect();
    let expected = [
        ("whole", 0, true),
        ("coloured", 1, true),
        ("breit \u{e4}\u{20ac}\u{1f600}", 2, true),
        ("first", 0, true),
        ("second", 0, true),
        ("third", 0, true),
        ("third", 0, true),
        ("registered", 0, true),
    ];
    assert_eq!(shown, expected);
    let end = |index: usize| ranges[index].end.expect("ended");
    // Started ranges end in any order, pushed ones from within.
    assert!(end(3) < end(5) && end(5) < end(6) && end(6) < end(4));
    assert!(end(2) < end(1) && end(1) < end(0));
    let calls: Vec<_> = trace.calls().collect();
    assert!(ranges[0].opened.about.time < calls[0].begin, "pushed before the first call");
    let inside = calls_named(&trace, "cuCtxSynchronize");
    assert!(ranges[1].opened.about.time < inside[0].begin && inside[0].end.expect("returned") < end(1));
    assert_eq!(ranges[7].opened.domain.as_deref(), Some("library"));

    assert_eq!(ranges[1].opened.color(), Some(0xff80_40c0));
    assert_eq!(ranges[0].opened.color(), None);
    let categories = trace.categories();
    let named = |opened: &Annotation| categories[&(opened.about.domain, opened.about.category)].clone();
    assert_eq!(named(&ranges[1].opened), "early category");
    assert_eq!(named(&ranges[7].opened), "of the library");
    for (message, payload) in [
        ("u64", Payload::Unsigned(u64::MAX)),
        ("i64", Payload::Signed(-5)),
        ("double", Payload::Float(1.5)),
        ("u32", Payload::Unsigned(u32::MAX.into())),
        ("i32", Payload::Signed(-2)),
        ("float", Payload::Float(1.5)),
    ] {
        assert_eq!(marked(&trace, message).payload(), Some(payload), "{message}");
    }
    assert_eq!(marked(&trace, "wide mark").payload(), None);

    let names: Vec<_> = trace.annotations().filter(Annotation::is_name).map(|a| said(&a)).collect();
    let name = |what, text: &str, domain: &str| (what, text.to_string(), domain.to_string());
    let expected = [
        name(annotated::THREAD, "main thread", "-"),
        name(annotated::CATEGORY, "early category", "-"),
        name(annotated::DEVICE, "the device", "-"),
        name(annotated::CONTEXT, "the context", "-"),
        name(annotated::STREAM, "the stream", "-"),
        name(annotated::EVENT, "the event", "-"),
        name(annotated::THREAD, "wide thread", "-"),
        name(annotated::CATEGORY, "of the library", "library"),
    ];
    assert_eq!(names, expected);
    assert_eq!(marked(&trace, "main thread").about.subject, u64::from(trace.threads[0].os_id));
}

#[test]
fn annotations_are_shown_between_the_calls() {
    let place = Place::new();
    run(&mut place.recorded(annotating("annotated.c"))).expect(0);
    let dump = |arguments: &[&str]| run(place.cutrace(["dump"]).args(arguments)).expect(0).stdout;
    let all = dump(&[]);
    let line = |part: &str| {
        let found = all.lines().position(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("no {part:?} in\n{all}"))
    };
    assert!(line("nvtx push \"whole\"") < line("cuInit("));
    assert!(line("nvtx push \"coloured\"  category=early category  color=#ff8040c0") + 1 == line("cuCtxSynchronize("));
    assert!(line("nvtx name stream stream#1 \"the stream\"") < line("cuStreamDestroy_v2("));
    line("nvtx mark \"line\\nbreak\"");
    // As many as calls and annotations, and no message has broken a line.
    assert_eq!(all.lines().count(), 8 + 36);
    assert_eq!(dump(&["--limit", "3"]).lines().count(), 3);
    assert_eq!(dump(&["--grep", "nvtx mark"]).lines().count(), 9);
    // What stands before the call belongs to it.
    let only = dump(&["--calls", "6"]);
    assert!(only.lines().count() == 7 && only.lines().last().expect("a call").contains("cuCtxSynchronize"), "{only}");
    // From whichever call on, they name what the calls before have made.
    for from in 1..8 {
        let rest = dump(&["--calls", &format!("{from}..")]);
        assert!(all.ends_with(&rest), "from {from}:\n{rest}\nof\n{all}");
    }
    let objects: Vec<Value> =
        dump(&["--json"]).lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let found = |message: &str| objects.iter().find(|o| o["message"] == message).expect("shown").clone();
    let registered = found("registered");
    assert_eq!((&registered["annotation"], &registered["domain"]), (&"push".into(), &"library".into()));
    assert_eq!(registered["category"], "of the library");
    assert_eq!((&found("u64")["payload"], &found("i64")["payload"]), (&u64::MAX.into(), &(-5).into()));
    assert_eq!(found("the stream")["of"], "stream#1");
    assert_eq!(found("coloured")["color"], "#ff8040c0");

    let info = run(&mut place.cutrace(["info"])).expect(0).stdout;
    assert!(info.contains("annotations       8 ranges, 9 marks, 8 names, in 2 domains\n"), "{info}");
    // Nothing in it computes; what there is agrees.
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim"])).stdout;
    assert!(replayed.contains("  replayed     8 calls") && replayed.contains("8 return codes"), "{replayed}");
}

#[test]
fn a_program_that_only_annotates_leaves_nothing() {
    let place = Place::new();
    let ran = run(place.recorded(annotating("annotated.c")).arg("no call")).expect(0);
    assert_eq!(ran.stdout, "level -2\ndone\n");
    assert!(ran.said()[0].ends_with("made no CUDA driver call; nothing was recorded"), "{}", ran.stderr);
    place.no_traces();
}

#[test]
fn another_tool_keeps_its_place() {
    let place = Place::new();
    let mut command = place.recorded(annotating("annotated.c"));
    let ran = run(command.env("NVTX_INJECTION64_PATH", "/no/such/tool.so")).expect(0);
    let said = ran.said();
    assert_eq!(said.len(), 2, "{}", ran.stderr);
    assert!(said[0].contains("NVTX_INJECTION64_PATH is /no/such/tool.so"), "{}", said[0]);
    let trace = place.trace();
    assert_eq!((trace.len(), trace.annotations().count()), (8, 0));
}

#[test]
fn annotations_on_a_machine_without_a_driver() {
    let place = Place::new();
    let program = annotating("annotated.c");
    let mut command = place.command(&program);
    command.env("LD_PRELOAD", artifact("libcutrace.so")).env("NVTX_INJECTION64_PATH", artifact("libcutrace.so"));
    assert_eq!(run(command.arg("no call")).expect(0).stdout, "level -2\ndone\n");
    place.no_traces();
}

#[test]
fn what_nvtx_should_not_be_told() {
    const THREADS: usize = 16;
    const DEEP: usize = 200;
    let place = Place::new();
    let program = annotating("annotations.c");
    let arguments = [THREADS.to_string(), DEEP.to_string()];
    let bare = run(place.bare(&program).args(&arguments));
    let ran = run(place.recorded(&program).args(&arguments)).expect(0);
    place.same(&bare, &ran);
    let traces = place.traces();
    let [trace, child] = &traces[..] else { panic!("{:?}", place.trace_paths()) };
    // Of the child, what was said after its first call began, and before.
    let of_child: Vec<_> = child.annotations().map(|a| said(&a)).collect();
    assert_eq!(of_child, [(); 2].map(|()| (annotated::MARK, "registered \u{fc}".into(), "threads".into())));

    let marks: Vec<_> = trace.annotations().filter(|a| a.about.what == annotated::MARK).collect();
    let messages: Vec<_> = marks.iter().map(|a| a.message.as_deref().map(|m| m.chars().take(20).collect())).collect();
    let text = |text: &str| Some(text.to_string());
    let expected = [
        vec![None; 4],
        vec![text("later"), text("unknown payload")],
        vec![None; 7],
        vec![text(""), text("not UTF-8: \u{fffd}\u{fffd}"), text("w\u{fffd}\u{fffd}!"), text(&"e".repeat(20))],
    ]
    .concat();
    assert_eq!(messages, expected);
    assert_eq!(marks.last().and_then(|a| a.message.as_ref()).map(|m| m.len()), Some(1 << 16));
    let payloads: Vec<_> = marks[..6].iter().map(Annotation::payload).collect();
    let (known, unknown) = (Some(Payload::Unsigned(42)), Some(Payload::Unknown(42)));
    assert_eq!(payloads, [None, None, known, None, known, unknown]);
    assert_eq!(marks[3].about.category, 3);
    for (what, count) in [
        ("without a version or a size", 3),
        ("shorter than their version", 2),
        ("by a later NVTX", 1),
        ("payloads of annotations of a type", 1),
        ("messages of annotations of a type", 1),
        ("without registration", 2),
        ("beyond 64 KiB", 1),
    ] {
        let lost: Vec<_> = trace.losses.iter().filter(|(name, _)| name.contains(what)).map(|(_, n)| *n).collect();
        assert_eq!(lost, [count], "{what}: {:?}", trace.losses);
    }

    let info = run(&mut place.cutrace(["info"])).expect(0).stdout;
    assert!(
        info.contains("note: not recorded: texts of annotations beyond 64 KiB (1); replay does not need it"),
        "{info}"
    );
    assert!(!info.contains("lost: "), "{info}");
    assert!(info.contains("verdict: replayable\n"), "no replay needs what was lost: {info}");

    assert_eq!(trace.threads.len(), 1 + THREADS);
    let ranges = trace.annotated_ranges();
    assert_eq!(ranges.len(), THREADS * DEEP * 2);
    for (index, range) in ranges.iter().enumerate() {
        let of_domain = range.opened.domain.is_some();
        let text = if of_domain { "registered \u{fc}" } else { "inner" };
        assert_eq!(range.opened.message.as_deref(), Some(text));
        assert!(range.end.is_some() && (range.depth as usize) < DEEP, "range {index}");
    }
    for thread in 1..=THREADS as u32 {
        let depths = ranges.iter().filter(|r| r.opened.thread == thread && r.opened.domain.is_none()).map(|r| r.depth);
        assert!(depths.eq(0..DEEP as u32));
        let call = trace.calls().find(|call| call.thread == thread).expect("a call");
        let pushed = trace.annotations().filter(|a| a.thread == thread && a.about.time < call.begin).count();
        assert_eq!(pushed, 2 * DEEP, "a thread's first records are annotations");
    }
}
