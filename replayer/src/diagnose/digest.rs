//! Hashes of device memory, computed by a kernel of the replay's own (digest/digest.cu): hashing an arena
//! between two launches takes no longer than reading it there.

use crate::driver::calls::Launch;
use crate::driver::{Driver, Failure};
use std::collections::HashMap;
use trace::base::hash::Hash;
use trace::model::stream::StreamHandle;

const CODE: &str = concat!(include_str!("digest/digest.ptx"), "\0");
const THREADS: u32 = 256;
/// Enough to keep any device busy.
const MOST_BLOCKS: u64 = 2048;
/// Ranges that have moved, at most.
const MOST_MOVED: usize = 4096;

/// Memory that is not where it was: live address, length, recorded address.
pub(crate) type Moved = [u64; 3];

#[derive(Default)]
pub(crate) struct Digests {
    /// By context; none where the kernel cannot be had.
    kernels: HashMap<u64, Option<Kernel>>,
}

/// What the kernel needs in a context: it ends with that.
#[derive(Clone, Copy)]
struct Kernel {
    function: u64,
    stream: StreamHandle,
    /// Device memory: two sums, then what has moved.
    memory: u64,
}

impl Digests {
    /// Of this many words at a live address that this context, which is current, can reach; none if it cannot
    /// be told so.
    pub(crate) fn digest(
        &mut self,
        driver: &Driver,
        context: u64,
        live: u64,
        words: u64,
        moved: &[Moved],
    ) -> Option<Hash> {
        let kernel = self.kernels.entry(context).or_insert_with(|| Kernel::load(driver).ok());
        kernel.filter(|_| moved.len() <= MOST_MOVED)?.run(driver, live, words, moved).ok()
    }

    /// Its handle may be another's from now on.
    pub(crate) fn context_ends(&mut self, context: u64) {
        self.kernels.remove(&context);
    }
}

impl Kernel {
    fn load(driver: &Driver) -> Result<Kernel, Failure> {
        // SAFETY: code that ends with a zero.
        let module = unsafe { driver.load_module(CODE.as_bytes()) }?;
        let function = driver.function_of_module(module, c"digest")?;
        let stream = driver.create_stream()?;
        let memory = driver.allocate(16 + size_of::<[Moved; MOST_MOVED]>() as u64)?;
        Ok(Kernel { function, stream, memory })
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
        let blocks = words.div_ceil(THREADS.into()).clamp(1, MOST_BLOCKS) as u32;
        let (grid, block) = ([blocks, 1, 1], [THREADS, 1, 1]);
        let launch = Launch { function, grid, block, shared: 0, arguments: arguments.as_ptr() as u64 };
        let moved: Vec<u8> = moved.as_flattened().iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut sums = [0u64; 2];
        driver.fill(memory, 0, 16, stream)?;
        // SAFETY: the buffers live until the stream has been waited for; the arguments are as many and as
        // long as the kernel's.
        unsafe {
            if !moved.is_empty() {
                driver.write_ordered(ranges, &moved, stream)?;
            }
            driver.launch(&launch, stream)?;
            driver.read_ordered(sums.as_mut_ptr().cast(), memory, 16, stream)?;
        }
        driver.synchronize_stream(stream)?;
        Ok(Hash(u128::from(sums[0]) | u128::from(sums[1]) << 64))
    }
}
