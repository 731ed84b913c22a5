
static ${name}_sizes sizes;
static int given; /* whether there was an -s */
static ${name}_tensor input_table[${OWN}_INPUT_COUNT + 1];
static ${name}_tensor output_table[${OWN}_OUTPUT_COUNT + 1];

/* Read sizes with commas between them. */
static int sizes_of(const char *text)
{
    size_t number;
    for (number = 0; number < ${NAME}_SIZE_COUNT; number++) {
        char *end;
        sizes.size[number] = (int64_t)strtoll(text, &end, 10);
        if (end == text || *end != (number + 1 < ${NAME}_SIZE_COUNT ? ',' : '\0'))
            return fail("-s", "give all sizes of the header, with commas between them");
        text = end + 1;
    }
    given = 1;
    return 0;
}

/* Find out what the sizes need, and where inputs and outputs lie. */
static int measure(const ${name}_function *function)
{
    int code;
    if (!given)
        return fail("-s", "it is missing; give all sizes of the header, with commas between them");
    code = ${name}_measure(&sizes);
    memcpy(input_table, function->inputs, function->input_count * sizeof *input_table);
    memcpy(output_table, function->outputs, function->output_count * sizeof *output_table);
    if (code == 0)
        code = function->tensors(&sizes, input_table, output_table);
    return code == 0 ? 0 : fail("sizes", meaning(code));
}
