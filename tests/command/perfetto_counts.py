"""Counts what is in a Perfetto trace, with Perfetto's own trace_processor; where that cannot be had, with its own schema.

Prints one JSON object: reader, slices {name: [count, ns]} of threads and of devices, threads, process, processes {pid: {name, slices
of threads}}, flows (slices that begin one), arrows {"call -> work": count}, kernels {name: launches}, tracks (names of those of
devices), counters {name: [points, the highest]}, fields {"function argument.field": values}, longest (the longest kernel, and
its grid)."""

import json
import os
import shutil
import sys


def by_processor(processor, path):
    rows = lambda sql: list(processor.query(sql))
    errors = rows("select name, value from stats where severity in ('error', 'data_loss') and value > 0")
    assert not errors, [(row.name, row.value) for row in errors]
    summed = "select name, count(*) as n, sum(dur) as ns from slice where track_id {} (select id from thread_track) group by name"
    slices, device = rows(summed.format("in")), rows(summed.format("not in"))
    arrows = (
        "select a.name || ' -> ' || b.name as name, count(*) as n from flow join slice a on flow.slice_out = a.id "
        "join slice b on flow.slice_in = b.id group by 1"
    )
    tracks = "select distinct track.name as name from slice join track on slice.track_id = track.id where track.id not in (select id from thread_track)"
    kernel = (
        "select args.string_value as name, count(*) as n from slice join args using (arg_set_id) "
        "where args.key = 'debug.kernel' group by 1"
    )
    counters = "select name, count(*) as n, max(value) as most from counter join counter_track on track_id = counter_track.id group by 1"
    processes = (
        "select pid, process.name as name, count(*) as n from slice join thread_track on track_id = thread_track.id "
        "join thread using (utid) join process using (upid) group by 1, 2"
    )
    fields = (
        "select slice.name || ' ' || substr(args.key, 7) as name, args.int_value as value from slice join args using (arg_set_id) "
        "where args.key glob 'debug.*.*' and args.int_value is not null"
    )
    grid = ", ".join(f"extract_arg(arg_set_id, 'debug.grid.{axis}') as {axis}" for axis in "xyz")
    longest = rows(f"select name, {grid} from slice where category = 'kernel' order by dur desc limit 1")
    values = {}
    for row in rows(fields):
        values.setdefault(row.name, set()).add(row.value)
    return {
        "reader": "trace_processor",
        "counters": {row.name: [row.n, int(row.most)] for row in rows(counters)},
        "processes": {row.pid: {"name": row.name, "slices": row.n} for row in rows(processes)},
        "fields": {name: sorted(all) for name, all in values.items()},
        "longest": [[row.name, [row.x, row.y, row.z]] for row in longest],
        "slices": {row.name: [row.n, row.ns] for row in slices},
        "device": {row.name: [row.n, row.ns] for row in device},
        "arrows": {row.name: row.n for row in rows(arrows)},
        "tracks": sorted(row.name for row in rows(tracks)),
        "threads": rows("select count(distinct utid) as n from thread_track")[0].n,
        "process": rows("select pid from process where pid > 0")[0].pid,
        # A flow without an end is in no table: what begins one is counted from the file.
        "flows": by_schema(path)["flows"],
        "kernels": {row.name: row.n for row in rows(kernel)},
    }


def flat(annotation, name, into):
    """The numbers of an annotation by the keys that trace_processor gives them."""
    for entry in annotation.dict_entries:
        flat(entry, f"{name}.{entry.name}", into)
    for index, element in enumerate(annotation.array_values):
        flat(element, f"{name}[{index}]", into)
    for kind in ("uint_value", "int_value"):
        if annotation.HasField(kind):
            into[name] = getattr(annotation, kind)


def by_schema(path):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

    trace = schema.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    names, annotations, slices, kernels, open_slices = {}, {}, {}, {}, {}
    threads, process, flows, device, tracks, used, begun, arrows = {}, None, 0, {}, {}, set(), {}, {}
    processes, counted, counters, fields, kernel_times = {}, {}, {}, {}, []
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            if packet.track_descriptor.HasField("thread"):
                threads[packet.track_descriptor.uuid] = packet.track_descriptor.thread.pid
            elif packet.track_descriptor.HasField("process"):
                process = packet.track_descriptor.process.pid
                processes[process] = {"name": packet.track_descriptor.process.process_name, "slices": 0}
            elif packet.track_descriptor.HasField("counter"):
                counted[packet.track_descriptor.uuid] = packet.track_descriptor.name
            else:
                tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
        for name in packet.interned_data.event_names:
            names[packet.trusted_packet_sequence_id, name.iid] = name.name
        for name in packet.interned_data.debug_annotation_names:
            annotations[packet.trusted_packet_sequence_id, name.iid] = name.name
        if not packet.HasField("track_event"):
            continue
        event, sequence = packet.track_event, packet.trusted_packet_sequence_id
        if event.type == schema.TrackEvent.TYPE_COUNTER:
            points, most = counters.get(counted[event.track_uuid], (0, event.counter_value))
            counters[counted[event.track_uuid]] = [points + 1, max(most, event.counter_value)]
            continue
        assert event.track_uuid in threads or event.track_uuid in tracks
        of = slices if event.track_uuid in threads else device
        used.add(event.track_uuid)
        stack = open_slices.setdefault(event.track_uuid, [])
        if event.type == schema.TrackEvent.TYPE_SLICE_BEGIN:
            name = event.name or names[sequence, event.name_iid]
            numbers = {}
            for annotation in event.debug_annotations:
                flat(annotation, annotations[sequence, annotation.name_iid], numbers)
            stack.append((name, packet.timestamp, numbers))
            for key, value in numbers.items():
                if "." in key:
                    fields.setdefault(f"{name} {key}", set()).add(value)
            if event.track_uuid in threads:
                processes[threads[event.track_uuid]]["slices"] += 1
            flows += len(event.flow_ids)
            # A slice is written before what it leads to.
            begun.update((flow, (name, packet.timestamp)) for flow in event.flow_ids)
            for flow in event.terminating_flow_ids:
                call, at = begun[flow]
                assert at <= packet.timestamp
                arrows[f"{call} -> {name}"] = arrows.get(f"{call} -> {name}", 0) + 1
            for annotation in event.debug_annotations:
                if annotations[sequence, annotation.name_iid] == "kernel":
                    kernels[annotation.string_value] = kernels.get(annotation.string_value, 0) + 1
        elif event.type == schema.TrackEvent.TYPE_INSTANT:
            of[event.name] = [of.get(event.name, (0, 0))[0] + 1, 0]
        else:
            assert event.type == schema.TrackEvent.TYPE_SLICE_END
            name, begin, numbers = stack.pop()
            if "grid.x" in numbers:
                kernel_times.append((packet.timestamp - begin, name, [numbers[f"grid.{axis}"] for axis in "xyz"]))
            count, total = of.get(name, (0, 0))
            of[name] = [count + 1, total + packet.timestamp - begin]
    # Work that nothing told to have finished has no end.
    ended = (stack for uuid, stack in open_slices.items() if "until known to have finished" not in tracks.get(uuid, ""))
    assert not any(ended)
    tracks = sorted(name for uuid, name in tracks.items() if uuid in used)
    found = {"device": device, "arrows": arrows, "tracks": tracks, "slices": slices, "threads": len(threads), "process": process, "flows": flows, "kernels": kernels}
    fields = {name: sorted(values) for name, values in fields.items()}
    longest = [list(row[1:]) for row in sorted(kernel_times, key=lambda row: -row[0])[:1]]
    return {"reader": "schema", "processes": processes, "counters": counters, "fields": fields, "longest": longest, **found}


# scripts/perfetto leaves the one or the other where it could be fetched: no test goes to the network.
engine = os.path.join(sys.prefix, "engine")
if os.path.exists(os.path.join(sys.prefix, "has_trace_processor")):
    from perfetto.trace_processor import TraceProcessor

    counts = by_processor(TraceProcessor(trace=sys.argv[1]), sys.argv[1])
elif os.path.exists(os.path.join(engine, "engine_bundle.js")) and shutil.which("node"):
    from trace_processor import TraceProcessor

    counts = by_processor(TraceProcessor(sys.argv[1], engine), sys.argv[1])
else:
    counts = by_schema(sys.argv[1])
print(json.dumps(counts))
