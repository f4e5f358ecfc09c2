//! The amount of memory on each side: live now, live at the peak, and ended, by the way it ended. Its size is
//! bounded by the live memory.

use std::collections::BTreeMap;
use trace::model::memory::{Allocation, End, Memory};

/// The side of memory: a device, or the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Side {
    Device(i32),
    Host,
}

impl Side {
    /// None of addresses alone, and of memory whose length is not known.
    pub(crate) fn from_allocation(one: &Allocation) -> Option<Side> {
        let side = one.device.map(Side::Device).or(one.kind.is_host().then_some(Side::Host));
        side.filter(|_| one.bytes.is_some())
    }
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Side::Device(ordinal) => write!(f, "device {ordinal}"),
            Side::Host => f.write_str("host"),
        }
    }
}

#[derive(Default)]
pub(super) struct Account {
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
    gone_since: Vec<Allocation>,
}

#[derive(Default)]
pub(super) struct Ledger {
    pub accounts: BTreeMap<Side, Account>,
}

impl Ledger {
    pub(super) fn got(&mut self, side: Side, one: &Allocation) {
        let bytes = one.bytes.unwrap_or(0);
        let account = self.accounts.entry(side).or_default();
        account.allocations += 1;
        account.total = account.total.saturating_add(bytes);
        account.live = account.live.saturating_add(bytes);
        account.live_count += 1;
        if account.live > account.peak {
            (account.peak, account.peak_call) = (account.live, one.call);
            account.gone_since.clear();
        }
    }

    pub(super) fn record_end(&mut self, side: Side, one: &Allocation, end: End) {
        let account = self.accounts.entry(side).or_default();
        account.live = account.live.saturating_sub(one.bytes.unwrap_or(0));
        account.live_count = account.live_count.saturating_sub(1);
        *(if end == End::WithContext { &mut account.ended } else { &mut account.frees }) += 1;
        if one.call <= account.peak_call {
            account.gone_since.push(*one);
        }
    }

    pub(super) fn live_on(&self, side: Side) -> (u64, u64) {
        self.accounts.get(&side).map_or((0, 0), |account| (account.live, account.live_count))
    }

    /// What was live when this side held most.
    pub(super) fn at_peak<'x>(&'x self, side: Side, memory: &'x Memory) -> impl Iterator<Item = &'x Allocation> {
        let account = self.accounts.get(&side);
        let peak = account.map_or(0, |account| account.peak_call);
        let gone = account.into_iter().flat_map(|account| &account.gone_since);
        gone.chain(memory.live().filter(move |one| Side::from_allocation(one) == Some(side) && one.call <= peak))
    }
}
