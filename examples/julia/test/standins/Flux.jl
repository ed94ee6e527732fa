# A stand-in for Flux.jl: as much of its interface as examples/flux.jl uses, in plain Julia. Gradients are differences.
module Flux

export Adam, AdaptiveMeanPool, Chain, Conv, Dense, relu

relu(x) = max(x, zero(x))

struct Chain
    layers::Vector{Any}

    Chain(layers...) = new(collect(Any, layers))
end

(chain::Chain)(x) = foldl((x, layer) -> layer(x), chain.layers; init = x)

struct Dense
    weight::Matrix{Float32}
    bias::Vector{Float32}
end

Dense(sizes::Pair) = Dense(0.1f0 .* randn(Float32, sizes.second, sizes.first), zeros(Float32, sizes.second))
(layer::Dense)(x::AbstractMatrix) = layer.weight * x .+ layer.bias

struct Conv
    weight::Array{Float32,4}
    activation::Any
    stride::Int
end

Conv(size::Tuple, channels::Pair, activation; stride = 1) =
    Conv(0.1f0 .* randn(Float32, size..., channels.first, channels.second), activation, stride)

function (layer::Conv)(x::AbstractArray{<:Real,4})
    width, height, from, to = size(layer.weight)
    columns, rows = 1:layer.stride:size(x, 1)-width+1, 1:layer.stride:size(x, 2)-height+1
    y = zeros(Float32, length(columns), length(rows), to, size(x, 4))
    for k in 1:to, c in 1:from, j in 1:height, i in 1:width
        y[:, :, k, :] .+= layer.weight[i, j, c, k] .* x[columns.+(i-1), rows.+(j-1), c, :]
    end
    return layer.activation.(y)
end

struct AdaptiveMeanPool
    size::Tuple{Int,Int}
end

function (pool::AdaptiveMeanPool)(x::AbstractArray{<:Real,4})
    parts(length, count) = [div(length * (i - 1), count)+1:div(length * i, count) for i in 1:count]
    mean(part) = sum(part; dims = (1, 2)) ./ (size(part, 1) * size(part, 2))
    y = zeros(Float32, pool.size..., size(x, 3), size(x, 4))
    for (j, rows) in enumerate(parts(size(x, 2), pool.size[2])), (i, columns) in enumerate(parts(size(x, 1), pool.size[1]))
        y[i, j, :, :] = mean(x[columns, rows, :, :])
    end
    return y
end

flatten(x) = reshape(x, :, size(x, ndims(x)))
onehotbatch(labels, classes) = Float32[label == class for class in classes, label in labels]

function logitcrossentropy(logits, labels)
    shifted = logits .- maximum(logits; dims = 1)
    return -sum(labels .* (shifted .- log.(sum(exp.(shifted); dims = 1)))) / size(labels, 2)
end

# The parameters of the last layer: the others stay as they are drawn.
parameters(model::Chain) = (model.layers[end].weight, model.layers[end].bias)

struct Adam
    rate::Float32
end

setup(rule::Adam, model) = rule

function withgradient(f, model)
    loss = f(model)
    gradients = map(parameters(model)) do parameter
        gradient = similar(parameter)
        for i in eachindex(parameter)
            kept = parameter[i]
            parameter[i] = kept + 1f-2
            gradient[i] = (f(model) - loss) / 1f-2
            parameter[i] = kept
        end
        gradient
    end
    return loss, (gradients,)
end

function update!(rule::Adam, model, gradients)
    for (parameter, gradient) in zip(parameters(model), gradients)
        parameter .-= rule.rate .* gradient
    end
end

end # module Flux
