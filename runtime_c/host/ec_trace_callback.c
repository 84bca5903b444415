/* EC_TRACE on the host: every event goes to a function that the host sets at run time.
 *
 * Licence: Apache-2.0, part of edgec's runtime.
 */
#include <stddef.h>

#include "ec_link.h"

typedef void ec_trace_fn(const void *context, uint32_t id, const void *data, uint32_t row,
                         uint32_t bytes);

/* Found by name in the shared library; null: nobody listens. */
extern ec_trace_fn *ec_trace_callback;
ec_trace_fn *ec_trace_callback = NULL;

void ec_trace(const void *context, uint32_t id, const void *data, uint32_t row, uint32_t bytes) {
    if (ec_trace_callback != NULL) {
        ec_trace_callback(context, id, data, row, bytes);
    }
}
