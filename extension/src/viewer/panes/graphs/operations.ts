// What kind of operation a node is. By the operator's name: a guide for the eye, no fact of the record.

import type { NodeData } from "../../record";

export type Sort = "input" | "constant" | "elementwise" | "reduction" | "matrix" | "view" | "index" | "creation"
  | "gradient" | "other";

export const SORTS: { readonly [sort in Sort]: string } = {
  input: "input or parameter",
  constant: "constant",
  elementwise: "elementwise",
  reduction: "reduction",
  matrix: "matrix product, convolution, attention",
  view: "view: no data moves",
  index: "indexing, gathering, joining",
  creation: "factory (zeros, …)",
  gradient: "autograd node",
  other: "other",
};

const NAMES: { readonly [sort in Sort]?: string } = {
  elementwise:
    "add sub mul div neg abs pow sqrt rsqrt reciprocal exp log log1p expm1 sin cos tanh sigmoid relu gelu silu erf "
      + "where "
    + "maximum minimum clamp clamp_min clamp_max eq ne lt le gt ge bitwise_and bitwise_or bitwise_not logical_and "
    + "logical_or "
    + "logical_not and_ or_ to _to_copy clone copy_ dropout masked_fill square floor ceil round sign remainder "
    + "floordiv mod "
    + "truediv add_ mul_ sub_ float threshold_backward tanh_backward sigmoid_backward gelu_backward native_dropout",
  reduction:
    "sum mean prod amax amin max min argmax argmin any all var std var_mean norm logsumexp cumsum softmax _softmax "
    + "log_softmax _log_softmax layer_norm native_layer_norm batch_norm group_norm rms_norm cross_entropy nll_loss "
    + "mse_loss "
    + "max_pool2d max_pool2d_with_indices avg_pool2d adaptive_avg_pool2d max_pool2d_with_indices_backward "
    + "_softmax_backward_data native_layer_norm_backward",
  matrix:
    "mm bmm addmm baddbmm matmul linear conv1d conv2d conv3d convolution convolution_backward einsum dot mv "
    + "scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu "
    + "_scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention_for_cpu_backward "
    + "_scaled_dot_product_flash_attention_backward",
  view:
    "view reshape _unsafe_view permute transpose t expand unsqueeze squeeze slice select split chunk getitem detach "
      + "alias "
    + "as_strided flatten unflatten contiguous narrow unbind movedim size shape sym_size",
  index:
    "index index_put gather scatter scatter_add embedding cat stack embedding_dense_backward slice_scatter "
      + "select_scatter "
    + "constant_pad_nd index_select flip roll repeat tril triu _unsafe_index _unsafe_masked_index "
    + "_unsafe_masked_index_put_accumulate topk sort",
  creation:
    "full full_like zeros zeros_like ones ones_like new_ones new_zeros arange empty scalar_tensor rand randn iota eye "
    + "tensor",
};

const TABLE = new Map(
  Object.entries(NAMES).flatMap(([sort, names]) => names.split(" ").map(name => [name, sort as Sort] as const)));

/** An operator's name without package and overload: "mul" of "aten.mul.Tensor", "relu" of
 * "torch.nn.functional.relu". */
export function shortTarget(target: string): string {
  const words = target.split(".");
  const name = words[0] === "aten" || words[0] === "prims" ? (words[1] ?? target) : words[words.length - 1]!;
  return name || target;
}

export function sortOf(node: NodeData): Sort {
  if (node.op === "placeholder") return "input";
  if (node.op === "get_attr") return "constant";
  if (node.op === "grad_fn") return "gradient";
  return TABLE.get(shortTarget(node.target)) ?? "other";
}
