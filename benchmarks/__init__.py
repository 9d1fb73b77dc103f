"""The project's figures, each measured by a command: `python -m benchmarks [NAME...]`. One file a figure."""
