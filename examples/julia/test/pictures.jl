# Single pictures, random access, DLPack.

@testset "single pictures are decoded" begin
    for name in ("jpeg_440.jpg", "png_palette_2.png", "bmp_1.bmp")
        pixels = decode(picture_bytes(name); uint8 = true)
        @test size(pixels) == (40, 25, 3)
        @test maximum(abs.(Int.(pixels) .- pillow_pixels(name))) <= (endswith(name, "jpg") ? 40 : 0)
    end
    data = Dataset(ARCHIVE)
    decoder = Decoder()
    picture = coded(data[1])
    @test decode(decoder, picture) == decode(picture)
    turned = decode(picture_bytes("jpeg_exif_6.jpg"))
    @test size(turned) == (25, 40, 3)
    @test size(decode(picture_bytes("jpeg_gray_progressive.jpg"); channels = :auto)) == (40, 25, 1)
    @test decode(picture; channels = :BGR) == decode(picture)[:, :, 3:-1:1]
    # As a loader makes it, with the same random numbers.
    keywords = (size = (24, 16), warp = :random_resized_crop, flip = 0.5, seed = 9)
    loader = Loader(Dataset(ARCHIVE; device = :cpu); batchsize = 1, image = "image", epoch = 3, keywords...)
    ok = [decode(decoder, coded(data[i]); epoch = 3, index = i, keywords...) == x[:, :, :, 1] for (i, (x, _)) in enumerate(loader)]
    @test length(ok) == length(data) && all(ok)
    @test_throws BenzinaError decode(UInt8[1, 2, 3])
    @test_throws BenzinaError decode(picture_bytes("jpeg_440.jpg")[1:200])
    @test_throws ArgumentError decode(picture; warp = :sideways, size = (8, 8))
    close(decoder)
    @test !isopen(decoder)
end

@testset "samples as observations" begin
    data = Dataset(ARCHIVE)
    pictures = Pictures(data; size = (20, 12), seed = 4, warp = :random_resized_crop)
    @test length(pictures) == length(data)
    x, y = pictures[2]
    @test size(x) == (20, 12, 3) && y == target(data, 2)
    xs, ys = pictures[[3, 2, 3]]
    @test size(xs) == (20, 12, 3, 3) && ys == [something(target(data, i), -1) for i in (3, 2, 3)]
    @test xs[:, :, :, 2] == x && xs[:, :, :, 1] == xs[:, :, :, 3] == pictures[3][1]
    @test length(collect(pictures)) == length(data) && pictures[end][1] == pictures[length(data)][1]
    epoch!(pictures, 1)
    @test pictures[2][1] != x
    @test epoch!(pictures, 0)[2][1] == x
    @test_throws BoundsError pictures[0]
    @test_throws ArgumentError pictures[Int[]]
    @test [sample.index for sample in data[[2, 1]]] == [2, 1]
    # Several tasks decode at once.
    tasks = [Threads.@spawn(pictures[i][1]) for i in 1:length(data)]
    @test [fetch(task) for task in tasks] == [pictures[i][1] for i in 1:length(data)]
end

# An array of another package, which is told where its memory lies.
mutable struct Foreign{T,N} <: AbstractArray{T,N}
    array::Array{T,N}
end

Base.size(x::Foreign) = size(x.array)
Base.getindex(x::Foreign{T,N}, indices::Vararg{Int,N}) where {T,N} = x.array[indices...]
foreign(pointer, dims) = Foreign(unsafe_wrap(Array, pointer, dims))

@testset "arrays of other packages over a batch's memory" begin
    keywords = (batchsize = 2, size = (12, 10), batches_in_flight = 2)
    expected = collected(Loader(ARCHIVE; keywords...))
    loader = Loader(ARCHIVE; keywords..., wrap = foreign)
    got = [(copy(x), y, x isa Foreign) for (x, y) in loader]
    @test [(x, y) for (x, y, _) in got] == expected && all(last, got)
    @test_throws ErrorException first(Loader(ARCHIVE; keywords..., wrap = (pointer, dims) -> error("mine")))
    @test_throws ArgumentError Loader(ARCHIVE; keywords..., cuda = 0)
    loader = Loader(ARCHIVE; keywords...)
    batch = first(eachbatch(loader))
    pixels = from_dlpack(foreign, batch)
    classes = from_dlpack(foreign, batch, "target")
    @test pixels isa Foreign{Float32,4} && pixels == batch.data && vec(classes) == batch.targets && eltype(classes) == Int64
    release!(batch)
    @test pixels == expected[1][1]                      # until it is finalized, too
    finalize(pixels), finalize(classes)
    @test_throws BenzinaError from_dlpack(foreign, first(eachbatch(loader)), "no such tensor")
    @test_throws ErrorException from_dlpack((pointer, dims) -> error("mine"), first(eachbatch(loader)))
end

@testset "messages go to Julia's logger" begin
    logger = Test.TestLogger(min_level = Test.Logging.Debug)
    Test.Logging.with_logger(logger) do
        loader = Loader(Dataset(ARCHIVE; log = :debug); batchsize = 2, size = (8, 8), shuffle = true)
        collected(loader)
        collected(Loader(Dataset(ARCHIVE; log = :none); batchsize = 2, size = (8, 8)))
    end
    @test !isempty(logger.logs) && all(log -> log.message isa String && log._module === Benzina, logger.logs)
    @test_throws ArgumentError Dataset(ARCHIVE; log = :loud)
end
