/* Runs kernels of products on what standard input says, and writes their outputs.
 *
 * Of each case int32: which kernel, how many sizes, bytes of out, bytes of x, words of the stream; then
 * the sizes, x and the stream. out and x end where a page that cannot be touched begins. A row of a
 * window follows its sizes; kernels without constants have no stream.
 */
#define _DEFAULT_SOURCE
#include KERNELS

#if defined(__riscv) /* Linux without a C library */
#include "riscv_linux.h"
#else
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#endif

typedef void (*of_struct)(int8_t *, const int8_t *, const int32_t *, const void *);
typedef void (*of_row)(int8_t *, const int8_t *, const int32_t *, const void *, int32_t);
typedef void (*of_copy)(int8_t *, const int8_t *, const void *);
typedef void (*any)(void);

static const any kernels[] = { NAMES };
enum {
    ROOM = 1 << 20,
    PAGE = 1 << 16,
    WINDOW = 18 /* sizes of a window with its results */
};

static int8_t *edge(void) {
    char *room =
        mmap(NULL, ROOM + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(room + ROOM, PAGE, PROT_NONE);
    return (int8_t *)room + ROOM;
}

int main(void) {
    static int32_t stream[ROOM / 4];
    int8_t *const out_end = edge(), *const x_end = edge();
    int32_t head[5], s[WINDOW + 1];
    while (fread(head, 4, 5, stdin) == 5) {
        int8_t *const out = out_end - head[2], *const x = x_end - head[3];
        if (fread(s, 4, (size_t)head[1], stdin) != (size_t)head[1] ||
            fread(x, 1, (size_t)head[3], stdin) != (size_t)head[3] ||
            fread(stream, 4, (size_t)head[4], stdin) != (size_t)head[4]) {
            return 2;
        }
        memset(out, 77, (size_t)head[2]);
        if (head[4] == 0) {
            ((of_copy)kernels[head[0]])(out, x, s);
        } else if (head[1] > WINDOW) {
            ((of_row)kernels[head[0]])(out, x, stream, s, s[WINDOW]);
        } else {
            ((of_struct)kernels[head[0]])(out, x, stream, s);
        }
        if (fwrite(out, 1, (size_t)head[2], stdout) != (size_t)head[2]) {
            return 3;
        }
    }
    return 0;
}
