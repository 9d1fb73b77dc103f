"""Watch: what is recorded of an unmodified program, as a record that prints."""

from __future__ import annotations

from explorer.records.watching import WatchedProgram
from explorer.show.record import Bundle, Record


class Watch(WatchedProgram):
    """A context manager that records while the program runs unchanged. `record` is the record so far; printing the
    watch lists what was compiled, recompiles with their causes, errors, and what ran eagerly.

    A watch records all threads. Only one can be active; explorations inside it are not part of it. Stock's compiles are
    converted when the record is first read; until then the captured graphs are kept alive.
    """

    @property
    def record(self) -> Record:
        return Record(self.contents)

    def __repr__(self) -> str:
        return repr(self.record)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        if self._view is not None and self._view.is_above():
            return {"text/plain": f"{self.title}: the record is shown above"}, {}
        return self.record._repr_mimebundle_(include, exclude)
