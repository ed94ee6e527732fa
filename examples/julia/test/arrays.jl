# Data sets of pictures that are in memory.

@testset "pictures in memory" begin
    names = ["jpeg_440.jpg", "png_palette_2.png", "jpeg_411.jpg"]
    images = picture_bytes.(names)
    data = from_arrays(images, [7, nothing, 1]; classes = ["a", "b"])
    @test length(data) == 3 && [target(sample) for sample in data] == [7, nothing, 1] && classes(data) == ["a", "b"]
    @test [Benzina.field(sample, "image") for sample in data] == images
    keywords = (batchsize = 1, size = (40, 25), shuffle = true, seed = 3)
    for (x, y) in Loader(data; keywords...)
        i = findfirst(isequal(y[1]), [7, -1, 1])
        @test x[:, :, :, 1] == decode(images[i])
    end
    # Nothing but the loader holds them.
    loader = Loader(from_arrays([copy(image) for image in images], 0:2); keywords...)
    GC.gc()
    @test sort(reduce(vcat, last.(collected(loader)))) == 0:2
    @test target(from_arrays(images)[1]) === nothing
    @test_throws ArgumentError from_arrays(images, [1, 2])
    @test_throws BenzinaError from_arrays(Vector{UInt8}[])
end
