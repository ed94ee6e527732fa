"""Rule: what a DataLoader makes of a field: a tensor, rows with their count, or bytes under another name."""
from __future__ import annotations

import ctypes
import weakref
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from . import _arguments as arg
from . import _c, _handles
from ._c import Status, formats, lib, structs
from ._errors import check
from ._modules import installed
from ._types import RuleDtype
from ._shown import Remade


class Geometry:
    """How a view of a DataLoader's images shows its picture.

    homography       3 x 3, from pixels of the output to pixels of the picture, whose centers are integers; inverse: the
                     other way
    size, out_size   (width, height) of the picture, and of the output
    crop             left, top, right, bottom of the part that the output shows, in pixels of the picture from its
                     corner
    flip_h, flip_v   whether it is mirrored

    Edges of boxes are counted from the corner: a picture is 0 .. width wide."""

    def __init__(self, struct: Any) -> None:
        numpy = installed("numpy")
        self._struct = struct
        self.homography = numpy.array(struct.homography).reshape(3, 3)
        self.inverse = numpy.array(struct.inverse).reshape(3, 3)
        self.size = struct.width, struct.height
        self.out_size = struct.out_width, struct.out_height
        self.crop = tuple(struct.crop)
        self.flip_h, self.flip_v = bool(struct.flip_h), bool(struct.flip_v)

    def boxes(self, boxes: Any) -> Tuple[Any, Any]:
        """(mapped, shown) of k x 4 boxes of the picture: left, top, right, bottom in the output, clipped to it; and for
        each, whether any of it is there."""
        numpy = installed("numpy")
        boxes = numpy.array(boxes, numpy.float64).reshape(-1, 4)
        shown = numpy.zeros(len(boxes), bool)
        for i, box in enumerate(boxes):
            numbers = (ctypes.c_double * 4)(*box)
            shown[i] = lib.bzna_geometry_box(self._struct, numbers, numbers)
            box[:] = numbers
        return boxes, shown

    def points(self, points: Any) -> Any:
        """k x 2 points (x, y) of the picture, counted from its corner, in the output; they may be outside of it."""
        numpy = installed("numpy")
        points = numpy.array(points, numpy.float64).reshape(-1, 2) - 0.5
        mapped = points @ self.inverse[:, :2].T + self.inverse[:, 2]
        return mapped[:, :2] / mapped[:, 2:] + 0.5


class RuleSample:
    """The sample of a rule's function.

    field            the field's name; kind: FIELD_...
    index, epoch, target, slot
    geometry         the Geometry of the first view; views: of all views. None and [] if batches have no pictures"""

    def __init__(self, struct: Any) -> None:
        about = structs.sample_info.from_address(struct.sample)
        self.field, self.kind = struct.field.decode("utf-8", "replace"), struct.kind
        self.index, self.epoch, self.target, self.slot = about.index, about.epoch, about.target, about.slot
        size = ctypes.sizeof(structs.geometry)
        self.views: List[Geometry] = []
        for i in range(struct.view_count):
            self.views.append(
                Geometry(structs.geometry.from_buffer_copy(ctypes.string_at(struct.geometry + i * size, size)))
            )
        self.geometry: Optional[Geometry] = self.views[0] if self.views else None


class Rule(Remade):
    """How batches of a DataLoader deliver a field. A field belongs to the first of the loader's rules that it matches.

    field            the field's name; or ".json" for "json" and all names that end so; or a pattern with * and ?
    function         (bytes, RuleSample) -> an array; it is called on the loader's threads. A ValueError (as json.loads
                     raises it) says that the data are damaged, and fails the sample; any other exception is raised by
                     the call for the next batch (on_callback_error). None: the bytes are delivered as they are
    name             its name in the loop's fields; None: as field
    shape, dtype     of a sample's array: "float32", "uint8", "int32" or "int64"
    rows             arrays have up to this many rows of that shape: fields[name] is N x rows x shape with zeros after
                     them, and fields[name + "_count"] says how many there are. An array with more rows fails the sample

    COCO's boxes, mapped to the pixels of the images:

        def boxes(data, sample):
            known = [(*box["bbox"], box["category_id"]) for box in json.loads(data)["annotations"]]
            x, y, width, height, category = numpy.array(known).reshape(-1, 5).T
            mapped, shown = sample.geometry.boxes(numpy.stack([x, y, x + width, y + height], 1))
            return numpy.column_stack([mapped, category])[shown]

        loader = benzina.DataLoader("coco.tar", 640, 16, rules=benzina.Rule(".json", boxes, "boxes", shape=5, rows=100))
        for images, targets, fields in loader:
            fields["boxes"], fields["boxes_count"]              # 16 x 100 x 5, 16
    """

    def __init__(
        self,
        field: str,
        function: Optional[Callable[[bytes, RuleSample], Any]] = None,
        name: Optional[str] = None,
        *,
        shape: Union[int, Sequence[int]] = (),
        dtype: RuleDtype = "float32",
        rows: Optional[int] = None,
    ) -> None:
        self._keep(Rule, locals())
        if function is not None:
            _handles.check_callback("function", function, "data, sample")
            if installed("numpy") is None:
                raise ImportError("function: it gives numpy arrays, and numpy is not installed")
        self.field, self.function, self.name = field, function, field if name is None else name
        self.rows = None if rows is None else arg.number("rows", rows, ctypes.c_int64, 1)
        lengths = tuple(shape) if arg.is_list(shape) else (shape,)
        self.shape = tuple(arg.number("shape", n, ctypes.c_int64, 1) for n in lengths)
        self.dtype = dtype
        self._struct = s = _c.new("rule")
        s.field, s.name = arg.text("field", field), None if name is None else arg.text("name", name)
        if function is None:
            if self.shape or rows is not None:
                raise ValueError("shape, rows: only with a function, which makes arrays")
            return
        s.kind = _c.RULE_TENSOR if rows is None else _c.RULE_ROWS
        s.dtype = arg.choice("dtype", dtype, {"dtype": arg.OTHER_CHOICES["rule_dtype"]})
        whole = self.shape if rows is None else (self.rows, *self.shape)
        if len(whole) > len(s.shape):
            raise ValueError("shape: a sample has at most %d dimensions" % len(s.shape))
        s.dimensions, s.shape[:len(whole)] = len(whole), whole

    def _fill(self, struct: Any, out: Any, count: Any) -> None:
        numpy = installed("numpy")
        data = ctypes.string_at(struct.data, struct.size)
        made = numpy.asarray(self.function(data, RuleSample(struct)), self.dtype)       # type: ignore[misc]
        shape = self.shape
        if self.rows is not None:
            if made.shape[1:] != shape and made.size == 0:
                made = made.reshape((0, *shape))
            count[0], shape = len(made) if made.ndim else 0, (len(made) if made.ndim else 0, *shape)
        if made.shape != shape:
            raise TypeError("rules: %r made an array of shape %r, not %r" % (self.name, made.shape, shape))
        if self.rows is None or len(made) <= self.rows:         # more, C refuses
            data = numpy.ascontiguousarray(made)
            ctypes.memmove(out, data.ctypes.data, data.nbytes)


class Bound:
    """A rule of a loader, which owns this: callbacks find it by a number."""

    def __init__(self, rule: Rule, failures: Any) -> None:
        self.rule, self._failures = rule, weakref.ref(failures)

    def ask(self, struct: Any, out: Any, count: Any) -> int:
        try:
            self.rule._fill(struct, out, count)
            return 0
        except ValueError as exception:         # the data's
            failures = self._failures()
            return -1 if failures is None else failures.add(exception)
        except BaseException as exception:
            failures = self._failures()
            return Status.E_CALLBACK.value if failures is None else failures.add(exception, True)


@_c.callback("rule_fn")
def _rule_thunk(user, struct, out, out_bytes, count):
    found = _handles.registry.get(user)
    bound = None if found is None else found()
    if bound is None:
        return Status.E_CALLBACK.value
    return bound.ask(structs.rule_input.from_address(struct), out, (ctypes.c_uint64 * 1).from_address(count))


def _drop(keys: List[int]) -> None:
    for key in keys:
        _handles.registry.pop(key, None)


def bind_rules(rules: Any, failures: Any, owner: Any) -> Tuple[List[Rule], Any, List[Any]]:
    """Returns a loader's rules, an array of them as C takes it, and what must live as long as the loader."""
    rules = list(rules) if arg.is_list(rules) else [rules]
    for rule in rules:
        if not isinstance(rule, Rule):
            raise TypeError("rules: %r is no Rule" % (rule,))
    bound = [Bound(rule, failures) for rule in rules]
    keys = [_handles.register(weakref.ref(one)) for one in bound]
    weakref.finalize(owner, _drop, keys)
    array = (structs.rule * len(rules))()
    for struct, rule, key in zip(array, rules, keys):
        ctypes.memmove(ctypes.addressof(struct), ctypes.addressof(rule._struct), ctypes.sizeof(struct))
        if rule.function is not None:
            struct.call, struct.user = _rule_thunk, key
    return rules, array, bound


def with_rules(array: Any, dataset: Any, config: Any, close: Any) -> Tuple[Any, Any]:
    """Returns the config of a loader of that data set which has the rules, and what closes the loader and them."""
    if not array:
        return config, close
    config, opened, err = structs.loader_config.from_buffer_copy(config), ctypes.c_void_p(), _c.new("error")
    check(formats.bzna_formats_rules_open(dataset, array, len(array), config, opened, err), err)

    def close_both(handle: Any) -> int:
        status: int = close(handle)
        if status != Status.E_STATE:            # inside of a callback, which may be a rule's
            formats.bzna_formats_rules_close(opened)
        return status

    return config, close_both
