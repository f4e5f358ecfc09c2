//! Devices and primary contexts.

use std::ffi::c_char;

use super::declare::entries;
use crate::abi::code::Code;
use crate::abi::structs::DeviceProperties;
use crate::abi::{Handle, Input, Out, put_text};
use crate::base::device;
use crate::base::state::knobs;
use crate::objects::{array, teardown};
use crate::streams::context;

entries! {
    fn cuDeviceGet(found: Out<i32>, ordinal: i32) {
        device::check(ordinal)?;
        found.set(ordinal)
    }

    fn cuDeviceGetCount(count: Out<i32>) {
        context::permitted()?;
        count.set(knobs().devices)
    }

    fn cuDeviceGetName(name: Out<c_char>, length: i32, dev: i32) {
        device::check(dev)?;
        if name.is_null() || length <= 0 {
            return Err(Code::INVALID_VALUE);
        }
        put_text(name, length as usize, device::NAME);
        Ok(())
    }

    fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, dev: i32) {
        device::check(dev)?;
        uuid.set(device::uuid(dev))
    }

    fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, dev: i32) {
        device::check(dev)?;
        uuid.set(device::uuid(dev))
    }

    fn cuDeviceTotalMem_v2(bytes: Out<usize>, dev: i32) {
        device::check(dev)?;
        bytes.set(knobs().memory)
    }

    fn cuDeviceGetAttribute(value: Out<i32>, attribute: u32, dev: i32) {
        value.set(device::attribute(attribute, dev)?)
    }

    fn cuDeviceComputeCapability(major: Out<i32>, minor: Out<i32>, dev: i32) {
        device::check(dev)?;
        major.set(9)?;
        minor.set(0)
    }

    fn cuDeviceGetProperties(properties: Out<DeviceProperties>, dev: i32) {
        let get = |which| device::attribute(which, dev);
        properties.set(DeviceProperties {
            max_threads: get(1)?,
            max_block: [get(2)?, get(3)?, get(4)?],
            max_grid: [get(5)?, get(6)?, get(7)?],
            shared_per_block: get(8)?,
            constant_memory: get(9)?,
            warp_size: get(10)?,
            max_pitch: get(11)?,
            registers: get(12)?,
            clock_rate: get(13)?,
            texture_alignment: get(14)?,
        })
    }

    fn cuDeviceGetPCIBusId(id: Out<c_char>, length: i32, dev: i32) {
        device::check(dev)?;
        let text = device::pci_bus_id(dev);
        if id.is_null() || length <= text.len() as i32 {
            return Err(Code::INVALID_VALUE);
        }
        put_text(id, length as usize, &text);
        Ok(())
    }

    fn cuDeviceGetByPCIBusId(found: Out<i32>, id: Input<c_char>) {
        let id = id.text()?;
        let dev = (0..knobs().devices).find(|d| device::pci_bus_id(*d).eq_ignore_ascii_case(&id));
        found.set(dev.ok_or(Code::INVALID_DEVICE)?)
    }

    fn cuDeviceCanAccessPeer(can: Out<i32>, dev: i32, peer: i32) {
        device::check(dev)?;
        device::check(peer)?;
        can.set(i32::from(dev != peer))
    }

    /// Performance rank, access, native atomics, array access, partial atomics.
    fn cuDeviceGetP2PAttribute(value: Out<i32>, attribute: u32, from: i32, to: i32) {
        device::check(from)?;
        device::check(to)?;
        if from == to {
            return Err(Code::INVALID_DEVICE);
        }
        value.set(match attribute {
            1 | 5 => 0,
            2..=4 => 1,
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    fn cuDeviceGetTexture1DLinearMaxWidth(width: Out<usize>, format: u32, channels: u32, dev: i32) {
        device::check(dev)?;
        let element = array::channel_bytes(format)? * channels.max(1) as usize;
        width.set((1 << 28) / element)
    }

    fn cuDeviceGetExecAffinitySupport(supported: Out<i32>, kind: u32, dev: i32) {
        device::check(dev)?;
        supported.set(if kind == 0 { 0 } else { return Err(Code::INVALID_VALUE) })
    }

    /// Reductions and all else, of 32 and 64 bits, signed and unsigned.
    fn cuDeviceGetHostAtomicCapabilities(capabilities: Out<u32>, operations: Input<u32>, count: u32, dev: i32) {
        device::check(dev)?;
        for index in 0..count as usize {
            capabilities.set_at(index, if operations.element(index)? <= 12 { 0x1f } else { return Err(Code::INVALID_VALUE) });
        }
        Ok(())
    }

    fn cuDeviceGetP2PAtomicCapabilities(
        capabilities: Out<u32>, operations: Input<u32>, count: u32, from: i32, to: i32,
    ) {
        device::check(from)?;
        device::check(to)?;
        if from == to {
            return Err(Code::INVALID_DEVICE);
        }
        (0..count as usize).try_for_each(|index| operations.element(index).map(|_| capabilities.set_at(index, 0x1f)))
    }

    /// Nobody else writes into the memory of a simulated device.
    fn cuFlushGPUDirectRDMAWrites(target: u32, scope: u32) {
        context::current()?;
        if target == 0 && (scope == 100 || scope == 200) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    fn cuDevicePrimaryCtxRetain(found: Out<Handle>, dev: i32) {
        if found.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        found.set(context::retain_primary(dev)?)
    }

    fn cuDevicePrimaryCtxRelease(dev: i32) {
        teardown::release_primary(dev)
    }

    fn cuDevicePrimaryCtxRelease_v2(dev: i32) {
        teardown::release_primary(dev)
    }

    fn cuDevicePrimaryCtxReset(dev: i32) {
        teardown::reset_primary(dev)
    }

    fn cuDevicePrimaryCtxReset_v2(dev: i32) {
        teardown::reset_primary(dev)
    }

    fn cuDevicePrimaryCtxSetFlags(dev: i32, flags: u32) {
        context::set_primary_flags(dev, flags)
    }

    fn cuDevicePrimaryCtxSetFlags_v2(dev: i32, flags: u32) {
        context::set_primary_flags(dev, flags)
    }

    fn cuDevicePrimaryCtxGetState(dev: i32, flags: Out<u32>, active: Out<i32>) {
        let (set, alive) = context::primary_state(dev)?;
        flags.set(set)?;
        active.set(i32::from(alive))
    }
}
