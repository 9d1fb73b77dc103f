"""Triton's own cache of compiled kernels, whose files are checked before Triton reads them."""

from __future__ import annotations

from pathlib import Path

from triton.runtime.cache import FileCacheManager

from explorer.compiler.runtime.cache import confirm, intact, remove


class CheckedFiles(FileCacheManager):  # type: ignore[misc]
    """Triton's files, each with its checksum beside: a damaged one is as good as none, and is made again."""

    def has_file(self, filename: str) -> bool:
        return intact(Path(self._make_path(filename)))

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        path = Path(self._make_path(filename))
        if path.is_dir():
            remove(path)
        made: str = super().put(data, filename, binary)
        confirm(path)
        return made

    def get_group(self, filename: str) -> dict[str, str] | None:
        group: dict[str, str] | None = super().get_group(filename)
        if group is None or not all(Path(path).parent == Path(self.cache_dir) for path in group.values()):
            return None
        return group if all(map(self.has_file, group)) else None
