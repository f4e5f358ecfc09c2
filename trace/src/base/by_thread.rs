//! A value for each thread of a trace, indexed by the thread's number.

use std::collections::BTreeMap;

/// Indices are small but for those of a damaged trace, which must not cost memory.
const USUAL: usize = 1 << 12;

/// A map from thread indexes to values.
#[derive(Debug, Clone)]
pub struct ByThread<T> {
    usual: Vec<Option<T>>,
    others: BTreeMap<u32, T>,
}

impl<T> Default for ByThread<T> {
    fn default() -> ByThread<T> {
        ByThread { usual: Vec::new(), others: BTreeMap::new() }
    }
}

impl<T> ByThread<T> {
    /// The value of the thread, if it has one.
    #[inline]
    pub fn get(&self, thread: u32) -> Option<&T> {
        match self.usual.get(thread as usize) {
            Some(found) => found.as_ref(),
            None => self.others.get(&thread),
        }
    }

    /// The value of the thread for changes, if it has one.
    #[inline]
    pub fn get_mut(&mut self, thread: u32) -> Option<&mut T> {
        match self.usual.get_mut(thread as usize) {
            Some(found) => found.as_mut(),
            None => self.others.get_mut(&thread),
        }
    }

    /// The value of the thread, made by `make` if it has none.
    #[inline]
    pub fn get_or_insert_with(&mut self, thread: u32, make: impl FnOnce() -> T) -> &mut T {
        if (thread as usize) < USUAL {
            if self.usual.len() <= thread as usize {
                self.usual.resize_with(thread as usize + 1, || None);
            }
            return self.usual[thread as usize].get_or_insert_with(make);
        }
        self.others.entry(thread).or_insert_with(make)
    }

    /// By thread.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let usual = self.usual.iter().enumerate().filter_map(|(thread, found)| Some((thread as u32, found.as_ref()?)));
        usual.chain(self.others.iter().map(|(thread, found)| (*thread, found)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_by_any_index() {
        let mut all: ByThread<u32> = ByThread::default();
        for thread in [7, u32::MAX, 0, USUAL as u32 - 1, USUAL as u32, 7] {
            *all.get_or_insert_with(thread, || 0) += 1;
        }
        *all.get_mut(u32::MAX).expect("kept") += 5;
        let kept = [(0, 1), (7, 2), (USUAL as u32 - 1, 1), (USUAL as u32, 1), (u32::MAX, 6)];
        assert_eq!(all.iter().map(|(thread, count)| (thread, *count)).collect::<Vec<_>>(), kept);
        assert_eq!([all.get(7), all.get(8), all.get(USUAL as u32 + 1)], [Some(&2), None, None]);
    }
}
