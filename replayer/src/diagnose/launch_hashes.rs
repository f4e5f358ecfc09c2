//! Hashes of memory after every launch: two replays of a trace agree in them up to the first nondeterministic
//! launch.
//!
//! The hashes cover all memory that the launch can have written: the allocations that its arguments lead to,
//! directly or through memory that holds addresses, and the module variables that the program has looked up.
//! They are taken before and after, to distinguish the launch from an earlier difference. Addresses in memory
//! that has moved count as the recorded ones, since they differ from run to run.
//!
//! Of long allocations (a framework's arena of most of a device's memory) only the part behind the addresses
//! is hashed. The device hashes everything that is not short, and searches it for addresses only where an
//! address leads to it.

use crate::diagnose::bisection::{Entry, State};
use crate::diagnose::digest::{Digests, Moved};
use crate::driver::stream::with_context;
use crate::memory::live_address::LiveAddress;
use crate::plan::memory::allocation_names::AllocationNames;
use crate::session::Session;
use crate::session::device_memory::{context_of, read};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range as Addresses;
use trace::Call;
use trace::base::bytes::u64_at;
use trace::base::hash::{Hash, Hasher};
use trace::model::decode::decode;
use trace::model::objects::Range;
use trace::model::value::{ArgumentPassing, Value};

pub(crate) struct LaunchHashes {
    named: AllocationNames,
    digests: RefCell<Digests>,
    pub entries: Vec<Entry>,
}

/// One step, before its launch: the memory that it reaches.
pub(crate) struct Step {
    reached: Vec<Piece>,
    entry: Entry,
}

/// It could not be read.
const UNREADABLE: Hash = Hash(0);
/// Longer allocations are hashed by blocks: that which holds an address, and the next.
const LONG: u64 = 64 << 20;
const BLOCK: u64 = 8 << 20;

/// Longer pieces are hashed by the device. Of so many bytes, aligned, from an address on, every word is taken
/// for an address.
const SHORT: u64 = 1 << 20;

/// A piece of an allocation, and how it is called: `mem#3`, or `mem#3+0x800000` of a long one.
type Piece = (String, Range);

impl LaunchHashes {
    pub(crate) fn new() -> LaunchHashes {
        LaunchHashes { named: AllocationNames::new(), digests: RefCell::default(), entries: Vec::new() }
    }

    pub(crate) fn context_ends(&mut self, context: u64) {
        self.digests.get_mut().context_ends(context);
    }

    /// Before a launch whose live argument words are these; none if they are not known, when it can reach
    /// everything: of long allocations the beginning is looked at.
    pub(crate) fn before_launch(
        &mut self,
        session: &Session,
        call: &Call,
        node: Option<u64>,
        kernel: String,
        words: Option<Vec<u64>>,
    ) -> Step {
        self.named.advance(session.trace, call.number);
        let view = View::new(session, self);
        let (reached, before) = view.reach(words);
        Step { reached, entry: Entry { call: call.number, node, kernel, before, after: State::new() } }
    }

    /// After it, when it has been waited for.
    pub(crate) fn after_launch(&mut self, session: &Session, mut step: Step) {
        let view = View::new(session, self);
        let hash = |range: &Range| view.digest(range).unwrap_or_else(|| view.hash(range, &mut |_| {}));
        let after: State = step.reached.into_iter().map(|(name, range)| (name, hash(&range))).collect();
        step.entry.after = after;
        self.entries.push(step.entry);
    }
}

/// The argument words of a recorded launch, by recorded addresses.
pub(crate) fn words(call: &Call) -> Option<Vec<u64>> {
    let decoded = decode(call)?;
    let arguments = decoded.arguments.iter().find_map(|(_, value)| match value {
        Value::Launch { given: ArgumentPassing::Unread { .. }, .. } => None,
        Value::Launch { arguments, .. } => Some(arguments),
        _ => None,
    })?;
    let mut words = Vec::new();
    for argument in arguments {
        let (Value::Argument { bytes, .. } | Value::Bytes(bytes)) = argument else { return None };
        words.extend(bytes.chunks_exact(8).map(|word| u64_at(word, 0)));
    }
    Some(words)
}

/// What is hashed of the allocation that holds this recorded address.
fn pieces(range: Range, address: u64) -> Vec<Piece> {
    let Range { label, number, base, len } = range;
    if len <= LONG {
        return vec![(format!("{label}#{number}"), range)];
    }
    let first = (address - base) / BLOCK * BLOCK;
    let blocks = [first, first + BLOCK].into_iter().filter(|offset| *offset < len);
    let piece = |offset| Range { base: base + offset, len: BLOCK.min(len - offset), ..range };
    blocks.map(|offset| (format!("{label}#{number}+{offset:#x}"), piece(offset))).collect()
}

/// Live memory as the program named it.
struct View<'v, 't> {
    session: &'v Session<'t>,
    named: &'v AllocationNames,
    digests: &'v RefCell<Digests>,
    /// What has moved, by live addresses.
    moved: Vec<Moved>,
}

impl<'v, 't> View<'v, 't> {
    fn new(session: &'v Session<'t>, LaunchHashes { named, digests, .. }: &'v LaunchHashes) -> View<'v, 't> {
        let moved = named.ranges().filter_map(|range| {
            let live = session.translation.live(range.base).filter(|live| *live != range.base)?;
            Some([live, range.len, range.base])
        });
        let mut moved: Vec<Moved> = moved.collect();
        moved.sort_unstable();
        View { session, named, digests, moved }
    }

    /// The recorded address that a live one stands for.
    fn recorded(&self, live: u64) -> u64 {
        let before = self.moved.partition_point(|[start, ..]| *start <= live);
        match before.checked_sub(1).map(|last| self.moved[last]) {
            Some([start, len, base]) if live - start < len => base + (live - start),
            _ => live,
        }
    }

    /// What can be reached from live or recorded words, and what it holds.
    fn reach(&self, words: Option<Vec<u64>>) -> (Vec<Piece>, State) {
        let (mut reached, mut state) = (Vec::new(), State::new());
        let mut open: Vec<u64> = match words {
            None => self.named.ranges().map(|range| range.base).collect(),
            Some(words) => {
                let globals = self.named.ranges().filter(|range| range.label == "global").map(|range| range.base);
                words.into_iter().map(|word| self.recorded(word)).chain(globals).collect()
            }
        };
        // Most words are no addresses, and lie beyond all memory.
        let ends = self.named.ranges().map(|range| range.base + range.len);
        let all = self.named.ranges().map(|range| range.base).min().unwrap_or(0)..ends.max().unwrap_or(0);
        let is_address = |word: &u64| all.contains(word);
        let mut searched = BTreeSet::new();
        while let Some(address) = open.pop() {
            let Some(holder) = self.named.holder(address) else { continue };
            for (name, range) in pieces(holder, address) {
                if state.contains_key(&name) {
                    continue;
                }
                let hash = match self.digest(&range) {
                    Some(hash) => hash,
                    None => self.hash(&range, &mut |word| open.extend(Some(word).filter(is_address))),
                };
                state.insert(name.clone(), hash);
                reached.push((name, range));
            }
            if self.is_long(&holder) {
                let first = (address - holder.base) / SHORT * SHORT;
                for offset in [first, first + SHORT].into_iter().filter(|offset| *offset < holder.len) {
                    if searched.insert(holder.base + offset) {
                        let part = Range { base: holder.base + offset, len: SHORT.min(holder.len - offset), ..holder };
                        self.hash(&part, &mut |word| open.extend(Some(word).filter(is_address)));
                    }
                }
            }
        }
        (reached, state)
    }

    /// Whether the device hashes it.
    fn is_long(&self, range: &Range) -> bool {
        range.len > SHORT && range.label != "host"
    }

    /// The hash of what is long; none of what is not, or where the device cannot tell.
    fn digest(&self, range: &Range) -> Option<Hash> {
        let Session { driver, placement, .. } = self.session;
        let live = placement.bound(&(range.base..range.base + range.len))?.word();
        if !self.is_long(range) || !(live | range.len).is_multiple_of(8) {
            return None;
        }
        let context = context_of(self.session, live).ok()?;
        let ask = || self.digests.borrow_mut().digest(driver, context, live, range.len / 8, &self.moved);
        placement.relaxed(|| with_context(driver, context, ask)).ok()?
    }

    /// The hash of memory that is read here, with every word of it shown to `see`, addresses as recorded.
    fn hash(&self, range: &Range, see: &mut dyn FnMut(u64)) -> Hash {
        let mut hasher = Hasher::default();
        let mut add = |bytes: &[u8]| {
            if self.moved.is_empty() {
                hasher.update(bytes);
                return bytes.chunks_exact(8).for_each(|bytes| see(u64_at(bytes, 0)));
            }
            let mut own = bytes.to_vec();
            for bytes in own.chunks_exact_mut(8) {
                let recorded = self.recorded(u64_at(bytes, 0));
                bytes.copy_from_slice(&recorded.to_le_bytes());
                see(recorded);
            }
            hasher.update(&own);
        };
        if range.label == "host" {
            let Some(live) = self.session.placement.host(&(range.base..range.base + range.len)) else {
                return UNREADABLE;
            };
            // SAFETY: the placement holds pinned memory until the end, and no work that writes it is under
            // way.
            add(unsafe { std::slice::from_raw_parts(live as *const u8, range.len as usize) });
            return hasher.finish();
        }
        let Some(live) = self.session.placement.bound(&(range.base..range.base + range.len)).map(LiveAddress::word)
        else {
            return UNREADABLE;
        };
        match read(self.session, Addresses { start: live, end: live + range.len }, add) {
            Ok(()) => hasher.finish(),
            Err(_) => UNREADABLE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_allocations_what_follows_an_address() {
        let of = |len, address| {
            let range = Range { label: "mem", number: 3, base: 0x1000, len };
            let shown = |(name, range): Piece| (name, range.base, range.len);
            pieces(range, address).into_iter().map(shown).collect::<Vec<_>>()
        };
        assert_eq!(of(LONG, 0x2000), [("mem#3".to_owned(), 0x1000, LONG)]);
        let named = |offset: u64, len| (format!("mem#3+{offset:#x}"), 0x1000 + offset, len);
        assert_eq!(of(LONG + 5, 0x1000 + BLOCK + 7), [named(BLOCK, BLOCK), named(2 * BLOCK, BLOCK)]);
        assert_eq!(of(LONG + 5, 0x1000 + LONG - 1), [named(LONG - BLOCK, BLOCK), named(LONG, 5)]);
    }
}
