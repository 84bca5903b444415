/* Port of the application core of the Nordic nRF5340: 128 MHz, UARTE0, ticks from SysTick.
 *
 * Registers: nRF5340 Product Specification, chapters CLOCK, CACHE, GPIO, UARTE, at their secure
 * addresses (the core starts in the secure state). This UART has EasyDMA only: a byte is sent from
 * and received into a buffer of one; up to four more bytes wait in its FIFO.
 */
#include "ec_cortex_m.h"
#include "ec_port.h"

#define CACHE_ENABLE EC_REG32(0x50001500u)
#define CLOCK_TASKS_HFCLKSTART EC_REG32(0x50005000u)
#define CLOCK_EVENTS_HFCLKSTARTED EC_REG32(0x50005100u)
#define CLOCK_HFCLKCTRL EC_REG32(0x500055B8u)

#define UARTE_TASKS_STARTRX EC_REG32(0x50008000u)
#define UARTE_TASKS_STARTTX EC_REG32(0x50008008u)
#define UARTE_EVENTS_ENDRX EC_REG32(0x50008110u)
#define UARTE_EVENTS_ENDTX EC_REG32(0x50008120u)
#define UARTE_EVENTS_ERROR EC_REG32(0x50008124u)
#define UARTE_INTENSET EC_REG32(0x50008304u)
#define UARTE_ERRORSRC EC_REG32(0x50008480u)
#define UARTE_ENABLE EC_REG32(0x50008500u)
#define UARTE_PSELTXD EC_REG32(0x5000850Cu)
#define UARTE_PSELRXD EC_REG32(0x50008514u)
#define UARTE_BAUDRATE EC_REG32(0x50008524u)
#define UARTE_RXD_PTR EC_REG32(0x50008534u)
#define UARTE_RXD_MAXCNT EC_REG32(0x50008538u)
#define UARTE_TXD_PTR EC_REG32(0x50008544u)
#define UARTE_TXD_MAXCNT EC_REG32(0x50008548u)

#define GPIO_OUTSET EC_REG32(0x50842508u)
#define GPIO_DIRSET EC_REG32(0x50842518u)

#define INT_ENDRX (1u << 4)
#define INT_ERROR (1u << 9)
#define ERROR_OVERRUN 1u
#define WAIT_LIMIT 100000u /* polls; the crystal starts in about 1 ms */

static volatile uint8_t received; /* written by DMA */
static volatile uint8_t sending;  /* read by DMA */
static bool is_sending;
static volatile bool is_held; /* `received` waits for room in the queue */

void ec_port_init(void) {
    CLOCK_HFCLKCTRL = 0u; /* 128 MHz instead of 64 */
    CLOCK_TASKS_HFCLKSTART = 1u;
    for (uint32_t i = 0; i < WAIT_LIMIT && CLOCK_EVENTS_HFCLKSTARTED == 0u; i++) {
        /* The internal oscillator serves until then, and instead if the crystal never starts. */
    }
    CACHE_ENABLE = 1u;
    GPIO_OUTSET = 1u << EC_UART_TX_PIN;
    GPIO_DIRSET = 1u << EC_UART_TX_PIN;
    UARTE_PSELTXD = EC_UART_TX_PIN;
    UARTE_PSELRXD = EC_UART_RX_PIN;
    UARTE_BAUDRATE = EC_UART_BAUD_REG;
    UARTE_RXD_PTR = (uint32_t)(uintptr_t)&received;
    UARTE_RXD_MAXCNT = 1u;
    UARTE_TXD_PTR = (uint32_t)(uintptr_t)&sending;
    UARTE_TXD_MAXCNT = 1u;
    UARTE_ENABLE = 8u;
    UARTE_INTENSET = INT_ENDRX | INT_ERROR;
    ec_irq_enable(EC_UART_IRQ);
    UARTE_TASKS_STARTRX = 1u;
    ec_ticks_start(EC_CLOCK_HZ);
}

void ec_port_putc(uint8_t byte) {
    if (is_sending) {
        while (UARTE_EVENTS_ENDTX == 0u) {
        }
    }
    UARTE_EVENTS_ENDTX = 0u;
    sending = byte;
    __asm__ volatile("dsb" ::: "memory"); /* the byte is in memory before DMA reads it */
    UARTE_TASKS_STARTTX = 1u;
    is_sending = true;
}

/* Take the received byte and let the next one come. */
static void take_byte(void) {
    is_held = !ec_rx_push(received);
    if (!is_held) {
        UARTE_TASKS_STARTRX = 1u;
    }
}

void ec_uart_handler(void) {
    if (UARTE_EVENTS_ERROR != 0u) {
        UARTE_EVENTS_ERROR = 0u;
        const uint32_t error = UARTE_ERRORSRC;
        UARTE_ERRORSRC = error; /* write one to clear */
        if ((error & ERROR_OVERRUN) != 0u) {
            ec_rx_count_loss();
        }
    }
    if (UARTE_EVENTS_ENDRX != 0u) {
        UARTE_EVENTS_ENDRX = 0u;
        take_byte();
    }
}

void ec_rx_resume(void) {
    if (is_held) {
        take_byte();
    }
}
