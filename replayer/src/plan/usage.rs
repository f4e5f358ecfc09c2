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
}
