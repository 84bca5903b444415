/* Registers of a core for a test of systick.c on another computer. */
#include <stdint.h>
volatile uint32_t *test_register(uint32_t address);
#define EC_REG32(address) (*test_register(address))
