"""Counts what is in a Perfetto trace, with Perfetto's own trace_processor; where that cannot be had, with its own schema.

Prints one JSON object: reader, slices {name: [count, ns]} of threads and of devices, threads, process, flows (slices that
begin one), arrows {"call -> work": count}, kernels {name: launches}, tracks (names of those of devices)."""

import json
import os
import sys


def by_processor(path):
    from perfetto.trace_processor import TraceProcessor

    processor = TraceProcessor(trace=path)
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
    return {
        "reader": "trace_processor",
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


def by_schema(path):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

    trace = schema.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    names, annotations, slices, kernels, open_slices = {}, {}, {}, {}, {}
    threads, process, flows, device, tracks, used, begun, arrows = set(), None, 0, {}, {}, set(), {}, {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            if packet.track_descriptor.HasField("thread"):
                threads.add(packet.track_descriptor.uuid)
            elif packet.track_descriptor.HasField("process"):
                process = packet.track_descriptor.process.pid
            else:
                tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
        for name in packet.interned_data.event_names:
            names[name.iid] = name.name
        for name in packet.interned_data.debug_annotation_names:
            annotations[name.iid] = name.name
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        assert event.track_uuid in threads or event.track_uuid in tracks
        of = slices if event.track_uuid in threads else device
        used.add(event.track_uuid)
        stack = open_slices.setdefault(event.track_uuid, [])
        if event.type == schema.TrackEvent.TYPE_SLICE_BEGIN:
            name = event.name or names[event.name_iid]
            stack.append((name, packet.timestamp))
            flows += len(event.flow_ids)
            # A slice is written before what it leads to.
            begun.update((flow, (name, packet.timestamp)) for flow in event.flow_ids)
            for flow in event.terminating_flow_ids:
                call, at = begun[flow]
                assert at <= packet.timestamp
                arrows[f"{call} -> {name}"] = arrows.get(f"{call} -> {name}", 0) + 1
            for annotation in event.debug_annotations:
                if annotations[annotation.name_iid] == "kernel":
                    kernels[annotation.string_value] = kernels.get(annotation.string_value, 0) + 1
        elif event.type == schema.TrackEvent.TYPE_INSTANT:
            of[event.name] = [of.get(event.name, (0, 0))[0] + 1, 0]
        else:
            assert event.type == schema.TrackEvent.TYPE_SLICE_END
            name, begin = stack.pop()
            count, total = of.get(name, (0, 0))
            of[name] = [count + 1, total + packet.timestamp - begin]
    assert not any(open_slices.values())
    tracks = sorted(name for uuid, name in tracks.items() if uuid in used)
    found = {"device": device, "arrows": arrows, "tracks": tracks, "slices": slices, "threads": len(threads), "process": process, "flows": flows, "kernels": kernels}
    return {"reader": "schema", **found}


# scripts/perfetto leaves this where trace_processor could be fetched: no test goes to the network.
if os.path.exists(os.path.join(sys.prefix, "has_trace_processor")):
    counts = by_processor(sys.argv[1])
else:
    counts = by_schema(sys.argv[1])
print(json.dumps(counts))
