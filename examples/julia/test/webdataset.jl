# Tar shards as streams, as WebDataset.jl has them.

module WebDatasetTests                  # which has names that others have, too

using Test, Benzina.WebDataset
using ..Main: Benzina, picture_bytes, thrown, write_member, write_tar

members(range) = [(name, bytes) for i in range for (name, bytes) in
                  ("a/s$i.cls" => codeunits("$i"), "a/s$i.jpg" => picture_bytes("jpeg_440.jpg"), "a/s$i.meta.json" => codeunits("{\"n\": $i}"))]

shards(folder, count = 2, size = 5) = [write_tar(joinpath(folder, "s-$shard.tar"), members(size * shard .+ (1:size))) for shard in 0:count-1]

classes_of(batches) = sort(reduce(vcat, [batch[".cls"] for batch in batches]))

@testset "names and streams" begin
    @test allsplitext("a.b/c.d.e") == ("a.b/c", ".d.e") && allsplitext("c") == ("c", "") && allsplitext("") == ("", "")
    @test allsplitext("ä/ö.ü") == ("ä/ö", ".ü")
    @test braceexpand("") == [""] && braceexpand("abc") == ["abc"]
    @test braceexpand("a{1..3}bc") == ["a1bc", "a2bc", "a3bc"]
    @test braceexpand("a{1..2}{1..2}bc") == ["a11bc", "a12bc", "a21bc", "a22bc"]
    @test braceexpand("t-{008..011}.tar") == ["t-008.tar", "t-009.tar", "t-010.tar", "t-011.tar"]
    @test braceexpand(["a{0..1}", "b"]) == ["a0", "a1", "b"]
    @test read(generic_open("pipe:echo hello"), String) == "hello\n"
    @test read(generic_open(`echo hello`), String) == "hello\n"
    @test read(generic_open("/dev/null"), String) == ""
    @test_throws SystemError generic_open("no/such/shard.tar")
    @test (@test_logs (:info, r"opening") read(generic_open("/dev/null"; verbose = true))) == UInt8[]
end

@testset "members and samples of tar files" begin
    mktempdir() do folder
        path = joinpath(folder, "a.tar")
        long = "d/" * "x"^150
        open(path, "w") do io
            write_member(io, "d", UInt8[]; kind = '5')
            write_member(io, "d/.hidden", UInt8[1])
            write_member(io, "d/one.JPG", UInt8[1, 2])
            write_member(io, "d/one.cls", UInt8[3])
            write_member(io, "d/alone.txt", UInt8[])
            write_member(io, "././@LongLink", Vector{UInt8}("$long.txt\0"); kind = 'L')
            write_member(io, "cut off", UInt8[4])
            line = " path=$long.p\n"
            write_member(io, "pax", Vector{UInt8}("$(ncodeunits(line) + 3)" * line); kind = 'x')
            write_member(io, "cut off", UInt8[5])
            write_member(io, "two.txt", UInt8[6]; prefix = "far/away")
            write_member(io, "__meta__/three.txt", UInt8[7])
            write(io, zeros(UInt8, 1024))
        end
        names = [name for (name, _) in tariterator(open(path))]
        @test names == ["d/.hidden", "d/one.JPG", "d/one.cls", "d/alone.txt", "$long.txt", "$long.p", "far/away/two.txt", "__meta__/three.txt"]
        samples = collect(sampleiterator(open(path)))
        @test [sample["__key__"] for sample in samples] == ["d/one", "d/alone", long, "far/away/two"]
        @test samples[1] == Dict{String,Any}("__key__" => "d/one", ".JPG" => [1, 2], ".cls" => [3])
        @test samples[3] == Dict{String,Any}("__key__" => long, ".txt" => [4], ".p" => [5])
        bytes = read(path)
        @test_throws EOFError collect(tariterator(IOBuffer(bytes[1:1300])))
        @test_throws EOFError collect(tariterator(IOBuffer(bytes[1:end-1024])))     # between members
        @test length(collect(tariterator(IOBuffer(vcat(bytes, bytes))))) == 16
        bytes[600] ⊻= 1
        @test_throws ErrorException collect(tariterator(IOBuffer(bytes)))
        @test isempty(collect(tariterator(IOBuffer())))
    end
end

@testset "samples are shuffled, changed by rules, and batched" begin
    numbers = collect(1:100)
    @test sort(collect(sampleshuffle(numbers, 10))) == numbers && collect(sampleshuffle(numbers, 10)) != numbers
    @test collect(sampleshuffle(numbers, 0)) == numbers && isempty(collect(sampleshuffle([])))
    sample = Dict{String,Any}("__key__" => "k", ".JPG" => 1, ".seg.png" => 2, ".txt" => "t")
    @test map_by_rules(sample, [".jpg" => x -> 10x, r"png$" => x -> 20x]) == Dict("__key__" => "k", ".JPG" => 10, ".seg.png" => 40)
    @test map_by_rules(sample, [Rename(".jpg", ".img") => x -> 3x, "" => identity]) ==
          Dict("__key__" => "k", ".img" => 3, ".seg.png" => 2, ".txt" => "t")
    @test map_by_rules(sample, [Continue(r"png$", ".twice") => x -> 2x, ".png" => identity]) == Dict("__key__" => "k", ".twice" => 4, ".seg.png" => 2)
    @test map_by_rules(sample, [String => uppercase]) == Dict("__key__" => "k", ".txt" => "T")
    @test map_by_rules(sample, [".txt" => length, ".txt" => _ -> error("not asked")]) == Dict("__key__" => "k", ".txt" => 1)
    before = WebDataset.num_exceptions[]
    fragile = x -> x == 2 ? throw(DomainError(x)) : x
    @test [s["n"] for s in sampletransforms([Dict("n" => i) for i in 1:3], ["n" => fragile])] == [1, 3]
    @test WebDataset.num_exceptions[] == before + 1 && WebDataset.last_exception isa DomainError
    batches = collect(samplebatching([Dict("n" => i) for i in 1:7], 3))
    @test [batch["n"] for batch in batches] == [[1, 2, 3], [4, 5, 6], [7]]
    @test length(collect(samplebatching([Dict("n" => i) for i in 1:7], 3; minsize = 2))) == 2
    @test length(collect(samplebatching([Dict("n" => i) for i in 1:6], 3))) == 2
    @test samplebatching([1, 2], 0) == [1, 2]
    @test transpose_batch([Dict("a" => 1), Dict("a" => 2)]) == Dict("a" => [1, 2])
    @test_throws ErrorException transpose_batch([Dict("a" => 1), Dict("b" => 2)])
    kept = WebDataset.max_exceptions
    try
        Core.eval(WebDataset, :(max_exceptions = 0))
        WebDataset.num_exceptions[] = 0
        @test_throws ErrorException collect(sampletransforms([Dict("n" => 2)], ["n" => fragile]))
    finally
        Core.eval(WebDataset, :(max_exceptions = $kept))
    end
end

@testset "decoders" begin
    @test clsdecode(codeunits("17\n")) == 17
    @test_throws ArgumentError clsdecode(codeunits("x"))
    @test_throws ArgumentError clsdecode(codeunits("17"); hi = 9)
    @test imdecode(picture_bytes("jpeg_440.jpg")) == Benzina.decode(picture_bytes("jpeg_440.jpg"); uint8 = true)
    @test size(imdecode(picture_bytes("jpeg_gray_progressive.jpg"))) == (40, 25, 1)
    pixels, matrix = imdecode(picture_bytes("jpeg_440.jpg")), imdecode(picture_bytes("jpeg_440.jpg"); color = NTuple{3,UInt8})
    @test matrix isa Matrix{NTuple{3,UInt8}} && size(matrix) == (25, 40)
    @test all(matrix[y, x] == Tuple(pixels[x, y, :]) for x in 1:40, y in 1:25)
    @test imdecode(picture_bytes("jpeg_gray_progressive.jpg"); color = UInt8) == permutedims(imdecode(picture_bytes("jpeg_gray_progressive.jpg"))[:, :, 1])
    @test_throws ArgumentError imdecode(picture_bytes("jpeg_440.jpg"); color = Float64)
    json(text) = jsondecode(codeunits(text))
    @test json(" {\"a\": [1, -2.5e1, true, false, null], \"b\\n\\u00e9\\ud83d\\ude00\": {}, \"\": \"ü\"} ") ==
          Dict("a" => [1, -25.0, true, false, nothing], "b\né😀" => Dict(), "" => "ü")
    @test json("[]") == [] && json("12") === Int64(12) && json("1e2") === 100.0 && json("123456789012345678901") === 123456789012345678901.0
    for text in ("", "[1,]", "{\"a\" 1}", "[1", "\"a", "tru", "01", "1 2", "\"\\x\"", "\"\\ud83d\"", "\"\\u12\"", "{1: 2}", "[1 2]", "+1", "nan", "\"\n\"", "["^600)
        @test_throws WebDataset.JSONError json(text)
    end
    said = sprint(showerror, thrown(() -> json("[1,}")))
    @test occursin("byte 3", said)
    @test_throws ArgumentError jsondecode(codeunits("1"); query = "a")
end

@testset "loaders of shards" begin
    mktempdir() do folder
        paths = shards(folder)
        empty = DatasetDescriptor()
        @test isempty(empty.sources) && (empty.shuffle, empty.batchsize, empty.csize, empty.ntasks) == (1000, 16, 100, 4)
        @test !empty.verbose && !empty.debug && isempty(collect(dataloader(empty)))
        desc = DatasetDescriptor(sources = paths, shuffle = 3, batchsize = 2, decoding = default_decoders, ntasks = 2,
                                 augmenting = [".img" => x -> x[1:2:end, :, :], "" => identity], mapping = s -> merge(s, Dict(".key" => s["__key__"])),
                                 collating = [".cls" => x -> Vector{Int}(x), "" => identity])
        batches = collect(dataloader(desc))
        @test length(batches) == 6 && classes_of(batches) == 1:10
        @test all(batch -> size(batch[".img"][1]) == (20, 25, 3) && batch[".cls"] isa Vector{Int}, batches)
        @test batches[1][".meta.json"][1]["n"] == batches[1][".cls"][1] && batches[1][".key"] == batches[1]["__key__"]
        single = DatasetDescriptor(sources = paths, batchsize = 0, shuffle = 0, decoding = [".cls" => clsdecode], ntasks = 1)
        @test [sample[".cls"] for sample in dataloader(single)] == 1:10
        # Commands, and the descriptor's own mode without threads.
        piped = DatasetDescriptor(sources = ["pipe:cat $(paths[1])", `cat $(paths[2])`], batchsize = 5, shuffle = 0, decoding = default_decoders)
        debugged = collect(debugloader(piped))
        @test [batch[".cls"] for batch in debugged] == [1:5, 6:10]
        @test length(collect(debugloader(piped; maxcount = 1))) == 1
        @test length(collect(debugloader(piped, paths[1:1]))) == 1
        out = Channel{Any}(10)
        inch = Channel{Any}(1)
        put!(inch, paths[1]), close(inch)
        loadproc(piped, inch, out, :over)
        close(out)
        @test last(collect(out)) === :over
        @test_logs (:info,) (:info,) match_mode = :any collect(debugloader(DatasetDescriptor(sources = paths[1:1], verbose = true, debug = true)))
    end
end

@testset "exceptions of loaders are kept, counted or thrown" begin
    mktempdir() do folder
        paths = shards(folder)
        desc = DatasetDescriptor(sources = paths, batchsize = 0, decoding = [".cls" => x -> (n = clsdecode(x); iseven(n) ? n : throw(DomainError(n)))])
        @test sort([sample[".cls"] for sample in dataloader(desc)]) == 2:2:10
        @test WebDataset.num_exceptions[] == 5 && WebDataset.last_exception isa DomainError
        desc.mapping, desc.shuffle = sample -> error("mapping"), 0
        @test isempty(collect(debugloader(desc))) && WebDataset.num_exceptions[] == 10
        @test WebDataset.last_exception isa ErrorException
        missing_shard = DatasetDescriptor(sources = [paths[1], joinpath(folder, "none.tar")], batchsize = 0)
        @test thrown(() -> collect(dataloader(missing_shard))) isa CapturedException
        @test_throws SystemError debugloader(missing_shard; maxcount = 100)
        # A command that fails, and one that ends between two members, end it with an exception, not as if all were read.
        whole = read(paths[2])
        for broken in (`sh -c "cat $(paths[2]); exit 3"`, `head -c 1024 $(paths[2])`, `head -c $(length(whole) - 1024) $(paths[2])`, `false`)
            for ntasks in (1, 4)
                descriptor = DatasetDescriptor(sources = [paths[1], broken], batchsize = 0, ntasks = ntasks)
                @test thrown(() -> collect(dataloader(descriptor))) isa CapturedException
                @test thrown(() -> debugloader(descriptor; maxcount = 100)) isa Union{EOFError,ErrorException}
            end
        end
        # It is a channel.
        channel = dataloader(DatasetDescriptor(sources = paths, batchsize = 5, ntasks = 1))
        @test channel isa AbstractChannel && isopen(channel) && length(take!(channel)["__key__"]) == 5
        @test length(collect(channel)) == 1 && !isopen(channel)
        @test_throws InvalidStateException take!(channel)
        write(paths[2], read(paths[2])[1:2000])
        @test_throws EOFError debugloader(DatasetDescriptor(sources = paths, batchsize = 0); maxcount = 100)
        # A loop that is broken off leaves no task behind.
        many = DatasetDescriptor(sources = fill(paths[1], 50), batchsize = 1, csize = 1, ntasks = 2)
        loaded = dataloader(many)
        first(loaded)
        close(loaded)
        @test_throws InvalidStateException first(loaded)
    end
end

end # module WebDatasetTests
