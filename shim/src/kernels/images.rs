//! The code that the functions of this process come from. It gives the layout of their parameters, which a
//! driver before CUDA 12.4 does not report (`trace::code::parameters`).
//!
//! Nothing here is on the hot path. A load keeps the place of its image in the trace. The image is searched
//! when a function of it is first launched and the driver cannot answer, entry by entry until the kernel is
//! found, and the result is kept.

use crate::driver::calls;
use crate::driver::queries;
use crate::os::lock::Lock;
use crate::os::probe::{text_at, word_at};
use crate::trace_file::file::TraceFile;
use std::collections::HashMap;
use std::sync::Arc;
use trace::base::hash::Hash;
use trace::code::parameters::Code;

/// A piece of an image: the bytes at an address when it was loaded.
pub(crate) struct Piece {
    pub address: u64,
    pub len: usize,
    pub content: Content,
}

pub(crate) enum Content {
    Bytes(Vec<u8>),
    /// In the trace.
    Blob(Hash),
}

impl Piece {
    fn read(&self, file: &TraceFile, skip: usize, len: usize) -> Option<Vec<u8>> {
        match &self.content {
            Content::Bytes(bytes) => bytes.get(skip..skip.checked_add(len)?).map(<[u8]>::to_vec),
            Content::Blob(hash) => file.read_blob(*hash, skip as u64, len),
        }
    }
}

struct Image {
    /// In the order in which the image leads to them; long ones are cut up.
    pieces: Vec<Piece>,
    code: Lock<Option<Code>>,
}

impl Image {
    fn new(pieces: Vec<Piece>) -> Arc<Image> {
        Arc::new(Image { pieces, code: Lock::new(None) })
    }

    /// Bytes that lay at an address, which may go from one piece into the next.
    fn read(&self, file: &TraceFile, mut address: u64, len: usize) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        while all.len() < len {
            let inside = |piece: &&Piece| (piece.address..piece.address + piece.len as u64).contains(&address);
            let piece = self.pieces.iter().find(inside)?;
            let skip = (address - piece.address) as usize;
            let step = (piece.len - skip).min(len - all.len());
            let bytes = piece.read(file, skip, step)?;
            address += step as u64;
            if step == len {
                return Some(bytes);
            }
            all.extend(bytes);
        }
        Some(all)
    }

    /// Offsets and sizes of a kernel's parameters.
    fn parameters(&self, file: &TraceFile, name: &str, sm: Option<u32>) -> Option<Vec<(u32, u32)>> {
        let first = self.pieces.first()?;
        // What follows without a gap is one piece that was cut up.
        let mut len = 0;
        for piece in &self.pieces {
            if piece.address != first.address + len as u64 {
                break;
            }
            len += piece.len;
        }
        let read = |at: u64, len: usize| self.read(file, at, len);
        let mut code = self.code.lock();
        let code = code.get_or_insert_with(|| Code::new(first.address, len, sm, &read));
        let found = code.kernel(name, &read)?;
        Some(found.iter().map(|parameter| (parameter.offset, parameter.size)).collect())
    }
}

/// The lookup that returned a function or kernel.
#[derive(Clone)]
pub(crate) struct LookedUp {
    /// The CUmodule it was looked up in, or the CUlibrary it is from.
    pub owner: u64,
    pub name: String,
    pub is_kernel: bool,
    /// Whether the owner is a library.
    of_library: bool,
}

#[derive(Default)]
pub(crate) struct Images {
    /// By CUmodule and CUlibrary. An adopted module's is one of several.
    owners: Lock<HashMap<u64, Vec<Arc<Image>>>>,
    /// Those that modules were adopted with, each once.
    adopted: Lock<HashMap<Hash, Arc<Image>>>,
    /// By CUfunction and CUkernel, where the driver does not tell.
    functions: Lock<HashMap<u64, LookedUp>>,
}

impl Images {
    /// A load has succeeded, and these pieces are the image.
    pub(crate) fn loaded(&self, owner: u64, pieces: Vec<Piece>) {
        // What was found in another one of this handle is gone with it.
        self.owner_ends(owner);
        self.owners.lock().insert(owner, vec![Image::new(pieces)]);
    }

    /// The image is in one of these blobs, of so many bytes each.
    pub(crate) fn adopted(&self, module: u64, blobs: Vec<(Hash, usize)>) {
        let mut known = self.adopted.lock();
        let images = blobs.into_iter().map(|(hash, len)| {
            let piece = || Piece { address: 0, len, content: Content::Blob(hash) };
            known.entry(hash).or_insert_with(|| Image::new(vec![piece()])).clone()
        });
        let images = images.collect();
        self.owner_ends(module);
        self.owners.lock().insert(module, images);
    }

    /// A library's module in some context.
    pub(crate) fn library_module(&self, module: u64, library: u64) {
        let mut owners = self.owners.lock();
        if let Some(images) = owners.get(&library).cloned() {
            owners.insert(module, images);
        }
    }

    /// The handle may be another module's or library's from now on.
    pub(crate) fn owner_ends(&self, owner: u64) {
        if self.owners.lock().remove(&owner).is_some() {
            self.functions.lock().retain(|_, found| found.owner != owner);
        }
    }

    /// `place`: where the driver has put the handle. `name`: the address of its name.
    pub(crate) fn function_found(&self, place: u64, owner: u64, name: u64, is_kernel: bool) {
        if !calls::tells_parameters()
            && let (Some(handle), Some(name)) = (word_at(place, 8, false), text_at(name))
        {
            let name = String::from_utf8_lossy(&name).into_owned();
            self.functions.lock().insert(handle, LookedUp { owner, name, is_kernel, of_library: is_kernel });
        }
    }

    /// A kernel's function in some context.
    pub(crate) fn kernel_function(&self, place: u64, kernel: u64) {
        let mut functions = self.functions.lock();
        if let (Some(handle), Some(found)) = (word_at(place, 8, false), functions.get(&kernel).cloned()) {
            functions.insert(handle, LookedUp { is_kernel: false, ..found });
        }
    }

    /// How the function was found, if that still holds: `module` is where the driver says that it is, if it
    /// says so.
    pub(crate) fn function(&self, handle: u64, module: u64) -> Option<LookedUp> {
        let found = self.functions.lock().get(&handle).cloned();
        found.filter(|found| found.of_library || module == 0 || found.owner == module)
    }

    /// Offsets and sizes of the parameters of a kernel of this module or library. If it is in several adopted
    /// images, they must agree: which of them is the module's, nobody tells.
    pub(crate) fn parameters(&self, owner: u64, name: &str, file: &TraceFile) -> Option<Vec<(u32, u32)>> {
        let images = self.owners.lock().get(&owner).cloned()?;
        let sm = queries::compute_capability();
        let mut all = images.iter().filter_map(|image| image.parameters(file, name, sm));
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    }
}
