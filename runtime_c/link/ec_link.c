/* The device's end of the serial link (docs/serial_protocol.md).
 *
 * One frame buffer serves for the request and then, overwritten in place, for its answer: every
 * argument of a request is read before the first byte of the answer is written.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#include "ec_link.h"

#include "ec_link_frame.h"
#include "ec_port.h"

#include <stddef.h>

/* Not <string.h>: a freestanding compiler need not have it. */
void *memcpy(void *restrict to, const void *restrict from, size_t count);
void *memmove(void *to, const void *from, size_t count);

#define TYPE_ANSWER 0x80u
#define ARGUMENTS EC_LINK_FRAME_DATA

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
    RESTART = 11,
    CHALLENGE = 12
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
    ERR_VERSION = 8,
    ERR_LOCKED = 9
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

    /* The request being answered, and the answer to the last command that acted. */
    uint8_t type;
    uint16_t sequence;
#if EC_LINK_KEYED
    uint8_t sealed; /* by the key, as its answer will be */
    uint8_t seen;   /* sealed, and its number has come before */
#endif
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

/* Without a key, a recorded request cannot be told from the host's own. */
#if EC_LINK_KEYED
#define IS_SEEN (link_state.seen != 0u)
#define LAST_COMMAND CHALLENGE
#else
#define IS_SEEN 0
#define LAST_COMMAND RESTART
#endif

/* --- answers ---------------------------------------------------------------------------- */

EC_LINK_SMALL static uint8_t *put_ticks(uint8_t *to, uint64_t value) {
    return ec_link_put(ec_link_put(to, (uint32_t)value, 4), (uint32_t)(value >> 32), 4);
}

EC_LINK_SMALL static uint8_t *put_text(uint8_t *to, const char *text, uint32_t most) {
    if (text != NULL) {
        while (*text != '\0' && most-- > 0u) {
            *to++ = (uint8_t)*text++;
        }
    }
    *to++ = 0;
    return to;
}

EC_LINK_SMALL static void answer(const uint8_t *end) {
    const uint8_t type = (uint8_t)(link_state.type | TYPE_ANSWER);
    uint32_t length = (uint32_t)(end - ARGUMENTS);
#if EC_LINK_KEYED
    if (link_state.sealed) {
        ec_link_seal(ARGUMENTS, length, type);
        length += EC_LINK_SEAL_BYTES;
    }
#endif
    ec_link_send(type, link_state.sequence, length);
}

EC_LINK_SMALL static void answer_code(enum code code) {
    ARGUMENTS[0] = (uint8_t)code;
    answer(ARGUMENTS + 1);
}

/* Answer a command that acted, and keep the answer in case the host asks again. */
EC_LINK_SMALL static void answer_once(const uint8_t *end) {
    link_state.replay_type = link_state.type;
    link_state.replay_sequence = link_state.sequence;
    link_state.replay_length = (uint8_t)(end - ARGUMENTS);
    (void)memcpy(link_state.replay, ARGUMENTS, link_state.replay_length);
    answer(end);
}

/* --- commands ---------------------------------------------------------------------------- */

static void do_hello(void) {
    const ec_link_model *const model = link_state.model;
    uint8_t *to;
    uint8_t flags = 0;
    if (model->selftest != NULL) {
        flags |= 2u;
    }
    if (model->reset != NULL) {
        flags |= 4u;
    }
#ifdef EC_TRACE_HOOK
    flags |= 1u;
#endif
#if EC_LINK_KEYED
    flags |= 8u;
#endif
    link_state.replay_type = 0;
    ARGUMENTS[0] = OK;
    ARGUMENTS[1] = EC_LINK_VERSION;
    ARGUMENTS[2] = EC_LINK_ABI;
    ARGUMENTS[3] = model->tick_unit;
    ARGUMENTS[4] = model->input_count;
    ARGUMENTS[5] = model->output_count;
    ARGUMENTS[6] = flags;
    to = ec_link_put(ARGUMENTS + 7, EC_LINK_CHUNK, 2);
    to = ec_link_put(to, model->hash, 4);
    to = ec_link_put(to, model->clock_hz, 4);
    to = ec_link_put(to, ec_port_ticks_hz(), 4);
    to = put_text(to, model->board, 40);
    to = put_text(to, model->name, 40);
    to = put_text(to, model->version, 20);
    answer(to);
}

/* Find the tensor that a request names; false: there is none, and that has been answered. */
EC_LINK_SMALL static int find_buffer(uint32_t kind, uint32_t index, ec_link_buffer *found) {
    const ec_link_model *const model = link_state.model;
    const int is_input = kind == KIND_INPUT;
    const uint32_t count = is_input ? model->input_count : model->output_count;
    if (kind > KIND_OUTPUT || index >= count) {
        answer_code(ERR_INDEX);
        return 0;
    }
    *found = (is_input ? model->input : model->output)(index);
    return 1;
}

EC_LINK_SMALL static int in_range(const ec_link_buffer *buffer, uint32_t offset, uint32_t bytes) {
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
        answer(ec_link_put(ARGUMENTS + 1, buffer.bytes, 4));
    }
}

static void do_echo(uint32_t length) {
    if (length > EC_LINK_CHUNK) {
        answer_code(ERR_LENGTH);
        return;
    }
    (void)memmove(ARGUMENTS + 1, ARGUMENTS, length);
    ARGUMENTS[0] = OK;
    answer(ARGUMENTS + 1 + length);
}

static void do_write(uint32_t length) {
    ec_link_buffer buffer;
    const uint32_t offset = ec_link_get(ARGUMENTS + 1, 4);
    const uint32_t bytes = length - 5u;
    if (find_buffer(KIND_INPUT, ARGUMENTS[0], &buffer) && in_range(&buffer, offset, bytes)) {
        if (!IS_SEEN) { /* an old write that comes again must not replace a newer one */
            (void)memcpy((uint8_t *)buffer.data + offset, ARGUMENTS + 5, bytes);
        }
        answer_code(OK);
    }
}

static void do_read(void) {
    ec_link_buffer buffer;
    const uint32_t kind = ARGUMENTS[0];
    const uint32_t offset = ec_link_get(ARGUMENTS + 2, 4);
    const uint32_t bytes = ec_link_get(ARGUMENTS + 6, 2);
    if (kind == KIND_TRACE) {
        if (!link_state.stopped) {
            answer_code(ERR_NOT_STOPPED);
            return;
        }
        /* Only read from: the cast drops const because a buffer also describes inputs. */
        buffer.data = (void *)(uintptr_t)link_state.value;
        buffer.bytes = link_state.value_bytes;
    } else if (!find_buffer(kind, ARGUMENTS[1], &buffer)) {
        return;
    }
    if (bytes > EC_LINK_CHUNK) {
        answer_code(ERR_RANGE);
    } else if (in_range(&buffer, offset, bytes)) {
        ARGUMENTS[0] = OK;
        (void)memcpy(ARGUMENTS + 1, (const uint8_t *)buffer.data + offset, bytes);
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
    const uint32_t count = ec_link_get(ARGUMENTS, 2);
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
    link_state.first_id = ec_link_get(ARGUMENTS + 3, 4);
    link_state.last_id = ec_link_get(ARGUMENTS + 7, 4);
    link_state.event = 0;
    link_state.overhead = measure_overhead();
    link_state.stops = stops;
    while (done < count && status == 0) {
        uint64_t ticks;
        link_state.excluded = link_state.overhead;
        link_state.started = ec_port_ticks();
        status = link_state.model->run();
        ticks = ec_port_ticks() - link_state.started;
        /* A clock that is coarser than its overhead can result in less than that. */
        ticks = ticks > link_state.excluded ? ticks - link_state.excluded : 0u;
        fewest = ticks < fewest ? ticks : fewest;
        most = ticks > most ? ticks : most;
        sum += ticks;
        done++;
    }
    link_state.stops = 0;
    if (link_state.hello_waits) {
        link_state.hello_waits = 0;
        do_hello(); /* link_state still has the hello's type and sequence */
        return;
    }
    to = ec_link_put(to, OK, 1);
    to = ec_link_put(to, STATE_DONE, 1);
    to = ec_link_put(to, (uint32_t)status, 4);
    to = ec_link_put(to, done, 2);
    to = ec_link_put(to, link_state.overhead, 4);
    to = put_ticks(to, fewest);
    to = put_ticks(to, most);
    to = put_ticks(to, sum);
    answer_once(to);
}

static void do_continue(void) {
    if (!link_state.stopped || ec_link_get(ARGUMENTS, 4) != link_state.event) {
        answer_code(ERR_NOT_STOPPED);
        return;
    }
    link_state.stops = ARGUMENTS[4];
    link_state.stopped = 0; /* `ec_trace` returns, and the next stop or the end answers */
}

static void do_stack(void) {
    uint8_t *to = ec_link_put(ARGUMENTS + 1, ec_port_stack_high_water(), 4);
    ARGUMENTS[0] = OK;
    to = ec_link_put(to, ec_port_stack_size(), 4);
    to = ec_link_put(to, ec_port_rx_lost(), 4);
    answer(to);
}

static void do_call(int32_t (*function)(void)) {
    if (function == NULL) {
        answer_code(ERR_UNSUPPORTED);
    } else {
        const int32_t status = function();
        ARGUMENTS[0] = OK;
        answer_once(ec_link_put(ARGUMENTS + 1, (uint32_t)status, 4));
    }
}

#if EC_LINK_KEYED
static void do_challenge(void) {
    const ec_link_model *const model = link_state.model;
    uint64_t chance = ec_port_ticks();
    if (model->random != NULL) {
        chance ^= (uint64_t)model->random() << 32;
        chance ^= model->random();
    }
    ec_link_challenge(ARGUMENTS, link_state.sequence, chance, ARGUMENTS + 1);
    ARGUMENTS[0] = OK;
    answer(ARGUMENTS + 1 + 2u * EC_LINK_NONCE_BYTES);
}

/* Whether the request in the buffer may be looked at. Takes its seal off. */
static int is_trusted(uint32_t *length) {
    const uint8_t type = link_state.type;
    enum ec_link_trust trust;
    link_state.sealed = 0;
    link_state.seen = 0;
    if (ec_link_frame[0] != EC_LINK_VERSION_BYTE || type == HELLO || type == CHALLENGE) {
        return 1;
    }
    trust = ec_link_unseal(ARGUMENTS, *length, type, link_state.sequence);
    if (trust == EC_LINK_FORGED) {
        return 0;
    }
    *length -= EC_LINK_SEAL_BYTES;
    link_state.sealed = 1;
    link_state.seen = trust == EC_LINK_SEEN;
    return 1;
}

/* Whether the request has acted already, and its answer is no longer kept. */
static int has_acted(void) {
    const uint8_t type = link_state.type;
    return link_state.seen && (type == RUN || type == CONTINUE || type == SELFTEST ||
                               type == RESET || type == RESTART);
}
#endif

/* Parts of a rule for a request. */
#define NOT_STOPPED 1u /* the value of link_state.stopped that forbids it */
#define ONLY 2u
#define LENGTH(bytes) ((bytes) << 2)

/* Return the code that refuses the request in the buffer, or OK. */
static enum code check_request(uint32_t length) {
    /* By command: the least length, whether it is the only one, and whether a run that is stopped
     * forbids it. */
    static const uint8_t rules[] = {
        [HELLO] = ONLY,
        [PORT] = LENGTH(2u) | ONLY,
        [ECHO] = 0u,
        [WRITE] = LENGTH(5u) | NOT_STOPPED,
        [READ] = LENGTH(8u) | ONLY,
        [RUN] = LENGTH(11u) | ONLY | NOT_STOPPED,
        [CONTINUE] = LENGTH(5u) | ONLY,
        [STACK] = ONLY,
        [SELFTEST] = ONLY | NOT_STOPPED,
        [RESET] = ONLY | NOT_STOPPED,
        [RESTART] = ONLY,
#if EC_LINK_KEYED
        [CHALLENGE] = LENGTH(EC_LINK_NONCE_BYTES) | ONLY,
#endif
    };
    const uint32_t type = link_state.type;
    uint32_t rule;
    if (ec_link_frame[0] != EC_LINK_VERSION_BYTE) {
        return ERR_VERSION;
    }
    if (type < HELLO || type > LAST_COMMAND) {
        return ERR_UNKNOWN;
    }
    rule = rules[type];
    if (length < rule >> 2 || ((rule & ONLY) != 0u && length != rule >> 2)) {
        return ERR_LENGTH;
    }
    return (rule & NOT_STOPPED & link_state.stopped) != 0u ? ERR_STOPPED : OK;
}

static void handle_request(uint32_t length) {
    enum code refused;
    const uint8_t type = ec_link_frame[1];
    const uint16_t sequence = (uint16_t)ec_link_get(ec_link_frame + 2, 2);

    link_state.type = type;
    link_state.sequence = sequence;
#if EC_LINK_KEYED
    if (!is_trusted(&length)) {
        answer_code(ERR_LOCKED);
        return;
    }
#endif
    if (ec_link_frame[0] == EC_LINK_VERSION_BYTE && type != 0u && type == link_state.replay_type &&
        sequence == link_state.replay_sequence) {
        (void)memcpy(ARGUMENTS, link_state.replay, link_state.replay_length);
        answer(ARGUMENTS + link_state.replay_length);
        return;
    }
    refused = check_request(length);
#if EC_LINK_KEYED
    if (refused == OK && has_acted()) {
        refused = ERR_LOCKED;
    }
#endif
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
#if EC_LINK_KEYED
    case CHALLENGE:
        do_challenge();
        break;
#endif
    default: /* RESTART: `check_request` let nothing else pass */
        answer_code(OK);
        ec_port_reset();
        break;
    }
}

EC_LINK_SMALL static void receive(uint8_t byte) {
    const int32_t length = ec_link_take(byte);
    if (length >= 0) {
        handle_request((uint32_t)length);
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
    to = ec_link_put(to, OK, 1);
    to = ec_link_put(to, STATE_STOPPED, 1);
    to = ec_link_put(to, link_state.event, 4);
    to = ec_link_put(to, id, 4);
    to = ec_link_put(to, row, 4);
    to = ec_link_put(to, bytes, 4);
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
