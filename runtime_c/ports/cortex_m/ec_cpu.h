/* What code for any core asks of a Cortex-M. */
#ifndef EC_CPU_H
#define EC_CPU_H

#include "ec_cpu_arm.h"

#endif /* EC_CPU_H */
