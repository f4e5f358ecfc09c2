//! The layout of a kernel's parameters, read from its code: drivers before CUDA 12.4 have no query for it,
//! and no driver reports which parameters are pointers.
//!
//! An image is read in place, through a function, in pieces: fatbins of hundreds of megabytes are common, and
//! only one entry of them counts. Nothing in an image is trusted: malformed code is [`Unread`], never a
//! panic, and no length in it can make the reader use more memory than the image's own size (for compressed
//! code, 255 times that, the maximum of LZ4).
//!
//! Checked beyond the tests: in libcurand of 11.8 and 12.9, the machine code and the compressed text of all
//! 592 kernels give the same parameter sizes; in 12.9, where both are for one device, also the same offsets.

pub(crate) mod cubin;
mod fatbin;
mod lz4;
mod parameter;
pub(crate) mod ptx;
mod zstd;

pub use fatbin::Entry;
pub use parameter::{Element, Kernels, Number, Parameter, Unread};

use crate::base::bytes::u64_at;
use crate::code::image::{Format, Read, Wrapper};

/// The code of one image, read only as far as queries need it.
#[derive(Debug, Default)]
pub struct Code {
    /// What the driver would choose first comes first; those from `read` on have not been looked into.
    entries: Vec<Entry>,
    read: usize,
    kernels: Kernels,
    unread: Vec<Unread>,
}

impl Code {
    /// The image at this address, of which `len` bytes lie in one piece. `sm` is the device's compute
    /// capability, 90 for 9.0; without it, code for every device counts, that for the newest first.
    pub fn new(address: u64, len: usize, sm: Option<u32>, read: Read) -> Code {
        let mut code = Code::default();
        let Some(start) = read(address, len.min(8)) else {
            code.unread.push(Unread::Broken);
            return code;
        };
        match Format::detect(&start) {
            Format::Wrapper => code.wrapper(address, read),
            Format::Fatbin => code.fatbin(address, len, read),
            Format::Elf => code.entries.push(Entry::cubin(address, len)),
            Format::Text => code.entries.push(Entry::text(address, len)),
            Format::Archive => code.unread.push(Unread::Archive),
        }
        code.choose(sm);
        code
    }

    /// As [`Code::new`], with the PTX in the image alone: only that tells types.
    pub fn of_text(address: u64, len: usize, read: Read) -> Code {
        let mut code = Code::new(address, len, None, read);
        code.entries.retain(Entry::is_text);
        code
    }

    /// A file's content, or an image that has been copied into one piece.
    pub fn parse(bytes: &[u8], sm: Option<u32>) -> Code {
        Code::new(0, bytes.len(), sm, &from(bytes))
    }

    fn wrapper(&mut self, address: u64, read: Read) {
        const FATBINS: usize = 4096;
        let Some(wrapper) = read(address, Wrapper::SIZE).and_then(|bytes| Wrapper::decode(&bytes)) else {
            return self.unread.push(Unread::Broken);
        };
        self.fatbin(wrapper.data, usize::MAX, read);
        // A null-terminated array in version 2; before that, a file's name or nothing.
        let further = if wrapper.version == 2 && wrapper.more != 0 { FATBINS } else { 0 };
        for i in 0..further as u64 {
            match wrapper.more.checked_add(i * 8).and_then(|at| read(at, 8)).map(|bytes| u64_at(&bytes, 0)) {
                Some(0) => break,
                Some(fatbin) => self.fatbin(fatbin, usize::MAX, read),
                None => return self.unread.push(Unread::Broken),
            }
        }
    }

    fn fatbin(&mut self, address: u64, len: usize, read: Read) {
        if !fatbin::entries(address, len, read, &mut self.entries) {
            self.unread.push(Unread::Broken);
        }
    }

    /// Leaves what the device can run, in the order of the driver's preference.
    fn choose(&mut self, sm: Option<u32>) {
        let all = self.entries.len();
        self.entries.retain_mut(|entry| entry.suits(sm));
        if self.entries.len() < all {
            self.unread.push(Unread::Other);
        }
        // Stable: of equal ones the first in the image.
        self.entries.sort_by_key(|entry| std::cmp::Reverse(entry.preference()));
    }

    /// The parameters of a kernel. `read` must be that of `new`.
    pub fn kernel(&mut self, name: &str, read: Read) -> Option<&[Parameter]> {
        while !self.kernels.contains_key(name) && self.next(read) {}
        self.kernels.get(name).map(Vec::as_slice)
    }

    /// All kernels: of two with one name, that which the driver would choose.
    pub fn all(&mut self, read: Read) -> &Kernels {
        while self.next(read) {}
        &self.kernels
    }

    /// What the device can run, in the order of the driver's preference.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What could not be read so far, each reason once.
    pub fn unread(&self) -> impl Iterator<Item = Unread> {
        let mut reasons = self.unread.clone();
        reasons.sort_unstable();
        reasons.dedup();
        reasons.into_iter()
    }

    /// Looks into the next entry; false if there is none.
    fn next(&mut self, read: Read) -> bool {
        let Some(entry) = self.entries.get(self.read) else { return false };
        self.read += 1;
        match entry.kernels(read) {
            Ok((kernels, whole)) => {
                kernels.into_iter().for_each(|(name, parameters)| {
                    self.kernels.entry(name).or_insert(parameters);
                });
                self.unread.extend((!whole).then_some(Unread::Broken));
            }
            Err(why) => self.unread.push(why),
        }
        true
    }
}

/// The parameters of a kernel in an image that lies in one piece, for a device of this compute capability.
pub fn of_kernel(image: &[u8], name: &str, sm: Option<u32>) -> Option<Vec<Parameter>> {
    Code::parse(image, sm).kernel(name, &from(image)).map(<[_]>::to_vec)
}

/// Reads from bytes as if they lay at address 0.
pub fn from(bytes: &[u8]) -> impl Fn(u64, usize) -> Option<Vec<u8>> {
    move |at, len| {
        let at = usize::try_from(at).ok()?;
        bytes.get(at..at.checked_add(len)?).map(<[u8]>::to_vec)
    }
}
