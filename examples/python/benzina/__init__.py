"""benzina - pictures for training neural networks

A data set is a folder of pictures, an archive, tars, a .rec, or a file of records:

    >>> import benzina
    >>> dataset = benzina.Dataset("train/")
    >>> dataset, dataset.classes
    (<benzina.Dataset: folder, 8 samples>, ['color', 'gray'])

A DataLoader decodes its pictures on threads, or on the GPU, and makes batches of them. They are torch tensors where
torch is installed, else numpy arrays: N x 3 x H x W float32, and N int64.

    >>> loader = benzina.DataLoader(dataset, shape=224, batch_size=4, shuffle=True, seed=1234, output="numpy",
    ...                             mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375),
    ...                             warp=benzina.ops.RandomResizedCrop(flip_h=0.5))
    >>> for epoch in range(2):
    ...     for images, targets in loader:
    ...         print(epoch, images.shape, targets.shape)
    0 (4, 3, 224, 224) (4,)
    0 (4, 3, 224, 224) (4,)
    1 (4, 3, 224, 224) (4,)
    1 (4, 3, 224, 224) (4,)

mean and std are on 0..255. Without a warp, pictures are scaled until they just cover shape, and their middle is taken.
Evaluation often wants torchvision's Resize(256) and CenterCrop(224):

    >>> val = benzina.DataLoader("val/", shape=224, batch_size=4, output="numpy", mean=(123.675, 116.28, 103.53),
    ...                          std=(58.395, 57.12, 57.375), warp=benzina.ops.CenterResizedCrop(224 / 256))

To go on in the middle of an epoch, keep the loader's state beside the model's. It fits any batch size and number of
processes.

    >>> state = loader.state_dict()
    >>> loader.load_state_dict(state)

An archive is faster than a folder, and one file. `bzna pack train/ -o train.bzna` makes it, or a Writer:

    >>> with benzina.Writer("made.bzna", codec="jpeg") as writer:
    ...     writer.add("train/color/a.png", target=0)

Beside torchvision. Pictures of an ImageFolder come in the same order with the same targets. Two things differ: a
Dataset turns pictures as their EXIF orientation says, unless orientation="ignore"; and a DataLoader has no workers,
since threads do the work.

Loops. A new iter() of a loader ends the iterators before it. Batches may be kept in any number: they lie in the
loader's own memory as long as one of its buffers stays free, and are copied else; targets always are. With
torch.distributed, a loader takes its rank's share of the samples, unless rank, indices or shard=False say otherwise.
The log of all this is that of Python's logging, called "benzina".

Data sets from elsewhere. Dataset takes paths, patterns, lists of them, URLs (https://, s3://, gs://, hf://), files,
objects with read_at and size, and objects with __len__ and __getitem__, as torch's data sets are: what __getitem__
gives is a sample. from_arrays makes a data set of pictures in memory; idx, cifar and csv make data sets of MNIST's,
CIFAR's and tables' files. DataLoader(..., tensors=["label:5"], bytes=["txt"]) delivers further fields: `for images,
targets, fields in loader`.

Shards that cannot seek. Stream iterates over tars from pipes, standard input and commands, and over those packed by
gzip or zstd, as a DataLoader does: Stream("pipe:curl -sf https://host/train-{000..146}.tar", 224, 64, shuffle=True).

Processes. A Dataset opened from a path, and a Context, can be pickled and copied: each copy opens the file again, by
its absolute path. A Dataset over a source, a DataLoader, a Batch and a Writer cannot, and say so.

GPU. Where the machine has one, it decodes and warps, unless decoder="software" or device="cpu" says otherwise. Batches
come to host memory, which is where numpy reads; but with torch, where torch has CUDA, they stay on the GPU, and
memory="host" or "device" is the last word. Targets are always on the host. Nobody waits for the GPU: what takes a batch
by DLPack names its stream, as torch does, and that stream is made to wait; when the last view is gone, the batch is
written again behind what was enqueued on it by then. A consumer that uses several streams must order them itself, as
DLPack asks.

Threads. Callbacks (a source's read_at, a transform or picture callback written in Python) run on the library's threads,
several at once, each holding the interpreter's lock while it runs: right, and slow. The transforms of ops run without
Python, the Constant warp excepted. What callbacks are given is Python's own, and may be kept. An exception in a
callback is raised where the next batch is asked for, with its traceback: only damaged data cost a slot.
(on_callback_error="sample" lets it pass as such.) A read_at that fails by an OSError or an EOFError, as files and
connections do, costs its sample; any other exception is a fault of the source, and raised.

Normalization. y = (x - bias) * norm with x in 0..255: norm MULTIPLIES. The original's ImageNet example passes the
standard deviation where its reciprocal is meant. mean= and std= are the other spelling, y = (x - mean) / std; both at
once are refused.

Augmentation. augment= takes ops.RandAugment, TrivialAugmentWide, AutoAugment, GaussianBlur, RandomErasing and others by
torchvision's names, one or a list, which are applied to each sample behind its crop:

    >>> loader = benzina.DataLoader("train/", shape=224, batch_size=4, shuffle=True, seed=1234,
    ...                             warp=benzina.ops.RandomResizedCrop(flip_h=0.5),
    ...                             augment=[benzina.ops.TrivialAugmentWide(), benzina.ops.RandomErasing(0.1)])

Other programs. benzina.torch has the original's modules, benzina.mx MXNet's iterators, and benzina.wds WebDataset's
pipelines, for programs that were written for these.

Other libraries. output="jax" makes arrays of jax's. TensorFlow, and whatever else knows DLPack, takes the arrays of
batches(), without a copy:

    >>> for batch in benzina.DataLoader("train/", shape=224, batch_size=4).batches():
    ...     capsule = batch.images.__dlpack__()     # tf.experimental.dlpack.from_dlpack(capsule)

Low level. lib has every function of benzina.h, declared, structs every struct, and every object here a handle for them,
which is valid while the object lives: keep the object in a variable. The library is looked for in $BENZINA_LIBRARY
(then nowhere else), in this package, in the build folder of a checkout, and where the system keeps libraries.
"""

from . import _numbers, ops
from ._arrays import from_arrays, from_table
from ._batch import Batch, Field
from ._blocks import RemoteStatistics
from ._c import Status, lib, structs, version
from ._callbacks import Picture
from ._context import Context, device_count
from ._dataset import Dataset, Sample, Track
from ._distributed import Distributed, distributed_from_env
from ._errors import (
    ArgumentError,
    Error,
    FieldError,
    InputOutputError,
    NotFoundError,
    OutOfMemoryError,
    TimeLimitError,
)
from ._loader import DataLoader
from ._numbers import *  # noqa: F401, F403
from ._output import Output
from ._random import Random
from ._records import cifar, csv, idx
from ._rules import Geometry, Rule, RuleSample
from ._stream import Stream
from ._version import __version__
from ._writer import Writer
from .ops import compute_affine_matrix

__all__ = [
    "Batch",
    "Context",
    "DataLoader",
    "Dataset",
    "Distributed",
    "Error",
    "Field",
    "Geometry",
    "Output",
    "Picture",
    "Random",
    "RemoteStatistics",
    "Rule",
    "RuleSample",
    "Sample",
    "Status",
    "Stream",
    "Track",
    "Writer",
    "__version__",
    "cifar",
    "compute_affine_matrix",
    "csv",
    "device_count",
    "distributed_from_env",
    "from_arrays",
    "from_table",
    "idx",
    "lib",
    "ops",
    "structs",
    "version",
    "ArgumentError",
    "FieldError",
    "InputOutputError",
    "NotFoundError",
    "OutOfMemoryError",
    "TimeLimitError",
]
__all__ += _numbers.__all__

for _public in (
    ArgumentError,
    Batch,
    Context,
    DataLoader,
    Dataset,
    Distributed,
    Error,
    Field,
    FieldError,
    InputOutputError,
    NotFoundError,
    OutOfMemoryError,
    Geometry,
    Output,
    Picture,
    Random,
    RemoteStatistics,
    Rule,
    RuleSample,
    Sample,
    Status,
    Stream,
    TimeLimitError,
    Track,
    Writer,
):
    _public.__module__ = __name__               # where users and pickles find them
