/* fields.c - fields of samples other than their pictures: numbers, texts, bytes */
#include "tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *archive_field_kind(uint32_t kind)
{
    static const char *const names[] = { "unknown", "picture", "integer", "vector", "text", "bytes" };
    return names[kind < LENGTH(names) ? kind : 0];
}

/* Names that every data set's samples may have are none of the further fields. */
int archive_field_is_further(const bzna_field_info *field)
{
    return field->kind != BZNA_FIELD_IMAGE && strcmp(field->name, "target") && strcmp(field->name, "name");
}

/* A .rec's list may have a whole number that no float32 holds: the target has it, and the field "label" fails. */
static int is_in_target(const archive *a, uint64_t index, const bzna_field_info *field)
{
    int64_t target = BZNA_TARGET_NONE;
    return !strcmp(a->container, "RecordIO") && !strcmp(field->name, "label") &&
           bzna_dataset_target(a->dataset, index, &target, NULL) == BZNA_OK && target != BZNA_TARGET_NONE;
}

bzna_status archive_value_read(const archive *a, uint64_t index, const bzna_field_info *field, tool_buffer *buffer,
                               archive_value *value, bzna_error *err)
{
    size_t needed = 0;
    bzna_error first = tool_empty_error();          /* that the buffer is too small is none of the sample's errors */
    *value = (archive_value){ .kind = field->kind };
    tool_buffer_reserve(buffer, 256);
    bzna_status status = bzna_dataset_field(a->dataset, index, field->name, buffer->data, buffer->size, &needed,
                                            &first);
    if (status == BZNA_E_BUFFER && needed > buffer->size) {
        tool_buffer_reserve(buffer, needed);
        status = bzna_dataset_field(a->dataset, index, field->name, buffer->data, buffer->size, &needed, err);
    } else if (status < 0 && err) {
        *err = first;
    }
    if (status == BZNA_E_FORMAT && is_in_target(a, index, field)) return BZNA_E_NOT_FOUND;
    if (status < 0) return status;
    value->data = buffer->data;
    value->size = needed - (field->kind == BZNA_FIELD_TEXT && needed);
    return BZNA_OK;
}

static int64_t value_integer(const archive_value *v)
{
    int64_t number = 0;
    if (v->size == sizeof number) memcpy(&number, v->data, sizeof number);
    return number;
}

static float value_number(const archive_value *v, size_t i)
{
    float number;
    memcpy(&number, v->data + i * sizeof number, sizeof number);
    return number;
}

static void vector_json(const archive_value *v)
{
    putchar('[');
    for (size_t i = 0; i < v->size / sizeof(float); i++) {
        float number = value_number(v, i);
        if (i) putchar(',');
        if (isfinite(number)) printf("%.9g", (double)number);
        else                  fputs("null", stdout);        /* JSON has no other word for it */
    }
    putchar(']');
}

void archive_value_json(const archive_value *v)
{
    if (v->kind == BZNA_FIELD_INTEGER)     printf("%" PRId64, value_integer(v));
    else if (v->kind == BZNA_FIELD_VECTOR) vector_json(v);
    else if (v->kind == BZNA_FIELD_TEXT)   tool_json_string((const char *)v->data);
    else                                   printf("{\"size\":%zu}", v->size);
}

/* On a terminal, without what could change its state. */
static void bytes_print(FILE *file, const archive_value *v)
{
    if (!os_is_terminal(file)) {
        fwrite(v->data, 1, v->size, file);
        return;
    }
    for (size_t i = 0; i < v->size; i++) {
        uint8_t c = v->data[i];
        fputc((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F ? '?' : c, file);
    }
}

void archive_value_print(FILE *file, const archive_value *v)
{
    if (v->kind == BZNA_FIELD_INTEGER) {
        fprintf(file, "%" PRId64 "\n", value_integer(v));
    } else if (v->kind == BZNA_FIELD_VECTOR) {
        for (size_t i = 0; i < v->size / sizeof(float); i++)
            fprintf(file, "%s%.9g", i ? " " : "", (double)value_number(v, i));
        fputc('\n', file);
    } else {
        bytes_print(file, v);
        if (v->kind == BZNA_FIELD_TEXT && file == stdout) fputc('\n', file);
    }
}
