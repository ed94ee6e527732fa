# Rules: what batches have of fields.

@testset "rules make tensors of fields" begin
    pixels = rand(UInt8, 40, 20, 3)
    boxes = Dict(1 => "0 0 20 10\n30 10 40 20", 2 => "", 4 => "1 2 3 4")
    samples = [(image = pixels, target = i, boxes = get(boxes, i, nothing), var"seg.txt" = "$i") for i in 1:4]
    data = from_samples(samples; log = :none)
    keywords = (batchsize = 4, size = (20, 10), warp = :center_resized_crop, no_threads = true)
    seen = RuleSample[]
    parse_boxes(value) = [parse.(Float64, split(line)) for line in split(String(value), '\n'; keepempty = false)]
    mapped = Rule("boxes"; shape = 4, rows = 3) do value, sample
        push!(seen, sample)
        filter(!isnothing, [map_box(sample.views[1], box) for box in parse_boxes(value)])
    end
    number = Rule((value, sample) -> parse(Int, String(value)), ".txt", "number"; type = Int64)
    batch = first(eachbatch(Loader(data; keywords..., rules = [mapped, number], geometry = true)))
    @test size(tensor(batch, "boxes")) == (4, 3, 4) && eltype(tensor(batch, "boxes")) == Float32
    @test tensor(batch, "boxes_count") == [2, 0, 0, 1] && tensor(batch, "number") == 1:4
    # Half as large: so are the boxes.
    @test tensor(batch, "boxes")[:, 1, 1] ≈ [0, 0, 10, 5] && tensor(batch, "boxes")[:, 2, 1] ≈ [15, 5, 20, 10]
    @test iszero(tensor(batch, "boxes")[:, 3, 1]) && tensor(batch, "boxes")[:, 1, 4] ≈ [0.5, 1, 1.5, 2]
    @test [(sample.index, sample.slot, sample.target, sample.epoch, sample.field) for sample in seen] == [(i, i, i, 0, "boxes") for i in (1, 2, 4)]
    view = seen[1].views[1]
    @test view isa Geometry && view.size == (40, 20) && view.out_size == (20, 10) && !view.flip_h && !view.flip_v && collect(view.crop) ≈ [0, 0, 40, 20]
    @test view.homography * view.inverse ≈ [1 0 0; 0 1 0; 0 0 1] && collect(map_point(view, (40, 20))) ≈ [20, 10]
    @test collect(map_point(view, (-2, 4))) ≈ [-1, 2] && map_box(view, (50, 0, 60, 10)) === nothing
    @test map_box(view, (-10, -10, 2, 2)) == (0, 0, 1, 1)
    @test_throws ArgumentError map_box(view, (1, 2, 3))
    @test size(tensor(batch, "geometry")) == (16, 4) && tensor(batch, "geometry")[10:11, 1] == [40, 20]

    # Mirrored, and in several views: as a point of the picture is shown.
    mirrored = Rule((value, sample) -> [map_point(view, (0, 0))[1] for view in sample.views], "seg.txt", "corner"; shape = 2)
    batch = first(eachbatch(Loader(data; keywords..., flip = 1, views = 2, rules = mirrored)))
    @test tensor(batch, "corner") ≈ fill(20, 2, 4)

    # Other types, numbers, arrays, and bytes as they are.
    rules = [Rule((value, sample) -> UInt8[value[1] 0; 0 1], ".txt", "square"; shape = (2, 2), type = UInt8), Rule("boxes", "text")]
    batch = first(eachbatch(Loader(data; keywords..., rules = rules)))
    @test tensor(batch, "square")[:, :, 3] == [UInt8('3') 0; 0 1] && eltype(tensor(batch, "square")) == UInt8
    @test [value === nothing ? nothing : String(value) for value in Benzina.bytes(batch, "text")] == [get(boxes, i, nothing) for i in 1:4]
    counted = Rule((value, sample) -> Int32(1):Int32(parse(Int, String(value))), "seg*", "list"; rows = 4, type = Int32)
    batch = first(eachbatch(Loader(data; keywords..., rules = counted)))
    @test tensor(batch, "list") == Int32[1 1 1 1; 0 2 2 2; 0 0 3 3; 0 0 0 4] && tensor(batch, "list_count") == 1:4
    # A value is a copy, which may be changed and kept.
    blanked = Rule((value, sample) -> (fill!(value, 0x20); 0), "boxes", "blank")
    batch = first(eachbatch(Loader(data; keywords..., bytes = "boxes", rules = blanked)))
    @test [value === nothing ? nothing : String(value) for value in Benzina.bytes(batch, "boxes")] == [get(boxes, i, nothing) for i in 1:4]
    kept = Vector{UInt8}[]
    collected(Loader(data; keywords..., rules = Rule((value, sample) -> (push!(kept, value); GC.gc(false); 0), "boxes")))
    GC.gc()
    @test String.(kept) == [boxes[1], boxes[2], boxes[4]]
end

@testset "rules that fail" begin
    data = from_samples([(image = rand(UInt8, 8, 8), value = "$i") for i in 1:3]; log = :none)
    open_loader(make; options...) = Loader(data; batchsize = 3, size = (8, 8), no_threads = true,
                                           rules = Rule((value, sample) -> make(String(value)), "value"; get(options, :rule, (;))...),
                                           get(options, :loader, (;))...)
    # Damaged data cost the sample.
    loader = open_loader(text -> parse(Int, text == "2" ? "two" : text))
    batch = first(eachbatch(loader))
    @test batch.status == [0, Benzina.BZNA_E_FORMAT, 0] && tensor(batch, "value")[[1, 3]] == [1, 3] && isnan(tensor(batch, "value")[2])
    @test num_exceptions(loader) == 1 && last_exception(loader) isa ArgumentError
    for damage in (EOFError(), Benzina.WebDataset.JSONError("mine", 1))
        @test first(eachbatch(open_loader(text -> throw(damage)))).status == fill(Benzina.BZNA_E_FORMAT, 3)
    end
    # A fault of the program ends the run, or costs the sample where that is asked for.
    error = thrown(() -> collected(open_loader(text -> text == "2" ? throw(DomainError(2)) : 0)))
    @test error isa BenzinaError && error.status == Benzina.BZNA_E_CALLBACK && error.cause isa DomainError
    batch = first(eachbatch(open_loader(text -> text == "2" ? undefined_name : 0; loader = (on_callback_error = :sample,))))
    @test batch.status == [0, Benzina.BZNA_E_CALLBACK, 0]
    # Shapes that are not the rule's.
    for (make, rule) in ((text -> [1, 2], (shape = 3,)), (text -> 1, (shape = 3,)), (text -> zeros(2, 3), (shape = 3, rows = 4)),
                         (text -> [(1, 2)], (shape = 3, rows = 4)), (text -> [1 2; 3 4], (shape = 4,)))
        error = thrown(() -> collected(open_loader(make; rule = rule)))
        @test error isa BenzinaError && error.cause isa DimensionMismatch
    end
    many = first(eachbatch(open_loader(text -> zeros(2, parse(Int, text)); rule = (shape = 2, rows = 2))))
    @test many.status == [0, 0, Benzina.BZNA_E_MISMATCH] && tensor(many, "value_count") == [1, 2, 0]
    @test_throws ArgumentError Rule((value, sample) -> 1, "value"; type = Float64)
    @test_throws ArgumentError Rule((value, sample) -> 1, "value"; shape = (1, 1, 1, 1), rows = 1)
    @test_throws BenzinaError Loader(data; size = (8, 8), no_threads = true, rules = Rule("v*"))
    if !ADOPTS_THREADS
        refused = thrown(() -> Loader(ARCHIVE; size = (8, 8), rules = Rule((value, sample) -> 1, "name")))
        @test refused isa ArgumentError && occursin("no_threads = true", refused.msg)
        batch = first(eachbatch(Loader(ARCHIVE; size = (8, 8), rules = Rule("name", "text"))))         # calls no Julia
        @test String(Benzina.bytes(batch, "text")[1]) == Benzina.name(Dataset(ARCHIVE), 1)
    end
end
