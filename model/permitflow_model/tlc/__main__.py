"""``python -m permitflow_model.tlc``: configurations for the TLA+ Toolbox and VS Code, and single runs of TLC.

python -m permitflow_model.tlc list             the models of spec/*/models.toml
python -m permitflow_model.tlc cfg              write a .cfg beside each module: of its first model
python -m permitflow_model.tlc cfg NAME         print the model's .cfg
python -m permitflow_model.tlc run NAME         run TLC on it and print the result
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from permitflow_model.manifest import ManifestError, Model, find_spec_directory, module_paths, read_manifest
from permitflow_model.tla_values import format_state
from permitflow_model.tlc.check import run_model
from permitflow_model.tlc.output import TlcError, TlcResult
from permitflow_model.tlc.run import TlcNotFoundError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0: as recorded, 1: not, 2: it failed."""
    parser = argparse.ArgumentParser(
        prog="python -m permitflow_model.tlc", description="The models of spec/*/models.toml, one at a time."
    )
    parser.add_argument("command", choices=("list", "cfg", "run"))
    parser.add_argument("name", nargs="?", help="the model's name, for cfg and run")
    parser.add_argument("--into", type=Path, help="for cfg without a name: the folder, instead of the modules' own")
    options = parser.parse_args(arguments)
    try:
        models = read_manifest()
        if options.command == "list":
            for model in models.values():
                print(f"{model.name:36} {model.module:22} {model.reason}")
            return 0
        if options.command == "cfg" and options.name is None:
            _write_configs(models.values(), options.into)
            return 0
        if options.name not in models:
            parser.error(f"there is no model {options.name!r}; `list` shows all")
        return _show(options.command, models[options.name])
    except (ManifestError, OSError, TlcNotFoundError, TlcError) as error:
        print(error, file=sys.stderr)
        return 2


def _write_configs(models: Iterable[Model], into: Path | None) -> None:
    paths = module_paths()
    first = {model.module: model for model in reversed([*models])}
    for module, model in sorted(first.items()):
        path = ((into or paths[module].parent) / module).with_suffix(".cfg")
        path.write_text(_config(model), encoding="utf-8")
        print(f"{path}: {model.name}")


def _config(model: Model) -> str:
    return (
        f"\\* {model.name}: {model.reason}\n"
        f"\\* For {model.module}.tla.  Made from the manifest; change it there.\n"
        f"{model.config()}"
    )


def _show(command: str, model: Model) -> int:
    if command == "cfg":
        print(_config(model), end="")
        return 0
    result = run_model(model, spec_directory=find_spec_directory())
    _print_result(model, result)
    return 0 if (result.verdict, result.states, result.depth) == (model.expect, model.states, model.depth) else 1


def _print_result(model: Model, result: TlcResult) -> None:
    for number, step in enumerate(result.trace, start=1):
        print(f"{number}: {step.action or 'initial state'}\n{format_state(step.state)}\n")
    if result.loop is not None:
        stays = result.loop == len(result.trace) - 1
        print("... and stays there for ever\n" if stays else f"... and again from state {result.loop + 1}, for ever\n")
    print(f"{model.name}: {result.verdict} (expected: {model.expect})")
    print(f"{result.states} distinct states, depth {result.depth}, {result.seconds:.1f} s, {result.version}")


if __name__ == "__main__":
    sys.exit(main())
