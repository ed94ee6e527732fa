"""The tool bzna: python -m benzina pack train/ -o train.bzna. The command bzna of an installed package is the same."""
from __future__ import annotations

import os
import sys
from typing import NoReturn

_HERE = os.path.dirname(os.path.abspath(__file__))


def tool() -> str:
    """The path of the tool: that of the package, or of the checkout that this is; $BENZINA_TOOL names another."""
    named = os.environ.get("BENZINA_TOOL")
    tried = [named] if named else [os.path.join(_HERE, "_lib", "bzna"), os.path.join(_HERE, "..", "..", "..", "build", "bzna")]
    for path in tried:
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise FileNotFoundError(
        "the tool bzna was not found: neither at %s. It is built where libavformat and libswscale are (Debian: "
        "libavformat-dev libswscale-dev); BENZINA_TOOL names it" % " nor at ".join(tried)
    )


def main() -> NoReturn:
    """Becomes the tool."""
    try:
        path = tool()
    except FileNotFoundError as error:
        sys.exit("bzna: %s" % error)
    os.execv(path, ["bzna", *sys.argv[1:]])


if __name__ == "__main__":
    main()
