//! What every launch made of memory, as hashes: two replays of a trace leave the same trail, up to the first launch that
//! does not compute the same twice.
//!
//! Hashed is what the launch can have written: the allocations that its arguments lead to, at once or through memory
//! that holds addresses, and the variables of modules that the program has looked up. It is hashed before and after, so
//! that a launch is told from a difference that was there already. Addresses in memory that has moved count as the
//! recorded ones, since they differ from run to run.

use crate::check::bisection::{Entry, State};
use crate::memory::named::Named;
use crate::run::peek::read;
use crate::run::world::World;
use std::collections::BTreeMap;
use std::ops::Range as Addresses;
use trace::decode::decode;
use trace::hash::{Hash, Hasher};
use trace::value::Value;
use trace::{Call, objects::Range};

pub struct Trail {
    named: Named,
    pub entries: Vec<Entry>,
}

/// One step, before its launch: the memory that it reaches.
pub struct Step {
    reached: Vec<Range>,
    entry: Entry,
}

/// A whole allocation could not be read.
const UNREADABLE: Hash = Hash(0);

impl Trail {
    pub fn new() -> Trail {
        Trail { named: Named::new(), entries: Vec::new() }
    }

    /// Before a launch whose live argument words are these; none if they are not known, when it can reach everything.
    pub fn before(
        &mut self,
        world: &World,
        call: &Call,
        node: Option<u64>,
        kernel: String,
        words: Option<Vec<u64>>,
    ) -> Step {
        self.named.advance(world.trace, world.plan, call.number);
        let view = View::new(world, &self.named);
        let (reached, before) = view.reach(words);
        Step { reached, entry: Entry { call: call.number, node, kernel, before, after: State::new() } }
    }

    /// After it, when it has been waited for.
    pub fn after(&mut self, world: &World, mut step: Step) {
        let view = View::new(world, &self.named);
        step.entry.after = step.reached.iter().map(|range| (name(range), view.hash(range, &mut |_| {}))).collect();
        self.entries.push(step.entry);
    }
}

/// The argument words of a recorded launch, by recorded addresses.
pub fn words(call: &Call) -> Option<Vec<u64>> {
    let decoded = decode(call)?;
    let arguments = decoded.arguments.iter().find_map(|(_, value)| match value {
        Value::Launch { arguments, .. } => Some(arguments),
        _ => None,
    })?;
    let mut words = Vec::new();
    for argument in arguments {
        let (Value::Argument(bytes) | Value::Bytes(bytes)) = argument else { return None };
        words.extend(bytes.chunks_exact(8).map(word));
    }
    Some(words)
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

fn name(range: &Range) -> String {
    format!("{}#{}", range.label, range.number)
}

/// Live memory as the program named it.
struct View<'v, 't> {
    world: &'v World<'t>,
    named: &'v Named,
    /// Live start to length and recorded start, of what has moved.
    moved: BTreeMap<u64, (u64, u64)>,
}

impl<'v, 't> View<'v, 't> {
    fn new(world: &'v World<'t>, named: &'v Named) -> View<'v, 't> {
        let moved = named.ranges().filter_map(|range| {
            let live = world.translation.live(range.base).filter(|live| *live != range.base)?;
            Some((live, (range.len, range.base)))
        });
        View { world, named, moved: moved.collect() }
    }

    /// The recorded address that a live one stands for.
    fn recorded(&self, live: u64) -> u64 {
        match self.moved.range(..=live).next_back() {
            Some((start, (len, base))) if live - start < *len => base + (live - start),
            _ => live,
        }
    }

    /// What can be reached from live or recorded words, and what it holds.
    fn reach(&self, words: Option<Vec<u64>>) -> (Vec<Range>, State) {
        let (mut reached, mut state) = (Vec::new(), State::new());
        let mut open: Vec<Range> = match words {
            None => self.named.ranges().collect(),
            Some(words) => {
                let given = words.into_iter().filter_map(|word| self.named.holder(self.recorded(word)));
                given.chain(self.named.ranges().filter(|range| range.label == "global")).collect()
            }
        };
        while let Some(range) = open.pop() {
            if state.contains_key(&name(&range)) {
                continue;
            }
            let hash = self.hash(&range, &mut |word| open.extend(self.named.holder(word)));
            state.insert(name(&range), hash);
            reached.push(range);
        }
        (reached, state)
    }

    /// The hash of an allocation, with every word of it shown to `see`, addresses as recorded.
    fn hash(&self, range: &Range, see: &mut dyn FnMut(u64)) -> Hash {
        let mut hasher = Hasher::default();
        let mut add = |bytes: &[u8]| {
            if self.moved.is_empty() {
                hasher.update(bytes);
                return bytes.chunks_exact(8).for_each(|bytes| see(word(bytes)));
            }
            let mut own = bytes.to_vec();
            for bytes in own.chunks_exact_mut(8) {
                let recorded = self.recorded(word(bytes));
                bytes.copy_from_slice(&recorded.to_le_bytes());
                see(recorded);
            }
            hasher.update(&own);
        };
        if range.label == "host" {
            let Some(live) = self.world.placement.host(&(range.base..range.base + range.len)) else {
                return UNREADABLE;
            };
            // SAFETY: the placement holds pinned memory until the end, and no work that writes it is under way.
            add(unsafe { std::slice::from_raw_parts(live as *const u8, range.len as usize) });
            return hasher.finish();
        }
        let live = self.world.translation.live(range.base).unwrap_or(range.base);
        match read(self.world, Addresses { start: live, end: live + range.len }, add) {
            Ok(()) => hasher.finish(),
            Err(_) => UNREADABLE,
        }
    }
}
