# Parts that measure: calls, what recording costs, device times, replays in a loop.

# Calls of each function, by cutrace and by CUPTI, in one and the same process.
part_counts() {
    printf '\ncounts by function, cutrace against CUPTI callbacks in the same process\n'
    local cupti; cupti=$(find / -name 'libcupti.so.13*' -not -path '/proc/*' 2>/dev/null | head -1)
    for name in torch_train triton_add cupy_small jax_small; do
        LD_LIBRARY_PATH=$(dirname "$cupti"):$LD_LIBRARY_PATH CUPTI_COUNTS=$logs/$name.cupti LD_PRELOAD=$in/libcupti_counts.so \
            "$cutrace" record -o "$work/$name.bin" -- python3 "$name.py" >/dev/null 2>"$logs/$name.counts.err"
        "$cutrace" info --json "$work/$name.bin" >"$logs/$name.counts.json"
        python3 - "$name" "$logs/$name.counts.json" "$logs/$name.cupti" <<'PY'
import json, sys
name, ours, theirs = sys.argv[1], json.load(open(sys.argv[2]))["functions"], {}
for line in open(sys.argv[3]):
    function, count = line.split()
    theirs[function] = int(count)
different = {f: (ours.get(f, 0), theirs.get(f, 0)) for f in sorted(set(ours) | set(theirs)) if ours.get(f, 0) != theirs.get(f, 0)}
print(f"{name:14} {sum(ours.values()):9} calls here, {sum(theirs.values()):9} by CUPTI, {len(set(ours) | set(theirs)):4} functions, {len(different)} differ")
for function, (a, b) in different.items():
    print(f"    {function:44} {a:9} {b:9}")
PY
        rm -f "$work/$name.bin"
    done
}

part_overhead() {
    printf '\nadded by recording\n'
    "$bench" --in "$in" --torch "$in/torch_train.py"
}

# When the device did what, by replay --profile, against what CUPTI saw in the original run.
part_profile() {
    printf '\ndevice times: CUPTI on the original run, and replays of its trace\n'
    local cupti trace=$work/profile.bin source program
    cupti=$(find / -name 'libcupti.so.13*' -not -path '/proc/*' 2>/dev/null | head -1)
    compared() {
        local name=$1; shift
        printf '\n%s\n' "$name"
        rm -f "$logs/$name.times"
        timeout 120 env LD_LIBRARY_PATH="$(dirname "$cupti"):$LD_LIBRARY_PATH" CUPTI_TIMES="$logs/$name.times" \
            LD_PRELOAD="$in/libcupti_times.so" "$@" >"$logs/$name.times.out" 2>&1 || failed "the original run under CUPTI, see the log"
        if [ ! -s "$logs/$name.times" ] || grep '^cupti_times:' "$logs/$name.times.out"; then
            failed "CUPTI did not see all of the original run of $name"
        fi
        rm -f "$trace"
        timeout 120 "$cutrace" record -o "$trace" -- "$@" >/dev/null 2>>"$logs/profile.err"
        for source in cupti events; do
            rm -f "$work/$source.bin"
            timeout 300 "$cutrace" replay --profile --times $source -o "$work/$source.bin" "$trace" >"$logs/$name.$source" 2>&1 ||
                failed "replay --profile --times $source: exit $?"
            grep -E '^(verified|diverged|unverified|cutrace:)|^ +(timed|not timed|replayed)' "$logs/$name.$source" | sed "s/^/  $source: /"
            "$cutrace" dump --json "$work/$source.bin" >"$work/$source.jsonl" 2>>"$logs/profile.err"
        done
        [ ! -s "$logs/$name.times" ] || python3 compare_times.py "$logs/$name.times" "$work/cupti.jsonl" "$work/events.jsonl" 2>&1 ||
            failed "nothing to compare for $name"
        "$cutrace" report --mangled --format json -r cuda_gpu_kern_sum,cuda_gpu_mem_time_sum,cuda_gpu_mem_size_sum "$work/cupti.bin" \
            >"$logs/$name.report.json" 2>>"$logs/profile.err"
        [ ! -s "$logs/$name.times" ] || python3 compare_sums.py "$logs/$name.times" "$logs/$name.report.json" 2>&1 ||
            failed "the sums of the reports of $name"
    }
    compared timed_kernels ./timed_kernels
    compared runtime_graph_static ./runtime_graph_static
    for program in torch_train torch_decode; do compared $program python3 $program.py; done
}

# Device times of the recorded run itself: of how much of the work, at what cost, and beside a program with a profiler of its own.
part_gpu_times() {
    local trace=$work/times.bin name
    # A fact of what info says in JSON, by its path; - if it is not there.
    fact() {
        "$cutrace" info --json "$1" 2>>"$logs/gpu_times.err" | python3 -c '
import json, sys
told = json.load(sys.stdin)
for key in sys.argv[1].split("."):
    told = told.get(key) if isinstance(told, dict) else None
print("-" if told is None else told)' "$2" 2>>"$logs/gpu_times.err"
    }
    printf '\nrecord --gpu-times: works with times / works of a replay by CUPTI; kernel times of both, by their sums\n'
    printf '%-20s %-8s %17s %12s %12s  %s\n' program output 'works with times' recorded replayed 'not timed'
    device_time() {
        "$cutrace" report --format json -r cuda_gpu_sum "$1" 2>>"$logs/gpu_times.err" | python3 -c '
import json, sys
def rows(node):
    if isinstance(node, dict):
        if "Total Time (ns)" in node: yield node["Total Time (ns)"]
        node = list(node.values())
    if isinstance(node, list):
        for part in node: yield from rows(part)
print(f"{sum(rows(json.load(sys.stdin))) / 1e6:.3f} ms")' 2>>"$logs/gpu_times.err"
    }
    beside() {
        local name=$1 same=same untimed; shift
        [[ $name =~ $only ]] || return 0
        rm -f "$trace" "$work/replayed.bin"
        timeout 120 "$@" >"$work/$name.bare" 2>"$logs/$name.bare.err" || same="bare $?"
        timeout 120 "$cutrace" record --gpu-times -o "$trace" -- "$@" >"$work/$name.out" 2>"$logs/$name.gpu_times.err" || same="exit $?"
        cmp -s <(normal "$work/$name.bare") <(normal "$work/$name.out") || same=DIFFERS
        timeout 300 "$cutrace" replay --profile --times cupti -o "$work/replayed.bin" "$trace" >"$logs/$name.gpu_times.replay" 2>&1
        untimed=$(fact "$trace" device_times.untimed)
        printf '%-20s %-8s %8s/%8s %12s %12s  %s\n' "$name" "$same" "$(fact "$trace" device_times.works)" \
            "$(fact "$work/replayed.bin" device_times.works)" "$(device_time "$trace")" "$(device_time "$work/replayed.bin")" "$untimed"
        grep -E 'device times are recorded' "$logs/$name.gpu_times.err" | sed 's/^/    /'
        [ "$same" = same ] || failed "$name recorded with --gpu-times: $same"
        if [ "$(fact "$trace" device_times.works)" != "$(fact "$work/replayed.bin" device_times.works)" ]; then
            failed "$name: not all of its work has times, see $name.gpu_times.err"
        fi
    }
    export KERNELS=$in/kernels
    for name in vector_add streams_events graphs two_contexts every_copy; do beside $name ./$name; done
    beside timed_kernels ./timed_kernels
    beside runtime_graph ./runtime_graph_static
    beside torch_train python3 torch_train.py
    beside cupy_graphs python3 cupy_graphs.py
    beside triton_add python3 triton_add.py
    beside jax_small python3 jax_small.py

    printf '\na program with CUPTI of its own\n'
    if [[ torch_profiler =~ $only ]]; then
        rm -f "$trace"
        timeout 120 "$cutrace" record --gpu-times -o "$trace" -- python3 torch_profiler.py >"$work/profiler.out" 2>"$logs/torch_profiler.gpu_times.err"
        printf '%-20s exit %s, %s; %s works with times\n' torch_profiler $? \
            "$(grep -m1 -E 'Self CUDA time total: [1-9]' "$work/profiler.out" || echo 'its profiler has NO device times')" "$(fact "$trace" device_times.works)"
        grep -E 'device times are recorded' "$logs/torch_profiler.gpu_times.err" | sed 's/^/    /' | grep . || failed "nothing is said of PyTorch's use of CUPTI"
        grep -qE 'Self CUDA time total: [1-9]' "$work/profiler.out" || failed "PyTorch's profiler does not work beside --gpu-times"
    fi

    printf '\nwhat it costs: ns a call, recorded without and with --gpu-times\n'
    for name in off on; do
        timeout 200 "$cutrace" record --data none $([ $name = off ] || echo --gpu-times) -o "$work/bench.$name.bin" -- ./bench >"$work/bench.$name" 2>>"$logs/gpu_times.err"
        rm -f "$work/bench.$name.bin"
    done
    python3 - "$work/bench.off" "$work/bench.on" <<'PY'
import re, sys
def told(path):
    lines = (re.match(r"(.{22}) +([\d.]+) ns/call", line) for line in open(path))
    return {found[1].strip(): float(found[2]) for found in lines if found}
off, on = map(told, sys.argv[1:])
for name in off:
    if name in on:
        print(f"{name:24} off {off[name]:10.1f}  on {on[name]:10.1f}   x{on[name] / max(off[name], 0.1):.2f}")
PY
    [[ torch_train =~ $only ]] || return 0
    printf 'off '; "$cutrace" record -o "$work/train.off.bin" -- python3 torch_train.py 2>/dev/null
    printf 'on  '; "$cutrace" record --gpu-times -o "$work/train.on.bin" -- python3 torch_train.py 2>/dev/null
    rm -f "$work"/train.*.bin "$trace" "$work/replayed.bin"
}

# What a call costs from a C loop and from replay --loop; and a training step again and again.
part_loop() {
    printf '\nreplay --loop against a C loop\n'
    KERNELS=$in/kernels python3 compare_loop.py "$cutrace" ./loop_calls --limit 150 2>&1 || failed "replay --loop is too slow"
    printf '\na step of torch_train, made again\n'
    "$cutrace" record -o "$work/loop.bin" -- python3 torch_steps.py >/dev/null 2>>"$logs/loop.err"
    timeout 300 "$cutrace" replay --loop 20 --nvtx step#10 "$work/loop.bin" 2>&1 | tee "$logs/loop" | grep -vE '^ +(skipped|translated)' | head -40
    rm -f "$work/loop.bin"
}
