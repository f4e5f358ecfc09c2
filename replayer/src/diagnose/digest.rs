//! What device memory holds as one number, by a kernel of the replay's own (digest/digest.cu): hashing an arena between two launches takes
//! no longer than reading it there.

use crate::driver::{Driver, Failure};
use std::collections::HashMap;
use trace::hash::Hash;

const CODE: &str = concat!(include_str!("digest/digest.ptx"), "\0");
const NON_BLOCKING: u64 = 1;
const THREADS: u64 = 256;
/// Enough to keep any device busy.
const MOST_BLOCKS: u64 = 2048;
/// Ranges that have moved, at most.
const MOST_MOVED: usize = 4096;

/// Memory that is not where it was: live address, length, recorded address.
pub type Moved = [u64; 3];

#[derive(Default)]
pub struct Digests {
    /// By context; none where the kernel cannot be had.
    kernels: HashMap<u64, Option<Kernel>>,
}

/// What the kernel needs in a context: it ends with that.
#[derive(Clone, Copy)]
struct Kernel {
    function: u64,
    stream: u64,
    /// Device memory: two sums, then what has moved.
    memory: u64,
}

impl Digests {
    /// Of this many words at a live address that this context, which is current, can reach; none if it cannot be told so.
    pub fn of(&mut self, driver: &Driver, context: u64, live: u64, words: u64, moved: &[Moved]) -> Option<Hash> {
        let kernel = self.kernels.entry(context).or_insert_with(|| Kernel::load(driver).ok());
        kernel.filter(|_| moved.len() <= MOST_MOVED)?.run(driver, live, words, moved).ok()
    }

    /// Its handle may be another's from now on.
    pub fn context_ends(&mut self, context: u64) {
        self.kernels.remove(&context);
    }
}

impl Kernel {
    fn load(driver: &Driver) -> Result<Kernel, Failure> {
        let (mut module, mut made) = (0u64, Kernel { function: 0, stream: 0, memory: 0 });
        // SAFETY: output words, code and a name that end with a zero, plain values.
        unsafe {
            driver.ask("cuModuleLoadData", &[&raw mut module as u64, CODE.as_ptr() as u64])?;
            driver.ask("cuModuleGetFunction", &[&raw mut made.function as u64, module, c"digest".as_ptr() as u64])?;
            driver.ask("cuStreamCreate", &[&raw mut made.stream as u64, NON_BLOCKING])?;
            driver
                .ask("cuMemAlloc_v2", &[&raw mut made.memory as u64, 16 + size_of::<[Moved; MOST_MOVED]>() as u64])?;
        }
        Ok(made)
    }

    fn run(self, driver: &Driver, live: u64, words: u64, moved: &[Moved]) -> Result<Hash, Failure> {
        let Kernel { function, stream, memory } = self;
        let (ranges, count) = (memory + 16, moved.len() as u32);
        let arguments = [
            &raw const live as u64,
            &raw const words as u64,
            &raw const ranges as u64,
            &raw const count as u64,
            &raw const memory as u64,
        ];
        let blocks = words.div_ceil(THREADS).clamp(1, MOST_BLOCKS);
        let mut sums = [0u64; 2];
        // SAFETY: the buffers live until the stream has been waited for; the arguments are as many and as long as the kernel's.
        unsafe {
            driver.ask("cuMemsetD8Async", &[memory, 0, 16, stream])?;
            if !moved.is_empty() {
                driver
                    .ask("cuMemcpyHtoDAsync_v2", &[ranges, moved.as_ptr() as u64, size_of_val(moved) as u64, stream])?;
            }
            driver.ask(
                "cuLaunchKernel",
                &[function, blocks, 1, 1, THREADS, 1, 1, 0, stream, arguments.as_ptr() as u64, 0],
            )?;
            driver.ask("cuMemcpyDtoHAsync_v2", &[sums.as_mut_ptr() as u64, memory, 16, stream])?;
            driver.ask("cuStreamSynchronize", &[stream])?;
        }
        Ok(Hash(u128::from(sums[0]) | u128::from(sums[1]) << 64))
    }
}
