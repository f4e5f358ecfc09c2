//! Addresses of the driver's own that no call hands out, which are others here: learned where a result holds them.
//!
//! What is taken for one must be one here, and lie in its block as the recorded word did in its own. So a program that brings another function's
//! address than it had brought when recorded is told from one whose functions lie elsewhere.

use crate::run::world::World;
use std::cell::OnceCell;
use std::ops::Range;
use trace::invented::{BLOCK, may_be};

/// What one result teaches.
#[derive(Default)]
pub struct Moves {
    /// Addresses that the process has, and nobody but devices may use.
    closed: OnceCell<Vec<Range<u64>>>,
    /// Blocks that were not known before.
    pub count: u64,
}

impl Moves {
    pub fn learn(&mut self, world: &World, recorded: u64, live: u64) {
        let is_possible = recorded != live && may_be(recorded) && may_be(live) && recorded % BLOCK == live % BLOCK;
        if is_possible && !is_known(world, recorded, live) && self.is_drivers(world, live) {
            self.count += u64::from(world.translation.learn(recorded, live));
        }
    }

    fn is_drivers(&self, world: &World, live: u64) -> bool {
        let is_closed = || self.closed.get_or_init(closed).iter().any(|range| range.contains(&live));
        is_device_memory(world, live) || is_closed()
    }
}

/// Whether calls tell where one of them is.
fn is_known(world: &World, recorded: u64, live: u64) -> bool {
    let (plan, translation) = (world.plan, &world.translation);
    let was = plan.device.contains(recorded) || plan.host.contains(recorded) || translation.live(recorded).is_some();
    was || world.placement.is_at_home(live) || translation.recorded(live).is_some()
}

/// Whether the driver knows it for device memory, as it does variables. Code it does not.
pub fn is_device_memory(world: &World, address: u64) -> bool {
    const MEMORY_TYPE: u64 = 2;
    const DEVICE: u32 = 2;
    let mut kind = 0u32;
    // SAFETY: one output word; the driver does not follow the address.
    let asked = unsafe { world.driver.ask("cuPointerGetAttribute", &[&raw mut kind as u64, MEMORY_TYPE, address]) };
    asked.is_ok() && kind == DEVICE
}

/// The driver keeps addresses for the device by mappings that the CPU may not touch.
fn closed() -> Vec<Range<u64>> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(closed_range).collect()
}

fn closed_range(line: &str) -> Option<Range<u64>> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?).filter(|_| rest.starts_with("---"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_that_nobody_may_touch() {
        let line = "7fb5f7600000-7fb5f7800000 ---p 00000000 00:00 0 ";
        assert_eq!(closed_range(line), Some(0x7fb5_f760_0000..0x7fb5_f780_0000));
        assert_eq!(closed_range("7fb5f7600000-7fb5f7800000 rw-p 00000000 00:00 0 "), None);
    }
}
