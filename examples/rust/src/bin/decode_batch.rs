//! decode_batch.rs - opens an archive, decodes one batch and writes its pictures as PPM files: examples/decode_batch.c in Rust
//!
//!     cargo run --release --bin decode_batch -- train.bzna folder

use benzina::{Batch, Context, ContextConfig, Dtype, Layout};
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

/// Writes the picture of a slot: red, green and blue bytes of each pixel.
fn write_picture(path: &Path, batch: &Batch, slot: usize) -> std::io::Result<()> {
    let [_, height, width, channels] = batch.shape();
    let bytes = height * width * channels;
    let mut file = BufWriter::new(File::create(path)?);
    write!(file, "P6\n{width} {height}\n255\n")?;
    file.write_all(&batch.image_bytes()[slot * bytes..][..bytes])?;
    file.flush()
}

fn run(archive: &str, folder: &Path) -> Result<bool, Box<dyn Error>> {
    let ctx = Context::new(ContextConfig::default())?; // a GPU, if there is one; its batches come to host memory, too
    let data = ctx.open(archive)?;
    let loader = data.loader().batch_size(16).size(224, 224).dtype(Dtype::U8).layout(Layout::Nhwc).open()?;
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
