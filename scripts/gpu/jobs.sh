# Jobs of several processes: recorded into a directory, and replayed together.

# bare, recorded, replayed: one row
job() {
    local name=$1; shift
    is_ours "$name" || return 0
    local directory=$logs/jobs/$name bare recorded same took times=() processes traces replays= whole run
    rm -rf "$directory"; mkdir -p "$directory"
    timed timeout 180 "$@" >"$directory/bare" 2>"$directory/bare.err"; bare=$?; times+=("$took")
    timed timeout 180 "$cutrace" record -o "$directory/run/" -- "$@" >"$directory/out" 2>"$directory/record.err"; recorded=$?; times+=("$took")
    same=same
    [ $bare = $recorded ] || same="exit $recorded"
    cmp -s <(normal "$directory/bare" | sort) <(normal "$directory/out" | sort) || same=DIFFERS
    "$cutrace" info "$directory/run/" >"$directory/info" 2>&1
    "$cutrace" report "$directory/run/" -r ranks >"$directory/ranks" 2>&1
    processes=$(ls "$directory"/run/processes 2>/dev/null | wc -l) traces=$(ls "$directory"/run/*.bin 2>/dev/null | wc -l)
    for run in $(seq "${runs:-1}"); do
        timed timeout "${REPLAY_WITHIN:-300}" "$cutrace" replay "$directory/run/" >"$directory/replay$run" 2>&1
        case $? in 0) replays+="verified " ;; 4) replays+="DIVERGED " ;; 6) replays+="unverified " ;; *) replays+="exit-$? " ;; esac
        times+=("$took")
    done
    whole=$(tail -1 "$directory/replay1" | cut -c1-120)
    printf '%-24s %-8s %9s %7s %6s %6s %6s  %-11s %s\n' "$name" "$same" "$processes" "$traces" "${times[@]:0:3}" "$replays" "$whole"
    # The traces of what went well are large.
    if [ "$same" = same ] && [[ ! $replays =~ DIVERGED|exit|unverified ]]; then rm -rf "$directory/run"; else failed "$name: $directory"; fi
}

# Recorded with what collectives delivered, and each rank replayed without the other, on one device: one row
each_alone() {
    local name=$1; shift
    is_ours "$name" || return 0
    local directory=$logs/jobs/$name-alone rank replays= same took
    rm -rf "$directory"; mkdir -p "$directory"
    timeout 180 "$cutrace" record --collectives -o "$directory/run/" -- "$@" >"$directory/out" 2>"$directory/record.err"
    same=same; cmp -s <(normal "$logs/jobs/$name/bare" | sort) <(normal "$directory/out" | sort) || same=DIFFERS
    for rank in 0 1; do
        timed timeout 120 "$cutrace" replay "$directory/run/" --rank $rank --alone --device 0 --json >"$directory/$rank.json" 2>"$directory/$rank.err"
        replays+="$(python3 -c 'import json,sys; r=json.load(open(sys.argv[1])); a=r["alone"]; print(r["outcome"], "in place of", a["launches"], "launches", a["bytes"], "B")' "$directory/$rank.json" 2>/dev/null || tail -1 "$directory/$rank.err") in $took s; "
    done
    printf '%-24s %-8s each rank alone: %s\n' "$name" "$same" "$replays"
    if [ "$same" = same ] && [[ ! $replays =~ diverged|unverified ]]; then rm -rf "$directory/run"; else failed "$name alone: $directory"; fi
}

# Those of one device first. NVLink multicast is left off: it is refused in a replay.
part_jobs() {
    printf '\njobs, driver %s, %s\n' "$(cat /sys/module/nvidia/version 2>/dev/null)" "$(date +%F)"
    printf '%-24s %-8s %9s %7s %6s %6s %6s  %-11s\n' job recorded processes traces "bare s" "rec. s" "repl.s" replays
    local name program
    export KERNELS=$in/kernels NCCL_NVLS_ENABLE=0
    for program in jobs/*; do [[ $program = *.py ]] || job "$(basename "$program")" "./$program"; done
    [ ! -x samples/ipc ] || job ipc ./samples/ipc
    job tensor_queue python3 jobs/tensor_queue.py
    # NVIDIA's samples, if somebody has built them there.
    for name in simpleIPC streamOrderedAllocationIPC memMapIPCDrv; do
        # Without the process ids that they print.
        [ ! -x "cuda-samples/$name" ] || (cd cuda-samples && job "$name" sh -c "./$name | sed 's,shm[0-9]*,shm,'")
    done
    if [ "$(nvidia-smi --list-gpus 2>/dev/null | wc -l)" -ge 2 ]; then
        # Without the rates that they print.
        [ ! -x cuda-samples/simpleP2P ] || job simpleP2P sh -c 'cuda-samples/simpleP2P | sed "s,[0-9.]*GB/s,,"'
        [ ! -x cuda-samples/p2pBandwidthLatencyTest ] || job p2pBandwidthLatencyTest \
            sh -c 'cuda-samples/p2pBandwidthLatencyTest --numElems=1048576 | grep -v "^ *[0-9]"'
        for name in ddp tensor_parallel_decode graphed_decode; do
            job $name python3 -m torch.distributed.run --standalone --nproc-per-node 2 "jobs/$name.py"
            each_alone $name python3 -m torch.distributed.run --standalone --nproc-per-node 2 "jobs/$name.py"
        done
        time_two_devices
    fi
}

# What memory calls cost with one device and with two.
time_two_devices() { facts/two_device_memory; }
