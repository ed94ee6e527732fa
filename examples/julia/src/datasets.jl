# ---- Data sets -----------------------------------------------------------------------------------------------------------------------

mutable struct Context
    handle::Ptr{bzna_context}
    log::Union{Nothing,LogBox}

    function Context(device::bzna_device, level::Int32)
        config, err, out = bzna_context_config(), sized(bzna_error), Ref{Ptr{bzna_context}}(C_NULL)
        bzna_context_config_init(config, sizeof(bzna_context_config))
        config.device = device
        config.own_codecs = LibBenzina.FORMATS[]
        box = level == LOG_LEVELS.none ? nothing : LogBox()
        if box !== nothing
            log = @cfunction(bzna_context_log, Cvoid, (Ptr{Cvoid}, Int32, Int32, Ptr{Cchar}))
            config.log, config.log_user, config.log_level = log, pointer_from_objref(box), level
        end
        check(bzna_context_open(config, out, err), err)
        return finalizer(close_later, new(out[], box))
    end
end

# One for each device and level of messages, shared by all data sets there, as a GPU's decoders are. None is closed before Julia ends: the
# library holds the address of its box.
const CONTEXTS = Dict{Tuple{bzna_device,Int32},Context}()
const CONTEXTS_LOCK = ReentrantLock()

function context_on(device::Symbol, log::Symbol = :warning)
    device in (:auto, :cpu) || throw(ArgumentError(string("device: ", repr(device), " is not :auto, :cpu or the number of a CUDA device")))
    return shared_context(bzna_device(device === :cpu ? BZNA_DEVICE_CPU : BZNA_DEVICE_AUTO, 0), log)
end

context_on(device::Integer, log::Symbol = :warning) = shared_context(bzna_device(BZNA_DEVICE_CUDA, device), log)

function shared_context(device::bzna_device, log::Symbol)
    level = choice(LOG_LEVELS, log)
    return lock(() -> get!(() -> Context(device, level), CONTEXTS, (device, level)), CONTEXTS_LOCK)
end

"""
    Dataset(path; keywords...)
    Dataset(paths; keywords...)
    Dataset(bytes; keywords...)
    Dataset(source; keywords...)

The samples of an archive, a folder of pictures, a tar shard, a .rec: a path, a vector of paths, which are laid end to end, a file's bytes
(a `Vector{UInt8}`, which must not be changed meanwhile), or a source of them (a seekable `IO`, or any type with methods of `read_at!` and
`total_bytes`). `from_arrays` and `from_samples` make one of pictures in memory, and of samples that Julia makes.

`length` says how many samples there are, `data[index]` is one of them, and `for sample in data` runs over all; see `Sample`, `target`, `name`,
`field` and `classes`.

    device = :auto                        for the loaders over it: a GPU if there is one; :cpu; or a CUDA device's number, counted from 0
    split = nothing                       of an archive: "train", "validation", "test"
    format = nothing                      "archive", "folder", "tar", ...: other kinds are refused
    list = nothing                        path of a list of samples: the files of a folder, or the labels of a .rec
    classes = nothing                     a folder's class folders, in the order of their numbers; default: all
    class_order = :text                   :numeric: "2" comes before "10"
    allow_empty = false                   true: class folders without pictures are classes, too; false: they are refused
    orientation = :apply                  :ignore: pictures are not rotated as their EXIF data says
    palette = :colors                     :index: pictures with a palette give indices as gray
    pairs = nothing                       folders in the folder whose files of the same names make one sample: "images,masks", or
                                          "image=a/images,mask=a/masks"
    records = nothing                     `Records(...)`: the file is a record file, such as CIFAR or MNIST
    target = nothing                      the field of integers, or an mp4's track of them, that is the target
    index = nothing                       the bytes of the index (.idx) of one tar or .rec, in place of the file next to it
    hold_bytes = 0                        how many bytes of files of records may be held in memory, which are read whole; 0: 256 MiB; 1: none
    name = nothing                        its name in error messages
    log = :warning                        messages of the library that Julia's logger receives: :none, :error, :warning, :info, :debug
"""
mutable struct Dataset
    handle::Ptr{bzna_dataset}
    context::Context
    # What the library reads as long as a loader runs; loaders keep their data set. nothing: it is a file.
    box::Union{Nothing,SourceBox,MemoryBox,SamplesBox}

    Dataset(handle::Ptr{bzna_dataset}, context::Context, box) = finalizer(close_later, new(handle, context, box))
end

function Dataset(path::AbstractString; device::Union{Symbol,Integer} = :auto, log::Symbol = :warning, keywords...)
    return open_dataset(nothing, context_on(device, log); keywords...) do context, config, out, err
        bzna_formats_open(context, path, config, out, err)
    end
end

function Dataset(paths::AbstractVector{<:AbstractString}; device::Union{Symbol,Integer} = :auto, log::Symbol = :warning, keywords...)
    strings = String[path for path in paths]
    return open_dataset(nothing, context_on(device, log); keywords...) do context, config, out, err
        GC.@preserve strings begin
            pointers = Cstring[cstring(string) for string in strings]
            bzna_formats_open_list(context, pointers, length(pointers), config, out, err)
        end
    end
end

function Dataset(bytes::Vector{UInt8}; device::Union{Symbol,Integer} = :auto, log::Symbol = :warning, keywords...)
    return open_dataset(MemoryBox(bytes), context_on(device, log); keywords...) do context, config, out, err
        GC.@preserve bytes bzna_formats_open_memory(context, pointer(bytes), length(bytes), config, out, err)
    end
end

function Dataset(source; device::Union{Symbol,Integer} = :auto, log::Symbol = :warning, keywords...)
    box = SourceBox(source isa IO ? IOSource(source) : source)
    return open_dataset(box, context_on(device, log); keywords...) do context, config, out, err
        read_at = @cfunction(bzna_source_read_at, Int64, (Ptr{Cvoid}, UInt64, Ptr{Cvoid}, UInt64))
        size = @cfunction(bzna_source_size, Int64, (Ptr{Cvoid},))
        # Nothing is to be closed: the box is collected when nobody can call it any more.
        GC.@preserve box begin
            functions = sized(bzna_source)
            functions.user, functions.read_at, functions.size = pointer_from_objref(box), read_at, size
            bzna_formats_open_source(context, functions, config, out, err)
        end
    end
end

"""
    Records(; width, height, channels, keywords...)

The contents of each record of a record file: `Dataset("train.bin"; records = Records(width = 32, height = 32, channels = 3, data_offset = 1, label =
:uint8))` is CIFAR-10. Bytes of one or three channels are pictures, the field "image"; any other data are the field "data", a vector.

    dtype = :uint8                        of the data: :int32, :int64, :float32
    layout = :planes                      of a picture's bytes: all of one channel, then the next; :pixels: the channels of one pixel, then the next
    label = :none                         :uint8, :int32, :int64: the field "target"; :float32: the field "label"
    data_offset = 0, label_offset = 0     where data and label begin in a record, in bytes
    header_bytes = 0, stride = 0          before the first record; of a record, where data and label are not all of it
    scale = 0, bias = 0                   numbers of vectors are x * scale + bias; a scale of 0 counts as 1
"""
function Records(; width::Integer, height::Integer, channels::Integer, dtype::Symbol = :uint8, layout::Symbol = :planes,
                 label::Symbol = :none, data_offset::Integer = 0, label_offset::Integer = 0, header_bytes::Integer = 0,
                 stride::Integer = 0, scale::Real = 0, bias::Real = 0)
    records = bzna_records()
    bzna_formats_records_init(records, sizeof(bzna_records))
    records.width, records.height, records.channels = width, height, channels
    records.data_type, records.layout, records.label_type = choice(RECORD_TYPES, dtype), choice(LAYOUTS, layout), choice(RECORD_TYPES, label)
    records.data_offset, records.label_offset = data_offset, label_offset
    records.header_bytes, records.stride, records.scale, records.bias = header_bytes, stride, scale, bias
    return records
end

# Calls open(context, config, out, err), and owns what it made.
function open_dataset(open, box, context; split = nothing, name = nothing, format = nothing, list = nothing, classes = nothing,
                      class_order::Symbol = :text, allow_empty::Bool = false, orientation::Symbol = :apply, palette::Symbol = :colors,
                      records::Union{Nothing,bzna_records} = nothing, pairs = nothing, target = nothing,
                      index::Union{Nothing,Vector{UInt8}} = nothing, hold_bytes::Integer = 0)
    config, err, out = bzna_dataset_config(), sized(bzna_error), Ref{Ptr{bzna_dataset}}(C_NULL)
    bzna_dataset_config_init(config, sizeof(bzna_dataset_config))
    strings = map(optional, (split, name, format, target, pairs, list))
    class_strings = classes === nothing ? String[] : String[class for class in classes]
    GC.@preserve strings class_strings context records index begin
        config.split, config.name, config.format, config.target = map(cstring, strings[1:4])
        pointers = Cstring[cstring(class) for class in class_strings]
        if !isempty(pointers)
            config.classes, config.class_count = pointer(pointers), length(pointers)
        end
        config.class_order, config.orientation = choice(CLASS_ORDERS, class_order), choice(ORIENTATIONS, orientation)
        config.allow_empty = allow_empty
        config.palette = choice(PALETTES, palette)
        if index !== nothing && !isempty(index)
            config.index, config.index_bytes = pointer(index), length(index)
        end
        formats = sized(bzna_formats_config)
        formats.dataset, formats.pairs, formats.list = address(config), cstring(strings[5]), cstring(strings[6])
        formats.hold_bytes = hold_bytes
        if records !== nothing
            formats.records = address(records)
        end
        status = GC.@preserve pointers config open(context.handle, formats, out, err)
        forward_messages(context.log)
        check(status, err, box)
    end
    return Dataset(out[], context, box)
end

Base.length(data::Dataset) = Int(bzna_dataset_count(data.handle))

"""
    num_exceptions(data)
    last_exception(data)

How many exceptions your code has thrown when the library called it for a data set or loader, and the last one of them; `nothing` where there was
none. They are those of a source's methods, of samples, of `transform`, `picture` and rules.
"""
num_exceptions(data::Dataset) = num_exceptions(data.box)

"See `num_exceptions`."
last_exception(data::Dataset) = last_exception(data.box)

"One sample of a data set: `data[index]`, counted from 1. `target(sample)`, `name(sample)`, `field(sample, name)` and `coded(sample)` read it."
struct Sample
    data::Dataset
    index::Int
end

Base.getindex(data::Dataset, indices::AbstractVector{<:Integer}) = [data[index] for index in indices]

function Base.getindex(data::Dataset, index::Integer)
    1 <= index <= length(data) || throw(BoundsError(data, index))
    return Sample(data, index)
end

Base.iterate(data::Dataset, index::Int = 1) = index > length(data) ? nothing : (Sample(data, index), index + 1)
Base.eltype(::Type{Dataset}) = Sample
Base.firstindex(::Dataset) = 1
Base.lastindex(data::Dataset) = length(data)
Base.keys(data::Dataset) = Base.OneTo(length(data))
Base.show(io::IO, data::Dataset) = print(io, "Benzina.Dataset(", isopen(data) ? string(length(data), " samples") : "closed", ")")
Base.show(io::IO, sample::Sample) = print(io, "Benzina.Sample(", sample.index, " of ", sample.data, ")")

target(sample::Sample) = target(sample.data, sample.index)
name(sample::Sample) = name(sample.data, sample.index)
field(sample::Sample, name::AbstractString) = field(sample.data, sample.index, name)

"The class of sample `index`, counted from 1; `nothing` if it has none."
function target(data::Dataset, index::Integer)
    err, out = sized(bzna_error), Ref{Int64}(BZNA_TARGET_NONE)
    check(bzna_dataset_target(data.handle, index - 1, out, err), err, data.box)
    return out[] == BZNA_TARGET_NONE ? nothing : out[]
end

"The name of sample `index`, counted from 1; `nothing` if it has none."
function name(data::Dataset, index::Integer)
    bytes = field(data, index, "name")
    return bytes === nothing ? nothing : String(bytes[1:end-1])     # without the NUL
end

"""
    field(data, index, name) -> Vector{UInt8}

One field of sample `index`, counted from 1; `nothing` if it has none. "image" and "thumb" are streams of their own (Annex B, OBUs),
"target" is an Int64, text such as "name" ends with a NUL.
"""
function field(data::Dataset, index::Integer, name::AbstractString)
    return value(data.box) do buffer, needed, err
        bzna_dataset_field(data.handle, index - 1, String(name), buffer, length(buffer), needed, err)
    end
end

# The bytes that get(buffer, needed, err) gives; nothing if there are none.
function value(get, box = nothing)
    err, needed, buffer = sized(bzna_error), Ref{Csize_t}(0), Vector{UInt8}(undef, 256)
    while true
        status = get(buffer, needed, err)
        if status == BZNA_E_NOT_FOUND
            return nothing
        elseif status == BZNA_E_BUFFER && needed[] > length(buffer)
            resize!(buffer, needed[])
        else
            check(status, err, box)
            return resize!(buffer, needed[])
        end
    end
end

"The names of a folder's classes, in the order of their numbers (of which the first is 0); none if classes have no names."
function classes(data::Dataset)
    names = String[]
    while true
        bytes = try
            value() do buffer, needed, err
                bzna_dataset_class(data.handle, length(names), buffer, length(buffer), needed, err)
            end
        catch error
            error isa BenzinaError && error.status == BZNA_E_RANGE || rethrow()
            nothing
        end
        bytes === nothing && return names
        push!(names, String(bytes[1:end-1]))
    end
end
