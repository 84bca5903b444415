/* Stands in for cuDNN in tests: the functions that runtime_c/cuda/ec_cudnn.h calls, of which the
 * convolution is computed as it is defined, in the order of the stream. Every argument is checked.
 * Licence: Apache-2.0. Built with -DDRIVER="the emulated GPU's library".
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { GOOD = 0, BAD_PARAM = 3, NOT_SUPPORTED = 9 };
typedef struct { int kind, n[16]; } thing; /* of a kind, with what it was set to */
enum { HANDLE = 'h', TENSOR = 't', FILTER = 'f', CONV = 'c', ACTIVATION = 'a' };
static int live, calls, failing, convolutions;
static void *stream_of;

int stand_in_live(void) { return live; }
int stand_in_convolutions(void) { return convolutions; }
/* Begins to count anew; the call of this number, from 1 on, answers CUDNN_STATUS_NOT_SUPPORTED. */
void stand_in_begin(int call) { calls = convolutions = 0, failing = call; }

static int counted(void) {
    calls += 1;
    return calls == failing ? NOT_SUPPORTED : GOOD;
}
static int make(void **out, int kind) {
    const int status = counted();
    if (status == GOOD) {
        thing *made = calloc(1, sizeof *made);
        made->kind = kind;
        *out = made;
        live += 1;
    }
    return status;
}
static int drop(void *given, int kind) {
    if (given == NULL || ((thing *)given)->kind != kind) return BAD_PARAM;
    free(given);
    live -= 1;
    return GOOD;
}
static int set(void *given, int kind, int count, const int *numbers) {
    thing *of = given;
    if (of == NULL || of->kind != kind) return BAD_PARAM;
    memcpy(of->n, numbers, (size_t)count * sizeof numbers[0]);
    return counted();
}

int cudnnCreate(void **h) { return make(h, HANDLE); }
int cudnnDestroy(void *h) { return drop(h, HANDLE); }
int cudnnSetStream(void *h, void *stream) {
    stream_of = stream;
    return ((thing *)h)->kind == HANDLE ? counted() : BAD_PARAM;
}
int cudnnCreateTensorDescriptor(void **d) { return make(d, TENSOR); }
int cudnnDestroyTensorDescriptor(void *d) { return drop(d, TENSOR); }
int cudnnSetTensor4dDescriptorEx(void *d, int type, int n, int c, int h, int w, int ns, int cs, int hs,
                                 int ws) {
    const int numbers[] = {n, c, h, w, ns, cs, hs, ws};
    return type != 0 ? BAD_PARAM : set(d, TENSOR, 8, numbers);
}
int cudnnCreateFilterDescriptor(void **d) { return make(d, FILTER); }
int cudnnDestroyFilterDescriptor(void *d) { return drop(d, FILTER); }
int cudnnSetFilter4dDescriptor(void *d, int type, int format, int k, int c, int h, int w) {
    const int numbers[] = {k, c, h, w};
    return type != 0 || format != 1 ? BAD_PARAM : set(d, FILTER, 4, numbers);
}
int cudnnCreateConvolutionDescriptor(void **d) { return make(d, CONV); }
int cudnnDestroyConvolutionDescriptor(void *d) { return drop(d, CONV); }
int cudnnSetConvolution2dDescriptor(void *d, int ph, int pw, int u, int v, int dh, int dw, int mode,
                                    int type) {
    const int numbers[] = {ph, pw, u, v, dh, dw};
    return mode != 1 || type != 0 ? BAD_PARAM : set(d, CONV, 6, numbers);
}
int cudnnSetConvolutionMathType(void *d, int math) {
    ((thing *)d)->n[6] = math;
    return math == 3 ? counted() : BAD_PARAM; /* no TF32 */
}
int cudnnCreateActivationDescriptor(void **d) { return make(d, ACTIVATION); }
int cudnnDestroyActivationDescriptor(void *d) { return drop(d, ACTIVATION); }
int cudnnSetActivationDescriptor(void *d, int mode, int nan, double most) {
    return nan != 0 || most != 0.0 || (mode != 1 && mode != 5) ? BAD_PARAM
                                                               : set(d, ACTIVATION, 1, &mode);
}

/* Whether all belong together: the output's shape as cuDNN computes it. */
static int fits(const thing *x, const thing *w, const thing *conv, const thing *y) {
    const int *n = conv->n;
    const int h = (x->n[2] + 2 * n[0] - (n[4] * (w->n[2] - 1) + 1)) / n[2] + 1;
    const int v = (x->n[3] + 2 * n[1] - (n[5] * (w->n[3] - 1) + 1)) / n[3] + 1;
    return x->kind == TENSOR && w->kind == FILTER && conv->kind == CONV && y->kind == TENSOR &&
           y->n[0] == x->n[0] && y->n[1] == w->n[0] && y->n[2] == h && y->n[3] == v &&
           x->n[1] == w->n[1] && n[6] == 3;
}
static size_t wanted(const thing *y) { return (size_t)(y->n[2] * y->n[3]) * 16u; }
int cudnnGetConvolutionForwardWorkspaceSize(void *h, thing *x, thing *w, thing *conv, thing *y,
                                            int algorithm, size_t *bytes) {
    *bytes = wanted(y);
    return ((thing *)h)->kind == HANDLE && algorithm == 1 && fits(x, w, conv, y) ? counted()
                                                                              : BAD_PARAM;
}

typedef struct {
    thing x, w, conv, y;
    const float *in, *weights, *bias;
    float *out;
    void *workspace;
    int is_relu;
} job;
static int at(const thing *t, int n, int c, int h, int w) {
    return n * t->n[4] + c * t->n[5] + h * t->n[6] + w * t->n[7];
}
static float summed(const job *j, int n, int k, int h, int w) {
    const int *f = j->w.n, *p = j->conv.n;
    float sum = 0.0f;
    for (int c = 0; c < f[1]; ++c)
        for (int r = 0; r < f[2]; ++r)
            for (int s = 0; s < f[3]; ++s) {
                const int y = h * p[2] - p[0] + r * p[4], x = w * p[3] - p[1] + s * p[5];
                if (y >= 0 && y < j->x.n[2] && x >= 0 && x < j->x.n[3])
                    sum += j->in[at(&j->x, n, c, y, x)] *
                           j->weights[((k * f[2] + r) * f[3] + s) * f[1] + c];
            }
    return sum;
}
static void run(void *given) {
    job *j = given;
    const thing *y = &j->y;
    memset(j->workspace, 0x5A, wanted(y));
    for (int n = 0; n < y->n[0]; ++n)
        for (int k = 0; k < y->n[1]; ++k)
            for (int h = 0; h < y->n[2]; ++h)
                for (int w = 0; w < y->n[3]; ++w) {
                    const float sum = summed(j, n, k, h, w) + j->bias[k];
                    j->out[at(y, n, k, h, w)] = j->is_relu && sum < 0.0f ? 0.0f : sum;
                }
    convolutions += 1;
}
int cudnnConvolutionBiasActivationForward(void *h, const float *one, thing *x, const void *in, thing *w,
                                          const void *weights, thing *conv, int algorithm,
                                          void *workspace, size_t bytes, const float *zero, thing *z,
                                          const void *with, thing *b, const void *bias, thing *a,
                                          thing *y, void *out) {
    const int is_good = ((thing *)h)->kind == HANDLE && *one == 1.0f && *zero == 0.0f && z == y &&
                        with == out && algorithm == 1 && workspace != NULL && bytes >= wanted(y) &&
                        fits(x, w, conv, y) && b->n[1] == y->n[1] && b->n[0] * b->n[2] * b->n[3] == 1;
    if (!is_good) return BAD_PARAM;
    int (*start)(void *, void (*)(void *), void *);
    void *driver = dlopen(DRIVER, RTLD_NOW | RTLD_NOLOAD), *found = dlsym(driver, "cuLaunchHostFunc");
    memcpy(&start, &found, sizeof found);
    job *made = malloc(sizeof *made); /* a graph runs it again and again */
    *made = (job){*x, *w, *conv, *y, in, weights, bias, out, workspace, a->n[0] == 1};
    const int status = counted();
    return status != GOOD ? status : start(stream_of, run, made);
}
