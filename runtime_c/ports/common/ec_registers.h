/* A volatile access per register of a device, no structure overlays. */
#ifndef EC_REGISTERS_H
#define EC_REGISTERS_H

#include <stdint.h>

#include "ec_board.h"

/* Tests on another computer define functions of their own. */
#ifndef EC_REG32
#define EC_REG32(address) (*(volatile uint32_t *)(uintptr_t)(address))
#endif
#ifndef EC_REG8
#define EC_REG8(address) (*(volatile uint8_t *)(uintptr_t)(address))
#endif

#endif /* EC_REGISTERS_H */
