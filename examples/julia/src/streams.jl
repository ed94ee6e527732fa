# ---- Streams: shards that cannot seek ------------------------------------------------------------------------------------------------

const ON_SHARD_ERROR = (stop = BZNA_STREAM_ON_ERROR_STOP, leave = BZNA_STREAM_ON_ERROR_LEAVE)

"""
    Stream(sources; batchsize, size, keywords...)

Batches of shards that cannot seek. A source is a path, a FIFO, "-" (standard input), "pipe:COMMAND" (what `sh -c COMMAND` writes) or a `Cmd`; `sources`
is one or a vector of them. Braces name several: "train-{000..146}.tar". Shards are tars, also packed by gzip or zstd. It iterates as a
`Loader` does: `for (x, y) in stream` runs one epoch, and so does `eachbatch(stream)`. Shards are read into memory, window by window, and
shuffled, as are the samples within a window. `batch.indices` says which samples these are: see `source_of`.

    memory_bytes = 0                      of all shards in memory, unpacked; 0: 1 GiB. A shard may have a third of it
    samples_per_epoch = 0                 of all ranks together, so that each has as many batches; 0: an epoch has each shard once,
                                          and `length` is not known
    on_shard_error = :stop                :leave: a shard that cannot be read is left out. `stream_info(stream).shards_left_out` counts them
    literal = false                       true: braces and backslashes in sources are literal
    format, orientation, palette          as of a `Dataset`
    device = :auto                        as in `Loader`

Further keywords are a `Loader`'s, without `indices`, `log` and those of data providers. `save` and `restore!` continue with the same batches: for
that, the shards of the window are read again. After a loop that was left before the end of its epoch, the next one reads from the start, as a Stream with
`epoch` set to the next epoch does: its order is another one than that of a run that went on.
"""
mutable struct Stream
    handle::Ptr{bzna_stream}
    context::Context
    settings::Settings
    config::bzna_stream_config
    kept::Tuple                       # what config points to
    in_flight::Int                    # 0: the loader is not open yet
    loans::Threads.Atomic{Int}        # batches that Julia has
    epoch::UInt64                     # that the next batch is expected to be of, and whether batches of it have come
    midway::Bool
    iteration::Int                    # number of the one that is under way: those before it are superseded
    held::Any                         # the first batch of a later epoch, and the state before it; nothing: there is none

    # Its context has no log: the thread that opens shards would call it, on which Julia before 1.9 cannot run.
    function Stream(sources::AbstractVector; memory_bytes::Integer = 0, samples_per_epoch::Integer = 0,
                    on_shard_error::Symbol = :stop, literal::Bool = false, format::Union{Nothing,AbstractString} = nothing,
                    orientation::Symbol = :apply, palette::Symbol = :colors, device::Union{Symbol,Integer} = :auto, keywords...)
        LibBenzina.load_stream()
        settings, strings, format_text = Settings(; keywords...), String[source_text(source, literal) for source in sources], optional(format)
        order = settings.config.order
        (order.kind == BZNA_ORDER_GIVEN || order.index_count > 0) &&
            throw(ArgumentError("indices: a Stream has all samples of its shards"))
        pointers = Cstring[cstring(string) for string in strings]
        dataset = bzna_dataset_config()
        bzna_dataset_config_init(dataset, sizeof(bzna_dataset_config))
        dataset.format = cstring(format_text)
        dataset.orientation, dataset.palette = choice(ORIENTATIONS, orientation), choice(PALETTES, palette)
        config = sized(bzna_stream_config)
        config.sources, config.source_count, config.literal = pointer(pointers), length(pointers), literal
        config.loader, config.dataset = address(settings.config), address(dataset)
        config.memory_bytes, config.samples_per_epoch = memory_bytes, samples_per_epoch
        if !isempty(settings.rules)
            config.rules, config.rule_count = pointer(settings.rules), length(settings.rules)
        end
        config.on_error = choice(ON_SHARD_ERROR, on_shard_error)
        stream = new(C_NULL, context_on(device, :none), settings, config, (strings, pointers, format_text, dataset), 0,
                     Threads.Atomic{Int}(0), 0, false, 0, nothing)
        open_at!(stream, order.first_epoch)
        return finalizer(close_later, stream)
    end
end

Stream(source::Union{AbstractString,Cmd}; keywords...) = Stream([source]; keywords...)

# A source as stream.h has it. The library runs a command by sh, in this process's folder and with its environment.
source_text(source::AbstractString, literal::Bool) = source

function source_text(command::Cmd, literal::Bool)
    command.env === nothing && isempty(command.dir) || throw(ArgumentError("$command: a source has no folder or environment of its own"))
    text = Base.shell_escape_posixly(command)
    literal || !occursin('{', text) || throw(ArgumentError("$command: braces in a command need literal = true"))
    return "pipe:" * text
end

# Begins to read, with an epoch. The loader of before is closed; its batches on loan stay valid.
function open_at!(stream::Stream, epoch::Integer)
    try_close(stream) || throw(BenzinaError(BZNA_E_STATE, "not inside a callback", nothing, 0))
    config, err, out = stream.settings.config, sized(bzna_error), Ref{Ptr{bzna_stream}}(C_NULL)
    config.order = changed(config.order; first_epoch = epoch)
    GC.@preserve stream check(bzna_stream_open(stream.context.handle, stream.config, out, err), err)
    stream.handle, stream.in_flight, stream.loans = out[], 0, Threads.Atomic{Int}(0)
    stream.epoch, stream.midway, stream.held = epoch, false, nothing
    return nothing
end

# The stream's loader, which is open when the first window is in memory.
function loader_handle(stream::Stream)
    stream.handle == C_NULL && throw(BenzinaError(BZNA_E_STATE, "the stream is closed", nothing, 0))
    err = sized(bzna_error)
    while stream.in_flight == 0
        status = GC.@preserve stream err bzna_stream_wait(stream.handle, WAIT_NS, address(err))
        if status == BZNA_OK
            info = sized(bzna_loader_info)
            check(bzna_loader_get_info(bzna_stream_loader(stream.handle), info, sizeof(bzna_loader_info), err), err)
            stream.in_flight = info.batches_in_flight
        elseif status == BZNA_AGAIN
            yield()
        else
            check(status, err, stream)
            throw(BenzinaError(BZNA_E_NO_SAMPLES, "the stream has no samples", nothing, 0))
        end
    end
    return bzna_stream_loader(stream.handle)
end

num_exceptions(stream::Stream) = num_exceptions(stream.settings.callbacks)
last_exception(stream::Stream) = last_exception(stream.settings.callbacks)

"Shards and bytes that a `Stream` has read, its epoch, its window, its memory: `bzna_stream_info` of stream.h."
function stream_info(stream::Stream)
    info, err = sized(bzna_stream_info), sized(bzna_error)
    check(bzna_stream_get_info(stream.handle, info, sizeof(bzna_stream_info), err), err)
    return info
end

"""
    source_of(stream, index) -> (source = "train-000.tar", sample = 1)

Which sample an element of `batch.indices` is: of which source, and which one there, counted from 1.
"""
function source_of(stream::Stream, index::Integer)
    GC.@preserve stream begin
        found = index < 1 ? Cstring(C_NULL) : bzna_stream_source(stream.handle, index - 1)
        found == Cstring(C_NULL) && throw(BoundsError(stream, index))
        return (source = unsafe_string(found), sample = Int((index - 1) & 0xffffffff) + 1)
    end
end

Base.show(io::IO, stream::Stream) = print(io, "Benzina.Stream(", isopen(stream) ? string(stream_info(stream).shard_count, " shards") : "closed", ")")

# ---- Iteration: what batches.jl calls

ask(stream::Stream, out, err) = bzna_stream_next(stream.handle, WAIT_NS, Base.unsafe_convert(Ptr{Ptr{bzna_batch}}, out), address(err))
log_of(::Stream) = nothing
is_without_batches(::Stream) = false

function place_of(stream::Stream, ::bzna_batch_info)
    info = stream_info(stream)
    return Int(info.epoch), info.last_of_epoch != 0
end

# With partial = false, an epoch may end without a batch that says so: then the first one of a later epoch is held back for the next `for`.
@noinline function next_of_epoch!(stream::Stream)
    if stream.held === nothing
        before = save(stream)
        batch = next!(stream)
        batch === nothing && return nothing
        if batch.epoch != stream.epoch
            stream.held, stream.epoch, stream.midway = (batch, before), batch.epoch, false
            return nothing
        end
    else
        batch, stream.held = stream.held[1], nothing
    end
    stream.epoch, stream.midway = batch.last ? batch.epoch + 1 : batch.epoch, !batch.last
    return batch
end

# An epoch that was broken off is over: the next one begins.
start!(stream::Stream) = stream.midway ? open_at!(stream, stream.epoch + 1) : nothing

function Base.length(stream::Stream)
    each = cld(stream.config.samples_per_epoch, max(1, stream.settings.config.shard.world_size))
    each == 0 && throw(ArgumentError("a Stream has a length only with samples_per_epoch"))
    batchsize = stream.settings.config.output.batch_size
    return Int(stream.settings.config.order.last_batch == BZNA_LAST_DROP ? each ÷ batchsize : cld(each, batchsize))
end

"The position of a stream's run after the last batch that was delivered: 224 bytes. Waits for the first window."
function save(stream::Stream)
    stream.held === nothing || return copy(stream.held[2])
    loader_handle(stream)
    state, err = sized(bzna_stream_state), sized(bzna_error)
    check(bzna_stream_save(stream.handle, state, sizeof(bzna_stream_state), err), err)
    return bytes_of(state)
end

"Goes on from a saved state, of a stream with the same sources and settings. Shards that have changed raise a `BenzinaError` at the next batch."
function restore!(stream::Stream, bytes::AbstractVector{UInt8})
    state, err = from_bytes(bzna_stream_state, bytes), sized(bzna_error)
    stream.handle == C_NULL && throw(BenzinaError(BZNA_E_STATE, "the stream is closed", nothing, 0))
    GC.@preserve stream state err check(bzna_stream_restore(stream.handle, address(state), address(err)), err)
    stream.epoch, stream.midway, stream.held = state.epoch, false, nothing
    stream.iteration += 1                           # an iteration that is under way ends here
    return stream
end
