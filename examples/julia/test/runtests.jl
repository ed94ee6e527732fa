# runtests.jl - what the package promises
#
#     julia --project=examples/julia examples/julia/test/runtests.jl         or `test Benzina` of Pkg
#
# Reads an archive and pictures of this repository, in tests/data; makes all other files. Prints "examples/julia/test/runtests.jl: N passed, N failed" last, and ends with status 1 where something failed.

using Test
using Benzina

const ARCHIVE = normpath(joinpath(@__DIR__, "..", "..", "..", "tests", "data", "mini_h265.bzna"))

include("files.jl")

collected(loader) = [(copy(x), y) for (x, y) in loader]

# The exception that a function throws; nothing where it throws none.
function thrown(f)
    try
        f()
    catch exception
        return exception
    end
    return nothing
end

# A source whose reads throw `exception`, if it is not nothing.
mutable struct Faulty
    bytes::Vector{UInt8}
    exception::Any
end

Benzina.total_bytes(source::Faulty) = length(source.bytes)

function Benzina.read_at!(source::Faulty, buffer::Vector{UInt8}, offset::Int)
    source.exception === nothing || throw(source.exception)
    count = clamp(length(source.bytes) - offset, 0, length(buffer))
    copyto!(buffer, 1, source.bytes, offset + 1, count)
    return count
end

# From this version on, Julia runs on threads that are not its own.
const ADOPTS_THREADS = VERSION >= v"1.9"

# Passed checks of a set and of those in it.
passes(set) = set isa Test.DefaultTestSet ? set.n_passed + mapreduce(passes, +, set.results; init = 0) : 0

passed, failed = try
    set = @testset "Benzina.jl" begin
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
            close(again)
            closed = thrown(() -> collected(again))
            @test closed isa BenzinaError && closed.status == Benzina.BZNA_E_STATE && closed.message == "the loader is closed"
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
                       Benzina.Output("twin"; uint8 = true, gray = true, plain = true), Benzina.Output("sharp"; filter = :nearest),
                       Benzina.Output("half"; mean = (0, 0, 0), std = (2, 2, 2)), Benzina.Output("thumb"; field = "thumb"))
            for ((x, _), batch) in zip(Loader(ARCHIVE; keywords...), Benzina.eachbatch(Loader(ARCHIVE; keywords..., views = 2, outputs = outputs)))
                @test size(batch.data) == (24, 16, 3, 2 * size(x, 4))
                @test batch.data[:, :, :, 1:size(x, 4)] == x
                @test size(Benzina.tensor(batch, "local")) == (8, 8, 3, size(x, 4), 3)
                @test Benzina.tensor(batch, "twin") isa Array{UInt8,5}
                first_view(name) = Benzina.tensor(batch, name)[:, :, :, :, 1]
                @test first_view("half") == x ./ 2
                @test size(first_view("sharp")) == size(x) && first_view("sharp") != x
                @test size(first_view("thumb")) == size(x)
            end
            mean = reshape(Float32.(1:24 * 16 * 3), 24, 16, 3)
            for ((x, _), (y, _)) in zip(Loader(ARCHIVE; keywords...), Loader(ARCHIVE; keywords..., mean_image = mean))
                @test x .- mean ≈ y
            end
            @test_throws BenzinaError Loader(ARCHIVE; keywords..., views = 65)
            @test_throws BenzinaError Loader(ARCHIVE; keywords..., outputs = (Benzina.Output("image"),))
            @test_throws ArgumentError Benzina.Output("a"; warp = :sideways)
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
            missing_device = thrown(() -> Benzina.device(loader))
            @test missing_device isa BenzinaError || !isempty(Benzina.device(loader).name)
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

        @testset "bytes in memory, and sources" begin
            keywords = (batchsize = 3, size = (20, 20), reader_threads = 2)
            expected = collected(Loader(ARCHIVE; keywords...))
            bytes = read(ARCHIVE)
            @test collected(Loader(bytes; keywords...)) == expected
            alone = Loader(read(ARCHIVE); keywords...)          # nobody else has these bytes
            for _ in 1:3
                GC.gc()
                @test collected(alone) == expected
            end
            @test_throws BenzinaError Dataset(zeros(UInt8, 1000))
            @test_throws BenzinaError Dataset(UInt8[])
            for source in (IOBuffer(bytes), Faulty(bytes, nothing), open(ARCHIVE))
                data = Dataset(source; name = "mine")
                @test length(data) == length(Dataset(ARCHIVE))
                @test Benzina.name(data, 1) == "00_plasma_land.JPEG"
                @test Benzina.field(data, 2, "image") == Benzina.field(Dataset(ARCHIVE), 2, "image")
                if ADOPTS_THREADS
                    @test collected(Loader(data; keywords...)) == expected
                else
                    @test_throws ArgumentError Loader(data; keywords...)
                end
                # All on the thread that asks: every version can.
                @test collected(Loader(data; batchsize = 3, size = (20, 20), no_threads = true)) == expected
            end
        end

        @testset "exceptions of a source are kept and counted" begin
            source = Faulty(read(ARCHIVE), SystemError("mine", 5))
            refused = thrown(() -> Dataset(source))
            @test refused isa BenzinaError && refused.cause === source.exception
            source.exception = nothing
            data = Dataset(source)
            @test Benzina.num_exceptions(data) == 0 && Benzina.last_exception(data) === nothing
            for exception in (SystemError("mine", 5), ErrorException("a fault of the program"))
                source.exception = exception
                before = Benzina.num_exceptions(data)
                error = thrown(() -> Benzina.field(data, 1, "image"))
                @test error isa BenzinaError && error.cause === exception
                @test occursin(sprint(showerror, exception), sprint(showerror, error))
                @test Benzina.num_exceptions(data) > before && Benzina.last_exception(data) === exception
            end
            source.exception = nothing
            @test !isempty(Benzina.field(data, 1, "image"))
            @test Benzina.num_exceptions(Dataset(ARCHIVE)) == 0 && Benzina.last_exception(Dataset(ARCHIVE)) === nothing
            for no_threads in (ADOPTS_THREADS ? (true, false) : (true,))
                source.exception = nothing
                open_loader() = Loader(data; batchsize = 2, size = (8, 8), no_threads = no_threads)
                loader = open_loader()
                source.exception = EOFError()
                batch = first(eachbatch(open_loader()))
                @test batch isa Batch && batch.status == [Benzina.BZNA_E_IO, Benzina.BZNA_E_IO]
                source.exception = ErrorException("a fault of the program")
                error = thrown(() -> collected(open_loader()))
                @test error isa BenzinaError && error.status == Benzina.BZNA_E_CALLBACK && error.cause === source.exception
                @test Benzina.last_exception(loader) === source.exception && Benzina.num_exceptions(loader) > 2
            end
        end

        @testset "records of one size" begin
            width, height, channels, count = 6, 4, 3, 5
            planes = rand(UInt8, width, height, channels, count)
            labels = rand(UInt8(0):UInt8(9), count)
            mktempdir() do folder
                path = joinpath(folder, "cifar.bin")
                open(path, "w") do io
                    for i in 1:count
                        write(io, labels[i], planes[:, :, :, i])
                    end
                end
                records = Benzina.Records(width = width, height = height, channels = channels, label = :uint8, data_offset = 1)
                data = Dataset(path; records = records)
                @test length(data) == count
                @test [Benzina.target(sample) for sample in data] == labels
                loader = Loader(data; batchsize = count, size = (width, height))
                @test first(loader) == (Float32.(planes), labels)
                unheld = Dataset(path; records = records, hold_bytes = 1)
                @test first(Loader(unheld; batchsize = count, size = (width, height))) == (Float32.(planes), labels)
                @test first(Loader(Dataset(read(path); records = records); batchsize = count, size = (width, height))) == (Float32.(planes), labels)
                numbers = rand(Float32, 7, count)
                write(path, numbers)
                vectors = Benzina.Records(width = 7, height = 1, channels = 1, dtype = :float32, scale = 2, bias = 1)
                @test reinterpret(Float32, Benzina.field(Dataset(path; records = vectors), 2, "data")) ≈ 2 .* numbers[:, 2] .+ 1
                @test_throws BenzinaError Dataset(path; records = Benzina.Records(width = 0, height = 1, channels = 1))
                @test_throws ArgumentError Benzina.Records(width = 1, height = 1, channels = 1, dtype = :float64)
            end
        end

        @testset "a data set's samples one by one" begin
            data = Dataset(ARCHIVE)
            samples = collect(data)
            @test eltype(data) == Benzina.Sample && length(samples) == length(data)
            @test [sample.index for sample in data] == 1:length(data) == keys(data)
            @test [Benzina.target(sample) for sample in data] == [Benzina.target(data, index) for index in 1:length(data)]
            @test Benzina.name(data[2]) == Benzina.name(data, 2)
            @test Benzina.field(data[end], "image") == Benzina.field(data, length(data), "image")
            @test_throws BoundsError data[0]
            @test_throws BoundsError data[length(data)+1]
            @test occursin(string(length(data)), sprint(show, data)) && occursin("2 of", sprint(show, data[2]))
        end

        @testset "a new iteration supersedes the old one" begin
            loader = Loader(ARCHIVE; batchsize = 2, size = (8, 8), shuffle = true, seed = 11)
            epochs = [[batch.indices for batch in Benzina.eachbatch(loader)] for _ in 1:3]
            again = Loader(ARCHIVE; batchsize = 2, size = (8, 8), shuffle = true, seed = 11)
            batch, old = iterate(Benzina.eachbatch(again))
            @test batch.indices == epochs[1][1]
            @test [batch.indices for batch in Benzina.eachbatch(again)] == epochs[2]
            error = thrown(() -> iterate(Benzina.eachbatch(again), old))
            @test error isa BenzinaError && error.status == Benzina.BZNA_E_STATE && occursin("superseded", error.message)
            @test [batch.indices for batch in Benzina.eachbatch(again)] == epochs[3]
        end

        @testset "so does one that begins inside the other" begin
            again = Loader(ARCHIVE; batchsize = 2, size = (8, 8), shuffle = true, seed = 11)
            outer = inner = 0
            error = thrown() do
                for _ in again
                    outer += 1
                    outer > 2 && break
                    for _ in again
                        inner += 1
                    end
                end
            end
            @test error isa BenzinaError && error.status == Benzina.BZNA_E_STATE
            @test (outer, inner) == (1, length(again))
            @test length(collected(again)) == length(again)
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
            @test collected(other) == rest                      # less than a whole epoch, and `length` is that of a whole one
            @test length(other) == length(rest) + 1 == length(collected(other))
            step = iterate(other)
            Benzina.restore!(other, saved)
            @test_throws BenzinaError iterate(other, step[2])
            @test collected(other) == rest
            @test_throws ArgumentError Benzina.restore!(other, saved[1:64])
            @test_throws BenzinaError Benzina.restore!(other, zeros(UInt8, 128))
        end

        @testset "an order is given, epoch by epoch" begin
            given() = Loader(ARCHIVE; batchsize = 3, size = (16, 16), seed = 3, warp = :random_resized_crop, indices = :given)
            indices_of(loader) = [batch.indices for batch in Benzina.eachbatch(loader)]
            order = [5, 1, 5, 8]
            loader = given()
            @test length(loader) == 0
            error = try iterate(loader); nothing catch e; e end
            @test error isa BenzinaError && error.status == Benzina.BZNA_E_STATE && occursin("epoch 0", error.message)
            Benzina.set_indices!(loader, 0, order)
            Benzina.set_batches!(loader, 1, [[2], [3, 4], [1, 1, 1]])
            Benzina.set_indices!(loader, 2, 8:-1:1)
            Benzina.set_indices!(loader, 3, [4, 4])
            @test length(loader) == 2
            oracle = collected(Loader(ARCHIVE; batchsize = 3, size = (16, 16), seed = 3, warp = :random_resized_crop, indices = order))[1:2]
            @test collected(loader) == oracle
            @test indices_of(loader) == [[2], [3, 4], [1, 1, 1]]
            batch, step = iterate(Benzina.eachbatch(loader))        # broken off: the lists of later epochs stay
            @test batch.indices == [8, 7, 6]
            @test indices_of(loader) == [[4, 4]]
            @test_throws BenzinaError Benzina.set_indices!(loader, 3, [1])
            @test_throws BenzinaError Benzina.set_indices!(loader, 5, [length(loader.dataset) + 1])
            @test_throws BenzinaError Benzina.set_indices!(loader, 5, Int[])
            @test_throws BenzinaError Benzina.set_batches!(loader, 5, [[1, 2, 3, 4]])
            @test_throws ArgumentError Benzina.set_batches!(loader, 5, [])
            @test_throws ArgumentError Benzina.set_indices!(Loader(ARCHIVE; size = (16, 16)), 0, [1])
            @test_throws ArgumentError Loader(ARCHIVE; size = (16, 16), indices = :other)
            @test_throws ArgumentError Loader(ARCHIVE; size = (16, 16), indices = :given, shuffle = true)

            first = given()
            Benzina.set_indices!(first, 0, order)
            iterate(first)
            other = Benzina.restore!(given(), Benzina.save(first))
            @test_throws BenzinaError Benzina.set_indices!(other, 0, reverse(order))
            Benzina.set_indices!(other, 0, order)
            @test collected(other) == oracle[2:2]
        end

        @testset "samples are drawn by weights" begin
            drawn(; keywords...) = reduce(vcat, [batch.indices for batch in Benzina.eachbatch(Loader(ARCHIVE; batchsize = 2, size = (8, 8), seed = 5, keywords...))])
            count = length(Dataset(ARCHIVE))
            weights = [i in (2, 5) ? 1.0 : 0.0 for i in 1:count]
            @test length(drawn(weights = weights)) == count && issubset(drawn(weights = weights), [2, 5])
            @test sort(unique(drawn(weights = weights, epoch_samples = 40))) == [2, 5]
            @test sort(drawn(weights = weights, weighting = :once)) == [2, 5]
            parts = Dataset([ARCHIVE, ARCHIVE])
            second = [batch.indices for batch in Benzina.eachbatch(Loader(parts; size = (8, 8), weights = [0, 1], weights_by_part = true, epoch_samples = 9))]
            @test length(second) == 9 && all(indices -> indices[1] > count, second)
            @test_throws BenzinaError drawn(weights = [1])
            @test_throws ArgumentError drawn(weights = [])
            @test_throws ArgumentError drawn(weights = weights, weighting = :twice)
        end

        @testset "a training loop of two epochs is broken off, and resumed" begin
            open_loader() = Loader(ARCHIVE; batchsize = 2, size = (16, 16), shuffle = true, seed = 3, warp = :random_resized_crop, flip = 0.5)
            train(loader, epochs) = [sum(x) + sum(y) for _ in 1:epochs for (x, y) in loader]
            loader = open_loader()
            whole = train(loader, 2)
            @test length(whole) == 2 * length(loader)
            loader, losses, saved = open_loader(), Float32[], UInt8[]
            for (x, y) in Iterators.take(loader, 2)
                push!(losses, sum(x) + sum(y))
                saved = Benzina.save(loader)
            end
            @test vcat(losses, train(Benzina.restore!(open_loader(), saved), 2)) == whole
        end

        @testset "two batches are enough for loops and comprehensions" begin
            open_loader() = Loader(ARCHIVE; batchsize = 2, size = (8, 8), batches_in_flight = 2)
            looped(loader) = (total = 0.0; for _ in 1:3, (x, _) in loader; total += sum(x); end; total)
            comprehended(loader) = sum([sum(x) for _ in 1:3 for (x, _) in loader])
            @test looped(open_loader()) ≈ comprehended(open_loader())
            @test length([batch.count for batch in Benzina.eachbatch(open_loader())]) == length(open_loader())
        end

        @testset "collections between batches change nothing" begin
            keywords = (batchsize = 2, size = (16, 16), shuffle = true, seed = 9, batches_in_flight = 3, bytes = "name")
            other = Loader(ARCHIVE; keywords...)
            expected = [copy(x) for _ in 1:2 for (x, _) in other]
            loader, got = Loader(ARCHIVE; keywords...), Array{Float32,4}[]
            for _ in 1:2, batch in Benzina.eachbatch(loader)
                GC.gc()
                names = Benzina.bytes(batch, "name")
                GC.gc(false)
                push!(got, copy(batch.data))
                @test String(names[1]) == Benzina.name(loader.dataset[batch.indices[1]])
            end
            @test got == expected
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
            counts = Benzina.statistics(loader)
            @test counts.samples >= seen
            @test Benzina.first_failed(counts) === nothing === Benzina.first_failed(loader)
            @test occursin(": ", Benzina.limit(counts)) && occursin(": ", Benzina.limit(loader))
            @test Benzina.statistics(loader, counts).samples <= Benzina.statistics(loader).samples - counts.samples
        end

        @testset "fields of batches, and settings of data sets" begin
            loader = Loader(Dataset([ARCHIVE, ARCHIVE]; format = "archive"); batchsize = 4, size = (16, 16), bytes = ["name", "target"])
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
                mkdir(joinpath(folder, "85"))
                @test Benzina.classes(Dataset(folder; allow_empty = true)) == ["10", "8", "85", "9"]
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
                few = joinpath(folder, "few.bzna")
                Benzina.Writer(few) do writer
                    for target in (nothing, 0, nothing, 7, nothing)
                        Benzina.add!(writer, Benzina.coded(data[1]); target = target)
                    end
                end
                @test [Benzina.target(sample) for sample in Dataset(few)] == [nothing, 0, nothing, 7, nothing]
                gaps = joinpath(folder, "gaps.bzna")
                writer = Writer(gaps)
                add!(writer, Coded(picture_bytes("jpeg_440.jpg")); index = 3, name = "three", thumb = Coded(picture_bytes("jpeg_440.jpg")))
                skip!(writer, 2)
                add!(writer, Coded(picture_bytes("jpeg_422_restarts.jpg")); index = 1, name = "one")
                finish!(writer)
                @test !isopen(writer) && [Benzina.name(sample) for sample in Dataset(gaps)] == ["one", "three"]
                @test Benzina.field(Dataset(gaps), 2, "image") == picture_bytes("jpeg_440.jpg")
                @test_throws BenzinaError add!(Writer(other), Coded(picture_bytes("png_palette_2.png")))
                @test_throws ErrorException Benzina.Writer(_ -> error("mine"), other)
                @test_throws BenzinaError Dataset(other)
            end
        end

        include("augment.jl")
        include("streams.jl")
        include("arrays.jl")
        include("providers.jl")
        include("rules.jl")
        include("callbacks.jl")
        include("mxnet.jl")
        include("pictures.jl")
        include("webdataset.jl")
        include("examples.jl")
        include("names.jl")
    end
    passes(set), 0
catch exception
    exception isa Test.TestSetException || rethrow()
    exception.pass, exception.fail + exception.error
end

println("examples/julia/test/runtests.jl: ", passed, " passed, ", failed, " failed")
exit(failed > 0)
