/* Both directions of a link over a socket, for a thread each: see pumped_port.py.

   The words are those of shared_port.py in private memory: one thread sends what the
   executor counts as posted, the other one writes what comes to where the plan wants it
   and then counts it. So hops.c carries out a plan over a socket as it does over shared
   memory. Frames are those of kit/wire/frame.py, and every byte of a head is compared
   with what is due; what differs is left for Python, which says how.

   A link may have further streams, with a thread each for either direction. Large messages
   are cut into a part for each stream, which is a frame of its own. The thread of the first
   stream, which sees all messages, hands out the parts, and counts a message when all are
   done:

       first stream    | part 0 of 5 | wait | message 6 | part 0 of 7 | ...
       further one     | part 1 of 5 |                  | part 1 of 7 | ...

   Plain C without Python's headers; nothing here allocates. */

#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#if defined(__APPLE__)
#define CLOCK CLOCK_UPTIME_RAW /* as Python's */
#else
#define CLOCK CLOCK_MONOTONIC
#endif
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* Python ignores the signal */
#endif

/* Of what Python hands over; frames are little-endian, so no other machine uses this. */
#define FORM (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 2 : 0)

enum { NOTE = 8 };                            /* words, see shared_port.py */
enum { HEAD = 64, CHECKED = 56 };             /* bytes of a head; before its checksum */
enum { HELD = 52, LINE = 64 };                /* before its hold; where parts begin */
enum { HALT = 1, CHECKSUM = 2 };              /* flags of a frame */
enum { ENDED, DAMAGED, TOO_MANY, UNDUE, GOES_ON }; /* why a direction is over */
#define NO_HALT (((uint64_t)1 << 62) - 1)
#define FAR (((int64_t)1 << 31) - 1)          /* no halt is announced so many steps ahead */
/* Checksums are computed at once: when the rest has come, these have left the cache. */
#define PIECE (1 << 18)
/* Look for so long before sleeping. Longer costs more of a processor than it saves. */
#define LOOK_NS 20000
/* What is over is also rung and shut down; this bounds the wait if that fails. */
#define SLICE_MS 500

typedef struct {
    char *at; /* where its bytes belong */
    uint64_t region, lo, hi;
} Place;

typedef struct { /* what comes in steps of either parity */
    const Place *places[2];
    uint64_t n[2], first, epoch;
} Script;

typedef struct Pump {
    uint64_t *count, *notes, mask; /* messages of this direction, or parts handed out */
    uint64_t *asleep;              /* whether our thread sleeps */
    int64_t heard, bell;           /* where it hears what wakes it, and what to ring */
    uint64_t *sleeper;             /* whether the executor sleeps */
    int64_t doorbell;              /* and what to ring then */
    const uint64_t *taken;         /* how many messages the executor took */
    int64_t fd, over;
    char *memory; /* all regions */
    uint64_t region_bytes;
    uint64_t done; /* messages that are sent, or here; of a further stream: parts */
    struct Pump **further;
    uint64_t n_further, handed_out, least; /* least: bytes of a message with parts */
    uint64_t guard; /* taken while a script changes, or is looked at */
    const Script *script;
    uint64_t announced; /* number of this script */
    uint64_t followed;  /* of the one of parity and position */
    uint64_t refused;   /* of the one that the head at hand does not fit */
    uint64_t parity, position;
    Place now;     /* of the message or part at hand */
    uint64_t end;  /* of the whole message */
    uint64_t sum;  /* what its bytes give, if that is not its checksum */
    char same[HEAD]; /* what is the same in the heads of all frames; that of the part */
    char head[HEAD]; /* of the message at hand */
} Pump;

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

static uint64_t get(const char *at, int size)
{
    uint64_t value = 0;
    memcpy(&value, at, (size_t)size);
    return value;
}

static void put(char *at, int size, uint64_t value)
{
    memcpy(at, &value, (size_t)size);
}

/* -- checksums: zlib's CRC-32 ------------------------------------------------------- */

static uint32_t table[8][256];

__attribute__((constructor)) static void fill_table(void)
{
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t value = n;
        for (int bit = 0; bit < 8; bit++)
            value = value >> 1 ^ (value & 1 ? 0xEDB88320 : 0);
        table[0][n] = value;
    }
    for (int row = 1; row < 8; row++)
        for (int n = 0; n < 256; n++)
            table[row][n] = table[row - 1][n] >> 8 ^ table[0][table[row - 1][n] & 255];
}

static uint32_t tabled(uint32_t crc, const char *at, uint64_t n)
{
    crc = ~crc;
    for (; n >= 8; n -= 8, at += 8) {
        uint64_t word = get(at, 8) ^ crc;
        crc = 0;
        for (int byte = 0; byte < 8; byte++)
            crc ^= table[7 - byte][word >> 8 * byte & 255];
    }
    for (; n; n--, at++)
        crc = crc >> 8 ^ table[0][(crc ^ (unsigned char)*at) & 255];
    return ~crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define FOLDS __attribute__((target("pclmul,sse4.1")))

FOLDS static __m128i load(const char *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

FOLDS static __m128i fold(__m128i sum, __m128i by, __m128i data)
{
    __m128i low = _mm_clmulepi64_si128(sum, by, 0x00);
    __m128i high = _mm_clmulepi64_si128(sum, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), data);
}

/* By carry-less multiplication, after Gopal and others, "Fast CRC Computation for Generic
   Polynomials Using PCLMULQDQ Instruction", Intel 2009. A sum is moved by so many bytes
   when it is multiplied by powers of x that are as many bits, and 32 more or less. */
#define BY_256 _mm_set_epi64x(0x01322d1430, 0x011542778a)
#define BY_64 _mm_set_epi64x(0x01c6e41596, 0x0154442bd4)
#define BY_16 _mm_set_epi64x(0x00ccaa009e, 0x01751997d0)

/* Add the last `n` bytes, a multiple of 16, to a sum, and reduce that to 32 bits. */
FOLDS static uint32_t reduced(__m128i sum, const char *at, uint64_t n)
{
    const __m128i by_4 = _mm_set_epi64x(0, 0x0163cd6124);
    const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
    const __m128i lows = _mm_setr_epi32(~0, 0, ~0, 0);
    for (; n; at += 16, n -= 16)
        sum = fold(sum, BY_16, load(at));
    sum = _mm_xor_si128(_mm_srli_si128(sum, 8), _mm_clmulepi64_si128(sum, BY_16, 0x10));
    __m128i high = _mm_srli_si128(sum, 4);
    sum = _mm_clmulepi64_si128(_mm_and_si128(sum, lows), by_4, 0x00);
    sum = _mm_xor_si128(sum, high);
    high = _mm_clmulepi64_si128(_mm_and_si128(sum, lows), barrett, 0x10);
    high = _mm_clmulepi64_si128(_mm_and_si128(high, lows), barrett, 0x00);
    return ~(uint32_t)_mm_extract_epi32(_mm_xor_si128(sum, high), 1);
}

/* `n` is a multiple of 16, and at least 64. */
FOLDS static uint32_t folded(uint32_t crc, const char *at, uint64_t n)
{
    __m128i a = _mm_xor_si128(load(at), _mm_cvtsi32_si128((int)~crc));
    __m128i b = load(at + 16), c = load(at + 32), d = load(at + 48);
    for (at += 64, n -= 64; n >= 64; at += 64, n -= 64) {
        a = fold(a, BY_64, load(at));
        b = fold(b, BY_64, load(at + 16));
        c = fold(c, BY_64, load(at + 32));
        d = fold(d, BY_64, load(at + 48));
    }
    return reduced(fold(fold(fold(a, BY_16, b), BY_16, c), BY_16, d), at, n);
}

/* The same for 64 bytes at a time, where the processor can: four times as fast. */
#define FOLDS_WIDELY __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.1")))

FOLDS_WIDELY static __m512i wide_fold(__m512i sum, __m512i by, __m512i data)
{
    __m512i low = _mm512_clmulepi64_epi128(sum, by, 0x00);
    __m512i high = _mm512_clmulepi64_epi128(sum, by, 0x11);
    return _mm512_ternarylogic_epi64(low, high, data, 0x96); /* all three, by xor */
}

/* `n` is a multiple of 16, and at least 256. */
FOLDS_WIDELY static uint32_t widely_folded(uint32_t crc, const char *at, uint64_t n)
{
    const __m512i by_256 = _mm512_broadcast_i32x4(BY_256);
    const __m512i by_64 = _mm512_broadcast_i32x4(BY_64);
    __m512i first = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc));
    __m512i a = _mm512_xor_si512(_mm512_loadu_si512(at), first);
    __m512i b = _mm512_loadu_si512(at + 64), c = _mm512_loadu_si512(at + 128);
    __m512i d = _mm512_loadu_si512(at + 192);
    for (at += 256, n -= 256; n >= 256; at += 256, n -= 256) {
        a = wide_fold(a, by_256, _mm512_loadu_si512(at));
        b = wide_fold(b, by_256, _mm512_loadu_si512(at + 64));
        c = wide_fold(c, by_256, _mm512_loadu_si512(at + 128));
        d = wide_fold(d, by_256, _mm512_loadu_si512(at + 192));
    }
    a = wide_fold(wide_fold(wide_fold(a, by_64, b), by_64, c), by_64, d);
    __m128i sum = _mm512_castsi512_si128(a);
    sum = fold(sum, BY_16, _mm512_extracti32x4_epi32(a, 1));
    sum = fold(sum, BY_16, _mm512_extracti32x4_epi32(a, 2));
    sum = fold(sum, BY_16, _mm512_extracti32x4_epi32(a, 3));
    return reduced(sum, at, n);
}

static int folds(void)
{
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}

static int folds_widely(void)
{
    return folds() && __builtin_cpu_supports("avx512f")
           && __builtin_cpu_supports("vpclmulqdq");
}
#else
#define folded(crc, at, n) (crc)
#define widely_folded(crc, at, n) (crc)
#define folds() 0
#define folds_widely() 0
#endif

/* By the way of `most` at most: 0 tables, 1 folds, 2 wide ones. */
uint32_t kit_crc32(uint32_t crc, const char *at, uint64_t n, int most)
{
    uint64_t whole = n & ~(uint64_t)15;
    if (most > 1 && n >= 256 && folds_widely())
        crc = widely_folded(crc, at, whole);
    else if (most > 0 && n >= 64 && folds())
        crc = folded(crc, at, whole);
    else
        whole = 0;
    return tabled(crc, at + whole, n - whole);
}

static uint32_t crc32(uint32_t crc, const char *at, uint64_t n)
{
    return kit_crc32(crc, at, n, 2);
}

static uint32_t crc_of_head(const char *head)
{
    static const char blank[HEAD - CHECKED];
    return crc32(crc32(0, head, CHECKED), blank, sizeof blank);
}

/* -- waiting ------------------------------------------------------------------------ */

static int is_over(const Pump *pump)
{
    return (int)__atomic_load_n(&pump->over, __ATOMIC_ACQUIRE);
}

/* Wait until a word is another one than `seen`; 0 if this direction is over. */
static int await(Pump *pump, const uint64_t *word, uint64_t seen)
{
    int64_t start = now_ns();
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == seen) {
        if (is_over(pump))
            return 0;
        if (now_ns() - start < LOOK_NS) {
            sched_yield();
            continue;
        }
        /* As in hops.c: we set `asleep` and look at the word; whoever changes it looks at
           `asleep` afterwards. */
        __atomic_store_n(pump->asleep, 1, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (__atomic_load_n(word, __ATOMIC_RELAXED) == seen && !is_over(pump)) {
            struct pollfd rung = {.fd = (int)pump->heard, .events = POLLIN};
            char rings[64];
            if (poll(&rung, 1, SLICE_MS) > 0) {
                ssize_t n = read((int)pump->heard, rings, sizeof rings);
                (void)n;
            }
        }
        __atomic_store_n(pump->asleep, 0, __ATOMIC_RELAXED);
    }
    return !is_over(pump);
}

/* Wake whoever sleeps: what it waits for has been written before. */
static void wake(const uint64_t *asleep, int64_t bell)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(asleep, __ATOMIC_RELAXED)) {
        uint64_t one = 1;
        ssize_t done = write((int)bell, &one, sizeof one);
        (void)done;
    }
}

static void wake_executor(const Pump *pump)
{
    wake(pump->sleeper, pump->doorbell);
}

/* -- parts of messages -------------------------------------------------------------- */

/* Which part of a message a stream of the link carries; small ones are the first one's. */
static Place part_of(const Pump *first, const Place *whole, uint64_t number)
{
    uint64_t size = whole->hi - whole->lo, n = first->n_further + 1;
    if (n == 1 || size < first->least)
        return *whole;
    uint64_t each = ((size + n - 1) / n + LINE - 1) / LINE * LINE, lo = each * number;
    uint64_t hi = lo + each;
    lo = lo < size ? lo : size;
    hi = hi < size ? hi : size;
    return (Place){whole->at + lo, whole->region, whole->lo + lo, whole->lo + hi};
}

static void put_place(char *head, const Pump *pump, const Place *place)
{
    uint64_t address = place->region * pump->region_bytes + place->lo;
    put(head + 40, 4, address >> 32);
    put(head + 44, 4, address);
    put(head + 48, 4, place->hi - place->lo);
}

/* Hand out the parts of the message at hand, whose head says what all heads do. */
static void hand_out(Pump *first)
{
    Place whole = first->now;
    first->now = part_of(first, &whole, 0);
    first->end = whole.hi;
    if (first->now.hi == whole.hi)
        return;
    for (uint64_t n = 0; n < first->n_further; n++) {
        Pump *own = first->further[n];
        own->now = part_of(first, &whole, n + 1);
        memcpy(own->same, first->head, HELD);
        put_place(own->same, first, &own->now);
    }
    __atomic_store_n(&first->handed_out, first->handed_out + 1, __ATOMIC_RELEASE);
    for (uint64_t n = 0; n < first->n_further; n++)
        wake(first->further[n]->asleep, first->further[n]->bell);
}

/* Wait until all parts that were handed out are done; 0 if this is over. */
static int are_done(Pump *first)
{
    for (uint64_t n = 0; n < first->n_further; n++) {
        const uint64_t *done = &first->further[n]->done;
        uint64_t seen;
        while ((seen = __atomic_load_n(done, __ATOMIC_ACQUIRE)) != first->handed_out)
            if (!await(first, done, seen))
                return 0;
    }
    return 1;
}

/* Wait for the next part of a further stream; 0 if this is over. */
int64_t kit_part(Pump *own)
{
    return await(own, own->count, own->done);
}

void kit_part_done(Pump *own)
{
    __atomic_store_n(&own->done, own->done + 1, __ATOMIC_RELEASE);
    wake(own->sleeper, own->doorbell);
}

/* Whether the head at hand is that of the part. */
int64_t kit_part_fits(const Pump *own)
{
    const char *head = own->head;
    return !memcmp(head, own->same, HELD)
           && (get(head + 6, 2) & CHECKSUM || !get(head + CHECKED, 4)) && !get(head + 60, 4);
}

/* Let blocking calls return now and then, so that an end is seen even if nobody shuts the
   socket down. */
static void set_slices(int fd)
{
    struct timeval slice = {.tv_usec = SLICE_MS * 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof slice);
}

static int is_passing(void)
{
    return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
}

/* -- sending ------------------------------------------------------------------------ */

/* Wait for the next message that is posted, and write its head; 0 if this is over. The
   checksum is left out: what is encrypted has better ones. */
int64_t kit_next(Pump *pump)
{
    if (!await(pump, pump->count, pump->done))
        return 0;
    uint64_t number = pump->done + 1;
    const uint64_t *note = pump->notes + NOTE * (number & pump->mask);
    uint64_t region = note[4], lo = note[5];
    char *at = pump->memory + region * pump->region_bytes + lo;
    /* A halt travels as its distance from this step, above the message's number. */
    int64_t ahead = (int64_t)note[3] - (int64_t)note[2] - 1;
    int halts = ahead <= FAR;
    ahead = halts && ahead > 0 ? ahead : 0;
    char *head = pump->head;
    memcpy(head, pump->same, HEAD);
    put(head + 6, 2, get(head + 6, 2) | (uint64_t)(halts ? HALT : 0));
    put(head + 16, 4, note[7]);
    put(head + 24, 8, note[2]);
    put(head + 32, 8, (uint64_t)ahead << 32 | (number & 0xFFFFFFFF));
    put(head + HELD, 4, (note[1] - note[0] + 500) / 1000);
    pump->now = (Place){at, region, lo, note[6]};
    hand_out(pump);
    put_place(head, pump, &pump->now);
    return 1;
}

/* Count the message at hand as sent: its bytes may be overwritten. 0 if this is over. */
int64_t kit_sent(Pump *pump)
{
    if (!are_done(pump))
        return 0;
    __atomic_store_n(&pump->done, pump->done + 1, __ATOMIC_RELEASE);
    if (__atomic_load_n(pump->count, __ATOMIC_RELAXED) == pump->done)
        wake_executor(pump); /* it may wait until all has left */
    return 1;
}

static int push(const Pump *pump, struct iovec *rest, int n)
{
    while (n) {
        struct msghdr message = {.msg_iov = rest, .msg_iovlen = (size_t)n};
        ssize_t sent = sendmsg((int)pump->fd, &message, MSG_NOSIGNAL);
        if (is_over(pump) || (sent < 0 && !is_passing()))
            return 0;
        size_t left = sent < 0 ? 0 : (size_t)sent;
        for (; n && left >= rest->iov_len; rest++, n--)
            left -= rest->iov_len;
        if (n) {
            rest->iov_base = (char *)rest->iov_base + left;
            rest->iov_len -= left;
        }
    }
    return 1;
}

/* Send the frame at hand; 0 if that cannot be. */
static int send_frame(Pump *pump)
{
    uint64_t size = pump->now.hi - pump->now.lo;
    if (get(pump->head + 6, 2) & CHECKSUM)
        put(pump->head + CHECKED, 4, crc32(crc_of_head(pump->head), pump->now.at, size));
    struct iovec parts[2] = {{pump->head, HEAD}, {pump->now.at, size}};
    return push(pump, parts, size ? 2 : 1);
}

/* Send what is posted, until this is over or the socket takes nothing more. */
int64_t kit_send(Pump *pump)
{
    set_slices((int)pump->fd);
    while (kit_next(pump) && send_frame(pump) && kit_sent(pump))
        continue;
    return ENDED;
}

/* The same for the parts of a further stream. */
int64_t kit_send_parts(Pump *own)
{
    set_slices((int)own->fd);
    while (kit_part(own)) {
        memcpy(own->head, own->same, HEAD);
        if (!send_frame(own))
            break;
        kit_part_done(own);
    }
    return ENDED;
}

/* -- receiving ---------------------------------------------------------------------- */

static void enter(Pump *pump)
{
    while (__atomic_exchange_n(&pump->guard, 1, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void leave(Pump *pump)
{
    __atomic_store_n(&pump->guard, 0, __ATOMIC_RELEASE);
}

/* Start over with what a script says; it stays until many more have come. */
void kit_expect(Pump *pump, const Script *script)
{
    enter(pump);
    pump->script = script;
    __atomic_store_n(&pump->announced, pump->announced + 1, __ATOMIC_RELEASE);
    leave(pump);
    wake(pump->asleep, pump->bell);
}

/* What is due now; NULL before the next script. Only with the guard. */
static const Place *due(Pump *pump)
{
    const Script *script = pump->script;
    if (!script)
        return NULL;
    if (pump->followed != pump->announced) {
        pump->followed = pump->announced;
        pump->parity = script->first;
        pump->position = 0;
    } else if (pump->position && pump->position == script->n[pump->parity]
               && script->n[1 - pump->parity]) {
        /* Where the other parity has nothing, this was the only step. */
        pump->parity = 1 - pump->parity;
        pump->position = 0;
    }
    if (pump->position >= script->n[pump->parity])
        return NULL;
    return script->places[pump->parity] + pump->position;
}

/* Whether the head at hand says of its message what is due. */
static int fits(const Pump *pump, const Place *place)
{
    const char *head = pump->head, *same = pump->same;
    Place part = part_of(pump, place, 0);
    char where[HEAD];
    put_place(where, pump, &part);
    uint64_t flags = get(head + 6, 2), number = pump->done + 1;
    return !memcmp(head, same, 6)            /* magic, version, kind */
           && !(flags & ~(uint64_t)(HALT | CHECKSUM))
           && !memcmp(head + 8, same + 8, 8) /* cluster */
           && get(head + 16, 4) == pump->script->epoch
           && !memcmp(head + 20, same + 20, 4) /* sender */
           && !(get(head + 24, 8) >> 63) && !(get(head + 32, 8) >> 63)
           && get(head + 32, 4) == (number & 0xFFFFFFFF)
           && !memcmp(head + 40, where + 40, HELD - 40)
           && (flags & CHECKSUM || !get(head + CHECKED, 4)) && !get(head + 60, 4);
}

/* Wait until the head at hand is due; 0 if this is over. Until then it may belong to the
   next script: the executor refuses it if it waits for what this one says. */
int64_t kit_due(Pump *pump)
{
    for (;;) {
        enter(pump);
        uint64_t announced = pump->announced;
        const Place *place = due(pump);
        int is_due = place && fits(pump, place);
        if (is_due)
            pump->now = *place;
        else if (place) {
            pump->now = part_of(pump, place, 0); /* for the error */
            __atomic_store_n(&pump->refused, announced, __ATOMIC_RELEASE);
        }
        leave(pump);
        if (is_due) {
            hand_out(pump);
            return 1;
        }
        if (place)
            wake_executor(pump);
        if (!await(pump, &pump->announced, announced))
            return 0;
    }
}

/* Count the message at hand, whose bytes are in place, as here; `begun` is when its head
   came. Returns why not: TOO_MANY if the executor has not taken so many that there is
   room for more. */
int64_t kit_arrived(Pump *pump, int64_t begun)
{
    if (!are_done(pump))
        return ENDED;
    uint64_t number = pump->done + 1, *note = pump->notes + NOTE * (number & pump->mask);
    if (number - __atomic_load_n(pump->taken, __ATOMIC_RELAXED) > pump->mask)
        return TOO_MANY;
    const char *head = pump->head;
    uint64_t step = get(head + 24, 8), halts = get(head + 6, 2) & HALT;
    note[0] = (uint64_t)begun;
    note[1] = (uint64_t)now_ns() + get(head + HELD, 4) * 1000;
    note[2] = step;
    note[3] = halts ? step + 1 + get(head + 36, 4) : NO_HALT;
    note[4] = pump->now.region;
    note[5] = pump->now.lo;
    note[6] = pump->end;
    pump->done = number;
    __atomic_store_n(pump->count, number, __ATOMIC_RELEASE);
    pump->position++; /* of the script that it came by: for another one it starts over */
    wake_executor(pump);
    return GOES_ON;
}

static int pull(const Pump *pump, char *at, uint64_t n)
{
    while (n) {
        ssize_t came = recv((int)pump->fd, at, n, MSG_WAITALL);
        if (is_over(pump) || !came || (came < 0 && !is_passing()))
            return 0;
        if (came > 0) {
            at += came;
            n -= (uint64_t)came;
        }
    }
    return 1;
}

/* Receive the payload of the frame at hand. */
static int64_t receive_payload(Pump *pump)
{
    int is_checked = (int)get(pump->head + 6, 2) & CHECKSUM;
    uint64_t size = pump->now.hi - pump->now.lo;
    uint32_t sum = is_checked ? crc_of_head(pump->head) : 0;
    for (uint64_t at = 0; at < size; at += PIECE) {
        uint64_t n = size - at < PIECE ? size - at : PIECE;
        if (!pull(pump, pump->now.at + at, n))
            return ENDED;
        if (is_checked)
            sum = crc32(sum, pump->now.at + at, n);
    }
    pump->sum = sum;
    return is_checked && sum != get(pump->head + CHECKED, 4) ? DAMAGED : GOES_ON;
}

/* Receive what the scripts say, until this is over or nothing more comes. */
int64_t kit_receive(Pump *pump)
{
    int64_t how = GOES_ON;
    set_slices((int)pump->fd);
    while (how == GOES_ON && pull(pump, pump->head, HEAD)) {
        int64_t begun = now_ns();
        if (!kit_due(pump))
            break;
        how = receive_payload(pump);
        if (how == GOES_ON)
            how = kit_arrived(pump, begun);
    }
    return how == GOES_ON ? ENDED : how;
}

/* The same for the parts of a further stream. */
int64_t kit_receive_parts(Pump *own)
{
    set_slices((int)own->fd);
    while (kit_part(own)) {
        if (!pull(own, own->head, HEAD))
            break;
        int64_t how = kit_part_fits(own) ? receive_payload(own) : UNDUE;
        if (how != GOES_ON)
            return how;
        kit_part_done(own);
    }
    return ENDED;
}
