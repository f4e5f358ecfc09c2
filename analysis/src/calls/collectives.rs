//! The progress of each rank on its communicators: as NCCL reported it, or else by the names of its kernels.

use crate::filter::grep::kernel_name;
use crate::text::figures::{counted, ranks, size};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use trace::Trace;
use trace::file::preamble::RANK;
use trace::read::collective::KERNELS;
pub use trace::read::collective::is_kernel;
use trace::show::text::plain;

/// The properties on which the ranks of a communicator must agree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Kind {
    /// NCCL's name of the operation: `AllReduce`.
    pub function: String,
    /// Size of the buffer in bytes; None if only the kernel's name is known.
    pub bytes: Option<u64>,
    /// NCCL's name of the element type, or its part of the kernel's name.
    pub datatype: String,
    /// Rank of the root, if the operation has one.
    pub root: Option<i32>,
}

/// An operation. Times are stamps.
pub struct Operation {
    /// Of the rank's communicators.
    pub member: usize,
    /// As [`trace::read::collective::Operation`] counts.
    pub number: u64,
    /// Of the member's.
    pub kind: usize,
    /// Number of the recorded thread that called NCCL.
    pub thread: u32,
    /// False for a send or a receive.
    pub is_collective: bool,
    /// Of a send or receive.
    pub peer: Option<i32>,
    /// Algorithm and protocol that NCCL chose: `RING LL`.
    pub way: Option<String>,
    /// The operation belongs to a stream capture and runs with the graph.
    pub is_captured: bool,
    /// When the program called NCCL.
    pub begin: u64,
    /// When NCCL reported completion; None if it did not.
    pub end: Option<u64>,
    /// When NCCL had given it to the device, and by which thread.
    pub given: Option<(u64, u32)>,
    /// The launch, where nothing but that is known.
    pub launch: Option<u64>,
}

/// A communicator, as seen by one rank.
#[derive(Debug, Clone, Default)]
pub struct Member {
    /// NCCL's number of the communicator; none where it is not told.
    pub id: Option<u64>,
    /// The communicator's name, empty if it has none.
    pub name: String,
    /// How many there are, if it is told.
    pub ranks: u32,
    /// Its own among them.
    pub rank: Option<i32>,
    /// In the job.
    pub job_rank: Option<u64>,
    /// Process of the rank.
    pub pid: u32,
    /// Kinds of collectives that the rank began, each once.
    pub kinds: Vec<Kind>,
    /// Collectives in order, by kind.
    pub begun: Vec<usize>,
    /// The first collective that is not known to have finished, counted from 0; none where it was not looked
    /// for.
    pub unfinished: Option<usize>,
    /// By peer: sends and receives that were begun.
    pub transfers: BTreeMap<i32, (u64, u64)>,
}

/// The collectives of a trace.
#[derive(Default)]
pub struct TraceCollectives {
    /// The communicators of the process.
    pub members: Vec<Member>,
    /// By time.
    pub operations: Vec<Operation>,
}

impl Kind {
    /// `AllReduce of 16 B`.
    pub fn described(&self) -> String {
        let of = self.bytes.map_or(String::new(), |bytes| format!(" of {}", size(bytes)));
        let root = self.root.map_or(String::new(), |root| format!(" with root {root}"));
        format!("{}{of}{root}", plain(&self.function))
    }
}

/// The places of kinds among those of their member.
#[derive(Default)]
struct Kinds(HashMap<(usize, Kind), usize>);

impl Kinds {
    fn place(&mut self, at: usize, member: &mut Member, kind: Kind) -> usize {
        *self.0.entry((at, kind)).or_insert_with_key(|(_, kind)| {
            member.kinds.push(kind.clone());
            member.kinds.len() - 1
        })
    }
}

impl Member {
    /// `#3 AllReduce of 16 B`, of the collective at this place.
    pub fn described(&self, at: usize) -> String {
        let kind = self.begun.get(at).map_or(String::new(), |kind| self.kinds[*kind].described());
        format!("#{} {kind}", at + 1)
    }

    /// Whether the collective at this place has completed; None where that was not determined.
    pub fn is_finished(&self, at: usize) -> Option<bool> {
        self.unfinished.map(|unfinished| at < unfinished)
    }

    /// As notes name it.
    pub fn label(&self) -> String {
        match (self.job_rank, self.rank) {
            (Some(rank), _) => format!("rank {rank}"),
            (None, Some(rank)) => format!("rank {rank}"),
            (None, None) => format!("process {}", self.pid),
        }
    }
}

/// What a kernel's name says of the operation: of a kernel that does several, of the first.
fn kind_from_kernel(kernel: &str) -> Option<Kind> {
    let rest = KERNELS.iter().find_map(|begins| kernel.split_once(begins))?.1;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let mut words = rest[..end].split('_');
    let function = words.next()?;
    // Behind the name of a function, a mangled one has how long the next name is.
    let function = function.find(|c: char| c.is_ascii_digit()).map_or(function, |end| &function[..end]);
    let is_type = |word: &&str| {
        let letters = word.find(|c: char| c.is_ascii_digit()).unwrap_or(word.len());
        letters < word.len() && matches!(&word[..letters], "f" | "bf" | "i" | "u")
    };
    let datatype = words.find(is_type).unwrap_or_default();
    Some(Kind { function: function.into(), bytes: None, datatype: datatype.into(), root: None })
}

/// Follows the collectives of one process: from NCCL's events, else from its kernels' names.
pub fn collectives_of(trace: &Trace) -> TraceCollectives {
    let (job_rank, pid) = (trace.preamble.number(RANK), trace.preamble.pid);
    let mut found = match trace.communicators.is_empty() {
        true => by_kernels(trace),
        false => from_nccl(trace),
    };
    let ids: Vec<_> = found.members.iter().map(|member| member.id).collect();
    for member in &mut found.members {
        // A process that is several ranks of one communicator is none of them alone.
        let is_one = ids.iter().filter(|id| **id == member.id).count() == 1;
        (member.job_rank, member.pid) = (job_rank.filter(|_| is_one), pid);
    }
    found
}

fn from_nccl(trace: &Trace) -> TraceCollectives {
    let mut found = TraceCollectives::default();
    let (mut places, mut kinds) = (HashMap::new(), Kinds::default());
    for communicator in &trace.communicators {
        places.insert(communicator.number, found.members.len());
        found.members.push(Member {
            id: Some(communicator.id),
            name: communicator.name.clone(),
            ranks: communicator.ranks,
            rank: Some(communicator.rank),
            ..Member::default()
        });
    }
    for operation in trace.operations() {
        let Some(&at) = places.get(&operation.communicator) else { continue };
        let member = &mut found.members[at];
        let (function, datatype) = (operation.function(), operation.datatype());
        let is_send = function.starts_with("Send");
        let kind = Kind { function, bytes: operation.bytes(), datatype, root: operation.root() };
        let kind = kinds.place(at, member, kind);
        match operation.peer() {
            _ if operation.is_collective() => member.begun.push(kind),
            Some(peer) if is_send => member.transfers.entry(peer).or_default().0 += 1,
            Some(peer) => member.transfers.entry(peer).or_default().1 += 1,
            None => {}
        }
        found.operations.push(Operation {
            member: at,
            number: operation.number,
            kind,
            thread: operation.thread(),
            is_collective: operation.is_collective(),
            peer: operation.peer(),
            way: operation.way(),
            is_captured: operation.is_captured(),
            begin: operation.begin(),
            end: operation.end(),
            given: operation.submitted_at(),
            launch: None,
        });
    }
    found
}

/// All in one, as no kernel's name says on which communicator it is.
fn by_kernels(trace: &Trace) -> TraceCollectives {
    let mut found = TraceCollectives::default();
    if !trace.kernels.values().any(|kernel| is_kernel(&kernel.name)) {
        return found;
    }
    let (mut member, mut kinds, mut moved) = (Member::default(), Kinds::default(), 0);
    for call in trace.calls() {
        let Some(kind) = kernel_name(&call).and_then(kind_from_kernel) else { continue };
        let is_collective = kind.function != "SendRecv";
        let kind = kinds.place(0, &mut member, kind);
        match is_collective {
            true => member.begun.push(kind),
            false => moved += 1,
        }
        let number = if is_collective { member.begun.len() } else { moved };
        found.operations.push(Operation {
            member: 0,
            number: number as u64,
            kind,
            thread: call.thread,
            is_collective,
            peer: None,
            way: None,
            is_captured: false,
            begin: call.begin,
            end: call.end,
            given: None,
            launch: Some(call.number),
        });
    }
    if !found.operations.is_empty() {
        found.members.push(member);
    }
    found
}

/// The members of one communicator.
pub struct Group<'m> {
    /// The ranks that were recorded.
    pub members: Vec<&'m Member>,
}

/// Communicators in the order in which they are first met.
pub fn groups<'m>(members: impl IntoIterator<Item = &'m Member>) -> Vec<Group<'m>> {
    let mut groups: Vec<Group> = Vec::new();
    let mut places: HashMap<Option<u64>, usize> = HashMap::new();
    for member in members {
        let at = *places.entry(member.id).or_insert_with(|| {
            groups.push(Group { members: Vec::new() });
            groups.len() - 1
        });
        groups[at].members.push(member);
    }
    groups.iter_mut().for_each(|group| group.members.sort_by_key(|member| (member.rank, member.job_rank)));
    groups
}

/// Ranks that are named one by one.
const NAMED: usize = 8;

impl Group<'_> {
    /// The communicator's name or number, for a heading.
    pub fn name(&self) -> String {
        let Some(id) = self.members.first().and_then(|member| member.id) else { return "NCCL's kernels".into() };
        match self.members.iter().find(|member| !member.name.is_empty()) {
            Some(member) => format!("communicator {:?} ({id:#018x})", plain(&member.name)),
            None => format!("communicator {id:#018x}"),
        }
    }

    /// Whether NCCL told of it. By the names of kernels alone all communicators are one, so that ranks may
    /// differ by design.
    pub fn is_reported_by_nccl(&self) -> bool {
        self.members.iter().all(|member| member.id.is_some())
    }

    /// Where its ranks disagree, and who waits for whom.
    pub fn notes(&self) -> Vec<String> {
        let name = self.name();
        let mut notes: Vec<String> = Vec::new();
        notes.extend(self.differing());
        notes.extend(self.describe_lag());
        notes.extend(self.unmatched());
        notes.into_iter().map(|note| format!("{name}: {note}")).collect()
    }

    /// Whoever has begun fewer collectives than others.
    fn describe_lag(&self) -> Option<String> {
        let begun = |member: &&Member| member.begun.len();
        let (most, least) = (self.members.iter().map(begun).max()?, self.members.iter().map(begun).min()?);
        if most == least {
            return self.stuck(most);
        }
        let (last, ahead): (Vec<&Member>, Vec<&Member>) =
            self.members.iter().partition(|member| member.begun.len() == least);
        let did = match least.checked_sub(1) {
            None => "no collective has begun".into(),
            Some(at) => {
                let finished = match last.iter().map(|member| member.is_finished(at)).min().flatten() {
                    Some(true) => ", finished",
                    Some(false) => ", possibly unfinished",
                    None => "",
                };
                format!("the last one begun is {}{finished}", last[0].described(at))
            }
        };
        let waiting: Vec<&Member> =
            ahead.iter().filter(|member| member.is_finished(least) == Some(false)).copied().collect();
        let others = match waiting.len() {
            0 => format!("{} {} begun", labels(&ahead), if ahead.len() == 1 { "has" } else { "have" }),
            1 => format!("{} waits in", labels(&waiting)),
            _ => format!("{} wait in", labels(&waiting)),
        };
        let verb = if last.len() == 1 { "is" } else { "are" };
        Some(format!("{} {verb} behind: {did}; {others} {}", labels(&last), ahead[0].described(least)))
    }

    /// All are in the same collective.
    fn stuck(&self, begun: usize) -> Option<String> {
        let at = begun.checked_sub(1)?;
        let unfinished: Vec<&Member> =
            self.members.iter().filter(|member| member.is_finished(at) == Some(false)).copied().collect();
        let (first, what) = (unfinished.first()?, self.members[0].described(at));
        let who = labels(&unfinished);
        let all = if unfinished.len() == self.members.len() {
            "all ranks have begun it"
        } else {
            "the others have finished it"
        };
        match first.unfinished {
            Some(first) if first < at => {
                let from = unfinished[0].described(first);
                Some(format!(
                    "{who}: {from} and the operations up to {what} may be unfinished; all ranks have begun it"
                ))
            }
            _ => Some(format!("{who}: {what} may be unfinished; {all}")),
        }
    }

    /// The first collective that is another one at some rank.
    fn differing(&self) -> Option<String> {
        let (first, others) = self.members.split_first()?;
        let least = self.members.iter().map(|member| member.begun.len()).min()?;
        // Kernels' names tell of one operation where a kernel does several.
        first.id?;
        let kind = |member: &Member, at: usize| member.kinds[member.begun[at]].clone();
        let (at, other) =
            (0..least).find_map(|at| Some((at, others.iter().find(|other| kind(other, at) != kind(first, at))?)))?;
        let (mine, theirs) = (first.described(at), other.described(at));
        let theirs = match mine == theirs {
            true => {
                format!("{theirs} with {} (not {})", plain(&kind(other, at).datatype), plain(&kind(first, at).datatype))
            }
            false => theirs,
        };
        Some(format!("ranks disagree: {} called {mine}, {} called {theirs}", first.label(), other.label()))
    }

    /// Sends that nobody receives, or the other way round.
    fn unmatched(&self) -> Vec<String> {
        let by_rank: HashMap<i32, &&Member> = self.members.iter().filter_map(|m| Some((m.rank?, m))).collect();
        let mut notes = Vec::new();
        for member in &self.members {
            for (peer, (sent, received)) in &member.transfers {
                let Some((mine, other)) = member.rank.zip(by_rank.get(peer)) else { continue };
                let (their_sent, their_received) = other.transfers.get(&mine).copied().unwrap_or_default();
                let (me, them) = (member.label(), other.label());
                if *sent > their_received {
                    let first = their_received + 1;
                    notes.push(format!(
                        "{me} has begun send #{first} to {them}, which has not begun the matching receive"
                    ));
                }
                if *received > their_sent {
                    let first = their_sent + 1;
                    notes.push(format!(
                        "{me} has begun receive #{first} from {them}, which has not begun the matching send"
                    ));
                }
            }
        }
        notes.truncate(NAMED);
        notes
    }

    /// The ranks whose traces would be needed, too.
    pub fn missing(&self) -> Option<String> {
        let of = self.members.iter().map(|member| member.ranks).max().filter(|ranks| *ranks <= MOST_RANKS)?;
        let there: BTreeSet<u64> = self.members.iter().filter_map(|member| u64::try_from(member.rank?).ok()).collect();
        let missing: Vec<u64> = (0..u64::from(of)).filter(|rank| !there.contains(rank)).collect();
        let all = counted(of.into(), "rank");
        (!missing.is_empty()).then(|| format!("no trace was read for {} of its {all}", ranks(&missing)))
    }
}

/// Ranks that are looked for: what a trace claims is anybody's.
const MOST_RANKS: u32 = 1 << 16;

/// `rank 0`, `ranks 0, 2`, `ranks 0, 1, 2 and 61 more`.
fn labels(members: &[&Member]) -> String {
    let all: Vec<String> = members.iter().take(NAMED).map(|member| member.label()).collect();
    let more = members.len().saturating_sub(NAMED);
    let named = match &all[..] {
        [one] => return one.clone(),
        all if all.iter().all(|label| label.starts_with("rank ")) => {
            format!("ranks {}", all.iter().map(|label| &label["rank ".len()..]).collect::<Vec<_>>().join(", "))
        }
        all => all.join(", "),
    };
    if more > 0 { format!("{named} and {more} more") } else { named }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_say_what_they_do() {
        let of = |name: &str| kind_from_kernel(name).map(|kind| (kind.function, kind.datatype));
        let expected = |function: &str, datatype: &str| Some((function.to_string(), datatype.to_string()));
        assert_eq!(
            of("_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE"),
            expected("AllReduce", "f32")
        );
        assert_eq!(of("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"), expected("SendRecv", ""));
        assert_eq!(of("_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE"), expected("SendRecv", ""));
        assert_eq!(of("ncclKernel_AllReduce_RING_LL_Sum_bf16(ncclDevComm*)"), expected("AllReduce", "bf16"));
        assert_eq!(of("gemm_f32"), None);
        assert!(is_kernel("ncclDevKernel_Generic_4") && !is_kernel("nccl"));
    }

    fn member(rank: i32, begun: &[usize], unfinished: usize) -> Member {
        let kind = |function: &str| Kind {
            function: function.into(),
            bytes: Some(16),
            datatype: "ncclInt32".into(),
            root: None,
        };
        let kinds = vec![kind("AllReduce"), kind("AllGather")];
        Member {
            id: Some(7),
            name: "world".into(),
            ranks: 3,
            rank: Some(rank),
            kinds,
            begun: begun.to_vec(),
            unfinished: Some(unfinished),
            ..Member::default()
        }
    }

    fn notes(members: &[Member]) -> Vec<String> {
        groups(members).iter().flat_map(Group::notes).collect()
    }

    #[test]
    fn who_is_behind_is_named_and_what_the_others_wait_in() {
        let all = [member(0, &[0, 0, 1], 2), member(1, &[0, 0], 2), member(2, &[0, 0, 1], 2)];
        let told = "communicator \"world\" (0x0000000000000007): rank 1 is behind: the last one begun is #2 AllReduce of 16 B, finished; \
                    ranks 0, 2 wait in #3 AllGather of 16 B";
        assert_eq!(notes(&all), [told]);
        let stuck = [member(0, &[0], 0), member(1, &[0], 1), member(2, &[0], 1)];
        let told = "communicator \"world\" (0x0000000000000007): rank 0: #1 AllReduce of 16 B may be unfinished; \
                    the others have finished it";
        assert_eq!(notes(&stuck), [told]);
        assert!(notes(&[member(0, &[0], 1), member(1, &[0], 1), member(2, &[0], 1)]).is_empty());
    }

    #[test]
    fn ranks_that_call_different_collectives() {
        let all = [member(0, &[0, 0], 1), member(2, &[0, 1], 1)];
        let told = notes(&all);
        assert_eq!(
            told[0],
            "communicator \"world\" (0x0000000000000007): ranks disagree: rank 0 called #2 AllReduce of 16 B, rank 2 called #2 AllGather of 16 B"
        );
        assert_eq!(groups(&all)[0].missing().as_deref(), Some("no trace was read for rank 1 of its 3 ranks"));
    }

    #[test]
    fn sends_want_to_be_received() {
        let (mut one, mut other) = (member(0, &[], 0), member(1, &[], 0));
        one.transfers.insert(1, (3, 0));
        other.transfers.insert(0, (0, 2));
        let told = notes(&[one, other, member(2, &[], 0)]);
        assert_eq!(
            told,
            [
                "communicator \"world\" (0x0000000000000007): rank 0 has begun send #3 to rank 1, which has not begun the matching receive"
            ]
        );
    }
}
