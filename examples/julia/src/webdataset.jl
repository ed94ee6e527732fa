# ---- WebDataset.jl's interface -------------------------------------------------------------------------------------------------------

"""
Tar shards as streams of samples, by the names of WebDataset.jl: `using Benzina.WebDataset` in place of `using WebDataset`. Samples are
`Dict{String,Any}`s with the key "__key__" and an entry for each file, under its extensions with the dot before them (".jpg", ".seg.png").

    desc = DatasetDescriptor(sources = braceexpand("train-{000000..000146}.tar"), batchsize = 32, decoding = default_decoders)
    for batch in dataloader(desc)
        batch[".img"], batch[".cls"]
    end

It reads shards that are files, or that a command writes (`Cmd`s, "pipe:curl ..."), once and in order. A `Benzina.Loader` over tar files is
faster, resumes, and shuffles all samples; it needs files. These differ from WebDataset.jl:

- `imdecode` makes an Array{UInt8} of width x height x channels, and decodes what the library decodes. A gray picture has one channel. For matrices
  of colors, as there: `Rename(r"\\.jpg\$", ".img") => data -> imdecode(data; color = RGB{N0f8})`.
- `samplebatching` keeps the sample at which a batch is full. Pictures called .jpeg, .pgm, .ppm, ... are decoded, too.
- An exception of a rule or of `mapping` costs its sample, and is counted: `num_exceptions`, `last_exception`. A shard that cannot be opened or read
  ends the iteration with an exception: `dataloader` passes it on.
"""
module WebDataset

using ..Benzina: Benzina

export Continue, DatasetDescriptor, Rename, allsplitext, braceexpand, clsdecode, dataloader, debugloader, default_decoders, generic_open, imdecode,
       jsondecode, loadproc, map_by_rules, samplebatching, sampleiterator, sampleshuffle, sampletransforms, tariterator, transpose_batch

include("json.jl")

"How many exceptions rules and `mapping` have thrown since the last `dataloader` began: `num_exceptions[]`."
const num_exceptions = Threads.Atomic{Int}(0)

"The last of these exceptions; `nothing` before the first."
last_exception = nothing

"With more exceptions than these, the next one ends the iteration."
max_exceptions = 999999999

const EXCEPTIONS_LOCK = ReentrantLock()

function keep_exception!(exception)
    lock(EXCEPTIONS_LOCK) do
        global last_exception = exception
    end
    Threads.atomic_add!(num_exceptions, 1)
    num_exceptions[] > max_exceptions && throw(ErrorException("too many exceptions: more than $max_exceptions"))
    return nothing
end

# ---- Names and streams

"The path up to the first dot of its last part, and the extensions from there on."
function allsplitext(path::AbstractString)
    slash = findlast('/', path)
    from = slash === nothing ? firstindex(path) : nextind(path, slash)
    dot = findnext('.', path, from)
    return dot === nothing ? (String(path), "") : (String(path[1:prevind(path, dot)]), String(path[dot:end]))
end

"""
    braceexpand(pattern)

The names that match a pattern such as "train-{000..146}.tar", or any pattern of a vector.
"""
function braceexpand(pattern::AbstractString)
    found = match(r"\{([0-9]+)\.\.([0-9]+)\}", pattern)
    found === nothing && return [String(pattern)]
    before, behind = pattern[1:prevind(pattern, found.offset)], pattern[found.offset+ncodeunits(found.match):end]
    low, high = found.captures
    numbers = [string(i, pad = length(low)) for i in parse(Int, low):parse(Int, high)]
    return [before * number * rest for number in numbers for rest in braceexpand(behind)]
end

braceexpand(patterns::AbstractVector{<:AbstractString}) = String[name for pattern in patterns for name in braceexpand(pattern)]

"""
    generic_open(shard; verbose = false)

A stream of a shard's bytes: of a file, of what a `Cmd` writes, or of what the command of a "pipe:" writes.
"""
function generic_open(shard::Union{AbstractString,Cmd}; verbose::Bool = false)
    if shard isa AbstractString && startswith(shard, "pipe:")
        shard = Cmd(Base.shell_split(shard[6:end]))
    end
    verbose && @info "opening $shard"
    return open(shard)
end

# ---- Tar files: an iterator of their members

const BLOCK = 512
const MEMBER_MAX = 2^34                 # bytes of a member: a size beyond is damage

mutable struct TarIterator
    stream::IO
    is_open::Bool                       # a member has come, and not yet the mark of the end
end

"The members of a tar file that are files, in order: (name, bytes). A file that ends without the mark of its end was cut off: an EOFError."
tariterator(stream::IO) = TarIterator(stream, false)

Base.IteratorSize(::Type{TarIterator}) = Base.SizeUnknown()
Base.eltype(::Type{TarIterator}) = Tuple{String,Vector{UInt8}}

function text(header, range)
    field = header[range]
    return String(field[1:something(findfirst(iszero, field), length(field) + 1)-1])
end

# A number of a header: octal digits, or (GNU's way of large ones) big-endian after a set bit.
function number(header, range)
    if header[range[1]] >= 0x80
        return foldl((sum, byte) -> (sum << 8) | byte, header[range[end]-7:range[end]]; init = UInt64(0)) |> Int
    end
    digits = strip(text(header, range), ' ')
    isempty(digits) && return 0
    value = tryparse(Int, digits; base = 8)
    value === nothing && throw(ErrorException("a damaged tar file: $(repr(digits)) is no octal number"))
    return value
end

function read_exactly(stream::IO, count::Int)
    bytes = read(stream, count)
    length(bytes) == count || throw(EOFError())
    return bytes
end

function Base.iterate(tar::TarIterator, _ = nothing)
    stream, long = tar.stream, nothing
    while !eof(stream)
        header = read_exactly(stream, BLOCK)
        tar.is_open = any(!iszero, header)
        tar.is_open || continue                             # the end has two of these; what follows is another tar, or nothing
        sum(Int, header) - sum(Int, header[149:156]) + 8 * 0x20 == number(header, 149:156) ||
            throw(ErrorException("a damaged tar file: the sum of a header is wrong"))
        size = number(header, 125:136)
        0 <= size <= MEMBER_MAX || throw(ErrorException("a damaged tar file: a member of $size bytes"))
        bytes = read_exactly(stream, size)
        read_exactly(stream, mod(-size, BLOCK))
        kind = Char(header[157])
        if kind == 'L'                                      # the name of the member that follows (GNU)
            long = rstrip(String(bytes), '\0')
        elseif kind == 'x'                                  # likewise (POSIX), among other things
            long = something(pax_path(bytes), Some(long))
        elseif kind in ('0', '\0')
            prefix = header[258:262] == b"ustar" ? text(header, 346:500) : ""
            name = text(header, 1:100)
            return (String(something(long, isempty(prefix) ? name : prefix * "/" * name)), bytes), nothing
        else
            long = nothing
        end
    end
    tar.is_open && throw(EOFError())
    return nothing
end

# The path of POSIX's extended header: lines "LENGTH KEY=VALUE\n".
function pax_path(bytes::Vector{UInt8})
    at, path = 1, nothing
    while at <= length(bytes)
        space = findnext(isequal(0x20), bytes, at)
        count = space === nothing ? nothing : tryparse(Int, String(bytes[at:space-1]))
        count === nothing && return path
        stop = at + count - 1
        at < space < stop <= length(bytes) || return path
        line = String(bytes[space+1:stop-1])
        startswith(line, "path=") && (path = line[6:end])
        at = stop + 1
    end
    return path
end

# ---- Samples

struct SampleIterator
    members::TarIterator
end

"""
    sampleiterator(stream)

The samples of a tar file: files next to each other with the same name up to the first dot. Hidden files and folders named `__so__` belong to none.
"""
sampleiterator(stream::IO) = SampleIterator(tariterator(stream))

Base.IteratorSize(::Type{SampleIterator}) = Base.SizeUnknown()
Base.eltype(::Type{SampleIterator}) = Dict{String,Any}

# The state is the first member of the next sample.
function Base.iterate(samples::SampleIterator, ahead = next_member(samples))
    ahead === nothing && return nothing
    (key, suffix), bytes = ahead
    sample = Dict{String,Any}("__key__" => key, suffix => bytes)
    while true
        ahead = next_member(samples)
        (ahead === nothing || ahead[1][1] != key) && return sample, ahead
        sample[ahead[1][2]] = ahead[2]
    end
end

function next_member(samples::SampleIterator)
    while true
        step = iterate(samples.members)
        step === nothing && return nothing
        name, bytes = step[1]
        key, suffix = allsplitext(name)
        # Without a name or a suffix, it is no file of a sample.
        isempty(suffix) || isempty(basename(key)) || any(part -> occursin(r"^__.*__$", part), split(key, '/')[1:end-1]) || return (key, suffix), bytes
    end
end

"""
    sampleshuffle(source, bufsize = 1000)

The samples of `source` in another order, by Julia's random numbers: each is drawn from a buffer of `bufsize`.
"""
sampleshuffle(source, bufsize::Integer = 1000) = bufsize <= 1 ? source : Shuffle(source, bufsize)

struct Shuffle
    source::Any
    bufsize::Int
end

Base.IteratorSize(::Type{Shuffle}) = Base.SizeUnknown()

# The state: the buffer, and the source's next step; nothing when the source has ended.
function Base.iterate(shuffle::Shuffle, (buffer, step) = (Any[], iterate(shuffle.source)))
    while step !== nothing && length(buffer) < shuffle.bufsize
        push!(buffer, step[1])
        step = iterate(shuffle.source, step[2])
    end
    isempty(buffer) && return nothing
    at = rand(1:length(buffer))
    sample = buffer[at]
    last = pop!(buffer)
    at <= length(buffer) && (buffer[at] = last)
    return sample, (buffer, step)
end

# ---- Rules

abstract type Renamer end

"`Rename(rule, name) => f`: where the rule matches (a suffix or a regular expression), f's value gets another name."
struct Rename <: Renamer
    key::Union{String,Regex}
    new_key::String
end

"`Continue(rule, name) => f`: like `Rename`, and the rules that follow are asked, too."
struct Continue <: Renamer
    key::Union{String,Regex}
    new_key::String
end

const Rule = Union{String,Regex,Renamer,Type}

matches(rule::String, key, value) = endswith(lowercase(key), rule)
matches(rule::Regex, key, value) = occursin(rule, lowercase(key))
matches(rule::Type, key, value) = value isa rule
matches(rule::Renamer, key, value) = matches(rule.key, key, value)

name_by(rule, key) = key
name_by(rule::Renamer, key) = rule.new_key

"""
    map_by_rules(sample, rules)

A sample with each entry changed by the first rule that matches its name, `rule => f`; entries that none matches are left out, and those whose name begins
with an underscore are kept as they are. Rules are suffixes, regular expressions, `Rename`, `Continue`, or types of values.
"""
function map_by_rules(sample::AbstractDict, rules)
    result = Dict{String,Any}()
    for (key, value) in sample
        if startswith(key, '_')
            result[key] = value
            continue
        end
        for (rule, f) in rules
            matches(rule, key, value) || continue
            result[name_by(rule, key)] = f(value)
            rule isa Continue || break
        end
    end
    return result
end

struct Transforms
    source::Any
    f::Any
end

"""
    sampletransforms(source, rules)

The samples of `source`, changed by `map_by_rules`. One for which a rule throws is left out; see `num_exceptions`.
"""
sampletransforms(source, rules; handle = "ignore") = Transforms(source, sample -> map_by_rules(sample, rules))

Base.IteratorSize(::Type{Transforms}) = Base.SizeUnknown()

function Base.iterate(transforms::Transforms, state...)
    step = iterate(transforms.source, state...)
    while step !== nothing
        try
            return transforms.f(step[1]), step[2]
        catch exception
            exception isa InterruptException && rethrow()
            keep_exception!(exception)
        end
        step = iterate(transforms.source, step[2])
    end
    return nothing
end

"""
    imdecode(data; color = nothing)

The pixels of a picture file's bytes: Array{UInt8}, width x height x channels. With a `color`, such as RGB{N0f8} or Gray{N0f8}, a matrix of these, as
WebDataset.jl makes it: height x width.
"""
function imdecode(data; color::Union{Nothing,Type} = nothing)
    color === nothing && return Benzina.decode(Vector{UInt8}(data); uint8 = true, channels = :auto)
    isbitstype(color) && sizeof(color) in (1, 3) || throw(ArgumentError("color: $color is no type of one or three bytes"))
    pixels = Benzina.decode(Vector{UInt8}(data); uint8 = true, channels = sizeof(color) == 1 ? :gray : :RGB)
    return collect(reshape(reinterpret(color, vec(permutedims(pixels, (3, 2, 1)))), size(pixels, 2), size(pixels, 1)))
end

"The class in a file's bytes: a whole number from `lo` to `hi`."
function clsdecode(data; lo::Integer = -999999, hi::Integer = 999999)
    value = parse(Int64, strip(String(copy(data))))
    lo <= value <= hi || throw(ArgumentError("class $value is not in $lo to $hi"))
    return value
end

"The value in a JSON file's bytes: Dicts, Vectors, Strings, Int64s, Float64s, Bools, nothing."
function jsondecode(data; query::AbstractString = "")
    isempty(query) || throw(ArgumentError("query: there are none"))
    return json_parse(data)
end

"Rules for .cls, .json and pictures, which become \".img\"."
const default_decoders = Pair{Rule,Any}[
    ".cls" => clsdecode,
    Rename(r"\.(jpg|jpeg|png|ppm|pgm|pbm|pnm|webp|bmp|gif|tif|tiff)$", ".img") => imdecode,
    ".json" => jsondecode,
]

# ---- Batches

"A batch of samples: each entry is the vector of theirs. All must have the same entries."
function transpose_batch(samples)
    names = Set{String}(keys(first(samples)))
    all(sample -> Set{String}(keys(sample)) == names, samples) || throw(ErrorException("not all keys are present in all samples"))
    return Dict{String,Any}(name => [sample[name] for sample in samples] for name in names)
end

struct Batching
    source::Any
    batchsize::Int
    minsize::Int
end

"""
    samplebatching(source, batchsize; minsize = 1)

Batches of `batchsize` samples, as `transpose_batch` makes them; the last one has at least `minsize`, or is left out. A batchsize of 0 leaves samples as
they are.
"""
samplebatching(source, batchsize::Integer; minsize::Integer = 1) = batchsize == 0 ? source : Batching(source, batchsize, minsize)

Base.IteratorSize(::Type{Batching}) = Base.SizeUnknown()

# The state is that of the source; `missing` when it has ended.
function Base.iterate(batching::Batching, state = nothing)
    state === missing && return nothing
    samples = []
    while length(samples) < batching.batchsize
        step = state === nothing ? iterate(batching.source) : iterate(batching.source, something(state))
        if step === nothing
            length(samples) >= max(batching.minsize, 1) || return nothing
            return transpose_batch(samples), missing
        end
        push!(samples, step[1])
        state = Some(step[2])
    end
    return transpose_batch(samples), state
end

# ---- Loaders

"""
    DatasetDescriptor(; keywords...)

The treatment of shards by `dataloader`.

    sources = []                          names and `Cmd`s: see `generic_open`
    shuffle = 1000                        samples that the order of a shard is drawn from; 0: none
    batchsize = 16                        0: samples, not batches
    decoding = ["" => x -> x]             rules for files' bytes, such as `default_decoders`
    augmenting = ["" => x -> x]           rules for what these make
    mapping = x -> x                      of whole samples, after that
    collating = ["" => x -> x]            rules for batches: of vectors of values
    csize = 100                           batches that wait for the caller
    ntasks = 4                            shards that are read at once
    verbose = false, debug = false        log what is opened; and what comes of it
"""
mutable struct DatasetDescriptor
    sources::Vector{Union{String,Cmd}}
    shuffle::Int
    batchsize::Int
    decoding::Vector{Pair{Rule,Any}}
    augmenting::Vector{Pair{Rule,Any}}
    mapping::Function
    collating::Vector{Pair{Rule,Any}}
    csize::Int
    ntasks::Int
    verbose::Bool
    debug::Bool
end

unchanged(x) = x

DatasetDescriptor(; sources = Union{String,Cmd}[], shuffle::Integer = 1000, batchsize::Integer = 16, decoding = ["" => unchanged],
                  augmenting = ["" => unchanged], mapping = unchanged, collating = ["" => unchanged], csize::Integer = 100, ntasks::Integer = 4,
                  verbose::Bool = false, debug::Bool = false) =
    DatasetDescriptor(Union{String,Cmd}[source for source in sources], shuffle, batchsize, rules(decoding), rules(augmenting), mapping, rules(collating),
                      csize, ntasks, verbose, debug)

rules(pairs) = Pair{Rule,Any}[rule => f for (rule, f) in pairs]

# The batches of one shard, and what is to be closed after them.
function batches_of(desc::DatasetDescriptor, stream::IO)
    shuffled = sampleshuffle(sampleiterator(stream), desc.shuffle)
    augmented = sampletransforms(sampletransforms(shuffled, desc.decoding), desc.augmenting)
    batched = samplebatching(Transforms(augmented, desc.mapping), desc.batchsize)
    return sampletransforms(batched, desc.collating)
end

"""
    loadproc(desc, inch, outch, eof; maxcount = typemax(Int))

Reads the shards of `inch` one after the other, and puts their batches into `outch`, and `eof` last.
"""
function loadproc(desc::DatasetDescriptor, inch::Channel, outch::Channel, eof; maxcount::Real = typemax(Int))
    count = 0
    for source in inch
        stream = generic_open(source; verbose = desc.verbose)
        try
            for batch in batches_of(desc, stream)
                desc.debug && @info "batch $(count + 1): $(join(sort!(collect(keys(batch))), " "))"
                put!(outch, batch)
                (count += 1) >= maxcount && return nothing
            end
            # Of a command, all was read: whether that was all is what its end says.
            stream isa Base.Process && (success(stream) || throw(ErrorException("$source: the command failed: $stream")))
        finally
            close(stream)
        end
    end
    put!(outch, eof)
    return nothing
end

struct EndOfTask end

# A closed channel of some things.
function filled(things)
    channel = Channel{Any}(max(length(things), 1))
    foreach(thing -> put!(channel, thing), things)
    close(channel)
    return channel
end

# What dataloader returns: a channel from which one takes. Tasks that wait to put a batch into `results` end when that is closed.
mutable struct LoadedBatches <: AbstractChannel{Any}
    results::Channel{Any}
    running::Int

    LoadedBatches(results::Channel{Any}, running::Int) = finalizer(batches -> @async(close(batches)), new(results, running))
end

Base.close(batches::LoadedBatches) = (results = batches.results; close(results))
Base.isopen(batches::LoadedBatches) = batches.running > 0 && isopen(batches.results)

function Base.take!(batches::LoadedBatches)
    step = iterate(batches)
    step === nothing && throw(InvalidStateException("all batches were taken", :closed))
    return step[1]
end

Base.IteratorSize(::Type{LoadedBatches}) = Base.SizeUnknown()

"""
    dataloader(desc)

The batches of one pass over `desc.sources`, from `ntasks` tasks on Julia's threads: a channel, of which `take!`, `isopen`, `close` and iteration work.
`isopen` may be true before the end is known. An exception that ends one of these is thrown here. Tasks
end when all is read, or by `close` of what it returns, or when that is collected.
"""
dataloader(desc::DatasetDescriptor) = dataloader(desc, filled(desc.sources))

function dataloader(desc::DatasetDescriptor, inch::Channel)
    Threads.atomic_xchg!(num_exceptions, 0)
    global last_exception = nothing
    results = Channel{Any}(desc.csize)
    foreach(_ -> Threads.@spawn(load_all(desc, inch, results)), 1:desc.ntasks)
    return LoadedBatches(results, desc.ntasks)
end

function Base.iterate(batches::LoadedBatches, _ = nothing)
    while batches.running > 0
        result = take!(batches.results)
        if result isa CapturedException
            close(batches)
            throw(result)
        end
        result isa EndOfTask || return result, nothing
        batches.running -= 1
    end
    return nothing
end

function load_all(desc::DatasetDescriptor, inch::Channel, results::Channel)
    try
        loadproc(desc, inch, results, EndOfTask())
    catch exception
        isopen(results) && put!(results, CapturedException(exception, catch_backtrace()))
    end
    return nothing
end

"""
    debugloader(desc, sources = desc.sources; maxcount = 10)

The first `maxcount` batches, as a closed channel. They are made on the task that calls, without threads, so that an exception that ends it is thrown here,
with its own backtrace.
"""
function debugloader(desc::DatasetDescriptor, sources = desc.sources; maxcount::Integer = 10)
    Threads.atomic_xchg!(num_exceptions, 0)
    channel = Channel{Any}(maxcount + 1)
    loadproc(desc, filled(sources), channel, EndOfTask(); maxcount = maxcount)
    close(channel)
    return filled([batch for batch in channel if !(batch isa EndOfTask)])
end

end # module WebDataset
