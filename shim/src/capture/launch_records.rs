//! Records of kernel launches on the hot path: the arguments, and the launch configuration if it is a struct.

use crate::records::lane::{Lane, copy_padded, encode_at};
use crate::submission::shape::{Config, Launch, Site};
use trace::file::record::{
    self, ATTACHMENT, Attachment, ENTRY_SIZE, Head, INLINE, INLINE_LIMIT, NESTED, RETURN_SIZE, Return,
};

/// The return of a plain launch whose kernel was launched before; false if it is not that simple.
#[inline(always)]
pub(crate) fn launched<const N: usize>(
    lane: &Lane,
    site: &Site,
    launch: Launch,
    words: &[u64; N],
    call: u32,
    end: u64,
) -> bool {
    let (arguments, extra) = (words[launch.arguments as usize], words[launch.extra as usize]);
    if arguments == 0 || extra != 0 {
        return false;
    }
    let Some(layout) = lane.recorder().kernels.known_layout(words[launch.function as usize]) else { return false };
    let Some(sizes) = &layout.sizes else { return false };
    // SAFETY: the driver has just read it.
    let described = site.shape.config.map(|config| unsafe { Described::read(config, words) });
    let about = described.as_ref().map_or(0, Described::size);
    if about > INLINE_LIMIT {
        return false;
    }
    const FIXED: usize = RETURN_SIZE + ATTACHMENT + 8;
    let size = FIXED + about + layout.packed;
    if lane.room() < size && !lane.refill(size) {
        return true;
    }
    let head = Head { size: size as u32, kind: record::RETURN, flags: 0, function: site.id };
    let len = (8 + layout.packed) as u32;
    let start = lane.cursor();
    // SAFETY: `size` bytes from the cursor are in the chunk. The driver has just read as many pointers as the
    // kernel has parameters, and as many bytes behind each as the parameter takes.
    unsafe {
        encode_at(start, &Return { head, end, call, result: 0 });
        let mut at = start.add(RETURN_SIZE);
        if let Some(described) = &described {
            at = described.encode(at);
        }
        encode_at(at, &Attachment { form: record::ARGUMENTS, field: launch.arguments, option: 0, len });
        encode_at(at.add(ATTACHMENT), &(layout.id, sizes.len() as u32));
        at = at.add(ATTACHMENT + 8);
        for (i, size) in sizes.iter().enumerate() {
            let argument = *(arguments as *const *const u8).add(i);
            at = match *size {
                8 => put_word(at, argument.cast::<u64>().read_unaligned()),
                4 => put_word(at, argument.cast::<u32>().read_unaligned().into()),
                size => copy_padded(at, argument, size as usize),
            };
        }
        lane.commit(size);
    }
    lane.asks_across(start.wrapping_sub(ENTRY_SIZE + 8 * N), end);
    // The next launch has to look at its arguments before the driver does.
    if lane.recorder().reaches_host() {
        lane.read_pages.add(arguments, sizes.len() as u64 * 8);
        for (i, size) in sizes.iter().enumerate().filter(|(_, size)| **size > 0) {
            // SAFETY: as above.
            lane.read_pages.add(unsafe { *(arguments as *const u64).add(i) }, (*size).into());
        }
    }
    true
}

/// The structure that describes a launch (CUlaunchConfig: grid, blocks, stream), and the array that it names.
struct Described {
    config: Config,
    address: u64,
    /// Its attributes, and their bytes.
    array: u64,
    len: usize,
}

impl Described {
    /// # Safety
    /// The structure that the words name must be there.
    unsafe fn read(config: Config, words: &[u64]) -> Described {
        let address = words[config.word as usize];
        // SAFETY: the caller's promise.
        let (array, count) = unsafe {
            let at = address as *const u8;
            let array = at.add(config.array.into()).cast::<u64>().read_unaligned();
            (array, at.add(config.count.into()).cast::<u32>().read_unaligned())
        };
        let len = if array == 0 { 0 } else { count as usize * usize::from(config.element) };
        Described { config, address, array, len }
    }

    /// Bytes of its attachments.
    fn size(&self) -> usize {
        let array = if self.len == 0 { 0 } else { ATTACHMENT + 8 + self.len.next_multiple_of(8) };
        ATTACHMENT + usize::from(self.config.bytes).next_multiple_of(8) + array
    }

    /// Writes them; where the next one goes.
    ///
    /// # Safety
    /// There must be room, and the structure and the array be there.
    unsafe fn encode(&self, at: *mut u8) -> *mut u8 {
        let Config { word, bytes, .. } = self.config;
        // SAFETY: the caller's promise.
        unsafe {
            encode_at(at, &Attachment { form: INLINE, field: word, option: 0, len: bytes.into() });
            let at = copy_padded(at.add(ATTACHMENT), self.address as *const u8, bytes.into());
            if self.len == 0 {
                return at;
            }
            encode_at(at, &Attachment { form: INLINE, field: NESTED, option: 0, len: self.len as u32 });
            encode_at(at.add(ATTACHMENT), &self.array);
            copy_padded(at.add(ATTACHMENT + 8), self.array as *const u8, self.len)
        }
    }
}

/// Writes a word; where the next one goes.
///
/// # Safety
/// There must be room for it.
#[inline(always)]
unsafe fn put_word(at: *mut u8, word: u64) -> *mut u8 {
    // SAFETY: the caller's promise; records are aligned to words.
    unsafe {
        at.cast::<u64>().write(word);
        at.add(8)
    }
}
