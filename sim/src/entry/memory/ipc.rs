//! IPC handles of memory and events.

use crate::abi::code::Code;
use crate::abi::{DevicePointer, Handle, Out};
use crate::base::registry::handle_of;
use crate::entry::declare::entries;
use crate::memory::ipc::{self, IpcHandle};
use crate::streams::{context, event};

/// CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, without which nothing is opened.
const LAZY: u32 = 1;

entries! {
    fn cuIpcGetMemHandle(handle: Out<IpcHandle>, at: DevicePointer) {
        context::current()?;
        handle.set(ipc::export(at)?)
    }

    fn cuIpcOpenMemHandle_v2(at: Out<DevicePointer>, handle: IpcHandle, flags: u32) {
        let context = context::usable()?;
        if at.is_null() || flags != LAZY {
            return Err(Code::INVALID_VALUE);
        }
        at.set(ipc::open(&handle, context.device, handle_of(&context))?)
    }

    fn cuIpcCloseMemHandle(at: DevicePointer) {
        context::usable()?.lanes.wait_all();
        ipc::close(at)
    }

    fn cuIpcGetEventHandle(handle: Out<IpcHandle>, hevent: Handle) {
        handle.set(event::export(hevent)?)
    }

    fn cuIpcOpenEventHandle(made: Out<Handle>, handle: IpcHandle) {
        if made.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        made.set(event::open(&handle)?)
    }
}
