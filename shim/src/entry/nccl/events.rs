//! The structs that NCCL passes to its profiler plugin, version by version, with the numbers and the member
//! order of its public headers profiler_v1.h to profiler_v7.h. Members after the last one here are not read.

use crate::job::operations::Identity;
use crate::os::text::Text;
use std::ffi::{CStr, c_char, c_int, c_void};
use trace::file::record::nccl::{Began, Name, began};

/// The start of an NCCL event.
pub(super) enum Event {
    Operation(OperationEvent),
    /// Something that operations are part of.
    Parent,
    Unknown,
}

/// An operation.
#[derive(Default)]
pub(super) struct OperationEvent {
    pub about: Began,
    /// The handle of what it is part of; 0 if that has none.
    pub parent: usize,
    /// Whether the program's own call of it was told, too.
    pub has_call: bool,
    /// Of its communicator, where that has not been told before.
    rank: c_int,
    id: u64,
    communicator: Option<Text>,
}

impl OperationEvent {
    #[cold]
    pub(super) fn identity(&self) -> Identity {
        let name = self.communicator.and_then(Text::copied).unwrap_or_default();
        Identity { id: self.id, rank: self.rank, name, ..Identity::default() }
    }
}

const GROUP: u64 = 1 << 0;
const COLLECTIVE: u64 = 1 << 1;
const TRANSFER: u64 = 1 << 2;
const GROUP_CALL: u64 = 1 << 8;
const COLLECTIVE_CALL: u64 = 1 << 9;
const TRANSFER_CALL: u64 = 1 << 10;

/// The first version that tells what the program called.
const WITH_CALLS: u32 = 5;

/// The events that are asked for.
pub(super) const fn event_mask(version: u32) -> c_int {
    let given = COLLECTIVE | TRANSFER;
    (if version < WITH_CALLS { given } else { given | COLLECTIVE_CALL | TRANSFER_CALL }) as c_int
}

/// What every version begins with; until version 4 the type is a byte, with padding behind it.
#[repr(C)]
struct Head {
    ty: u64,
    parent: usize,
    rank: c_int,
}

/// Where the rest begins.
const BEHIND_HEAD: usize = 24;
const _: () = assert!(size_of::<Head>() == BEHIND_HEAD);

type Text1 = *const c_char;

#[repr(C)]
struct Collective1 {
    communicator: Text1,
    id: u64,
    sequence: u64,
    function: u8,
    source: *const c_void,
    destination: *const c_void,
    count: usize,
    root: c_int,
    datatype: u8,
    op: u32,
    traffic: usize,
    channels: u8,
    warps: u8,
    algorithm: u8,
    protocol: u8,
}

#[repr(C)]
struct Transfer1 {
    communicator: Text1,
    id: u64,
    function: u8,
    buffer: *const c_void,
    datatype: u8,
    count: usize,
    peer: c_int,
}

#[repr(C)]
struct Owner {
    communicator: Text1,
    id: u64,
}

/// Versions 2 and 3 have it behind an [`Owner`].
#[repr(C)]
struct Collective {
    sequence: u64,
    function: Text1,
    source: *const c_void,
    destination: *const c_void,
    count: usize,
    root: c_int,
    datatype: Text1,
}

#[repr(C)]
struct Choice {
    channels: u8,
    warps: u8,
    algorithm: Text1,
    protocol: Text1,
}

/// Versions 2 and 3 have it behind an [`Owner`].
#[repr(C)]
struct Transfer {
    function: Text1,
    buffer: *const c_void,
    datatype: Text1,
    count: usize,
    peer: c_int,
}

#[repr(C)]
struct CollectiveCall {
    function: Text1,
    count: usize,
    datatype: Text1,
    root: c_int,
    stream: *const c_void,
    captured: u8,
}

#[repr(C)]
struct TransferCall {
    function: Text1,
    count: usize,
    datatype: Text1,
    stream: *const c_void,
    captured: u8,
}

/// # Safety
/// `event` must be an event of that version of NCCL's interface.
#[inline]
pub(super) unsafe fn read<const VERSION: u32>(event: *const u8) -> Event {
    // SAFETY: the caller's promise: what is read of the type that the head names, in the version that it has.
    unsafe {
        let head = &*event.cast::<Head>();
        let ty = if VERSION < WITH_CALLS { head.ty & 0xff } else { head.ty };
        let body = event.add(BEHIND_HEAD);
        let mut told = match ty {
            GROUP | GROUP_CALL => return Event::Parent,
            COLLECTIVE => collective::<VERSION>(body),
            TRANSFER => transfer::<VERSION>(body),
            COLLECTIVE_CALL if VERSION >= WITH_CALLS => collective_call(&*body.cast()),
            TRANSFER_CALL if VERSION >= WITH_CALLS => transfer_call(&*body.cast()),
            _ => return Event::Unknown,
        };
        told.parent = head.parent;
        told.rank = head.rank;
        told.has_call = VERSION >= WITH_CALLS && matches!(ty, COLLECTIVE | TRANSFER);
        if VERSION < WITH_CALLS {
            // The group that NCCL has put it into.
            told.parent = 0;
        }
        Event::Operation(told)
    }
}

/// # Safety
/// As `read`: it is a collective.
#[inline]
unsafe fn collective<const VERSION: u32>(body: *const u8) -> OperationEvent {
    // SAFETY: the caller's promise.
    unsafe {
        if VERSION == 1 {
            return collective_1(&*body.cast());
        }
        let owner = if VERSION < 4 { Some(&*body.cast::<Owner>()) } else { None };
        let at = if VERSION < 4 { body.add(size_of::<Owner>()) } else { body };
        let of = &*at.cast::<Collective>();
        // Version 2 has a number between the two.
        let between = if VERSION == 2 { size_of::<usize>() } else { 0 };
        let chosen = &*at.add(size_of::<Collective>() + between).cast::<Choice>();
        let about = Began {
            what: began::COLLECTIVE,
            sequence: of.sequence,
            count: of.count as u64,
            source: of.source as u64,
            destination: of.destination as u64,
            peer: of.root,
            channels: chosen.channels,
            warps: chosen.warps,
            function: name(of.function),
            datatype: name(of.datatype),
            algorithm: name(chosen.algorithm),
            protocol: name(chosen.protocol),
            ..Began::default()
        };
        owned_operation(about, owner)
    }
}

/// # Safety
/// As `read`: it is a send or receive.
#[inline]
unsafe fn transfer<const VERSION: u32>(body: *const u8) -> OperationEvent {
    // SAFETY: the caller's promise.
    unsafe {
        if VERSION == 1 {
            return transfer_1(&*body.cast());
        }
        let owner = if VERSION < 4 { Some(&*body.cast::<Owner>()) } else { None };
        let at = if VERSION < 4 { body.add(size_of::<Owner>()) } else { body };
        let of = &*at.cast::<Transfer>();
        let about = Began { function: name(of.function), datatype: name(of.datatype), ..Began::default() };
        owned_operation(moving(about, of.buffer, of.count, of.peer), owner)
    }
}

/// # Safety
/// As `name`, of what it names.
unsafe fn collective_1(of: &Collective1) -> OperationEvent {
    let about = Began {
        what: began::COLLECTIVE,
        sequence: of.sequence,
        count: of.count as u64,
        source: of.source as u64,
        destination: of.destination as u64,
        peer: of.root,
        channels: of.channels,
        warps: of.warps,
        function: numbered(FUNCTIONS, of.function),
        datatype: numbered(DATATYPES, of.datatype),
        algorithm: numbered(ALGORITHMS, of.algorithm),
        protocol: numbered(PROTOCOLS, of.protocol),
        ..Began::default()
    };
    owned_operation(about, Some(&Owner { communicator: of.communicator, id: of.id }))
}

unsafe fn transfer_1(of: &Transfer1) -> OperationEvent {
    let (function, datatype) = (numbered(FUNCTIONS, of.function), numbered(DATATYPES, of.datatype));
    let about = moving(Began { function, datatype, ..Began::default() }, of.buffer, of.count, of.peer);
    owned_operation(about, Some(&Owner { communicator: of.communicator, id: of.id }))
}

/// Of a send or receive, whose only buffer is where it reads or where it writes.
fn moving(about: Began, buffer: *const c_void, count: usize, peer: c_int) -> Began {
    let is_send = about.function.starts_with(b"Send");
    let buffer = buffer as u64;
    let (source, destination) = if is_send { (buffer, 0) } else { (0, buffer) };
    Began { what: began::TRANSFER, count: count as u64, source, destination, peer, ..about }
}

fn owned_operation(about: Began, owner: Option<&Owner>) -> OperationEvent {
    let communicator = owner.map(|owner| Text::Narrow(owner.communicator));
    OperationEvent { about, communicator, id: owner.map_or(0, |owner| owner.id), ..OperationEvent::default() }
}

/// # Safety
/// As `name`, of what it names.
unsafe fn collective_call(of: &CollectiveCall) -> OperationEvent {
    // SAFETY: the caller's promise.
    let (function, datatype) = unsafe { (name(of.function), name(of.datatype)) };
    let about = Began { what: began::COLLECTIVE_CALL, peer: of.root, function, datatype, ..Began::default() };
    call_event(about, of.count, of.stream, of.captured)
}

/// # Safety
/// As `name`, of what it names.
unsafe fn transfer_call(of: &TransferCall) -> OperationEvent {
    // SAFETY: the caller's promise.
    let (function, datatype) = unsafe { (name(of.function), name(of.datatype)) };
    let about = Began { what: began::TRANSFER_CALL, peer: -1, function, datatype, ..Began::default() };
    call_event(about, of.count, of.stream, of.captured)
}

fn call_event(about: Began, count: usize, stream: *const c_void, captured: u8) -> OperationEvent {
    let about = Began { count: count as u64, stream: stream as u64, captured: captured != 0, ..about };
    OperationEvent { about, ..OperationEvent::default() }
}

/// A name of NCCL's, as far as it goes.
///
/// # Safety
/// `at` must be null or a C string.
#[inline]
unsafe fn name(at: Text1) -> Name {
    let mut name = Name::default();
    if !at.is_null() {
        // SAFETY: as many bytes as are found there, and no more than there is room for.
        unsafe {
            let len = libc::strnlen(at, name.len());
            std::ptr::copy_nonoverlapping(at.cast(), name.as_mut_ptr(), len);
        }
    }
    name
}

/// What NCCL's numbers stand for in version 1, as later versions name it.
const FUNCTIONS: &[&CStr] =
    &[c"Broadcast", c"Reduce", c"AllGather", c"ReduceScatter", c"AllReduce", c"SendRecv", c"Send", c"Recv"];
const DATATYPES: &[&CStr] = &[
    c"ncclInt8",
    c"ncclUint8",
    c"ncclInt32",
    c"ncclUint32",
    c"ncclInt64",
    c"ncclUint64",
    c"ncclFloat16",
    c"ncclFloat32",
    c"ncclFloat64",
    c"ncclBfloat16",
    c"ncclFloat8e4m3",
    c"ncclFloat8e5m2",
];
const ALGORITHMS: &[&CStr] = &[c"TREE", c"RING", c"COLLNET_DIRECT", c"COLLNET_CHAIN", c"NVLS", c"NVLS_TREE", c"PAT"];
const PROTOCOLS: &[&CStr] = &[c"LL", c"LL128", c"SIMPLE"];

fn numbered(names: &[&CStr], number: u8) -> Name {
    // SAFETY: a C string.
    names.get(number as usize).map_or(Name::default(), |known| unsafe { name(known.as_ptr()) })
}
