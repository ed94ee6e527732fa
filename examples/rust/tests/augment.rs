//! Policies of loaders and of their outputs, and what was drawn.

mod common;

use benzina::{Drawn, Dtype, Loader, Op, Operation, Output, Policy, PolicyApply, Status, Warp};
use common::mini;

fn op_of(drawn: &Drawn) -> (u32, f32) {
    (drawn.kind, drawn.magnitude)
}

/// The pixels of the first batch, and what was drawn for each of its samples.
fn first(loader: &Loader) -> (Vec<u8>, Vec<Vec<(u32, f32)>>) {
    let batch = loader.next_batch().unwrap().unwrap();
    let drawn = (0..batch.count()).map(|slot| batch.drawn(slot, 0).iter().map(op_of).collect()).collect();
    (batch.image_bytes().to_vec(), drawn)
}

#[test]
fn presets_are_lists_of_operations() {
    let rand = Policy::rand_augment(2, 9).unwrap();
    assert_eq!((rand.operations.len(), rand.apply, rand.draws, rand.bins, rand.bin), (14, PolicyApply::Choose, 2, 31, [9, 9]));
    let wide = Policy::trivial_augment_wide().unwrap();
    assert_eq!((wide.operations.len(), wide.bins, wide.bin), (14, 31, [0, 30]));
    let auto = Policy::auto_augment_imagenet().unwrap();
    assert_eq!((auto.operations.len(), auto.group_size), (50, 2));
    assert_eq!(Policy::rand_augment(2, 31).unwrap_err().status, Status::ARGUMENT);
    assert_eq!(Policy::rand_augment(9, 9).unwrap_err().status, Status::ARGUMENT);
}

#[test]
fn policies_change_pixels_and_batches_tell_what_was_drawn() {
    let data = mini();
    let loader = || data.loader().batch_size(4).size(40, 30).seed(1).dtype(Dtype::U8);
    let (plain, nothing) = first(&loader().open().unwrap());
    assert_eq!(nothing, vec![vec![]; 4]);

    let policies = [Policy::sometimes(1.0, [Operation::new(Op::Invert, [0.0; 2]), Operation::new(Op::Solarize, [200.0; 2])])];
    let (pixels, drawn) = first(&loader().augment(policies).open().unwrap());
    assert_eq!(drawn, vec![vec![(Op::Invert as u32, 0.0), (Op::Solarize as u32, 200.0)]; 4]);
    let expected = plain.iter().map(|x| 255 - x).map(|x| if x >= 200 { 255 - x } else { x });
    assert!(pixels.iter().copied().eq(expected));

    let recipe = || [Policy::rand_augment(2, 9).unwrap(), Policy::sometimes(0.5, [Operation::erase()])];
    let one = first(&loader().augment(recipe()).threads(1).open().unwrap());
    assert_eq!(one, first(&loader().augment(recipe()).threads(3).open().unwrap()));
    assert!(one.1.iter().all(|drawn| drawn.len() >= 2));
    assert_ne!(one.0, plain);
}

#[test]
fn outputs_have_policies_of_their_own_or_none() {
    let data = mini();
    let invert = || [Policy::sometimes(1.0, [Operation::new(Op::Invert, [0.0; 2])])];
    let output = |name: &str| Output::new(name).dtype(Dtype::U8).warp(1, &Warp::none());
    let builder = data.loader().batch_size(2).size(40, 30).dtype(Dtype::U8).warp(&Warp::none()).augment(invert());
    let loader = builder
        .extra_output(output("none").augment([]))
        .extra_output(output("same"))
        .extra_output(output("blurred").augment([Policy::sometimes(1.0, [Operation::blur(5, [1.0; 2])])]))
        .open()
        .unwrap();
    let batch = loader.next_batch().unwrap().unwrap();
    let plain = batch.value_bytes("none").unwrap();
    assert!(batch.image_bytes().iter().zip(plain).all(|(mine, other)| *mine == 255 - other));
    assert_eq!(batch.image_bytes(), batch.value_bytes("same").unwrap());
    assert_ne!(batch.value_bytes("blurred").unwrap(), plain);
    let kinds: Vec<Vec<u32>> = (0..4).map(|view| batch.drawn(1, view).iter().map(|one| one.kind).collect()).collect();
    assert_eq!(kinds, [vec![Op::Invert as u32], vec![], vec![Op::Invert as u32], vec![Op::Blur as u32]]);
    assert!(batch.drawn(2, 0).is_empty() && batch.drawn(0, 4).is_empty());
}

#[test]
fn settings_are_refused_by_their_names() {
    let data = mini();
    let refused = |policy: Policy| data.loader().batch_size(2).size(40, 30).augment([policy]).open().unwrap_err();
    let error = refused(Policy::sometimes(2.0, [Operation::new(Op::Invert, [0.0; 2])]));
    assert!(error.status == Status::ARGUMENT && error.message.contains("probability"), "{error}");
    let error = refused(Policy::sometimes(1.0, vec![Operation::new(Op::Invert, [0.0; 2]); 9]));
    assert!(error.status == Status::ARGUMENT && error.message.contains('8'), "{error}");
    assert_eq!(refused(Policy::default()).status, Status::ARGUMENT);
}

#[test]
fn a_closure_draws_policies_of_its_own() {
    let data = mini();
    let loader = || data.loader().batch_size(2).size(40, 30).dtype(Dtype::U8);
    let (plain, _) = first(&loader().open().unwrap());
    let drawing = loader().transform(|sample, random, transform| {
        let recipe = [Policy::sometimes(1.0, [Operation::new(Op::Invert, [0.0; 2])])];
        Policy::draw(&recipe, random, (sample.out_width, sample.out_height), transform).map_err(|error| error.status)?;
        assert_eq!((transform.operation_count, transform.operations[0].kind), (1, Op::Invert as u32));
        Ok(())
    });
    let (pixels, _) = first(&drawing.open().unwrap());
    assert!(pixels.iter().zip(&plain).all(|(mine, other)| *mine == 255 - other));
}
