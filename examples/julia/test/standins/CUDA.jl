# A stand-in for CUDA.jl: as much of its interface as examples/flux.jl uses. Its device memory is the host's.
module CUDA

struct CuPtr{T}
    address::UInt
end

mutable struct CuArray{T,N} <: AbstractArray{T,N}
    array::Array{T,N}
end

Base.size(x::CuArray) = size(x.array)
Base.getindex(x::CuArray{T,N}, indices::Vararg{Int,N}) where {T,N} = x.array[indices...]

unsafe_wrap(::Type{CuArray}, pointer::CuPtr{T}, dims) where {T} = CuArray(Base.unsafe_wrap(Array, Ptr{T}(pointer.address), dims))

struct CuDevice
    ordinal::Int32
end

struct CuStream
    handle::Ptr{Cvoid}
end

device() = CuDevice(0)
deviceid(device::CuDevice) = device.ordinal
stream() = CuStream(Ptr{Cvoid}(2))

end # module CUDA
