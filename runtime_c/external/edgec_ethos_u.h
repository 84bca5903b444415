/* Common code of a model's groups on an Ethos-U: the call of Arm's driver.
 *
 * The prototypes are from ethos-u-core-driver's include/ethosu_driver.h. The program that links the model
 * provides the driver, and initialises it before the first run.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EDGEC_ETHOS_U_H
#define EDGEC_ETHOS_U_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Constants, scratch, and scratch in fast memory, as Vela numbers them. */
#define EDGEC_ETHOS_U_REGIONS 3

struct ethosu_driver;
struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *drv);
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr,
                     const int custom_data_size, uint64_t *const base_addr,
                     const size_t *base_addr_size, const int num_base_addr, void *user_arg);

/* Run a command stream and wait for its end; 0 if all is well. The driver may change the bases. */
static inline int edgec_ethos_u_invoke(const uint8_t *commands, int bytes, uint64_t *bases,
                                       const size_t *sizes) {
    struct ethosu_driver *driver = ethosu_reserve_driver();
    const int failed =
        ethosu_invoke_v3(driver, commands, bytes, bases, sizes, EDGEC_ETHOS_U_REGIONS, NULL);
    ethosu_release_driver(driver);
    return failed;
}

#endif /* EDGEC_ETHOS_U_H */
