//! The programs that `cutrace demo` and docs/tutorial.md record: each copies input to the device, works on it
//! a few times, and copies it back. Each does one thing that a trace reveals.

use super::{Driver, got};
use clap::ValueEnum;
use std::ffi::{CStr, CString};
use std::path::Path;

const PTX: &str = include_str!("sample.ptx");
const N: usize = 1 << 14;
const STEPS: usize = 4;
const THREADS: u32 = 256;
const FACTOR: f32 = 0.5;
const TABLE: usize = 4 << 20;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sample {
    /// Copies its input to the device before each of its four steps
    Steps,
    /// Copies a table that never changes before each step, too
    Waste,
    /// Gives the third step an address that is no memory
    Fault,
    /// Adds the time of the device to one result
    Clock,
}

/// What it prints: the sum that the device computed.
pub(crate) fn run(sample: Sample) -> Result<String, String> {
    let driver = Driver::open(Path::new(super::super::NAME))?;
    let device = driver.device(0)?.1;
    let context = got(|context| driver.primary_context_retain(context, device))?;
    driver.set_current(context)?;
    let text = CString::new(PTX).expect("text");
    let module = got(|module| driver.module_load(module, text.as_ptr().cast()))?;
    let kernel = |name: &CStr| got(|function| driver.module_get_function(function, module, name.as_ptr()));
    let scale_and_add = kernel(c"scale_and_add")?;

    let input: Vec<f32> = (0..N).map(|i| (i % 7) as f32).collect();
    let bytes = size_of_val(&input[..]);
    let x = got(|x| driver.allocate(x, bytes))?;
    let y = got(|y| driver.allocate(y, bytes))?;
    driver.fill(y, 0, N)?;
    let table = match sample {
        Sample::Waste => Some((got(|table| driver.allocate(table, TABLE))?, vec![1u8; TABLE])),
        _ => None,
    };
    for step in 0..STEPS {
        driver.copy_in(x, input.as_ptr().cast(), bytes)?;
        if let Some((at, table)) = &table {
            driver.copy_in(*at, table.as_ptr().cast(), TABLE)?;
        }
        let wrong = sample == Sample::Fault && step == 2;
        let (mut y, mut x) = (y, if wrong { x + (1 << 40) } else { x });
        let (mut a, mut n) = (FACTOR, N as u32);
        let arguments = [(&raw mut y).cast(), (&raw mut x).cast(), (&raw mut a).cast(), (&raw mut n).cast()];
        let blocks = n.div_ceil(THREADS);
        driver.launch(scale_and_add, blocks, 1, 1, THREADS, 1, 1, 0, 0, arguments.as_ptr(), std::ptr::null())?;
    }
    if sample == Sample::Clock {
        let mut y = y;
        let arguments = [(&raw mut y).cast()];
        driver.launch(kernel(c"add_time")?, 1, 1, 1, 1, 1, 1, 0, 0, arguments.as_ptr(), std::ptr::null())?;
    }
    let mut output = vec![0f32; N];
    driver.copy_out(output.as_mut_ptr().cast(), y, bytes)?;
    driver.free(x)?;
    driver.free(y)?;
    table.map_or(Ok(()), |(at, _)| driver.free(at))?;
    driver.module_unload(module)?;
    driver.primary_context_release(device)?;
    let sum = output.iter().sum::<f32>();
    if sample != Sample::Clock {
        check(&input, &output)?;
    }
    Ok(format!("{STEPS} steps on {N} numbers, their sum is {sum}"))
}

fn check(input: &[f32], output: &[f32]) -> Result<(), String> {
    let wrong = input.iter().zip(output).position(|(x, y)| *y != STEPS as f32 * FACTOR * x);
    wrong.map_or(Ok(()), |at| Err(format!("the device computed {} from {} at {at}", output[at], input[at])))
}
