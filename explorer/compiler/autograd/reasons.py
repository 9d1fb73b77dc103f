"""Why a graph is not traced ahead of time, and why a forward value is saved for the backward or recomputed."""

from explorer.core.reasons import reason

ORDINARY = "Write the computation with ordinary tensor operations, or keep it outside the compiled function."

HIGHER_ORDER = reason(
    "autograd.higher_order",
    "an operator that takes a graph",
    "Higher-order operators (checkpoint, cond, flex_attention, a custom autograd.Function) carry subgraphs that the "
    "joint trace does not enter.",
    ORDINARY,
)
DATA_DEPENDENT = reason(
    "autograd.data_dependent",
    "a size or number that is known only when the program runs",
    "The trace runs without data, so a size or number that is computed from tensors, drawn at random or made by a "
    "conversion of a number cannot be traced.",
    "Keep calls such as item(), nonzero(), boolean indexing and random.random() outside the compiled function.",
)
ALIASED_MUTATION = reason(
    "autograd.aliased_mutation",
    "an input that shares memory with another one is written",
    "Writing one input changes the other as well; compiled code would read the old value of the other.",
    "Pass a clone, or pass the base tensor once and take views of it inside.",
)
OUT_DTYPE = reason(
    "autograd.out_dtype",
    "out= has a different dtype than the result",
    "Some operators convert the result to that dtype, and others raise an error; which of them is known "
    "only at run time.",
    "Give out= the dtype of the result.",
)
OVERLAPPING_WRITE = reason(
    "autograd.overlapping_write",
    "an expanded or unfolded tensor is written",
    "Its elements share places in memory or leave some out, and a functional graph does not write it back exactly.",
    "Write the tensor before expanding or unfolding it, or clone the result.",
)
NOT_FUNCTIONAL = reason(
    "autograd.not_functional",
    "a change that has no functional form",
    "Setting tensor.data, torch.inference_mode, unsafe_split and one of several views whose base is written later "
    "cannot be expressed in a functional graph.",
    "Use copy_() or a new tensor instead of tensor.data, torch.no_grad() instead of inference_mode, torch.split() "
    "instead of unsafe_split.",
)
STORAGE_CHANGED = reason(
    "autograd.storage_changed",
    "an input's storage is replaced or resized",
    "set_() and resize_() on an input change which memory it owns; that cannot be replayed on the caller's tensor.",
    "Return the new tensor instead of changing the input's storage.",
)
RESIZED = reason(
    "autograd.resized",
    "out= is resized",
    "Resizing out= changes the caller's tensor, and whatever shares its memory. The strides that the operator would "
    "give it, and its warning if the tensor has elements, are known only to eager.",
    "Give out= the shape of the result.",
)
DRAW_ORDER = reason(
    "autograd.draw_order",
    "normal_() writes a view with gaps",
    "On a CPU, eager draws different numbers for a tensor with gaps in memory than for a dense one, as a "
    "functional graph would make.",
    "Draw a new tensor, as with torch.randn, and copy it into the view.",
)
STORAGE_WRITE = reason(
    "autograd.storage_write",
    "a view of an input made by as_strided is written",
    "as_strided addresses the whole storage, so the write may fall outside of the input; a functional graph cannot "
    "express that.",
    "Write through slices of the input.",
)
RESTRIDED_ALIAS = reason(
    "autograd.restrided_alias",
    "a view of an input whose own shape changes in place",
    "A result is a view of an input that t_(), unsqueeze_() or the like also changes; the order of the two matters.",
    "Use the out-of-place form (t, unsqueeze).",
)
NEW_LEAF = reason(
    "autograd.new_leaf",
    "a new leaf tensor that requires grad is returned",
    "requires_grad_() on a tensor made inside the function gives a leaf whose .grad the caller may read.",
    "Create the leaf outside the compiled function.",
)
CONSTANT_GRAD = reason(
    "autograd.constant_grad",
    "a captured constant requires grad",
    "Gradients flow only to the inputs of a captured graph; a parameter held as a constant would get none.",
    "Pass the parameter as an input of the graph.",
)
CONSTANT_MUTATION = reason(
    "autograd.constant_mutation",
    "a captured constant is written",
    "Constants are part of the compiled program and shared between calls; writing one would leak between them.",
    "Pass the tensor as an input of the graph.",
)
REQUIRES_GRAD_CHANGED = reason(
    "autograd.requires_grad_changed",
    "requires_grad of an input is changed",
    "requires_grad_() on an input changes the caller's tensor in a way that the traced graph does not replay.",
    "Call requires_grad_() outside the compiled function.",
)
ALIAS_UNKNOWN = reason(
    "autograd.alias_unknown",
    "results share memory in a way that cannot be replayed",
    "Several results are views of one tensor made inside, and autograd knows no common base for them.",
    "Return the base tensor too, or clone one of the results.",
)
HOOKED_VIEW = reason(
    "autograd.hooked_view",
    "a hook of a view that shares memory with a result",
    "Results that share memory with an input or another result are made as views outside of the compiled forward, and "
    "a hook that was registered inside of it does not see their gradients.",
    "Register the hook on what the function returns, or return a clone.",
)
MUTABLE_OPERATOR = reason(
    "autograd.mutable_operator",
    "an operator writes its arguments and has no functional form",
    "The trace replaces in-place operators by functional ones; this operator has no such form.",
    "Register a functional variant of the operator, or keep it outside the compiled function.",
)
LISTS_OF_RESULTS = reason(
    "autograd.lists_of_results",
    "an operator yields lists of tensors among other results",
    "The traced graph names each result of an operator by its number; a list among the results has none of its own.",
    "Keep the call, as of a GradScaler's unscale_(), outside the compiled function.",
)
LAZY_BIT = reason(
    "autograd.lazy_bit",
    "a tensor with the conjugate or negative bit",
    "The tensor is a lazy conjugate or negation (its conj or neg bit is set), and generated code reads only memory.",
    "Use x.resolve_conj() or x.resolve_neg().",
)
TENSOR_KIND = reason(
    "autograd.tensor_kind",
    "a tensor that is not a plain strided one",
    "Sparse, nested and quantized tensors and tensor subclasses are not traced.",
    "Convert to a plain tensor before the compiled function.",
)
TRACE_FAILED = reason(
    "autograd.trace_failed",
    "the operators raise an error on these inputs",
    "Running the captured operators without data raised an error; eager execution is expected to raise the same error.",
    "Read the error of the eager run.",
)

KEPT_CUT = reason(
    "autograd.kept.cut",
    "saved: the smallest cut",
    "A minimum cut: of the values from which the backward can compute the rest cheaply, those with the fewest bytes in "
    "total are saved.",
)
KEPT_LIBRARY = reason(
    "autograd.kept.library",
    "saved: costly to recompute",
    "The value comes from a matrix product, a convolution, attention or another library call.",
)
KEPT_RANDOM = reason("autograd.kept.random", "saved: random", "Recomputing it would draw different numbers.")
KEPT_REDUCTION = reason(
    "autograd.kept.reduction",
    "saved: a small result of a large reduction",
    "The result has at most a quarter of the elements that are reduced, so reading it is cheaper than reducing again.",
)
KEPT_SIZE = reason("autograd.kept.size", "saved: a size", "A number, saved beside the tensors.")
KEPT_COPY = reason(
    "autograd.kept.copy",
    "saved: a copy of an input",
    "The backward needs the value that the input has in the forward. The call writes the input, or the caller may "
    "write it before the backward, which is no error because eager does not save it.",
)
KEPT_INPUT = reason(
    "autograd.kept.input",
    "an input: in memory anyway",
    "The backward reads the input itself; only a reference is saved.",
)
KEPT_IN_MEMORY = reason(
    "autograd.kept.in_memory",
    "saved: in memory anyway",
    "A later kernel of the forward reads the value after a library call, so it is written to memory in any case; "
    "starting from it avoids redoing the chain that led to it.",
)
KEPT_OPERAND = reason(
    "autograd.kept.operand",
    "saved: operand of a library call in the backward",
    "A library call needs the value in memory; recomputing it would write it as well.",
)
RECOMPUTED_CHEAP = reason(
    "autograd.recomputed.cheap",
    "recomputed: cheap",
    "Recomputing this pointwise work inside the backward's kernels costs less than writing and reading the value.",
)
RECOMPUTED_VIEW = reason(
    "autograd.recomputed.view", "recomputed: a view", "A view of a tensor that is in memory costs nothing."
)
RECOMPUTED_CONSTANT = reason(
    "autograd.recomputed.constant",
    "recomputed: no inputs",
    "The value depends on no input (a fill, a range), so recomputing it reads no memory.",
)
RECOMPUTED_CHECKPOINT = reason(
    "autograd.recomputed.checkpoint",
    "recomputed: inside a checkpoint",
    "torch.utils.checkpoint asks for the values inside to be computed again in the backward, whatever that costs.",
)
USER_PASS = reason(
    "autograd.user_pass",
    "a pass made a graph that does not run",
    "The graph that a user's pass returned raises an error on the example's shapes, or calls a submodule.",
    "Insert function calls (torch.nn.functional) rather than modules, and check shapes and dtypes.",
)
YOUR_PASS = reason(
    "autograd.your_pass",
    "your pass raised an error",
    "A pass given in passes= raised an error. The graph runs eagerly, so its results are right.",
    "The detail names the pass, the error and the line that raised it.",
)
CHECKS_VALUES = reason(
    "autograd.checks_values",
    "a backward that checks its values",
    "The backward of complex eigenvectors raises an error if the result depends on their phase, which "
    "only values show.",
    "Call it outside of the compiled function, or under torch.no_grad().",
)
OBSERVED = reason(
    "autograd.observed",
    "a call whose backward is observed operator by operator",
    "Anomaly mode and hooks of saved tensors see each operator of eager's backward. Where only some outputs are "
    "computed from an input, a backward of the others must not reach the hooks and operators that the input comes "
    "from. One backward function for the whole graph cannot do this, so this call of the graph runs eagerly.",
    "Remove the hook or the mode, compile what computes the input too, or return only outputs computed from it.",
)
