"""Programs with effects of every kind, put together from parts: what a call of one may change, and how one sees it."""

from __future__ import annotations

import cProfile
import linecache
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

HEAD = """
import abc, array, collections, contextvars, copy, dataclasses, enum, functools, io, itertools, json, logging, math
import os, pathlib, random, sys, tempfile, threading, time, types, warnings, weakref
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
"""


@dataclass(frozen=True)
class Part:
    """Statements before the function, in it (they may change `y`, a tensor), and what one sees of the effect."""

    name: str
    setup: str
    body: str
    seen: str
    once: bool = False
    """Whether it is an effect that nobody can put back."""
    pure: bool = False
    """Whether it changes nothing but tensors, so that the function may be called many times."""


PARTS = (
    Part("nothing", "", "y = y + 1", "()", pure=True),
    Part("weights", "w = torch.ones(3)", "with torch.no_grad(): w.mul_(1.5)", "w", pure=True),
    Part("an array of a tensor's memory", "mine = torch.zeros(3); seen_as = mine.numpy()", "seen_as[1] += 4",
         "mine, seen_as"),
    Part("a group of parameters is added", """
        grouped = torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1)
        added = nn.Parameter(torch.ones(1))
        """, "grouped.add_param_group({'params': [added], 'lr': 0.5})",
         "len(grouped.param_groups), grouped.param_groups[-1]['lr']"),
    Part("weights by data", "w = nn.Parameter(torch.ones(3))", "w.data = w.data + 1", "w", pure=True),
    Part("SGD", """
        m = nn.Linear(3, 2)
        opt = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
        """, """
        opt.zero_grad()
        loss = m(x).pow(2).sum()
        loss.backward()
        opt.step()
        y = y + loss.detach()
        """, "m.state_dict(), opt.state_dict(), [p.grad for p in m.parameters()]", pure=True),
    Part("Adam, returning the loss", """
        m2 = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        opt2 = torch.optim.Adam(m2.parameters())
        sched = torch.optim.lr_scheduler.StepLR(opt2, 1)
        """, """
        loss2 = m2(x).square().mean()
        loss2.backward()
        opt2.step()
        opt2.zero_grad()
        sched.step()
        y = y + loss2
        """, "m2.state_dict(), opt2.state_dict(), sched.state_dict(), [p.grad for p in m2.parameters()]", pure=True),
    Part("a hook is added to an optimizer", """
        weight = nn.Parameter(torch.ones(2))
        hooked = torch.optim.SGD([weight], lr=0.1)
        first = torch.utils.hooks.RemovableHandle.next_id
        """, "(y.sum() * weight).sum().backward(); hooked.register_step_post_hook(print)",
         "[number - first for number in hooked._optimizer_step_post_hooks], weight.grad"),
    Part("tensors that are swapped", "one, two = nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(3))",
         "y = y + one.sum(); torch.utils.swap_tensors(one, two)", "one, two", pure=True),
    Part("gradients that add up", "v = nn.Parameter(torch.ones(3))", "(v * x).sum().backward()", "v, v.grad",
         pure=True),
    Part("batch norm", "bn = nn.BatchNorm1d(3)", "y = y + bn(x).sum()", "bn.state_dict()", pure=True),
    Part("dropout", "drop = nn.Dropout(0.5)", "y = y + drop(x).sum()", "()", pure=True),
    Part("a global number", "count = 0", "{scope} count\n        count += 1", "count"),
    Part("a list", "rows = [0]", "rows.append(len(rows))", "rows"),
    Part("a list of tensors", "kept = []", "kept.append((x * 2).detach())", "kept"),
    Part("a dictionary", "table = {'a': 1}", "table['b'] = table.pop('a')", "table, list(table)"),
    Part("a set", "names = {1}", "names.add(2)", "names"),
    Part("a deque", "queue = collections.deque([1, 2], maxlen=2)", "queue.append(3)", "queue"),
    Part("a defaultdict", "groups = collections.defaultdict(list)", "groups['k'].append(1)", "groups"),
    Part("an ordered dictionary", "order = collections.OrderedDict(a=1, b=2)", "order.move_to_end('a')", "list(order)"),
    Part("a Counter", "tally = collections.Counter()", "tally['x'] += 1", "tally"),
    Part("a bytearray", "raw = bytearray(b'ab')", "raw.append(99)", "raw"),
    Part("an array of numbers", "numbers = array.array('d', [1.0])", "numbers.append(2.0)", "numbers"),
    Part("an object", """
        class Thing:
            def __init__(self): self.n = 0
            def more(self): self.n += 1
        thing = Thing()
        """, "thing.more()", "vars(thing)"),
    Part("an object with slots", """
        class Slotted:
            __slots__ = ("n", "later")
            def __init__(self): self.n = 0
        slotted = Slotted()
        """, "slotted.n += 1; slotted.later = 5", "slotted.n, slotted.later"),
    Part("a dataclass", """
        @dataclasses.dataclass
        class Stats:
            calls: int = 0
            seen: list = dataclasses.field(default_factory=list)
        stats = Stats()
        """, "stats.calls += 1; stats.seen.append(stats.calls)", "stats.calls, stats.seen"),
    Part("an attribute of a class", """
        class Registry:
            total = 0
            items = []
        """, "Registry.total += 1; Registry.items.append(1); Registry.new = 3",
        "Registry.total, Registry.items, getattr(Registry, 'new', None)"),
    Part("an attribute of the function", """
        def helper(): helper.calls = getattr(helper, "calls", 0) + 1
        """, "helper()", "helper.calls"),
    Part("a default that changes", "def remember(v, into=[]): into.append(v)", "remember(1)", "remember.__defaults__"),
    Part("a module's attribute", """
        class Steps(nn.Module):
            def __init__(self):
                super().__init__(); self.lin = nn.Linear(3, 2); self.steps = 0; self.last = None
            def forward(self, x):
                self.steps += 1
                out = self.lin(x)
                self.last = out.detach()
                return out
        steps = Steps()
        """, "y = y + steps(x).sum()", "steps.steps, steps.last"),
    Part("a buffer made anew", """
        class Running(nn.Module):
            def __init__(self):
                super().__init__(); self.register_buffer("mean", torch.zeros(3))
            def forward(self, x):
                self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
                return x - self.mean
        running = Running()
        """, "y = y + running(x).sum()", "running.mean"),
    Part("torch's random numbers", "", "y = y + torch.rand(3).sum()", "torch.get_rng_state()", pure=True),
    Part("Python's random numbers", "", "y = y + random.random()", "random.getstate()", pure=True),
    Part("NumPy's random numbers", "", "y = y + float(np.random.rand())", "np.random.get_state()[1]", pure=True),
    Part("generators of one's own", """
        own = random.Random(3); gen = torch.Generator().manual_seed(1); bits = np.random.default_rng(4)
        """, "y = y + own.random() + torch.rand(1, generator=gen).sum() + float(bits.random())",
        "own.getstate(), gen.get_state(), str(bits.bit_generator.state)"),
    Part("a NumPy array", "grid = np.zeros(3)", "grid[1:] += 1", "grid"),
    Part("an argument", "", "x.add_(1)", "()", pure=True),
    Part("printing", "", "print('a line', tuple(x.shape))", "()"),
    Part("logging", """
        class Lines(logging.Handler):
            def __init__(self): super().__init__(); self.lines = []
            def emit(self, record): self.lines.append(record.getMessage())
        lines = Lines(); log = logging.getLogger("effects"); log.handlers[:] = [lines]; log.setLevel(10)
        log.propagate = False
        """, "log.info('step'); y = y + len(lines.lines)", "lines.lines", once=True),
    Part("logging to a stream", """
        plain = logging.getLogger("effects.plain"); plain.handlers[:] = [logging.StreamHandler()]
        plain.propagate = False
        """, "plain.warning('step')", "len(plain.handlers)"),
    Part("a warning that is caught", "", """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter('always')
            warnings.warn('careful')
        y = y + len(caught)
        """, "()", pure=True),
    Part("an order", "order = collections.OrderedDict(a=1, b=2, c=3); order.move_to_end('a')", "order.move_to_end('b')",
         "list(order)"),
    Part("the system's random numbers", "entropy = random.SystemRandom()", "y = y + (entropy.random() >= 2)", "()",
         pure=True),
    Part("memory of a file", "inner = io.BytesIO(b'abc'); over = inner.getbuffer()", "inner.getbuffer()[1] = 9",
         "inner.getvalue()"),
    Part("what is in a weak container", """
        class Leaf: pass
        leaf = {'one': Leaf()}; leaves = weakref.WeakValueDictionary(one=leaf['one'])
        """, "leaf['one'] = Leaf()", "len(leaves)", once=True),
    Part("a warning", "", "warnings.warn('careful', UserWarning)", "()"),
    Part("a file in memory", "text = io.StringIO()", "text.write('z')", "text.getvalue(), text.tell()"),
    Part("a context variable", "var = contextvars.ContextVar('v', default=0)", "var.set(var.get() + 1)", "var.get()"),
    Part("what a context variable holds", "holding = contextvars.ContextVar('h'); inside = [0]; holding.set(inside)",
         "holding.get().append(1)", "inside"),
    Part("a number and a text of classes of one's own", """
        class Level(int): pass
        class Name(str): pass
        level, called_so = Level(3), Name("a")
        level.uses, called_so.seen = 0, []
        """, "level.uses += 1; called_so.seen.append(level)", "level.uses, called_so.seen"),
    Part("a cell", "box = types.CellType(0); lists = types.CellType([])",
         "box.cell_contents += 1; lists.cell_contents.append(1)", "box.cell_contents, lists.cell_contents"),
    Part("an array of objects", "objects = np.empty(2, object); objects[:] = [[], 0]",
         "objects[0].append(1); objects[1] += 1", "objects.tolist()"),
    Part("an array with fields", "fields = np.zeros(1, [('n', 'i4'), ('o', object)]); fields['o'][0] = []",
         "fields['n'] += 1; fields['o'][0].append(2)", "fields.tolist()"),
    Part("what a slice holds", "part = slice([], 1)", "part.start.append(1)", "part.start"),
    Part("a namespace", "config = types.SimpleNamespace(rate=1.0, past=[])",
         "config.rate *= 2; config.past.append(config.rate)", "vars(config)"),
    Part("the end of what is made", "class Ends:\n    def __del__(self): had.append(1)\nhad, begun = [], []",
         "begun.append(Ends())", "had, len(begun)", once=True),
    Part("a switch of torch", "torch.set_default_dtype(torch.float32)", "torch.set_default_dtype(torch.float64)",
         "torch.get_default_dtype()", pure=True),
    Part("time", "", "started = time.perf_counter(); y = y + 0 * (time.perf_counter() - started)", "()", pure=True),
    Part("weak references", """
        class Node: pass
        node = Node(); refs = weakref.WeakKeyDictionary({node: 1})
        """, "refs[node] += 1", "dict(refs.items())[node]"),
    Part("two names of one list", "first = [1]; both = {'a': first, 'b': first}", "both['a'].append(2)",
         "both['b'], both['a'] is both['b'] is first"),
    Part("an iterator of one's own", """
        class Up:
            def __init__(self): self.n = 0
            def __iter__(self): return self
            def __next__(self): self.n += 1; return self.n
        up = Up()
        """, "y = y + next(up)", "up.n"),
    Part("nothing but reading", "setting = {'scale': 2.0}", "y = y * setting['scale']", "setting", pure=True),
    # Of classes: what making an object, deriving from a class, or finding an attribute runs.
    Part("a class in a table", """
        class Listed:
            made = 0
            def __init__(self): Listed.made += 1
        table = {'a': Listed}
        """, "table['a']()", "Listed.made"),
    Part("a metaclass that registers", """
        class Registering(type):
            seen = []
            def __new__(kind, name, bases, body):
                Registering.seen.append(name)
                return type.__new__(kind, name, bases, body)
        """, "class Registered(metaclass=Registering): pass", "list(Registering.seen)"),
    Part("a metaclass that counts calls", """
        class Counting(type):
            calls = []
            def __call__(cls): Counting.calls.append(1); return type.__call__(cls)
        class Called(metaclass=Counting): pass
        """, "Called()", "list(Counting.calls)"),
    Part("the class of an object", """
        class Again:
            made = 0
            def __init__(self): Again.made += 1
        first_of = Again()
        """, "type(first_of)(); first_of.__class__()", "Again.made"),
    Part("a class method", """
        class Maker:
            made = 0
            def __init__(self): Maker.made += 1
            @classmethod
            def make(cls): return cls()
        maker = Maker()
        """, "maker.make()", "Maker.made"),
    Part("a descriptor of one's own", """
        class Reading:
            times = 0
            def __get__(self, instance, owner): Reading.times += 1; return 1.5
        class Read: scale = Reading()
        read = Read()
        """, "y = y * read.scale", "Reading.times"),
    Part("a member of an enumeration", """
        class Mode(enum.Enum):
            FAST = 1
            def hit(self): self.hits = getattr(self, 'hits', 0) + 1
        """, "Mode.FAST.hit()", "Mode.FAST.hits"),
    Part("a tensor's class", """
        class Seen(torch.Tensor):
            calls = []
            @classmethod
            def __torch_function__(cls, f, types, args=(), kwargs=None):
                Seen.calls.append(1)
                return super().__torch_function__(f, types, args, kwargs or {})
        seen_t = torch.ones(3).as_subclass(Seen)
        """, "y = y + (seen_t * 2).sum().as_subclass(torch.Tensor)", "len(Seen.calls)"),
    # What only something written in C holds, and what modules hold.
    Part("an attribute of a module", "settings = types.ModuleType('settings'); settings.step = 0", "settings.step += 1",
         "settings.step"),
    Part("an attribute of a library", "torch.a_step = 0", "torch.a_step += 1", "torch.a_step"),
    Part("a list in a library", "F.a_log = []", "F.a_log.append(1)", "list(F.a_log)"),
    Part("the values of a dictionary", "logs = {'a': []}; views = logs.values()", "list(views)[0].append(1)", "logs"),
    Part("a mapping that cannot be written", "under = {'a': []}; above = types.MappingProxyType(under)",
         "above['a'].append(1)", "under"),
    Part("what an exception carries", "error = ValueError([])", "error.args[0].append(1); error.args += (1,)",
         "error.args"),
    Part("a lock", "lock = threading.Lock(); again = threading.RLock()", "lock.acquire(); again.acquire()",
         "lock.locked(), again._is_owned(), 'count=1 ' in repr(again)"),
    Part("a decimal context", "import decimal; exact = decimal.Context(prec=5)", "exact.prec += 1", "exact.prec"),
    Part("switches of torch", "torch.backends.mkldnn.enabled = True; torch.set_anomaly_enabled(False)",
         "torch.backends.mkldnn.enabled = False; torch.set_anomaly_enabled(True)",
         "torch.backends.mkldnn.enabled, torch.is_anomaly_enabled()"),
    # What is told apart by more than its text, and what hangs on tensors and objects unseen.
    Part("tensors under long keys", """
        averages = {f"encoder.layers.10.self_attention.projection.{n}": torch.ones(2) for n in range(3)}
        """, "for each in averages.values(): each.mul_(1.5)", "averages", pure=True),
    Part("objects as keys", """
        class Key:
            asked = 0
            def __repr__(self): Key.asked += 1; return "a key"
        by_key = {Key(): torch.ones(2) for _ in range(3)}
        """, "for each in by_key.values(): each.mul_(1.5)", "Key.asked, list(by_key.values())", pure=True),
    Part("a hook of a gradient that was added", """
        hooked, grads = nn.Parameter(torch.ones(3)), []
        hooked.register_post_accumulate_grad_hook(lambda p: grads.append(p.grad.clone()))
        """, "(hooked * x).sum().backward()", "grads, hooked.grad"),
    Part("the class that an object is of", """
        class Slow:
            def scale(self): return 1.0
        class Fast:
            def scale(self): return 2.0
        turned = Slow()
        """, "y = y * turned.scale(); turned.__class__ = Fast", "type(turned).__name__"),
    # What only asks, what the process holds beside objects, and what torch and Python wrap.
    Part("asking the system", "from os import getcwd", """
        y = y + os.cpu_count() + len(getcwd()) + ("HOME" in os.environ) + len(os.getenv("PATH", "")) + os.getpid() * 0
        y = y + (sys.version_info >= (3, 11)) + os.path.exists("/") + len(os.listdir("/")) * 0
        """, "()", pure=True),
    Part("the search path of modules", "sys.path[:] = [each for each in sys.path if each != 'added']",
         "sys.path.append('added')", "sys.path.count('added')"),
    Part("a heap", "import heapq; heap = [1, 3]", "heapq.heappush(heap, 2)", "heap"),
    Part("parametrizations", """
        normed = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))
        """, "y = y + normed(x).sum()", "normed.state_dict()", pure=True),
    Part("a closure of an optimizer", """
        m3 = nn.Linear(3, 1); opt3 = torch.optim.LBFGS(m3.parameters(), max_iter=2)
        """, """
        def closure():
            opt3.zero_grad(); loss3 = m3(x).square().mean(); loss3.backward(); return loss3
        y = y + opt3.step(closure).detach()
        """, "m3.state_dict(), [p.grad for p in m3.parameters()]", pure=True),
    Part("hooks of saved tensors", "packed = []; v3 = nn.Parameter(torch.ones(3))", """
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (packed.append(1), t)[1], lambda t: t):
            squared = (v3 * x).pow(2).sum()
        squared.backward()
        """, "len(packed), v3.grad"),
    Part("a function of autograd that counts", """
        class Doubled(torch.autograd.Function):
            calls = [0, 0]
            @staticmethod
            def forward(ctx, a): Doubled.calls[0] += 1; return a * 2
            @staticmethod
            def backward(ctx, g): Doubled.calls[1] += 1; return g * 2
        v4 = nn.Parameter(torch.ones(3))
        """, "Doubled.apply(v4).sum().backward()", "Doubled.calls, v4.grad"),
    Part("a module in place of another", "pair = nn.Sequential(nn.Linear(3, 3), nn.ReLU())",
         "pair[1] = nn.Tanh(); y = y + pair(x).sum()", "type(pair[1]).__name__"),
    Part("single dispatch", """
        @functools.singledispatch
        def shown(a): return 1
        """, "y = y + shown(3); shown.register(str, lambda a: 3)", "sorted(k.__name__ for k in shown.registry)"),
    Part("attributes made on demand", """
        class Memo:
            asked = []
            def __getattr__(self, name):
                if name.startswith("_"): raise AttributeError(name)
                Memo.asked.append(name); setattr(self, name, 2.0); return 2.0
        memo = Memo()
        """, "y = y + memo.scale", "Memo.asked, dict(vars(memo))"),
    # What nobody can put back.
    Part("an object that notices its end", """
        class Ending:
            ended = []
            def __del__(self): Ending.ended.append(1)
        endings = [Ending()]
        """, "endings.clear()", "list(Ending.ended), len(endings)", once=True),
    Part("a weak reference that notices an end", """
        class Watched: pass
        gone, watched = [], {'a': Watched()}
        reference = weakref.ref(watched['a'], lambda ended: gone.append(1))
        """, "watched.pop('a', None)", "gone, reference() is None", once=True),
    Part("a file", """
        path = pathlib.Path(tempfile.mkdtemp()) / "f.txt"
        """, "with open(path, 'a') as out: out.write('l')", "path.read_text()", once=True),
    Part("an open file", """
        handle = open(os.path.join(tempfile.mkdtemp(), "g.txt"), "w+")
        """, "handle.write('l'); handle.flush()", "handle.tell()", once=True),
    Part("an array in a file", """
        target = os.path.join(tempfile.mkdtemp(), "h.npy")
        """, "np.save(target, np.ones(2))", "os.path.getsize(target)", once=True),
    Part("a registered end", "class Kept: pass\nends, held = [], [Kept()]\nweakref.finalize(held[0], ends.append, 1)",
         "held.clear()", "ends", once=True),
    Part("a generator", "numbered = (n for n in range(9))", "y = y + next(numbered)", "next(numbered)", once=True),
    Part("an iterator", "it = iter([1, 2, 3])", "y = y + next(it)", "list(it)", once=True),
    Part("an endless iterator", "ticks = itertools.count()", "y = y + next(ticks)", "next(ticks)", once=True),
    Part("a cache", """
        @functools.lru_cache
        def looked_up(n): return n + 1
        """, "y = y + looked_up(3)", "looked_up.cache_info()", once=True),
    Part("a coroutine", "import asyncio\nasync def scale(): return 2.0", "y = y * asyncio.run(scale())", "()",
         once=True),
    Part("a file that is closed by its end", """
        pickled = os.path.join(tempfile.mkdtemp(), "p")
        """, "import pickle; pickle.dump([1], open(pickled, 'ab'))", "os.path.getsize(pickled)", once=True),
    Part("a finalizer of a tensor", """
        last, at_end = {'a': torch.ones(3)}, []
        weakref.finalize(last['a'], at_end.append, 1)
        """, "last.clear()", "at_end", once=True),
    # What the process, libraries and C hold in places of their own.
    Part("a hook that stays", "hooked_too = nn.Linear(3, 2)",
         "hooked_too.register_forward_hook(lambda m, i, o: o * 2); y = y + hooked_too(x).sum()",
         "len(hooked_too._forward_hooks)"),
    Part("the keywords of a partial", "partly = functools.partial(lambda a, by=1.0: a * by, by=2.0)",
         "y = partly(y); partly.keywords['by'] += 1; partly.note = 3", "partly.keywords, partly.note"),
    Part("a list in a named tuple", "Pair = collections.namedtuple('Pair', 'a b'); both_of = Pair([], {})",
         "both_of.a.append(1); both_of.b['k'] = 2", "tuple(both_of)"),
    Part("seeds that are drawn from", "seeds = np.random.SeedSequence(1); drawn = np.random.default_rng(seeds)",
         "drawn.spawn(1)", "seeds.n_children_spawned"),
    Part("how an array is read", "cells = np.zeros(2)", "cells.dtype = 'i8'; cells[0] = 3",
         "str(cells.dtype), cells"),
    Part("how arrays are printed", "states = np.random.RandomState(1); np.set_printoptions(threshold=5)",
         "y = y + states.rand()", "states.get_state()[1].tolist()"),
    Part("memory by its bytes", "held = torch.ones(2); raw_memory = held.untyped_storage()",
         "raw_memory[3] = raw_memory[3] + 1", "held", pure=True),
    Part("an exception's cause", "failed = ValueError('a')", "failed.__cause__ = KeyError('k')",
         "repr(failed.__cause__)"),
    Part("registered with an abstract class", "class Abstract(abc.ABC): pass\nclass Concrete: pass",
         "Abstract.register(Concrete)", "issubclass(Concrete, Abstract)"),
    Part("the context of decimals", "import decimal; decimal.setcontext(decimal.Context(prec=9))",
         "decimal.setcontext(decimal.Context(prec=5)); decimal.getcontext().prec += 1", "decimal.getcontext().prec"),
    Part("names of levels", "logging.addLevelName(33, 'ODD'); logging.setLogRecordFactory(logging.LogRecord)", """
        logging.addLevelName(33, logging.getLevelName(33) + 'D')
        logging.setLogRecordFactory(logging.makeLogRecord)
        """, """(
            logging.getLevelName(33), logging.getLogRecordFactory() is logging.LogRecord,
            logging.setLogRecordFactory(logging.LogRecord))"""),
    Part("logging switched off", "logging.disable(0)", "logging.disable(logging.root.manager.disable + 5)",
         "logging.root.manager.disable"),
    Part("hooks of all modules", "def seeing(m, i, o): pass", """
        y = y + 1; nn.modules.module.register_module_forward_hook(seeing)
        """, "len(nn.modules.module._global_forward_hooks), nn.modules.module._global_forward_hooks.clear()"),
    Part("the environment", "os.environ.pop('EFFECTS', None)",
         "os.environ['EFFECTS'] = os.environ.get('EFFECTS', '') + 'a'", "list(os.environ.items())"),
    Part("callbacks of the collector", "import gc\ndef collected(phase, info): pass", "gc.callbacks.append(collected)",
         "gc.callbacks.count(collected), gc.callbacks.remove(collected)"),
    Part("precision, one by one", "torch.backends.cuda.matmul.fp32_precision = 'ieee'", """
        torch.backends.cuda.matmul.fp32_precision = 'tf32'; torch.backends.mkldnn.conv.fp32_precision = 'ieee'
        """, "torch.backends.cuda.matmul.fp32_precision, torch.backends.mkldnn.conv.fp32_precision"),
    Part("engines and calls on errors", "torch.backends.quantized.engine = 'x86'; np.seterrcall(None)",
         "torch.backends.quantized.engine = 'onednn'; np.seterrcall(print); np.setbufsize(16384)",
         "torch.backends.quantized.engine, np.geterrcall() is print, np.getbufsize()"),
    Part("a gradient to be retained", "base = nn.Parameter(torch.ones(3)); middle = base * 2",
         "middle.retain_grad()", "middle.retains_grad", once=True),
    Part("a structure of C", "import ctypes; number = ctypes.c_int(3)", "number.value += 1", "number.value", once=True),
    Part("a view of bytes", "under_view = bytearray(b'ab'); over = memoryview(under_view)", "over[0] += 1",
         "bytes(under_view)", once=True),
    Part("memory of the system", "import mmap; mapped = mmap.mmap(-1, 8)", "mapped.write(b'q')",
         "mapped[0], mapped.tell()", once=True),
    Part("a digest", "import hashlib; digest = hashlib.sha256()", "digest.update(b'a')", "digest.hexdigest()",
         once=True),
    Part("a compressor", "import zlib; packer = zlib.compressobj()", "packer.compress(b'abc')",
         "packer.copy().flush()", once=True),
    Part("a queue", "import queue; waiting = queue.SimpleQueue()", "waiting.put(1)", "waiting.qsize()", once=True),
    Part("a database", "import sqlite3; rows_of = sqlite3.connect(':memory:'); rows_of.execute('create table t(a)')",
         "rows_of.execute('insert into t values (1)')", "list(rows_of.execute('select * from t'))", once=True),
    Part("rows of a text", "import csv; row_of = csv.reader(['a,b', 'c,d'])", "next(row_of)", "row_of.line_num",
         once=True),
    Part("what is called at the end", "import atexit\ndef bye(): pass", "atexit.register(bye)",
         "atexit.unregister(bye)", once=True),
    Part("a handler of a signal", "import signal; signal.signal(signal.SIGUSR1, signal.SIG_DFL)",
         "signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "str(signal.getsignal(signal.SIGUSR1))", once=True),
    Part("settings of the collector", "import gc; gc.set_threshold(700, 10, 10)", "gc.set_threshold(900, 10, 10)",
         "gc.get_threshold()", once=True),
    Part("spectral norm by a hook", "old = nn.utils.spectral_norm(nn.Linear(3, 3))", "y = y + old(x).sum()",
         "old.state_dict()"),
    Part("members of enumerations", """
        class Mode(enum.Enum):
            FAST = [1]
            SLOW = 2
        Mode.SLOW.seen = []
        """, "Mode.FAST.value.append(2); Mode.SLOW.seen.append(3); y = y + len(Mode.FAST.value)",
         "Mode.FAST.value, Mode.SLOW.seen"),
    # What a base class in C holds of an object, and a class that a library makes for it.
    Part("a graph that is edited", "traced = torch.fx.symbolic_trace(nn.Linear(3, 2))", """
        last = next(iter(reversed(traced.graph.nodes)))
        with traced.graph.inserting_before(last):
            last.args = (traced.graph.call_function(torch.neg, last.args),)
        traced.recompile()
        y = y + traced(x).sum()
        """, "traced.code, [str(each) for each in reversed(traced.graph.nodes)], traced(torch.ones(3)).detach()"),
    Part("an observer", "from torch.ao.quantization import MinMaxObserver; ranges = MinMaxObserver()",
         "y = y + ranges(x).sum()", "ranges.state_dict()", pure=True),
    Part("a tensor that holds others", """
        ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
        """, "ragged.mul_(2); y = y + ragged.values().sum()", "ragged.values()", once=True),
    Part("a future", "future = torch.futures.Future()", "future.done() or future.set_result(3)", "future.done()",
         once=True),
)  # fmt: skip

FILE = "<effects: "

BY_NAME = {part.name: part for part in PARTS}


@dataclass(frozen=True)
class Made:
    body: Callable[..., Any]
    seen: Callable[[], Any]


def text_of(names: tuple[str, ...], closure: bool) -> str:
    """A program of these parts: its data in a function around the one explored, or in globals."""
    parts = [BY_NAME[name] for name in names]
    scope = "nonlocal" if closure else "global"
    setup = "\n".join(textwrap.dedent(part.setup).strip() for part in parts)
    steps = "\n".join(textwrap.dedent(part.body.replace("{scope}", scope).replace("\n        count", "\ncount")).strip()
                      for part in parts)  # fmt: skip
    body = "def body(x):\n    y = x.sum()\n" + textwrap.indent(steps, "    ") + "\n    return y"
    seen = "def seen():\n    return (" + "".join(f"({part.seen}), " for part in parts) + ")"
    if not closure:
        return f"{HEAD}\n{setup}\n{body}\n{seen}\n"
    inside = textwrap.indent(f"{setup}\n{body}\n{seen}\nreturn body, seen", "    ")
    return f"{HEAD}\ndef around():\n{inside}\nbody, seen = around()\n"


def made(names: tuple[str, ...], closure: bool) -> Made:
    """A program, made anew."""
    text = text_of(names, closure)
    file = f"{FILE}{', '.join(names)}{' in a closure' if closure else ''}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    namespace: dict[str, Any] = {"__name__": "effects_made"}
    exec(compile(text, file, "exec", dont_inherit=True), namespace)
    return Made(namespace["body"], namespace["seen"])


def script(compiled: str) -> str:
    """A script in which each part is compiled, by the expression `compiled` of `body`, and called. It prints what one
    sees of the part, of the random numbers and of torch after each, and ends with the exit code 7."""
    parts = [HEAD, "import explorer", "torch.manual_seed(5); random.seed(5); np.random.seed(5)"]
    for part in PARTS:
        text = text_of((part.name,), closure=True).replace(HEAD, "")
        call = f"x = torch.randn(4, 3)\nprint({part.name!r}, ({compiled})(x), seen(), x._version)"
        parts += [
            f"torch._dynamo.reset()\ntry:\n{textwrap.indent(text + call, '    ')}",
            f"except Exception as error:\n    print({part.name!r}, 'raised', repr(error))",
            "print(torch.get_rng_state().sum(), random.random(), np.random.rand(), torch.get_default_dtype())",
        ]
    return "\n".join((*parts, "sys.exit(7)\n"))


class Runs:
    """Counts how often a function's body is run by Python, compiled or not, however it is called: `count`, afterwards.
    The profiler is one in C: a function of Python called at every call would take most of the time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.profiler = cProfile.Profile()

    @property
    def count(self) -> int:
        codes = [(each.code, each.callcount) for each in self.profiler.getstats() if isinstance(each.code, CodeType)]
        return sum(n for code, n in codes if code.co_name == self.name and code.co_filename.startswith(FILE))

    def __enter__(self) -> Runs:
        self.profiler.enable(subcalls=False, builtins=False)
        return self

    def __exit__(self, *_: object) -> None:
        self.profiler.disable()
