//! The committed kernels, interpreted, against the same sums done here.

mod arithmetic;
mod errors;
mod kernels;

use std::sync::Arc;

use super::exec::{self, Fault, Fifo, Grid, Workspace};
use super::program::{Layout, Program};
use crate::memory::allocate::{self, allocate};
use crate::memory::pages;
use crate::memory::table::Kind;

macro_rules! ptx {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../apps/kernels/", $name, ".ptx"))
    };
}
use ptx;

/// A program in device memory of its own.
struct Loaded {
    program: Arc<Program>,
}

impl Loaded {
    fn new(texts: &[&str]) -> Self {
        let layout = Layout::new(texts.iter().copied()).expect("the text parses");
        let base = allocate(layout.size.max(1) as u64, Kind::Device, 0, 0).expect("memory for variables");
        pages::write(base, &layout.image(base).expect("initial values"));
        Self { program: Arc::new(layout.program(base).expect("the program links")) }
    }

    fn run(
        &self,
        kernel: &str,
        blocks: [u32; 3],
        threads: [u32; 3],
        shared: u32,
        arguments: &[&dyn Argument],
    ) -> Result<(), Fault> {
        let kernel = self.program.kernels.iter().position(|k| k.name == kernel).expect("a kernel of that name");
        let info = &self.program.kernels[kernel];
        assert_eq!(info.parameters.len(), arguments.len());
        let mut parameters = vec![0; info.parameter_bytes];
        for (parameter, argument) in info.parameters.iter().zip(arguments) {
            let bytes = argument.bytes();
            assert_eq!(bytes.len(), parameter.size);
            parameters[parameter.offset..parameter.offset + bytes.len()].copy_from_slice(&bytes);
        }
        let program = self.program.clone();
        exec::run(
            &Grid {
                program,
                kernel,
                blocks,
                threads,
                dynamic_shared: shared,
                parameters,
                id: 1,
                context: 0,
                device: 0,
                function: 0,
                workspace: Workspace::default(),
            },
            &mut Fifo::new(1 << 20),
            &|| false,
        )
    }

    fn variable<T: Copy>(&self, name: &str) -> Buffer<T> {
        let variable = self.program.variables.iter().find(|v| v.name == name).expect("a variable of that name");
        Buffer {
            at: variable.address,
            count: variable.size / size_of::<T>(),
            owned: false,
            kind: std::marker::PhantomData,
        }
    }
}

trait Argument {
    fn bytes(&self) -> Vec<u8>;
}

macro_rules! arguments {
    ($($ty:ty)*) => {
        $(impl Argument for $ty {
            fn bytes(&self) -> Vec<u8> {
                self.to_ne_bytes().to_vec()
            }
        })*
    };
}

arguments!(i8 i32 u32 u64 f64);

impl Argument for Vec<u8> {
    fn bytes(&self) -> Vec<u8> {
        self.clone()
    }
}

/// Numbers in device memory.
struct Buffer<T> {
    at: u64,
    count: usize,
    owned: bool,
    kind: std::marker::PhantomData<T>,
}

impl<T: Copy> Buffer<T> {
    fn of(values: &[T]) -> Self {
        let size = size_of_val(values).max(1);
        let at = allocate(size as u64, Kind::Device, 0, 0).expect("device memory");
        let buffer = Self { at, count: values.len(), owned: true, kind: std::marker::PhantomData };
        buffer.set(values);
        buffer
    }

    fn set(&self, values: &[T]) {
        assert!(values.len() <= self.count);
        // SAFETY: the allocation holds `count` values, and no kernel runs on it now.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.at as *mut T, values.len()) };
    }

    fn get(&self) -> Vec<T> {
        // SAFETY: as above; every bit pattern is a number.
        unsafe { std::slice::from_raw_parts(self.at as *const T, self.count) }.to_vec()
    }
}

impl<T> Argument for Buffer<T> {
    fn bytes(&self) -> Vec<u8> {
        self.at.bytes()
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if self.owned {
            allocate::free(self.at).expect("allocated above");
        }
    }
}

/// Numbers without pattern, the same in every run.
fn numbers(count: usize) -> impl Iterator<Item = u32> {
    let mut state = 12345u32;
    (0..count).map(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state ^ state >> 13
    })
}
