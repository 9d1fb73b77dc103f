"""Why operations do or do not become one kernel, and why a buffer lives where it does."""

from collections.abc import Sequence

from explorer.core.reasons import reason
from explorer.ir.loops import Size

# Why two operations are one kernel.

PRODUCER_CONSUMER = reason(
    "fuse.producer_consumer",
    "the second uses the value just computed by the first",
    "Each element that the first operation writes is read by the second at the same point of the loop, so it stays in"
    " a register. This saves the read from memory, and the write too where no other kernel reads it.",
)
SAME_READS = reason(
    "fuse.same_reads",
    "both read the same elements",
    "The two operations walk over the same points and read the same elements of a buffer there, so these are loaded "
    "once for both.",
)
REDUCTION_PROLOGUE = reason(
    "fuse.reduction_prologue",
    "a pointwise operation feeds a reduction",
    "The reduction takes each element as it is computed, so the elements are not stored in memory in between.",
)
REDUCTION_EPILOGUE = reason(
    "fuse.reduction_epilogue",
    "an operation uses a reduction's result for the same row",
    "A row is reduced to one result. The operation uses it before the kernel starts the next row.",
)
SAME_ROWS = reason(
    "fuse.same_rows",
    "both work through the same rows",
    "Both operations go over the same rows and read the same elements of them, as the reductions of a softmax or of a "
    "layer norm do: a row is fetched once and is in cache for both.",
)
BROADCAST = reason(
    "fuse.broadcast",
    "the first computes one value for each row of the second",
    "The value is computed once for each row and used along the row from a register.",
)
SAME_SPACE = reason(
    "fuse.same_space",
    "both have the same loops",
    "Both read the same tensor, but different elements of it at each point, so no memory traffic is saved. Their "
    "loops have the same sizes, so one kernel launch replaces two.",
)

# Why two operations stay apart.

LIBRARY_CALL = reason(
    "refuse.library_call",
    "a library call runs as it is",
    "One of the two is a call of a library operator (a matrix product, a convolution, an operator with no lowering "
    "rule). Its loops are inside the library, where no other operation can be added.",
    "Write the operation with pointwise and reduction operators, or accept the call: libraries win on large products.",
)
ITERATION_SPACE = reason(
    "refuse.iteration_space",
    "they loop over different points",
    "A kernel has one set of loops. The loops of these two have different sizes, or they reduce over different axes.",
    "Give both the same shape (and reduce over the same axes).",
)
DIFFERENT_POINT = reason(
    "refuse.different_point",
    "the second reads a different element than the first has just written",
    "At each point of the loop the second operation needs an element that the first writes at another point (a shift,"
    " a flip, a transpose of the same buffer), which another thread may not have written yet.",
    "Read the element at the same position: drop the shift, flip or roll, or move it to the kernel's inputs.",
)
REDUCTION_FIRST = reason(
    "refuse.reduction_first",
    "the whole reduction must be finished first",
    "The second operation needs results of the reduction for rows other than its own, and these are complete only "
    "after the first kernel.",
    "Use the reduction's result only in its own row (keepdim=True and broadcasting along the reduced axes).",
)
CYCLE = reason(
    "refuse.cycle",
    "a third operation must run between the two",
    "The third needs the first and is needed by the second, so a kernel holding both would have to run before and "
    "after it.",
    "Remove one of the two dependencies on the operation in between, or make that operation one that can be fused too.",
)
DEVICE = reason(
    "refuse.device",
    "they run on different devices",
    "A kernel runs on one device.",
    "Move the tensors to one device before these operations.",
)
NOTHING_SHARED = reason(
    "refuse.nothing_shared",
    "they share no data",
    "Neither reads what the other writes, and they read no tensor in common, so one kernel would move as many bytes "
    "as two.",
    "No change is needed, unless both were meant to read the same tensor.",
)
OTHER_ELEMENTS = reason(
    "refuse.other_elements",
    "they read different elements of the same tensor",
    "Neither uses the other's result. At each point they read different elements of the tensor that both read, so one"
    " kernel would move as many bytes as two.",
    "No change is needed: fusing them would save no memory traffic.",
)
SCATTER = reason(
    "refuse.scatter",
    "elements are updated at positions that come from data",
    "The first operation writes at positions known only when it runs, and several points may update one element: no "
    "element is final until the whole loop has ended.",
    "Where the positions are regular, write with slices or torch.where.",
)
INDIRECT = reason(
    "refuse.indirect",
    "the second reads at positions that come from data",
    "Which elements of the first operation's result are read (an embedding, a gather) is known only when the kernel "
    "runs, so they must all be in memory before.",
    "Index first and compute on the result, where that means the same.",
)
MUTATION = reason(
    "refuse.mutation",
    "one overwrites memory that the other reads",
    "Both access one storage and one changes it in place. In one kernel a point could read an element already "
    "overwritten at another point.",
    "Use the out-of-place form of the operation, or clone before it.",
)
TOO_LARGE = reason(
    "refuse.too_large",
    "the kernel would hold too much",
    "With more operations or buffers the kernel would run out of registers and spill, which costs more than it saves.",
    "No change is needed; the limit splits only very large groups.",
)
MEMORY_ORDER = reason(
    "refuse.memory_order",
    "their results lie in memory in different orders",
    "Both results are kept, and they are contiguous along different axes (one is the transpose of the other). One loop "
    "would jump through memory for one of them, which costs more than reading the first result again.",
    "Keep only one of the two results, or give both the same memory format.",
)
FAR_APART = reason(
    "refuse.far_apart",
    "they are far apart in the program",
    "The two only share an input. One kernel would run when the later of them can, and keep what the earlier one needs "
    "alive until then.",
    "Bring the two uses of the tensor closer together.",
)
SERIAL = reason(
    "refuse.serial",
    "one kernel would keep too few threads busy",
    "In one kernel each row is reduced and then read again by one thread, and there are too few long rows to keep all "
    "threads busy; two kernels each spread their work evenly.",
    "No change is needed: the two kernels use more threads here.",
)
DISABLED = reason(
    "refuse.disabled",
    "fusion is switched off",
    "The configuration asks for one kernel for each operation.",
    "Pass options={'fuse': True} to explore or compile.",
)
FORBIDDEN = reason(
    "refuse.forbidden",
    "you asked not to fuse these two",
    "Record.edit was called with this pair in forbid=, or the pair was chosen in the viewer.",
    "Allow the pair again to see what its fusion saves.",
)
KERNELS = reason(
    "refuse.kernels",
    "the two operations could be fused, but the kernels that contain them cannot",
    "Each operation was first fused with others, because that saved more memory traffic, and those prevent this "
    "fusion.",
    "See the reason given for the two kernels.",
)

# Where a buffer lives.

NEVER = reason(
    "memory.never",
    "never in memory",
    "The kernel that computes it also holds all its readers, so its elements live in registers.",
)
RETURNED = reason(
    "memory.returned", "the caller receives it", "A returned tensor outlives the call, so it has memory of its own."
)
UNKNOWN_SIZE = reason(
    "memory.unknown_size",
    "its size is not known at compile time",
    "The size depends on a dynamic size of the inputs, so the buffer cannot have a fixed place in the pool.",
    "Compile with dynamic=False to have one plan for each size.",
)
LIBRARY = reason(
    "memory.library",
    "the library operator allocates it",
    "The operator returns a new tensor and cannot write into a given buffer.",
)
POOL = reason(
    "memory.pool",
    "it has a place in the pool",
    "Buffers that are never alive at the same time share bytes of one allocation.",
)
IN_PLACE = reason(
    "memory.in_place",
    "it overwrites a buffer that is not needed again",
    "The kernel reads each element of the other buffer only at the point where it writes this one, and no later "
    "kernel reads the other buffer.",
)
TAKEN_OVER = reason(
    "memory.taken_over",
    "it takes the memory of a buffer that is no longer needed",
    "Both have the same size, and the other buffer's last reader ran before this one is written.",
)
ALIAS = reason(
    "memory.alias", "it is a new value in the same storage", "The operation updates an existing tensor in place."
)
SHORT_LIVED = reason(
    "memory.short_lived",
    "it is large and lives for a short time",
    "The pool is allocated for the whole call. It would grow by more than a separate tensor costs, which is freed "
    "after its last use.",
)
OTHER_DEVICE = reason(
    "memory.other_device",
    "the pool is on another device",
    "The pool is one allocation on the device that most buffers are on.",
)


def loops_text(outer: Sequence[Size], reduced: Sequence[Size]) -> str:
    """A group's loops for a person: "[4, 8]", "[4] reducing [8]", "[] reducing [8]"."""
    points, inside = (f"[{', '.join(map(str, sizes))}]" for sizes in (outer, reduced))
    if not reduced:
        return points
    return f"{points} reducing {inside}"
