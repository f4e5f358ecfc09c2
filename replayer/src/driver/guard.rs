//! The simulated driver's guard of copies (`CUTRACE_SIM_GUARD`): it must know the replay's buffers, because
//! it checks where copies write.

use libloading::Library;
use std::sync::OnceLock;

type BufferCallback = unsafe extern "C" fn(start: u64, size: u64);

static WATCHER: OnceLock<Option<BufferCallback>> = OnceLock::new();

/// To be called before any buffer is made.
pub(crate) fn find(driver: &Library) {
    WATCHER.get_or_init(|| {
        std::env::var_os("CUTRACE_SIM_GUARD")?;
        // SAFETY: only the simulated driver has such a function, of this signature.
        unsafe { driver.get::<BufferCallback>(b"cutrace_sim_buffer") }.ok().map(|told| *told)
    });
}

/// A buffer is here from now on, or (of size 0) no longer is.
pub(crate) fn tell(start: *const u8, size: usize) {
    if let Some(Some(told)) = WATCHER.get() {
        // SAFETY: plain numbers; the driver stays loaded as long as there are buffers.
        unsafe { told(start as u64, size as u64) };
    }
}
