# A stand-in for MLUtils.jl: as much of its interface as examples/mlutils.jl uses, with its fallbacks for types that it does not know.
module MLUtils

using Random: randperm

export DataLoader, getobs, numobs, splitobs

numobs(data) = length(data)
getobs(data, index) = data[index]

struct ObsView
    data::Any
    indices::Vector{Int}
end

Base.length(view::ObsView) = length(view.indices)
Base.getindex(view::ObsView, index) = getobs(view.data, view.indices[index])

function splitobs(data; at)
    first = round(Int, at * numobs(data))
    return ObsView(data, collect(1:first)), ObsView(data, collect(first+1:numobs(data)))
end

struct DataLoader
    data::Any
    batchsize::Int
    shuffle::Bool
    parallel::Bool
end

DataLoader(data; batchsize = 1, shuffle = false, parallel = false) = DataLoader(data, batchsize, shuffle, parallel)

Base.length(loader::DataLoader) = cld(numobs(loader.data), loader.batchsize)

function Base.iterate(loader::DataLoader, (order, at) = (loader.shuffle ? randperm(numobs(loader.data)) : collect(1:numobs(loader.data)), 1))
    at > length(order) && return nothing
    indices = order[at:min(at + loader.batchsize - 1, length(order))]
    observed = loader.parallel ? fetch(Threads.@spawn(getobs(loader.data, indices))) : getobs(loader.data, indices)
    return observed, (order, at + loader.batchsize)
end

end # module MLUtils
