/* A dense layer of one row: out[c] = bias[c] + the sum of x[i] * w[c][i], added in this order. */
void my_dense_f32(const float *x, float *out, const float *w, const float *bias, int32_t channels,
                  int32_t depth) {
    for (int32_t c = 0; c < channels; c++) {
        float sum = bias[c];
        for (int32_t i = 0; i < depth; i++) {
            sum += x[i] * w[c * depth + i];
        }
        out[c] = sum;
    }
}
