/* Requests from lines of text: ``time,key,size`` in any columns, and CacheLib's, whose lines stand
 * for several requests each.
 *
 * Only what is plainly right is read here. A line that is anything else is left to Python
 * (sidecar/traces/columns.py), which knows the rare ways to write a number, what stands in quotes,
 * and what to complain of. */

#include "hash.h"

#define MAX_REPEATS (1u << 24) /* as in sidecar/traces/columns.py */
#define MOST_SPELT_OUT 1024    /* requests of one line: of more, Python knows how to count them */
#define EXACT_DIGITS 15 /* a decimal of so many digits is a whole double over a power of ten */

/* Places of the columns, from 0; -1 for one that the format does not have. The same fields, in this
 * order, as in sidecar/traces/columns.py. */
struct columns {
    int32_t least; /* a line has so many columns, or more */
    int32_t time;
    int32_t key;
    int32_t size;
    int32_t key_size;  /* added to the size */
    int32_t operation; /* only reads count */
    int32_t repeats;   /* how many requests the line stands for */
    int32_t most;      /* columns of a line, where nothing says what more of them are */
    int32_t delimiter; /* between columns */
};

/* An operation as it is spelt; as in sidecar/traces/operations.py. */
struct operation {
    uint64_t seen;  /* requests that have it, if they do not count */
    uint8_t length; /* 0: here the table ends */
    uint8_t counts; /* it is a read */
    char text[22];
};

struct line {
    double time;
    uint64_t key;
    uint64_t size;
    uint64_t repeats;
    uint64_t dropped; /* so many, as they do not count */
    struct operation *operation; /* NULL where there is no column for it */
};

/* ---------------------------------------------------------------- fields */

static inline int is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static inline int is_digit(char c) { return (unsigned char)(c - '0') < 10; }

/* Reads a decimal number that fills the field and does not start with 0 (007 is another key than
 * 7). Returns 0 if that is not so or it exceeds 64 bits. */
static inline int whole_number(const char *p, const char *end, uint64_t *value)
{
    int64_t length = end - p;
    if (length < 1 || length > 20 || (length > 1 && *p == '0')) return 0;
    uint64_t v = 0;
    for (const char *start = p; p < end; p++) {
        if (!is_digit(*p)) return 0;
        if (p - start == 19 && (v > UINT64_MAX / 10 || v * 10 > UINT64_MAX - (uint64_t)(*p - '0')))
            return 0;
        v = v * 10 + (uint64_t)(*p - '0');
    }
    *value = v;
    return 1;
}

/* Reads digits, perhaps with a point among them. Returns 0 if the field is anything else, or has
 * so many digits that rounding could go wrong. */
static inline int decimal_number(const char *p, const char *end, double *value)
{
    static const double ten_to[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const char *point = NULL;
    uint64_t v = 0;
    if (p == end || end - p > EXACT_DIGITS + 1 || !is_digit(*p) || !is_digit(end[-1])) return 0;
    for (; p < end; p++) {
        if (*p == '.' && !point)
            point = p;
        else if (is_digit(*p))
            v = v * 10 + (uint64_t)(*p - '0');
        else
            return 0;
    }
    int64_t decimals = point ? end - point - 1 : 0;
    if (!point && v >= 1000000000000000u) return 0;
    *value = decimals ? (double)v / ten_to[decimals] : (double)v;
    return 1;
}

/* Whoever is not in the table is for Python, which puts it there. */
static inline struct operation *find_operation(struct operation *table, const char *p,
                                               const char *end)
{
    size_t length = (size_t)(end - p);
    for (; table->length; table++)
        if (length == table->length && !memcmp(p, table->text, length)) return table;
    return NULL;
}

/* ---------------------------------------------------------------- lines */

#define MOST_COLUMNS 64

enum role { IGNORED, TIME, KEY, SIZE, KEY_SIZE, OPERATION, REPEATS };

/* What each column is. Returns 0 if one of them is so far to the right that Python reads the file. */
static int roles_of(const struct columns *columns, uint8_t roles[MOST_COLUMNS])
{
    const int32_t places[] = {-1, columns->time, columns->key, columns->size,
                              columns->key_size, columns->operation, columns->repeats};
    memset(roles, IGNORED, MOST_COLUMNS);
    for (int role = TIME; role <= REPEATS; role++) {
        if (places[role] >= MOST_COLUMNS) return 0;
        if (places[role] >= 0) roles[places[role]] = (uint8_t)role;
    }
    return 1;
}

/* Reads one field that may have blanks around it. Returns 0: it is for Python. */
static int read_field(enum role role, const char *p, const char *end, struct operation *operations,
                      struct line *line, uint64_t *key_size)
{
    while (p < end && is_blank(*p)) p++;
    while (end > p && is_blank(end[-1])) end--;
    switch (role) {
    case TIME: return decimal_number(p, end, &line->time);
    case SIZE: return whole_number(p, end, &line->size);
    case KEY_SIZE: return whole_number(p, end, key_size);
    case REPEATS: return whole_number(p, end, &line->repeats);
    case OPERATION: return (line->operation = find_operation(operations, p, end)) != NULL;
    case KEY:
        if (p == end) return 0;
        if (!whole_number(p, end, &line->key)) line->key = text_identity(p, (size_t)(end - p));
        return 1;
    default: return 1;
    }
}

/* Parses the line at p, which has an end. Returns where the next one starts, or NULL: it is for
 * Python. A line without columns has no repeats. */
static inline const char *parse_line(const char *p, const struct columns *columns,
                                     const uint8_t roles[MOST_COLUMNS],
                                     struct operation *operations, struct line *line)
{
    const char delimiter = (char)columns->delimiter;
    uint64_t key_size = 0;
    int column = 0;
    *line = (struct line){.repeats = 1};
    if (*p == '\n' || (*p == '\r' && p[1] == '\n')) {
        line->repeats = 0;
        return p + (*p == '\r') + 1;
    }
    for (;; column++, p++) {
        const char *start = p;
        enum role role = column < MOST_COLUMNS ? (enum role)roles[column] : IGNORED;
        if (role >= TIME && role <= SIZE) {
            /* Nearly always plain digits, of which each is looked at once. */
            uint64_t value = 0;
            while (is_digit(*p)) value = value * 10 + (uint64_t)(*p++ - '0');
            int64_t digits = p - start;
            if ((*p == delimiter || *p == '\n') && digits && digits < EXACT_DIGITS &&
                (*start != '0' || digits == 1)) {
                if (role == TIME) line->time = (double)value;
                else if (role == KEY) line->key = value;
                else line->size = value;
                if (*p == '\n') break;
                continue;
            }
        }
        if (*p == '"') return NULL;
        while (*p != delimiter && *p != '\n') p++;
        if (role != IGNORED && !read_field(role, start, p, operations, line, &key_size)) return NULL;
        if (*p == '\n') break;
    }
    if (column + 1 < columns->least || (columns->most >= 0 && column + 1 > columns->most) ||
        line->size > UINT32_MAX || key_size > UINT32_MAX ||
        line->size + key_size > UINT32_MAX || line->repeats >= MAX_REPEATS)
        return NULL;
    if (line->size) line->size += key_size; /* 0: a miss, as some logs have it */
    if (line->operation && !line->operation->counts) {
        line->dropped = line->repeats;
        line->repeats = 0;
    }
    return p + 1;
}

/* Parses lines, all of which end, from offset to length, until the requests of the next one do not
 * fit into the room, or it is not plainly right. If nothing was used, the first line is for Python.
 *
 * Returns the number of requests; *used is the length of the lines, *lines how many. */
uint64_t spreds_lines_parse(const char *text, uint64_t offset, uint64_t length,
                            const struct columns *columns, double *times, uint64_t *keys,
                            uint32_t *sizes, uint64_t room, uint64_t *used, uint64_t *lines,
                            struct operation *operations)
{
    const char *p = text + offset, *end = text + length;
    uint8_t roles[MOST_COLUMNS];
    uint64_t requests = 0;
    *lines = 0;
    *used = 0;
    if (!roles_of(columns, roles)) return 0;
    while (p < end) {
        struct line line;
        const char *next = parse_line(p, columns, roles, operations, &line);
        if (!next || line.repeats > room - requests || line.repeats > MOST_SPELT_OUT) break;
        for (; line.repeats; line.repeats--, requests++) {
            times[requests] = line.time;
            keys[requests] = line.key;
            sizes[requests] = (uint32_t)line.size;
        }
        p = next;
        ++*lines;
        if (line.operation) line.operation->seen += line.dropped;
    }
    *used = (uint64_t)(p - text) - offset;
    return requests;
}
