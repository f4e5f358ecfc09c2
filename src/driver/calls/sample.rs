//! The program that `cutrace demo` records: input goes there, is worked on a few times, and comes back.

use super::{Driver, got};
use std::ffi::CString;
use std::path::Path;

const PTX: &str = include_str!("sample.ptx");
const N: usize = 1 << 14;
const STEPS: usize = 4;
const THREADS: u32 = 256;

/// What it prints: the sum that the device computed.
pub fn run() -> Result<String, String> {
    let driver = Driver::open(Path::new(super::super::NAME))?;
    let device = driver.device(0)?.1;
    let context = got(|context| driver.primary_context_retain(context, device))?;
    driver.set_current(context)?;
    let text = CString::new(PTX).expect("text");
    let module = got(|module| driver.module_load(module, text.as_ptr().cast()))?;
    let function = got(|function| driver.module_get_function(function, module, c"scale_and_add".as_ptr()))?;

    let input: Vec<f32> = (0..N).map(|i| (i % 7) as f32).collect();
    let bytes = size_of_val(&input[..]);
    let mut x = got(|x| driver.allocate(x, bytes))?;
    let mut y = got(|y| driver.allocate(y, bytes))?;
    driver.fill(y, 0, N)?;
    let (mut a, mut n) = (0.5f32, N as u32);
    for _ in 0..STEPS {
        driver.copy_in(x, input.as_ptr().cast(), bytes)?;
        let arguments = [(&raw mut y).cast(), (&raw mut x).cast(), (&raw mut a).cast(), (&raw mut n).cast()];
        let blocks = n.div_ceil(THREADS);
        driver.launch(function, blocks, 1, 1, THREADS, 1, 1, 0, 0, arguments.as_ptr(), std::ptr::null())?;
    }
    let mut output = vec![0f32; N];
    driver.copy_out(output.as_mut_ptr().cast(), y, bytes)?;
    driver.free(x)?;
    driver.free(y)?;
    driver.module_unload(module)?;
    driver.primary_context_release(device)?;
    check(&input, &output)
}

fn check(input: &[f32], output: &[f32]) -> Result<String, String> {
    let wrong = input.iter().zip(output).position(|(x, y)| *y != STEPS as f32 * 0.5 * x);
    match wrong {
        Some(at) => Err(format!("the device computed {} from {} at {at}", output[at], input[at])),
        None => Ok(format!("{STEPS} steps on {N} numbers, their sum is {}", output.iter().sum::<f32>())),
    }
}
