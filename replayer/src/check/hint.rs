//! A possible reason for a difference: bytes that hold addresses.

use crate::base::addresses::looks_like_address;
use crate::memory::words::Layout;
use crate::session::Session;

/// More words are not looked at: each is a question to the driver.
const MOST: usize = 4096;

/// Words of a result that lead into device memory which no call of the trace gave: variables of modules, for
/// one, whose addresses kernels know and the program never asked for. They cannot be mapped back. In words;
/// none if there are none.
pub(crate) fn strange_addresses(session: &Session, bytes: &[u8], layout: Layout) -> Option<String> {
    let mut found = 0;
    let mut asked = 0;
    layout.each(bytes, |_, value| {
        if looks_like_address(value) && asked < MOST && !is_known(session, value) {
            asked += 1;
            found += u64::from(session.driver.is_device_memory(value));
        }
    });
    (found > 0).then(|| {
        format!(
            "; {found} of its words point into memory that no call returned: variables whose address was never queried?"
        )
    })
}

fn is_known(session: &Session, value: u64) -> bool {
    session.placement.is_in_place(value) || session.translation.recorded(value).is_some()
}
