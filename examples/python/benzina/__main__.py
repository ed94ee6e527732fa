"""The tool bzna: python -m benzina pack train/ -o train.bzna. The command bzna of an installed package is the same."""
from __future__ import annotations

import os
import sys
from typing import NoReturn

from ._tool import tool_path


def main() -> NoReturn:
    """Becomes the tool."""
    try:
        path = tool_path(False)
    except FileNotFoundError as error:
        sys.exit("bzna: %s" % error)
    os.execv(path, ["bzna", *sys.argv[1:]])


if __name__ == "__main__":
    main()
