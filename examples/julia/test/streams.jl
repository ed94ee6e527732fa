# Streams: tar shards from files, commands and FIFOs, also packed.

# Shards of JPEG pictures with classes: shard s has `count` samples, whose targets are 100s, 100s + 1, ...
function write_shards(folder, counts)
    names = ("jpeg_440.jpg", "jpeg_411.jpg", "jpeg_422_restarts.jpg")
    return map(enumerate(counts)) do (s, count)
        members = [pair for i in 0:count-1 for pair in ["$s-$i.jpg" => picture_bytes(names[i % 3 + 1]), "$s-$i.cls" => codeunits(string(100s + i))]]
        write_tar(joinpath(folder, "shard-00$(s - 1).tar"), members)
    end
end

batches_of(stream) = [(copy(batch.data), batch.targets, batch.indices, batch.epoch, batch.last) for batch in eachbatch(stream)]

@testset "streams" begin
    mktempdir() do folder
        paths = write_shards(folder, (5, 4, 3))
        everything = [100s + i for (s, count) in enumerate((5, 4, 3)) for i in 0:count-1]
        keywords = (batchsize = 4, size = (24, 16))

        # As a Loader over the same shards, in their order.
        expected = collected(Loader(Dataset(paths); keywords...))
        stream = Stream(joinpath(folder, "shard-{000..002}.tar"); keywords...)
        got = batches_of(stream)
        @test [(x, y) for (x, y) in got] == expected
        @test reduce(vcat, [y for (_, y) in got]) == everything
        @test [last for (_, _, _, _, last) in got] == [false, false, true] && all(part -> part[4] == 0, got)
        places = [source_of(stream, index) for (_, _, indices) in got for index in indices]
        @test [place.source for place in places] == [paths[s] for (s, count) in enumerate((5, 4, 3)) for _ in 1:count]
        @test [place.sample for place in places] == [i for count in (5, 4, 3) for i in 1:count]
        @test_throws BoundsError source_of(stream, 0)
        @test_throws BoundsError source_of(stream, 3 << 32 + 1)
        @test stream_info(stream).shard_count == 3 && stream_info(stream).samples == 12
        @test statistics(stream).samples >= 12 && !isempty(Benzina.limit(stream)) && all(!isempty, Benzina.decoder(stream))
        @test [part[4] for part in batches_of(stream)] == [1, 1, 1]
        @test_throws ArgumentError length(stream)
        @test occursin("3 shards", sprint(show, stream))
        close(stream)
        @test !isopen(stream) && occursin("closed", sprint(show, stream))
        @test thrown(() -> iterate(stream)).message == "the stream is closed"
        @test_throws BenzinaError Benzina.save(stream)

        # Commands, a FIFO, and what they pack.
        @test collected(Stream(["pipe:cat '$path'" for path in paths]; keywords...)) == expected
        @test collected(Stream([`cat $(paths[1])`, paths[2], `cat $(paths[3])`]; keywords...)) == expected
        braced = cp(paths[1], joinpath(folder, "a {b,c}'d.tar"))
        @test length(collected(Stream(`cat $braced`; keywords..., literal = true))) == 2
        @test_throws ArgumentError Stream(`cat $braced`; keywords...)
        @test_throws ArgumentError Stream(setenv(`cat $braced`, "A" => "b"); keywords..., literal = true)
        for (program, ending, package) in (("gzip", ".gz", "zlib1g-dev"), ("zstd", ".zst", "libzstd-dev"))
            if Sys.which(program) === nothing
                println("SKIP streams of $program: there is no $program [$program]")
                continue
            end
            run(`$program -qk $(paths[1])`)
            stream = Stream([paths[1] * ending, "pipe:$program -c '$(paths[2])'", paths[3]]; keywords...)
            error = thrown(() -> Benzina.save(stream))
            if error isa BenzinaError && error.status == Benzina.BZNA_E_UNSUPPORTED
                println("SKIP streams of $program: libbenzina_stream.so was built without it [$package]")
            else
                @test error === nothing && collected(stream) == expected
            end
        end
        fifo = joinpath(folder, "fifo")
        run(`mkfifo $fifo`)
        writer = run(`sh -c "cat '$(paths[2])' >'$fifo'"`; wait = false)
        @test [part[2] for part in batches_of(Stream([paths[1], fifo, paths[3]]; keywords...))] == last.(expected)
        wait(writer)

        # Shuffled: the same each time, other epochs otherwise; no_threads; two ranks share the shards.
        shuffled(; more...) = Stream(paths; keywords..., shuffle = true, seed = 3, warp = :random_resized_crop, flip = 0.5, more...)
        stream = shuffled()
        epochs = [batches_of(stream) for _ in 1:3]
        @test all(epoch -> sort(reduce(vcat, [y for (_, y) in epoch])) == everything, epochs) && allunique(epochs)
        stream = shuffled(no_threads = true, buffer = true)
        @test [batches_of(stream) for _ in 1:3] == epochs
        ranks = [reduce(vcat, last.(collected(shuffled(rank = rank, world_size = 2)))) for rank in 0:1]
        @test sort(vcat(ranks...)) == everything && length(ranks[1]) != length(ranks[2])
        even = [shuffled(rank = rank, world_size = 2, samples_per_epoch = 12) for rank in 0:1]
        @test [length(stream) for stream in even] == [length(collected(stream)) for stream in even] == [2, 2]

        # Left in the middle, an epoch is over, and the next one is read anew; an iteration is superseded by the next one.
        stream = shuffled()
        batch, step = iterate(eachbatch(stream))
        anew = shuffled(epoch = 1)
        @test batches_of(stream) == batches_of(anew)
        error = thrown(() -> iterate(eachbatch(stream), step))
        @test error isa BenzinaError && error.status == Benzina.BZNA_E_STATE && occursin("superseded", error.message)
        @test batches_of(stream) == batches_of(anew)

        # Without partial batches an epoch has what is full, and the next one begins with its own.
        stream = shuffled(batchsize = 5, partial = false)
        @test [[size(x, 4) for (x, _) in stream] for _ in 1:3] == [[5, 5], [5, 5], [5, 5]]

        # A state goes on, within an epoch and between two, also in a stream that has read nothing yet.
        flat(stream, epochs) = [(copy(batch.data), batch.indices, batch.epoch) for _ in 1:epochs for batch in eachbatch(stream)]
        small = (memory_bytes = 3 * filesize(paths[1]),)                # a window has one shard
        for (options, taken) in ((NamedTuple(), 1), (NamedTuple(), 3), (small, 2), (small, 4), ((batchsize = 5, partial = false), 2))
            reference, stream = flat(shuffled(; options...), 5), shuffled(; options...)
            delivered = 0
            while delivered < taken
                for _ in eachbatch(stream)
                    (delivered += 1) == taken && break
                end
            end
            saved = Benzina.save(stream)
            @test length(saved) == 224
            for resumed in (restore!(shuffled(; options..., threads = 1), saved), restore!(stream, saved))
                rest = flat(resumed, 2)
                @test length(rest) >= 2 && rest == reference[taken+1:taken+length(rest)]
            end
        end
        stream = shuffled()
        saved = Benzina.save(stream)
        @test_throws ArgumentError restore!(stream, saved[1:128])
        @test_throws BenzinaError restore!(shuffled(seed = 4), saved)

        # What cannot be read, and what is refused.
        error = thrown(() -> collected(Stream([paths[1], "pipe:exit 7"]; keywords...)))
        @test error isa BenzinaError && error.status == Benzina.BZNA_E_IO && error.native_code == 7 && occursin("exit 7", error.message)
        stream = Stream(["pipe:exit 7", paths[2]]; keywords..., on_shard_error = :leave)
        @test last.(collected(stream)) == [200:203] && stream_info(stream).shards_left_out >= 1        # of later epochs, too
        stream = Stream(paths; keywords..., memory_bytes = 3000)
        error = thrown(() -> iterate(stream))
        @test error isa BenzinaError && error.status == Benzina.BZNA_E_LIMIT
        @test_throws BenzinaError Stream(String[]; keywords...)
        @test_throws ArgumentError Stream(paths; keywords..., indices = [1])
        @test_throws ArgumentError Stream(paths; keywords..., indices = :given)
        @test_throws ArgumentError Stream(paths; keywords..., on_shard_error = :ignore)
        @test_throws BenzinaError iterate(Stream(paths; keywords..., format = "archive"))

        # Callbacks, further fields, and collections between batches.
        ADOPTS_THREADS || @test_throws ArgumentError shuffled(transform = (sample, random, t) -> nothing)
        seen = Int[]
        stream = shuffled(no_threads = true, transform = (sample, random, t) -> (push!(seen, sample.target); GC.gc(false)), bytes = "name")
        for (batch, before) in zip(eachbatch(stream), epochs[1])
            GC.gc()
            @test batch.data == before[1]
            @test [100parse(Int, name[1]) + parse(Int, name[3]) for name in String.(Benzina.bytes(batch, "name"))] == batch.targets
        end
        @test sort(unique(seen)) == everything && num_exceptions(stream) == 0 && last_exception(stream) === nothing
    end
end
