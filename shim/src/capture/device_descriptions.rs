//! Descriptions of the devices, which can be queried once the driver has initialised.

use crate::capture::step::CallReturn;
use crate::driver::devices;
use crate::os::guard::guarded;
use crate::submission::hook::Hook;
use trace::file::record;

#[inline(always)]
pub(crate) fn after_return(call: CallReturn) {
    if matches!(call.site.hook, Hook::Init) && call.result == 0 {
        guarded(|| {
            devices::undescribed()
                .iter()
                .for_each(|device| call.lane.append(&record::with_body(record::DEVICE, device)));
        });
    }
}
