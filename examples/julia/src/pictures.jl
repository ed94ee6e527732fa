# ---- Single pictures -----------------------------------------------------------------------------------------------------------------

"""
    Decoder()

Decodes single pictures, in software: see `decode`. One task at a time may use it.
"""
mutable struct Decoder
    handle::Ptr{bzna_decoder}
    context::Context

    function Decoder()
        context, err, out = context_on(:cpu), sized(bzna_error), Ref{Ptr{bzna_decoder}}(C_NULL)
        check(bzna_decoder_open(context.handle, out, err), err)
        return finalizer(close_later, new(out[], context))
    end
end

# Decoders that nobody uses. Several tasks have one each.
const IDLE_DECODERS = Decoder[]
const IDLE_DECODERS_LOCK = ReentrantLock()

function with_decoder(f)
    decoder = lock(() -> isempty(IDLE_DECODERS) ? nothing : pop!(IDLE_DECODERS), IDLE_DECODERS_LOCK)
    decoder === nothing && (decoder = Decoder())
    try
        return f(decoder)
    finally
        lock(() -> push!(IDLE_DECODERS, decoder), IDLE_DECODERS_LOCK)
    end
end

"""
    decode(coded; keywords...) -> Array
    decode(decoder, coded; keywords...)

The pixels of one coded picture, width x height x channels: of `coded(data, index)`, or of the bytes of a picture file.

    size = nothing                        (width, height); nothing: as large as the picture
    warp = :center_resized_crop           the warp to that size: :random_resized_crop, ..., with crop_area, crop_ratio, crops, flip, flip_v
    seed = 0, epoch = 0, index = 1        which random numbers a warp takes: those of a loader's sample `index`, counted from 1
    uint8 = false                         UInt8 instead of Float32, of 0..255
    channels = :RGB                       :BGR, :gray; :auto: :gray of a picture in gray, else :RGB
    filter = :linear, antialias = true    as a loader's
"""
decode(coded::Union{Coded,Vector{UInt8}}; keywords...) = with_decoder(decoder -> decode(decoder, coded; keywords...))

decode(decoder::Decoder, bytes::Vector{UInt8}; keywords...) = decode(decoder, Coded(bytes); keywords...)

function decode(decoder::Decoder, coded::Coded; size::Union{Nothing,Tuple{Integer,Integer}} = nothing, warp::Symbol = :center_resized_crop,
                crop_area = nothing, crop_ratio = nothing, crops::Symbol = :auto, flip::Real = 0, flip_v::Real = 0, seed::Integer = 0,
                epoch::Integer = 0, index::Integer = 1, uint8::Bool = false, channels::Symbol = :RGB, filter::Symbol = :linear,
                antialias::Bool = true)
    err, picture = sized(bzna_error), sized(bzna_picture)
    config, transform, output = bzna_loader_config(), bzna_transform(), sized(bzna_output)
    bzna_loader_config_init(config, sizeof(bzna_loader_config))                 # whose groups are zero
    drawn = drawn_warp(config.warp, warp, crop_area, crop_ratio, crops, flip, flip_v)
    bzna_transform_init(transform, sizeof(bzna_transform))
    transform.filter, transform.antialias = choice(FILTERS, filter), antialiased(antialias)
    output.dtype = uint8 ? BZNA_DTYPE_UINT8 : BZNA_DTYPE_FLOAT32
    GC.@preserve coded decoder begin
        check(bzna_decoder_decode(decoder.handle, coded.image, picture, err), err)
        turned = picture.orientation >= 5                                       # by a quarter: EXIF's numbers
        own = turned ? (picture.height, picture.width) : (picture.width, picture.height)
        width, height = size === nothing ? own : size
        channels === :auto && (channels = picture.plane[2] == C_NULL ? :gray : :RGB)
        output.width, output.height, output.channels = width, height, choice(CHANNELS, channels)
        if size !== nothing
            random, homography = Ref(bzna_random((0, 0), (0, 0, 0, 0), (0, 0, 0, 0), 0, 0)), zeros(Float64, 9)
            bzna_random_init(random, UInt64(seed), UInt64(epoch), UInt64(index - 1), BZNA_RANDOM_WARP)
            check(bzna_warp_draw(random, Ref(drawn), own[1], own[2], width, height, homography, err), err)
            transform.homography = NTuple{9,Float64}(homography)
        end
        pixels = Array{uint8 ? UInt8 : Float32}(undef, width, height, output.channels == BZNA_CHANNELS_GRAY ? 1 : 3)
        check(bzna_picture_render(picture, transform, output, pixels, sizeof(pixels), err), err)
        return pixels
    end
end

"""
    Pictures(data; size, keywords...)

The samples of a data set as observations, as MLUtils has them: `length(pictures)`; `pictures[i]` is the pixels of sample i, width x height x
channels, and its class; `pictures[[3, 1, 2]]` is a batch, width x height x channels x samples, and a vector of classes (-1 where there is
none). MLUtils' `numobs`, `getobs` and `DataLoader` take it. `epoch!(pictures, n)` says which random numbers come next. Pictures are decoded
one by one, on the task that asks; a `Loader` decodes many at once. Keywords are those of `decode`, `data` is a `Dataset` or an argument for one.

    image = "image"                       the field that is decoded
"""
mutable struct Pictures
    data::Dataset
    size::Tuple{Int,Int}
    image::String
    epoch::Int
    keywords::NamedTuple

    Pictures(data::Dataset; size::Tuple{Integer,Integer}, image::AbstractString = "image", epoch::Integer = 0, keywords...) =
        new(data, size, String(image), epoch, values(keywords))
end

Pictures(data; size, keywords...) = Pictures(Dataset(data); size = size, keywords...)

Base.length(pictures::Pictures) = length(pictures.data)
Base.firstindex(::Pictures) = 1
Base.lastindex(pictures::Pictures) = length(pictures)
Base.iterate(pictures::Pictures, index::Int = 1) = index > length(pictures) ? nothing : (pictures[index], index + 1)

class_of(pictures::Pictures, index::Integer) = something(target(pictures.data, index), BZNA_TARGET_NONE)

function pixels_of(pictures::Pictures, index::Integer)
    sample = pictures.data[index]
    return decode(coded(sample, pictures.image); size = pictures.size, epoch = pictures.epoch, index = index, pictures.keywords...)
end

Base.getindex(pictures::Pictures, index::Integer) = (pixels_of(pictures, index), class_of(pictures, index))

function Base.getindex(pictures::Pictures, indices::AbstractVector{<:Integer})
    isempty(indices) && throw(ArgumentError("a batch of no pictures"))
    pixels = [pixels_of(pictures, index) for index in indices]
    batch = similar(pixels[1], size(pixels[1])..., length(pixels))
    for (i, x) in enumerate(pixels)
        copyto!(view(batch, :, :, :, i), x)
    end
    return batch, Int64[class_of(pictures, index) for index in indices]
end

"Which epoch's random numbers `pictures` takes from now on, counted from 0."
function epoch!(pictures::Pictures, epoch::Integer)
    pictures.epoch = epoch
    return pictures
end
