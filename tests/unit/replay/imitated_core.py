# SPDX-License-Identifier: GPL-2.0-only
"""The library of the replay (traffic/replay/core), made so that its system calls go to the test (imitation.c)."""
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORE = HERE.parents[2] / "traffic/replay/core"
RENAMED = ("syscall", "socket", "getsockopt", "close")


def build(folder, spoilt=None):
    """The path of the library, made in a folder. spoilt: {name of a source: (what stands there, what is to)}."""
    sources = folder / "traffic/replay/core"
    sources.mkdir(parents=True)
    (folder / "traffic/io").mkdir()
    for path in (*CORE.iterdir(), CORE.parents[1] / "io/ring.h", HERE / "imitation.c"):
        text = path.read_text()
        for honest, other in [spoilt[path.name]] if spoilt and path.name in spoilt else []:
            assert honest in text, (path, honest)
            text = text.replace(honest, other)
        ((folder / "traffic/io" if path.name == "ring.h" else sources) / path.name).write_text(text)
    library = folder / "core.so"
    files = sorted(path.name for path in sources.glob("*.c") if path.name != "chained.c")     # which imitation.c has
    subprocess.run(["gcc", "-O1", "-g", "-shared", "-fPIC", *(f"-D{name}=imitated_{name}" for name in RENAMED),
                    "-o", str(library), *files, "-lm"], cwd=sources, check=True)
    return str(library)
