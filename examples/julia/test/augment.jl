# Policies of loaders and outputs.

kinds(batch, slot, view = 1) = [one.kind for one in drawn(batch, slot, view)]

@testset "policies are lists of operations" begin
    rand = rand_augment(2, 9)
    @test length(rand.operations) == 14 && rand.raw.draws == 2 && rand.raw.bin == (9, 9)
    @test length(trivial_augment_wide().operations) == 14
    @test length(auto_augment().operations) == 50 && auto_augment().raw.group_size == 2
    @test_throws BenzinaError rand_augment(2, 31)
    @test_throws ArgumentError Operation(:sideways)
    turn = Operation(:rotate, (0, 30); sign = true)
    @test turn.kind == Benzina.OPERATIONS.rotate && turn.magnitude == (0, 30) && turn.sign == 1
    @test Operation(:invert; probability = 0).kind == Benzina.OPERATIONS.identity
end

@testset "policies change pixels, and batches tell what was drawn" begin
    loader(; keywords...) = Loader(ARCHIVE; batchsize = 4, size = (40, 30), seed = 1, image = "image", device = :cpu, keywords...)
    first_of(loader) = first(eachbatch(loader))
    plain = first_of(loader())
    @test isempty(drawn(plain, 1))
    inverted = first_of(loader(augment = Policy(Operation(:invert))))
    @test maximum(abs.(inverted.data .- (255 .- round.(plain.data)))) == 0
    @test kinds(inverted, 1) == kinds(inverted, 4) == [Benzina.OPERATIONS.invert]
    @test_throws BoundsError drawn(inverted, 5)

    recipe = [rand_augment(2, 9), random_erasing(1)]
    one, other = first_of(loader(augment = recipe, threads = 1)), first_of(loader(augment = recipe, threads = 3))
    @test one.data == other.data && one.data != plain.data
    @test all(length(drawn(one, slot)) == 3 for slot in 1:4)
    @test last(drawn(one, 1)).area[3] > 0

    outputs = [Output("none"; size = (40, 30), views = 1, warp = :none, augment = ()),
               Output("blurred"; size = (40, 30), views = 1, warp = :none, augment = gaussian_blur(5, (1, 1)))]
    batch = first_of(loader(warp = :none, augment = Policy(Operation(:invert)), outputs = outputs))
    @test maximum(abs.(batch.data .- (255 .- round.(tensor(batch, "none"))))) == 0
    @test [kinds(batch, 2, view) for view in 1:3] == [[Benzina.OPERATIONS.invert], UInt32[], [Benzina.OPERATIONS.blur]]
    exception = thrown(() -> loader(augment = Policy(ntuple(i -> Operation(:invert), 9)...)))
    @test exception isa BenzinaError && occursin("8", exception.message)
end
