"""Run the notebooks of examples/notebooks, and write them with their output: there, or into the named folder.

A test compares what is printed with what the notebooks here show.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent.parent / "examples/notebooks"
LONGEST_SECONDS = 240


def main(target: Path) -> None:
    """Run all of them, each in a kernel of its own."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        # Times of the clock would make each run a change.
        NotebookClient(notebook, timeout=LONGEST_SECONDS, kernel_name="python3", record_timing=False).execute()
        notebook.metadata.pop("language_info")  # names the version of Python
        nbformat.write(notebook, target / path.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
