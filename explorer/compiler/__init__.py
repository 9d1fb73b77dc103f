"""The compiler: from a Python function to machine code, one folder a stage. It stands on `core` and `ir` alone."""
