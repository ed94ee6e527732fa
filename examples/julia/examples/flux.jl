# flux.jl - trains a small network with Flux on an archive's pictures, and continues where it was interrupted
#
#     julia --project=DIR examples/flux.jl train.bzna [folder of checkpoints]       DIR: a project with Benzina, Flux and, for a GPU, CUDA
#
# tests/standins of this package has modules with the interfaces that are used here: with these it is tested.
module FluxExample

using Benzina, Flux
using Random: seed!
using Serialization: deserialize, serialize

"A loader of random crops. `gpu`: nothing, or what makes a GPU's array of a pointer and its dimensions (see `on_gpu`), and the GPU's number."
function pictures(path; batchsize = 64, size = (64, 64), gpu = nothing)
    keywords = (batchsize = batchsize, size = size, shuffle = true, seed = 1234, partial = false, warp = :random_resized_crop, flip = 0.5,
                mean = (123.7, 116.3, 103.5), std = (58.4, 57.1, 57.4))
    gpu === nothing && return Loader(path; keywords...)
    wrap, device, stream = gpu
    return Loader(path; keywords..., device = device, cuda = device, wrap = wrap, stream = stream)
end

"""
Batches stay on the GPU, where CUDA.jl has arrays over their memory: no copy is made. `CUDA` is that module; the loader's stream is the one that this task
uses, so that neither waits for the other on the host.
"""
function on_gpu(CUDA)
    wrap(pointer, dims) = CUDA.unsafe_wrap(CUDA.CuArray, CUDA.CuPtr{Float32}(UInt(pointer)), dims)
    return wrap, Int(CUDA.deviceid(CUDA.device())), Ptr{Cvoid}(UInt(CUDA.stream().handle))
end

network(classes) = Chain(Conv((3, 3), 3 => 8, relu; stride = 2), AdaptiveMeanPool((2, 2)), Flux.flatten, Dense(32 => classes))

"Saves the position of a run in one file: writes a new file first, which then replaces the old one."
function checkpoint(path, model, optimizer, loader)
    serialize("$path.new", (model, optimizer, Benzina.save(loader)))
    mv("$path.new", path; force = true)
end

"""
    train(loader, classes; epochs, path = nothing, every = 100) -> model, losses

Trains for `epochs` epochs of the loader, whose number counts from the first one of the run. With a `path`, a checkpoint is written every so many batches and
at the end of each epoch; if there is one, the run continues from it, with the batches that it had not seen.
"""
function train(loader, classes; epochs, path = nothing, every = 100)
    seed!(1)
    model = network(classes)
    optimizer = Flux.setup(Adam(1f-2), model)
    if path !== nothing && isfile(path)
        model, optimizer, state = deserialize(path)
        restore!(loader, state)
    end
    losses, steps = Float32[], 0
    while true
        for batch in eachbatch(loader)
            batch.epoch < epochs || return model, losses
            Benzina.failed(batch) > 0 && @warn "$(Benzina.failed(batch)) of $(length(batch.targets)) samples failed"
            # A class of -1 is one that a picture has not.
            labels = Flux.onehotbatch(batch.targets .% classes, 0:classes-1)
            loss, gradients = Flux.withgradient(m -> Flux.logitcrossentropy(m(batch.data), labels), model)
            Flux.update!(optimizer, model, gradients[1])
            push!(losses, loss)
            steps += 1
            path !== nothing && (batch.last || steps % every == 0) && checkpoint(path, model, optimizer, loader)
            if batch.last && batch.epoch + 1 == epochs
                return model, losses
            end
        end
    end
end

function main(arguments)
    path = arguments[1]
    checkpoints = length(arguments) > 1 ? joinpath(arguments[2], "model.jls") : nothing
    data = Dataset(path)
    classes = 1 + maximum(something(target(sample), 0) for sample in data)
    _, losses = train(pictures(path), classes; epochs = 10, path = checkpoints)
    println("the last loss: ", last(losses))
end

end # module FluxExample

if abspath(PROGRAM_FILE) == @__FILE__
    FluxExample.main(ARGS)
end
