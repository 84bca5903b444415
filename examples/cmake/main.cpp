// A C++ program with a model inside: draws a digit, asks the model, prints the answer.
#include <cstdio>

#include "digits.h"

namespace {

DIGITS_ARENA(arena);

// An 8 x 8 picture of a seven; scikit-learn's digits go from 0 (paper) to 16 (ink).
const float seven[64] = {
    0,  0,  7,  15, 16, 15, 2,  0,  //
    0,  0,  12, 12, 8,  16, 6,  0,  //
    0,  0,  0,  0,  2,  16, 3,  0,  //
    0,  0,  4,  8,  12, 15, 4,  0,  //
    0,  0,  12, 16, 16, 12, 3,  0,  //
    0,  0,  1,  10, 12, 0,  0,  0,  //
    0,  0,  4,  16, 4,  0,  0,  0,  //
    0,  0,  9,  14, 0,  0,  0,  0,
};

}  // namespace

int main() {
    const digits_memory memory = {arena, sizeof arena};
    digits_context model;
    if (digits_init(&model, &memory) != EC_OK) {
        return 1;
    }
    if (digits_selftest(&model) != EC_OK) {
        std::puts("the self-test failed: another compiler or other flags than edgec expects?");
        return 1;
    }
    float *pixels = static_cast<float *>(digits_input(&model, 0));
    for (int i = 0; i < 64; ++i) {
        pixels[i] = seven[i];
    }
    if (digits_run(&model, nullptr, nullptr) != EC_OK) {
        return 1;
    }
    const float *logits = static_cast<const float *>(digits_output(&model, 0));
    const unsigned best = digits_output_0_argmax(logits);
    std::printf("it is a %u\n", best);
    return best == 7u ? 0 : 1;
}
