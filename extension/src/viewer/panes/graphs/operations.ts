// What kind of operation a node is, and what it does, in a few words. By the operator's name: a guide for the eye, no fact
// of the record.

import type { NodeData } from "../../record";

export type Sort = "input" | "constant" | "elementwise" | "reduction" | "matrix" | "view" | "index" | "creation" | "gradient" | "other";

export const SORTS: { readonly [sort in Sort]: string } = {
  input: "input or parameter",
  constant: "constant",
  elementwise: "elementwise",
  reduction: "reduction",
  matrix: "matrix product, convolution, attention",
  view: "view: no data moves",
  index: "indexing, gathering, joining",
  creation: "made from nothing",
  gradient: "autograd node",
  other: "other",
};

const MEANINGS: { readonly [sort in Sort]?: { readonly [name: string]: string } } = {
  elementwise: {
    add: "sum, element by element", sub: "difference, element by element", mul: "product, element by element",
    div: "quotient, element by element", neg: "the sign turned", abs: "absolute value", pow: "power", sqrt: "square root",
    rsqrt: "one over the square root", reciprocal: "one over it", exp: "e to the power of it", log: "natural logarithm",
    log1p: "logarithm of 1 + x", expm1: "e to the x, less 1", sin: "sine", cos: "cosine", tanh: "hyperbolic tangent",
    sigmoid: "logistic function, to between 0 and 1", relu: "negative values become 0", gelu: "x times the normal distribution's share below x",
    silu: "x times its sigmoid", erf: "error function", where: "picks from two by a condition", maximum: "the greater of two",
    minimum: "the lesser of two", clamp: "kept between two bounds", clamp_min: "kept above a bound", clamp_max: "kept below a bound",
    eq: "whether equal", ne: "whether not equal", lt: "whether less", le: "whether less or equal", gt: "whether greater",
    ge: "whether greater or equal", bitwise_and: "and, bit by bit", bitwise_or: "or, bit by bit", bitwise_not: "not, bit by bit",
    logical_and: "and", logical_or: "or", logical_not: "not", and_: "and", or_: "or", to: "another dtype or device",
    _to_copy: "a copy with another dtype, device or layout", clone: "a copy", copy_: "writes into its first input", dropout: "sets elements to 0 at random",
    masked_fill: "a value where a mask holds", square: "it times itself", floor: "rounded down", ceil: "rounded up",
    round: "rounded", sign: "its sign", remainder: "remainder of a division", floordiv: "quotient rounded down", mod: "remainder of a division",
    truediv: "quotient", add_: "adds in place", mul_: "multiplies in place", sub_: "subtracts in place", float: "as float32",
    threshold_backward: "gradient of relu", tanh_backward: "gradient of tanh", sigmoid_backward: "gradient of sigmoid",
    gelu_backward: "gradient of gelu", native_dropout: "sets elements to 0 at random, and says which",
  },
  reduction: {
    sum: "sum over dimensions", mean: "mean over dimensions", prod: "product over dimensions", amax: "greatest over dimensions",
    amin: "least over dimensions", max: "greatest", min: "least", argmax: "where the greatest is", argmin: "where the least is",
    any: "whether any holds", all: "whether all hold", var: "variance", std: "standard deviation", var_mean: "variance and mean",
    norm: "length of vectors", logsumexp: "logarithm of the sum of exponentials", cumsum: "running sum", softmax: "exponentials that sum to 1",
    _softmax: "exponentials that sum to 1", log_softmax: "logarithm of the softmax", _log_softmax: "logarithm of the softmax",
    layer_norm: "mean 0 and variance 1 over the last dimensions, then scaled", native_layer_norm: "layer normalisation, with mean and deviation",
    batch_norm: "mean 0 and variance 1 over the batch, then scaled", group_norm: "normalisation over groups of channels",
    rms_norm: "divided by the root of the mean square", cross_entropy: "loss: how unlikely the right classes were",
    nll_loss: "loss: the negative of the right classes' logarithms", mse_loss: "loss: mean of the squared differences",
    max_pool2d: "greatest of each window", max_pool2d_with_indices: "greatest of each window, and where it was",
    avg_pool2d: "mean of each window", adaptive_avg_pool2d: "mean of each window", max_pool2d_with_indices_backward: "gradient of max_pool2d",
    _softmax_backward_data: "gradient of softmax", native_layer_norm_backward: "gradients of layer normalisation",
  },
  matrix: {
    mm: "matrix product", bmm: "matrix products, one per batch entry", addmm: "matrix product plus a bias", baddbmm: "batched matrix products plus a bias",
    matmul: "matrix product", linear: "matrix product with a weight, plus a bias", conv1d: "convolution", conv2d: "convolution", conv3d: "convolution",
    convolution: "convolution", convolution_backward: "gradients of a convolution", einsum: "sum of products by a formula", dot: "inner product",
    mv: "matrix times vector", scaled_dot_product_attention: "attention: values averaged by how well keys match queries",
    _scaled_dot_product_flash_attention: "attention, computed in tiles", _scaled_dot_product_flash_attention_for_cpu: "attention, computed in tiles",
    _scaled_dot_product_efficient_attention: "attention, computed in tiles", _scaled_dot_product_flash_attention_for_cpu_backward: "gradients of attention",
    _scaled_dot_product_flash_attention_backward: "gradients of attention",
  },
  view: {
    view: "the same data with another shape", reshape: "another shape; a copy where a view cannot be", _unsafe_view: "the same data with another shape",
    permute: "dimensions in another order", transpose: "two dimensions swapped", t: "the matrix transposed", expand: "repeated without a copy",
    unsqueeze: "one more dimension of size 1", squeeze: "dimensions of size 1 dropped", slice: "part of a dimension", select: "one place of a dimension",
    split: "cut into parts", chunk: "cut into parts", getitem: "one of several results, or a part by index", detach: "cut off from autograd", alias: "the same tensor",
    as_strided: "the same memory with other strides", flatten: "dimensions merged", unflatten: "a dimension split", contiguous: "in dense memory",
    narrow: "part of a dimension", unbind: "taken apart along a dimension", movedim: "dimensions in another order", size: "a size", shape: "its shape", sym_size: "a size",
  },
  index: {
    index: "picks by index tensors", index_put: "writes at index tensors", gather: "picks along a dimension", scatter: "writes along a dimension",
    scatter_add: "adds along a dimension at indices", embedding: "rows of a table by their numbers", cat: "joined along a dimension", stack: "joined along a new dimension",
    embedding_dense_backward: "gradient of a table's rows", slice_scatter: "a part replaced", select_scatter: "one place replaced", constant_pad_nd: "padded with a value",
    index_select: "picks along a dimension", flip: "in reverse", roll: "shifted around", repeat: "repeated", tril: "lower triangle", triu: "upper triangle",
    _unsafe_index: "picks by index tensors", _unsafe_masked_index: "picks by index tensors where a mask holds",
    _unsafe_masked_index_put_accumulate: "adds at index tensors where a mask holds", topk: "the greatest few", sort: "sorted",
  },
  creation: {
    full: "filled with one value", full_like: "filled with one value", zeros: "zeros", zeros_like: "zeros", ones: "ones", ones_like: "ones", new_ones: "ones",
    new_zeros: "zeros", arange: "consecutive numbers", empty: "memory that is not filled", scalar_tensor: "one number as a tensor", rand: "random, even",
    randn: "random, normal", iota: "consecutive numbers", eye: "identity matrix", tensor: "a constant as a tensor",
  },
};

const TABLE = new Map(
  Object.entries(MEANINGS).flatMap(([sort, meanings]) =>
    Object.entries(meanings).map(([name, meaning]) => [name, { sort: sort as Sort, meaning }] as const),
  ),
);

/** An operator's name without package and overload: "mul" of "aten.mul.Tensor", "relu" of "torch.nn.functional.relu". */
export function shortTarget(target: string): string {
  const words = target.split(".");
  const name = words[0] === "aten" || words[0] === "prims" ? (words[1] ?? target) : words[words.length - 1]!;
  return name || target;
}

export function sortOf(node: NodeData): Sort {
  if (node.op === "placeholder") return "input";
  if (node.op === "get_attr") return "constant";
  if (node.op === "grad_fn") return "gradient";
  return TABLE.get(shortTarget(node.target))?.sort ?? "other";
}

/** What an operator does; "" where the table does not know it. */
export function meaningOf(node: NodeData): string {
  return node.op.startsWith("call") ? (TABLE.get(shortTarget(node.target))?.meaning ?? "") : "";
}
