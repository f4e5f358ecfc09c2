//! The committed kernels, interpreted, against the same sums computed here.

mod arithmetic;
mod errors;
mod kernels;
mod modifiers;
mod operations;
mod rounding;

use std::sync::Arc;

use super::exec::{self, Fault, Fifo, Grid, Workspace};
use super::program::{Layout, Program};
use crate::memory::allocate::{self, allocate};
use crate::memory::pages;
use crate::memory::table::Kind;

macro_rules! ptx {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/apps/kernels/", $name, ".ptx"))
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
                cluster: [1; 3],
                threads,
                dynamic_shared: shared,
                parameters,
                id: 1,
                context: 0,
                fetch: |_, _, _, _| None,
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

/// Runs one operation, or a few, on registers %h, %r and %d of 16, 32 and 64 bits, whose numbers 1 to 3 hold the
/// inputs, and gives what `result` holds then: h0, r0, d0, or p0 and p1 as two bits.
fn compute(operations: &str, result: &str, inputs: [u64; 3]) -> Result<u64, Fault> {
    let text = format!(
        ".version 8.6\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u64 a, \
         .param .u64 b, .param .u64 c) {{ .reg .b16 %h<4>; .reg .b32 %r<5>; .reg .b64 %d<5>; .reg .pred %p<4>; \
         .reg .b128 %q<3>; .reg .b32 %wide;\n\
         ld.param.u64 %d4, [out]; ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c];\n\
         cvt.u32.u64 %r1, %d1; cvt.u32.u64 %r2, %d2; cvt.u32.u64 %r3, %d3;\n\
         cvt.u16.u64 %h1, %d1; cvt.u16.u64 %h2, %d2; cvt.u16.u64 %h3, %d3;\n\
         {operations}\n\
         st.global.b64 [%d4], %d0; st.global.b32 [%d4+8], %r0; st.global.b16 [%d4+16], %h0;\n\
         selp.b32 %r4, 1, 0, %p0; st.global.b32 [%d4+24], %r4;\n\
         selp.b32 %r4, 2, 0, %p1; st.global.b32 [%d4+28], %r4; ret; }}"
    );
    let loaded = Loaded::new(&[&text]);
    let out = Buffer::from_values(&[0u64; 4]);
    loaded.run("k", [1; 3], [1; 3], 0, &[&out, &inputs[0], &inputs[1], &inputs[2]])?;
    let [d, r, h, p] = out.get()[..] else { unreachable!() };
    Ok(match result {
        "d0" => d,
        "r0" => r,
        "h0" => h,
        _ => p & 1 | p >> 32,
    })
}

/// An operation with its operands, the register of its result, the inputs, and what PTX makes of them.
type Case = (&'static str, &'static str, [u64; 3], u64);

fn check(cases: &[Case]) {
    let wrong = cases.iter().filter_map(|&(operation, result, inputs, expected)| {
        let found = compute(operation, result, inputs);
        (found != Ok(expected)).then(|| format!("{operation} of {inputs:x?}: {found:x?}, not {expected:x}"))
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
    fn from_values(values: &[T]) -> Self {
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
