# Parts on other tools, on looking for a culprit, on ranges, and on what the driver does.

# Other tools on a program that is being recorded, and on a replay; and a program that hangs.
part_tools() {
    printf '\nother tools on a recorded program\n'
    local record="$cutrace record -o $work/tool.bin --"
    tool() {
        local name=$1 wanted=$2; shift 2
        rm -f "$work"/tool*.bin
        timeout 120 "$@" >"$logs/tool.$name" 2>&1
        local calls; calls=$("$cutrace" info --json "$work/tool.bin" 2>/dev/null | python3 -c 'import json,sys; print(json.load(sys.stdin)["calls"])' 2>/dev/null)
        if grep -qE "$wanted" "$logs/tool.$name"; then
            printf '%-20s works: %s (%s calls recorded)\n' "$name" "$(grep -m1 -E "$wanted" "$logs/tool.$name" | cut -c1-80)" "${calls:-no}"
        else
            printf '%-20s FAILS, see the log (%s calls recorded)\n' "$name" "${calls:-no}"
        fi
    }
    tool cuda-gdb 'add *<<<|add<<<|\(\(?4096|Active' cuda-gdb -batch -ex 'set cuda break_on_launch application' -ex run -ex 'info cuda kernels' -ex kill \
        --args env LD_PRELOAD="$CUTRACE_SHIM" CUTRACE_OUTPUT="$work/tool.bin" ./runtime_graph_debug
    tool ncu 'Duration|gpu__time' ncu --clock-control none $record ./runtime_graph_static
    tool compute-sanitizer 'ERROR SUMMARY: 0 errors' compute-sanitizer $record ./runtime_graph_static
    tool pytorch-profiler 'Self CUDA time total: [1-9]' $record python3 torch_profiler.py

    printf '\nother tools on a replay: nothing of the program is left but its trace\n'
    local trace=$work/replayed.bin
    "$cutrace" record -o "$trace" -- ./runtime_graph_debug >/dev/null 2>"$logs/tool.replay.err"
    on_replay() {
        local name=$1 wanted=$2; shift 2
        timeout 120 "$@" >"$logs/replay.$name" 2>&1
        if grep -qE "$wanted" "$logs/replay.$name"; then
            printf '%-20s works: %s; %s\n' "$name" "$(grep -m1 -E "$wanted" "$logs/replay.$name" | tr -s ' ' | cut -c1-80)" \
                "$(grep -m1 -oE '^(verified|unverified|diverged)' "$logs/replay.$name")"
        else
            failed "$name on a replay, see replay.$name"
        fi
    }
    on_replay ncu 'Duration|gpu__time' ncu --clock-control none "$cutrace" replay "$trace"
    on_replay ncu-only-kernel 'Duration|gpu__time' ncu --clock-control none --profile-from-start off \
        "$cutrace" replay --only-kernel "$(kernel_of "$trace")#1" "$trace"
    on_replay compute-sanitizer 'ERROR SUMMARY: 0 errors' compute-sanitizer "$cutrace" replay "$trace"
    # Pinned memory that nobody frees, next to device memory.
    KERNELS=$in/kernels "$cutrace" record -o "$work/pinned.bin" -- ./elapsed_time >/dev/null 2>>"$logs/tool.replay.err"
    on_replay sanitizer-pinned 'ERROR SUMMARY: 0 errors' compute-sanitizer "$cutrace" replay "$work/pinned.bin"
    on_replay cuda-gdb 'add *<<<|\(4096,1,1\)|Active' cuda-gdb -batch -ex 'set cuda break_on_launch application' -ex run \
        -ex 'info cuda kernels' -ex kill --args "$cutrace" replay "$trace"

    printf '\na program that hangs: its trace while it does\n'
    local hanging
    rm -f "$work/hanging.bin"
    KERNELS=$in/kernels LD_PRELOAD=$CUTRACE_SHIM CUTRACE_OUTPUT=$work/hanging.bin ./hanging >/dev/null 2>"$logs/hanging.err" &
    hanging=$!
    sleep 5
    "$cutrace" info "$work/hanging.bin" 2>&1 | tee "$logs/hanging.info" | grep '^unfinished' || failed "nothing is unfinished in hanging.info"
    "$cutrace" report -r pending "$work/hanging.bin" 2>&1 | tee "$logs/hanging.pending"
    grep -q 'cuLaunchKernel of wait_for_host' "$logs/hanging.pending" || failed "the kernel is not among what is pending"
    kill -9 $hanging
    wait $hanging 2>/dev/null
}

# The kernel launched first.
kernel_of() {
    "$cutrace" report --format csv -r launches "$1" | python3 -c '
import csv, sys
rows = [row for row in csv.reader(sys.stdin) if row and not row[0].startswith("#")]
print(rows[1][rows[0].index("kernel")])'
}

# Offsets and sizes of kernel parameters: the driver's, and what trace/src/code/parameters reads in the same image.
part_parameters() {
    printf '\nkernel parameters, from the image and from the driver\n'
    local image sm driver kernels outcome
    sm=$(env -u CUTRACE_SHIM ./driver_parameters)
    for image in images/*; do
        driver=$logs/parameters.$(basename "$image")
        outcome=same
        env -u CUTRACE_SHIM ./driver_parameters "$image" >"$driver.driver" 2>"$driver.err" || outcome="driver: $(tail -1 "$driver.err")"
        ./parameters --sm "$sm" "$image" >"$driver.image" 2>>"$driver.err"
        [ "$outcome" != same ] || diff "$driver.driver" "$driver.image" >"$driver.diff" || outcome=DIFFERS
        kernels=$(wc -l <"$driver.driver")
        printf '%-24s %4s kernels  %s\n' "$(basename "$image")" "$kernels" "$outcome"
    done
}

# Replays that look for a culprit: what each says first.
part_culprit() {
    printf '\nlooking for the culprit\n'
    local trace=$work/culprit.bin program said data=
    recorded() {
        rm -f "$trace"
        KERNELS=$in/kernels timeout 120 "$cutrace" record ${data:-} -o "$trace" -- "$@" >/dev/null 2>>"$logs/culprit.err"
    }
    replayed() {
        said=$(timeout 120 "$cutrace" replay "$trace" "$@" 2>&1 | tee -a "$logs/culprit" | head -1)
        printf '%-20s %-34s %s\n' "$program" "$*" "$said"
    }
    for program in late_fault use_after_free graph_fault graph_changes graphs graph_inputs callbacks mapped_results streams_events; do
        case $program in graph_fault) recorded ./$program captured ;; *) recorded ./$program ;; esac
        replayed --sync-launches
    done
    program=use_after_free; recorded ./$program; replayed --sync-launches --no-placement
    program=uninitialised; recorded ./$program; replayed --fill 0xa5
    program=nondeterministic; recorded ./$program direct; replayed --bisect
    for program in torch_small torch_decode torch_adam; do
        recorded python3 $program.py
        replayed --sync-launches
        replayed --fill 0xa5
        replayed --no-placement
    done
    program=torch_small; data=--data=all recorded python3 $program.py; replayed --verify 1e-4,1e-6,f32
    replayed --until 4000 --dump-memory mem#1 "$work/mem"
}

# Traces of a part of a run: what was left out, and what a replay says of the rest.
part_ranges() {
    printf '\ncapture ranges of torch_steps\n'
    local trace=$work/range.bin name all
    ranged() {
        name=$1; shift
        rm -f "$trace"
        timeout 120 "$cutrace" record -o "$trace" "$@" -- python3 torch_steps.py >"$logs/range.$name.out" 2>"$logs/range.$name.err" ||
            failed "record $*: see range.$name.err"
        "$cutrace" info "$trace" >"$logs/range.$name.info" 2>&1
        timeout 120 "$cutrace" replay "$trace" >"$logs/range.$name.replay" 2>&1
        printf '%-28s %7s calls, %4s launches; %s; %s\n' "$*" \
            "$("$cutrace" info --json "$trace" | python3 -c 'import json,sys; print(json.load(sys.stdin)["calls"])')" \
            "$("$cutrace" dump "$trace" 2>/dev/null | grep -cE ' cuLaunchKernel(Ex)?\(')" \
            "$(head -1 "$logs/range.$name.replay")" "$(compared "$logs/range.$name.replay")"
        cmp -s "$logs/range.whole.out" "$logs/range.$name.out" || failed "the program's output has changed, see range.$name.out"
    }
    ranged whole
    ranged profiler --range profiler
    ranged nvtx --range nvtx:step
    ranged calls --calls 2000
    ranged delay --delay 1 --duration .5
}

# What the real driver and kernel do where the recorder relies on it; nothing is recorded here.
part_facts() {
    local fact
    for fact in facts/*; do
        printf '\n%s\n' "$fact"
        env -u CUTRACE_SHIM KERNELS="$in/kernels" "$fact" 2>&1
    done
}
