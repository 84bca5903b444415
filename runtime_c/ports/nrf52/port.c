/* Port of the Nordic nRF52 series: 64 MHz from the crystal, UART0, ticks from SysTick.
 *
 * Registers: nRF52840 Product Specification, chapters CLOCK, NVMC, UART.
 */
#include "ec_nordic.h"
#include "ec_port.h"

#define NVMC_ICACHECNF EC_REG32(0x4001E540u)

void ec_port_init(void) {
    ec_nordic_start();
    NVMC_ICACHECNF = 1u; /* the instruction cache between flash and core */
    ec_ticks_start(EC_CLOCK_HZ);
}
