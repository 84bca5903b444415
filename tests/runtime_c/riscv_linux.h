/* What the kernel server uses of a C library, by system calls of Linux on RISC-V. */
#include <stddef.h>
#include <stdint.h>

enum {
    stdin = 0,
    stdout = 1,
    PROT_NONE = 0,
    PROT_READ = 1,
    PROT_WRITE = 2,
    MAP_PRIVATE = 2,
    MAP_ANONYMOUS = 32
};

int main(void);

static long call(long number, long a, long b, long c, long d) {
    register long r0 __asm__("a0") = a;
    register long r1 __asm__("a1") = b;
    register long r2 __asm__("a2") = c;
    register long r3 __asm__("a3") = d;
    register long r4 __asm__("a4") = -1;
    register long r5 __asm__("a5") = 0;
    register long r7 __asm__("a7") = number;
    __asm__ volatile("ecall"
                     : "+r"(r0)
                     : "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5), "r"(r7)
                     : "memory");
    return r0;
}

static size_t all(long number, long file, uintptr_t at, size_t bytes) {
    size_t done = 0;
    long more = 1;
    for (; done < bytes && more > 0; done += more > 0 ? (size_t)more : 0) {
        more = call(number, file, (long)(at + done), (long)(bytes - done), 0);
    }
    return done;
}

static size_t fread(void *to, size_t size, size_t count, int file) {
    return all(63, file, (uintptr_t)to, size * count) / size;
}

static size_t fwrite(const void *from, size_t size, size_t count, int file) {
    return all(64, file, (uintptr_t)from, size * count) / size;
}

static char *mmap(void *at, size_t bytes, int access, int flags, int file, int offset) {
    (void)file, (void)offset;
    return (char *)call(222, (long)at, (long)bytes, access, flags);
}

static void mprotect(char *at, size_t bytes, int access) {
    (void)call(226, (long)at, (long)bytes, access, 0);
}

void *memset(void *to, int value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
        ((volatile char *)to)[i] = (char)value;
    }
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
        ((volatile char *)to)[i] = ((const char *)from)[i];
    }
    return to;
}

void _start(void);
void _start(void) {
    (void)call(93, main(), 0, 0, 0);
}
