"""What a call costs from a C loop, and from replay --loop of the same calls: loop_calls.c bare, and its trace.

    compare_loop.py CUTRACE LOOP_CALLS [--driver sim]

The program finds the driver as programs do; for the simulated one LD_LIBRARY_PATH must lead to it under the name libcuda.so.1.
"""
import json
import os
import subprocess
import sys
import tempfile

ROUNDS = 60


def main():
    cutrace, program, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        trace = os.path.join(place, "loop.bin")
        bare = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        record = [cutrace, "record", *options, "-o", trace, "--", program]
        subprocess.run(record, check=True, capture_output=True)
        print(f"{'':10} {'calls':>6} {'C loop':>10} {'replay':>10} {'more':>10}   ns a call, median of {ROUNDS}")
        for line in bare.splitlines():
            name, calls, ns = line.split()
            # The first of a kind may have work of its own: code that is loaded when it is first needed.
            command = [cutrace, "replay", *options, "--json", "--times", "events", "--loop", str(ROUNDS), "--nvtx", f"{name}#2", trace]
            looped = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["loop"]
            assert looped["calls"] == int(calls), looped
            ours, theirs = looped["host"]["median_ns"] / int(calls), float(ns) / int(calls)
            print(f"{name:10} {calls:>6} {theirs:10.1f} {ours:10.1f} {ours - theirs:+10.1f}")


main()
