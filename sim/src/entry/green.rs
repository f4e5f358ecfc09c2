//! Green contexts: contexts with a share of the multiprocessors. The simulated device ignores the share, but
//! counts it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::declare::entries;
use crate::abi::code::{Code, Result};
use crate::abi::{Handle, Input, Out};
use crate::base::device;
use crate::base::registry::Registry;
use crate::objects::teardown;
use crate::streams::{context, event, stream};

/// CUdevResource: its type, bytes of the driver's own, then the number of multiprocessors, their minimum, and
/// the alignment of their number.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Resource {
    kind: u32,
    /// A number of its own for every resource handed out: it is not comparable, as with the driver.
    serial: u64,
    check: u64,
    own: [u32; 18],
    count: u32,
    least: u32,
    together: u32,
    rest: [u32; 9],
}

/// CU_DEV_SM_RESOURCE_GROUP_PARAMS.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Group {
    count: u32,
    together: u32,
    preferred: u32,
    flags: u32,
    rest: [u32; 12],
}

const MULTIPROCESSORS: u32 = 1;
const LEAST: u32 = 2;
const SECRET: u64 = 0x6375_7472_6163_6521;
const DEFAULT_STREAM: u32 = 1;
const NON_BLOCKING: u32 = 1;

/// What a description says: how many multiprocessors.
static DESCRIPTIONS: Registry<u32> = Registry::new();

fn resource(count: u32) -> Resource {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let serial = NEXT.fetch_add(1, Ordering::Relaxed) ^ u64::from(std::process::id()) << 32;
    let check = serial ^ SECRET;
    Resource { kind: MULTIPROCESSORS, serial, check, own: [0; 18], count, least: LEAST, together: LEAST, rest: [0; 9] }
}

fn write_resource(to: Out<Resource>, kind: u32, count: u32) -> Result {
    if kind != MULTIPROCESSORS {
        return Err(Code::INVALID_VALUE);
    }
    to.set(resource(count))
}

/// Refuses bytes that this driver, in this process, did not hand out.
fn check_resource(given: Input<Resource>) -> Result<u32> {
    let found = given.get()?;
    let ours = found.kind == MULTIPROCESSORS && found.serial ^ SECRET == found.check;
    if ours { Ok(found.count) } else { Err(Code::INVALID_RESOURCE_TYPE) }
}

entries! {
    fn cuDeviceGetDevResource(dev: i32, to: Out<Resource>, kind: u32) {
        device::check(dev)?;
        write_resource(to, kind, device::MULTIPROCESSORS as u32)
    }

    fn cuCtxGetDevResource(ctx: Handle, to: Out<Resource>, kind: u32) {
        write_resource(to, kind, context::find_or_current(ctx)?.multiprocessors())
    }

    fn cuGreenCtxGetDevResource(green: Handle, to: Out<Resource>, kind: u32) {
        write_resource(to, kind, context::green(green)?.multiprocessors())
    }

    fn cuStreamGetDevResource / cuStreamGetDevResource_ptsz [null] (hstream: Handle, to: Out<Resource>, kind: u32) {
        write_resource(to, kind, stream::find(hstream, null)?.context()?.multiprocessors())
    }

    fn cuDevSmResourceSplitByCount(
        parts: Out<Resource>, groups: Out<u32>, given: Input<Resource>, rest: Out<Resource>, _flags: u32, least: u32,
    ) {
        let all = check_resource(given)?;
        let size = least.max(LEAST).next_multiple_of(LEAST);
        let most = all / size;
        if parts.is_null() {
            return groups.set(most);
        }
        let made = groups.get()?.min(most);
        (0..made).for_each(|index| parts.set_at(index as usize, resource(size)));
        rest.set_if(resource(all - made * size));
        groups.set(made)
    }

    fn cuDevSmResourceSplit(
        parts: Out<Resource>, groups: u32, given: Input<Resource>, rest: Out<Resource>, flags: u32, params: Out<Group>,
    ) {
        let mut left = check_resource(given)?;
        if flags != 0 || groups == 0 {
            return Err(Code::INVALID_VALUE);
        }
        for index in 0..groups as usize {
            let group = Input::from_raw(params.raw().cast_const()).element(index)?;
            let size = if group.count == 0 { left } else { group.count.next_multiple_of(LEAST) };
            left = left.checked_sub(size).ok_or(Code::INVALID_RESOURCE_CONFIGURATION)?;
            parts.set_at(index, resource(size));
            params.set_at(index, Group { count: size, together: LEAST, ..group });
        }
        rest.set_if(resource(left));
        Ok(())
    }

    fn cuDevResourceGenerateDesc(made: Out<Handle>, resources: Input<Resource>, count: u32) {
        if count != 1 {
            return Err(Code::INVALID_VALUE);
        }
        made.set(DESCRIPTIONS.insert(Arc::new(check_resource(resources)?)))
    }

    fn cuGreenCtxCreate(made: Out<Handle>, description: Handle, dev: i32, flags: u32) {
        let count = *DESCRIPTIONS.get(description).ok_or(Code::INVALID_VALUE)?;
        if made.is_null() || flags != DEFAULT_STREAM {
            return Err(Code::INVALID_VALUE);
        }
        made.set(context::create_green(dev, count)?)
    }

    fn cuGreenCtxDestroy(green: Handle) {
        context::green(green)?;
        teardown::destroy(green)
    }

    /// The same address under another type, as measured on the real driver.
    fn cuCtxFromGreenCtx(ctx: Out<Handle>, green: Handle) {
        context::green(green)?;
        ctx.set(green)
    }

    fn cuGreenCtxGetId(green: Handle, id: Out<u64>) {
        id.set(context::green(green)?.id)
    }

    fn cuGreenCtxStreamCreate(made: Out<Handle>, green: Handle, flags: u32, priority: i32) {
        let context = context::green(green)?;
        if made.is_null() || flags != NON_BLOCKING {
            return Err(Code::INVALID_VALUE);
        }
        made.set(stream::create_in(&context, flags, priority)?)
    }

    fn cuStreamGetGreenCtx(hstream: Handle, green: Out<Handle>) {
        let found = stream::find(hstream, crate::abi::NullStream::Legacy)?.context_handle;
        green.set(context::green(found).map_or(0, |_| found))
    }

    fn cuGreenCtxRecordEvent(green: Handle, hevent: Handle) {
        event::find(hevent)?.record_all(&context::green(green)?)
    }

    /// As cuCtxWaitEvent.
    fn cuGreenCtxWaitEvent(green: Handle, hevent: Handle) {
        context::green(green)?.check()?;
        event::find(hevent)?.synchronize()
    }
}
