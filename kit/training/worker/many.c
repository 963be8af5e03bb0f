/* For thousands of parameters: what costs less here than in Python. `native.py` and
   `parameter_dict.py` say what it is for. */

#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define WILL_WRITE(place) __builtin_prefetch(place, 1)
#define WILL_READ(place) __builtin_prefetch(place)
#else
#define WILL_WRITE(place) ((void)0)
#define WILL_READ(place) ((void)0)
#endif

#define FORM 3 /* native.py refuses another one */

enum { AHEAD = 16 };      /* places that are asked of the memory before they are needed */
enum { WINDOW = 32 };     /* entries of a dict that are looked at, to know their places */
enum { LINE = 64 };       /* bytes that memory gives at a time */
enum { FIRST = 512 };     /* bytes of an array that are asked for */
enum { DEALLOCATED = 5 }; /* as in Python's PyDict_WatchEvent */

uint64_t kit_changes; /* of all dicts that are watched */

int64_t kit_form(void)
{
    return FORM;
}

/* What Python 3.12 and later call before they change a dict that is watched. The end of
   one that was replaced changes nothing; counted, it would have the next one replaced. */
int kit_note_change(int event, void *dict, void *key, void *value)
{
    (void)dict, (void)key, (void)value;
    kit_changes += event != DEALLOCATED;
    return 0;
}

void kit_mark_32(uint32_t *flat, const int64_t *where, int64_t n, uint32_t mark)
{
    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            WILL_WRITE(flat + where[i + AHEAD]);
        flat[where[i]] = mark;
    }
}

void kit_mark_64(uint64_t *flat, const int64_t *where, int64_t n, uint64_t mark)
{
    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            WILL_WRITE(flat + where[i + AHEAD]);
        flat[where[i]] = mark;
    }
}

/* How an array begins, in every numpy since 1.7; native.py compares it with what
   numpy says before it is relied on. */
typedef struct {
    intptr_t references;
    const void *type;
    const char *data;
    int n_dimensions;
    const intptr_t *shape;
    const intptr_t *strides;
    const void *base;
    const void *dtype;
    int flags;
} Array;

enum { C_CONTIGUOUS = 1 };

/* A parameter: its name's object, and where an array goes that is just like this one. */
typedef struct {
    const void *name;
    char *to;
    intptr_t n_bytes;
    const void *dtype;
    const intptr_t *shape;
    intptr_t n_dimensions;
} Place;

/* Python's own, which each process of it has. The references are borrowed. */
extern int PyDict_Next(void *dict, intptr_t *at, void **key, void **value);

static int fits(const Array *one, const Place *place, const void *type)
{
    intptr_t n = place->n_dimensions;
    return one->type == type && one->dtype == place->dtype && one->n_dimensions == n &&
           (one->flags & C_CONTIGUOUS) &&
           (!n || !memcmp(one->shape, place->shape, n * sizeof(intptr_t)));
}

/* Ask for shape and bytes; of a large array's the processor asks by itself. */
static void ask_for(const Array *one, intptr_t n_bytes)
{
    WILL_READ(one->shape);
    for (intptr_t at = 0; at < n_bytes && at < FIRST; at += LINE)
        WILL_READ(one->data + at);
}

/* Copy the next n values of a dict to their places. Returns how many were, up to the
   first one that has another name or is no array like its place. */
int64_t kit_gather(void *dict, intptr_t *at, const Place *places, int64_t n,
                   const void *type)
{
    const void *names[WINDOW];
    const Array *arrays[WINDOW];
    int64_t seen = 0;

    for (int64_t done = 0; done < n; done++) {
        while (seen < n && seen < done + WINDOW) {
            void *name, *value;
            if (!PyDict_Next(dict, at, &name, &value))
                return done; /* it has become shorter */
            names[seen % WINDOW] = name;
            arrays[seen++ % WINDOW] = value;
            WILL_READ(value);
            WILL_READ((const char *)value + LINE);
        }
        if (done + AHEAD < n && arrays[(done + AHEAD) % WINDOW]->type == type)
            ask_for(arrays[(done + AHEAD) % WINDOW], places[done + AHEAD].n_bytes);
        const Array *one = arrays[done % WINDOW];
        if (names[done % WINDOW] != places[done].name || !fits(one, places + done, type))
            return done;
        memmove(places[done].to, one->data, places[done].n_bytes);
    }
    return n;
}
