"""What generated C++ may name besides the language: each helper is written only into units that use it.

No standard header is included but <features.h>, since parsing those takes longer than compiling a kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from explorer.codegen.cpp_scalar import LIBM
from explorer.core.origin import Origins, origin, synthetic, union
from explorer.core.text import Line, LineWriter, Text

_WORD = re.compile(r"[A-Za-z_]\w*")

HELPERS: dict[str, str] = {
    "INFINITY": "#define INFINITY __builtin_inff()",
    "NAN": '#define NAN __builtin_nanf("")',
    "VECTOR_MATH": """\
#include <features.h>
#if defined(__x86_64__) && defined(__GLIBC_PREREQ) && __GLIBC_PREREQ(2, 35)
#define VECTOR_MATH __attribute__((simd("notinbranch")))
#else
#define VECTOR_MATH
#endif""",
    "bf16": "typedef unsigned short bf16;",
    "bf16_to_float": """\
static inline float bf16_to_float(bf16 x) {
    return __builtin_bit_cast(float, (unsigned)x << 16);
}""",
    "float_to_bf16": """\
static inline bf16 float_to_bf16(float x) {
    unsigned bits = __builtin_bit_cast(unsigned, x);
    unsigned rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return x != x ? 0x7fc0 : rounded;
}""",
    "index_min": "static inline long index_min(long a, long b) { return a < b ? a : b; }",
    "index_max": "static inline long index_max(long a, long b) { return a > b ? a : b; }",
    "floor_div": "static inline long floor_div(long a, long b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }",
    "floor_mod": "static inline long floor_mod(long a, long b) { return a - b * floor_div(a, b); }",
    "trunc_div": """\
template <class T> static inline T trunc_div(T a, T b, int& bad, int zero) {
    bad |= (b == 0) << zero;
    return b == 0 ? 0 : b == T(-1) ? -a : a / b;
}""",
    "trunc_mod": """\
template <class T> static inline T trunc_mod(T a, T b, int& bad, int zero) {
    return a - b * trunc_div<T>(a, b, bad, zero);
}""",
    "checked_floor_mod": """\
template <class T> static inline T checked_floor_mod(T a, T b, int& bad, int zero) {
    T rest = trunc_mod<T>(a, b, bad, zero);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}""",
    "checked_floor_div": """\
template <class T> static inline T checked_floor_div(T a, T b, int& bad, int zero) {
    T quotient = trunc_div<T>(a, b, bad, zero), rest = a - b * quotient;
    return rest != 0 && (rest < 0) != (b < 0) ? quotient - 1 : quotient;
}""",
    "floor_mod_float": """\
static inline float floor_mod_float(float a, float b) {
    float rest = fmodf(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
static inline double floor_mod_float(double a, double b) {
    double rest = fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}""",
    "floor_div_float": """\
template <class T> static inline T floor_div_float(T a, T b) {
    T rest = floor_mod_float(a, b), quotient = (a - rest) / b, whole = __builtin_floor(quotient);
    T near = quotient - whole > T(0.5) ? whole + 1 : whole;
    return b == 0 ? a / b : near == 0 ? T(__builtin_copysign(0.0, a / b)) : near;
}""",
    "int_pow": """\
template <class T> static inline T int_pow(T base, T exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == T(-1) ? (exponent & 1 ? -1 : 1) : 0;
    T result = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1) result *= base;
    return result;
}""",
    "shift_left": """\
template <class T> static inline T shift_left(T a, T b) {
    return b < 0 || b >= T(8 * sizeof(T)) ? 0 : a << b;
}""",
    "shift_right": """\
template <class T> static inline T shift_right(T a, T b) {
    return a >> (b < 0 || b >= T(8 * sizeof(T)) ? T(8 * sizeof(T) - 1) : b);
}""",
    "lgamma_float": """\
extern "C" float lgammaf_r(float, int*);
static inline float lgamma_float(float x) { int sign; return lgammaf_r(x, &sign); }""",
    "lgamma_double": """\
extern "C" double lgamma_r(double, int*);
static inline double lgamma_double(double x) { int sign; return lgamma_r(x, &sign); }""",
    "digamma_double": """\
static double digamma_double(double x) {
    // Recurrence up to 10, then the asymptotic series; reflection for negative arguments.
    if (x == 0) return __builtin_copysign(__builtin_inf(), -x);
    double shift = 0;
    if (x < 0) {
        if (x == __builtin_trunc(x)) return NAN;
        double rest = x - __builtin_trunc(x);
        shift = -3.141592653589793 / __builtin_tan(3.141592653589793 * rest);
        x = 1 - x;
    }
    for (; x < 10; ++x) shift -= 1 / x;
    double s = 1 / (x * x);
    double series = s * (1 / 12.0 - s * (1 / 120.0 - s * (1 / 252.0 - s * (1 / 240.0 - s * (1 / 132.0
                  - s * (691 / 32760.0 - s / 12))))));
    return shift + __builtin_log(x) - 0.5 / x - series;
}""",
    "digamma_float": "static inline float digamma_float(float x) { return digamma_double(x); }",
    "erfinv_double": """\
static double erfinv_double(double y) {
    // A rational first guess (Winitzki), then Newton steps on erf.
    double size = __builtin_fabs(y);
    if (!(size <= 1)) return NAN;
    if (size == 1) return __builtin_copysign(__builtin_inf(), y);
    double tail = __builtin_log1p(-y * y), half = 4.330746750799873 + 0.5 * tail;
    double x = __builtin_copysign(__builtin_sqrt(__builtin_sqrt(half * half - tail / 0.147) - half), y);
    for (int step = 0; step < 4; ++step) {
        double error = (size < 0.5 ? __builtin_erf(x) - y
                                   : __builtin_copysign((1 - size) - __builtin_erfc(__builtin_fabs(x)), y));
        x -= error / (1.1283791670955126 * __builtin_exp(-x * x));
    }
    return x;
}""",
    "erfinv_float": "static inline float erfinv_float(float y) { return erfinv_double(y); }",
}

HELPERS["PYTHON_ENTRY"] = """\
// What Python calls, with pointers, then sizes, then the number of threads: METH_FASTCALL, without Python.h.
extern "C" {
void* PyLong_AsVoidPtr(void*);
long PyLong_AsLong(void*);
void* PyLong_FromLong(long);
void* PyEval_SaveThread();
void PyEval_RestoreThread(void*);
}
#define PYTHON_ENTRY(run, pointers, sizes)                                            \\
    extern "C" void* run##_entry(void*, void* const* args, long) {                    \\
        char* p[pointers + 1];                                                        \\
        long n[sizes + 1];                                                            \\
        for (int i = 0; i < pointers; ++i) p[i] = (char*)PyLong_AsVoidPtr(args[i]);   \\
        for (int i = 0; i < sizes; ++i) n[i] = PyLong_AsLong(args[pointers + i]);     \\
        int threads = PyLong_AsLong(args[pointers + sizes]);                          \\
        void* state = PyEval_SaveThread();                                            \\
        long failed = run(p, n, threads);                                             \\
        PyEval_RestoreThread(state);                                                  \\
        return PyLong_FromLong(failed);                                               \\
    }"""

_TWO_OPERANDS = frozenset({"pow", "atan2", "hypot", "nextafter", "fmod"})
_SCALAR_ONLY = frozenset({"nextafter", "fmod"})


def _declarations() -> dict[str, str]:
    """The C library's functions, with their vector variants (libmvec) where it has them."""
    found = {}
    for name in sorted(LIBM):
        vector = "" if name in _SCALAR_ONLY else " VECTOR_MATH"
        for type_name, suffix in (("float", "f"), ("double", "")):
            parameters = ", ".join([type_name] * (2 if name in _TWO_OPERANDS else 1))
            found[name + suffix] = f'extern "C" {type_name} {name}{suffix}({parameters}){vector};'
    return found


_ORDERED = {
    **{name: HELPERS[name] for name in ("INFINITY", "NAN", "VECTOR_MATH", "bf16")},
    **_declarations(),
    **HELPERS,
}


def prelude(lines: Iterable[Line]) -> Text:
    """The helpers that `lines` name, each with the origins of the lines that need it."""
    needed: dict[str, Origins] = {}

    def need(text: str, causes: Origins) -> None:
        for word in set(_WORD.findall(text)) & _ORDERED.keys():
            known = needed.get(word)
            needed[word] = union(known or (), causes)
            if known is None:
                need(_ORDERED[word].replace(word, ""), causes)

    for line in lines:
        need(line.text, line.origins)
    writer = LineWriter("prelude", "cpp")
    for name, text in _ORDERED.items():
        if name in needed:
            with origin(*(needed[name] or (synthetic("C++ prelude"),))):
                writer.line(text)
    return writer.finish()
