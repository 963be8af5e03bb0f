/* What is done for each of many parameters in a step, where a step of Python for each of
   them would cost more than its bytes. `many.py` says what these are for. */

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define WILL_WRITE(place) __builtin_prefetch(place, 1)
#else
#define WILL_WRITE(place) ((void)0)
#endif

#define FORM 1 /* many.py refuses another one */

enum { AHEAD = 16 }; /* places that are asked of the memory before they are written */

/* PyDict_Next of Python's stable interface: it lends the next key and its value. */
typedef int (*Next)(void *dict, ptrdiff_t *place, void **key, void **value);

int64_t kit_form(void)
{
    return FORM;
}

/* Whether a dict holds these keys, each with this value, in this order. The interpreter
   has to be held: nothing may change the dict meanwhile. */
int64_t kit_holds(Next next, void *dict, void *const *pairs, int64_t n)
{
    ptrdiff_t place = 0;
    void *key, *value;
    for (int64_t i = 0; i < n; i++, pairs += 2)
        if (!next(dict, &place, &key, &value) || key != pairs[0] || value != pairs[1])
            return 0;
    return !next(dict, &place, &key, &value);
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
