"""A program with every kind of instruction that compilers emit, for counting tests."""

from edgec.sim.core import CORES

#: The cores that run Thumb instructions.
CORTEX = tuple(name for name in CORES if name.startswith("cortex"))
MIXED = r"""
volatile int16_t samples[64];
volatile uint32_t sink[8];
struct pair { uint32_t a, b, c, d, e, f; };
struct pair pairs[4] = {{1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12}};

NOINLINE uint32_t divide(uint32_t a, uint32_t b)
{ return b ? a / b + (uint32_t)((int32_t)a / 7) : 0; }
NOINLINE int32_t clamp(int32_t v, int32_t low, int32_t high)
{ return v < low ? low : (v > high ? high : v); }
NOINLINE uint32_t choose(uint32_t n)
{ switch (n) { case 0: return sink[1] + 1; case 1: return sink[2] * 3; case 2: return sink[3] ^ 5;
    case 3: return sink[4] - 7; case 4: return sink[0] << 2; case 5: return sink[5] >> 1;
    case 6: return 11; default: return n; } }
NOINLINE void copy(struct pair *to, const struct pair *from) { *to = *from; }
NOINLINE int64_t multiply(int32_t a, int32_t b, int32_t n)
{ int64_t s = 0; for (int32_t i = 0; i < n; ++i) { s += (int64_t)(a + i) * (b - i); } return s; }
NOINLINE int32_t dot(const volatile int16_t *p, int32_t n)
{ int32_t s = 0; for (int32_t i = 0; i < n; i += 2) { s += p[i] * p[i + 1]; } return s; }
NOINLINE int32_t requantize(int32_t x, int32_t multiplier, int32_t shift)
{ int64_t p = (int64_t)x * multiplier + (1 << 30); int32_t q = (int32_t)(p >> 31);
  int32_t mask = (1 << shift) - 1; int32_t rest = q & mask; q >>= shift;
  return rest > (mask >> 1) + (q < 0) ? q + 1 : q; }
NOINLINE float series(uint32_t n)
{ float s = 0.5f; for (uint32_t i = 1; i < n; ++i) { s = s * 0.75f + 1.0f / (float)i; } return s; }
NOINLINE float lanes(const volatile float *p)
{ float a = p[0], b = p[1], c = p[2], d = p[3]; return a * b + c * d; }
volatile float floats[8] = {1.5f, 2.5f, -3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f};
NOINLINE uint32_t recurse(uint32_t n) { return n < 2 ? n : recurse(n - 1) + recurse(n - 2); }

NOINLINE uint32_t mixed(uint32_t n)
{
    uint32_t s = 0;
    for (uint32_t i = 0; i < 64; ++i) { samples[i] = (int16_t)(i * n - 900); }
    for (uint32_t i = 0; i < n; ++i) {
        s += divide(i * 977 + 5, i & 7);
        s ^= (uint32_t)clamp((int32_t)(i * 100) - 500, -128, 127);
        s += choose(i % 9);
        copy(&pairs[i & 3], &pairs[(i + 1) & 3]);
        s += (uint32_t)multiply((int32_t)i, 99, (int32_t)(i & 15));
        s += (uint32_t)dot(samples, (int32_t)(i & 62));
        s += (uint32_t)requantize((int32_t)(s ^ i), 0x55555555, (int32_t)(i & 7) + 1);
        sink[i & 7] = s;
    }
    s += recurse(9);
    s += (uint32_t)(int32_t)(series(n) * 100.0f) + (uint32_t)(int32_t)lanes(floats);
    return s;
}
"""
