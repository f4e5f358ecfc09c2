//! Options of the JIT compiler, its logs, and the linker.

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::abi::code::{Code, Result};
use crate::abi::{Handle, Input, Out, put_text};
use crate::base::registry::Registry;
use crate::ptx;
use crate::ptx::Layout;
use crate::ptx::image;

const WALL_TIME: u32 = 2;
const INFO_BUFFER: u32 = 3;
const INFO_SIZE: u32 = 4;
const ERROR_BUFFER: u32 = 5;
const ERROR_SIZE: u32 = 6;
const VERBOSE: u32 = 12;
const OPTIONS: u32 = 35;

/// The options that the simulation supports. Sizes and the wall time are returned in the array of values.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    values: Out<*mut c_void>,
    info: Log,
    error: Log,
    wall_time: Option<usize>,
    verbose: bool,
}

// SAFETY: the pointers are only used within calls on the options' owner, as the driver's contract has it.
unsafe impl Send for Options {}
// SAFETY: as above; writers hold the linker's lock.
unsafe impl Sync for Options {}

#[derive(Clone, Copy)]
struct Log {
    buffer: Out<c_char>,
    length: usize,
    /// Where among the values the length stands.
    index: Option<usize>,
}

impl Log {
    const NONE: Log = Log { buffer: Out::from_raw(std::ptr::null_mut()), length: 0, index: None };

    fn write(&self, values: Out<*mut c_void>, text: &str) {
        put_text(self.buffer, if self.buffer.is_null() { 0 } else { self.length }, text);
        if let Some(index) = self.index {
            let written = if text.is_empty() { 0 } else { (text.len() + 1).min(self.length) };
            values.set_at(index, written as *mut c_void);
        }
    }
}

impl Options {
    pub(crate) const NONE: Options = Options {
        values: Out::from_raw(std::ptr::null_mut()),
        info: Log::NONE,
        error: Log::NONE,
        wall_time: None,
        verbose: false,
    };

    pub(crate) fn read(count: u32, names: Input<u32>, values: Out<*mut c_void>) -> Result<Self> {
        let mut options = Options { values, ..Options::NONE };
        let given: Input<*mut c_void> = Input::from_raw(values.raw().cast_const());
        for index in 0..count as usize {
            let value = given.element(index)? as usize;
            match names.element(index)? {
                WALL_TIME => options.wall_time = Some(index),
                INFO_BUFFER => options.info.buffer = Out::from_raw(value as *mut c_char),
                INFO_SIZE => (options.info.length, options.info.index) = (value & 0xffff_ffff, Some(index)),
                ERROR_BUFFER => options.error.buffer = Out::from_raw(value as *mut c_char),
                ERROR_SIZE => (options.error.length, options.error.index) = (value & 0xffff_ffff, Some(index)),
                VERBOSE => options.verbose = value as u32 != 0,
                name if name < OPTIONS => {}
                _ => return Err(Code::INVALID_VALUE),
            }
        }
        Ok(options)
    }

    /// Compiles, and writes both logs and the time it took.
    pub(crate) fn compile(&self, texts: &[String]) -> Result<Layout> {
        let begun = Instant::now();
        let compiled = Layout::new(texts.iter().map(String::as_str)).and_then(|layout| {
            layout.program(0)?;
            Ok(layout)
        });
        if let Some(index) = self.wall_time {
            let milliseconds = begun.elapsed().as_secs_f32() * 1e3;
            self.values.set_at(index, milliseconds.to_bits() as usize as *mut c_void);
        }
        match compiled {
            Ok(layout) => {
                self.info.write(self.values, &self.report(&layout));
                self.error.write(self.values, "");
                Ok(layout)
            }
            Err(error) => {
                self.info.write(self.values, "");
                self.error.write(self.values, &error.to_string());
                Err(Code::INVALID_PTX)
            }
        }
    }

    fn report(&self, layout: &Layout) -> String {
        match layout.program(0) {
            Ok(program) if self.verbose => describe(&program),
            _ => String::new(),
        }
    }
}

/// What the assembler says of each kernel when asked to be verbose.
fn describe(program: &ptx::Program) -> String {
    let lines = program.kernels.iter().map(|k| {
        format!(
            "ptxas info    : Function properties for '{}'\n\
             ptxas info    : used {} registers, {} stack, {} bytes smem\n",
            k.name, k.registers, k.local, k.static_shared
        )
    });
    lines.collect()
}

/// A link in progress.
pub(crate) struct Linker {
    options: Options,
    texts: Mutex<Vec<String>>,
    /// The image that cuLinkComplete handed out, which lives as long as this does.
    image: Mutex<Option<Vec<u8>>>,
}

static LINKERS: Registry<Linker> = Registry::new();

pub(crate) fn create(options: Options) -> Handle {
    LINKERS.insert(Arc::new(Linker { options, texts: Mutex::default(), image: Mutex::default() }))
}

pub(crate) fn find(handle: Handle) -> Result<Arc<Linker>> {
    LINKERS.find(handle)
}

pub(crate) fn destroy(handle: Handle) -> Result {
    LINKERS.remove(handle).map(drop)
}

const INPUT_CUBIN: u32 = 0;
const INPUT_PTX: u32 = 1;
const INPUT_FATBIN: u32 = 2;
const INPUT_OBJECT: u32 = 3;

impl Linker {
    pub(crate) fn add(&self, kind: u32, data: &[u8]) -> Result {
        let texts = match kind {
            INPUT_PTX => {
                let text = image::text_of(data)?;
                let parsed = Layout::new([text.as_str()]);
                if let Err(error) = parsed {
                    self.options.error.write(self.options.values, &error.to_string());
                    return Err(Code::INVALID_PTX);
                }
                vec![text]
            }
            INPUT_CUBIN | INPUT_FATBIN | INPUT_OBJECT => image::texts_in(data)?,
            _ => return Err(Code::INVALID_VALUE),
        };
        self.texts.lock().extend(texts);
        Ok(())
    }

    /// Links; gives the address and length of the image.
    pub(crate) fn complete(&self) -> Result<(*const u8, usize)> {
        let texts = self.texts.lock().clone();
        let program = self.options.compile(&texts)?.program(0).map_err(|_| Code::INVALID_PTX)?;
        let mut image = self.image.lock();
        let image = image.insert(image::container(&texts, &program.kernels));
        Ok((image.as_ptr(), image.len()))
    }
}
