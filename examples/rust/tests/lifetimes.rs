//! What borrowers may not do: programs that the compiler must refuse, each with a twin without the offending line that it must take.
//! The error's code is compared, and not its text, which changes with the compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

struct Case {
    name: &'static str,
    /// The error that the line `bad` makes of the program, in which it stands at `BAD`.
    code: &'static str,
    bad: &'static str,
    body: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "a picture does not outlive its image, whose bytes a raw one's planes are",
        code: "E0505",
        bad: "drop(image);",
        body: "let mut decoder = ctx.decoder()?;
            let image = data.image(0, None)?;
            let picture = decoder.decode(&image)?;
            BAD
            picture.size();",
    },
    Case {
        name: "a picture does not outlive its decoder",
        code: "E0505",
        bad: "drop(decoder);",
        body: "let mut decoder = ctx.decoder()?;
            let image = data.image(0, None)?;
            let picture = decoder.decode(&image)?;
            BAD
            picture.size();",
    },
    Case {
        name: "a decoder is not used while its picture is",
        code: "E0499",
        bad: "decoder.decode(&image)?;",
        body: "let mut decoder = ctx.decoder()?;
            let image = data.image(0, None)?;
            let picture = decoder.decode(&image)?;
            BAD
            picture.size();",
    },
    Case {
        name: "an image does not outlive its bytes",
        code: "E0505",
        bad: "drop(image);",
        body: "let image = data.image(0, None)?;
            let bytes = image.data();
            BAD
            println!(\"{}\", bytes.len());",
    },
    Case {
        name: "pixels do not outlive their batch",
        code: "E0505",
        bad: "drop(batch);",
        body: "let batch = data.loader().open()?.next_batch().unwrap()?;
            let (pixels, targets) = (batch.image(), batch.targets());
            BAD
            println!(\"{} {}\", pixels[0], targets[0]);",
    },
    Case {
        name: "fields do not outlive their batch",
        code: "E0505",
        bad: "drop(batch);",
        body: "let batch = data.loader().open()?.next_batch().unwrap()?;
            let (text, numbers) = (batch.bytes(\"txt\", 0)?, batch.vectors(\"label\")?);
            BAD
            println!(\"{text:?} {numbers:?}\");",
    },
    Case {
        name: "pixels are not changed while they are read",
        code: "E0502",
        bad: "batch.image_mut()[0] = 0.0;",
        body: "let mut batch = data.loader().open()?.next_batch().unwrap()?;
            batch.image_mut()[1] = 0.0;
            let pixels = batch.image();
            BAD
            println!(\"{}\", pixels[0]);",
    },
    Case {
        name: "a plane does not leave its callback",
        code: "E0521",
        bad: "kept.lock().unwrap().push(plane.data);",
        body: "let kept = std::sync::Mutex::new(Vec::<&'static mut [u8]>::new());
            let _ = data.loader().picture(move |_, _, picture| {
                let plane = picture.plane(0);
                let _ = (&kept, &plane);
                BAD
                Ok(())
            });",
    },
    Case {
        name: "a transform does not leave its callback",
        code: "E0521",
        bad: "*kept.lock().unwrap() = Some(transform);",
        body: "let kept = std::sync::Mutex::new(None::<&'static mut benzina::Transform>);
            let _ = data.loader().transform(move |_, _, transform| {
                let _ = (&kept, &transform);
                BAD
                Ok(())
            });",
    },
    Case {
        name: "a generator does not leave its callback",
        code: "E0521",
        bad: "*kept.lock().unwrap() = Some(random);",
        body: "let kept = std::sync::Mutex::new(None::<&'static mut benzina::Random>);
            let _ = data.loader().transform(move |_, random, _| {
                let _ = (&kept, &random);
                BAD
                Ok(())
            });",
    },
    Case {
        name: "what is told of a sample does not leave its callback",
        code: "E0521",
        bad: "*kept.lock().unwrap() = Some(sample);",
        body: "let kept = std::sync::Mutex::new(None::<&'static benzina::SampleInfo>);
            let _ = data.loader().transform(move |sample, _, _| {
                let _ = (&kept, &sample);
                BAD
                Ok(())
            });",
    },
    Case {
        name: "a value does not leave the rule that is asked about it",
        code: "E0521",
        bad: "kept.lock().unwrap().push(input.data);",
        body: "let kept = std::sync::Mutex::new(Vec::<&'static [u8]>::new());
            let _ = benzina::Rule::tensor(\"txt\", \"n\", &[1], move |input: &benzina::RuleInput<'_>, out: &mut [f32]| {
                let _ = (&kept, &input, &out);
                BAD
                Ok(())
            });",
    },
    Case {
        name: "a rule is asked by several threads",
        code: "E0277",
        bad: "let _ = benzina::Rule::tensor(\"a\", \"b\", &[1], move |_, out: &mut [u8]| { cell.set(out[0]); Ok(()) });",
        body: "let (cell, lock) = (std::cell::Cell::new(0), std::sync::Mutex::new(0));
            let _ = benzina::Rule::tensor(\"a\", \"b\", &[1], move |_, out: &mut [u8]| { *lock.lock().unwrap() = out[0]; Ok(()) });
            let _ = &cell;
            BAD",
    },
    Case {
        name: "samples that borrow from their maker are no provider",
        code: "E0597",
        bad: "ctx.open_provider(One(&bytes), Default::default())?;",
        body: "struct One<'a>(&'a [u8]);
            impl benzina::Provider for One<'_> {
                fn count(&self) -> u64 { 1 }
                fn fields(&self) -> Vec<benzina::ProviderField> { vec![benzina::ProviderField::new(\"b\", benzina::Kind::Bytes)] }
                fn read(&self, _: u64, _: usize, value: &mut benzina::ValueWriter<'_>) -> std::io::Result<()> {
                    value.put(self.0);
                    Ok(())
                }
            }
            static BYTES: [u8; 3] = [1, 2, 3];
            ctx.open_provider(One(&BYTES), Default::default())?;
            let bytes = vec![0u8; 3];
            BAD",
    },
    Case {
        name: "a closure that borrows from its maker is no callback",
        code: "E0373",
        bad: "let loader = loader.transform(|_, _, _| if local == 7 { Ok(()) } else { Err(benzina::Status(-7)) });",
        body: "let local = 7;
            let loader = data.loader();
            BAD
            let _ = (loader, &local);",
    },
    Case {
        name: "a source that borrows from its maker is none",
        code: "E0597",
        bad: "ctx.open_source(&bytes[..], Default::default())?;",
        body: "let bytes = vec![0u8; 9];
            ctx.open_source(bytes.clone(), Default::default())?;
            BAD",
    },
    Case {
        name: "a sink is its writer's until that is dropped",
        code: "E0502",
        bad: "println!(\"{}\", bytes.get_ref().len());",
        body: "let mut bytes = std::io::Cursor::new(Vec::new());
            let writer = ctx.create_in(&mut bytes)?;
            BAD
            writer.finish()?;",
    },
    Case {
        name: "a loader is not shared with a callback that is not Sync",
        code: "E0277",
        bad: "let _ = data.loader().transform(move |_, _, _| { cell.set(1); Ok(()) });",
        body: "let cell = std::cell::Cell::new(0);
            let _ = &cell;
            BAD",
    },
    Case {
        name: "a decoder is not shared between threads",
        code: "E0277",
        bad: "std::thread::scope(|scope| { scope.spawn(|| { let _ = &shared; }); });",
        body: "let decoder = ctx.decoder()?;
            std::thread::spawn(move || drop(decoder)).join().unwrap();
            let decoder = ctx.decoder()?;
            let shared = &decoder;
            BAD",
    },
    Case {
        name: "a picture does not go to another thread than its decoder",
        code: "E0277",
        bad: "std::thread::scope(|scope| { scope.spawn(move || drop(picture)); });",
        body: "let mut decoder = ctx.decoder()?;
            let image = data.image(0, None)?;
            let picture = decoder.decode(&image)?;
            BAD",
    },
    Case {
        name: "a writer is used by one thread at a time only if its sink can go to another",
        code: "E0277",
        bad: "let _ = ctx.create_in(sink(std::rc::Rc::new(())))?;",
        body: "struct Sink<T>(std::io::Cursor<Vec<u8>>, T);
            impl<T> std::io::Write for Sink<T> {
                fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> { self.0.write(bytes) }
                fn flush(&mut self) -> std::io::Result<()> { Ok(()) }
            }
            impl<T> std::io::Seek for Sink<T> {
                fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> { self.0.seek(to) }
            }
            fn sink<T>(held: T) -> Sink<T> { Sink(std::io::Cursor::new(Vec::new()), held) }
            let _ = ctx.create_in(sink(std::sync::Arc::new(())))?;
            BAD",
    },
    Case {
        name: "a callback has nothing that is one thread's",
        code: "E0277",
        bad: "let _ = data.loader().picture(move |_, _, _| { let _ = &guard; Ok(()) });",
        body: "static MUTEX: std::sync::Mutex<i32> = std::sync::Mutex::new(1);
            let (guard, arc) = (MUTEX.lock().unwrap(), std::sync::Arc::new(1));
            let _ = data.loader().picture(move |_, _, _| { let _ = &arc; Ok(()) });
            let _ = &guard;
            BAD",
    },
];

/// The library of this crate that this test is linked with: the newest, if several were built.
fn library(deps: &Path) -> PathBuf {
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("libbenzina-") && name.ends_with(".rlib")
    };
    let found = std::fs::read_dir(deps).unwrap().map(|entry| entry.unwrap().path()).filter(is_library);
    found.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).expect("libbenzina-*.rlib beside this test")
}

/// Whether a program compiles that has a function for each case, on a line of its own, and what was said.
fn compile(cases: &[&Case], line_of: fn(&Case) -> &str) -> (bool, String) {
    let exe = std::env::current_exe().unwrap();
    let deps = exe.parent().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join("lifetimes_case.rs");
    let mut program = String::from("#![allow(unused)] fn main() {}\n");
    for (number, case) in cases.iter().enumerate() {
        let function = format!(
            "fn case_{number}() -> benzina::Result<()> {{ let ctx = benzina::Context::new(Default::default())?; \
             let data = ctx.open(\"train.bzna\")?; {} Ok(()) }}",
            case.body.replace("BAD", line_of(case))
        );
        program += &(function.replace('\n', " ") + "\n");
    }
    std::fs::write(&source, program).unwrap();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2021", "--emit=metadata", "--error-format=short", "-o"]).arg(folder.join("lifetimes_case.rmeta"));
    rustc.arg("--extern").arg(format!("benzina={}", library(deps).display())).arg("-L").arg(deps).arg(&source);
    let output = rustc.output().expect("rustc, which built this test");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_compiler_holds_borrowers_to_what_they_borrow_from() {
    let (fine, said) = compile(&CASES.iter().collect::<Vec<_>>(), |_| "");
    assert!(fine, "without the bad lines all compile\n{said}");

    // Together, those of one code: an error of an earlier pass may keep the compiler from looking for others.
    let codes: std::collections::BTreeSet<&str> = CASES.iter().map(|case| case.code).collect();
    for code in codes {
        let cases: Vec<&Case> = CASES.iter().filter(|case| case.code == code).collect();
        let (fine, said) = compile(&cases, |case| case.bad);
        let errors: Vec<&str> = said.lines().filter(|line| line.contains("error[")).collect();
        for (number, case) in cases.iter().enumerate() {
            let place = format!("lifetimes_case.rs:{}:", number + 2);
            let of_case: Vec<&&str> = errors.iter().filter(|line| line.contains(&place)).collect();
            assert!(of_case.len() == 1 && of_case[0].contains(&format!("error[{code}]")), "{}: {code}\n{said}", case.name);
        }
        assert!(!fine && errors.len() == cases.len(), "{code}\n{said}");
    }
}
