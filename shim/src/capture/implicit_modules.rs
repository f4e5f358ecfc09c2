//! Modules that appear without a load call: runtimes before CUDA 12 load theirs through one of the driver's
//! export tables.
//!
//! The first public sign is a lookup in a CUmodule that no recorded call made. Its image is then one of the
//! fatbin wrappers in the data of the loaded ELF files. All of them are stored, each once. The replay can ask
//! the driver which one has the kernel; here that would be extra work for the application.

use crate::os::probe::{bytes_at, word_at};
use crate::recording::recorder;
use crate::records::lane::Lane;
use std::borrow::Cow;
use std::ffi::{c_int, c_void};
use trace::base::hash::Hash;
use trace::code::image::{self, Pieces, Wrapper};
use trace::file::record::{self, Adopted};

/// Called for a module that was looked into; adopts it if it has no origin.
pub(crate) fn looked_into(lane: &Lane, module: u64) {
    let recorder = recorder::recorder();
    let context = crate::driver::queries::current_context();
    if module == 0 || !recorder.modules.is_new(module, context) {
        return;
    }
    let mut images: Vec<(Hash, usize)> = Vec::new();
    let mut lost = 0;
    for wrapper in wrappers() {
        let read = |at: u64, len: usize| bytes_at(at, len, true).map(Cow::into_owned);
        let Pieces::Found(pieces) = image::pieces(wrapper, &read) else { continue };
        // The first piece is the wrapper itself; version 2 has pointers between the fatbins.
        for (at, len) in pieces.into_iter().skip(1).filter(|(_, len)| *len > 8) {
            match bytes_at(at, len, true).and_then(|bytes| recorder.around.file.blob(&bytes)) {
                Some(hash) if images.contains(&(hash, len)) => {}
                Some(hash) => images.push((hash, len)),
                None => lost += 1,
            }
        }
    }
    let origin = match lost {
        0 => "fatbins in the data of the loaded files".into(),
        lost => format!("fatbins in the data of the loaded files; {lost} more could not be stored"),
    };
    let hashes = images.iter().map(|(hash, _)| hash.to_bytes()).collect();
    recorder.images.adopted(module, images);
    lane.append(&record::with_body(record::ADOPTED, &Adopted { module, images: hashes, origin }));
}

/// Addresses of fatbin wrappers in the writable data of all loaded files.
fn wrappers() -> Vec<u64> {
    let mut found: Vec<u64> = Vec::new();
    // SAFETY: the callback only reads what the loader hands it, and the vector outlives the walk.
    unsafe { libc::dl_iterate_phdr(Some(look), std::ptr::from_mut(&mut found).cast()) };
    found
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid info with its program headers, and `found` is the vector given
    // to it.
    let (base, headers, found) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        (info.dlpi_addr, headers, &mut *found.cast::<Vec<u64>>())
    };
    for header in headers.iter().filter(|h| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_W != 0) {
        let (start, len) = (base + header.p_vaddr, header.p_memsz as usize);
        // Parts of a segment may be unmapped or protected by now: page by page, and carefully.
        let first = start.next_multiple_of(8);
        let mut at = first;
        while at < start + len as u64 {
            let step = (65536 - at % 65536).min(start + len as u64 - at);
            if let Some(bytes) = bytes_at(at, step as usize, true) {
                let words = bytes.chunks_exact(8).enumerate();
                let candidates = words.filter(|(_, word)| Wrapper::may_begin(word));
                found.extend(candidates.map(|(i, _)| at + i as u64 * 8).filter(|w| word_at(w + 8, 8, true) != Some(0)));
            }
            at += step;
        }
    }
    0
}
