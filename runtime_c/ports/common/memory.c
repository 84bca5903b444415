/* The four memory functions that C compilers call by themselves, and on Arm the names that its
 * run-time ABI (IHI 0043, 4.3.4) has for them. All are weak: a libc's own win.
 *
 * The empty assembly in each loop keeps the compiler from recognising the loop as the very
 * function it implements.
 */
#include <stddef.h>
#include <stdint.h>

#define KEEP_LOOP() __asm__ volatile("")

typedef uint32_t __attribute__((may_alias)) word_t;

void *memcpy(void *restrict to, const void *restrict from, size_t count)
    __attribute__((weak, alias("copy_forwards")));
void *memmove(void *to, const void *from, size_t count);
void *memset(void *to, int value, size_t count);
int memcmp(const void *left, const void *right, size_t count);

static int are_words(const void *left, const void *right) {
    return (((uintptr_t)left | (uintptr_t)right) & 3u) == 0u;
}

/* memcpy, from the first byte on: right unless `to` lies inside `from`. memmove calls it by this
 * name, since a libc's memcpy may go the other way. */
__attribute__((noinline, used)) static void *copy_forwards(void *to, const void *from,
                                                           size_t count) {
    uint8_t *out = to;
    const uint8_t *in = from;
    if (are_words(to, from)) {
        for (; count >= 16u; count -= 16u, out += 16, in += 16) {
            const word_t *source = (const word_t *)(const void *)in;
            word_t *target = (word_t *)(void *)out;
            target[0] = source[0];
            target[1] = source[1];
            target[2] = source[2];
            target[3] = source[3];
            KEEP_LOOP();
        }
        for (; count >= 4u; count -= 4u, out += 4, in += 4) {
            *(word_t *)(void *)out = *(const word_t *)(const void *)in;
            KEEP_LOOP();
        }
    }
    for (; count != 0u; count--) {
        *out++ = *in++;
        KEEP_LOOP();
    }
    return to;
}

__attribute__((weak)) void *memmove(void *to, const void *from, size_t count) {
    uint8_t *out = to;
    const uint8_t *in = from;
    if ((uintptr_t)out - (uintptr_t)in >= count) {
        /* Forwards is safe: `to` is below `from` or beyond its end. */
        return copy_forwards(to, from, count);
    }
    if (are_words(to, from)) {
        for (; (count & 3u) != 0u; count--) {
            out[count - 1u] = in[count - 1u];
            KEEP_LOOP();
        }
        for (; count != 0u; count -= 4u) {
            *(word_t *)(void *)(out + count - 4u) =
                *(const word_t *)(const void *)(in + count - 4u);
            KEEP_LOOP();
        }
        return to;
    }
    for (; count != 0u; count--) {
        out[count - 1u] = in[count - 1u];
        KEEP_LOOP();
    }
    return to;
}

__attribute__((weak)) void *memset(void *to, int value, size_t count) {
    uint8_t *out = to;
    const uint8_t byte = (uint8_t)value;
    for (; count != 0u && ((uintptr_t)out & 3u) != 0u; count--) {
        *out++ = byte;
        KEEP_LOOP();
    }
    const uint32_t word = byte * 0x01010101u;
    for (; count >= 4u; count -= 4u, out += 4) {
        *(word_t *)(void *)out = word;
        KEEP_LOOP();
    }
    for (; count != 0u; count--) {
        *out++ = byte;
        KEEP_LOOP();
    }
    return to;
}

__attribute__((weak)) int memcmp(const void *left, const void *right, size_t count) {
    const uint8_t *a = left;
    const uint8_t *b = right;
    for (; count != 0u; count--, a++, b++) {
        if (*a != *b) {
            return (int)*a - (int)*b;
        }
        KEEP_LOOP();
    }
    return 0;
}

#if defined(__arm__)
/* clang calls these; gcc does not. The 4 and 8 promise alignment. The order of set's arguments is
 * the ABI's own. */
#define ABI_COPY(name)                                                          \
    void name(void *to, const void *from, size_t count);                        \
    __attribute__((weak)) void name(void *to, const void *from, size_t count) { \
        (void)memcpy(to, from, count);                                          \
    }
#define ABI_MOVE(name)                                                          \
    void name(void *to, const void *from, size_t count);                        \
    __attribute__((weak)) void name(void *to, const void *from, size_t count) { \
        (void)memmove(to, from, count);                                         \
    }
#define ABI_SET(name)                                                    \
    void name(void *to, size_t count, int value);                        \
    __attribute__((weak)) void name(void *to, size_t count, int value) { \
        (void)memset(to, value, count);                                  \
    }
#define ABI_CLEAR(name)                                       \
    void name(void *to, size_t count);                        \
    __attribute__((weak)) void name(void *to, size_t count) { \
        (void)memset(to, 0, count);                           \
    }

ABI_COPY(__aeabi_memcpy)
ABI_COPY(__aeabi_memcpy4)
ABI_COPY(__aeabi_memcpy8)
ABI_MOVE(__aeabi_memmove)
ABI_MOVE(__aeabi_memmove4)
ABI_MOVE(__aeabi_memmove8)
ABI_SET(__aeabi_memset)
ABI_SET(__aeabi_memset4)
ABI_SET(__aeabi_memset8)
ABI_CLEAR(__aeabi_memclr)
ABI_CLEAR(__aeabi_memclr4)
ABI_CLEAR(__aeabi_memclr8)
#endif
