//! Record and replay of each program of tests/apps, three times, each time with memory elsewhere.

use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use tests::*;
use trace::file::segment::Kind;

/// Records, looks, replays. `kernels` are launched by the program, and shown by their names.
fn there_and_back(app: &str, verdict: &str, kernels: &[&str]) {
    let program = program(app);
    let bare = run(on(&mut Place::new().bare(&program), "1")).expect(0);
    for seed in ["1", "2", "3"] {
        let place = Place::new();
        let recorded = run(on(&mut place.recorded(&program), seed));
        place.same(&bare, &recorded);
        let [line] = recorded.said()[..] else { panic!("one closing line was expected: {}", recorded.stderr) };
        // Of polls in a row that are alike one stands for all.
        let (calls, made) = (place.trace().len(), place.trace().calls_made());
        assert!(line.starts_with(&format!("cutrace: trace.bin: {} calls, ", grouped(made as usize))), "{line}");

        let info = run(&mut place.cutrace(["info", "--json"])).expect(0);
        let info: Value = serde_json::from_str(&info.stdout).expect("JSON");
        assert_eq!(info["schema"], 1);
        assert_eq!(info["calls"], made);
        assert_eq!(info["verdict"], verdict, "{}", info["reasons"]);
        assert_eq!(info["reasons"].as_array().map(Vec::is_empty), Some(verdict == "replayable"));
        let mut losses = info["losses"].as_array().expect("an array").iter();
        assert!(losses.all(|loss| loss["replay_needs_it"] == false), "{}", info["losses"]);
        let functions = info["functions"].as_object().expect("name to count");
        assert_eq!(functions.values().map(|n| n.as_u64().expect("a number")).sum::<u64>(), made);

        let dump = run(&mut place.cutrace(["dump"])).expect(0);
        // What the CPU wrote without a call stands between them.
        let numbered = |line: &&str| line.split_whitespace().next().is_some_and(|word| word.parse::<u64>().is_ok());
        assert_eq!(dump.stdout.lines().filter(numbered).count(), calls);
        for kernel in kernels {
            let launched = |line: &str| line.contains("Launch") && line.contains(kernel);
            assert!(dump.stdout.lines().any(launched), "no launch of {kernel} in\n{}", dump.stdout);
        }
        let dump = run(&mut place.cutrace(["dump", "--json"])).expect(0);
        for (number, line) in objects(&dump.stdout).iter().enumerate() {
            assert_eq!(line["call"], number);
        }

        for elsewhere in [seed, "99"] {
            let mut replay = place.cutrace(["replay", "--driver", "sim"]);
            let replayed = run(on(&mut replay, elsewhere)).expect(0);
            assert!(is_verified(&replayed.stdout), "{}", replayed.stdout);
        }
    }
}

/// Two devices, and addresses that come of the seed.
pub fn on<'c>(command: &'c mut Command, seed: &str) -> &'c mut Command {
    command.env("CUTRACE_SIM_SEED", seed).env("CUTRACE_SIM_DEVICES", "2")
}

/// A name that ends in `+` is built for per-thread default streams: it then calls the twins.
pub fn program(app: &str) -> PathBuf {
    match app.strip_suffix('+') {
        Some(app) => client_with(app, &["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"]),
        None => client(app),
    }
}

fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|g| str::from_utf8(g).expect("digits")).collect();
    groups.join(",")
}

macro_rules! workloads {
    ($($name:ident $file:literal $verdict:literal [$($kernel:literal),*];)*) => {
        /// All of them.
        pub const PROGRAMS: &[&str] = &[$($file),*];

        $(
            #[test]
            fn $name() {
                there_and_back($file, $verdict, &[$($kernel),*]);
            }
        )*
    };
}

workloads! {
    vector_add "vector_add.c" "replayable" ["vector_add"];
    matrix_product "matrix_product.c" "replayable" ["matrix_product"];
    reduction "reduction.c" "replayable" ["tree_sum", "warp_sum"];
    histogram "histogram.c" "replayable" ["histogram"];
    linked_list "linked_list.c" "replayable" ["list_sum", "list_build"];
    managed_variables_again "managed_variables_again.c" "replayable" ["follow"];
    managed_variables "managed_variables.c" "replayable" ["follow"];
    managed_variable_copies "managed_variable_copies.c" "replayable" [];
    struct_by_value "struct_by_value.c" "replayable" ["run_job"];
    globals "globals.c" "replayable" ["use_globals"];
    function_pointers "function_pointers.c" "replayable" ["apply", "apply_all"];
    packed_arguments "packed_arguments.c" "replayable" ["scale_quads"];
    no_arguments "no_arguments.c" "replayable" ["count_up"];
    kernel_libraries "kernel_libraries.c" "replayable" ["add_two", "twice"];
    two_contexts "two_contexts.c" "replayable" ["add_two", "twice"];
    detached_context "detached_context.c" "replayable" ["add_two"];
    waits_for_other_context "waits_for_other_context.c" "replayable" ["busy"];
    linking "linking.c" "replayable" ["weigh_all"];
    elapsed_time "elapsed_time.c" "replayable" [];
    elapsed_time_of_two_streams "elapsed_time_of_two_streams.c" "replayable" ["busy", "add_two"];
    streams_events "streams_events.c" "replayable" ["add_two", "twice"];
    pending_copies "pending_copies.c" "replayable" [];
    unified_copies "unified_copies.c" "replayable" [];
    pinned_sources_many "pinned_sources_many.c" "replayable" [];
    managed_results "managed_results.c" "replayable" ["pass", "take"];
    managed_copies "managed_copies.c" "replayable" [];
    managed_copies_per_thread "managed_copies.c+" "replayable" [];
    capture_beside_thread_stream "capture_beside_thread_stream.c" "replayable" [];
    callback_beside_launch_on_page "callback_beside_launch_on_page.c" "replayable" [];
    stream_values_in_turn "stream_values_in_turn.c" "replayable" ["twice"];
    node_arguments_given_back "node_arguments_given_back.c" "replayable" ["twice"];
    updatable_nodes "updatable_nodes.c" "replayable" ["twice"];
    gated_copies "gated_copies.c" "replayable" ["wait_for_host"];
    stream_released_by_thread "stream_released_by_thread.c" "replayable" ["set", "wait"];
    stream_value_released "stream_value_released.c" "replayable" ["add_two"];
    launch_long_before_copies "launch_long_before_copies.c" "replayable" ["busy"];
    copies_known_by_other_waits "copies_known_by_other_waits.c" "replayable" ["busy"];
    outputs_over_inputs "outputs_over_inputs.c" "replayable" [];
    copy_over_own_description "copy_over_own_description.c" "replayable" [];
    variables_linked_by_kernel "variables_linked_by_kernel.c" "replayable" ["string_up", "sum_up"];
    launch_blocking "launch_blocking.c" "replayable" ["pass", "take"];
    copies_beyond_allocation "copies_beyond_allocation.c" "replayable" [];
    pools "pools.c" "replayable" ["twice"];
    freed_memory_of_other_stream "freed_memory_of_other_stream.c" "replayable" ["add_to"];
    freed_memory_of_other_context "freed_memory_of_other_context.c" "replayable" ["add_to"];
    two_pools "two_pools.c" "replayable" ["twice"];
    pool_of_limited_size "pool_of_limited_size.c" "replayable" [];
    expandable_segments "expandable_segments.c" "replayable" ["twice"];
    addresses "addresses.c" "replayable" ["sum_spans", "sum_tight"];
    graph_memory "graph_memory.c" "replayable" ["twice"];
    graph_memory_outlives "graph_memory_outlives.c" "replayable" [];
    capture_memory "capture_memory.c" "replayable" ["twice"];
    graph_memory_left "graph_memory_left.c" "replayable" [];
    free_waits "free_waits.c" "replayable" [];
    failures_explained "failures_explained.c" "replayable" [];
    virtual_memory "virtual_memory.c" "replayable" ["twice"];
    pitched_copies "pitched_copies.c" "replayable" [];
    large_copies "large_copies.c" "replayable" [];
    graphs "graphs.c" "replayable" ["add_two", "twice"];
    graph_results "graph_results.c" "replayable" ["twice"];
    results_taken_by_callback "results_taken_by_callback.c" "replayable" [];
    callbacks_in_a_row "callbacks_in_a_row.c" "replayable" [];
    graph_node_retried "graph_node_retried.c" "replayable" ["twice"];
    capture_never_run "capture_never_run.c" "replayable" [];
    conditional_graph "conditional_graph.c" "replayable" [];
    batch_copies "batch_copies.c" "replayable" [];
    batch_attributes "batch_attributes.c" "replayable" [];
    context_memory "context_memory.c" "replayable" [];
    ordered_memory "ordered_memory.c" "replayable" [];
    texture "texture.c" "replayable" ["sample"];
    graph_changes "graph_changes.c" "replayable" [];
    graph_inputs "graph_inputs.c" "replayable" ["take"];
    callbacks "callbacks.c" "replayable" [];
    calls_in_callbacks "calls_in_callbacks.c" "replayable" [];
    staging_slots_by_threads "staging_slots_by_threads.c" "replayable" ["busy", "take"];
    stream_shared_by_threads "stream_shared_by_threads.c" "replayable" [];
    staging_ring_of_workers "staging_ring_of_workers.c" "replayable" ["take"];
    callback_write_read_by_other_stream "callback_write_read_by_other_stream.c" "replayable" ["take"];
    callback_write_before_copy "callback_write_before_copy.c" "replayable" [];
    cpu_write_while_recorded "cpu_write_while_recorded.c" "replayable" ["pass"];
    pinned_parts_of_threads "pinned_parts_of_threads.c" "replayable" ["pass", "take"];
    mapped_results "mapped_results.c" "replayable" ["take", "pass"];
    mapped_results_long "mapped_results_long.c" "replayable" ["take"];
    pinned_reused "pinned_reused.c" "replayable" ["take", "busy", "pass"];
    kernel_spins_on_pinned "kernel_spins_on_pinned.c" "replayable" ["wait_for_host"];
    kernel_spins_on_managed "kernel_spins_on_managed.c" "replayable" ["wait_for_host", "take"];
    refused_fill "refused_fill.c" "replayable" ["take"];
    mapped_input "mapped_input.c" "replayable" ["take"];
    mapped_threads "mapped_threads.c" "replayable" ["take"];
    registered_stack_word "registered_stack_word.c" "replayable" ["grow"];
    shared_mapping "shared_mapping.c" "replayable" ["take"];
    shared_pages "shared_pages.c" "replayable" ["take"];
    writes_by_system_calls "writes_by_system_calls.c" "replayable" ["take"];
    pinned_by_device_address "pinned_by_device_address.c" "replayable" [];
    host_nodes "host_nodes.c" "replayable" [];
    callback_between_nodes "callback_between_nodes.c" "replayable" ["take"];
    pinned_borrowed_by_thread "pinned_borrowed_by_thread.c" "replayable" ["take"];
    slow_callbacks "slow_callbacks.c" "replayable" ["take"];
    hidden_memory "hidden_memory.c" "partly" ["take"];
    exported_in_process "exported_in_process.c" "replayable" ["twice"];
    hidden_tables "hidden_tables.c" "replayable" ["add_two", "twice"];
    every_copy "every_copy.c" "replayable" [];
    every_copy_per_thread "every_copy.c+" "replayable" [];
    every_question "every_question.c" "replayable" [];
    every_question_per_thread "every_question.c+" "replayable" [];
    every_node "every_node.c" "replayable" [];
    device_graph "device_graph.c" "replayable" ["sum_span"];
    older_forms "older_forms.c" "replayable" ["weigh_all"];
    printing "printing.c" "replayable" ["speak"];
    printf_overflows "printf_overflows.c" "replayable" ["speak"];
    textures_stored "textures_stored.c" "replayable" ["sample_stored"];
    textures_of_contexts "textures_of_contexts.c" "replayable" ["sample_stored"];
    no_context "no_context.c" "replayable" ["twice"];
    green_context_ends "green_context_ends.c" "replayable" [];
    kinds_of_memory "kinds_of_memory.c" "replayable" [];
    kinds_of_memory_per_thread "kinds_of_memory.c+" "replayable" [];
    kinds_of_waits "kinds_of_waits.c" "replayable" ["add_two"];
    stream_operations "stream_operations.c" "replayable" ["add_two"];
    stream_operations_per_thread "stream_operations.c+" "replayable" ["add_two"];
    covered_arrays "gpu/coverage/arrays.c" "replayable" [];
    covered_batches "gpu/coverage/batches.c" "replayable" [];
    covered_code "gpu/coverage/code.c" "replayable" [];
    covered_contexts "gpu/coverage/contexts.c" "replayable" [];
    covered_devices "gpu/coverage/devices.c" "replayable" [];
    covered_graphs "gpu/coverage/graphs.c" "replayable" [];
    covered_green_contexts "gpu/coverage/green_contexts.c" "replayable" ["twice"];
    covered_memory "gpu/coverage/memory.c" "replayable" [];
    covered_old_arrays "gpu/coverage/old_arrays.c" "replayable" [];
    covered_old_launches "gpu/coverage/old_launches.c" "replayable" [];
    covered_peers "gpu/coverage/peers.c" "replayable" [];
    covered_streams "gpu/coverage/streams.c" "replayable" ["twice"];
    tensor_map "tensor_map.c" "replayable" [];
    covered_tensor_maps "gpu/coverage/tensor_maps.c" "replayable" [];
    covered_texture_references "gpu/coverage/texture_references.c" "replayable" [];
    newer_than_header "newer_than_header.c" "replayable" [];
    failing_calls "failing_calls.c" "replayable" [];
    stale_handles "stale_handles.c" "replayable" [];
    out_of_memory "out_of_memory.c" "replayable" [];
}

/// What a copy brought is known at the synchronisation that covers it, whatever that is; what nobody waited
/// for is not.
#[test]
fn copies_are_observed_when_somebody_may_look() {
    let place = Place::new();
    run(&mut place.recorded(client("pending_copies.c"))).expect(0);
    let trace = place.trace();
    let copies =
        calls_named(&trace, "cuMemcpyDtoHAsync_v2").into_iter().chain(calls_named(&trace, "cuMemcpyDtoHAsync_v2_ptsz"));
    let seen: Vec<Option<bool>> = copies
        .map(|copy| match copy.images().next().expect("an image of the destination").content {
            trace::read::call::Content::Hash { late, .. } => Some(late),
            trace::read::call::Content::Lost => None,
            other => panic!("call {}: {other:?}", copy.number),
        })
        .collect();
    // Behind an event, a chain of streams, the legacy stream, a copy that waits, a poll, a thread's own
    // stream, a context; and the last one's memory was given back.
    let count = |wanted| seen.iter().filter(|seen| **seen == wanted).count();
    assert_eq!((count(Some(false)), count(Some(true)), count(None)), (9, 0, 1), "{seen:?}");
}

/// The simulated driver's printf has the room that an H200 has for this limit: the oldest lines are lost.
#[test]
fn what_printf_has_no_room_for_is_lost() {
    let ran = run(&mut Place::new().bare(client("printf_overflows.c"))).expect(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let ends = [lines.first(), lines.last()].map(|line| *line.expect("lines"));
    assert_eq!(ends, ["block 952: value 5", "block 2999: value 5"]);
    assert_eq!(lines.len(), 524_288 / 256, "the least room, and what each call takes of it");
}

/// A record that outgrows one chunk after the other leaves nothing of them behind. (Not among the workloads:
/// a replay of so many copies takes seconds.)
#[test]
fn long_records_take_no_more_than_they_hold() {
    let place = Place::new();
    run(&mut place.recorded(client("large_batches.c"))).expect(0);
    let trace = place.trace();
    let (verdict, reasons) = trace.footer.as_ref().map(|footer| (&footer.verdict, &footer.reasons)).expect("closed");
    assert_eq!(verdict, "replayable", "{reasons:?}");
    let chunks: Vec<u64> = trace
        .segments
        .iter()
        .filter(|(_, h)| h.kind == Kind::Chunk && h.thread == 0)
        .map(|(_, h)| h.ordinal())
        .collect();
    assert!(chunks.len() > 1 && chunks.iter().all(|ordinal| *ordinal < chunks.len() as u64), "{chunks:?}");
    // Two records of 6 and 1.2 MiB.
    let held = std::fs::metadata(&trace.path).expect("a file").blocks() * 512;
    assert!(held < 10 << 20, "{held} bytes are held");
    assert!(trace.bytes_on_disk() < 32 << 20, "the file is {} bytes long", trace.bytes_on_disk());
    let replayed = run(&mut place.cutrace(["replay", "--driver", "sim"])).expect(0);
    assert!(is_verified(&replayed.stdout), "{}", replayed.stdout);
}
