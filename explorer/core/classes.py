"""Facts about classes."""


def is_written_in_c(cls: type) -> bool:
    """Whether C code declares the class: then it cannot be changed (Py_TPFLAGS_IMMUTABLETYPE). From Python 3.12 on some
    of them are on the heap, as classes that are written in Python are."""
    return bool(cls.__flags__ & 1 << 8)


def name_in_messages(cls: type) -> str:
    """The name that errors of Python's C code give a class: with its module where C code declares it (tp_name)."""
    return f"{cls.__module__}.{cls.__name__}" if is_written_in_c(cls) and cls.__module__ != "builtins" else cls.__name__
