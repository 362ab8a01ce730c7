//! Sets the link options of the library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A program may close the library and open it again; memory and threads of the simulated GPU must survive.
    println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
}
