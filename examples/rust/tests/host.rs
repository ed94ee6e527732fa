//! Sources, sinks, allocators and logs of the user's: what the library calls back.

mod common;

use benzina::{
    Context, ContextConfig, DatasetOptions, Kind, LogLevel, OnCallbackError, Place, Provider, ProviderField, Sample, Source, Split, Status,
    Value, ValueWriter, WriterOptions,
};
use common::{archive, collect, quiet};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Cursor};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn bytes() -> Vec<u8> {
    std::fs::read(archive("mini_h265.bzna")).unwrap()
}

#[test]
fn every_source_gives_the_same_batches() {
    let ctx = Context::new(ContextConfig::default()).unwrap();
    let run = |data: benzina::Dataset| collect(data.loader().batch_size(4).size(32, 32).shuffle(3).reader_threads(3).open().unwrap());
    let path = archive("mini_h265.bzna");
    let expected = run(ctx.open(&path).unwrap());
    assert!(run(ctx.open_source(File::open(&path).unwrap(), Default::default()).unwrap()) == expected);
    assert!(run(ctx.open_source(bytes(), Default::default()).unwrap()) == expected);
    assert!(run(ctx.open_source(Arc::new(bytes()), Default::default()).unwrap()) == expected);
    assert!(run(ctx.open_reader(Cursor::new(bytes())).unwrap()) == expected);
    assert!(run(ctx.open_reader(BufReader::new(File::open(&path).unwrap())).unwrap()) == expected);
}

/// Bytes behind a counter of how often it is alive, that may fail or panic when the pictures are read.
struct Fickle {
    bytes: Vec<u8>,
    opened: Arc<AtomicI64>,
    reads: Arc<AtomicU64>,
    fail: fn(u64) -> io::Result<()>,
}

impl Source for Fickle {
    fn read_at(&self, offset: u64, dst: &mut [u8]) -> io::Result<usize> {
        (self.fail)(self.reads.fetch_add(1, Ordering::SeqCst))?;
        let some = dst.len().min(1000); // short reads are asked for again
        self.bytes.read_at(offset, &mut dst[..some])
    }

    fn size(&self) -> io::Result<u64> {
        self.bytes.size()
    }
}

impl Drop for Fickle {
    fn drop(&mut self) {
        self.opened.fetch_sub(1, Ordering::SeqCst);
    }
}

fn fickle(bytes: Vec<u8>, fail: fn(u64) -> io::Result<()>) -> (Fickle, Arc<AtomicI64>, Arc<AtomicU64>) {
    let (opened, reads) = (Arc::new(AtomicI64::new(1)), Arc::new(AtomicU64::new(0)));
    (Fickle { bytes, opened: opened.clone(), reads: reads.clone(), fail }, opened, reads)
}

#[test]
fn a_source_is_dropped_once_whether_opening_succeeds_or_not() {
    let ctx = Context::new(ContextConfig::default()).unwrap();
    let (source, opened, _) = fickle(bytes(), |_| Ok(()));
    let data = ctx.open_source(source, Default::default()).unwrap();
    let loader = data.loader().batch_size(1).size(8, 8).open().unwrap();
    drop(data);
    let batch = loader.next_batch().unwrap().unwrap();
    assert_eq!(opened.load(Ordering::SeqCst), 1);
    drop((loader, batch));
    assert_eq!(opened.load(Ordering::SeqCst), 0);

    let (source, opened, _) = fickle(vec![1; 4000], |_| Ok(()));
    assert_eq!(ctx.open_source(source, Default::default()).unwrap_err().status, Status::FORMAT);
    assert_eq!(opened.load(Ordering::SeqCst), 0);
}

#[test]
fn a_failing_source_is_an_error_and_a_panicking_one_too() {
    quiet();
    let ctx = Context::new(ContextConfig::default()).unwrap();
    let (source, opened, _) = fickle(bytes(), |_| Err(io::Error::from_raw_os_error(28)));
    let error = ctx.open_source(source, Default::default()).unwrap_err();
    assert_eq!((error.status, error.native_code.abs()), (Status::IO, 28), "{error}");
    let (source, _, _) = fickle(bytes(), |_| panic!("this panic belongs to the test"));
    assert_eq!(ctx.open_source(source, Default::default()).unwrap_err().status, Status::CALLBACK);
    assert_eq!(opened.load(Ordering::SeqCst), 0);

    // Once open, every read fails, on the loader's reader threads: errors cost samples, a panic ends the run unless asked otherwise.
    let run = |fail: fn(u64) -> io::Result<()>, policy: OnCallbackError| {
        let (source, _, reads) = fickle(bytes(), fail);
        let data = ctx.open_source(source, Default::default()).unwrap();
        reads.store(20_000_000, Ordering::SeqCst);
        data.loader().batch_size(2).size(8, 8).on_callback_error(policy).open().unwrap().next_batch().unwrap()
    };
    fn hang_up(read: u64) -> io::Result<()> {
        if read > 10_000_000 {
            Err(io::ErrorKind::ConnectionReset.into())
        } else {
            Ok(())
        }
    }
    fn panic_then(read: u64) -> io::Result<()> {
        if read > 10_000_000 {
            panic!("this panic belongs to the test")
        } else {
            Ok(())
        }
    }
    let batch = run(hang_up, OnCallbackError::Stop).unwrap();
    assert_eq!((batch.failed(), batch.error(0).unwrap().status), (2, Status::IO));
    let error = run(panic_then, OnCallbackError::Stop).unwrap_err();
    assert!(error.status == Status::CALLBACK && error.message.contains("read_at failed"), "{error}");
    let batch = run(panic_then, OnCallbackError::Sample).unwrap();
    assert_eq!((batch.failed(), batch.error(0).unwrap().status), (2, Status::CALLBACK));
}

/// Counts what is lent, with sizes, and can run dry.
struct Counting {
    blocks: Arc<Mutex<HashMap<usize, usize>>>,
    left: Arc<AtomicI64>,
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.left.fetch_sub(1, Ordering::SeqCst) <= 0 {
            return std::ptr::null_mut();
        }
        let block = System.alloc(layout);
        self.blocks.lock().unwrap().insert(block as usize, layout.size());
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let size = self.blocks.lock().unwrap().remove(&(block as usize));
        // The test's process ends here, since an allocator may not unwind.
        if size != Some(layout.size()) {
            eprintln!("{block:?} of {size:?} bytes came back as {}", layout.size());
            std::process::abort();
        }
        System.dealloc(block, layout);
    }
}

#[test]
fn everything_that_was_allocated_comes_back_with_its_size() {
    let blocks = Arc::new(Mutex::new(HashMap::new()));
    let open = |left: i64| {
        Context::new(ContextConfig::default().allocator(Counting { blocks: blocks.clone(), left: Arc::new(AtomicI64::new(left)) }))
    };
    let ctx = open(i64::MAX).unwrap();
    let data = ctx.open(archive("mini_h265.bzna")).unwrap();
    let loader = data.loader().batch_size(2).size(32, 32).open().unwrap();
    let held = loader.next_batch().unwrap().unwrap();
    drop(collect(&loader));
    assert!(blocks.lock().unwrap().values().sum::<usize>() >= 2 * 3 * 32 * 32 * 4);
    drop((ctx, data, loader));
    assert!(!blocks.lock().unwrap().is_empty() && held.image().len() == 2 * 3 * 32 * 32);
    drop(held);
    assert!(blocks.lock().unwrap().is_empty());

    // And when it runs dry, at each of the first allocations in turn.
    for left in 0..30 {
        let run = || -> benzina::Result<()> {
            let data = open(left)?.open(archive("mini_h265.bzna"))?;
            data.loader().batch_size(2).size(16, 16).threads(1).open()?;
            Ok(())
        };
        if let Err(error) = run() {
            assert_eq!(error.status, Status::MEMORY, "{error}");
        }
        assert!(blocks.lock().unwrap().is_empty(), "after {left} allocations");
    }
}

#[test]
fn a_log_may_panic() {
    quiet();
    let messages = Arc::new(AtomicU64::new(0));
    let seen = messages.clone();
    let ctx = Context::new(ContextConfig::default().log(LogLevel::Debug, move |_, _, message| {
        seen.fetch_add(1, Ordering::SeqCst);
        panic!("this panic belongs to the test, for the message {message:?}")
    }))
    .unwrap();
    let (source, _, reads) = fickle(bytes(), |read| if read > 10_000_000 { Err(io::ErrorKind::Other.into()) } else { Ok(()) });
    let data = ctx.open_source(source, Default::default()).unwrap();
    reads.store(20_000_000, Ordering::SeqCst);
    let loader = data.loader().batch_size(2).size(8, 8).open().unwrap();
    assert_eq!(loader.iter().map(|batch| batch.unwrap().failed() as u64).sum::<u64>(), data.len());
    drop(loader);
    assert!(messages.load(Ordering::SeqCst) > 0);
}

#[test]
fn what_is_written_can_be_read() {
    let ctx = Context::new(ContextConfig::default()).unwrap();
    let data = ctx.open(archive("mini_h265.bzna")).unwrap();
    let copy = |writer: &benzina::Writer<'_>| {
        for index in 0..data.len() {
            let (image, thumb) = (data.image(index, Some("image")).unwrap(), data.image(index, Some("thumb")).unwrap());
            let name = data.name(index).unwrap();
            let (target, name) = (data.target(index).unwrap(), name.as_deref());
            writer.add(&Sample { target, name, thumb: Some(&thumb), ..Sample::new(&image) }).unwrap();
        }
    };
    let mut bytes = Cursor::new(Vec::new());
    let writer = ctx.create_in(BufWriter::new(&mut bytes)).unwrap();
    copy(&writer);
    writer.finish().unwrap();

    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("written.bzna");
    let writer = ctx.create(&path).unwrap();
    copy(&writer);
    writer.finish().unwrap();
    assert!(std::fs::read(&path).unwrap() == *bytes.get_ref());

    let again = ctx.open_reader(bytes).unwrap();
    assert_eq!(again.name(1).unwrap(), data.name(1).unwrap());
    let run = |data: &benzina::Dataset| collect(data.loader().batch_size(4).size(32, 32).open().unwrap());
    assert!(run(&again) == run(&data));

    // A sample of class 0 has that, and one without a target has none, and costs no other sample its own.
    let mut bytes = Cursor::new(Vec::new());
    let writer = ctx.create_in(&mut bytes).unwrap();
    for target in [None, Some(0), None, Some(3), None] {
        writer.add(&Sample { target, ..Sample::new(&data.image(0, Some("image")).unwrap()) }).unwrap();
    }
    writer.finish().unwrap();
    let some = ctx.open_reader(bytes).unwrap();
    assert_eq!([0, 1, 2, 3, 4].map(|index| some.target(index).unwrap()), [None, Some(0), None, Some(3), None]);

    let mut unfinished = Cursor::new(Vec::new());
    let writer = ctx.create_in(&mut unfinished).unwrap();
    copy(&writer);
    drop(writer);
    assert_eq!(ctx.open_reader(unfinished).unwrap_err().status, Status::UNFINISHED);
    assert_eq!(ctx.create_in(Cursor::new(Vec::new())).unwrap().finish().unwrap_err().status, Status::NO_SAMPLES);
}

/// Four threads hand in samples by index; the archive is that of one thread, and everything comes back.
#[test]
fn samples_of_several_threads_lie_in_the_order_of_their_indices_with_fields_splits_and_classes() {
    let ctx = Context::new(ContextConfig::default()).unwrap();
    let data = ctx.open(archive("mini_h264.bzna")).unwrap();
    let images: Vec<_> = (0..data.len()).map(|index| data.image(index, Some("image")).unwrap()).collect();
    let count = 10 * data.len();
    let write = |threads: u64, queue_bytes: u64| {
        let mut bytes = Cursor::new(Vec::new());
        let writer = ctx.create_in_with(&mut bytes, WriterOptions { classes: &["tabby", "Samoy\u{e8}de"], queue_bytes }).unwrap();
        let next = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| loop {
                    let index = next.fetch_add(1, Ordering::SeqCst);
                    if index >= count {
                        break;
                    }
                    let (caption, numbers) = (format!("caption {index}"), vec![index as f32; index as usize % 3]);
                    let mask = [0, 255, index as u8];
                    let sample = Sample {
                        target: Some(index as i64 % 2),
                        name: Some(&caption),
                        split: if index % 5 == 0 { Split::Validation } else { Split::Train },
                        fields: &[
                            ("number", Value::Integer(-(index as i64))),
                            ("box", Value::Vector(&numbers)),
                            ("caption", Value::Text(&caption)),
                            ("mask", Value::Bytes(&mask)),
                        ],
                        ..Sample::new(&images[index as usize % images.len()])
                    };
                    let sample = (index != 7).then_some(&sample); // no sample comes at 7
                    while !writer.add_at(index, sample, Duration::from_millis(1)).unwrap() {}
                });
            }
        });
        let taken = writer.add_at(3, None, Duration::ZERO).unwrap_err();
        assert_eq!(taken.status, Status::ARGUMENT, "{taken}");
        writer.finish().unwrap();
        bytes.into_inner()
    };
    let one = write(1, 0);
    assert!(write(4, 0) == one && write(4, 4096) == one);

    let again = ctx.open_reader(Cursor::new(one.clone())).unwrap();
    assert_eq!(again.len(), count - 1);
    assert_eq!(again.classes().unwrap(), ["tabby", "Samoy\u{e8}de"]);
    assert_eq!(again.target(7).unwrap(), Some(0)); // that of 8 moved up
    let field = |name| again.field(7, name).unwrap().unwrap();
    assert_eq!(field("number"), (-8i64).to_le_bytes());
    assert_eq!(field("box"), [8f32.to_le_bytes(), 8f32.to_le_bytes()].concat());
    assert_eq!(field("caption"), b"caption 8\0");
    assert_eq!(field("mask"), [0, 255, 8]);
    let source = |split| DatasetOptions { split: Some(split), ..Default::default() };
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("fields.bzna");
    std::fs::write(&path, &one).unwrap();
    assert_eq!(ctx.open_with(&path, source("validation")).unwrap().len(), count / 5);

    // A sample that is refused costs nothing; one index that is never given is named.
    let writer = ctx.create_in_with(Cursor::new(Vec::new()), WriterOptions { classes: &[], queue_bytes: 1 }).unwrap();
    let twice = Sample { fields: &[("a", Value::Integer(1)), ("a", Value::Integer(2))], ..Sample::new(&images[0]) };
    assert_eq!(writer.add(&twice).unwrap_err().status, Status::ARGUMENT);
    assert!(!writer.add_at(1, Some(&Sample::new(&images[0])), Duration::ZERO).unwrap()); // its turn has not come
    writer.add(&Sample::new(&images[0])).unwrap();
    writer.finish().unwrap();
}

/// Pictures of one color that are drawn when they are asked for, beside fields of every kind. Sample 3 has a fault.
struct Drawn {
    fault: fn() -> io::Result<()>,
    dropped: Arc<AtomicI64>,
}

impl Provider for Drawn {
    fn count(&self) -> u64 {
        8
    }

    fn fields(&self) -> Vec<ProviderField> {
        let pixels = Kind::Pixels { width: 4, height: 4, channels: 1, layout: benzina::Layout::Nchw };
        let kinds = [("image", pixels), ("target", Kind::Integer), ("box", Kind::Vector), ("txt", Kind::Text), ("blob", Kind::Bytes)];
        kinds.map(|(name, kind)| ProviderField::new(name, kind)).into()
    }

    fn read(&self, index: u64, field: usize, value: &mut ValueWriter<'_>) -> io::Result<()> {
        if index == 3 && field == 0 {
            (self.fault)()?;
        }
        match field {
            0 => value.fill(16, |pixels| pixels.fill(index as u8 * 10)),
            1 => value.put_integer(index as i64 + 100),
            2 => value.put_vector(&[index as f32, 0.5]),
            3 => value.put_text(&format!("caption {index}")),
            _ if index % 2 == 0 => value.put(&[index as u8; 3]),
            _ => {} // no such value
        }
        Ok(())
    }

    fn classes(&self) -> Vec<String> {
        vec!["ant".into(), "bee".into()]
    }

    fn fingerprint(&self) -> u64 {
        7
    }
}

impl Drop for Drawn {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_provider_gives_samples_field_by_field() {
    let ctx = Context::new(ContextConfig::default()).unwrap();
    let dropped = Arc::new(AtomicI64::new(0));
    let data = ctx.open_provider(Drawn { fault: || Ok(()), dropped: dropped.clone() }, Default::default()).unwrap();
    assert_eq!((data.len(), data.target(5).unwrap(), data.classes().unwrap()[1].as_str()), (8, Some(105), "bee"));
    let loader = data.loader().batch_size(4).size(4, 4).reader_threads(3).tensors("box:2").bytes("txt,blob").open().unwrap();
    drop(data);
    let mut seen = 0;
    for batch in &loader {
        let batch = batch.unwrap();
        for (slot, index) in batch.indices().iter().enumerate() {
            assert!(batch.image()[slot * 48..][..48].iter().all(|value| *value == *index as f32 * 10.0));
            assert_eq!(batch.targets()[slot], *index as i64 + 100);
            assert_eq!(batch.vectors("box").unwrap().0[slot * 2..][..2], [*index as f32, 0.5]);
            assert_eq!(batch.bytes("txt", slot).unwrap(), Some(format!("caption {index}").as_bytes()));
            assert_eq!(batch.bytes("blob", slot).unwrap(), (index % 2 == 0).then_some(&[*index as u8; 3][..]));
            seen += 1;
        }
    }
    assert_eq!((seen, dropped.load(Ordering::SeqCst)), (8, 0));
    drop(loader);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn padding_has_values_of_its_own() {
    let ctx = Context::new(ContextConfig::default()).unwrap();
    let data = ctx.open_provider(Drawn { fault: || Ok(()), dropped: Default::default() }, Default::default()).unwrap();
    let loader = data.loader().batch_size(5).size(4, 4).padding(-1.5, -7).open().unwrap();
    let last = loader.iter().last().unwrap().unwrap();
    assert_eq!((last.count(), last.targets()[3..].to_vec()), (3, vec![-7, -7]));
    assert!(last.image()[3 * 48..].iter().all(|value| *value == -1.5) && last.image()[48 * 2] == 70.0);
}

#[test]
fn a_provider_that_fails_or_panics_costs_its_slot() {
    quiet();
    let ctx = Context::new(ContextConfig::default()).unwrap();
    type Fault = fn() -> io::Result<()>;
    let faults: [(Fault, Status); 2] =
        [(|| Err(io::Error::other("hung up")), Status::IO), (|| panic!("belongs to the test"), Status::CALLBACK)];
    for (fault, status) in faults {
        let data = ctx.open_provider(Drawn { fault, dropped: Default::default() }, Default::default()).unwrap();
        let loader = data.loader().batch_size(8).size(4, 4).open().unwrap();
        let batch = loader.next_batch().unwrap().unwrap();
        assert_eq!((0..8).filter(|slot| batch.error(*slot).is_some()).collect::<Vec<_>>(), [3]);
        assert_eq!(batch.error(3).unwrap().status, status);
        assert_eq!(batch.image()[48 * 4], 40.0);
    }
}

/// Pictures, each a whole file, and targets that lie in one file. Sample 5 has no target, and the file of sample 7 is not there.
struct Files(Vec<std::path::PathBuf>);

impl Provider for Files {
    fn count(&self) -> u64 {
        self.0.len() as u64 - 1
    }

    fn fields(&self) -> Vec<ProviderField> {
        vec![ProviderField::new("image", Kind::Picture).located(), ProviderField::new("target", Kind::Integer).located()]
    }

    fn locate(&self, index: u64, field: usize) -> io::Result<Option<Place>> {
        Ok(match field {
            0 => Some(Place::whole(index)),
            _ if index == 5 => None,
            _ => Some(Place { file: self.count(), offset: index * 8, size: Some(8) }),
        })
    }

    fn files(&self) -> Vec<std::path::PathBuf> {
        self.0.clone()
    }
}

#[test]
fn a_provider_of_more_files_than_stay_open_says_where_values_lie() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("provider_files");
    std::fs::create_dir_all(&folder).unwrap();
    let mut paths: Vec<_> = (0..100).map(|i| folder.join(format!("{i}.pgm"))).collect();
    for (i, path) in paths.iter().enumerate() {
        std::fs::write(path, [b"P5\n4 4\n255\n".as_slice(), &[i as u8; 16]].concat()).unwrap();
    }
    std::fs::remove_file(&paths[7]).unwrap();
    paths.push(folder.join("targets"));
    std::fs::write(&paths[100], (0..100i64).flat_map(|i| (i + 50).to_ne_bytes()).collect::<Vec<u8>>()).unwrap();
    let ctx = Context::new(ContextConfig::default()).unwrap();
    let data = ctx.open_provider(Files(paths), Default::default()).unwrap();
    let loader = data.loader().batch_size(100).size(4, 4).shuffle(1).open().unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    for (slot, index) in batch.indices().iter().enumerate() {
        assert_eq!(batch.targets()[slot], if *index == 5 { -1 } else { *index as i64 + 50 });
        match batch.error(slot) {
            Some(error) => assert!(*index == 7 && error.status == Status::IO && error.message.contains("7.pgm"), "{}", error.message),
            None => assert!(*index != 7 && batch.image()[slot * 48..][..48].iter().all(|value| *value == *index as f32)),
        }
    }
}

#[test]
fn a_provider_that_cannot_be_opened_is_dropped() {
    struct Nothing(Arc<AtomicI64>);
    impl Provider for Nothing {
        fn count(&self) -> u64 {
            0
        }
        fn fields(&self) -> Vec<ProviderField> {
            vec![ProviderField::new("image", Kind::Picture)]
        }
        fn read(&self, _: u64, _: usize, _: &mut ValueWriter<'_>) -> io::Result<()> {
            Ok(())
        }
    }
    impl Drop for Nothing {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (ctx, dropped) = (Context::new(ContextConfig::default()).unwrap(), Arc::new(AtomicI64::new(0)));
    assert_eq!(ctx.open_provider(Nothing(dropped.clone()), Default::default()).unwrap_err().status, Status::NO_SAMPLES);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}
