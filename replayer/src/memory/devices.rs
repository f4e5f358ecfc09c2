//! Devices that may not do for what was recorded.

use crate::driver::Driver;
use crate::error::Error;
use crate::memory::objects::Objects;
use crate::plan::Plan;

/// Those that may be too small, or are of another kind, in words.
pub fn shortages(driver: &Driver, objects: &Objects, plan: &Plan) -> Result<Vec<String>, Error> {
    let mut shortages = Vec::new();
    for recorded in &plan.devices {
        let device = objects.device(*recorded);
        let (needed, available) = (plan.peak(*recorded), total_memory(driver, device)?);
        if needed > available {
            shortages.push(format!(
                "device {device} has {available} bytes of memory, the recorded program seems to have used {needed}"
            ));
        }
        let (here, there) = (compute_capability(driver, device)?, plan.compute.get(recorded).copied());
        if let Some((major, minor)) = there.filter(|there| *there != here) {
            shortages.push(format!(
                "device {device} has compute capability {}.{}, the recorded one {major}.{minor}: code that the trace \
                 holds for that one alone will not load, and what text is compiled to may round otherwise",
                here.0, here.1
            ));
        }
    }
    Ok(shortages)
}

fn compute_capability(driver: &Driver, device: i32) -> Result<(i32, i32), Error> {
    const MAJOR: u64 = 75;
    const MINOR: u64 = 76;
    let attribute = |which: u64| {
        let mut value = 0i32;
        let words = [&raw mut value as u64, which, u64::from(device as u32)];
        // SAFETY: one output word.
        match unsafe { driver.ask("cuDeviceGetAttribute", &words) } {
            Ok(()) => Ok(value),
            Err(failure) => Err(Error::Device { device, failure: failure.to_string() }),
        }
    };
    Ok((attribute(MAJOR)?, attribute(MINOR)?))
}

fn total_memory(driver: &Driver, device: i32) -> Result<u64, Error> {
    let mut bytes = 0u64;
    // SAFETY: one output word.
    match unsafe { driver.ask("cuDeviceTotalMem_v2", &[&raw mut bytes as u64, u64::from(device as u32)]) } {
        Ok(()) => Ok(bytes),
        Err(failure) => Err(Error::Device { device, failure: failure.to_string() }),
    }
}
