//! Who holds how much memory: what is live, what was live at the peak, and what ended how. Bounded by what is
//! live.

use std::collections::{BTreeMap, HashMap};

/// Where memory is: on a device, or the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    Device(i32),
    Host,
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Side::Device(ordinal) => write!(f, "device {ordinal}"),
            Side::Host => f.write_str("host"),
        }
    }
}

/// What names a piece of memory while it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Name {
    Base(u64),
    Physical(u64),
    Array(u64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Held<'t> {
    pub side: Side,
    pub family: &'static str,
    pub function: &'t str,
    pub thread: u32,
    pub call: u64,
    pub bytes: u64,
    /// Ticks at which the call returned that brought it.
    pub since: u64,
    /// The context that it ends with.
    pub context: Option<u64>,
    /// A call that was to free it failed.
    pub tried: bool,
}

#[derive(Default)]
pub struct Account<'t> {
    pub allocations: u64,
    pub frees: u64,
    /// Ended with their context.
    pub ended: u64,
    /// Bytes in all.
    pub total: u64,
    pub live: u64,
    pub live_count: u64,
    pub peak: u64,
    pub peak_call: u64,
    /// Of what was live at the peak, what is not any more.
    gone_since: Vec<Held<'t>>,
}

#[derive(Default)]
pub struct Ledger<'t> {
    live: HashMap<Name, Held<'t>>,
    pub accounts: BTreeMap<Side, Account<'t>>,
}

impl<'t> Ledger<'t> {
    pub fn add(&mut self, name: Name, held: Held<'t>) {
        // Still there: its free is under way on another thread, and comes later in this walk.
        self.take(name, true);
        let account = self.accounts.entry(held.side).or_default();
        account.allocations += 1;
        account.total = account.total.saturating_add(held.bytes);
        account.live = account.live.saturating_add(held.bytes);
        account.live_count += 1;
        if account.live > account.peak {
            (account.peak, account.peak_call) = (account.live, held.call);
            account.gone_since.clear();
        }
        self.live.insert(name, held);
    }

    /// The program frees it, with a call that began at `begin`.
    pub fn free(&mut self, name: Name, begin: u64) -> Option<Held<'t>> {
        // What was born afterwards has the address of what this call frees, which was taken out at that
        // moment.
        if self.live.get(&name).is_some_and(|held| held.since > begin) {
            return None;
        }
        self.take(name, true)
    }

    /// The program tries to free it, and the call fails.
    pub fn tried(&mut self, name: Name) {
        self.live.entry(name).and_modify(|held| held.tried = true);
    }

    fn take(&mut self, name: Name, freed: bool) -> Option<Held<'t>> {
        let held = self.live.remove(&name)?;
        let account = self.accounts.entry(held.side).or_default();
        account.live = account.live.saturating_sub(held.bytes);
        account.live_count = account.live_count.saturating_sub(1);
        *(if freed { &mut account.frees } else { &mut account.ended }) += 1;
        if held.call <= account.peak_call {
            account.gone_since.push(held);
        }
        Some(held)
    }

    /// What goes with a context.
    pub fn end(&mut self, context: u64) -> Vec<Held<'t>> {
        let ending = self.live.iter().filter(|(_, held)| held.context == Some(context));
        let names: Vec<Name> = ending.map(|(name, _)| *name).collect();
        names.into_iter().filter_map(|name| self.take(name, false)).collect()
    }

    pub fn live(&self) -> impl Iterator<Item = &Held<'t>> {
        self.live.values()
    }

    pub fn live_on(&self, side: Side) -> (u64, u64) {
        self.accounts.get(&side).map_or((0, 0), |account| (account.live, account.live_count))
    }

    /// What was live when this side held most.
    pub fn at_peak(&self, side: Side) -> impl Iterator<Item = &Held<'t>> {
        let account = self.accounts.get(&side);
        let peak = account.map_or(0, |account| account.peak_call);
        let gone = account.into_iter().flat_map(|account| &account.gone_since);
        gone.chain(self.live.values().filter(move |held| held.side == side && held.call <= peak))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(call: u64, bytes: u64) -> Held<'static> {
        let side = Side::Device(0);
        Held {
            side,
            family: "device",
            function: "f",
            thread: 0,
            call,
            bytes,
            since: call * 10 + 5,
            context: Some(0xc0),
            tried: false,
        }
    }

    #[test]
    fn the_peak_is_known_afterwards() {
        let mut ledger = Ledger::default();
        let calls = |all: Vec<&Held>| {
            let mut calls: Vec<u64> = all.iter().map(|held| held.call).collect();
            calls.sort_unstable();
            calls
        };
        ledger.add(Name::Base(1), held(1, 100));
        ledger.add(Name::Base(2), held(2, 50));
        ledger.free(Name::Base(1), 30);
        ledger.add(Name::Base(3), held(3, 60));
        assert_eq!(calls(ledger.at_peak(Side::Device(0)).collect()), [1, 2]);
        ledger.add(Name::Base(4), held(4, 60));
        assert_eq!((ledger.accounts[&Side::Device(0)].peak, ledger.live_on(Side::Device(0))), (170, (170, 3)));
        ledger.free(Name::Base(2), 50);
        ledger.free(Name::Base(3), 60);
        ledger.add(Name::Base(5), held(7, 1));
        assert_eq!(calls(ledger.at_peak(Side::Device(0)).collect()), [2, 3, 4]);
        assert_eq!(ledger.end(0xc0).len(), 2);
        let account = &ledger.accounts[&Side::Device(0)];
        assert_eq!((account.live, account.frees, account.ended, account.total), (0, 3, 2, 271));
    }

    /// One thread's free overlaps the call of another that gets the same address.
    #[test]
    fn an_address_that_changes_hands() {
        let mut ledger = Ledger::default();
        ledger.add(Name::Base(1), held(1, 100));
        ledger.add(Name::Base(1), held(2, 100));
        assert_eq!(ledger.free(Name::Base(1), 21), None);
        assert_eq!(ledger.live_on(Side::Device(0)), (100, 1));
        assert!(ledger.free(Name::Base(1), 30).is_some());
    }
}
