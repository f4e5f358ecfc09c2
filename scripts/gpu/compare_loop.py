"""What a call costs from a C loop, and from replay --loop of the same calls: loop_calls.c bare, and its trace.

    compare_loop.py CUTRACE LOOP_CALLS [--limit NS] [--driver sim]

Both are run several times by turns, since two processes differ by more than what is looked for. With --limit the exit status is 1
if a replay's call costs more than that beyond the C loop's.
The program finds the driver as programs do; for the simulated one LD_LIBRARY_PATH must lead to it under the name libcuda.so.1.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROUNDS, TURNS = 60, 5


def bare(program):
    lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    return {name: (int(calls), float(ns) / int(calls)) for name, calls, ns in map(str.split, lines)}


def replayed(cutrace, options, trace, name, calls):
    # The first of a kind may have work of its own: code that is loaded when it is first needed.
    command = [cutrace, "replay", *options, "--json", "--times", "events", "--loop", str(ROUNDS), "--nvtx", f"{name}#2", trace]
    looped = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["loop"]
    assert looped["calls"] == calls, looped
    return looped["host"]["median_ns"] / calls


def main():
    cutrace, program, *options = sys.argv[1:]
    limit = None
    if "--limit" in options:
        at = options.index("--limit")
        limit = float(options[at + 1])
        del options[at : at + 2]
    with tempfile.TemporaryDirectory() as place:
        trace = os.path.join(place, "loop.bin")
        record = [cutrace, "record", *options, "-o", trace, "--", program]
        subprocess.run(record, check=True, capture_output=True)
        loops, replays = {}, {}
        for _ in range(TURNS):
            for name, (calls, ns) in bare(program).items():
                loops.setdefault(name, []).append(ns)
                replays.setdefault(name, []).append(replayed(cutrace, options, trace, name, calls))
        elsewhere = replayed(cutrace, [*options, "--no-placement"], trace, "launches", calls)
    print(f"ns a call: medians of {TURNS} processes of {ROUNDS} rounds each, least and most of them")
    print(f"{'':10} {'C loop':>10} {'':>19} {'replay':>10} {'':>19} {'more':>8}")
    over = []
    for name, ours in replays.items():
        cells = []
        for ns in (loops[name], ours):
            cells.append(f"{statistics.median(ns):10.1f} {f'{min(ns):.1f} to {max(ns):.1f}':>19}")
        more = statistics.median(ours) - statistics.median(loops[name])
        print(f"{name:10} {' '.join(cells)} {more:+8.1f}")
        if limit is not None and more > limit:
            over.append(name)
    print(f"launches, nothing placed: {elsewhere:.1f}")
    if over:
        sys.exit(f"beyond {limit:.0f} ns: {', '.join(over)}")


main()
