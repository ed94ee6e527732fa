//! Holds src/raw.rs against benzina.h and formats.h by means of the C compiler: sizes, offsets, constants, signatures, and that nothing is missing.

use benzina::layout::Field;
use benzina::raw;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The header without its comments.
fn header() -> String {
    let read = |name| std::fs::read_to_string(repository().join(name)).expect(name);
    let text = read("benzina.h") + &read("examples/formats/formats.h").replace("BZNA_FORMATS_API", "BZNA_API");
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |rest, part| rest + part.split_once("*/").map_or("", |(_, code)| code))
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn compiler() -> String {
    std::env::var("CC").unwrap_or_else(|_| "cc".into())
}

/// Compiles a C program that includes the header, and runs it. The compiler's complaints are the test's.
fn run_c(name: &str, code: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
    // const is taken out of the header, since pointers of C structs and Rust's differ in nothing else.
    let code = format!("#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#define const\n#include \"formats.h\"\n{code}");
    std::fs::write(&source, code).expect("a file to compile");
    let mut cc = compiler();
    let flags = cc.split_off(cc.find(' ').unwrap_or(cc.len()));
    let output = Command::new(cc)
        .args(flags.split_whitespace())
        .args(["-std=c11", "-pedantic-errors", "-I"])
        .arg(repository())
        .arg("-I")
        .arg(repository().join("examples/formats"))
        .args(["-c", "-o"])
        .arg(program.with_extension("o"))
        .arg(&source)
        .output()
        .expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    if !std::fs::read_to_string(&source).unwrap_or_default().contains("int main") {
        return String::new();
    }
    let linked =
        Command::new(compiler().split(' ').next().unwrap_or("cc")).arg("-o").arg(&program).arg(program.with_extension("o")).status();
    assert!(linked.expect("a C linker").success());
    let output = Command::new(&program).output().expect("the C program");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn structs_lie_as_in_c() {
    let mut code = String::from("int main(void) {\n");
    let mut ours = String::new();
    for (name, size, align, fields) in raw::LAYOUT {
        code += &format!("printf(\"{name} %zu %zu\\n\", sizeof({name}), _Alignof({name}));\n");
        ours += &format!("{name} {size} {align}\n");
        for Field(field, offset, size, _) in *fields {
            code += &format!("printf(\"{name} {field} %zu %zu\\n\", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));\n");
            ours += &format!("{name} {field} {offset} {size}\n");
        }
    }
    let theirs = run_c("layout", &(code + "}\n"));
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        assert_eq!(ours, theirs, "Rust on the left, C on the right");
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
}

#[test]
fn fields_have_the_headers_types() {
    let mut code = String::new();
    for (name, _, _, fields) in raw::LAYOUT {
        for Field(field, _, _, rust) in fields.iter().filter(|field| !field.3.starts_with("Option")) {
            // Of an array the elements are compared; its length is its size's affair.
            let (mut element, mut index) = (*rust, String::new());
            while let Some(array) = element.strip_prefix('[') {
                element = array.rsplit_once(';').expect("a length").0;
                index += "[0]";
            }
            let theirs = format!("__typeof__((({name} *)0)->{field}{index})");
            code += &format!("_Static_assert(__builtin_types_compatible_p({theirs}, {}), \"{name}.{field}: {rust}\");\n", c_type(element));
        }
    }
    run_c("types", &code);
}

#[test]
fn no_struct_and_no_field_is_missing() {
    let header = header();
    let names = header.split("typedef struct ").skip(1).filter_map(|text| identifiers(text).next());
    let theirs: BTreeSet<&str> = names.filter(|name| name.starts_with("bzna_")).collect();
    let listed: BTreeSet<&str> = raw::LAYOUT.iter().map(|(name, ..)| *name).collect();
    let opaque = ["bzna_context", "bzna_dataset", "bzna_decoder", "bzna_loader", "bzna_batch", "bzna_writer", "bzna_rules"];
    assert_eq!(theirs, listed.into_iter().chain(opaque).collect::<BTreeSet<&str>>());
    for (name, size, align, fields) in raw::LAYOUT {
        let mut end = 0;
        for Field(field, offset, size, _) in *fields {
            assert_eq!(end, *offset, "{name}: something is missing before {field}, since the header pads explicitly");
            end = offset + size;
        }
        assert_eq!(end, *size, "{name} ends too early (alignment {align})");
    }
}

/// The lines of raw.rs that begin with `start`, without it and the semicolon, up to a line that is `end`.
fn lines<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| line.trim().strip_prefix(start)).map(|line| line.trim_end_matches(';'))
}

const RAW: &str = include_str!("../src/raw.rs");

fn constants() -> BTreeMap<&'static str, &'static str> {
    lines(RAW, "pub const BZNA_")
        .map(|line| {
            let (name, value) = line.split_once(" = ").expect("a value");
            let name = name.split(':').next().unwrap_or(name);
            (name, value.trim_end_matches(" as *mut c_void"))
        })
        .collect()
}

#[test]
fn constants_are_the_headers() {
    let mut code = String::new();
    for (name, value) in constants() {
        // what no int64_t holds needs a u in C
        let value = match value.parse::<u64>() {
            Ok(large) if large > i64::MAX as u64 => format!("{value}u"),
            _ => value.replace("u64::MAX", "UINT64_MAX"),
        };
        code += &format!("_Static_assert((int64_t)BZNA_{name} == (int64_t)({value}), \"BZNA_{name}\");\n");
    }
    run_c("constants", &code);
}

#[test]
fn no_constant_is_missing() {
    let (header, constants) = (header(), constants());
    let mut names: BTreeSet<String> = BTreeSet::new();
    for entry in header.split("X(").skip(1).filter(|entry| entry.contains('"')) {
        names.extend(identifiers(entry).next().map(str::to_owned)); // of BZNA_STATUS_MAP
    }
    for body in header.split("enum {").skip(1).filter_map(|text| text.split('}').next()) {
        let body: String = body.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
        names.extend(body.split(',').filter_map(|entry| identifiers(entry).next()?.strip_prefix("BZNA_")).map(str::to_owned));
    }
    names.remove("STATUS_MAP"); // the use of the map, inside an enum
    for line in header.lines().filter_map(|line| line.strip_prefix("#define BZNA_")) {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        if !name.contains('(') && value.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '(' || c == 'U') && name != "VERSION"
        {
            names.insert(name.to_owned());
        }
    }
    assert!(names.len() > 80, "only {} constants were found in the header", names.len());
    let missing: Vec<&String> = names.iter().filter(|name| !constants.contains_key(name.as_str())).collect();
    assert!(missing.is_empty(), "raw.rs has no {missing:?}");
}

/// A Rust type of raw.rs in C, without const.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(pointee) = rust.strip_prefix("*mut ").or(rust.strip_prefix("*const ")) {
        return c_type(pointee) + " *";
    }
    match rust {
        "u8" | "u16" | "u32" | "u64" | "i64" | "i32" => format!("{}int{}_t", if rust.starts_with('u') { "u" } else { "" }, &rust[1..]),
        "usize" => "size_t".into(),
        "f32" => "float".into(),
        "f64" => "double".into(),
        "c_char" => "char".into(),
        "c_void" => "void".into(),
        name if name.starts_with("bzna_") => name.into(),
        other => panic!("{other}: no such type in C"),
    }
}

/// "(user: *mut c_void, size: usize) -> i64" as "int64_t (*NAME)(void *, size_t)".
fn c_pointer(signature: &str, name: &str) -> String {
    let (arguments, rest) = signature.strip_prefix('(').and_then(|text| text.split_once(')')).expect("a signature");
    let arguments: Vec<String> =
        arguments.split(',').filter(|text| !text.trim().is_empty()).map(|text| c_type(text.split_once(':').expect("a type").1)).collect();
    let arguments = if arguments.is_empty() { "void".into() } else { arguments.join(", ") };
    let result = rest.trim().strip_prefix("-> ").map_or("void".into(), c_type);
    format!("{result} (*{name})({arguments})")
}

#[test]
fn functions_have_the_headers_signatures() {
    let mut code = String::new();
    let mut ours = BTreeSet::new();
    for line in lines(RAW, "pub fn bzna_") {
        let (name, _) = line.split_once('(').expect("a signature");
        code += &format!("{} = bzna_{name};\n", c_pointer(&line[name.len()..], &format!("check_{name}")));
        ours.insert(format!("bzna_{name}"));
    }
    run_c("functions", &code);
    let header = header();
    let theirs: BTreeSet<String> = header
        .split("BZNA_API ")
        .filter_map(|text| text.split_once(';')?.0.split_once('(')?.0.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next())
        .filter(|name| name.starts_with("bzna_"))
        .map(str::to_owned)
        .collect();
    assert_eq!(theirs, ours);
}

#[test]
fn callbacks_have_the_headers_signatures() {
    let mut code = String::from("void check(void) {\n");
    let mut count = 0;
    let mut add = |field: String, signature: &str| {
        count += 1;
        code += &format!("{{ {} = 0; __typeof__({field}) header = rust; (void)header; }}\n", c_pointer(signature, "rust"));
    };
    let declarations: Vec<&str> = RAW.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let flat = declarations.join(" ");
    let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(").replace(", )", ")").replace("Option< ", "Option<");
    for alias in flat.split("pub type ").skip(1).filter(|text| text.contains("Option<unsafe")) {
        let (name, rest) = alias.split_once(" = Option<unsafe extern \"C\" fn").unwrap_or_default();
        if name.starts_with("bzna_") {
            add(format!("({name})0"), rest.split_once(">;").expect("an end").0.trim_end_matches([',', ' ']));
        }
    }
    for body in flat.split("struct bzna_").skip(1) {
        let (name, body) = body.split_once(" {").expect("a struct");
        let body = body.split(" } ").next().unwrap_or(body);
        for field in body.match_indices(": Option<unsafe extern \"C\" fn") {
            let of = body[..field.0].rsplit(' ').next().unwrap_or_default();
            let signature = body[field.0 + field.1.len()..].split_once(">,").expect("an end").0;
            add(format!("((bzna_{name} *)0)->{of}"), signature);
        }
    }
    assert_eq!(count, 25, "callbacks found in raw.rs");
    run_c("callbacks", &(code + "}\n"));
}
