//! Inputs of calls that load code: module images, files, options.

use crate::call::build::Builder;
use crate::driver::result;
use crate::memory::buffer::{HostBuffer, Refusal};
use crate::plan::origins::AdoptedFunction;
use std::borrow::Cow;
use std::ffi::CString;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use trace::api::roles::Role;
use trace::api::types::{Form, Kind, Type};
use trace::base::bytes::{u32_at, u64_at};
use trace::base::hash::Hash;
use trace::code::image::{self, Format, Wrapper};
use trace::read::call::When;

/// The path of a file that there is not.
const NO_FILE: &[u8] = b"/proc/self/fd/none\0";

impl<'t> Builder<'_, 't> {
    /// A module image. Whole ones are handed over where they lie in the trace.
    pub(crate) fn image(&mut self, name: &'static str, address: u64, size: Option<u64>) -> Result<u64, Refusal> {
        self.frame.retain = true;
        // Code made by the linker for the live device, rather than what it made for the recorded one.
        // The driver reads as much as the call says.
        let least = size.unwrap_or(0);
        let short = |found: u64| Refusal(format!("{name} should have {least} bytes and has {found}"));
        if let Some(linked) = self.session.linked.lock().get(&address) {
            return if least <= linked.len { Ok(linked.address) } else { Err(short(linked.len)) };
        }
        let Some(bytes) = self.whole(address, least) else {
            return Err(self.whole(address, 0).map_or_else(|| self.missing(name), |found| short(found.len() as u64)));
        };
        match Format::detect(&bytes) {
            Format::Wrapper => {
                let wrapper = Wrapper::decode(&bytes).ok_or_else(|| self.missing(name))?;
                let data = self.binary(wrapper.data, 0).ok_or_else(|| self.missing(name))?;
                let more = match wrapper.more {
                    more @ 1.. if wrapper.version == 2 => self.fatbins(more).ok_or_else(|| self.missing(name))?,
                    _ => 0,
                };
                let mut live = HostBuffer::from_bytes(&bytes)?;
                live.write(Wrapper::DATA_AT, &data.to_le_bytes());
                live.write(Wrapper::MORE_AT, &more.to_le_bytes());
                Ok(self.own(live))
            }
            Format::Fatbin | Format::Elf => self.binary(address, least).ok_or_else(|| self.missing(name)),
            // Text is read up to its NUL, which need not have been recorded.
            _ => {
                let text = [&bytes[..], &[0]].concat();
                Ok(self.own(HostBuffer::from_bytes(&text)?))
            }
        }
    }

    /// The further fatbins of a wrapper: an array of addresses that ends with a zero.
    fn fatbins(&mut self, address: u64) -> Option<u64> {
        let mut live = Vec::new();
        for at in (address..).step_by(8) {
            let word = u64_at(&self.call.memory(When::Entry, at, 8)?, 0);
            live.extend(if word == 0 { 0 } else { self.binary(word, 0)? }.to_le_bytes());
            if word == 0 {
                break;
            }
        }
        Some(self.own(HostBuffer::from_bytes(&live).ok()?))
    }

    /// A recorded binary: in the trace itself if it is aligned there.
    fn binary(&mut self, address: u64, least: u64) -> Option<u64> {
        match self.whole(address, least)? {
            Cow::Borrowed(bytes) if (bytes.as_ptr() as usize).is_multiple_of(64) => Some(bytes.as_ptr() as u64),
            bytes => Some(self.own(HostBuffer::from_bytes(&bytes).ok()?)),
        }
    }

    /// The image that begins at this address: as long as its headers say, for other images may follow it
    /// without a gap, and no shorter than `least`. Text ends where the recorded bytes do.
    fn whole(&self, address: u64, least: u64) -> Option<Cow<'t, [u8]>> {
        let recorded = |at, len| self.call.memory(When::Entry, at, len as u64).map(Cow::into_owned);
        let len = match image::length(address, &recorded) {
            Some(len) => len as u64,
            None => self.image_length(address),
        };
        if len == 0 { None } else { self.call.memory(When::Entry, address, len.max(least)) }
    }

    /// A file with the recorded content, named by a path that only this process knows.
    pub(crate) fn path(&mut self, name: &'static str) -> Result<u64, Refusal> {
        let content = self.call.images().find(|image| image.address == 0 && image.len > 0);
        let Some(bytes) = content.and_then(|image| self.session.trace.bytes(&image)) else {
            // A file that was not there when recorded. Nothing that a trace names is opened.
            return match self.call.result {
                Some(result::FILE_NOT_FOUND) => Ok(self.own(HostBuffer::from_bytes(NO_FILE)?)),
                _ => Err(self.missing(name)),
            };
        };
        let file = memory_file(bytes).map_err(|error| Refusal(format!("no file for {name}: {error}")))?;
        let path = format!("/proc/self/fd/{}\0", file.as_raw_fd());
        self.frame.files.push(file);
        self.frame.retain = true;
        Ok(self.own(HostBuffer::from_bytes(path.as_bytes())?))
    }

    /// A recorded string with its NUL.
    pub(crate) fn text(&self, address: u64) -> Option<Vec<u8>> {
        let image = self.call.images().find(|image| image.address == address)?;
        let bytes = self.session.trace.bytes(&image)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some([&bytes[..end], &[0]].concat())
    }

    /// Values of options: numbers, or buffers that the driver writes its log to until the module or linker is
    /// gone.
    pub(crate) fn options(&mut self, codes_ty: &Type, address: u64, codes: u64, count: u64) -> Result<u64, Refusal> {
        let Form::Pointer(of) = codes_ty.form else { unreachable!("option codes are an array") };
        let array = |address, size: u64| self.call.memory(When::Entry, address, count.checked_mul(size)?);
        if count == 0 {
            return Ok(self.own(HostBuffer::zeroed(8)?));
        }
        let (codes, values) = array(codes, 4).zip(array(address, 8)).ok_or_else(|| self.missing("options"))?;
        let codes: Vec<u32> = codes.chunks_exact(4).map(|code| u32_at(code, 0)).collect();
        let values: Vec<u64> = values.chunks_exact(8).map(|value| u64_at(value, 0)).collect();
        // An option may be given twice.
        let most_of = |wanted: &str| {
            let named = codes.iter().zip(&values).filter(|(code, _)| option_name(of, **code) == Some(wanted));
            named.map(|(_, value)| *value as u32).max()
        };
        const LOG: u32 = 64 << 10;
        let mut live = Vec::with_capacity(values.len() * 8);
        for (code, value) in codes.iter().zip(&values) {
            let own = match option_name(of, *code) {
                Some(name @ ("CU_JIT_INFO_LOG_BUFFER" | "CU_JIT_ERROR_LOG_BUFFER")) if *value != 0 => {
                    // What is recorded as the size is what the driver used of it; the buffer is larger.
                    let size = most_of(&format!("{name}_SIZE_BYTES")).unwrap_or(0);
                    self.own(HostBuffer::zeroed(size.max(LOG) as usize)?)
                }
                // Functions and data of the host for kernels to call: none.
                Some("CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE") => self.own(HostBuffer::zeroed(64)?),
                Some(
                    name @ ("CU_JIT_GLOBAL_SYMBOL_NAMES"
                    | "CU_JIT_GLOBAL_SYMBOL_ADDRESSES"
                    | "CU_JIT_REFERENCED_KERNEL_NAMES"
                    | "CU_JIT_REFERENCED_VARIABLE_NAMES"),
                ) => return Err(Refusal(format!("the arrays of {name} were not recorded"))),
                Some(_) => *value,
                // It might be an address.
                None => return Err(Refusal(format!("this version of cutrace does not know option {code}"))),
            };
            live.extend(own.to_le_bytes());
        }
        self.frame.retain = true;
        Ok(self.own(HostBuffer::from_bytes(&live)?))
    }

    /// Retains a primary context before the recorded program did: runtimes get its handle through a table of
    /// the driver's, and make it current first.
    pub(crate) fn adopt_context(&mut self, context: u64) -> bool {
        let Some(device) = self.session.plan.devices.primaries.get(&context) else { return false };
        let device = self.session.objects.device(*device);
        let Ok(live) = self.session.driver.retain_primary_context(device) else { return false };
        self.session.objects.bind(Kind::Context, context, live);
        self.session.contexts.lock().insert(live);
        true
    }

    /// Looks up a function that the recorded program found unseen, if this call is the first to need it.
    pub(crate) fn adopt_function(&mut self, function: u64) -> Result<(), Refusal> {
        let found =
            self.session.plan.special_calls.functions.get(&self.call.number).filter(|found| found.function == function);
        let Some(AdoptedFunction { module, name, .. }) = found else { return Ok(()) };
        let module = self.handle(Kind::Module, *module)?;
        let text = with_nul(name.clone().into_bytes());
        let live = self.session.driver.function_of_module(module, &text);
        let live = live
            .map_err(|failure| Refusal(format!("needs {name}, which the replayed module does not have: {failure}")))?;
        self.session.objects.bind(Kind::Function, function, live);
        Ok(())
    }

    /// Loads a module that the recorded program got unseen, when it is first used: of the images that were
    /// found, the one that has what this call asks for by name.
    pub(crate) fn adopt(&mut self, module: u64) -> bool {
        let Some(adopted) = self.session.trace.adopted.iter().find(|adopted| adopted.module == module) else {
            return false;
        };
        let driver = self.session.driver;
        let name = self.function.params.iter().position(|param| matches!(param.role, Role::Text));
        let name = name.and_then(|at| self.text(self.call.argument_of(at)?)).map(with_nul);
        for image in &adopted.images {
            let Some(bytes) = self.session.trace.blob(Hash::from_bytes(*image)) else { continue };
            // SAFETY: an image that lies whole in the trace and outlives the replay.
            let Ok(live) = (unsafe { driver.load_module(bytes) }) else { continue };
            let has = name.as_ref().and_then(|name| driver.module_has(self.function, live, name));
            if has.unwrap_or(adopted.images.len() == 1) {
                self.session.objects.bind(Kind::Module, module, live);
                return true;
            }
            let _ = driver.unload_module(live);
        }
        false
    }
}

/// Up to the first NUL, if there is one.
fn with_nul(mut text: Vec<u8>) -> CString {
    text.truncate(text.iter().position(|byte| *byte == 0).unwrap_or(text.len()));
    CString::new(text).expect("no NUL is left")
}

fn option_name(of: &Type, code: u32) -> Option<&'static str> {
    match of.form {
        Form::Enum(names) => names.name_of(code.into()),
        _ => None,
    }
}

fn memory_file(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    // SAFETY: a constant name.
    let fd = unsafe { libc::memfd_create(c"recorded".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: just made, owned by nobody else.
    let mut file = unsafe { std::fs::File::from_raw_fd(fd) };
    file.write_all(bytes)?;
    Ok(file.into())
}
