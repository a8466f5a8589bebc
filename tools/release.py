"""Build the wheel and the source archive into dist/, and run the README's first program from the wheel alone.

The program runs in an environment of its own, in which nothing of the checkout can be seen.
"""

import re
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).resolve().parent.parent
PROGRAM = re.compile(r"^```python\n(.*?)^```\s*^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


def main() -> int:
    dist = REPOSITORY / "dist"
    for kept in [*dist.glob("permitflow-*.whl"), *dist.glob("permitflow-*.tar.gz")]:
        kept.unlink()
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(dist)]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    (wheel,) = dist.glob("permitflow-*.whl")
    found = PROGRAM.search((REPOSITORY / "README.md").read_text(encoding="utf-8"))
    assert found is not None, "the README begins with a program"
    with TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True)
        done = subprocess.run([python, "-I", "-c", found[1]], cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
        subprocess.run([f"{folder}/bin/permitflow", "--version"], cwd=folder, check=True)
    if done.stdout != found[2]:
        print(f"the README's program printed {done.stdout!r}, not {found[2]!r}", file=sys.stderr)
        return 1
    print(f"the README's first program runs from {wheel.name}; publish what lies in {dist}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
