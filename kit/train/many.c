/* For thousands of parameters: what costs less here than in Python. `many.py` and
   `handout.py` say what it is for. */

#include <stdint.h>

#if defined(__GNUC__)
#define WILL_WRITE(place) __builtin_prefetch(place, 1)
#else
#define WILL_WRITE(place) ((void)0)
#endif

#define FORM 2 /* many.py refuses another one */

enum { AHEAD = 16 };      /* places that are asked of the memory before they are written */
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
