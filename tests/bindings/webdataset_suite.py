"""webdataset_suite.py - webdataset's own tests, on benzina.wds

    python3 tests/bindings/webdataset_suite.py CHECKOUT theirs|ours        prints a line for each test, and a count

CHECKOUT is a folder with webdataset's tests/ and testdata/, which are not part of this project. "theirs" runs them with
webdataset itself, "ours" with benzina.wds under its name. Imports are adapted here: what webdataset has in modules of
their own is in benzina.wds, and what its tests call _map(data, f) is wds.map(f)(data). Tests that need the network, and
those of webdataset's private parts, fail.
"""
import os
import sys
import types


def filters_of(wds):
    def curried(name):
        def function(data, *args, **kw):
            return iter(getattr(wds, name)(*args, **kw)(iter(data)))
        return function
    names = "batched extract_keys map rename_keys rsample select shuffle to_tuple xdecode".split()
    return {"_" + name: curried(name) for name in names}


class Utils:
    """webdataset.utils: its switch, and functions that benzina.wds has."""

    def __init__(self, wds):
        self.__dict__["wds"] = wds

    def __getattr__(self, name):
        return getattr(self.wds.utils if name == "enforce_security" else self.wds, name)

    def __setattr__(self, name, value):
        setattr(self.wds.utils, name, value)


def adapt(root):
    """benzina.wds as webdataset."""
    sys.path.insert(0, os.path.join(root, "examples", "python"))
    from benzina import _tenbin as tenbin
    from benzina import wds
    module = types.ModuleType("webdataset")
    module.__getattr__ = lambda name: getattr(wds, name)
    parts = {
        **dict.fromkeys("autodecode handlers shardlists compat mix cache gopen writer".split(), wds), "utils": Utils(wds),
        "tenbin": tenbin, "filters": types.SimpleNamespace(default_collation_fn=wds.default_collation_fn,
                                                                     **filters_of(wds)),
    }
    module.__path__, module.gopen = [], wds.gopen
    sys.modules["webdataset"] = module
    for name, found in parts.items():
        if name != "gopen":                     # a function, and a module of that name
            setattr(module, name, found)
        sys.modules["webdataset." + name] = found


def stand_in():
    """The shard that most tests read, where a checkout came without it: 47 samples, the first of which is 793 x 600."""
    import io
    import tarfile

    import numpy
    import PIL.Image
    path = os.path.join("testdata", "imagenet-000000.tgz")
    if os.path.exists(path):
        return
    random = numpy.random.default_rng(0)
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for number in range(47):
            shape = (793, 600, 3) if number == 0 else (60 + number, 80 + number, 3)
            pixels = random.integers(0, 2 if number == 0 else 256, shape).astype(numpy.uint8)
            pixels[:, shape[1] // (64 if number == 0 else 1):] = number
            coded = io.BytesIO()
            PIL.Image.fromarray(pixels).save(coded, "png")
            for name, data in (("cls", b"%d" % (3 * number)), ("png", coded.getvalue()), ("wnid", b"n%08d" % number),
                               ("xml", b"<a/>")):
                member = tarfile.TarInfo("%010d.%s" % (7 * number, name))
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


class Counting:
    """A plugin of pytest's."""

    def __init__(self):
        self.outcomes = {}

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
            self.outcomes[report.nodeid] = report.outcome


def main(checkout, which):
    import pytest
    sys.dont_write_bytecode = True
    if which == "ours":
        adapt(os.getcwd())
    os.chdir(checkout)
    sys.path.insert(0, checkout)
    if which == "theirs":
        sys.path.insert(0, os.path.join(checkout, "src"))
    stand_in()
    counting = Counting()
    # nothing is reached: which tests need the network does not depend on where they run
    os.environ.update(dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9"))
    pytest.main(["-q", "-p", "no:cacheprovider", "--tb=line", "-k", os.environ.get("ONLY", ""), "tests"], plugins=[counting])
    for name, outcome in sorted(counting.outcomes.items()):
        print("RESULT", name, outcome)


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), sys.argv[2])
