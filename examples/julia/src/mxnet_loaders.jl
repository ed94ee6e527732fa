# ---- Loaders as data providers -------------------------------------------------------------------------------------------------------
# Every batch is full, as MXNet wants it, and count_samples says how many of its samples are real: with pad = true the library fills up the last
# one, otherwise get_data and get_label do, by zeros.

# What a loader provides: for each array its name, its tensor's, and its shape. Views lie one after the other in the pictures, and have a
# dimension of their own in further outputs.
function provided(name::Symbol, shape::NTuple{4,Int}, views::Integer, outputs)
    width, height, channels, samples = shape
    arrays = Tuple{Symbol,String,Tuple}[(name, "image", (width, height, channels, samples * Int(views)))]
    for output in outputs
        raw = output.raw
        own = (raw.width == 0 ? width : Int(raw.width), raw.height == 0 ? height : Int(raw.height),
               raw.channels == BZNA_CHANNELS_GRAY ? 1 : 3, samples)
        count = raw.views == 0 ? Int(views) : Int(raw.views)
        push!(arrays, (Symbol(output.name), output.name, count > 1 ? (own..., count) : own))
    end
    return arrays
end

provided_labels(::Nothing, label, samples) = Tuple{Symbol,String,Tuple}[]

function provided_labels(name::Symbol, label, samples)
    label === nothing && return Tuple{Symbol,String,Tuple}[(name, "target", (samples,))]
    field, width = match(r"^([^:]*):?(\d*)$", label).captures
    count = isempty(width) ? 1 : parse(Int, width)
    return Tuple{Symbol,String,Tuple}[(name, String(field), count == 1 ? (samples,) : (count, samples))]
end

shapes(arrays) = Tuple{Symbol,Tuple}[(name, shape) for (name, _, shape) in arrays]

get_batch_size(loader::Loader) = loader.shape[4]
provide_data(loader::Loader) = shapes(loader.provides)
provide_label(loader::Loader) = shapes(loader.labels)
count_samples(::Loader, batch::Batch) = batch.count

function get_data(loader::Loader, batch::Batch)
    return Any[name == "image" ? full_images(batch.data, shape, loader.shape[4], length(batch.targets)) : full(tensor(batch, name), shape)
               for (_, name, shape) in loader.provides]
end

function get_label(loader::Loader, batch::Batch)
    return Any[full(name == "target" ? batch.targets : length(shape) == 1 ? vec(tensor(batch, name)) : tensor(batch, name), shape)
               for (_, name, shape) in loader.labels]
end

# An array of a batch that is shorter than the others, filled up.
function full(array::AbstractArray, shape::Tuple)
    size(array) == shape && return array
    filled = fill!(similar(array, shape), 0)
    filled[map(count -> 1:count, size(array))...] = array
    return filled
end

# Views lie one after the other.
function full_images(data::AbstractArray, shape::Tuple, samples::Integer, real::Integer)
    size(data) == shape && return data
    views = shape[4] ÷ Int(samples)
    return reshape(full(reshape(data, size(data)[1:3]..., Int(real), views), (shape[1:3]..., Int(samples), views)), shape)
end

const INTER_METHODS = Dict{Int,Symbol}(0 => :nearest, 1 => :linear, 2 => :cubic_075, 3 => :area, 4 => :lanczos4)

# 9: cubic if both sides grow, area if both shrink, else linear; 10: any of the five. By a loader's `transform`.
function filter_of(inter_method::Integer)
    inter_method in (9, 10) || return nothing
    return function (sample, random, transform)
        h = transform.homography
        steps = (hypot(h[1], h[4]), hypot(h[2], h[5]))
        method = inter_method == 10 ? min(4, floor(Int, uniform!(random, 0, 5))) : maximum(steps) < 1 ? 2 : minimum(steps) > 1 ? 3 : 1
        transform.filter = choice(FILTERS, INTER_METHODS[method])
        transform.antialias = antialiased(method == 3)
    end
end

"""
    ImageRecordProvider(; path_imgrec, data_shape, batch_size, keywords...) -> Loader

Batches of a .rec, by the names of MXNet's parameters and with their defaults. `data_shape` is (width, height, channels), as in MXNet.jl. Labels are
Float32.

    path_imgidx, path_imglist = nothing   the .idx is the file next to the .rec; a .lst gives other labels
    label_width = 1, data_name = :data, label_name = :softmax_label
    shuffle = false, seed = 0, round_batch = true
                                          the last batch is always filled up, and the next epoch always begins with its first sample
    num_parts = 1, part_index = 0         this process's part, counted from 0
    mean_img = nothing                    an array of data_shape; an NDArray file's path: see `mean_image`
    mean_r, mean_g, mean_b = 0, std_r, std_g, std_b = 1, scale = 1
    resize = -1, rand_crop = false, mirror = false, rand_mirror = false, pad = 0, fill_value = 255
    max_rotate_angle = 0, rotate = -1, max_shear_ratio = 0, max_aspect_ratio = 0, min_random_scale = 1, max_random_scale = 1,
    min_img_size = 0, max_img_size = 1e10, min_crop_size = -1, max_crop_size = -1, crop_x_start = -1, crop_y_start = -1
    random_resized_crop = false, min_random_area = 1, max_random_area = 1, min_aspect_ratio = nothing
    random_h = 0, random_s = 0, random_l = 0, max_random_contrast = 0, max_random_illumination = 0
    brightness = 0, contrast = 0, saturation = 0
    inter_method = 1                      0 to 4, as in OpenCV; 9: cubic if pictures grow, area if they shrink, else linear; 10: any of the five.
                                          9 and 10 are drawn in Julia, before 1.9 on the thread that asks for a batch (`no_threads`)
    preprocess_threads = 0, prefetch_buffer = 0
                                          0: the library's defaults
    verbose, shuffle_chunk_size, shuffle_chunk_seed, dtype, ctx, aug_seq
                                          change nothing: all samples are shuffled, numbers are Float32

Further keywords are a `Loader`'s. Each epoch draws other random numbers, which are not MXNet's.
"""
function ImageRecordProvider(; path_imgrec::AbstractString, data_shape::Tuple{Integer,Integer,Integer}, batch_size::Integer,
                             path_imgidx = nothing, path_imglist::Union{Nothing,AbstractString} = nothing, label_width::Integer = 1,
                             shuffle::Bool = false, seed::Integer = 0, round_batch::Bool = true, num_parts::Integer = 1,
                             part_index::Integer = 0, mean_img = nothing, mean_r::Real = 0, mean_g::Real = 0, mean_b::Real = 0, mean_a::Real = 0,
                             std_r::Real = 1, std_g::Real = 1, std_b::Real = 1, std_a::Real = 1, scale::Real = 1, fill_value::Integer = 255,
                             random_h::Real = 0, random_s::Real = 0, random_l::Real = 0, max_random_contrast::Real = 0,
                             max_random_illumination::Real = 0, brightness::Real = 0, contrast::Real = 0, saturation::Real = 0,
                             pca_noise::Real = 0, inter_method::Integer = 1, preprocess_threads::Integer = 0, prefetch_buffer::Integer = 0,
                             verbose::Bool = true, shuffle_chunk_size::Integer = 0, shuffle_chunk_seed::Integer = 0, dtype = nothing,
                             ctx = nothing, aug_seq::AbstractString = "aug_default", device::Union{Symbol,Integer} = :auto, keywords...)
    width, height, channels = data_shape
    channels in (1, 3) || throw(ArgumentError("data_shape: $channels channels, not 1 or 3"))
    aug_seq == "aug_default" || throw(ArgumentError("aug_seq: only aug_default is known"))
    pca_noise == 0 || throw(ArgumentError("pca_noise: there is none"))
    haskey(INTER_METHODS, inter_method) || inter_method in (9, 10) || throw(ArgumentError("inter_method: $inter_method is not one of 0 to 4, 9, 10"))
    list = path_imglist === nothing || isempty(path_imglist) ? nothing : path_imglist
    warp, others = image_record_warp(; keywords...)
    around(b) = b == 0 ? nothing : (max(0, 1 - b), 1 + b)
    means = mean_img === nothing || mean_img == "" ? (bias = (mean_r, mean_g, mean_b),) :
            (mean_image = mean_img isa AbstractString ? mean_image(mean_img, data_shape) : mean_img,)
    label = label_width == 1 ? "label" : "label:$label_width"
    return Loader(Dataset(path_imgrec; list = list, device = device); batchsize = batch_size, size = (width, height), shuffle = shuffle,
                  seed = seed, pad = true, rank = part_index, world_size = num_parts, channels = channels == 1 ? :gray : :RGB,
                  filter = get(INTER_METHODS, inter_method, nothing), antialias = inter_method == 3, transform = filter_of(inter_method),
                  no_threads = inter_method in (9, 10) && VERSION < v"1.9", fill = (fill_value, fill_value, fill_value),
                  scale = (scale / std_r, scale / std_g, scale / std_b), mxnet_hls = (random_h, random_l, random_s), mxnet_clamp_hue = random_h != 0,
                  mxnet_contrast = max_random_contrast, mxnet_illumination = max_random_illumination, brightness = around(brightness),
                  contrast = around(contrast), saturation = around(saturation), tensors = [label], label = label,
                  threads = preprocess_threads, batches_in_flight = prefetch_buffer, means..., warp..., others...)
end

"`ImageRecordProvider`, by MXNet's name."
const ImageRecordIter = ImageRecordProvider

"The type of `ImageRecordProvider`, `CSVProvider` and `MNISTProvider`: providers of batches of files, as MXNet.jl calls them."
const MXDataProvider = Union{Loader,ArrayDataProvider}

# A loader's settings for the warp, and the keywords that are not about it.
function image_record_warp(; resize::Integer = -1, rand_crop::Bool = false, mirror::Bool = false, rand_mirror::Bool = false, pad::Integer = 0,
                           max_rotate_angle::Real = 0, rotate::Real = -1, max_shear_ratio::Real = 0, max_aspect_ratio::Real = 0,
                           min_random_scale::Real = 1, max_random_scale::Real = 1, min_img_size::Real = 0, max_img_size::Real = 1e10,
                           min_crop_size::Integer = -1, max_crop_size::Integer = -1, crop_x_start::Integer = -1, crop_y_start::Integer = -1,
                           random_resized_crop::Bool = false, min_random_area::Real = 1, max_random_area::Real = 1,
                           min_aspect_ratio::Union{Nothing,Real} = nothing, others...)
    flip = mirror ? 1 : rand_mirror ? 0.5 : 0
    if random_resized_crop
        ratio = min_aspect_ratio === nothing ? (1 - max_aspect_ratio, 1 + max_aspect_ratio) : (min_aspect_ratio, max_aspect_ratio)
        return (warp = :random_resized_crop, crops = :torchvision, crop_area = (min_random_area, max_random_area), crop_ratio = ratio, flip = flip), others
    end
    angle, crops = abs(max_rotate_angle), [size for size in (min_crop_size, max_crop_size) if size > 0]
    pixels(size) = size >= 1e6 ? 0 : floor(Int, size)
    return (warp = :mxnet, degrees = rotate > 0 ? (rotate, rotate) : (-angle, angle), shear_ratio = max_shear_ratio,
            crop_area = (min_random_scale, max_random_scale), crop_ratio = (1 - max_aspect_ratio, 1 + max_aspect_ratio),
            canvas_px = (pixels(min_img_size), pixels(max_img_size)), crop_px = isempty(crops) ? (0, 0) : (minimum(crops), maximum(crops)),
            pad_px = pad, short_edge_px = max(0, resize), random_crop = rand_crop,
            crop_start = crop_x_start < 0 && crop_y_start < 0 ? nothing : (max(0, crop_x_start), max(0, crop_y_start)), flip = flip), others
end

"""
    mean_image(path, (width, height, channels)) -> Array{Float32,3}

The mean image that MXNet wrote to an NDArray file: the array of that shape in it.
"""
function mean_image(path::AbstractString, shape::Tuple)
    for (_, array) in ndarrays(path)
        size(array) == shape && return array
    end
    throw(ArgumentError("$path has no array of size $shape"))
end

# The arrays of an NDArray file, dense and of Float32, and their names.
function ndarrays(path::AbstractString)
    open(path) do io
        refuse(what) = throw(ArgumentError("$path: $what"))
        number(type) = ltoh(read(io, type))
        number(UInt64) == 0x112 || refuse("no NDArray file")
        number(UInt64)
        arrays = Array{Float32}[]
        for _ in 1:number(UInt64)
            magic = number(UInt32)
            magic in (0xf993fac8, 0xf993fac9, 0xf993faca) || refuse("an array of a kind that is not known")
            magic == 0xf993fac8 || number(Int32) == 0 || refuse("a sparse array")
            dims = number(UInt32)
            dims <= 8 || refuse("an array of $dims dimensions")
            shape = Tuple(reverse([Int(number(Int64)) for _ in 1:dims]))        # row-major there
            number(Int32), number(Int32)                                        # the device
            number(Int32) == 0 || refuse("an array of other numbers than Float32")
            all(size -> 0 <= size <= 2^24, shape) && prod(Float64.(shape)) <= filesize(path) || refuse("truncated")
            push!(arrays, ltoh.(read!(io, Array{Float32}(undef, shape...))))
        end
        names = String[]
        for _ in 1:number(UInt64)
            bytes = number(UInt64)
            bytes <= filesize(path) || refuse("truncated")
            push!(names, String(read(io, bytes)))
        end
        return [(i <= length(names) ? names[i] : "") => array for (i, array) in enumerate(arrays)]
    end
end
