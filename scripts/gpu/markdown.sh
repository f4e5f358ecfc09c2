# The rows of tables that runs have left, as Markdown tables: for tests/gpu/RESULTS.md.

markdown() {
    awk '
        $1 == "workload" {
            print "\n| program | calls | launches | trace | bare / recorded / replay s | verdict | replay | compared |"
            print "| --- | ---: | ---: | ---: | --- | --- | --- | --- |"
            next
        }
        $2 == "bare" || $2 == "exit" { $2 = $2 " " $3; for (i = 3; i < NF; i++) $i = $(i + 1); NF-- }
        NF >= 10 && $5 ~ /^[0-9]+\/[0-9]+$/ {
            split($5, launches, "/")
            replays = ""; n = 0
            for (i = 10; i <= NF && $i ~ /^(verified|DIVERGED|unverified|exit-[0-9]+)$/; i++) { seen[n++] = $i }
            for (k = 0; k < n; k++) {
                for (same = 1; k + 1 < n && seen[k + 1] == seen[k]; k++) same++
                replays = replays (replays == "" ? "" : ", ") tolower(seen[k]) (same > 1 ? " x " same : "")
            }
            note = ""
            for (; i <= NF; i++) note = note (note == "" ? "" : " ") $i
            sub(/^compared /, "", note)
            if (note !~ /result/) note = ""
            printf "| %s%s | %s | %s | %s | %s / %s / %s | %s | %s | %s |\n", $1, $2 == "same" ? "" : " (recorded: " $2 ")",
                $3, launches[1], $4, $6, $7, $8, $9, replays, note
        }' "$@"
}
