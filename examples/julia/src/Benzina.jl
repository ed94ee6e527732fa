# Benzina.jl - pictures for training neural networks, decoded as fast as the hardware can: Julia bindings of benzina.h
#
#     using Pkg; Pkg.develop(path = "examples/julia")       # or julia --project=examples/julia
#     using Benzina
#
#     loader = Benzina.Loader("train.bzna"; batchsize = 256, size = (224, 224), shuffle = true, seed = 1234,
#                             warp = :random_resized_crop, flip = 0.5)
#     for epoch in 1:90
#         for (x, y) in loader                  # x: 224x224x3x256 Array{Float32}, W x H x C x N; y: Vector{Int64}
#             train!(model, gpu(x), y)
#         end
#     end
#
# Julia 1.5 or newer, and libbenzina.so: the one that `make` puts into build/ of this repository, or the one that the environment
# variable BENZINA_LIBRARY names when the package is loaded. Loaders over sources that Julia reads need Julia 1.9, or no_threads: see below.
#
# A loader is a data loader as MLUtils has them: `length` says how many batches an epoch has, and each `for` runs one epoch, in another
# order when shuffled. The next epoch is being decoded while the last one is being used. It is also a data provider as MXNet.jl has them:
# `provide_data`, `provide_label`, `get_batch_size`, `eachbatch`, `count_samples`, `get_data`, `get_label`, `load_data!`, `load_label!`.
#
# A loader runs one epoch at a time. If a `for` begins while another one over the same loader is not over, the new one takes the next
# epoch, and the next step of the old one raises a BenzinaError (E_STATE). `restore!` ends a `for` in the same way.
#
# Memory. `x` is the library's own memory, not a copy, and is given back when `x` and everything made of it by `reshape` or `vec` has been
# collected. Only `batches_in_flight` batches exist, so the loader asks the garbage collector for them when few are left. It need not:
#
#     buffer = true         `x` is reused when the next batch is asked for: copy data that you keep (MLUtils has the same option)
#     release!(x)           gives `x` back now; it must not be used afterwards
#
# Bytes that are no local file. The library alone reads a `Vector{UInt8}`, in place: it must not be changed while the data set
# or a loader over it is open. Anything else is a source, read through `read_at!` and `total_bytes`: any seekable IO, and types of your
# own with these two methods:
#
#     struct Ranged; url::String; bytes::Int; end
#     Benzina.total_bytes(r::Ranged) = r.bytes
#     Benzina.read_at!(r::Ranged, buffer::Vector{UInt8}, offset::Int) = ranged_get!(buffer, r.url, offset)     # how many bytes it copied
#     loader = Benzina.Loader(Ranged("https://...", 1234); batchsize = 256, size = (224, 224))
#
# A loader calls `read_at!` on the library's reader threads, several at once if reader_threads is above 1. Julia adopts such threads
# from version 1.9 on. Older versions open data sets over sources, and read their samples and fields; their loaders need no_threads = true,
# by which everything is done on the thread that asks for a batch.
# `read_at!` may allocate, but should not switch tasks: no channels, no `wait`, no sockets of Julia's own. It may throw: an IOError,
# SystemError or EOFError costs the sample, and any other exception ends the run. `num_exceptions` counts what was thrown, and
# `last_exception` returns the last of it. All this needs a library whose threads leave SIGSEGV unblocked, since Julia's safepoints are
# faults. Paths do not, since no Julia runs on the library's threads then.
#
# Samples of your own are `from_arrays(images, labels)`, which the library reads in place, with each version of Julia; or `from_samples(samples)`,
# which asks `samples[i]` on the reader threads, as it does with `read_at!`.
#
# Callbacks of a loader change how samples are made: `transform(sample, random, t)` may change each view's `t`, a bzna_transform of
# benzina.h (t.homography, t.brightness, ...), and `picture(sample, random, described, planes)` may draw into each decoded picture before that.
# A `Rule` makes a tensor of a field of each sample, such as boxes mapped to the pixels of the output.
# They are called on the decoders' threads, several at once, which needs Julia 1.9, or no_threads; all that is said of `read_at!` above holds.
# An exception fails the sample, and by default the run with it (on_callback_error). A C library's functions are given as pointers:
# `transform = pointer, transform_user = data`.
#
# Shards that cannot seek: `Stream("pipe:curl -sf https://host/train-{000..146}.tar"; batchsize = 256, size = (224, 224), shuffle = true)`
# reads tar shards from commands, pipes and standard input, with gzip or zstd, and iterates as a Loader does. It needs libbenzina_stream.so
# beside libbenzina.so. No Julia runs on its threads, so it works with each version.
#
# Samples are counted from 1, as everything in Julia is. Resuming: `save(loader)` gives 128 bytes, `restore!(loader, bytes)` continues there.
#
# GPU. If there is one, it decodes and warps (`device = :cpu` or `decoder = :software` prevent that), and batches are in host memory, where
# an Array can be: `x` is the same then, bit for bit. `device(loader)` says which it is, or why there is none.
#
# Names that other packages may have, too, are not exported: write Benzina.name, Benzina.field, Benzina.bytes, Benzina.save, Benzina.device,
# Benzina.decoder, Benzina.failed, Benzina.first_failed, Benzina.limit, Benzina.mean_image.
#
# Structs and constants are those of header.jl, which `make bindings` makes from benzina.h. tests/bindings/test_julia.sh holds them, and every call
# and callback of these files, against benzina.h by means of the C compiler.
module Benzina

using Random: MersenneTwister, randperm

export AbstractDataBatch, AbstractDataProvider, ArrayDataProvider, Batch, BenzinaError, CSVIter, CSVProvider, Coded, DataBatch, Dataset, Decoder,
       Geometry, ImageRecordIter, ImageRecordProvider, Loader, MNISTIter, MNISTProvider, MXDataProvider, Output, Pictures, Records, Rule, RuleSample, Sample, SampleInfo, SlicedNDArray, Stream,
       WebDataset, Writer, add!, classes, coded, count_samples, decode, eachbatch, epoch!, failure, finish!, from_arrays, from_dlpack, from_samples,
       get_batch_size, get_data, get_label, last_exception, load_data!, load_label!, map_box, map_point, num_exceptions, provide_data,
       provide_label, read_at!, release!, restore!, set_batches!, set_indices!, skip!, source_of, statistics, stream_info, target, tensor,
       total_bytes, uniform!, Operation, Policy, auto_augment, drawn, gaussian_blur, rand_augment, random_erasing, trivial_augment_wide

include("LibBenzina.jl")        # benzina.h: structs, constants and calls
using .LibBenzina

include("settings.jl")          # names of choices, keywords of Loader
include("errors.jl")            # BenzinaError, and how structs cross over
include("logs.jl")              # messages of the library
include("sources.jl")           # bytes that Julia reads: read_at!, total_bytes
include("providers.jl")         # samples of a program's own: from_arrays, from_samples
include("datasets.jl")          # Dataset, Records, Sample, fields of samples
include("callbacks.jl")         # what loaders call: transform, picture
include("rules.jl")             # Rule: how batches deliver fields
include("mxnet.jl")             # data providers, as MXNet.jl has them: AbstractDataProvider, ArrayDataProvider, CSVProvider, MNISTProvider
include("augment.jl")           # Policy, Operation: random operations behind the crop
include("loaders.jl")           # Loader, Output: settings
include("streams.jl")           # Stream: shards that cannot seek
include("writers.jl")           # Writer, Coded
include("pictures.jl")          # Decoder, decode, Pictures
include("batches.jl")           # Batch, iteration, states, statistics
include("dlpack.jl")            # arrays of other packages over a batch's memory
include("mxnet_loaders.jl")     # loaders as data providers; ImageRecordProvider
include("webdataset.jl")        # WebDataset: tar shards as streams, as WebDataset.jl has them

end # module Benzina
