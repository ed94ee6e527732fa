# ---- JSON ----------------------------------------------------------------------------------------------------------------------------

const JSON_DEPTH = 512                  # arrays and objects inside one another: recursion ends before the stack does

mutable struct JSONText
    bytes::Vector{UInt8}
    at::Int
    depth::Int
end

struct JSONError <: Exception
    message::String
    offset::Int                         # in bytes, from 0
end

Base.showerror(io::IO, e::JSONError) = print(io, "JSON, byte ", e.offset, ": ", e.message)

refuse(text::JSONText, message) = throw(JSONError(message, text.at - 1))
peek_byte(text::JSONText) = text.at <= length(text.bytes) ? text.bytes[text.at] : 0x00

function skip_space!(text::JSONText)
    while peek_byte(text) in (0x20, 0x09, 0x0a, 0x0d)
        text.at += 1
    end
end

function expect!(text::JSONText, word::AbstractString)
    stop = text.at + sizeof(word) - 1
    stop <= length(text.bytes) && view(text.bytes, text.at:stop) == codeunits(word) || refuse(text, "$(repr(word)) is missing")
    text.at = stop + 1
    return nothing
end

function json_value(text::JSONText)
    skip_space!(text)
    byte = peek_byte(text)
    byte == UInt8('"') && return json_string(text)
    byte == UInt8('t') && (expect!(text, "true"); return true)
    byte == UInt8('f') && (expect!(text, "false"); return false)
    byte == UInt8('n') && (expect!(text, "null"); return nothing)
    byte in (UInt8('{'), UInt8('[')) || return json_number(text)
    (text.depth += 1) <= JSON_DEPTH || refuse(text, "more than $JSON_DEPTH arrays and objects inside one another")
    value = byte == UInt8('{') ? json_object(text) : json_array(text)
    text.depth -= 1
    return value
end

# Calls item(), with commas between the calls, up to the closing bracket.
function json_items(item, text::JSONText, closing::Char)
    text.at += 1
    skip_space!(text)
    peek_byte(text) == UInt8(closing) && (text.at += 1; return nothing)
    while true
        item()
        skip_space!(text)
        peek_byte(text) == UInt8(closing) && (text.at += 1; return nothing)
        expect!(text, ",")
    end
end

function json_object(text::JSONText)
    object = Dict{String,Any}()
    json_items(text, '}') do
        skip_space!(text)
        key = json_string(text)
        skip_space!(text)
        expect!(text, ":")
        object[key] = json_value(text)
    end
    return object
end

function json_array(text::JSONText)
    array = Any[]
    json_items(() -> push!(array, json_value(text)), text, ']')
    return array
end

function json_number(text::JSONText)
    first = text.at
    while peek_byte(text) in b"+-0123456789.eE"
        text.at += 1
    end
    word = String(text.bytes[first:text.at-1])
    text.at = first
    occursin(r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$", word) || refuse(text, "no value")
    text.at += sizeof(word)
    whole = tryparse(Int64, word)
    return whole === nothing ? parse(Float64, word) : whole
end

const JSON_ESCAPES = Dict{UInt8,Char}(UInt8('"') => '"', UInt8('\\') => '\\', UInt8('/') => '/', UInt8('b') => '\b', UInt8('f') => '\f',
                                      UInt8('n') => '\n', UInt8('r') => '\r', UInt8('t') => '\t')

function json_string(text::JSONText)
    expect!(text, "\"")
    out = IOBuffer()
    while true
        text.at <= length(text.bytes) || refuse(text, "a string has no end")
        byte = text.bytes[text.at]
        text.at += 1
        if byte == UInt8('"')
            return String(take!(out))
        elseif byte < 0x20
            text.at -= 1
            refuse(text, "a control character in a string")
        elseif byte != UInt8('\\')
            write(out, byte)
        else
            json_escape(text, out)
        end
    end
end

function json_escape(text::JSONText, out::IO)
    byte = peek_byte(text)
    if byte == UInt8('u')
        unit = json_unit(text)
        # Characters beyond 16 bits are two units.
        if 0xd800 <= unit < 0xdc00 && peek_byte(text) == UInt8('\\')
            text.at += 1
            low = json_unit(text)
            0xdc00 <= low < 0xe000 || refuse(text, "half of a character")
            unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
        end
        0xd800 <= unit < 0xe000 && refuse(text, "half of a character")
        print(out, Char(unit))
    else
        haskey(JSON_ESCAPES, byte) || refuse(text, "an escape that is not known")
        print(out, JSON_ESCAPES[byte])
        text.at += 1
    end
    return nothing
end

function json_unit(text::JSONText)
    expect!(text, "u")
    stop = text.at + 3
    digits = stop <= length(text.bytes) ? String(text.bytes[text.at:stop]) : ""
    occursin(r"^[0-9a-fA-F]{4}$", digits) || refuse(text, "\\u needs four digits")
    text.at += 4
    return parse(UInt32, digits; base = 16)
end

function json_parse(bytes::AbstractVector{UInt8})
    text = JSONText(Vector{UInt8}(bytes), 1, 0)
    value = json_value(text)
    skip_space!(text)
    text.at > length(text.bytes) || refuse(text, "something follows the value")
    return value
end
