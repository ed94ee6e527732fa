# ---- Messages of the library ---------------------------------------------------------------------------------------------------------
# The library calls back with a message, where nothing may throw and no task may switch: printing does both. So the callback only puts it
# aside, and `forward_messages` passes it to Julia's logger when the library's call has returned.

const LOG_LEVELS = (none = Int32(0), error = BZNA_LOG_ERROR, warning = BZNA_LOG_WARNING, info = BZNA_LOG_INFO, debug = BZNA_LOG_DEBUG)

mutable struct LogBox
    lock::Threads.SpinLock
    messages::Vector{Tuple{Int32,String}}
end

LogBox() = LogBox(Threads.SpinLock(), Tuple{Int32,String}[])

# Called from C, on a thread that is inside a call. Such a thread may have said that the collector need not wait for it (@gcsafe): that is
# undone while Julia runs.
function bzna_context_log(user::Ptr{Cvoid}, level::Int32, code::Int32, message::Ptr{Cchar})::Cvoid
    state = ccall(:jl_gc_unsafe_enter, Int8, ())
    try
        box = unsafe_pointer_to_objref(user)::LogBox
        entry = (level, unsafe_string(Ptr{UInt8}(message)))
        lock(box.lock)
        push!(box.messages, entry)
        unlock(box.lock)
    catch
        # There is no memory for it.
    end
    ccall(:jl_gc_unsafe_leave, Cvoid, (Int8,), state)
    return nothing
end

forward_messages(::Nothing) = nothing

function forward_messages(box::LogBox)
    isempty(box.messages) && return nothing
    fresh = Tuple{Int32,String}[]
    lock(box.lock)
    messages, box.messages = box.messages, fresh
    unlock(box.lock)
    for (level, message) in messages
        if level == BZNA_LOG_ERROR
            @error message
        elseif level == BZNA_LOG_WARNING
            @warn message
        elseif level == BZNA_LOG_INFO
            @info message
        else
            @debug message
        end
    end
    return nothing
end
