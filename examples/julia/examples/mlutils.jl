# mlutils.jl - an archive's pictures as MLUtils takes data: split, shuffled, in batches of its DataLoader
#
#     julia --project=DIR examples/mlutils.jl train.bzna        DIR: a project with Benzina and MLUtils
#
# `Pictures` has `length` and `getindex`, from which MLUtils makes numobs and getobs. It decodes on the tasks that ask, one picture at a time: start Julia
# with several threads, and say parallel = true. A `Benzina.Loader` is such an iterator by itself, and faster.
module MLUtilsExample

using Benzina, MLUtils

"How many batches of pictures there are to train and to validate with, and the mean of all pixels of both."
function means(path; batchsize = 32, size = (64, 64), parallel = false)
    data = Pictures(path; size = size)
    training, validation = splitobs(data; at = 0.8)
    mean_of(batches) = (length(batches), sum(sum(x) for (x, y) in batches) / max(1, sum(length(x) for (x, y) in batches)))
    return mean_of(DataLoader(training; batchsize = batchsize, shuffle = true, parallel = parallel)),
           mean_of(DataLoader(validation; batchsize = batchsize))
end

function main(arguments)
    training, validation = means(arguments[1]; parallel = Threads.nthreads() > 1)
    println("training: ", training[1], " batches, mean ", training[2], "; validation: ", validation[1], " batches, mean ", validation[2])
end

end # module MLUtilsExample

if abspath(PROGRAM_FILE) == @__FILE__
    MLUtilsExample.main(ARGS)
end
