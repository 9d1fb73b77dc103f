"""The grammar of random programs: tables of templates, and how they are filled.

A template is source text with holes: `<T>` an expression of type T, `<T!>` a name of that type in scope, `<T+>` a new
name, `<$a>` the name that a hole labeled `a` chose (`<T+a>`, `<T!a>`), `<block>` statements, `<x|y>` one of the texts.
Types are those of programs over tensors: T tensor, C tensor of bools, I int, N number, B truth, S text, L list of
tensors, D dict of tensors, O object, M module, K function of a tensor, G iterator of tensors, A NumPy array, P slices
and indices, E class of exceptions, U set of ints, J list of ints, Z complex tensor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random
from textwrap import indent

HOLE = re.compile(
    r"<(?:\$(?P<back>\w+)|(?P<block>block)|(?P<type>[A-Z])(?P<mark>[!+])?(?P<label>[a-z]\w*)?"
    r"|(?P<choice>[^<>\s|][^<>|\n]*(?:\|[^<>|\n]*)+))>"
)

LEAVES: dict[str, tuple[str, ...]] = {
    "T": ("t(3)", "torch.ones(2, 3)", "t(2, 3)", "torch.tensor(<N>)", "torch.zeros(())", "GT"),
    "C": ("torch.tensor([True, False, True])", "torch.ones(3, dtype=torch.bool)"),
    "I": ("0", "1", "2", "3", "-1", "-2", "GI"),
    "N": ("2", "0.5", "-1.5", "3", "True", "0", "1.0", "GI"),
    "B": ("True", "False", "GB"),
    "S": ("'a'", "'b'", "'w'"),
    "L": ("[t(3), t(2, 3)]", "[]", "GL"),
    "D": ("{'a': t(3), 'b': t(2, 3)}", "{}", "GD"),
    "O": ("Thing(t(3), 2)", "Slotted(t(3), 1)", "Record(t(2, 3), 3)", "Derived(t(3), 2)", "Magic(t(3), 2)"),
    "M": ("Net()", "nn.Linear(3, 3)", "nn.ReLU()", "nn.Sequential(nn.Linear(3, 3), nn.Tanh())"),
    "K": ("torch.sin", "torch.relu", "GK", "(lambda q: q + 1)", "operator.neg"),
    "G": ("iter([t(3), t(2, 3)])", "stream(t(2, 3))"),
    "A": ("np.arange(3.)", "np.ones((2, 3))"),
    "P": ("0", "-1", "...", "None", "1:", ":1", "::2", ":-1", "-1:", "1:1", ":, 0", "..., -1", "..., 1:", "None, :"),
    "E": ("ValueError", "KeyError", "Oops", "Worse", "RuntimeError", "IndexError", "TypeError", "StopIteration"),
    "U": ("{1, 2, 3}", "set()", "frozenset((1, 2))"),
    "J": ("[1, 2, 3]", "[]", "list(range(3))", "[3, 0]"),
    "Z": ("t(3, dtype=torch.complex64)", "torch.tensor([1 + 2j, 3j])", "t(2, 3) * 1j"),
}

EXPRESSIONS: dict[str, tuple[str, ...]] = {
    "T": (
        *("<T> <+|-|*> <T>", "<T> <+|-|*|/> <N>", "<N> <+|-|*> <T>") * 3,
        "<T> ** 2", "<T> ** <N>", "-<T>", "abs(<T>)", "<T> / (<T>.abs() + 1)", "<T> // 2", "<T> % 3", "2 ** <T>",
        "torch.<sin|cos|tanh|relu|sigmoid|square|floor|sign|exp>(<T>)", "<T>.<sin|neg|abs|round|trunc|frac>()",
        "torch.where(<C>, <T>, <T>)", "torch.where(<C>, <T>, <N>)", "<T>.masked_fill(<C>, <N>)", "<T>.clamp(<N>, 2)",
        "torch.<minimum|maximum|add|mul|sub|fmod|atan2>(<T>, <T>)", "torch.<add|sub>(<T>, <T>, alpha=2)",
        "<T>.sum()", "<T>.sum(<-1|0>)", "<T>.mean()", "<T>.sum(-1, keepdim=True)", "<T>.amax(<0|-1>)",
        "<T>.cumsum(<0|-1>)", "<T>.prod()", "<T>.max()", "<T>.max(-1)[0]", "<T>.argmax()", "<T>.softmax(-1)",
        "<T>.var(-1, unbiased=False)", "<T>.norm()", "torch.sort(<T>).values", "<T>.min(<0|-1>).indices",
        *("<T>[<P>]",) * 3, "<T>.view(-1)", "<T>.reshape(<I>, -1)", "<T>.t()", "<T>.mT", "<T>.transpose(0, -1)",
        "<T>.unsqueeze(<0|-1|1>)", "<T>.squeeze()", "<T>.expand(2, *<T!>.shape)", "<T>.flatten()", "<T>.detach()",
        "<T!a>.permute(*range(<$a>.dim())[::-1])", "<T>.clone()", "<T>.contiguous()", "<T>.narrow(0, <0|1>, 1)",
        "<T>.chunk(2)[<0|-1>]", "<T>.split(<1|2>)[-1]", "<T>.unbind(0)[<0|-1>]", "<T>.select(0, <I>)", "<T>.flip(0)",
        "<T>.roll(1)", "<T>.repeat(2, 1)", "<T>.diagonal()", "<T>.unfold(0, 2, 1)", "<T>.movedim(0, -1)",
        "<T!a>.view(<$a>.shape)", "<T!a>.view_as(<$a>)", "<T!a>.reshape(<$a>.size(-1), -1)",
        "<T>.as_strided((2,), (1,))",
        "<T!a>.new_zeros(<$a>.shape)", "<T!a>.new_full((<$a>.size(0),), <N>)", "<T>.tile(2)", "<T>.expand_as(<T>)",
        "torch.cat([<T>, <T>])", "torch.stack([<T>, <T>])", "torch.cat(<L>)", "torch.stack(<L>, -1)", "sum(<L>)",
        "torch.cat([<T>.flatten(), <T>.reshape(-1)])", "<T> @ <T>.mT", "torch.outer(<T>.flatten(), <T>.flatten())",
        "torch.zeros(3)", "torch.ones_like(<T>)", "torch.full((<I>,), <N>)", "torch.arange(<I>)", "torch.eye(3)",
        "torch.arange(<T!a>.shape[0])", "torch.zeros(<T!a>.size(0), 3)", "torch.tensor([<N>, <N>])",
        "torch.empty_like(<T>).fill_(<N>)", "torch.tensor(<J>)", "torch.linspace(0, 1, 3)", "torch.zeros(<I>, 3)",
        "<T>.to(torch.<float32|float64|int64|int32|bool|float16|bfloat16|uint8>)", "<T>.<float|double|int|long|bool>()",
        "<T>.to(<T!>.dtype)", "<T>.type_as(<T!>)", "<T>.long() // 2", "<T>.long() & 3", "~<C>",
        "<T>.bool().logical_not()",
        *("<O>.w", "<O>.p", "<O>.go(<T>)", "<O>(<T>)", "<O> + <T>", "<T> + <O>.n"), "<O>[<I>]", "<M>(<T>)", "<M>(<T>)",
        "<K>(<T>)", "<K>(<T>)", "<L>[<I>]", "<L>[-1]", "<D>[<S>]", "<D>.get(<S>, <T>)", "next(<G>)", "next(<G>, <T>)",
        "functools.reduce(operator.<add|mul>, <L>)", "functools.partial(torch.add, alpha=2)(<T>, <T>)",
        "(lambda q: q + <T>)(<T>)", "(<T> if <B> else <T>)", "max(<L>, key=lambda q: q.dim())", "torch.as_tensor(<A>)",
        "torch.from_numpy(<A>)", "Twice.apply(<T>)", "Kept.apply(<T>, <N>)", "F.<relu|gelu|silu|softplus>(<T>)",
        "F.pad(<T>, (1, 1))", "F.pad(<T>, (1, 0), value=<N>)", "F.softmax(<T>, -1)", "F.linear(<T>, torch.ones(2, 3))",
        "F.layer_norm(<T!a>, <$a>.shape[-1:], eps=0.1)", "F.dropout(<T>, 0.0)", "F.mse_loss(<T>, <T>)",
        "F.one_hot(<T>.long().abs())",
        "operator.<add|mul|sub>(<T>, <T>)", "operator.itemgetter(<I>)(<L>)", "getattr(<O>, <S>)", "sum(<G>)",
        "getattr(<O>, 'zz', <T>)", "operator.attrgetter('w')(<O>)", "operator.methodcaller('go', <T>)(<O>)",
        "<T>.index_select(0, torch.tensor([0]))", "<T>[torch.tensor([<I>, 0])]", "<T>[<C>]", "<T>[[0, <I>]]",
        "<T>.gather(-1, torch.zeros_like(<T!>, dtype=torch.long))", "<T>.take(torch.tensor([0]))", "<T>.topk(1)[0]",
        "<T>.nonzero()", "torch.unique(<T>)", "torch.masked_select(<T>, <C>)", "<T>.data", "<T>.requires_grad_()",
        "<T>.add_(<N>)", "<T>.mul_(2)", "<T>.relu_()", "<T>.zero_()", "functools.reduce(lambda p, q: p * q, <L>, <T>)",
        "scaled(<T>)", "scaled(<T>, by=<N>)", "bumped(<T>)", "several(<T>, <T>, k=<N>)", "(y := <T>) + y",
        "<T>.sum(0).item() * <T>",
        "torch.addcmul(<T>, <T>, <T>)", "torch.lerp(<T>, <T>, 0.5)", "torch.einsum('...i,...i->...', <T>, <T>)",
        "<T>.real",
        "torch.roll(<T>, <I>, 0)", "torch.rot90(<T>)", "<T>.index_add(0, torch.tensor([0]), torch.ones(1, 3))",
        "<T>.tril()",
    ),
    "C": ("<T> > <N>", "<T> == <T>", "<C> & <C>", "~<C>", "<T>.isnan()", "<T> != 0", "<T>.bool()", "<T>.ge(<T>)"),
    "I": (
        *("<T!>.shape[<0|-1>]", "<T!>.size(<0|-1>)") * 2, "<T!>.dim()", "<T!>.numel()", "len(<L>)", "len(<D>)", "<O>.n",
        "<I> + <I>", "<I> - <I>", "<I> * <I>", "-<I>", "<I> // 2", "<I> % 3", "abs(<I>)", "max(<I>, 1)",
        "min(<I>, <I>)",
        "int(<N>)", "len(<T!>)", "len(<S>)", "sum(<J>)", "<T!>.stride(<0|-1>)", "<T!>.storage_offset()", "round(<N>)",
        "<J>[<I>]", "len(<U>)", "sum(1 for _ in <L>)", "<L>.index(<T!>)", "hash(<S>) % 1", "int(<T>.sum())", "<I> >> 1",
        "math.prod(<T!>.shape)", "<B> + 1", "next(counter)", "<I> & 1", "divmod(<I>, 2)[<0|1>]", "pow(<I>, 2)",
    ),
    "N": (
        "<I>", "<I>", "<N> <+|-|*> <N>", "<N> / 2", "float(<I>)", "math.sqrt(<T!>.numel())", "<O>.n", "<N> ** 2", "<B>",
        "(<N> if <B> else <N>)", "max(<N>, <N>)", "<T>.sum().item()", "float(<T>.sum())", "math.floor(<N>)", "<I> / 2",
        "sum(<N> for _ in range(2))", "functools.reduce(operator.add, <J>, 0)", "round(<N>, 1)", "<A>.sum().item()",
    ),
    "B": (
        "<I> > <I>", "<I> == <I>", "not <B>", "<B> and <B>", "<B> or <B>", "<T!>.requires_grad", "<T!>.is_contiguous()",
        "<S> in <D>", "<T!> is <T!>", "<T!> is None", "isinstance(<N>, <int|float|bool>)",
        "<T!>.dtype == torch.float32",
        "bool(<L>)", "torch.is_grad_enabled()", "<N> > 1", "hasattr(<O>, <S>)", "all(v.dim() > 0 for v in <L>)",
        "<T>.sum() > 0",
        "any(<J>)", "<I> in <J>", "<I> in <U>", "<O>.n > 1", "len(<L>) > 1", "<T!>.is_leaf", "<M!>.training",
        "callable(<O>)",
        "isinstance(<O>, <Thing|Slotted|Magic>)", "<T!>.shape == <T!>.shape", "torch.equal(<T!>, <T!>)", "<O> == <O>",
        "<N> is None", "<T!>.is_floating_point()", "torch.is_tensor(<T!>)", "bool(<N>)",
        "type(<N>) is <int|float|bool>",
        "<J> == <J>", "<U> == <J>", "<J> < <J>", "<U> <= <U>", "<D>.keys() == <D>.keys()", "'a' in locals()",
        "<T!>.shape == <J>",
        "<T!>.shape[0] % 2 == 0", "<T!>.grad is None", "torch.compiler.is_compiling() is None", "0 < <I> < 3",
    ),
    "S": (  # may be keys, which are equal or not: no more digits of a number than rounding leaves
        "f'{<I>}'", "str(<I>)", "<S> + <S>", "'a' if <B> else 'b'", "f'{<T!>.shape}'", "f'{<N>:.2f}'",
        "repr(round(<N>, 3))", "'%d-%s' % (<I>, <S>)", "'{} {:.3f}'.format(<I>, <N>)", "type(<O>).__name__",
        "<S>.upper()", "', '.join(<D>)",
        "f'{<T!>.dtype}'", "str(<T!>.size())", "next(iter(<D>))", "<S>.replace('a', 'b')",
        "str(sorted(locals()))", "str(<J> + <J>)", "<S>[::-1]", "f'{<S>!r:>4}'",
    ),
    "L": (
        "[<T>, <T>]", "[<T> for _ in range(<I>)]", "[<T> for v in <L>]", "[v * 2 for v in <L>]", "list(<L>)", "<L>[1:]",
        "<L> + [<T>]", "[v for v in <L> if v.dim() > <I>]", "list(<D>.values())", "<L>[::-1]", "list(map(<K>, <L>))",
        "[p + q for p, q in zip(<L>, <L>)]", "[v * i for i, v in enumerate(<L>)]", "list(<T>.unbind(0))", "list(<G>)",
        "[*<L>, <T>]", "<L> * 2", "sorted(<L>, key=lambda q: -q.dim())", "list(reversed(<L>))", "<O>.items",
        "<L>.copy()",
        "[v for w in (<L>, <L>) for v in w]", "list(itertools.chain(<L>, <L>))", "list(itertools.accumulate(<L>))",
        "list(itertools.islice(<G>, <I>))", "list(<T>)", "list(filter(lambda q: q.dim() > 0, <L>))",
        "list(<T>.chunk(2))",
        "[k() for k in [lambda: v for v in <L>]]", "[k() for k in [lambda v=v: v for v in <L>]]", "list(<O>)",
        "[p * q for p, q in itertools.product(<L>, [<N>, <N>])]", "[v for v, keep in zip(<L>, <J>) if keep]",
        "list(itertools.takewhile(lambda q: q.dim() > 0, <L>))", "list(collections.deque(<L>, maxlen=2))",
    ),
    "D": (
        "{'a': <T>, 'b': <T>}", "{k: v * 2 for k, v in <D>.items()}", "dict(<D>)", "{**<D>, <S>: <T>}", "dict(a=<T>)",
        "dict(zip('ab', <L>))", "(<D> | {'b': <T>})", "{str(i): v for i, v in enumerate(<L>)}",
        "dict.fromkeys('ab', <T>)",
        "collections.OrderedDict(<D>)", "{k: <D!>[k] for k in sorted(<D>)}", "<D>.copy()", "vars(Thing(<T>, 2))",
        "collections.defaultdict(lambda: <T>, <D>)",
    ),
    "O": (
        "<Thing|Slotted|Record|Derived|Magic>(<T>, <N>)", "<Thing|Record>(w=<T>, n=<I>)", "copy.copy(<O>)",
        "Pair(<T>, <I>)",
        "types.SimpleNamespace(w=<T>, n=<I>)", "dataclasses.replace(Record(<T>, 1), n=<I>)", "Thing.of(<T>)",
    ),
    "M": (
        "Net()", "nn.Linear(3, <2|3>)", "nn.Sequential(<M>, nn.ReLU())", "nn.ModuleList([<M>])[0]", "nn.LayerNorm(3)",
    ),
    "K": (
        "(lambda q: q * <T>)", "(lambda q, r=<T>: q + r)", "functools.partial(torch.mul, <T>)", "<O>.go", "<M>",
        "(lambda q: <K>(<K>(q)))", "torch.<neg|square|tanh>", "functools.partial(scaled, by=<N>)", "maker(<T>)",
        "(lambda *q, **k: q[0] + len(k))", "Thing.twice",
    ),
    "G": (
        "(v * 2 for v in <L>)", "stream(<T>)", "iter(<L>)", "map(<K>, <L>)", "(<T> for i in range(<I>) if i % 2 == 0)",
        "itertools.chain(<L>, [<T>])", "zip_sum(<L>)", "reversed(<L>)", "iter(<D>.values())",
        "filter(None, [<T>.sum()])",
        "itertools.repeat(<T>, 2)", "itertools.islice(itertools.cycle(<L>), 3)",
        "itertools.starmap(torch.add, [(<T>, <T>)])",
        "delegated(<G>)",
    ),
    "A": (
        "np.arange(<I>)", "<A> + 1", "<A> * 2", "<T>.detach().numpy()", "np.asarray(<T>.detach())", "<A>.sum(-1)",
        "<A>[1:]", "np.sin(<A>)", "np.where(<A> > 1, <A>, 0)", "<A>.reshape(-1)", "<A> * <A>",
        "np.concatenate([<A>, <A>])",
    ),
    "P": (
        "<I>", "<I>:", ":<I>", "<I>:<I>", "-(<T!>.shape[0] // 2):", "..., <I>", "<I>, None", "torch.tensor(<I>)",
        "torch.tensor([0, -1])", "<C>", "slice(<I>, None)", "slice(None), <I>", ":<T!>.size(0) - 1", "[0, -1]", "<J>",
        "torch.tensor(<J>)", "<B>", "::<1|2|3>", "..., None", "<I>, ..., <I>", "None, ..., ::2",
    ),
    "U": ("{<I>, <I>}", "set(<J>)", "{i for i in <J> if i > 1}", "<U> | {<I>}", "<U> & {1, 2}", "<U> - {<I>}"),
    "J": (
        "[<I>, <I>]", "list(range(<I>))", "[i * <I> for i in <J>]", "sorted(<U>)", "list(<T!>.shape)", "<J> + [<I>]",
        "<J>[::-1]",
    ),
    "Z": (
        *("<Z>.conj()", "<Z> <+|-|*> <Z>", "<Z> * <T>") * 2,
        "torch.complex(<T>, <T>)", "<T> * 1j", "<Z>.mH", "<Z>[<P>]", "<T>.to(torch.complex64)", "<Z>.resolve_conj()",
        "<Z>.conj_physical()", "<Z>.conj().clone()", "<Z>.view(-1)",
        "torch.view_as_complex(<T>.reshape(-1, 2).contiguous())", "<Z>.<exp|sin|square|neg|sgn|reciprocal>()",
        "<Z>.t()", "<Z>.<sum|mean|prod>()", "<Z>.conj().sum(-1)", "<Z>.conj() + <N>",
        "torch.cat([<Z!a>.conj(), <$a>])", "<Z> ** 2", "torch.where(<C>, <Z>.conj(), <Z>)",
        "torch.polar(<T>.abs(), <T>)", "torch.fft.<fft|ifft|rfft>(<T>)", "<Z>.detach()", "<Z> / <Z>",
        "<Z>.to(torch.complex128)", "torch.<zeros_like|ones_like>(<Z>.conj())", "<Z>.expand(2, *<Z!>.shape)",
        "torch.stack([<Z!a>, <$a>.conj()])", "<Z> @ <Z>.mT", "<Z>.conj().contiguous()", "<Z>.flatten()",
        "<Z>.cumsum(0)",
    ),
}  # fmt: skip

SIMPLE = (
    *("<T+> = <T>",) * 12,
    *("<L+> = <L>", "<D+> = <D>", "<I+> = <I>", "<N+> = <N>") * 2,
    *("<O+> = <O>", "<K+> = <K>", "<G+> = <G>", "<S+> = <S>") * 2,
    "<M+> = <M>", "<C+> = <C>", "<B+> = <B>", "<A+> = <A>", "<U+> = <U>", "<J+> = <J>",
    "<T!> = <T>", "<T!> = <T>", "<T!> <+|-|*>= <T>", "<T!> += <N>", "<T!>.<add_|sub_|mul_|copy_>(<T>)",
    "<T!>[<P>] = <N>",
    *("<T!>[<P>] = <T>", "<T!>[<P>] <+|*>= <N>", "<T!>[<P>].<add_|mul_>(<N>)", "<T!>.<zero_|relu_|neg_|sin_|abs_>()"),
    "<T!>.view(-1)[<P>] += 1", "<T!>.t().mul_(2)", "<T!>.fill_(<N>)", "<T!>.clamp_(0, 1)", "<T!>.unsqueeze_(0)",
    "<T!>.t_()",
    "torch.<add|mul>(<T>, <T>, out=<T!>)", "torch.sin(<T>, out=<T!>)", "<T!>.masked_fill_(<C>, <N>)", "<T!>[<C>] = <N>",
    "<T!>.index_copy_(0, torch.tensor([0]), <T>)", "<T!>.requires_grad_()", "<T!>.detach_()", "<T!>.data = <T>",
    "<T!>.grad = None", "<T!>.set_(<T>)", "resized(<T!>)", "<T!>.transpose(0, -1).copy_(<T>)", "<T!>.squeeze_()",
    "<T!>.index_put_((torch.tensor([0]),), <T>)", "<T!>.scatter_(0, torch.zeros(1, dtype=torch.long), <N>)",
    "<I!> += 1", "<I!> -= <I>", "<N!> = <N>", "<N!> *= <N>", "<S!> += <S>", "<I!> = <T!>.shape[0]",
    *("<L!>.append(<T>)", "<L!>[<I>] = <T>", "<L!>.pop()", "<L!>.extend(<L>)", "<L!>[1:] = [<T>]", "<L!> += [<T>]"),
    "del <L!>[0]", "<L!>.insert(0, <T>)", "<L!>.reverse()", "<L!>.clear()", "<L!>[0] += <N>", "<L!>[0].add_(1)",
    "<L!>[:0] = <L>",
    "<L!>.remove(<L!>[0])", "<L!>[0], <L!>[-1] = <T>, <T>", "<L!>.sort(key=lambda q: q.dim())", "del <L!>[::2]",
    *("<D!>[<S>] = <T>", "<D!>.update(<D>)", "<D!>.pop(<S>, None)", "del <D!>[<S>]", "<D!>.setdefault(<S>, <T>)"),
    "<D!>.popitem()", "<D!>[<S>].add_(1)", "<D!> |= <D>", "<D!>.clear()", "<D!>['c'] = <L>", "<D!>['n'] = <I>",
    "<O!>.n += 1", "<O!>.w = <T>", "<O!>.p = <T>", "<O!>.new = <T>", "<O!>.n = <N>", "<O!>.w.add_(1)",
    "setattr(<O!>, <S>, <T>)",
    "del <O!>.w", "<O!>.items.append(<T>)", "<O!>[0] = <T>", "Thing.count += 1", "type(<O!>).count = <I>",
    "<O!>.__dict__['z'] = <T>",
    "<O!> += <T>", "<M!>.calls = <I>", "<M!>.<train|eval>()", "<M!>.register_buffer('late', <T>)", "<M!>.k = <T>",
    "print(<I>, <S>)", "print('shape', <T!>.shape)", "print(f'{<N>} {<S>}', end=' ')", "SEEN.append(<I>)",
    "GL.append(<T>)",
    "GD[<S>] = <T>", "print(<L>[:0], sep='-')", "GT.add_(1)", "SEEN[:] = [<S>]", "state['k'] = <T>", "print(*<J>)",
    "<T+>, <T+> = <T>, <T>", "<T+>, *<L+> = [<T>, *<L>]", "(<T+>, <I+>) = (<T>, <I>)", "<T+> = <T+> = <T>",
    "<T!>, <T!> = <T>, <T>",
    "assert <B>, <S>", "<U!> |= {<I>}", "<J!>.append(<I>)", "<J!>[<I>] = <I>", "<A!> += 1", "<A!>[0] = <N>", "del <T!>",
    "<T!>.register_hook(lambda g: g * 2)", "<T!>.register_hook(lambda g: SEEN.append(tuple(g.shape)))",
    "<T!>.retain_grad()",
    "torch.autograd.backward((<T> * 1.0).sum())", "<L!>, <D!> = <L>, <D>", "<K!>(<T>)", "<O!>.go(<T>)", "next(<G!>)",
    "next(<G!>, None)",
    "<T+> = torch.autograd.grad(<T>.sum(), <T!>)[0]", "<T+>: torch.Tensor = <T>", "<T!>.tag = <I>", "<L+> = <L!>",
    "<T+> = <T!>", "<D+> = <D!>",
    "counter.__next__()", "<G!>.close()", "<T+> = <G!>.send(<T>)", "torch.manual_seed(<I>)", "<T+> = torch.rand(3)",
    "bump()", "<T>[torch.tensor([<I>])]", "torch.gather(<T>, 0, torch.tensor([<I>]))", "<J!> += <J>", "<L!> *= <I>",
    "<U!> &= <U>", "<M!>.register_forward_hook(lambda m, i, o: o * 2).remove()", "<T!>.register_hook(print).remove()",
    "<M!>.register_forward_pre_hook(lambda m, i: SEEN.append(len(i)))", "<J!>.remove(<I>)", "print(<J>.index(<I>))",
    "<T+> = F.dropout(<T>, 0.5)", "<K!>.extra = <I>", "warnings.warn('w')", "<T+> = yielded(<G>)",
)  # fmt: skip

COMPOUND = (
    *("if <B>:\n    <block>\nelse:\n    <block>", "if <B>:\n    <block>", "for <T+> in <L>:\n    <block>") * 3,
    "if <B>:\n    <block>\nelif <B>:\n    <block>\nelse:\n    <block>", "if <B>:\n    return <T>",
    "if <T>.sum() > <N>:\n    <block>",
    "for <I+> in range(<I>):\n    <block>", "for <I+> in range(<I>):\n    <block>\nelse:\n    <block>",
    "for <S+>, <T+> in <D>.items():\n    <block>", "for <I+>, <T+> in enumerate(<L>):\n    <block>",
    "for <T+> in <G>:\n    <block>",
    "for <T+>, <T+> in zip(<L>, <L>):\n    <block>", "for <S+> in list(<D>):\n    <block>",
    "for <T+> in <T>:\n    <block>",
    "for <T+> in <L>:\n    <block>\n    if <B>:\n        <break|continue>\n    <block>\nelse:\n    <block>",
    "for <I+> in sorted(<U>):\n    <block>",
    "<I+a> = 0\nwhile <$a> < <1|2|3>:\n    <$a> += 1\n    <block>", "for <T+> in <O>:\n    <block>",
    "<I+a> = 0\nwhile True:\n    <$a> += 1\n    if <$a> > <I>:\n        break\n    <block>",
    "try:\n    <block>\nexcept <E>:\n    <block>",
    "try:\n    <block>\n    raise <E>(<S>)\nexcept <E>:\n    <block>\nfinally:\n    <block>",
    "try:\n    <block>\n    raise <E>(<S>)\nexcept Exception as e:\n    print(type(e).__name__, e)\n    <block>",
    "try:\n    <block>\nexcept (ValueError, KeyError):\n    <block>\nelse:\n    <block>", "if <B>:\n    raise <E>(<S>)",
    "try:\n    <block>\n    if <B>:\n        return <T>\nfinally:\n    <block>",
    "try:\n    try:\n        raise <E>(<S>)\n    except <E> as e:\n        raise Oops(<S>) from e\n"
    "except Oops as e:\n    print(e, type(e.__cause__))\n    <block>",
    "for <I+> in range(3):\n    try:\n        <block>\n        <break|continue|pass>\n    except <E>:\n"
    "        <break|continue|pass>\n    finally:\n        <block>",
    "try:\n    raise_it(<S>)\nexcept Oops as e:\n    <block>\n    print(e.args)",
    "try:\n    <block>\nfinally:\n    <block>",
    "with torch.<no_grad|enable_grad|inference_mode>():\n    <block>", "with torch.set_grad_enabled(<B>):\n    <block>",
    "with Scope(<S>) as <S+>:\n    <block>",
    "with torch.autocast('cpu', dtype=torch.bfloat16):\n    <block>", "with contextlib.suppress(<E>):\n    <block>",
    "with scope(<T>) as <T+>:\n    <block>",
    "with contextlib.nullcontext(<T>) as <T+>:\n    <block>", "with Scope(<S>), torch.no_grad():\n    <block>",
    "def <K+>(<T+a>, *rest, by=<N>):\n    <block>\n    return <$a> * by",
    "def <K+>(<T+a>=<T>):\n    <block>\n    return <T>",
    "<I+a> = <I>\ndef <K+>(<T+b>):\n    nonlocal <$a>\n    <$a> += 1\n    <block>\n    return <$b> * <$a>",
    "<T+a> = <T>\ndef <K+>(<T+b>):\n    nonlocal <$a>\n    <$a> = <$a> + <$b>\n    return <$a>",
    "def <K+>(<T+a>):\n    global GI\n    GI += 1\n    return <$a> + GI", "global GI\nGI = <I>", "global GT\nGT = <T>",
    "def <K+g>(<T+a>):\n    <block>\n    got = yield <$a>\n    <block>\n    yield <T>\n    return <T>\n"
    "<G+> = <$g>(<T>)",
    "def <K+>(<T+a>, depth=<I>):\n    return <$a> if depth <= 0 else <$a> * 2 + <T>",
    "class <K+k>:\n    c = <T>\n    def __init__(self, w):\n        self.w = w\n"
    "    def __call__(self, q):\n        return self.w + q + self.c\n<K+> = <$k>(<T>)",
    "match <I>:\n    case 0:\n        <block>\n    case 1 | 2:\n        <block>\n    case _:\n        <block>",
    "match <L>:\n    case []:\n        <block>\n    case [<T+>]:\n        <block>\n"
    "    case [<T+>, *<L+>]:\n        <block>",
    "match <D>:\n    case {'a': <T+>}:\n        <block>\n    case _:\n        <block>",
    "match <O>:\n    case Thing(n=<I+>):\n        <block>\n    case _:\n        <block>",
)  # fmt: skip

RETURNS = (
    *("<T>", "<T>", "(<T>, <T>)", "(<T!>, <T>)", "[<T>, <L>]") * 2,
    *("{'a': <T>, 'n': <N>}", "<T!>, <T!>, <T!>", "<L>", "<D>") * 2,
    "<O>", "(<T>, <O!>)", "<T>, <S>, <N>", "(<K!>, <T>)", "(<T>, <I>, <B>)", "<N>", "<T>, <U>", "Pair(<T>, <I>)",
    "(<T>, <G!>)", "None",
    "(<T>, <A>)", "<T>.shape", "(<T>, <D!>, <L!>)", "<S>", "<T>, [<T!>, [<T!>]]", "<M!>, <T>", "<T>, <C>", "<T>, <J>",
    "<T>.shape, <T>.stride()",
)  # fmt: skip

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "T": (
        *("t(2, 3)", "t(2, 3, grad=True)", "t(4, 3)", "t(3)", "t(3, grad=True)") * 2, "t(1, 3)", "t(0, 3)", "t(())",
        "t(3, 2).t()",
        "t(4, 3)[1:]", "t(4, 3)[::2]", "t(2, 3, dtype=torch.float64)", "t(2, 3, dtype=torch.int64)", "t(1)",
        "t(5, 3, grad=True)",
        "t(2, 3, grad=True) * 1", "t(3).expand(2, 3)", "t(2, 3, dtype=torch.bool)", "nn.Parameter(t(2, 3))",
        "t(2, 2, 3)", "t(3, 3)",
        "torch.tensor([float('nan'), 1.0, float('inf')])", "t(2, 0)", "t(3, dtype=torch.complex64) * (1 + 1j)",
        "t(2, 3, dtype=torch.complex64).conj()", "torch._neg_view(t(2, 3))", "t(2, 3, dtype=torch.int8)",
        "torch.full((2, 3), 2 ** 62)", "torch.tensor([1., -0.0, 0., 1.])", "t(6).unfold(0, 3, 1)", "t((), grad=True)",
        "t(4, 3, grad=True)[1:]", "t(2, 3, 2).transpose(0, 2)", "t(3, 1)[:, 0]",
        "t(2, 3, dtype=torch.float64, grad=True)",
        "t(2, 3, dtype=torch.float16)", "t(2, 3).to(torch.bfloat16)", "t(6)[1:4]", "t(2, 4)[:, 1:]", "t(0)",
        "t(2, 3).mT.contiguous().mT",
        "t(7, 3)", "t(2, 3, dtype=torch.uint8)", "t(2, 3, dtype=torch.int32)", "t(6).as_strided((2, 3), (1, 1))",
    ),
    "I": ("2", "3", "1", "0", "-1", "4", "5", "-2", "True", "7"),
    "N": (
        *("2", "3", "0.5", "2.5", "1", "True", "0", "-1.5", "0.0", "float('inf')", "5") * 2, "float('nan')", "-0.0",
        "2 ** 62", "10 ** 20", "np.float64(2.5)", "np.int64(3)",
    ),
    "B": ("True", "False", "1", "None"),
    "S": ("'a'", "'b'", "'w'", "''"),
    "L": (
        "[t(3), t(2, 3)]", "[t(2, 3)]", "[t(2, 3), t(2, 3, grad=True), t(3)]", "[]", "[GT, t(3)]", "(t(3), t(2, 3))",
        "[t(2, 3)] * 2",
    ),
    "D": (
        "{'a': t(3), 'b': t(2, 3)}", "{'b': t(2, 3), 'a': t(3)}", "{'a': t(2, 3)}", "{}",
        "{'a': t(3), 'b': t(3), 'w': GT}",
    ),
    "O": (
        "Thing(t(2, 3), 2)", "Slotted(t(3), 1)", "Record(t(2, 3), 3)", "Derived(t(3), 2)", "Magic(t(2, 3), 2)",
        "Pair(t(3), 1)",
        "types.SimpleNamespace(w=t(3), n=2, items=[t(3)])", "Thing(t(4, 3, grad=True), 0.5)",
    ),
    "M": (
        "Net()", "nn.Linear(3, 3)", "nn.Sequential(nn.Linear(3, 3), nn.ReLU())", "Net().eval()", "nn.LayerNorm(3)",
        "nn.BatchNorm1d(3)",
    ),
    "K": ("torch.sin", "GK", "maker(t(3))", "functools.partial(torch.mul, t(3))", "torch.relu", "nn.Linear(3, 3)"),
    "G": ("iter([t(3), t(2, 3)])", "stream(t(2, 3))", "map(torch.neg, [t(3)])", "iter((t(3),))"),
    "A": ("np.arange(3.)", "np.ones((2, 3))", "np.arange(6).reshape(2, 3)", "np.float32([1, 2, 3])"),
    "U": ("{1, 2, 3}", "{2}", "frozenset({1, 5})"),
    "J": ("[1, 2, 3]", "[1]", "[3, 2]", "[]", "(2, 1)"),
    "Z": (
        "t(3, dtype=torch.complex64) * (1 + 1j)", "t(2, 3, dtype=torch.complex64).conj()", "t(2, 3) * 2j",
        "(t(2, 3) * 1j).requires_grad_()", "(t(3, 2) * 1j).mH",
    ),
}  # fmt: skip

CHANGES = (
    "<L!>.append(t(3))", "<L!>.append(<T!>)", "<L!>.pop()", "<L!>[0] = t(2, 3)", "<D!>['c'] = t(3)",
    "<D!>.pop('a', None)", "<L!>.reverse()",
    "<D!>['a'] = <D!>.pop('a', t(3))", "<O!>.n = <2|3|5|0.5|True|None>", "<O!>.w = t(4, 3)", "<O!>.new = 1",
    "del <O!>.n", "<O!>.items = [t(3)]",
    "<O!>.w.requires_grad_()", "<M!>.<train|eval>()", "<M!>.k = 3", "<M!>.weight = nn.Parameter(torch.ones(3, 3))",
    "<M!>.double()",
    "GI = <2|3|5|7>", "GT = t(<3|2, 3|1, 3>)", "GB = <False|None|1>", "GL.append(t(3))", "GD['b'] = t(2, 3)",
    "GK = torch.<cos|tanh>", "SEEN.clear()",
    "Thing.count = 7", "Thing.extra = 1", "<T!>.requires_grad_()", "<T!>.grad = None", "<T!>.tag = 1", "<T!>.add_(1)",
    "<T!>.data = t(4, 3)",
    "<T!> = <T!>", "<T!> = <T!>.t()", "<T!> = <T!>[1:]", "<T!> = <T!>.double()", "<T!> = <T!>.detach()",
    "<L!>[0] = <T!>", "<L!>[-1] = <L!>[0]",
    "<D!>['a'] = <T!>", "<O!>.w = <T!>", "<T!> = <O!>.w", "<T!> = <T!>.view(-1)", "<T!> = <T!>.clone()", "GT = <T!>",
    "torch.set_default_dtype(torch.<float64|float32>)",
    "<T!> = nn.Parameter(<T!>.detach().clone())", "<M!>.extra = t(3)", "<O!> = copy.copy(<O!>)",
    "<D!> = dict(reversed(<D!>.items()))", "state['k'] = t(3)",
    "<M!>.register_forward_hook(lambda m, i, o: o * 2)", "<T!>.register_hook(lambda g: g * 2)", "<L!> = tuple(<L!>)",
    "scaled.__defaults__ = (3,)",
)  # fmt: skip
"""What happens to the world between two calls."""

CALLED = (
    *("R = f(<$args>)",) * 8, "with torch.no_grad():\n    R = f(<$args>)",
    "with torch.inference_mode():\n    R = f(<$args>)",
    "with torch.autocast('cpu', dtype=torch.bfloat16):\n    R = f(<$args>)", *("R = f(<$args>)\nbackward(R)",) * 4,
    "torch.manual_seed(1)\nR = f(<$args>)", "R = f(<$args>)\nbackward(R)\nR = f(<$args>)\nbackward(R)",
)  # fmt: skip

NAMED = re.compile(r"<([A-Z])!")
PREFIX = dict(zip("TCINSBLDOMKGAPEUJZ", "tcinsbldomkgapeujz", strict=True))


@dataclass
class Scope:
    """What has a name, by type; `loose` names are not those of parameters, so that a template may bind them."""

    names: dict[str, list[str]] = field(default_factory=dict)

    def of(self, kind: str) -> list[str]:
        return self.names.get(kind, [])

    def add(self, kind: str, name: str) -> None:
        self.names.setdefault(kind, []).append(name)

    def copy(self) -> Scope:
        return Scope({kind: list(names) for kind, names in self.names.items()})


class Grower:
    """Fills templates at random; statements are those of `simple` and `compound`."""

    def __init__(self, random: Random, simple: tuple[str, ...] = SIMPLE, compound: tuple[str, ...] = COMPOUND) -> None:
        self.random = random
        self.simple, self.compound = simple, compound
        self.made = 0

    def expression(self, kind: str, scope: Scope, depth: int = 0) -> str:
        known, draw = scope.of(kind), self.random.random()
        if known and draw < (0.4, 0.75, 0.93)[min(depth, 2)]:
            return self.random.choice(known)
        if depth >= 3 or kind not in EXPRESSIONS or draw > 0.97:
            return self.fill(self.random.choice(LEAVES[kind]), scope, depth + 1)
        filled = self.fill(self.chosen(EXPRESSIONS[kind], scope), scope, depth + 1)
        return f"({filled})" if depth and kind not in "PS" and " " in filled and filled[0] not in "([{" else filled

    def block(self, scope: Scope, depth: int, count: int) -> str:
        return "\n".join(self.statement(scope, depth) for _ in range(count))

    def statement(self, scope: Scope, depth: int) -> str:
        if depth < 3 and self.random.random() < (0.4, 0.3, 0.15)[depth]:
            return self.fill(self.chosen(self.compound, scope), scope, 0, depth + 1)
        return self.fill(self.chosen(self.simple, scope), scope, 0, depth)

    def chosen(self, templates: tuple[str, ...], scope: Scope) -> str:
        """One whose names there are."""
        while True:
            template = self.random.choice(templates)
            if all(scope.of(kind) for kind in NAMED.findall(template)):
                return template

    def fill(self, template: str, scope: Scope, depth: int = 0, nesting: int = 0, **given: str) -> str:
        """The template without holes. New names are in scope from the line after, and not outside of a definition."""
        labels: dict[str, str] = dict(given)
        bound: list[tuple[str, str]] = []
        inner = scope.copy() if template.startswith(("def ", "class ")) or "\ndef " in template else scope
        lines = []
        for line in template.split("\n"):
            if line.strip() == "<block>":
                lines.append(indent(self.block(inner, nesting, self.random.randint(1, 2)), line[: -len("<block>")]))
                continue
            lines.append(HOLE.sub(lambda hole: self._hole(hole, inner, depth, labels, bound), line))
            for kind, name in bound:
                inner.add(kind, name)
            bound.clear()
        if inner is not scope:
            for kind in "KG":
                for name in inner.of(kind)[len(scope.of(kind)) :]:
                    scope.add(kind, name)
        return "\n".join(lines)

    def _hole(
        self, hole: re.Match[str], scope: Scope, depth: int, labels: dict[str, str], bound: list[tuple[str, str]]
    ) -> str:
        if hole["back"]:
            return labels[hole["back"]]
        if hole["choice"]:
            return self.random.choice(hole["choice"].split("|"))
        kind, label = hole["type"], hole["label"]
        if hole["mark"] == "+":
            self.made += 1
            name = f"{PREFIX[kind]}{self.made}"
            bound.append((kind, name))
        elif hole["mark"] == "!":
            name = self.random.choice(scope.of(kind))
        else:
            name = self.expression(kind, scope, depth)
        if label:
            labels[label] = name
        return name
