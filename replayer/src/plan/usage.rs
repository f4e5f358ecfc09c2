//! How much device memory a program had at a time, and what of it ends with a context.

use std::collections::HashMap;

#[derive(Default)]
pub struct Usage {
    allocated: HashMap<u64, Held>,
    /// The sum for each device.
    used: HashMap<i32, u64>,
    peaks: HashMap<i32, u64>,
}

struct Held {
    device: i32,
    len: u64,
    /// The context that it ends with; none for memory of pools, which outlives contexts.
    context: Option<u64>,
}

impl Usage {
    pub fn add(&mut self, start: u64, len: u64, device: i32, context: Option<u64>) {
        // Still there: its free is under way on another thread.
        self.remove(start);
        self.allocated.insert(start, Held { device, len, context });
        let used = self.used.entry(device).or_default();
        *used = used.saturating_add(len);
        let peak = self.peaks.entry(device).or_default();
        *peak = (*used).max(*peak);
    }

    pub fn remove(&mut self, start: u64) {
        if let Some(held) = self.allocated.remove(&start) {
            let used = self.used.entry(held.device).or_default();
            *used = used.saturating_sub(held.len);
        }
    }

    /// What a context that ends takes with it, by its start.
    pub fn end(&mut self, context: u64) -> Vec<u64> {
        let ending = self.allocated.iter().filter(|(_, held)| held.context == Some(context));
        let mut starts: Vec<u64> = ending.map(|(start, _)| *start).collect();
        starts.sort_unstable();
        starts.iter().for_each(|start| self.remove(*start));
        starts
    }

    /// The most bytes at a time, by device.
    pub fn into_peaks(self) -> HashMap<i32, u64> {
        self.peaks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::plan;
    use crate::sample::Sample;

    const AT: [u64; 3] = [0x7f00_0000_0000, 0x7f10_0000_0000, 0x7f20_0000_0000];

    #[test]
    fn memory_ends_with_its_context() {
        let mut usage = Usage::default();
        usage.add(0x1000, 100, 0, Some(0xc0));
        usage.add(0x2000, 10, 0, Some(0xc1));
        usage.add(0x3000, 1, 0, None);
        assert_eq!(usage.end(0xc0), [0x1000]);
        assert_eq!(usage.end(0xc0), []);
        usage.add(0x1000, 50, 0, Some(0xc2));
        usage.remove(0x2000);
        usage.add(0x4000, 60, 0, Some(0xc2));
        assert_eq!(usage.into_peaks(), HashMap::from([(0, 111)]));
    }

    #[test]
    fn memory_made_in_a_green_context_ends_with_the_primary_one() {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.call(0, "cuDevicePrimaryCtxRetain", 2..3, &[0x100, 0], &[(0x100, &0xc0u64.to_le_bytes())]);
        sample.call(0, "cuGreenCtxCreate", 4..5, &[0x100, 0x77, 0, 1], &[(0x100, &0xc5u64.to_le_bytes())]);
        sample.call(0, "cuCtxSetCurrent", 6..7, &[0xc5], &[]);
        sample.call(0, "cuMemAlloc_v2", 8..9, &[0x100, 10], &[(0x100, &AT[0].to_le_bytes())]);
        sample.call(0, "cuCtxSetCurrent", 10..11, &[0xc0], &[]);
        // The green one retains it.
        sample.call(0, "cuDevicePrimaryCtxRelease", 12..13, &[0], &[]);
        assert!(plan(&sample.trace()).ends.is_empty());
        sample.call(0, "cuGreenCtxDestroy", 14..15, &[0xc5], &[]);
        let plan = plan(&sample.trace());
        let ends: Vec<_> = plan.ends.iter().map(|(call, end)| (*call, end.context, &end.memory[..])).collect();
        assert_eq!(ends, [(7, 0xc0, &AT[..1])]);
    }

    #[test]
    fn memory_outlives_a_green_context() {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.call(0, "cuDevicePrimaryCtxRetain", 2..3, &[0x100, 0], &[(0x100, &0xc0u64.to_le_bytes())]);
        sample.call(0, "cuGreenCtxCreate", 4..5, &[0x100, 0x77, 0, 1], &[(0x100, &0xc5u64.to_le_bytes())]);
        sample.call(0, "cuCtxSetCurrent", 6..7, &[0xc5], &[]);
        sample.call(0, "cuMemAlloc_v2", 8..9, &[0x100, 10], &[(0x100, &AT[0].to_le_bytes())]);
        sample.call(0, "cuGreenCtxDestroy", 10..11, &[0xc5], &[]);
        assert!(plan(&sample.trace()).ends.values().all(|end| end.memory.is_empty()));
    }

    #[test]
    fn memory_of_a_stream_or_pool_is_on_its_device() {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.call(0, "cuDevicePrimaryCtxRetain", 2..3, &[0x100, 1], &[(0x100, &0xc1u64.to_le_bytes())]);
        sample.call(0, "cuCtxSetCurrent", 4..5, &[0xc1], &[]);
        sample.call(0, "cuStreamCreate", 6..7, &[0x100, 1], &[(0x100, &0x51u64.to_le_bytes())]);
        sample.call(0, "cuDevicePrimaryCtxRetain", 8..9, &[0x100, 0], &[(0x100, &0xc0u64.to_le_bytes())]);
        sample.call(0, "cuCtxSetCurrent", 10..11, &[0xc0], &[]);
        sample.call(0, "cuDeviceGetMemPool", 12..13, &[0x100, 2], &[(0x100, &0x90u64.to_le_bytes())]);
        sample.call(0, "cuMemAllocAsync", 14..15, &[0x100, 10, 0x51], &[(0x100, &AT[0].to_le_bytes())]);
        sample.call(0, "cuMemAllocFromPoolAsync", 16..17, &[0x100, 20, 0x90, 0], &[(0x100, &AT[1].to_le_bytes())]);
        sample.call(0, "cuMemAllocAsync", 18..19, &[0x100, 40, 0], &[(0x100, &AT[2].to_le_bytes())]);
        let plan = plan(&sample.trace());
        assert_eq!([0, 1, 2].map(|device| plan.peak(device)), [40, 10, 20]);
    }

    #[test]
    fn a_primary_context_ends_with_its_last_release() {
        let mut sample = Sample::new();
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        for (n, at) in AT.iter().enumerate() {
            let begin = 10 + 20 * n as u64;
            sample.call(
                0,
                "cuDevicePrimaryCtxRetain",
                begin..begin + 1,
                &[0x100, 0],
                &[(0x100, &0xc0u64.to_le_bytes())],
            );
            sample.call(0, "cuCtxSetCurrent", begin + 2..begin + 3, &[0xc0], &[]);
            sample.call(0, "cuMemAlloc_v2", begin + 4..begin + 5, &[0x100, 100], &[(0x100, &at.to_le_bytes())]);
            if n > 0 {
                sample.call(0, "cuDevicePrimaryCtxRelease_v2", begin + 6..begin + 7, &[0], &[]);
            }
        }
        // Retained once more than released: nothing ends.
        assert_eq!(plan(&sample.trace()).peak(0), 300);
        sample.call(0, "cuDevicePrimaryCtxRelease_v2", 90..91, &[0], &[]);
        sample.call(0, "cuMemAlloc_v2", 92..93, &[0x100, 150], &[(0x100, &AT[0].to_le_bytes())]);
        let plan = plan(&sample.trace());
        assert_eq!(plan.peak(0), 300);
        assert_eq!(plan.ends.values().map(|end| end.memory.clone()).collect::<Vec<_>>(), [AT.to_vec()]);
    }

    #[test]
    fn a_context_that_is_detached_for_the_last_time_takes_its_memory_along() {
        let mut sample = Sample::new();
        let context = (0x100, &0xc5u64.to_le_bytes()[..]);
        sample.call(0, "cuInit", 0..1, &[0], &[]);
        sample.call(0, "cuCtxCreate_v2", 2..3, &[0x100, 0, 0], &[context]);
        sample.call(0, "cuCtxAttach", 4..5, &[0x100, 0], &[context]);
        sample.call(0, "cuMemAlloc_v2", 6..7, &[0x100, 10], &[(0x100, &AT[0].to_le_bytes())]);
        sample.call(0, "cuCtxDetach", 8..9, &[0xc5], &[]);
        assert!(plan(&sample.trace()).ends.is_empty());
        sample.call(0, "cuCtxDetach", 10..11, &[0xc5], &[]);
        let plan = plan(&sample.trace());
        let ends: Vec<_> = plan.ends.iter().map(|(call, end)| (*call, end.context, &end.memory[..])).collect();
        assert_eq!(ends, [(5, 0xc5, &AT[..1])]);
    }
}
