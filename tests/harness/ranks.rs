//! Ranks of a job (collectives.c), one of which stays away.

use crate::artifacts::artifact;
use crate::place::Place;
use std::path::Path;
use std::process::Command;

/// Waits until all ranks but the late one are within the wait for the collective of its turn, then kills them.
/// What each has begun stands in the file that they share.
const SCRIPT: &str = r#"
truncate -s 36864 ring
for rank in $(seq 0 $((ranks - 1))); do
    RANK=$rank WORLD_SIZE=$ranks "$0" ring $rank $ranks 9 $late $turn > out$rank &
    pids="$pids $!"
done
begun() { od -An -v -tu4 -w4 -j32768 -N$((4 * ranks)) ring | grep -cx " *$turn"; }
waiting() { LD_PRELOAD= "$1" info run/ --json 2>said | grep -c '"function": "cuStreamSynchronize"'; }
until [ "$(begun)" = $((ranks - 1)) ] && [ "$(waiting "$1")" = $((ranks - 1)) ] && grep -q late out$late; do
    sleep 0.1
done
kill -9 $pids
wait
"#;

/// The recording into `run/` of so many ranks, of which the late one does not come to this turn.
pub fn hanging_ranks(place: &Place, program: &Path, ranks: u32, late: u32, turn: u32) -> Command {
    let mut record = place.cutrace(["record", "--driver", "sim", "-o", "run/", "--", "sh", "-c", SCRIPT]);
    record.arg(program).arg(artifact("cutrace"));
    let numbers = [("ranks", ranks), ("late", late), ("turn", turn)];
    record.envs(numbers.map(|(name, number)| (name, number.to_string())));
    record
}
