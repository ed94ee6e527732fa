//! benzina::stream over two small tars that commands write.
#![cfg(feature = "stream")]

use benzina::stream::{settings, Stream, StreamOptions, StreamState};
use benzina::{Context, ContextConfig, Dtype};

/// A ustar with EACH gray pictures, whose pixels and targets are first, first + 1, ...
fn tar(first: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in first..first + 10 {
        let mut picture = b"P5 4 4 255\n".to_vec();
        picture.resize(picture.len() + 16, number);
        for (field, data) in [("pgm", picture), ("cls", number.to_string().into_bytes())] {
            let mut head = [0u8; 512];
            let name = format!("{number:03}.{field}");
            head[..name.len()].copy_from_slice(name.as_bytes());
            head[100..108].copy_from_slice(b"0000644\0");
            head[124..136].copy_from_slice(format!("{:011o}\0", data.len()).as_bytes());
            head[148..156].fill(b' ');
            head[156] = b'0';
            head[257..265].copy_from_slice(b"ustar\x0000");
            let sum: u32 = head.iter().map(|&byte| u32::from(byte)).sum();
            head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            bytes.extend_from_slice(&head);
            bytes.extend_from_slice(&data);
            bytes.resize(bytes.len().div_ceil(512) * 512, 0);
        }
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

fn targets(stream: Stream) -> Vec<i64> {
    let mut found = Vec::new();
    for batch in stream {
        let batch = batch.unwrap();
        found.extend_from_slice(batch.targets());
    }
    found
}

#[test]
fn a_stream_gives_every_sample_and_goes_on_from_a_state() {
    let folder = std::env::temp_dir().join(format!("benzina_stream_{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for shard in 0..3u8 {
        std::fs::write(folder.join(format!("{shard}.tar")), tar(shard * 10)).unwrap();
    }
    let context = Context::new(ContextConfig::default()).unwrap();
    let source = [format!("pipe:cat {}/{{0..2}}.tar", folder.display())];
    let loader = || settings().batch_size(4).size(4, 4).shuffle(3).dtype(Dtype::U8);
    let open = |resume: Option<&StreamState>| {
        let options = StreamOptions { memory_bytes: 100_000, resume, ..StreamOptions::default() };
        Stream::open(&context, &source, loader(), options).unwrap()
    };

    let whole = targets(open(None));
    let mut sorted = whole.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..30).collect::<Vec<i64>>());

    let mut stream = open(None);
    let mut parts = Vec::new();
    for _ in 0..3 {
        parts.extend_from_slice(stream.next_batch().unwrap().unwrap().targets());
    }
    let state = StreamState::from_bytes(stream.save().unwrap().to_bytes());
    assert!(stream.source(1 << 32).unwrap().ends_with("1.tar"));
    drop(stream);
    parts.extend(targets(open(Some(&state))));
    assert_eq!(parts, whole);

    let error = Stream::open(&context, &["pipe:exit 3"], loader(), StreamOptions::default()).unwrap_err();
    assert!(error.to_string().contains("status 3"), "{error}");
    assert!(settings().batch_size(1).size(4, 4).open().is_err());
    std::fs::remove_dir_all(folder).unwrap();
}
