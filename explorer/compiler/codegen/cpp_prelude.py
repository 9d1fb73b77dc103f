"""What generated C++ may name besides the language: each helper is written only into units that use it.

No standard header is included but <features.h>, since parsing those takes longer than compiling a kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from explorer.core.origin import Origins, origin, synthetic, union
from explorer.core.text import Line, LineWriter, Text
from explorer.ir.scalar import LIBM, LIBM_BINARY

_WORD = re.compile(r"[A-Za-z_]\w*")
_COMMENT = re.compile(r"//.*")

HELPERS: dict[str, str] = {
    "INFINITY": "#define INFINITY __builtin_inff()",
    "NAN": '#define NAN __builtin_nanf("")',
    # What max and min of OpenMP start from is infinite in g++, and the last finite number in clang.
    **{
        name: f"""\
#ifdef __clang__
#pragma omp declare reduction({name} : float, double : \\
    omp_out = {wins} ? omp_in : omp_out) initializer(omp_priv = {start})
#else
#define {name} {own}
#endif"""
        for name, own, wins, start in (
            ("float_max", "max", "omp_in > omp_out", "-INFINITY"),
            ("float_min", "min", "omp_out > omp_in", "INFINITY"),
        )
    },
    "VECTOR_MATH": """\
#include <features.h>
#if defined(__x86_64__) && defined(__GLIBC_PREREQ) && __GLIBC_PREREQ(2, 35)
#define VECTOR_MATH __attribute__((const, simd("notinbranch")))
#else
#define VECTOR_MATH __attribute__((const))
#endif""",
    # One condition at a time: g++ does not vectorize a loop that asks for two at once.
    **{
        name: f"""\
template <typename T> static inline T {name}(T a, T b) {{
    T found = a {sign} b ? a : b;
    return a == a ? found : a;
}}"""
        for name, sign in (("minimum", "<"), ("maximum", ">"))
    },
    # g++ does not vectorize a loop with a ?: whose condition is the same at all points.
    "fixed_where": "\n".join(
        f"""\
static inline {T} fixed_where(bool condition, {T} a, {T} b) {{
    {bits} mask = -({bits})condition;
    return __builtin_bit_cast({T}, (__builtin_bit_cast({bits}, a) & mask) | (__builtin_bit_cast({bits}, b) & ~mask));
}}"""
        for T, bits in (("float", "int"), ("double", "long"))
    ),
    # As the machine's instruction converts what does not fit, also where the compiler knows the number.
    "truncated": """\
template <typename I, typename F> static inline I truncated(F x) {
    I least = (I)1 << (8 * sizeof(I) - 1);
    return x >= (F)least && x < -(F)least ? (I)x : least;
}""",
    "bf16": "typedef unsigned short bf16;",
    "bf16_to_float": """\
static inline float bf16_to_float(bf16 x) {
    return __builtin_bit_cast(float, (unsigned)x << 16);
}""",
    "bf16_round": """\
static inline float bf16_round(float x) {
    unsigned bits = __builtin_bit_cast(unsigned, x);
    unsigned rounded = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000;
    return x != x ? NAN : __builtin_bit_cast(float, rounded);
}""",
    "bf16_bits": """\
static inline bf16 bf16_bits(float rounded) {
    return __builtin_bit_cast(unsigned, rounded) >> 16;
}""",
    "fp16": "typedef unsigned short fp16;",
    "fp16_to_float": """\
static inline float fp16_to_float(fp16 x) {
    unsigned size = (x & 0x7fff) << 13;
    float number = __builtin_bit_cast(float, size) * 0x1p112f;
    float special = __builtin_bit_cast(float, size | 0x7f800000);
    float value = size >= 0x0f800000 ? special : number;
    return __builtin_bit_cast(float, __builtin_bit_cast(unsigned, value) | (x & 0x8000) << 16);
}""",
    "fp16_round": """\
static inline float fp16_round(float x) {
    float size = __builtin_fabsf(x);
    unsigned bits = __builtin_bit_cast(unsigned, size);
    float normal = __builtin_bit_cast(float, (bits + 0xfff + ((bits >> 13) & 1)) & 0xffffe000);
    float small = (size + 0.75f) - 0.75f;
    float value = size >= 65520 ? INFINITY : size < 0x1p-14f ? small : normal;
    return x != x ? NAN : __builtin_copysignf(value, x);
}""",
    "fp16_bits": """\
static inline fp16 fp16_bits(float rounded) {
    float size = __builtin_fabsf(rounded);
    unsigned bits = __builtin_bit_cast(unsigned, size), sign = __builtin_bit_cast(unsigned, rounded) >> 31;
    unsigned small = (int)(size * 0x1p24f), normal = (bits >> 13) - (112 << 10);
    unsigned special = bits > 0x7f800000 ? 0x7e00 : 0x7c00;
    return (bits >= 0x47800000 ? special : bits < 0x38800000 ? small : normal) | sign << 15;
}""",
    "index_min": "static inline long index_min(long a, long b) { return a < b ? a : b; }",
    "index_max": "static inline long index_max(long a, long b) { return a > b ? a : b; }",
    "floor_div": "static inline long floor_div(long a, long b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }",
    "floor_mod": "static inline long floor_mod(long a, long b) { return a - b * floor_div(a, b); }",
    "fused": """\
static inline float fused(float a, float b, float c) {
#ifdef __FMA__
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}""",
    "exp_of_rest": """\
static inline float exp_of_rest(float r) {
    // Minimax for |r| <= ln(2) / 2.
    float p = fused(fused(fused(0.0013813089f, r, 0.0083694234f), r, 0.04166846f), r, 0.16666515f);
    return fused(fused(p, r, 0.49999994f) * r, r, r) + 1;
}""",
    "exp_float": """\
static inline float exp_float(float x) {
    // e^x = 2^n * e^r; 2^n in two factors, for subnormal results.
    float n = __builtin_rintf(x * 1.442695041f);
    float p = exp_of_rest(fused(n, 2.12194440e-4f, fused(n, -0.693359375f, x)));
    int whole = (int)n, low = whole >> 1;
    float scale = __builtin_bit_cast(float, (low + 127) << 23);
    float e = p * scale * __builtin_bit_cast(float, (whole - low + 127) << 23);
    return x > 89.0f ? INFINITY : x < -104.0f ? 0 : e;
}""",
    "exp_near": """\
static inline float exp_near(float x) {
    // e^x for |x| < 87, where 2^n is a normal number.
    float n = __builtin_rintf(x * 1.442695041f);
    float p = exp_of_rest(fused(n, 2.12194440e-4f, fused(n, -0.693359375f, x)));
    return p * __builtin_bit_cast(float, ((int)n + 127) << 23);
}""",
    "tanh_float": """\
static inline float tanh_float(float x) {
    // An odd minimax polynomial near 0, else from exp(2 |x|).
    float t = __builtin_fabsf(x), s = x * x;
    float p = fused(fused(fused(-0.0055149463f, s, 0.020469189f), s, -0.053687938f), s, 0.13330829f);
    p = fused(p, s, -0.3333326f);
    float far = t > 10 ? 1 : 1 - 2 / (exp_near(2 * t) + 1);
    return __builtin_copysignf(t < 0.65f ? fused(p * s, t, t) : far, x);
}""",
    "erf_float": """\
static inline float erf_float(float x) {
    // An odd minimax polynomial up to 1, beyond it 1 - exp(-q(|x|)).
    float t = __builtin_fabsf(x), s = x * x;
    float p = fused(fused(fused(7.8537763e-05f, s, -0.000801016809f), s, 0.00518832495f), s, -0.026853811f);
    p = fused(fused(fused(p, s, 0.112835854f), s, -0.37612626f), s, 0.128379166f);
    float q = fused(fused(fused(-0.000211632134f, t, 0.00319530629f), t, -0.0228260309f), t, 0.105160505f);
    q = fused(fused(q, t, 0.635796607f), t, 1.12849069f) * t;
    float far = t > 4 ? 1 : 1 - exp_near(-q);
    return t < 1 ? fused(p, x, x) : __builtin_copysignf(far, x);
}""",
    # By masks, or g++ would call the function behind the condition, or of what is not chosen. -0 changes no sum.
    **{
        f"{name}_float": f"""\
static inline float {name}_float(float x) {{
    float edge = {edge};
    return {name}f(fixed_where({inside}, x, {safe})) + fixed_where({inside}, -0.0f, edge);
}}"""
        for name, inside, safe, edge in (
            ("log", "x > 0", "1.0f", "x == 0 ? -INFINITY : NAN"),
            ("log2", "x > 0", "1.0f", "x == 0 ? -INFINITY : NAN"),
            ("log10", "x > 0", "1.0f", "x == 0 ? -INFINITY : NAN"),
            ("log1p", "x > -1", "0.0f", "x == -1 ? -INFINITY : NAN"),
            ("asin", "__builtin_fabsf(x) <= 1", "0.0f", "NAN"),
            ("acos", "__builtin_fabsf(x) <= 1", "0.0f", "NAN"),
            ("acosh", "x >= 1", "2.0f", "NAN"),
            (
                "atanh",
                "__builtin_fabsf(x) < 1",
                "0.0f",
                "__builtin_fabsf(x) == 1 ? __builtin_copysignf(INFINITY, x) : NAN",
            ),
        )
    },
    "transpose_block": """\
#ifdef __AVX512F__
#define VECTOR_BYTES 64
#else
#define VECTOR_BYTES 32
#endif
template <class T> struct Swaps {
    // For step s, the lanes of two rows that go to the first and to the second when blocks of N / 2^(s + 1) swap.
    static constexpr int N = VECTOR_BYTES / sizeof(T);
    T first[4][N] = {}, second[4][N] = {};
    constexpr Swaps() {
        for (int s = 0, half = N / 2; half; half /= 2, ++s)
            for (int lane = 0; lane < N; ++lane) {
                first[s][lane] = lane & half ? lane - half + N : lane;
                second[s][lane] = lane & half ? lane + N : lane + half;
            }
    }
};
template <class T> constexpr Swaps<T> swaps;
template <class T> static inline void transpose_block(const T* in, long along, T* out, long row) {
    // N x N elements in registers: blocks of N / 2 swap across the diagonal, then of N / 4, ...
    constexpr int N = VECTOR_BYTES / sizeof(T);
    typedef T Row __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
    Row rows[N];
    #pragma GCC unroll 64
    for (int i = 0; i < N; ++i) rows[i] = *(const Row*)(in + i * along);
    #pragma GCC unroll 64
    for (int s = 0, half = N / 2; half; half /= 2, ++s) {
        const Row first = *(const Row*)swaps<T>.first[s], second = *(const Row*)swaps<T>.second[s];
        #pragma GCC unroll 64
        for (int i = 0; i < N; ++i) {
            if (i & half) continue;
            Row a = rows[i], b = rows[i + half];
            #ifdef __clang__
            // It has no __builtin_shuffle.
            for (int k = 0; k < N; ++k) {
                rows[i][k] = first[k] < N ? a[first[k]] : b[first[k] - N];
                rows[i + half][k] = second[k] < N ? a[second[k]] : b[second[k] - N];
            }
            #else
            rows[i] = __builtin_shuffle(a, b, first);
            rows[i + half] = __builtin_shuffle(a, b, second);
            #endif
        }
    }
    #pragma GCC unroll 64
    for (int i = 0; i < N; ++i) *(Row*)(out + i * row) = rows[i];
}""",
    "transpose_tile": """\
template <class T> static inline void transpose_tile(const T* in, long along, T* out, long row, long down, long right) {
    // out[j * row + i] = in[i * along + j] for i < down, j < right
    long i = 0;
    if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
        constexpr int N = VECTOR_BYTES / sizeof(T);
        for (; i + N <= down; i += N) {
            long j = 0;
            for (; j + N <= right; j += N) {
                const T* from = in + i * along + j;
                T* to = out + j * row + i;
                if constexpr (sizeof(T) == 4) transpose_block((const int*)from, along, (int*)to, row);
                else transpose_block((const long*)from, along, (long*)to, row);
            }
            for (; j < right; ++j)
                for (int k = 0; k < N; ++k) out[j * row + i + k] = in[(i + k) * along + j];
        }
    }
    for (; i < down; ++i)
        for (long j = 0; j < right; ++j) out[j * row + i] = in[i * along + j];
}""",
    "trunc_div": """\
template <class T> static inline T trunc_div(T a, T b, int& bad, int zero) {
    bad |= (b == 0) << zero;
    return b == 0 ? 0 : T(-1) < 0 && b == T(-1) ? -a : a / b;
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
static inline float float_rest(float a, float b) { return fmodf(a, b); }
static inline double float_rest(double a, double b) { return fmod(a, b); }
template <class T> static inline T floor_div_float(T a, T b) {
    T rest = float_rest(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
    T whole = __builtin_floor(quotient);
    if (quotient - whole > T(0.5)) whole += 1;
    return b == 0 ? a / b : quotient == 0 ? T(__builtin_copysign(0.0, a / b)) : whole;
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
    if (b >= 0 && b < T(8 * sizeof(T))) return a >> b;
    return a < 0 ? -1 : 0;
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
        double far = (1 - size) - __builtin_erfc(__builtin_fabs(x));
        double error = size < 0.5 ? __builtin_erf(x) - y : y < 0 ? -far : far;
        x -= error / (1.1283791670955126 * __builtin_exp(-x * x));
    }
    return x;
}""",
    "erfinv_float": "static inline float erfinv_float(float y) { return erfinv_double(y); }",
    "PYTHON_ENTRY": """\
// What Python calls, with pointers, then sizes, then the number of threads: METH_FASTCALL, without Python.h.
extern "C" {
void* PyLong_AsVoidPtr(void*);
long PyLong_AsLong(void*);
void* PyLong_FromLong(long);
void* PyErr_Occurred();
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
        if (PyErr_Occurred()) return 0;                                               \\
        void* state = PyEval_SaveThread();                                            \\
        long failed = run(p, n, threads);                                             \\
        PyEval_RestoreThread(state);                                                  \\
        return PyLong_FromLong(failed);                                               \\
    }""",
}

_SCALAR_ONLY = frozenset({"nextafter", "fmod"})


def _declarations() -> dict[str, str]:
    """The C library's functions, with their vector variants (libmvec) where it has them."""
    found = {}
    for name in sorted((*LIBM, *LIBM_BINARY)):
        vector = "" if name in _SCALAR_ONLY else " VECTOR_MATH"
        for type_name, suffix in (("float", "f"), ("double", "")):
            parameters = ", ".join([type_name] * (2 if name in LIBM_BINARY else 1))
            found[name + suffix] = f'extern "C" {type_name} {name}{suffix}({parameters}){vector};'
    return found


_ORDERED = {**{name: HELPERS[name] for name in ("INFINITY", "NAN", "VECTOR_MATH")}, **_declarations(), **HELPERS}


def prelude(lines: Iterable[Line]) -> Text:
    """The helpers that `lines` name, each with the origins of the lines that need it."""
    needed: dict[str, Origins] = {}

    def need(text: str, causes: Origins) -> None:
        for word in set(_WORD.findall(_COMMENT.sub("", text))) & _ORDERED.keys():
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
