# ---- Loaders -------------------------------------------------------------------------------------------------------------------------

"""
    Output(name; keywords...)

A further output of a loader's samples, from the same decode: other sizes, other views, another picture of each sample; `tensor(batch, name)`.

    size = (0, 0)                         (width, height); the loader's
    field = nothing                       the picture that it is made of; the loader's
    views = 0, warp = nothing             so many views with warps of their own: :random_resized_crop, ..., with crop_area, crop_ratio, crops,
                                          flip and flip_v. nothing: each view is warped as that of the loader's pictures
    uint8 = false, gray = false           instead of Float32, of R, G and B
    filter = nothing, antialias = nothing as a loader's; nothing, both: the loader's
    mean, std, bias, scale, fill          as a loader's; none of them: the loader's
    plain = false                         true: pixels are 0..255, as masks need them
    indices = false                       true: pictures with a palette come as its indices, the numbers of classes
    augment = nothing, beyond_crop = false
                                          `Policy`s of its own; () are none at all. nothing: the loader's
"""
struct Output
    raw::bzna_loader_output
    name::String
    field::Union{Nothing,String}
    warp::Union{Nothing,bzna_warp}
    filter::Union{Nothing,bzna_loader_filter}
    color::Union{Nothing,bzna_loader_color}
    augment::Union{Nothing,Vector{Policy}}
    beyond_crop::Bool

    function Output(name::AbstractString; size::Tuple{Integer,Integer} = (0, 0), field::Union{Nothing,AbstractString} = nothing,
                    views::Integer = 0, warp::Union{Nothing,Symbol} = nothing, crop_area = nothing, crop_ratio = nothing,
                    crops::Symbol = :auto, flip::Real = 0, flip_v::Real = 0, uint8::Bool = false, gray::Bool = false,
                    filter::Union{Nothing,Symbol} = nothing, antialias::Union{Nothing,Bool} = nothing,
                    mean = nothing, std = nothing, bias = nothing, scale = nothing, fill = nothing, plain::Bool = false,
                    indices::Bool = false, augment = nothing, beyond_crop::Bool = false)
        config = bzna_loader_config()
        bzna_loader_config_init(config, sizeof(bzna_loader_config))             # whose groups are zero
        raw = changed(config.output; width = size[1], height = size[2], views = views,
                      palette = indices ? BZNA_PALETTE_INDEX : BZNA_PALETTE_COLORS,
                      dtype = uint8 ? BZNA_DTYPE_UINT8 : BZNA_DTYPE_FLOAT32, channels = gray ? BZNA_CHANNELS_GRAY : BZNA_CHANNELS_RGB)
        drawn = warp === nothing ? nothing : drawn_warp(config.warp, warp, crop_area, crop_ratio, crops, flip, flip_v)
        filtered = filter === nothing && antialias === nothing ? nothing :
                   changed(config.filter; kind = choice(FILTERS, something(filter, :linear)), antialias = antialiased(something(antialias, true)))
        colors = given(mean = mean, std = std, bias = bias, scale = scale, fill = fill)
        colored = isempty(colors) && !plain ? nothing : changed(config.color; colors...)
        own = augment === nothing ? nothing : policies_of(augment)
        return new(raw, String(name), optional(field), drawn, filtered, colored, own, beyond_crop)
    end
end

antialiased(antialias::Bool) = antialias ? BZNA_ANTIALIAS_AUTO : BZNA_ANTIALIAS_OFF

# A warp that Output and decode take: none of it is nothing.
drawn_warp(none::bzna_warp, warp, crop_area, crop_ratio, crops, flip, flip_v) =
    changed(none; kind = choice(WARPS, warp), crops = choice(CROPS, crops), flip_h = flip, flip_v = flip_v,
            given(scale = crop_area, ratio = crop_ratio)...)

# The address of one of `items`, which is what an output has of its own; or NULL. Inside GC.@preserve of items only.
address_or_null(items::Vector{T}, i, own) where {T} = own === nothing ? Ptr{T}(C_NULL) : pointer(items, i)

# A warp with the colors that MXNet would draw: an output without colors of its own has the loader's.
with_colors(::Nothing, ::bzna_mxnet) = nothing
with_colors(warp::bzna_warp, of::bzna_mxnet) =
    changed(warp; mxnet = changed(warp.mxnet; hls = of.hls, contrast = of.contrast, illumination = of.illumination,
                                  clamp_hue = of.clamp_hue))

# What each output has of its own, with a place for those that have nothing.
own_of(items, none) = typeof(none)[item === nothing ? none : item for item in items]

# Width, height, channels and samples of a tensor of pictures, in one view.
shape_of(tensor::bzna_tensor) = NTuple{4,Int}(tensor.shape[Int(tensor.dimensions) - i] for i in 0:3)

# The settings of a loader, for a Loader or a Stream, which keeps what they point to: bzna_stream_open reads that later.
struct Settings
    config::bzna_loader_config
    callbacks::CallbackBox
    outputs::Any
    buffer::Bool
    wrap::Any                         # makes x of a batch's memory; nothing: an Array
    kept::Tuple                       # what config, rules and weighted point to
    rules::Vector{bzna_rule}
    weighted::Union{Nothing,bzna_formats_weights}   # what lists are drawn by
end

const WEIGHTINGS = Dict{Symbol,UInt32}(:replace => BZNA_WEIGHTING_REPLACE, :once => BZNA_WEIGHTING_ONCE)

# A struct as it is, but for the member at the end of a path through the structs in it.
changed_at(group, path::Tuple{Symbol}, value) = changed(group; NamedTuple{path}((value,))...)
changed_at(group, path::Tuple, value) =
    changed(group; NamedTuple{(path[1],)}((changed_at(getfield(group, path[1]), Base.tail(path), value),))...)

# Sets what keywords of LOADER_KEYWORDS say; nothing: the default.
function set_keywords!(config::bzna_loader_config; keywords...)
    for (keyword, value) in pairs(keywords)
        haskey(LOADER_KEYWORDS, keyword) || throw(ArgumentError("there is no keyword $keyword"))
        value === nothing && continue
        path, names = LOADER_KEYWORDS[keyword]
        value = names !== nothing ? choice(names, value) : value isa Union{Tuple,AbstractArray,AbstractRange} ? Tuple(value) : value
        setfield!(config, path[1], changed_at(getfield(config, path[1]), Base.tail(path), value))
    end
end

# Of keywords, those that are one setting are in LOADER_KEYWORDS; `plain` are those of them that a caller has given.
function Settings(; size::Tuple{Integer,Integer}, shuffle::Bool = false, partial::Bool = true, pad::Bool = false, data_padding = nothing,
                  label_padding = nothing, buffer::Bool = false, crop_start = nothing, image::Union{Nothing,AbstractString} = nothing,
                  indices = nothing, weights = nothing, weighting::Symbol = :replace, weights_by_part::Bool = false,
                  epoch_samples::Integer = 0, tensors = nothing, bytes = nothing, rules = (),
                  outputs = (), mean_image = nothing, antialias::Bool = true, no_threads::Bool = false,
                  transform = nothing, transform_user::Ptr{Cvoid} = C_NULL, picture = nothing, picture_user::Ptr{Cvoid} = C_NULL,
                  augment = (), beyond_crop::Bool = false,
                  cuda::Union{Nothing,Integer} = nothing, stream::Ptr{Cvoid} = C_NULL, wrap = nothing, plain...)
    cuda === nothing || wrap !== nothing || throw(ArgumentError("cuda: an Array cannot be on a device; give wrap, too"))
    callbacks = CallbackBox(transform, picture)
    boxes = RuleBox[RuleBox(rule, callbacks) for rule in (rules isa Rule ? (rules,) : rules)]
    no_threads || foreach(callable_from_threads, (transform, picture, (box.rule.make for box in boxes)...))
    is_given = indices === :given
    indices isa Symbol && !is_given && throw(ArgumentError("indices: :$indices is neither :given nor numbers"))
    is_given && shuffle && throw(ArgumentError("indices, shuffle: both order the samples of an epoch"))
    indices = is_given ? nothing : indices
    weights === nothing && (weights_by_part || epoch_samples != 0) && throw(ArgumentError("weights_by_part, epoch_samples: only with weights"))
    is_given && weights !== nothing && throw(ArgumentError("indices, weights: both choose the samples of an epoch"))
    config = bzna_loader_config()
    bzna_loader_config_init(config, sizeof(bzna_loader_config))
    set_keywords!(config; batchsize = 1, views = 1, no_threads = no_threads, plain...)
    config.output = changed(config.output; width = size[1], height = size[2],
                            device = cuda === nothing ? bzna_device(BZNA_DEVICE_CPU, 0) : bzna_device(BZNA_DEVICE_CUDA, cuda),
                            stream = stream)
    config.order = changed(config.order; kind = is_given || weights !== nothing ? BZNA_ORDER_GIVEN : shuffle ? BZNA_ORDER_SHUFFLE : BZNA_ORDER_SEQUENTIAL,
                           last_batch = data_padding !== nothing || label_padding !== nothing ? BZNA_LAST_FILL :
                                        pad ? BZNA_LAST_PAD : partial ? BZNA_LAST_PARTIAL : BZNA_LAST_DROP,
                           epochs = BZNA_EPOCHS_ENDLESS, pad_value = something(data_padding, 0), pad_target = something(label_padding, 0))
    if crop_start !== nothing
        mxnet = changed(config.warp.mxnet; has_crop_start = true, crop_x_start = crop_start[1], crop_y_start = crop_start[2])
        config.warp = changed(config.warp; mxnet = mxnet)
    end
    config.filter = changed(config.filter; antialias = antialiased(antialias))
    if transform isa Ptr
        config.pipeline = changed(config.pipeline; transform = transform, transform_user = transform_user)
    elseif transform !== nothing
        called = @cfunction(bzna_pipeline_transform, Int32, (Ptr{Cvoid}, Ptr{bzna_sample_info}, Ptr{bzna_random}, Ptr{bzna_transform}))
        config.pipeline = changed(config.pipeline; transform = called, transform_user = pointer_from_objref(callbacks))
    end
    if picture isa Ptr
        config.pipeline = changed(config.pipeline; picture = picture, picture_user = picture_user)
    elseif picture !== nothing
        called = @cfunction(bzna_pipeline_picture, Int32, (Ptr{Cvoid}, Ptr{bzna_sample_info}, Ptr{bzna_random}, Ptr{bzna_picture}, Ptr{Ptr{Cvoid}}))
        config.pipeline = changed(config.pipeline; picture = called, picture_user = pointer_from_objref(callbacks))
    end

    chosen, numbers, others = optional(image), names_of(tensors), names_of(bytes)
    order = indices === nothing ? UInt64[] : UInt64[i - 1 for i in indices]
    indices === nothing || !isempty(order) || throw(ArgumentError("indices: there are none"))
    likely = weights === nothing ? Float64[] : Float64[weight for weight in weights]
    weights === nothing || !isempty(likely) || throw(ArgumentError("weights: there are none"))
    means = mean_image === nothing ? Float32[] : Vector{Float32}(vec(mean_image))
    names, fields = [output.name for output in outputs], [output.field for output in outputs]
    extras = bzna_loader_output[output.raw for output in outputs]
    warps = own_of([output.color === nothing ? with_colors(output.warp, config.warp.mxnet) : output.warp for output in outputs],
                   config.warp)
    filters = own_of([output.filter for output in outputs], config.filter)
    colors = own_of([output.color for output in outputs], config.color)
    policies = [policies_of(augment), (something(output.augment, Policy[]) for output in outputs)...]
    raw = raw_policies.(policies)
    config.augment = set_policies(config.augment, raw[1], beyond_crop)
    augments = bzna_loader_augment[set_policies(config.augment, raw[i + 1], output.beyond_crop) for (i, output) in enumerate(outputs)]
    raw_rules = bzna_rule[raw_rule(box) for box in boxes]
    kept = (callbacks, chosen, numbers, others, order, likely, means, names, fields, extras, warps, filters, colors, boxes, policies,
            raw, augments)
    GC.@preserve kept begin
        if mean_image !== nothing
            config.color = changed(config.color; mean_image = pointer(means), mean_image_bytes = sizeof(means))
        end
        for (i, output) in enumerate(outputs)
            extras[i] = changed(extras[i]; name = cstring(names[i]), field = cstring(fields[i]),
                                warp = address_or_null(warps, i, output.warp),
                                filter = address_or_null(filters, i, output.filter),
                                color = address_or_null(colors, i, output.color),
                                augment = address_or_null(augments, i, output.augment))
        end
        if !isempty(extras)
            config.extra_outputs = changed(config.extra_outputs; ptr = pointer(extras), count = length(extras))
        end
        config.fields = changed(config.fields; image = cstring(chosen), tensors = cstring(numbers), bytes = cstring(others))
        if weights !== nothing
            weighted = sized(bzna_formats_weights)
            weighted.weighting, weighted.by_part, weighted.epoch_samples = choice(WEIGHTINGS, weighting), weights_by_part, epoch_samples
            weighted.weights, weighted.weight_count = pointer(likely), length(likely)
            if indices !== nothing
                weighted.indices, weighted.index_count = pointer(order), length(order)
            end
        elseif indices !== nothing
            config.order = changed(config.order; indices = pointer(order), index_count = length(order))
        end
    end
    return Settings(config, callbacks, outputs, buffer, wrap, kept, raw_rules, weights === nothing ? nothing : weighted)
end

"""
    Loader(data; batchsize, size, keywords...)

Batches of an archive: `data` is a `Dataset`, or an argument for one (then `split`, `device`, `log` are the data set's). `for (x, y) in loader` runs one
epoch.

    batchsize = 1, size                   samples in a batch; (width, height) of the output, required
    shuffle = false, seed = 0             another order in each epoch; the seed of the order and of all random numbers
    partial = true, pad = false           the last batch when it is not full: shorter; with partial = false left out; with pad = true filled up
    data_padding, label_padding           the last batch is filled with pictures and targets of these numbers, as MXNet.jl's ArrayDataProvider does
    buffer = false                        true: a batch is given back when the next one is asked for
    warp = :none                          :random_resized_crop, :center_resized_crop, :similarity, :mxnet
    crop_area, crop_ratio                 pairs: area of a crop lo..hi, its width to its height lo..hi; the defaults depend on the warp.
                                          :center_resized_crop takes the fraction of the short edge as crop_area = (224/256, 0)
    degrees, translate                    pairs, and resize, keep_ratio, random_crop = false: of :similarity
    crops = :auto                         how crops are drawn: :torchvision, its way; :benzina, the original's; :auto: torchvision's of both resized crops
    flip = 0, flip_v = 0                  probabilities of mirroring
    rotate, shear                         on top of any warp, in degrees: lo, hi clockwise; lo, hi in x, lo, hi in y
    perspective = 0, perspective_p = 0    torchvision's RandomPerspective on top: how far corners go, 0..1; how often, 0: half the time
    brightness, contrast, saturation, hue random colors, as torchvision's ColorJitter: factors lo, hi; shifts of the hue -h, h
    grayscale = 0                         the probability of its RandomGrayscale
    mxnet_hls, mxnet_contrast = 0, mxnet_illumination = 0, mxnet_clamp_hue = false
                                          MXNet's random_h, _l, _s (a triple), and its max_random_...
    shear_ratio = 0, canvas_px, crop_px, pad_px = 0, short_edge_px = 0, crop_start
                                          for :mxnet: as ImageRecordProvider makes them from MXNet's parameters
    filter = :linear                      :nearest, :cubic, :lanczos (PIL's); :cubic_075, :lanczos4, :area (OpenCV's)
    antialias = true                      the filter is widened if a picture shrinks, as in PIL; false: it is not, as in OpenCV
    channels = :RGB                       :BGR, :gray (one channel, the luma); mean, std, bias, scale are in that order
    augment = ()                          `Policy`s, one after the other, behind the crop: [rand_augment(2, 9), random_erasing(0.25)]; `drawn`
                                          tells of them
    beyond_crop = false                   true: operations that move pixels bring in the picture beyond the crop, not the color outside
    mean, std                             triples, y = (x - mean) / std with x in 0..255; or bias, scale: y = (x - bias) * scale
    fill = (0, 0, 0)                      the out-of-bounds color
    tensors = nothing                     names of further numeric fields of batches, for `tensor`: ["id", "label:5"]
    bytes = nothing                       names of further fields of any kind, for `bytes`
    rules = ()                            `Rule`s for fields: one, or several
    geometry = false                      true: `tensor(batch, "geometry")` says how each view shows its picture: 16 numbers, as benzina.h has them
    views = 1                             of each sample, each with a random warp of its own; x has them one after the other: view v is
                                          x[:, :, :, (v-1)*n+1:v*n], n being the samples of the batch
    outputs = ()                          further `Output`s of the same decode, for `tensor`
    mean_image = nothing                  width x height x channels, a mean for each pixel in place of mean or bias
    image = nothing                       which picture: "image" or "thumb"; default: the thumbnail, unless the output is larger than 512
    indices = nothing                     the samples of an epoch, counted from 1, instead of all; :given: `set_indices!` or `set_batches!`
                                          gives those of each epoch
    weights = nothing                     how likely samples are drawn: a number for each; with weights_by_part = true for each part of a concatenation
    weighting = :replace                  each draw is independent of the others; :once: no sample comes twice in an epoch
    epoch_samples = 0                     draws in an epoch, with weights; 0: as many as samples
    on_error = :fill                      the treatment of a damaged sample: :fill, :replace, :stop
    on_callback_error = :stop             the treatment of a sample that a callback failed: :stop, whatever on_error is; :sample: as on_error says
    rank = 0, world_size = 1              this process's share
    epoch = 0                             the first one
    decoder = :auto                       :software, :nvdec; :auto is NVDEC if the device has it, and software for other pictures
    jpeg_decoder = :auto                  :nvdec: NVDEC decodes baseline JPEG of 4:2:0, too, or opening fails; pixels are near libjpeg-turbo's
    jpeg_shrink = false                   a JPEG that all its views shrink, with antialias, two-, four- or eightfold is decoded at 1/2, 1/4 or 1/8
    jpeg_shrink_margin = 0                with jpeg_shrink: how much all views must still shrink the decoded picture, 1 to 64; 0 is 1
    hybrid = false                        processors decode, too, while NVDEC has more pictures than it can begin; batches are the same; needs on_error = :fill
    threads, reader_threads, batches_in_flight, read_ahead, read_memory_bytes, read_retries, read_backoff_ns
                                          0: the library's defaults
    restore_any_pixels = false            true: `restore!` takes states of runs that made other pixels, too
    transform = nothing                   transform(sample::SampleInfo, random, t) changes how a view of a sample is made: see the top of Benzina.jl
    picture = nothing                     picture(sample, random, described, planes) draws into a decoded picture
    no_threads = false                    true: `iterate` reads and decodes on its own task's thread, and callbacks run there
    cuda = nothing                        number of the CUDA device that batches stay on; nothing: they are in host memory
    stream = C_NULL                       the CUstream that reads them there
    wrap = nothing                        a function that makes x of a batch's memory: wrap(pointer, dims), such as (p, dims) -> unsafe_wrap(CuArray,
                                          CuPtr{Float32}(UInt(p)), dims); it must make a mutable object. nothing: an Array, in host memory
    data_name = :data, label_name = :softmax_label
                                          their names in a data provider; label_name = nothing: there are none
    label = nothing                       the tensor that a data provider's labels are, of `tensors`; nothing: the targets
"""
mutable struct Loader <: AbstractDataProvider
    handle::Ptr{bzna_loader}
    dataset::Dataset
    shape::NTuple{4,Int}              # of a full batch: width, height, channels, samples
    samples::Int                      # in an epoch
    batches::Int
    in_flight::Int
    loans::Threads.Atomic{Int}        # batches that Julia has
    epoch::UInt64                     # that the last batch was of, and whether there are more of it
    midway::Bool
    iteration::Int                    # number of the one that is under way: those before it are superseded
    lists::Union{Nothing,Dict{UInt64,Tuple{Vector{UInt64},Vector{UInt32}}}}      # by epoch, what was given; nothing: another order
    drawn::Set{UInt64}                # epochs that have lists which were drawn by weights
    settings::Settings
    rules::Ptr{bzna_rules}            # C_NULL: it has none
    provides::Vector{Tuple{Symbol,String,Tuple}}    # of each array: its name, the tensor's, its shape
    labels::Vector{Tuple{Symbol,String,Tuple}}

    function Loader(data::Dataset; data_name::Symbol = :data, label_name::Union{Nothing,Symbol} = :softmax_label,
                    label::Union{Nothing,AbstractString} = nothing, keywords...)
        settings = Settings(; keywords...)
        config, err, out = settings.config, sized(bzna_error), Ref{Ptr{bzna_loader}}(C_NULL)
        config.pipeline.no_threads == 0 && callable_from_threads(data.box)
        rules = open_rules(settings, data)
        GC.@preserve settings data out err begin
            status = bzna_loader_open(data.context.handle, data.handle, address(config), Base.unsafe_convert(Ptr{Ptr{bzna_loader}}, out),
                                      address(err))
            forward_messages(data.context.log)
            status < 0 && bzna_formats_rules_close(rules)
            check(status, err, data.box)
        end
        info, drawn = sized(bzna_loader_info), Set{UInt64}()
        try
            draw!(drawn, out[], data, settings)
        catch
            bzna_loader_close(out[])
            bzna_formats_rules_close(rules)
            rethrow()
        end
        check(bzna_loader_get_info(out[], info, sizeof(bzna_loader_info), err), err)
        shape = shape_of(info.image)
        lists = config.order.kind == BZNA_ORDER_GIVEN && settings.weighted === nothing ? Dict{UInt64,Tuple{Vector{UInt64},Vector{UInt32}}}() : nothing
        return finalizer(close_later, new(out[], data, shape, info.samples_per_epoch, info.batches_per_epoch,
                                          info.batches_in_flight, Threads.Atomic{Int}(0), config.order.first_epoch, false, 0, lists, drawn, settings, rules,
                                          provided(data_name, shape, config.output.views, settings.outputs),
                                          provided_labels(label_name, label, shape[4])))
    end
end

# Draws lists by weights: that of the epoch in which the loader stands, and the next one, so that its samples are read ahead.
function draw!(drawn::Set{UInt64}, handle::Ptr{bzna_loader}, data::Dataset, settings::Settings)
    weighted = settings.weighted
    weighted === nothing && return nothing
    state, err = sized(bzna_loader_state), sized(bzna_error)
    check(bzna_loader_save(handle, state, sizeof(bzna_loader_state), err), err)
    filter!(epoch -> epoch >= state.epoch, drawn)
    weighted.seed = state.seed
    for epoch in (state.epoch, state.epoch + 1)
        (epoch >= state.end_epoch || epoch in drawn) && continue
        GC.@preserve settings data check(bzna_formats_weighted_give(handle, data.handle, weighted, epoch, err), err)
        push!(drawn, epoch)
    end
    return nothing
end

draw!(loader) = draw!(loader.drawn, loader.handle, loader.dataset, loader.settings)

# What the library calls on threads of its own: a source, or a callback.
callable_from_threads(::Union{Nothing,MemoryBox,Ptr}, version = VERSION) = nothing

function callable_from_threads(called, version = VERSION)
    version < v"1.9" || return nothing
    what = called isa SourceBox ? "a source's read_at!" : called isa SamplesBox ? "samples" : "transform, picture and rules"
    throw(ArgumentError(string("a loader asks for ", what, " on threads of the library, on which Julia runs from 1.9 on, not ", version,
                               ": give no_threads = true")))
end

num_exceptions(loader::Loader) = num_exceptions(loader.dataset) + num_exceptions(loader.settings.callbacks)
last_exception(loader::Loader) = something(last_exception(loader.settings.callbacks), Some(last_exception(loader.dataset)))

Loader(data; split::Union{Nothing,AbstractString} = nothing, device::Union{Symbol,Integer} = :auto, log::Symbol = :warning, keywords...) =
    Loader(Dataset(data; split = split, device = device, log = log); keywords...)

# Names with commas between them.
names_of(::Nothing) = nothing
names_of(name::AbstractString) = String(name)
names_of(names) = join(names, ",")
