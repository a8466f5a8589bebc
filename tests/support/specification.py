"""The specification's folder and all models of its manifest, read once for all tests that take their cases from it."""

from pathlib import Path

from permitflow_model.manifest import read_manifest

SPEC = Path(__file__).parents[2] / "spec"
MODELS = read_manifest(SPEC)
