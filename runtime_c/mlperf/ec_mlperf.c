/* The device's end of the MLPerf Tiny benchmark protocol: see the header.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#include "ec_mlperf.h"

#include "ec_port.h"

#include <stddef.h>

/* Not <string.h>: a freestanding compiler need not have it. */
void *memcpy(void *restrict to, const void *restrict from, size_t count);

#define DEFAULT_ITERATIONS 1
#define DEFAULT_WARMUPS 10
#define PRINTED_BYTES 8u /* of the buffer, in one line */

static struct {
    const ec_mlperf_model *model;
    uint32_t expected; /* bytes that `db load` announced */
    uint32_t loaded;   /* bytes that have come */
    uint32_t length;   /* of the command so far; excess bytes are counted, not kept */
    char command[EC_MLPERF_COMMAND + 1u];
} state;

/* --- printing ------------------------------------------------------------------------------ */

static void put_text(const char *text) {
    while (*text != '\0') {
        ec_port_putc((uint8_t)*text++);
    }
}

static void end_line(void) {
    put_text("\r\n");
}

static void put_line(const char *text) {
    put_text(text);
    end_line();
}

/* Decimal digits, at least `least` of them. */
static void put_number(uint64_t value, uint32_t least) {
    char digits[20];
    uint32_t count = 0;
    while (value != 0u || count < least) {
        digits[count++] = (char)('0' + (char)(value % 10u));
        value /= 10u;
    }
    while (count > 0u) {
        ec_port_putc((uint8_t)digits[--count]);
    }
}

static void put_signed(int32_t value) {
    if (value < 0) {
        ec_port_putc('-');
    }
    put_number(value < 0 ? (uint64_t)(-(int64_t)value) : (uint64_t)value, 1);
}

/* Send a text of the host back. A line may have damaged it, and hosts stop at bytes that are not text. */
static void put_echo(const char *text, uint32_t most) {
    for (; most > 0u && *text != '\0'; most--, text++) {
        ec_port_putc(*text >= ' ' && *text <= '~' ? (uint8_t)*text : (uint8_t)'?');
    }
}

static void put_line_with(const char *before, uint32_t value, const char *after) {
    put_text(before);
    put_number(value, 1);
    put_line(after);
}

/* A float with three decimals, rounded half to even as printf does, in integers alone: the value
 * is mantissa * 2^exponent. From 2^40 on "inf", which no benchmark's result comes near. */
static void put_float(float value) {
    uint32_t bits;
    uint64_t thousandths;
    int32_t exponent;
    (void)memcpy(&bits, &value, sizeof bits);
    if ((bits >> 31) != 0u) {
        ec_port_putc('-');
    }
    exponent = (int32_t)((bits >> 23) & 255u);
    thousandths = bits & 0x7FFFFFu;
    if (exponent == 255 && thousandths != 0u) {
        put_text("nan");
        return;
    }
    if (exponent >= 127 + 40) {
        put_text("inf");
        return;
    }
    thousandths = (exponent == 0 ? thousandths : thousandths | 0x800000u) * 1000u;
    exponent = (exponent == 0 ? 1 : exponent) - 127 - 23;
    if (exponent >= 0) {
        thousandths <<= exponent;
    } else if (exponent < -40) {
        thousandths = 0; /* below 2^34 * 2^-40, less than a half */
    } else {
        const uint64_t half = 1ULL << (-exponent - 1);
        const uint64_t rest = thousandths & (2u * half - 1u);
        thousandths >>= -exponent;
        if (rest > half || (rest == half && (thousandths & 1u) != 0u)) {
            thousandths++;
        }
    }
    put_number(thousandths / 1000u, 1);
    ec_port_putc('.');
    put_number(thousandths % 1000u, 3);
}

#ifdef EC_MLPERF_ENERGY
#define MODE "m-timestamp-mode-energy"

static void put_time_stamp(void) {
    ec_mlperf_pulse();
}
#else
#define MODE "m-timestamp-mode-performance"

static void put_time_stamp(void) {
    const uint64_t ticks = ec_port_ticks();
    const uint32_t hz = ec_port_ticks_hz();
    /* Seconds apart from the rest, so that nothing overflows for a hundred thousand years. */
    const uint64_t us = ticks / hz * 1000000u + ticks % hz * 1000000u / hz;
    put_line_with("m-lap-us-", (uint32_t)us, "");
}
#endif

/* --- reading words -------------------------------------------------------------------------- */

/* Cut off and return the next word; "" at the end. */
static char *next_word(char **rest) {
    char *at = *rest;
    char *word;
    while (*at == ' ') {
        at++;
    }
    word = at;
    while (*at != '\0' && *at != ' ') {
        at++;
    }
    if (*at != '\0') {
        *at++ = '\0';
    }
    *rest = at;
    return word;
}

static int is_word(const char *word, const char *wanted) {
    while (*word == *wanted && *word != '\0') {
        word++;
        wanted++;
    }
    return *word == *wanted;
}

/* A decimal number, 0 for other texts, limited to far more than any real number here. */
static int32_t read_number(const char *word) {
    const int is_negative = *word == '-';
    int32_t value = 0;
    word += is_negative;
    while (*word >= '0' && *word <= '9') {
        value = value > 99999999 ? 999999999 : 10 * value + (*word - '0');
        word++;
    }
    return is_negative ? -value : value;
}

/* The value of a hexadecimal digit, or 16. */
static uint32_t read_digit(char digit) {
    if (digit >= '0' && digit <= '9') {
        return (uint32_t)(digit - '0');
    }
    if (digit >= 'a' && digit <= 'f') {
        return (uint32_t)(digit - 'a') + 10u;
    }
    if (digit >= 'A' && digit <= 'F') {
        return (uint32_t)(digit - 'A') + 10u;
    }
    return 16u;
}

/* --- commands ------------------------------------------------------------------------------- */

static void load_announced(const char *count) {
    const int32_t bytes = read_number(count);
    if (*count == '\0') {
        put_line("e-[Command 'db load' requires the # of bytes]");
    } else if (bytes <= 0) {
        put_line("e-[Command 'db load' must be >0 bytes]");
    } else if ((uint32_t)bytes > state.model->buffer_bytes) {
        put_line_with("e-[Command 'db load' is too large: the buffer has ",
                      state.model->buffer_bytes, " bytes]");
    } else {
        state.expected = (uint32_t)bytes;
        state.loaded = 0;
        put_line_with("m-[Expecting ", state.expected, " bytes]");
    }
}

static void load_bytes(const char *digits) {
    while (*digits != '\0') {
        uint32_t high;
        uint32_t low;
        if (digits[1] == '\0') {
            put_line("e-[Insufficent number of hex digits]"); /* spelled as hosts know it */
            return;
        }
        high = read_digit(digits[0]);
        low = read_digit(digits[1]);
        if (high > 15u || low > 15u) {
            put_text("e-[Invalid hex digit '");
            put_echo(digits, 2);
            put_line("']");
            return;
        }
        if (state.loaded < state.expected) {
            state.model->buffer[state.loaded++] = (uint8_t)(high * 16u + low);
            if (state.loaded == state.expected) {
                put_line("m-load-done");
            }
        }
        digits += 2;
    }
}

static void print_buffer(void) {
    static const char digits[] = "0123456789abcdef";
    for (uint32_t at = 0; at < state.loaded; at++) {
        const uint8_t byte = state.model->buffer[at];
        put_text(at % PRINTED_BYTES == 0u ? "m-buffer-" : "-");
        ec_port_putc((uint8_t)digits[byte >> 4]);
        ec_port_putc((uint8_t)digits[byte & 15u]);
        if (at % PRINTED_BYTES == PRINTED_BYTES - 1u || at + 1u == state.loaded) {
            end_line();
        }
    }
}

static void do_db(char *rest) {
    const char *const word = next_word(&rest);
    if (is_word(word, "load")) {
        load_announced(next_word(&rest));
    } else if (is_word(word, "print")) {
        print_buffer();
    } else if (*word == '\0') {
        put_line("e-[Command 'db' requires 'load', 'print' or hex digits]");
    } else {
        load_bytes(word);
    }
}

static void do_results(void) {
    put_text("m-results-[");
    for (uint32_t i = 0; i < state.model->result_count; i++) {
        if (i != 0u) {
            ec_port_putc(',');
        }
        put_float(state.model->result(i));
    }
    put_line("]");
}

/* Run `count` times; false after saying what went wrong. */
static int run_times(int32_t count) {
    while (count-- > 0) {
        const int32_t status = state.model->run();
        if (status != 0) {
            put_text("e-[Inference failed: ");
            put_signed(status);
            put_line("]");
            return 0;
        }
    }
    return 1;
}

static void do_infer(char *rest) {
    const char *const first = next_word(&rest);
    const char *const second = next_word(&rest);
    const int32_t count = *first == '\0' ? DEFAULT_ITERATIONS : read_number(first);
    const int32_t warmups = *second == '\0' ? DEFAULT_WARMUPS : read_number(second);
    if (count <= 0) {
        put_line("e-[Inference iterations must be >0]");
        return;
    }
    if (warmups < 0) {
        put_line("e-[Inference warmup must be >=0]");
        return;
    }
    state.model->load();
    put_line_with("m-warmup-start-", (uint32_t)warmups, "");
    if (!run_times(warmups)) {
        return;
    }
    put_line("m-warmup-done");
    put_line_with("m-infer-start-", (uint32_t)count, "");
    put_time_stamp();
    if (!run_times(count)) {
        return;
    }
    put_time_stamp();
    put_line("m-infer-done");
    do_results();
}

static void do_help(void) {
    put_line("name                 who made this device");
    put_line("timestamp            microseconds since the start");
    put_line("profile              the benchmark's and the model's name");
    put_line("db load N            N bytes of input will come");
    put_line("db HH..              bytes of input, in hexadecimal");
    put_line("db print             show them");
    put_line("infer N W            W inferences to warm up, N measured ones");
    put_line("results              of the last inference");
}

static void do_command(void) {
    char *rest = state.command;
    const char *const word = next_word(&rest);
    if (state.length > EC_MLPERF_COMMAND) {
        put_line_with("e-[Command is longer than ", EC_MLPERF_COMMAND, " characters]");
    } else if (is_word(word, "name")) {
        put_line("m-name-dut-[" EC_MLPERF_VENDOR "]");
    } else if (is_word(word, "timestamp")) {
        put_time_stamp();
    } else if (is_word(word, "profile")) {
        put_line("m-profile-[ULPMark for tinyML Firmware V0.0.1]");
        put_text("m-model-[");
        put_text(state.model->id);
        put_line("]");
    } else if (is_word(word, "help")) {
        do_help();
    } else if (is_word(word, "db")) {
        do_db(rest);
    } else if (is_word(word, "infer")) {
        do_infer(rest);
    } else if (is_word(word, "results")) {
        do_results();
    } else {
        put_text("e-[Unknown command: ");
        put_echo(word, EC_MLPERF_COMMAND);
        put_line("]");
    }
    put_line("m-ready");
}

void ec_mlperf_serve(const ec_mlperf_model *model) {
    int32_t status;
    state.model = model;
    put_line(MODE);
    put_time_stamp();
    status = model->init();
    if (status != 0) {
        put_text("e-[Model failed to set up: ");
        put_signed(status);
        put_line("]");
    }
    put_line("m-init-done");
    put_line("m-ready");
    for (;;) {
        const int32_t byte = ec_port_getc();
        if (byte < 0) {
            ec_port_idle();
        } else if (byte == '%') {
            state.command[state.length < EC_MLPERF_COMMAND ? state.length : EC_MLPERF_COMMAND] =
                '\0';
            do_command();
            state.length = 0;
        } else if (byte != '\r' && byte != '\n' && byte != 0) { /* 0: a line that is powered up */
            if (state.length < EC_MLPERF_COMMAND) {
                state.command[state.length] = (char)byte;
            }
            state.length += state.length <= EC_MLPERF_COMMAND;
        }
    }
}
