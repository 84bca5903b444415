/* Requantization against values worked out by hand from its definition: 2 * a * b / 2^32 rounded
 * half up, then divided by a power of two with ties away from zero. */
#include <stdio.h>

#include "edgec/ec_fixed_point.h"

#define HALF (INT32_C(1) << 30) /* 0.5 as a multiplier */

static int failures;

static void check(const char *what, int32_t found, int32_t expected) {
    if (found != expected) {
        printf("%s is %ld, not %ld\n", what, (long)found, (long)expected);
        failures++;
    }
}

int main(void) {
    check("7 * 0.5", ec_rounding_doubling_high_multiply(7, HALF), 4);    /* 3.5 goes up */
    check("-7 * 0.5", ec_rounding_doubling_high_multiply(-7, HALF), -3); /* -3.5 goes up, too */
    check("8 * 0.5", ec_rounding_doubling_high_multiply(8, HALF), 4);
    check("the one overflow", ec_rounding_doubling_high_multiply(INT32_MIN, INT32_MIN), INT32_MAX);

    check("5 / 2", ec_rounding_divide_by_power_of_two(5, 1), 3);
    check("-5 / 2", ec_rounding_divide_by_power_of_two(-5, 1), -3); /* away from zero */
    check("6 / 4", ec_rounding_divide_by_power_of_two(6, 2), 2);
    check("-6 / 4", ec_rounding_divide_by_power_of_two(-6, 2), -2);
    check("-5 / 4", ec_rounding_divide_by_power_of_two(-5, 2), -1);
    check("x / 1", ec_rounding_divide_by_power_of_two(-123, 0), -123);

    check("100 * 0.5 / 8", ec_requantize_tflm(100, HALF, -3), 6); /* 50 / 8 = 6.25 */
    check("100 * 0.5 * 4", ec_requantize_tflm(100, HALF, 2), 200);
    check("rounding twice", ec_requantize_tflm(5, HALF, -1), 2); /* 2.5 -> 3 -> 1.5 -> 2 */
    check("right only", ec_requantize_tflm_right(5, HALF, -1), 2);
    if (failures == 0) {
        printf("fixed point: good\n");
    }
    return failures != 0;
}
