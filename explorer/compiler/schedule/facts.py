"""What fusion asks about the program again and again, worked out once."""

from __future__ import annotations

from explorer.compiler.schedule.deps import storages
from explorer.compiler.schedule.group import Group, GroupAccess
from explorer.compiler.schedule.items import private
from explorer.compiler.schedule.kernels import size_hint
from explorer.ir.loops import Axis, Loop
from explorer.ir.schedule import Dependencies


class Facts:
    """Facts about the buffers of one program; sizes are by hints where they are symbolic."""

    def __init__(self, dependencies: Dependencies) -> None:
        loops = dependencies.loops
        self.hints = loops.hints
        self.users = dependencies.users
        self.private = private(dependencies)
        self.storage = storages(loops.buffers)
        owners = [owner for name, owner in self.storage.items() if owner != name]
        self.updated = frozenset(owners)
        """Storages that more than one buffer name stands for."""
        self.bytes = {
            name: size_hint(buffer.layout.numel, self.hints) * buffer.layout.dtype.itemsize
            for name, buffer in loops.buffers.items()
        }
        self.itemsize = {name: buffer.layout.dtype.itemsize for name, buffer in loops.buffers.items()}
        self.position = {operation.id: at for at, operation in enumerate(loops.operations)}

    def moved(self, group: Group, access: GroupAccess) -> int:
        """Bytes that a access moves over the whole kernel, each element counted once."""
        index = group.at(access)
        most = self.bytes[access.element.buffer]
        if index.non_affine is not None or not access.element.exact:
            return most
        points = 1
        for axis in group.axes:
            if axis.symbol in index.terms:
                points *= size_hint(axis.size, self.hints)
        return min(most, points * self.itemsize[access.element.buffer])

    def rows(self, group: Group) -> tuple[int, int]:
        """Numbers of points of the outer and of the inner axes."""
        return self.points(group.outer), self.points(group.inner)

    def points(self, axes: tuple[Axis, ...]) -> int:
        total = 1
        for axis in axes:
            total *= size_hint(axis.size, self.hints)
        return total


def scatters(loop: Loop) -> bool:
    """Whether several points may update one element, or where is known only from data."""
    return loop.store != "set" or bool(loop.indirect)
