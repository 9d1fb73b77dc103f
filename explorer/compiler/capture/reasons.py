"""Why a graph breaks, and why a frame is left to run eagerly."""

from explorer.core.reasons import reason

UNTRACEABLE_CALL = reason(
    "break.untraceable_call",
    "call of a function that cannot be traced",
    "The function is written in C, or cannot be evaluated without the tensors' data, so Python calls it eagerly.",
    "Move the call out of the compiled function, or replace it by tensor operations.",
)
NUMPY = reason(
    "break.numpy",
    "NumPy code that is not traced",
    "Arrays are traced through torch._numpy. NumPy itself runs what torch._numpy lacks or computes differently.",
    "Use the PyTorch operator of the same meaning, or move the call out of the compiled function.",
)
PRINT = reason(
    "break.print",
    "call of print",
    "print may need a tensor's values and must run in program order, so the graph ends before it.",
    "Print outside the compiled function, or remove the call.",
)
ASKED = reason(
    "break.asked_for",
    "an explicit graph break",
    "torch._dynamo.graph_break() ends the graph where it is called.",
    "Remove the call.",
)
DISABLED = reason(
    "break.disabled",
    "a function that is excluded from compilation",
    "torch.compiler.disable or disallow_in_graph marks the function; Python runs it.",
    "Remove torch.compiler.disable if the function is yours. Torch's own functions that have it (an optimizer's "
    "zero_grad, for example) need no change.",
)
HIGHER_ORDER = reason(
    "break.higher_order",
    "a function that a higher-order operator cannot take",
    "The functions given to torch.cond, while_loop, scan, map and flex_attention must take and return tensors, and "
    "must not change anything outside of them.",
    "Return what the function computes instead of storing it.",
)
CUSTOM_FUNCTION = reason(
    "break.custom_function",
    "a torch.autograd.Function that reads or changes state",
    "Its methods run as one node of the graph. What they read has to be guarded, and what they change would be lost.",
    "Pass what it reads to apply as an argument.",
)
ITEM = reason(
    "break.item",
    "a tensor's value is read by Python",
    "The value is known only once the graph has run, so the graph ends here and Python reads it.",
    "Keep the value in a tensor; use torch.where or masking instead of Python numbers.",
)
DATA_DEPENDENT_BRANCH = reason(
    "break.data_dependent_branch",
    "a branch depends on a tensor's value",
    "Which branch Python takes is known only once the graph has run.",
    "Use torch.where, or branch on shapes or Python bools instead of tensor values.",
)
DYNAMIC_OUTPUT = reason(
    "break.dynamic_output_shape",
    "an operator's output size depends on a tensor's value",
    "nonzero, boolean masks, unique and their like have sizes known only once they have run.",
    "Use operators of fixed size, such as torch.where(condition, a, b) or a mask that multiplies.",
)
OP_RAISED = reason(
    "break.operator_raised",
    "an operator raises an error for its arguments",
    "The operator raises an error for these inputs. It runs eagerly, so that the program gets PyTorch's own error.",
    "Eager raises this error too, unless it depends on a value that is known only when the program runs.",
)
REFUSED_LATE = reason(
    "break.refused_late",
    "a call that may raise an error for its values, after a write that autograd records",
    "An index may be out of bounds. The graph has then written an input, and autograd has recorded it: that cannot "
    "be undone, so the function could not be run again to keep its other effects or to handle the error.",
    "Index before the write, or without a try statement around it.",
)
OVERLAPPING_WRITE = reason(
    "break.overlapping_write",
    "an operator writes memory that it also reads as another element",
    "The result of such a write, or whether it raises an error, depends on the operator's implementation, so the "
    "operator runs eagerly.",
    "Clone the tensor that is written, or the one that is read.",
)
RAISES = reason(
    "break.exception_leaves_frame",
    "an exception leaves the function",
    "The function raises for these inputs. Its last part runs eagerly, so that the exception has Python's own message"
    " and traceback.",
)
MODULE_CALL = reason(
    "capture.module_call",
    "the graph calls modules",
    "Parameters have to be inputs of the graph, so that gradients can flow to them.",
    "Hand over a graph whose parameters are inputs, as torch.compile's own backends get it.",
)
THE_PROGRAMS = (RAISES, OP_RAISED)
"""Breaks where the program itself raises: it does so for real, under fullgraph too."""

GENERATOR = reason(
    "break.generator",
    "a generator is alive where the graph ends",
    "A suspended generator cannot be passed from the compiled code to Python.",
    "Collect the generator's items into a list before the break.",
)
NOT_RECONSTRUCTED = reason(
    "break.value_not_rebuilt",
    "a value cannot be reconstructed for Python",
    "The value exists only symbolically and Python needs it at this point.",
)
ATTRIBUTE = reason(
    "break.attribute",
    "an attribute that cannot be read or set symbolically",
    "The object's type computes this attribute in C, or reading it has an effect.",
    "Read or set the attribute before or after the compiled function.",
)
OPERATION = reason(
    "break.operation",
    "an operation on a value that has no symbolic form",
    "The evaluator has no rule for this operation on this kind of value.",
    "Move the operation out of the compiled function, or write it with tensors, numbers and plain containers.",
)
TENSOR_SUBCLASS = reason(
    "break.tensor_subclass",
    "a tensor subclass",
    "Subclasses of torch.Tensor with their own __torch_function__ or __torch_dispatch__ are run by Python.",
    "Unwrap it before the call (as_subclass(torch.Tensor), or the tensor that it holds).",
)
SPARSE = reason(
    "break.layout",
    "a kind of tensor that is not captured",
    "Operations on sparse, nested and quantized tensors, and on inference tensors outside of inference mode, run "
    "eagerly.",
    "Convert it before the call: to_dense(), to_padded_tensor(), dequantize(), or clone() outside of inference mode.",
)
OPCODE = reason(
    "break.opcode", "an instruction that is not evaluated", "The evaluator has no rule for this bytecode instruction."
)
INLINE_DEPTH = reason(
    "break.inline_depth",
    "calls nested too deep",
    "The call is deeper than the configured inline depth; Python makes it.",
    "Pass a larger options={'inline_depth': 64} to explore or compile, or flatten the recursion.",
)
STEPS = reason(
    "frame.too_long",
    "the function takes too many steps to trace",
    "Loops are unrolled while tracing, and this one is too long.",
    "Vectorize the loop, or keep it outside the compiled function.",
)
AUTOGRAD_CALL = reason(
    "break.autograd_call",
    "a call into autograd",
    "backward(), grad() and hooks run on real tensors.",
    "Compile the forward function and call backward outside it.",
)
GRADIENT_INSIDE = reason(
    "break.gradient_inside",
    "a gradient of a tensor that the same graph makes and uses",
    "A compiled graph is one node of autograd's graph and has no gradients for tensors inside it, so the "
    "call runs eagerly.",
    "Compute the tensor and what is made of it in two compiled functions, or leave the gradient to torch.func.",
)
FRAME_KIND = reason(
    "frame.kind",
    "a kind of function that is not captured",
    "Generators, coroutines, class bodies and module bodies run eagerly; the functions that they call are captured.",
)
LOOP_TURN = reason(
    "break.loop_turn",
    "the next iteration of a loop that contains a graph break",
    "A loop with a graph break in its body and many iterations left is not unrolled. The code between two breaks is "
    "compiled once for all iterations, and Python advances the loop.",
    "Move the code that breaks the graph out of the loop, or stack the items and compute on all of them at once.",
)
FRAME_BREAK = reason(
    "frame.break_not_possible",
    "a graph break where the function cannot be split",
    "The values that are live here cannot be passed to a continuation, so the whole function runs eagerly.",
)
FRAME_MODE = reason(
    "frame.mode_active",
    "a torch mode is active around the call",
    "Every operation has to pass through the mode (FlopCounterMode, for example), and generated code does not.",
    "Call the compiled function outside the mode.",
)
FRAME_NO_TENSOR = reason(
    "frame.no_tensor",
    "a function that uses no tensor",
    "With these arguments there is nothing to compile, so Python runs the function.",
)
RECOMPILE_LIMIT = reason(
    "frame.recompile_limit",
    "compiled too many times",
    "Each call had values for which the guards of all earlier compiles fail. The function now runs eagerly.",
    "Turn the value that changes into a tensor, or make sizes dynamic with dynamic=True.",
)
COMPILER_BUG = reason(
    "frame.compiler_bug",
    "an error inside the compiler",
    "The compiler raised an error. The function runs eagerly, and the record holds the traceback.",
    "Please report it, with the saved record attached.",
)
FULLGRAPH = reason(
    "frame.fullgraph",
    "fullgraph=True does not allow a break",
    "The program asked for a single graph, and a graph break is needed here.",
)
