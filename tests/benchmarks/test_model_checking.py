"""The larger models that are measured fit the specification as it stands."""

import pytest

from benchmarks.model_checking import MODELS, larger_model
from permitflow_model.exploration import parameters_for


@pytest.mark.parametrize("name", MODELS)
def test_larger_model_starts_with_all_its_permits(name: str) -> None:
    parameters = parameters_for(larger_model(name))
    assert parameters.initial_permits == parameters.row_permits
