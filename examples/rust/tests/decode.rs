//! Data sets, loaders, batches and single pictures, from the archives of tests/data.

mod common;

use benzina::{
    Batch, Channels, Codec, Context, ContextConfig, Dataset, DatasetOptions, DecodeWith, Decoder, Device, Dtype, Filter, Image, Jitter,
    LastBatch, Crops, Layout, Loader, LoaderInfo, Mxnet, Next, OnCallbackError, OnError, Output, Random, Rule, State, Status, Tensor,
    Transform, Warp, Weighting, Writer,
};
use common::{archive, collect, mini, quiet};
use std::path::PathBuf;
use std::time::Duration;

#[test]
fn types_cross_threads_where_the_library_allows_it() {
    fn send<T: Send>() {}
    fn sync<T: Sync>() {}
    send::<(Context, Dataset, Loader, Batch, Decoder, Writer, Image)>();
    sync::<(Context, Dataset, Loader, Batch, Image, LoaderInfo, Tensor)>();
}

#[test]
fn an_archive_tells_its_samples() {
    let data = mini();
    assert_eq!(data.info().unwrap().sample_count, data.len());
    assert!(data.len() > 1 && !data.is_empty());
    assert_eq!((data.target(0).unwrap(), data.target(1).unwrap()), (Some(0), Some(37)));
    assert_eq!(data.name(0).unwrap().as_deref(), Some("00_plasma_land.JPEG"));
    assert!(data.image_names(0).unwrap().contains(&"bzna_input".to_owned()));
    assert_eq!(data.target(data.len()).unwrap_err().status, Status::RANGE);

    let fields: Vec<String> = data.fields().unwrap().iter().map(|field| field.name()).collect();
    assert_eq!(fields, ["image", "thumb", "target", "name"]);
    assert_eq!(data.field(1, "target").unwrap().unwrap(), 37i64.to_ne_bytes());
    assert_eq!(data.field(0, "image").unwrap().unwrap(), data.image(0, Some("image")).unwrap().annexb().unwrap());
    assert_eq!(data.field(0, "caption").unwrap(), None);
    let (info, image) = (data.image_info(0, Some("image")).unwrap(), data.image(0, Some("bzna_input")).unwrap());
    assert_eq!(((info.width, info.height), info.data_size), (image.size(), image.data().len() as u64));
}

#[test]
fn a_batch_is_tensors_with_names() {
    let data = mini();
    let loader = data.loader().batch_size(3).size(20, 12).open().unwrap();
    let tensors: Vec<_> = loader.tensors().unwrap().iter().map(|tensor| (tensor.name(), tensor.shape())).collect();
    let expected = [("image", vec![3, 3, 12, 20]), ("target", vec![3]), ("index", vec![3]), ("status", vec![3])];
    assert_eq!(tensors, expected.map(|(name, shape)| (name.to_owned(), shape)));
    let batch = loader.next_batch().unwrap().unwrap();
    let (image, target) = (batch.tensor("image").unwrap(), batch.tensor("target").unwrap());
    assert_eq!((image.data.cast_const().cast(), image.bytes), (batch.image().as_ptr(), 4 * 3 * 3 * 12 * 20));
    assert_eq!((target.data.cast_const().cast(), target.device()), (batch.targets().as_ptr(), Device::Cpu));
    assert_eq!(batch.tensor("caption").unwrap_err().status, Status::NOT_FOUND);
}

#[test]
fn errors_say_what_and_where() {
    let ctx = Context::new(ContextConfig::default()).unwrap();
    let missing = ctx.open("no/such/file.bzna").unwrap_err();
    assert_eq!((missing.status, missing.native_code, missing.byte_offset), (Status::NOT_FOUND, 2, None));
    assert!(missing.to_string().contains("no/such/file.bzna"), "{missing}");
    assert_eq!(format!("{:?}", missing.status), "BZNA_E_NOT_FOUND(-202)");

    let other = ctx.open(archive("mini_h265.json")).unwrap_err();
    assert!(other.status.0 <= Status::FORMAT.0, "{other:?}");

    let mut bytes = std::fs::read(archive("mini_h265.bzna")).unwrap();
    bytes.truncate(bytes.len() / 2);
    let cut = ctx.open_source(bytes, Default::default()).unwrap_err();
    assert!(cut.byte_offset.is_some() && cut.message.starts_with("source"), "{cut:?}");

    assert_eq!(ctx.open("a\0b").unwrap_err().status, Status::ARGUMENT);
    let config = mini().loader().size(32, 32).open().unwrap_err();
    assert!(config.status == Status::ARGUMENT && config.message.contains("batch_size"), "{config}");
}

#[test]
fn a_loader_delivers_every_sample_in_order() {
    let data = mini();
    let run = collect(data.loader().batch_size(4).size(64, 48).center_resized_crop(1.0).open().unwrap());
    assert_eq!(run.indices, (0..data.len()).collect::<Vec<_>>());
    assert_eq!(run.targets, (0..data.len()).map(|i| data.target(i).unwrap().unwrap_or(-1)).collect::<Vec<_>>());
    assert_eq!(run.pixels.len() as u64, data.len() * 3 * 64 * 48);
    assert!(run.pixels.iter().all(|x| (0.0..=255.0).contains(x)) && run.pixels.iter().any(|x| *x > 100.0));
}

#[test]
fn a_seed_gives_the_same_batches_with_any_threads() {
    let data = mini();
    let open = |threads, seed| {
        collect(
            data.loader()
                .batch_size(3)
                .size(40, 40)
                .shuffle(seed)
                .random_resized_crop()
                .flip(0.5, 0.0)
                .epochs(2)
                .threads(threads)
                .open()
                .unwrap(),
        )
    };
    let (one, two) = (open(1, 7), open(2, 7));
    assert!(one == two);
    assert_ne!(one.indices, open(1, 8).indices);
    assert_eq!(one.indices.len() as u64, 2 * data.len());
}

#[test]
fn ranks_share_the_samples() {
    let data = mini();
    let share = |rank| collect(data.loader().batch_size(2).size(8, 8).shuffle(3).shard(rank, 2).open().unwrap()).indices;
    let mut all = [share(0), share(1)].concat();
    assert_eq!(share(0).len() as u64, data.len() / 2);
    all.sort();
    assert_eq!(all, (0..data.len()).collect::<Vec<_>>());
}

#[test]
fn the_picture_of_a_sample_is_chosen_by_name() {
    let data = mini();
    let open = |name: &str| data.loader().batch_size(1).size(40, 40).center_resized_crop(1.0).image_field(name).open();
    let (image, thumb) = (open("image").unwrap(), open("thumb").unwrap());
    assert_eq!([image.info().unwrap().image_field(), thumb.info().unwrap().image_field()], ["image", "thumb"]);
    assert!(collect(&image).pixels != collect(&thumb).pixels);
    assert_eq!(open("sideways").unwrap_err().status, Status::NOT_FOUND);
}

#[test]
fn a_warp_is_the_same_by_its_name_and_by_its_settings() {
    let data = mini();
    let open = |warp: Option<Warp>| {
        let builder = data.loader().batch_size(4).size(24, 24).shuffle(9);
        let builder = match &warp {
            Some(warp) => builder.warp(warp),
            None => builder.random_resized_crop().flip(0.5, 0.0).crops(Crops::Benzina),
        };
        collect(builder.open().unwrap())
    };
    let crop = Warp { flip_h: 0.5, crops: Crops::Benzina as u32, ..Warp::random_resized_crop() };
    assert!(open(Some(crop)) == open(None));
    assert!(open(Some(Warp { crops: Crops::Auto as u32, ..crop })) != open(None));
}

#[test]
fn geometry_and_jitter_go_on_top_of_a_warp() {
    let data = mini();
    let loader = || data.loader().batch_size(4).size(24, 24).center_resized_crop(1.0);
    let plain = collect(loader().open().unwrap()).pixels;
    assert!(collect(loader().rotate_shear([-20.0, 20.0], [0.0; 4]).open().unwrap()).pixels != plain);
    assert!(collect(loader().perspective(0.5, 1.0).open().unwrap()).pixels != plain);
    let brighter = Jitter { brightness: [1.5, 1.5], ..Jitter::default() };
    assert!(collect(loader().jitter(brighter).open().unwrap()).pixels != plain);
    let turned = Jitter { contrast: [0.5, 0.5], hue: [-0.25, -0.25], ..Jitter::default() };
    assert!(collect(loader().jitter(turned).open().unwrap()).pixels != plain);
    let lighter = Mxnet { hls: [0.0, 20.0, 0.0], ..Mxnet::default() };
    let warp = Warp { mxnet: lighter, ..Warp::center_resized_crop(1.0) };
    assert!(collect(loader().warp(&warp).open().unwrap()).pixels != plain);
    let error = loader().jitter(Jitter { grayscale: 2.0, ..brighter }).open().unwrap_err();
    assert!(error.to_string().contains("color.jitter.grayscale"), "{error}");
}

#[test]
fn every_filter_makes_other_pixels_and_antialias_can_be_left_out() {
    let data = mini();
    let open =
        |filter, antialias| data.loader().batch_size(8).size(24, 24).center_resized_crop(1.0).filter(filter).antialias(antialias).open();
    let all = [Filter::Linear, Filter::Nearest, Filter::Cubic, Filter::Lanczos, Filter::Area, Filter::Cubic075, Filter::Lanczos4];
    let made = all.map(|filter| collect(open(filter, true).unwrap()).pixels);
    assert!((0..all.len()).all(|i| (0..i).all(|k| made[i] != made[k])));
    assert!(made[0] == collect(data.loader().batch_size(8).size(24, 24).center_resized_crop(1.0).open().unwrap()).pixels);
    for (filter, widened) in all.into_iter().zip(made) {
        match open(filter, false) {
            Ok(loader) => assert_eq!(collect(loader).pixels == widened, filter == Filter::Nearest, "{filter:?}"),
            Err(error) => assert!(filter == Filter::Area && error.status == Status::ARGUMENT, "{error}"),
        }
    }
}

#[test]
fn torchvisions_center_crop_is_not_the_originals() {
    let data = mini();
    let open = |crops| collect(data.loader().batch_size(8).size(24, 24).center_resized_crop(0.875).crops(crops).open().unwrap()).pixels;
    assert!(open(Crops::Auto) == open(Crops::Torchvision));
    assert!(open(Crops::Auto) != open(Crops::Benzina));
}

/// The value of IEEE binary16 bits.
fn f16_value(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023) / 1024.0);
    let size = if exponent == 0 { fraction * 2f64.powi(-14) } else { (1.0 + fraction) * 2f64.powi(exponent - 15) };
    if bits >> 15 == 0 {
        size
    } else {
        -size
    }
}

#[test]
fn half_precision_is_single_precision_rounded_to_the_nearest() {
    let data = mini();
    let open = |dtype| data.loader().batch_size(8).size(32, 24).mean_std([120.0; 3], [60.0; 3]).dtype(dtype).open().unwrap();
    let (half, single) = (open(Dtype::F16).next_batch().unwrap().unwrap(), open(Dtype::F32).next_batch().unwrap().unwrap());
    assert_eq!((half.dtype(), single.dtype()), (Dtype::F16, Dtype::F32));
    assert_eq!(half.image_bits().len(), single.image().len());
    for (bits, exact) in half.image_bits().iter().zip(single.image()) {
        let error = (f16_value(*bits) - f64::from(*exact)).abs();
        let neighbors = [bits.wrapping_sub(1), bits + 1].map(|other| (f16_value(other) - f64::from(*exact)).abs());
        assert!(*bits == 0x8000 || neighbors.iter().all(|other| error <= *other), "{exact} became {}", f16_value(*bits));
    }
}

#[test]
fn bytes_bfloats_and_orders_of_channels_are_the_same_pixels() {
    let data = mini();
    let open = |dtype, channels| {
        data.loader().batch_size(4).size(20, 12).dtype(dtype).channels(channels).open().unwrap().next_batch().unwrap().unwrap()
    };
    let single = open(Dtype::F32, Channels::Rgb);
    let (bytes, brain) = (open(Dtype::U8, Channels::Rgb), open(Dtype::Bf16, Channels::Rgb));
    let (swapped, gray) = (open(Dtype::F32, Channels::Bgr), open(Dtype::U8, Channels::Gray));
    assert_eq!((bytes.dtype(), brain.dtype(), gray.shape()), (Dtype::U8, Dtype::Bf16, [4, 1, 12, 20]));
    assert_eq!(gray.image_bytes().len(), 4 * 240);
    for (i, exact) in single.image().iter().enumerate() {
        assert!((f32::from(bytes.image_bytes()[i]) - exact).abs() <= 0.5);
        assert!((f32::from_bits(u32::from(brain.image_bits()[i]) << 16) - exact).abs() <= exact.abs() / 256.0);
        let (picture, channel, pixel) = (i / 720, i / 240 % 3, i % 240);
        assert!(swapped.image()[(picture * 3 + 2 - channel) * 240 + pixel].to_bits() == exact.to_bits());
    }
}

#[test]
fn channels_last_is_the_same_in_another_order() {
    let data = mini();
    let open = |layout| data.loader().batch_size(3).size(20, 12).layout(layout).open().unwrap().next_batch().unwrap().unwrap();
    let (planes, pixels) = (open(Layout::Nchw), open(Layout::Nhwc));
    assert_eq!((planes.shape(), pixels.shape()), ([3, 3, 12, 20], [3, 12, 20, 3]));
    for (i, value) in pixels.image().iter().enumerate() {
        let (picture, pixel, channel) = (i / (3 * 240), i / 3 % 240, i % 3);
        assert!(planes.image()[(picture * 3 + channel) * 240 + pixel].to_bits() == value.to_bits());
    }
}

#[test]
#[should_panic(expected = "not one block of F32")]
fn half_precision_is_no_slice_of_f32() {
    let data = mini();
    data.loader().batch_size(1).size(8, 8).dtype(Dtype::F16).open().unwrap().next_batch().unwrap().unwrap().image();
}

#[test]
fn a_context_says_which_device_it_has_or_why_none() {
    let none = Context::new(ContextConfig::default().cpu()).unwrap();
    let refused = none.device().unwrap_err();
    assert!(refused.status == Status::DEVICE || refused.status == Status::UNSUPPORTED, "{refused:?}");
    let data = none.open(archive("mini_h265.bzna")).unwrap();
    let builder = || data.loader().batch_size(2).size(16, 16);
    for error in [builder().device(Device::Cuda(0)).open().unwrap_err(), builder().decode_with(DecodeWith::Nvdec).open().unwrap_err()] {
        assert!(error.status == refused.status && error.message.contains("loader_config."), "{error:?}");
    }
    // SAFETY: of a batch on the host, no stream is used.
    let mut batch = builder().open().unwrap().next_batch().unwrap().unwrap();
    assert!(batch.device() == Device::Cpu && batch.stream().is_null());
    assert_eq!(unsafe { batch.move_to_stream(std::ptr::null_mut()) }.unwrap_err().status, Status::UNSUPPORTED);

    let any = Context::new(ContextConfig::default()).unwrap();
    match (any.device(), benzina::device_count()) {
        (Ok(info), count) => assert!(!info.name().is_empty() && count.unwrap() > 0, "{info:?}"),
        (Err(error), _) => assert!(error.status == Status::DEVICE || error.status == Status::UNSUPPORTED, "{error:?}"),
    }
    // With whatever decodes, the pixels come to the host.
    let info = any.open(archive("mini_h265.bzna")).unwrap().loader().batch_size(2).size(16, 16).open().unwrap().info().unwrap();
    assert!(
        info.image.device() == Device::Cpu
            && info.image_field() == "thumb"
            && !info.decoder_name().is_empty()
            && !info.decoder_reason().is_empty()
    );
}

#[test]
fn objects_may_be_dropped_in_any_order() {
    let ctx = Context::new(ContextConfig::default()).unwrap();
    let data = ctx.open(archive("mini_h264.bzna")).unwrap();
    drop(ctx);
    let loader = data.loader().batch_size(2).size(32, 32).open().unwrap();
    drop(data);
    let first = loader.next_batch().unwrap().unwrap();
    let second = loader.next_batch().unwrap().unwrap();
    drop(loader);
    let sum = std::thread::spawn(move || first.image().iter().sum::<f32>()).join().unwrap();
    assert!(sum > 0.0);
    assert_eq!(second.indices(), [2, 3]);
}

#[test]
fn holding_every_batch_is_an_error_and_not_a_hang() {
    let data = mini();
    let loader = data.loader().batch_size(1).size(16, 16).batches_in_flight(2).open().unwrap();
    let held: Vec<_> = loader.iter().take(2).collect::<Result<_, _>>().unwrap();
    assert_eq!(loader.next_batch().unwrap().unwrap_err().status, Status::STATE);
    drop(held);
    assert_eq!(loader.next_batch().unwrap().unwrap().indices(), [2]);
}

#[test]
fn a_state_goes_on_where_it_was_taken() {
    let data = mini();
    let open =
        |threads| data.loader().batch_size(2).size(24, 24).shuffle(5).random_resized_crop().threads(threads).epochs(2).open().unwrap();
    let loader = open(1);
    drop(collect(loader.iter().take(3)));
    let state = State::from_bytes(loader.save().unwrap().to_bytes());
    assert_eq!((state.epoch(), state.position()), (0, 6));
    let rest = collect(&loader);
    let other = open(2);
    other.restore(&state).unwrap();
    assert!(collect(&other) == rest);
    let mut swapped = state.to_bytes();
    swapped[4..8].reverse(); // the version, as a machine of the other byte order saves it
    assert_eq!(other.restore(&State::from_bytes(swapped)).unwrap_err().status, Status::ARGUMENT);
    assert_eq!(other.restore(&State::from_bytes([7; 128])).unwrap_err().status, Status::ARGUMENT);
}

#[test]
fn a_given_order_is_that_of_the_batches() {
    let data = mini();
    let open = |seed| data.loader().batch_size(3).size(24, 24).given().seed(seed).random_resized_crop().epochs(3).open().unwrap();
    let order: Vec<u64> = vec![5, 0, 7, 5, 1];
    let oracle = |epoch| {
        let loader = data.loader().batch_size(3).size(24, 24).indices(order.clone()).seed(5).random_resized_crop().first_epoch(epoch);
        collect(loader.open().unwrap())
    };
    let loader = open(5);
    let missing = loader.next_batch().unwrap().unwrap_err();
    assert!(missing.status == Status::STATE && missing.message.contains("epoch 0"), "{missing}");
    loader.set_indices(0, &order).unwrap();
    loader.set_batches(1, [&order[..1], &order[1..4], &order[4..]]).unwrap();
    assert_eq!(loader.set_indices(1, &order).unwrap_err().status, Status::STATE);
    assert_eq!(loader.set_indices(2, &[data.len()]).unwrap_err().status, Status::RANGE);
    assert_eq!(loader.set_indices(2, &[]).unwrap_err().status, Status::ARGUMENT);
    assert_eq!(loader.set_batches(2, [&order[..4]]).unwrap_err().status, Status::ARGUMENT);
    assert_eq!(loader.set_batches(2, [[0; 0]; 0]).unwrap_err().status, Status::ARGUMENT);
    assert_eq!(loader.info().unwrap().batches_per_epoch, 2);
    assert!(collect(loader.iter().take(2)) == oracle(0));
    let state = {
        drop(collect(loader.iter().take(1)));
        loader.save().unwrap()
    };
    let rest = collect(loader.iter().take(2));
    assert_eq!(rest.indices, order[1..]);
    assert!(rest.pixels == oracle(1).pixels[3 * 24 * 24..]);

    let again = open(6);
    again.restore(&state).unwrap();
    assert!(again.set_indices(1, &order).unwrap_err().message.contains("state.list"));
    again.set_batches(1, [&order[..1], &order[1..4], &order[4..]]).unwrap();
    assert!(collect(again.iter().take(2)) == rest);
    let drawn = data.loader().batch_size(3).size(24, 24).open().unwrap();
    assert_eq!(drawn.set_indices(0, &order).unwrap_err().status, Status::STATE);
}

#[test]
fn samples_are_drawn_by_weights_and_a_run_goes_on_with_them() {
    let data = mini();
    let weights: Vec<f64> = (0..data.len()).map(|i| if i % 3 == 0 { 0.0 } else { i as f64 }).collect();
    for weighting in [Weighting::Replace, Weighting::Once] {
        let builder = || data.loader().batch_size(2).size(24, 24).seed(5).random_resized_crop().weights(weighting, &weights[..]);
        let open = || builder().epoch_samples(5).epochs(3).open().unwrap();
        let whole = collect(open());
        assert_eq!(whole.indices.len(), 15);
        assert!(whole.indices.iter().all(|index| index % 3 != 0));
        let first = open();
        drop(collect(first.iter().take(4)));
        let state = first.save().unwrap();
        let again = open();
        again.restore(&state).unwrap();
        assert_eq!(collect(again.iter()).indices, whole.indices[7..]);
        again.reset(0).unwrap();
        assert!(collect(again.iter()) == whole);
    }
    let one = || data.loader().batch_size(2).size(8, 8);
    let parts = data.context().concat(&[&data, &data]).unwrap();
    let half = parts.loader().batch_size(2).size(8, 8).weights(Weighting::Replace, [0.0, 1.0]).weights_by_part();
    assert!(collect(half.open().unwrap()).indices.iter().all(|&index| index >= data.len()));
    assert!(one().weights(Weighting::Once, [1.0]).open().unwrap_err().message.contains("1 weights for"));
    assert_eq!(one().weights(Weighting::Once, &weights[..]).given().open().unwrap_err().status, Status::ARGUMENT);
    assert_eq!(one().epoch_samples(5).open().unwrap_err().status, Status::ARGUMENT);
}

#[test]
fn lists_are_given_by_another_thread() {
    let data = mini();
    let loader = data.loader().batch_size(2).size(8, 8).given().epochs(20).open().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..20).for_each(|epoch| loader.set_indices(epoch, &[epoch % data.len(), 0, 1]).unwrap()));
        for epoch in 0..20 {
            let mut indices = Vec::new();
            while indices.len() < 3 {
                match loader.next_batch().unwrap() {
                    Ok(batch) => indices.extend_from_slice(batch.indices()),
                    Err(error) => assert_eq!(error.status, Status::STATE),
                }
            }
            assert_eq!(indices, [epoch % data.len(), 0, 1]);
        }
    });
}

#[test]
fn stop_ends_waiting_and_reset_goes_on() {
    let data = mini();
    let loader = data.loader().batch_size(2).size(16, 16).endless().open().unwrap();
    std::thread::scope(|scope| {
        let consumer = scope.spawn(|| loader.iter().find_map(|batch| batch.err()));
        std::thread::sleep(Duration::from_millis(20));
        loader.stop().unwrap();
        assert_eq!(consumer.join().unwrap().unwrap().status, Status::STOPPED);
    });
    loader.reset(3).unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    assert_eq!((batch.epoch(), batch.number()), (3, 0));
}

#[test]
fn poll_does_not_wait() {
    let data = mini();
    let loader = data.loader().batch_size(2).size(16, 16).open().unwrap();
    let mut batches = 0;
    loop {
        match loader.poll(Duration::from_millis(1)).unwrap() {
            Next::Batch(batch) => batches += batch.count(),
            Next::Later => {}
            Next::End => break,
        }
    }
    assert_eq!(batches as u64, data.len());
    let statistics = loader.statistics().unwrap();
    assert_eq!(statistics.samples, data.len());
    assert!(statistics.advice().contains(':') || statistics.advice().contains("waking threads"));
    assert!(statistics.first_failed().is_none());
    let since = loader.statistics_since(&statistics).unwrap();
    assert_eq!(since.samples, 0);
    assert!(since.elapsed_ns < loader.statistics().unwrap().elapsed_ns);
    assert_eq!(loader.info().unwrap().image.shape(), [2, 3, 16, 16]);
}

#[test]
fn a_padded_batch_says_how_many_are_real() {
    let data = mini();
    let size = data.len() as u32 - 1;
    let loader = data.loader().batch_size(size).size(16, 16).last_batch(LastBatch::Pad).open().unwrap();
    let last = loader.iter().last().unwrap().unwrap();
    assert_eq!((last.count(), last.shape()[0], last.picture(1).len()), (1, size as usize, 3 * 16 * 16));
    assert!(last.is_last_of_epoch());
}

#[test]
fn a_closure_transforms_each_sample() {
    let data = mini();
    let plain = collect(data.loader().batch_size(2).size(20, 20).open().unwrap());
    let brighter = data
        .loader()
        .batch_size(2)
        .size(20, 20)
        .on_callback_error(OnCallbackError::Sample)
        .transform(|sample, random, transform| {
            assert!(sample.width > 0 && random.uniform(0.0, 1.0) < 1.0);
            transform.bias = [-1000.0; 3];
            if sample.index == 1 {
                return Err(Status(-7));
            }
            Ok(())
        })
        .open()
        .unwrap();
    let first = brighter.next_batch().unwrap().unwrap();
    assert!(first.picture(0).iter().zip(&plain.pixels).all(|(a, b)| (a - b - 1000.0).abs() < 0.01));
    let error = first.error(1).unwrap();
    assert_eq!((first.failed(), error.status, error.native_code), (1, Status::CALLBACK, -7));
    assert!(first.error(0).is_none());
    let (index, status, message) = brighter.statistics().unwrap().first_failed().unwrap();
    assert_eq!((index, status), (1, Status::CALLBACK));
    assert!(message.contains("callback"), "{}", message);
}

/// What a call panics with.
fn panic_of<T>(call: impl FnOnce() -> T) -> String {
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).err().expect("a panic");
    payload.downcast_ref::<String>().cloned().or_else(|| payload.downcast_ref::<&str>().map(|text| text.to_string())).unwrap()
}

/// Of several that panic at once, the first in the loader's order goes on; damaged samples are another matter.
#[test]
fn a_panic_in_a_closure_goes_on_where_the_batch_is_asked_for() {
    quiet();
    let data = mini();
    let said = |index: u64| format!("this panic of {index} belongs to the test");
    for (draws, threads) in [(false, 1), (false, 4), (true, 1), (true, 4)] {
        let builder = || data.loader().batch_size(2).size(20, 20).threads(threads).on_error(OnError::Replace);
        let loader = match draws {
            false => builder().transform(move |sample, _, _| if sample.index > 2 { panic!("{}", said(sample.index)) } else { Ok(()) }),
            true => builder().picture(move |sample, _, _| if sample.index > 2 { panic!("{}", said(sample.index)) } else { Ok(()) }),
        };
        let loader = loader.open().unwrap();
        for _ in 0..2 {
            assert_eq!(loader.next_batch().unwrap().unwrap().failed(), 0);
            assert_eq!(panic_of(|| loader.next_batch()), said(3));
            let error = loader.next_batch().unwrap().unwrap_err();
            assert_eq!(error.status, Status::CALLBACK);
            assert!(error.message.contains("sample 3"), "{error}");
            loader.reset(0).unwrap();
        }
        assert!(matches!(loader.poll(Duration::MAX), Ok(Next::Batch(_))));
        assert_eq!(panic_of(|| loader.poll(Duration::MAX)), said(3));
    }
}

#[test]
fn an_error_of_a_closure_ends_the_run_with_its_number() {
    let data = mini();
    let refuse = |_: &benzina::SampleInfo, _: &mut Random, _: &mut Transform| Err(Status(-7));
    let loader = data.loader().batch_size(3).size(20, 20).transform(refuse).open().unwrap();
    for _ in 0..2 {
        let error = loader.next_batch().unwrap().unwrap_err();
        assert_eq!((error.status, error.native_code), (Status::CALLBACK, -7));
    }
    assert_eq!(loader.iter().count(), 1); // an iterator ends after it
    let singular = |_: &benzina::SampleInfo, _: &mut Random, transform: &mut Transform| {
        transform.homography = [1.0; 9];
        Ok(())
    };
    let error = data.loader().batch_size(3).size(20, 20).transform(singular).open().unwrap().next_batch().unwrap().unwrap_err();
    assert!(error.status == Status::CALLBACK && error.message.contains("singular"), "{error}");
}

#[test]
fn a_panic_in_a_transform_fails_its_sample_alone_where_that_is_asked_for() {
    quiet();
    let data = mini();
    let plain = collect(data.loader().batch_size(3).size(20, 20).open().unwrap());
    let loader = data
        .loader()
        .batch_size(3)
        .size(20, 20)
        .on_callback_error(OnCallbackError::Sample)
        .transform(|sample, _, _| if sample.index == 1 { panic!("this panic belongs to the test") } else { Ok(()) })
        .open()
        .unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    assert_eq!(batch.error(1).unwrap().status, Status::CALLBACK);
    let area = 3 * 20 * 20;
    assert!(batch.picture(0) == &plain.pixels[..area] && batch.picture(2) == &plain.pixels[2 * area..3 * area]);
}

#[test]
fn rules_make_tensors_of_fields_by_what_was_drawn() {
    let data = mini();
    let boxes = Rule::rows("na?e", "boxes", 3, &[4], |input, out: &mut [f32]| {
        let view = &input.views[0];
        assert_eq!((input.field, out.len(), view.out_width, view.width), ("name", 12, 20, input.sample.width));
        // The crop as a box of the picture is the whole output; what lies left of it is not there.
        let whole = view.map_box(view.crop).unwrap();
        assert!(whole.iter().zip([0.0, 0.0, 20.0, 10.0]).all(|(a, b)| (a - b).abs() < 1e-6));
        assert_eq!(view.map_box([view.crop[0] - 9.0, 0.0, view.crop[0] - 1.0, 5.0]), None);
        out[..4].copy_from_slice(&whole.map(|edge| edge as f32));
        Ok(1 + (input.sample.index == 5) as usize)
    });
    let size = Rule::tensor("target", "size", &[], |input, out: &mut [i64]| {
        out[0] = input.data.len() as i64 + input.sample.target;
        Ok(())
    });
    let loader = data.loader().batch_size(8).size(20, 10).rule(boxes).rule(size).geometry().open().unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    assert_eq!(batch.failed(), 0, "{:?}", (0..8).find_map(|slot| batch.error(slot)));
    assert_eq!(batch.integers("boxes_count").unwrap(), [1, 1, 1, 1, 1, 2, 1, 1]);
    assert!(batch.values("boxes").unwrap()[4..].iter().take(8).all(|number| *number == 0.0));
    assert_eq!(batch.integers("size").unwrap()[..2], [8, 45]);
    assert_eq!(batch.integers("size").unwrap()[7], -1);
    assert_eq!(batch.vectors("geometry").unwrap().1, 16);

    let text = Rule::bytes("name", "text");
    let damaged = Rule::tensor("target", "bad", &[2], |input, _: &mut [u8]| match input.sample.index {
        1 => Err(Status::FORMAT),
        _ => Ok(()),
    });
    quiet();
    let two = data.range(0, 2).unwrap();
    let builder = || two.loader().batch_size(2).size(20, 20);
    let batch = builder().rule(text).rule(damaged).open().unwrap().next_batch().unwrap().unwrap();
    assert_eq!(batch.bytes("text", 0).unwrap(), Some(&b"00_plasma_land.JPEG"[..]));
    let error = batch.error(1).unwrap();
    assert_eq!((error.status, error.native_code), (Status::FORMAT, Status::FORMAT.0));
    let damaged = Rule::tensor("target", "bad", &[2], |_, _: &mut [i32]| panic!("this panic belongs to the test"));
    let loader = builder().rule(damaged).open().unwrap();
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| loader.next_batch())).unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"this panic belongs to the test"));
    let error = builder().rule(Rule::bytes("nothing", "x")).open().unwrap_err();
    assert!(error.status == Status::NOT_FOUND && error.to_string().contains("rules[0].field"), "{error}");
}

#[test]
fn one_picture_decodes_as_the_loader_decodes_it() {
    let data = mini();
    let mut decoder = data.context().decoder().unwrap();
    let image = data.image(2, None).unwrap();
    assert_eq!(image.codec(), Codec::H265);
    assert!(image.annexb().unwrap().starts_with(&[0, 0, 0, 1]) && image.annexb().unwrap().len() > image.data().len());
    let picture = decoder.decode(&image).unwrap();
    assert_eq!(picture.size(), image.size());
    let (width, height) = picture.size();
    let pixels = picture.render(width, height, &Transform::identity()).unwrap();
    let batch = data.range(2, 1).unwrap().loader().batch_size(1).size(width, height).open().unwrap().next_batch().unwrap().unwrap();
    assert!(pixels == batch.image());
    assert_eq!(picture.render(0, 1, &Transform::identity()).unwrap_err().status, Status::ARGUMENT);
}

#[test]
fn random_numbers_are_the_manuals() {
    let mut random = Random::new(1234, 5, 1_000_000, 16);
    assert_eq!([random.u32(), random.u32(), random.u32(), random.u32()], [0x3cf3e08d, 0x4cc55af4, 0x77c3fa94, 0x890dc105]);
    // What is not said is the kind's default; and what has no effect on a kind is refused, by name.
    let (mut same, crop) = (random.clone(), Warp::random_resized_crop());
    let drawn = crop.draw(&mut random, (500, 375), (224, 224)).unwrap();
    assert!(drawn.iter().all(|x| x.is_finite()));
    let said = Warp { scale: [0.08, 1.0], ratio: [3.0 / 4.0, 4.0 / 3.0], ..crop };
    assert_eq!(said.draw(&mut same, (500, 375), (224, 224)).unwrap(), drawn);
    let refused = Warp { degrees: [-5.0, 5.0], ..crop }.draw(&mut random, (500, 375), (224, 224)).unwrap_err();
    assert!(refused.status == Status::ARGUMENT && refused.message.contains("degrees"), "{refused}");
}

#[test]
fn parts_end_to_end_are_one_data_set() {
    let ctx = Context::new(ContextConfig::default()).unwrap();
    let (one, two) = (ctx.open(archive("mini_h265.bzna")).unwrap(), ctx.open(archive("mini_h264.bzna")).unwrap());
    let whole = ctx.concat(&[&one, &two]).unwrap();
    assert_eq!(whole.len(), one.len() + two.len());
    assert_eq!(whole.range(one.len(), 1).unwrap().target(0).unwrap(), two.target(0).unwrap());
    assert_eq!(ctx.concat(&[&mini()]).unwrap_err().status, Status::ARGUMENT);
}

/// A tar of members, in the order given.
fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut all = Vec::new();
    for (name, data) in members {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        header[124..136].copy_from_slice(format!("{:011o} ", data.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        all.extend(header);
        all.extend(*data);
        all.resize(all.len().next_multiple_of(512), 0);
    }
    all.resize(all.len() + 1024, 0);
    all
}

#[test]
fn fields_of_a_shard_come_with_its_batches() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("shards");
    std::fs::create_dir_all(&folder).unwrap();
    let paths = [folder.join("a.tar"), folder.join("b.tar")];
    std::fs::write(&paths[0], tar(&[("0.cls", b"7"), ("0.id", b"70"), ("0.txt", b"a cat"), ("1.cls", b"8")])).unwrap();
    std::fs::write(&paths[1], tar(&[("2.cls", b"9"), ("2.id", b"90"), ("2.txt", b"")])).unwrap();
    let context = Context::new(ContextConfig::default().cpu()).unwrap();
    let data = context.open_list(&paths, DatasetOptions { format: Some("tar"), ..Default::default() }).unwrap();
    let loader = data.loader().batch_size(3).tensors("id").bytes("txt").open().unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    assert_eq!((batch.targets(), batch.integers("id").unwrap()), (&[7, 8, 9][..], &[70, -1, 90][..]));
    let texts: Vec<Option<&[u8]>> = (0..3).map(|slot| batch.bytes("txt", slot).unwrap()).collect();
    assert_eq!(texts, [Some(&b"a cat"[..]), None, Some(&b""[..])]);
    assert_eq!(batch.vectors("id").unwrap_err().status, Status::ARGUMENT);
    assert_eq!(batch.bytes("cls", 0).unwrap_err().status, Status::NOT_FOUND);
    assert!(context.open_list(&paths, DatasetOptions { format: Some("archive"), ..Default::default() }).is_err());
}

#[test]
fn a_folder_has_classes() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("classes");
    let _ = std::fs::remove_dir_all(&folder); // of a run before
    for class in ["9", "10", "8"] {
        std::fs::create_dir_all(folder.join(class)).unwrap();
        std::fs::write(folder.join(class).join("a.jpg"), b"").unwrap();
    }
    let context = Context::new(ContextConfig::default().cpu()).unwrap();
    let classes = |options| context.open_with(&folder, options).unwrap().classes().unwrap();
    assert_eq!(classes(DatasetOptions::default()), ["10", "8", "9"]);
    assert_eq!(classes(DatasetOptions { numeric_classes: true, ..Default::default() }), ["8", "9", "10"]);
    assert_eq!(classes(DatasetOptions { classes: &["9", "8"], ..Default::default() }), ["9", "8"]);
    std::fs::create_dir_all(folder.join("85")).unwrap();
    assert_eq!(classes(DatasetOptions { empty_classes: true, ..Default::default() }), ["10", "8", "85", "9"]);
    assert_eq!(mini().classes().unwrap(), Vec::<String>::new());
}

#[test]
fn views_and_outputs_come_from_one_decode() {
    let data = mini();
    let crop = Warp { kind: benzina::raw::BZNA_WARP_RANDOM_RESIZED_CROP, flip_h: 0.5, ..Default::default() };
    let builder = || data.loader().batch_size(3).size(20, 12).shuffle(5).warp(&crop);
    let mean: Vec<f32> = (0..3 * 12 * 20).map(|i| (i % 200) as f32).collect();
    let one = builder().open().unwrap();
    let less = builder().mean_image(mean.clone()).open().unwrap();
    let many = builder().views(2);
    let many = many.extra_output(Output::new("local").size(8, 6).warp(4, &crop).filter(benzina::Filter::Cubic));
    let many = many.extra_output(Output::new("twin").dtype(Dtype::U8).channels(Channels::Gray).plain_color()).open().unwrap();
    let names: Vec<_> = many.tensors().unwrap().iter().map(|tensor| (tensor.name(), tensor.shape())).collect();
    assert_eq!(names[0], ("image".to_owned(), vec![2, 3, 3, 12, 20]));
    assert_eq!(names[4], ("local".to_owned(), vec![4, 3, 3, 6, 8]));
    assert_eq!(names[5], ("twin".to_owned(), vec![2, 3, 1, 12, 20]));
    for ((a, b), c) in one.iter().zip(many.iter()).zip(less.iter()) {
        let (a, b, c) = (a.unwrap(), b.unwrap(), c.unwrap());
        assert_eq!((b.views(), b.shape(), b.targets()), (2, a.shape(), a.targets()));
        let (first, second) = b.image().split_at(a.image().len());
        assert_eq!(first, a.image());
        assert!(second.len() == first.len() && second != first);
        assert_eq!(b.values("local").unwrap().len(), 4 * a.shape()[0] * 3 * 6 * 8);
        assert_eq!(b.value_bytes("twin").unwrap().len(), 2 * a.shape()[0] * 12 * 20);
        assert_eq!(b.values("twin").unwrap_err().status, Status::ARGUMENT);
        assert!(a.image().iter().zip(c.image()).enumerate().all(|(i, (x, y))| x - mean[i % mean.len()] == *y));
    }
    assert!(builder().views(65).open().unwrap_err().message.contains("output.views"));
    assert!(builder().extra_output(Output::new("image")).open().unwrap_err().message.contains("extra_outputs[0].name"));
}

#[test]
fn a_picture_is_drawn_into_before_it_is_warped() {
    let data = mini();
    let whole = || data.loader().batch_size(2).size(512, 512).warp(&Warp::none());
    let plain = whole().open().unwrap().next_batch().unwrap().unwrap();
    let drawn = whole()
        .picture(|sample, random, picture| {
            assert_eq!((picture.depth(), picture.chroma_shift(), picture.plane_count(), picture.orientation()), (8, (1, 1), 3, 1));
            assert!(picture.color().full_range == 1 && random.uniform(0.0, 1.0) < 1.0);
            if sample.index == 1 {
                assert_eq!(picture.size(), (375, 500));
                let chroma = picture.plane(1);
                assert_eq!((chroma.width, chroma.height, chroma.sample_bytes), (188, 250, 1));
                assert_eq!(chroma.data.len(), 249 * chroma.stride + 188);
                return Ok(());
            }
            picture.erase(100..200, 60..160);
            picture.plane(0).fill(490..9999, 370..9999, 0);
            picture.plane(0).row(0).fill(255);
            Ok(())
        })
        .open()
        .unwrap()
        .next_batch()
        .unwrap()
        .unwrap();
    // The first picture has 500 x 375 pixels and lies in the middle of 512 x 512.
    let at = |batch: &benzina::Batch, x: usize, y: usize| [0, 1, 2].map(|c| batch.picture(0)[(c * 512 + y + 68) * 512 + x + 6]);
    assert!(at(&drawn, 150, 100).iter().all(|v| (v - 128.0).abs() < 0.5), "{:?}", at(&drawn, 150, 100));
    for (x, y) in [(90, 100), (210, 100), (150, 50), (150, 170), (480, 360)] {
        assert_eq!(at(&drawn, x, y), at(&plain, x, y), "{x} {y}");
    }
    assert!(at(&drawn, 499, 374).iter().sum::<f32>() < at(&plain, 499, 374).iter().sum::<f32>());
    assert!(at(&drawn, 10, 0).iter().sum::<f32>() > at(&plain, 10, 0).iter().sum::<f32>());
    assert_eq!(drawn.picture(1), plain.picture(1));
}

#[test]
fn a_panic_or_an_error_while_drawing_fails_its_sample_alone_where_that_is_asked_for() {
    quiet();
    let data = mini();
    let plain = collect(data.loader().batch_size(4).size(20, 20).open().unwrap());
    let loader = data
        .loader()
        .batch_size(4)
        .size(20, 20)
        .on_callback_error(OnCallbackError::Sample)
        .picture(|sample, _, picture| match sample.index {
            1 => Err(Status(-7)),
            2 => {
                picture.plane(0).row(99999);
                Ok(())
            }
            _ => Ok(()),
        })
        .open()
        .unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    assert_eq!((batch.failed(), batch.error(1).unwrap().native_code), (2, -7));
    assert_eq!(batch.error(2).unwrap().status, Status::CALLBACK);
    let area = 3 * 20 * 20;
    assert!(batch.picture(0) == &plain.pixels[..area] && batch.picture(3) == &plain.pixels[3 * area..4 * area]);
}

fn boxed(kind: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [&(8 + body.len() as u32).to_be_bytes(), &kind[..], &body].concat()
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// A plain video of one H.264 picture of an archive: its samples share a decoder configuration, which is the data set's.
fn plain_video() -> Vec<u8> {
    let path = archive("mini_h264.bzna");
    let bytes = std::fs::read(&path).unwrap();
    let data = Context::new(ContextConfig::default().cpu()).unwrap().open(path).unwrap();
    let info = data.image_info(0, Some("image")).unwrap();
    let part = |offset: u64, size: u64| &bytes[offset as usize..(offset + size) as usize];
    let (config, picture) = (part(info.config_offset, info.config_size), part(info.data_offset, info.data_size));
    let size = [(info.frame_width as u16).to_be_bytes(), (info.frame_height as u16).to_be_bytes()].concat();
    let entry = boxed(b"avc1", &[&[0; 6], &[0, 1], &[0; 16], &size, &[0; 46], &[0, 24, 255, 255], &boxed(b"avcC", &[config])]);
    let head = boxed(b"ftyp", &[b"isom", &[0; 4], b"isom"]);
    let table = boxed(
        b"stbl",
        &[
            &boxed(b"stsd", &[&words(&[0, 1]), &entry]),
            &boxed(b"stts", &[&words(&[0, 1, 1, 1])]),
            &boxed(b"stsc", &[&words(&[0, 1, 1, 1, 1])]),
            &boxed(b"stsz", &[&words(&[0, 0, 1, picture.len() as u32])]),
            &boxed(b"stco", &[&words(&[0, 1, head.len() as u32 + 8])]),
        ],
    );
    let handler = boxed(b"hdlr", &[&[0; 8], b"vide", &[0; 13]]);
    let media = boxed(
        b"mdia",
        &[&boxed(b"mdhd", &[&words(&[0, 0, 0, 1, 1, 0])]), &handler, &boxed(b"minf", &[&boxed(b"vmhd", &[&words(&[1, 0, 0])]), &table])],
    );
    let mut track = words(&[3, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000]);
    track.extend(words(&[info.frame_width << 16, info.frame_height << 16]));
    let movie_head =
        [words(&[0, 0, 0, 1, 1, 0x10000, 0x1000000, 0, 0, 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000]), vec![0; 24], words(&[2])];
    let movie = boxed(b"moov", &[&boxed(b"mvhd", &[&movie_head.concat()]), &boxed(b"trak", &[&boxed(b"tkhd", &[&track]), &media])]);
    [head, boxed(b"mdat", &[picture]), movie].concat()
}

fn rendered(decoder: &mut Decoder, image: &Image) -> Vec<f32> {
    decoder.decode(image).unwrap().render(64, 64, &Transform::identity()).unwrap()
}

/// The memory of the dropped data set is taken by others before the image is looked at.
#[test]
fn an_image_needs_nothing_of_its_data_set() {
    let context = Context::new(ContextConfig::default().cpu()).unwrap();
    let mut decoder = context.decoder().unwrap();
    let records = benzina::raw::bzna_records { data_type: 1, width: 20, height: 10, channels: 3, ..Default::default() };
    let raw = DatasetOptions { records: Some(&records), ..Default::default() };
    let pixels: Vec<u8> = (0..2 * 20 * 10 * 3).map(|i| (i * 7 % 251) as u8).collect();
    for (bytes, options, codec) in [(plain_video(), DatasetOptions::default(), Codec::H264), (pixels, raw, Codec::Raw)] {
        let open = || context.open_source(bytes.clone(), options).unwrap();
        let data = open();
        let expected = rendered(&mut decoder, &data.image(0, None).unwrap());
        for _ in 0..20 {
            let data = open();
            let image = data.image(0, None).unwrap();
            drop(data);
            let others: Vec<Vec<u8>> = (16..4096).step_by(16).map(|size| vec![0xee; size]).collect();
            assert_eq!(image.codec(), codec);
            assert!(rendered(&mut decoder, &image) == expected);
            let moved = Box::new(image);
            assert!(rendered(&mut decoder, &moved) == expected && others.len() == 255);
        }
    }
}

/// C reads as many bytes of a struct as its struct_size says.
#[test]
fn what_stands_in_a_callers_struct_size_does_not_matter() {
    let context = Context::new(ContextConfig::default().cpu()).unwrap();
    for struct_size in [0, 4, 68, 400, 1 << 20, u32::MAX] {
        let records = benzina::raw::bzna_records { struct_size, data_type: 1, width: 4, height: 3, channels: 1, ..Default::default() };
        let data = context.open_source(vec![7u8; 24], DatasetOptions { records: Some(&records), ..Default::default() }).unwrap();
        assert_eq!((data.len(), data.image(1, None).unwrap().data()), (2, &[7u8; 12][..]));
        let transform = Transform { struct_size, ..Transform::identity() };
        let mut decoder = context.decoder().unwrap();
        assert_eq!(decoder.decode(&data.image(0, None).unwrap()).unwrap().render(2, 1, &transform).unwrap(), [7.0; 6]);
        // Nor does what a callback leaves there.
        let loader = data.loader().batch_size(2).size(4, 3).transform(move |_, _, transform| {
            transform.struct_size = struct_size;
            Ok(())
        });
        assert_eq!(loader.open().unwrap().next_batch().unwrap().unwrap().image(), [7.0; 2 * 3 * 12]);
    }
}

#[test]
fn a_batch_without_pictures_or_samples_has_empty_slices() {
    let data = mini();
    let loader = data.loader().batch_size(4).bytes("name").open().unwrap();
    let mut batch = loader.next_batch().unwrap().unwrap();
    assert!(batch.image().is_empty() && batch.image_mut().is_empty() && batch.targets().len() == 4);
    let last = data.loader().batch_size(1).size(4, 4).shard(2, 3).open().unwrap().iter().last().unwrap().unwrap();
    assert_eq!((last.shape()[0], last.image(), last.targets(), last.indices()), (0, &[][..], &[][..], &[][..]));
    assert!(last.values("image").unwrap().is_empty());
}
