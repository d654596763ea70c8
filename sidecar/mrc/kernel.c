/* LRU stack distances of whole traces, exact or sampled, and fast reading of CSV traces.
 *
 * Plain C, called from Python through ctypes (sidecar/mrc/library.py): no Python header is needed to
 * build it. The same estimates in plain Python are in sidecar/mrc/pure.py.
 *
 * Each request's key is an unsigned 64-bit identity. Its hash (a bijection, so that it can stand
 * for the key) decides whether it is sampled: hash < threshold. A recency stack holds the sampled
 * objects; each access takes the next position, and a Fenwick tree over the positions sums the
 * weights (1 or bytes) of the objects accessed since (Bennett and Kruskal, IBM J. R&D 19(4), 1975).
 * When positions run out, the live objects are numbered anew.
 *
 * Sampling after Waldspurger et al., SHARDS (FAST'15): with a limit on objects, the one with the
 * largest hash leaves, and the threshold falls to that hash. A sampled request stands for
 * 1 / rate requests and its distance for distance / rate; the object itself is certain. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SUB_BITS 10 /* bins: exact up to 2^11, then within 0.1 % */
#define SUB_COUNT ((uint64_t)1 << SUB_BITS)
#define LOG_BINS ((64 - SUB_BITS) * SUB_COUNT + SUB_COUNT)
#define LEAST_POSITIONS 4096

struct object {
    uint64_t hash;
    uint32_t position; /* 0: this slot is empty */
    uint32_t weight;
};

struct mrc {
    /* What is asked for. */
    int in_bytes;       /* weights are sizes instead of 1 */
    int linear;         /* bins are whole distances: exact, by objects */
    uint64_t salt;
    uint64_t threshold; /* sampled if hash < threshold; all ones: every request */
    uint64_t limit;     /* most live objects, or 0 */
    double inverse_rate;

    /* Live objects: open addressing, linear probing, at most half full. */
    struct object *objects;
    uint64_t slots;
    uint64_t live;

    /* By position, from 1: weights as a Fenwick tree, and whose position it is. */
    uint64_t *tree;
    uint64_t *hash_at;
    uint8_t *is_live;
    uint64_t positions;
    uint64_t next_position;
    uint64_t total_weight;

    uint64_t *heap; /* of hashes, the largest first; only with a limit */

    /* Result. */
    double *bins;
    uint64_t bin_count;
    double cold;       /* requests that miss at any size */
    uint64_t requests; /* seen, sampled or not */
    uint64_t sampled;
};

/* ---------------------------------------------------------------- hash table */

static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 30; /* the finaliser of SplitMix64 (Steele et al., OOPSLA'14) */
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static inline struct object *find(struct mrc *m, uint64_t hash)
{
    uint64_t slot = hash & (m->slots - 1);
    while (m->objects[slot].position && m->objects[slot].hash != hash)
        slot = (slot + 1) & (m->slots - 1);
    return &m->objects[slot];
}

/* Returns 0, or -1 without memory. */
static int grow_table(struct mrc *m)
{
    struct object *old = m->objects;
    uint64_t old_slots = m->slots;
    struct object *new = calloc(old_slots * 2, sizeof *new);
    if (!new) return -1;
    m->objects = new;
    m->slots = old_slots * 2;
    for (uint64_t i = 0; i < old_slots; i++)
        if (old[i].position) *find(m, old[i].hash) = old[i];
    free(old);
    return 0;
}

/* Linear probing without tombstones: later members of the run move up. */
static void remove_object(struct mrc *m, struct object *gone)
{
    uint64_t mask = m->slots - 1;
    uint64_t hole = (uint64_t)(gone - m->objects);
    for (uint64_t i = (hole + 1) & mask; m->objects[i].position; i = (i + 1) & mask) {
        uint64_t home = m->objects[i].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            m->objects[hole] = m->objects[i];
            hole = i;
        }
    }
    m->objects[hole].position = 0;
    m->live--;
}

/* ---------------------------------------------------------------- Fenwick tree */

static inline void add(struct mrc *m, uint64_t position, uint64_t weight)
{
    for (; position <= m->positions; position += position & -position) m->tree[position] += weight;
}

static inline uint64_t sum(const struct mrc *m, uint64_t position)
{
    uint64_t weight = 0;
    for (; position; position &= position - 1) weight += m->tree[position];
    return weight;
}

/* Number the live objects anew, with room for as many accesses as there are objects, at least.
 * Returns 0, or -1 without memory. */
static int renumber(struct mrc *m)
{
    uint64_t positions = LEAST_POSITIONS;
    while (positions < 2 * m->live) positions *= 2;
    if (positions >= UINT32_MAX) return -1;
    uint64_t *hashes = malloc((positions + 1) * sizeof *hashes);
    uint64_t *tree = calloc(positions + 1, sizeof *tree);
    uint8_t *is_live = calloc(positions + 1, 1);
    if (!hashes || !tree || !is_live) {
        free(hashes);
        free(tree);
        free(is_live);
        return -1;
    }
    uint64_t count = 0;
    for (uint64_t i = 1; i < m->next_position; i++) {
        if (!m->is_live[i]) continue;
        struct object *object = find(m, m->hash_at[i]);
        object->position = (uint32_t)++count;
        hashes[count] = object->hash;
        is_live[count] = 1;
        tree[count] = object->weight;
    }
    for (uint64_t i = 1; i <= positions; i++) {
        uint64_t parent = i + (i & -i);
        if (parent <= positions) tree[parent] += tree[i];
    }
    free(m->hash_at);
    free(m->tree);
    free(m->is_live);
    m->hash_at = hashes;
    m->tree = tree;
    m->is_live = is_live;
    m->positions = positions;
    m->next_position = count + 1;
    return 0;
}

/* ---------------------------------------------------------------- sampling to a limit */

static void heap_push(struct mrc *m, uint64_t hash)
{
    uint64_t i = m->live - 1;
    for (; i && m->heap[(i - 1) / 2] < hash; i = (i - 1) / 2) m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = hash;
}

/* Takes out the largest of m->live hashes. */
static uint64_t heap_pop(struct mrc *m)
{
    uint64_t top = m->heap[0], size = m->live - 1, last = m->heap[size], i = 0;
    for (;;) {
        uint64_t child = 2 * i + 1;
        if (child >= size) break;
        if (child + 1 < size && m->heap[child + 1] > m->heap[child]) child++;
        if (m->heap[child] <= last) break;
        m->heap[i] = m->heap[child];
        i = child;
    }
    m->heap[i] = last;
    return top;
}

static void shed(struct mrc *m)
{
    uint64_t hash = heap_pop(m);
    struct object *object = find(m, hash);
    add(m, object->position, -(uint64_t)object->weight);
    m->total_weight -= object->weight;
    m->is_live[object->position] = 0;
    remove_object(m, object);
    m->threshold = hash;
    m->inverse_rate = 0x1p64 / (double)hash;
}

/* ---------------------------------------------------------------- histogram */

static inline uint64_t log_bin(uint64_t distance)
{
    if (distance < 2 * SUB_COUNT) return distance;
    int shift = 63 - __builtin_clzll(distance) - SUB_BITS;
    return ((uint64_t)shift << SUB_BITS) + (distance >> shift);
}

/* The largest distance in a bin. */
static uint64_t log_bin_end(uint64_t bin)
{
    if (bin < 2 * SUB_COUNT) return bin;
    uint64_t shift = (bin >> SUB_BITS) - 1;
    return ((bin - (shift << SUB_BITS) + 1) << shift) - 1;
}

/* Returns 0, or -1 without memory. */
static int count_distance(struct mrc *m, uint64_t above, uint64_t own)
{
    uint64_t bin;
    if (m->linear) {
        bin = above + own;
        if (bin >= m->bin_count) {
            uint64_t more = 2 * bin;
            double *bins = realloc(m->bins, more * sizeof *bins);
            if (!bins) return -1;
            memset(bins + m->bin_count, 0, (more - m->bin_count) * sizeof *bins);
            m->bins = bins;
            m->bin_count = more;
        }
    } else {
        bin = log_bin((uint64_t)((double)above * m->inverse_rate + 0.5) + own);
    }
    m->bins[bin] += m->inverse_rate;
    return 0;
}

/* ---------------------------------------------------------------- interface */

void spreds_mrc_free(struct mrc *m)
{
    if (!m) return;
    free(m->objects);
    free(m->tree);
    free(m->hash_at);
    free(m->is_live);
    free(m->heap);
    free(m->bins);
    free(m);
}

/* threshold: 0 stands for 2^64, every request. Returns NULL without memory. */
struct mrc *spreds_mrc_new(int in_bytes, uint64_t threshold, uint64_t limit, uint64_t salt)
{
    struct mrc *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->in_bytes = in_bytes;
    m->linear = !in_bytes && !threshold && !limit;
    m->salt = mix(salt + 0x9E3779B97F4A7C15u);
    m->threshold = threshold ? threshold : UINT64_MAX;
    m->limit = limit;
    m->inverse_rate = threshold ? 0x1p64 / (double)threshold : 1.0;
    m->slots = 1024;
    while (limit && m->slots < 2 * (limit + 1)) m->slots *= 2;
    m->objects = calloc(m->slots, sizeof *m->objects);
    m->bin_count = m->linear ? 1024 : LOG_BINS;
    m->bins = calloc(m->bin_count, sizeof *m->bins);
    m->heap = limit ? malloc((limit + 1) * sizeof *m->heap) : NULL;
    m->next_position = 1;
    if (!m->objects || !m->bins || (limit && !m->heap) || renumber(m)) {
        spreds_mrc_free(m);
        return NULL;
    }
    return m;
}

static int take_sampled(struct mrc *m, uint64_t hash, uint32_t weight)
{
    if (m->next_position > m->positions && renumber(m)) return -1;
    m->sampled++;
    struct object *object = find(m, hash);
    if (object->position) {
        uint64_t above = m->total_weight - sum(m, object->position);
        if (count_distance(m, above, object->weight)) return -1;
        if (object->position + 1 == m->next_position && object->weight == weight) return 0;
        add(m, object->position, -(uint64_t)object->weight);
        m->is_live[object->position] = 0;
        m->total_weight -= object->weight;
    } else {
        m->cold += m->inverse_rate;
        if (2 * (m->live + 1) > m->slots) {
            if (grow_table(m)) return -1;
            object = find(m, hash);
        }
        object->hash = hash;
        m->live++;
        if (m->limit) heap_push(m, hash);
    }
    object->position = (uint32_t)m->next_position;
    object->weight = weight;
    m->hash_at[m->next_position] = hash;
    m->is_live[m->next_position] = 1;
    add(m, m->next_position++, weight);
    m->total_weight += weight;
    if (m->limit && m->live > m->limit) shed(m);
    return 0;
}

/* Takes count requests; keys and sizes lie key_stride and size_stride bytes apart, at any
 * alignment. Returns 0, or -1 without memory. */
int spreds_mrc_take(struct mrc *m, const char *keys, int64_t key_stride, const char *sizes,
                    int64_t size_stride, uint64_t count)
{
    m->requests += count;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t hash;
        memcpy(&hash, keys + (int64_t)i * key_stride, sizeof hash);
        hash = mix(hash ^ m->salt);
        if (hash > m->threshold - (m->threshold != UINT64_MAX)) continue;
        uint32_t weight = 1;
        if (m->in_bytes) {
            memcpy(&weight, sizes + (int64_t)i * size_stride, sizeof weight);
            if (!weight) weight = 1;
        }
        if (take_sampled(m, hash, weight)) return -1;
    }
    return 0;
}

/* Writes the bins that are not empty, by distance: the largest distance of each, and how many
 * requests they stand for; room for `room` of them. Returns how many there are. */
uint64_t spreds_mrc_bins(const struct mrc *m, uint64_t *distances, double *counts, uint64_t room)
{
    uint64_t found = 0;
    for (uint64_t bin = 0; bin < m->bin_count; bin++) {
        if (m->bins[bin] == 0) continue;
        if (found < room) {
            distances[found] = m->linear ? bin : log_bin_end(bin);
            counts[found] = m->bins[bin];
        }
        found++;
    }
    return found;
}

double spreds_mrc_cold(const struct mrc *m) { return m->cold; }
uint64_t spreds_mrc_requests(const struct mrc *m) { return m->requests; }
uint64_t spreds_mrc_sampled(const struct mrc *m) { return m->sampled; }
uint64_t spreds_mrc_live(const struct mrc *m) { return m->live; }

/* ---------------------------------------------------------------- CSV */

/* Reads decimal digits, after blanks. Returns where they end, or NULL if there are none, they
 * start with 0 (007 is another key than 7), or the number exceeds 64 bits. */
static inline const char *number(const char *p, const char *end, uint64_t *value)
{
    while (p < end && *p == ' ') p++;
    const char *start = p;
    uint64_t v = 0;
    for (; p < end && (unsigned char)(*p - '0') < 10; p++) {
        if (p - start == 19 && (v > UINT64_MAX / 10 || v * 10 > UINT64_MAX - (uint64_t)(*p - '0')))
            return NULL;
        v = v * 10 + (uint64_t)(*p - '0');
    }
    *value = v;
    int64_t length = p - start;
    if (!length || length > 20 || (length > 1 && *start == '0')) return NULL;
    while (p < end && (*p == ' ' || *p == '\r')) p++;
    return p;
}

/* Parses whole lines of `columns` columns whose time, key and size are decimal numbers. Stops at
 * the first line that is anything else, which is for the caller to read.
 *
 * Returns the number of lines parsed; *used is their length. */
uint64_t spreds_csv_parse(const char *text, uint64_t length, int columns, int time_column,
                          int key_column, int size_column, double *times, uint64_t *keys,
                          uint32_t *sizes, uint64_t room, uint64_t *used)
{
    const char *p = text, *end = text + length;
    uint64_t lines = 0;
    *used = 0;
    for (; lines < room; lines++) {
        for (int column = 0; column < columns; column++) {
            uint64_t value;
            if (column == time_column || column == key_column || column == size_column) {
                p = number(p, end, &value);
                if (!p) return lines;
                if (column == time_column) times[lines] = (double)value;
                if (column == key_column) keys[lines] = value;
                if (column == size_column) {
                    if (value > UINT32_MAX) return lines;
                    sizes[lines] = (uint32_t)value;
                }
            } else {
                while (p < end && *p != ',' && *p != '\n') p++;
            }
            if (p == end || *p++ != (column + 1 < columns ? ',' : '\n')) return lines;
        }
        *used = (uint64_t)(p - text);
    }
    return lines;
}
