//! The SONAME is the point: with it, glibc hands this library out for every `dlopen("libcuda.so.1")` and
//! satisfies DT_NEEDED with it. And as the driver's own, its references to its functions are its own: a
//! program or a library that stands in front of some of them must not be handed itself as "the next".

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    // What it leaves with the C library (threads, keys, what runs at the end) must be there as long as the
    // process.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
