"""Median times of kernels, copies and fills, side by side: as CUPTI saw them in the original run (cupti_times.c), and as
replays measured them (cutrace dump --json of timed traces).

    compare_times.py ORIGINAL BY_CUPTI.jsonl BY_EVENTS.jsonl
"""
import collections
import json
import statistics
import sys

TOLERANCE, LONG = 5.0, 20_000


def original(path):
    times = collections.defaultdict(list)
    with open(path, errors="replace") as lines:
        for line in lines:
            kind, ns, name = line.rstrip("\n").split(" ", 2)
            times[(kind, name)].append(int(ns))
    if not times:
        sys.exit(f"  FAILED: {path} is empty: CUPTI saw nothing in the original run, so nothing is compared")
    return times


COPIES = {"Host-to-Device": 1, "Device-to-Host": 2, "Device-to-Device": 8}


def replayed(path):
    times, last = collections.defaultdict(list), None
    for line in open(path, errors="replace"):
        if '"device_work"' not in line:
            continue
        work = json.loads(line)
        kind, name = work["kind"], work["device_work"]
        if kind == "copy":
            way = next((n for text, n in COPIES.items() if text in name), 0)
            name = f"{way} {work['bytes']}"
        elif kind == "fill":
            name = str(work["bytes"])
        times[(kind, name)].append(work["duration_ns"])
    return times


def cell(times, reference):
    if not times:
        return f"{'-':>10} {'':>8}", None
    median = statistics.median(times)
    off = 100 * (median - reference) / reference if reference else 0
    return f"{median / 1000:10.2f} {off:+7.1f}%", off


def main():
    first, *others = original(sys.argv[1]), *map(replayed, sys.argv[2:])
    order = sorted(first, key=lambda key: -sum(first[key]))
    print(f"{'original us':>11} {'times':>6}  {'by CUPTI':>10} {'':>8} {'times':>6}  {'by events':>10} {'':>8} {'times':>6}  name")
    worst = [[], []]
    for key in order[:24]:
        median = statistics.median(first[key])
        cells = []
        for column, times in enumerate(others):
            text, off = cell(times.get(key), median)
            cells.append(f"{text} {len(times.get(key, [])):6}")
        print(f"{median / 1000:11.2f} {len(first[key]):6}  {cells[0]}  {cells[1]}  {key[0]} {key[1][:60]}")
    for key in first:
        median = statistics.median(first[key])
        for column, times in enumerate(others):
            if key[0] == "kernel" and median >= LONG and times.get(key):
                worst[column].append((abs(100 * (statistics.median(times[key]) - median) / median), key[1]))
    for name, offs in zip(("CUPTI", "events"), worst):
        if not offs:
            print(f"  by {name}: no kernel of {LONG // 1000} us or more is in both")
            continue
        beyond = [f"{off:.1f}% {kernel[:60]}" for off, kernel in sorted(offs, reverse=True) if off > TOLERANCE]
        said = f"beyond {TOLERANCE:.0f}%: {'; '.join(beyond[:5])}" if beyond else f"all within {TOLERANCE:.0f}%"
        print(f"  by {name}: {len(offs)} kernels of {LONG // 1000} us or more in both, {said}")
    counted = [sum(map(len, times.values())) for times in (first, *others)]
    print(f"  works: original {counted[0]}, by CUPTI {counted[1]}, by events {counted[2]} (by events a graph is one work)")
    if not counted[1]:
        sys.exit("  FAILED: the replay by CUPTI was not timed")
    if not first.keys() & others[0].keys():
        sys.exit("  FAILED: nothing of the original has the same name in the replay by CUPTI")


main()
