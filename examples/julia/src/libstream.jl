# ---- stream.h, as far as it is used here -------------------------------------------------------------------------------------------
# libbenzina_stream.so is in the folder of libbenzina.so, and is loaded when the first stream is made.

const libbenzina_stream = "libbenzina_stream.so.$BZNA_VERSION_MAJOR.$BZNA_VERSION_MINOR"

function load_stream()
    path = joinpath(dirname(Libdl.dlpath(libbenzina)), libbenzina_stream)
    try
        Libdl.dlopen(path)
    catch exception
        throw(ErrorException(string("Benzina.Stream needs ", path, ", which `make` builds: ", sprint(showerror, exception))))
    end
    return nothing
end

mutable struct bzna_stream end

const BZNA_STREAM_ON_ERROR_STOP = UInt32(0)
const BZNA_STREAM_ON_ERROR_LEAVE = UInt32(1)

mutable struct bzna_stream_config
    struct_size::UInt32
    source_count::UInt32
    sources::Ptr{Cstring}
    literal::UInt32
    on_error::UInt32
    loader::Ptr{bzna_loader_config}
    dataset::Ptr{bzna_dataset_config}
    memory_bytes::UInt64
    samples_per_epoch::UInt64
    rules::Ptr{bzna_rule}
    rule_count::UInt32
    reserved0::UInt32
    log::Ptr{Cvoid}
    log_user::Ptr{Cvoid}
    reserved::NTuple{4,UInt64}
    bzna_stream_config() = new()
end

mutable struct bzna_stream_info
    struct_size::UInt32
    shard_count::UInt32
    epoch::UInt64
    window::UInt64
    last_of_epoch::UInt32
    shards_left_out::UInt32
    shards_read::UInt64
    bytes_read::UInt64
    memory_bytes::UInt64
    peak_bytes::UInt64
    samples::UInt64
    bzna_stream_info() = new()
end

struct bzna_stream_mark
    window::UInt64
    list::UInt64
    epoch::UInt64
    epoch_samples::UInt64
    first_pass::UInt64
    first_place::UInt64
    first_sample::UInt64
    own_pass::UInt64
    own_place::UInt64
end

# A loader's state lies in it as bytes, since bzna_loader_state is mutable.
mutable struct bzna_stream_state
    struct_size::UInt32
    version::UInt32
    fingerprint::UInt64
    epoch::UInt64
    mark::bzna_stream_mark
    loader::NTuple{128,UInt8}
    bzna_stream_state() = new()
end

bzna_stream_open(context, config, out, err) =
    @ccall libbenzina_stream.bzna_stream_open(context::Ptr{bzna_context}, config::Ref{bzna_stream_config}, out::Ref{Ptr{bzna_stream}},
                                              err::Ref{bzna_error})::bzna_status
bzna_stream_wait(stream::Ptr{bzna_stream}, timeout_ns::Int64, err::Ptr{bzna_error}) =
    @gcsafe @ccall libbenzina_stream.bzna_stream_wait(stream::Ptr{bzna_stream}, timeout_ns::Int64, err::Ptr{bzna_error})::bzna_status
bzna_stream_next(stream::Ptr{bzna_stream}, timeout_ns::Int64, batch::Ptr{Ptr{bzna_batch}}, err::Ptr{bzna_error}) =
    @gcsafe @ccall libbenzina_stream.bzna_stream_next(stream::Ptr{bzna_stream}, timeout_ns::Int64, batch::Ptr{Ptr{bzna_batch}},
                                                      err::Ptr{bzna_error})::bzna_status
bzna_stream_get_info(stream, info, struct_size, err) =
    @ccall libbenzina_stream.bzna_stream_get_info(stream::Ptr{bzna_stream}, info::Ref{bzna_stream_info}, struct_size::Csize_t,
                                                  err::Ref{bzna_error})::bzna_status
bzna_stream_source(stream, index) =
    @ccall libbenzina_stream.bzna_stream_source(stream::Ptr{bzna_stream}, index::UInt64)::Cstring
bzna_stream_loader(stream) =
    @ccall libbenzina_stream.bzna_stream_loader(stream::Ptr{bzna_stream})::Ptr{bzna_loader}
bzna_stream_save(stream, state, struct_size, err) =
    @ccall libbenzina_stream.bzna_stream_save(stream::Ptr{bzna_stream}, state::Ref{bzna_stream_state}, struct_size::Csize_t,
                                              err::Ref{bzna_error})::bzna_status
bzna_stream_restore(stream::Ptr{bzna_stream}, state::Ptr{bzna_stream_state}, err::Ptr{bzna_error}) =
    @gcsafe @ccall libbenzina_stream.bzna_stream_restore(stream::Ptr{bzna_stream}, state::Ptr{bzna_stream_state},
                                                         err::Ptr{bzna_error})::bzna_status
bzna_stream_close(stream::Ptr{bzna_stream}) =
    @gcsafe @ccall libbenzina_stream.bzna_stream_close(stream::Ptr{bzna_stream})::bzna_status
