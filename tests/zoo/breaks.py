"""Programs that have to leave the graph, and how often: prints, values read by Python, calls that cannot be traced."""

import zlib

import torch

from zoo.program import call, program


@program("break print", inputs=lambda: call(torch.randn(3)), breaks=1, grad=True)
def prints(x):
    y = x * 2
    print("shape", tuple(y.shape))
    return y.sin()


@program("break print", inputs=lambda: call(torch.ones(2)), breaks=2, grad=True)
def prints_values_twice(x):
    y = x * 2
    print("first", y.detach())
    y = y + 1
    print("then", y.detach())
    return y.exp()


@program(
    "break control_flow",
    inputs=lambda: call(torch.ones(3)),
    other_inputs=(lambda: call(-torch.ones(3)),),
    breaks=1,
    grad=True,
)
def branch_on_data(x):
    y = x * 2
    if y.sum() > 0:
        return y.sin()
    return y.cos() - 1


@program(
    "break",
    inputs=lambda: call(torch.tensor([1.0, 2.0])),
    other_inputs=(lambda: call(torch.tensor([3.0, 4.0])),),
    breaks=1,
    grad=True,
)
def item_as_scale(x):
    scale = x.detach().sum().item()
    return x * scale + 1


@program("break", inputs=lambda: call(torch.tensor([1, 3]), torch.randn(6)), breaks=1)
def tolist_as_sizes(sizes, x):
    y = x * 2
    first, second = sizes.tolist()
    return y[:first].sum() + y[first : first + second].mean()


@program(
    "break index",
    inputs=lambda: call(torch.tensor([0.0, 1.0, 0.0, 2.0])),
    other_inputs=(lambda: call(torch.zeros(4)),),
    breaks=1,
)
def nonzero_positions(x):
    y = x * 2
    positions = y.nonzero()
    return positions + 1


@program("break index", inputs=lambda: call(torch.tensor([0.5, -1.0, 2.0, -3.0])), breaks=1, grad=True)
def boolean_mask_select(x):
    y = x.exp()
    return y[x > 0] * 2


@program("break sort", inputs=lambda: call(torch.tensor([3, 1, 3, 2])), breaks=1)
def unique_values(x):
    values, counts = torch.unique(x + 1, return_counts=True)
    return values * 2, counts + 1


@program("break stdlib", inputs=lambda: call(torch.randn(3), b"key"), breaks=1, grad=True)
def untraceable_call(x, key):
    y = x + 1
    salt = zlib.crc32(key) % 7
    return y * salt


def noisy_layer(x):
    x = x.relu()
    print("inside")
    return x + 1


@program("break nested_function print", inputs=lambda: call(torch.randn(3)), breaks=1, grad=True)
def break_in_inlined_function(x):
    y = x * 2
    z = noisy_layer(y)
    return z.sin() + y


@program("break loop print", inputs=lambda: call(torch.randn(3), 3), breaks=1, grad=True)
def break_in_loop(x, n):
    for i in range(n):
        x = x.sin()
        print("step", i)
        x = x * 2
    return x + 1


@program("break context_manager no_grad print", inputs=lambda: call(torch.randn(3)), breaks=1, grad=True)
def break_inside_no_grad(x):
    with torch.no_grad():
        center = x.mean()
        print("inside no_grad", torch.is_grad_enabled())
        center = center * 2
    return x - center


@program(
    "break context_manager autocast matmul bfloat16 print",
    inputs=lambda: call(torch.randn(3, 4), torch.randn(4, 4), torch.randn(4, 4)),
    breaks=1,
    grad=True,
    rtol=3e-2,
    atol=3e-2,
)
def break_inside_autocast(x, w, v):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        print("inside autocast", y.dtype)
        y = y @ v
    return y.float() + x


@program("break exception print", inputs=lambda: call(torch.randn(3)), breaks=1, grad=True)
def break_inside_try(x):
    try:
        x = x + 1
        print("trying")
        x = x.sin()
    finally:
        x = x * 2
    return x


@program("break effects mutation print", inputs=lambda: call(torch.randn(3), []), breaks=1)
def break_after_side_effects(x, log):
    x.add_(1.0)
    log.append(x.sum())
    print("so far", len(log))
    log.append(x * 2)
    return x.cos(), len(log)


@program("break loop control_flow", inputs=lambda: call(torch.tensor([100.0, 3.0])), breaks=1, grad=True)
def while_on_data(x):
    steps = 0
    while x.detach().sum() > 10:
        x = x / 2
        steps += 1
    return x, steps


@program("break closure print", inputs=lambda: call(torch.randn(3)), breaks=1, grad=True)
def break_with_live_closure(x):
    factor = 2.0
    parts = [x, x + 1]

    def scaled(y):
        return y * factor

    y = scaled(parts[0])
    print("half way")
    factor = 3.0
    return scaled(y) + parts[1]
