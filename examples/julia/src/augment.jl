# ---- Policies: random operations behind the crop -------------------------------------------------------------------------------------

"""
    Operation(kind, magnitude = 0; keywords...)

One operation of a [`Policy`](@ref): `kind` is a key of `Benzina.OPERATIONS`, such as `:rotate`; `magnitude` is a number, or a pair lo, hi, in the
units that benzina.h names at `BZNA_OP_ROTATE` and its like. Brightness, contrast, saturation and sharpness have the factor less 1.

    probability = 1, sign = false         how often it is applied; true: half of the time, the magnitude is negated
    kernel_px = 0                         of :blur: an odd number of pixels; 0: 23
    ratio = (0, 0)                        of :erase: height by width lo, hi; of :grid_mask: (a square's edge by the period, 0)
    value = (0, 0, 0), space = :RGB       the color that covers pixels, in 0..255; or :output, where 0 is the mean color
    noise = 0                             of :erase: the standard deviation of noise around that
"""
Operation(kind::Symbol, magnitude = 0; probability::Real = 1, sign::Bool = false, kernel_px::Integer = 0, ratio = (0, 0), value = (0, 0, 0),
          space::Symbol = :RGB, noise::Real = 0) =
    bzna_operation(choice(OPERATIONS, probability == 0 ? :identity : kind), sign, probability,
                   magnitude isa Real ? (magnitude, magnitude) : Tuple(magnitude), kernel_px, Tuple(ratio), Tuple(value), choice(SPACES, space),
                   noise, 0, ntuple(i -> 0, 4))

"""
    Policy(operations...; apply = :all, draws = 0, group_size = 1, bins = 0, bin = (0, 0), probability = 1)

Random operations, for `augment` of a [`Loader`](@ref) and of an [`Output`](@ref): `:all` in order, `:shuffle`d, or `draws` of which each is any
of all (`:choose`). benzina.h says at bzna_policy what its members are.

    augment = [rand_augment(2, 9), random_erasing(0.25)]
    augment = [Policy(Operation(:brightness, (-0.4, 0.4)), Operation(:contrast, (-0.4, 0.4)), Operation(:hue, (-0.1, 0.1)); apply = :shuffle,
                      probability = 0.8),
               Policy(Operation(:blur, (0.1, 2.0)); probability = 0.5)]
"""
struct Policy
    operations::Vector{bzna_operation}
    raw::bzna_policy                  # without their address
end

function Policy(operations::bzna_operation...; apply::Symbol = :all, draws::Integer = 0, group_size::Integer = 1, bins::Integer = 0,
                bin = (0, 0), probability::Real = 1)
    all = bzna_operation[operations...]
    return Policy(all, bzna_policy(C_NULL, probability == 0 ? 0 : length(all), group_size, choice(POLICY_APPLY, apply), draws, bins, Tuple(bin),
                                   probability, ntuple(i -> 0, 4)))
end

function preset(number, draws, magnitude)
    made, err = Ref{bzna_policy}(), sized(bzna_error)
    check(bzna_formats_policy_preset(number, draws, magnitude, made, err), err)
    known = unsafe_wrap(Array, made[].operations, Int(made[].operation_count))          # the library's constants
    return Policy(copy(known), made[])
end

"torchvision's RandAugment: so many of 14 operations, of this magnitude, 0 to 30."
rand_augment(num_ops::Integer = 2, magnitude::Integer = 9) = preset(BZNA_PRESET_RAND_AUGMENT, num_ops, magnitude)

"torchvision's TrivialAugmentWide: one of 14 operations, of any magnitude."
trivial_augment_wide() = preset(BZNA_PRESET_TRIVIAL_WIDE, 0, 0)

"torchvision's AutoAugment for ImageNet: one of 25 pairs of operations."
auto_augment() = preset(BZNA_PRESET_AUTO_IMAGENET, 0, 0)

"torchvision's RandomErasing behind its Normalize: a rectangle of the mean color."
random_erasing(probability::Real = 0.5; scale = (0.02, 0.33), ratio = (0.3, 3.3)) =
    Policy(Operation(:erase, scale; ratio = ratio, space = :output); probability = probability)

"torchvision's GaussianBlur."
gaussian_blur(kernel_px::Integer, sigma = (0.1, 2.0); probability::Real = 1) =
    Policy(Operation(:blur, sigma; kernel_px = kernel_px); probability = probability)

policies_of(policy::Policy) = [policy]
policies_of(policies) = Policy[policy for policy in policies]

# What C is given of policies: inside GC.@preserve of them only.
raw_policies(policies::Vector{Policy}) = bzna_policy[changed(policy.raw; operations = pointer(policy.operations))
                                                     for policy in policies if policy.raw.operation_count > 0]

set_policies(augment::bzna_loader_augment, raw::Vector{bzna_policy}, beyond_crop::Bool) =
    changed(augment; policies = isempty(raw) ? Ptr{bzna_policy}(C_NULL) : pointer(raw), policy_count = length(raw), beyond_crop = beyond_crop)
