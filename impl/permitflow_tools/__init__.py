"""Tools beside the library: the command line, checking, simulation, pictures of runs."""
