# Exported names: each has a docstring, and each is used by these tests.

# The names in code, without those of comments and strings.
function used_names(paths)
    names = Set{Symbol}()
    function collect_names(code)
        code isa Symbol && push!(names, code)
        code isa QuoteNode && collect_names(code.value)
        code isa Expr && foreach(collect_names, code.args)
        return nothing
    end
    for path in paths
        text, at = read(path, String), 1
        while at <= ncodeunits(text)
            code, at = Meta.parse(text, at)
            # `using` brings a name in, and does not use it.
            without_using(code) = code isa Expr && code.head in (:using, :import) ? nothing :
                                  code isa Expr ? Expr(code.head, map(without_using, code.args)...) : code
            collect_names(without_using(code))
        end
    end
    return names
end

@testset "exported names have docstrings, and are tested" begin
    used = used_names(joinpath.(@__DIR__, filter(name -> endswith(name, ".jl"), readdir(@__DIR__))))
    # A module's own docstring is its module's.
    in_module(mod) = Set{Symbol}(binding.var for binding in keys(Base.Docs.meta(mod)))
    documented(mod) = union(in_module(mod), [name for name in names(mod) if getfield(mod, name) isa Module && name in in_module(getfield(mod, name))])
    for mod in (Benzina, Benzina.WebDataset)
        exported = setdiff(names(mod), [nameof(mod)])
        @test length(exported) >= 20
        @test isempty(setdiff(exported, documented(mod)))
        @test isempty(setdiff(exported, used))
    end
    # Those that are not exported, as Benzina.name and others might have them, too.
    @test isempty(setdiff([:bytes, :device, :decoder, :field, :name, :save, :limit, :mean_image], documented(Benzina)))
end
