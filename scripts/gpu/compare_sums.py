"""Sums of cutrace report (device-time reports as JSON) against those of an independent recorder (cupti_times.c): of each kernel
and each kind of copy or fill how many there were and how long they took in all; of copies also how many bytes.

    compare_sums.py ORIGINAL REPORT.json
"""
import collections
import json
import sys

COPIES = {1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device"}


def original(path):
    sums = collections.defaultdict(lambda: [0, 0, 0])
    for line in open(path, errors="replace"):
        kind, ns, name = line.rstrip("\n").split(" ", 2)
        bytes = 0
        if kind == "copy":
            way, bytes = map(int, name.split())
            name = f"[CUDA memcpy {COPIES.get(way, way)}]"
        elif kind == "fill":
            name, bytes = "[CUDA memset]", int(name)
        one = sums[name]
        one[0], one[1], one[2] = one[0] + 1, one[1] + int(ns), one[2] + bytes
    return sums


def reported(path):
    sums = collections.defaultdict(lambda: [0, 0, 0])
    for report in json.load(open(path))["reports"]:
        for row in report["rows"]:
            one = sums[row.get("Name") or row["Operation"]]
            if "Total Time (ns)" in row:
                one[0], one[1] = row.get("Instances") or row["Count"], row["Total Time (ns)"]
            else:
                one[2] = round(row["Total (MB)"] * 1e6)
    return sums


def main():
    theirs, ours = original(sys.argv[1]), reported(sys.argv[2])
    whole = sum(time for _, time, _ in theirs.values())
    both = theirs.keys() & ours.keys()
    same = sum(theirs[name][0] == ours[name][0] for name in both)
    print(f"  sums: {len(theirs)} names by CUPTI, {len(ours)} in the reports, {len(both)} in both, as often in {same} of them")
    for name in sorted(theirs.keys() | ours.keys()):
        if theirs[name][0] != ours[name][0]:
            print(f"    {theirs[name][0]:8} by CUPTI, {ours[name][0]:8} in the report: {name[:80]}")
    total = sum(ours[name][1] for name in both)
    print(f"    all: {whole / 1e6:.3f} ms by CUPTI, {total / 1e6:.3f} ms in the reports ({100 * (total / whole - 1):+.1f}%)")
    large = sorted((name for name in both if theirs[name][1] > whole / 50), key=lambda name: -theirs[name][1])
    for name in large[:8]:
        (_, time, bytes), (count, time_here, bytes_here) = theirs[name], ours[name]
        size = f", {bytes} and {bytes_here} bytes" if name.startswith("[") else ""
        print(f"    {time / 1e6:10.3f} ms {time_here / 1e6:10.3f} ms ({100 * (time_here / time - 1):+5.1f}%) {count:7} x {name[:60]}{size}")
    # Megabytes are written with three decimals.
    if any(abs(theirs[name][2] - ours[name][2]) > 1000 for name in both if name.startswith("[")):
        sys.exit("  FAILED: the reports' bytes are not those that CUPTI saw")
    if not both:
        sys.exit("  FAILED: nothing has the same name in both")


main()
