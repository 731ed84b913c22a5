/* Threads that share runs of ${name}: C11 atomics, and threads of POSIX.

   Each thread does its own share of each phase and waits until all are done: for a while it looks
   again and again, which is fastest, then it lets others run. Between runs, threads sleep. */
#define _POSIX_C_SOURCE 200809L

#include "${name}_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LOOKS 2000
#define LOOKS_BETWEEN_RUNS 20000

typedef int (*share_function)(const void *, void *, void *, size_t, size_t, size_t);

struct ${name}_pool {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    atomic_ulong job; /* counts runs; written with the mutex, like what follows */
    int stopped;
    int started;
    int next_thread;
    share_function share;
    size_t phases;
    const void *constants;
    void *tensors, *arena;
    atomic_ulong arrived; /* threads that have ended a phase, over the life of the pool */
    atomic_ulong passed;  /* phases that are done */
    atomic_int code;
    pthread_t threads[${NAME}_THREADS];
};

static void wait_for_all(${name}_pool *pool)
{
    unsigned long phase = atomic_load_explicit(&pool->passed, memory_order_relaxed);
    unsigned long looks = 0;
    unsigned long before = atomic_fetch_add_explicit(&pool->arrived, 1, memory_order_acq_rel);
    if ((before + 1) % ${NAME}_THREADS == 0) {
        atomic_store_explicit(&pool->passed, phase + 1, memory_order_release);
        return;
    }
    while (atomic_load_explicit(&pool->passed, memory_order_acquire) == phase)
        if (++looks > LOOKS)
            sched_yield();
}

static void work(${name}_pool *pool, size_t thread)
{
    const share_function share = pool->share; /* as the next run may be given soon */
    const size_t phases = pool->phases;
    const void *constants = pool->constants;
    void *tensors = pool->tensors, *arena = pool->arena;
    size_t phase;
    for (phase = 0; phase < phases; phase++) {
        int code = share(constants, tensors, arena, thread, phase, thread);
        if (code != 0)
            atomic_store(&pool->code, code);
        wait_for_all(pool);
    }
}

static void *serve(void *argument)
{
    ${name}_pool *pool = (${name}_pool *)argument;
    unsigned long seen = 0;
    size_t thread;
    pthread_mutex_lock(&pool->mutex);
    thread = (size_t)++pool->next_thread;
    for (;;) {
        unsigned long looks;
        while (atomic_load(&pool->job) == seen && !pool->stopped)
            pthread_cond_wait(&pool->changed, &pool->mutex);
        if (pool->stopped)
            break;
        seen = atomic_load(&pool->job);
        pthread_mutex_unlock(&pool->mutex);
        work(pool, thread);
        for (looks = 0; looks < LOOKS_BETWEEN_RUNS && atomic_load(&pool->job) == seen; looks++) {
        }
        pthread_mutex_lock(&pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

${name}_pool *${name}_pool_start(void)
{
    ${name}_pool *pool = (${name}_pool *)calloc(1, sizeof *pool);
    if (pool == NULL)
        return NULL;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->changed, NULL);
    atomic_init(&pool->job, 0);
    atomic_init(&pool->arrived, 0);
    atomic_init(&pool->passed, 0);
    atomic_init(&pool->code, 0);
    for (; pool->started < (int)${NAME}_THREADS - 1; pool->started++)
        if (pthread_create(&pool->threads[pool->started], NULL, serve, pool) != 0) {
            ${name}_pool_stop(pool);
            return NULL;
        }
    return pool;
}

void ${name}_pool_stop(${name}_pool *pool)
{
    int thread;
    pthread_mutex_lock(&pool->mutex);
    pool->stopped = 1;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
    for (thread = 0; thread < pool->started; thread++)
        pthread_join(pool->threads[thread], NULL);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

static int run(${name}_pool *pool, share_function share, size_t phases, const void *constants,
               void *tensors, void *arena)
{
    pthread_mutex_lock(&pool->mutex);
    pool->share = share;
    pool->phases = phases;
    pool->constants = constants;
    pool->tensors = tensors;
    pool->arena = arena;
    atomic_store(&pool->code, 0);
    atomic_fetch_add(&pool->job, 1);
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
    work(pool, 0);
    return atomic_load(&pool->code);
}
${functions}
