"""``python -m permitflow.cli``."""

from permitflow.cli.application import main

main()
