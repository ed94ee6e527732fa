# Callbacks of loaders: on the thread that asks for a batch, and, where Julia adopts threads, on the decoders'.

@testset "callbacks of loaders" begin
    keywords = (batchsize = 2, size = (24, 16), shuffle = true, seed = 5, warp = :center_resized_crop)
    plain = collected(Loader(ARCHIVE; keywords...))
    if !ADOPTS_THREADS
        @test_throws ArgumentError Loader(ARCHIVE; keywords..., transform = (sample, random, t) -> nothing)
        @test_throws ArgumentError Loader(ARCHIVE; keywords..., picture = (sample, random, described, planes) -> nothing)
    end
    # What is refused, and until which version.
    for (box, what) in ((Benzina.SourceBox(nothing), "read_at!"), (Benzina.SamplesBox([], [], []), "samples"), (identity, "transform, picture and rules"))
        refused = thrown(() -> Benzina.callable_from_threads(box, v"1.8.5"))
        @test refused isa ArgumentError && occursin(what, refused.msg) && occursin("1.8.5: give no_threads = true", refused.msg)
        @test Benzina.callable_from_threads(box, v"1.9.0") === nothing
    end
    @test Benzina.callable_from_threads(C_NULL, v"1.5.0") === nothing         # C's own function
    for no_threads in (ADOPTS_THREADS ? (true, false) : (true,))
        open_loader(; more...) = Loader(ARCHIVE; keywords..., no_threads = no_threads, log = :none, more...)
        @test collected(open_loader()) == plain
        seen, seen_lock = SampleInfo[], ReentrantLock()
        remember(sample, random, t) = lock(() -> push!(seen, sample), seen_lock)
        @test collected(open_loader(transform = remember)) == plain
        @test sort([sample.index for sample in seen]) == 1:length(Dataset(ARCHIVE))
        @test all(sample -> sample.out_size == (24, 16) && sample.view == 1 && sample.output == 0 && sample.epoch == 0, seen)
        @test all(sample -> something(target(Dataset(ARCHIVE), sample.index), -1) == sample.target && 1 <= sample.slot <= 2, seen)
        # Mirrors what the warp has made: x becomes 23 - x in the output.
        function mirror(sample, random, t)
            h = t.homography
            t.homography = (-h[1], h[2], h[3] + 23 * h[1], -h[4], h[5], h[6] + 23 * h[4], -h[7], h[8],
                            h[9] + 23 * h[7])
        end
        mirrored = collected(open_loader(transform = mirror))
        @test all(maximum(abs.(x[end:-1:1, :, :, :] .- y)) < 1 for ((x, _), (y, _)) in zip(plain, mirrored))
        drawn(seed) = collected(Loader(ARCHIVE; keywords..., seed = seed, no_threads = no_threads,
                                       transform = (sample, random, t) -> (t.brightness = uniform!(random, 0.5, 2))))
        @test drawn(5) == drawn(5) && drawn(5) != plain
        # Draws into luma and chroma: all is gray.
        blank(sample, random, described, planes) = (foreach(plane -> fill!(plane, 128), planes); nothing)
        @test all(x -> maximum(x) - minimum(x) < 1, first.(collected(open_loader(picture = blank))))
        shapes = Any[]
        collected(open_loader(picture = (sample, random, described, planes) -> push!(shapes, (size.(planes), eltype(planes[1])))))
        @test all(shape -> length(shape[1]) == 3 && shape[1][2] == cld.(shape[1][1], 2) && shape[2] == UInt8, shapes)
        # What is thrown is kept, and fails the run or the sample.
        failing = open_loader(transform = (sample, random, t) -> sample.index == 2 ? throw(DomainError(2)) : nothing)
        error = thrown(() -> collected(failing))
        @test error isa BenzinaError && error.status == Benzina.BZNA_E_CALLBACK && error.cause isa DomainError
        @test num_exceptions(failing) == 1 && last_exception(failing) isa DomainError
        filled = open_loader(picture = (sample, random, described, planes) -> planes[1][10^6, 1], on_callback_error = :sample)
        statuses = reduce(vcat, [copy(batch.status) for batch in eachbatch(filled)])
        @test all(status -> status == Benzina.BZNA_E_CALLBACK, statuses) && last_exception(filled) isa BoundsError
        @test num_exceptions(filled) == length(statuses)
        singular = open_loader(transform = (sample, random, t) -> (t.homography = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)))
        @test thrown(() -> collected(singular)) isa BenzinaError && last_exception(singular) === nothing
        # Collections while the library calls.
        collecting = open_loader(transform = (sample, random, t) -> (GC.gc(); mirror(sample, random, t)))
        @test collected(collecting) == mirrored
    end
end

# What does not need threads that Julia adopts: its own call the library, which calls back on each at once.
@testset "callbacks on several threads of Julia" begin
    data, images = Dataset(IOBuffer(read(ARCHIVE))), picture_bytes.(["jpeg_440.jpg", "jpeg_411.jpg", "png_palette_2.png"])
    made = from_samples(Made(i -> (image = images[i % 3 + 1], target = i, text = "$i"), 12))
    counted = Rule((value, sample) -> (GC.gc(false); parse(Int, String(value))), "text", "number"; type = Int64)
    function run_all(part)
        keywords = (batchsize = 2, size = (24, 16), shuffle = true, seed = part, no_threads = true)
        bright(sample, random, t) = (t.brightness = uniform!(random, 0.5, 2); sample.slot == 1 && GC.gc(false); nothing)
        first_part = collected(Loader(data; keywords..., transform = bright))
        second_part = [(copy(batch.data), batch.targets, tensor(batch, "number")) for batch in eachbatch(Loader(made; keywords..., rules = counted))]
        return first_part, second_part
    end
    expected = [run_all(part) for part in 1:4]
    @test all(batch -> batch[2] == batch[3], expected[1][2])
    if Threads.nthreads() > 1
        tasks = [Threads.@spawn(run_all(part)) for part in 1:4]
        @test [fetch(task) for task in tasks] == expected
    else
        println("SKIP callbacks on several threads of Julia: it has one; JULIA_NUM_THREADS=2 gives it two")
    end
    @test num_exceptions(data) == 0 && num_exceptions(made) == 0
end
