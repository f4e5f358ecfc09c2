# Programs that are run bare, recorded and replayed: a row each. And what the other parts share.

row() { printf '%-24s %-8s %8s %7s %-12s %6s %6s %6s %-11s %-28s %s\n' "$@"; }

# The whole run is then not a success, whatever follows.
failed() { echo "  FAILED: $*"; : >"$work/failed"; }

size() { stat -c %s "$1" 2>/dev/null | numfmt --to=iec; }

# What a program prints may hold times and addresses; those are not compared.
normal() { sed -E 's/[0-9]+\.[0-9]+ (ms|ns|steps)[^ ]*/TIME/g; s/steps\/s [0-9.]+/STEPS/; s/0x[0-9a-f]+/ADDRESS/g' "$1"; }

# How long a command takes, in seconds, in `took`; its exit status.
timed() {
    local begun=$EPOCHREALTIME status
    "$@"; status=$?
    took=$(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $begun }")
    return $status
}

# Whether the next program is one of this run's share.
programs_so_far=0
is_ours() { [[ $1 =~ $only ]] && (( programs_so_far++ % ${share#*/} == ${share%/*} - 1 )); }

# bare, recorded, replayed: one row
workload() {
    local name=$1; shift
    is_ours "$name" || return 0
    local bare recorded same trace=$work/$name.bin verdict calls replays= note= took times=()
    timed timeout 120 "$@" >"$logs/$name.bare" 2>"$logs/$name.bare.err"; bare=$?; times+=("$took")
    timed timeout 120 "$cutrace" record -o "$trace" -- "$@" >"$work/$name.out" 2>"$logs/$name.record.err"; recorded=$?; times+=("$took")
    same=same
    [ $bare = $recorded ] || same="exit $recorded"
    [ "${clean:-no}" = no ] || [ $bare = 0 ] || same="bare $bare"
    # Blocks of a kernel print in any order.
    local order=cat; [[ $name != print* ]] || order=sort
    if [ "${UNSEEDED:-}" = "" ] && ! cmp -s <(normal "$logs/$name.bare" | $order) <(normal "$work/$name.out" | $order); then same=DIFFERS; fi
    calls=$("$cutrace" info --json "$trace" 2>>"$logs/$name.record.err" | tee "$logs/$name.info.json" |
        python3 -c 'import json,sys; d=json.load(sys.stdin); print(d["calls"], d["verdict"])' 2>/dev/null)
    verdict=${calls#* }; calls=${calls% *}
    local launches named
    "$cutrace" dump "$trace" 2>>"$logs/$name.record.err" | grep -E ' cu(Launch(Cooperative)?Kernel(Ex)?|GraphAddKernelNode)(_[a-z0-9]+)*\(' >"$work/$name.launches"
    launches=$(wc -l <"$work/$name.launches")
    named=$(grep -cE '(kernelParams|extra|function#[0-9]+:|kernel#[0-9]+:)=?[A-Za-z_$]' "$work/$name.launches")
    for run in $(seq "${runs:-3}"); do
        timed timeout 120 "$cutrace" replay ${options:-} "$trace" >"$logs/$name.replay$run" 2>&1
        case $? in 0) replays+="verified " ;; 4) replays+="DIVERGED " ;; 6) replays+="unverified " ;; *) replays+="exit-$? " ;; esac
    done
    note=$(compared "$logs/$name.replay1" | cut -c1-80)
    [[ $replays != *[^\ verifd]* ]] || note=$(grep -m1 -vE '^ *$' "$logs/$name.replay1" | cut -c1-120)
    if [ -n "${seen:-}" ] && [ "$same" = same ] && every_replay_is_verified "$name"; then
        "$cutrace" dump --json "$trace" 2>>"$logs/$name.record.err" | results "$logs/$name.replay1" >>"$seen"
    fi
    row "$name" "$same" "${calls:--}" "$(size "$trace")" "$launches/$named" "${times[@]}" "$took" "${verdict:--}" "$replays" "$note"
    if [ "$same" != same ] || [[ $replays =~ DIVERGED|exit ]]; then
        mkdir -p "$logs/failing"
        mv "$trace" "$work/$name.out" "$logs/failing/"
    else
        rm -f "$trace"
    fi
}

# The numbers of a replay ($1): of a verified one they are in the first line.
compared() { grep -m1 -E '^verified: |^ +compared' "$1" | sed -E 's/^verified: /compared /; s/ identical$//; s/ {2,}/ /g'; }

# Verified without an exception, which exit status 0 would allow.
every_replay_is_verified() {
    local run
    for run in $(seq "${runs:-3}"); do
        head -1 "$logs/$1.replay$run" | grep -qE '^verified: .* (identical|within the tolerance)$' || return 1
    done
}

# Of the calls of a trace: function, result. What failed and was then left out of the replay ($1) tells nothing.
results() {
    python3 -c '
import json, re, sys
left_out = set(re.findall(r"^ +skipped +(\w+)", open(sys.argv[1]).read(), re.M))
calls = map(json.loads, sys.stdin)
for function, result in sorted({(call["function"], call["result"]) for call in calls if call.get("result")}):
    if result == "CUDA_SUCCESS" or function not in left_out:
        print(function, result)' "$1"
}

# What the parts so far have seen, each function with an error only if no call of it succeeded.
exercised() {
    sort -u "$seen" | python3 -c '
import sys
results = {}
for line in sys.stdin:
    function, result = line.split()
    results.setdefault(function, set()).add(result)
for function, found in sorted(results.items()):
    print(function if "CUDA_SUCCESS" in found else f"{function} {min(found)}")' >"$logs/exercised.txt"
    printf '\n%s functions seen in verified replays, %s of them only failing: %s\n' "$(wc -l <"$logs/exercised.txt")" \
        "$(grep -c ' ' "$logs/exercised.txt")" "$logs/exercised.txt"
}

header() {
    printf '\n%s, driver %s, %s\n' "$1" "$(cat /sys/module/nvidia/version 2>/dev/null || nvidia-smi --query-gpu=driver_version --format=csv,noheader)" "$(date +%F)"
    row "workload" "recorded" calls trace "launch/named" "bare s" "rec. s" "repl.s" verdict "replays" ""
}

part_driver() {
    header "driver-API programs"
    local program seen=$logs/seen
    while read -r program; do
        KERNELS=$in/kernels workload "$program" "./$program"
    done <programs
    exercised
}

# Functions that the others do not call.
part_coverage() {
    header "programs that call what few others do"
    local program seen=$logs/seen
    for program in coverage/*; do
        KERNELS=$in/kernels workload "$(basename "$program")" "./$program"
        cp "$work/$(basename "$program").out" "$logs"/
    done
    exercised
}

# The same, with no memory put back at its address.
part_elsewhere() {
    header "driver-API programs, replayed with --no-placement"
    local program options=--no-placement runs=1
    while read -r program; do
        KERNELS=$in/kernels workload "$program" "./$program"
    done < <(grep -vx allocated_again programs) # elsewhere it has other memory, which holds other bytes
}

part_runtime() {
    header "CUDA runtime programs"
    workload runtime_graph_static ./runtime_graph_static
    workload runtime_graph_shared ./runtime_graph_shared
    for version in 11.8 12.1 12.9; do
        workload "registered_kernel-$version" ./registered_kernel "./libcudart-$version.so" registered_kernel.fatbin
    done
    workload registered_kernel-13.0 ./registered_kernel ./libcudart.so.13 registered_kernel.fatbin
}

part_frameworks() {
    header "frameworks"
    workload torch_train python3 torch_train.py
    UNSEEDED=1 workload torch_small python3 torch_small.py
    workload triton_add python3 triton_add.py
    workload cupy_small python3 cupy_small.py
    workload jax_small python3 jax_small.py
    for name in torch_adam torch_decode torch_libraries torch_compiled cupy_libraries jax_training torch_convolutions \
        torch_recurrent torch_graphed torch_loader torch_generate torch_nested torch_autotune triton_matmul jax_network \
        jax_callbacks jax_linear jax_pallas cupy_kernels cupy_sparse cupy_graphs; do
        workload $name python3 $name.py
    done
}

# On a machine with two.
part_two_gpus() {
    header "two GPUs"
    workload peers ./peers
    for name in two_torch two_nccl data_parallel two_jax; do
        workload $name python3 $name.py
    done
}

# Programs by people who had not seen the code.
part_unseen() {
    (compiled unseen) # its libraries are not those of the frameworks
    local program runs=${runs:-1}
    for program in unseen/*.py; do
        is_ours "$(basename "$program" .py)" || continue
        room
        share=1/1 workload "$(basename "$program" .py)" python3 "$program" &
    done
    wait
}

# A stranger's trace: the first line with --untrusted is the one without.
part_untrusted() {
    printf '\nreplayed with --untrusted: as without?\n'
    local name trace plain untrusted
    for name in vector_add graphs callbacks pools torch_small; do
        is_ours "$name" || continue
        trace=$work/$name.untrusted.bin
        case $name in torch_*) set -- python3 "$name.py" ;; *) set -- "./$name" ;; esac
        KERNELS=$in/kernels timeout 120 "$cutrace" record -o "$trace" -- "$@" >"$logs/$name.untrusted.record" 2>&1
        timeout 120 "$cutrace" replay "$trace" >"$logs/$name.trusted" 2>&1
        timeout 120 "$cutrace" replay --untrusted "$trace" >"$logs/$name.untrusted" 2>&1
        plain=$(head -1 "$logs/$name.trusted") untrusted=$(head -1 "$logs/$name.untrusted")
        printf '%-24s %-12s %s\n' "$name" "$plain" "$untrusted"
        [ "$plain" = "$untrusted" ] && [[ $plain = verified* ]] || failed "$name: $logs/$name.untrusted"
        rm -f "$trace"
    done
}

part_samples() { compiled samples; }

# Waits until fewer programs than may run at once do.
room() { while [ "$(jobs -rp | wc -l)" -ge "${AT_ONCE:-4}" ]; do wait -n; done; }

# One replay each unless said otherwise, several programs at a time: rows come as they are done, lest those be lost when time is up.
compiled() {
    local folder=$1
    header "$folder"
    local runs=${runs:-1} clean=yes libraries line name rest
    # Libraries as installed, those of the toolkit first; never the stubs.
    libraries=$(ls -d /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib \
        "$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"/nvidia/*/lib 2>/dev/null | paste -sd:)
    export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$in/samples:$libraries
    {
        while read -r name rest; do
            is_ours "$name" || continue
            room
            (
                for line in $rest; do case $line in *=*) export "${line?}" ;; esac; done
                share=1/1 workload "$name" "./$folder/${rest##* }"
            ) 2>>"$logs/$folder.err" </dev/null &
        done <"$folder"/list
        wait
    } | tee "$work/rows"
    awk '{ n++; same += $2 == "same"; bad = /DIVERGED|unverified|exit-/; good += !bad; if (bad || $2 != "same") names = names " " $1 }
        END { printf "%d programs: %d recorded with the same output, %d verified; to look at:%s\n", n, same, good, names ? names : " none" }' "$work/rows"
}

# random_work.c with each kind of memory by itself, all of them, and without callbacks: SEEDS seeds each, eight programs at a time.
part_random() {
    printf '\nrandom work, seeds 1 to %s of each: memory, pieces of work, what became of them\n' "${SEEDS:=60}"
    export KERNELS=$in/kernels
    local group name kinds pieces seed
    for group in "device 1 -1" "pooled 2 -1" "pinned 4 -1" "registered 8 -1" "managed 16 -1" "pageable 32 -1" "all 63 -1" \
        "without_callbacks 63 119" "without_graphs 63 63" "on_device 3 -1" "parts 64 -1" "parts_uncopied 71 79" \
        "shared 7 -1"; do
        read -r name kinds pieces <<<"$group"
        [[ $name =~ $only ]] || continue
        for seed in $(seq "$SEEDS"); do
            while [ "$(jobs -rp | wc -l)" -ge 8 ]; do wait -n; done
            random_seed "$name" "$kinds" "$pieces" "$seed" >"$work/$name.$seed" &
        done
        wait
        for seed in $(seq "$SEEDS"); do cat "$work/$name.$seed"; done >"$logs/random.$name"
        printf '%-18s %s\n' "$name" "$(cut -d' ' -f2- "$logs/random.$name" | sort | uniq -c | sort -rn | awk '{ $1 = $1 " x"; printf "%s%s", (NR > 1 ? "; " : ""), $0 }')"
        grep -E 'DIFFERS|DIVERGED|exit' "$logs/random.$name" | head -12 | sed 's/^/    /' || true
    done
}

# One seed: recorded as bare? verdict, replay.
random_seed() {
    export ONLY_KINDS=$2 ONLY_PIECES=$3 SEED=$4
    [ "$1" != shared ] || export SHARED=1 THREADS=3
    local log=$logs/random.$1.$4 trace=$work/$1.$4.bin same=same verdict replay=verified
    timeout 60 ./random_work >"$log.bare" 2>&1
    timeout 60 "$cutrace" record -o "$trace" ./random_work >"$log.out" 2>"$log.err" || same=exit-$?
    cmp -s "$log.bare" "$log.out" || same=DIFFERS
    verdict=$(sed -nE 's/^cutrace: .* calls, [0-9.]+ [kMG]?B, ([a-z]+).*/\1/p' "$log.err")
    timeout 60 "$cutrace" replay "$trace" >"$log.replay" 2>&1
    case $? in 0) ;; 4) replay=DIVERGED ;; 6) replay=unverified ;; *) replay=exit-$? ;; esac
    echo "$4 $same, $verdict, $replay"
    case "$same $replay" in 'same verified' | 'same unverified') rm -f "$log".* "$trace" ;; *) mkdir -p "$logs/failing"; mv "$trace" "$logs/failing/" ;; esac
}
