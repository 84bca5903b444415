/* Dense layers and 1x1 convolutions of int8 whose weights are mostly zeros, in TFLite's rounding.
 *
 * The weights of a channel that are not zero come in fours, by blocks of 256 inputs: four places in
 * the block, then four weights. `counts` says how many fours each block of a channel has, `sizes`
 * the rows, the inputs and the outputs of a row, and the zero point and limits of the outputs.
 */
#define PLACES 256

static int8_t edgec_sparse_store(int32_t sum, const int32_t *channel, const int32_t *limits) {
    const int64_t product = (int64_t)sum * channel[1];
    const int32_t shift = channel[2];
    int32_t value = (int32_t)((product + (INT64_C(1) << 30)) >> 31);
    if (shift > 0) { /* to the nearest, halves away from zero */
        const int32_t half = INT32_C(1) << (shift - 1);
        value = (value + half - (value < 0)) >> shift;
    }
    value += limits[0];
    value = value < limits[1] ? limits[1] : value;
    return (int8_t)(value > limits[2] ? limits[2] : value);
}

void edgec_sparse_s8(const int8_t *x, int8_t *out, const uint8_t *stream, const uint8_t *counts,
                     const int32_t *channels, const int32_t *sizes) {
    const int32_t depth = sizes[1], outs = sizes[2];
    for (int32_t row = 0; row < sizes[0]; ++row, x += depth) {
        const uint8_t *four = stream, *count = counts;
        for (int32_t channel = 0; channel < outs; ++channel) {
            int32_t sum = channels[3 * channel];
            for (int32_t block = 0; block < depth; block += PLACES) {
                const int8_t *in = x + block;
                for (uint32_t left = *count++; left != 0u; --left, four += 8) {
                    sum += in[four[0]] * (int8_t)four[4];
                    sum += in[four[1]] * (int8_t)four[5];
                    sum += in[four[2]] * (int8_t)four[6];
                    sum += in[four[3]] * (int8_t)four[7];
                }
            }
            *out++ = edgec_sparse_store(sum, &channels[3 * channel], &sizes[3]);
        }
    }
}
