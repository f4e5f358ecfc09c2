//! The SONAME is the point: with it, glibc hands this library out for every `dlopen("libcuda.so.1")` and satisfies
//! DT_NEEDED with it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
}
