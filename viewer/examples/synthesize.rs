//! Makes a synthetic trace: `cargo run --release -p viewer --example synthesize -- FILE CALLS [THREADS]`.

use std::path::PathBuf;
use std::process::ExitCode;
use viewer::synthetic::{Shape, write};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).map(|text| text.replace('_', "").parse::<u64>());
    let (Some(path), Some(Ok(calls)), threads) = (arguments.first(), number(1), number(2).unwrap_or(Ok(16))) else {
        eprintln!("usage: synthesize FILE CALLS [THREADS]");
        return ExitCode::from(2);
    };
    let Ok(threads) = threads else {
        eprintln!("synthesize: THREADS must be a number, found {:?}", arguments[2]);
        return ExitCode::from(2);
    };
    match write(&PathBuf::from(path), Shape { calls, threads: threads as u32, ..Shape::default() }) {
        Ok(calls) => {
            println!("{path}: {calls} calls");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("synthesize: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}
