"""Where the program bzna is."""
from __future__ import annotations

import os
import shutil

_HERE = os.path.dirname(os.path.abspath(__file__))


def tool_path(is_in_path: bool) -> str:
    """That of the package, or of the checkout that this is; $BENZINA_TOOL names another. is_in_path: else one of $PATH,
    where the command of this package may be, too. A FileNotFoundError says where none was found."""
    named = os.environ.get("BENZINA_TOOL")
    tried = [named] if named else [
        os.path.join(_HERE, "_lib", "bzna"),
        os.path.join(_HERE, "..", "..", "..", "build", "bzna"),
    ]
    for path in tried:
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    found = shutil.which("bzna") if is_in_path and not named else None
    if found is None:
        raise FileNotFoundError(
            "the program bzna was not found at %s%s. pip builds it where libavformat and libswscale are (Debian: "
            "libavformat-dev libswscale-dev); BENZINA_TOOL names another"
            % (" or ".join(tried), ", nor in PATH" if is_in_path and not named else "")
        )
    return found
