"""benzina - pictures for training neural networks

A data set is a folder of pictures, an archive, tars, a .rec, or a record file:

    >>> import benzina
    >>> dataset = benzina.Dataset("train/")
    >>> dataset, dataset.classes
    (<benzina.Dataset: folder, 8 samples>, ['color', 'gray'])

A DataLoader decodes its pictures on threads, or on the GPU, and makes batches of them. They are torch tensors if torch
is installed, else numpy arrays: N x 3 x H x W float32, and N int64.

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

mean and std are on 0..255. Without a warp, pictures are scaled until they just cover shape, and cropped to their
middle. Evaluation often uses torchvision's Resize(256) and CenterCrop(224):

    >>> val = benzina.DataLoader("val/", shape=224, batch_size=4, output="numpy", mean=(123.675, 116.28, 103.53),
    ...                          std=(58.395, 57.12, 57.375), warp=benzina.ops.CenterResizedCrop(224 / 256))

To continue in the middle of an epoch, save the loader's state with the model's. It can be loaded with any batch size
and number of processes.

    >>> state = loader.state_dict()
    >>> loader.load_state_dict(state)

An archive is faster than a folder, and one file. `bzna pack train/ -o train.bzna` makes it, or a Writer:

    >>> with benzina.Writer("made.bzna", codec="jpeg") as writer:
    ...     writer.add("train/color/a.png", target=0)

Compared with torchvision. Pictures of an ImageFolder come in the same order with the same targets. There are two
differences: a Dataset rotates pictures as their EXIF orientation says, unless orientation="ignore"; and a DataLoader
has no workers, since it uses threads.

Loops. A new iter() of a loader ends its earlier iterators. Batches may be kept in any number: they stay in the loader's
own memory as long as one of its buffers is free, and are copied otherwise; targets are always copied. With
torch.distributed, a loader loads its rank's share of the samples, unless rank, indices or shard=False say otherwise.
Messages go to the logger "benzina" of Python's logging.

Data sets from elsewhere. Dataset opens paths, patterns, lists of them, URLs (https://, s3://, gs://, hf://), files,
objects with read_at and size, and objects with __len__ and __getitem__, such as torch's data sets: __getitem__ returns
a sample. from_arrays makes a data set of pictures in memory; idx, cifar and csv make data sets of MNIST's, CIFAR's and
tables' files. DataLoader(..., tensors=["label:5"], bytes=["txt"]) delivers further fields: `for images, targets, fields
in loader`.

Shards that cannot seek. Stream iterates over tars from pipes, standard input and commands, also if gzip or zstd has
packed them, as a DataLoader does: Stream("pipe:curl -sf https://host/train-{000..146}.tar", 224, 64, shuffle=True).

Processes. A Dataset opened from a path, and a Context, can be pickled and copied: each copy opens the file again, by
its absolute path. A Dataset over a source, a DataLoader, a Batch and a Writer cannot, and raise an error.

GPU. If the machine has one, it decodes and warps, unless decoder="software" or device="cpu" is given. Batches are in
host memory, where numpy can read them. With torch, if torch has CUDA, they stay on the GPU. memory="host" or "device"
chooses explicitly. Targets are always on the host. The host does not wait for the GPU: a consumer that imports a batch
by DLPack names its stream, as torch does, and that stream is made to wait. When the last view is deleted, the batch is
written again after the work that was enqueued on the stream by then. A consumer that uses several streams must order
them itself, as DLPack asks.

Threads. Callbacks (a source's read_at, a transform or picture callback written in Python) run on the library's threads,
several at once, each holding the interpreter's lock while it runs, which is slow. The transforms of ops run without
Python, except the Constant warp. Callbacks receive objects of Python, which they may keep. An exception in a callback
is raised by the call that asks for the next batch, with its traceback. With on_callback_error="sample", it fails only
its sample, as damaged data do. A read_at that raises an OSError or an EOFError, as files and connections do, fails its
sample; any other exception is a fault of the source, and is raised.

Normalization. y = (x - bias) * norm with x in 0..255: norm MULTIPLIES. The original's ImageNet example passes the
standard deviation instead of its reciprocal. mean= and std= are the other spelling, y = (x - mean) / std; both at once
are refused.

Augmentation. augment= accepts ops.RandAugment, TrivialAugmentWide, AutoAugment, GaussianBlur, RandomErasing and others
with torchvision's names, one or a list, which are applied to each sample after its crop:

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
