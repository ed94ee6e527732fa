# Benzina.jl - pictures for training neural networks, decoded as fast as the hardware can: Julia bindings of benzina.h
#
#     include("examples/julia/Benzina.jl")
#
#     loader = Benzina.Loader("train.bzna"; batchsize = 256, size = (224, 224), shuffle = true, seed = 1234,
#                             warp = :random_resized_crop, flip = 0.5)
#     for epoch in 1:90
#         for (x, y) in loader                  # x: 224x224x3x256 Array{Float32}, W x H x C x N; y: Vector{Int64}
#             train!(model, gpu(x), y)
#         end
#     end
#
# Julia 1.5 or newer, and libbenzina.so: the one that `make` puts into build/ of this repository, or the one that the environment
# variable BENZINA_LIBRARY names when this file is read. Loaders over sources that Julia reads need Julia 1.9: see below.
#
# A loader is a data loader as MLUtils has them: `length` says how many batches an epoch has, and each `for` runs one epoch, in another
# order when shuffled. The next epoch is being decoded while the last one is being used. It is also a data provider as MXNet.jl has them:
# `provide_data`, `provide_label`, `get_batch_size`, `eachbatch`, `count_samples`, `get_data`, `get_label`, `load_data!`, `load_label!`.
#
# A loader runs one epoch at a time. If a `for` begins while another one over the same loader is not over, the new one takes the next
# epoch, and the next step of the old one raises a BenzinaError (E_STATE). `restore!` ends a `for` in the same way.
#
# Memory. `x` is the library's own memory, not a copy, and is given back when `x` and everything made of it by `reshape` or `vec` has been
# collected. Only `batches_in_flight` batches exist, so the loader asks the garbage collector for them when few are left. It need not:
#
#     buffer = true         `x` is given back when the next batch is asked for: copy what you want to keep (MLUtils has the same option)
#     release!(x)           gives `x` back now; it must not be used afterwards
#
# Bytes that are no local file. A `Vector{UInt8}` is read where it lies, by the library alone: it must not be changed while the data set
# or a loader over it is open. Anything else is a source, read through `read_at!` and `total_bytes`: any seekable IO, and types of your
# own with these two methods:
#
#     struct Ranged; url::String; bytes::Int; end
#     Benzina.total_bytes(r::Ranged) = r.bytes
#     Benzina.read_at!(r::Ranged, buffer::Vector{UInt8}, offset::Int) = ranged_get!(buffer, r.url, offset)     # how many bytes it copied
#     loader = Benzina.Loader(Ranged("https://...", 1234); batchsize = 256, size = (224, 224))
#
# A loader calls `read_at!` on the library's reader threads, several at once where reader_threads is above 1. Julia adopts such threads
# from version 1.9 on. Older versions open data sets over sources, and read their samples and fields, but refuse loaders over them.
# `read_at!` may allocate, but should not switch tasks: no channels, no `wait`, no sockets of Julia's own. It may throw: an IOError,
# SystemError or EOFError costs the sample, and any other exception ends the run. `num_exceptions` counts what was thrown, and
# `last_exception` returns the last of it. All this needs a library whose threads leave SIGSEGV unblocked, since Julia's safepoints are
# faults. Paths do not, since no Julia runs on the library's threads then.
#
# The callbacks of a loader have no form of Julia's own: `transform = pointer, transform_user = data` and `picture` take a @cfunction of
# bzna_transform_fn and bzna_picture_fn (benzina.h), or a C library's. They are called on the decoders' threads, several at once: a
# @cfunction needs Julia 1.9 there, and what is said above holds. The same would hold for the functions of a bzna_provider, which this file does
# not wrap: below 1.9, a provider can have a table of places only.
#
# Samples are counted from 1, as everything in Julia is. Resuming: `save(loader)` gives 128 bytes, `restore!(loader, bytes)` goes on there.
#
# GPU. Where there is one, it decodes and warps (`device = :cpu` or `decoder = :software` say otherwise), and batches come to host memory, where
# an Array can be: `x` is the same then, bit for bit. `device(loader)` says which it is, or why there is none.
#
# Nothing is exported: write Benzina.Loader, or `using .Benzina: Loader, eachbatch`.
#
# Structs and constants are those of header.jl, which `make bindings` makes from benzina.h. tests/test_julia.sh holds them, and every call
# and callback of this file, against benzina.h by means of the C compiler.
module Benzina

# ---- benzina.h, as far as it is used here ------------------------------------------------------------------------------------------
# Structs that C fills in are mutable, with an empty constructor: `sized` zeroes them and sets struct_size. Those that lie inside them are
# values, which `changed` makes anew with some of their fields changed. Calls that may wait for callbacks written in Julia are @gcsafe,
# and take plain pointers.

module LibBenzina

const libbenzina = get(ENV, "BENZINA_LIBRARY") do
    built = normpath(joinpath(@__DIR__, "..", "..", "build", "libbenzina.so"))
    isfile(built) ? built : "libbenzina"
end

include("header.jl")

# A call during which the garbage collector need not wait for this thread: other threads may be in callbacks and allocate there, and a
# collection that waited for this one would never begin. Nothing of Julia's may be touched inside, so arguments are plain already.
macro gcsafe(call)
    if VERSION >= v"1.12"       # which has a word for it: @ccall gc_safe = true f(...)::T
        return esc(Expr(:macrocall, call.args[1], call.args[2], :(gc_safe = true), call.args[3:end]...))
    end
    return quote
        state = ccall(:jl_gc_safe_enter, Int8, ())
        result = $(esc(call))
        ccall(:jl_gc_safe_leave, Cvoid, (Int8,), state)
        result
    end
end

bzna_status_name(status) = @ccall libbenzina.bzna_status_name(status::bzna_status)::Cstring

bzna_context_config_init(config, struct_size) =
    @ccall libbenzina.bzna_context_config_init(config::Ref{bzna_context_config}, struct_size::Csize_t)::Cvoid
bzna_context_open(config, out, err) =
    @ccall libbenzina.bzna_context_open(config::Ref{bzna_context_config}, out::Ref{Ptr{bzna_context}}, err::Ref{bzna_error})::bzna_status
bzna_context_close(context) =
    @ccall libbenzina.bzna_context_close(context::Ptr{bzna_context})::bzna_status
bzna_context_device_info(context, info, struct_size, err) =
    @ccall libbenzina.bzna_context_device_info(context::Ptr{bzna_context}, info::Ref{bzna_device_info}, struct_size::Csize_t,
                                                   err::Ref{bzna_error})::bzna_status

bzna_records_init(records, struct_size) =
    @ccall libbenzina.bzna_records_init(records::Ref{bzna_records}, struct_size::Csize_t)::Cvoid
bzna_dataset_config_init(config, struct_size) =
    @ccall libbenzina.bzna_dataset_config_init(config::Ref{bzna_dataset_config}, struct_size::Csize_t)::Cvoid
bzna_dataset_open(context, path, config, out, err) =
    @ccall libbenzina.bzna_dataset_open(context::Ptr{bzna_context}, path::Cstring, config::Ref{bzna_dataset_config},
                                        out::Ref{Ptr{bzna_dataset}}, err::Ref{bzna_error})::bzna_status
bzna_dataset_open_list(context, paths, count, config, out, err) =
    @ccall libbenzina.bzna_dataset_open_list(context::Ptr{bzna_context}, paths::Ptr{Cstring}, count::UInt32,
                                             config::Ref{bzna_dataset_config}, out::Ref{Ptr{bzna_dataset}},
                                             err::Ref{bzna_error})::bzna_status
bzna_dataset_open_memory(context, bytes, size, config, out, err) =
    @ccall libbenzina.bzna_dataset_open_memory(context::Ptr{bzna_context}, bytes::Ptr{Cvoid}, size::Csize_t,
                                               config::Ref{bzna_dataset_config}, out::Ref{Ptr{bzna_dataset}},
                                               err::Ref{bzna_error})::bzna_status
bzna_dataset_open_source(context, source, config, out, err) =
    @ccall libbenzina.bzna_dataset_open_source(context::Ptr{bzna_context}, source::Ref{bzna_source}, config::Ref{bzna_dataset_config},
                                               out::Ref{Ptr{bzna_dataset}}, err::Ref{bzna_error})::bzna_status
bzna_dataset_close(dataset) =
    @ccall libbenzina.bzna_dataset_close(dataset::Ptr{bzna_dataset})::bzna_status
bzna_dataset_count(dataset) =
    @ccall libbenzina.bzna_dataset_count(dataset::Ptr{bzna_dataset})::UInt64
bzna_dataset_target(dataset, index, target, err) =
    @ccall libbenzina.bzna_dataset_target(dataset::Ptr{bzna_dataset}, index::UInt64, target::Ref{Int64}, err::Ref{bzna_error})::bzna_status
bzna_dataset_class(dataset, target, buffer, capacity, needed, err) =
    @ccall libbenzina.bzna_dataset_class(dataset::Ptr{bzna_dataset}, target::Int64, buffer::Ptr{Cvoid},
        capacity::Csize_t, needed::Ref{Csize_t}, err::Ref{bzna_error})::bzna_status
bzna_dataset_field(dataset, index, field, buffer, capacity, needed, err) =
    @ccall libbenzina.bzna_dataset_field(dataset::Ptr{bzna_dataset}, index::UInt64, field::Cstring, buffer::Ptr{Cvoid},
                                         capacity::Csize_t, needed::Ref{Csize_t}, err::Ref{bzna_error})::bzna_status

bzna_dataset_sample(dataset, index, sample, struct_size, err) =
    @ccall libbenzina.bzna_dataset_sample(dataset::Ptr{bzna_dataset}, index::UInt64, sample::Ref{bzna_sample_ref}, struct_size::Csize_t,
                                              err::Ref{bzna_error})::bzna_status
bzna_dataset_read_image(dataset, index, field, buffer, capacity, image, err) =
    @ccall libbenzina.bzna_dataset_read_image(dataset::Ptr{bzna_dataset}, index::UInt64, field::Cstring, buffer::Ptr{Cvoid},
                                              capacity::Csize_t, image::Ref{bzna_image}, err::Ref{bzna_error})::bzna_status

bzna_writer_config_init(config, struct_size) =
    @ccall libbenzina.bzna_writer_config_init(config::Ref{bzna_writer_config}, struct_size::Csize_t)::Cvoid
bzna_writer_sample_init(sample, struct_size) =
    @ccall libbenzina.bzna_writer_sample_init(sample::Ref{bzna_writer_sample}, struct_size::Csize_t)::Cvoid
bzna_writer_open(context, path, config, out, err) =
    @ccall libbenzina.bzna_writer_open(context::Ptr{bzna_context}, path::Cstring, config::Ref{bzna_writer_config},
                                       out::Ref{Ptr{bzna_writer}}, err::Ref{bzna_error})::bzna_status
bzna_writer_add(writer::Ptr{bzna_writer}, sample::Ptr{bzna_writer_sample}, err::Ptr{bzna_error}) =
    @gcsafe @ccall libbenzina.bzna_writer_add(writer::Ptr{bzna_writer}, sample::Ptr{bzna_writer_sample}, err::Ptr{bzna_error})::bzna_status
bzna_writer_add_at(writer::Ptr{bzna_writer}, index::UInt64, sample::Ptr{bzna_writer_sample}, timeout_ns::Int64, err::Ptr{bzna_error}) =
    @gcsafe @ccall libbenzina.bzna_writer_add_at(writer::Ptr{bzna_writer}, index::UInt64, sample::Ptr{bzna_writer_sample}, timeout_ns::Int64,
                                                 err::Ptr{bzna_error})::bzna_status
bzna_writer_finish(writer::Ptr{bzna_writer}, err::Ptr{bzna_error}) =
    @gcsafe @ccall libbenzina.bzna_writer_finish(writer::Ptr{bzna_writer}, err::Ptr{bzna_error})::bzna_status
bzna_writer_close(writer) =
    @ccall libbenzina.bzna_writer_close(writer::Ptr{bzna_writer})::bzna_status

bzna_loader_config_init(config, struct_size) =
    @ccall libbenzina.bzna_loader_config_init(config::Ref{bzna_loader_config}, struct_size::Csize_t)::Cvoid
bzna_loader_open(context::Ptr{bzna_context}, dataset::Ptr{bzna_dataset}, config::Ptr{bzna_loader_config}, out::Ptr{Ptr{bzna_loader}},
                 err::Ptr{bzna_error}) =
    @gcsafe @ccall libbenzina.bzna_loader_open(context::Ptr{bzna_context}, dataset::Ptr{bzna_dataset}, config::Ptr{bzna_loader_config},
                                               out::Ptr{Ptr{bzna_loader}}, err::Ptr{bzna_error})::bzna_status
bzna_loader_close(loader::Ptr{bzna_loader}) =
    @gcsafe @ccall libbenzina.bzna_loader_close(loader::Ptr{bzna_loader})::bzna_status
bzna_loader_next(loader::Ptr{bzna_loader}, timeout_ns::Int64, batch::Ptr{Ptr{bzna_batch}}, err::Ptr{bzna_error}) =
    @gcsafe @ccall libbenzina.bzna_loader_next(loader::Ptr{bzna_loader}, timeout_ns::Int64, batch::Ptr{Ptr{bzna_batch}},
                                               err::Ptr{bzna_error})::bzna_status
bzna_loader_set_indices(loader, epoch, indices, count, err) =
    @ccall libbenzina.bzna_loader_set_indices(loader::Ptr{bzna_loader}, epoch::UInt64, indices::Ptr{UInt64}, count::UInt64,
                                              err::Ref{bzna_error})::bzna_status
bzna_loader_set_batches(loader, epoch, indices, count, sizes, batch_count, err) =
    @ccall libbenzina.bzna_loader_set_batches(loader::Ptr{bzna_loader}, epoch::UInt64, indices::Ptr{UInt64}, count::UInt64,
                                              sizes::Ptr{UInt32}, batch_count::UInt64, err::Ref{bzna_error})::bzna_status
bzna_loader_reset(loader::Ptr{bzna_loader}, epoch::UInt64, err::Ptr{bzna_error}) =
    @gcsafe @ccall libbenzina.bzna_loader_reset(loader::Ptr{bzna_loader}, epoch::UInt64, err::Ptr{bzna_error})::bzna_status
bzna_loader_save(loader, state, struct_size, err) =
    @ccall libbenzina.bzna_loader_save(loader::Ptr{bzna_loader}, state::Ref{bzna_loader_state}, struct_size::Csize_t,
                                       err::Ref{bzna_error})::bzna_status
bzna_loader_restore(loader::Ptr{bzna_loader}, state::Ptr{bzna_loader_state}, err::Ptr{bzna_error}) =
    @gcsafe @ccall libbenzina.bzna_loader_restore(loader::Ptr{bzna_loader}, state::Ptr{bzna_loader_state}, err::Ptr{bzna_error})::bzna_status
bzna_loader_get_info(loader, info, struct_size, err) =
    @ccall libbenzina.bzna_loader_get_info(loader::Ptr{bzna_loader}, info::Ref{bzna_loader_info}, struct_size::Csize_t,
                                           err::Ref{bzna_error})::bzna_status
bzna_loader_statistics(loader, stats, struct_size, err) =
    @ccall libbenzina.bzna_loader_statistics(loader::Ptr{bzna_loader}, stats::Ref{bzna_statistics}, struct_size::Csize_t,
                                            err::Ref{bzna_error})::bzna_status
bzna_statistics_since(later, earlier, since, struct_size, err) =
    @ccall libbenzina.bzna_statistics_since(later::Ref{bzna_statistics}, earlier::Ref{bzna_statistics},
                                            since::Ref{bzna_statistics}, struct_size::Csize_t,
                                            err::Ref{bzna_error})::bzna_status

bzna_batch_get_info(batch, info, struct_size, err) =
    @ccall libbenzina.bzna_batch_get_info(batch::Ptr{bzna_batch}, info::Ref{bzna_batch_info}, struct_size::Csize_t,
                                          err::Ref{bzna_error})::bzna_status
bzna_batch_tensor(batch, name, tensor, struct_size, err) =
    @ccall libbenzina.bzna_batch_tensor(batch::Ptr{bzna_batch}, name::Cstring, tensor::Ref{bzna_tensor}, struct_size::Csize_t,
                                        err::Ref{bzna_error})::bzna_status
bzna_batch_bytes(batch, name, slot, data, size, err) =
    @ccall libbenzina.bzna_batch_bytes(batch::Ptr{bzna_batch}, name::Cstring, slot::UInt32, data::Ref{Ptr{Cvoid}},
                                       size::Ref{UInt64}, err::Ref{bzna_error})::bzna_status
bzna_batch_error(batch, slot, err) =
    @ccall libbenzina.bzna_batch_error(batch::Ptr{bzna_batch}, slot::UInt32, err::Ref{bzna_error})::bzna_status
bzna_batch_release(batch) =
    @ccall libbenzina.bzna_batch_release(batch::Ptr{bzna_batch})::bzna_status

end # module LibBenzina

using .LibBenzina: bzna_status_name, bzna_context, bzna_dataset, bzna_loader, bzna_batch, bzna_error, bzna_source,
    bzna_context_config, bzna_context_config_init, bzna_context_open, bzna_context_close, bzna_context_device_info,
    bzna_device, bzna_device_info,
    bzna_dataset_config, bzna_dataset_config_init, bzna_dataset_open, bzna_dataset_open_list, bzna_dataset_open_memory, bzna_dataset_open_source,
    bzna_dataset_close,
    bzna_dataset_count, bzna_dataset_target, bzna_dataset_class, bzna_dataset_field,
    bzna_loader_config, bzna_loader_config_init, bzna_loader_open, bzna_loader_close, bzna_loader_next,
    bzna_loader_set_indices, bzna_loader_set_batches, bzna_loader_reset, bzna_loader_save, bzna_loader_restore, bzna_loader_get_info, bzna_loader_statistics, bzna_statistics_since, bzna_loader_state,
    bzna_loader_info, bzna_statistics, bzna_batch_info, bzna_batch_get_info, bzna_batch_error, bzna_batch_release,
    bzna_batch_tensor, bzna_batch_bytes, bzna_tensor, bzna_records, bzna_records_init, bzna_warp, bzna_loader_filter, bzna_loader_color,
    bzna_loader_output, bzna_loader_outputs,
    bzna_image, bzna_sample_ref, bzna_dataset_sample, bzna_dataset_read_image, bzna_writer, bzna_writer_config, bzna_writer_config_init,
    bzna_field_value, bzna_writer_sample, bzna_writer_sample_init, bzna_writer_open, bzna_writer_add, bzna_writer_add_at, bzna_writer_finish,
    bzna_writer_close
using .LibBenzina: BZNA_OK, BZNA_END, BZNA_AGAIN, BZNA_E_RANGE, BZNA_E_STATE, BZNA_E_BUFFER, BZNA_E_CALLBACK, BZNA_E_NOT_FOUND, BZNA_E_IO,
    BZNA_NO_OFFSET, BZNA_RECORD_NONE, BZNA_RECORD_UINT8, BZNA_RECORD_INT32, BZNA_RECORD_INT64, BZNA_RECORD_FLOAT32, BZNA_LAYOUT_NCHW,
    BZNA_LAYOUT_NHWC,
    BZNA_ORIENTATION_APPLY, BZNA_ORIENTATION_IGNORE, BZNA_PALETTE_COLORS, BZNA_PALETTE_INDEX, BZNA_CLASS_ORDER_TEXT,
    BZNA_CLASS_ORDER_NUMERIC, BZNA_DTYPE_FLOAT32, BZNA_DTYPE_INT64, BZNA_DTYPE_UINT8,
    BZNA_TARGET_NONE, BZNA_EPOCHS_ENDLESS, BZNA_DEVICE_AUTO, BZNA_DEVICE_CPU, BZNA_DEVICE_CUDA,
    BZNA_ORDER_SEQUENTIAL, BZNA_ORDER_SHUFFLE, BZNA_ORDER_GIVEN, BZNA_LAST_PARTIAL,
    BZNA_LAST_DROP, BZNA_LAST_PAD, BZNA_LAST_FILL, BZNA_WARP_NONE, BZNA_WARP_RANDOM_RESIZED_CROP, BZNA_WARP_CENTER_RESIZED_CROP, BZNA_WARP_SIMILARITY,
    BZNA_WARP_MXNET,
    BZNA_LAW_AUTO, BZNA_LAW_BENZINA, BZNA_LAW_TORCHVISION, BZNA_FILTER_LINEAR, BZNA_FILTER_NEAREST, BZNA_FILTER_CUBIC, BZNA_FILTER_AREA,
    BZNA_FILTER_LANCZOS4, BZNA_FILTER_LANCZOS3, BZNA_FILTER_CUBIC_075, BZNA_ANTIALIAS_AUTO, BZNA_ANTIALIAS_OFF,
    BZNA_CHANNELS_RGB, BZNA_CHANNELS_BGR, BZNA_CHANNELS_GRAY, BZNA_DECODER_AUTO, BZNA_DECODER_SOFTWARE, BZNA_DECODER_NVDEC,
    BZNA_ON_ERROR_FILL, BZNA_ON_ERROR_REPLACE, BZNA_ON_ERROR_STOP, BZNA_ON_CALLBACK_ERROR_STOP, BZNA_ON_CALLBACK_ERROR_SAMPLE,
    BZNA_CODEC_JPEG, BZNA_FIELD_INTEGER, BZNA_FIELD_VECTOR,
    BZNA_FIELD_TEXT, BZNA_FIELD_BYTES, BZNA_SPLIT_NONE, BZNA_SPLIT_TRAIN, BZNA_SPLIT_VALIDATION, BZNA_SPLIT_TEST

# ---- Errors, and how structs cross over ----------------------------------------------------------------------------------------------

"What went wrong, and where: the message names file, box or field."
struct BenzinaError <: Exception
    status::Int32
    message::String
    byte_offset::Union{Nothing,UInt64}      # in the file
    native_code::Int32                      # errno, or the decoder's; 0 when there is none
    cause::Any                              # the last exception of the source's methods, where reading it failed; else nothing
end

BenzinaError(status, message, byte_offset, native_code) = BenzinaError(status, message, byte_offset, native_code, nothing)

# A NUL-terminated field of a struct as text.
text(field::NTuple{N,Cchar}) where {N} = String(UInt8[c % UInt8 for c in Iterators.takewhile(!iszero, field)])

BenzinaError(status::Integer, err::bzna_error, cause = nothing) =
    BenzinaError(status, text(err.message), err.byte_offset == BZNA_NO_OFFSET ? nothing : err.byte_offset, err.native_code, cause)

function Base.showerror(io::IO, e::BenzinaError)
    print(io, "BenzinaError: ", e.message, " (", unsafe_string(bzna_status_name(e.status)), ")")
    if e.cause !== nothing
        print(io, "\nThe last exception of its source: ")
        showerror(io, e.cause)
    end
end

check(status::Integer, err::bzna_error, box = nothing) = status < 0 ? throw(BenzinaError(status, err, cause_of(status, box))) : status

# What a source threw, if reading it is what failed.
cause_of(status, box) = status in (BZNA_E_IO, BZNA_E_CALLBACK) ? last_exception(box) : nothing

# The address of a mutable struct, for @gcsafe calls: inside GC.@preserve only.
address(x::T) where {T} = Ptr{T}(pointer_from_objref(x))

# A zeroed struct that knows its size.
function sized(::Type{T}) where {T}
    x = T()
    GC.@preserve x ccall(:memset, Ptr{Cvoid}, (Ptr{Cvoid}, Cint, Csize_t), pointer_from_objref(x), 0, sizeof(T))
    x.struct_size = sizeof(T)
    return x
end

# A group of settings as it is, but for some of its fields: config.output = changed(config.output; width = 224). A name that it has not
# makes a value too many, which its constructor refuses.
changed(group::T; fields...) where {T} =
    T(values(merge(NamedTuple{fieldnames(T)}(getfield.(Ref(group), fieldnames(T))), values(fields)))...)

# Those of the keywords that say something.
given(; fields...) = (; (name => Tuple(value) for (name, value) in fields if value !== nothing)...)

# A string for a field of a config: inside GC.@preserve of the string only.
cstring(s::String) = Base.unsafe_convert(Cstring, s)
cstring(::Nothing) = Cstring(C_NULL)

optional(s::AbstractString) = String(s)
optional(::Nothing) = nothing

# Closing is refused inside the library's callbacks, where a finalizer may find itself: it then tries again at the next collection.
function close_later(object)
    try_close(object) || finalizer(close_later, object)
    return nothing
end

function try_close(object)
    object.handle == C_NULL && return true
    close_handle(object.handle) < 0 && return false
    object.handle = C_NULL
    return true
end

close_handle(handle::Ptr{bzna_context}) = bzna_context_close(handle)
close_handle(handle::Ptr{bzna_dataset}) = bzna_dataset_close(handle)
close_handle(handle::Ptr{bzna_loader}) = bzna_loader_close(handle)
close_handle(handle::Ptr{bzna_writer}) = bzna_writer_close(handle)

# ---- Sources -------------------------------------------------------------------------------------------------------------------------

"""
    read_at!(source, buffer::Vector{UInt8}, offset::Int) -> Integer

Copies up to `length(buffer)` bytes, from byte `offset` (counted from 0) of the source on, to the start of `buffer`, and returns how many:
fewer are asked for again, 0 is the end. `buffer` is the library's, and only until the method returns. Called on several threads at once;
see the top of this file.
"""
function read_at! end

"""
    total_bytes(source) -> Integer

The number of bytes of a source.
"""
function total_bytes end

"A source made of something that can be seeked and read: reads take turns."
struct IOSource{T<:IO}
    io::T
    lock::Threads.SpinLock      # and not a ReentrantLock, which would switch tasks on a thread of the library
end

IOSource(io::IO) = IOSource(io, Threads.SpinLock())

total_bytes(source::IOSource) = lock(() -> position(seekend(source.io)), source.lock)

function read_at!(source::IOSource, buffer::Vector{UInt8}, offset::Int)
    lock(source.lock) do
        seek(source.io, offset)
        return readbytes!(source.io, buffer, length(buffer))
    end
end

# What the library's user pointer points to: it must be a mutable object, and the data set keeps it.
mutable struct SourceBox
    source::Any
    lock::Threads.SpinLock
    thrown::Int                       # exceptions of its methods
    last::Any                         # of these, the last one
end

SourceBox(source) = SourceBox(source, Threads.SpinLock(), 0, nothing)

# Bytes in memory, which the library reads by itself: kept as long as a loader may read them.
struct MemoryBox
    bytes::Vector{UInt8}
end

function keep!(box::SourceBox, exception)
    lock(box.lock)
    box.thrown, box.last = box.thrown + 1, exception
    unlock(box.lock)
    return nothing
end

last_exception(box::SourceBox) = lock(() -> box.last, box.lock)
num_exceptions(box::SourceBox) = lock(() -> box.thrown, box.lock)
last_exception(::Union{Nothing,MemoryBox}) = nothing
num_exceptions(::Union{Nothing,MemoryBox}) = 0

# These are called from C. An exception must not leave them: one that a file or a connection makes becomes EIO, as which it costs its sample.
# Any other is a fault of the program, which ends the run. Both are kept.
function bzna_source_read_at(user::Ptr{Cvoid}, offset::UInt64, dst::Ptr{Cvoid}, size::UInt64)::Int64
    box = unsafe_pointer_to_objref(user)::SourceBox
    try
        buffer = unsafe_wrap(Array, Ptr{UInt8}(dst), Int(size))
        return Int64(read_at!(box.source, buffer, Int(offset)))
    catch exception
        keep!(box, exception)
        return exception isa Union{Base.IOError,SystemError,EOFError} ? Int64(-5) : typemax(Int64)
    end
end

function bzna_source_size(user::Ptr{Cvoid})::Int64
    box = unsafe_pointer_to_objref(user)::SourceBox
    try
        return Int64(total_bytes(box.source))
    catch exception
        keep!(box, exception)
        return Int64(-5)
    end
end

# ---- Data sets -----------------------------------------------------------------------------------------------------------------------

mutable struct Context
    handle::Ptr{bzna_context}

    function Context(device::bzna_device)
        config, err, out = bzna_context_config(), sized(bzna_error), Ref{Ptr{bzna_context}}(C_NULL)
        bzna_context_config_init(config, sizeof(bzna_context_config))
        config.device = device
        check(bzna_context_open(config, out, err), err)
        return finalizer(close_later, new(out[]))
    end
end

# One for each device, shared by all data sets there, as a GPU's decoders are.
const CONTEXTS = Dict{bzna_device,Context}()
const CONTEXTS_LOCK = ReentrantLock()

function context_on(device::Symbol)
    device in (:auto, :cpu) || throw(ArgumentError(string("device: ", repr(device), " is not :auto, :cpu or the number of a CUDA device")))
    return shared_context(bzna_device(device === :cpu ? BZNA_DEVICE_CPU : BZNA_DEVICE_AUTO, 0))
end

context_on(device::Integer) = shared_context(bzna_device(BZNA_DEVICE_CUDA, device))

shared_context(device::bzna_device) = lock(() -> get!(() -> Context(device), CONTEXTS, device), CONTEXTS_LOCK)

"""
    Dataset(path; keywords...)
    Dataset(paths; keywords...)
    Dataset(bytes; keywords...)
    Dataset(source; keywords...)

The samples of an archive, a folder of pictures, a tar shard, a .rec: a path, a vector of paths, which are laid end to end, a file's bytes
(a `Vector{UInt8}`, which must not be changed meanwhile), or a source of them (a seekable `IO`, or any type with methods of `read_at!` and
`total_bytes`). `length` says how many samples there are, `data[index]` is one of them, and `for sample in data` runs over all; see `Sample`,
`target`, `name`, `field` and `classes`.

    device = :auto                        for the loaders over it: a GPU where there is one; :cpu; or a CUDA device's number, counted from 0
    split = nothing                       of an archive: "train", "validation", "test"
    format = nothing                      "archive", "folder", "tar", ...: other kinds are refused
    list = nothing                        path of a list of samples: which files of a folder, or what labels of a .rec
    classes = nothing                     a folder's class folders, in the order of their numbers; default: all
    class_order = :text                   :numeric: "2" comes before "10"
    orientation = :apply                  :ignore: pictures are not turned as their EXIF data says
    palette = :colors                     :index: pictures with a palette give indices as gray
    pairs = nothing                       folders in the folder whose files of the same names make one sample: "images,masks", or
                                          "image=a/images,mask=a/masks"
    records = nothing                     `Records(...)`: the file is records of one size, such as CIFAR or MNIST
    target = nothing                      the field of integers, or an mp4's track of them, that is the target
    name = nothing                        what error messages call it
"""
mutable struct Dataset
    handle::Ptr{bzna_dataset}
    context::Context
    # What the library reads as long as a loader runs; loaders keep their data set. nothing: it is a file.
    box::Union{Nothing,SourceBox,MemoryBox}

    Dataset(handle::Ptr{bzna_dataset}, context::Context, box) = finalizer(close_later, new(handle, context, box))
end

function Dataset(path::AbstractString; device::Union{Symbol,Integer} = :auto, keywords...)
    return open_dataset(nothing, context_on(device); keywords...) do context, config, out, err
        bzna_dataset_open(context, path, config, out, err)
    end
end

function Dataset(paths::AbstractVector{<:AbstractString}; device::Union{Symbol,Integer} = :auto, keywords...)
    strings = String[path for path in paths]
    return open_dataset(nothing, context_on(device); keywords...) do context, config, out, err
        GC.@preserve strings begin
            pointers = Cstring[cstring(string) for string in strings]
            bzna_dataset_open_list(context, pointers, length(pointers), config, out, err)
        end
    end
end

function Dataset(bytes::Vector{UInt8}; device::Union{Symbol,Integer} = :auto, keywords...)
    return open_dataset(MemoryBox(bytes), context_on(device); keywords...) do context, config, out, err
        GC.@preserve bytes bzna_dataset_open_memory(context, pointer(bytes), length(bytes), config, out, err)
    end
end

function Dataset(source; device::Union{Symbol,Integer} = :auto, keywords...)
    box = SourceBox(source isa IO ? IOSource(source) : source)
    return open_dataset(box, context_on(device); keywords...) do context, config, out, err
        read_at = @cfunction(bzna_source_read_at, Int64, (Ptr{Cvoid}, UInt64, Ptr{Cvoid}, UInt64))
        size = @cfunction(bzna_source_size, Int64, (Ptr{Cvoid},))
        # Nothing is to be closed: the box is collected when nobody can call it any more.
        GC.@preserve box begin
            functions = sized(bzna_source)
            functions.user, functions.read_at, functions.size = pointer_from_objref(box), read_at, size
            bzna_dataset_open_source(context, functions, config, out, err)
        end
    end
end

const CLASS_ORDERS = (text = BZNA_CLASS_ORDER_TEXT, numeric = BZNA_CLASS_ORDER_NUMERIC)
const ORIENTATIONS = (apply = BZNA_ORIENTATION_APPLY, ignore = BZNA_ORIENTATION_IGNORE)
const PALETTES = (colors = BZNA_PALETTE_COLORS, index = BZNA_PALETTE_INDEX)

const RECORD_TYPES = (none = BZNA_RECORD_NONE, uint8 = BZNA_RECORD_UINT8, int32 = BZNA_RECORD_INT32, int64 = BZNA_RECORD_INT64,
                      float32 = BZNA_RECORD_FLOAT32)
const LAYOUTS = (planes = BZNA_LAYOUT_NCHW, pixels = BZNA_LAYOUT_NHWC)

"""
    Records(; width, height, channels, keywords...)

How records of one size lie in a file: `Dataset("train.bin"; records = Records(width = 32, height = 32, channels = 3, data_offset = 1, label =
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
    bzna_records_init(records, sizeof(bzna_records))
    records.width, records.height, records.channels = width, height, channels
    records.data_type, records.layout, records.label_type = choice(RECORD_TYPES, dtype), choice(LAYOUTS, layout), choice(RECORD_TYPES, label)
    records.data_offset, records.label_offset = data_offset, label_offset
    records.header_bytes, records.stride, records.scale, records.bias = header_bytes, stride, scale, bias
    return records
end

choice(names::NamedTuple, name::Symbol) =
    haskey(names, name) ? names[name] : throw(ArgumentError(string(repr(name), " is not one of ", join(repr.(keys(names)), ", "))))

# Calls open(context, config, out, err), and owns what it made.
function open_dataset(open, box, context; split = nothing, name = nothing, format = nothing, list = nothing, classes = nothing,
                      class_order::Symbol = :text, orientation::Symbol = :apply, palette::Symbol = :colors,
                      records::Union{Nothing,bzna_records} = nothing, pairs = nothing, target = nothing)
    config, err, out = bzna_dataset_config(), sized(bzna_error), Ref{Ptr{bzna_dataset}}(C_NULL)
    bzna_dataset_config_init(config, sizeof(bzna_dataset_config))
    strings = map(optional, (split, name, format, list, pairs, target))
    class_strings = classes === nothing ? String[] : String[class for class in classes]
    GC.@preserve strings class_strings context records begin
        config.split, config.name, config.format, config.list, config.pairs, config.target = map(cstring, strings)
        pointers = Cstring[cstring(class) for class in class_strings]
        if !isempty(pointers)
            config.classes, config.class_count = pointer(pointers), length(pointers)
        end
        config.class_order, config.orientation = choice(CLASS_ORDERS, class_order), choice(ORIENTATIONS, orientation)
        config.palette = choice(PALETTES, palette)
        if records !== nothing
            config.records = address(records)
        end
        GC.@preserve pointers check(open(context.handle, config, out, err), err, box)
    end
    return Dataset(out[], context, box)
end

Base.length(data::Dataset) = Int(bzna_dataset_count(data.handle))

"""
    num_exceptions(data)
    last_exception(data)

How many exceptions the methods of a data set's or loader's source have thrown, and the last one of them; `nothing` where there was none.
"""
num_exceptions(data::Dataset) = num_exceptions(data.box)

"See `num_exceptions`."
last_exception(data::Dataset) = last_exception(data.box)

"One sample of a data set: `data[index]`, counted from 1. `target(sample)`, `name(sample)`, `field(sample, name)` and `coded(sample)` read it."
struct Sample
    data::Dataset
    index::Int
end

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

"The class of sample `index`, counted from 1; `nothing` where it has none."
function target(data::Dataset, index::Integer)
    err, out = sized(bzna_error), Ref{Int64}(BZNA_TARGET_NONE)
    check(bzna_dataset_target(data.handle, index - 1, out, err), err, data.box)
    return out[] == BZNA_TARGET_NONE ? nothing : out[]
end

"The name of sample `index`, counted from 1; `nothing` where it has none."
function name(data::Dataset, index::Integer)
    bytes = field(data, index, "name")
    return bytes === nothing ? nothing : String(bytes[1:end-1])     # without the NUL
end

"""
    field(data, index, name) -> Vector{UInt8}

One field of sample `index`, counted from 1; `nothing` where it has none. "image" and "thumb" are streams of their own (Annex B, OBUs),
"target" is an Int64, text such as "name" ends with a NUL.
"""
function field(data::Dataset, index::Integer, name::AbstractString)
    return value(data.box) do buffer, needed, err
        bzna_dataset_field(data.handle, index - 1, String(name), buffer, length(buffer), needed, err)
    end
end

# The bytes that get(buffer, needed, err) gives; nothing where there are none.
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

"The names of a folder's classes, in the order of their numbers (of which the first is 0); none where classes have no names."
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

# ---- Loaders -------------------------------------------------------------------------------------------------------------------------

const WARPS = (none = BZNA_WARP_NONE, random_resized_crop = BZNA_WARP_RANDOM_RESIZED_CROP,
               center_resized_crop = BZNA_WARP_CENTER_RESIZED_CROP, similarity = BZNA_WARP_SIMILARITY, mxnet = BZNA_WARP_MXNET)
const LAWS = (auto = BZNA_LAW_AUTO, benzina = BZNA_LAW_BENZINA, torchvision = BZNA_LAW_TORCHVISION)
const FILTERS = (nearest = BZNA_FILTER_NEAREST, linear = BZNA_FILTER_LINEAR, cubic = BZNA_FILTER_CUBIC, lanczos = BZNA_FILTER_LANCZOS3,
                 area = BZNA_FILTER_AREA, cubic_075 = BZNA_FILTER_CUBIC_075, lanczos4 = BZNA_FILTER_LANCZOS4)
const CHANNELS = (RGB = BZNA_CHANNELS_RGB, BGR = BZNA_CHANNELS_BGR, gray = BZNA_CHANNELS_GRAY, grey = BZNA_CHANNELS_GRAY)
const DECODERS = (auto = BZNA_DECODER_AUTO, software = BZNA_DECODER_SOFTWARE, nvdec = BZNA_DECODER_NVDEC)
const ON_ERROR = (fill = BZNA_ON_ERROR_FILL, replace = BZNA_ON_ERROR_REPLACE, stop = BZNA_ON_ERROR_STOP)
const ON_CALLBACK_ERROR = (stop = BZNA_ON_CALLBACK_ERROR_STOP, sample = BZNA_ON_CALLBACK_ERROR_SAMPLE)

"""
    Output(name; keywords...)

A further output of a loader's samples, from the same decode: other sizes, other views, another picture of each sample; `tensor(batch, name)`.

    size = (0, 0)                         (width, height); the loader's
    field = nothing                       the picture that it is made of; the loader's
    views = 0, warp = nothing             so many views with warps of their own: :random_resized_crop, ..., with crop_area, crop_ratio, law,
                                          flip and flip_v. nothing: each view is warped as that of the loader's pictures
    uint8 = false, gray = false           instead of Float32, of R, G and B
    filter = nothing, antialias = nothing as a loader's; nothing, both: the loader's
    mean, std, bias, scale, fill          as a loader's; none of them: the loader's
    plain = false                         true: pixels are 0..255, as masks need them
"""
struct Output
    raw::bzna_loader_output
    name::String
    field::Union{Nothing,String}
    warp::Union{Nothing,bzna_warp}
    filter::Union{Nothing,bzna_loader_filter}
    color::Union{Nothing,bzna_loader_color}

    function Output(name::AbstractString; size::Tuple{Integer,Integer} = (0, 0), field::Union{Nothing,AbstractString} = nothing,
                    views::Integer = 0, warp::Union{Nothing,Symbol} = nothing, crop_area = nothing, crop_ratio = nothing,
                    law::Symbol = :auto, flip::Real = 0, flip_v::Real = 0, uint8::Bool = false, gray::Bool = false,
                    filter::Union{Nothing,Symbol} = nothing, antialias::Union{Nothing,Bool} = nothing,
                    mean = nothing, std = nothing, bias = nothing, scale = nothing, fill = nothing, plain::Bool = false)
        config = bzna_loader_config()
        bzna_loader_config_init(config, sizeof(bzna_loader_config))             # whose groups are zero
        raw = changed(config.output; width = size[1], height = size[2], views = views,
                      dtype = uint8 ? BZNA_DTYPE_UINT8 : BZNA_DTYPE_FLOAT32, channels = gray ? BZNA_CHANNELS_GRAY : BZNA_CHANNELS_RGB)
        drawn = warp === nothing ? nothing :
                changed(config.warp; kind = choice(WARPS, warp), law = choice(LAWS, law), flip_h = flip, flip_v = flip_v,
                        given(scale = crop_area, ratio = crop_ratio)...)
        filtered = filter === nothing && antialias === nothing ? nothing :
                   changed(config.filter; kind = choice(FILTERS, something(filter, :linear)), antialias = antialiased(something(antialias, true)))
        colors = given(mean = mean, std = std, bias = bias, scale = scale, fill = fill)
        colored = isempty(colors) && !plain ? nothing : changed(config.color; colors...)
        return new(raw, String(name), optional(field), drawn, filtered, colored)
    end
end

antialiased(antialias::Bool) = antialias ? BZNA_ANTIALIAS_AUTO : BZNA_ANTIALIAS_OFF

# The address of one of `items`, which is what an output has of its own; or NULL. Inside GC.@preserve of items only.
address_or_null(items::Vector{T}, i, own) where {T} = own === nothing ? Ptr{T}(C_NULL) : pointer(items, i)

# What each output has of its own, with a place for those that have nothing.
own_of(items, none) = typeof(none)[item === nothing ? none : item for item in items]

# Width, height, channels and samples of a tensor of pictures, in one view.
shape_of(tensor::bzna_tensor) = NTuple{4,Int}(tensor.shape[Int(tensor.dimensions) - i] for i in 0:3)

"""
    Loader(data; batchsize, size, keywords...)

Batches of an archive: `data` is a `Dataset`, or what a `Dataset` is made of. `for (x, y) in loader` runs one epoch.

    batchsize = 1, size                   samples in a batch; (width, height) of the output, which must be given
    shuffle = false, seed = 0             another order in each epoch; the seed of the order and of all random numbers
    partial = true, pad = false           the last batch when it is not full: shorter; with partial = false left out; with pad = true filled up
    data_padding, label_padding           the last batch is filled with pictures and targets of these numbers, as MXNet.jl's ArrayDataProvider does
    buffer = false                        true: a batch is given back when the next one is asked for
    warp = :none                          :random_resized_crop, :center_resized_crop, :similarity, :mxnet
    crop_area, crop_ratio                 pairs: area of a crop lo..hi, its width to its height lo..hi; the defaults depend on the warp.
                                          :center_resized_crop takes the fraction of the short edge as crop_area = (224/256, 0)
    degrees, translate                    pairs, and resize, keep_ratio, random_crop = false: of :similarity
    law = :auto                           torchvision's of both resized crops; :benzina, :torchvision draw crops by that law
    flip = 0, flip_v = 0                  probabilities of mirroring
    rotate, shear                         on top of any warp, in degrees: lo, hi clockwise; lo, hi in x, lo, hi in y
    perspective = 0, perspective_p = 0    torchvision's RandomPerspective on top: how far corners go, 0..1; how often, 0: half the time
    brightness, contrast, saturation, hue random colors, as torchvision's ColorJitter: factors lo, hi; turns -h, h
    grayscale = 0                         the probability of its RandomGrayscale
    mxnet_hls, mxnet_contrast = 0, mxnet_illumination = 0
                                          MXNet's random_h, _l, _s (a triple), and its max_random_...
    filter = :linear                      :nearest, :cubic, :lanczos (PIL's); :cubic_075, :lanczos4, :area (OpenCV's)
    antialias = true                      whether the filter is widened where a picture shrinks, as in PIL; false: as in OpenCV
    channels = :RGB                       :BGR, :gray (one channel, the luma); mean, std, bias, scale are in that order
    mean, std                             triples, y = (x - mean) / std with x in 0..255; or bias, scale: y = (x - bias) * scale
    fill = (0, 0, 0)                      the out-of-bounds color
    tensors = nothing                     names of further numeric fields of batches, for `tensor`: ["id", "label:5"]
    bytes = nothing                       names of further fields of any kind, for `bytes`
    views = 1                             of each sample, each with a random warp of its own; x has them one after the other: view v is
                                          x[:, :, :, (v-1)*n+1:v*n], n being the samples of the batch
    outputs = ()                          further `Output`s of the same decode, for `tensor`
    mean_image = nothing                  width x height x channels, a mean for each pixel in place of mean or bias
    image = nothing                       which picture: "image" or "thumb"; default: the thumbnail, unless the output is larger than 512
    indices = nothing                     the samples of an epoch, counted from 1, instead of all; :given: `set_indices!` or `set_batches!`
                                          gives those of each epoch
    on_error = :fill                      what a damaged sample does: :fill, :replace, :stop
    on_callback_error = :stop             what a sample does that a callback failed: :stop, whatever on_error is; :sample: as on_error says
    rank = 0, world_size = 1              this process's share
    epoch = 0                             the first one
    decoder = :auto                       :software, :nvdec; :auto is NVDEC where the device has it, and software for what that cannot
    jpeg_decoder = :auto                  :nvdec: NVDEC decodes baseline JPEG of 4:2:0, too, or opening fails; pixels are near libjpeg-turbo's
    jpeg_shrink = false                   a JPEG that all its views shrink, with antialias, two-, four- or eightfold is decoded at 1/2, 1/4 or 1/8
    jpeg_shrink_margin = 0                with jpeg_shrink: how much all views must still shrink what was decoded, 1 to 64; 0 is 1
    threads, reader_threads, batches_in_flight, read_ahead, read_retries       0: the library's defaults
    no_threads = false                    true: `iterate` reads and decodes on its own task's thread, and callbacks run there
"""
mutable struct Loader
    handle::Ptr{bzna_loader}
    dataset::Dataset
    shape::NTuple{4,Int}              # of a full batch: width, height, channels, samples
    samples::Int                      # in an epoch
    batches::Int
    in_flight::Int
    buffer::Bool
    loans::Threads.Atomic{Int}        # batches that Julia has
    epoch::UInt64                     # that the last batch was of, and whether there are more of it
    midway::Bool
    iteration::Int                    # number of the one that is under way: those before it are superseded
    lists::Union{Nothing,Dict{UInt64,Tuple{Vector{UInt64},Vector{UInt32}}}}      # by epoch, what was given; nothing: another order

    function Loader(data::Dataset; batchsize::Integer = 1, size::Tuple{Integer,Integer}, shuffle::Bool = false, seed::Integer = 0,
                    partial::Bool = true, pad::Bool = false, data_padding = nothing, label_padding = nothing, buffer::Bool = false, warp::Symbol = :none, crop_area = nothing,
                    crop_ratio = nothing, degrees = nothing, translate = nothing, resize::Bool = false, keep_ratio::Bool = false,
                    random_crop::Bool = false, law::Symbol = :auto, flip::Real = 0, flip_v::Real = 0, rotate = nothing, shear = nothing,
                    perspective::Real = 0, perspective_p::Real = 0, brightness = nothing, contrast = nothing, saturation = nothing,
                    hue = nothing, grayscale::Real = 0, mxnet_hls = nothing, mxnet_contrast::Real = 0, mxnet_illumination::Real = 0,
                    mean = nothing, std = nothing,
                    bias = nothing, scale = nothing, fill = nothing, image::Union{Nothing,AbstractString} = nothing, indices = nothing,
                     tensors = nothing, bytes = nothing, views::Integer = 1, outputs = (), mean_image = nothing,
                     filter::Symbol = :linear, antialias::Bool = true, channels::Symbol = :RGB,
                    on_error::Symbol = :fill, on_callback_error::Symbol = :stop, decoder::Symbol = :auto, rank::Integer = 0,
                    world_size::Integer = 1,
                    epoch::Integer = 0, threads::Integer = 0,
                    reader_threads::Integer = 0, batches_in_flight::Integer = 0, read_ahead::Integer = 0, read_retries::Integer = 0,
                    jpeg_decoder::Symbol = :auto, jpeg_shrink::Bool = false, jpeg_shrink_margin::Real = 0,
                    no_threads::Bool = false,
                    transform::Ptr{Cvoid} = C_NULL, transform_user::Ptr{Cvoid} = C_NULL,
                    picture::Ptr{Cvoid} = C_NULL, picture_user::Ptr{Cvoid} = C_NULL)
        no_threads || callable_from_threads(data.box)
        is_given = indices === :given
        indices isa Symbol && !is_given && throw(ArgumentError("indices: :$indices is neither :given nor numbers"))
        is_given && shuffle && throw(ArgumentError("indices, shuffle: both order the samples of an epoch"))
        indices = is_given ? nothing : indices
        config = bzna_loader_config()
        bzna_loader_config_init(config, sizeof(bzna_loader_config))
        config.output = changed(config.output; batch_size = batchsize, width = size[1], height = size[2], views = views,
                                channels = choice(CHANNELS, channels),
                                device = bzna_device(BZNA_DEVICE_CPU, 0))       # where an Array can be
        config.order = changed(config.order; kind = is_given ? BZNA_ORDER_GIVEN : shuffle ? BZNA_ORDER_SHUFFLE : BZNA_ORDER_SEQUENTIAL, seed = seed,
                               last_batch = data_padding !== nothing || label_padding !== nothing ? BZNA_LAST_FILL : pad ? BZNA_LAST_PAD : partial ? BZNA_LAST_PARTIAL : BZNA_LAST_DROP,
                               epochs = BZNA_EPOCHS_ENDLESS, first_epoch = epoch,
                               pad_value = something(data_padding, 0), pad_target = something(label_padding, 0))
        config.shard = changed(config.shard; rank = rank, world_size = world_size)
        config.warp = changed(config.warp; kind = choice(WARPS, warp), law = choice(LAWS, law), flip_h = flip, flip_v = flip_v,
                              resize = resize, keep_ratio = keep_ratio, random_crop = random_crop,
                              perspective = perspective, perspective_p = perspective_p,
                              given(scale = crop_area, ratio = crop_ratio, degrees = degrees, translate = translate, rotate = rotate,
                                    shear = shear)...)
        config.filter = changed(config.filter; kind = choice(FILTERS, filter), antialias = antialiased(antialias))
        jitter = changed(config.color.jitter; grayscale = grayscale, mxnet_contrast = mxnet_contrast, mxnet_illumination = mxnet_illumination,
                         given(brightness = brightness, contrast = contrast, saturation = saturation, hue = hue, mxnet_hls = mxnet_hls)...)
        config.color = changed(config.color; jitter = jitter, given(mean = mean, std = std, bias = bias, scale = scale, fill = fill)...)
        config.read = changed(config.read; threads = reader_threads, ahead_samples = read_ahead, retries = read_retries)
        config.decode = changed(config.decode; decoder = choice(DECODERS, decoder), threads = threads, jpeg = choice(DECODERS, jpeg_decoder), jpeg_shrink = jpeg_shrink,
                                jpeg_shrink_margin = jpeg_shrink_margin)
        config.errors = changed(config.errors; policy = choice(ON_ERROR, on_error),
                                callback_policy = choice(ON_CALLBACK_ERROR, on_callback_error))
        config.pipeline = changed(config.pipeline; batches_in_flight = batches_in_flight, no_threads = no_threads, transform = transform,
                                  transform_user = transform_user, picture = picture, picture_user = picture_user)

        chosen, numbers, others = optional(image), names_of(tensors), names_of(bytes)
        order = indices === nothing ? UInt64[] : UInt64[i - 1 for i in indices]
        indices === nothing || !isempty(order) || throw(ArgumentError("indices: there are none"))
        err, out = sized(bzna_error), Ref{Ptr{bzna_loader}}(C_NULL)
        means = mean_image === nothing ? Float32[] : Vector{Float32}(vec(mean_image))
        names, fields = [output.name for output in outputs], [output.field for output in outputs]
        extras = bzna_loader_output[output.raw for output in outputs]
        warps = own_of([output.warp for output in outputs], config.warp)
        filters = own_of([output.filter for output in outputs], config.filter)
        colors = own_of([output.color for output in outputs], config.color)
        GC.@preserve config chosen numbers others order means names fields extras warps filters colors data out err begin
            if mean_image !== nothing
                config.color = changed(config.color; mean_image = pointer(means), mean_image_bytes = sizeof(means))
            end
            for (i, output) in enumerate(outputs)
                extras[i] = changed(extras[i]; name = cstring(names[i]), field = cstring(fields[i]),
                                    warp = address_or_null(warps, i, output.warp),
                                    filter = address_or_null(filters, i, output.filter),
                                    color = address_or_null(colors, i, output.color))
            end
            if !isempty(extras)
                config.extra_outputs = changed(config.extra_outputs; ptr = pointer(extras), count = length(extras))
            end
            config.fields = changed(config.fields; image = cstring(chosen), tensors = cstring(numbers), bytes = cstring(others))
            if indices !== nothing
                config.order = changed(config.order; indices = pointer(order), index_count = length(order))
            end
            status = bzna_loader_open(data.context.handle, data.handle, address(config), Base.unsafe_convert(Ptr{Ptr{bzna_loader}}, out),
                                      address(err))
            check(status, err, data.box)
        end
        info = sized(bzna_loader_info)
        check(bzna_loader_get_info(out[], info, sizeof(bzna_loader_info), err), err)
        return finalizer(close_later, new(out[], data, shape_of(info.image), info.samples_per_epoch, info.batches_per_epoch,
                                          info.batches_in_flight, buffer, Threads.Atomic{Int}(0), epoch, false, 0,
                                          is_given ? Dict{UInt64,Tuple{Vector{UInt64},Vector{UInt32}}}() : nothing))
    end
end

# Reader threads are the library's own.
function callable_from_threads(box)
    box isa SourceBox && VERSION < v"1.9" &&
        throw(ArgumentError("a loader reads a source on threads of the library, on which Julia runs from 1.9 on, not $VERSION: give a path or the bytes"))
end

num_exceptions(loader::Loader) = num_exceptions(loader.dataset)
last_exception(loader::Loader) = last_exception(loader.dataset)

Loader(data; split::Union{Nothing,AbstractString} = nothing, device::Union{Symbol,Integer} = :auto, keywords...) =
    Loader(Dataset(data; split = split, device = device); keywords...)

# Names with commas between them.
names_of(::Nothing) = nothing
names_of(name::AbstractString) = String(name)
names_of(names) = join(names, ",")

# ---- Writers -------------------------------------------------------------------------------------------------------------------------

"A coded picture: `coded(data, index)`, or the bytes of a JPEG file."
struct Coded
    image::bzna_image
    bytes::Vector{UInt8}              # what it points into
    data::Union{Nothing,Dataset}
end

function Coded(bytes::Vector{UInt8})
    image = sized(bzna_image)
    image.codec, image.data, image.data_size = BZNA_CODEC_JPEG, pointer(bytes), length(bytes)
    return Coded(image, bytes, nothing)
end

coded(sample::Sample, field::AbstractString = "image") = coded(sample.data, sample.index, field)

"A picture of sample `index`, counted from 1, as it is coded; `field` is \"image\" or \"thumb\"."
function coded(data::Dataset, index::Integer, field::AbstractString = "image")
    err, sample, image = sized(bzna_error), sized(bzna_sample_ref), sized(bzna_image)
    check(bzna_dataset_sample(data.handle, index - 1, sample, sizeof(bzna_sample_ref), err), err)
    bytes = Vector{UInt8}(undef, sample.size)
    check(bzna_dataset_read_image(data.handle, index - 1, String(field), bytes, length(bytes), image, err), err, data.box)
    return Coded(image, bytes, data)
end

"""
    Writer(path; classes = String[], queue_bytes = 0)
    Writer(path; ...) do writer ... end

Writes an archive, which replaces a file that is there. At the end of the block it is finished, as by `finish!`; after an exception, or `close`
alone, it is left unfinished: readers refuse it, and `bzna index` makes an archive of its samples.

    classes = String[]                    the names of the targets 0, 1, ...
    queue_bytes = 0                       memory for samples that wait for those of smaller indices; 64 MiB where it is 0
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

const SPLITS = (none = BZNA_SPLIT_NONE, train = BZNA_SPLIT_TRAIN, validation = BZNA_SPLIT_VALIDATION, test = BZNA_SPLIT_TEST)

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
from 1, samples may come in any order, from several threads: where one's turn does not come within `timeout` seconds, and no room is left for
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
        status = index === nothing ? bzna_writer_add(writer.handle, sample, address(err)) :
                 bzna_writer_add_at(writer.handle, UInt64(index - 1), sample, 100_000_000, address(err))
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

"Closes a data set, a loader or a writer now, instead of when it is collected. Batches stay valid."
function Base.close(object::Union{Dataset,Loader,Writer})
    try_close(object) || throw(BenzinaError(BZNA_E_STATE, "not closed inside a callback", nothing, 0))
    return nothing
end

Base.isopen(object::Union{Dataset,Loader,Writer}) = object.handle != C_NULL

function Base.show(io::IO, loader::Loader)
    width, height, _, samples = loader.shape
    print(io, "Benzina.Loader(", loader.samples, " samples, ", loader.batches, " batches of ", samples, ", ", width, "x", height, ")")
end

"""
One batch: `data` (width x height x channels x samples), `targets` (-1 where a sample has none), `indices` (counted from 1), `status` (0, or why a
slot holds the out-of-bounds color), `count` (how many are real, when the last batch is padded), `epoch`, and whether it is the `last` of it.
"""
struct Batch
    handle::Ptr{bzna_batch}                 # as long as `data` is there
    data::Array{Float32,4}
    targets::Vector{Int64}
    indices::Vector{Int}
    status::Vector{Int32}
    count::Int
    epoch::Int
    last::Bool
end

# What keeps an array's memory: all arrays made of it share this.
@static if VERSION >= v"1.11"
    owner(x::Array) = x.ref.mem
else
    owner(x::Array) = x
end

# Not inlined, and so are the functions below that return a batch. Compiled into their caller, they would leave references to earlier batches
# in its frame, and the collector could not give those back: a comprehension over a loader then needs up to five batches instead of two.
@noinline function lend(loader::Loader, handle::Ptr{bzna_batch})
    info, err = sized(bzna_batch_info), sized(bzna_error)
    check(bzna_batch_get_info(handle, info, sizeof(bzna_batch_info), err), err)
    width, height, channels, samples = shape_of(info.image)
    views = info.image.dimensions == 5 ? Int(info.image.shape[1]) : 1
    # C is row-major, with the width last: the same memory is Julia's column-major, with the width first.
    data = unsafe_wrap(Array, Ptr{Float32}(info.image.data), (width, height, channels, samples * views))
    loans = loader.loans
    Threads.atomic_add!(loans, 1)
    finalizer(owner(data)) do _
        bzna_batch_release(handle)              # does not wait
        Threads.atomic_sub!(loans, 1)
    end
    column(first) = copy(unsafe_wrap(Array, first, samples))
    loader.epoch = info.epoch
    loader.midway = info.last_of_epoch == 0
    return Batch(handle, data, column(info.targets), Int.(column(info.indices)) .+ 1, column(info.status), Int(info.count), Int(info.epoch),
                 info.last_of_epoch != 0)
end

"Gives the memory of a batch back to its loader now; neither `x` nor anything made of it may be used afterwards."
release!(x::Array{Float32,4}) = finalize(owner(x))
release!(batch::Batch) = release!(batch.data)

"Why slot `slot` (counted from 1) of a batch holds the out-of-bounds color: a `BenzinaError`, or `nothing` where all is well."
function failure(batch::Batch, slot::Integer)
    err = sized(bzna_error)
    status = GC.@preserve batch bzna_batch_error(batch.handle, slot - 1, err)
    return status < 0 ? BenzinaError(status, err) : nothing
end

"""
    tensor(batch, name) -> Array

A copy of one of the loader's `tensors`: a `Vector{Int64}`, -1 where a sample has none, or a `Matrix{Float32}` with a column for each sample;
or of one of its `outputs`: width x height x channels x samples, of several views x views.
"""
function tensor(batch::Batch, name::AbstractString)
    info, err = sized(bzna_batch_info), sized(bzna_error)
    GC.@preserve batch begin
        check(bzna_batch_get_info(batch.handle, info, sizeof(bzna_batch_info), err), err)
        found = Ref(info.image)
        check(bzna_batch_tensor(batch.handle, String(name), found, sizeof(found[]), err), err)
        numbers = found[]
        numbers.device.kind == BZNA_DEVICE_CPU || throw(ArgumentError("$name lies on a device"))
        shape = reverse(Int.(numbers.shape[1:numbers.dimensions]))
        numbers.dtype == BZNA_DTYPE_INT64 && return copy(unsafe_wrap(Array, Ptr{Int64}(numbers.data), shape))
        numbers.dtype == BZNA_DTYPE_UINT8 && return copy(unsafe_wrap(Array, Ptr{UInt8}(numbers.data), shape))
        numbers.dtype == BZNA_DTYPE_FLOAT32 && return copy(unsafe_wrap(Array, Ptr{Float32}(numbers.data), shape))
    end
    throw(ArgumentError("$name holds neither Int64, Float32 nor UInt8"))
end

"""
    bytes(batch, name) -> Vector

Copies of what the samples have in one of the loader's `bytes`: a `Vector{UInt8}` for each slot, `nothing` where there is none. `String` makes text of it.
"""
function bytes(batch::Batch, name::AbstractString)
    err, data, size = sized(bzna_error), Ref{Ptr{Cvoid}}(C_NULL), Ref{UInt64}(0)
    values = Union{Nothing,Vector{UInt8}}[]
    for slot in eachindex(batch.targets)
        GC.@preserve batch begin
            check(bzna_batch_bytes(batch.handle, String(name), slot - 1, data, size, err), err)
            push!(values, data[] == C_NULL ? nothing : copy(unsafe_wrap(Array, Ptr{UInt8}(data[]), Int(size[]))))
        end
    end
    return values
end

# The next batch; nothing after the last epoch.
@noinline function next!(loader::Loader)
    err, out, collections = sized(bzna_error), Ref{Ptr{bzna_batch}}(C_NULL), 0
    # With two batches left for the library, one is filled while one is ready.
    loader.loans[] > max(loader.in_flight - 2, 1) && GC.gc(false)
    while true
        # Short waits: between them, other tasks run and an interrupt is heard.
        status = GC.@preserve loader out err begin
            bzna_loader_next(loader.handle, Int64(20_000_000), Base.unsafe_convert(Ptr{Ptr{bzna_batch}}, out), address(err))
        end
        if status == BZNA_OK
            return lend(loader, out[])
        elseif status == BZNA_END
            return nothing
        elseif status == BZNA_AGAIN
            yield()
        elseif status == BZNA_E_STATE && loader.loans[] >= loader.in_flight && collections < 2
            # All batches are on loan, perhaps to arrays that nobody can reach: the young ones first, then all.
            GC.gc(collections == 1)
            collections += 1
        else
            check(status, err, loader.dataset.box)
        end
    end
end

"The batches of one epoch, as `Batch`es instead of (x, y): also their indices and status."
struct EachBatch
    loader::Loader
end

eachbatch(loader::Loader) = EachBatch(loader)

# An epoch that was broken off is over: the next one begins.
function start!(loader::Loader)
    if loader.midway
        err = sized(bzna_error)
        GC.@preserve loader err check(bzna_loader_reset(loader.handle, loader.epoch + 1, address(err)), err)
        loader.epoch += 1
        loader.midway = false
        if loader.lists !== nothing                 # the library has forgotten them
            lists = filter(pair -> pair.first >= loader.epoch, loader.lists)
            empty!(loader.lists)
            foreach(epoch -> give!(loader, epoch, lists[epoch]...), sort!(collect(keys(lists))))
        end
    end
    return nothing
end

# Gives an epoch its list, in batches if there are sizes.
function give!(loader::Loader, epoch::UInt64, indices::Vector{UInt64}, sizes::Vector{UInt32})
    loader.lists === nothing && throw(ArgumentError("the loader draws its own order: indices = :given makes one that is given"))
    err = sized(bzna_error)
    status = GC.@preserve loader indices sizes begin
        isempty(sizes) ? bzna_loader_set_indices(loader.handle, epoch, pointer(indices), length(indices), err) :
                         bzna_loader_set_batches(loader.handle, epoch, pointer(indices), length(indices), pointer(sizes), length(sizes), err)
    end
    check(status, err)
    filter!(pair -> pair.first >= loader.epoch, loader.lists)
    loader.lists[epoch] = (indices, sizes)
    return loader
end

"""
    set_indices!(loader, epoch, indices)

Gives the samples of an epoch, counted from 1, to a loader with `indices = :given`: of all ranks together, in order. They may repeat. Epochs
count from `Loader`'s `epoch`, 0 by default, and lists of later ones can be given early. An epoch is given its list once. `restore!` forgets all.
"""
set_indices!(loader::Loader, epoch::Integer, indices) = give!(loader, UInt64(epoch), UInt64[i - 1 for i in indices], UInt32[])

"The same, by a collection of batches, each of which holds the samples of one: at most `batchsize`. Ranks share whole batches."
function set_batches!(loader::Loader, epoch::Integer, batches)
    isempty(batches) && throw(ArgumentError("batches: there are none"))
    return give!(loader, UInt64(epoch), UInt64[i - 1 for batch in batches for i in batch], UInt32[length(batch) for batch in batches])
end

# Where an iteration stands: its number, whether the epoch is over, and what is to be given back at the next step. It holds no batch that
# the caller need not hold, so that the loader gets them back as early as can be.
struct Step
    iteration::Int
    last::Bool
    batch::Union{Nothing,Batch}
end

@noinline function Base.iterate(each::EachBatch, previous::Union{Nothing,Step} = nothing)
    loader = each.loader
    loader.handle == C_NULL && throw(BenzinaError(BZNA_E_STATE, "the loader is closed", nothing, 0))
    if previous === nothing
        loader.lists === nothing && loader.batches == 0 && return nothing       # fewer samples than a batch, and partial = false
        start!(loader)
        loader.iteration += 1
    else
        previous.iteration == loader.iteration || throw(BenzinaError(BZNA_E_STATE,
            "this iteration was superseded: another one of the same loader has begun, or a state was restored", nothing, 0))
        previous.batch === nothing || release!(previous.batch)
        previous.last && return nothing
    end
    batch = next!(loader)
    return batch === nothing ? nothing : (batch, Step(loader.iteration, batch.last, loader.buffer ? batch : nothing))
end

@noinline function Base.iterate(loader::Loader, previous::Union{Nothing,Step} = nothing)
    step = iterate(EachBatch(loader), previous)
    step === nothing && return nothing
    batch = step[1]
    return (batch.data, batch.targets), step[2]
end

# `length` is that of a whole epoch: after restore!, less may be left of the first one.
Base.IteratorSize(::Type{Loader}) = Base.SizeUnknown()
Base.IteratorSize(::Type{EachBatch}) = Base.SizeUnknown()
function Base.length(loader::Loader)
    loader.lists === nothing && return loader.batches
    info, err = sized(bzna_loader_info), sized(bzna_error)          # of the epoch that the next batch is of; 0 without its list
    check(bzna_loader_get_info(loader.handle, info, sizeof(bzna_loader_info), err), err)
    return Int(info.batches_per_epoch)
end
Base.length(each::EachBatch) = length(each.loader)
Base.eltype(::Type{Loader}) = Tuple{Array{Float32,4},Vector{Int64}}
Base.eltype(::Type{EachBatch}) = Batch

"Where a run stands, after the last batch that was delivered: 128 bytes, to be kept beside a model's checkpoint."
function save(loader::Loader)
    state, err = sized(bzna_loader_state), sized(bzna_error)
    check(bzna_loader_save(loader.handle, state, sizeof(bzna_loader_state), err), err)
    return GC.@preserve state copy(unsafe_wrap(Array, Ptr{UInt8}(pointer_from_objref(state)), sizeof(bzna_loader_state)))
end

"Goes on from a saved state, of a loader with the same data and order: the next `for` delivers what was left of its epoch."
function restore!(loader::Loader, bytes::AbstractVector{UInt8})
    length(bytes) == sizeof(bzna_loader_state) || throw(ArgumentError("a state has $(sizeof(bzna_loader_state)) bytes, not $(length(bytes))"))
    state, err = sized(bzna_loader_state), sized(bzna_error)
    GC.@preserve loader state err begin
        copyto!(unsafe_wrap(Array, Ptr{UInt8}(pointer_from_objref(state)), sizeof(bzna_loader_state)), bytes)
        check(bzna_loader_restore(loader.handle, address(state), address(err)), err)
    end
    loader.epoch, loader.midway = state.epoch, false
    loader.lists === nothing || empty!(loader.lists)
    loader.iteration += 1                           # an iteration that is under way ends here
    return loader
end

"Counts and times of the stages since the loader was opened, and what failed. `limit` says what limits it, and which setting would change that."
function statistics(loader::Loader)
    counts, err = sized(bzna_statistics), sized(bzna_error)
    check(bzna_loader_statistics(loader.handle, counts, sizeof(bzna_statistics), err), err)
    return counts
end

"The statistics since earlier ones of this loader, such as of an epoch."
function statistics(loader::Loader, earlier::bzna_statistics)
    counts, err = statistics(loader), sized(bzna_error)
    check(bzna_statistics_since(counts, earlier, counts, sizeof(bzna_statistics), err), err)
    return counts
end

"What limits the loader, and which setting would change that: a sentence."
limit(loader::Loader) = text(statistics(loader).advice)
limit(counts::bzna_statistics) = text(counts.advice)

"""
    device(loader)

The GPU that a loader or a data set may use: its `name`, its `ordinal` as CUDA counts, and how many NVDEC `engines` it has. A `BenzinaError` that
says why, where there is none. `decoder(loader)` says who decodes.
"""
device(loader::Loader) = device(loader.dataset)

function device(data::Dataset)
    info, err = sized(bzna_device_info), sized(bzna_error)
    check(bzna_context_device_info(data.context.handle, info, sizeof(bzna_device_info), err), err)
    return (name = text(info.name), ordinal = Int(info.device.ordinal), engines = Int(info.engines))
end

"Who decodes, and why that one: two strings."
function decoder(loader::Loader)
    info, err = sized(bzna_loader_info), sized(bzna_error)
    check(bzna_loader_get_info(loader.handle, info, sizeof(bzna_loader_info), err), err)
    return text(info.decoder_name), text(info.decoder_reason)
end

# ---- A data provider, as MXNet.jl has them --------------------------------------------------------------------------------------------
# With pad = true every batch is full, as MXNet wants it, and count_samples says how many of its samples are real.

get_batch_size(loader::Loader) = loader.shape[4]
provide_data(loader::Loader) = Tuple{Symbol,Tuple}[(:data, loader.shape)]
provide_label(loader::Loader) = Tuple{Symbol,Tuple}[(:softmax_label, (loader.shape[4],))]
count_samples(::Loader, batch::Batch) = batch.count
get_data(::Loader, batch::Batch) = [batch.data]
get_label(::Loader, batch::Batch) = [batch.targets]

"Copies the pixels of a batch to the arrays of `targets`: one here, of the shape that `provide_data` says."
load_data!(loader::Loader, batch::Batch, targets::AbstractVector) = foreach(copyto!, targets, get_data(loader, batch))

"Copies the classes of a batch to the arrays of `targets`."
load_label!(loader::Loader, batch::Batch, targets::AbstractVector) = foreach(copyto!, targets, get_label(loader, batch))

end # module Benzina
