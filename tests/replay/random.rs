//! Random work on the simulated driver. `scripts/random-work` runs more of it, of every kind.

use tests::*;

/// Device memory, of pools too, and managed memory; all pieces of work.
const KINDS: &str = "19";

#[test]
fn work_at_random_ends_as_recorded() {
    for seed in ["1", "2", "3", "4"] {
        let place = Place::new();
        let program = client("random_work.c");
        let with = |command: &mut std::process::Command| {
            command.env("SEED", seed).env("THREADS", "1").env("ONLY_KINDS", KINDS);
        };
        let (mut bare, mut recorded) = (place.bare(&program), place.recorded(&program));
        with(&mut bare);
        with(&mut recorded);
        place.same(&run(&mut bare).expect(0), &run(&mut recorded).expect(0));
        for options in [&[][..], &["--no-placement"]] {
            let mut replay = place.cutrace(["replay", "--driver", "sim", "--no-explain"]);
            let replayed = run(replay.args(options).env("CUTRACE_SIM_SEED", "99")).expect(0);
            assert!(is_verified(&replayed.stdout), "seed {seed}: {}", replayed.stdout);
        }
    }
}
