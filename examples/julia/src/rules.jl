# ---- Rules: how batches deliver fields -----------------------------------------------------------------------------------------------

"""
How a view of a loader's pictures shows its picture. Edges are counted from the corner: a picture is 0..width wide.

    homography       3 x 3, from pixels of the output to those of the picture, of which whole numbers, from 0 on, are centers
    inverse          the other way
    size, out_size   (width, height) of the picture, and of the output
    crop             (left, top, right, bottom) of the part that the output shows, in pixels of the picture; it may reach beyond the picture
    flip_h, flip_v   whether it is mirrored

`map_box` and `map_point` say where something of the picture is in the output.
"""
struct Geometry
    homography::Matrix{Float64}
    inverse::Matrix{Float64}
    size::Tuple{Int,Int}
    out_size::Tuple{Int,Int}
    crop::NTuple{4,Float64}
    flip_h::Bool
    flip_v::Bool
    raw::bzna_geometry
end

Geometry(c::bzna_geometry) = Geometry(matrix(c.homography), matrix(c.inverse), (c.width, c.height), (c.out_width, c.out_height), c.crop, c.flip_h != 0,
                                      c.flip_v != 0, c)

matrix(numbers::NTuple{9,Float64}) = permutedims(reshape(collect(numbers), 3, 3))           # row-major in C

"""
    map_box(geometry, box) -> (left, top, right, bottom) or nothing

Where a box of the picture (left, top, right, bottom) is in the output, clipped to it; `nothing` if none of it is there.
"""
function map_box(geometry::Geometry, box)
    numbers = Float64[edge for edge in box]
    length(numbers) == 4 || throw(ArgumentError("box: $(length(numbers)) numbers, not 4"))
    shown = bzna_geometry_box(geometry.raw, numbers, numbers)
    return shown != 0 ? NTuple{4,Float64}(numbers) : nothing
end

"""
    map_point(geometry, (x, y)) -> (x, y)

Where a point of the picture is in the output, or would be outside of it. Both are counted from the corner.
"""
function map_point(geometry::Geometry, point)
    x, y = point
    u, v, w = geometry.inverse * [x - 0.5, y - 0.5, 1.0]
    return u / w + 0.5, v / w + 0.5
end

"""
The sample whose field a `Rule` is asked about: the `field`'s name; `index` and `slot`, counted from 1; `epoch`, from 0; `target`, -1 if it has none; and
`views`, a `Geometry` for each view of the loader's pictures, empty in batches without pictures.
"""
struct RuleSample
    field::String
    index::Int
    slot::Int
    epoch::Int
    target::Int64
    views::Vector{Geometry}
end

function RuleSample(c::bzna_rule_input)
    sample = unsafe_load(c.sample)
    views = Geometry[Geometry(unsafe_load(c.geometry, i)) for i in 1:c.view_count]
    return RuleSample(unsafe_string(c.field), sample.index + 1, sample.slot + 1, sample.epoch, sample.target, views)
end

"""
    Rule(field, name = field)
    Rule(make, field, name = field; shape = (), rows = nothing, type = Float32)

How batches of a loader deliver a field: `Loader(...; rules = [...])`. A field belongs to the first of the rules that it matches. `field` is its name; or
".json" for "json" and all names that end so; or a pattern with `*` and `?`, which needs a name.

Without `make`, these are its bytes: `bytes(batch, name)`. With it, `make(value, sample)` makes an array of `shape` (or a number) of the field's bytes, a
Vector{UInt8} of its own, and of a `RuleSample`; `tensor(batch, name)` has them with the samples as last dimension. `type` is Float32, UInt8, Int32 or Int64.
With `rows`, a sample has up to so many arrays of `shape`: `make` returns them as a vector, or as one array with another dimension. `tensor(batch, name)`
is of shape x rows x samples then, with zeros behind them, and `tensor(batch, name * "_count")` says how many there are. More of them fail the sample.

Boxes mapped to the pixels of the output:

    boxes = Rule(".boxes", "boxes"; shape = 4, rows = 100) do value, sample
        known = [parse.(Float64, split(line)) for line in eachline(IOBuffer(value))]
        mapped = [map_box(sample.views[1], box) for box in known]
        filter(!isnothing, mapped)
    end

`make` runs on the decoders' threads, which needs Julia 1.9, or no_threads = true. An ArgumentError (as `parse` throws it), an EOFError and a JSONError of
`jsondecode` say that the data are damaged, and cost the sample; any other exception ends the run (on_callback_error). All are counted: `num_exceptions`.
"""
struct Rule
    make::Any                         # nothing: the field's bytes
    field::String
    name::Union{Nothing,String}
    shape::Vector{Int}                # of a sample's part of the tensor, as Julia has it
    is_rows::Bool
    type::DataType

    function Rule(make, field, name, shape, rows, type)
        haskey(RULE_TYPES, type) || throw(ArgumentError("type: $type is not one of Float32, UInt8, Int32, Int64"))
        whole = rows === nothing ? Int[shape...] : Int[shape..., rows]
        length(whole) <= 4 || throw(ArgumentError("shape: a sample has at most 4 dimensions"))
        return new(make, String(field), optional(name), whole, rows !== nothing, type)
    end
end

const RULE_TYPES = Dict{DataType,UInt32}(Float32 => BZNA_DTYPE_FLOAT32, UInt8 => BZNA_DTYPE_UINT8, Int32 => BZNA_DTYPE_INT32, Int64 => BZNA_DTYPE_INT64)

Rule(field::AbstractString) = Rule(nothing, field, nothing, (), nothing, Float32)
Rule(field::AbstractString, name::AbstractString) = Rule(nothing, field, name, (), nothing, Float32)
Rule(make, field::AbstractString, name::Union{Nothing,AbstractString} = nothing; shape = (), rows::Union{Nothing,Integer} = nothing,
     type::DataType = Float32) = Rule(make, field, name, shape, rows, type)

# What the library's user pointer points to; the loader keeps it.
mutable struct RuleBox
    rule::Rule
    callbacks::CallbackBox            # counts exceptions
end

keep!(box::RuleBox, exception) = keep!(box.callbacks, exception)

# Damaged data are a number that is none of a program's faults.
rule_failed(exception) = exception isa Union{ArgumentError,EOFError,WebDataset.JSONError} ? Int32(-1) : BZNA_E_CALLBACK

function bzna_rule_call(user::Ptr{Cvoid}, input::Ptr{bzna_rule_input}, out::Ptr{Cvoid}, out_bytes::UInt64, count::Ptr{UInt64})::Int32
    return called(RuleBox, user, rule_failed) do box
        described, rule = unsafe_load(input), box.rule
        value = copy(unsafe_wrap(Array, Ptr{UInt8}(described.data), Int(described.size)))
        made = array_of(rule, rule.make(value, RuleSample(described)))
        # More rows than there is room for are refused by the library.
        rule.is_rows && unsafe_store!(count, size(made)[end])
        GC.@preserve made unsafe_copyto!(Ptr{UInt8}(out), Ptr{UInt8}(pointer(made)), min(sizeof(made), Int(out_bytes)))
        return BZNA_OK
    end
end

# Rows as one array.
function stacked(rule::Rule, rows, fixed::Tuple)
    whole, numbers = Array{rule.type}(undef, fixed..., length(rows)), prod(fixed)
    for (i, row) in enumerate(rows)
        length(row) == numbers || throw(DimensionMismatch("a rule for $(rule.field) made a row of $(length(row)) numbers, not $numbers"))
        copyto!(whole, numbers * (i - 1) + 1, row isa Tuple ? collect(row) : row, 1, numbers)
    end
    return whole
end

# What `make` made, in the shape that it must have.
function array_of(rule::Rule, made)
    fixed = Tuple(rule.is_rows ? rule.shape[1:end-1] : rule.shape)
    if rule.is_rows && made isa AbstractVector && !(eltype(made) <: Real)
        made = stacked(rule, made, fixed)
    end
    array = made isa AbstractArray ? Array{rule.type}(made) : fill(convert(rule.type, made))
    ndims(array) == length(rule.shape) && size(array)[1:length(fixed)] == fixed ||
        throw(DimensionMismatch("a rule for $(rule.field) made an array of size $(size(array)), not $(rule.is_rows ? (fixed..., :rows) : fixed)"))
    return array
end

# The rule as C has it. Its box and its strings must be preserved.
function raw_rule(box::RuleBox)
    rule, empty = box.rule, Ref{bzna_rule}()
    bzna_formats_rule_init(empty, sizeof(bzna_rule))
    named = changed(empty[]; field = cstring(rule.field), name = cstring(rule.name))
    rule.make === nothing && return named
    called = @cfunction(bzna_rule_call, Int32, (Ptr{Cvoid}, Ptr{bzna_rule_input}, Ptr{Cvoid}, UInt64, Ptr{UInt64}))
    shape = ntuple(i -> i <= length(rule.shape) ? Int64(rule.shape[end+1-i]) : Int64(0), 4)
    return changed(named; kind = rule.is_rows ? BZNA_RULE_ROWS : BZNA_RULE_TENSOR, dtype = RULE_TYPES[rule.type], dimensions = length(rule.shape),
                   shape = shape, call = called, user = pointer_from_objref(box))
end

# Has a loader's config ask rules; C_NULL: there are none. They are closed after the loader.
function open_rules(settings, data)
    isempty(settings.rules) && return Ptr{bzna_rules}(C_NULL)
    err, out = sized(bzna_error), Ref{Ptr{bzna_rules}}(C_NULL)
    GC.@preserve settings data check(bzna_formats_rules_open(data.handle, settings.rules, length(settings.rules), settings.config, out, err), err)
    return out[]
end
