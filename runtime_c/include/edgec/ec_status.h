/* The return value of every function of a generated model. Copied beside each model: the values never
 * change meaning, so models made by different versions of edgec can share this file.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#ifndef EC_STATUS_H
#define EC_STATUS_H

#if defined(__GNUC__)
#define EC_MUST_CHECK __attribute__((warn_unused_result))
#else
#define EC_MUST_CHECK
#endif

typedef enum ec_status {
    EC_OK = 0,                   /* all is well */
    EC_ERR_NULL = -1,            /* a pointer that is needed is null */
    EC_ERR_SIZE = -2,            /* a memory region is smaller than the model needs */
    EC_ERR_ALIGNMENT = -3,       /* a pointer is not aligned as the header asks */
    EC_ERR_NOT_INITIALIZED = -4, /* the context was not set up by this model's init */
    EC_ERR_SELFTEST = -5,        /* the golden run gave other bytes than at compile time */
    EC_ERR_RANGE = -6,           /* a size or index is out of its bounds */
    EC_ERR_WEIGHTS = -7,         /* the weights in memory differ from the compiled ones */
    EC_ERR_CPU = -8,             /* the processor lacks instructions that the model is built with */
    EC_ERR_GPU = -9,             /* no GPU, no driver, or it lacks what the model needs */
    EC_ERR_NPU = -10             /* an accelerator's driver refused or did not finish a group */
} ec_status;

#endif /* EC_STATUS_H */
