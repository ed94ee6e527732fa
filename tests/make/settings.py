"""The table of settings in benzina.c, and what bindings.py makes of it: the keywords of Rust, Julia and Python.

A row of the table is a line, and names a struct and a member of benzina.h. Its type must be the member's, and members
of configs that are numbers must have rows. KEYWORDS says what a setting is called in each language. Every setting of a
loader or a context stands there, so that none is forgotten. CHOICES says the same of enumerations, whose constants are
given by name in Julia and Python.
"""
import re
import textwrap
from dataclasses import dataclass, field

# What a setting is called in Python, Julia and Rust; -: it has no keyword of its own there. Behind a colon: the names
# that it may have (Julia), or the type of a method's argument (Rust; a method of a switch without one has none).
KEYWORDS = """
output.batch_size               batch_size          batchsize               batch_size
output.width                    -                   -                       -
output.height                   -                   -                       -
output.dtype                    dtype               -                       dtype:Dtype
output.layout                   layout              -                       layout:Layout
output.channels                 channels            channels:CHANNELS       channels:Channels
output.views                    views               views                   views
output.slices                   -                   -                       -
output.palette                  -                   -                       -
output.device.kind              -                   -                       -
output.device.ordinal           -                   -                       -
extra_outputs.count             -                   -                       -
order.kind                      -                   -                       -
order.last_batch                last_batch          -                       last_batch:LastBatch
order.seed                      seed                seed                    seed
order.epochs                    -                   -                       epochs
order.first_epoch               first_epoch         epoch                   first_epoch
order.pad_value                 pad_value           -                       -
order.pad_target                pad_target          -                       -
shard.rank                      rank                rank                    -
shard.world_size                world_size          world_size              -
warp.kind                       -                   warp:WARPS              -
warp.crops                      -                   crops:CROPS              crops:Crops
warp.scale                      -                   crop_area               -
warp.ratio                      -                   crop_ratio              -
warp.degrees                    -                   degrees                 -
warp.translate                  -                   translate               -
warp.flip_h                     -                   flip                    -
warp.flip_v                     -                   flip_v                  -
warp.rotate                     -                   rotate                  -
warp.shear                      -                   shear                   -
warp.perspective                -                   perspective             -
warp.perspective_p              -                   perspective_p           -
warp.resize                     -                   resize                  -
warp.keep_ratio                 -                   keep_ratio              -
warp.random_crop                -                   random_crop             -
warp.mxnet.shear_ratio          -                   shear_ratio             -
warp.mxnet.canvas_px            -                   canvas_px               -
warp.mxnet.crop_px              -                   crop_px                 -
warp.mxnet.pad_px               -                   pad_px                  -
warp.mxnet.short_edge_px        -                   short_edge_px           -
warp.mxnet.has_crop_start       -                   -                       -
warp.mxnet.crop_x_start         -                   -                       -
warp.mxnet.crop_y_start         -                   -                       -
warp.mxnet.hls                  -                   mxnet_hls               -
warp.mxnet.contrast             -                   mxnet_contrast          -
warp.mxnet.illumination         -                   mxnet_illumination      -
warp.mxnet.clamp_hue            -                   mxnet_clamp_hue         -
filter.kind                     filter              filter:FILTERS          filter:Filter
filter.antialias                antialias           -                       -
color.mean                      -                   mean                    -
color.std                       -                   std                     -
color.bias                      -                   bias                    -
color.scale                     -                   scale                   -
color.fill                      -                   fill                    fill
color.fill_space                fill_space          -                       -
color.matrix                    matrix              -                       matrix:Matrix
color.jitter.brightness         -                   brightness              -
color.jitter.contrast           -                   contrast                -
color.jitter.saturation         -                   saturation              -
color.jitter.hue                -                   hue                     -
color.jitter.grayscale          -                   grayscale               -
fields.image                    track               -                       -
fields.tensors                  tensors             -                       -
fields.bytes                    bytes               -                       -
fields.made_count               -                   -                       -
fields.geometry                 -                   geometry                geometry
read.threads                    reader_threads      reader_threads          reader_threads
read.ahead_samples              read_ahead          read_ahead              read_ahead
read.memory_bytes               read_memory_bytes   read_memory_bytes       read_memory_bytes
read.retries                    read_retries        read_retries            -
read.backoff_ns                 read_backoff_ns     read_backoff_ns         -
decode.decoder                  decoder             decoder:DECODERS        decode_with:DecodeWith
decode.threads                  num_threads         threads                 threads
decode.jpeg                     jpeg_decoder        jpeg_decoder:DECODERS   jpeg_decoder:DecodeWith
decode.jpeg_shrink              jpeg_shrink         jpeg_shrink             jpeg_shrink:bool
decode.jpeg_shrink_margin       jpeg_shrink_margin  jpeg_shrink_margin      jpeg_shrink_margin
decode.hybrid                   hybrid              hybrid                  hybrid:bool
errors.on_error                 on_error            on_error:ON_ERROR       on_error:OnError
errors.on_callback_error        on_callback_error   on_callback_error:ON_CALLBACK_ERROR on_callback_error:OnCallbackError
pipeline.batches_in_flight      multibuffering      batches_in_flight       batches_in_flight
pipeline.restore_any_pixels     restore_any_pixels  restore_any_pixels      restore_any_pixels
pipeline.no_threads             no_threads          no_threads              no_threads
augment.policy_count            -                   -                       -
augment.beyond_crop             -                   -                       beyond_crop
context.log_level               log_level           -                       -
context.device.kind             -                   -                       -
context.device.ordinal          -                   -                       -
context.log_any_thread          -                   -                       log_from_any_thread
context.max_edge_px             max_edge_px         -                       max_edge_px
context.max_sample_bytes        max_sample_bytes    -                       max_sample_bytes
context.sessions                sessions            -                       sessions
context.sessions_per_engine     -                   -                       sessions_per_engine
context.session_depth           -                   -                       session_depth
context.session_mapped          -                   -                       session_mapped
context.decode_memory_bytes     decode_memory_bytes -                       decode_memory_bytes
context.no_threads              no_threads          -                       no_threads
context.codecs                  -                   -                       codecs
context.own_codecs.count        -                   -                       -
"""

# Enumerations of benzina.h: what begins the names of their constants, without BZNA_, then where their names stand in
# Python (a key of its CHOICES) and in Julia (a constant), or -. The name of a constant is what follows, in small letters,
# but for those behind it: CONSTANT=names, of Python and of Julia if another; - is none.
CHOICES = """
LAST_               last_batch          -
ON_ERROR_           on_error            ON_ERROR
ON_CALLBACK_ERROR_  on_callback_error   ON_CALLBACK_ERROR
DTYPE_              dtype               -               INT32=- INT64=- UINT64=-
DTYPE_              rule_dtype          -               FLOAT16=- BFLOAT16=- UINT64=-
LAYOUT_             layout              LAYOUTS         NCHW=NCHW,nchw/planes NHWC=NHWC,nhwc/pixels
CHANNELS_           channels            CHANNELS        RGB=RGB BGR=BGR GRAY=gray,grey
FILTER_             filter              FILTERS         LANCZOS3=lanczos CUBIC_075=cubic-0.75/cubic_075
ANTIALIAS_          antialias           -               AUTO=True OFF=False
DECODER_            decoder             DECODERS
DECODER_            jpeg_decoder        -
CROPS_              crops               CROPS           AUTO=-/auto
WARP_               -                   WARPS
CLASS_ORDER_        class_order         CLASS_ORDERS
ORIENTATION_        orientation         ORIENTATIONS
PALETTE_            palette             PALETTES
RECORD_             data_type           RECORD_TYPES    NONE=-/none
RECORD_             label_type          -               NONE=None
OP_                 operation           OPERATIONS
POLICY_             policy_apply        POLICY_APPLY
FILL_               value_space         SPACES          RGB=RGB
FIELD_              -                   KINDS           IMAGE=picture
SPLIT_              split               SPLITS          NONE=None/none
"""

# The types of the table, and those of C that they may have.
TYPES = {
    "FREE": ("uint32_t", "uint64_t", "int32_t", "int64_t"), "COUNT": ("uint32_t",), "COUNT64": ("uint64_t",),
    "CHOICE": ("uint32_t", "int32_t"), "FORMAT": ("uint32_t",), "BITS": ("uint32_t",), "SWITCH": ("uint32_t",),
    "REAL": ("float",), "REAL64": ("double",), "RANGE": ("float",), "RANGE64": ("double",),
}
# least, most and preset of the macros of rows, from what follows the type, the struct and the member.
ROWS = {"NUMBER": "{0} {1} {2}", "UP_TO": "0 {0} 0", "PLAIN": "0 0 0", "CHOICE": "0 {0} 0", "SWITCH": "0 0 0"}
# Numbers that may be anything, so that the table has no rows of them.
FREE = (("context_config", "device.ordinal"), ("context_config", "decode_memory_bytes"), ("loader_output", "views"),
        ("loader_output", "device.ordinal"), ("loader_order", "seed"), ("loader_order", "first_epoch"),
        ("loader_order", "pad_target"), ("loader_shard", "rank"), ("warp", "mxnet.crop_x_start"),
        ("warp", "mxnet.crop_y_start"))
# Structs of which not all members are settings: what they say of files and callbacks is checked elsewhere.
PARTLY = ("records", "source", "sink", "provider", "provider_field", "policy", "operation", "dataset_config",
          "writer_config", "writer_sample", "transform", "image")


class Fault(Exception):
    """Text of the table that this program cannot read, or that contradicts the header."""


@dataclass
class Setting:
    """A setting: path is "read.threads", kind its type in C."""

    path: str
    type: str
    kind: object
    least: float
    most: float
    preset: float
    comment: list
    names: dict = field(default_factory=dict)       # by language: its keyword, and what follows a colon


# ---- Reading the table -----------------------------------------------------------------------------------------------

def number_of(expression, constants):
    """The value of a number, a constant or a product of such."""
    text = re.sub(r"\bB(?:ZI|ZNA)_\w+", lambda m: "(" + constants[m[0]] + ")", expression)
    text = re.sub(r"\b(0x[\da-fA-F]+p\d+)\b", lambda m: repr(float.fromhex(m[1])), text)
    text = re.sub(r"\bFLT_MAX\b", "3.4028234663852886e38", text)
    text = re.sub(r"\bB(?:ZI|ZNA)_\w+", lambda m: constants[m[0]], text)
    text = re.sub(r"\b(\d+)(?:u|ull)\b", r"\1", text)
    text = re.sub(r"(\.\d+)f\b", r"\1", text)
    if not re.fullmatch(r"[\d.e+\-*() <]+", text):
        raise Fault(expression)
    return eval(text, {"__builtins__": {}})         # of digits and operators alone


def rows_of(source, constants):
    """(struct, member, type, least, most, preset) of the rows, and the words of members that are checked in pairs."""
    constants = dict(constants)
    for name, value in re.findall(r"^#define (BZI_LIMIT_\w+)\s+(.*?)\s*(?:/\*.*)?$", source, re.M):
        constants[name] = value
    table = re.search(r"^static const bzi_setting bzi_settings\[\] = \{\n(.*?)^\};", source, re.M | re.S)
    if not table:
        raise Fault("there is no table bzi_settings")
    rows, others = [], set()
    lines = map(str.strip, table[1].split("\n"))
    for line in (line for line in lines if line and line[0] != "#"):
        row = re.fullmatch(r"BZI_(\w+)\((.*)\),", line)
        if not row:
            raise Fault(line)
        name, words = row[1], [word.strip() for word in row[2].split(",")]
        if name in TYPES:                           # the macro is called after the type
            words.insert(0, name)
        if name in ("BOTH", "EXTRA", "RESERVED") or words[0] not in TYPES:
            others.update((word, other) for word in words[:2] for other in words[1:])
            continue
        if (words[1], words[2]) in FREE:
            raise Fault(f"FREE names {words[1]}.{words[2]}, which has a row")
        numbers = ROWS[name].format(*(word.replace(" ", "") for word in words[3:])).split()
        rows.append((words[1], words[2], words[0], *(number_of(text, constants) for text in numbers)))
    return rows + [(*free, "FREE", 0, 0, 0) for free in FREE], others


def member_of(structs, struct, path):
    """(type, comment) of a member, which may lie in a struct inside, or be an element of an array."""
    name, _, rest = path.partition(".")
    name, _, element = name.partition("[")
    for known, kind, comment in structs["bzna_" + struct].members:
        if known == name:
            return member_of(structs, kind.base[len("bzna_"):], rest) if rest else (kind, comment)
    raise Fault(f"{struct} has no {path}")


def check_complete(structs, rows, others):
    """Every number of a config has a row, or is the size of the array before it."""
    known = {(row[0], row[1].split("[")[0].split(".")[0]) for row in rows} | others
    for struct in {row[0] for row in rows} - set(PARTLY):
        before = None
        for name, kind, _ in structs["bzna_" + struct].members:
            is_size = before and len(before.consts) > 1 and re.search(r"(^|_)(count|bytes)$", name)
            if (len(kind.consts) == 1 and kind.base in ("uint32_t", "uint64_t", "int32_t", "int64_t", "float", "double")
                    and name != "struct_size" and not is_size and (struct, name) not in known
                    and not (struct == "loader_output" and ("output", name) in known)):
                raise Fault(f"bzi_settings has no row of {struct}.{name}")
            before = kind


def spellings(value, constants):
    """How a comment may write a number."""
    out = {"%g" % value, "%d" % value}
    for unit, size in (("MiB", 1 << 20), ("GiB", 1 << 30), ("ms", 1e6)):
        if value >= size and value % size == 0:
            out.add("%d %s" % (value / size, unit))
    return out | {name for name, number in constants.items() if number == "%d" % value}


def check_comment(setting, constants):
    """The header says what defaults and ranges the table has."""
    text = " ".join(setting.comment)
    if text.startswith(("its height", "factors, as for")):      # as the member before it
        return
    wanted = [("default is", setting.preset)] if setting.preset else []
    if setting.type in ("COUNT", "COUNT64") and setting.most and setting.path.split(".")[0] not in ("warp", "fields"):
        wanted.append(("largest value is", setting.most))
    for what, value in wanted:
        if not any(re.search(r"(?<!\w)%s(?!\w)" % re.escape(word), text) for word in spellings(value, constants)):
            if not (value == 2.0 ** 63 and "2^63" in text):
                raise Fault(f"benzina.h does not say that its {what} {value:g}: {setting.path}: {text}")


def paths_of(structs):
    """Where the structs of the table lie in a loader's config, or that of a context: {"loader_read": "read"}."""
    paths = {"context_config": "context", "output": "output"}
    for name, kind, _ in structs["bzna_loader_config"].members:
        paths[kind.base[len("bzna_"):]] = name
    for name, kind, _ in structs["bzna_loader_color"].members:
        if kind.base == "bzna_jitter":
            paths["jitter"] = "color." + name
    return paths


def settings_of(source, items, constants):
    """The settings of loaders and contexts, in the order of KEYWORDS."""
    structs = {item.name: item for item in items if item.kind == "struct"}
    rows, others = rows_of(source, constants)
    paths, found = paths_of(structs), {}
    for struct, member, type_name, least, most, preset in rows:
        kind, comment = member_of(structs, struct, member)
        if kind.base not in TYPES[type_name]:
            raise Fault(f"bzi_settings: {struct}.{member} is no {type_name}, but {kind.base}")
        if struct == "output":                      # what is said of it stands with a loader's outputs
            comment = member_of(structs, "loader_output", member)[1]
        if struct in paths:
            path = paths[struct] + "." + member.split("[")[0]
            found[path] = Setting(path, type_name, kind, least, most, preset, comment)
    check_complete(structs, rows, others)
    out = []
    for line in KEYWORDS.strip().split("\n"):
        path, *names = line.split()
        group, _, member = path.partition(".")
        struct = next(struct for struct, known in paths.items() if known == group and struct != "output")
        if path not in found:                       # a text
            kind, comment = member_of(structs, struct, member)
            if kind.base != "char":
                raise Fault(f"KEYWORDS: bzi_settings has no row of {path}")
            found[path] = Setting(path, "TEXT", kind, 0, 0, 0, comment)
        setting = found.pop(path)
        check_comment(setting, constants)
        setting.names = {language: (*name.split(":"), "")[:2] for language, name in zip(("python", "julia", "rust"), names)
                         if name != "-"}
        out.append(setting)
    if found:
        raise Fault("KEYWORDS has no line for " + ", ".join(found))
    return out


def choices_of(items):
    """Of each line of CHOICES: where its names stand in Python and Julia, and [(constant, names, names)]."""
    constants = [name[len("BZNA_"):] for item in items if item.kind == "enum" for name, _, _ in item.members]
    out = []
    for line in CHOICES.strip().split("\n"):
        prefix, python, julia, *others = line.split()
        renamed = dict(other.split("=") for other in others)
        rows = []
        for constant in (constant for constant in constants if constant.startswith(prefix)):
            own = constant[len(prefix):]
            names = renamed.pop(own, own.lower()).split("/")
            rows.append((constant, *([] if name == "-" else name.split(",") for name in (names[0], names[-1]))))
        if renamed or not rows:
            raise Fault(f"CHOICES: benzina.h has no {prefix}{next(iter(renamed), '...')}")
        out.append((python, julia, rows))
    return out


# ---- What is made of it ----------------------------------------------------------------------------------------------

def python_choices(head, choices):
    """A table of Python: {argument: {name: number}}."""
    out = ["", *head]
    for key, _, rows in choices:
        out.append(f'    "{key}": {{')
        for constant, names, _ in rows:
            for name in names:
                name = name if name in ("None", "True", "False") else f'"{name}"'
                out.append(f"        {name}: _numbers.{constant},")
        out.append("    },")
    return out + ["}"]


def julia_choices(choices):
    out = ["", "# Names of the constants of enumerations."]
    for _, name, rows in choices:
        head = f"const {name} = ("
        known = ", ".join(f"{known}\0=\0BZNA_{constant}" for constant, _, names in rows for known in names)
        if name != "-":                             # lines end between names
            lines = textwrap.wrap(known + ")", 118, initial_indent=head, subsequent_indent=" " * len(head))
            out += [line.replace("\0", " ") for line in lines]
    return out


def python(settings, choices, note):
    out = [f"# {note}", '"""Arguments that are one setting of a config, and names of choices."""',
           "from . import _numbers", "", "", "FIELDS = {"]
    of_loaders = {setting.names["python"][0] for setting in settings if "python" in setting.names}
    for setting in settings:
        if "python" in setting.names and not setting.path.startswith("context."):
            out.append(f'    "{setting.names["python"][0]}": "{setting.path}",')
    return "\n".join(out + ["}", "", "# Arguments of Context, which have the names of members.", "CONTEXT = ("] +
                     [f'    "{setting.names["python"][0]}",' for setting in settings
                      if "python" in setting.names and setting.path.startswith("context.")] + [")"] +
                     python_choices(["# Arguments of DataLoader that are given by name, and the numbers of benzina.h.",
                                     "CHOICES = {"], [row for row in choices if row[0] in of_loaders]) +
                     python_choices(["# Those of data sets, writers, rules and policies.", "OTHER_CHOICES = {"],
                                    [row for row in choices if row[0] not in of_loaders | {"-"}]) + [""])


def julia(settings, choices, note):
    out = [f"# settings.jl - {note}", *julia_choices(choices), "",
           "# Keywords of Loader that are one setting of a loader's config: where it lies, and names that it may have.",
           "const LOADER_KEYWORDS = ("]
    for setting in settings:
        if "julia" in setting.names:
            name, choices = setting.names["julia"]
            path = ", ".join(":" + part for part in setting.path.split("."))
            out.append(f"    {name} = (({path}), {choices or 'nothing'}),")
    return "\n".join(out + [")", ""])


def rust_method(setting, rust_type, rust_doc):
    """A method of a builder. A switch without a type of its argument is switched on."""
    name, kind = setting.names["rust"]
    path = setting.path[len("context."):] if setting.path.startswith("context.") else setting.path
    argument = path.split(".")[-1]
    if setting.type == "SWITCH" and not kind:
        head, value = "mut self", "1"
    else:
        head = f"mut self, {argument}: {kind or rust_type(setting.kind)}"
        value = f"u32::from({argument})" if kind == "bool" else f"{argument} as u32" if kind else argument
    comment = list(setting.comment)
    comment[0] = f"`{path}`: " + (f"a [`{kind}`]" if kind and comment[0].startswith("BZNA_") else comment[0])
    return [*rust_doc(comment, 4), f"    pub fn {name}({head}) -> Self {{", f"        self.config.{path} = {value};",
            "        self", "    }", ""]


def rust(settings, note, rust_type, rust_doc):
    known = [setting for setting in settings if "rust" in setting.names]
    types = sorted({setting.names["rust"][1] for setting in known} - {"", "bool"})
    out = [f"// {note}", "", "//! Methods of builders that set one setting each.", "",
           "use crate::{" + ", ".join(sorted(types + ["ContextConfig", "LoaderBuilder"])) + "};"]
    for head, is_context in (("impl LoaderBuilder<'_> {", False), ("impl ContextConfig {", True)):
        out += ["", head]
        for setting in known:
            if setting.path.startswith("context.") == is_context:
                out += rust_method(setting, rust_type, rust_doc)
        out[-1] = "}"
    return "\n".join(out + [""])
