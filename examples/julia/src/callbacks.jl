# ---- Callbacks of loaders ------------------------------------------------------------------------------------------------------------

"""
The sample that a loader's `transform` or `picture` is asked about: `index`, `slot`, `view`, counted from 1; `epoch`, from 0; `target`, -1 where it has
none; `size` of the picture and `out_size`, each (width, height); `occurrence`; and `output`: 0 is the loader's own, i its outputs[i].
"""
struct SampleInfo
    index::Int
    slot::Int
    view::Int
    epoch::Int
    target::Int64
    size::Tuple{Int,Int}
    out_size::Tuple{Int,Int}
    occurrence::Int
    output::Int
end

SampleInfo(c::bzna_sample_info) = SampleInfo(c.index + 1, c.slot + 1, c.view + 1, c.epoch, c.target, (c.width, c.height), (c.out_width, c.out_height),
                                             c.occurrence, c.output)

"The random numbers of a sample and view, for a loader's `transform` or `picture`: `uniform!(random)`. Any other numbers would be others in each run."
struct Draws
    random::Ptr{bzna_random}
end

"""
    uniform!(random, lo = 0, hi = 1)

The next number of a callback's `Draws`, uniform in lo..hi.
"""
uniform!(draws::Draws, lo::Real = 0, hi::Real = 1) = bzna_random_uniform(draws.random, lo, hi)

# What the library's user pointer points to; the loader keeps it.
mutable struct CallbackBox
    transform::Any
    picture::Any
    lock::Threads.SpinLock
    thrown::Int                       # exceptions of both
    last::Any                         # of these, the last one
end

CallbackBox(transform, picture) = CallbackBox(transform, picture, Threads.SpinLock(), 0, nothing)

# An exception fails the sample, or ends the run (on_callback_error).
call_failed(exception) = Int32(-1)

function bzna_pipeline_transform(user::Ptr{Cvoid}, sample::Ptr{bzna_sample_info}, random::Ptr{bzna_random}, transform::Ptr{bzna_transform})::Int32
    return called(CallbackBox, user, call_failed) do box
        changing = unsafe_load(transform)
        box.transform(SampleInfo(unsafe_load(sample)), Draws(random), changing)
        changing.struct_size = unsafe_load(transform).struct_size
        GC.@preserve changing unsafe_copyto!(Ptr{UInt8}(transform), Ptr{UInt8}(pointer_from_objref(changing)), sizeof(bzna_transform))
        BZNA_OK
    end
end

function bzna_pipeline_picture(user::Ptr{Cvoid}, sample::Ptr{bzna_sample_info}, random::Ptr{bzna_random}, picture::Ptr{bzna_picture}, planes::Ptr{Ptr{Cvoid}})::Int32
    return called(CallbackBox, user, call_failed) do box
        described = unsafe_load(picture)
        arrays = [plane_of(described, unsafe_load(planes, i), i) for i in 1:3 if unsafe_load(planes, i) != C_NULL]
        box.picture(SampleInfo(unsafe_load(sample)), Draws(random), described, arrays)
        BZNA_OK
    end
end

# A plane as width x height numbers: it shows the whole coded frame.
function plane_of(picture::bzna_picture, address::Ptr{Cvoid}, i::Int)
    width = picture.frame_width == 0 ? picture.crop_x + picture.width : picture.frame_width
    height = picture.frame_height == 0 ? picture.crop_y + picture.height : picture.frame_height
    shift(size, bits) = i == 1 ? Int(size) : (Int(size) + (1 << bits) - 1) >> bits
    columns, rows = shift(width, picture.chroma_shift_x), shift(height, picture.chroma_shift_y)
    return picture.depth > 8 ? plane_of(Ptr{UInt16}(address), columns, rows, picture.pitch[i], picture.step[i]) :
                               plane_of(Ptr{UInt8}(address), columns, rows, picture.pitch[i], picture.step[i])
end

function plane_of(pointer::Ptr{T}, columns::Int, rows::Int, pitch, step) where {T}
    # The last row may end where its numbers do.
    stride, between = Int(pitch) ÷ sizeof(T), max(1, Int(step) ÷ sizeof(T))
    numbers = unsafe_wrap(Array, pointer, stride * (rows - 1) + between * (columns - 1) + 1)
    return Plane{T}(numbers, columns, rows, stride, between)
end

"One plane of a decoded picture: an AbstractMatrix, width x height, which a loader's `picture` may change until it returns."
struct Plane{T} <: AbstractMatrix{T}
    numbers::Vector{T}
    columns::Int
    rows::Int
    stride::Int
    between::Int
end

Base.size(plane::Plane) = (plane.columns, plane.rows)

function place(plane::Plane, x::Int, y::Int)
    checkbounds(plane, x, y)
    return plane.stride * (y - 1) + plane.between * (x - 1) + 1
end

Base.getindex(plane::Plane, x::Int, y::Int) = plane.numbers[place(plane, x, y)]
Base.setindex!(plane::Plane, value, x::Int, y::Int) = (plane.numbers[place(plane, x, y)] = value)
