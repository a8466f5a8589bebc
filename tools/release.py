"""Build the wheel and the source archive of the last commit into dist/, and run the README's programs from the wheel.

The programs run in an environment of their own, in which nothing of the checkout can be seen.  They need Java, and that
nobody serves at the README's address.  A package index shows the README alone, so its links become absolute if the
address of the repository is given: ``make release URL=https://...``.
"""

import argparse
import io
import re
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).resolve().parent.parent
PROGRAM = re.compile(r"^```python\n(.*?)^```\s*^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
SERVER = re.compile(r"^```sh\npermitflow (serve .*)\n```$", re.MULTILINE)
RELATIVE_LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="the repository's page, as https://github.com/OWNER/permitflow")
    url: str | None = parser.parse_args().url
    dist = REPOSITORY / "dist"
    for kept in [*dist.glob("permitflow-*.whl"), *dist.glob("permitflow-*.tar.gz")]:
        kept.unlink()
    with TemporaryDirectory() as folder:
        source = Path(folder)
        export(source)
        if url is not None:
            give_address(source, url.rstrip("/"))
        build = [sys.executable, "-m", "hatchling", "build", "--directory", str(dist)]
        subprocess.run(build, cwd=source, check=True)
    (wheel,) = dist.glob("permitflow-*.whl")
    differing = programs_that_print_something_else(wheel)
    for program in differing:
        print(f"this program of the README printed something else:\n{program}", file=sys.stderr)
    if differing:
        return 1
    print(f"the README's programs run from {wheel.name}; publish what lies in {dist}")
    if url is None:
        print("a package index will show the README with links that lead nowhere: make release URL=https://...")
    return 0


def export(folder: Path) -> None:
    """Write the files of the last commit into the folder."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def give_address(source: Path, url: str) -> None:
    """Write the repository's page into the project's metadata, and into the README's links."""
    project = source / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    (version,) = re.findall(r'^version = "(.*)"$', text, re.MULTILINE)
    project.write_text(f'{text}\n[project.urls]\nRepository = "{url}"\n', encoding="utf-8")
    readme = source / "README.md"
    readme.write_text(with_absolute_links(readme.read_text(encoding="utf-8"), url, f"v{version}"), encoding="utf-8")


def with_absolute_links(document: str, url: str, tag: str) -> str:
    """The document with links to the files of this tag, as GitHub and GitLab spell them: pages, and pictures raw."""
    return RELATIVE_LINK.sub(lambda link: f"{link[0]}{url}/{'raw' if link[1] else 'blob'}/{tag}/", document)


def programs_that_print_something_else(wheel: Path) -> list[str]:
    """Run the README's programs in order, with its exchange, from the wheel in a new environment."""
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    programs = PROGRAM.findall(readme)
    (server,) = SERVER.findall(readme)
    with TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python, permitflow = f"{folder}/bin/python", f"{folder}/bin/permitflow"
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"{wheel}[spark]"], check=True)
        exchange = subprocess.Popen([permitflow, *server.split(), "--quiet"], cwd=folder, stdout=subprocess.PIPE)
        try:
            assert exchange.stdout is not None
            exchange.stdout.readline()  # listening
            return [program for program, printed in programs if printed_by(python, program, folder) != printed]
        finally:
            exchange.terminate()
            exchange.communicate()


def printed_by(python: str, program: str, folder: str) -> str:
    return subprocess.run(
        [python, "-I", "-c", program], cwd=folder, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


if __name__ == "__main__":
    raise SystemExit(main())
