/* The inner loop of an exchange over shared memory: counters, sums, copies, records.

   `native_executor.py` makes the tables that this reads and says what they mean;
   `python_executor.py` does the same in Python, to the same bits. Nothing here
   allocates, fails or blocks: a wait that lasts returns to Python, which knows how to
   sleep, to give up and to be interrupted.
   Plain C without Python's headers: a compiler is all that it takes to build this. */

#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#define LOOK_AGAIN() __builtin_ia32_pause()
#else
#define LOOK_AGAIN() ((void)0)
#endif
/* Sums are built for several instruction sets; the loader takes what the machine has. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

#if defined(__APPLE__)
#define CLOCK CLOCK_UPTIME_RAW /* as Python's */
#else
#define CLOCK CLOCK_MONOTONIC
#endif

#define FORM 5 /* of the tables; native_executor.py refuses another one */

enum { POST, TAKE, MOVE, SUM_32, SUM_64, DESCEND_32, DESCEND_64 }; /* kinds of operations */
/* Ends a span, which is a wait; has bytes; the next operation works on the same range. */
enum { LAST = 1, WAITS = 2, COUNTS = 4, JOINED = 8 };
enum { NOTE = 8 }; /* words */
enum { TILE = 1 << 14, MOST_JOINED = 16 }; /* bytes of a piece that stays in the cache */

/* Rows of the records, packed: what is written here, behind what stays the same. */
enum { SPAN = 27, SPAN_STEP = 3, TRANSFER = 41, TRANSFER_STEP = 9, TRANSFER_START = 25 };

typedef struct {
    int64_t kind, flags, port, size; /* in bytes */
    union { void *out; uint64_t region; }; /* arrays, or what is posted or due: */
    union { const void *a; uint64_t lo; }; /* bytes `lo` up to `hi` of a region */
    union { const void *b; uint64_t hi; };
    double weight, rate;
} Op;

typedef struct {
    uint64_t *out, *in;             /* messages posted, in both directions */
    uint64_t *notes_out, *notes_in; /* a cache line a message, see shared_port.py */
    uint64_t *asleep;               /* whether the peer sleeps */
    uint64_t *own;                  /* messages that we posted and took, and its doorbell */
    uint64_t mask;
} Port;

typedef struct {
    int64_t step, halt, epoch;  /* travel with each message */
    int64_t begun, waited;      /* since when; how long, nanoseconds */
    char *spans, *transfers;    /* the next rows */
    int64_t place;              /* of the next operation */
    int64_t n;                  /* of operations; this and the following stay the same */
    int64_t spins, patience_ns; /* looks before the first yield; when to give up */
    const Op *ops;
    const Port *ports;
} State;

int64_t kit_form(void)
{
    return FORM;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* As `ring` in kit/system: eight bytes for an eventfd, or for a pipe. */
static void ring(int handle)
{
    uint64_t one = 1;
    ssize_t done = write(handle, &one, sizeof one); /* full: it rings already */
    (void)done;
}

static void post(const Op *op, const Port *port, const State *state)
{
    uint64_t number = ++port->own[0];
    uint64_t *note = port->notes_out + NOTE * (number & port->mask);
    note[0] = note[1] = (uint64_t)now_ns();
    note[2] = (uint64_t)state->step;
    note[3] = (uint64_t)state->halt;
    note[4] = op->region;
    note[5] = op->lo;
    note[6] = op->hi;
    note[7] = (uint64_t)state->epoch;
    __atomic_store_n(port->out, number, __ATOMIC_RELEASE);
    /* The peer sets `asleep` and then looks at `out`; we set `out` and then look at `asleep`.
       Without a full fence between the two, the processor may let our load overtake our
       store: both sides would see the old value, and nobody would ring. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(port->asleep, __ATOMIC_RELAXED))
        ring((int)port->own[2]);
}

static int has_arrived(const Port *port)
{
    return __atomic_load_n(port->in, __ATOMIC_ACQUIRE) > port->own[1];
}

/* A yield that lasts longer has given the core to work of others; so will the next ones. */
#define DEAR_NS 200000
#define DEAR_WAITS 300

static int await(const Port *port, const State *state)
{
    static _Thread_local int dear; /* waits for which to sleep is cheaper than to yield */
    for (int64_t look = 0; look <= state->spins; look++) {
        if (has_arrived(port))
            return 1;
        LOOK_AGAIN();
    }
    if (dear) {
        dear--;
        return 0;
    }
    int64_t start = now_ns(), before = start, now;
    for (; before - start < state->patience_ns; before = now) {
        sched_yield();
        now = now_ns();
        if (now - before > DEAR_NS)
            dear = DEAR_WAITS;
        if (dear || has_arrived(port))
            break;
    }
    return has_arrived(port);
}

/* Take the next message and return 1; 0, and leave it, if it is not the one that is due. */
static int take(const Op *op, const Port *port, State *state)
{
    uint64_t number = port->own[1] + 1;
    const uint64_t *note = port->notes_in + NOTE * (number & port->mask);
    if (note[4] != op->region || note[5] != op->lo || note[6] != op->hi)
        return 0;
    port->own[1] = number;
    int64_t times[2] = {(int64_t)note[0], now_ns()};
    if ((int64_t)note[3] < state->halt)
        state->halt = (int64_t)note[3];
    if (!(op->flags & COUNTS))
        return 1;
    memcpy(state->transfers + TRANSFER_STEP, &state->step, sizeof state->step);
    memcpy(state->transfers + TRANSFER_START, times, sizeof times);
    state->transfers += TRANSFER;
    return 1;
}

static void end_span(const Op *op, State *state, int64_t now)
{
    int64_t values[3] = {state->step, state->begun, now};
    memcpy(state->spans + SPAN_STEP, values, sizeof values);
    state->spans += SPAN;
    if (op->flags & WAITS)
        state->waited += now - state->begun;
    state->begun = now;
}

/* `out` is one of the summands or apart from both: no element depends on another one. */
WIDE static void sum_32(float *out, const float *a, const float *b, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        out[i] = a[i] + b[i];
}

WIDE static void sum_64(double *out, const double *a, const double *b, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        out[i] = a[i] + b[i];
}

/* Gradient descent with the mean; each operation is rounded by itself. */
WIDE static void descend_32(float *out, const float *now, const float *total, int64_t n,
                            float weight, float rate)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        out[i] = now[i] - total[i] * weight * rate;
}

WIDE static void descend_64(double *out, const double *now, const double *total,
                            int64_t n, double weight, double rate)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        out[i] = now[i] - total[i] * weight * rate;
}

/* Do one piece of an operation: `size` bytes from `at` on. */
static void compute(const Op *op, int64_t at, int64_t size)
{
    char *out = (char *)op->out + at;
    const char *a = (const char *)op->a + at, *b = (const char *)op->b + at;
    float weight = (float)op->weight, rate = (float)op->rate;
    if (op->kind == SUM_32)
        sum_32((float *)out, (const float *)a, (const float *)b, size / 4);
    else if (op->kind == SUM_64)
        sum_64((double *)out, (const double *)a, (const double *)b, size / 8);
    else if (op->kind == DESCEND_32)
        descend_32((float *)out, (const float *)a, (const float *)b, size / 4, weight, rate);
    else if (op->kind == DESCEND_64)
        descend_64((double *)out, (const double *)a, (const double *)b, size / 8,
                   op->weight, op->rate);
    else
        memcpy(out, a, (size_t)size);
}

/* Do joined operations piece by piece, so that each finds in the cache what the one
   before it left. Each span is as long as its operation took, as if they had come one
   after the other. */
static void compute_joined(const Op *ops, int64_t n, State *state)
{
    int64_t took[MOST_JOINED] = {0}, before = now_ns(), size = ops->size;
    for (int64_t at = 0; at < size; at += TILE) {
        for (int64_t number = 0; number < n; number++) {
            compute(ops + number, at, size - at < TILE ? size - at : TILE);
            int64_t now = now_ns();
            took[number] += now - before;
            before = now;
        }
    }
    int64_t end = state->begun;
    for (int64_t number = 0; number < n; number++) {
        end += took[number];
        if (ops[number].flags & LAST)
            end_span(ops + number, state, end);
    }
}

/* Carry out the operations from `place` on. If `place` is not the end afterwards, it is
   that of a TAKE whose message did not come in time: call again once it has. Or it is not
   the one that is due: Python looks, and says so. */
void kit_run(State *state)
{
    for (; state->place < state->n; state->place++) {
        const Op *op = state->ops + state->place;
        const Port *port = state->ports + op->port;
        if (op->kind == POST) {
            post(op, port, state);
        } else if (op->kind == TAKE) {
            if (!await(port, state) || !take(op, port, state))
                return;
        } else if (op->flags & JOINED) {
            int64_t n = 1;
            while (op[n - 1].flags & JOINED)
                n++;
            compute_joined(op, n, state);
            state->place += n - 1;
            continue;
        } else {
            compute(op, 0, op->size);
        }
        if (op->flags & LAST)
            end_span(op, state, now_ns());
    }
}
