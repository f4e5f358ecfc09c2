//! Sets the SONAME, with which glibc returns this library for every `dlopen("libcuda.so.1")` and satisfies
//! DT_NEEDED with it. References to its own functions are bound inside it, as the driver's are: a program or
//! library that interposes some of them must not receive itself as "the next".

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    // What it leaves with the C library (threads, keys, what runs at the end) must be there as long as the
    // process.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
