//! What the tests share.
#![allow(dead_code)]

use benzina::{Batch, Context, ContextConfig, Dataset, Result};
use std::path::{Path, PathBuf};

pub fn archive(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name)
}

pub fn mini() -> Dataset {
    Context::new(ContextConfig::default().cpu()).unwrap().open(archive("mini_h265.bzna")).unwrap()
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
        run.pixels.extend(batch.image());
    }
    run
}

/// Panics that are part of a test do not fill its output; others are reported as ever.
pub fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.to_string().contains("belongs to the test") {
                report(info);
            }
        }));
    });
}
