# ---- Sources -------------------------------------------------------------------------------------------------------------------------

"""
    read_at!(source, buffer::Vector{UInt8}, offset::Int) -> Integer

Copies up to `length(buffer)` bytes, from byte `offset` (counted from 0) of the source on, to the start of `buffer`, and returns how many:
fewer are asked for again, 0 is the end. `buffer` is the library's, and only until the method returns. Called on several threads at once;
see the top of this file.
"""
function read_at! end

"""
    total_bytes(source) -> Integer

The number of bytes of a source.
"""
function total_bytes end

"A source made of something that can be seeked and read: one read runs at a time."
struct IOSource{T<:IO}
    io::T
    lock::Threads.SpinLock      # and not a ReentrantLock, which would switch tasks on a thread of the library
end

IOSource(io::IO) = IOSource(io, Threads.SpinLock())

total_bytes(source::IOSource) = lock(() -> position(seekend(source.io)), source.lock)

function read_at!(source::IOSource, buffer::Vector{UInt8}, offset::Int)
    lock(source.lock) do
        seek(source.io, offset)
        return readbytes!(source.io, buffer, length(buffer))
    end
end

# What the library's user pointer points to: it must be a mutable object, and the data set keeps it.
mutable struct SourceBox
    source::Any
    lock::Threads.SpinLock
    thrown::Int                       # exceptions of its methods
    last::Any                         # of these, the last one
end

SourceBox(source) = SourceBox(source, Threads.SpinLock(), 0, nothing)

# Bytes in memory, which the library reads by itself: kept as long as a loader may read them.
struct MemoryBox
    kept::Any
end

function keep!(box, exception)
    lock(box.lock)
    box.thrown, box.last = box.thrown + 1, exception
    unlock(box.lock)
    return nothing
end

last_exception(box) = lock(() -> box.last, box.lock)
num_exceptions(box) = lock(() -> box.thrown, box.lock)
last_exception(::Union{Nothing,MemoryBox}) = nothing
num_exceptions(::Union{Nothing,MemoryBox}) = 0

# How Julia runs inside a call from C: `f` is given the object that `user` points to. Nothing may be thrown: an exception is kept, and becomes the
# status that `failed` makes of it. A thread that waits in the library may have said that the collector need not wait for it (@gcsafe), which is
# undone meanwhile.
function called(f, ::Type{Box}, user::Ptr{Cvoid}, failed) where {Box}
    state = ccall(:jl_gc_unsafe_enter, Int8, ())
    box = unsafe_pointer_to_objref(user)::Box
    try
        return f(box)
    catch exception
        keep!(box, exception)
        return failed(exception)
    finally
        ccall(:jl_gc_unsafe_leave, Cvoid, (Int8,), state)
    end
end

# What files and connections throw: trouble with the data, which costs the sample. Anything else is a fault of the program.
const IO_EXCEPTIONS = Union{Base.IOError,SystemError,EOFError}
const EIO = Int64(5)

function bzna_source_read_at(user::Ptr{Cvoid}, offset::UInt64, dst::Ptr{Cvoid}, size::UInt64)::Int64
    return called(SourceBox, user, exception -> exception isa IO_EXCEPTIONS ? -EIO : typemax(Int64)) do box
        Int64(read_at!(box.source, unsafe_wrap(Array, Ptr{UInt8}(dst), Int(size)), Int(offset)))
    end
end

function bzna_source_size(user::Ptr{Cvoid})::Int64
    return called(box -> Int64(total_bytes(box.source)), SourceBox, user, exception -> -EIO)
end
