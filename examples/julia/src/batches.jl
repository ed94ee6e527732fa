# ---- Batches, and what yields them -----------------------------------------------------------------------------------------------------

"Closes a data set, a loader, a stream, a writer or a decoder now, instead of when it is collected. Batches stay valid."
function Base.close(object::Union{Dataset,Loader,Stream,Writer,Decoder})
    try_close(object) || throw(BenzinaError(BZNA_E_STATE, "not closed inside a callback", nothing, 0))
    return nothing
end

Base.isopen(object::Union{Dataset,Loader,Stream,Writer,Decoder}) = object.handle != C_NULL

function Base.show(io::IO, loader::Loader)
    width, height, _, samples = loader.shape
    print(io, "Benzina.Loader(", loader.samples, " samples, ", loader.batches, " batches of ", samples, ", ", width, "x", height, ")")
end

"""
One batch: `data` (width x height x channels x samples), `targets` (-1 if a sample has none), `indices` (counted from 1; 0 if a slot is padding), `status` (0, or why a
slot holds the out-of-bounds color), `count` (how many are real, when the last batch is padded), `epoch`, and whether it is the `last` of it.
"""
struct Batch{A} <: AbstractDataBatch
    handle::Ptr{bzna_batch}                 # as long as `data` is there
    data::A                                 # an Array, or what `wrap` makes
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

owner(x) = x                                # of a type of others, which `wrap` made

# Not inlined, and so are the functions below that return a batch. Compiled into their caller, they would leave references to earlier batches
# in its frame, and the collector could not give those back: a comprehension over a loader then needs up to five batches instead of two.
@noinline function lend(loader::Union{Loader,Stream}, handle::Ptr{bzna_batch})
    info, err = sized(bzna_batch_info), sized(bzna_error)
    check(bzna_batch_get_info(handle, info, sizeof(bzna_batch_info), err), err)
    width, height, channels, samples = shape_of(info.image)
    views = info.image.dimensions == 5 ? Int(info.image.shape[1]) : 1
    # C is row-major, with the width last: the same memory is Julia's column-major, with the width first.
    pointer, dims, loans = Ptr{Float32}(info.image.data), (width, height, channels, samples * views), loader.loans
    data = try
        loader.settings.wrap === nothing ? unsafe_wrap(Array, pointer, dims) : loader.settings.wrap(pointer, dims)
    catch
        bzna_batch_release(handle)
        rethrow()
    end
    Threads.atomic_add!(loans, 1)
    finalizer(owner(data)) do _
        bzna_batch_release(handle)              # does not wait
        Threads.atomic_sub!(loans, 1)
    end
    column(first) = copy(unsafe_wrap(Array, first, samples))
    epoch, last = place_of(loader, info)
    return Batch(handle, data, column(info.targets), column(info.indices) .% Int .+ 1, column(info.status), Int(info.count), epoch, last)
end

# The epoch of the batch that came last, and whether it was the last of it.
place_of(::Loader, info::bzna_batch_info) = (Int(info.epoch), info.last_of_epoch != 0)

"Gives the memory of a batch back to its loader now; neither `x` nor anything made of it may be used afterwards."
release!(x::AbstractArray) = finalize(owner(x))
release!(batch::Batch) = release!(batch.data)

"""
    drawn(batch, slot, view = 1) -> Vector{bzna_drawn}

The operations that policies drew for a view of a slot, counted from 1: `kind` (of `Benzina.OPERATIONS`), `magnitude`, `area`, `value`. Views of the loader's
pictures come first, then those of each output.
"""
function drawn(batch::Batch, slot::Integer, view::Integer = 1)
    info, err = sized(bzna_batch_info), sized(bzna_error)
    1 <= slot <= length(batch.targets) || throw(BoundsError(batch.targets, slot))
    GC.@preserve batch begin
        check(bzna_batch_get_info(batch.handle, info, sizeof(bzna_batch_info), err), err)
        1 <= view <= info.operation_views || return bzna_drawn[]
        at = (slot - 1) * Int(info.operation_views) + view - 1
        count = unsafe_load(info.operation_counts, at + 1)
        return [unsafe_load(info.operations, at * Int(BZNA_OPERATIONS_MAX) + i) for i in 1:count]
    end
end

"Why slot `slot` (counted from 1) of a batch holds the out-of-bounds color: a `BenzinaError`, or `nothing` if all is well."
function failure(batch::Batch, slot::Integer)
    err = sized(bzna_error)
    status = GC.@preserve batch bzna_batch_error(batch.handle, slot - 1, err)
    return status < 0 ? BenzinaError(status, err) : nothing
end

"How many samples of a batch failed: their slots hold the out-of-bounds color."
failed(batch::Batch) = count(<(0), batch.status)

# Pairs of pictures and targets do not say which of them failed.
function warn_of_failures(batch::Batch)
    slot = findfirst(<(0), batch.status)
    slot === nothing && return
    @warn "$(failed(batch)) of $(length(batch.status)) samples failed; slot $slot: $(failure(batch, slot).message)"
    return
end

"""
    tensor(batch, name) -> Array

A copy of one of the loader's `tensors`: a `Vector{Int64}`, -1 if a sample has none, or a `Matrix{Float32}` with a column for each sample;
or of one of its `outputs`: width x height x channels x samples, of several views x views; or the tensor of a `Rule`, with the samples as last dimension.
"""
function tensor(batch::Batch, name::AbstractString)
    info, err = sized(bzna_batch_info), sized(bzna_error)
    GC.@preserve batch begin
        check(bzna_batch_get_info(batch.handle, info, sizeof(bzna_batch_info), err), err)
        found = Ref(info.image)
        check(bzna_batch_tensor(batch.handle, String(name), found, sizeof(found[]), err), err)
        numbers = found[]
        numbers.device.kind == BZNA_DEVICE_CPU || throw(ArgumentError("$name is on a device"))
        shape = reverse(Int.(numbers.shape[1:numbers.dimensions]))
        numbers.dtype == BZNA_DTYPE_INT64 && return copy(unsafe_wrap(Array, Ptr{Int64}(numbers.data), shape))
        numbers.dtype == BZNA_DTYPE_INT32 && return copy(unsafe_wrap(Array, Ptr{Int32}(numbers.data), shape))
        numbers.dtype == BZNA_DTYPE_UINT8 && return copy(unsafe_wrap(Array, Ptr{UInt8}(numbers.data), shape))
        numbers.dtype == BZNA_DTYPE_FLOAT32 && return copy(unsafe_wrap(Array, Ptr{Float32}(numbers.data), shape))
    end
    throw(ArgumentError("$name holds neither Int64, Int32, Float32 nor UInt8"))
end

"""
    bytes(batch, name) -> Vector

Copies of the samples' values of one of the loader's `bytes`: a `Vector{UInt8}` for each slot, `nothing` if there is none. `String` makes text of it.
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

# One call for the next batch, inside GC.@preserve of all three. Its wait is short: between two, other tasks run and an interrupt is heard.
const WAIT_NS = Int64(20_000_000)
ask(loader::Loader, out, err) = bzna_loader_next(loader.handle, WAIT_NS, Base.unsafe_convert(Ptr{Ptr{bzna_batch}}, out), address(err))
log_of(loader::Loader) = loader.dataset.context.log

# How often garbage is collected for a batch.
tries() = Threads.nthreads() > 1 ? 10 : 2

# The next batch; nothing after the last epoch.
@noinline function next!(loader::Union{Loader,Stream})
    err, out, collections = sized(bzna_error), Ref{Ptr{bzna_batch}}(C_NULL), 0
    # With two batches left for the library, one is filled while one is ready.
    loader.loans[] > max(loader.in_flight - 2, 1) && GC.gc(false)
    while true
        status = GC.@preserve loader out err ask(loader, out, err)
        forward_messages(log_of(loader))
        if status == BZNA_OK
            return lend(loader, out[])
        elseif status == BZNA_END
            return nothing
        elseif status == BZNA_AGAIN
            yield()
        elseif status == BZNA_E_STATE && collections < tries() && (tries() > 2 || loader.loans[] >= loader.in_flight)
            # All batches are on loan, perhaps to arrays that nobody can reach: the young ones first, then all. Another
            # thread may be running their finalizers.
            collections > 1 && sleep(0.001)
            GC.gc(collections > 0)
            collections += 1
        else
            check(status, err, loader)
        end
    end
end

"The batches of one epoch, as `Batch`es instead of (x, y): also their indices and status."
struct EachBatch{L<:Union{Loader,Stream}}
    loader::L
end

eachbatch(loader::Union{Loader,Stream}) = EachBatch(loader)

# The next batch of the epoch that is under way; nothing where a state was restored after its last one.
@noinline function next_of_epoch!(loader::Loader)
    batch = next!(loader)
    batch === nothing || ((loader.epoch, loader.midway) = (batch.epoch, !batch.last))
    return batch
end

# Fewer samples than a batch, and partial = false.
is_without_batches(loader::Loader) = loader.lists === nothing && loader.batches == 0

# An epoch that was broken off is over: the next one begins.
function start!(loader::Loader)
    if loader.midway
        err = sized(bzna_error)
        GC.@preserve loader err check(bzna_loader_reset(loader.handle, loader.epoch + 1, address(err)), err)
        loader.epoch += 1
        loader.midway = false
        empty!(loader.drawn)
        if loader.lists !== nothing                 # the library has forgotten them
            lists = filter(pair -> pair.first >= loader.epoch, loader.lists)
            empty!(loader.lists)
            foreach(epoch -> give!(loader, epoch, lists[epoch]...), sort!(collect(keys(lists))))
        end
    end
    GC.@preserve loader draw!(loader)
    return nothing
end

# Gives an epoch its list, in batches if there are sizes.
function give!(loader::Loader, epoch::UInt64, indices::Vector{UInt64}, sizes::Vector{UInt32})
    loader.lists === nothing && throw(ArgumentError("the loader draws its own order: indices = :given makes one that is given"))
    err = sized(bzna_error)
    status = GC.@preserve loader indices sizes begin
        bzna_loader_set_batches(loader.handle, epoch, pointer(indices), length(indices),
                                isempty(sizes) ? Ptr{UInt32}(C_NULL) : pointer(sizes), length(sizes), err)
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
    isopen(loader) || throw(BenzinaError(BZNA_E_STATE, "the $(loader isa Stream ? "stream" : "loader") is closed", nothing, 0))
    if previous === nothing
        is_without_batches(loader) && return nothing
        start!(loader)
        loader.iteration += 1
    else
        previous.iteration == loader.iteration || throw(BenzinaError(BZNA_E_STATE,
            "this iteration was superseded: another one of the same loader has begun, or a state was restored", nothing, 0))
        previous.batch === nothing || release!(previous.batch)
        previous.last && return nothing
    end
    batch = next_of_epoch!(loader)
    return batch === nothing ? nothing : (batch, Step(loader.iteration, batch.last, loader.settings.buffer ? batch : nothing))
end

@noinline function Base.iterate(loader::Union{Loader,Stream}, previous::Union{Nothing,Step} = nothing)
    step = iterate(EachBatch(loader), previous)
    step === nothing && return nothing
    batch = step[1]
    warn_of_failures(batch)
    return (batch.data, batch.targets), step[2]
end

# `length` is that of a whole epoch: after restore!, less may be left of the first one.
Base.IteratorSize(::Type{<:Union{Loader,Stream}}) = Base.SizeUnknown()
Base.IteratorSize(::Type{<:EachBatch}) = Base.SizeUnknown()
function Base.length(loader::Loader)
    loader.lists === nothing && return loader.batches
    info, err = sized(bzna_loader_info), sized(bzna_error)          # of the epoch that the next batch is of; 0 without its list
    check(bzna_loader_get_info(loader.handle, info, sizeof(bzna_loader_info), err), err)
    return Int(info.batches_per_epoch)
end
Base.length(each::EachBatch) = length(each.loader)
Base.eltype(::Type{<:Union{Loader,Stream}}) = Tuple{AbstractArray{Float32},Vector{Int64}}
Base.eltype(::Type{<:EachBatch}) = Batch

"The position of a run after the last batch that was delivered: 128 bytes, to be saved with a model's checkpoint."
function save(loader::Loader)
    state, err = sized(bzna_loader_state), sized(bzna_error)
    check(bzna_loader_save(loader.handle, state, sizeof(bzna_loader_state), err), err)
    return bytes_of(state)
end

# A state as bytes, and such bytes as a state.
bytes_of(state) = GC.@preserve state copy(unsafe_wrap(Array, Ptr{UInt8}(pointer_from_objref(state)), sizeof(state)))

function from_bytes(::Type{T}, bytes::AbstractVector{UInt8}) where {T}
    length(bytes) == sizeof(T) || throw(ArgumentError("a state has $(sizeof(T)) bytes, not $(length(bytes))"))
    state = T()
    GC.@preserve state copyto!(unsafe_wrap(Array, Ptr{UInt8}(pointer_from_objref(state)), sizeof(T)), bytes)
    return state
end

"Continues from a saved state, of a loader with the same data and order: the next `for` delivers the rest of its epoch."
function restore!(loader::Loader, bytes::AbstractVector{UInt8})
    state, err = from_bytes(bzna_loader_state, bytes), sized(bzna_error)
    GC.@preserve loader state err check(bzna_loader_restore(loader.handle, address(state), address(err)), err)
    GC.@preserve loader state err check(bzna_loader_save(loader.handle, address(state), sizeof(bzna_loader_state), address(err)), err)
    loader.epoch, loader.midway = state.epoch, false
    loader.lists === nothing || empty!(loader.lists)
    empty!(loader.drawn)
    GC.@preserve loader draw!(loader)
    loader.iteration += 1                           # an iteration that is under way ends here
    return loader
end

loader_handle(loader::Loader) = loader.handle

"Counts and times of the stages since the loader was opened, and failures. `limit` names the limiting stage, and the setting that would change it."
function statistics(loader::Union{Loader,Stream})
    counts, err = sized(bzna_statistics), sized(bzna_error)
    check(bzna_loader_statistics(loader_handle(loader), counts, sizeof(bzna_statistics), err), err)
    return counts
end

"The statistics since earlier ones of this loader, such as of an epoch."
function statistics(loader::Union{Loader,Stream}, earlier::bzna_statistics)
    counts, err = statistics(loader), sized(bzna_error)
    check(bzna_statistics_since(counts, earlier, counts, sizeof(bzna_statistics), err), err)
    return counts
end

"A sentence that names the limiting stage, and the setting that would change it."
limit(loader::Union{Loader,Stream}) = text(statistics(loader).advice)
limit(counts::bzna_statistics) = text(counts.advice)

"The first sample that failed: its index, from 1, and a BenzinaError; or nothing."
first_failed(loader::Union{Loader,Stream}) = first_failed(statistics(loader))
function first_failed(counts::bzna_statistics)
    counts.first_failed_status == BZNA_OK && return nothing
    return counts.first_failed_index + 1, BenzinaError(counts.first_failed_status, text(counts.first_failed_message), nothing, 0)
end

"""
    device(loader)

The GPU that a loader or a data set may use: its `name`, its `ordinal` as CUDA counts, and how many NVDEC `engines` it has. A `BenzinaError` that
says why there is none. `decoder(loader)` says who decodes.
"""
device(loader::Loader) = device(loader.dataset)

function device(data::Dataset)
    info, err = sized(bzna_device_info), sized(bzna_error)
    check(bzna_context_device_info(data.context.handle, info, sizeof(bzna_device_info), err), err)
    return (name = text(info.name), ordinal = Int(info.device.ordinal), engines = Int(info.engines))
end

"Who decodes, and why that one: two strings."
function decoder(loader::Union{Loader,Stream})
    info, err = sized(bzna_loader_info), sized(bzna_error)
    check(bzna_loader_get_info(loader_handle(loader), info, sizeof(bzna_loader_info), err), err)
    return text(info.decoder_name), text(info.decoder_reason)
end
