/* The device's end of the serial link (docs/serial_protocol.md).
 *
 * One frame buffer serves for the request and then, overwritten in place, for its answer: every
 * argument of a request is read before the first byte of the answer is written.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#include "ec_link.h"

#include "ec_port.h"

#include <stddef.h>

/* Not <string.h>: a freestanding compiler need not have it. */
void *memcpy(void *restrict to, const void *restrict from, size_t count);
void *memmove(void *to, const void *from, size_t count);
void *memset(void *to, int value, size_t count);
int memcmp(const void *left, const void *right, size_t count);

#if EC_LINK_CHUNK < 128 || EC_LINK_CHUNK > 4096
#error "EC_LINK_CHUNK must be from 128 to 4096"
#endif

/* Frame layout, in bytes. */
#define VERSION_BYTE (0xE0u + EC_LINK_VERSION)
#define HEADER_BYTES 6u
#define ARGUMENT_BYTES 8u /* the longest arguments before a chunk of data: those of read */
#define CRC_BYTES 4u
#define FRAME_BYTES (HEADER_BYTES + ARGUMENT_BYTES + EC_LINK_CHUNK + CRC_BYTES)

/* Inlining the small functions that every command uses would cost a third more flash. */
#if defined(__GNUC__)
#define EC_NOINLINE __attribute__((noinline))
#else
#define EC_NOINLINE
#endif

#define TYPE_ANSWER 0x80u
#define TYPE_DAMAGED 0xFFu

/* The first block of a frame begins as if after a full one: no zero precedes it. */
#define COBS_FULL 0xFFu
#define COBS_MOST 254u

enum command {
    HELLO = 1,
    PORT = 2,
    ECHO = 3,
    WRITE = 4,
    READ = 5,
    RUN = 6,
    CONTINUE = 7,
    STACK = 8,
    SELFTEST = 9,
    RESET = 10,
    RESTART = 11
};

enum code {
    OK = 0,
    ERR_UNKNOWN = 1,
    ERR_LENGTH = 2,
    ERR_INDEX = 3,
    ERR_RANGE = 4,
    ERR_STOPPED = 5,
    ERR_NOT_STOPPED = 6,
    ERR_UNSUPPORTED = 7,
    ERR_VERSION = 8
};

enum kind {
    KIND_INPUT = 0,
    KIND_OUTPUT = 1,
    KIND_TRACE = 2
};

enum stops {
    STOP_VALUES = 1,
    STOP_STEPS = 2
};

#define STATE_DONE 0u
#define STATE_STOPPED 1u
#define REPLAY_BYTES 40u

static struct {
    const ec_link_model *model;

    /* Receiver. */
    uint32_t used;    /* bytes decoded so far */
    uint8_t code;     /* of the block being read */
    uint8_t left;     /* bytes of that block still to come */
    uint8_t overflow; /* the frame is longer than the buffer */

    /* The request being answered, and the answer to the last command that acted. */
    uint8_t type;
    uint16_t sequence;
    uint8_t replay_type; /* 0: none */
    uint16_t replay_sequence;
    uint8_t replay_length;
    uint8_t replay[REPLAY_BYTES];

    /* The run in progress. */
    uint8_t stops;
    uint8_t stopped;
    uint8_t hello_waits; /* a hello came while stopped: it is answered when the run has ended */
    uint32_t first_id;
    uint32_t last_id;
    uint32_t event;
    uint64_t started;
    uint64_t excluded; /* ticks spent in stops */
    uint32_t overhead;
    const uint8_t *value;
    uint32_t value_bytes;
} link_state;

/* Apart from the rest so that the rest, being small, is reached with short offsets. */
static uint8_t frame[FRAME_BYTES];

#define ARGUMENTS (frame + HEADER_BYTES)

/* --- numbers in frames ------------------------------------------------------------------- */

EC_NOINLINE static uint32_t get(const uint8_t *from, uint32_t bytes) {
    uint32_t value = 0;
    while (bytes-- > 0u) {
        value = (value << 8) | from[bytes];
    }
    return value;
}

EC_NOINLINE static uint8_t *put(uint8_t *to, uint32_t value, uint32_t bytes) {
    while (bytes-- > 0u) {
        *to++ = (uint8_t)value;
        value >>= 8;
    }
    return to;
}

EC_NOINLINE static uint8_t *put_ticks(uint8_t *to, uint64_t value) {
    return put(put(to, (uint32_t)value, 4), (uint32_t)(value >> 32), 4);
}

EC_NOINLINE static uint8_t *put_text(uint8_t *to, const char *text, uint32_t most) {
    if (text != NULL) {
        while (*text != '\0' && most-- > 0u) {
            *to++ = (uint8_t)*text++;
        }
    }
    *to++ = 0;
    return to;
}

/* CRC-32 as in zlib, four bits at a time: a table of 64 bytes instead of 1 KB. */
EC_NOINLINE static uint32_t crc32_of(const uint8_t *data, uint32_t bytes) {
    static const uint32_t table[16] = {
        0x00000000u, 0x1DB71064u, 0x3B6E20C8u, 0x26D930ACu, 0x76DC4190u, 0x6B6B51F4u,
        0x4DB26158u, 0x5005713Cu, 0xEDB88320u, 0xF00F9344u, 0xD6D6A3E8u, 0xCB61B38Cu,
        0x9B64C2B0u, 0x86D3D2D4u, 0xA00AE278u, 0xBDBDF21Cu,
    };
    uint32_t crc = 0xFFFFFFFFu;
    while (bytes-- > 0u) {
        crc ^= *data++;
        crc = (crc >> 4) ^ table[crc & 15u];
        crc = (crc >> 4) ^ table[crc & 15u];
    }
    return ~crc;
}

/* --- sending ----------------------------------------------------------------------------- */

/* Send frame[0 .. bytes) with byte stuffing and a delimiter on each side. */
static void send_stuffed(uint32_t bytes) {
    const uint8_t *at = frame;
    const uint8_t *const end = frame + bytes;
    ec_port_putc(0);
    for (;;) {
        uint32_t run = 0;
        while (run < COBS_MOST && at + run < end && at[run] != 0u) {
            run++;
        }
        ec_port_putc((uint8_t)(run + 1u));
        for (uint32_t i = 0; i < run; i++) {
            ec_port_putc(at[i]);
        }
        at += run;
        if (at == end) {
            break;
        }
        if (run < COBS_MOST) {
            at++; /* the zero that the next code stands for; a block of its own if it is last */
        }
    }
    ec_port_putc(0);
}

/* Send `length` data bytes, which lie in the frame buffer already, as a frame of `type`. */
EC_NOINLINE static void send_frame(uint8_t type, uint16_t sequence, uint32_t length) {
    frame[0] = VERSION_BYTE;
    frame[1] = type;
    (void)put(put(frame + 2, sequence, 2), length, 2);
    (void)put(ARGUMENTS + length, crc32_of(frame, HEADER_BYTES + length), CRC_BYTES);
    send_stuffed(HEADER_BYTES + length + CRC_BYTES);
}

EC_NOINLINE static void answer(const uint8_t *end) {
    send_frame((uint8_t)(link_state.type | TYPE_ANSWER), link_state.sequence,
               (uint32_t)(end - ARGUMENTS));
}

EC_NOINLINE static void answer_code(enum code code) {
    ARGUMENTS[0] = (uint8_t)code;
    answer(ARGUMENTS + 1);
}

/* Answer a command that acted, and keep the answer in case the host asks again. */
EC_NOINLINE static void answer_once(const uint8_t *end) {
    link_state.replay_type = link_state.type;
    link_state.replay_sequence = link_state.sequence;
    link_state.replay_length = (uint8_t)(end - ARGUMENTS);
    memcpy(link_state.replay, ARGUMENTS, link_state.replay_length);
    answer(end);
}

/* --- commands ---------------------------------------------------------------------------- */

static void do_hello(void) {
    const ec_link_model *const model = link_state.model;
    uint8_t *to = ARGUMENTS;
    uint32_t flags = (model->selftest != NULL ? 2u : 0u) | (model->reset != NULL ? 4u : 0u);
#ifdef EC_TRACE_HOOK
    flags |= 1u;
#endif
    link_state.replay_type = 0;
    to = put(to, OK, 1);
    to = put(to, EC_LINK_VERSION, 1);
    to = put(to, EC_LINK_ABI, 1);
    to = put(to, model->tick_unit, 1);
    to = put(to, model->input_count, 1);
    to = put(to, model->output_count, 1);
    to = put(to, flags, 1);
    to = put(to, EC_LINK_CHUNK, 2);
    to = put(to, model->hash, 4);
    to = put(to, model->clock_hz, 4);
    to = put(to, ec_port_ticks_hz(), 4);
    to = put_text(to, model->board, 40);
    to = put_text(to, model->name, 40);
    to = put_text(to, model->version, 20);
    answer(to);
}

/* Find the tensor that a request names; false: there is none, and that has been answered. */
EC_NOINLINE static int find_buffer(uint32_t kind, uint32_t index, ec_link_buffer *found) {
    const ec_link_model *const model = link_state.model;
    if (kind == KIND_INPUT && index < model->input_count) {
        *found = model->input(index);
        return 1;
    }
    if (kind == KIND_OUTPUT && index < model->output_count) {
        *found = model->output(index);
        return 1;
    }
    answer_code(ERR_INDEX);
    return 0;
}

EC_NOINLINE static int in_range(const ec_link_buffer *buffer, uint32_t offset, uint32_t bytes) {
    if (buffer->data == NULL || offset > buffer->bytes || bytes > buffer->bytes - offset) {
        answer_code(ERR_RANGE);
        return 0;
    }
    return 1;
}

static void do_port(void) {
    ec_link_buffer buffer;
    if (find_buffer(ARGUMENTS[0], ARGUMENTS[1], &buffer)) {
        ARGUMENTS[0] = OK;
        answer(put(ARGUMENTS + 1, buffer.bytes, 4));
    }
}

static void do_echo(uint32_t length) {
    if (length > EC_LINK_CHUNK) {
        answer_code(ERR_LENGTH);
        return;
    }
    memmove(ARGUMENTS + 1, ARGUMENTS, length);
    ARGUMENTS[0] = OK;
    answer(ARGUMENTS + 1 + length);
}

static void do_write(uint32_t length) {
    ec_link_buffer buffer;
    const uint32_t offset = get(ARGUMENTS + 1, 4);
    const uint32_t bytes = length - 5u;
    if (find_buffer(KIND_INPUT, ARGUMENTS[0], &buffer) && in_range(&buffer, offset, bytes)) {
        memcpy((uint8_t *)buffer.data + offset, ARGUMENTS + 5, bytes);
        answer_code(OK);
    }
}

static void do_read(void) {
    ec_link_buffer buffer;
    const uint32_t kind = ARGUMENTS[0];
    const uint32_t offset = get(ARGUMENTS + 2, 4);
    const uint32_t bytes = get(ARGUMENTS + 6, 2);
    if (kind == KIND_TRACE) {
        if (!link_state.stopped) {
            answer_code(ERR_NOT_STOPPED);
            return;
        }
        /* Only read from: the cast drops const because a buffer also describes inputs. */
        memcpy(&buffer.data, &link_state.value, sizeof buffer.data);
        buffer.bytes = link_state.value_bytes;
    } else if (!find_buffer(kind, ARGUMENTS[1], &buffer)) {
        return;
    }
    if (bytes > EC_LINK_CHUNK) {
        answer_code(ERR_RANGE);
    } else if (in_range(&buffer, offset, bytes)) {
        ARGUMENTS[0] = OK;
        memcpy(ARGUMENTS + 1, (const uint8_t *)buffer.data + offset, bytes);
        answer(ARGUMENTS + 1 + bytes);
    }
}

/* Reading the clock takes time that is not the model's: the least of a few tries. */
static uint32_t measure_overhead(void) {
    uint32_t least = 0xFFFFFFFFu;
    for (int i = 0; i < 4; i++) {
        const uint64_t before = ec_port_ticks();
        const uint32_t taken = (uint32_t)(ec_port_ticks() - before);
        if (taken < least) {
            least = taken;
        }
    }
    return least;
}

static void do_run(void) {
    const uint32_t count = get(ARGUMENTS, 2);
    uint32_t done = 0;
    uint64_t fewest = UINT64_MAX;
    uint64_t most = 0;
    uint64_t sum = 0;
    int32_t status = 0;
    uint8_t *to = ARGUMENTS;

    const uint8_t stops = ARGUMENTS[2];
    if (count == 0u || (stops != 0u && count != 1u)) {
        answer_code(ERR_RANGE);
        return;
    }
#ifndef EC_TRACE_HOOK
    if (stops != 0u) {
        answer_code(ERR_UNSUPPORTED);
        return;
    }
#endif
    link_state.first_id = get(ARGUMENTS + 3, 4);
    link_state.last_id = get(ARGUMENTS + 7, 4);
    link_state.event = 0;
    link_state.overhead = measure_overhead();
    link_state.stops = stops;
    while (done < count && status == 0) {
        uint64_t ticks;
        link_state.excluded = link_state.overhead;
        link_state.started = ec_port_ticks();
        status = link_state.model->run();
        ticks = ec_port_ticks() - link_state.started;
        /* A clock coarser than its own overhead can give less than that. */
        ticks = ticks > link_state.excluded ? ticks - link_state.excluded : 0u;
        fewest = ticks < fewest ? ticks : fewest;
        most = ticks > most ? ticks : most;
        sum += ticks;
        done++;
    }
    link_state.stops = 0;
    if (link_state.hello_waits) {
        link_state.hello_waits = 0;
        do_hello(); /* type and sequence are those of the hello */
        return;
    }
    to = put(to, OK, 1);
    to = put(to, STATE_DONE, 1);
    to = put(to, (uint32_t)status, 4);
    to = put(to, done, 2);
    to = put(to, link_state.overhead, 4);
    to = put_ticks(to, fewest);
    to = put_ticks(to, most);
    to = put_ticks(to, sum);
    answer_once(to);
}

static void do_continue(void) {
    if (!link_state.stopped || get(ARGUMENTS, 4) != link_state.event) {
        answer_code(ERR_NOT_STOPPED);
        return;
    }
    link_state.stops = ARGUMENTS[4];
    link_state.stopped = 0; /* `ec_trace` returns, and the next stop or the end answers */
}

static void do_stack(void) {
    uint8_t *to = ARGUMENTS;
    to = put(to, OK, 1);
    to = put(to, ec_port_stack_high_water(), 4);
    to = put(to, ec_port_stack_size(), 4);
    to = put(to, ec_port_rx_lost(), 4);
    answer(to);
}

static void do_call(int32_t (*function)(void)) {
    if (function == NULL) {
        answer_code(ERR_UNSUPPORTED);
    } else {
        const int32_t status = function();
        ARGUMENTS[0] = OK;
        answer_once(put(ARGUMENTS + 1, (uint32_t)status, 4));
    }
}

/* Return the code that refuses the request in the buffer, or OK. */
static enum code check_request(uint32_t length) {
    /* Lengths that are allowed, from and to, by command. */
    static const struct {
        uint8_t least;
        uint8_t fixed;
    } lengths[] = {
        [HELLO] = { 0, 1 },    [PORT] = { 2, 1 },  [ECHO] = { 0, 0 },     [WRITE] = { 5, 0 },
        [READ] = { 8, 1 },     [RUN] = { 11, 1 },  [CONTINUE] = { 5, 1 }, [STACK] = { 0, 1 },
        [SELFTEST] = { 0, 1 }, [RESET] = { 0, 1 }, [RESTART] = { 0, 1 },
    };
    const uint32_t type = link_state.type;
    if (frame[0] != VERSION_BYTE) {
        return ERR_VERSION;
    }
    if (type < HELLO || type > RESTART) {
        return ERR_UNKNOWN;
    }
    if (length < lengths[type].least || (lengths[type].fixed && length != lengths[type].least)) {
        return ERR_LENGTH;
    }
    if (link_state.stopped && (type == WRITE || type == RUN || type == SELFTEST || type == RESET)) {
        return ERR_STOPPED;
    }
    return OK;
}

static void handle_request(uint32_t length) {
    enum code refused;
    const uint8_t type = frame[1];
    const uint16_t sequence = (uint16_t)get(frame + 2, 2);

    link_state.type = type;
    link_state.sequence = sequence;
    if (frame[0] == VERSION_BYTE && type == link_state.replay_type &&
        sequence == link_state.replay_sequence) {
        memcpy(ARGUMENTS, link_state.replay, link_state.replay_length);
        answer(ARGUMENTS + link_state.replay_length);
        return;
    }
    refused = check_request(length);
    if (refused != OK) {
        answer_code(refused);
        return;
    }
    switch (type) {
    case HELLO:
        if (link_state.stopped) {
            link_state.hello_waits = 1;
            link_state.stops = 0;
            link_state.stopped = 0;
        } else {
            do_hello();
        }
        break;
    case PORT:
        do_port();
        break;
    case ECHO:
        do_echo(length);
        break;
    case WRITE:
        do_write(length);
        break;
    case READ:
        do_read();
        break;
    case RUN:
        do_run();
        break;
    case CONTINUE:
        do_continue();
        break;
    case STACK:
        do_stack();
        break;
    case SELFTEST:
        do_call(link_state.model->selftest);
        break;
    case RESET:
        do_call(link_state.model->reset);
        break;
    default: /* RESTART: `check_request` let nothing else pass */
        answer_code(OK);
        ec_port_reset();
        break;
    }
}

/* --- receiving --------------------------------------------------------------------------- */

static void store(uint8_t byte) {
    if (link_state.used < FRAME_BYTES) {
        frame[link_state.used++] = byte;
    } else {
        link_state.overflow = 1;
    }
}

/* A delimiter has come: handle the frame before it, if there was one. */
static void end_frame(void) {
    const uint32_t used = link_state.used;
    const int empty = link_state.code == 0u;
    const int cut = link_state.left != 0u || link_state.overflow;
    uint32_t length;

    link_state.used = 0;
    link_state.code = 0;
    link_state.left = 0;
    link_state.overflow = 0;
    if (empty) {
        return;
    }
    if (!cut && used >= HEADER_BYTES + CRC_BYTES) {
        length = used - HEADER_BYTES - CRC_BYTES;
        if (get(frame + 4, 2) == length &&
            get(frame + used - CRC_BYTES, CRC_BYTES) == crc32_of(frame, used - CRC_BYTES)) {
            handle_request(length);
            return;
        }
    }
    send_frame(TYPE_DAMAGED, 0, 0);
}

static void receive(uint8_t byte) {
    if (byte == 0u) {
        end_frame();
    } else if (link_state.left != 0u) {
        store(byte);
        link_state.left--;
    } else {
        /* A new block: the one before stood for its bytes and a zero, unless it was full. */
        if (link_state.code != 0u && link_state.code != COBS_FULL) {
            store(0);
        }
        link_state.code = byte;
        link_state.left = (uint8_t)(byte - 1u);
    }
}

void ec_link_poll(const ec_link_model *model) {
    int32_t byte;
    link_state.model = model;
    while ((byte = ec_port_getc()) >= 0) {
        receive((uint8_t)byte);
    }
}

void ec_link_serve(const ec_link_model *model) {
    for (;;) {
        ec_link_poll(model);
        ec_port_idle();
    }
}

/* --- inside a run ------------------------------------------------------------------------ */

#ifdef EC_TRACE_HOOK
void ec_trace(const void *context, uint32_t id, const void *data, uint32_t row, uint32_t bytes) {
    uint64_t entered;
    uint64_t ticks;
    uint8_t *to = ARGUMENTS;

    (void)context;
    if ((link_state.stops & (bytes != 0u ? STOP_VALUES : STOP_STEPS)) == 0u ||
        id < link_state.first_id || id > link_state.last_id) {
        return;
    }
    entered = ec_port_ticks();
    ticks = entered - link_state.started;
    ticks = ticks > link_state.excluded ? ticks - link_state.excluded : 0u;
    link_state.event++;
    link_state.value = (const uint8_t *)data;
    link_state.value_bytes = bytes;
    link_state.stopped = 1;
    to = put(to, OK, 1);
    to = put(to, STATE_STOPPED, 1);
    to = put(to, link_state.event, 4);
    to = put(to, id, 4);
    to = put(to, row, 4);
    to = put(to, bytes, 4);
    to = put_ticks(to, ticks);
    answer_once(to);
    for (;;) {
        /* One byte at a time: what follows a `continue` belongs to whoever reads next. */
        const int32_t byte = ec_port_getc();
        if (byte < 0) {
            ec_port_idle();
            continue;
        }
        receive((uint8_t)byte);
        if (!link_state.stopped) {
            break;
        }
    }
    link_state.value = NULL;
    link_state.value_bytes = 0;
    link_state.excluded += ec_port_ticks() - entered + link_state.overhead;
}
#endif
