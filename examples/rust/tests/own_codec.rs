//! Codecs of the program's own: one for Farbfeld-like pictures, held to PPM files of the same pixels, and one for wrappers.

mod common;

use benzina::{
    Codec, Context, ContextConfig, DatasetOptions, Error, Kind, OwnCodec, Pixels, Planes, Provider, ProviderField, Rectangle, Result,
    Shape, Status, ValueWriter, Wrapped,
};
use common::{collect, quiet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::{fs, io};

const WIDTH: u32 = 40;
const HEIGHT: u32 = 33;

fn sample(seed: u8, channel: u32, x: u32, y: u32) -> u8 {
    (u32::from(seed) * 37 + channel * 91 + x * 5 + y * 11) as u8
}

/// "PLAIN", a kind and a seed.
#[derive(Default)]
struct Plain {
    decodes: Arc<AtomicU32>,
}

impl OwnCodec for Plain {
    type State = u32;

    fn name(&self) -> &str {
        "Plain"
    }

    fn extensions(&self) -> &str {
        "plain"
    }

    fn recognize(&self, head: &[u8]) -> bool {
        head.starts_with(b"PLAIN")
    }

    fn begin(&self) -> Result<u32> {
        Ok(0)
    }

    fn inspect(&self, pictures: &mut u32, data: &[u8]) -> Result<Shape> {
        *pictures += 1;
        let pixels = match data.get(5) {
            Some(0) => Pixels::Rgb,
            Some(1) => Pixels::RgbPlanes,
            Some(2) => Pixels::Gray,
            Some(3) => return Err(Error::of(Status::UNSUPPORTED, "of no kind")),
            Some(4) => panic!("this belongs to the test"),
            Some(5) => return Ok(Shape { wrapped: true, ..Default::default() }),
            _ => return Err(Error::of(Status::TRUNCATED, "too short")),
        };
        Ok(Shape { width: WIDTH, height: HEIGHT, pixels, ..Default::default() })
    }

    fn decode(&self, _: &mut u32, data: &[u8], needed: Rectangle, planes: &mut Planes<'_>) -> Result<()> {
        self.decodes.fetch_add(1, Ordering::SeqCst);
        for y in needed.y0..needed.y1 {
            for plane in 0..if data[5] == 1 { 3 } else { 1 } {
                let channels = if data[5] == 0 { 3 } else { 1 };
                for (i, to) in planes.row(plane, y).iter_mut().enumerate() {
                    *to = sample(data[6], (plane + i % channels) as u32, (i / channels) as u32, y);
                }
            }
        }
        Ok(())
    }

    fn unwrap<'a>(&self, _: &'a mut u32, data: &'a [u8]) -> Result<Wrapped<'a>> {
        Ok(Wrapped { codec: Codec::Still, data: &data[7..], config: &[], length_size: 0, orientation: 0 })
    }
}

fn ppm(seed: u8, gray: bool) -> Vec<u8> {
    let mut bytes = format!("P{}\n{WIDTH} {HEIGHT}\n255\n", if gray { 5 } else { 6 }).into_bytes();
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            bytes.extend((0..if gray { 1 } else { 3 }).map(|c| sample(seed, c, x, y)));
        }
    }
    bytes
}

struct Files(Vec<Vec<u8>>);

impl Provider for Files {
    fn count(&self) -> u64 {
        self.0.len() as u64
    }

    fn fields(&self) -> Vec<ProviderField> {
        vec![ProviderField::new("image", Kind::Picture)]
    }

    fn read(&self, index: u64, _: usize, value: &mut ValueWriter<'_>) -> io::Result<()> {
        value.put(&self.0[index as usize]);
        Ok(())
    }
}

fn plain(kind: u8, seed: u8) -> Vec<u8> {
    [b"PLAIN".as_slice(), &[kind, seed], if kind == 5 { ppm(seed, false) } else { vec![] }.as_slice()].concat()
}

#[test]
fn a_file_of_a_codec_says_that_it_is_one() {
    let ctx = Context::new(ContextConfig::default().cpu().codec(Plain::default())).unwrap();
    let data = ctx.open_provider(Files(vec![plain(0, 1), ppm(1, false)]), DatasetOptions::default()).unwrap();
    for i in 0..2 {
        assert_eq!(data.image(i, None).unwrap().codec(), Codec::Own);
    }
}

#[test]
fn pixels_of_a_codec_are_those_of_ppm_files() {
    let decodes = Arc::new(AtomicU32::new(0));
    let ctx = Context::new(ContextConfig::default().cpu().codec(Plain { decodes: decodes.clone() })).unwrap();
    let kinds = [0, 1, 2, 5];
    let run = |files| {
        let data = ctx.open_provider(Files(files), DatasetOptions::default()).unwrap();
        collect(data.loader().batch_size(4).size(24, 24).random_resized_crop().seed(5).threads(3).open().unwrap())
    };
    let ours = run((0..12).map(|i| plain(kinds[i as usize % 4], i)).collect());
    let theirs = run((0..12).map(|i| ppm(i, i % 4 == 2)).collect());
    assert!(ours == theirs);
    assert_eq!(decodes.load(Ordering::SeqCst), 9);
    assert_eq!(Arc::strong_count(&decodes), 2);
    drop(ctx);
    assert_eq!(Arc::strong_count(&decodes), 1); // the library has closed the codec
}

#[test]
fn pairs_of_folders_have_files_of_a_codec() {
    let root = std::env::temp_dir().join(format!("benzina_pairs_{}", std::process::id()));
    for (folder, kind) in [("images", 0), ("masks", 2)] {
        fs::create_dir_all(root.join(folder)).unwrap();
        for i in 0..3 {
            fs::write(root.join(folder).join(format!("{i}.plain")), plain(kind, i)).unwrap();
        }
    }
    let ctx = Context::new(ContextConfig::default().cpu().codec(Plain::default())).unwrap();
    let options = DatasetOptions { pairs: Some("images,masks"), ..Default::default() };
    let data = ctx.open_with(&root, options).unwrap();
    let batch = data.loader().batch_size(3).size(24, 24).open().unwrap().next_batch().unwrap().unwrap();
    assert_eq!((batch.count(), batch.failed()), (3, 0));
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn an_error_and_a_panic_of_a_codec_cost_their_samples() {
    quiet();
    let ctx = Context::new(ContextConfig::default().cpu().codec(Plain::default())).unwrap();
    let files = [0, 3, 4, 2].map(|kind| plain(kind, kind)).to_vec();
    let data = ctx.open_provider(Files(files), DatasetOptions::default()).unwrap();
    let batch = data.loader().batch_size(4).size(24, 24).open().unwrap().next_batch().unwrap().unwrap();
    assert_eq!(batch.failed(), 2);
    let error = batch.error(1).unwrap();
    assert!(error.status == Status::UNSUPPORTED && error.message.ends_with("Plain: of no kind"), "{error:?}");
    let error = batch.error(2).unwrap();
    assert!(error.status == Status::DECODE && error.message.ends_with("Plain: the codec panicked"), "{error:?}");
    assert!(batch.error(0).is_none() && batch.error(3).is_none());
}

#[test]
fn a_codec_that_no_context_takes_is_dropped() {
    let decodes = Arc::new(AtomicU32::new(0));
    drop(ContextConfig::default().codec(Plain { decodes: decodes.clone() }));
    assert_eq!(Arc::strong_count(&decodes), 1);
    let config = ContextConfig::default().cuda(4711).codec(Plain { decodes: decodes.clone() });
    assert!(Context::new(config).is_err());
    assert_eq!(Arc::strong_count(&decodes), 1);
}
