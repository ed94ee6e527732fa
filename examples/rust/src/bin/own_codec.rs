//! own_codec.rs - a folder of pictures in a format that the library does not know: QOI (qoiformat.org), by a codec in Rust
//!
//!     cargo run --release --bin own_codec -- folder
//!
//! Prints the mean of R, G and B of each picture, scaled to 64 pixels. Pictures of other kinds may lie in the same folder.
//! examples/own_codec.c does the same in C.

use benzina::{Context, ContextConfig, Error, LastBatch, OwnCodec, Planes, Rectangle, Result, Shape, Status};
use std::process::ExitCode;

const HEAD: usize = 14; // "qoif", width and height (big-endian), channels, color space
const EDGE: usize = 64;

struct Qoi;

fn ends() -> Error {
    Error::of(Status::TRUNCATED, "the data end too early")
}

impl OwnCodec for Qoi {
    type State = (); // nothing is kept from one picture to the next

    fn name(&self) -> &str {
        "QOI"
    }

    fn extensions(&self) -> &str {
        "qoi"
    }

    fn recognize(&self, head: &[u8]) -> bool {
        head.starts_with(b"qoif")
    }

    fn begin(&self) -> Result<()> {
        Ok(())
    }

    fn inspect(&self, _: &mut (), data: &[u8]) -> Result<Shape> {
        let number = |at: usize| data.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]])).ok_or_else(ends);
        Ok(Shape { width: number(4)?, height: number(8)?, ..Default::default() })
    }

    fn decode(&self, _: &mut (), data: &[u8], needed: Rectangle, planes: &mut Planes<'_>) -> Result<()> {
        let mut bytes = data.get(HEAD..).ok_or_else(ends)?.iter().copied();
        let mut next = || bytes.next().ok_or_else(ends);
        let (mut seen, mut pixel, mut run) = ([[0u8; 4]; 64], [0, 0, 0, 255u8], 0);
        for y in 0..needed.y1 {
            for to in planes.row(0, y).chunks_exact_mut(3) {
                if run > 0 {
                    run -= 1;
                } else {
                    let op = next()?;
                    let mut add = |c: usize, difference: u8| pixel[c] = pixel[c].wrapping_add(difference);
                    match op >> 6 {
                        _ if op >= 254 => {
                            for c in 0..if op == 255 { 4 } else { 3 } {
                                pixel[c] = next()?;
                            }
                        }
                        0 => pixel = seen[op as usize],
                        1 => (0..3).for_each(|c| add(c, (op >> (4 - 2 * c) & 3).wrapping_sub(2))),
                        2 => {
                            let (green, more) = ((op & 63).wrapping_sub(32), next()?);
                            add(0, green.wrapping_sub(8).wrapping_add(more >> 4));
                            add(1, green);
                            add(2, green.wrapping_sub(8).wrapping_add(more & 15));
                        }
                        _ => run = op & 63,
                    }
                    let [r, g, b, a] = pixel.map(usize::from);
                    seen[(3 * r + 5 * g + 7 * b + 11 * a) % 64] = pixel;
                }
                to.copy_from_slice(&pixel[..3]);
            }
        }
        Ok(())
    }
}

fn run(folder: &str) -> Result<bool> {
    let ctx = Context::new(ContextConfig::default().cpu().codec(Qoi))?;
    let data = ctx.open(folder)?;
    let loader =
        data.loader().batch_size(8).size(EDGE as u32, EDGE as u32).center_resized_crop(1.0).last_batch(LastBatch::Partial).open()?;
    let mut fine = true;
    while let Some(batch) = loader.next_batch() {
        let batch = batch?;
        for slot in 0..batch.count() {
            let index = batch.indices()[slot];
            if let Some(error) = batch.error(slot) {
                println!("{index} {}", error.status.name());
                fine = false;
                continue;
            }
            let means = batch.picture(slot).chunks_exact(EDGE * EDGE).map(|plane| plane.iter().sum::<f32>() / plane.len() as f32);
            println!("{index} {}", means.map(|mean| format!("{mean:.2}")).collect::<Vec<_>>().join(" "));
        }
    }
    Ok(fine)
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: own_codec FOLDER");
        return ExitCode::from(2);
    };
    match run(&folder) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
