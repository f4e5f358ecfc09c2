//! Nothing is put back where it was: every address that the program holds leads elsewhere, and is translated.

use crate::workloads::APPS;
use serde_json::Value;
use tests::*;

/// Programs that cannot be verified with nothing placed, and why not.
const EXCEPTIONS: &[(&str, &str)] = &[];

fn recorded(app: &str) -> Place {
    let place = Place::new();
    run(place.recorded(client(app)).env("CUTRACE_SIM_SEED", "1")).expect(0);
    place
}

/// On a driver whose own addresses are others.
fn replayed(place: &Place, options: &[&str]) -> Outcome {
    run(place.cutrace(["replay", "--driver", "sim"]).args(options).env("CUTRACE_SIM_SEED", "99"))
}

fn report(place: &Place, options: &[&str]) -> Value {
    let ran = replayed(place, &[&["--json"], options].concat());
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr))
}

#[test]
fn every_program_with_nothing_placed() {
    for app in APPS {
        let replayed = replayed(&recorded(app), &["--no-placement"]);
        let is_verified = replayed.stdout.starts_with("verified\n");
        match EXCEPTIONS.iter().find(|(name, _)| name == app) {
            None => assert!(is_verified, "{app}: {}{}", replayed.stdout, replayed.stderr),
            Some((_, why)) => assert!(!is_verified, "{app} is no exception any more ({why})"),
        }
    }
}
