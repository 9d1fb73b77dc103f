"""Facts about classes."""


def is_written_in_c(cls: type) -> bool:
    """Whether C code declares the class: then it cannot be changed (Py_TPFLAGS_IMMUTABLETYPE). From Python 3.12 on some
    of them are on the heap, as classes that are written in Python are."""
    return bool(cls.__flags__ & 1 << 8)
