# ---- Data providers, as MXNet.jl has them --------------------------------------------------------------------------------------------
# A program for MXNet.jl finds these names after `const mx = Benzina`: mx.ImageRecordProvider, mx.provide_data, ... Arrays are Julia's, where
# MXNet.jl has NDArrays.

"A source of batches: it iterates over `AbstractDataBatch`es, and has `get_batch_size`, `provide_data` and `provide_label`."
abstract type AbstractDataProvider end

"A batch of a provider, with `count_samples`, `get_data`, `get_label`, `get`, `load_data!` and `load_label!`."
abstract type AbstractDataBatch end

"""
    get_batch_size(provider) -> Int

How many samples a batch has: the last dimension of its arrays.
"""
function get_batch_size end

"""
    provide_data(provider) -> Vector{Tuple{Symbol,Tuple}}

Names and whole shapes of the data of each batch. For a `Loader`, these are its pictures, and then its `outputs`.
"""
function provide_data end

"""
    provide_label(provider) -> Vector{Tuple{Symbol,Tuple}}

Names and whole shapes of the labels of each batch.
"""
function provide_label end

"""
    eachbatch(provider)

The batches of one epoch. For a `Loader`, these are `Batch`es, whereas the loader itself yields (x, y).
"""
eachbatch(provider::AbstractDataProvider) = provider

"""
    count_samples(provider, batch) -> Int

How many samples of a batch are real: fewer than its arrays have if it was padded.
"""
function count_samples end

"""
    get_data(provider, batch) -> Vector

The data of a batch, in the order of `provide_data`.
"""
function get_data end

"""
    get_label(provider, batch) -> Vector

The labels of a batch, in the order of `provide_label`.
"""
function get_label end

"A batch that consists of arrays: `DataBatch(data, label, count)`."
struct DataBatch <: AbstractDataBatch
    data::Vector
    label::Vector
    count::Int
end

count_samples(batch::DataBatch) = batch.count
count_samples(::AbstractDataProvider, batch::DataBatch) = batch.count
get_data(::AbstractDataProvider, batch::DataBatch) = batch.data
get_label(::AbstractDataProvider, batch::DataBatch) = batch.label

"Part of a batch, and the array that it is copied to: `(range of samples, array)`."
const SlicedNDArray = Tuple{UnitRange{Int},<:AbstractArray}

"""
    load_data!(provider, batch, targets)

Copies the data of a batch to `targets`, which has an array for each, or a list of `SlicedNDArray`s for each: `[[(1:16, a), (17:32, b)]]` divides
the samples between two arrays.
"""
load_data!(provider::AbstractDataProvider, batch::AbstractDataBatch, targets::AbstractVector) = load!(get_data(provider, batch), targets)

"""
    load_label!(provider, batch, targets)

Copies the labels of a batch, as `load_data!` does it with the data.
"""
load_label!(provider::AbstractDataProvider, batch::AbstractDataBatch, targets::AbstractVector) = load!(get_label(provider, batch), targets)

function load!(sources, targets)
    length(sources) == length(targets) || throw(ArgumentError("$(length(targets)) targets for $(length(sources)) arrays"))
    foreach(load_one!, targets, sources)
    return nothing
end

load_one!(target::AbstractArray, source) = copy_all!(target, source)

function load_one!(slices::AbstractVector{<:SlicedNDArray}, source)
    for (range, target) in slices
        copy_all!(target, selectdim(source, ndims(source), range))
    end
    return nothing
end

function copy_all!(target, source)
    length(target) == length(source) || throw(DimensionMismatch("an array of size $(size(target)) for $(size(source))"))
    copyto!(target, source)
    return nothing
end

"""
    get(provider, batch, name::Symbol)

The data or label of a batch that `provide_data` or `provide_label` calls so.
"""
function Base.get(provider::AbstractDataProvider, batch::AbstractDataBatch, name::Symbol)
    for (provided, arrays) in ((provide_data, get_data), (provide_label, get_label))
        at = findfirst(entry -> entry[1] === name, provided(provider))
        at === nothing || return arrays(provider, batch)[at]
    end
    throw(ArgumentError(string(repr(name), " is not provided by this data provider")))
end

# ---- Providers of arrays

"""
    ArrayDataProvider(data, label = []; batch_size = 0, shuffle = false, data_padding = 0, label_padding = 0)

Batches of arrays, whose last dimension counts samples. `data` and `label` are each an array (then called :data and :softmax_label), a pair
`:name => array`, or a list of such pairs. Numbers become Float32. A batch_size of 0 makes one batch of all. `shuffle` orders the samples anew in each
epoch, by Julia's random numbers. The last batch is filled up with the paddings; `count_samples` says how many of it are real.
"""
mutable struct ArrayDataProvider <: AbstractDataProvider
    data::Vector{Pair{Symbol,Array{Float32}}}
    label::Vector{Pair{Symbol,Array{Float32}}}
    batch_size::Int
    samples::Int
    shuffle::Bool
    data_padding::Float32
    label_padding::Float32
    last::Symbol                      # what becomes of the last batch: :pad by the paddings, :round by the first samples, :drop
    skip::Int                         # samples of the next epoch that :round has used already
end

function ArrayDataProvider(data, label = Pair{Symbol,Array{Float32}}[]; batch_size::Integer = 0, shuffle::Bool = false, data_padding::Real = 0,
                           label_padding::Real = 0, last::Symbol = :pad)
    arrays, labels = named_arrays(:data, data), named_arrays(:softmax_label, label)
    isempty(arrays) && throw(ArgumentError("there are no data"))
    samples = size(arrays[1].second)[end]
    for (name, array) in vcat(arrays, labels)
        size(array)[end] == samples || throw(ArgumentError("$name has $(size(array)[end]) samples, and $(arrays[1].first) has $samples"))
    end
    batch_size = batch_size == 0 ? samples : Int(batch_size)
    0 < batch_size <= samples || throw(ArgumentError("batch_size: $batch_size of $samples samples"))
    return ArrayDataProvider(arrays, labels, batch_size, samples, shuffle, data_padding, label_padding, last, 0)
end

function named_arrays(name::Symbol, given)
    pairs = given isa AbstractArray{<:Real} ? [name => given] : given isa Pair ? [given] : given
    # A list of arrays of several kinds has pairs of a type of no use.
    is_named(pair) = pair isa Pair && pair.first isa Symbol && pair.second isa AbstractArray{<:Real}
    pairs isa Union{Tuple,AbstractVector} && all(is_named, pairs) ||
        throw(ArgumentError("neither an array, nor a pair of a name and an array, nor a list of pairs: $(typeof(given))"))
    return Pair{Symbol,Array{Float32}}[name => Array{Float32}(array) for (name, array) in pairs]
end

"A batch of an `ArrayDataProvider`: which samples it has."
struct ArrayDataBatch <: AbstractDataBatch
    samples::Vector{Int}              # the real ones, and then those that :round has added
    count::Int
end

with_batch_size(named, batch_size) = Tuple{Symbol,Tuple}[(name, (size(array)[1:end-1]..., batch_size)) for (name, array) in named]

get_batch_size(provider::ArrayDataProvider) = provider.batch_size
provide_data(provider::ArrayDataProvider) = with_batch_size(provider.data, provider.batch_size)
provide_label(provider::ArrayDataProvider) = with_batch_size(provider.label, provider.batch_size)
count_samples(::ArrayDataProvider, batch::ArrayDataBatch) = batch.count
get_data(provider::ArrayDataProvider, batch::ArrayDataBatch) = gather(provider.data, batch, provider.batch_size, provider.data_padding)
get_label(provider::ArrayDataProvider, batch::ArrayDataBatch) = gather(provider.label, batch, provider.batch_size, provider.label_padding)

gather(named, batch, batch_size, padding) = Array{Float32}[gather(array, batch.samples, batch_size, padding) for (_, array) in named]

function gather(array::Array{Float32}, samples::Vector{Int}, batch_size::Int, padding::Float32)
    filled = fill(padding, size(array)[1:end-1]..., batch_size)
    selectdim(filled, ndims(filled), 1:length(samples)) .= selectdim(array, ndims(array), samples)
    return filled
end

# An epoch's order, and the number of its samples that are done.
function Base.iterate(provider::ArrayDataProvider)
    order = provider.shuffle ? randperm(provider.samples) : collect(1:provider.samples)
    done, provider.skip = provider.skip, 0
    return iterate(provider, (order, done))
end

function Base.iterate(provider::ArrayDataProvider, (order, done)::Tuple{Vector{Int},Int})
    left = provider.samples - done
    (left <= 0 || (provider.last === :drop && left < provider.batch_size)) && return nothing
    count = min(left, provider.batch_size)
    samples = order[done+1:done+count]
    if provider.last === :round && count < provider.batch_size
        provider.skip = provider.batch_size - count
        append!(samples, order[1:provider.skip])
    end
    return ArrayDataBatch(samples, count), (order, done + count)
end

Base.IteratorSize(::Type{ArrayDataProvider}) = Base.SizeUnknown()
Base.eltype(::Type{ArrayDataProvider}) = ArrayDataBatch

named_label(::Nothing, label) = Pair{Symbol,Array{Float32}}[]
named_label(name::Symbol, label) = name => label

"""
    CSVProvider(; data_csv, data_shape, label_csv = nothing, label_shape = (1,), batch_size, round_batch = true, data_name = :data,
                label_name = :softmax_label, prefetch_buffer, dtype)

Batches of a file of numbers with commas between them, a sample a line: `data_shape` in Julia's order, its first dimension first in the line. Without
a label_csv labels are 0. round_batch fills up the last batch with the first samples, and the next epoch begins after these; else it is padded.
Everything is read when it is opened, as Float32: prefetch_buffer and dtype change nothing.
"""
function CSVProvider(; data_csv::AbstractString, data_shape::Tuple, label_csv::Union{Nothing,AbstractString} = nothing,
                     label_shape::Tuple = (1,), batch_size::Integer, round_batch::Bool = true, data_name::Symbol = :data,
                     label_name::Union{Nothing,Symbol} = :softmax_label, prefetch_buffer::Integer = 4, dtype = nothing)
    data = csv_array(data_csv, data_shape)
    samples = size(data)[end]
    labels = label_csv === nothing ? zeros(Float32, label_shape..., samples) : csv_array(label_csv, label_shape)
    size(labels)[end] >= samples || throw(ArgumentError("$label_csv has fewer lines than $data_csv"))
    labels = selectdim(labels, ndims(labels), 1:samples)
    # One number a sample is a vector, as MXNet has it.
    labels = prod(label_shape) == 1 ? vec(labels) : labels
    return ArrayDataProvider(data_name => data, named_label(label_name, labels); batch_size = batch_size, last = round_batch ? :round : :pad)
end

function csv_array(path, shape)
    numbers, lines = Float32[], 0
    for (at, line) in enumerate(eachline(path))
        isempty(strip(line)) && continue
        values = split(line, ',')
        length(values) == prod(shape) || throw(ArgumentError("$path, line $at: $(length(values)) numbers, not $(prod(shape))"))
        for value in values
            number = tryparse(Float32, strip(value))
            number === nothing && throw(ArgumentError("$path, line $at: $(repr(value)) is not a number"))
            push!(numbers, number)
        end
        lines += 1
    end
    return reshape(numbers, shape..., lines)
end

"""
    MNISTProvider(; image = "./train-images-idx3-ubyte", label = "./train-labels-idx1-ubyte", batch_size = 128, shuffle = true, flat = false,
                  seed = 0, silent = false, num_parts = 1, part_index = 0, data_name = :data, label_name = :softmax_label, prefetch_buffer, dtype)

Batches of MNIST's files: 28x28x1 numbers a sample (784 if `flat`), which are bytes / 256. `shuffle` orders them once, by `seed`; MXNet's orders are
others. A last batch that is not full is left out. `num_parts` and `part_index` (counted from 0) choose a part of the samples.
"""
function MNISTProvider(; image::AbstractString = "./train-images-idx3-ubyte", label::AbstractString = "./train-labels-idx1-ubyte",
                       batch_size::Integer = 128, shuffle::Bool = true, flat::Bool = false, seed::Integer = 0, silent::Bool = false,
                       num_parts::Integer = 1, part_index::Integer = 0, data_name::Symbol = :data,
                       label_name::Union{Nothing,Symbol} = :softmax_label, prefetch_buffer::Integer = 4, dtype = nothing)
    0 <= part_index < num_parts || throw(ArgumentError("part_index: $part_index of $num_parts parts"))
    pixels, classes = idx_array(image, 3), idx_array(label, 1)
    size(pixels, 3) == length(classes) || throw(ArgumentError("$image has $(size(pixels, 3)) samples, and $label has $(length(classes))"))
    share = length(classes) / num_parts
    part = floor(Int, share * part_index)+1:floor(Int, share * (part_index + 1))
    order = shuffle ? part[randperm(MersenneTwister(seed), length(part))] : collect(part)
    data = Float32.(pixels[:, :, order]) ./ 256
    data = reshape(data, (flat ? (size(data, 1) * size(data, 2),) : (size(data, 1), size(data, 2), 1))..., length(order))
    silent || @info "MNISTProvider: $(length(order)) samples of $image"
    return ArrayDataProvider(data_name => data, named_label(label_name, Float32.(classes[order])); batch_size = batch_size, last = :drop)
end

# A file of bytes in MNIST's format: two zeros, the type, the number of dimensions, their sizes (the last one lies together), all big-endian.
function idx_array(path::AbstractString, dimensions::Int)
    open(path) do io
        head = read(io, 4 + 4 * dimensions)
        length(head) == 4 + 4 * dimensions && head[1:4] == [0, 0, 8, dimensions] ||
            throw(ArgumentError("$path is no file of bytes with $dimensions dimensions in MNIST's format"))
        sizes = [Int(ntoh(reinterpret(UInt32, head[4i+1:4i+4])[1])) for i in dimensions:-1:1]
        bytes = read(io, prod(sizes))
        length(bytes) == prod(sizes) || throw(ArgumentError("$path is truncated: it has $(length(bytes)) of $(prod(sizes)) bytes"))
        return reshape(bytes, sizes...)
    end
end

"`CSVProvider`, by MXNet's name."
const CSVIter = CSVProvider

"`MNISTProvider`, by MXNet's name."
const MNISTIter = MNISTProvider
