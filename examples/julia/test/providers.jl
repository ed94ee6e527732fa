# Samples of a program's own: objects with length and getindex, which the library asks on the thread that asks for a batch, and, where Julia adopts
# threads, on the readers'.

# Samples that a function makes, and how often it was asked.
mutable struct Made
    count::Int
    make::Any
    asked::Threads.Atomic{Int}
end

Made(make, count) = Made(count, make, Threads.Atomic{Int}(0))
Base.length(made::Made) = made.count

function Base.getindex(made::Made, index::Integer)
    Threads.atomic_add!(made.asked, 1)
    return made.make(index)
end

@testset "samples that Julia makes" begin
    names = ["jpeg_440.jpg", "png_palette_2.png", "jpeg_411.jpg"]
    images = picture_bytes.(names)
    sample(i) = (image = images[i], target = i == 2 ? nothing : 5i, caption = "numéro $i", box = [i, i + 0.5], raw = UInt8[i, 0, 255], weight = i / 2)
    made = Made(sample, 3)
    data = from_samples(made; classes = ["a", "b"], fingerprint = 7)
    @test length(data) == 3 && [target(one) for one in data] == [5, nothing, 15] && classes(data) == ["a", "b"]
    @test [Benzina.field(one, "image") for one in data] == images
    @test String(Benzina.field(data, 3, "caption")) == "numéro 3\0"
    @test reinterpret(Float32, Benzina.field(data, 2, "box")) == [2, 2.5] && reinterpret(Float32, Benzina.field(data, 2, "weight")) == [1]
    @test Benzina.field(data, 2, "raw") == [2, 0, 255] && Benzina.field(data, 2, "target") === nothing
    ADOPTS_THREADS || @test occursin("1.9", thrown(() -> Loader(data; size = (8, 8))).msg)
    keywords = (batchsize = 1, size = (40, 25), shuffle = true, seed = 3, tensors = ["weight", "box:3"], bytes = "caption")
    for no_threads in (ADOPTS_THREADS ? (true, false) : (true,))
        seen = Int[]
        for batch in eachbatch(Loader(data; keywords..., no_threads = no_threads))
            i = batch.indices[1]
            push!(seen, i)
            @test batch.data[:, :, :, 1] == decode(images[i]) && batch.targets == [something(sample(i).target, -1)]
            @test tensor(batch, "weight") == reshape([i / 2], 1, 1) && tensor(batch, "box")[1:2, 1] == [i, i + 0.5]
            @test String(Benzina.bytes(batch, "caption")[1]) == "numéro $i"
            GC.gc()
        end
        @test sort(seen) == 1:3
        # All fields of a sample come of one call.
        before = made.asked[]
        @test length(collected(Loader(data; keywords..., no_threads = no_threads))) == 3
        @test made.asked[] - before <= 4
    end
    # A state is of these samples.
    saved = Benzina.save(Loader(data; keywords..., no_threads = true))
    @test_throws BenzinaError restore!(Loader(from_samples(made; fingerprint = 8); keywords..., no_threads = true), saved)
end

@testset "samples of other kinds" begin
    pixels, gray = rand(UInt8, 6, 4, 3), rand(UInt8, 6, 4)
    first_of(data) = first(Loader(data; size = (6, 4), no_threads = true))
    @test first_of(from_samples([pixels])) == (reshape(Float32.(pixels), 6, 4, 3, 1), [-1])
    @test first_of(from_samples([(pixels, 4)])) == (reshape(Float32.(pixels), 6, 4, 3, 1), [4])
    @test first_of(from_samples([(gray, true)])) == (reshape(repeat(Float32.(gray), 1, 1, 3), 6, 4, 3, 1), [1])
    @test first_of(from_samples([reshape(gray, 6, 4, 1)])) == first_of(from_samples([gray]))
    @test first_of(from_samples([Dict("target" => 9, "image" => view(pixels, :, :, :))])) == first_of(from_samples([(image = pixels, target = 9)]))
    # The first sample need not have what later ones have.
    data = from_samples([(image = gray, box = nothing), (image = pixels, box = 3), (image = gray, box = missing)]; kinds = (box = :vector, seg = :picture))
    @test Benzina.field(data, 1, "box") === nothing && reinterpret(Float32, Benzina.field(data, 2, "box")) == [3]
    @test Benzina.field(data, 1, "seg") === nothing && Benzina.field(data, 3, "box") === nothing
    @test_throws ArgumentError from_samples([])
    @test_throws ArgumentError from_samples([(1, 2, 3)])
    @test_throws ArgumentError from_samples([(image = pixels, more = nothing)])
    @test_throws ArgumentError from_samples([(image = pixels, more = missing)])
    @test_throws ArgumentError from_samples([(image = pixels,)]; kinds = (more = :picturs,))
    refused = thrown(() -> Benzina.field(from_samples([zeros(UInt8, 3, 3, 2)]), 1, "image"))
    @test refused isa BenzinaError && refused.cause isa ArgumentError
end

@testset "exceptions of samples cost these, and are kept" begin
    pixels = rand(UInt8, 6, 4, 3)
    failing(exception) = from_samples(Made(i -> i == 2 ? throw(exception) : (pixels, i), 3); log = :none)
    for (exception, status) in ((SystemError("mine", 5), Benzina.BZNA_E_IO), (DomainError(2), Benzina.BZNA_E_CALLBACK))
        data = failing(exception)
        error = thrown(() -> target(data, 2))
        @test error isa BenzinaError && error.status == status && error.cause === exception
        for no_threads in (ADOPTS_THREADS ? (true, false) : (true,))
            loader = Loader(data; batchsize = 3, size = (6, 4), no_threads = no_threads)
            before = num_exceptions(loader)
            batch = first(eachbatch(loader))
            @test batch.status == [0, status, 0] && failure(batch, 2).status == status
            @test Benzina.failed(batch) == 1
            index, why = Benzina.first_failed(loader)
            @test index == 2 && why.status == status && !isempty(why.message)
            @test num_exceptions(loader) > before && last_exception(loader) === exception
        end
    end
    # Nobody but the loader holds the samples.
    loader = Loader(from_samples(Made(i -> (copy(pixels), i), 4)); batchsize = 2, size = (6, 4), no_threads = true)
    GC.gc()
    @test [y for (_, y) in loader] == [[1, 2], [3, 4]]
end
