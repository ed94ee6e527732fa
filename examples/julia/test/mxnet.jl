# Data providers, as MXNet.jl has them.

const mx = Benzina                      # as a program does that had `using MXNet`

@testset "providers of arrays" begin
    data, label = rand(Float32, 3, 2, 15), collect(1:15)
    provider = mx.ArrayDataProvider(data, :index => label; batch_size = 4, data_padding = 7, label_padding = -1)
    @test provider isa mx.AbstractDataProvider && mx.eachbatch(provider) === provider
    @test mx.provide_data(provider) == [(:data, (3, 2, 4))] && mx.provide_label(provider) == [(:index, (4,))]
    @test mx.get_batch_size(provider) == 4
    batches = collect(provider)
    @test all(batch -> batch isa mx.AbstractDataBatch, batches)
    @test [mx.count_samples(provider, batch) for batch in batches] == [4, 4, 4, 3]
    @test mx.get_data(provider, batches[2])[1] == data[:, :, 5:8]
    @test mx.get(provider, batches[4], :data)[:, :, 1:3] == data[:, :, 13:15]
    @test all(mx.get(provider, batches[4], :data)[:, :, 4] .== 7)
    @test mx.get(provider, batches[4], :index) == [13, 14, 15, -1]
    @test_throws ArgumentError mx.get(provider, batches[1], :softmax_label)
    both = mx.ArrayDataProvider([:a => data, :b => 2 .* data], label)
    @test mx.provide_data(both) == [(:a, (3, 2, 15)), (:b, (3, 2, 15))] && mx.provide_label(both) == [(:softmax_label, (15,))]
    @test mx.get_data(both, first(both))[2] == 2 .* data
    mixed = mx.ArrayDataProvider([:a => data, :b => label], (:c => UInt8.(label), :d => rand(15)); batch_size = 15)
    @test mx.provide_data(mixed) == [(:a, (3, 2, 15)), (:b, (15,))] && mx.provide_label(mixed) == [(:c, (15,)), (:d, (15,))]
    @test mx.get_data(mixed, first(mixed))[2] == label == mx.get_label(mixed, first(mixed))[1]
    @test_throws ArgumentError mx.ArrayDataProvider([:a => data, :b => "text"])
    @test mixed isa mx.MXDataProvider && (mx.CSVIter, mx.MNISTIter, mx.ImageRecordIter) === (mx.CSVProvider, mx.MNISTProvider, mx.ImageRecordProvider)
    @test isempty(mx.provide_label(mx.ArrayDataProvider(data)))
    @test_throws ArgumentError mx.ArrayDataProvider(data, rand(14))
    @test_throws ArgumentError mx.ArrayDataProvider(data; batch_size = 16)
    @test_throws ArgumentError mx.ArrayDataProvider("data")
end

@testset "providers of arrays shuffle anew in each epoch" begin
    data, label = rand(Float32, 2, 40), collect(1:40)
    provider = mx.ArrayDataProvider(data, :index => label; batch_size = 8, shuffle = true)
    epoch() = reduce(vcat, [Int.(mx.get(provider, batch, :index)) for batch in provider])
    one, two = epoch(), epoch()
    @test sort(one) == sort(two) == label && one != two
    batch = first(provider)
    @test mx.get_data(provider, batch)[1] == data[:, Int.(mx.get_label(provider, batch)[1])]
end

@testset "parts of a batch go to several arrays" begin
    data, label = rand(Float32, 5, 8), rand(Float32, 8)
    provider = mx.ArrayDataProvider(data, label; batch_size = 8)
    batch, first_half, rest, numbers = first(provider), zeros(5, 3), zeros(5, 5), zeros(Float32, 8)
    slices = [[(1:3, first_half), (4:8, rest)]]
    @test slices[1] isa Vector{<:mx.SlicedNDArray}
    mx.load_data!(provider, batch, slices)
    mx.load_label!(provider, batch, [numbers])
    @test first_half == data[:, 1:3] && rest == data[:, 4:8] && numbers == label
    @test_throws DimensionMismatch mx.load_data!(provider, batch, [[(1:4, first_half)]])
    @test_throws ArgumentError mx.load_data!(provider, batch, [rest, rest])
    mine = mx.DataBatch([data], [label], 8)
    @test mx.count_samples(mine) == mx.count_samples(provider, mine) == 8
    @test mx.get(provider, mine, :data) === data && mx.get(provider, mine, :softmax_label) === label
end

@testset "providers of CSV files" begin
    mktempdir() do folder
        path, labels = joinpath(folder, "data.csv"), joinpath(folder, "labels.csv")
        write(path, "1,2,3,4,5,6\n7, 8,9,10,11,12\n\n-1,0.5,1e3,0,0,0\n")
        write(labels, "1\n2\n3\n")
        provider = mx.CSVProvider(data_csv = path, data_shape = (3, 2), label_csv = labels, batch_size = 2, data_name = :x, label_name = :y)
        @test mx.provide_data(provider) == [(:x, (3, 2, 2))] && mx.provide_label(provider) == [(:y, (2,))]
        epochs = [[(mx.get_label(provider, batch)[1], mx.count_samples(provider, batch)) for batch in provider] for _ in 1:3]
        # The last batch takes the first sample of the next epoch, which begins behind it.
        @test epochs[1] == [([1, 2], 2), ([3, 1], 1)]
        @test epochs[2] == [([2, 3], 2)] && epochs[3] == epochs[1]
        @test mx.get_data(provider, first(provider))[1][:, :, 1] == [7 10; 8 11; 9 12]          # the fourth, too
        padded = mx.CSVProvider(data_csv = path, data_shape = (6,), batch_size = 2, round_batch = false)
        @test [mx.get_data(padded, batch)[1][:, 2] for batch in padded] == [7:12, zeros(6)]
        @test all(batch -> iszero(mx.get(padded, batch, :softmax_label)), padded)
        bad = thrown(() -> mx.CSVProvider(data_csv = path, data_shape = (5,), batch_size = 1))
        @test bad isa ArgumentError && occursin("line 1: 6 numbers, not 5", bad.msg)
        write(path, "1,x\n")
        @test_throws ArgumentError mx.CSVProvider(data_csv = path, data_shape = (2,), batch_size = 1)
    end
end

@testset "providers of MNIST's files" begin
    mktempdir() do folder
        pixels, classes = rand(UInt8, 28, 28, 25), rand(UInt8(0):UInt8(9), 25)
        files = (image = write_idx(joinpath(folder, "images"), pixels), label = write_idx(joinpath(folder, "labels"), classes))
        provider = mx.MNISTProvider(; files..., batch_size = 10, silent = true, shuffle = false)
        @test mx.provide_data(provider) == [(:data, (28, 28, 1, 10))] && mx.provide_label(provider) == [(:softmax_label, (10,))]
        @test length(collect(provider)) == 2
        batch = first(provider)
        @test mx.get_data(provider, batch)[1] == reshape(pixels[:, :, 1:10] ./ 256f0, 28, 28, 1, 10)
        @test mx.get_label(provider, batch)[1] == classes[1:10]
        flat = mx.MNISTProvider(; files..., batch_size = 5, flat = true, silent = true, num_parts = 2, part_index = 1, seed = 3, label_name = :y)
        @test mx.provide_data(flat) == [(:data, (784, 5))]
        seen = reduce(vcat, [Int.(mx.get(flat, batch, :y)) for batch in flat])
        @test length(seen) == 10 && issubset(seen, Int.(classes[13:25]))
        again = mx.MNISTProvider(; files..., batch_size = 5, silent = true, num_parts = 2, part_index = 1, seed = 3)
        @test seen == reduce(vcat, [Int.(mx.get_label(again, batch)[1]) for batch in again])
        @test_throws ArgumentError mx.MNISTProvider(image = files.label, label = files.label, silent = true)
        @test_throws ArgumentError mx.MNISTProvider(; files..., num_parts = 2, part_index = 2)
        write(files.image, read(files.image)[1:end-1])
        @test_throws ArgumentError mx.MNISTProvider(; files..., silent = true)
    end
end

@testset "a loader is a provider of all that it delivers" begin
    outputs = (Output("small"; size = (4, 6), gray = true), Output("views"; size = (8, 8), views = 2, warp = :random_resized_crop))
    loader = Loader(ARCHIVE; batchsize = 4, size = (16, 8), pad = true, views = 2, outputs = outputs, label = "target",
                    data_name = :pictures, label_name = :classes)
    @test loader isa AbstractDataProvider
    @test provide_data(loader) == [(:pictures, (16, 8, 3, 8)), (:small, (4, 6, 1, 4, 2)), (:views, (8, 8, 3, 4, 2))]
    @test provide_label(loader) == [(:classes, (4,))]
    for batch in eachbatch(loader)
        @test batch isa AbstractDataBatch
        @test [size(array) for array in get_data(loader, batch)] == last.(provide_data(loader))
        @test get(loader, batch, :small) == tensor(batch, "small") && get(loader, batch, :classes) == batch.targets
    end
    batch = first(eachbatch(loader))
    one, three = zeros(Float32, 4, 6, 1, 4, 1), zeros(Float32, 8, 8, 3, 4, 2)
    load_data!(loader, batch, [zeros(Float32, 16, 8, 3, 8), [(1:1, one)], three])
    @test one == tensor(batch, "small")[:, :, :, :, 1:1] && three == tensor(batch, "views")
end

@testset "a last batch is filled up" begin
    count, outputs = length(Dataset(ARCHIVE)), (Output("views"; size = (8, 8), views = 2),)
    size_of_batch = count - 1                   # so that the last one has one sample
    plain = Loader(ARCHIVE; batchsize = size_of_batch, size = (16, 8), views = 2, outputs = outputs)
    @test plain isa mx.MXDataProvider
    batches = [(count_samples(plain, batch), copy.(get_data(plain, batch)), get_label(plain, batch)) for batch in eachbatch(plain)]
    @test [batch[1] for batch in batches] == [size_of_batch, 1]
    for (_, arrays, labels) in batches
        @test [size(array) for array in arrays] == last.(provide_data(plain)) && [size(array) for array in labels] == last.(provide_label(plain))
    end
    alone = first(eachbatch(Loader(ARCHIVE; batchsize = 1, size = (16, 8), views = 2, outputs = outputs, indices = [count])))
    pictures, views = batches[2][2]
    @test pictures[:, :, :, [1, size_of_batch + 1]] == alone.data && views[:, :, :, 1:1, :] == tensor(alone, "views")
    @test all(iszero, pictures[:, :, :, 2:size_of_batch]) && all(iszero, views[:, :, :, 2:end, :]) && all(iszero, batches[2][3][1][2:end])
    # As MXNet.jl's ArrayDataProvider fills up.
    padded = collect((copy(batch.data), batch.targets, batch.indices, batch.count)
                     for batch in eachbatch(Loader(ARCHIVE; batchsize = size_of_batch, size = (16, 8), data_padding = 7, label_padding = -3)))
    @test padded[1][3] == 1:size_of_batch && padded[2][3] == [count; zeros(Int, size_of_batch - 1)] && padded[2][4] == 1
    @test all(padded[2][1][:, :, :, 2:end] .== 7) && all(padded[2][2][2:end] .== -3)
end

@testset "providers of .rec files" begin
    mktempdir() do folder
        path, names = joinpath(folder, "train.rec"), ["jpeg_440.jpg", "jpeg_422_restarts.jpg", "jpeg_411.jpg"]
        open(path, "w") do io
            foreach(i -> write_record(io, 10i, i, picture_bytes(names[i])), 1:3)
        end
        keywords = (path_imgrec = path, data_shape = (32, 24, 3), batch_size = 2)
        provider = mx.ImageRecordProvider(; keywords..., data_name = :x)
        @test mx.provide_data(provider) == [(:x, (32, 24, 3, 2))] && mx.provide_label(provider) == [(:softmax_label, (2,))]
        batches = [(copy(get_data(provider, batch)[1]), get_label(provider, batch)[1], count_samples(provider, batch)) for batch in eachbatch(provider)]
        @test eltype(batches[1][2]) == Float32 && batches[1][2] == [1, 2] && batches[2][2][1] == 3 && batches[2][3] == 1
        # The middle of a picture of 40x25, as it is.
        own = decode(picture_bytes(names[1]))
        @test batches[1][1][:, :, :, 1] == own[5:36, 1:24, :]
        pixels(; more...) = copy(first(mx.ImageRecordProvider(; keywords..., more...))[1])
        plain = pixels()
        @test pixels(mirror = true) == plain[end:-1:1, :, :, :]
        @test pixels(mean_r = 10, mean_g = 20, mean_b = 30, std_g = 2, scale = 0.5) ≈
              (plain .- reshape([10, 20, 30], 1, 1, 3)) .* reshape([0.5, 0.25, 0.5], 1, 1, 3)
        mean = rand(Float32, 32, 24, 3) .* 255
        @test pixels(mean_img = mean) ≈ plain .- mean
        saved = write_ndarray(joinpath(folder, "mean.bin"), mean, "mean_img")
        @test pixels(mean_img = saved) == pixels(mean_img = mean)
        @test_throws ArgumentError pixels(mean_img = path)
        @test all(pixels(pad = 100, data_shape = (200, 220, 3), fill_value = 9)[1:10, 1:10, :, :] .== 9)
        @test size(pixels(data_shape = (32, 24, 1))) == (32, 24, 1, 2)
        settings = [(resize = 30,), (rand_crop = true,), (max_rotate_angle = 20,), (rotate = 45,), (max_shear_ratio = 0.3,), (max_aspect_ratio = 0.4,),
                    (min_random_scale = 1.2, max_random_scale = 1.5), (min_img_size = 60,), (max_crop_size = 20, min_crop_size = 15),
                    (crop_x_start = 0, crop_y_start = 0), (random_resized_crop = true, min_random_area = 0.2, min_aspect_ratio = 0.8, max_aspect_ratio = 1.2),
                    (random_h = 20,), (random_s = 30,), (random_l = 40,), (max_random_contrast = 0.5,), (max_random_illumination = 30,),
                    (brightness = 0.4,), (contrast = 0.4,), (saturation = 0.4,)]
        @test all(setting -> pixels(; setting...) != plain, settings)
        @test allunique([pixels(; resize = 15, data_shape = (16, 12, 3), inter_method = method) for method in 0:4])
        @test pixels(; seed = 1, rand_mirror = true, rand_crop = true, preprocess_threads = 2, prefetch_buffer = 2, verbose = false) ==
              pixels(; seed = 1, rand_mirror = true, rand_crop = true)
        parts = [mx.ImageRecordProvider(; keywords..., num_parts = 2, part_index = part, shuffle = true, batch_size = 1) for part in 0:1]
        @test issubset([1, 2, 3], [batch_label for part in parts for batch in eachbatch(part) for batch_label in get_label(part, batch)[1]])
        list = joinpath(folder, "train.lst")
        write(list, "10\t7\t8\ta.jpg\n20\t9\t10\tb.jpg\n30\t11\t12\tc.jpg\n")
        labelled = mx.ImageRecordProvider(; keywords..., path_imglist = list, label_width = 2)
        @test provide_label(labelled) == [(:softmax_label, (2, 2))]
        @test get_label(labelled, first(eachbatch(labelled)))[1] == [7 9; 8 10]
        @test_throws ArgumentError pixels(data_shape = (32, 24, 2))
        # The picture of 40x25 as 16x12: smaller; of a crop of 8x8 as 32x24: larger.
        low, high = (resize = 15, data_shape = (16, 12, 3)), (max_crop_size = 8, min_crop_size = 8)
        shrinks = [pixels(; resize = 15, data_shape = (16, 12, 3), inter_method = method) for method in (3, 9)]
        @test shrinks[1] == shrinks[2] && pixels(; high..., inter_method = 2) == pixels(; high..., inter_method = 9)
        @test pixels(; low..., inter_method = 10) == pixels(; low..., inter_method = 10)
        each = [pixels(; low..., inter_method = method) for method in 0:4]
        random = pixels(; low..., inter_method = 10)
        @test all(any(one[:, :, :, i] == random[:, :, :, i] for one in each) for i in 1:2)
        @test_throws ArgumentError pixels(inter_method = 8)
        @test_throws ArgumentError pixels(pca_noise = 0.1)
        @test_throws ArgumentError pixels(aug_seq = "aug_mine")
        @test_throws ArgumentError pixels(no_such_parameter = 1)
    end
end
