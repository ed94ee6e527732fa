# ---- Samples of a program's own: bzna_provider ---------------------------------------------------------------------------------------

# What the library's user pointer points to; the data set keeps it.
mutable struct SamplesBox
    samples::Any
    names::Vector{Symbol}             # of the fields
    kinds::Vector{UInt32}             # BZNA_FIELD_...
    taken::Dict{Int,Tuple{Int,Vector{Any}}}     # by thread: the sample that it asked for last, and its values
    lock::Threads.SpinLock
    thrown::Int                       # exceptions of samples
    last::Any                         # of these, the last one
end

SamplesBox(samples, names, kinds) = SamplesBox(samples, names, kinds, Dict{Int,Tuple{Int,Vector{Any}}}(), Threads.SpinLock(), 0, nothing)

# A field of samples; located: places say where its values lie. Its name must be preserved.
provider_field(name::String, kind::UInt32; located::Bool = false) = bzna_provider_field(cstring(name), kind, located, 0, 0, 0, 0, 0, 0, (0, 0))

"""
    from_arrays(images, labels = nothing; classes = nothing, keywords...) -> Dataset

Pictures that are in memory: `images` is a `Vector{Vector{UInt8}}`, each the bytes of a file (JPEG, PNG, ...), and `labels` has an integer for
each of them, or `nothing` if there is none. The library reads the images in place, and calls no Julia: they must not be changed or
resized while the data set or a loader over it is open. `classes` are names of labels 0, 1, ...; further keywords are `device`, `log`,
`orientation` and `palette` of a `Dataset`.
"""
function from_arrays(images::AbstractVector{Vector{UInt8}}, labels::Union{Nothing,AbstractVector} = nothing; classes = nothing,
                     device::Union{Symbol,Integer} = :auto, log::Symbol = :warning, keywords...)
    labels === nothing || length(labels) == length(images) ||
        throw(ArgumentError("labels: $(length(labels)) of them, but $(length(images)) images"))
    pictures = collect(images)
    targets = labels === nothing ? Int64[] : Int64[something(label, BZNA_TARGET_NONE) for label in labels]
    place(data, size) = bzna_place(data, 0, size, 0)
    names, places = ("image", "target"), bzna_place[]
    fields = [provider_field(names[1], BZNA_FIELD_IMAGE; located = true)]
    labels === nothing || push!(fields, provider_field(names[2], BZNA_FIELD_INTEGER; located = true))
    for (i, picture) in enumerate(pictures)
        push!(places, place(pointer(picture), length(picture)))
        labels === nothing || push!(places, place(pointer(targets, i), labels[i] === nothing ? BZNA_NO_VALUE : sizeof(Int64)))
    end
    class_names = classes === nothing ? String[] : String[class for class in classes]
    class_pointers = Cstring[cstring(class) for class in class_names]
    kept = (pictures, targets, names, fields, places, class_names, class_pointers)
    return open_dataset(MemoryBox(kept), context_on(device, log); keywords...) do context, config, out, err
        GC.@preserve kept begin
            provider = bzna_provider()
            bzna_provider_init(provider, sizeof(bzna_provider))
            provider.count, provider.fields, provider.field_count = length(pictures), pointer(fields), length(fields)
            provider.places = pointer(places)
            if !isempty(class_pointers)
                provider.classes, provider.class_count = pointer(class_pointers), length(class_pointers)
            end
            bzna_dataset_open_provider(context, provider, config.dataset, out, err)
        end
    end
end

# Names and kinds of the fields, in the order of the first sample; a Dict has none of its own, and is sorted.
function fields_of(sample, kinds)
    given = Pair{Symbol,UInt32}[name => choice(KINDS, kind) for (name, kind) in pairs(kinds)]
    found = Pair{Symbol,UInt32}[]
    for name in (sample isa AbstractDict ? sort!(collect(keys(sample))) : keys(sample))
        haskey(kinds, name) && continue
        is_absent(sample[name]) && throw(ArgumentError("$name: the first sample has nothing there, so that kinds must say what it is"))
        push!(found, name => kind_of(name, sample[name]))
    end
    return vcat(given, found)
end

is_absent(value) = value === nothing || value === missing

# A sample's fields by their names.
named(sample::NamedTuple) = sample
named(sample::AbstractDict) = Dict{Symbol,Any}(Symbol(name) => value for (name, value) in sample)
named(sample::Tuple{Any}) = (image = sample[1],)
named(sample::Tuple{Any,Any}) = (image = sample[1], target = sample[2])
named(sample::Tuple) = throw(ArgumentError("a sample is an image, a pair of image and target, or fields by name, not $(length(sample)) things"))
named(sample) = (image = sample,)

const PICTURE_NAMES = split("image mask jpg jpeg jpe jfif png ppm pgm pbm pnm webp bmp gif tif tiff jp2 heic heif hif avif")

kind_of(name, ::AbstractString) = BZNA_FIELD_TEXT
kind_of(name, ::Integer) = BZNA_FIELD_INTEGER
kind_of(name, ::Union{Real,AbstractArray{<:Real}}) = BZNA_FIELD_VECTOR
kind_of(name, ::Union{AbstractMatrix{UInt8},AbstractArray{UInt8,3}}) = BZNA_FIELD_IMAGE
kind_of(name, ::AbstractVector{UInt8}) = last(split(string(name), '.')) in PICTURE_NAMES ? BZNA_FIELD_IMAGE : BZNA_FIELD_BYTES
kind_of(name, value) = throw(ArgumentError("$name: a $(typeof(value)) is neither a picture, a number, numbers, text nor bytes"))

# A value as C has it.
function value_for(kind::UInt32, value)
    kind == BZNA_FIELD_IMAGE && return picture_file(value)
    kind == BZNA_FIELD_INTEGER && return Int64[value]
    kind == BZNA_FIELD_VECTOR && return Float32[number for number in value]
    return kind == BZNA_FIELD_TEXT ? Vector{UInt8}(String(value)) : Vector{UInt8}(value)
end

# The bytes of a picture's file; pixels become one that says its own size.
picture_file(bytes::AbstractVector{UInt8}) = Vector{UInt8}(bytes)
picture_file(gray::AbstractMatrix{UInt8}) = vcat(codeunits("P5\n$(size(gray, 1)) $(size(gray, 2))\n255\n"), vec(gray))

function picture_file(pixels::AbstractArray{UInt8,3})
    width, height, channels = size(pixels)
    channels == 1 && return picture_file(pixels[:, :, 1])
    channels == 3 || throw(ArgumentError("pixels: $channels channels, not 1 or 3"))
    return vcat(codeunits("P6\n$width $height\n255\n"), vec(permutedims(pixels, (3, 1, 2))))
end

# The values of a sample. Threads ask for its fields one after the other, and perhaps twice: a sample is taken once.
function values_of(box::SamplesBox, index::Int)
    thread = Threads.threadid()
    taken = lock(() -> get(box.taken, thread, nothing), box.lock)
    taken === nothing || taken[1] != index || return taken[2]
    sample = named(box.samples[index+1])
    values = Any[is_absent(value) ? nothing : value_for(kind, value)
                 for (kind, value) in ((kind, get(sample, name, nothing)) for (name, kind) in zip(box.names, box.kinds))]
    lock(() -> box.taken[thread] = (index, values), box.lock)
    return values
end

function bzna_provider_read(user::Ptr{Cvoid}, index::UInt64, field::UInt32, buffer::Ptr{Cvoid}, capacity::UInt64, size::Ptr{UInt64}, err::Ptr{bzna_error})::Int32
    return called(SamplesBox, user, exception -> exception isa IO_EXCEPTIONS ? BZNA_E_IO : BZNA_E_CALLBACK) do box
        value = values_of(box, Int(index))[field+1]
        value === nothing && return BZNA_E_NOT_FOUND
        unsafe_store!(size, sizeof(value))
        sizeof(value) <= capacity && GC.@preserve value unsafe_copyto!(Ptr{UInt8}(buffer), Ptr{UInt8}(pointer(value)), sizeof(value))
        return BZNA_OK
    end
end

"""
    from_samples(samples; kinds = (;), classes = nothing, fingerprint = 0, keywords...) -> Dataset

Samples that Julia makes: `samples` has `length(samples)` and `samples[i]`, as a Vector or MLUtils' data have them. A sample is a NamedTuple or a Dict of
fields, or a tuple (image, target), or an image alone. It must be the same whenever it is asked for. The first sample decides the kinds of its fields:

    a picture     a Vector{UInt8}, the bytes of a file (JPEG, PNG, ...); or an Array{UInt8} of pixels, width x height or width x height x channels
    an integer    an Integer: the field "target" is the target
    a vector      a Real or an array of them, as Float32
    text, bytes   an AbstractString; a Vector{UInt8} in a field that is not named as pictures are

    kinds = (;)           the kinds, if the first sample has `nothing` or another kind: (mask = :picture, box = :vector), or :integer, :text, :bytes
    classes = nothing     names of targets 0, 1, ...
    fingerprint = 0       tells these samples from others: a state of a loader over other ones is then refused

A later sample may have `nothing` or `missing`, or lack fields. An exception of `samples[i]` fails that sample (`num_exceptions`, `last_exception`). A loader asks on
its reader threads, several at once if `reader_threads` is above 1, which needs Julia 1.9, or no_threads = true. Further keywords are `device`, `log`,
`orientation` and `palette` of a `Dataset`.
"""
function from_samples(samples; kinds = NamedTuple(), classes = nothing, fingerprint::Integer = 0, device::Union{Symbol,Integer} = :auto,
                      log::Symbol = :warning, keywords...)
    length(samples) > 0 || throw(ArgumentError("samples: there are none"))
    named_kinds = fields_of(named(samples[1]), kinds)
    box = SamplesBox(samples, first.(named_kinds), last.(named_kinds))
    names = String[string(name) for name in box.names]
    class_names = classes === nothing ? String[] : String[class for class in classes]
    return open_dataset(box, context_on(device, log); keywords...) do context, config, out, err
        GC.@preserve box names class_names begin
            fields = [provider_field(name, kind) for (name, kind) in zip(names, box.kinds)]
            class_pointers = Cstring[cstring(class) for class in class_names]
            provider = bzna_provider()
            bzna_provider_init(provider, sizeof(bzna_provider))
            provider.count, provider.fields, provider.field_count = length(samples), pointer(fields), length(fields)
            provider.user, provider.fingerprint = pointer_from_objref(box), fingerprint
            provider.read = @cfunction(bzna_provider_read, Int32, (Ptr{Cvoid}, UInt64, UInt32, Ptr{Cvoid}, UInt64, Ptr{UInt64}, Ptr{bzna_error}))
            if !isempty(class_pointers)
                provider.classes, provider.class_count = pointer(class_pointers), length(class_pointers)
            end
            # Nothing is to be closed: the box is collected when nobody can call it any more.
            GC.@preserve fields class_pointers bzna_dataset_open_provider(context, provider, config.dataset, out, err)
        end
    end
end
