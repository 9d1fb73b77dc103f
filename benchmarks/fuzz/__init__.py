"""Random programs, run by eager and by the compiler, and compared: `python -m benchmarks fuzz`."""
