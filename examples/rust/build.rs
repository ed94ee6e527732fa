//! Finds libbenzina, or compiles it, and links it with the libraries that it needs. The first of these that there is:
//!
//! 1. BENZINA_LIB_DIR, a folder with libbenzina.a; a relative path counts from this crate
//! 2. build/libbenzina.a of this repository, which `make` makes
//! 3. an installed library, of which pkg-config knows
//! 4. benzina.c of this repository, compiled by CC: the pair of `make dist`, which has the GPU's kernels inside, or else the one in the
//!    root. Libraries that pkg-config does not find are left out, and a warning names them.
//!
//! libbenzina_formats, whose codecs every context has, comes from the same place.
//!
//! PKG_CONFIG names another pkg-config, as CC and AR name other tools.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the library is compiled with where pkg-config has it, the switch that leaves it out, and what is then missing.
const PARTS: [(&[&str], &str, &str); 3] = [
    (&["libavcodec", "libavutil"], "BENZINA_NO_AVCODEC", "libavcodec-dev was not found: only JPEG is decoded"),
    (&["libjpeg"], "BENZINA_NO_JPEG", "libjpeg-dev was not found: JPEG is not decoded"),
    (&["ffnvcodec"], "BENZINA_NO_CUDA", "libffmpeg-nvenc-dev was not found: there is no GPU path"),
];

/// The same for libbenzina_formats.
const FORMATS: [(&[&str], &str, &str); 4] = [
    (&["libavcodec", "libavutil"], "BENZINA_FORMATS_NO_STILLS", "libavcodec-dev was not found: GIF, BMP and PNM are not decoded"),
    (&["libtiff-4 >= 4.5"], "BENZINA_FORMATS_NO_TIFF", "libtiff-dev was not found: TIFF is not decoded"),
    (&["libopenjp2 >= 2.4"], "BENZINA_FORMATS_NO_JPEG2000", "libopenjp2-7-dev was not found: JPEG 2000 is not decoded"),
    (&["libjxl >= 0.7"], "BENZINA_FORMATS_NO_JXL", "libjxl-dev was not found: JPEG XL is not decoded"),
];

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    for name in ["BENZINA_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR", "CC", "AR"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");

    if env::var_os("CARGO_FEATURE_STREAM").is_some() {
        compile_stream(&here);
    }
    let built = here.join("../../build");
    if let Some(folder) = env::var_os("BENZINA_LIB_DIR") {
        let folder = here.join(folder);
        let library = folder.join("libbenzina.a");
        assert!(library.exists(), "{} is not there: run make in the repository's root, or unset BENZINA_LIB_DIR", library.display());
        link_static(&folder);
    } else if built.join("libbenzina.a").exists() {
        link_static(&built);
    } else if let Some(flags) = pkg_config("--libs", &["benzina_formats >= 0.4"]) {
        link(&flags);
    } else {
        link_static(&compile(&here));
    }
}

/// What pkg-config says of some packages; None where it does not know all of them, or is not there itself.
fn pkg_config(what: &str, packages: &[&str]) -> Option<String> {
    let output = command("PKG_CONFIG", "pkg-config").arg(what).args(packages).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Tells cargo the flags of a linker.
fn link(flags: &str) {
    for word in flags.split_whitespace() {
        if let Some(path) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={path}");
        } else if let Some(name) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={name}");
        }
    }
}

fn link_static(folder: &Path) {
    println!("cargo:rerun-if-changed={}", folder.join("libbenzina.a").display());
    println!("cargo:rustc-link-search=native={}", folder.display());
    if folder.join("libbenzina_formats.a").exists() {
        println!("cargo:rerun-if-changed={}", folder.join("libbenzina_formats.a").display());
        println!("cargo:rustc-link-lib=static=benzina_formats"); // before the library that it calls
        for (packages, ..) in FORMATS {
            link(&pkg_config("--libs", packages).unwrap_or_default());
        }
    }
    println!("cargo:rustc-link-lib=static=benzina");
    // The library was built without what pkg-config does not find: there is nothing to link then.
    for (packages, ..) in &PARTS[..2] {
        link(&pkg_config("--libs", packages).unwrap_or_default());
    }
    link("-lm -lpthread -ldl"); // dl where glibc is old; elsewhere it is empty
}

/// Compiles libbenzina.a and libbenzina_formats.a, and returns their folder.
fn compile(here: &Path) -> PathBuf {
    let root = here.join("../..");
    let pair = root.join("build/dist");
    let sources = if pair.join("benzina.c").exists() { pair } else { root };
    let source = sources.join("benzina.c");
    assert!(
        source.exists(),
        "there is no libbenzina: set BENZINA_LIB_DIR to a folder with libbenzina.a, install the library, or keep this crate in its repository"
    );
    for name in ["benzina.c", "benzina.h", "benzina_kernels.cu"] {
        println!("cargo:rerun-if-changed={}", sources.join(name).display());
    }
    if pkg_config("--version", &[]).is_none() {
        println!("cargo:warning=pkg-config is missing, so that no library is found");
    }

    let mut flags = ["-std=c11", "-O3", "-ffp-contract=off", "-fPIC", "-w", "-I"].map(String::from).to_vec();
    flags.push(sources.display().to_string());
    let mut own = flags.clone();
    for (packages, switch, missing) in PARTS {
        add_flags(&mut own, packages, switch, missing);
    }
    let out = archive("benzina", &own, &[source]);

    let formats = here.join("../formats");
    println!("cargo:rerun-if-changed={}", formats.display());
    if let Ok(files) = formats.read_dir() {
        let mut files: Vec<_> =
            files.filter_map(|file| Some(file.ok()?.path())).filter(|path| path.extension() == Some("c".as_ref())).collect();
        files.sort();
        for (packages, switch, missing) in FORMATS {
            add_flags(&mut flags, packages, switch, missing);
        }
        archive("benzina_formats", &flags, &files);
    }
    out
}

/// Adds a compiler's flags for some packages, or the switch that leaves them out.
fn add_flags(flags: &mut Vec<String>, packages: &[&str], switch: &str, missing: &str) {
    match pkg_config("--cflags", packages) {
        Some(found) => flags.extend(found.split_whitespace().map(String::from)),
        None => {
            println!("cargo:warning={missing}");
            flags.push(format!("-D{switch}"));
        }
    }
}

/// Compiles sources into a static library, and returns its folder.
fn archive(name: &str, flags: &[String], sources: &[PathBuf]) -> PathBuf {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut archive = command("AR", "ar");
    archive.arg("rcs").arg(out.join(format!("lib{name}.a")));
    for source in sources {
        println!("cargo:rerun-if-changed={}", source.display());
        let object = out.join(source.file_name().expect("a source has a name")).with_extension("o");
        run(command("CC", "cc").args(flags).arg("-c").arg("-o").arg(&object).arg(source), "a C compiler (gcc or clang; CC names one)");
        archive.arg(object);
    }
    run(&mut archive, "ar (of binutils; AR names one)");
    out
}

/// Compiles libbenzina_stream.a, and links it with what unpacks gzip and zstd. It comes before the library that it calls.
fn compile_stream(here: &Path) {
    let stream = here.join("../stream");
    let mut flags = vec![
        "-std=c11".to_string(),
        "-O2".into(),
        "-fPIC".into(),
        format!("-I{}", here.join("../formats").display()),
        format!("-I{}", here.join("../..").display()),
    ];
    let mut libraries = String::new();
    for (package, switch) in [("zlib", "-DBZNA_STREAM_NO_ZLIB"), ("libzstd", "-DBZNA_STREAM_NO_ZSTD")] {
        match (pkg_config("--cflags", &[package]), pkg_config("--libs", &[package])) {
            (Some(cflags), Some(libs)) => {
                flags.extend(cflags.split_whitespace().map(String::from));
                libraries += &libs;
            }
            _ => flags.push(switch.into()),
        }
    }
    for name in ["stream.h", "stream_source.h"] {
        println!("cargo:rerun-if-changed={}", stream.join(name).display());
    }
    let out = archive("benzina_stream", &flags, &["stream.c", "stream_source.c"].map(|name| stream.join(name)));
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=benzina_stream");
    link(&libraries);
}

/// The program that a variable names, which may have arguments, or the one that is usual.
fn command(variable: &str, usual: &str) -> Command {
    let words = env::var(variable).unwrap_or_else(|_| usual.into());
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or(usual));
    command.args(words);
    command
}

fn run(command: &mut Command, what: &str) {
    match command.status() {
        Ok(status) => assert!(status.success(), "{command:?} ended with {status}"),
        Err(error) => panic!("compiling libbenzina needs {what}: {command:?}: {error}"),
    }
}
