"""Why a value is in memory, and why an operation is a library call."""

from explorer.core.reasons import reason

# Why a value is in memory rather than computed inside its readers.

OUTPUT = reason(
    "lower.output",
    "the graph returns it",
    "The caller receives this tensor, so it has to be in memory.",
    "Return fewer tensors; in training, what backward needs is returned by forward as well.",
)
REDUCTION = reason(
    "lower.reduction",
    "it is the result of a reduction",
    "A reduction visits many points for one result, so its readers use the finished result instead of repeating it.",
    "",
)
LIBRARY_ARGUMENT = reason(
    "lower.library_argument",
    "a library call reads it",
    "A library operator takes tensors in memory; what computes its argument cannot be put inside it.",
    "Replace the library operation by pointwise and reduction operations where that is no slower.",
)
LIBRARY_VIEW = reason(
    "lower.library_view",
    "a library call returns a view of it",
    "The strides say which elements the view has, so they are the same as in eager, gaps included.",
    "",
)
MANY_READERS = reason(
    "lower.many_readers",
    "storing it once moves fewer bytes than computing it for each reader",
    "Several operations read the value, and each would load all its operands again. If fusion puts the value into one"
    " kernel with all its readers, the store is removed.",
    "No change is needed. To avoid the buffer, use the value in one place.",
)
HEAVY_AND_REUSED = reason(
    "lower.heavy_and_reused",
    "it is costly to compute and used more than once",
    "The value takes a transcendental function or the like, and several operations (or several elements of one, by "
    "broadcasting) would compute it again.",
    "No change is needed. To avoid the buffer, use the value in one place.",
)
LARGE = reason(
    "lower.large",
    "its expression has grown too large for one loop body",
    "Inlining everything would give one very long loop body with many loads, slow to compile and short of registers.",
    "",
)
MUTATION = reason(
    "lower.mutation",
    "a tensor is updated in place",
    "The value reads a tensor that the program updates in place, so it is computed before the update; or it is the "
    "new content of that tensor.",
    "Update out of place, or use the value before the update only.",
)
SCATTER = reason(
    "lower.scatter",
    "it is written at positions that come from data",
    "An index tensor gives the position of each value, and several may have the same one, so the result exists only "
    "in memory.",
    "Use a mask (torch.where) where the positions are known.",
)
LAYOUT = reason(
    "lower.layout",
    "it needs another memory layout",
    "The value is a view that strides cannot describe, or its reader needs different strides; it is copied.",
    "Keep the layout with which the value is produced.",
)
GATHERED = reason(
    "lower.gathered",
    "it is read at positions that come from data",
    "An index tensor selects the elements that are read, possibly the same one many times, so the value is computed "
    "once, before.",
    "Index first and compute afterwards.",
)
NUMBER = reason(
    "lower.number",
    "it is used as a number",
    "An operator takes the one element of a tensor as a Python number. The element is stored once, and the loops that "
    "use the number load it.",
    "",
)
CHECK = reason(
    "lower.check",
    "its indices are checked",
    "An index out of range raises an error even where the selected element is not used, so all indices are read here.",
    "",
)
PART = reason(
    "lower.part",
    "it is one part of a larger tensor",
    "Each of the concatenated tensors is written to its own part of the result. A single loop would have to test at "
    "every point which tensor it is in, which is slower.",
    "",
)

# Why an operation is a library call.

LIBRARY_MATMUL = reason(
    "lower.library_matmul",
    "the library's matrix product is used",
    "Matrix products are left to the tuned library (MKL, cuBLAS), which generated loops do not beat.",
    "",
)
LIBRARY_CONVOLUTION = reason(
    "lower.library_convolution",
    "the library's convolution is used",
    "Convolutions are left to the tuned library (oneDNN, cuDNN).",
    "",
)
LIBRARY_ATTENTION = reason(
    "lower.library_attention",
    "the library's fused attention is used",
    "Scaled dot-product attention is left to the library's fused kernel, which never stores the score matrix.",
    "",
)
LIBRARY_POOLING = reason(
    "lower.library_pooling",
    "the library's pooling or resampling is used",
    "Large windows, windows of other than two dimensions or of sizes that vary, gradients of maxima, and resampling "
    "are left to the library.",
    "",
)
LIBRARY_ALGEBRA = reason(
    "lower.library_algebra",
    "the library's linear algebra or Fourier transform is used",
    "Factorizations, solvers and Fourier transforms are left to the library (LAPACK, MKL, cuSOLVER, cuFFT).",
    "",
)
LIBRARY_SORT = reason(
    "lower.library_sort",
    "the library's sort or scan is used",
    "Sorting, selecting the largest and cumulative sums are not loops with independent points.",
    "",
)
UNPROVEN = reason(
    "lower.unproven",
    "an access to memory is not known to be in bounds",
    "From the ranges of the loops, the conditions and the guards it does not follow that each element read or written "
    "lies in its tensor, so the graph is run by eager kernels, which check.",
    "Please report it, with the saved record attached.",
)
OUT_OF_RANGE = reason(
    "lower.out_of_range",
    "an index is out of range",
    "The call selects an element that the tensor does not have. It runs eagerly and raises PyTorch's own error.",
    "Check the index.",
)
STORAGE = reason(
    "lower.storage",
    "it uses offsets into the caller's storage",
    "as_strided counts from the start of the storage, and the offset of the tensor in it is known only at run time.",
    "Use slices and transposes, which count from the tensor's first element.",
)
LIBRARY_CAT = reason(
    "lower.library_cat",
    "the library's concatenation is used",
    "Many tensors are concatenated. A single loop would have to test at every point which tensor it is in, so they "
    "are copied instead.",
    "",
)
RANDOM = reason(
    "lower.random",
    "it draws random numbers",
    "The library draws from the generator exactly as the eager program does, so seeds give the same numbers.",
    "",
)
NO_RULE = reason(
    "lower.no_rule",
    "there is no lowering rule for it",
    "The compiler has no loops for this operator, so it calls the operator of the library.",
    "Use operators that have a lowering, or register one with explorer.workbench(lowerings=...), as CONTRIBUTING.md "
    "(How to add) shows.",
)
DTYPE = reason(
    "lower.dtype",
    "loops do not compute in this dtype",
    "Loop bodies know floating point (16, 32, 64 bits), signed integers, uint8 and bool; the operator is called as it "
    "is for complex, quantized and 8-bit floating-point tensors.",
    "",
)
MIXED_DEVICES = reason(
    "lower.mixed_devices",
    "its tensors are on several devices",
    "One kernel runs on one device, so the library's operator is called. (A 0-dimensional tensor on the CPU is "
    "allowed: the kernel on the GPU receives its number.)",
    "Move the tensors to one device first.",
)
OTHER_DEVICE = reason(
    "lower.other_device",
    "its result is not on the device that kernels are generated for",
    "Kernels are generated for the GPU that the graph's tensors are on, or for the CPU where there is none. Results "
    "on other devices are left to the library.",
    "Create the tensor on the device of the others.",
)
DATA_DEPENDENT = reason(
    "lower.data_dependent",
    "a size or number depends on the values of a tensor",
    "The result's shape, or a Python number that is used as one, is known only after the tensor is computed.",
    "Avoid .item(), nonzero and boolean indexing inside the compiled region, or use torch.where.",
)
UNBOUND_SIZE = reason(
    "lower.unbound_size",
    "no input gives a size that is needed",
    "A symbolic size occurs only inside expressions (2 * s0) in the shapes of the inputs, so its value cannot be read "
    "from them.",
    "",
)
UNKNOWN_LAYOUT = reason(
    "lower.unknown_layout",
    "the tensor is not an array with strides",
    "Sparse tensors, nested tensors and tensor subclasses have no strides that loops could use.",
    "",
)
UNKNOWN_CALL = reason(
    "lower.unknown_call",
    "the graph calls something that is not an ATen operator",
    "Lowering knows calls of operators on tensors; this is a higher-order operator or a Python function.",
    "",
)
EMPTY_DIMENSION = reason(
    "lower.empty_dimension",
    "a dimension of size 0 is indexed",
    "No index is valid, so PyTorch's operator runs and raises its own error.",
    "",
)
PAST_ELEMENTS = reason(
    "lower.past_elements",
    "an operator may access memory outside its tensor",
    "as_strided and its relatives address the whole storage that a tensor lies in; a compiled intermediate has its "
    "own elements only.",
    "Use narrow, expand, unfold or indexing in place of as_strided.",
)
