# ---- benzina.h, as far as it is used here ------------------------------------------------------------------------------------------
# Structs that C fills in are mutable, with an empty constructor: `sized` zeroes them and sets struct_size. Those that lie inside them are
# values, which `changed` makes anew with some of their fields changed. Calls that may wait for callbacks written in Julia are @gcsafe,
# and take plain pointers.

module LibBenzina

using Libdl

include("header.jl")

# The name that the library has when it is loaded, of the version that header.jl was made for.
const libbenzina = "libbenzina.so.$BZNA_VERSION_MAJOR.$BZNA_VERSION_MINOR"

# Loads the library that calls then find by that name: the file that the environment names, what `make` built in this repository, or the
# system's.
function __init__()
    built = normpath(joinpath(@__DIR__, "..", "..", "..", "build", "libbenzina.so"))
    path = get(() -> isfile(built) ? built : libbenzina, ENV, "BENZINA_LIBRARY")
    try
        Libdl.dlopen(path)
        Libdl.dlopen(libbenzina)            # another version has another name
    catch exception
        throw(ErrorException(string("Benzina needs ", libbenzina, ", which `make` builds. It was looked for as ", path,
                                    ", which the environment variable BENZINA_LIBRARY changes: ", sprint(showerror, exception))))
    end
    load_formats()
    return nothing
end

# libbenzina_formats.so lies beside libbenzina.so. What it opens, and its codecs, in C, are of formats that the library does not know by
# itself.
const libbenzina_formats = "libbenzina_formats.so.$BZNA_VERSION_MAJOR.$BZNA_VERSION_MINOR"
const FORMATS = Ref(bzna_own_codecs(C_NULL, 0, (0, 0)))
const RECOGNIZE = Ref{Ptr{Cvoid}}(C_NULL)        # bzna_formats_recognize

function load_formats()
    Libdl.dlopen(joinpath(dirname(Libdl.dlpath(libbenzina)), libbenzina_formats))
    count = Ref{UInt64}(0)
    codecs = bzna_formats_codecs(count)
    FORMATS[] = bzna_own_codecs(codecs, count[], (0, 0))
    RECOGNIZE[] = Libdl.dlsym(found, :bzna_formats_recognize)
    return
end

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

bzna_formats_codecs(count) = @ccall libbenzina_formats.bzna_formats_codecs(count::Ref{UInt64})::Ptr{bzna_codec}

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

bzna_dataset_config_init(config, struct_size) =
    @ccall libbenzina.bzna_dataset_config_init(config::Ref{bzna_dataset_config}, struct_size::Csize_t)::Cvoid
bzna_formats_records_init(records, struct_size) =
    @ccall libbenzina_formats.bzna_formats_records_init(records::Ref{bzna_records}, struct_size::Csize_t)::Cvoid
bzna_formats_open(context, path, config, out, err) =
    @ccall libbenzina_formats.bzna_formats_open(context::Ptr{bzna_context}, path::Cstring, config::Ref{bzna_formats_config},
                                        out::Ref{Ptr{bzna_dataset}}, err::Ref{bzna_error})::bzna_status
bzna_formats_open_list(context, paths, count, config, out, err) =
    @ccall libbenzina_formats.bzna_formats_open_list(context::Ptr{bzna_context}, paths::Ptr{Cstring}, count::UInt32,
                                             config::Ref{bzna_formats_config}, out::Ref{Ptr{bzna_dataset}},
                                             err::Ref{bzna_error})::bzna_status
bzna_formats_open_memory(context, bytes, size, config, out, err) =
    @ccall libbenzina_formats.bzna_formats_open_memory(context::Ptr{bzna_context}, bytes::Ptr{Cvoid}, size::Csize_t,
                                               config::Ref{bzna_formats_config}, out::Ref{Ptr{bzna_dataset}},
                                               err::Ref{bzna_error})::bzna_status
bzna_formats_open_source(context, source, config, out, err) =
    @ccall libbenzina_formats.bzna_formats_open_source(context::Ptr{bzna_context}, source::Ref{bzna_source}, config::Ref{bzna_formats_config},
                                               out::Ref{Ptr{bzna_dataset}}, err::Ref{bzna_error})::bzna_status
bzna_provider_init(provider, struct_size) =
    @ccall libbenzina.bzna_provider_init(provider::Ref{bzna_provider}, struct_size::Csize_t)::Cvoid
bzna_dataset_open_provider(context, provider, config, out, err) =
    @ccall libbenzina.bzna_dataset_open_provider(context::Ptr{bzna_context}, provider::Ref{bzna_provider}, config::Ptr{bzna_dataset_config},
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

bzna_decoder_open(context, out, err) =
    @ccall libbenzina.bzna_decoder_open(context::Ptr{bzna_context}, out::Ref{Ptr{bzna_decoder}}, err::Ref{bzna_error})::bzna_status
bzna_decoder_close(decoder) =
    @ccall libbenzina.bzna_decoder_close(decoder::Ptr{bzna_decoder})::bzna_status
bzna_decoder_decode(decoder, image, picture, err) =
    @ccall libbenzina.bzna_decoder_decode(decoder::Ptr{bzna_decoder}, image::Ref{bzna_image}, picture::Ref{bzna_picture},
                                          err::Ref{bzna_error})::bzna_status
bzna_formats_policy_preset(preset, draws, magnitude, policy, err) =
    @ccall libbenzina_formats.bzna_formats_policy_preset(preset::UInt32, draws::UInt32, magnitude::UInt32, policy::Ref{bzna_policy},
                                         err::Ref{bzna_error})::bzna_status
bzna_random_init(random, seed, epoch, sample, purpose) =
    @ccall libbenzina.bzna_random_init(random::Ref{bzna_random}, seed::UInt64, epoch::UInt64, sample::UInt64, purpose::UInt32)::Cvoid
bzna_random_uniform(random, lo, hi) =
    @ccall libbenzina.bzna_random_uniform(random::Ptr{bzna_random}, lo::Float64, hi::Float64)::Float64
bzna_transform_init(transform, struct_size) =
    @ccall libbenzina.bzna_transform_init(transform::Ref{bzna_transform}, struct_size::Csize_t)::Cvoid
bzna_geometry_box(geometry, area, out) =
    @ccall libbenzina.bzna_geometry_box(geometry::Ref{bzna_geometry}, area::Ptr{Float64}, out::Ptr{Float64})::UInt32
bzna_picture_render(picture, transform, output, dst, dst_bytes, err) =
    @ccall libbenzina.bzna_picture_render(picture::Ref{bzna_picture}, transform::Ref{bzna_transform}, output::Ref{bzna_output},
                                          dst::Ptr{Cvoid}, dst_bytes::Csize_t, err::Ref{bzna_error})::bzna_status
bzna_warp_draw(random, warp, in_width, in_height, out_width, out_height, out, err) =
    @ccall libbenzina.bzna_warp_draw(random::Ref{bzna_random}, warp::Ref{bzna_warp}, in_width::UInt32, in_height::UInt32,
                                     out_width::UInt32, out_height::UInt32, out::Ptr{Float64}, err::Ref{bzna_error})::bzna_status

bzna_writer_config_init(config, struct_size) =
    @ccall libbenzina.bzna_writer_config_init(config::Ref{bzna_writer_config}, struct_size::Csize_t)::Cvoid
bzna_writer_sample_init(sample, struct_size) =
    @ccall libbenzina.bzna_writer_sample_init(sample::Ref{bzna_writer_sample}, struct_size::Csize_t)::Cvoid
bzna_writer_open(context, path, config, out, err) =
    @ccall libbenzina.bzna_writer_open(context::Ptr{bzna_context}, path::Cstring, config::Ref{bzna_writer_config},
                                       out::Ref{Ptr{bzna_writer}}, err::Ref{bzna_error})::bzna_status
bzna_writer_add(writer::Ptr{bzna_writer}, index::UInt64, sample::Ptr{bzna_writer_sample}, timeout_ns::Int64, err::Ptr{bzna_error}) =
    @gcsafe @ccall libbenzina.bzna_writer_add(writer::Ptr{bzna_writer}, index::UInt64, sample::Ptr{bzna_writer_sample}, timeout_ns::Int64,
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
bzna_loader_set_batches(loader, epoch, indices, index_count, sizes, size_count, err) =
    @ccall libbenzina.bzna_loader_set_batches(loader::Ptr{bzna_loader}, epoch::UInt64, indices::Ptr{UInt64}, index_count::UInt64,
                                              sizes::Ptr{UInt32}, size_count::UInt64, err::Ref{bzna_error})::bzna_status
bzna_formats_weighted_give(loader, dataset, weights, epoch, err) =
    @ccall libbenzina_formats.bzna_formats_weighted_give(loader::Ptr{bzna_loader}, dataset::Ptr{bzna_dataset},
                                                         weights::Ref{bzna_formats_weights}, epoch::UInt64,
                                                         err::Ref{bzna_error})::bzna_status
bzna_formats_rule_init(rule, struct_size) =
    @ccall libbenzina_formats.bzna_formats_rule_init(rule::Ref{bzna_rule}, struct_size::Csize_t)::Cvoid
bzna_formats_rules_open(dataset, given, count, config, out, err) =
    @ccall libbenzina_formats.bzna_formats_rules_open(dataset::Ptr{bzna_dataset}, given::Ptr{bzna_rule}, count::UInt32,
                                                      config::Ref{bzna_loader_config}, out::Ref{Ptr{bzna_rules}},
                                                      err::Ref{bzna_error})::bzna_status
bzna_formats_rules_close(rules) =
    @ccall libbenzina_formats.bzna_formats_rules_close(rules::Ptr{bzna_rules})::Cvoid
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
bzna_batch_to_dlpack(batch, name, version, tensor, err) =
    @ccall libbenzina.bzna_batch_to_dlpack(batch::Ptr{bzna_batch}, name::Cstring, version::UInt32, tensor::Ref{Ptr{Cvoid}},
                                           err::Ref{bzna_error})::bzna_status
bzna_batch_release(batch) =
    @ccall libbenzina.bzna_batch_release(batch::Ptr{bzna_batch})::bzna_status

include("libstream.jl")         # stream.h: the same

# The names of the headers, for the modules around this one.
for name in names(@__MODULE__; all = true)
    startswith(lowercase(string(name)), "bzna_") && @eval export $name
end

end # module LibBenzina
