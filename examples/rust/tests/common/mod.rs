//! What the tests share.
#![allow(dead_code)]

use benzina::{Batch, Context, Dataset, Result};
use std::path::{Path, PathBuf};

pub fn archive(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name)
}

pub fn mini() -> Dataset {
    Context::builder().cpu().open().unwrap().open(archive("mini_h265.bzna")).unwrap()
}

/// What a run delivers: indices, targets and pixels, end to end.
#[derive(PartialEq, Debug)]
pub struct Run {
    pub indices: Vec<u64>,
    pub targets: Vec<i64>,
    pub pixels: Vec<f32>,
}

pub fn collect(batches: impl IntoIterator<Item = Result<Batch>>) -> Run {
    let mut run = Run { indices: Vec::new(), targets: Vec::new(), pixels: Vec::new() };
    for batch in batches {
        let batch = batch.unwrap();
        assert_eq!(batch.failed(), 0, "{:?}", (0..batch.count()).find_map(|slot| batch.error(slot)));
        run.indices.extend(batch.indices());
        run.targets.extend(batch.targets());
        run.pixels.extend(batch.data());
    }
    run
}
