# The examples, with stand-ins for the packages that they use.

pushfirst!(LOAD_PATH, joinpath(@__DIR__, "standins"))

module Examples
include("../examples/flux.jl")
include("../examples/mlutils.jl")
end

using .Examples: FluxExample, MLUtilsExample

# A loader whose iteration is interrupted when so many batches are done.
struct Breaking
    loader::Loader
    batches::Int
end

Benzina.save(breaking::Breaking) = Benzina.save(breaking.loader)
Benzina.eachbatch(breaking::Breaking) =
    (i > breaking.batches ? throw(InterruptException()) : batch for (i, batch) in enumerate(eachbatch(breaking.loader)))

@testset "a training loop with Flux goes on where it was broken off" begin
    open_loader() = FluxExample.pictures(ARCHIVE; batchsize = 2, size = (12, 12))
    _, whole = FluxExample.train(open_loader(), 3; epochs = 2)
    @test length(whole) == 2 * length(open_loader()) && all(isfinite, whole)
    mktempdir() do folder
        path = joinpath(folder, "model.jls")
        _, first_epoch = FluxExample.train(open_loader(), 3; epochs = 1, path = path)
        model, second = FluxExample.train(open_loader(), 3; epochs = 2, path = path)
        @test vcat(first_epoch, second) == whole
        # Broken off amid an epoch: a checkpoint of each batch.
        rm(path)
        stop = thrown(() -> FluxExample.train(Breaking(open_loader(), 3), 3; epochs = 2, path = path, every = 1))
        @test stop isa InterruptException && isfile(path) && !isfile("$path.new")
        _, rest = FluxExample.train(open_loader(), 3; epochs = 2, path = path)
        @test rest == whole[4:end]
    end
end

@testset "arrays of CUDA.jl over batches" begin
    CUDA = Base.require(Base.PkgId("CUDA"))
    wrap, device, stream = Base.invokelatest(FluxExample.on_gpu, CUDA)
    @test device == 0 && stream == Ptr{Cvoid}(2)
    keywords = (batchsize = 2, size = (12, 10))
    wrapped = [(copy(x.array), y) for (x, y) in Loader(ARCHIVE; keywords..., wrap = (p, dims) -> Base.invokelatest(wrap, p, dims))]
    @test wrapped == collected(Loader(ARCHIVE; keywords...))
    batch = first(eachbatch(Loader(ARCHIVE; keywords...)))
    x = from_dlpack((p, dims) -> Base.invokelatest(wrap, p, dims), batch)
    @test x isa CUDA.CuArray && x == batch.data
    # Where there is a GPU or a driver, this opens; elsewhere it says why not.
    refused = thrown(() -> FluxExample.pictures(ARCHIVE; gpu = (wrap, device, stream)))
    @test refused === nothing || refused isa BenzinaError
end

@testset "batches by MLUtils" begin
    data = Pictures(ARCHIVE; size = (16, 12))
    expected = sum(sum(data[i][1]) for i in 1:length(data)) / (length(data) * 16 * 12 * 3)
    for parallel in (false, true)
        training, validation = MLUtilsExample.means(ARCHIVE; batchsize = 2, size = (16, 12), parallel = parallel)
        split = round(Int, 0.8 * length(data))
        @test training[1] == cld(split, 2) && validation[1] == cld(length(data) - split, 2)
        @test (training[2] * split + validation[2] * (length(data) - split)) / length(data) ≈ expected
    end
end
