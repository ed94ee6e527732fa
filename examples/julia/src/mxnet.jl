# ---- A data provider, as MXNet.jl has them --------------------------------------------------------------------------------------------
# With pad = true every batch is full, as MXNet wants it, and count_samples says how many of its samples are real.

get_batch_size(loader::Loader) = loader.shape[4]
provide_data(loader::Loader) = Tuple{Symbol,Tuple}[(:data, loader.shape)]
provide_label(loader::Loader) = Tuple{Symbol,Tuple}[(:softmax_label, (loader.shape[4],))]
count_samples(::Loader, batch::Batch) = batch.count
get_data(::Loader, batch::Batch) = [batch.data]
get_label(::Loader, batch::Batch) = [batch.targets]

"Copies the pixels of a batch to the arrays of `targets`: one here, of the shape that `provide_data` says."
load_data!(loader::Loader, batch::Batch, targets::AbstractVector) = foreach(copyto!, targets, get_data(loader, batch))

"Copies the classes of a batch to the arrays of `targets`."
load_label!(loader::Loader, batch::Batch, targets::AbstractVector) = foreach(copyto!, targets, get_label(loader, batch))
