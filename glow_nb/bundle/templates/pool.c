/* Threads that share runs of ${name}: C11 atomics, and threads of POSIX.

   A thread claims a share before it does it: first its own, so that data stay in its caches, then,
   after a while, those that nobody has begun. So nobody waits for a thread that is asleep, or that
   the system has preempted between two shares; only a share that was begun is waited for. Phases
   are counted over the life of the pool: a thread that comes late to a run finds all claims ahead
   of its own count, and does nothing. Between runs, threads look for a while, then sleep. */
#define _POSIX_C_SOURCE 200809L

#include "${name}_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#if defined(__x86_64__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("isb")
#else
#define PAUSE() atomic_signal_fence(memory_order_seq_cst)
#endif

/* Pauses: before a thread takes a share that is not its own, before one that has nothing to do lets
   others run, and before one that has no run sleeps. */
#define GRACE 50
#define SPINS 500
#define PATIENCE 4000

#define LINE 64

typedef int (*share_of_a_phase)(const void *, void *, void *${sizes_type}, size_t, size_t, size_t);

typedef struct {
    share_of_a_phase share;
    size_t phases;
    unsigned long number; /* of runs before this one, and it */
    unsigned long first;  /* phases of all runs before it */
    const void *constants;
    void *tensors, *arena;
${sizes_member}} run_of;

typedef struct {
    atomic_ulong count;
    char rest[LINE - sizeof(atomic_ulong)]; /* what one thread writes has a line of its own */
} counter;

struct ${name}_pool {
    counter claims[${NAME}_THREADS]; /* the last phase in which each share was claimed */
    counter done;                    /* shares of all phases */
    counter opened;                  /* phases that are done */
    counter posted;                  /* runs that were begun */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    run_of run; /* the last one; with the mutex, like what follows */
    int stopped, started, next_thread;
    atomic_int code;
    pthread_t threads[${NAME}_THREADS];
};

static int take(${name}_pool *pool, const run_of *run, size_t thread, size_t step, size_t share)
{
    unsigned long phase = run->first + step + 1, before = phase - 1;
    atomic_ulong *claim = &pool->claims[share].count;
    int code, none = 0;
    if (atomic_load_explicit(claim, memory_order_relaxed) != before ||
        !atomic_compare_exchange_strong_explicit(claim, &before, phase, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return 0;
    code = run->share(run->constants, run->tensors, run->arena${sizes_of_run}, thread, step, share);
    if (code != 0) /* the first one counts: it may be the reason of all others */
        atomic_compare_exchange_strong(&pool->code, &none, code);
    if (atomic_fetch_add_explicit(&pool->done.count, 1, memory_order_acq_rel) + 1 ==
        phase * ${NAME}_THREADS)
        atomic_store_explicit(&pool->opened.count, phase, memory_order_release);
    return 1;
}

static int take_any(${name}_pool *pool, const run_of *run, size_t thread, size_t step)
{
    size_t share;
    int any = 0;
    for (share = 0; share < ${NAME}_THREADS; share++)
        any |= take(pool, run, thread, step, share);
    return any;
}

static void work(${name}_pool *pool, const run_of *run, size_t thread)
{
    size_t step;
    int grace = GRACE;
    for (step = 0; step < run->phases; step++) {
        unsigned long phase = run->first + step + 1;
        int pauses = 0, next_grace = GRACE;
        take(pool, run, thread, step, thread);
        while (atomic_load_explicit(&pool->opened.count, memory_order_acquire) < phase) {
            if (pauses >= grace && take_any(pool, run, thread, step)) {
                pauses = 0;
                next_grace = 0; /* who was late once is not waited for again */
            } else if (pauses < SPINS) {
                pauses++;
                PAUSE();
            } else {
                sched_yield();
            }
        }
        grace = next_grace;
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
        run_of run;
        int left;
        while (pool->run.number == seen && !pool->stopped)
            pthread_cond_wait(&pool->changed, &pool->mutex);
        if (pool->stopped)
            break;
        run = pool->run;
        seen = run.number;
        pthread_mutex_unlock(&pool->mutex);
        work(pool, &run, thread);
        for (left = PATIENCE; left > 0; left--) {
            if (atomic_load_explicit(&pool->posted.count, memory_order_relaxed) != seen)
                break;
            PAUSE();
        }
        pthread_mutex_lock(&pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

${name}_pool *${name}_pool_start(void)
{
    ${name}_pool *pool = (${name}_pool *)calloc(1, sizeof *pool);
    size_t share;
    if (pool == NULL)
        return NULL;
    for (share = 0; share < ${NAME}_THREADS; share++)
        atomic_init(&pool->claims[share].count, 0);
    atomic_init(&pool->done.count, 0);
    atomic_init(&pool->opened.count, 0);
    atomic_init(&pool->posted.count, 0);
    atomic_init(&pool->code, 0);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->changed, NULL);
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
    atomic_fetch_add(&pool->posted.count, 1);
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
    for (thread = 0; thread < pool->started; thread++)
        pthread_join(pool->threads[thread], NULL);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

static int run_on(${name}_pool *pool, share_of_a_phase share, size_t phases, const void *constants,
                  void *tensors, void *arena${sizes_parameter})
{
    run_of run;
    pthread_mutex_lock(&pool->mutex);
    pool->run.first += pool->run.phases;
    pool->run.number++;
    pool->run.share = share;
    pool->run.phases = phases;
    pool->run.constants = constants;
    pool->run.tensors = tensors;
    pool->run.arena = arena;
${sizes_set}    run = pool->run;
    atomic_store(&pool->code, 0);
    atomic_fetch_add(&pool->posted.count, 1);
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->mutex);
    work(pool, &run, 0);
    return atomic_load(&pool->code);
}
${functions}
