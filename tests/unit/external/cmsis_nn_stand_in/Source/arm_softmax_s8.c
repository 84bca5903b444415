#include "arm_nnfunctions.h"
#include "arm_nnsupportfunctions.h"

/* exp(x) for x <= 0 with 5 integer bits, as gemmlowp computes it. */
static int32_t exp_on_negative_values(int32_t x) {
    static const int32_t factors[] = { 1672461947, 1302514674, 790015084, 290630308,
                                       39332535,   720401,     242 };
    const int32_t quarter = 1 << 24;
    const int32_t rest = (x & (quarter - 1)) - quarter;
    const int32_t y = rest * 32 + (1 << 28);
    const int32_t y2 = arm_nn_doubling_high_mult(y, y);
    const int32_t y3 = arm_nn_doubling_high_mult(y2, y);
    const int32_t y4 = arm_nn_divide_by_power_of_two(arm_nn_doubling_high_mult(y2, y2), 2);
    const int32_t tail = arm_nn_doubling_high_mult(y4 + y3, 715827883) + y2;
    int32_t found = 1895147668 + arm_nn_doubling_high_mult(
                                     1895147668, y + arm_nn_divide_by_power_of_two(tail, 1));
    for (int32_t bit = 0; bit < 7; ++bit) {
        if ((rest - x) & (quarter << bit)) {
            found = arm_nn_doubling_high_mult(found, factors[bit]);
        }
    }
    return x == 0 ? INT32_MAX : found;
}

static int32_t one_over_one_plus(int32_t x) {
    const int64_t sum = (int64_t)x + INT32_MAX;
    const int32_t half = (int32_t)((sum + (sum >= 0 ? 1 : -1)) / 2);
    int32_t found = 1515870810 + arm_nn_doubling_high_mult(half, -1010580540);
    for (int32_t i = 0; i < 3; ++i) {
        const int32_t error = (1 << 29) - arm_nn_doubling_high_mult(half, found);
        found += arm_nn_doubling_high_mult(found, error) * 4;
    }
    return found > INT32_MAX / 2 ? INT32_MAX : found * 2;
}

static int32_t headroom_of(int32_t x) {
    int32_t zeros = 0;
    while (zeros < 32 && !(((uint32_t)x << zeros) & 0x80000000u)) {
        ++zeros;
    }
    return zeros;
}

void arm_softmax_s8(const int8_t *input, const int32_t num_rows, const int32_t row_size,
                    const int32_t mult, const int32_t shift, const int32_t diff_min,
                    int8_t *output) {
    for (int32_t row = 0; row < num_rows; ++row, input += row_size, output += row_size) {
        int32_t largest = input[0];
        int32_t sum = 0;
        for (int32_t i = 1; i < row_size; ++i) {
            largest = input[i] > largest ? input[i] : largest;
        }
        for (int32_t i = 0; i < row_size; ++i) {
            const int32_t diff = input[i] - largest;
            if (diff >= diff_min) {
                const int32_t scaled = arm_nn_doubling_high_mult(diff * (1 << shift), mult);
                sum += arm_nn_divide_by_power_of_two(exp_on_negative_values(scaled), 12);
            }
        }
        const int32_t headroom = headroom_of(sum);
        const int32_t scale =
            one_over_one_plus((int32_t)(((uint32_t)sum << headroom) ^ 0x80000000u));
        const int32_t bits = 12 - headroom + 23;
        for (int32_t i = 0; i < row_size; ++i) {
            const int32_t diff = input[i] - largest;
            int32_t share = -128;
            if (diff >= diff_min) {
                const int32_t scaled = arm_nn_doubling_high_mult(diff * (1 << shift), mult);
                const int32_t all =
                    arm_nn_doubling_high_mult(scale, exp_on_negative_values(scaled));
                share += arm_nn_divide_by_power_of_two(all, bits);
            }
            output[i] = arm_nn_limit(share, -128, 127);
        }
    }
}
