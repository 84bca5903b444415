/* Core functions of the Cortex-M for portable code. */
#ifndef EC_CPU_H
#define EC_CPU_H

#include "ec_cpu_arm.h"

#endif /* EC_CPU_H */
