/* Stands in for Arm's ethos-u-core-driver, whose accelerator nothing here can emulate.
 *
 * It checks every argument as the driver and the accelerator would, then computes the group by C
 * of edgec's for the processor, from inputs to outputs in scratch, and spoils the rest of scratch.
 * `stand_in_groups.h` is written by the test, from what Vela says of the groups.
 */
#include "edgec_ethos_u.h"

#define SPOILED 0xA5
#define BASE_ALIGN 16u

struct ethosu_driver {
    int reserved;
};

/* Where a tensor lies in scratch. */
typedef struct place {
    size_t offset, bytes;
} place;

typedef struct group {
    int command_bytes;
    size_t constant_bytes, scratch_bytes;
    int (*run)(uint8_t *scratch);
} group;

#include "stand_in_groups.h"

static struct ethosu_driver the_driver;
static int calls;

struct ethosu_driver *ethosu_reserve_driver(void) {
    the_driver.reserved += 1;
    return &the_driver;
}

void ethosu_release_driver(struct ethosu_driver *drv) {
    drv->reserved -= 1;
}

static int is_within(uint64_t address, uint64_t start, uint64_t bytes) {
    return address >= start && address < start + bytes;
}

static int are_regions_right(const group *found, const uint64_t *base, const size_t *size) {
    if ((base[0] | base[1] | base[2]) % BASE_ALIGN != 0u || base[2] != base[1]) {
        return 0;
    }
    if (size[0] != found->constant_bytes || size[1] != found->scratch_bytes || size[2] != size[1]) {
        return 0;
    }
    return is_within(base[1], RAM_START, RAM_BYTES) &&
           is_within(base[1] + size[1] - 1u, RAM_START, RAM_BYTES) &&
           is_within(base[0], FLASH_START, FLASH_BYTES);
}

int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr,
                     const int custom_data_size, uint64_t *const base_addr,
                     const size_t *base_addr_size, const int num_base_addr, void *user_arg) {
    const uintptr_t commands = (uintptr_t)custom_data_ptr;
    if (drv != &the_driver || drv->reserved != 1 || user_arg != NULL || num_base_addr != 3) {
        return -1;
    }
    if (commands % BASE_ALIGN != 0u || memcmp(custom_data_ptr, "COP1", 4) != 0) {
        return -1;
    }
    calls += 1;
    if (calls > CALLS_THAT_SUCCEED) {
        return -1;
    }
    for (size_t n = 0; n < sizeof groups / sizeof groups[0]; ++n) {
        if (groups[n].command_bytes == custom_data_size) {
            return are_regions_right(&groups[n], base_addr, base_addr_size)
                       ? groups[n].run((uint8_t *)(uintptr_t)base_addr[1])
                       : -1;
        }
    }
    return -1;
}
