# runtests.jl - what Benzina.jl promises, tried on an archive
#
#     julia --startup-file=no examples/julia/runtests.jl tests/data/mini_h265.bzna

include(joinpath(@__DIR__, "Benzina.jl"))

using Test
using .Benzina: Benzina, BenzinaError, Dataset, Loader

const ARCHIVE = ARGS[1]

collected(loader) = [(copy(x), y) for (x, y) in loader]

@testset "an archive tells its samples" begin
    data = Dataset(ARCHIVE)
    @test length(data) > 1
    @test Benzina.target(data, 1) == 0
    @test Benzina.target(data, 2) == 37
    @test Benzina.name(data, 1) == "00_plasma_land.JPEG"
    @test reinterpret(Int64, Benzina.field(data, 2, "target")) == [37]
    @test Benzina.field(data, 1, "image")[1:4] == [0, 0, 0, 1]
    @test Benzina.field(data, 1, "caption") === nothing
    @test_throws BenzinaError Benzina.target(data, length(data) + 1)
    @test_throws BenzinaError Dataset("no/such/file.bzna")
    close(data)
    @test !isopen(data)
end

@testset "a loader runs epochs" begin
    loader = Loader(ARCHIVE; batchsize = 2, size = (32, 24), shuffle = true, seed = 7, warp = :random_resized_crop, flip = 0.5)
    zeroth, next = collected(loader), collected(loader)
    @test length(zeroth) == length(loader)
    @test size(zeroth[1][1]) == (32, 24, 3, 2)
    @test all(x -> 0 <= x <= 255, zeroth[1][1])
    @test zeroth != next
    @test sort(reduce(vcat, last.(zeroth))) == sort(reduce(vcat, last.(next)))
    again = Loader(ARCHIVE; batchsize = 2, size = (32, 24), shuffle = true, seed = 7, warp = :random_resized_crop, flip = 0.5, buffer = true)
    for _ in again
        break                               # the rest of this epoch is over then
    end
    @test collected(again) == next
    @test_throws BenzinaError Loader(ARCHIVE; batchsize = 0, size = (32, 24))
    @test_throws ArgumentError Loader(ARCHIVE; batchsize = 1, size = (32, 24), warp = :sideways)
end

@testset "filters and channels by their names" begin
    first_of(; keywords...) = copy(first(Loader(ARCHIVE; batchsize = 1, size = (24, 16), warp = :center_resized_crop, keywords...))[1])
    @test first_of() == first_of(filter = :linear, antialias = true, channels = :RGB)
    pictures = [first_of(filter = name) for name in (:nearest, :linear, :cubic, :lanczos, :area, :cubic_075, :lanczos4)]
    push!(pictures, first_of(antialias = false))
    @test allunique(pictures)
    @test first_of(channels = :BGR) == first_of()[:, :, 3:-1:1, :]
    @test size(first_of(channels = :gray)) == (24, 16, 1, 1)
    @test_throws ArgumentError first_of(filter = :bilinear)
    @test_throws ArgumentError first_of(channels = :CMYK)
    @test_throws BenzinaError first_of(filter = :area, antialias = false)
end

@testset "views and outputs come from one decode" begin
    keywords = (batchsize = 2, size = (24, 16), shuffle = true, seed = 5, warp = :random_resized_crop, flip = 0.5)
    outputs = (Benzina.Output("local"; size = (8, 8), views = 3, warp = :random_resized_crop, crop_area = (0.05, 0.3)),
               Benzina.Output("twin"; uint8 = true, gray = true, own_color = true))
    for ((x, _), batch) in zip(Loader(ARCHIVE; keywords...), Benzina.eachbatch(Loader(ARCHIVE; keywords..., views = 2, outputs = outputs)))
        @test size(batch.data) == (24, 16, 3, 2 * size(x, 4))
        @test batch.data[:, :, :, 1:size(x, 4)] == x
        @test size(Benzina.tensor(batch, "local")) == (8, 8, 3, size(x, 4), 3)
        @test Benzina.tensor(batch, "twin") isa Array{UInt8,5}
    end
    mean = reshape(Float32.(1:24 * 16 * 3), 24, 16, 3)
    for ((x, _), (y, _)) in zip(Loader(ARCHIVE; keywords...), Loader(ARCHIVE; keywords..., mean_image = mean))
        @test x .- mean ≈ y
    end
    @test_throws BenzinaError Loader(ARCHIVE; keywords..., views = 65)
    @test_throws BenzinaError Loader(ARCHIVE; keywords..., outputs = (Benzina.Output("image"),))
end

@testset "whoever decodes, arrays are on the host" begin
    keywords = (batchsize = 2, size = (24, 16), shuffle = true, seed = 5, warp = :random_resized_crop)
    expected = collected(Loader(ARCHIVE; device = :cpu, decoder = :software, keywords...))
    loader = Loader(ARCHIVE; keywords...)
    @test collected(loader) == expected
    @test all(!isempty, Benzina.decoder(loader))
    @test_throws BenzinaError Benzina.device(Dataset(ARCHIVE; device = :cpu))
    @test_throws BenzinaError Loader(ARCHIVE; device = :cpu, decoder = :nvdec, keywords...)
    @test_throws ArgumentError Loader(ARCHIVE; device = :toaster, keywords...)
    try
        @test !isempty(Benzina.device(loader).name)
    catch error
        @test error isa BenzinaError
    end
end

@testset "arrays keep their batches" begin
    loader = Loader(ARCHIVE; batchsize = 1, size = (16, 16), batches_in_flight = 3)
    (x, y), state = iterate(loader)
    expected, flat = vec(copy(x)), vec(x)
    x = state = nothing
    close(loader)
    GC.gc()
    @test flat == expected
    held = Loader(ARCHIVE; batchsize = 1, size = (16, 16), batches_in_flight = 2)
    @test_throws BenzinaError collect(held)
end

@testset "sources" begin
    keywords = (batchsize = 3, size = (20, 20), reader_threads = 2)
    expected = collected(Loader(ARCHIVE; keywords...))
    bytes = read(ARCHIVE)
    @test collected(Loader(bytes; keywords...)) == expected
    @test collected(Loader(IOBuffer(bytes); keywords...)) == expected
    @test open(io -> collected(Loader(io; keywords...)), ARCHIVE) == expected
    @test_throws BenzinaError Dataset(zeros(UInt8, 1000))
end

@testset "a state goes on" begin
    open_loader() = Loader(ARCHIVE; batchsize = 2, size = (16, 16), shuffle = true, seed = 3)
    loader, rest = open_loader(), []
    step = iterate(loader)
    saved = Benzina.save(loader)
    while (step = iterate(loader, step[2])) !== nothing
        push!(rest, copy.(step[1]))
    end
    @test length(saved) == 128
    other = Benzina.restore!(open_loader(), saved)
    @test collected(other) == rest
end

@testset "a data provider" begin
    loader = Loader(ARCHIVE; batchsize = 4, size = (16, 8), pad = true)
    @test Benzina.provide_data(loader) == [(:data, (16, 8, 3, 4))]
    @test Benzina.provide_label(loader) == [(:softmax_label, (4,))]
    @test Benzina.get_batch_size(loader) == 4
    seen = 0
    for batch in Benzina.eachbatch(loader)
        seen += Benzina.count_samples(loader, batch)
        pixels, labels = zeros(Float32, 16, 8, 3, 4), zeros(Int64, 4)
        Benzina.load_data!(loader, batch, [pixels])
        Benzina.load_label!(loader, batch, [labels])
        @test pixels == batch.data && labels == batch.targets && Benzina.failure(batch, 1) === nothing
    end
    @test seen == length(Dataset(ARCHIVE))
    @test Benzina.stats(loader).samples >= seen
end

@testset "fields of batches, and settings of data sets" begin
    loader = Loader(Dataset([ARCHIVE, ARCHIVE]; format = "archive"); batchsize = 4, size = (16, 16), tensors = ["target"], bytes = ["name", "target"])
    data = Dataset(ARCHIVE)
    @test length(loader.dataset) == 2 * length(data)
    @test isempty(Benzina.classes(data))
    for batch in Benzina.eachbatch(loader)
        @test Benzina.tensor(batch, "target") == batch.targets
        names = [bytes === nothing ? nothing : String(bytes) for bytes in Benzina.bytes(batch, "name")]
        @test names == [Benzina.name(loader.dataset, index) for index in batch.indices]
        @test_throws BenzinaError Benzina.bytes(batch, "image")
    end
    @test_throws BenzinaError Dataset(ARCHIVE; format = "folder")
    @test_throws ArgumentError Dataset(ARCHIVE; orientation = :sideways)
    mktempdir() do folder
        for class in ("9", "10", "8")
            mkdir(joinpath(folder, class))
            touch(joinpath(folder, class, "a.jpg"))
        end
        @test Benzina.classes(Dataset(folder)) == ["10", "8", "9"]
        @test Benzina.classes(Dataset(folder; class_order = :numeric)) == ["8", "9", "10"]
        @test Benzina.classes(Dataset(folder; classes = ["9", "8"])) == ["9", "8"]
    end
end

@testset "what is written can be read" begin
    data = Dataset(ARCHIVE)
    mktempdir() do folder
        write(path, indices) = Benzina.Writer(path; classes = ["cat", "dög"], queue_bytes = 10^6) do writer
            for index in indices
                Benzina.add!(writer, Benzina.coded(data, index); target = index % 2, name = "n$index", thumb = Benzina.coded(data, index, "thumb"),
                             split = :train, fields = (caption = "the $index.", box = [1, 2.5], number = -index, mask = UInt8[0, 255]), index = index)
            end
        end
        one, other = joinpath(folder, "one.bzna"), joinpath(folder, "other.bzna")
        write(one, 1:length(data))
        write(other, reverse(1:length(data)))
        @test read(one) == read(other)
        again = Dataset(one; split = "train")
        @test length(again) == length(data) && Benzina.classes(again) == ["cat", "dög"]
        @test Benzina.name(again, 3) == "n3" && Benzina.target(again, 3) == 1
        @test Benzina.field(again, 3, "image") == Benzina.field(data, 3, "image")
        @test String(Benzina.field(again, 3, "caption")) == "the 3.\0"
        @test reinterpret(Float32, Benzina.field(again, 3, "box")) == [1, 2.5]
        @test reinterpret(Int64, Benzina.field(again, 3, "number")) == [-3]
        @test_throws ErrorException Benzina.Writer(_ -> error("mine"), other)
        @test_throws BenzinaError Dataset(other)
    end
end
