"""Files of MNIST's format."""
import math
import os


def idx_records(path):
    """What the records of a file are that is an IDX of pictures, by its first bytes and its size; None: it is none."""
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            head, size = file.read(20), os.fstat(file.fileno()).st_size
    except (OSError, ValueError):
        return None                             # the library says why
    if len(head) < 20 or head[:3] != b"\0\0\x08" or head[3] not in (3, 4):
        return None
    shape = [int.from_bytes(head[at:at + 4], "big") for at in range(4, 4 + 4 * head[3], 4)]
    if 4 + 4 * head[3] + math.prod(shape) != size:
        return None
    return dict(header_bytes=4 + 4 * head[3], width=shape[2], height=shape[1], channels=shape[3] if head[3] == 4 else 1,
                data_type="uint8", layout="nhwc" if head[3] == 4 else "nchw")
