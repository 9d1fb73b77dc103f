"""The programs behind tests/programs.py, one file per subject."""
