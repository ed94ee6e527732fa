"""benzina - pictures for training neural networks, from Python                                         MIT license

One file over ctypes; no compiler is needed, and neither numpy nor torch, though either is used where it is there:

    import benzina
    from benzina import ops

    loader = benzina.DataLoader(benzina.Dataset("train.bzna"), shape=(224, 224), batch_size=256, shuffle=True, seed=1234,
                                mean=(0.485 * 255, 0.456 * 255, 0.406 * 255), std=(0.229 * 255, 0.224 * 255, 0.225 * 255),
                                warp=ops.RandomResizedCrop(scale=(0.08, 1.0), ratio=(3/4, 4/3), flip_h=0.5))
    for epoch in range(90):
        loader.set_epoch(epoch)
        for images, targets in loader:          # torch tensors (else numpy arrays), N x 3 x H x W float32 and N int64
            ...

The library is looked for in $BENZINA_LIBRARY (then nowhere else), beside this file, in ../../build, and where the system keeps
libraries. The manual is the opening comment of benzina.h; what is said here is what Python adds.

Memory. Nothing is copied: tensors and arrays are views of the batch, which goes back to the loader when the last of them is gone,
even after loader and dataset. A loader has multibuffering batches (3); whoever collects more of them gets an Error that says
so, and wants copy=True or a larger multibuffering. Views may be written to.

Data sets. Dataset opens an archive, a folder of pictures, a tar shard, a .rec, or several. Dataset("photos").classes
names a folder's classes. DataLoader(..., tensors=["label:5"], bytes=["txt", "json"]) delivers further fields: the loop is then
`for images, targets, fields in loader`, and fields["txt"] a list with a text, or None, for each sample.

idx, cifar and csv make data sets of MNIST's, CIFAR's and tables' files.

Single samples. dataset.fields names what samples hold; dataset[i].fields["name"], or dataset.field(i, "name"), is what
one of them has. dataset[i].image() is the whole picture, upright, H x W x 3 uint8 in RGB. Writer writes archives, of picture
files, arrays, PIL pictures or coded ones.

Processes. A Dataset opened from a path, and a Context, can be pickled and copied: each copy opens the file again, by
its absolute path. A Dataset over a source, a DataLoader, a Batch and a Writer cannot, and say so.

GPU. Where the machine has one, it decodes and warps, unless decoder="software" or device="cpu" says otherwise. Batches
come to host memory, which is where numpy reads; but with torch, where torch has CUDA, they stay on the GPU, and
memory="host" or "device" is the last word. Targets, indices and status are always on the host. Nobody waits for the
GPU: what takes a batch by DLPack names its stream, as torch does, and that stream is made to wait (Batch.move); when
the last view is gone, the batch is written again behind what was enqueued on it by then. A consumer that uses several
streams must order them itself, as DLPack asks.

Low level. lib has every function of benzina.h, declared, structs every struct, and every object here a handle for them, which is valid
while the object lives: keep the object in a variable.

Threads. Callbacks (a source's read_at, a transform or picture callback written in Python) run on the library's threads, several at once,
each holding the interpreter's lock while it runs: right, and slow. The transforms of ops run without Python, the Constant warp excepted.
What callbacks are given is Python's own, and may be kept. An exception in a callback is raised where the next batch is asked for, with its
traceback: only damaged data cost a slot. (on_callback_error="sample" lets it pass as such.) A read_at that fails by an OSError or an
EOFError, as files and connections do, costs its sample; any other exception is a fault of the source, and raised. The last one is kept:
DataLoader.last_exception.

Normalization. y = (x - bias) * norm with x in 0..255: norm MULTIPLIES. The original's ImageNet example passes the standard
deviation where its reciprocal is meant. mean= and std= are the other spelling, y = (x - mean) / std; both at once are refused.
"""
from . import ops
from ._batch import Batch, Field
from ._c import Status, lib, structs, version
from ._callbacks import Picture
from ._context import Context, device_count
from ._dataset import Dataset, Sample
from ._distributed import Distributed, distributed_from_env
from ._errors import Error
from ._loader import DataLoader
from ._numbers import *  # noqa: F401, F403
from ._output import Output
from ._random import Random
from ._records import cifar, csv, idx
from ._version import __version__
from ._writer import Writer
from .ops import compute_affine_matrix

__all__ = ["Batch", "Context", "DataLoader", "Dataset", "Distributed", "Error", "Field", "Output", "Picture", "Random", "Sample", "Status",
           "Writer", "cifar", "compute_affine_matrix", "csv", "device_count", "distributed_from_env", "idx", "lib", "ops",
           "structs", "version"]

for _public in (Batch, Context, DataLoader, Dataset, Distributed, Error, Field, Output, Picture, Random, Sample, Status, Writer):
    _public.__module__ = __name__               # where users and pickles find them
