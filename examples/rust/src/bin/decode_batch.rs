//! decode_batch.rs - opens an archive, decodes one batch and writes its pictures as PPM files: examples/decode_batch.c in Rust
//!
//!     cargo run --release --bin decode_batch -- train.bzna folder

use benzina::{Batch, Context, ContextConfig};
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

/// Writes one picture: three planes of floats, 0..255, red first.
fn write_picture(path: &Path, batch: &Batch, slot: usize) -> std::io::Result<()> {
    let [_, _, height, width] = batch.shape();
    let (planes, area) = (batch.picture(slot), width * height);
    let mut file = BufWriter::new(File::create(path)?);
    write!(file, "P6\n{width} {height}\n255\n")?;
    for i in 0..area {
        file.write_all(&[0, 1, 2].map(|c| (planes[c * area + i] + 0.5) as u8))?;
    }
    file.flush()
}

fn run(archive: &str, folder: &Path) -> Result<bool, Box<dyn Error>> {
    let ctx = Context::new(ContextConfig::default())?; // a GPU, if there is one; its batches come to host memory, too
    let data = ctx.open(archive)?;
    let loader = data.loader().batch_size(16).size(224, 224).center_resized_crop(1.0).open()?;
    let batch = loader.next_batch().ok_or("there are no batches")??;
    let mut fine = true;
    for slot in 0..batch.count() {
        if let Some(error) = batch.error(slot) {
            eprintln!("{error}"); // only this one: its neighbors are fine
            fine = false;
        } else {
            write_picture(&folder.join(format!("{slot:05}.ppm")), &batch, slot)?;
        }
    }
    println!("{} pictures, first of class {}", batch.count(), batch.targets()[0]);
    Ok(fine)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let (archive, folder) = match &arguments[..] {
        [_, archive] => (archive, "."),
        [_, archive, folder] => (archive, folder.as_str()),
        _ => {
            eprintln!("usage: decode_batch ARCHIVE [FOLDER]");
            return ExitCode::from(2);
        }
    };
    match run(archive, Path::new(folder)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
