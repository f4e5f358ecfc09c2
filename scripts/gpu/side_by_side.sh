# All that measures no time, on the one GPU at once: the whole of it in some ten minutes.

# What is not done `within` seconds is stopped, and said.
side_by_side() {
    local until=$((SECONDS + within)) group name options share n
    # One framework's habit of taking three quarters of the memory is bad for its neighbours.
    export PYTHONDONTWRITEBYTECODE=1 XLA_PYTHON_CLIENT_MEM_FRACTION=.15
    for group in "driver --runs 1" "samples" "frameworks 1/3" "frameworks 2/3" "frameworks 3/3" "random" "coverage --runs 1" \
        "runtime --runs 1" "elsewhere" "culprit" "counts" "tools" "parameters" "profile" "ranges"; do
        read -r name options <<<"$group"
        share=; n=0
        case $options in */*) share=$options; n=${options%/*}; options="--runs 1" ;; esac
        while [ "$(jobs -rp | wc -l)" -ge 7 ]; do wait -n; done
        beside "$name${share:+.$n}" $((until - SECONDS)) "$name" $options ${share:+--share "$share"} &
    done
    wait
    cat "$logs"/*/table
    printf '\nside by side: part, seconds, what is to be looked at\n'
    cat "$logs"/*/summary
}

beside() {
    local name=$1 left=$2 begun=$SECONDS status; shift 2
    mkdir -p "$logs/$name"
    timeout $((left > 1 ? left : 1)) "$script" "$@" --in "$in" --logs "$logs/$name" --only "$only" >/dev/null 2>"$logs/$name/errors"
    status=$?
    {
        printf '%-14s %4d s %s\n' "$name" $((SECONDS - begun)) "$([ $status = 124 ] && echo "STOPPED: its time was up" || echo "exit $status")"
        grep -hE 'DIVERGED|DIFFERS|FAILED|exit-|to look at' "$logs/$name/table" | cut -c1-200 | sed 's/^ */    /'
    } >"$logs/$name/summary"
    [ $status = 0 ] || : >"$work/failed"
}
