/* Threads that share runs of ${name}: a pool of ${threads} threads, the caller among them. */
#ifndef GLOW_NB_BUNDLE_${name}_POOL_H
#define GLOW_NB_BUNDLE_${name}_POOL_H

#include "${name}.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ${name}_pool ${name}_pool;

/* Start the threads; null if the system gives no memory or no threads. */
${name}_pool *${name}_pool_start(void);

/* End the threads. */
void ${name}_pool_stop(${name}_pool *pool);

/* Do what the functions of the same name do, on all threads; one call at a time. */
${prototypes}
#ifdef __cplusplus
}
#endif

#endif
