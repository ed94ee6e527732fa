# Files that the tests make: RecordIO, tar, MNIST's format, NDArray files.

const PICTURES = normpath(joinpath(@__DIR__, "..", "..", "..", "tests", "data", "pictures"))

picture_bytes(name) = read(joinpath(PICTURES, name))

# Pillow's pixels of a picture of 40x25, as width x height x channels.
pillow_pixels(name) = permutedims(reshape(picture_bytes("$name.rgb"), 3, 40, 25), (2, 3, 1))

# A record of MXNet's RecordIO: one number, or several.
function write_record(io::IO, id::Integer, label, image::Vector{UInt8})
    numbers = label isa Real ? Float32[] : Float32.(label)
    payload = vcat(reinterpret(UInt8, UInt32[length(numbers)]), reinterpret(UInt8, Float32[label isa Real ? label : 0]),
                   reinterpret(UInt8, UInt64[id, 0]), reinterpret(UInt8, numbers), image)
    write(io, UInt32(0xced7230a), UInt32(length(payload)), payload, zeros(UInt8, mod(-length(payload), 4)))
end

# A member of a tar file (ustar).
function write_member(io::IO, name::AbstractString, bytes::Vector{UInt8}; kind::Char = '0', prefix = "")
    header = zeros(UInt8, 512)
    put(at, text) = copyto!(header, at, codeunits(text), 1, sizeof(text))
    put(1, name), put(101, "0000644"), put(125, string(length(bytes), base = 8, pad = 11)), put(137, string(0, base = 8, pad = 11))
    put(149, " "^8), put(157, string(kind)), put(258, "ustar"), put(264, "00"), put(346, prefix)
    put(149, string(sum(Int, header), base = 8, pad = 6) * "\0 ")
    write(io, header, bytes, zeros(UInt8, mod(-length(bytes), 512)))
end

function write_tar(path::AbstractString, members)
    open(path, "w") do io
        for (name, bytes) in members
            write_member(io, name, Vector{UInt8}(bytes))
        end
        write(io, zeros(UInt8, 1024))
    end
    return path
end

# A file of bytes in MNIST's format; the first dimension of `array` lies together.
function write_idx(path::AbstractString, array::Array{UInt8})
    open(path, "w") do io
        write(io, UInt8[0, 0, 8, ndims(array)], hton.(UInt32.(reverse(collect(size(array))))), array)
    end
    return path
end

# MXNet's file of one array of Float32.
function write_ndarray(path::AbstractString, array::Array{Float32}, name::AbstractString)
    open(path, "w") do io
        write(io, UInt64[0x112, 0, 1], 0xf993fac9, Int32(0), UInt32(ndims(array)), Int64.(reverse(collect(size(array)))), Int32[1, 0], Int32(0), array)
        write(io, UInt64(1), UInt64(sizeof(name)), name)
    end
    return path
end
