//! Devices, with the properties that the program queried; others are not known.

use super::Nsys;
use super::rows::Store;
use super::schema::{CudaDevice, Gpu};
use analysis::error::Result;
use foldhash::HashMap;
use trace::api::enums::CUdevice_attribute as Attribute;
use trace::api::roles::{Class, Role};
use trace::api::types::{Kind, Typed};
use trace::{Call, Function};

/// Properties of a process's devices that it queried, by their ordinals.
#[derive(Default)]
pub(super) struct DeviceAnswers(HashMap<i64, Answers>);

/// By attribute.
#[derive(Default)]
struct Answers(HashMap<u32, i64>);

/// The known properties of a device, from all processes together.
#[derive(Default)]
pub(super) struct Device {
    id: i64,
    /// For the process that was there first.
    ordinal: i64,
    host: i64,
    name: Option<String>,
    uuid: Option<String>,
    memory: Option<u64>,
    compute: Option<(i32, i32)>,
    answers: Answers,
}

impl DeviceAnswers {
    pub(super) fn follow(&mut self, call: &Call) {
        let is_question = |function: &&Function| function.class == Class::query && function.family == "device";
        let Some(function) = call.function().filter(is_question).filter(|_| call.succeeded()) else { return };
        let mut params = function.params.iter();
        let Some(asked) = params.position(|param| param.ty.name == Attribute::TYPE.name) else { return };
        let answer = function.params.iter().position(|param| matches!(param.role, Role::Volatile(_)));
        if let Some(device) = call.handle(Kind::Device)
            && let Some(attribute) = call.argument_of(asked)
            && let Some(value) = answer.and_then(|at| call.output_of(at))
        {
            let answers = self.0.entry(i64::from(device as i32)).or_default();
            answers.0.insert(attribute as u32, i64::from(value as i32));
        }
    }
}

impl Answers {
    fn get(&self, attribute: Attribute) -> Option<i64> {
        self.0.get(&attribute.0).copied()
    }

    /// As PCI addresses are written.
    fn bus(&self) -> Option<String> {
        let domain = self.get(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?;
        let bus = self.get(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?;
        Some(format!("{domain:04X}:{bus:02X}:{:02X}.0", self.get(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?))
    }

    fn gpu(&self) -> Gpu<'static> {
        let of = |attribute| self.get(attribute);
        let warp = of(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE);
        let threads = of(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
        let warps = threads.zip(warp).and_then(|(threads, warp)| threads.checked_div(warp));
        Gpu {
            isDiscrete: of(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED).map(|is| i64::from(is == 0)).into(),
            l2CacheSize: of(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE).into(),
            // The attribute is in kHz.
            clockRate: of(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).map(|rate| rate * 1000).into(),
            smCount: of(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).into(),
            constantMemory: of(Attribute::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY).into(),
            maxRegistersPerBlock: of(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK).into(),
            maxShmemPerBlock: of(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK).into(),
            maxShmemPerBlockOptin: of(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN).into(),
            maxShmemPerSm: of(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR).into(),
            maxRegistersPerSm: of(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR).into(),
            threadsPerWarp: warp.into(),
            asyncEngines: of(Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT).into(),
            maxWarpsPerSm: warps.into(),
            maxBlocksPerSm: of(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR).into(),
            maxThreadsPerBlock: of(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK).into(),
            maxBlockDimX: of(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X).into(),
            maxBlockDimY: of(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y).into(),
            maxBlockDimZ: of(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z).into(),
            maxGridDimX: of(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X).into(),
            maxGridDimY: of(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y).into(),
            maxGridDimZ: of(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z).into(),
            ..Gpu::default()
        }
    }
}

impl<S: Store> Nsys<'_, '_, S> {
    /// Those that the program used, and those that were timed.
    pub(super) fn about_devices(&mut self) -> Result<()> {
        let timed = self.trace.profile.iter().flat_map(|profile| &profile.devices);
        let mut ordinals: Vec<i64> = self.trace.devices.iter().map(|device| device.ordinal.into()).collect();
        ordinals.extend(timed.clone().map(|(ordinal, _)| i64::from(*ordinal)));
        ordinals.sort_unstable();
        ordinals.dedup();
        for ordinal in ordinals {
            let recorded = self.trace.devices.iter().find(|device| i64::from(device.ordinal) == ordinal);
            let timed = timed.clone().find(|(of, _)| i64::from(*of) == ordinal).map(|(_, name)| name.as_str());
            let name = timed.or(recorded.map(|device| device.name.as_str()));
            let uuid = recorded.map(|device| uuid(&device.uuid));
            let key = uuid.clone().unwrap_or_else(|| format!("{} {ordinal}", self.process.host));
            let pid = self.trace.preamble.pid;
            let ids: Vec<i64> = self.devices.values().map(|device| device.id).collect();
            // Processes that see different devices count them alike.
            let free = || std::iter::once(ordinal).chain(0..).find(|id| !ids.contains(id)).unwrap_or(ordinal);
            let host = self.process.host as i64;
            let new = || Device { id: free(), ordinal, host, ..Device::default() };
            let device = self.devices.entry(key).or_insert_with(new);
            device.name = device.name.take().or(name.map(str::to_string));
            device.uuid = device.uuid.take().or(uuid.clone());
            device.memory = device.memory.or(recorded.map(|device| device.memory));
            device.compute = device.compute.or(recorded.map(|device| device.compute));
            let answers = self.asked.0.remove(&ordinal).unwrap_or_default();
            let multiprocessors = answers.get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
            device.answers.0.extend(answers.0);
            self.rows.add_row(CudaDevice {
                gpuId: device.id.into(),
                cudaId: ordinal.into(),
                pid: pid.into(),
                uuid: uuid.as_deref().into(),
                numMultiprocessors: multiprocessors.into(),
            })?;
        }
        Ok(())
    }

    /// A row for each, whichever process knew of it what.
    pub(super) fn devices(&mut self) -> Result<()> {
        let mut all: Vec<Device> = std::mem::take(&mut self.devices).into_values().collect();
        all.sort_by_key(|device| device.id);
        for device in all {
            self.rows.add_row(Gpu {
                busLocation: device.answers.bus().as_deref().into(),
                vmId: device.host.into(),
                id: device.id.into(),
                name: device.name.as_deref().into(),
                totalMemory: device.memory.into(),
                uuid: device.uuid.as_deref().into(),
                cuDevice: device.ordinal.into(),
                computeMajor: device.compute.map(|(major, _)| i64::from(major)).into(),
                computeMinor: device.compute.map(|(_, minor)| i64::from(minor)).into(),
                ..device.answers.gpu()
            })?;
        }
        Ok(())
    }
}

fn uuid(bytes: &[u8; 16]) -> String {
    let hex = analysis::text::json::hex(bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
