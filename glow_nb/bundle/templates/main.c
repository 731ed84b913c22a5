/* Runs ${name} on arrays from .npy files; README.md shows how.

   ${name}_example ${usage}[-f FUNCTION] [-o PREFIX] [-n RUNS] INPUT.npy ...

   Inputs are given in the order of the header. With -o, outputs and states are written to
   PREFIXoutput_0.npy, PREFIXstate_0.npy and so on; without it, the first elements are printed. */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
${includes}
#include "${name}.h"

static int fail(const char *subject, const char *problem)
{
    fprintf(stderr, "%s: %s\n", subject, problem);
    return 1;
}

static const char *meaning(int code)
{
    switch (code) {
    case ${NAME}_MISALIGNED: return "an address is not aligned";
    case ${NAME}_WRONG_CONSTANTS: return "the constants are those of another bundle";
    case ${NAME}_WRONG_PROCESSOR: return "there is no code that this processor can run";
    case ${NAME}_NOT_INITIALIZED: return "the tensors are not initialized";
${meanings}${meanings_of_tiles}    default: return "the run failed";
    }
}

/* Return memory that begins at a multiple of the alignment; *whole is what to free. */
static unsigned char *aligned_memory(size_t bytes, void **whole)
{
    unsigned char *memory = (unsigned char *)malloc(bytes + ${NAME}_ALIGNMENT);
    *whole = memory;
    if (memory == NULL)
        return NULL;
    return memory + (${NAME}_ALIGNMENT - (uintptr_t)memory % ${NAME}_ALIGNMENT) % ${NAME}_ALIGNMENT;
}

/* Write what a .npy file of this tensor says of itself, as a Python dict, to text. */
static int describe(const ${name}_tensor *tensor, size_t rows, char *text, size_t room)
{
    size_t place, axis;
    place = (size_t)snprintf(text, room, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                             tensor->npy);
    for (axis = 0; axis < tensor->rank && place < room; axis++)
        place += (size_t)snprintf(text + place, room - place, "%s%zu%s", axis ? ", " : "",
                                  tensor->count >= 0 && axis == (size_t)tensor->axis
                                      ? rows : tensor->shape[axis],
                                  tensor->rank == 1 ? "," : "");
    if (place < room)
        place += (size_t)snprintf(text + place, room - place, "), }");
    return place < room;
}

/* Return whether two texts are equal but for spaces, line ends and commas before brackets. */
static int says_the_same(const char *a, const char *b)
{
    for (;;) {
        while (*a == ' ' || *a == '\n' || (*a == ',' && a[1 + strspn(a + 1, " ")] == ')') ||
               (*a == ',' && a[1 + strspn(a + 1, " ")] == '}'))
            a++;
        while (*b == ' ' || *b == '\n' || (*b == ',' && b[1 + strspn(b + 1, " ")] == ')') ||
               (*b == ',' && b[1 + strspn(b + 1, " ")] == '}'))
            b++;
        if (*a != *b)
            return 0;
        if (*a == '\0')
            return 1;
        a++;
        b++;
    }
}

static int read_npy(const char *path, const ${name}_tensor *tensor, unsigned char *place)
{
    unsigned char head[12];
    char found[4096], wanted[4096];
    size_t length;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return fail(path, "cannot be opened");
    if (fread(head, 1, 10, file) != 10 || memcmp(head, "\x93NUMPY", 6) != 0) {
        fclose(file);
        return fail(path, "is no .npy file");
    }
    length = head[8] + 256u * head[9];
    if (head[6] > 1) {
        if (fread(head + 10, 1, 2, file) != 2)
            length = sizeof found;
        else
            length += 65536u * head[10] + 16777216u * head[11];
    }
    if (length >= sizeof found || fread(found, 1, length, file) != length) {
        fclose(file);
        return fail(path, "is no whole .npy file");
    }
    found[length] = '\0';
    if (!describe(tensor, 0, wanted, sizeof wanted) || !says_the_same(found, wanted)) {
        fprintf(stderr, "%s: its array is %s, wanted is %s\n", path, found, wanted);
        fclose(file);
        return 1;
    }
    if (fread(place, 1, tensor->bytes, file) != tensor->bytes || fgetc(file) != EOF) {
        fclose(file);
        return fail(path, "does not have the bytes of its array");
    }
    fclose(file);
    return 0;
}

/* Of a counted tensor, rows is how many slices of its axis there are; the rest is padding. */
static int write_npy(const char *path, const ${name}_tensor *tensor, size_t rows,
                     const unsigned char *place)
{
    char text[4096];
    unsigned char head[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 0, 0};
    size_t length, padded, axis, slices = 1, slice = tensor->bytes, kept = tensor->bytes;
    int is_good;
    FILE *file;
    if (!describe(tensor, rows, text, sizeof text - 80))
        return fail(path, "has too many dimensions");
    if (tensor->count >= 0) {
        for (axis = 0; axis < (size_t)tensor->axis; axis++)
            slices *= tensor->shape[axis];
        slice = slices ? tensor->bytes / slices : 0;
        kept = tensor->shape[tensor->axis] ? slice / tensor->shape[tensor->axis] * rows : 0;
    }
    length = strlen(text);
    padded = (length + 1 + 10 + 63) / 64 * 64 - 10;
    memset(text + length, ' ', padded - length);
    text[padded - 1] = '\n';
    head[8] = (unsigned char)(padded % 256);
    head[9] = (unsigned char)(padded / 256);
    file = fopen(path, "wb");
    if (file == NULL)
        return fail(path, "cannot be written");
    is_good = fwrite(head, 1, 10, file) == 10 && fwrite(text, 1, padded, file) == padded;
    for (axis = 0; axis < slices; axis++)
        is_good = is_good && fwrite(place + axis * slice, 1, kept, file) == kept;
    is_good = fclose(file) == 0 && is_good;
    return is_good ? 0 : fail(path, "cannot be written");
}

/* Print one of count elements; those of other types than these four as their bits. */
static void print_element(const ${name}_tensor *tensor, const unsigned char *place, size_t index,
                          size_t count)
{
    if (strcmp(tensor->type, "float32") == 0) {
        float number;
        memcpy(&number, place + 4 * index, 4);
        printf(" %.9g", (double)number);
    } else if (strcmp(tensor->type, "float64") == 0) {
        double number;
        memcpy(&number, place + 8 * index, 8);
        printf(" %.17g", number);
    } else if (strcmp(tensor->type, "int64") == 0) {
        int64_t number;
        memcpy(&number, place + 8 * index, 8);
        printf(" %" PRId64, number);
    } else if (strcmp(tensor->type, "int32") == 0) {
        int32_t number;
        memcpy(&number, place + 4 * index, 4);
        printf(" %" PRId32, number);
    } else {
        size_t byte = tensor->bytes / count;
        place += byte * index;
        printf(" 0x");
        while (byte-- > 0)
            printf("%02x", place[byte]);
    }
}

/* Of a counted tensor, rows is how many slices of its axis there are. */
static void print_values(const char *kind, size_t number, const ${name}_tensor *tensor, size_t rows,
                         const unsigned char *place)
{
    size_t index, all = 1, count = 1, slice = 1, kept = 1;
    for (index = 0; index < tensor->rank; index++) {
        size_t size = tensor->shape[index];
        int is_counted = tensor->count >= 0 && index == (size_t)tensor->axis;
        all *= size;
        count *= is_counted ? rows : size;
        if (tensor->count >= 0 && index >= (size_t)tensor->axis) {
            slice *= size;
            kept *= is_counted ? rows : size;
        }
    }
    printf("%s %zu, %s, %zu of %s:", kind, number, tensor->name, count, tensor->type);
    for (index = 0; index < count && index < 8; index++)
        print_element(tensor, place, index / kept * slice + index % kept, all);
    printf("%s\n", count > 8 ? " ..." : "");
}

/* Print or write each of some tensors. */
static int show(const char *kind, const ${name}_tensor *table, size_t count,
                const unsigned char *tensors, const char *prefix)
{
    char path[4096];
    size_t number;
    for (number = 0; number < count; number++) {
        const ${name}_tensor *tensor = &table[number];
        int64_t rows = 0;
        if (tensor->count >= 0)
            memcpy(&rows, tensors + table[tensor->count].offset, sizeof rows);
        if (prefix == NULL)
            print_values(kind, number, tensor, (size_t)rows, tensors + tensor->offset);
        else if ((size_t)snprintf(path, sizeof path, "%s%s_%zu.npy", prefix, kind, number) >=
                 sizeof path)
            return fail(prefix, "is too long");
        else if (write_npy(path, tensor, (size_t)rows, tensors + tensor->offset) != 0)
            return 1;
    }
    return 0;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static const ${name}_function *function_named(const char *name)
{
    size_t number;
    for (number = 0; number < ${NAME}_FUNCTION_COUNT; number++)
        if (name == NULL || strcmp(${name}_functions[number].name, name) == 0)
            return &${name}_functions[number];
    return NULL;
}
${helpers}
static int run_all(const ${name}_function *function, const ${name}_tensor *inputs,
                   const ${name}_tensor *outputs, int runs, const char *prefix, char **paths,
                   const unsigned char *constants, unsigned char *tensors, unsigned char *arena)
{
    size_t number;
    int run, code = ${name}_initialize(constants, tensors);
    double began, least = 0;
    for (number = 0; code == 0 && number < function->input_count; number++)
        if (read_npy(paths[number], &inputs[number], tensors + inputs[number].offset) != 0)
            return 1;
${start}    for (run = 0; code == 0 && run < runs; run++) {
        began = seconds();
        code = ${call};
        began = seconds() - began;
        least = run == 0 || began < least ? began : least;
    }
${stop}    if (code != 0)
        return fail("${name}", meaning(code));
    if (runs > 1)
        printf("runs %d, at best %.3f ms, code for %s\n", runs, 1e3 * least, ${name}_variant());
    return show("output", outputs, function->output_count, tensors, prefix) ||
           show("state", ${name}_states, ${NAME}_STATE_COUNT, tensors, prefix);
}

int main(int argc, char **argv)
{
    const char *prefix = NULL, *name = NULL;
    const ${name}_function *function;
    const unsigned char *constants;
    unsigned char *tensors, *arena;
    void *whole_tensors, *whole_arena;
    int runs = 1, code, next = ${first};
    for (; next + 1 < argc && argv[next][0] == '-'; next += 2) {
        if (strcmp(argv[next], "-o") == 0)
            prefix = argv[next + 1];
        else if (strcmp(argv[next], "-f") == 0)
            name = argv[next + 1];
        else if (strcmp(argv[next], "-n") == 0)
            runs = atoi(argv[next + 1]);
${option}        else
            return fail(argv[next], "is no option");
    }
    function = function_named(name);
    if (function == NULL)
        return fail(name, "there is no such function");
    if (next > argc || (size_t)(argc - next) != function->input_count || runs < 1) {
        fprintf(stderr, "usage: %s ${usage}[-f FUNCTION] [-o PREFIX] [-n RUNS] and %zu files\n",
                argv[0], function->input_count);
        return 1;
    }
${lay_out}    constants = ${constants};
    tensors = aligned_memory(${tensors_bytes}, &whole_tensors);
    arena = aligned_memory(${arena_bytes}, &whole_arena);
    if (constants == NULL || tensors == NULL || arena == NULL)
        code = fail("${name}", "no constants, or no memory");
    else
        code = run_all(function, ${tables}, runs, prefix, argv + next,
                       constants, tensors, arena);
    free(whole_tensors);
    free(whole_arena);
    return code;
}
