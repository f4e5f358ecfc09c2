//! A replay needs only the trace: nothing of the program, and of the device only that it can run the code.

use std::fs;
use std::process::Command;
use tests::*;

fn on<'c>(command: &'c mut Command, compute: &str) -> &'c mut Command {
    command.env("CUTRACE_SIM_COMPUTE", compute)
}

#[test]
fn nothing_of_the_program_is_left() {
    let place = Place::new();
    // Program, code and library in a folder of their own, which is then gone.
    let folder = place.join("there");
    fs::create_dir(&folder).expect("a folder");
    let program = folder.join("program");
    fs::copy(client("linking.c"), &program).expect("a copy");
    for file in fs::read_dir(kernels()).expect("kernels").map(|file| file.expect("a file").path()) {
        if file.is_file() {
            fs::copy(&file, folder.join(file.file_name().expect("a name"))).expect("a copy");
        }
    }
    run(place.recorded(&program).env("KERNELS", &folder).current_dir(&folder)).expect(0);
    let trace = folder.join("trace.bin");
    let moved = place.join("elsewhere.bin");
    fs::rename(trace, &moved).expect("the trace");
    fs::remove_dir_all(&folder).expect("the folder is removed");
    let replayed = run(place.cutrace(["replay", "--driver", "sim"]).arg(&moved).env_remove("KERNELS")).expect(0);
    assert!(is_verified(&replayed.stdout), "{}", replayed.stdout);
}

#[test]
fn on_another_architecture_text_is_compiled_anew() {
    let place = Place::new();
    run(on(&mut place.recorded(client("vector_add.c")), "90")).expect(0);
    let replayed = run(on(&mut place.cutrace(["replay", "--driver", "sim"]), "80")).expect(0);
    assert!(is_verified(&replayed.stdout), "{}", replayed.stdout);
    let [warning] = replayed.said()[..] else { panic!("one line was expected: {}", replayed.stderr) };
    assert!(warning.contains("device 0 has compute capability 8.0, the recorded one 9.0"), "{warning}");
}

#[test]
fn code_for_a_newer_architecture_is_named() {
    let place = Place::new();
    run(on(&mut place.recorded(client("vector_add.c")), "90")).expect(0);
    let replayed = run(on(&mut place.cutrace(["replay", "--driver", "sim"]), "70")).expect(4);
    assert!(replayed.stdout.starts_with("diverged"), "{}", replayed.stdout);
    assert!(replayed.stdout.contains(" cuModuleLoad"), "{}", replayed.stdout);
    assert!(replayed.stderr.contains("compute capability 7.0, the recorded one 9.0"), "{}", replayed.stderr);
}
