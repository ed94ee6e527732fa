# ---- DLPack: arrays of other packages over a batch's memory --------------------------------------------------------------------------

# dlpack.h's DLTensor and DLManagedTensor.
struct DLTensor
    data::Ptr{Cvoid}
    device_kind::Int32
    device_ordinal::Int32
    dimensions::Int32
    code::UInt8
    bits::UInt8
    lanes::UInt16
    shape::Ptr{Int64}
    strides::Ptr{Int64}
    byte_offset::UInt64
end

struct DLManagedTensor
    tensor::DLTensor
    manager::Ptr{Cvoid}
    deleter::Ptr{Cvoid}
end

const DLPACK_TYPES = Dict{Tuple{UInt8,UInt8},DataType}((0, 32) => Int32, (0, 64) => Int64, (1, 8) => UInt8, (1, 64) => UInt64,
                                                       (2, 16) => Float16, (2, 32) => Float32)

"""
    from_dlpack(wrap, batch, name = "image")

An array of another package over the memory of one of a batch's tensors, without a copy: `wrap(pointer, dims)` makes it. On a GPU, with CUDA.jl:

    x = from_dlpack((p, dims) -> unsafe_wrap(CuArray, CuPtr{Float32}(UInt(p)), dims), batch)

`wrap` must make a mutable object. The memory is the array's until that is finalized, also where the batch was released before.
"""
function from_dlpack(wrap, batch::Batch, name::AbstractString = "image")
    err, out = sized(bzna_error), Ref{Ptr{Cvoid}}(C_NULL)
    GC.@preserve batch check(bzna_batch_to_dlpack(batch.handle, String(name), BZNA_DLPACK_0, out, err), err)
    managed = Ptr{DLManagedTensor}(out[])
    described = unsafe_load(managed)
    delete() = ccall(described.deleter, Cvoid, (Ptr{Cvoid},), managed)
    try
        tensor = described.tensor
        type = get(() -> throw(ArgumentError("$name has elements that Julia has not")), DLPACK_TYPES, (tensor.code, tensor.bits))
        # C is row-major: the same memory is Julia's column-major.
        dims = Tuple(Int(unsafe_load(tensor.shape, i)) for i in Int(tensor.dimensions):-1:1)
        array = wrap(Ptr{type}(tensor.data + tensor.byte_offset), dims)
        finalizer(_ -> delete(), owner(array))
        return array
    catch
        delete()
        rethrow()
    end
end
