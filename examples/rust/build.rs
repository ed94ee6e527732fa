//! Links libbenzina.a, which `make` in the repository's root builds, and the libraries that it needs.
//!
//! BENZINA_LIB_DIR is where libbenzina.a lies (default: build/ of this repository); relative paths count from this crate.

use std::{env, path::PathBuf, process::Command};

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let folder = here.join(env::var_os("BENZINA_LIB_DIR").unwrap_or_else(|| "../../build".into()));
    let library = folder.join("libbenzina.a");
    println!("cargo:rerun-if-env-changed=BENZINA_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo:rerun-if-changed={}", library.display());
    println!("cargo:rerun-if-changed=build.rs");
    assert!(library.exists(), "{} is not there: run make in the repository's root, or set BENZINA_LIB_DIR", library.display());

    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=static=benzina");
    // What pkg-config does not find, the makefile has built the library without: there is nothing to link then.
    for packages in [&["libavcodec", "libavutil"][..], &["libjpeg"]] {
        let Ok(output) = Command::new("pkg-config").arg("--libs").args(packages).output() else { continue };
        if output.status.success() {
            for word in String::from_utf8_lossy(&output.stdout).split_whitespace() {
                if let Some(path) = word.strip_prefix("-L") {
                    println!("cargo:rustc-link-search=native={path}");
                } else if let Some(name) = word.strip_prefix("-l") {
                    println!("cargo:rustc-link-lib={name}");
                }
            }
        }
    }
    println!("cargo:rustc-link-lib=m");
    println!("cargo:rustc-link-lib=pthread");
    println!("cargo:rustc-link-lib=dl"); // where glibc is old; elsewhere it is empty
}
