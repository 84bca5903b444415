/* A device as a process: its UART is standard input and output. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ec_port.h"
#include "fake_model.h"

static uint8_t received[4096];
static size_t received_count;
static size_t received_next;
static uint8_t to_send[4096];
static size_t to_send_count;
static uint64_t now;

static void flush(void) {
    size_t sent = 0;
    while (sent < to_send_count) {
        const ssize_t done = write(1, to_send + sent, to_send_count - sent);
        if (done <= 0) {
            exit(0);
        }
        sent += (size_t)done;
    }
    to_send_count = 0;
}

void ec_port_init(void) {
}

void ec_port_putc(uint8_t byte) {
    to_send[to_send_count++] = byte;
    if (to_send_count == sizeof to_send) {
        flush();
    }
}

int32_t ec_port_getc(void) {
    return received_next < received_count ? received[received_next++] : -1;
}

/* Called when nothing is left to read: waits for more, and ends with its input. */
void ec_port_idle(void) {
    ssize_t done;
    flush();
    done = read(0, received, sizeof received);
    if (done <= 0) {
        exit(0);
    }
    received_count = (size_t)done;
    received_next = 0;
}

uint32_t ec_port_rx_lost(void) {
    return 0;
}

uint64_t ec_port_ticks(void) {
    return now++;
}

uint32_t ec_port_ticks_hz(void) {
    return 1000000u;
}

void ec_port_reset(void) {
    flush();
    exit(0);
}

uint32_t ec_port_stack_high_water(void) {
    return 345;
}

uint32_t ec_port_stack_size(void) {
    return 2048;
}

void fake_spend(uint32_t ticks) {
    now += ticks;
}
