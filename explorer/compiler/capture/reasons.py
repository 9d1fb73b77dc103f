"""Why a graph breaks, and why a frame is left to run eagerly."""

from explorer.core.reasons import reason

UNTRACEABLE_CALL = reason(
    "break.untraceable_call",
    "call of a function that cannot be traced",
    "The callee is written in C, or does something that has no meaning on symbolic values; Python runs it for real.",
    "Move it out of the compiled function, or replace it by tensor operations.",
)
NUMPY = reason(
    "break.numpy",
    "NumPy code that is not traced",
    "Arrays are traced through torch._numpy; what it lacks, or answers otherwise than NumPy, NumPy computes for real.",
    "Use the PyTorch operator of the same meaning, or move the call out of the compiled function.",
)
PRINT = reason(
    "break.print",
    "call of print",
    "Output has to appear in order and shows real values, so the graph ends before it.",
    "Print outside the compiled function, or remove the call.",
)
ASKED = reason(
    "break.asked_for",
    "the program asks for a break",
    "torch._dynamo.graph_break() ends the graph where it is called.",
    "Remove the call.",
)
DISABLED = reason(
    "break.disabled",
    "a function that is not to be compiled",
    "torch.compiler.disable or disallow_in_graph marks the function; Python runs it.",
    "Remove the mark where the function is yours. Torch's own (an optimizer's zero_grad, say) need no change.",
)
HIGHER_ORDER = reason(
    "break.higher_order",
    "a function that a higher-order operator cannot take",
    "The functions of torch.cond, while_loop, scan, map and flex_attention take and return tensors, and change nothing "
    "that is outside of them.",
    "Return what the function computes in place of storing it.",
)
CUSTOM_FUNCTION = reason(
    "break.custom_function",
    "a torch.autograd.Function that reads or changes state",
    "Its methods run as one node of the graph; what they read has to be guarded, and what they change would be lost.",
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
    "Which way Python goes is known only once the graph has run.",
    "Use torch.where, or branch on shapes and flags instead of values.",
)
DYNAMIC_OUTPUT = reason(
    "break.dynamic_output_shape",
    "an operator's output size depends on a tensor's value",
    "nonzero, boolean masks, unique and their like have sizes known only once they have run.",
    "Use operators of fixed size, such as torch.where(condition, a, b) or a mask that multiplies.",
)
OP_RAISED = reason(
    "break.operator_raised",
    "an operator refuses its arguments",
    "The operator raises for inputs like these; it runs for real, so that its own error reaches the program.",
)
OVERLAPPING_WRITE = reason(
    "break.overlapping_write",
    "an operator writes memory that it reads as another element",
    "What such a write leaves, or whether it is refused, is up to the operator; it runs for real.",
    "Clone the tensor that is written, or what is read.",
)
RAISES = reason(
    "break.exception_leaves_frame",
    "an exception leaves the function",
    "The function raises for inputs like these; the last part runs for real, with Python's own traceback and message.",
)
GENERATOR = reason(
    "break.generator",
    "a generator is alive where the graph ends",
    "A suspended generator cannot be handed to Python half way through.",
    "Consume the generator into a list before the break.",
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
)
OPERATION = reason(
    "break.operation",
    "an operation on a value that has no symbolic form",
    "The evaluator has no rule for this operation on this kind of value.",
)
TENSOR_SUBCLASS = reason(
    "break.tensor_subclass",
    "a tensor subclass",
    "Subclasses of torch.Tensor with their own __torch_function__ or __torch_dispatch__ are run by Python.",
)
SPARSE = reason(
    "break.layout",
    "a tensor that is not strided",
    "Sparse, nested, quantised and other layouts are run by Python.",
)
OPCODE = reason(
    "break.opcode",
    "an instruction that is not evaluated",
    "The evaluator has no rule for this bytecode instruction.",
)
INLINE_DEPTH = reason(
    "break.inline_depth",
    "calls nested too deep",
    "The call is deeper than the configured inline depth; Python makes it.",
    "Raise options={'inline_depth': ...}, or flatten the recursion.",
)
STEPS = reason(
    "frame.too_long",
    "the frame takes too many steps",
    "Loops are unrolled while they are traced; this one is too long to be worth it.",
    "Vectorise the loop, or keep it outside the compiled function.",
)
AUTOGRAD_CALL = reason(
    "break.autograd_call",
    "a call into autograd",
    "backward(), grad() and hooks run on real tensors.",
    "Compile the forward function and call backward outside it.",
)
FRAME_KIND = reason(
    "frame.kind",
    "a kind of function that is not captured",
    "Generators, coroutines, class bodies and module bodies run as they are; functions they call are captured.",
)
LOOP_TURN = reason(
    "break.loop_turn",
    "the next turn of a loop that breaks",
    "A loop that leaves the graph in its turns and has many left is not unrolled: what lies between two breaks is "
    "compiled once, for all turns, and Python takes the next item.",
    "Move what breaks out of the loop, or stack the items and compute on all of them at once.",
)
FRAME_BREAK = reason(
    "frame.break_not_possible",
    "a break where the frame cannot be split",
    "The values alive at this point cannot be handed to a continuation, so the frame runs as it is.",
)
FRAME_MODE = reason(
    "frame.mode_active",
    "a torch mode is active around the call",
    "Every operation has to pass through the mode (FlopCounterMode, say), which generated code would not.",
    "Call the compiled function outside the mode.",
)
FRAME_NO_TENSOR = reason(
    "frame.no_tensor",
    "a function that touches no tensor",
    "A graph has nothing to gain here, so Python runs the function as it is, called with these arguments.",
)
FRAME_DECODE = reason(
    "frame.bytecode",
    "bytecode that is not understood",
    "The function's bytecode cannot be decoded; it runs as it is.",
)
RECOMPILE_LIMIT = reason(
    "frame.recompile_limit",
    "compiled too many times",
    "Each call brought new values that the guards of all earlier compiles refuse; the frame now runs as it is.",
    "Make what changes a tensor, or mark sizes dynamic with dynamic=True.",
)
COMPILER_BUG = reason(
    "frame.compiler_bug",
    "an error inside the compiler",
    "The compiler failed; the frame runs as it is, and the record holds the traceback.",
    "Please report it with the record attached.",
)
FULLGRAPH = reason(
    "frame.fullgraph",
    "fullgraph=True does not allow a break",
    "The program asked for one graph, and this place would end it.",
)
