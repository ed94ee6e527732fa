"""The original's interface for PyTorch: its programs run with these modules as they are.

    >>> import benzina.torch as bz
    >>> import benzina.torch.operations as ops
    >>> loader = bz.DataLoader(bz.dataset.ClassificationDataset("train.bzna"), shape=(224, 224), batch_size=4,
    ...                        shuffle=True, seed=1234,
    ...                        bias_transform=ops.ConstantBiasTransform(bias=(123.675, 116.28, 103.53)),
    ...                        norm_transform=ops.ConstantNormTransform(norm=(1 / 58.395, 1 / 57.12, 1 / 57.375)),
    ...                        warp_transform=ops.SimilarityTransform(scale=(0.08, 1.0), ratio=(3/4, 4/3), flip_h=0.5,
    ...                                                                       random_crop=True))
    >>> for images, targets in loader:
    ...     print(tuple(images.shape), tuple(targets.shape))
    (4, 3, 224, 224) (4,)
    (4, 3, 224, 224) (4,)

Names, order and defaults of arguments are those of its release 0.0.5, whose data sets are archives. Those of later ones
are images of Bcachefs, which are refused; their programs that name a path run, too.
"""

from . import dataloader, dataset, operations
from .dataloader import DataLoader
from .dataset import ClassificationDataset, CocoDetection, Dataset, ImageDataset, ImageNet

__all__ = [
    "ClassificationDataset",
    "CocoDetection",
    "DataLoader",
    "Dataset",
    "ImageDataset",
    "ImageNet",
    "dataloader",
    "dataset",
    "operations",
]
