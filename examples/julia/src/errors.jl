# ---- Errors, and how structs cross over ----------------------------------------------------------------------------------------------

"An error of the library: the message names file, box or field."
struct BenzinaError <: Exception
    status::Int32
    message::String
    byte_offset::Union{Nothing,UInt64}      # in the file
    native_code::Int32                      # errno, or the decoder's; 0 when there is none
    cause::Any                              # the last exception of the source's methods, if reading it failed; else nothing
end

BenzinaError(status, message, byte_offset, native_code) = BenzinaError(status, message, byte_offset, native_code, nothing)

# A NUL-terminated field of a struct as text.
text(field::NTuple{N,Cchar}) where {N} = String(UInt8[c % UInt8 for c in Iterators.takewhile(!iszero, field)])

BenzinaError(status::Integer, err::bzna_error, cause = nothing) =
    BenzinaError(status, text(err.message), err.byte_offset == BZNA_NO_OFFSET ? nothing : err.byte_offset, err.native_code, cause)

function Base.showerror(io::IO, e::BenzinaError)
    print(io, "BenzinaError: ", e.message, " (", unsafe_string(bzna_status_name(e.status)), ")")
    if e.cause !== nothing
        print(io, "\nThe last exception of its source: ")
        showerror(io, e.cause)
    end
end

check(status::Integer, err::bzna_error, box = nothing) = status < 0 ? throw(BenzinaError(status, err, cause_of(status, box))) : status

# What a source threw, if reading it is what failed.
cause_of(status, box) = status in (BZNA_E_IO, BZNA_E_CALLBACK) ? last_exception(box) : nothing

# The address of a mutable struct, for @gcsafe calls: inside GC.@preserve only.
address(x::T) where {T} = Ptr{T}(pointer_from_objref(x))

# A zeroed struct that knows its size.
function sized(::Type{T}) where {T}
    x = T()
    GC.@preserve x ccall(:memset, Ptr{Cvoid}, (Ptr{Cvoid}, Cint, Csize_t), pointer_from_objref(x), 0, sizeof(T))
    x.struct_size = sizeof(T)
    return x
end

# A group of settings as it is, but for some of its fields: config.output = changed(config.output; width = 224). A name that it has not
# makes a value too many, which its constructor refuses.
changed(group::T; fields...) where {T} =
    T(values(merge(NamedTuple{fieldnames(T)}(getfield.(Ref(group), fieldnames(T))), values(fields)))...)

# Those of the keywords that say something.
given(; fields...) = (; (name => Tuple(value) for (name, value) in fields if value !== nothing)...)

# A string for a field of a config: inside GC.@preserve of the string only.
cstring(s::String) = Base.unsafe_convert(Cstring, s)
cstring(::Nothing) = Cstring(C_NULL)

optional(s::AbstractString) = String(s)
optional(::Nothing) = nothing

# Closing is refused inside the library's callbacks, where a finalizer may find itself: it then tries again at the next collection.
function close_later(object)
    try_close(object) || finalizer(close_later, object)
    return nothing
end

function try_close(object)
    object.handle == C_NULL && return true
    close_handle(object.handle) < 0 && return false
    object.handle = C_NULL
    object isa Loader && bzna_formats_rules_close(object.rules)
    return true
end

close_handle(handle::Ptr{bzna_context}) = bzna_context_close(handle)
close_handle(handle::Ptr{bzna_dataset}) = bzna_dataset_close(handle)
close_handle(handle::Ptr{bzna_loader}) = bzna_loader_close(handle)
close_handle(handle::Ptr{bzna_stream}) = bzna_stream_close(handle)
close_handle(handle::Ptr{bzna_writer}) = bzna_writer_close(handle)
close_handle(handle::Ptr{bzna_decoder}) = bzna_decoder_close(handle)

# One of the constants that settings name.
choice(names::NamedTuple, name::Symbol) =
    haskey(names, name) ? names[name] : throw(ArgumentError(string(repr(name), " is not one of ", join(repr.(keys(names)), ", "))))
