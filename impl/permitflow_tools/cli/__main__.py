"""``python -m permitflow_tools.cli``."""

from permitflow_tools.cli import main

main()
