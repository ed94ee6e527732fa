//! Policies: random operations behind the crop.

use crate::{call, raw, Operation, Random, Result, Transform};
use std::ptr;

/// The kind of an [`Operation`]. [`raw`] describes the magnitude of each kind at its constant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    #[default]
    Identity = raw::BZNA_OP_IDENTITY as isize,
    /// The tangent of the angle.
    ShearX = raw::BZNA_OP_SHEAR_X as isize,
    ShearY = raw::BZNA_OP_SHEAR_Y as isize,
    /// A share of the output's width.
    TranslateX = raw::BZNA_OP_TRANSLATE_X as isize,
    TranslateY = raw::BZNA_OP_TRANSLATE_Y as isize,
    TranslateXPx = raw::BZNA_OP_TRANSLATE_X_PX as isize,
    TranslateYPx = raw::BZNA_OP_TRANSLATE_Y_PX as isize,
    /// Degrees, counterclockwise.
    Rotate = raw::BZNA_OP_ROTATE as isize,
    /// Like the next two, the factor less 1.
    Brightness = raw::BZNA_OP_BRIGHTNESS as isize,
    Contrast = raw::BZNA_OP_CONTRAST as isize,
    Saturation = raw::BZNA_OP_SATURATION as isize,
    /// Turns.
    Hue = raw::BZNA_OP_HUE as isize,
    Gamma = raw::BZNA_OP_GAMMA as isize,
    /// Bits that are kept.
    Posterize = raw::BZNA_OP_POSTERIZE as isize,
    /// Where inverting begins.
    Solarize = raw::BZNA_OP_SOLARIZE as isize,
    SolarizeAdd = raw::BZNA_OP_SOLARIZE_ADD as isize,
    Invert = raw::BZNA_OP_INVERT as isize,
    Grayscale = raw::BZNA_OP_GRAYSCALE as isize,
    /// The standard deviation of AlexNet's noise.
    Lighting = raw::BZNA_OP_LIGHTING as isize,
    /// Channels in any order.
    Shuffle = raw::BZNA_OP_SHUFFLE as isize,
    Autocontrast = raw::BZNA_OP_AUTOCONTRAST as isize,
    Equalize = raw::BZNA_OP_EQUALIZE as isize,
    /// The factor less 1.
    Sharpness = raw::BZNA_OP_SHARPNESS as isize,
    /// Sigma, in pixels.
    Blur = raw::BZNA_OP_BLUR as isize,
    /// The share of the area.
    Erase = raw::BZNA_OP_ERASE as isize,
    /// The edge, as a share of the shorter one.
    Cutout = raw::BZNA_OP_CUTOUT as isize,
    /// The period, as a share of the shorter edge.
    GridMask = raw::BZNA_OP_GRID_MASK as isize,
}

impl Operation {
    /// An operation whose magnitude is drawn from `magnitude[0]..=magnitude[1]`. Other members are set as
    /// `Operation { sign: 1, ..Operation::new(Op::Rotate, [0.0, 30.0]) }`.
    pub fn new(op: Op, magnitude: [f32; 2]) -> Operation {
        Operation { kind: op as u32, magnitude, ..Operation::default() }
    }

    /// torchvision's GaussianBlur: a kernel of so many pixels, and sigma's range.
    pub fn blur(kernel_px: u32, sigma: [f32; 2]) -> Operation {
        Operation { kernel_px, ..Operation::new(Op::Blur, sigma) }
    }

    /// torchvision's RandomErasing behind its Normalize, with its scale and ratio, and the mean color.
    pub fn erase() -> Operation {
        Operation { value_space: raw::BZNA_FILL_OUTPUT, ..Operation::new(Op::Erase, [0.02, 0.33]) }
    }
}

/// Which of its operations a [`Policy`] applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyApply {
    /// All groups, in order.
    #[default]
    All = raw::BZNA_POLICY_ALL as isize,
    /// Different groups, in random order.
    Shuffle = raw::BZNA_POLICY_SHUFFLE as isize,
    /// Each draw is any of all groups.
    Choose = raw::BZNA_POLICY_CHOOSE as isize,
}

/// A list of operations, and how they are drawn; see [`LoaderBuilder::augment`](crate::LoaderBuilder::augment). Members that are 0 have
/// the defaults of [`raw::bzna_policy`].
///
/// ```no_run
/// # fn main() -> benzina::Result<()> {
/// use benzina::{Op, Operation, Policy};
/// # let data = benzina::Context::new(Default::default())?.open("train.bzna")?;
/// let recipe = [Policy::rand_augment(2, 9)?, Policy::sometimes(0.25, [Operation::erase()])];
/// let solarize = Policy::sometimes(0.2, [Operation::new(Op::Solarize, [128.0; 2])]);
/// let loader = data.loader().batch_size(256).size(224, 224).random_resized_crop().augment(recipe);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub operations: Vec<Operation>,
    /// Operations that are drawn together.
    pub group_size: u32,
    pub apply: PolicyApply,
    /// Groups that are drawn.
    pub draws: u32,
    /// Magnitudes are one of so many that are evenly spaced.
    pub bins: u32,
    /// From which of them to which.
    pub bin: [u32; 2],
    /// Of applying any; 0 counts as 1.
    pub probability: f32,
}

impl Policy {
    /// All of the operations, in order, with a probability.
    pub fn sometimes(probability: f32, operations: impl Into<Vec<Operation>>) -> Policy {
        Policy { operations: operations.into(), probability, ..Policy::default() }
    }

    /// RandAugment: so many of 14 operations, of magnitude 0 to 30; torchvision's default is 2, 9.
    pub fn rand_augment(draws: u32, magnitude: u32) -> Result<Policy> {
        Policy::preset(raw::BZNA_PRESET_RAND_AUGMENT, draws, magnitude)
    }

    /// TrivialAugmentWide: one of 14 operations, of any magnitude.
    pub fn trivial_augment_wide() -> Result<Policy> {
        Policy::preset(raw::BZNA_PRESET_TRIVIAL_WIDE, 0, 0)
    }

    /// AutoAugment's policy for ImageNet.
    pub fn auto_augment_imagenet() -> Result<Policy> {
        Policy::preset(raw::BZNA_PRESET_AUTO_IMAGENET, 0, 0)
    }

    fn preset(preset: u32, draws: u32, magnitude: u32) -> Result<Policy> {
        let mut made = raw::bzna_policy::default();
        // SAFETY: a struct that is filled in.
        call(|err| unsafe { raw::bzna_formats_policy_preset(preset, draws, magnitude, &mut made, err) })?;
        // SAFETY: so many of the library's constants.
        let operations = unsafe { crate::slice_of(made.operations, made.operation_count as usize) }.to_vec();
        let apply = match made.apply {
            raw::BZNA_POLICY_ALL => PolicyApply::All,
            raw::BZNA_POLICY_SHUFFLE => PolicyApply::Shuffle,
            _ => PolicyApply::Choose,
        };
        let (group_size, draws, bins, bin) = (made.group_size, made.draws, made.bins, made.bin);
        Ok(Policy { operations, group_size, apply, draws, bins, bin, probability: made.probability })
    }

    /// Draws policies, as a loader does for a view of this size, in a closure of
    /// [`LoaderBuilder::transform`](crate::LoaderBuilder::transform): the operations are added to the transform.
    pub fn draw(policies: &[Policy], random: &mut Random, out_size: (u32, u32), transform: &mut Transform) -> Result<()> {
        let (raw_policies, mut augment) = (raw_of(policies), raw::bzna_loader_augment::default());
        point_to(&mut augment, &raw_policies);
        // SAFETY: what is pointed to lives for the call.
        call(|err| unsafe { raw::bzna_augment_draw(random.as_raw(), &augment, out_size.0, out_size.1, transform, err) })?;
        Ok(())
    }
}

/// These borrow the policies' operations.
pub(crate) fn raw_of(policies: &[Policy]) -> Vec<raw::bzna_policy> {
    let raw_one = |policy: &Policy| raw::bzna_policy {
        operations: if policy.operations.is_empty() { ptr::null() } else { policy.operations.as_ptr() },
        operation_count: policy.operations.len() as u32,
        group_size: policy.group_size,
        apply: policy.apply as u32,
        draws: policy.draws,
        bins: policy.bins,
        bin: policy.bin,
        probability: policy.probability,
        ..Default::default()
    };
    policies.iter().map(raw_one).collect()
}

pub(crate) fn point_to(augment: &mut raw::bzna_loader_augment, policies: &[raw::bzna_policy]) {
    augment.policies = if policies.is_empty() { ptr::null() } else { policies.as_ptr() };
    augment.policy_count = policies.len() as u32;
}
