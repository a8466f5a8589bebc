"""``python -m permitflow.cli``."""

from permitflow.cli import main

main()
