/* options.c - command lines: reading options, printing help */
#include "tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { HELP_COLUMN = 36 };

static void print_usage(FILE *file, const tool_command *c)
{
    fprintf(file, "usage: bzna %s%s%s [options]\n", c->name, c->operand_count ? " " : "", c->operands);
}

/* Further lines of an option's help begin in its column, too. */
static void print_option_help(const char *help)
{
    for (; *help; help++) {
        putchar(*help);
        if (*help == '\n') printf("%*s ", HELP_COLUMN, "");
    }
}

/* One option; its help begins on the next line where the option is too long. */
static void print_option(const tool_option *p)
{
    char left[96], letter[8] = "";
    if (p->letter) snprintf(letter, sizeof letter, "-%c, ", p->letter);
    snprintf(left, sizeof left, "%s--%s%s%s", letter, p->name, p->argument ? " " : "",
             p->argument ? p->argument : "");
    if (strlen(left) > HELP_COLUMN - 3) printf("  %s\n%*s ", left, HELP_COLUMN, "");
    else                                printf("  %-*s ", HELP_COLUMN - 2, left);
    print_option_help(p->help);
    if (p->default_value) printf(" (default %s)", p->default_value);
    putchar('\n');
}

void tool_print_help(const tool_command *c)
{
    print_usage(stdout, c);
    printf("\n%s\n\noptions:\n", c->help);
    for (const tool_option *p = c->options; p->name; p++) print_option(p);
    printf("  %-*s %s\n", HELP_COLUMN - 2, "-h, --help", "print this help");
}

int tool_usage_error(const tool_command *c, const char *format, ...)
{
    va_list arguments;
    fputs("bzna: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    print_usage(stderr, c);
    fprintf(stderr, "`bzna %s --help` says more\n", c->name);
    return EXIT_USAGE;
}

int tool_is_choice(const char *choices, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = choices; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (!strncmp(at, word, length) && (at[length] == 0 || at[length] == '|')) return length > 0;
    }
    return 0;
}

/* auto, cpu, or the number of a CUDA device. Returns 0, or -1. */
static int device_parse(const char *value, bzna_device *device)
{
    char *end = NULL;
    device->ordinal = 0;
    if (!strcmp(value, "auto")) return device->kind = BZNA_DEVICE_AUTO, 0;
    if (!strcmp(value, "cpu"))  return device->kind = BZNA_DEVICE_CPU, 0;
    long long number = strtoll(value, &end, 10);
    if (end == value || *end || errno || number < 0 || number > 65535) return -1;
    device->kind = BZNA_DEVICE_CUDA;
    device->ordinal = (int32_t)number;
    return 0;
}

/* Sets one option. Returns what was expected instead of value, or NULL. */
static const char *option_set(const tool_option *p, tool_options *o, const char *value)
{
    char *field = (char *)o + p->offset, *end = NULL;
    int64_t integer = p->lowest < 0 ? -1 : 1;
    bzna_device device;
    double real;
    errno = 0;
    switch (p->kind) {
    case KIND_FLAG:
        memcpy(field, &integer, sizeof integer);
        return NULL;
    case KIND_INTEGER:
        integer = strtoll(value, &end, 10);
        if (end == value || *end || errno || (double)integer < p->lowest || (double)integer > p->highest)
            return "an integer";
        memcpy(field, &integer, sizeof integer);
        return NULL;
    case KIND_REAL:
        real = strtod(value, &end);
        if (end == value || *end || !(real >= p->lowest && real <= p->highest)) return "a number";
        memcpy(field, &real, sizeof real);
        return NULL;
    case KIND_DEVICE:
        if (device_parse(value, &device)) return p->argument;
        memcpy(field, &device, sizeof device);
        return NULL;
    case KIND_CHOICE:
        if (!tool_is_choice(p->argument, value)) return p->argument;
        break;
    case KIND_TEXT:
        if (!*value) return "a text";
        break;
    }
    memcpy(field, &value, sizeof value);
    return NULL;
}

char *tool_option_text(const tool_option *p, const tool_options *o)
{
    const char *field = (const char *)o + p->offset, *text;
    bzna_device device;
    int64_t integer;
    double real;
    switch (p->kind) {
    case KIND_FLAG: case KIND_INTEGER:
        memcpy(&integer, field, sizeof integer);
        return tool_format("%" PRId64, integer);
    case KIND_REAL:
        memcpy(&real, field, sizeof real);
        return tool_format("%.15g", real);
    case KIND_DEVICE:
        memcpy(&device, field, sizeof device);
        return tool_format("%" PRId32 ":%" PRId32, device.kind, device.ordinal);
    case KIND_CHOICE: case KIND_TEXT:
        break;
    }
    memcpy(&text, field, sizeof text);
    return tool_format("%s", text ? text : "-");
}

/* The option that an argument names; *value is set when the argument holds the value, too ("--crf=20", "-j8"). */
static const tool_option *option_find(const tool_command *c, const char *argument, const char **value)
{
    *value = NULL;
    for (const tool_option *p = c->options; p->name; p++) {
        size_t length = strlen(p->name);
        if (argument[1] != '-') {
            if (!p->letter || argument[1] != p->letter || (argument[2] && p->kind == KIND_FLAG)) continue;
            if (argument[2]) *value = argument + 2;
            return p;
        }
        const char *rest = argument + 2 + length;
        if (strncmp(argument + 2, p->name, length) || (*rest && *rest != '=')) continue;
        if (*rest == '=') *value = rest + 1;
        return p;
    }
    return NULL;
}

/* Reads the option at arguments[0]. Returns how many arguments it takes, or -1 after printing an error. */
static int option_parse(const tool_command *c, int count, char **arguments, tool_options *o)
{
    const char *value;
    const tool_option *p = option_find(c, arguments[0], &value);
    int used = 1;
    if (!p) return tool_usage_error(c, "unknown option \"%s\"", arguments[0]), -1;
    if (p->kind == KIND_FLAG && value) return tool_usage_error(c, "--%s takes no value", p->name), -1;
    if (p->kind != KIND_FLAG && !value) {
        if (count < 2) return tool_usage_error(c, "--%s needs a value: %s", p->name, p->argument), -1;
        value = arguments[used++];
    }
    const char *expected = option_set(p, o, value);
    if (!expected) return used;
    if (p->highest > p->lowest)
        tool_usage_error(c, "--%s must be %s from %.15g to %.15g, not \"%s\"", p->name, expected, p->lowest,
                         p->highest, value);
    else
        tool_usage_error(c, "--%s must be %s, not \"%s\"", p->name, expected, value);
    return -1;
}

int tool_options_parse(const tool_command *c, int count, char **arguments, tool_options *o)
{
    int only_operands = 0;
    memset(o, 0, sizeof *o);
    o->command = c;
    o->operand = arguments;                                 /* which are moved to the front */
    for (const tool_option *p = c->options; p->name; p++)
        if (p->default_value && p->kind != KIND_FLAG) option_set(p, o, p->default_value);
    for (int i = 0; i < count;) {
        char *argument = arguments[i];
        if (only_operands || argument[0] != '-' || !argument[1]) {
            if (o->operand_count == c->operand_count)
                return tool_usage_error(c, "too many arguments: \"%s\"", argument), -1;
            o->operand[o->operand_count++] = argument;
            i++;
        } else if (!strcmp(argument, "--")) {
            only_operands = 1;
            i++;
        } else if (!strcmp(argument, "--help") || !strcmp(argument, "-h")) {
            return tool_print_help(c), 1;
        } else {
            int used = option_parse(c, count - i, arguments + i, o);
            if (used < 0) return -1;
            i += used;
        }
    }
    if (o->operand_count < (c->operand_count == OPERANDS_ANY ? 0 : abs(c->operand_count)))
        return tool_usage_error(c, "too few arguments"), -1;
    return 0;
}
