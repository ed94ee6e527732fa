# ---- Writers -------------------------------------------------------------------------------------------------------------------------

"A coded picture: `coded(data, index)`, or `Coded(bytes)` of a picture file's bytes, of which a `Writer` takes JPEG, and `decode` all kinds."
struct Coded
    image::bzna_image
    bytes::Vector{UInt8}              # what it points into
    data::Union{Nothing,Dataset}
end

function Coded(bytes::Vector{UInt8})
    image = sized(bzna_image)
    image.codec, image.data, image.data_size = codec_of(bytes), pointer(bytes), length(bytes)
    return Coded(image, bytes, nothing)
end

# The library tells its other kinds apart; those of the codecs have numbers of their own.
function codec_of(bytes::Vector{UInt8})
    length(bytes) > 1 && bytes[1:2] == [0xff, 0xd8] && return BZNA_CODEC_JPEG
    own = RECOGNIZE[] == C_NULL ? UInt32(0) : ccall(RECOGNIZE[], UInt32, (Ptr{UInt8}, UInt64), bytes, length(bytes))
    return own == 0 ? BZNA_CODEC_STILL : own
end

coded(sample::Sample, field::AbstractString = "image") = coded(sample.data, sample.index, field)

"A picture of sample `index`, counted from 1, as it is coded; `field` is \"image\" or \"thumb\"."
function coded(data::Dataset, index::Integer, field::AbstractString = "image")
    err, sample, image = sized(bzna_error), sized(bzna_sample_ref), sized(bzna_image)
    check(bzna_dataset_sample(data.handle, index - 1, sample, sizeof(bzna_sample_ref), err), err)
    bytes = Vector{UInt8}(undef, sample.size)
    status = bzna_dataset_read_image(data.handle, index - 1, String(field), bytes, length(bytes), image, err)
    if status == BZNA_E_BUFFER                      # what a codec copies to unwrap the picture follows the sample
        resize!(bytes, 2 * sample.size + 65536)
        status = bzna_dataset_read_image(data.handle, index - 1, String(field), bytes, length(bytes), image, err)
    end
    check(status, err, data.box)
    return Coded(image, bytes, data)
end

"""
    Writer(path; classes = String[], queue_bytes = 0)
    Writer(path; ...) do writer ... end

Writes an archive, which replaces a file that is there. At the end of the block it is finished, as by `finish!`; after an exception, or `close`
alone, it is left unfinished: readers refuse it, and `bzna index` makes an archive of its samples.

    classes = String[]                    the names of the targets 0, 1, ...
    queue_bytes = 0                       memory for samples that wait for those of smaller indices; 64 MiB if it is 0
"""
mutable struct Writer
    handle::Ptr{bzna_writer}
    context::Context

    function Writer(path::AbstractString; classes = String[], queue_bytes::Integer = 0)
        config, err, out = bzna_writer_config(), sized(bzna_error), Ref{Ptr{bzna_writer}}(C_NULL)
        bzna_writer_config_init(config, sizeof(bzna_writer_config))
        context, strings = context_on(:auto), String[class for class in classes]
        GC.@preserve strings context begin
            pointers = Cstring[cstring(class) for class in strings]
            if !isempty(pointers)
                config.classes, config.class_count = pointer(pointers), length(pointers)
            end
            config.queue_bytes = queue_bytes
            GC.@preserve pointers check(bzna_writer_open(context.handle, String(path), config, out, err), err)
        end
        return finalizer(close_later, new(out[], context))
    end
end

function Writer(write::Function, path::AbstractString; keywords...)
    writer = Writer(path; keywords...)
    try
        write(writer)
        finish!(writer)
    finally
        close(writer)
    end
end

# The kind of a field's value, and the value as C has it.
field_value(value::Integer) = (BZNA_FIELD_INTEGER, Int64[value])
field_value(value::AbstractString) = (BZNA_FIELD_TEXT, Vector{UInt8}(String(value)))
field_value(value::AbstractVector{UInt8}) = (BZNA_FIELD_BYTES, Vector{UInt8}(value))
field_value(value::AbstractArray{<:Real}) = (BZNA_FIELD_VECTOR, Vector{Float32}(vec(value)))
field_value(value::Real) = (BZNA_FIELD_VECTOR, Float32[value])

"""
    add!(writer, image::Coded; target = nothing, name = nothing, thumb = nothing, split = :none, fields = (;), index = nothing, timeout = 60)

Adds a sample. `fields` are named integers, texts, bytes (`Vector{UInt8}`) and numbers: `(caption = "a dog", box = [1, 2, 30, 40])`. `thumb` is
another `Coded`; without one the picture itself serves, if its frame is at most 512x512. `split` is :train, :validation, :test. With an `index`, counted
from 1, samples may come in any order, from several threads: if a sample's turn does not come within `timeout` seconds, and no room is left for
it, it is refused. A sample that is refused leaves the archive as it was.
"""
function add!(writer::Writer, image::Coded; target::Union{Nothing,Integer} = nothing, name::Union{Nothing,AbstractString} = nothing,
              thumb::Union{Nothing,Coded} = nothing, split::Symbol = :none, fields = (;), index::Union{Nothing,Integer} = nothing,
              timeout::Real = 60)
    sample, label = bzna_writer_sample(), optional(name)
    bzna_writer_sample_init(sample, sizeof(bzna_writer_sample))
    names, contents = String[string(key) for key in keys(fields)], [field_value(value) for value in values(fields)]
    GC.@preserve sample label names contents image thumb begin
        all = bzna_field_value[bzna_field_value(sizeof(bzna_field_value), kind, cstring(key), pointer(bytes), sizeof(bytes))
                               for (key, (kind, bytes)) in zip(names, contents)]
        sample.image, sample.thumb = address(image.image), thumb === nothing ? C_NULL : address(thumb.image)
        sample.target, sample.has_target = something(target, 0), target !== nothing
        sample.name, sample.split = cstring(label), choice(SPLITS, split)
        if !isempty(all)
            sample.fields, sample.field_count = pointer(all), length(all)
        end
        GC.@preserve all put(writer, address(sample), index, timeout)
    end
    return writer
end

"No sample comes at this index, counted from 1: those behind it move up."
skip!(writer::Writer, index::Integer; timeout::Real = 60) = put(writer, Ptr{bzna_writer_sample}(C_NULL), index, timeout)

function put(writer::Writer, sample::Ptr{bzna_writer_sample}, index, timeout)
    err, deadline = sized(bzna_error), time() + timeout
    GC.@preserve writer err while true
        place = index === nothing ? BZNA_INDEX_NEXT : UInt64(index - 1)
        status = bzna_writer_add(writer.handle, place, sample, 100_000_000, address(err))
        check(status, err)
        status == BZNA_AGAIN || return nothing
        time() < deadline || throw(BenzinaError(status, "the sample was not taken: those of smaller indices are missing", nothing, 0))
    end
end

"Writes the index, and closes the file."
function finish!(writer::Writer)
    err = sized(bzna_error)
    GC.@preserve writer err check(bzna_writer_finish(writer.handle, address(err)), err)
    close(writer)
end
