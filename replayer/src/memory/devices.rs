//! Devices that may be unsuitable for the recording: too small, or of another kind.

use crate::base::error::Error;
use crate::driver::{Driver, Failure};
use crate::memory::objects::Objects;
use crate::plan::Plan;
use trace::api::enums::CUdevice_attribute;

/// Those that may be too small, or are of another kind, in words.
pub(crate) fn shortages(driver: &Driver, objects: &Objects, plan: &Plan) -> Result<Vec<String>, Error> {
    let mut shortages = Vec::new();
    for recorded in &plan.devices.used {
        let device = objects.device(*recorded);
        let (needed, available) = (plan.peak(*recorded), driver.total_memory(device).map_err(unasked(device))?);
        if needed > available {
            shortages.push(format!(
                "device {device} has {available} bytes of memory, the recorded program used about {needed}"
            ));
        }
        let (here, there) = (compute_capability(driver, device)?, plan.devices.compute.get(recorded).copied());
        if let Some((major, minor)) = there.filter(|there| *there != here) {
            shortages.push(format!(
                "device {device} has compute capability {}.{}, the recorded one {major}.{minor}: code for the recorded \
                 device only will not load, and compiled PTX may round differently",
                here.0, here.1
            ));
        }
    }
    Ok(shortages)
}

fn compute_capability(driver: &Driver, device: i32) -> Result<(i32, i32), Error> {
    let attribute = |which| driver.device_attribute(device, which).map_err(unasked(device));
    let major = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    Ok((major, attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?))
}

fn unasked(device: i32) -> impl Fn(Failure) -> Error {
    move |failure| Error::Device { device, failure: failure.to_string() }
}
